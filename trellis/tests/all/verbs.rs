//! `trellis fs`, with the exit codes of the stock shell.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Up, complaint, output, trellis, wait};

/// (arguments, exit code, what stdout must hold, what stderr must hold). Steps build on each other.
const STEPS: &[(&[&str], i32, &str, &str)] = &[
    (&["mkdir", "-p", "/s/a/b/c"], 0, "", ""),
    (&["mkdir", "/s/a"], 1, "", "`/s/a': File exists"),
    (&["mkdir", "-p", "/s/a"], 0, "", ""),
    (&["mkdir", "/s/no/x"], 1, "", "`/s/no': No such file or directory"),
    (&["touchz", "/s/f", "/s/a/g", "/s/a/b/h"], 0, "", ""),
    (&["mkdir", "-p", "/s/f/x"], 1, "", "/s/f (is not a directory)"),
    (&["ls", "/s"], 0, "Found 2 items", ""),
    (&["ls", "-C", "/s"], 0, "/s/a\n/s/f\n", ""),
    (&["ls", "-C", "-R", "/s"], 0, "/s/a\n/s/a/b\n/s/a/b/c\n/s/a/b/h\n/s/a/g\n/s/f\n", ""),
    (&["ls", "/s/nosuch"], 1, "", "`/s/nosuch': No such file or directory"),
    (&["ls", "-C", "/s/[ad]"], 0, "/s/a/b\n/s/a/g\n", ""),
    (&["ls", "/s/no*such"], 1, "", "No such file or directory"),
    (&["find", "/s", "--name", "[gh]"], 0, "/s/a/b/h\n/s/a/g\n", ""),
    (&["find", "/s", "--iname", "G"], 0, "/s/a/g\n", ""),
    (&["find", "/s", "-name", "[gh]", "-a", "-iname", "H", "-print"], 0, "/s/a/b/h\n", ""),
    (&["-find", "/", "-name", "c", "-print0"], 0, "/s/a/b/c\0", ""),
    (&["count", "/s"], 0, "4 3 0 /s\n", ""),
    (&["count", "-q", "/s"], 0, "none inf none inf 4 3 0 /s\n", ""),
    (&["count", "-q", "-v", "-u", "/s"], 0, "REM_SPACE_QUOTA PATHNAME\nnone inf none inf /s\n", ""),
    (&["du", "-s", "/s"], 0, "0 0 /s\n", ""),
    (&["df", "-h", "/"], 0, "Filesystem Size Used Available Use%\nhdfs://127.0.0.1:", ""),
    (&["df", "/nosuch"], 1, "", "`/nosuch': No such file or directory"),
    (&["stat", "--format", "%a %F %n", "/s/a", "/s/f"], 0, "755 directory a\n644 regular file f\n", ""),
    (&["stat", "%a %F %n", "/s/a", "/s/f"], 0, "755 directory a\n644 regular file f\n", ""),
    (&["touch", "-m", "/s/a/g"], 0, "", ""),
    (&["ls", "-tu", "-C", "/s/a"], 0, "/s/a/g\n/s/a/b\n", ""),
    (&["ls", "-tSru", "-C", "/s/a"], 0, "/s/a/b\n/s/a/g\n", ""),
    (&["ls", "-r", "-C", "/s/a"], 0, "/s/a/g\n/s/a/b\n", ""),
    (&["-ls", "-S", "/s"], 0, "Found 2 items", ""),
    // Files' contents, as far as empty ones go; those with data are tested with datanodes, in e2e.
    (&["cat", "/s/f", "/s/a/g"], 0, "", ""),
    (&["cat", "/s/f", "/s/a", "/s/nosuch"], 1, "", "cat: `/s/a': Is a directory"),
    (&["cat", "/s/nosuch"], 1, "", "cat: `/s/nosuch': No such file or directory"),
    (&["-cat", "-ignoreCrc", "/s/f"], 0, "", ""),
    (&["head", "/s/f"], 0, "", ""),
    (&["tail", "/s/f"], 0, "", ""),
    (&["text", "/s/f"], 0, "", ""),
    (
        &["-checksum", "/s/f"],
        0,
        "/s/f MD5-of-0MD5-of-0CRC32 00000000000000000000000070bc8f4b72a86921468bf8e8441dce51\n",
        "",
    ),
    (&["checksum", "/s/a"], 1, "", "checksum: `/s/a': Is a directory"),
    (&["put", "-", "/s/f"], 1, "", "put: `/s/f': File exists"),
    (&["-put", "-f", "-", "/s/f"], 0, "", ""),
    (&["-put", "-d", "-", "/s/put"], 0, "", ""),
    (&["put", "/nosuch", "/s/put2"], 1, "", "put: `/nosuch': No such file or directory"),
    (&["put", "/dev/null", "/s/no/put"], 1, "", "put: `/s/no': No such file or directory"),
    (&["put", "/dev/null", "/dev/null", "/s/put"], 1, "", "put: `/s/put': Is not a directory"),
    (&["-copyFromLocal", "-f", "/dev/null", "/s/put"], 0, "", ""),
    (&["cp", "/s/f", "/s/put"], 1, "", "cp: `/s/put': File exists"),
    (&["-cp", "-f", "-pt", "/s/f", "/s/put"], 0, "", ""),
    (&["-cp", "-pax", "/s/f", "/s/put2"], 1, "", "only t, o and p"),
    (&["cp", "/s/f", "/s/f"], 1, "", "cp: `/s/f': File exists"),
    (&["cp", "-f", "/s/f", "/s/f"], 1, "", "cp: `/s/f' and `/s/f' are the same file"),
    (&["cp", "/s/a", "/s/a/b"], 1, "", "is a subdirectory of itself"),
    (&["cp", "/s/a", "/s/copy"], 0, "", ""),
    (&["ls", "-C", "-R", "/s/copy"], 0, "/s/copy/b\n/s/copy/b/c\n/s/copy/b/h\n/s/copy/g\n", ""),
    (&["-rm", "-r", "-skipTrash", "/s/copy", "/s/put"], 0, "Deleted /s/copy\nDeleted /s/put\n", ""),
    (&["-get", "-crc", "/s/f", "/dev/null"], 1, "", "not supported"),
    (&["get", "/s/nosuch", "/dev/null"], 1, "", "get: `/s/nosuch': No such file or directory"),
    (&["get", "/s/f", "/nosuch/f"], 1, "", "get: `/nosuch': No such file or directory"),
    (&["-copyToLocal", "-f", "/s/f", "/dev/null"], 0, "", ""),
    (&["-getmerge", "-nl", "/s/f", "/"], 1, "", "getmerge: `/': Is a directory"),
    (&["truncate", "-w", "5", "/s/f"], 1, "", "Cannot truncate to a larger file size. Current size: 0"),
    (&["appendToFile", "-", "/dev/null", "/s/f"], 1, "", "sole input argument"),
    (&["appendToFile", "/nosuch", "/s/f"], 1, "", "`/nosuch': No such file or directory"),
    (&["ls"], 1, "", "`.': No such file or directory: `/user/"),
    (&["rm", "x"], 1, "", "`x': No such file or directory: `/user/"),
    (&["ls", "-C", "hdfs:///s"], 0, "hdfs:///s/a\nhdfs:///s/f\n", ""),
    (&["ls", "s3a://bucket/s"], 1, "", "Wrong FS: s3a://bucket/s, expected: hdfs://127.0.0.1:"),
    (&["rm", "/s/f", "hdfs://127.0.0.1:1/s"], 1, "", "Wrong FS: hdfs://127.0.0.1:1/s"),
    (&["test", "-e", "/s/f"], 0, "", ""),
    (&["test", "-e", "/s/nosuch"], 1, "", ""),
    (&["test", "-d", "/s"], 0, "", ""),
    (&["test", "-d", "/s/f"], 1, "", ""),
    (&["test", "-z", "/s/f"], 0, "", ""),
    (&["test", "-s", "/s/f"], 1, "", ""),
    (&["chmod", "750", "/s/a"], 0, "", ""),
    (&["chmod", "-R", "u+x,g-w,o=", "/s/a"], 0, "", ""),
    (&["stat", "--format", "%a", "/s/a/b/h"], 0, "740\n", ""),
    (&["chmod", "+t", "/s/a/b"], 0, "", ""),
    (&["stat", "--format", "%A", "/s/a/b"], 0, "rwxr-x--T\n", ""),
    (&["chmod", "4755", "/s/f"], 2, "", "no mode"),
    (&["chmod", "644", "/s/nosuch"], 1, "", "No such file or directory"),
    (&["chown", "-R", "ann:staff", "/s/a"], 0, "", ""),
    (&["chgrp", "bin", "/s/f"], 0, "", ""),
    (&["stat", "--format", "%u %g", "/s/a/g", "/s/f"], 0, "ann staff\n", ""),
    (&["setrep", "2", "/s/a"], 0, "Replication 2 set: /s/a/b/h\nReplication 2 set: /s/a/g\n", ""),
    (&["setrep", "-w", "3", "/s/f"], 0, "Replication 3 set: /s/f\nWaiting for /s/f ... done\n", ""),
    (&["setrep", "2", "/s/nosuch"], 1, "", "No such file or directory"),
    (&["mv", "/s/f", "/s/a/g"], 1, "", "`/s/a/g': File exists"),
    (&["mv", "/s/f", "/s/a"], 0, "", ""),
    (&["mv", "/s/a/f", "/s/f"], 0, "", ""),
    (&["mv", "/s/a", "/s/a/b/a"], 1, "", "is a subdirectory of itself"),
    (&["mv", "/s/f", "/s/no/f"], 1, "", "No such file or directory"),
    (&["mv", "/s/f", "/s/a/g", "/s/nosuch"], 1, "", "`/s/nosuch': No such file or directory"),
    (&["rm", "/s/a"], 1, "", "`/s/a': Is a directory"),
    (&["rm", "/s/nosuch"], 1, "", "`/s/nosuch': No such file or directory"),
    (&["rm", "-f", "/s/nosuch"], 0, "", ""),
    (&["rmdir", "/s/a"], 1, "", "`/s/a': Directory is not empty"),
    (&["rmdir", "--ignore-fail-on-non-empty", "/s/a"], 0, "", ""),
    (&["rmdir", "/s/nosuch"], 1, "", "No such file or directory"),
    (&["rmdir", "/s/a/b/c"], 0, "", ""),
    (&["rm", "-r", "/"], 1, "", "Input/output error"),
    (&["touch", "-c", "/s/nosuch"], 0, "", ""),
    (&["test", "-e", "/s/nosuch"], 1, "", ""),
    (&["touch", "/s/new"], 0, "", ""),
    (&["rm", "-skipTrash", "/s/f"], 0, "Deleted /s/f\n", ""),
    (&["-rm", "-R", "-skipTrash", "/s"], 0, "Deleted /s\n", ""),
    (&["ls", "-C", "/"], 0, "", ""),
    (&["nosuch"], 2, "", "nosuch"),
    (&["mkdir"], 2, "", "PATH"),
];

#[test]
fn verbs_answer_as_the_stock_shell_does() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &["--namenodes", "2"]);
    for (args, code, out, err) in STEPS {
        let done = up.fs(args);
        let (said, why) = (String::from_utf8_lossy(&done.stdout).into_owned(), complaint(&done));
        assert_eq!(done.status.code(), Some(*code), "{args:?}: {said}{why}");
        // Columns are padded: compared without.
        let plain: String =
            said.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect();
        assert!(plain.contains(out), "{args:?}: {said}");
        assert!(why.to_lowercase().contains(&err.to_lowercase()), "{args:?}: {why}");
    }
}

#[test]
fn a_uri_says_which_namenode_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (Up::start(&dir.path().join("1"), &[]), Up::start(&dir.path().join("2"), &[]));
    let path = |up: &Up, path: &str| format!("{}{path}", up.fs);
    let (a, b) = (path(&one, "/a"), path(&one, "/b"));
    let fs = |args: &[&str]| output(&[&["fs"], args].concat());
    assert!(fs(&["mkdir", &a]).status.success());
    assert!(fs(&["mv", &a, &b]).status.success());
    let listed = fs(&["ls", "-C", &path(&one, "/")]);
    assert_eq!(String::from_utf8_lossy(&listed.stdout), format!("{b}\n"), "{listed:?}");
    assert_eq!(one.fs(&["rm", "-r", &b]).status.code(), Some(0));
    for refused in
        [fs(&["mkdir", &a, &path(&other, "/a")]), fs(&["mkdir", &a, "/a"]), other.fs(&["mkdir", &a])]
    {
        let why = complaint(&refused);
        assert!(refused.status.code() == Some(1) && why.contains("Wrong FS: "), "{why}");
    }
    assert_eq!(one.fs(&["ls", "-C", "/"]).stdout, b"");
}

#[test]
fn what_is_deleted_goes_to_the_trash_where_there_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &["--set", "trash_minutes=60"]);
    assert!(up.fs(&["mkdir", "-p", "/d/x"]).status.success());
    assert!(up.fs(&["rm", "-r", "/d/x"]).status.success());
    assert!(up.fs(&["mkdir", "-p", "/d/x"]).status.success());
    assert!(up.fs(&["rm", "-r", "/d/x"]).status.success());
    let found = up.fs(&["find", "/user", "--name", "x*"]);
    assert_eq!(String::from_utf8_lossy(&found.stdout).lines().count(), 2, "{found:?}");
    let holds_it = up.fs(&["rm", "-r", "/user"]);
    assert!(
        holds_it.status.code() == Some(1) && complaint(&holds_it).contains("--skip-trash"),
        "{holds_it:?}"
    );
    assert!(up.fs(&["rm", "-r", "--skip-trash", "/user"]).status.success());
}

#[test]
fn an_interrupted_copy_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    let listed = || String::from_utf8_lossy(&up.fs(&["ls", "-C", "/"]).stdout).into_owned();
    let put = trellis(&["fs", "--fs", &up.fs, "put", "-", "/x"]).stdin(Stdio::piped()).spawn();
    let mut put = put.unwrap();
    wait(|| listed().contains("/x._COPYING_"));
    kill(Pid::from_raw(put.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(put.wait().unwrap().code(), Some(130));
    assert_eq!(listed(), "");
}

#[test]
fn a_failure_says_what_to_do() {
    let refused = output(&["fs", "--fs", "hdfs://", "ls", "/"]);
    assert!(
        refused.status.code() == Some(1) && complaint(&refused).contains("hdfs://HOST:PORT"),
        "{refused:?}"
    );
}

#[test]
fn output_that_is_lost_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    assert!(up.fs(&["mkdir", "/a"]).status.success());
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let lost = trellis(&["fs", "--fs", &up.fs, "ls", "/"]).stdout(full).output().unwrap();
    let why = complaint(&lost);
    assert!(lost.status.code() == Some(1) && why.contains("No space left"), "{why}");
    let unread = |path: &str| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        trellis(&["fs", "--fs", &up.fs, "ls", "/", path]).stdout(writer).output().unwrap().status.code()
    };
    assert_eq!((unread("/a"), unread("/nosuch")), (Some(0), Some(1)));
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands: &[&[&str]] = &[
        &["up"],
        &["namenode"],
        &["store", "init"],
        &["store", "check"],
        &["store", "dump"],
        &["admin", "status"],
        &["admin", "client-config"],
        &["admin", "settings"],
        &["fs"],
    ];
    let verbs = [
        "put",
        "get",
        "copyFromLocal",
        "copyToLocal",
        "moveFromLocal",
        "appendToFile",
        "getmerge",
        "cat",
        "head",
        "tail",
        "text",
        "checksum",
        "cp",
        "truncate",
        "concat",
        "ls",
        "stat",
        "test",
        "find",
        "du",
        "count",
        "df",
        "mkdir",
        "touchz",
        "touch",
        "mv",
        "rm",
        "rmdir",
        "chmod",
        "chown",
        "chgrp",
        "setrep",
    ];
    let verbs = verbs.iter().map(|verb| vec!["fs", *verb]);
    for mut command in commands.iter().map(|command| command.to_vec()).chain(verbs) {
        command.push("--help");
        let help = output(&command);
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.status.success() && text.contains("Example"), "{command:?}: {text}");
    }
}

#[test]
fn a_wrong_address_is_told_soon_and_waited_for_once() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let done = output(&["fs", "ls", &format!("hdfs://{nobody}/a"), &format!("hdfs://{nobody}/b")]);
    let why = complaint(&done);
    let told = format!("attempts, the last was {nobody}");
    assert!(done.status.code() == Some(1) && why.matches(&told).count() == 2, "{why}");
    assert!(why.contains("--fs hdfs://HOST:PORT"), "{why}");
}

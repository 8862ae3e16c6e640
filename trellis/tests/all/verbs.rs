//! `trellis fs`, with the exit codes of the stock shell.

use crate::support::{Up, complaint, output, trellis};

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
    (&["count", "/s"], 0, "4 3 0 /s\n", ""),
    (&["count", "-q", "/s"], 0, "none inf none inf 4 3 0 /s\n", ""),
    (&["du", "-s", "/s"], 0, "0 0 /s\n", ""),
    (&["stat", "--format", "%a %F %n", "/s/a", "/s/f"], 0, "755 directory a\n644 regular file f\n", ""),
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
    (&["rm", "/s/f"], 0, "Deleted /s/f\n", ""),
    (&["rm", "-r", "/s"], 0, "Deleted /s\n", ""),
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
        "ls", "stat", "test", "find", "du", "count", "df", "mkdir", "touchz", "touch", "mv", "rm", "rmdir",
        "chmod", "chown", "chgrp", "setrep",
    ];
    let verbs = verbs.iter().map(|verb| vec!["fs", *verb]);
    for mut command in commands.iter().map(|command| command.to_vec()).chain(verbs) {
        command.push("--help");
        let help = output(&command);
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.status.success() && text.contains("Example"), "{command:?}: {text}");
    }
}

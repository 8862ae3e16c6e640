//! `trellis up`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Up, complaint, output, runs, trellis, wait, wait_for};

#[test]
fn a_second_start_serves_the_same_names() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut first = Up::start(&data, &[]);
    assert!(first.fs(&["mkdir", "-p", "/kept/here"]).status.success());
    first.signal(Signal::SIGTERM);
    assert_eq!(first.ended(), Some(0), "{}", first.stderr());
    assert!(!data.join("run/namenode-0.pid").exists());
    let second = Up::start(&data, &[]);
    assert!(second.fs(&["test", "-d", "/kept/here"]).status.success());
}

#[test]
fn two_at_once_on_one_directory_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    let refused = output(&["up", "--rpc-port", "0", "--http-port", "0", "--data", up.data.to_str().unwrap()]);
    let why = complaint(&refused);
    assert!(
        refused.status.code() == Some(1) && why.contains("in use by another") && why.contains("--data"),
        "{why}"
    );
    assert!(up.fs(&["ls", "/"]).status.success());
}

#[test]
fn namenodes_end_with_an_up_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut up = Up::start(&data, &["--namenodes", "2"]);
    let pids = [up.pid(0), up.pid(1)];
    kill(pids[1], Signal::SIGSTOP).unwrap(); // a frozen one as well
    up.signal(Signal::SIGKILL);
    assert_eq!(up.ended(), None);
    wait(|| !pids.iter().any(|pid| runs(*pid)));
    // Its pid files are stale now, and no obstacle.
    assert!(data.join("run/namenode-0.pid").exists());
    let again = Up::start(&data, &[]);
    assert!(again.fs(&["ls", "/"]).status.success());
    assert!(!data.join("run/namenode-1.pid").exists());
}

#[test]
fn datanodes_are_children_too_and_keep_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("file"));
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(&file, &bytes).unwrap();
    let args = ["--datanodes", "3", "--restart", "--set", "datanode.heartbeat=100ms"];
    let mut up = Up::start(&data, &args);
    let put = up.fs(&["put", file.to_str().unwrap(), "/file"]);
    assert!(put.status.success(), "{}", complaint(&put));
    let status = up.fs(&["stat", "%r", "/file"]);
    assert_eq!(
        String::from_utf8_lossy(&status.stdout).trim(),
        "3",
        "replication is as many as there are datanodes"
    );
    // One that dies is started again, over its blocks.
    let path = data.join("run/datanode-1.pid");
    let pid = |path: &std::path::Path| fs::read_to_string(path).ok()?.trim().parse().ok().map(Pid::from_raw);
    let first = pid(&path).unwrap();
    kill(first, Signal::SIGKILL).unwrap();
    wait(|| pid(&path).is_some_and(|pid| pid != first && data.join("run/datanode-1.addr").exists()));
    let all: Vec<Pid> = (0..3).filter_map(|i| pid(&data.join(format!("run/datanode-{i}.pid")))).collect();
    up.signal(Signal::SIGTERM);
    assert_eq!(up.ended(), Some(0), "{}", up.stderr());
    assert!(!all.iter().any(|pid| runs(*pid)) && !path.exists());

    let again = Up::start(&data, &args);
    let got = again.fs(&["cat", "/file"]);
    assert!(got.stdout == bytes, "{}", complaint(&got));
}

/// What is below a folder: the contents of files, None for folders.
fn below(dir: &Path, into: &mut BTreeMap<PathBuf, Option<Vec<u8>>>, root: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        into.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).ok());
        if path.is_dir() {
            below(&path, into, root);
        }
    }
}

#[test]
fn a_tree_goes_up_and_over_and_down_again() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, back) = (dir.path().join("tree"), dir.path().join("back"));
    fs::create_dir_all(tree.join("a/b/c")).unwrap();
    fs::create_dir(tree.join("empty")).unwrap();
    let nameless = tree.join("a").join(OsStr::from_bytes(b"\xff"));
    for (path, text) in [(&tree.join("a/one"), "1"), (&tree.join("a/b/two"), "22"), (&nameless, "no name")] {
        fs::write(path, text).unwrap();
    }
    let up = Up::start(&dir.path().join("data"), &["--datanodes", "1"]);
    let put = up.fs(&["put", tree.to_str().unwrap(), "/tree"]);
    // What cannot be copied is told, and the rest goes on.
    assert!(put.status.code() == Some(1) && complaint(&put).contains("not UTF-8"), "{}", complaint(&put));
    fs::remove_file(nameless).unwrap();
    for command in [["cp", "/tree", "/copy"], ["get", "/copy", back.to_str().unwrap()]] {
        let done = up.fs(&command);
        assert!(done.status.success(), "{command:?}: {}", complaint(&done));
    }
    let (mut sent, mut got) = (BTreeMap::new(), BTreeMap::new());
    below(&tree, &mut sent, &tree);
    below(&back, &mut got, &back);
    assert_eq!((sent.len(), sent), (6, got));
}

#[test]
fn the_others_go_on_and_the_last_death_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = Up::start(&dir.path().join("data"), &["--namenodes", "2"]);
    kill(up.pid(0), Signal::SIGKILL).unwrap();
    wait(|| !up.data.join("run/namenode-0.pid").exists());
    assert!(up.fs(&["mkdir", "/after"]).status.success());
    kill(up.pid(1), Signal::SIGKILL).unwrap();
    assert_eq!(up.ended(), Some(1));
    let said = up.stderr();
    assert!(said.contains("namenode 0 is dead") && said.contains("namenode 1 is dead"), "{said}");
    assert!(said.contains("the last namenode is dead"), "{said}");
}

#[test]
fn a_dead_namenode_is_restarted_on_its_port_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &["--restart"]);
    let address = fs::read_to_string(up.data.join("run/namenode-0.addr")).unwrap();
    let dead = up.pid(0);
    kill(dead, Signal::SIGKILL).unwrap();
    let line = up.line("namenode 0: ");
    assert!(line.contains(address.lines().next().unwrap()), "{line} {address}");
    assert_ne!(up.pid(0), dead);
    assert!(up.fs(&["ls", "/"]).status.success());
}

#[test]
fn a_namenode_that_cannot_start_is_told_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir_all(data.join("logs/audit-0.log")).unwrap();
    let refused =
        trellis(&["up", "--http-port", "0", "--rpc-port", "0", "--data"]).arg(&data).output().unwrap();
    let why = complaint(&refused);
    assert_eq!(refused.status.code(), Some(1), "{why}");
    assert!(why.contains("namenode 0 did not start") && why.contains("audit-0.log: Is a directory"), "{why}");
}

/// A full disk under the log must not end the threads that log: on a store that is not full, all goes on.
#[test]
fn a_namenode_whose_log_cannot_be_written_serves_on() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("lmdb:{}", dir.path().join("store").display());
    assert!(output(&["store", "init", "--store", &url]).status.success());
    let (full, mut said) = (fs::File::options().write(true).open("/dev/full").unwrap(), String::new());
    let mut namenode =
        trellis(&["namenode", "--rpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", &url])
            .env("TRELLIS_LOG", "debug")
            .stdout(Stdio::piped())
            .stderr(full)
            .spawn()
            .unwrap();
    BufReader::new(namenode.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let server = said.split_whitespace().find(|word| word.starts_with("hdfs://")).unwrap_or_default();
    let fs = |args: &[&str]| output(&[&["fs", "--fs", server], args].concat()).status.code();
    let answers = [
        fs(&["mkdir", "/a"]),
        // A refusal is logged by the thread that writes.
        fs(&["touchz", "/a"]),
        fs(&["mkdir", "/a/no/b"]),
        fs(&["mkdir", "/a/b"]),
        fs(&["ls", "/a"]),
    ];
    kill(Pid::from_raw(namenode.id().cast_signed()), Signal::SIGTERM).unwrap();
    let ended = namenode.wait().unwrap();
    assert_eq!(answers, [Some(0), Some(1), Some(1), Some(0), Some(0)], "{said}");
    assert!(ended.success());
}

/// A hangup is a stop in order; whoever has it ignored (`nohup`) is served on. Whether these tests have it ignored is no matter.
#[test]
fn a_hangup_ends_a_namenode_unless_it_is_ignored() {
    for (hangup, last) in [("--default-signal=HUP", Signal::SIGHUP), ("--ignore-signal=HUP", Signal::SIGTERM)]
    {
        let mut command = Command::new("env");
        let serve = ["namenode", "--store", "mem:", "--rpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        command.args(["-i", hangup, env!("CARGO_BIN_EXE_trellis")]).args(serve);
        let mut namenode = Killed(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let mut said = String::new();
        BufReader::new(namenode.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let server = said.split_whitespace().find(|word| word.starts_with("hdfs://")).unwrap_or_default();
        let pid = Pid::from_raw(namenode.0.id().cast_signed());
        kill(pid, Signal::SIGHUP).unwrap();
        if last != Signal::SIGHUP {
            let made = output(&["fs", "--fs", server, "mkdir", "/a"]);
            assert!(made.status.success(), "{said} {}", complaint(&made));
            kill(pid, last).unwrap();
        }
        let mut ended = None;
        wait(|| {
            ended = namenode.0.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.unwrap().code(), Some(0), "{hangup}");
    }
}

/// A process that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client that stops in the middle of an HTTP request does not hold up the stop.
#[test]
fn a_stop_waits_for_no_http_client() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = Up::start(&dir.path().join("data"), &[]);
    let address = fs::read_to_string(up.data.join("run/namenode-0.addr")).unwrap();
    let mut client = TcpStream::connect(address.lines().nth(1).unwrap()).unwrap();
    client.write_all(b"GET /health HTTP/1.1\r\nHost: ").unwrap();
    // Another is served meanwhile, and its connection ends with its answer.
    let mut other = TcpStream::connect(address.lines().nth(1).unwrap()).unwrap();
    other.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut said = String::new();
    other.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("serves\n"), "{said}");
    let begun = Instant::now();
    up.signal(Signal::SIGTERM);
    assert_eq!(up.ended(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let cases: [(&[&str], &str); 9] = [
        (&["--set", "datanode.heartbeet=1s"], "did you mean heartbeat"),
        (&["--datanodes", "1000000"], "from 0 to 64"),
        (&["--namenodes", "0"], "from 1 to 64"),
        (&["--namenodes", "1000000"], "--namenodes 1000000: give a number from 1 to 64"),
        (&["--set", "heartbeet=1s"], "did you mean heartbeat"),
        (&["--set", "member_timeout=1ms"], "twice the heartbeat"),
        (&["--rpc-port", "9000", "--http-port", "9000"], "both an RPC and an HTTP port"),
        (&["--config", "/nowhere/trellis.toml"], "cannot read the settings"),
        (&["--config", "/dev/zero"], "longer than"),
    ];
    for (args, reason) in cases {
        let refused = trellis(&["up", "--data"]).arg(&data).args(args).output().unwrap();
        let why = complaint(&refused);
        assert!(refused.status.code() == Some(1) && why.contains(reason), "{args:?}: {why}");
    }
    assert!(!data.exists());
}

#[test]
fn status_tells_the_living_from_the_dead() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody evicts anybody here: the dead one's rows stay.
    let settings = ["--namenodes", "2", "--set", "heartbeat=50ms", "--set", "member_timeout=1h"];
    let up = Up::start(&dir.path().join("data"), &settings);
    kill(up.pid(1), Signal::SIGKILL).unwrap();
    wait(|| !up.data.join("run/namenode-1.pid").exists());
    let look = || {
        let status = output(&["admin", "status", "--watch", "1s", "--data", up.data.to_str().unwrap()]);
        assert!(status.status.success(), "{}", complaint(&status));
        String::from_utf8_lossy(&status.stdout).into_owned()
    };
    // What it was writing when it died may be seen only once the other one has taken the write lock from it.
    let said = wait_for(look, |said| said.contains("alive") && said.contains("NOT MOVING"));
    assert!(said.contains("leader"), "{said}");
    let lives = said.lines().find(|line| line.contains("alive")).unwrap();
    assert!(lives.contains("(namenode 0 of trellis up)"), "{said}");
    assert_eq!(said.matches("of trellis up").count(), 1, "{said}");
}

#[test]
fn a_namenode_says_which_of_its_ports_is_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (option, other) in [("--rpc", "--http"), ("--http", "--rpc")] {
        let refused = output(&["namenode", "--store", "mem:", option, &address, other, "127.0.0.1:0"]);
        let why = complaint(&refused);
        let want = format!("cannot listen on {address}: Address already in use");
        assert!(refused.status.code() == Some(1) && why.contains(&want), "{why}");
        assert!(why.contains(&format!("give another address with {option}")), "{why}");
    }
}

/// One namenode has its store alone; what is in its log is put into the tree by whoever comes after its death.
#[test]
fn one_namenode_has_its_store_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = Up::start(&dir.path().join("data"), &["--set", "heartbeat=50ms"]);
    let data = up.data.display().to_string();
    let url = format!("lmdb:{data}/store");
    let made = output(&["fs", "--fs", &up.fs, "mkdir", "/a"]);
    assert!(made.status.success(), "{}", complaint(&made));
    let pid = up.pid(0);
    for command in ["check", "dump"] {
        let refused = output(&["store", command, "--store", &url]);
        let why = complaint(&refused);
        assert!(
            refused.status.code() == Some(1) && why.contains(&format!("process {pid} has it alone")),
            "{why}"
        );
    }
    let status = output(&["admin", "status", "--watch", "5s", "--data", &data]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.success() && said.contains("alive"), "{said} {}", complaint(&status));
    kill(pid, Signal::SIGKILL).unwrap();
    assert_eq!(up.ended(), Some(1), "the last namenode is dead");
    let checked = output(&["store", "check", "--store", &url]);
    assert!(checked.status.success(), "{}", complaint(&checked));
    let dumped = output(&["store", "dump", "--store", &url]);
    assert!(String::from_utf8_lossy(&dumped.stdout).contains("\"a\""), "{}", complaint(&dumped));
}

#[test]
fn clients_are_told_of_all_live_namenodes() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &["--namenodes", "2", "--datanodes", "2"]);
    let conf = dir.path().join("conf");
    let data = up.data.display().to_string();
    let written = output(&["admin", "client-config", "--data", &data, "--write", conf.to_str().unwrap()]);
    assert!(written.status.success(), "{}", complaint(&written));
    let listed = trellis(&["fs", "ls", "/"]).env("HADOOP_CONF_DIR", &conf).output().unwrap();
    assert!(listed.status.success(), "{}", complaint(&listed));
    let site = fs::read_to_string(conf.join("hdfs-site.xml")).unwrap();
    for address in up.fs.trim_start_matches("hdfs://").split(',') {
        assert!(site.contains(address), "{address} in {site}");
    }
    assert!(site.contains("<name>dfs.replication</name><value>2</value>"), "as many as datanodes: {site}");
    drop(up);
    let none = output(&["admin", "client-config", "--data", &data]);
    assert!(none.status.code() == Some(1) && complaint(&none).contains("--namenode"), "{}", complaint(&none));
}

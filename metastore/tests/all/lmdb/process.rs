//! Children: this program started again in a role, so that several processes share one store.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{crash, disk, log, sharing};
use crate::backends::{merging, small_lmdb, with_log};

const ROLE: &str = "TRELLIS_LMDB_TEST_ROLE";
const DIR: &str = "TRELLIS_LMDB_TEST_DIR";

/// Plays the role of a child, if this process is one.
pub fn is_child() -> bool {
    let (Ok(role), Ok(dir)) = (std::env::var(ROLE), std::env::var(DIR)) else { return false };
    let dir = Path::new(&dir);
    match role.as_str() {
        "write-and-freeze" => crash::write_and_freeze(dir),
        "read-and-freeze" => crash::read_and_freeze(dir),
        "write-and-tell" => crash::write_and_tell(dir, small_lmdb()),
        "write-and-tell-with-log" => crash::write_and_tell(dir, merging()),
        "commit-once" => disk::commit_once(dir, small_lmdb()),
        "commit-once-with-log" => disk::commit_once(dir, with_log()),
        "commit-twice" => disk::commit_twice(dir, small_lmdb()),
        "commit-twice-with-log" => disk::commit_twice(dir, with_log()),
        "fill-the-disk" => disk::fill_the_disk(dir, small_lmdb()),
        "fill-the-disk-with-log" => disk::fill_the_disk(dir, merging()),
        "own-and-wait" => log::own_and_wait(dir),
        "open-and-wait" => log::open_and_wait(dir),
        "open-and-read" => sharing::open_and_read(dir),
        "open-and-increment" => sharing::open_and_increment(dir),
        "increment" => sharing::increment_until_told(dir),
        other => panic!("no such role: {other}"),
    }
    true
}

/// A child; killed when dropped.
pub struct Process {
    child: Child,
    pub out: BufReader<ChildStdout>,
}

impl Process {
    pub fn start(role: &str, dir: &Path) -> Process {
        Process::start_under(&[], role, dir)
    }

    /// The same, started by another program, which gets our program as its last argument.
    pub fn start_under(starter: &[&str], role: &str, dir: &Path) -> Process {
        let this = std::env::current_exe().unwrap();
        let mut command = match starter.split_first() {
            None => Command::new(this),
            Some((program, args)) => {
                let mut command = Command::new(program);
                command.args(args).arg(this);
                command
            }
        };
        let mut child = command
            .env(ROLE, role)
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Process { child, out }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it says; empty when it is gone.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    /// Lets a child go on that waits in [`wait_for_parent`].
    pub fn go_on(&mut self) {
        drop(self.child.stdin.take());
    }

    /// SIGSTOP or SIGCONT; returns once it has stopped.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, signal).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        while signal == Signal::SIGSTOP && !state().contains(") T ") {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// SIGKILL; returns once it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// What it says until its end, which must be a good one.
    pub fn finish(mut self) -> String {
        self.go_on();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the child failed: {status}; it said: {rest}");
        rest
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In a child: says a line, in one system call.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// In a child: waits until the parent lets it go on, or dies.
pub fn wait_for_parent() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

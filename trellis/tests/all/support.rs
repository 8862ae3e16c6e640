//! A cluster started by `trellis up`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Nothing here takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// `trellis`, with no settings but those given.
pub fn trellis(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trellis"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TRELLIS_")) {
        command.env_remove(name);
    }
    command.args(args).env_remove("HADOOP_CONF_DIR").env_remove("HADOOP_USER_NAME").stdin(Stdio::null());
    command
}

/// What a command printed and how it ended.
pub fn output(args: &[&str]) -> Output {
    trellis(args).output().unwrap()
}

/// Its stderr as a text.
pub fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether tests take their long form (`cargo xtask test --long`).
pub fn is_long() -> bool {
    std::env::var_os("TRELLIS_TEST_LONG").is_some()
}

/// A running `trellis up`; killed when dropped.
pub struct Up {
    child: Child,
    lines: Receiver<String>,
    pub data: PathBuf,
    /// `hdfs://…` of the ready line.
    pub fs: String,
    /// `HOST:PORT` of the namenodes' HTTP servers.
    pub http: Vec<String>,
}

impl Up {
    /// Starts it and waits until it is ready.
    ///
    /// Without datanodes, unless `args` asks for some.
    pub fn start(data: &Path, args: &[&str]) -> Up {
        let mut command = trellis(&["up", "--rpc-port", "0", "--http-port", "0", "--data"]);
        command.env("TRELLIS_DATANODES", "0");
        let stderr = fs::File::options().create(true).append(true).open(data.with_extension("err")).unwrap();
        let mut child = command.arg(data).args(args).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let mut up = Up { child, lines, data: data.to_path_buf(), fs: String::new(), http: Vec::new() };
        loop {
            let line = up.line("");
            if let Some(fs) = line.strip_prefix("trellis ready: ") {
                up.fs = fs.to_owned();
                return up;
            }
            let http = line.split(", ").find_map(|part| part.strip_prefix("http://"));
            up.http.extend(http.map(str::to_owned));
        }
    }

    /// Waits for a line that begins so.
    pub fn line(&self, head: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(LIMIT);
            let line = line.unwrap_or_else(|_| panic!("no line {head:?}; stderr: {}", self.stderr()));
            if line.starts_with(head) {
                return line;
            }
        }
    }

    /// What it complained of so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.data.with_extension("err")).unwrap_or_default()
    }

    /// The process of a namenode.
    pub fn pid(&self, index: usize) -> Pid {
        let text = fs::read_to_string(self.data.join(format!("run/namenode-{index}.pid"))).unwrap();
        Pid::from_raw(text.trim().parse().unwrap())
    }

    /// Sends `up` a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Waits until `up` has ended; its exit code, none when a signal ended it.
    pub fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        wait(|| {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }

    /// `trellis fs ARGS` on it.
    pub fn fs(&self, args: &[&str]) -> Output {
        let mut all = vec!["fs", "--fs", &self.fs];
        all.extend(args);
        output(&all)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process still runs; one that waits to be reaped does not.
pub fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Waits until something is so.
pub fn wait(done: impl FnMut() -> bool) {
    wait_for(done, |done| *done);
}

/// Looks again and again until it is as wanted; then this is what was seen.
pub fn wait_for<T: std::fmt::Debug>(mut look: impl FnMut() -> T, is_wanted: impl Fn(&T) -> bool) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        let seen = look();
        if is_wanted(&seen) {
            return seen;
        }
        assert!(Instant::now() < deadline, "it did not happen within {LIMIT:?}: {seen:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

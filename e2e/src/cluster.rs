//! A Trellis cluster: `trellis up` as a child process, and its namenodes, to be killed one by one.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::hadoop::{stdout_of, tail};

/// How long `trellis up` may take to serve, and to stop.
const LIMIT: Duration = Duration::from_secs(60);
const READY: &str = "trellis ready: ";

/// How to start a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namenodes on the one store.
    pub namenodes: usize,
    /// Datanodes.
    pub datanodes: usize,
    /// The data folder; without one a temporary folder, removed at the end.
    pub data: Option<PathBuf>,
    /// More arguments for `trellis up`.
    pub arguments: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { namenodes: 1, datanodes: 0, data: None, arguments: Vec::new() }
    }
}

/// A running `trellis up`. Dropped, it is stopped.
pub struct Cluster {
    up: Child,
    ports: Vec<u16>,
    data: PathBuf,
    log: PathBuf,
    _temporary: tempfile::TempDir,
}

impl Cluster {
    /// Starts a cluster on free ports and waits until it serves.
    pub fn start(options: &Options) -> Result<Cluster> {
        let temporary = tempfile::tempdir().context("making a folder for the cluster")?;
        let data = options.data.clone().unwrap_or_else(|| temporary.path().join("data"));
        let log = temporary.path().join("up.log");
        let mut up = Command::new(binary()?)
            .args([
                "up",
                "--rpc-port",
                "0",
                "--http-port",
                "0",
                "--namenodes",
                &options.namenodes.to_string(),
                "--datanodes",
                &options.datanodes.to_string(),
                "--data",
            ])
            .arg(&data)
            .args(&options.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()
            .context("starting trellis up")?;
        let stdout = up.stdout.take().ok_or_else(|| anyhow!("trellis up has no stdout"))?;
        let mut cluster = Cluster { up, ports: Vec::new(), data, log, _temporary: temporary };
        let line = cluster.ready_line(&first_ready(stdout))?;
        cluster.ports = parse_ready(&line)?;
        if cluster.ports.len() != options.namenodes {
            bail!("asked for {} namenodes, got: {line}", options.namenodes);
        }
        Ok(cluster)
    }

    /// RPC ports of the namenodes, in their order.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The process of namenode `index` (from 0), as it stands in its pid file.
    pub fn namenode_pid(&self, index: usize) -> Result<Pid> {
        self.pid(&format!("namenode-{index}"))
    }

    /// Where datanode `index` keeps its blocks, somewhere below.
    pub fn datanode_data(&self, index: usize) -> PathBuf {
        self.data.join(format!("datanode-{index}"))
    }

    fn pid(&self, name: &str) -> Result<Pid> {
        let path = self.data.join(format!("run/{name}.pid"));
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Pid::from_raw(text.trim().parse().with_context(|| format!("{} holds no pid", path.display()))?))
    }

    /// `HOST:PORT` of the HTTP server of namenode `index`.
    pub fn http_address(&self, index: usize) -> Result<String> {
        let path = self.data.join(format!("run/namenode-{index}.addr"));
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        // the RPC address is the first line
        text.lines()
            .nth(1)
            .map(str::to_owned)
            .with_context(|| format!("{} has no second line", path.display()))
    }

    /// Sends a signal to namenode `index`: SIGKILL, SIGSTOP, SIGCONT.
    pub fn signal_namenode(&self, index: usize, signal: Signal) -> Result<()> {
        let pid = self.namenode_pid(index)?;
        kill(pid, signal).with_context(|| format!("sending {signal} to namenode {index} ({pid})"))
    }

    /// Waits until namenode `index` has a process: one that died is started again only after a pause.
    pub fn wait_for_namenode(&self, index: usize) -> Result<Pid> {
        self.wait_for(&format!("namenode-{index}"))
    }

    /// Waits until datanode `index` has a process.
    pub fn wait_for_datanode(&self, index: usize) -> Result<Pid> {
        self.wait_for(&format!("datanode-{index}"))
    }

    fn wait_for(&self, name: &str) -> Result<Pid> {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.pid(name) {
                Ok(pid) => return Ok(pid),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Asks the cluster to stop, waits until it has, and says how it ended.
    pub fn stop(&mut self) -> Result<()> {
        if self.up.try_wait()?.is_none() {
            kill(Pid::from_raw(self.up.id().cast_signed()), Signal::SIGTERM)?;
        }
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.up.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                bail!("trellis up ended with {status}:\n{}", self.log_tail());
            }
            if Instant::now() > deadline {
                bail!("trellis up does not stop:\n{}", self.log_tail());
            }
            sleep(Duration::from_millis(10));
        }
    }

    /// Runs `trellis store check` on the embedded store of a stopped cluster.
    pub fn check_store(&self) -> Result<()> {
        let url = format!("lmdb:{}", self.data.join("store").display());
        let output = Command::new(binary()?).args(["store", "check", "--store", &url]).output()?;
        stdout_of("trellis store check", &output).map(drop)
    }

    /// The end of what the cluster wrote to stderr.
    pub fn log_tail(&self) -> String {
        tail(&fs::read_to_string(&self.log).unwrap_or_default(), 40)
    }

    fn ready_line(&mut self, lines: &Receiver<String>) -> Result<String> {
        lines.recv_timeout(LIMIT).map_err(|_| {
            let ended = self
                .up
                .try_wait()
                .ok()
                .flatten()
                .map_or("still running".to_owned(), |status| status.to_string());
            anyhow!("trellis up did not say \"{READY}\" ({ended}); its log ends:\n{}", self.log_tail())
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.stop().is_err() {
            let _ = self.up.kill();
            let _ = self.up.wait();
        }
    }
}

/// Reads stdout to its end in a thread, so that the child never blocks on it, and hands on the ready line.
fn first_ready(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line.starts_with(READY) {
                let _ = sender.send(line);
            }
        }
    });
    receiver
}

fn parse_ready(line: &str) -> Result<Vec<u16>> {
    let list = line.strip_prefix(READY).unwrap_or(line).split_whitespace().next().unwrap_or_default();
    list.trim_start_matches("hdfs://")
        .split(',')
        .map(|address| {
            let port = address.rsplit(':').next().unwrap_or_default();
            port.parse().with_context(|| format!("no port in the address {address:?} of: {line}"))
        })
        .collect()
}

/// The `trellis` program, wherever it is started from: `TRELLIS_BIN`, or built with the profile of these tests, once.
pub fn binary() -> Result<PathBuf> {
    static BUILT: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    BUILT
        .get_or_init(|| build().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(|error| anyhow!(error))
}

fn build() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TRELLIS_BIN") {
        return std::path::absolute(path).context("TRELLIS_BIN");
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "trellis"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let status = cargo.status().context("building trellis")?;
    if !status.success() {
        bail!("building trellis ended with {status}");
    }
    let me = std::env::current_exe().context("looking for the target folder")?; // TARGET/PROFILE/deps/all-HASH
    let profile = me
        .parent()
        .and_then(Path::parent)
        .ok_or_else(|| anyhow!("no target folder above {}", me.display()))?;
    Ok(profile.join("trellis"))
}

#[cfg(test)]
mod tests {
    use super::parse_ready;

    #[test]
    fn ready_line_gives_the_ports() {
        let one = parse_ready("trellis ready: hdfs://127.0.0.1:8020").expect("one");
        assert_eq!(one, [8020]);
        let three =
            parse_ready("trellis ready: hdfs://127.0.0.1:1,127.0.0.1:22,127.0.0.1:333").expect("three");
        assert_eq!(three, [1, 22, 333]);
        assert!(parse_ready("trellis ready: hdfs://nowhere").is_err());
    }
}

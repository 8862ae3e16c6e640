//! The stock NameNode (and DataNode) on loopback, to check the tests against.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::unistd::Pid;

use crate::hadoop::{Hadoop, stdout_of, tail};

/// How long the stock NameNode may take to start.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A stock NameNode, and DataNodes, with their state in a temporary folder; they end when dropped.
pub struct Stock {
    port: u16,
    /// The NameNode, then the DataNodes.
    servers: Vec<Child>,
    hadoop: Hadoop,
    dir: tempfile::TempDir,
}

impl Stock {
    /// Formats and starts a NameNode with Trellis's smallest block size, and so many DataNodes. `settings`
    /// (name=value) hold for all of them.
    pub fn start(datanodes: usize, settings: &[&str]) -> Result<Stock> {
        let dir = tempfile::tempdir().context("making a folder for the stock NameNode")?;
        let (port, http) = (free_port()?, free_port()?);
        let settings = [&["dfs.namenode.fs-limits.min-block-size=1024"], settings].concat();
        let hadoop = Hadoop::configure(dir.path(), port, http, &settings)?;
        let format =
            hadoop.command(&["namenode", "-format", "-nonInteractive", "-clusterid", "CID-test"]).output()?;
        stdout_of("namenode -format", &format)?;
        let mut stock = Stock { port, servers: Vec::new(), hadoop, dir };
        stock.start_namenode()?;
        for index in 0..datanodes {
            // a folder of its own for each
            let hadoop = Hadoop::configure(&stock.dir.path().join(format!("{index}")), port, 0, &settings)?;
            stock.spawn(&format!("datanode-{index}"), hadoop.command(&["datanode"]))?;
        }
        if datanodes > 0 {
            stock.wait("the live DataNodes", |stock| {
                let report = stock.hadoop.command(&["dfsadmin", "-report"]).output()?;
                let live = format!("Live datanodes ({datanodes})");
                Ok(stdout_of("dfsadmin -report", &report)?.contains(&live))
            })?;
        }
        Ok(stock)
    }

    /// The folder in which DataNode `index` keeps its blocks.
    pub fn datanode_folder(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("{index}/dn"))
    }

    /// The process of DataNode `index`.
    pub fn datanode_pid(&self, index: usize) -> Result<Pid> {
        let child = self.servers.get(index + 1).with_context(|| format!("there is no DataNode {index}"))?;
        Ok(Pid::from_raw(child.id().cast_signed()))
    }

    /// `127.0.0.1:PORT` of its RPC.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A client's configuration for it.
    pub fn client(&self) -> Result<Hadoop> {
        Hadoop::configure(&self.dir.path().join("client"), self.port, 0, &[])
    }

    /// The NameNode's process.
    pub fn namenode_pid(&self) -> u32 {
        self.servers.first().map_or(0, Child::id)
    }

    /// Ends the NameNode with SIGKILL and starts it again over the same state.
    pub fn kill_namenode(&mut self) -> Result<()> {
        let mut old = self.servers.remove(0);
        let _ = old.kill(); // it may have died of itself
        old.wait()?;
        self.start_namenode()?;
        // the new one is the last
        self.servers.rotate_right(1);
        Ok(())
    }

    fn start_namenode(&mut self) -> Result<()> {
        let command = self.hadoop.command(&["namenode"]);
        self.spawn("namenode", command)?;
        self.wait("the NameNode's port", |stock| Ok(TcpStream::connect(("127.0.0.1", stock.port)).is_ok()))
    }

    fn spawn(&mut self, name: &str, mut command: Command) -> Result<()> {
        let log = File::create(self.log(name)).with_context(|| format!("making the log of the {name}"))?;
        let child = command.stdout(log.try_clone()?).stderr(log).stdin(Stdio::null()).spawn();
        self.servers.push(child.with_context(|| format!("starting the stock {name}"))?);
        Ok(())
    }

    fn log(&self, name: &str) -> std::path::PathBuf {
        Path::new(self.dir.path()).join(format!("{name}.log"))
    }

    fn wait(&mut self, what: &str, ready: impl Fn(&Stock) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if ready(self)? {
                return Ok(());
            }
            let mut dead = false;
            for server in &mut self.servers {
                dead |= server.try_wait()?.is_some();
            }
            if dead || Instant::now() > deadline {
                let log = std::fs::read_to_string(self.log("namenode")).unwrap_or_default();
                bail!("{what} did not come up; the NameNode's log ends:\n{}", tail(&log, 30));
            }
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        for server in self.servers.iter_mut().rev() {
            let _ = server.kill(); // its state goes with the folder
            let _ = server.wait();
        }
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}

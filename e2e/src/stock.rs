//! The stock NameNode (and DataNode) on loopback, to check the tests against.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::hadoop::{Hadoop, stdout_of, tail};

/// How long the stock NameNode may take to start.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A stock NameNode with its state in a temporary folder; ends when dropped.
pub struct Stock {
    port: u16,
    servers: Vec<Child>,
    hadoop: Hadoop,
    dir: tempfile::TempDir,
}

impl Stock {
    /// Formats and starts a NameNode with Trellis's smallest block size, and a DataNode if asked for.
    pub fn start(datanode: bool) -> Result<Stock> {
        let dir = tempfile::tempdir().context("making a folder for the stock NameNode")?;
        let (port, http) = (free_port()?, free_port()?);
        let hadoop =
            Hadoop::configure(dir.path(), port, http, &["dfs.namenode.fs-limits.min-block-size=1024"])?;
        let format =
            hadoop.command(&["namenode", "-format", "-nonInteractive", "-clusterid", "CID-test"]).output()?;
        stdout_of("namenode -format", &format)?;
        let mut stock = Stock { port, servers: Vec::new(), hadoop, dir };
        stock.start_namenode()?;
        if datanode {
            let command = stock.hadoop.command(&["datanode"]);
            stock.spawn("datanode", command)?;
            stock.wait("a live DataNode", |stock| {
                let report = stock.hadoop.command(&["dfsadmin", "-report"]).output()?;
                Ok(stdout_of("dfsadmin -report", &report)?.contains("Live datanodes (1)"))
            })?;
        }
        Ok(stock)
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

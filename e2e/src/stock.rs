//! The stock NameNode and DataNodes on loopback: to check the tests against, and as peers of ours.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::hadoop::{Hadoop, nameservice, stdout_of, tail};

/// How long a stock server may take to start.
const START_LIMIT: Duration = Duration::from_secs(120);
/// In the NameNode's folder.
const NAMENODE_LOG: &str = "namenode.log";
/// Blocks as small as Trellis takes them, and dead datanodes told after 13 s instead of 10 minutes.
const NAMENODE: [&str; 4] = [
    "dfs.namenode.fs-limits.min-block-size=1024",
    "dfs.namenode.heartbeat.recheck-interval=1500",
    "dfs.namenode.redundancy.interval.seconds=1",
    "dfs.namenode.reconstruction.pending.timeout-sec=10",
];
/// What ends a wait for a peer sooner than the defaults do (a minute and more).
const DATANODE: [&str; 3] = [
    "dfs.client.socket-timeout=10000",
    "dfs.datanode.socket.write.timeout=10000",
    "dfs.blockreport.intervalMsec=15000",
];

/// One program with its log.
struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    fn start(hadoop: &Hadoop, program: &str, log: PathBuf, name: String) -> Result<Process> {
        Process::of(hadoop.command(&[program]), log, name)
    }

    fn of(mut command: Command, log: PathBuf, name: String) -> Result<Process> {
        let file = File::create(&log).with_context(|| format!("making the log of the {name}"))?;
        let child = command.stdout(file.try_clone()?).stderr(file).stdin(Stdio::null()).spawn();
        let child = child.with_context(|| format!("starting the stock {name}"))?;
        Ok(Process { name, log, child })
    }

    fn ensure_alive(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        bail!("the {} ended with {status}; its log ends:\n{}", self.name, self.log_tail());
    }

    fn log_tail(&self) -> String {
        tail(&std::fs::read_to_string(&self.log).unwrap_or_default(), 30)
    }

    fn end(&mut self) {
        let _ = self.child.kill(); // it may have died of itself
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A stock DataNode of a namenode or several, with a folder of its own. It ends when this is dropped.
pub struct Datanode {
    hadoop: Hadoop,
    dir: PathBuf,
    name: String,
    process: Process,
}

impl Datanode {
    /// Starts a DataNode with its state below `dir`. It registers with every one of the namenodes at these RPC ports,
    /// which is not waited for. `settings` are name=value of hdfs-site.xml.
    pub fn start(dir: &Path, name: &str, namenodes: &[u16], settings: &[&str]) -> Result<Datanode> {
        let first = namenodes.first().copied().context("a DataNode needs a namenode")?;
        let mut all: Vec<String> =
            DATANODE.iter().chain(settings).map(|setting| (*setting).to_owned()).collect();
        if namenodes.len() > 1 {
            let addresses: Vec<String> = namenodes.iter().map(|port| format!("127.0.0.1:{port}")).collect();
            all.extend(nameservice(&addresses));
        }
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let hadoop = Hadoop::configure(dir, first, 0, &all)?;
        let process = Process::start(&hadoop, "datanode", dir.join("log"), name.to_owned())?;
        Ok(Datanode { hadoop, dir: dir.to_owned(), name: name.to_owned(), process })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Where its blocks are, somewhere below.
    pub fn data(&self) -> PathBuf {
        self.dir.join("dn")
    }

    /// Ends it with SIGKILL.
    pub fn end(&mut self) {
        self.process.end();
    }

    /// Starts it again over the same folder, on other ports.
    pub fn restart(&mut self) -> Result<()> {
        self.end();
        self.process = Process::start(&self.hadoop, "datanode", self.dir.join("log"), self.name.clone())?;
        Ok(())
    }

    /// The end of what it wrote.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}

/// A stock NameNode and its DataNodes with their state in a temporary folder; they end when this is dropped.
pub struct Stock {
    port: u16,
    audited: bool,
    hadoop: Hadoop,
    datanodes: Vec<Datanode>,
    namenode: Process,
    dir: tempfile::TempDir,
}

impl Stock {
    /// Formats and starts a NameNode with Trellis's smallest block size, and so many DataNodes. `settings` (name=value
    /// of hdfs-site.xml) are those of both.
    pub fn start(datanodes: usize, settings: &[&str]) -> Result<Stock> {
        Stock::with(datanodes, settings, false)
    }

    /// The same with a NameNode that writes its audit log, into its other log.
    pub fn start_audited(datanodes: usize, settings: &[&str]) -> Result<Stock> {
        Stock::with(datanodes, settings, true)
    }

    fn with(datanodes: usize, settings: &[&str], audited: bool) -> Result<Stock> {
        let dir = tempfile::tempdir().context("making a folder for the stock NameNode")?;
        let (port, http) = (free_port()?, free_port()?);
        let hadoop = Hadoop::configure(dir.path(), port, http, &[&NAMENODE[..], settings].concat())?;
        let format =
            hadoop.command(&["namenode", "-format", "-nonInteractive", "-clusterid", "CID-test"]).output()?;
        stdout_of("namenode -format", &format)?;
        let namenode = start_namenode(&hadoop, dir.path(), port, audited)?;
        let mut stock = Stock { port, audited, hadoop, datanodes: Vec::new(), namenode, dir };
        for index in 0..datanodes {
            let folder = stock.dir.path().join(format!("datanode-{index}"));
            let datanode = Datanode::start(&folder, &format!("DataNode {index}"), &[port], settings)?;
            stock.datanodes.push(datanode);
        }
        if datanodes > 0 {
            wait_for_datanodes(&stock.hadoop, datanodes)
                .with_context(|| format!("the NameNode's log ends:\n{}", stock.namenode.log_tail()))?;
        }
        Ok(stock)
    }

    /// `127.0.0.1:PORT` of its RPC.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `hdfs fsck /`, not yet started.
    pub fn fsck(&self) -> Command {
        self.hadoop.command(&["fsck", "/"])
    }

    /// Writes an image of the namespace as it is now to a file.
    pub fn save_image(&self, to: &Path) -> Result<()> {
        let to = to.to_str().context("a path that is no text")?;
        for command in
            [&["-safemode", "enter"][..], &["-saveNamespace"], &["-safemode", "leave"], &["-fetchImage", to]]
        {
            let done = self.hadoop.command(&[&["dfsadmin"], command].concat()).output()?;
            stdout_of(&command.join(" "), &done)?;
        }
        Ok(())
    }

    /// A client's configuration for it, with three replicas at most.
    pub fn client(&self) -> Result<Hadoop> {
        let replication = format!("dfs.replication={}", self.datanodes.len().clamp(1, 3));
        Hadoop::configure(&self.dir.path().join("client"), self.port, 0, &[&replication])
    }

    /// The lines of its audit log so far, each with its end.
    pub fn audit_log(&self) -> Result<String> {
        let path = self.dir.path().join(NAMENODE_LOG);
        let log = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(log.split_inclusive('\n').filter(|line| line.contains(" FSNamesystem.audit: ")).collect())
    }

    /// The NameNode's process.
    pub fn namenode_pid(&self) -> u32 {
        self.namenode.child.id()
    }

    /// A DataNode, counted from 0.
    pub fn datanode(&self, index: usize) -> Result<&Datanode> {
        self.datanodes.get(index).with_context(|| format!("there is no DataNode {index}"))
    }

    /// Ends DataNode `index` with SIGKILL and starts it again over the same folder.
    pub fn kill_datanode(&mut self, index: usize) -> Result<()> {
        self.datanodes.get_mut(index).with_context(|| format!("there is no DataNode {index}"))?.restart()
    }

    /// Ends the NameNode with SIGKILL and starts it again over the same state.
    pub fn kill_namenode(&mut self) -> Result<()> {
        self.namenode.end();
        self.namenode = start_namenode(&self.hadoop, self.dir.path(), self.port, self.audited)?;
        Ok(())
    }
}

/// Sends a signal to a process.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    kill(Pid::from_raw(pid.cast_signed()), signal).with_context(|| format!("sending {signal} to {pid}"))
}

fn start_namenode(hadoop: &Hadoop, dir: &Path, port: u16, audited: bool) -> Result<Process> {
    let mut command = hadoop.command(&["namenode"]);
    if audited {
        command.env("HADOOP_OPTS", "-Dharness.audit.logger=INFO");
    }
    let mut namenode = Process::of(command, dir.join(NAMENODE_LOG), "NameNode".to_owned())?;
    let deadline = Instant::now() + START_LIMIT;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        namenode.ensure_alive()?;
        ensure!(Instant::now() < deadline, "no port of the NameNode; its log ends:\n{}", namenode.log_tail());
        sleep(Duration::from_millis(50));
    }
    Ok(namenode)
}

/// Waits until the namenode of a client's configuration says that so many datanodes live.
pub fn wait_for_datanodes(hadoop: &Hadoop, live: usize) -> Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    let wanted = format!("Live datanodes ({live})");
    loop {
        let mut command: Command = hadoop.command(&["dfsadmin", "-report", "-live"]);
        let report = command.output().context("running dfsadmin -report")?;
        let said = String::from_utf8_lossy(&report.stdout);
        if said.contains(&wanted) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let said: Vec<&str> = said.lines().filter(|line| line.contains("datanodes")).collect();
            bail!("asked for {wanted}; dfsadmin -report says {said:?}");
        }
        sleep(Duration::from_millis(200));
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}

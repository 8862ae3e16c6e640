//! What a test talks to: namenodes at addresses, their datanodes, and client configurations.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;

use crate::cluster::{Cluster, Options, binary};
use crate::hadoop::{Hadoop, nameservice, stdout_of, tail};
use crate::stock::{Stock, signal};

/// True with `E2E_TARGET=stock`: the tests then run against the stock servers, to prove the tests.
pub fn target_is_stock() -> bool {
    std::env::var("E2E_TARGET").is_ok_and(|target| target == "stock")
}

/// A close waits longer than a datanode whose namenode was held up needs to get another owner.
pub const PATIENT_CLOSE: &str = "dfs.client.block.write.locateFollowingBlock.retries=9";

/// A client that gives a silent server up in seconds instead of a minute or more, and that goes on with the datanodes it
/// has when there is no other.
pub const IMPATIENT: [&str; 6] = [
    "dfs.client.block.write.replace-datanode-on-failure.best-effort=true",
    "dfs.client.socket-timeout=5000",
    "dfs.datanode.socket.write.timeout=5000",
    "ipc.client.rpc-timeout.ms=10000",
    "ipc.client.connect.timeout=2000",
    PATIENT_CLOSE,
];

/// Settings of a Trellis cluster that shorten the waits that `stock` shortens: dead datanodes are told after 13 s instead of
/// 10 minutes, peers wait seconds for each other.
const TRELLIS: [&str; 8] = [
    "datanode_heartbeat=1s",
    "datanode_recheck=1500ms",
    "replication_check=1s",
    "replication_pending=10s",
    "datanode.heartbeat=1s",
    "datanode.full_report=15s",
    "datanode.read_timeout=10s",
    "datanode.write_timeout=10s",
];

/// How long missing replicas may take to come back.
const HEALTHY_LIMIT: Duration = Duration::from_secs(180);

/// How to start a cluster of either kind.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Namenodes on one store; of the stock kind there is one, named that often.
    pub namenodes: usize,
    /// Datanodes of the same kind.
    pub datanodes: usize,
    /// `--set NAME=VALUE` of a Trellis cluster.
    pub settings: Vec<&'static str>,
    /// name=value in the hdfs-site.xml of stock servers.
    pub stock_settings: Vec<&'static str>,
    /// Whether a stock NameNode writes its audit log, as Trellis's always do.
    pub audited: bool,
}

impl Shape {
    /// So many of each, with the usual settings.
    pub fn new(namenodes: usize, datanodes: usize) -> Shape {
        Shape { namenodes, datanodes, settings: Vec::new(), stock_settings: Vec::new(), audited: false }
    }
}

/// A running cluster of either kind. It ends when this is dropped.
pub struct Server {
    addresses: Vec<String>,
    datanodes: usize,
    hadoop: Hadoop,
    conf: tempfile::TempDir,
    processes: Processes,
}

enum Processes {
    Trellis(Cluster),
    Stock(Stock),
}

impl Server {
    /// Starts namenodes on one store, and datanodes; of the stock kind there is one namenode, named that often.
    pub fn start(namenodes: usize, datanodes: usize) -> Result<Server> {
        Server::of(&Shape::new(namenodes, datanodes))
    }

    /// Starts a cluster of the kind that the tests run against.
    pub fn of(shape: &Shape) -> Result<Server> {
        ensure!(shape.namenodes > 0, "a cluster needs a namenode");
        if target_is_stock() { Server::stock(shape) } else { Server::trellis(shape) }
    }

    /// A stock NameNode, and DataNodes.
    pub fn stock(shape: &Shape) -> Result<Server> {
        let start = if shape.audited { Stock::start_audited } else { Stock::start };
        let stock = start(shape.datanodes, &shape.stock_settings)?;
        Server::with(vec![stock.address(); shape.namenodes], shape.datanodes, Processes::Stock(stock))
    }

    /// A Trellis cluster that restarts what dies.
    pub fn trellis(shape: &Shape) -> Result<Server> {
        let mut arguments = vec!["--restart".to_owned()];
        let settings = TRELLIS.iter().chain(&shape.settings);
        arguments.extend(settings.flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]));
        let cluster = Cluster::start(&Options {
            namenodes: shape.namenodes,
            datanodes: shape.datanodes,
            arguments,
            ..Options::default()
        })?;
        let addresses = cluster.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        Server::with(addresses, shape.datanodes, Processes::Trellis(cluster))
    }

    fn with(addresses: Vec<String>, datanodes: usize, processes: Processes) -> Result<Server> {
        let conf = tempfile::tempdir().context("making a folder for the client's configuration")?;
        let port = port_of(&addresses[0])?;
        let hadoop = Hadoop::configure(&conf.path().join("first"), port, 0, &[&replication(datanodes)])?;
        Ok(Server { addresses, datanodes, hadoop, conf, processes })
    }

    /// `hdfs://HOST:PORT` of each namenode.
    pub fn urls(&self) -> Vec<String> {
        self.addresses.iter().map(|address| format!("hdfs://{address}")).collect()
    }

    /// RPC ports of the namenodes, in their order.
    pub fn ports(&self) -> Result<Vec<u16>> {
        self.addresses.iter().map(|address| port_of(address)).collect()
    }

    /// How many datanodes were asked for.
    pub fn datanodes(&self) -> usize {
        self.datanodes
    }

    /// The stock programs, set up for the first namenode, with as many replicas as there are datanodes, at most 3.
    pub fn hadoop(&self) -> &Hadoop {
        &self.hadoop
    }

    /// The same with more settings (name=value).
    pub fn client(&self, settings: &[&str]) -> Result<Hadoop> {
        let dir = tempfile::tempdir_in(self.conf.path())?.keep(); // goes with the folder around it
        let replication = replication(self.datanodes);
        let settings = [&[replication.as_str()], settings].concat();
        Hadoop::configure(&dir, port_of(&self.addresses[0])?, 0, &settings)
    }

    /// The stock programs spread over all namenodes: for Trellis as `trellis admin client-config` says.
    pub fn spread_client(&self, settings: &[&str]) -> Result<Hadoop> {
        let dir = tempfile::tempdir_in(self.conf.path())?.keep();
        match &self.processes {
            Processes::Trellis(cluster) => {
                let replication = replication(self.datanodes);
                client_config(cluster.data(), &dir, &[&[replication.as_str()], settings].concat())?;
                Ok(Hadoop::with_conf(&dir))
            }
            Processes::Stock(_) => {
                let all = nameservice(&self.addresses);
                let all: Vec<&str> = all.iter().map(String::as_str).chain(settings.iter().copied()).collect();
                self.client(&all)
            }
        }
    }

    /// The process of namenode `index`.
    pub fn namenode_pid(&self, index: usize) -> Result<u32> {
        match &self.processes {
            Processes::Trellis(cluster) => Ok(cluster.namenode_pid(index)?.as_raw().cast_unsigned()),
            Processes::Stock(stock) => Ok(stock.namenode_pid()),
        }
    }

    /// Ends namenode `index` with SIGKILL; it is started again over the same store.
    pub fn kill_namenode(&mut self, index: usize) -> Result<()> {
        match &mut self.processes {
            Processes::Trellis(cluster) => {
                cluster.wait_for_namenode(index)?;
                cluster.signal_namenode(index, Signal::SIGKILL)
            }
            Processes::Stock(stock) => stock.kill_namenode(),
        }
    }

    /// The process of datanode `index`; waits for one that is being started again.
    pub fn datanode_pid(&self, index: usize) -> Result<u32> {
        match &self.processes {
            Processes::Trellis(cluster) => Ok(cluster.wait_for_datanode(index)?.as_raw().cast_unsigned()),
            Processes::Stock(stock) => Ok(stock.datanode(index)?.pid()),
        }
    }

    /// Sends a signal to datanode `index`: SIGSTOP, SIGCONT.
    pub fn signal_datanode(&self, index: usize, what: Signal) -> Result<()> {
        signal(self.datanode_pid(index)?, what)
    }

    /// Ends datanode `index` with SIGKILL; it is started again over the same folder.
    pub fn kill_datanode(&mut self, index: usize) -> Result<()> {
        match &mut self.processes {
            Processes::Trellis(cluster) => {
                signal(cluster.wait_for_datanode(index)?.as_raw().cast_unsigned(), Signal::SIGKILL)
            }
            Processes::Stock(stock) => stock.kill_datanode(index),
        }
    }

    /// Where datanode `index` keeps its blocks, somewhere below.
    pub fn datanode_data(&self, index: usize) -> Result<PathBuf> {
        match &self.processes {
            Processes::Trellis(cluster) => Ok(cluster.datanode_data(index)),
            Processes::Stock(stock) => Ok(stock.datanode(index)?.data()),
        }
    }

    /// Waits until fsck finds nothing: no block missing, corrupt or with too few replicas.
    pub fn wait_until_healthy(&self) -> Result<()> {
        let deadline = Instant::now() + HEALTHY_LIMIT;
        loop {
            let said = self.fsck()?;
            let zero = |what: &str| {
                said.lines().filter(|line| line.trim_start().starts_with(what)).all(|line| {
                    line.rsplit(':').next().unwrap_or_default().split_whitespace().next() == Some("0")
                })
            };
            let healthy =
                said.contains("is HEALTHY") && zero("Under-replicated blocks:") && zero("Missing blocks:");
            if healthy && zero("Corrupt blocks:") {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "fsck finds, after {HEALTHY_LIMIT:?}:\n{}", tail(&said, 40));
            sleep(Duration::from_millis(500));
        }
    }

    /// What fsck of everything says; Trellis's says it in stock's words.
    fn fsck(&self) -> Result<String> {
        let output = match &self.processes {
            Processes::Trellis(cluster) => {
                Command::new(binary()?).args(["fsck", "/", "--http", &cluster.http_address(0)?]).output()?
            }
            Processes::Stock(stock) => stock.fsck().output()?,
        };
        let said = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// The Trellis cluster, if this is one.
    pub fn cluster(&self) -> Option<&Cluster> {
        match &self.processes {
            Processes::Trellis(cluster) => Some(cluster),
            Processes::Stock(_) => None,
        }
    }

    /// Stops a Trellis cluster and checks the rows it leaves. The stock NameNode has no such check.
    pub fn stop_and_check(self) -> Result<()> {
        match self.processes {
            Processes::Trellis(mut cluster) => {
                cluster.stop()?;
                cluster.check_store()
            }
            Processes::Stock(_) => Ok(()),
        }
    }
}

/// What `trellis admin client-config` writes into `conf`, and more settings (name=value).
pub fn client_config(data: &Path, conf: &Path, settings: &[&str]) -> Result<()> {
    let mut command = Command::new(binary()?);
    let output =
        command.args(["admin", "client-config", "--data"]).arg(data).arg("--write").arg(conf).output()?;
    stdout_of("trellis admin client-config", &output)?;
    let path = conf.join("hdfs-site.xml");
    let more: String = settings
        .iter()
        .filter_map(|setting| setting.split_once('='))
        .map(|(name, value)| format!("  <property><name>{name}</name><value>{value}</value></property>\n"))
        .collect();
    let text = fs::read_to_string(&path)?.replace("</configuration>", &format!("{more}</configuration>"));
    fs::write(&path, text).context("adding to hdfs-site.xml")
}

fn replication(datanodes: usize) -> String {
    format!("dfs.replication={}", datanodes.clamp(1, 3))
}

fn port_of(address: &str) -> Result<u16> {
    let port = address.rsplit(':').next().unwrap_or_default();
    port.parse().with_context(|| format!("no port in {address}"))
}

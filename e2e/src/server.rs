//! What a test talks to: namenodes at addresses, and a client configuration for the first of them.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;

use crate::cluster::{Cluster, Options};
use crate::hadoop::Hadoop;
use crate::stock::Stock;

/// True with `E2E_TARGET=stock`: the tests then run against the stock NameNode, to prove the tests.
pub fn target_is_stock() -> bool {
    std::env::var("E2E_TARGET").is_ok_and(|target| target == "stock")
}

/// A running cluster of either kind. It ends when this is dropped.
pub struct Server {
    addresses: Vec<String>,
    hadoop: Hadoop,
    processes: Processes,
}

enum Processes {
    Trellis { cluster: Cluster, _conf: tempfile::TempDir },
    Stock(Stock),
}

impl Server {
    /// Starts `namenodes` namenodes on one store; of the stock kind there is one, named that often. `recorded_with_data`
    /// says that the table the test compares with was recorded with a DataNode, so that the stock kind needs one.
    pub fn start(namenodes: usize, recorded_with_data: bool) -> Result<Server> {
        ensure!(namenodes > 0, "a cluster needs a namenode");
        if target_is_stock() {
            Server::stock(namenodes, recorded_with_data)
        } else {
            Server::trellis(namenodes)
        }
    }

    /// A stock NameNode, named `times` times.
    pub fn stock(times: usize, datanode: bool) -> Result<Server> {
        let stock = Stock::start(usize::from(datanode), &[])?;
        let hadoop = stock.client()?;
        Ok(Server { addresses: vec![stock.address(); times], hadoop, processes: Processes::Stock(stock) })
    }

    /// A Trellis cluster that restarts namenodes that die.
    pub fn trellis(namenodes: usize) -> Result<Server> {
        let cluster = Cluster::start(&Options {
            namenodes,
            arguments: vec!["--restart".to_owned()],
            ..Options::default()
        })?;
        let conf = tempfile::tempdir().context("making a folder for the client's configuration")?;
        let hadoop = Hadoop::configure(conf.path(), cluster.ports()[0], 0, &[])?;
        let addresses = cluster.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        Ok(Server { addresses, hadoop, processes: Processes::Trellis { cluster, _conf: conf } })
    }

    /// `hdfs://HOST:PORT` of each namenode.
    pub fn urls(&self) -> Vec<String> {
        self.addresses.iter().map(|address| format!("hdfs://{address}")).collect()
    }

    /// The RPC port of the first namenode.
    pub fn port(&self) -> &str {
        self.addresses[0].rsplit(':').next().unwrap_or_default()
    }

    /// The process of namenode `index`.
    pub fn namenode_pid(&self, index: usize) -> Result<u32> {
        match &self.processes {
            Processes::Trellis { cluster, .. } => Ok(cluster.namenode_pid(index)?.as_raw().cast_unsigned()),
            Processes::Stock(stock) => Ok(stock.namenode_pid()),
        }
    }

    /// Ends namenode `index` with SIGKILL; it is started again over the same store.
    pub fn kill_namenode(&mut self, index: usize) -> Result<()> {
        match &mut self.processes {
            Processes::Trellis { cluster, .. } => {
                cluster.wait_for_namenode(index)?;
                cluster.signal_namenode(index, Signal::SIGKILL)
            }
            Processes::Stock(stock) => stock.kill_namenode(),
        }
    }

    /// Stops a Trellis cluster and checks the rows it leaves. The stock NameNode has no such check.
    pub fn stop_and_check(self) -> Result<()> {
        match self.processes {
            Processes::Trellis { mut cluster, .. } => {
                cluster.stop()?;
                cluster.check_store()
            }
            Processes::Stock(_) => Ok(()),
        }
    }

    /// The stock programs, set up for the first namenode.
    pub fn hadoop(&self) -> &Hadoop {
        &self.hadoop
    }
}

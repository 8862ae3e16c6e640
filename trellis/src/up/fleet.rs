//! Namenodes on one store for a command that goes on meanwhile: started together, ended together.

use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};
use tokio::sync::watch;
use trellis_metastore::open::StoreUrl;

use super::Plan;
use super::child::Child;
use super::data_dir::{Addresses, DataDir, Kind, Member, log_end};
use super::node::Stop;
use crate::config::Sources;

/// How often it is looked whether all of them still run.
const WATCH_EVERY: Duration = Duration::from_millis(200);
/// Ports of a namenode: RPC, HTTP; any free ones.
const ANY_PORTS: [u16; 2] = [0, 0];

impl Plan {
    /// Namenodes that share the store of a data directory, however many there are at a time.
    pub fn shared(data: DataDir, sources: Sources) -> Plan {
        let store = StoreUrl::Lmdb(data.store());
        Plan { store, restart: false, sources, data, ports: Vec::new(), datanodes: 0, is_alone: false }
    }
}

/// Running namenodes. Dropped, they are killed; when this process ends, however that happens, so do they.
pub struct Fleet<'p> {
    plan: &'p Plan,
    children: Vec<Child>,
    /// Where they listen.
    pub addresses: Vec<Addresses>,
}

impl<'p> Fleet<'p> {
    /// Starts so many and waits until all serve. Must be called in the thread that lives as long as this process.
    pub async fn start(plan: &'p Plan, count: usize) -> Result<Fleet<'p>> {
        let mut fleet = Fleet { plan, children: Vec::with_capacity(count), addresses: Vec::new() };
        for index in 0..count {
            let child = Child::start(plan, member(index), &ANY_PORTS, "")?;
            // Should this process be killed, the next one on this directory waits for it.
            plan.data.write_pid(member(index), child.pid)?;
            fleet.children.push(child);
        }
        for (index, child) in fleet.children.iter_mut().enumerate() {
            match child.ready().await? {
                Some(addresses) => fleet.addresses.push(addresses),
                None => bail!("{} did not start; {}", member(index), log_end(&plan.data.log(member(index)))),
            }
        }
        Ok(fleet)
    }

    /// Of all of them: `hdfs://HOST:PORT,…`.
    pub fn target(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(|address| address.main.to_string()).collect();
        format!("hdfs://{}", addresses.join(","))
    }

    /// Waits until one has ended by itself; says which.
    pub async fn died(&mut self) -> Error {
        loop {
            for (index, child) in self.children.iter_mut().enumerate() {
                match child.has_ended() {
                    Ok(false) => {}
                    Ok(true) => {
                        let log = log_end(&self.plan.data.log(member(index)));
                        return anyhow!("{} has ended by itself; {log}", member(index));
                    }
                    Err(error) => return error,
                }
            }
            tokio::time::sleep(WATCH_EVERY).await;
        }
    }

    /// The same, for no longer than this.
    pub async fn died_within(&mut self, limit: Duration) -> Option<Error> {
        tokio::time::timeout(limit, self.died()).await.ok()
    }

    /// Ends them in order.
    pub async fn end(mut self) {
        let stop = watch::Sender::new(Stop::No);
        for child in &mut self.children {
            child.end(&mut stop.subscribe()).await;
        }
    }
}

impl Drop for Fleet<'_> {
    /// The children are killed after this; nobody is to take another process of the same number for one of them.
    fn drop(&mut self) {
        (0..self.children.len()).for_each(|index| self.plan.data.forget(member(index)));
    }
}

fn member(index: usize) -> Member {
    Member { kind: Kind::Namenode, index }
}

//! Simulated datanodes: namenodes take them for real ones, but they hold no bytes and listen nowhere.
//!
//! - [`node`]: one of them: who it is, what it holds
//! - [`outbox`]: what one namenode is still to be told
//! - [`actor`]: its life with one namenode
//! - [`obey`]: what it does when it is told to
//! - [`round`]: full reports of all of them at once
//! - [`shown`]: what namenodes show of them, and of others
//!
//! Who they are is a function of where the namespace lies, its seed and their number, so that every command of the load
//! generator brings the same ones back. What they hold is told to them by whoever writes blocks, and by a survey of the
//! namespace with the locations of its blocks. Only after that do they report in full: a namenode would take what is not
//! in a full report for lost.
//!
//! Everything is in one process, so a block that is written is on all its datanodes at once, and each tells its namenodes
//! at once, in one call for all blocks that came while the call before was on its way.

mod actor;
mod node;
mod obey;
mod outbox;
pub mod round;
mod shown;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use trellis_client::config::ConnectionConfig;
use trellis_client::namenode::Namenode;
use trellis_client::uri::Address;
use trellis_client::user::default_user;
use trellis_proto::hdfs::LocatedBlockProto;
use trellis_proto::hdfs::datanode::datanode_protocol_service;

use self::actor::Actor;
use self::node::{Node, Replica};
use self::outbox::Outbox;
use self::round::Round;
use crate::error::{Error, Result};
use crate::namespace::mixed;
use crate::progress::Progress;
use crate::target::Target;

/// The most that one run has: each has a connection to each namenode, and a port number of its own.
pub const MAX_DATANODES: u32 = 1000;
/// How long all of them may take to be known to all namenodes.
const REGISTERED_WITHIN: Duration = Duration::from_secs(60);
/// How long no full report may be taken while some are due.
const REPORT_LIMIT: Duration = Duration::from_secs(120);
/// How long a writer waits for the report of its block; then it goes on all the same, as real ones do.
const WRITER_WAIT: Duration = Duration::from_secs(3);
/// How long until it is looked again whether each datanode has an owner.
const SETTLE_PAUSE: Duration = Duration::from_millis(200);
/// How long to wait for reports that are under way.
const REST_LIMIT: Duration = Duration::from_secs(20);

/// The datanodes of a namespace. They live until this is dropped; then namenodes hear no more of them, and take them for
/// dead after their usual time.
#[derive(Debug)]
pub struct Datanodes {
    shared: Arc<Shared>,
    /// To be asked what they know.
    namenodes: Vec<Namenode>,
    /// Their lives, which end with it.
    _lives: JoinSet<()>,
}

/// What all of them have in common.
#[derive(Debug)]
struct Shared {
    nodes: Vec<Arc<Node>>,
    by_uuid: HashMap<String, usize>,
    /// Whose blocks they are.
    pool: OnceLock<String>,
    /// They know what they hold, so they may report in full.
    may_report: watch::Sender<bool>,
    /// How many times one of them was heard by one more namenode.
    heard: watch::Sender<usize>,
    /// How many of them have reported in full.
    reported: watch::Sender<usize>,
    /// Why one of them has ended.
    end: watch::Sender<Option<String>>,
    /// What went wrong last.
    trouble: watch::Sender<String>,
    /// Why a call failed last.
    failure: watch::Sender<Option<String>>,
    counts: Counts,
}

/// What they did so far.
#[derive(Debug, Default)]
struct Counts {
    received: AtomicU64,
    deleted: AtomicU64,
    copied: AtomicU64,
    recovered: AtomicU64,
    reports: AtomicU64,
    refused_reports: AtomicU64,
    failed_calls: AtomicU64,
}

/// What simulated datanodes did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Work {
    /// How many there are.
    pub datanodes: u64,
    /// Replicas that they hold.
    pub replicas: u64,
    /// Replicas that clients gave them.
    pub received: u64,
    /// Replicas that they deleted when they were told to.
    pub deleted: u64,
    /// Replicas that they copied to one another when they were told to.
    pub copied: u64,
    /// Blocks of writers that were gone, which they closed.
    pub recovered: u64,
    /// Calls that told namenodes of received and deleted replicas.
    pub reports: u64,
    /// Full reports that a namenode did not take, as it does not own the datanode or not any more; each was made again,
    /// but for those of a round.
    #[serde(default)]
    pub refused_reports: u64,
    /// Calls to namenodes that failed otherwise; each was made again.
    pub failed_calls: u64,
}

/// A namenode chose a datanode that is not simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the namenode chose datanode {0}, which is not of this load generator: stop that one, or use real blocks"
)]
pub struct Stranger(String);

/// A block that is on its way to a namenode's knowledge.
#[derive(Debug)]
pub struct Received {
    node: usize,
    namenode: usize,
    number: u64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Shared {
    fn node(&self, uuid: &str) -> Option<&Arc<Node>> {
        self.nodes.get(*self.by_uuid.get(uuid)?)
    }

    fn note_trouble(&self, why: String) {
        self.trouble.send_replace(why);
    }

    fn note_failure(&self, why: String) {
        self.failure.send_replace(Some(why));
    }

    fn give_up(&self, why: String) {
        self.end.send_replace(Some(why));
    }
}

impl Datanodes {
    /// Brings `count` datanodes of the namespace in `base` to life, and waits until all namenodes know them.
    ///
    /// # Errors
    /// When other datanodes are alive, to which blocks would go as well; when a namenode cannot be reached, or does not
    /// want them.
    pub async fn start(target: &Target, base: &str, seed: u64, count: u32) -> Result<Datanodes> {
        if !(1..=MAX_DATANODES).contains(&count) {
            return Err(Error::refused(format!("--datanodes is from 1 to {MAX_DATANODES}")));
        }
        let addresses = target.addresses();
        let Some(first) = addresses.first() else { return Err(Error::refused("no namenodes")) };
        let host = own_address(first).await?;
        let nodes: Vec<Arc<Node>> =
            (0..count).map(|index| Arc::new(Node::new(base, seed, index, &host, addresses.len()))).collect();
        let uuids = nodes.iter().map(|node| node.id.datanode_uuid.clone());
        let shared = Arc::new(Shared {
            by_uuid: uuids.zip(0..).collect(),
            nodes,
            pool: OnceLock::new(),
            may_report: watch::Sender::new(false),
            heard: watch::Sender::new(0),
            reported: watch::Sender::new(0),
            end: watch::Sender::new(None),
            trouble: watch::Sender::default(),
            failure: watch::Sender::default(),
            counts: Counts::default(),
        });
        let namenodes = shown::namenodes(target);
        shown::send_away(&namenodes, &shared).await?;
        let mut lives = JoinSet::new();
        for node in &shared.nodes {
            for (index, address) in addresses.iter().enumerate() {
                let service = &datanode_protocol_service::SERVICE;
                let config = ConnectionConfig::default();
                let link = Namenode::alone(address.clone(), service, default_user(), config);
                lives.spawn(Actor::new(shared.clone(), node.clone(), index, link).run());
            }
        }
        let datanodes = Datanodes { shared, namenodes, _lives: lives };
        let all = datanodes.shared.nodes.len() * addresses.len();
        datanodes.wait("registering datanodes", &datanodes.shared.heard, all, REGISTERED_WITHIN).await?;
        shown::wait_until_shown(&datanodes.namenodes, &datanodes.shared).await?;
        Ok(datanodes)
    }

    /// Notes a block that is there, from a survey. It is where the namenode says; when that knows of no replica (a stock
    /// namenode forgets those of dead datanodes), on as many datanodes as it should be, chosen by its id alone.
    pub fn hold(&self, block: &LocatedBlockProto, replication: u32) {
        let nodes = &self.shared.nodes;
        let replica = Replica { stamp: block.b.generation_stamp, len: block.b.num_bytes() };
        let id = block.b.block_id;
        let mut is_known = false;
        for node in block.locs.iter().filter_map(|node| self.shared.node(&node.id.datanode_uuid)) {
            node.hold(id, replica);
            is_known = true;
        }
        if !is_known && !nodes.is_empty() {
            let first = mixed(id) as usize % nodes.len();
            let chosen = nodes.iter().cycle().skip(first).take((replication as usize).min(nodes.len()));
            chosen.for_each(|node| node.hold(id, replica));
        }
    }

    /// They know all that they hold: they report in full. This waits until each did so to a namenode, and until all
    /// namenodes let files be written.
    pub async fn report(&self) -> Result<()> {
        let shared = &self.shared;
        shared.may_report.send_replace(true);
        shared.nodes.iter().flat_map(|node| &node.outboxes).for_each(Outbox::wake);
        self.wait("reporting blocks", &shared.reported, shared.nodes.len(), REPORT_LIMIT).await?;
        shown::wait_until_writable(&self.namenodes).await
    }

    /// Has all of them report in full now, to every namenode, as operators can have real ones do: without leave, so that no
    /// namenode spreads these reports over time. They were due at `at`.
    pub fn report_unasked(&self, at: Instant) -> Arc<Round> {
        let outboxes = || self.shared.nodes.iter().flat_map(|node| &node.outboxes);
        let round = Arc::new(Round::new(at, outboxes().count() as u64));
        outboxes().for_each(|outbox| outbox.want_reports([round.clone()]));
        round
    }

    /// A client wrote a block of `len` bytes whole, to all datanodes that the namenode named. They tell the namenodes now.
    pub fn receive(&self, block: &LocatedBlockProto, len: u64) -> Result<Received, Stranger> {
        let replica = Replica { stamp: block.b.generation_stamp, len };
        let mut first = None;
        for location in &block.locs {
            let uuid = &location.id.datanode_uuid;
            let Some(index) = self.shared.by_uuid.get(uuid).copied() else {
                return Err(Stranger(uuid.clone()));
            };
            let Some(node) = self.shared.nodes.get(index) else { continue };
            let namenode = node.choice().held().unwrap_or(0);
            let number = node.receive(block.b.block_id, replica, namenode);
            first.get_or_insert(Received { node: index, namenode, number });
        }
        add(&self.shared.counts.received, block.locs.len() as u64);
        first.ok_or_else(|| Stranger("none".to_owned()))
    }

    /// Waits until the namenode that the first datanode of a block obeys has been told of it, for a few seconds at most.
    pub async fn told(&self, received: Received) {
        let node = self.shared.nodes.get(received.node);
        if let Some(outbox) = node.and_then(|node| node.outboxes.get(received.namenode)) {
            // Then the namenode says that the block is not there yet, and the writer asks again.
            let _ = timeout(WRITER_WAIT, outbox.wait_for(received.number)).await;
        }
    }

    /// Waits until all that happened so far was told, deletions too; not for ever: a namenode that does not answer is told
    /// later. False: that took too long.
    pub async fn rest(&self) -> bool {
        let outboxes = self.shared.nodes.iter().flat_map(|node| &node.outboxes);
        timeout(REST_LIMIT, join_all(outboxes.map(Outbox::flush))).await.is_ok()
    }

    /// The same, and then heartbeats to every namenode until each datanode has had an owner for one: before they fall silent.
    /// A namenode of ours that takes a datanode over applies with its next heartbeat what others have not; while nobody owns
    /// it, what it tells is only kept. False: that took too long.
    pub async fn settle(&self) -> bool {
        let was_told = self.rest().await;
        let nodes = &self.shared.nodes;
        let settled = async {
            let mut were_owned = false;
            loop {
                join_all(nodes.iter().flat_map(|node| &node.outboxes).map(Outbox::beat)).await;
                let are_owned = nodes.iter().all(|node| node.choice().held().is_some());
                if are_owned && were_owned {
                    return;
                }
                were_owned = are_owned;
                if !are_owned {
                    sleep(SETTLE_PAUSE).await;
                }
            }
        };
        timeout(REST_LIMIT, settled).await.is_ok() && was_told
    }

    /// Why a call of theirs failed last, if one did.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure.borrow().clone()
    }

    /// Why one of them and a namenode want no more of each other, if that is so.
    pub fn end(&self) -> Option<String> {
        self.shared.end.borrow().clone()
    }

    /// What they did so far.
    pub fn work(&self) -> Work {
        let Shared { nodes, counts, .. } = &*self.shared;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Work {
            datanodes: nodes.len() as u64,
            replicas: nodes.iter().map(|node| node.count()).sum(),
            received: read(&counts.received),
            deleted: read(&counts.deleted),
            copied: read(&counts.copied),
            recovered: read(&counts.recovered),
            reports: read(&counts.reports),
            refused_reports: read(&counts.refused_reports),
            failed_calls: read(&counts.failed_calls),
        }
    }

    /// Waits until a count is reached, with a progress bar, as long as it goes on within `limit`.
    async fn wait(
        &self,
        what: &'static str,
        count: &watch::Sender<usize>,
        all: usize,
        limit: Duration,
    ) -> Result<()> {
        let progress = Progress::new(what, all as u64, "");
        let (mut count, mut end) = (count.subscribe(), self.shared.end.subscribe());
        loop {
            let now = *count.borrow_and_update();
            progress.set(now as u64, what.to_owned());
            if now >= all {
                return Ok(());
            }
            if let Some(why) = end.borrow_and_update().clone() {
                return Err(Error::refused(why));
            }
            let changed = async {
                tokio::select! {
                    changed = count.changed() => changed,
                    changed = end.changed() => changed,
                }
            };
            if !matches!(timeout(limit, changed).await, Ok(Ok(()))) {
                let trouble = self.shared.trouble.borrow().clone();
                return Err(Error::refused(format!(
                    "{what} does not go on: {now} of {all} in {} s. Do all namenodes of --target serve? {trouble}",
                    limit.as_secs()
                )));
            }
        }
    }
}

/// The address of this machine that the way to a namenode begins with.
async fn own_address(namenode: &Address) -> Result<String> {
    let place = (namenode.host(), namenode.port());
    let what = || format!("finding the way to {namenode}");
    let mut resolved = tokio::net::lookup_host(place).await.map_err(Error::io(what()))?;
    let Some(first) = resolved.next() else {
        return Err(Error::refused(format!("{namenode} has no address")));
    };
    let any = if first.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    // Nothing is sent: connecting a datagram socket chooses the way.
    let socket = UdpSocket::bind(any).await.map_err(Error::io(what()))?;
    socket.connect(first).await.map_err(Error::io(what()))?;
    Ok(socket.local_addr().map_err(Error::io(what()))?.ip().to_string())
}

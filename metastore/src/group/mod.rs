//! Lanes: all calls that wait in a lane run as one group — one fetch, then one commit.
//!
//! A group is whatever waited while the last one was in flight; there is no timer. Each operation is run over a shared
//! cache; what it misses is noted; one fetch brings the misses of the whole group; the operations run again from the
//! top, each seeing the writes of those before it; one commit carries the writes of all. An operation that needs rows
//! which that fetch did not bring leaves, and heads the next group, whose fetch brings all its rows in one piece: so a
//! run never mixes rows of different ages. Cache and overlay die with the group.
//!
//! Who is answered when: an operation that writes nothing and saw nobody's writes, as soon as it has run over the
//! fetch; everyone else after the commit. On `Conflict`, operations that used a named key leave, and so does everyone
//! who saw their writes; the rest run again over the same rows. Three losses, and an operation runs alone, over locked
//! rows. Every run draws new row versions.

mod alone;
mod cache;
mod lane;
mod run;

pub use self::alone::transact;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::store::Store;
use crate::tx::Versions;
use crate::work::{Fence, Work};

/// The limits of lanes and groups.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// Lanes that write, by partition of an operation's target.
    pub write_lanes: usize,
    /// Lanes that only read.
    pub read_lanes: usize,
    /// Operations in one group.
    pub max_operations: usize,
    /// Keys and scanned rows that one group fetches.
    pub max_rows: usize,
    /// Fetches that did not suffice, after which an operation is given up as retriable; a path has at most 1000
    /// components, each may cost one.
    pub max_rounds: u32,
    /// Operations that may wait in one lane; more are refused as busy.
    pub queue: usize,
    /// Back-off after a failed round trip: doubled each time, with jitter, up to 64 times this.
    pub backoff: Duration,
    /// Where the jitter of the back-off comes from: `None` in production; a number makes a simulation repeatable.
    pub seed: Option<u64>,
}

impl Default for GroupConfig {
    fn default() -> Self {
        GroupConfig {
            write_lanes: 2,
            read_lanes: 1,
            max_operations: 64,
            max_rows: 4000,
            max_rounds: 1100,
            queue: 4096,
            backoff: Duration::from_millis(2),
            seed: None,
        }
    }
}

/// The lanes of one incarnation of a namenode over one store. Dropping it lets queued work finish and ends the lanes.
///
/// Once its [`Fence`] says that this namenode was evicted, everything in all lanes, and everything that is still sent
/// to them, ends [`Fenced`](crate::work::End::Fenced) without touching the store. Joining anew means new lanes, with
/// the new incarnation's fence and versions.
pub struct Lanes {
    write: Vec<mpsc::Sender<Box<dyn Work>>>,
    read: Vec<mpsc::Sender<Box<dyn Work>>>,
    fenced: Arc<AtomicBool>,
}

impl Lanes {
    /// Starts the lanes' tasks on the current tokio runtime.
    pub fn start(
        store: Arc<dyn Store>,
        fence: Arc<dyn Fence>,
        versions: Versions,
        config: &GroupConfig,
    ) -> Lanes {
        let fenced = Arc::new(AtomicBool::new(false));
        let start = |number: usize, writes: bool| {
            let (sender, receiver) = mpsc::channel(config.queue.max(1));
            let lane = lane::Lane {
                store: store.clone(),
                fence: fence.clone(),
                versions: versions.clone(),
                config: config.clone(),
                number,
                writes,
                fenced: fenced.clone(),
            };
            tokio::spawn(lane.serve(receiver));
            sender
        };
        Lanes {
            write: (0..config.write_lanes.max(1)).map(|n| start(n, true)).collect(),
            read: (0..config.read_lanes.max(1)).map(|n| start(n, false)).collect(),
            fenced,
        }
    }

    /// Whether this namenode was found evicted; see [`Lanes`].
    pub fn are_fenced(&self) -> bool {
        self.fenced.load(Ordering::SeqCst)
    }

    /// Queues an operation that may write; `target` (a partition) chooses the lane. Gives the work back when the
    /// lane's queue is full.
    pub fn write(&self, target: u64, work: Box<dyn Work>) -> Result<(), Box<dyn Work>> {
        send(&self.write, target, work)
    }

    /// Queues an operation that only reads.
    pub fn read(&self, target: u64, work: Box<dyn Work>) -> Result<(), Box<dyn Work>> {
        send(&self.read, target, work)
    }
}

fn send(
    lanes: &[mpsc::Sender<Box<dyn Work>>],
    target: u64,
    work: Box<dyn Work>,
) -> Result<(), Box<dyn Work>> {
    let lane = &lanes[(target % lanes.len() as u64) as usize];
    lane.try_send(work).map_err(|refused| match refused {
        mpsc::error::TrySendError::Full(work) | mpsc::error::TrySendError::Closed(work) => work,
    })
}

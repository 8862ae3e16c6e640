//! What an operation knows besides rows: who calls, when, with which ids. Drawn once per call, kept over its runs.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use trellis_metastore::tx::Stop;

use super::hints::Hints;
use super::permission::Rights;
use super::walkjob::WalkResult;
use crate::config::Config;
use crate::datanodes::View;
use crate::user::User;

/// A call's own identity, by which its repeats are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId {
    /// The client's id: 16 random bytes per client process.
    pub client: [u8; 16],
    /// Counts up over all of the client's connections.
    pub call: i64,
}

/// Inode ids drawn for one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdBlock {
    /// The first id.
    pub first: u64,
    /// How many there are.
    pub count: u64,
}

/// A leader's term: what its housekeeping holds, so that nothing it began goes through once another leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Grows whenever leadership changes hands.
    pub number: u64,
    /// The version of the row that names the leader.
    pub version: u64,
}

/// What one call carries through all its runs.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// Who calls.
    pub user: Arc<User>,
    /// The caller's address, without port.
    pub machine: Arc<str>,
    /// When the call arrived, ms since the epoch.
    pub now_ms: i64,
    /// The identity of the call, if its answer must be kept for repeats.
    pub call_id: Option<CallId>,
    /// Ids for what it makes.
    pub ids: IdBlock,
    /// Settings.
    pub config: Arc<Config>,
    /// The cluster's block pool id.
    pub block_pool: Arc<str>,
    /// The datanodes when the call arrived.
    pub datanodes: Arc<View>,
    /// Whatever the call leaves to chance comes from this number.
    pub seed: u64,
    /// The result of the unbounded read that it asked for, if it did.
    pub walked: Option<Arc<WalkResult>>,
    /// What this namenode believes about ids; only prefetches.
    pub hints: Option<Arc<Hints>>,
    /// Where the operation notes the inode that it came to, if the audit log is to show it.
    pub outcome: Option<Arc<Mutex<Option<Rights>>>>,
}

impl Ctx {
    /// Hints that an inode will be found under a name from now on (if the operation comes through).
    pub fn expect(&self, parent: u64, name: &Bytes, id: u64) {
        if let Some(hints) = &self.hints {
            hints.saw(parent, name, id);
        }
    }

    /// The `n`-th new inode id of this call, the same in every run.
    pub fn new_id(&self, n: u64) -> Result<u64, Stop> {
        match n < self.ids.count {
            true => Ok(self.ids.first + n),
            false => Err(Stop::Fault(format!("a call drew {} ids and wants one more", self.ids.count))),
        }
    }
}

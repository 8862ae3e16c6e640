//! Where operations run: over a group's cache, or straight over an embedded engine's own snapshots and transactions.

use std::sync::Arc;

use trellis_metastore::counters::Counters;
use trellis_metastore::group::{GroupConfig, Lanes};
use trellis_metastore::store::Store;
use trellis_metastore::tx::{Stop, Tx as RowTx, Versions};
use trellis_metastore::work::{Fence, Work};

/// A store with the lanes in front of it.
pub enum Backend {
    /// Any store: waiting operations share one fetch and one commit.
    Grouped {
        /// The store.
        store: Arc<dyn Store>,
        /// Its lanes.
        lanes: Lanes,
    },
}

/// What an inline read came to.
pub enum Inline<T> {
    /// It ran.
    Ran(T),
    /// This backend does not run reads inline.
    NotHere,
}

impl Backend {
    /// Lanes over any store, on the current tokio runtime.
    pub fn grouped(
        store: Arc<dyn Store>,
        fence: Arc<dyn Fence>,
        versions: Versions,
        config: &GroupConfig,
    ) -> Backend {
        let lanes = Lanes::start(store.clone(), fence, versions, config);
        Backend::Grouped { store, lanes }
    }

    /// The store, for jobs that walk whole tables.
    pub fn store(&self) -> &dyn Store {
        match self {
            Backend::Grouped { store, .. } => store.as_ref(),
        }
    }

    /// What the store counted.
    pub fn counters(&self) -> &Counters {
        self.store().counters()
    }

    /// Whether hints are of use: not where reading a row costs no trip.
    pub fn uses_hints(&self) -> bool {
        match self {
            Backend::Grouped { .. } => true,
        }
    }

    /// Queues an operation that may write; gives it back when the queue is full.
    pub fn write(&self, target: u64, work: Box<dyn Work>) -> Result<(), Box<dyn Work>> {
        match self {
            Backend::Grouped { lanes, .. } => lanes.write(target, work),
        }
    }

    /// Queues an operation that only reads.
    pub fn read(&self, target: u64, work: Box<dyn Work>) -> Result<(), Box<dyn Work>> {
        match self {
            Backend::Grouped { lanes, .. } => lanes.read(target, work),
        }
    }

    /// Runs a read in the caller's own task, where the backend allows it.
    pub fn read_inline<T>(
        &self,
        _read: impl FnOnce(&mut RowTx<'_>) -> Result<T, Stop>,
    ) -> Inline<Result<T, Stop>> {
        match self {
            Backend::Grouped { .. } => Inline::NotHere,
        }
    }
}

//! Where operations run: over a group's cache, or straight over an embedded engine's own snapshots and transactions.

use std::sync::Arc;

use tokio::runtime::Handle;
use trellis_metastore::counters::Counters;
use trellis_metastore::group::{GroupConfig, Lanes};
use trellis_metastore::lmdb::{DelayedPath, Lmdb, Writer};
use trellis_metastore::open::Opened;
use trellis_metastore::store::{Store, StoreError};
use trellis_metastore::tx::{Tx as RowTx, Versions};
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
    /// The embedded store: reads run inline over a snapshot, writes in the one writer's transactions.
    Embedded {
        /// The store.
        lmdb: Lmdb,
        /// Its writer.
        writer: Writer,
    },
    /// The same a round trip away, for measuring: nothing runs inline.
    Delayed(DelayedPath),
}

impl Backend {
    /// Puts lanes in front of a store, on the current tokio runtime.
    pub fn start(
        opened: &Opened,
        fence: Arc<dyn Fence>,
        versions: Versions,
        config: &GroupConfig,
    ) -> Result<Backend, StoreError> {
        match opened {
            Opened::Other(store) => {
                let lanes = Lanes::start(store.clone(), fence, versions, config);
                Ok(Backend::Grouped { store: store.clone(), lanes })
            }
            Opened::Lmdb(lmdb) => {
                let writer = Writer::start(lmdb, fence, versions, config, Handle::current())?;
                Ok(Backend::Embedded { lmdb: lmdb.clone(), writer })
            }
            Opened::Delayed(store) => {
                let writer = Writer::start(store.inner(), fence, versions, config, Handle::current())?;
                Ok(Backend::Delayed(DelayedPath::new(store.clone(), writer, config.queue)))
            }
        }
    }

    /// How many lanes that write there are over a store.
    pub fn write_lanes(opened: &Opened, config: &GroupConfig) -> usize {
        match opened {
            Opened::Lmdb(_) | Opened::Delayed(_) => 1,
            Opened::Other(_) => config.write_lanes.max(1),
        }
    }

    /// The store, for jobs that walk whole tables.
    pub fn store(&self) -> &dyn Store {
        match self {
            Backend::Grouped { store, .. } => store.as_ref(),
            Backend::Embedded { lmdb, .. } => lmdb,
            Backend::Delayed(path) => path.store(),
        }
    }

    /// What the store counted.
    pub fn counters(&self) -> &Counters {
        self.store().counters()
    }

    /// Whether hints are of use: not where reading a row costs no trip.
    pub fn uses_hints(&self) -> bool {
        matches!(self, Backend::Grouped { .. })
    }

    /// Queues an operation that may write; gives it back when the queue is full.
    pub fn write(&self, target: u64, work: Box<dyn Work>) -> Result<(), Box<dyn Work>> {
        match self {
            Backend::Grouped { lanes, .. } => lanes.write(target, work),
            Backend::Embedded { writer, .. } => writer.write(target, work),
            Backend::Delayed(path) => path.write(target, work),
        }
    }

    /// Queues an operation that only reads; for backends that do not run reads inline.
    pub fn read(&self, target: u64, work: Box<dyn Work>) -> Result<(), Box<dyn Work>> {
        match self {
            Backend::Grouped { lanes, .. } => lanes.read(target, work),
            Backend::Delayed(path) => path.read(work),
            Backend::Embedded { .. } => Err(work),
        }
    }

    /// Runs a read in the caller's own task, where the backend allows it; `None` where it does not.
    pub fn read_inline<T>(&self, read: impl FnOnce(&mut RowTx<'_>) -> T) -> Option<Result<T, StoreError>> {
        match self {
            Backend::Grouped { .. } | Backend::Delayed(_) => None,
            Backend::Embedded { lmdb, .. } => Some(lmdb.read(|view| read(&mut RowTx::read_only(view)))),
        }
    }
}

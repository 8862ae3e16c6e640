//! A datanode from before it knows its cluster: what its actors have in common, and the opening of its store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{OnceCell, mpsc, watch};
use trellis_proto::hdfs::DatanodeIdProto;
use trellis_proto::hdfs::datanode::DatanodeCommandProto;

use crate::config::Config;
use crate::metrics::{Gauges, Metrics};
use crate::namenodes::Namenodes;
use crate::shared::{Shared, Slots, Sockets};
use crate::store::{BlockStore, Event, EventSink, Pool};
use crate::transfer::large::LargePackets;
use crate::transfer::throttle::Throttle;

/// Copies for the namenode that may wait.
const MAX_COPIES_WAITING: usize = 10_000;

/// Opens the store of a pool; it may take its time, and is called once.
pub type Opener = Box<dyn FnOnce(Pool, EventSink) -> crate::store::Result<Arc<dyn BlockStore>> + Send>;

/// What the actors of a datanode share.
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) namenodes: Arc<Namenodes>,
    pub(crate) metrics: Arc<Metrics>,
    /// Commands to obey.
    pub(crate) commands: mpsc::Sender<DatanodeCommandProto>,
    /// How many namenodes have ever known this datanode and its room.
    pub(crate) known: watch::Sender<usize>,
    /// The store, once it is open.
    pub(crate) opened: watch::Sender<Option<Arc<Shared>>>,
    /// How many volumes failed.
    pub(crate) failures: watch::Sender<u64>,
    /// Somebody who may wants this datanode to stop.
    pub(crate) shutdown: watch::Sender<bool>,
    /// As it registers, but for the uuid, which the store knows.
    pub(crate) id: DatanodeIdProto,
    pub(crate) open: Mutex<Option<Opener>>,
    /// Closed when the store is.
    pub(crate) closed: Mutex<Option<mpsc::Receiver<()>>>,
    /// Set when the store is open.
    pub(crate) once: OnceCell<Arc<Shared>>,
}

impl Node {
    /// The store of this pool, opened if it is not. A failure is for good: it says why.
    pub(crate) async fn open(self: &Arc<Self>, pool: &Pool) -> Result<Arc<Shared>, String> {
        let opened = self.once.get_or_try_init(|| async {
            let (node, pool) = (self.clone(), pool.clone());
            let opening = tokio::task::spawn_blocking(move || node.open_store(&pool));
            let shared = opening.await.map_err(|error| error.to_string())??;
            self.opened.send_replace(Some(shared.clone()));
            Ok(shared)
        });
        opened.await.cloned()
    }

    fn open_store(self: &Arc<Self>, pool: &Pool) -> Result<Arc<Shared>, String> {
        let node = Arc::downgrade(self);
        let sink: EventSink = Box::new(move |event| {
            if let Some(node) = node.upgrade() {
                node.event(&event);
            }
        });
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let open = open.ok_or("the folders could not be opened before")?;
        let store = open(pool.clone(), sink).map_err(|error| error.to_string())?;
        let storages = store.storages();
        let types = storages.into_iter().map(|storage| (storage.storage, storage.storage_type));
        self.namenodes.opened(pool, types.collect());
        let id = DatanodeIdProto { datanode_uuid: store.datanode_uuid().to_owned(), ..self.id.clone() };
        self.namenodes.known_as(&id);
        let (alive, closed) = mpsc::channel(1);
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).replace(closed);
        let config = self.config.clone();
        Ok(Arc::new(Shared {
            store,
            namenodes: self.namenodes.clone(),
            metrics: self.metrics.clone(),
            id,
            large: LargePackets::new(config.large_packet_bytes),
            copies: Throttle::new(config.copy_bandwidth),
            balance: Throttle::new(config.balance_bandwidth),
            moves: Slots::new(config.max_moves),
            sessions: Slots::new(config.max_sessions),
            copying: Slots::new(MAX_COPIES_WAITING),
            transfers: Sockets::default(),
            writers: Sockets::default(),
            shutdown: self.shutdown.clone(),
            started: Instant::now(),
            _alive: alive,
            config,
        }))
    }

    fn event(&self, event: &Event) {
        match event {
            // The store has said what is wrong with it.
            Event::Deleted(_) | Event::Corrupt(_) => {}
            Event::Missing(replica) => {
                tracing::warn!(block = %replica.block, storage = %replica.storage, "the files of a replica are gone");
            }
            Event::VolumeFailed { storage, reason } => {
                tracing::error!(%storage, reason, "a storage failed: its replicas are served no more");
                self.metrics.volumes_failed.increment(1);
                self.failures.send_modify(|failures| *failures += 1);
            }
        }
        self.namenodes.event(event);
    }

    /// All metrics, in Prometheus' text format. Asks the disks.
    pub(crate) fn metrics_page(&self) -> String {
        let mut gauges = Gauges {
            unreported: self.namenodes.outboxes().map(|outbox| outbox.len() as f64).sum(),
            ..Gauges::default()
        };
        if let Some(shared) = self.opened.borrow().clone() {
            gauges.sessions = shared.sessions.taken() as f64;
            gauges.copying = shared.copying.taken() as f64;
            for storage in shared.store.storages().iter().filter(|storage| !storage.failed) {
                gauges.blocks += shared.store.replica_count(&storage.storage) as f64;
                gauges.capacity += storage.capacity as f64;
                gauges.used += storage.used as f64;
                gauges.remaining += storage.remaining as f64;
            }
        }
        self.metrics.render(gauges)
    }
}

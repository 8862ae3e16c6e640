//! The words of [`BlockStore`](super::BlockStore).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use trellis_proto::hdfs::ReplicaStateProto as ReplicaState;
pub use trellis_proto::hdfs::StorageTypeProto as StorageType;

/// A block and its generation stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block {
    /// Names and messages show it as a signed number, as Java does.
    pub id: u64,
    /// Generation stamp.
    pub stamp: u64,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blk_{}_{}", self.id as i64, self.stamp)
    }
}

/// The block pool of a namenode service (`NamespaceInfoProto`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// `blockPoolID`, e.g. `BP-1-127.0.0.1-2`.
    pub id: String,
    /// `clusterID`.
    pub cluster_id: String,
    /// `namespceID`
    pub namespace_id: u32,
    /// `cTime`, ms.
    pub ctime: u64,
}

/// A replica of a block on one storage of this datanode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Block and stamp.
    pub block: Block,
    /// Bytes on disk.
    pub len: u64,
    /// Its state.
    pub state: ReplicaState,
    /// Uuid of the storage that holds it.
    pub storage: Arc<str>,
}

/// Where a new replica is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// Uuid of a storage: taken if it is there and has room.
    pub storage: Option<String>,
    /// Otherwise a storage of this type; of any if None.
    pub storage_type: Option<StorageType>,
    /// Bytes that it will have at most: so much is kept free for it until it is finished.
    pub expected_len: u64,
}

/// What the datanode that leads a recovery learns about a replica (`ReplicaRecoveryInfo`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryInfo {
    /// With the stamp on disk.
    pub block: Block,
    /// Bytes on disk.
    pub len: u64,
    /// What it was before the recovery: FINALIZED, RBW or RWR.
    pub state: ReplicaState,
}

/// A storage (one `--data` folder), as heartbeats tell it. Bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageReport {
    /// Uuid, `DS-…`.
    pub storage: Arc<str>,
    /// DISK unless said otherwise.
    pub storage_type: StorageType,
    /// Its disk failed: it serves nothing until the datanode is restarted.
    pub failed: bool,
    /// Size of the file system less the reserve; of a failed one: what it had.
    pub capacity: u64,
    /// Used by this block pool's replicas.
    pub used: u64,
    /// Free for more replicas: what unfinished ones may still need and the reserve are taken off.
    pub remaining: u64,
    /// Used by others than replicas.
    pub non_dfs_used: u64,
    /// The folder, for people.
    pub path: std::path::PathBuf,
}

/// What happened to a replica or a volume without a call that asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The files of a replica that [`BlockStore::delete`](super::BlockStore::delete) took are gone: DELETED.
    Deleted(Replica),
    /// Whoever read or opened the replica (a client's reader, an append, a recovery, the scanner) found that its data
    /// does not match its sums, that its files contradict each other, or that the disk cannot read them: tell the namenode
    /// (reportBadBlocks). The replica stays until the namenode has it deleted.
    Corrupt(Replica),
    /// A replica's file is gone; so is the replica. DELETED, so that the namenode looks for another.
    Missing(Replica),
    /// A volume failed; its replicas are no longer shown.
    VolumeFailed {
        /// Uuid of the storage.
        storage: Arc<str>,
        /// What went wrong.
        reason: String,
    },
}

/// Takes events; it must be quick and must not call the store.
pub type EventSink = Box<dyn Fn(Event) + Send + Sync>;

/// Told to a writer when its replica is taken over.
pub type WriterStopped = Box<dyn FnOnce() + Send>;

/// How many bytes of a replica all datanodes further down its pipeline have acked: readers may count on them.
#[derive(Debug, Clone, Default)]
pub struct Acked(Arc<AtomicU64>);

impl Acked {
    /// So many from the start.
    pub fn new(len: u64) -> Self {
        Acked(Arc::new(AtomicU64::new(len)))
    }

    /// The first `len` bytes are acked; it never goes back.
    pub fn advance(&self, len: u64) {
        self.0.fetch_max(len, Ordering::AcqRel);
    }

    /// Bytes.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

//! What a datanode does with replicas. The data-transfer sessions, the actors and the servers know this trait only.
//!
//! Every call **blocks** on file IO: from async code, run it on a thread that may block. Calls for one block exclude
//! each other; those for different blocks seldom do: one that changes a state may wait for another's IO, where both
//! happen to share a lock of many. None waits for a writer or reader that is merely open, nor a packet for other blocks.
//!
//! A store holds one block pool. Whoever gets a block off the wire compares its pool with [`BlockStore::pool`] once.
//!
//! The states of a replica, and what leads from one to the next (`FsDatasetImpl` of stock HDFS has the same):
//!
//! ```text
//! create_temporary → TEMPORARY → finish → FINALIZED            (a copy from another datanode)
//!                              → into_rbw → RBW                (a copy of an unfinished block, TRANSFER_RBW)
//! create_rbw ──────→ RBW → finish → FINALIZED                  (a client writes)
//!                    RBW → recover_rbw, recover_append → RBW   (a new stamp; the old writer is stopped)
//!                    RBW → recover_close → FINALIZED
//! append, recover_append: FINALIZED → RBW
//! a restart:         RBW → RWR                                 (as long as the sums verify)
//! init_recovery:     FINALIZED, RBW, RWR → RUR → update_recovery → FINALIZED
//! ```

mod error;
mod types;

pub use error::StoreError;
pub use types::{
    Acked, Block, Event, EventSink, Pool, RecoveryInfo, Replica, ReplicaState, StorageReport, StorageType,
    Target, WriterStopped,
};

use trellis_proto::checksum::Checksum;

/// The result of a call to a store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Replicas on this machine's volumes.
pub trait BlockStore: Send + Sync {
    /// The block pool whose replicas these are.
    fn pool(&self) -> &Pool;

    /// This datanode's uuid, the same for ever.
    fn datanode_uuid(&self) -> &str;

    /// What is known about a replica, whatever its stamp.
    fn replica(&self, block_id: u64) -> Option<Replica>;

    /// Starts a replica that a client writes (PIPELINE_SETUP_CREATE), with `checksum` on disk. `AlreadyExists` if
    /// there is one, whatever its stamp: what it has may have been acked.
    fn create_rbw(&self, block: Block, target: &Target, checksum: Checksum)
    -> Result<Box<dyn ReplicaWriter>>;

    /// Starts a copy from another datanode, which no report shows until it is finished; otherwise as
    /// [`BlockStore::create_rbw`], but it replaces one that is being written with a lower stamp, whose writer is
    /// stopped.
    fn create_temporary(
        &self,
        block: Block,
        target: &Target,
        checksum: Checksum,
    ) -> Result<Box<dyn ReplicaWriter>>;

    /// Opens a FINALIZED replica of `len` bytes for more (PIPELINE_SETUP_APPEND); it gets `new_stamp`, which may be the
    /// one that it has: not every client asks for a new one. The sum of a partial last chunk is verified.
    fn append(&self, block: Block, new_stamp: u64, len: u64) -> Result<Box<dyn ReplicaWriter>>;

    /// As [`BlockStore::append`], or goes on with an RBW whose append failed (PIPELINE_SETUP_APPEND_RECOVERY): all its
    /// bytes must have been acked. The old writer is stopped first.
    fn recover_append(&self, block: Block, new_stamp: u64, len: u64) -> Result<Box<dyn ReplicaWriter>>;

    /// Goes on with an RBW after its pipeline broke (PIPELINE_SETUP_STREAMING_RECOVERY). It must have acked at least
    /// `min_len` bytes and received at most `max_len`; what was not acked is cut off. The old writer is stopped first.
    fn recover_rbw(
        &self,
        block: Block,
        new_stamp: u64,
        min_len: u64,
        max_len: u64,
    ) -> Result<Box<dyn ReplicaWriter>>;

    /// Finalizes a replica of `len` bytes whose pipeline broke while it was closed (PIPELINE_CLOSE_RECOVERY); one that
    /// is FINALIZED gets the new stamp only. The old writer is stopped first.
    fn recover_close(&self, block: Block, new_stamp: u64, len: u64) -> Result<Replica>;

    /// Opens a replica for reading; not a TEMPORARY one. Its stamp may be newer than `block.stamp`, not older.
    fn read(&self, block: Block) -> Result<Box<dyn ReplicaReader>>;

    /// How many bytes of a replica with at least this stamp a reader may count on: all of a FINALIZED one, what was
    /// acked of an RBW. None: on none, since nobody knows what was acked of an RWR, and a TEMPORARY one is no replica yet.
    fn visible_len(&self, block: Block) -> Result<Option<u64>>;

    /// Forgets replicas at once and deletes their files in the background; [`Event::Deleted`] follows, unless by then
    /// the storage has the block again. Their writers
    /// are stopped. Returns those that were refused, with the reason: not there, or of another stamp.
    fn delete(&self, blocks: &[Block]) -> Vec<(Block, StoreError)>;

    /// Begins the recovery of a block (`InterDatanodeProtocol.initReplicaRecovery`): stops its writer and makes it RUR,
    /// which no recovery with a lower id can disturb. None if there is no such replica, or a TEMPORARY one.
    fn init_recovery(&self, block: Block, recovery_id: u64) -> Result<Option<RecoveryInfo>>;

    /// Ends a recovery that [`BlockStore::init_recovery`] began with the same id: cuts the replica to `len` bytes,
    /// gives it the id's stamp and finalizes it; said again, it succeeds again. With `new_block_id` another than the
    /// block's, the first `len` bytes of a FINALIZED replica become a replica of that id and the old one stays as it
    /// was.
    fn update_recovery(&self, block: Block, recovery_id: u64, new_block_id: u64, len: u64)
    -> Result<Replica>;

    /// Shows every replica of a storage that a full report names: FINALIZED, RBW and RWR, an RUR one as what it was,
    /// no TEMPORARY ones. It is one instant: nothing changes state meanwhile, so `each` must be quick and must not
    /// call the store.
    fn report(&self, storage: &str, each: &mut dyn FnMut(&Replica));

    /// Replicas that [`BlockStore::report`] would show; they are not walked for that.
    fn replica_count(&self, storage: &str) -> u64;

    /// One for each volume, failed ones too.
    fn storages(&self) -> Vec<StorageReport>;

    /// Tells of a replica whose data a reader or peer found wrong: the scanner looks at it soon.
    fn suspect(&self, block_id: u64);
}

/// The one writer of a replica. After another took the replica over (recovery, deletion, a failed volume), every call
/// answers [`StoreError::Stopped`].
///
/// A TEMPORARY replica goes away when its writer is dropped unfinished; an RBW stays as it is, for recovery.
pub trait ReplicaWriter: Send {
    /// With the stamp that it is written under, its bytes on disk as `len`.
    fn replica(&self) -> Replica;

    /// How its sums are kept. When the sender's differ (append to a block of an older setting), write without sums.
    fn checksum(&self) -> Checksum;

    /// Where the bytes that were not yet there begin in the next packet; packets that end before it were seen.
    fn len(&self) -> u64;

    /// True before the first byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes a packet's data, which begins at `offset` of the block: bytes that are on disk already are passed over
    /// (a writer sends them again after a recovery, and the partial last chunk after a flush), a gap is refused.
    ///
    /// `sums` are those of the data's chunks in [`ReplicaWriter::checksum`], **already verified**; the first chunk is
    /// short if `offset` is in the middle of one, and then it must be the only one, as stock clients send it. None:
    /// they are computed here, for data cut in any way.
    ///
    /// One write for the data, one for the sums. What was written may be read at once.
    fn write(&mut self, offset: u64, sums: Option<&[u8]>, data: &[u8]) -> Result<()>;

    /// Makes what was written durable: data, sums, and the names of both files (hsync).
    fn sync(&mut self) -> Result<()>;

    /// Where to note what was acked. It outlives the writer and is of no effect once the replica was taken over, so that
    /// whoever receives acks needs no lock.
    fn acked(&self) -> Acked;

    /// Finalizes the replica; with `sync_on_close` it is durable first. Call it
    /// before the last packet is acked.
    fn finish(self: Box<Self>) -> Result<Replica>;

    /// Turns a TEMPORARY replica into an RBW whose first `acked` bytes readers may count on; its writer ends.
    fn into_rbw(self: Box<Self>, acked: u64) -> Result<Replica>;

    /// Deletes what was written, e.g. after a checksum fault in a copy; no [`Event::Deleted`] follows.
    fn abandon(self: Box<Self>);

    /// `stopped` is called once when another takes the replica over, on that one's thread: it must be quick and must
    /// not call the store. Without this, the writer learns of it at its next call.
    fn on_stop(&mut self, stopped: WriterStopped);
}

/// Reads one replica as it was when it was opened, whoever appends to it, and also while it is deleted.
pub trait ReplicaReader: Send {
    /// As it was when it was opened; `len` is what can be read, which may be more than what was acked of an RBW. A
    /// reader that wants more of a replica being written opens it again, a little later.
    fn replica(&self) -> &Replica;

    /// How it was cut into chunks.
    fn checksum(&self) -> Checksum;

    /// Fills `data` with the bytes from `offset` on. The range must lie within the replica.
    fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<()>;

    /// Fills `sums` with those of the chunks from `offset` (a chunk's start) on, as many as fit. They are read ahead:
    /// a call for each packet costs no read of its own.
    fn read_sums(&mut self, offset: u64, sums: &mut [u8]) -> Result<()>;

    /// The data file, for a transfer that needs no copy in this process. Never more of it than the replica's `len`.
    fn file(&self) -> &std::fs::File;
}

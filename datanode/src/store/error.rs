//! Why a call to a store fails.

use std::path::PathBuf;

use super::{Block, ReplicaState};

/// The doc of each says which Java exception stock HDFS throws for it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// `ReplicaNotFoundException`
    #[error("Replica not found for {0}")]
    NotFound(Block),
    /// `ReplicaNotFoundException`: there is one, but not in the state, with the stamp or of the length that the call
    /// needs.
    #[error("{block}: {reason}")]
    Unfit {
        /// The block as it is here.
        block: Block,
        /// What is wrong with it.
        reason: String,
    },
    /// `ReplicaAlreadyExistsException`
    #[error("Block {block} already exists in state {} and thus cannot be created.", state.as_str_name())]
    AlreadyExists {
        /// The block as it is here.
        block: Block,
        /// Its state.
        state: ReplicaState,
    },
    /// `RecoveryInProgressException`: a recovery with a newer id has the replica.
    #[error("{block} is under recovery {recovery_id}")]
    RecoveryInProgress {
        /// The block as it is here.
        block: Block,
        /// Id (new stamp) of that recovery.
        recovery_id: u64,
    },
    /// `IOException`: another took the replica over; the writer is to end its session.
    #[error("{0} was taken over; its writer was stopped")]
    Stopped(Block),
    /// `DiskChecker$DiskOutOfSpaceException`: no volume has room.
    #[error("Out of space: no storage has {needed} bytes available")]
    OutOfSpace {
        /// Bytes that were wanted.
        needed: u64,
    },
    /// `IOException` (a reader: `ChecksumException`): sums, lengths or the header of the files contradict each other.
    #[error("{block} is corrupt on disk: {reason}")]
    Corrupt {
        /// The block.
        block: Block,
        /// What is wrong with it.
        reason: String,
    },
    /// `IOException`: the caller asks for what cannot be, such as a range outside of the replica.
    #[error("{block}: {reason}")]
    Request {
        /// The block.
        block: Block,
        /// What is wrong with the request.
        reason: String,
    },
    /// `DiskChecker$DiskErrorException`: the volume of the replica failed.
    #[error("the volume {} failed", .0.display())]
    VolumeFailed(PathBuf),
    /// `IOException`: a file could not be used.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried, e.g. "writing".
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder cannot be served: it is locked, or of another cluster, pool or layout.
    #[error("{}: {reason}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
}

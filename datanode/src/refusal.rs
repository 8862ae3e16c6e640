//! Errors of the store as the Java exceptions that stock DataNodes throw for them.

use trellis_proto::exception::{Kind, RpcError};

use crate::store::{Block, StoreError};

/// What stock adds when a replica is not there.
const NOT_FOUND_HINT: &str = ". The block may have been removed recently by the balancer or by intentionally reducing \
     the replication factor. This condition is usually harmless. To be certain, please check the preceding datanode \
     log messages for signs of a more serious issue.";

/// The exception of an error about a block of this pool.
pub(crate) fn exception(pool: &str, error: &StoreError) -> RpcError {
    let kind = match error {
        StoreError::NotFound(_) | StoreError::Unfit { .. } => Kind::ReplicaNotFound,
        StoreError::RecoveryInProgress { .. } => Kind::RecoveryInProgress,
        _ => Kind::Io,
    };
    let text = match error {
        StoreError::NotFound(block) => {
            format!("Replica not found for {}{NOT_FOUND_HINT}", in_pool(pool, *block))
        }
        other => other.to_string(),
    };
    RpcError::new(kind, text)
}

/// A block as messages name it.
pub(crate) fn in_pool(pool: &str, block: Block) -> String {
    format!("{pool}:{block}")
}

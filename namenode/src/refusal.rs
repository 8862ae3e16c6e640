//! Why an operation did not come to an answer.

use trellis_metastore::tx::Stop;
pub use trellis_proto::exception::{Kind, RpcError};

use crate::engine::walkjob::WalkJob;

/// What an operation returns.
pub type Result<T> = std::result::Result<T, Halt>;

/// Why a run of an operation ended without an answer.
#[derive(Debug)]
pub enum Halt {
    /// The store does not have a row at hand, or failed: the engine deals with it.
    Stop(Stop),
    /// The caller is told no. Nothing is written.
    Refused(RpcError),
    /// The caller is told no, and yet what was written counts: a file whose writer is past the soft limit is closed by
    /// the create that is refused because of it.
    RefusedAfter(RpcError),
    /// It needs the result of an unbounded read first: the engine makes it, outside every transaction, and runs the
    /// operation again with the result in its `Ctx`.
    Needs(WalkJob),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        Halt::Stop(stop)
    }
}

impl From<RpcError> for Halt {
    fn from(error: RpcError) -> Self {
        Halt::Refused(error)
    }
}

/// Refuses with an exception of `kind`.
pub fn refuse<T>(kind: Kind, message: impl Into<String>) -> Result<T> {
    Err(Halt::Refused(RpcError::new(kind, message)))
}

//! Why a data-transfer session ends before its op is done.

use std::io;

use trellis_proto::checksum::ChecksumError;
use trellis_proto::exception::{Kind, Log, RpcError};

use super::acks::AckFault;
use super::peer::is_gone;
use crate::refusal::exception;
use crate::store::StoreError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The connection, or what came over it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The replica.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// What came does not match its sums.
    #[error("{0}")]
    Checksum(ChecksumError),
    /// Acks from the next datanode.
    #[error("{0}")]
    Ack(#[from] AckFault),
    /// This datanode does not do it, now or ever; the peer is told.
    #[error("{0}")]
    Refused(String),
    /// Another datanode did not do its part.
    #[error("{0}")]
    Elsewhere(String),
}

impl Fault {
    /// How loudly it is logged: peers come and go.
    pub(crate) fn log(&self) -> Log {
        match self {
            Fault::Store(StoreError::NotFound(_) | StoreError::Unfit { .. } | StoreError::Stopped(_)) => {
                Log::Info
            }
            Fault::Store(_) | Fault::Checksum(_) | Fault::Ack(AckFault::SentCorrupt) => Log::Warn,
            Fault::Io(error) if is_gone(error) => Log::Debug,
            Fault::Io(_) | Fault::Ack(_) | Fault::Refused(_) | Fault::Elsewhere(_) => Log::Info,
        }
    }

    /// As stock DataNodes name it in their answers: Java class and text.
    pub(crate) fn as_java(&self, pool: &str) -> String {
        let error = match self {
            Fault::Store(error) => exception(pool, error),
            other => RpcError::new(Kind::Io, other.to_string()),
        };
        format!("{}: {}", error.kind.class(), error.message)
    }
}

//! Hadoop RPC, version 9, as pure functions over buffers: bytes in, events and bytes out.
//!
//! A server feeds a [`ServerConn`] and answers with [`reply`]; a client uses [`client`]. Neither does any IO.

pub mod client;
mod field;
mod header;
mod preamble;
pub mod reply;
mod sasl;
mod server;

pub use preamble::Auth;
pub use server::{Call, Context, Event, ServerConn};

use bytes::Bytes;

use crate::exception::{Kind, RpcError};

/// Version of the RPC protocol itself.
pub const IPC_VERSION: u8 = 9;
/// Call id of the connection context.
pub const CONTEXT_CALL_ID: i32 = -3;
/// Call id of a ping.
pub const PING_CALL_ID: i32 = -4;
/// Call id of all SASL messages.
pub const SASL_CALL_ID: i32 = -33;
/// Call id of answers that belong to no call.
pub(crate) const NO_CALL_ID: i32 = -1;
/// Retry count of frames that are not calls.
pub(crate) const NO_RETRY: i32 = -1;

/// What identifies a call: a response carries it back, and the retry cache goes by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallId {
    /// Counts up within one client over all its connections.
    pub call_id: i32,
    /// Above 0 for a repeat.
    pub retry_count: i32,
    /// 16 random bytes for one client process; empty from clients that do not care for repeats.
    pub client_id: Bytes,
}

impl CallId {
    /// What the server answers outside of calls.
    pub(crate) fn out_of_band(call_id: i32, retry_count: i32) -> Self {
        Self { call_id, retry_count, client_id: Bytes::new() }
    }

    /// The retry cache's key: client and call. None for a client without an id and for negative call ids.
    /// A client id of another length than 16 is refused, as stock refuses it on methods that use the cache.
    pub fn retry_key(&self) -> Result<Option<([u8; 16], i32)>, RpcError> {
        if self.client_id.is_empty() || self.call_id < 0 {
            return Ok(None);
        }
        match <[u8; 16]>::try_from(&self.client_id[..]) {
            Ok(client) => Ok(Some((client, self.call_id))),
            Err(_) => Err(RpcError::new(
                Kind::IllegalArgument,
                format!("Invalid clientId - length is {} expected length 16", self.client_id.len()),
            )),
        }
    }
}

//! One namenode: a connection to it, made when there is a call for it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use prost::Message;
use trellis_proto::methods::{Rpc, Service};
use trellis_proto::presence::{Checked, decode_request};
use trellis_proto::rpc::CallId;

use crate::config::ConnectionConfig;
use crate::connection::{Connection, Dial, Identity, Refusal};
use crate::error::{Error, Fault, Result};
use crate::uri::Address;

/// A connection may turn out to be closed for idleness, and so may its successor, if we were asleep; not more often.
const MAX_REOPENS: usize = 4;

/// A handle on one namenode; clones share its connection.
#[derive(Clone)]
pub struct Namenode(Arc<Link>);

#[derive(Debug)]
struct Link {
    dial: Arc<Dial>,
    connection: Mutex<Option<Arc<Connection>>>,
}

impl Namenode {
    pub(crate) fn new(dial: Dial) -> Self {
        Self(Arc::new(Link { dial: Arc::new(dial), connection: Mutex::new(None) }))
    }

    /// A handle on one server of Hadoop RPC by itself, spoken to as `user`: a namenode's, or a datanode's. Nothing is
    /// connected before the first call.
    pub fn alone(
        address: Address,
        service: &'static Service,
        user: String,
        config: ConnectionConfig,
    ) -> Self {
        Self::new(Dial {
            address,
            service,
            identity: Arc::new(Identity::new(user, None)),
            config,
            runtime: None,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.0.dial.address
    }

    /// Calls a method of this namenode and of no other, once, whatever comes of it: for questions about a namenode
    /// itself, such as its safe mode.
    pub async fn call_once<Request: Message, Response: Checked>(
        &self,
        rpc: &Rpc<Request, Response>,
        request: &Request,
    ) -> Result<Response> {
        let identity = &self.0.dial.identity;
        let id = CallId {
            call_id: identity.next_call_id(),
            retry_count: 0,
            client_id: identity.client_id.clone(),
        };
        let answer = self.send(rpc, &id, request).await;
        let decoded = answer.and_then(|bytes| decode(rpc, bytes));
        decoded.map_err(|fault| Error::new(rpc.name, self.address().to_string(), 1, fault))
    }

    /// One attempt of a call. The answer is still encoded.
    pub(crate) async fn send<Request: Message, Response>(
        &self,
        rpc: &Rpc<Request, Response>,
        id: &CallId,
        request: &Request,
    ) -> std::result::Result<Bytes, Fault> {
        for _ in 0..MAX_REOPENS {
            let connection = self.connection()?;
            match connection.call(&self.0.dial, rpc, id, request).await {
                Ok(bytes) => return Ok(bytes),
                Err(Refusal::Fault(fault)) => return Err(fault),
                Err(Refusal::Idle) => {}
            }
        }
        Err(Fault::NotSent("every new connection was idle for too long before the call got its turn".into()))
    }

    pub(crate) fn is(&self, other: &Namenode) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn connection(&self) -> std::result::Result<Arc<Connection>, Fault> {
        let mut slot = self.0.connection.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(connection) if !connection.is_ended() => Ok(connection.clone()),
            _ => {
                let connection = Arc::new(Connection::open(self.0.dial.clone())?);
                *slot = Some(connection.clone());
                Ok(connection)
            }
        }
    }
}

impl fmt::Debug for Namenode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Namenode({})", self.address())
    }
}

/// The answer as the method's message.
pub(crate) fn decode<Request, Response: Checked>(
    _: &Rpc<Request, Response>,
    bytes: Bytes,
) -> std::result::Result<Response, Fault> {
    decode_request(bytes)
        .map_err(|error| Fault::Unusable(format!("the answer cannot be read: {}", error.message)))
}

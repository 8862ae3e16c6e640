//! One connection, seen from the server: a state machine that turns received bytes into events.

use bytes::{Bytes, BytesMut};

use super::header::{MethodHeader, RpcHeader};
use super::preamble::{self, Auth};
use super::sasl::{self, Step};
use super::{CONTEXT_CALL_ID, CallId, NO_CALL_ID, NO_RETRY, PING_CALL_ID, SASL_CALL_ID, reply};
use crate::common::rpc_response_header_proto::RpcErrorCodeProto as Code;
use crate::common::{
    IpcConnectionContextProto, RpcKindProto, RpcSaslProto, rpc_request_header_proto::OperationProto,
};
use crate::exception::{Kind, RpcError};
use crate::frame::{next_frame, take_delimited};
use crate::methods::{Method, Service};
use crate::presence::decode_request;

/// What happened on a connection.
#[derive(Debug)]
pub enum Event {
    /// A call to answer, sooner or later and in any order.
    Call(Call),
    /// Who the connection belongs to; comes once, before the first call.
    Context(Context),
    /// Send this frame.
    Reply(Bytes),
    /// Send this (if it is not empty), then close; nothing more comes.
    ReplyAndClose(Bytes),
    /// A sign of life; wants no answer.
    Ping,
}

/// A call of a method that the server serves.
#[derive(Debug)]
pub struct Call {
    /// Goes back with the answer.
    pub id: CallId,
    /// The protocol, one of those given to [`ServerConn::new`].
    pub service: &'static Service,
    /// The method.
    pub method: &'static Method,
    /// The encoded request message, for [`decode_request`].
    pub body: Bytes,
    /// `callerContext`, for the audit log: UTF-8, empty if absent.
    pub caller_context: Bytes,
}

/// The connection's user, believed as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Short name. None: an anonymous client, to be treated as nobody.
    pub user: Option<String>,
    /// Who acts for `user`, if another.
    pub real_user: Option<String>,
    /// The Java protocol that the client opened the connection for; calls may be of any other.
    pub protocol: Option<String>,
}

/// The server's side of one connection.
#[derive(Debug)]
pub struct ServerConn {
    services: &'static [&'static Service],
    max_frame_bytes: usize,
    nonce: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Preamble,
    Sasl { negotiated: bool },
    AwaitContext,
    Open,
    Closed,
}

/// What ends a connection: the answer's error detail, class and text.
type Fatal = (Code, RpcError);

impl ServerConn {
    /// A connection on which nothing was received yet. `nonce` differs between connections; it need not be secret.
    pub fn new(services: &'static [&'static Service], max_frame_bytes: usize, nonce: u64) -> Self {
        Self { services, max_frame_bytes, nonce, state: State::Preamble }
    }

    /// Takes the next event off the received bytes; None: read more into `buf` and ask again.
    ///
    /// After [`Event::ReplyAndClose`] everything that is received is dropped.
    pub fn next_event(&mut self, buf: &mut BytesMut) -> Option<Event> {
        loop {
            if self.state == State::Closed {
                buf.clear();
                return None;
            }
            if self.state == State::Preamble {
                match preamble::take(buf)? {
                    Ok(Auth::None) => self.state = State::AwaitContext,
                    Ok(Auth::Sasl) => self.state = State::Sasl { negotiated: false },
                    Err(last_words) => return Some(self.close(last_words)),
                }
            }
            match next_frame(buf, self.max_frame_bytes) {
                Ok(None) => return None,
                // The end of a negotiation is no event: go on with the next frame.
                Ok(Some(frame)) => match self.frame(frame) {
                    None => continue,
                    event => return event,
                },
                Err(_) => return Some(self.close(Bytes::new())),
            }
        }
    }

    /// Whether the connection is to be closed.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Refuses the user of [`Event::Context`]: answers what to send before closing. Nothing more comes.
    pub fn refuse_user(&mut self, error: &RpcError) -> Bytes {
        self.state = State::Closed;
        reply::fatal(&CallId::out_of_band(CONTEXT_CALL_ID, NO_RETRY), Code::FatalUnauthorized, error)
    }

    fn close(&mut self, last_words: Bytes) -> Event {
        self.state = State::Closed;
        Event::ReplyAndClose(last_words)
    }

    fn frame(&mut self, mut frame: Bytes) -> Option<Event> {
        let (bytes, header) = match decode_rpc_header(&mut frame) {
            Ok(decoded) => decoded,
            Err((code, error)) => {
                return Some(self.close(reply::fatal(
                    &CallId::out_of_band(NO_CALL_ID, NO_RETRY),
                    code,
                    &error,
                )));
            }
        };
        let result = check_header(&header).and_then(|()| match header.call_id {
            CONTEXT_CALL_ID => self.context(frame).map(Some),
            SASL_CALL_ID => self.sasl(frame),
            PING_CALL_ID => Ok(Some(Event::Ping)),
            other @ ..=-1 => Err(invalid(format!("Unknown out of band call #{other}"))),
            _ if self.state != State::Open => Err(invalid("Connection context not established")),
            _ => self.call(&bytes, &header, frame).map(Some),
        });
        result.unwrap_or_else(|(code, error)| {
            let id = CallId::out_of_band(header.call_id, header.retry_count);
            Some(self.close(reply::fatal(&id, code, &error)))
        })
    }

    fn context(&mut self, mut frame: Bytes) -> Result<Event, Fatal> {
        match self.state {
            State::Sasl { .. } => return Err(invalid("Connection header sent during SASL negotiation")),
            State::Open => return Err(invalid("Connection context already processed")),
            _ => {}
        }
        let context = decode::<IpcConnectionContextProto>(&mut frame, "IpcConnectionContextProto")?;
        self.state = State::Open;
        let user = context.user_info.unwrap_or_default();
        Ok(Event::Context(Context {
            user: user.effective_user,
            real_user: user.real_user,
            protocol: context.protocol,
        }))
    }

    fn sasl(&mut self, mut frame: Bytes) -> Result<Option<Event>, Fatal> {
        let State::Sasl { negotiated } = self.state else {
            return Err(invalid("SASL protocol not requested by client"));
        };
        let message = decode::<RpcSaslProto>(&mut frame, "RpcSaslProto")?;
        match sasl::step(&message, negotiated, self.nonce) {
            Step::Reply(answer) => {
                self.state = State::Sasl { negotiated: true };
                let mut out = BytesMut::new();
                reply::put_success(&mut out, &CallId::out_of_band(SASL_CALL_ID, NO_RETRY), &answer);
                Ok(Some(Event::Reply(out.freeze())))
            }
            Step::Simple => {
                self.state = State::AwaitContext;
                Ok(None)
            }
            Step::Refuse(code, error) => Err((code, error)),
        }
    }

    /// `header_bytes` is what `header`'s ranges point into; `frame` is the rest of the frame.
    fn call(&mut self, header_bytes: &Bytes, header: &RpcHeader, mut frame: Bytes) -> Result<Event, Fatal> {
        if header.rpc_kind != Some(RpcKindProto::RpcProtocolBuffer.into()) {
            let name = header.rpc_kind.and_then(|k| RpcKindProto::try_from(k).ok()).map(|k| k.as_str_name());
            return Err(invalid(format!("Unknown rpc kind in rpc header{}", name.unwrap_or_default())));
        }
        let id = CallId {
            call_id: header.call_id,
            retry_count: header.retry_count,
            client_id: header_bytes.slice(header.client_id.clone()),
        };
        match self.find(&mut frame) {
            Ok((service, method, body)) => {
                let caller_context = header_bytes.slice(header.caller_context.clone());
                Ok(Event::Call(Call { id, service, method, body, caller_context }))
            }
            Err(error) => {
                let mut out = BytesMut::new();
                reply::put_error(&mut out, &id, &error);
                Ok(Event::Reply(out.freeze()))
            }
        }
    }

    /// The method that a call names, and its request.
    fn find(&self, frame: &mut Bytes) -> Result<(&'static Service, &'static Method, Bytes), RpcError> {
        let bytes = take_delimited(frame)?;
        let header = MethodHeader::decode(&bytes)
            .map_err(|error| RpcError::new(Kind::InvalidProtocolBuffer, error.to_string()))?;
        let MethodHeader { method: name, protocol, version } = header;
        let Some(service) = self.services.iter().find(|s| s.protocol == protocol).copied() else {
            return Err(RpcError::new(Kind::RpcNoSuchProtocol, format!("Unknown protocol: {protocol}")));
        };
        if version != service.version {
            let text = format!(
                "Protocol {protocol} version mismatch. (client = {}, server = {})",
                version as i64, service.version
            );
            return Err(RpcError::new(Kind::RpcVersionMismatch, text));
        }
        let Some(method) = service.method(name) else {
            let text = format!("Unknown method {name} called on {protocol} protocol.");
            return Err(RpcError::new(Kind::RpcNoSuchMethod, text));
        };
        Ok((service, method, take_delimited(frame)?))
    }
}

fn invalid(text: impl Into<String>) -> Fatal {
    (Code::FatalInvalidRpcHeader, RpcError::new(Kind::RpcServer, text))
}

fn undecodable(message: &str, why: &str) -> Fatal {
    let class = Kind::InvalidProtocolBuffer.class();
    let text = format!("Error decoding {message}: {class}: {why}");
    (Code::FatalDeserializingRequest, RpcError::new(Kind::RpcServer, text))
}

fn decode_rpc_header(frame: &mut Bytes) -> Result<(Bytes, RpcHeader), Fatal> {
    const NAME: &str = "RpcRequestHeaderProto";
    let bytes = take_delimited(frame).map_err(|error| undecodable(NAME, &error.to_string()))?;
    let header = RpcHeader::decode(&bytes).map_err(|error| undecodable(NAME, &error.to_string()))?;
    Ok((bytes, header))
}

fn decode<M: crate::presence::Checked>(frame: &mut Bytes, name: &str) -> Result<M, Fatal> {
    let bytes = take_delimited(frame).map_err(|error| undecodable(name, &error.to_string()))?;
    decode_request(bytes).map_err(|error| undecodable(name, &error.message))
}

fn check_header(header: &RpcHeader) -> Result<(), Fatal> {
    match header.rpc_op.and_then(|op| OperationProto::try_from(op).ok()) {
        Some(OperationProto::RpcFinalPacket) => {}
        Some(op) => {
            let text = format!("IPC Server does not implement rpc header operation{}", op.as_str_name());
            return Err(invalid(text));
        }
        None => return Err(invalid(" IPC Server: No rpc op in rpcRequestHeader")),
    }
    if header.rpc_kind.is_none() {
        return Err(invalid(" IPC Server: No rpc kind in rpcRequestHeader"));
    }
    Ok(())
}

//! What a client sends, and how it reads answers.

use bytes::{Bytes, BytesMut};
use prost::Message;

use super::preamble::{self, Auth};
use super::{CONTEXT_CALL_ID, CallId, NO_RETRY, PING_CALL_ID};
use crate::common::rpc_response_header_proto::RpcStatusProto as Status;
use crate::common::{
    IpcConnectionContextProto, RequestHeaderProto, RpcCallerContextProto, RpcKindProto,
    RpcRequestHeaderProto, RpcResponseHeaderProto, UserInformationProto,
    rpc_request_header_proto::OperationProto,
};
use crate::exception::{Kind, RpcError};
use crate::frame::{TooLarge, put_frame, take_delimited};
use crate::methods::{Rpc, Service};
use crate::presence::{Checked, decode_request};

/// Appends the preamble and the connection context of a simple (not SASL) connection.
pub fn put_hello(
    out: &mut BytesMut,
    user: &str,
    real_user: Option<&str>,
    service: &Service,
    client_id: &Bytes,
) -> Result<(), TooLarge> {
    let context = IpcConnectionContextProto {
        user_info: Some(UserInformationProto {
            effective_user: Some(user.to_owned()),
            real_user: real_user.map(str::to_owned),
        }),
        protocol: Some(service.protocol.to_owned()),
    };
    let id = CallId { call_id: CONTEXT_CALL_ID, retry_count: NO_RETRY, client_id: client_id.clone() };
    preamble::put(out, Auth::None);
    put_frame(out, &[&header(&id, None), &context])
}

/// Appends a call. `caller_context` ends up in the namenode's audit log.
pub fn put_call<Request: Message, Response>(
    out: &mut BytesMut,
    rpc: &Rpc<Request, Response>,
    id: &CallId,
    caller_context: Option<&str>,
    request: &Request,
) -> Result<(), TooLarge> {
    let method = RequestHeaderProto {
        method_name: rpc.name.to_owned(),
        declaring_class_protocol_name: rpc.service.protocol.to_owned(),
        client_protocol_version: rpc.service.version,
    };
    put_frame(out, &[&header(id, caller_context), &method, request])
}

/// Appends a ping; the server does not answer it.
pub fn put_ping(out: &mut BytesMut, client_id: &Bytes) -> Result<(), TooLarge> {
    let id = CallId { call_id: PING_CALL_ID, retry_count: NO_RETRY, client_id: client_id.clone() };
    put_frame(out, &[&header(&id, None)])
}

fn header(id: &CallId, caller_context: Option<&str>) -> RpcRequestHeaderProto {
    RpcRequestHeaderProto {
        rpc_kind: Some(RpcKindProto::RpcProtocolBuffer.into()),
        rpc_op: Some(OperationProto::RpcFinalPacket.into()),
        call_id: id.call_id,
        client_id: id.client_id.clone(),
        retry_count: Some(id.retry_count),
        caller_context: caller_context
            .map(|context| RpcCallerContextProto { context: context.to_owned(), signature: None }),
        ..Default::default()
    }
}

/// One response frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Of the call that is answered.
    pub call_id: i32,
    /// The client's own id again, or empty. Another one means that the connection is mixed up: close it.
    pub client_id: Bytes,
    /// The server closes the connection after this.
    pub fatal: bool,
    /// The encoded result, for [`Answer::decode`], or the exception.
    pub outcome: Result<Bytes, RpcError>,
}

impl Answer {
    /// Reads a frame that [`crate::frame::next_frame`] cut off. An error means that the connection is unusable.
    pub fn read(mut frame: Bytes) -> Result<Self, RpcError> {
        let header = decode_request::<RpcResponseHeaderProto>(take_delimited(&mut frame)?)?;
        let status = Status::try_from(header.status).unwrap_or(Status::Fatal);
        let outcome = match status {
            Status::Success => Ok(take_delimited(&mut frame)?),
            _ => Err(RpcError::from_wire(header.exception_class_name(), header.error_msg())),
        };
        if !frame.is_empty() {
            let text =
                format!("{} bytes are left over after the answer of call {}", frame.len(), header.call_id);
            return Err(RpcError::new(Kind::InvalidProtocolBuffer, text));
        }
        Ok(Self {
            call_id: header.call_id as i32,
            client_id: header.client_id.unwrap_or_default(),
            fatal: status == Status::Fatal,
            outcome,
        })
    }

    /// The result as the message that the method returns.
    pub fn decode<Request, Response: Checked>(
        self,
        _: &Rpc<Request, Response>,
    ) -> Result<Response, RpcError> {
        decode_request(self.outcome?)
    }
}

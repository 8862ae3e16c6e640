//! What a client sends, and how it reads answers.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::encode_varint;

use super::field::{put_string, put_varint, string_len, varint_len, zigzag};
use super::header::ResponseHeader;
use super::preamble::{self, Auth};
use super::{CONTEXT_CALL_ID, CallId, NO_RETRY, PING_CALL_ID};
use crate::common::rpc_response_header_proto::RpcStatusProto as Status;
use crate::common::{
    IpcConnectionContextProto, RpcKindProto, UserInformationProto, rpc_request_header_proto::OperationProto,
};
use crate::exception::{Kind, RpcError};
use crate::frame::{Part, TooLarge, put_frame, take_delimited};
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
    put_frame(out, [&Header { id: &id, caller_context: None }, &context])
}

/// Appends a call. `caller_context` ends up in the namenode's audit log.
pub fn put_call<Request: Message, Response>(
    out: &mut BytesMut,
    rpc: &Rpc<Request, Response>,
    id: &CallId,
    caller_context: Option<&str>,
    request: &Request,
) -> Result<(), TooLarge> {
    let method = Method { name: rpc.name, service: rpc.service };
    put_frame(out, [&Header { id, caller_context }, &method, request])
}

/// Appends a ping; the server does not answer it.
pub fn put_ping(out: &mut BytesMut, client_id: &Bytes) -> Result<(), TooLarge> {
    let id = CallId { call_id: PING_CALL_ID, retry_count: NO_RETRY, client_id: client_id.clone() };
    put_frame(out, [&Header { id: &id, caller_context: None }])
}

/// `RpcRequestHeaderProto`, put together in place: it precedes every call, so it is not to allocate.
struct Header<'a> {
    id: &'a CallId,
    caller_context: Option<&'a str>,
}

impl Part for Header<'_> {
    fn message_len(&self) -> usize {
        let Self { id, caller_context } = self;
        let context = caller_context.map_or(0, |text| string_len(string_len(text.len())));
        4 + varint_len(zigzag(id.call_id))
            + string_len(id.client_id.len())
            + varint_len(zigzag(id.retry_count))
            + context
    }

    fn put_message(&self, out: &mut BytesMut) {
        let Self { id, caller_context } = self;
        out.put_slice(&[1 << 3, RpcKindProto::RpcProtocolBuffer as u8]);
        out.put_slice(&[2 << 3, OperationProto::RpcFinalPacket as u8]);
        put_varint(out, 3, zigzag(id.call_id));
        put_string(out, 4, &id.client_id);
        put_varint(out, 5, zigzag(id.retry_count));
        if let Some(text) = caller_context {
            out.put_u8(7 << 3 | 2);
            encode_varint(string_len(text.len()) as u64, out);
            put_string(out, 1, text.as_bytes());
        }
    }
}

/// `RequestHeaderProto`.
struct Method {
    name: &'static str,
    service: &'static Service,
}

impl Part for Method {
    fn message_len(&self) -> usize {
        let Self { name, service } = self;
        string_len(name.len()) + string_len(service.protocol.len()) + varint_len(service.version)
    }

    fn put_message(&self, out: &mut BytesMut) {
        put_string(out, 1, self.name.as_bytes());
        put_string(out, 2, self.service.protocol.as_bytes());
        put_varint(out, 3, self.service.version);
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
        let header_bytes = take_delimited(&mut frame)?;
        let header = ResponseHeader::decode(&header_bytes)
            .map_err(|error| RpcError::new(Kind::InvalidProtocolBuffer, error.to_string()))?;
        let status = Status::try_from(header.status).unwrap_or(Status::Fatal);
        let outcome = match status {
            Status::Success => Ok(take_delimited(&mut frame)?),
            _ => Err(RpcError::from_wire(header.exception_class_name, header.error_msg)),
        };
        if !frame.is_empty() {
            let text =
                format!("{} bytes are left over after the answer of call {}", frame.len(), header.call_id);
            return Err(RpcError::new(Kind::InvalidProtocolBuffer, text));
        }
        Ok(Self {
            call_id: header.call_id as i32,
            client_id: header_bytes.slice(header.client_id),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::{RequestHeaderProto, RpcCallerContextProto, RpcRequestHeaderProto};
    use crate::hdfs::client_namenode_protocol::GET_FILE_INFO;

    fn encoded(part: &dyn Part) -> Vec<u8> {
        let mut out = BytesMut::new();
        put_frame(&mut out, [part]).unwrap();
        out.to_vec()
    }

    #[test]
    fn headers_are_what_prost_would_write() {
        for (call_id, retry_count, client_id, context) in [
            (0, 0, &b""[..], None),
            (CONTEXT_CALL_ID, NO_RETRY, &[7; 16][..], None),
            (i32::MAX, i32::MIN, &[9; 200][..], Some("")),
            (63, 64, &[1][..], Some(&"x".repeat(300)[..])),
        ] {
            let id = CallId { call_id, retry_count, client_id: Bytes::copy_from_slice(client_id) };
            let by_prost = RpcRequestHeaderProto {
                rpc_kind: Some(RpcKindProto::RpcProtocolBuffer.into()),
                rpc_op: Some(OperationProto::RpcFinalPacket.into()),
                call_id,
                client_id: id.client_id.clone(),
                retry_count: Some(retry_count),
                caller_context: context
                    .map(|text| RpcCallerContextProto { context: text.to_owned(), signature: None }),
                ..Default::default()
            };
            assert_eq!(encoded(&Header { id: &id, caller_context: context }), encoded(&by_prost));
        }
        let by_prost = RequestHeaderProto {
            method_name: GET_FILE_INFO.name.to_owned(),
            declaring_class_protocol_name: GET_FILE_INFO.service.protocol.to_owned(),
            client_protocol_version: GET_FILE_INFO.service.version,
        };
        let method = Method { name: GET_FILE_INFO.name, service: GET_FILE_INFO.service };
        assert_eq!(encoded(&method), encoded(&by_prost));
    }
}

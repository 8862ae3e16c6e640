//! What a server sends: each function appends, or is, one whole response frame.

use bytes::{Bytes, BytesMut};
use prost::Message;

use super::{CallId, IPC_VERSION};
use crate::common::RpcResponseHeaderProto;
use crate::common::rpc_response_header_proto::{RpcErrorCodeProto as Code, RpcStatusProto as Status};
use crate::exception::{Kind, RpcError};
use crate::frame::{TooLarge, put_frame};

/// The longest exception text that is sent, in bytes; the rest is cut off.
const MAX_MESSAGE_BYTES: usize = 32 << 10;

/// Appends the result of a call. A result that no client would take is answered with an IOException.
pub fn put_success<M: Message>(out: &mut BytesMut, id: &CallId, response: &M) {
    if let Err(TooLarge { bytes }) = put_frame(out, [&header(id, Status::Success), response]) {
        let error = RpcError::new(
            Kind::Io,
            format!("the answer has {bytes} bytes, more than a client takes: ask for less at a time"),
        );
        put_error(out, id, &error);
    }
}

/// Appends the exception that ends a call; the connection stays.
pub fn put_error(out: &mut BytesMut, id: &CallId, error: &RpcError) {
    put_exception(out, id, Status::Error, error.kind.row().code, error);
}

/// The frame of an exception that ends the connection.
pub(super) fn fatal(id: &CallId, code: Code, error: &RpcError) -> Bytes {
    let mut out = BytesMut::new();
    put_exception(&mut out, id, Status::Fatal, code, error);
    out.freeze()
}

fn put_exception(out: &mut BytesMut, id: &CallId, status: Status, code: Code, error: &RpcError) {
    let message = error.message.get(..floor_char_boundary(&error.message)).unwrap_or_default();
    let header = RpcResponseHeaderProto {
        exception_class_name: Some(error.kind.class().to_owned()),
        error_msg: Some(message.to_owned()),
        error_detail: Some(code.into()),
        ..header(id, status)
    };
    // Only a client id of over 128 MiB could make this too large, and that did not fit into a request.
    let _ = put_frame(out, [&header]);
}

fn header(id: &CallId, status: Status) -> RpcResponseHeaderProto {
    RpcResponseHeaderProto {
        call_id: id.call_id as u32,
        status: status.into(),
        server_ipc_version_num: Some(u32::from(IPC_VERSION)),
        client_id: Some(id.client_id.clone()),
        retry_count: Some(id.retry_count),
        ..Default::default()
    }
}

/// Where to cut a text so that it has at most [`MAX_MESSAGE_BYTES`].
fn floor_char_boundary(text: &str) -> usize {
    let mut at = text.len().min(MAX_MESSAGE_BYTES);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let id = CallId { call_id: 1, retry_count: 0, client_id: Bytes::new() };
        let mut out = BytesMut::new();
        put_error(&mut out, &id, &RpcError::new(Kind::Io, "é".repeat(MAX_MESSAGE_BYTES)));
        assert!(out.len() < MAX_MESSAGE_BYTES + 200);
    }

    #[test]
    fn an_answer_that_is_too_large_becomes_an_exception() {
        let id = CallId { call_id: 1, retry_count: 0, client_id: Bytes::new() };
        let huge = crate::common::RpcSaslProto {
            token: Some(Bytes::from(vec![0; crate::frame::MAX_FRAME_BYTES])),
            ..Default::default()
        };
        let mut out = BytesMut::new();
        put_success(&mut out, &id, &huge);
        assert!(out.len() < 300, "{}", out.len());
        assert!(out.windows(19).any(|w| w == b"java.io.IOException"));
    }
}

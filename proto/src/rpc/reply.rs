//! What a server sends: each function appends, or is, one whole response frame.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use super::field::{put_string, put_varint, string_len, varint_len, zigzag};
use super::{CallId, IPC_VERSION};
use crate::common::rpc_response_header_proto::{RpcErrorCodeProto as Code, RpcStatusProto as Status};
use crate::exception::{Kind, RpcError};
use crate::frame::{Part, TooLarge, put_frame};

/// The longest exception text that is sent, in bytes; the rest is cut off.
const MAX_MESSAGE_BYTES: usize = 32 << 10;

/// Appends the result of a call. A result that no client would take is answered with an IOException.
pub fn put_success<M: Message>(out: &mut BytesMut, id: &CallId, response: &M) {
    put_response(out, id, response);
}

/// Appends the result of a call, a message that is encoded already.
pub fn put_encoded(out: &mut BytesMut, id: &CallId, response: &[u8]) {
    put_response(out, id, &Encoded(response));
}

fn put_response(out: &mut BytesMut, id: &CallId, response: &dyn Part) {
    let header = Header { id, status: Status::Success, exception: None };
    if let Err(TooLarge { bytes }) = put_frame(out, [&header, response]) {
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
    let header = Header { id, status, exception: Some((error.kind.class(), message, code)) };
    // Only a client id of over 128 MiB could make this too large, and that did not fit into a request.
    let _ = put_frame(out, [&header]);
}

struct Encoded<'a>(&'a [u8]);

impl Part for Encoded<'_> {
    fn message_len(&self) -> usize {
        self.0.len()
    }

    fn put_message(&self, out: &mut BytesMut) {
        out.put_slice(self.0);
    }
}

/// `RpcResponseHeaderProto`, put together in place: it precedes every answer.
struct Header<'a> {
    id: &'a CallId,
    status: Status,
    /// Class, text, detail.
    exception: Option<(&'a str, &'a str, Code)>,
}

impl Part for Header<'_> {
    fn message_len(&self) -> usize {
        let Self { id, status, exception } = self;
        let exception = exception.map_or(0, |(class, text, code)| {
            string_len(class.len()) + string_len(text.len()) + varint_len(code as u64)
        });
        varint_len(u64::from(id.call_id as u32))
            + varint_len(*status as u64)
            + varint_len(u64::from(IPC_VERSION))
            + exception
            + string_len(id.client_id.len())
            + varint_len(zigzag(id.retry_count))
    }

    fn put_message(&self, out: &mut BytesMut) {
        let Self { id, status, exception } = self;
        put_varint(out, 1, u64::from(id.call_id as u32));
        put_varint(out, 2, *status as u64);
        put_varint(out, 3, u64::from(IPC_VERSION));
        if let Some((class, text, code)) = exception {
            put_string(out, 4, class.as_bytes());
            put_string(out, 5, text.as_bytes());
            put_varint(out, 6, *code as u64);
        }
        put_string(out, 7, &id.client_id);
        put_varint(out, 8, zigzag(id.retry_count));
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
    use crate::common::RpcResponseHeaderProto;

    #[test]
    fn headers_are_what_prost_would_write() {
        for (call_id, retry_count, client_id) in
            [(0, 0, &b""[..]), (i32::MAX, i32::MIN, &[7; 16]), (-1, -1, &[9; 200])]
        {
            let id = CallId { call_id, retry_count, client_id: Bytes::copy_from_slice(client_id) };
            let by_prost = RpcResponseHeaderProto {
                call_id: call_id as u32,
                status: Status::Success.into(),
                server_ipc_version_num: Some(u32::from(IPC_VERSION)),
                client_id: Some(id.client_id.clone()),
                retry_count: Some(retry_count),
                ..Default::default()
            };
            let (mut ours, mut prosts) = (BytesMut::new(), BytesMut::new());
            put_success(&mut ours, &id, &());
            put_frame(&mut prosts, [&by_prost as &dyn Part, &()]).unwrap();
            assert_eq!(ours, prosts);
            let body = RpcResponseHeaderProto::default();
            let (mut whole, mut encoded) = (BytesMut::new(), BytesMut::new());
            put_success(&mut whole, &id, &body);
            put_encoded(&mut encoded, &id, &body.encode_to_vec());
            assert_eq!(whole, encoded);
            let by_prost = RpcResponseHeaderProto {
                status: Status::Error.into(),
                exception_class_name: Some(Kind::FileNotFound.class().to_owned()),
                error_msg: Some("/a".to_owned()),
                error_detail: Some(Kind::FileNotFound.row().code.into()),
                ..by_prost
            };
            let (mut ours, mut prosts) = (BytesMut::new(), BytesMut::new());
            put_error(&mut ours, &id, &RpcError::new(Kind::FileNotFound, "/a"));
            put_frame(&mut prosts, [&by_prost as &dyn Part]).unwrap();
            assert_eq!(ours, prosts);
        }
    }

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

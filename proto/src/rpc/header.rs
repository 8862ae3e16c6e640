//! The two headers of a request and the one of a response, decoded by hand: they precede every call and every answer, and
//! only a few of their fields matter.

use std::ops::Range;

use crate::wire::{Reader, Value, WireError, unzigzag};

/// `RpcRequestHeaderProto`, as far as a server looks at it. Ranges are positions in the bytes given to `decode`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RpcHeader {
    /// None if absent or a number that RpcKindProto does not have.
    pub rpc_kind: Option<i32>,
    /// None if absent or a number that OperationProto does not have.
    pub rpc_op: Option<i32>,
    pub call_id: i32,
    pub client_id: Range<usize>,
    pub retry_count: i32,
    /// `callerContext.context`, for the audit log; empty if absent.
    pub caller_context: Range<usize>,
}

/// `RequestHeaderProto`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MethodHeader<'a> {
    pub method: &'a str,
    pub protocol: &'a str,
    pub version: u64,
}

/// `RpcResponseHeaderProto`, as far as a client looks at it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResponseHeader<'a> {
    pub call_id: u32,
    /// One of RpcStatusProto's.
    pub status: i32,
    /// These are empty if absent.
    pub exception_class_name: &'a str,
    pub error_msg: &'a str,
    /// A position in the bytes given to `decode`.
    pub client_id: Range<usize>,
}

/// A header is malformed or lacks required fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Wire(WireError),
    Missing(Vec<&'static str>),
}

impl From<WireError> for HeaderError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl std::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wire(error) => error.fmt(f),
            Self::Missing(fields) => write!(f, "Message missing required fields: {}", fields.join(", ")),
        }
    }
}

impl RpcHeader {
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let (mut call_id, mut client_id) = (None, None);
        let (mut rpc_kind, mut rpc_op, mut retry_count, mut caller_context) = (None, None, -1, 0..0);
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            let end = bytes.len() - reader.rest().len();
            match (field.number, field.value) {
                (1, Value::Varint(v)) => rpc_kind = small_enum(v, 2).or(rpc_kind),
                (2, Value::Varint(v)) => rpc_op = small_enum(v, 2).or(rpc_op),
                (3, Value::Varint(v)) => call_id = Some(sint32(v)),
                (4, Value::Bytes(b)) => client_id = Some(end - b.len()..end),
                (5, Value::Varint(v)) => retry_count = sint32(v),
                (7, Value::Bytes(b)) => caller_context = context_of(b, end - b.len())?,
                _ => {}
            }
        }
        match (call_id, client_id) {
            (Some(call_id), Some(client_id)) => {
                Ok(Self { rpc_kind, rpc_op, call_id, client_id, retry_count, caller_context })
            }
            (call_id, client_id) => {
                let absent = [("callId", call_id.is_none()), ("clientId", client_id.is_none())];
                Err(missing(&absent))
            }
        }
    }
}

impl<'a> MethodHeader<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let (mut method, mut protocol, mut version) = (None, None, None);
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match (field.number, field.value) {
                (1, Value::Bytes(b)) => method = Some(utf8(b)?),
                (2, Value::Bytes(b)) => protocol = Some(utf8(b)?),
                (3, Value::Varint(v)) => version = Some(v),
                _ => {}
            }
        }
        match (method, protocol, version) {
            (Some(method), Some(protocol), Some(version)) => Ok(Self { method, protocol, version }),
            _ => Err(missing(&[
                ("methodName", method.is_none()),
                ("declaringClassProtocolName", protocol.is_none()),
                ("clientProtocolVersion", version.is_none()),
            ])),
        }
    }
}

impl<'a> ResponseHeader<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let (mut call_id, mut status, mut client_id) = (None, None, 0..0);
        let (mut exception_class_name, mut error_msg) = ("", "");
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            let end = bytes.len() - reader.rest().len();
            match (field.number, field.value) {
                (1, Value::Varint(v)) => call_id = Some(v as u32),
                (2, Value::Varint(v)) => status = small_enum(v, 2).or(status),
                (4, Value::Bytes(b)) => exception_class_name = utf8(b)?,
                (5, Value::Bytes(b)) => error_msg = utf8(b)?,
                (7, Value::Bytes(b)) => client_id = end - b.len()..end,
                _ => {}
            }
        }
        match (call_id, status) {
            (Some(call_id), Some(status)) => {
                Ok(Self { call_id, status, exception_class_name, error_msg, client_id })
            }
            (call_id, status) => Err(missing(&[("callId", call_id.is_none()), ("status", status.is_none())])),
        }
    }
}

/// Where `RPCCallerContextProto.context` lies; `start` is the position of `bytes` in the header.
fn context_of(bytes: &[u8], start: usize) -> Result<Range<usize>, HeaderError> {
    let mut reader = Reader::new(bytes);
    let mut found = None;
    while let Some(field) = reader.field()? {
        if let (1, Value::Bytes(b)) = (field.number, field.value) {
            utf8(b)?;
            let end = start + bytes.len() - reader.rest().len();
            found = Some(end - b.len()..end);
        }
    }
    found.ok_or_else(|| missing(&[("callerContext.context", true)]))
}

/// Enum numbers that a Java peer does not know read as absent.
fn small_enum(value: u64, max: u64) -> Option<i32> {
    (value <= max).then_some(value as i32)
}

fn sint32(value: u64) -> i32 {
    unzigzag(u64::from(value as u32)) as i32
}

fn utf8(bytes: &[u8]) -> Result<&str, WireError> {
    std::str::from_utf8(bytes).map_err(|_| WireError::InvalidUtf8)
}

fn missing(fields: &[(&'static str, bool)]) -> HeaderError {
    HeaderError::Missing(fields.iter().filter(|(_, absent)| *absent).map(|(name, _)| *name).collect())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;

    use super::*;
    use crate::common::{
        RequestHeaderProto, RpcCallerContextProto, RpcRequestHeaderProto, RpcResponseHeaderProto,
        RpcTraceInfoProto,
    };

    #[test]
    fn request_header_as_prost_writes_it() {
        for call_id in [0, 1, -1, -33, i32::MAX, i32::MIN] {
            for (caller, retry_count) in [(None, None), (Some("CLI"), Some(-1)), (Some(""), Some(7))] {
                let prost = RpcRequestHeaderProto {
                    rpc_kind: Some(2),
                    rpc_op: Some(0),
                    call_id,
                    client_id: Bytes::from_static(b"0123456789abcdef"),
                    retry_count,
                    trace_info: Some(RpcTraceInfoProto { trace_id: Some(-5), ..Default::default() }),
                    caller_context: caller.map(|c| RpcCallerContextProto {
                        context: c.to_owned(),
                        signature: Some(Bytes::from_static(b"sig")),
                    }),
                    state_id: Some(i64::MIN),
                    router_federated_state: Some(Bytes::from_static(b"state")),
                };
                let bytes = prost.encode_to_vec();
                let ours = RpcHeader::decode(&bytes).unwrap();
                assert_eq!((ours.rpc_kind, ours.rpc_op, ours.call_id), (Some(2), Some(0), call_id));
                assert_eq!(ours.retry_count, prost.retry_count());
                assert_eq!(&bytes[ours.client_id], b"0123456789abcdef");
                assert_eq!(&bytes[ours.caller_context], caller.unwrap_or_default().as_bytes());
            }
        }
    }

    #[test]
    fn method_header_as_prost_writes_it() {
        let prost = RequestHeaderProto {
            method_name: "mkdirs".to_owned(),
            declaring_class_protocol_name: "org.x.Y".to_owned(),
            client_protocol_version: u64::MAX,
        };
        let bytes = prost.encode_to_vec();
        let want = MethodHeader { method: "mkdirs", protocol: "org.x.Y", version: u64::MAX };
        assert_eq!(MethodHeader::decode(&bytes), Ok(want));
    }

    #[test]
    fn response_header_as_prost_writes_it() {
        for (call_id, status, class, text) in [
            (0, 0, None, None),
            (u32::MAX, 1, Some("java.io.IOException"), Some("why")),
            (300, 2, Some("\u{e9}"), None),
        ] {
            let prost = RpcResponseHeaderProto {
                call_id,
                status,
                server_ipc_version_num: Some(9),
                exception_class_name: class.map(str::to_owned),
                error_msg: text.map(str::to_owned),
                error_detail: Some(15),
                client_id: Some(Bytes::from_static(b"0123456789abcdef")),
                retry_count: Some(-1),
                state_id: Some(i64::MIN),
                router_federated_state: Some(Bytes::from_static(b"state")),
            };
            let bytes = prost.encode_to_vec();
            let ours = ResponseHeader::decode(&bytes).unwrap();
            assert_eq!((ours.call_id, ours.status), (call_id, status));
            assert_eq!(
                (ours.exception_class_name, ours.error_msg),
                (class.unwrap_or(""), text.unwrap_or(""))
            );
            assert_eq!(&bytes[ours.client_id], b"0123456789abcdef");
        }
        assert_eq!(ResponseHeader::decode(b"\x08\x05\x10\x00").map(|ours| ours.client_id), Ok(0..0));
    }

    #[test]
    fn what_is_missing_or_malformed() {
        assert_eq!(RpcHeader::decode(b""), Err(HeaderError::Missing(vec!["callId", "clientId"])));
        assert_eq!(RpcHeader::decode(b"\x18\x02"), Err(HeaderError::Missing(vec!["clientId"])));
        let no_context = RpcHeader::decode(b"\x18\x02\x22\x00\x3a\x00");
        assert_eq!(no_context, Err(HeaderError::Missing(vec!["callerContext.context"])));
        let unknown_enums = RpcHeader::decode(b"\x08\x07\x10\x03\x18\x02\x22\x00").unwrap();
        assert_eq!((unknown_enums.rpc_kind, unknown_enums.rpc_op), (None, None));
        assert_eq!(ResponseHeader::decode(b""), Err(HeaderError::Missing(vec!["callId", "status"])));
        // A status that nobody knows is none.
        let unknown_status = ResponseHeader::decode(b"\x08\x05\x10\x03");
        assert_eq!(unknown_status, Err(HeaderError::Missing(vec!["status"])));
        let not_text = ResponseHeader::decode(b"\x08\x05\x10\x01\x2a\x01\xff");
        assert_eq!(not_text, Err(HeaderError::Wire(WireError::InvalidUtf8)));
        assert_eq!(MethodHeader::decode(b"\x0a\x01\xff"), Err(HeaderError::Wire(WireError::InvalidUtf8)));
        let text = MethodHeader::decode(b"").unwrap_err().to_string();
        assert_eq!(
            text,
            "Message missing required fields: methodName, declaringClassProtocolName, clientProtocolVersion"
        );
    }
}

//! The seven bytes that open a connection, and the answers to those that open it wrongly.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{CallId, IPC_VERSION, NO_CALL_ID, NO_RETRY, reply};
use crate::common::rpc_response_header_proto::RpcErrorCodeProto as Code;
use crate::exception::{Kind, RpcError};

const MAGIC: &[u8; 4] = b"hrpc";
const LEN: usize = 7;
const HTTP_ANSWER: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\n\r\nIt looks like you are making an \
    HTTP request to a Hadoop IPC port. This is not the correct port for the web interface on this daemon.\r\n";

/// How a client means to authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// The user named in the connection context is believed.
    None,
    /// SASL messages come first.
    Sasl,
}

impl Auth {
    fn byte(self) -> u8 {
        match self {
            Auth::None => 0,
            Auth::Sasl => 0xdf,
        }
    }
}

/// Takes the preamble off `buf`. None: more bytes are needed. Err: what to send (empty: nothing) before closing.
pub(super) fn take(buf: &mut BytesMut) -> Option<Result<Auth, Bytes>> {
    let [m0, m1, m2, m3, version, _service_class, auth] = *buf.first_chunk::<LEN>()?;
    let magic = [m0, m1, m2, m3];
    if &magic == b"GET " {
        return Some(Err(Bytes::from_static(HTTP_ANSWER)));
    }
    if &magic != MAGIC || version != IPC_VERSION {
        return Some(Err(bad_version(version as i8)));
    }
    buf.advance(LEN);
    Some(match auth {
        0 => Ok(Auth::None),
        0xdf => Ok(Auth::Sasl),
        other => {
            let error = RpcError::new(Kind::Ipc, format!("Unknown auth protocol:{}", other as i8));
            Err(reply::fatal(&CallId::out_of_band(NO_CALL_ID, NO_RETRY), Code::FatalUnauthorized, &error))
        }
    })
}

/// Clients of version 9 and above read a normal response, those of 3 to 8 an older form. Older ones get nothing.
fn bad_version(version: i8) -> Bytes {
    let text = format!("Server IPC version {IPC_VERSION} cannot communicate with client version {version}");
    let error = RpcError::new(Kind::RpcVersionMismatch, text);
    match version {
        9.. => reply::fatal(&CallId::out_of_band(NO_CALL_ID, NO_RETRY), Code::FatalVersionMismatch, &error),
        3..=8 => {
            let mut out = BytesMut::new();
            out.put_i32(-1);
            out.put_i32(-1);
            for text in [error.kind.class(), &error.message] {
                out.put_u32(text.len() as u32);
                out.put_slice(text.as_bytes());
            }
            out.freeze()
        }
        _ => Bytes::new(),
    }
}

/// Appends a client's preamble.
pub(super) fn put(out: &mut BytesMut, auth: Auth) {
    out.put_slice(MAGIC);
    out.put_slice(&[IPC_VERSION, 0, auth.byte()]);
}

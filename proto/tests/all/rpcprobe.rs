//! The server's side of a connection against the recorded answers of a stock NameNode (`rpcprobe.txt`). Requests are
//! those of the recording, so are the names of the cases.

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use trellis_proto::common::rpc_request_header_proto::OperationProto;
use trellis_proto::common::rpc_response_header_proto::{RpcErrorCodeProto, RpcStatusProto};
use trellis_proto::common::{self, RpcResponseHeaderProto, RpcSaslProto};
use trellis_proto::frame::{MAX_FRAME_BYTES, next_frame, take_delimited};
use trellis_proto::hdfs::{DeleteResponseProto, GetFileInfoRequestProto, GetFileInfoResponseProto};
use trellis_proto::methods::SERVICES;
use trellis_proto::presence::decode_request;
use trellis_proto::rpc::{Call, Event, ServerConn, reply};

use crate::stock;

const CLIENT_ID: &[u8] = b"0123456789abcdef";
const PREAMBLE: &[u8] = b"hrpc\x09\x00\x00";
const SASL: &[u8] = b"hrpc\x09\x00\xdf";
const CLIENT_PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let body: Vec<u8> = parts.iter().flat_map(|p| [&[u8::try_from(p.len()).unwrap()], *p].concat()).collect();
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

fn header(call_id: i32) -> common::RpcRequestHeaderProto {
    common::RpcRequestHeaderProto {
        rpc_kind: Some(common::RpcKindProto::RpcProtocolBuffer.into()),
        rpc_op: Some(OperationProto::RpcFinalPacket.into()),
        call_id,
        client_id: Bytes::from_static(CLIENT_ID),
        retry_count: Some(if call_id < 0 && call_id != -7 { -1 } else { 0 }),
        ..Default::default()
    }
}

fn request_of(
    header: common::RpcRequestHeaderProto,
    protocol: &str,
    version: u64,
    method: &str,
    body: &[u8],
) -> Vec<u8> {
    let method = common::RequestHeaderProto {
        method_name: method.to_owned(),
        declaring_class_protocol_name: protocol.to_owned(),
        client_protocol_version: version,
    };
    frame(&[&header.encode_to_vec(), &method.encode_to_vec(), body])
}

fn request(call_id: i32, method: &str, body: &[u8]) -> Vec<u8> {
    request_of(header(call_id), CLIENT_PROTOCOL, 1, method, body)
}

fn context() -> Vec<u8> {
    let context = common::IpcConnectionContextProto {
        user_info: Some(common::UserInformationProto {
            effective_user: Some("root".to_owned()),
            real_user: None,
        }),
        protocol: Some(CLIENT_PROTOCOL.to_owned()),
    };
    frame(&[&header(-3).encode_to_vec(), &context.encode_to_vec()])
}

fn sasl(message: &[u8]) -> Vec<u8> {
    let header = common::RpcRequestHeaderProto { client_id: Bytes::new(), ..header(-33) };
    frame(&[&header.encode_to_vec(), message])
}

/// Answers as a namenode would, as far as the recorded cases go.
fn answer(call: Call, out: &mut BytesMut) {
    let result = match call.method.name {
        "getFileInfo" => {
            return match decode_request::<GetFileInfoRequestProto>(call.body) {
                Ok(_) => {
                    let fs = trellis_proto::hdfs::HdfsFileStatusProto::default();
                    reply::put_success(out, &call.id, &GetFileInfoResponseProto { fs: Some(fs) });
                }
                Err(error) => reply::put_error(out, &call.id, &error),
            };
        }
        "mkdirs" | "delete" => call.id.retry_key().map(|_| DeleteResponseProto { result: true }),
        other => panic!("no case calls {other}"),
    };
    match result {
        Ok(response) => reply::put_success(out, &call.id, &response),
        Err(error) => reply::put_error(out, &call.id, &error),
    }
}

/// All that the server sends, and whether it closes.
fn serve(stream: &[u8], step: usize) -> (BytesMut, bool) {
    let mut conn = ServerConn::new(SERVICES, MAX_FRAME_BYTES, 7);
    let (mut buf, mut out) = (BytesMut::new(), BytesMut::new());
    for piece in stream.chunks(step) {
        buf.extend_from_slice(piece);
        while let Some(event) = conn.next_event(&mut buf) {
            assert!(!matches!(&event, Event::Reply(bytes) if bytes.is_empty()));
            match event {
                Event::Call(call) => answer(call, &mut out),
                Event::Context(c) => {
                    assert_eq!((c.user.as_deref(), c.real_user), (Some("root"), None));
                    assert_eq!(c.protocol.as_deref(), Some(CLIENT_PROTOCOL));
                }
                Event::Reply(bytes) | Event::ReplyAndClose(bytes) => out.extend_from_slice(&bytes),
                Event::Ping => {}
            }
        }
    }
    (out, conn.is_closed())
}

/// One response as the recording shows it. Fields stand in the order of their numbers, which is prost's too.
fn render(mut frame: Bytes) -> String {
    let bytes = take_delimited(&mut frame).unwrap();
    let header = RpcResponseHeaderProto::decode(bytes.clone()).unwrap();
    assert_eq!(header.encode_to_vec(), bytes);
    let mut text = format!(
        "callId={} status={}",
        header.call_id,
        RpcStatusProto::try_from(header.status).unwrap().as_str_name()
    );
    let mut add = |name: &str, value: Option<String>| {
        text.extend(value.map(|v| format!(" {name}={v}")));
    };
    let cut = |s: String| format!("\"{}\"", s.chars().take(200).collect::<String>());
    add("serverIpcVersionNum", header.server_ipc_version_num.map(|v| v.to_string()));
    add("exceptionClassName", header.exception_class_name.map(cut));
    add("errorMsg", header.error_msg.map(cut));
    let detail =
        header.error_detail.map(|d| RpcErrorCodeProto::try_from(d).unwrap().as_str_name().to_owned());
    add("errorDetail", detail);
    let client_id = header.client_id.map(|id| match &id[..] {
        CLIENT_ID => "ID".to_owned(),
        other => format!("0x{}", hex(other)),
    });
    add("clientId", client_id);
    add("retryCount", header.retry_count.map(|v| v.to_string()));
    if !frame.is_empty() {
        let body = take_delimited(&mut frame).unwrap();
        text += "  body=";
        text += &match body.len() {
            _ if header.call_id as i32 == -33 => render_sasl(body),
            5.. => "a message".to_owned(),
            _ => hex(&body),
        };
    }
    assert!(frame.is_empty(), "{text}");
    text
}

fn render_sasl(body: Bytes) -> String {
    let message = RpcSaslProto::decode(body).unwrap();
    let mut text = format!("{{state={}", message.state().as_str_name());
    for auth in &message.auths {
        text += &format!(" auths={{method=\"{}\" mechanism=\"{}\"", auth.method, auth.mechanism);
        text.extend(auth.protocol.as_ref().map(|p| format!(" protocol=\"{p}\"")));
        text.extend(auth.server_id.as_ref().map(|s| format!(" serverId=\"{s}\"")));
        text.extend(auth.challenge.as_ref().map(|_| " challenge=.."));
        text += "}";
    }
    text + "}"
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The recorded lines of a case.
fn recorded(case: &str) -> Vec<String> {
    let text = stock::text("rpcprobe.txt");
    let lines = text.lines().skip_while(|line| *line != format!("## {case}")).skip(1);
    let lines: Vec<String> =
        lines.take_while(|l| !l.starts_with("## ")).map(|l| l.trim().to_owned()).collect();
    assert!(!lines.is_empty(), "no case {case} is recorded");
    lines.into_iter().filter(|l| !l.is_empty()).collect()
}

fn check(case: &str, chunks: &[&[u8]]) {
    check_as(case, chunks, |mut out| {
        let mut lines = Vec::new();
        while let Some(frame) = next_frame(&mut out, MAX_FRAME_BYTES).unwrap() {
            lines.push(render(frame));
        }
        assert!(out.is_empty(), "{case}");
        lines
    });
}

fn check_as(case: &str, chunks: &[&[u8]], show: impl Fn(BytesMut) -> Vec<String>) {
    let (want, stream) = (recorded(case), chunks.concat());
    for step in [stream.len(), 1, 3] {
        let (out, closed) = serve(&stream, step);
        let mut got = show(out);
        got.push(if closed { "-> closed by the server" } else { "-> open" }.to_owned());
        assert_eq!(got, want, "{case}, in steps of {step}");
    }
}

#[test]
fn connections() {
    let (context, call) = (&context()[..], &request(0, "getFileInfo", b"\x0a\x01/")[..]);
    check("preamble, context, call in separate writes", &[PREAMBLE, context, call]);
    check(
        "all in one write, then a ping",
        &[PREAMBLE, context, call, &frame(&[&header(-4).encode_to_vec()])],
    );
    check("call without a context", &[PREAMBLE, call]);
    check("context twice", &[PREAMBLE, context, context, call]);
    check("call id -7", &[PREAMBLE, context, &frame(&[&header(-7).encode_to_vec()])]);
    check("frame of 200 MiB announced", &[PREAMBLE, context, &(200u32 << 20).to_be_bytes(), b"x"]);
    check("negative frame length", &[PREAMBLE, context, &(-5i32).to_be_bytes()]);
}

#[test]
fn preambles() {
    // Python's repr of the bytes.
    let repr = |out: BytesMut| {
        let text: String = out
            .iter()
            .map(|b| match b {
                b'\r' => "\\r".to_owned(),
                b'\n' => "\\n".to_owned(),
                0x20..0x7f => char::from(*b).to_string(),
                _ => format!("\\x{b:02x}"),
            })
            .collect();
        vec![format!("b'{text}'")]
    };
    check_as("version 8", &[b"hrpc\x08\x00\x00", &context()], repr);
    check_as("HTTP GET", &[b"GET / HTTP/1.1\r\n\r\n"], repr);
    check("version 10", &[b"hrpc\x0a\x00\x00", &context()]);
    check("not hrpc", &[b"abcd\x09\x00\x00", &context()]);
    check("auth byte 5", &[b"hrpc\x09\x00\x05", &context()]);
    assert_eq!(serve(b"hrpc\x02\x00\x00", 1), (BytesMut::new(), true), "too old for any answer");
}

#[test]
fn sasl_negotiation() {
    let (context, call) = (&context()[..], &request(0, "getFileInfo", b"\x0a\x01/")[..]);
    let negotiate = &sasl(b"\x10\x01")[..];
    let simple = &sasl(b"\x10\x02\x22\x0a\x0a\x06SIMPLE\x12\x00")[..];
    check("SASL asked for: NEGOTIATE", &[SASL, negotiate]);
    check("SASL: NEGOTIATE, INITIATE SIMPLE, context, call", &[SASL, negotiate, simple, context, call]);
    check("SASL: context before the negotiation", &[SASL, context]);
    check("SASL message on a simple connection", &[PREAMBLE, negotiate]);

    // Not recorded: what else a client may try.
    for (case, frames, want) in [
        (
            "a token",
            &[negotiate, &sasl(b"\x10\x02\x22\x1e\x0a\x05TOKEN\x12\x0aDIGEST-MD5\x1a\x00\x22\x07default")][..],
            "InvalidToken",
        ),
        ("twice", &[negotiate, negotiate], "already attempted negotiation"),
        (
            "kerberos",
            &[negotiate, &sasl(b"\x10\x02\x22\x0c\x0a\x08KERBEROS\x12\x00")],
            "KERBEROS authentication is not enabled",
        ),
        ("no auth", &[negotiate, &sasl(b"\x10\x02")], "Client mechanism is malformed"),
        ("response", &[negotiate, &sasl(b"\x10\x04")], "no challenge"),
        ("wrap", &[negotiate, &sasl(b"\x10\x05")], "not wrapping"),
        ("garbage", &[&sasl(b"\x10")], "Error decoding RpcSaslProto"),
        ("after the end", &[negotiate, simple, negotiate], "SASL protocol not requested by client"),
        ("a call", &[call], "Connection context not established"),
    ] {
        let (out, closed) = serve(&[SASL, &frames.concat()].concat(), 5);
        let text = String::from_utf8_lossy(&out).into_owned();
        assert!(closed && text.contains(want), "{case}: {text}");
    }
}

#[test]
fn calls() {
    let call = |case: &str, bytes: &[u8]| check(case, &[PREAMBLE, &context(), bytes]);
    let method = |protocol, version| {
        request_of(header(5 + i32::from(version == 7)), protocol, version, "getFileInfo", b"")
    };
    call("unknown protocol", &method("org.x.Y", 1));
    call("protocol version 7", &method(CLIENT_PROTOCOL, 7));
    call("unknown method", &request(7, "nope", b""));
    call("request that does not parse", &request(8, "getFileInfo", b"\xff\xff"));
    call("required field missing", &request(8, "getFileInfo", b""));

    let with = |change: &dyn Fn(&mut common::RpcRequestHeaderProto), method: &str| {
        let mut header = header(9);
        change(&mut header);
        request_of(header, CLIENT_PROTOCOL, 1, method, b"\x0a\x06/probe\x12\x02\x08\x01\x18\x01")
    };
    call("rpcKind BUILTIN", &with(&|h| h.rpc_kind = Some(0), "getFileInfo"));
    call("no rpcKind", &with(&|h| h.rpc_kind = None, "getFileInfo"));
    call("rpcOp CLOSE", &with(&|h| h.rpc_op = Some(2), "getFileInfo"));
    call("empty clientId", &with(&|h| h.client_id = Bytes::new(), "mkdirs"));
    call("clientId of 3 bytes", &with(&|h| h.client_id = Bytes::from_static(b"abc"), "delete"));
}

#[test]
fn a_broken_header_is_fatal_and_a_broken_method_is_not() {
    let (out, closed) = serve(&[PREAMBLE, &context(), &frame(&[b"\x08\x02"])].concat(), 9);
    let text = String::from_utf8_lossy(&out).into_owned();
    assert!(closed && text.contains("Message missing required fields: callId, clientId"), "{text}");

    let no_method = frame(&[&header(5).encode_to_vec(), b"\x12\x01x"]);
    let cut_off = frame(&[&header(6).encode_to_vec(), &request(1, "x", b"")[30..]]);
    let good = request(7, "getFileInfo", b"\x0a\x01/");
    let (mut out, closed) = serve(&[PREAMBLE, &context(), &no_method, &cut_off, &good].concat(), 9);
    let mut lines = Vec::new();
    while let Some(frame) = next_frame(&mut out, MAX_FRAME_BYTES).unwrap() {
        lines.push(render(frame));
    }
    assert!(!closed && lines.len() == 3, "{lines:?}");
    assert!(lines[0].contains("missing required fields: methodName, clientProtocolVersion"), "{}", lines[0]);
    assert!(lines[1].contains("InvalidProtocolBufferException"), "{}", lines[1]);
    assert!(lines[2].starts_with("callId=7 status=SUCCESS"), "{}", lines[2]);
}

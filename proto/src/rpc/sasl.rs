//! SASL as a server without security speaks it: NEGOTIATE is answered with stock's list, INITIATE with SIMPLE ends
//! it, anything else is refused.

use bytes::Bytes;

use crate::common::RpcSaslProto;
use crate::common::rpc_response_header_proto::RpcErrorCodeProto as Code;
use crate::common::rpc_sasl_proto::{SaslAuth, SaslState};
use crate::exception::{Kind, RpcError};

/// What a SASL message leads to.
pub(super) enum Step {
    /// Answer it and wait for the next.
    Reply(RpcSaslProto),
    /// No answer: the connection goes on as a simple one.
    Simple,
    /// Close the connection with this.
    Refuse(Code, RpcError),
}

/// `negotiated`: whether NEGOTIATE was answered on this connection before. `nonce` goes into the challenge.
pub(super) fn step(message: &RpcSaslProto, negotiated: bool, nonce: u64) -> Step {
    match message.state() {
        SaslState::Negotiate if negotiated => refuse(Kind::Sasl, "Client already attempted negotiation"),
        SaslState::Negotiate => Step::Reply(offer(nonce)),
        SaslState::Initiate => initiate(message, negotiated, nonce),
        SaslState::Response => refuse(Kind::Sasl, "Client sent a response to no challenge"),
        SaslState::Wrap => {
            let error = RpcError::new(Kind::Sasl, "Server is not wrapping data");
            Step::Refuse(Code::FatalInvalidRpcHeader, error)
        }
        other => refuse(Kind::Sasl, format!("Client sent unsupported state {}", other.as_str_name())),
    }
}

fn initiate(message: &RpcSaslProto, negotiated: bool, nonce: u64) -> Step {
    let [chosen] = &message.auths[..] else {
        return refuse(Kind::Sasl, "Client mechanism is malformed");
    };
    if same(chosen, &simple()) {
        Step::Simple
    } else if same(chosen, &token(nonce)) {
        refuse(Kind::InvalidToken, "this server issues no tokens (security is off): connect without one")
    } else if negotiated {
        let text = format!("{} authentication is not enabled.  Available:[TOKEN, SIMPLE]", chosen.method);
        refuse(Kind::AccessControl, text)
    } else {
        Step::Reply(offer(nonce))
    }
}

fn refuse(kind: Kind, text: impl Into<String>) -> Step {
    Step::Refuse(Code::FatalUnauthorized, RpcError::new(kind, text))
}

/// The challenge is no part of an auth's identity: clients send the auth back without it.
fn same(a: &SaslAuth, b: &SaslAuth) -> bool {
    a.method == b.method
        && a.mechanism == b.mechanism
        && a.protocol == b.protocol
        && a.server_id == b.server_id
}

/// Stock offers tokens even with security off, and so do we; since nobody can hold one of ours, no digest ever passes
/// and the nonce need not be a secret.
fn offer(nonce: u64) -> RpcSaslProto {
    RpcSaslProto {
        state: SaslState::Negotiate.into(),
        auths: vec![token(nonce), simple()],
        ..Default::default()
    }
}

fn token(nonce: u64) -> SaslAuth {
    let challenge =
        format!("realm=\"default\",nonce=\"{nonce:016x}\",qop=\"auth\",charset=utf-8,algorithm=md5-sess");
    SaslAuth {
        method: "TOKEN".to_owned(),
        mechanism: "DIGEST-MD5".to_owned(),
        protocol: Some(String::new()),
        server_id: Some("default".to_owned()),
        challenge: Some(Bytes::from(challenge)),
    }
}

fn simple() -> SaslAuth {
    SaslAuth { method: "SIMPLE".to_owned(), ..Default::default() }
}

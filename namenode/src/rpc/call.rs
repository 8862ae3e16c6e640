//! One call on its way: who calls, and the answer, now or later.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use prost::Message;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use trellis_metastore::work::Wake;
use trellis_proto::exception::RpcError;
use trellis_proto::rpc::{CallId, reply};

use super::outbox::Outbox;
use super::service::Service;
use crate::audit::Trail;
use crate::user::User;

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The user.
    pub user: Arc<User>,
    /// The user as the audit log shows it: `root (auth:SIMPLE)`.
    pub ugi: Arc<str>,
    /// Address without port.
    pub machine: Arc<str>,
}

/// What became of a call that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its answer stands in the output.
    Answered,
    /// Its answer comes later, through the connection's outbox.
    Queued,
}

/// An answer that came later.
pub(super) enum Answer {
    /// The frame to send.
    Frame {
        /// The whole frame.
        frame: BytesMut,
        /// Bytes of the request, no longer in flight.
        request_bytes: usize,
    },
    /// There will be none: this namenode was evicted. The connection closes, so that the client asks another.
    Lost,
}

/// A call that is being started.
pub struct Incoming<'c> {
    /// Goes back with the answer.
    pub id: CallId,
    /// Who calls.
    pub caller: &'c Caller,
    /// `callerContext`, for the audit log; UTF-8, empty if absent.
    pub caller_context: Bytes,
    /// The encoded request.
    pub body: Bytes,
    /// When its bytes were there.
    pub arrived: Instant,
    /// Its place in the service's tables.
    pub(super) method: usize,
    pub(super) service: &'c Arc<Service>,
    pub(super) output: &'c mut BytesMut,
    pub(super) answers: &'c Arc<Outbox>,
    /// Its share of the memory for large requests.
    pub(super) share: Option<OwnedSemaphorePermit>,
}

impl Incoming<'_> {
    /// Answers at once.
    pub fn answer<A: Message>(&mut self, result: &Result<A, RpcError>, trail: Option<Trail>) -> Outcome {
        self.service.note(self.method, result.as_ref().err(), self.arrived);
        if let Some(trail) = trail {
            self.service.audit(&trail, self.caller, &self.caller_context);
        }
        put(self.output, &self.id, result);
        Outcome::Answered
    }

    /// Refuses at once.
    pub fn refuse(&mut self, error: RpcError) -> Outcome {
        self.answer::<()>(&Err(error), None)
    }

    /// What answers later.
    pub(super) fn ticket(&mut self) -> Ticket {
        Ticket {
            id: self.id.clone(),
            caller: self.caller.clone(),
            caller_context: self.caller_context.clone(),
            request_bytes: self.body.len(),
            arrived: self.arrived,
            method: self.method,
            service: self.service.clone(),
            answers: Some(self.answers.clone()),
            _share: self.share.take(),
        }
    }
}

fn put<A: Message>(output: &mut BytesMut, id: &CallId, result: &Result<A, RpcError>) {
    match result {
        Ok(answer) => reply::put_success(output, id, answer),
        Err(error) => reply::put_error(output, id, error),
    }
}

/// Answers a call later. Dropped without an answer, it closes the connection.
pub(super) struct Ticket {
    id: CallId,
    caller: Caller,
    caller_context: Bytes,
    request_bytes: usize,
    arrived: Instant,
    method: usize,
    service: Arc<Service>,
    answers: Option<Arc<Outbox>>,
    _share: Option<OwnedSemaphorePermit>,
}

impl Ticket {
    /// Leaves the answer for the connection.
    pub fn answer<A: Message>(mut self, result: &Result<A, RpcError>, trail: Option<Trail>) -> Wake {
        self.service.note(self.method, result.as_ref().err(), self.arrived);
        if let Some(trail) = trail {
            self.service.audit(&trail, &self.caller, &self.caller_context);
        }
        let mut frame = BytesMut::new();
        put(&mut frame, &self.id, result);
        self.leave(Answer::Frame { frame, request_bytes: self.request_bytes })
    }

    fn leave(&mut self, answer: Answer) -> Wake {
        self.answers.take().map_or_else(Wake::default, |answers| answers.put(answer))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        drop(self.leave(Answer::Lost));
    }
}

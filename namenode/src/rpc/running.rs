//! How the methods of a table run: decoded, planned, handed to the engine, audited, answered.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prost::Message;
use trellis_metastore::work::Wake;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::methods::Rpc;
use trellis_proto::presence::{Checked, decode_request};

use super::call::{Caller, Incoming, Outcome};
use super::patient;
use super::plan::{Answers, Does, Entry, Planned};
use super::service::Service;
use crate::audit::{Said, Trail};
use crate::engine::ctx::{CallId, Ctx};
use crate::engine::permission::Rights;
use crate::engine::{Later, Op};
use crate::ops::locations::touch_access_time;

/// The audit line of an answer, as far as it is known before the caller is: none where stock writes none (an error
/// other than a refused access, some answers of `false`).
struct Auditing<A> {
    command: Cow<'static, str>,
    src: String,
    dst: Option<String>,
    said: fn(&A) -> Said,
    outcome: Option<Arc<Mutex<Option<Rights>>>>,
}

impl<A> Auditing<A> {
    fn trail(self, result: &Result<A, RpcError>) -> Option<Trail> {
        let said = match result {
            Ok(answer) => match (self.said)(answer) {
                Said::Allowed => self.shown(),
                said => said,
            },
            Err(error) if error.kind == Kind::AccessControl => Said::Denied,
            Err(_) => Said::Silent,
        };
        if said == Said::Silent {
            return None;
        }
        Some(Trail { said, command: self.command, src: self.src, dst: self.dst })
    }

    /// With the inode, if the operation noted one: a repeat that got its first answer ran nothing.
    fn shown(&self) -> Said {
        let outcome = self.outcome.as_ref();
        let noted = outcome.and_then(|noted| noted.lock().unwrap_or_else(PoisonError::into_inner).take());
        noted.map_or(Said::Allowed, Said::Made)
    }
}

impl Service {
    fn auditing<A>(&self, planned: &mut Planned<A>, entry: &Entry) -> Option<Auditing<A>> {
        if entry.audit.is_empty() || !self.audits() {
            return None;
        }
        Some(Auditing {
            command: planned.command.take().unwrap_or(Cow::Borrowed(entry.audit)),
            src: std::mem::take(&mut planned.src),
            dst: planned.dst.take(),
            said: planned.said,
            outcome: planned.shows_inode.then(Arc::default),
        })
    }

    /// What an operation of a caller carries.
    fn ctx<A>(&self, caller: &Caller, id: Option<CallId>, auditing: &Option<Auditing<A>>) -> Ctx {
        let outcome = auditing.as_ref().and_then(|auditing| auditing.outcome.clone());
        Ctx { outcome, ..self.engine().ctx(caller.user.clone(), caller.machine.clone(), id) }
    }

    /// Runs a method that only reads.
    pub(super) fn read<Q: Checked, A: Message, M: Answers<A> + 'static>(
        self: &Arc<Self>,
        call: &mut Incoming<'_>,
        entry: &'static Entry,
        _: Rpc<Q, A>,
        plan: fn(Q) -> Result<Planned<M>, RpcError>,
    ) -> Outcome {
        let mut planned = match decode_request(call.body.clone()).and_then(plan) {
            Ok(planned) => planned,
            Err(error) => return call.refuse(error),
        };
        let mut auditing = self.auditing(&mut planned, entry);
        let ctx = self.ctx(call.caller, None, &auditing);
        let due = planned.access_time_due;
        let later = || -> Later<M> {
            let (ticket, auditing, due) = (call.ticket(), auditing.take(), due.clone());
            let service = self.clone();
            Box::new(move |result| {
                let trail = auditing.and_then(|auditing| auditing.trail(&result));
                service.after_access(due, move || ticket.answer(&result, trail))
            })
        };
        let Some(result) = self.engine().read(ctx, planned.target, planned.op, later) else {
            return Outcome::Queued;
        };
        let trail = auditing.and_then(|auditing| auditing.trail(&result));
        if !is_due(&due) {
            return call.answer(&result, trail);
        }
        let ticket = call.ticket();
        drop(self.after_access(due, move || ticket.answer(&result, trail)));
        Outcome::Queued
    }

    /// Answers a read, after the access time of the file was moved if that is due. The answer leaves whatever comes
    /// of that.
    fn after_access(
        self: &Arc<Self>,
        due: Option<Arc<AtomicU64>>,
        answer: impl FnOnce() -> Wake + Send + 'static,
    ) -> Wake {
        let id = due.map_or(0, |noted| noted.load(Ordering::Relaxed));
        if id == 0 {
            return answer();
        }
        let op: Op<()> = Box::new(move |tx| touch_access_time(tx, id).map(|_| ()));
        let ctx = self.engine().own_ctx();
        self.engine().write(ctx, id, 0, false, op, move |moved: Result<(), RpcError>| {
            if let Err(error) = moved {
                tracing::info!(inode = id, %error, "an access time was not moved");
            }
            answer()
        });
        Wake::default()
    }

    /// Runs a method that may write.
    pub(super) fn write<Q: Checked, A: Message + Default + 'static>(
        self: &Arc<Self>,
        call: &mut Incoming<'_>,
        entry: &'static Entry,
        _: Rpc<Q, A>,
        plan: fn(Q) -> Result<Planned<A>, RpcError>,
    ) -> Outcome {
        let prepared =
            call_id(call, entry).and_then(|id| Ok((id, decode_request(call.body.clone()).and_then(plan)?)));
        let (id, mut planned) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return call.refuse(error),
        };
        let auditing = self.auditing(&mut planned, entry);
        let ctx = self.ctx(call.caller, id, &auditing);
        let keeps = entry.does != Does::Write;
        let ticket = call.ticket();
        let note = planned.note.map(|note| (note, self.clone()));
        let answer = move |result: Result<A, RpcError>| {
            if let (Ok(answer), Some((note, service))) = (&result, note) {
                note(&service, answer);
            }
            let trail = auditing.and_then(|auditing| auditing.trail(&result));
            ticket.answer(&result, trail)
        };
        let Planned { target, ids, op, patience, .. } = planned;
        match patience {
            None => self.engine().write(ctx, target, ids, keeps, op, answer),
            Some(patience) => patient::write(self.engine(), ctx, (target, ids, keeps), op, patience, answer),
        }
        Outcome::Queued
    }

    /// Runs a method that is more than one operation, in a task of its own.
    pub(super) fn task<Q: Checked, A: Message + 'static, F>(
        self: &Arc<Self>,
        call: &mut Incoming<'_>,
        _: Rpc<Q, A>,
        run: fn(Arc<Service>, Caller, Q) -> F,
    ) -> Outcome
    where
        F: Future<Output = Result<A, RpcError>> + Send + 'static,
    {
        let request = match decode_request(call.body.clone()) {
            Ok(request) => request,
            Err(error) => return call.refuse(error),
        };
        let (ticket, work) = (call.ticket(), run(self.clone(), call.caller.clone(), request));
        tokio::spawn(async move { drop(ticket.answer(&work.await, None)) });
        Outcome::Queued
    }

    /// Runs a method that needs no store.
    pub(super) fn answer<Q: Checked, A: Message>(
        &self,
        call: &mut Incoming<'_>,
        _: Rpc<Q, A>,
        answer: fn(&Service, &Caller, Q) -> Result<A, RpcError>,
    ) -> Outcome {
        let result = decode_request(call.body.clone()).and_then(|request| answer(self, call.caller, request));
        call.answer(&result, None)
    }
}

fn is_due(due: &Option<Arc<AtomicU64>>) -> bool {
    due.as_ref().is_some_and(|noted| noted.load(Ordering::Relaxed) != 0)
}

/// The identity by which a call's repeats are known.
fn call_id(call: &Incoming<'_>, entry: &Entry) -> Result<Option<CallId>, RpcError> {
    let key = match entry.does {
        Does::WriteOnce => call.id.retry_key()?,
        _ => call.id.retry_key().unwrap_or_default(),
    };
    Ok(key.map(|(client, call)| CallId { client, call: i64::from(call) }))
}

//! What a line of a method table leads to.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prost::Message;
use trellis_metastore::schema::parts_of_block;
use trellis_metastore::work::Wake;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::methods::{Rpc, Service as Protocol};
use trellis_proto::presence::{Checked, decode_request};

use super::call::{Caller, Incoming, Outcome};
use super::patient;
use super::service::Service;
use crate::audit::{Said, Trail};
use crate::engine::ctx::{CallId, Ctx};
use crate::engine::permission::{self, Rights};
use crate::engine::tx::Tx;
use crate::engine::{Later, Op};
use crate::ops::locations::touch_access_time;
use crate::refusal::Result as OpResult;

/// What a method does with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Only reads.
    Read,
    /// Writes; a repeat does no harm and is run again.
    Write,
    /// Writes; a repeat gets the first answer. A client id that is not one is refused, as in stock (its own retry
    /// cache covers these methods).
    WriteOnce,
    /// The same, for methods that stock lets run again although they overwrite state: a client id that is not one
    /// only means that repeats are not known.
    WriteKept,
    /// Answers without the store.
    Answer,
    /// Refuses.
    Refuse,
}

/// One line of a method table.
pub struct Entry {
    /// Name on the wire.
    pub name: &'static str,
    /// Name of the typed constant's method; the same (a test sees to it).
    pub wire: &'static str,
    /// What it does.
    pub does: Does,
    /// Its name in the audit log; empty: it leaves no line.
    pub audit: &'static str,
    /// Why it refuses, or how far it goes.
    pub note: &'static str,
    pub(super) run: Run,
}

pub(super) type Run = fn(&Arc<Service>, &mut Incoming<'_>, &'static Entry) -> Outcome;

/// The methods of one protocol.
pub struct Methods {
    /// The protocol.
    pub protocol: &'static Protocol,
    /// One entry per method.
    pub entries: &'static [Entry],
}

/// Builds a table: `"name" => kind(CONSTANT, function, audit "name");`
macro_rules! methods {
    ($(#[$doc:meta])* $table:ident of $module:path: $($name:literal => $kind:ident($($rest:tt)*);)*) => {
        $(#[$doc])*
        pub static $table: $crate::rpc::plan::Methods = {
            use $module as wire;
            $crate::rpc::plan::Methods {
                protocol: &wire::SERVICE,
                entries: &[$($crate::rpc::plan::entry!($name, wire, $kind($($rest)*))),*],
            }
        };
    };
}

macro_rules! entry {
    ($name:literal, $wire:ident, read($rpc:ident, $plan:path $(, audit $audit:literal)? $(, note $note:literal)?)) => {
        $crate::rpc::plan::entry!(@ $name, $wire::$rpc.name, Read, concat!($($audit)?), concat!($($note)?),
            |service, call, entry| service.read(call, entry, $wire::$rpc, $plan))
    };
    ($name:literal, $wire:ident, write($rpc:ident, $plan:path $(, audit $audit:literal)? $(, note $note:literal)?)) => {
        $crate::rpc::plan::entry!(@ $name, $wire::$rpc.name, Write, concat!($($audit)?), concat!($($note)?),
            |service, call, entry| service.write(call, entry, $wire::$rpc, $plan))
    };
    ($name:literal, $wire:ident, write_once($rpc:ident, $plan:path $(, audit $audit:literal)? $(, note $note:literal)?)) => {
        $crate::rpc::plan::entry!(@ $name, $wire::$rpc.name, WriteOnce, concat!($($audit)?), concat!($($note)?),
            |service, call, entry| service.write(call, entry, $wire::$rpc, $plan))
    };
    ($name:literal, $wire:ident, write_kept($rpc:ident, $plan:path $(, audit $audit:literal)? $(, note $note:literal)?)) => {
        $crate::rpc::plan::entry!(@ $name, $wire::$rpc.name, WriteKept, concat!($($audit)?), concat!($($note)?),
            |service, call, entry| service.write(call, entry, $wire::$rpc, $plan))
    };
    ($name:literal, $wire:ident, answer($rpc:ident, $answer:path $(, note $note:literal)?)) => {
        $crate::rpc::plan::entry!(@ $name, $wire::$rpc.name, Answer, "", concat!($($note)?),
            |service, call, _| service.answer(call, $wire::$rpc, $answer))
    };
    ($name:literal, $wire:ident, task($rpc:ident, $run:path $(, note $note:literal)?)) => {
        $crate::rpc::plan::entry!(@ $name, $wire::$rpc.name, Write, "", concat!($($note)?),
            |service, call, _| service.task(call, $wire::$rpc, $run))
    };
    ($name:literal, $wire:ident, refuse($rpc:ident, $kind:ident, $why:literal)) => {
        $crate::rpc::plan::entry!(@ $name, $wire::$rpc.name, Refuse, "", $why,
            |_, call, entry| call.refuse(trellis_proto::exception::RpcError::new(
                trellis_proto::exception::Kind::$kind, entry.note)))
    };
    ($name:literal, $wire:ident, refuse($rpc:ident, su $operation:literal, $kind:ident, $why:literal)) => {
        $crate::rpc::plan::entry!(@ $name, $wire::$rpc.name, Refuse, "", $why,
            |_, call, entry| match $crate::rpc::plan::check_superuser(call.caller, $operation) {
                Ok(()) => call.refuse(trellis_proto::exception::RpcError::new(
                    trellis_proto::exception::Kind::$kind, entry.note)),
                Err(error) => call.refuse(error),
            })
    };
    (@ $name:literal, $wire:expr, $does:ident, $audit:expr, $note:expr, $run:expr) => {
        $crate::rpc::plan::Entry {
            name: $name,
            wire: $wire,
            does: $crate::rpc::plan::Does::$does,
            audit: $audit,
            note: $note,
            run: $run,
        }
    };
}
pub(crate) use {entry, methods};

/// Refuses all but superusers; `operation` is stock's name for the call.
pub fn check_superuser(caller: &Caller, operation: &str) -> Result<(), RpcError> {
    permission::check_superuser(&caller.user, operation)
}

/// A request turned into an operation.
pub struct Planned<A> {
    /// The operation; answers the wire's message.
    pub op: Op<A>,
    /// Chooses the lane: calls below one directory share one.
    pub target: u64,
    /// How many inodes it may make.
    pub ids: u64,
    /// For the audit log: the source path as the client sent it.
    pub src: String,
    /// For the audit log: the target path.
    pub dst: Option<String>,
    /// For the audit log: the command, where it depends on the request.
    pub command: Option<Cow<'static, str>>,
    /// For the audit log: what an answer means.
    pub said: fn(&A) -> Said,
    /// For the audit log: whether the operation says which inode it came to, to be shown when it is allowed.
    pub shows_inode: bool,
    /// What a good answer means to this namenode, beyond the rows.
    pub note: Option<fn(&Service, &A)>,
    /// Whether it is kept a while when replicas are still to be reported.
    pub patience: Option<Patience<A>>,
    /// Where the operation notes the inode id of a file whose access time is to be moved before the answer leaves; 0:
    /// none.
    pub access_time_due: Option<Arc<AtomicU64>>,
}

impl<A> Planned<A> {
    /// An operation on a path.
    pub fn new(src: String, op: impl FnMut(&mut Tx<'_, '_>) -> OpResult<A> + Send + 'static) -> Planned<A> {
        Planned {
            target: lane_of(&src),
            op: Box::new(op),
            ids: 0,
            src,
            dst: None,
            command: None,
            said: |_| Said::Allowed,
            shows_inode: false,
            note: None,
            patience: None,
            access_time_due: None,
        }
    }

    /// An operation on a block, which leaves no audit line.
    pub fn of_block(
        block_id: u64,
        op: impl FnMut(&mut Tx<'_, '_>) -> OpResult<A> + Send + 'static,
    ) -> Planned<A> {
        Planned { target: parts_of_block(block_id).0, ..Planned::new(String::new(), op) }
    }

    /// An operation on `path` whose audit line names another source.
    pub fn in_lane_of(
        path: &str,
        src: String,
        op: impl FnMut(&mut Tx<'_, '_>) -> OpResult<A> + Send + 'static,
    ) -> Planned<A> {
        Planned { target: lane_of(path), ..Planned::new(src, op) }
    }

    /// What a good answer of an operation that writes means to this namenode, beyond the rows.
    pub fn noting(mut self, note: fn(&Service, &A)) -> Self {
        self.note = Some(note);
        self
    }

    /// Kept a while when replicas are still to be reported.
    pub fn patient(mut self, patience: Option<Patience<A>>) -> Self {
        self.patience = patience;
        self
    }

    /// The number of inodes that it may make.
    pub fn making(mut self, inodes: usize) -> Self {
        self.ids = inodes as u64;
        self
    }

    /// The second path.
    pub fn to(mut self, dst: String) -> Self {
        self.dst = Some(dst);
        self
    }

    /// The command in the audit log.
    pub fn command(mut self, command: impl Into<Cow<'static, str>>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Where the operation notes a file whose access time is due.
    pub fn access_time_due(mut self, noted: Arc<AtomicU64>) -> Self {
        self.access_time_due = Some(noted);
        self
    }

    /// The operation says which inode it came to: the audit log shows owner, group and mode.
    pub fn showing_inode(mut self) -> Self {
        self.shows_inode = true;
        self
    }

    /// What an answer means in the audit log.
    pub fn said(mut self, said: fn(&A) -> Said) -> Self {
        self.said = said;
        self
    }
}

/// What a call is kept for: replicas near a block.
pub struct Patience<A> {
    /// The block.
    pub block: u64,
    /// Whether an answer only says that they were not reported yet.
    pub not_yet: fn(&Result<A, RpcError>) -> bool,
}

impl<A> Clone for Patience<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Patience<A> {}

/// Calls on entries of one directory share a lane, so that they share groups and do not run into each other.
fn lane_of(path: &str) -> u64 {
    let parent = path.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
    let mut hasher = DefaultHasher::new();
    hasher.write(parent.as_bytes());
    hasher.finish()
}

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
    pub(super) fn read<Q: Checked, A: Message + 'static>(
        self: &Arc<Self>,
        call: &mut Incoming<'_>,
        entry: &'static Entry,
        _: Rpc<Q, A>,
        plan: fn(Q) -> Result<Planned<A>, RpcError>,
    ) -> Outcome {
        let mut planned = match decode_request(call.body.clone()).and_then(plan) {
            Ok(planned) => planned,
            Err(error) => return call.refuse(error),
        };
        let mut auditing = self.auditing(&mut planned, entry);
        let ctx = self.ctx(call.caller, None, &auditing);
        let due = planned.access_time_due;
        let later = || -> Later<A> {
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

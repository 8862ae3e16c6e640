//! What a line of a method table leads to.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prost::Message;
use trellis_metastore::schema::parts_of_block;
use trellis_proto::exception::RpcError;
use trellis_proto::methods::Service as Protocol;

use super::call::{Caller, Incoming, Outcome};
use super::service::Service;
use crate::audit::Said;
use crate::engine::Op;
use crate::engine::permission;
use crate::engine::tx::Tx;
use crate::refusal::Result as OpResult;

/// A message that is on the wire as `A` is, so that it answers a call whose answer that is.
pub trait Answers<A>: Message {}

impl<A: Message> Answers<A> for A {}

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

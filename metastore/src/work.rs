//! One operation on its way through a lane.

use std::task::Waker;

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::key::Key;
use crate::store::StoreError;
use crate::tx::{Stop, Tx};

/// How a run that came to its end ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// With an answer; its writes and holds count.
    Done,
    /// With a refusal; its writes and holds are dropped.
    Refused,
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// What its last run found is true and durable: answer it.
    Answered,
    /// It waited longer than it may, or kept losing; it may be sent again.
    Expired,
    /// This namenode was evicted: close the client's connection without an answer.
    Fenced,
    /// The store failed for good.
    Failed(StoreError),
}

/// Wakes a task when dropped. Whoever ends many operations keeps these until all are ended: a task that waits for
/// several of them then finds their answers together, instead of being woken for each.
#[derive(Debug, Default)]
pub struct Wake(Option<Waker>);

impl Wake {
    /// Wakes this task, if there is one.
    pub fn of(task: Option<Waker>) -> Wake {
        Wake(task)
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.wake();
        }
    }
}

/// An operation: a function that may be run any number of times, and someone to tell.
pub trait Work: Send {
    /// Runs from the top; keeps its answer for [`Work::finish`].
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<Ran, Stop>;
    /// Called once, after the last run. Who waits for it is woken when what this returns is dropped.
    fn finish(self: Box<Self>, end: End) -> Wake;
    /// When it is not worth running any more.
    fn deadline(&self) -> Instant;
}

/// What a lane does when a row that it holds for itself (its member row) has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The row's new version was adopted: run the group again.
    Again,
    /// This namenode was evicted: everything queued, in every lane, ends [`End::Fenced`].
    Fenced,
}

/// Rows that every group of a lane holds besides its operations' own, at versions learnt earlier.
///
/// A fence belongs to one incarnation of a namenode. It may adopt new versions of that incarnation's rows (a barrier),
/// never those of a later one: calls that were taken before an eviction would pass.
pub trait Fence: Send + Sync + 'static {
    /// The rows and versions for one lane; asked before a group's fetch.
    fn holds(&self, lane: usize) -> Vec<(Key, u64)>;
    /// One of them has moved: learn its version anew ([`Verdict::Again`]), or say that this incarnation is over, which
    /// ends all lanes for good. Errors of the store are retried in here.
    fn moved<'a>(&'a self, lane: usize, key: &'a Key) -> BoxFuture<'a, Verdict>;

    /// A commit of this lane was answered `MaybeCommitted` and may land later; the lane runs nothing before this
    /// says true. A fence that holds rows rewrites the lane's own and adopts their new versions: then the old commit can no
    /// longer pass, and what the next fetch shows stays true. Without that, a call that is *refused* when it runs again
    /// might still come true afterwards (one that succeeds cannot: its retry key is inserted once). True = it is barred,
    /// or the rows are gone (the next commit finds that); false = not now, ask again.
    fn bar(&self, _lane: usize) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(true))
    }
}

/// No fence: for tools and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unfenced;

impl Fence for Unfenced {
    fn holds(&self, _lane: usize) -> Vec<(Key, u64)> {
        Vec::new()
    }
    fn moved<'a>(&'a self, _lane: usize, _key: &'a Key) -> BoxFuture<'a, Verdict> {
        Box::pin(std::future::ready(Verdict::Again))
    }
}

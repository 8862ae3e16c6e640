//! The writer: one thread that runs all operations that write, many of them in one durable transaction.
//!
//! A group is whatever waited while the last transaction was in flight. Each operation runs over the transaction, so
//! it sees the writes of those before it; its own writes enter only after it ended well. Nobody is answered before the
//! commit of the whole group has returned. Waiting for anything but the engine happens while no transaction is open.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use heed::RwTxn;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::turnstile::Turnstile;
use super::view::Rows;
use super::{Core, Lmdb, apply};
use crate::change::{Change, Check, unguarded_add};
use crate::group::GroupConfig;
use crate::key::Key;
use crate::mem::check_limits;
use crate::store::StoreError;
use crate::tx::{Stop, Tx, Versions};
use crate::work::{End, Fence, Ran, Verdict, Work};

/// Transactions that one group may need because a fence moved or the disk failed.
const GROUP_ATTEMPTS: u32 = 6;
/// The writer is the only lane of its kind.
const LANE: usize = 0;

type Queue = SyncSender<Box<dyn Work>>;

/// The writing thread of one namenode. Dropping it finishes queued work and ends the thread.
pub struct Writer {
    queue: Option<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. `config` gives the group's size, the queue and the back-off. A moved fence is asked about on
    /// `runtime`, whose threads must not wait for this writer.
    pub fn start(
        store: &Lmdb,
        fence: Arc<dyn Fence>,
        versions: Versions,
        config: &GroupConfig,
        runtime: Handle,
    ) -> Result<Writer, StoreError> {
        let core = store.core.clone();
        let turnstile = Turnstile::of(&core.dir).map_err(|error| core.error(error.into()))?;
        let (queue, works) = sync_channel(config.queue.max(1));
        let lane = Lane { core: core.clone(), turnstile, fence, versions, config: config.clone(), runtime };
        let thread = std::thread::Builder::new()
            .name("lmdb-writer".into())
            .spawn(move || lane.serve(&works))
            .map_err(|error| core.error(error.into()))?;
        Ok(Writer { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues an operation that may write; all targets share the one lane. Gives the work back when the queue is full.
    pub fn write(&self, _target: u64, work: Box<dyn Work>) -> Result<(), Box<dyn Work>> {
        let Some(queue) = &self.queue else { return Err(work) };
        queue.try_send(work).map_err(|refused| match refused {
            TrySendError::Full(work) | TrySendError::Disconnected(work) => work,
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        // The last owner may be an operation that this very thread has just finished: then it ends by itself.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// How a group's transaction ended.
enum Attempt {
    /// One end per operation, in order; what they wrote is durable.
    Ended(Vec<End>),
    /// A row that the lane holds for itself has moved; nothing was written.
    FenceMoved(Key),
    /// The store failed; nothing was written.
    Failed(StoreError),
}

struct Lane {
    core: Arc<Core>,
    turnstile: Turnstile,
    fence: Arc<dyn Fence>,
    versions: Versions,
    config: GroupConfig,
    runtime: Handle,
}

impl Lane {
    /// Serves until the sender is gone and everything queued is finished.
    fn serve(&self, queue: &Receiver<Box<dyn Work>>) {
        while let Ok(first) = queue.recv() {
            let mut group = VecDeque::from([first]);
            self.run_group(&mut group, Some(queue));
        }
    }

    /// Runs a group to its end, joined by what waits in the queue by the time the write lock is held.
    fn run_group(&self, group: &mut VecDeque<Box<dyn Work>>, queue: Option<&Receiver<Box<dyn Work>>>) {
        for attempt in 1..=GROUP_ATTEMPTS {
            let error = match self.attempt(group, queue) {
                Attempt::Ended(ends) => {
                    group.drain(..).zip(ends).for_each(|(work, end)| work.finish(end));
                    return;
                }
                Attempt::FenceMoved(key) => {
                    if self.runtime.block_on(self.fence.moved(LANE, &key)) == Verdict::Fenced {
                        finish_all(group, &End::Fenced);
                        queue
                            .into_iter()
                            .flat_map(Receiver::try_iter)
                            .for_each(|work| work.finish(End::Fenced));
                        return;
                    }
                    None
                }
                // One that does not fit must not take the others with it.
                Attempt::Failed(StoreError::Full(_)) if group.len() > 1 => {
                    self.core.counters.retries.add(group.len());
                    group.drain(..).for_each(|work| self.run_group(&mut VecDeque::from([work]), None));
                    return;
                }
                Attempt::Failed(error) => Some(error),
            };
            self.core.counters.retries.add(group.len());
            match error {
                None => {}
                Some(error) if runs_again(&error) && attempt < GROUP_ATTEMPTS => {
                    tracing::warn!(%error, operations = group.len(), "a group runs again");
                    std::thread::sleep(self.config.backoff * 2u32.pow(attempt));
                }
                Some(error) => return finish_all(group, &End::Failed(error)),
            }
        }
        finish_all(group, &End::Expired);
    }

    /// One transaction over the group.
    fn attempt(
        &self,
        group: &mut VecDeque<Box<dyn Work>>,
        queue: Option<&Receiver<Box<dyn Work>>>,
    ) -> Attempt {
        let core = &*self.core;
        let mut txn = match self.turnstile.begin(core) {
            Ok(txn) => txn,
            Err(error) => return Attempt::Failed(error),
        };
        if let Some(queue) = queue {
            let room = self.config.max_operations.max(1).saturating_sub(group.len());
            group.extend(queue.try_iter().take(room));
        }
        match self.moved_fence(&txn) {
            Ok(None) => {}
            Ok(Some(key)) => return Attempt::FenceMoved(key),
            Err(error) => return Attempt::Failed(error),
        }
        core.counters.groups.add(1);
        core.counters.grouped_operations.add(group.len());
        let (now, mut written, mut ends) = (Instant::now(), 0, Vec::with_capacity(group.len()));
        for work in group.iter_mut() {
            if work.deadline() <= now {
                ends.push(End::Expired);
                continue;
            }
            core.counters.round_trips.add(1);
            match self.run_one(&mut txn, work.as_mut()) {
                Ok((end, rows)) => {
                    ends.push(end);
                    written += rows;
                }
                Err(error) => return Attempt::Failed(error),
            }
        }
        match apply::commit(core, txn, written) {
            Ok(()) => Attempt::Ended(ends),
            Err(error) => Attempt::Failed(error),
        }
    }

    /// The first row that the lane holds for itself and that is not at the version it knows.
    fn moved_fence(&self, txn: &RwTxn<'_>) -> Result<Option<Key>, StoreError> {
        let mut view = Rows::new(&self.core, txn);
        for (key, version) in self.fence.holds(LANE) {
            if view.get(&key)?.is_none_or(|row| row.version != version) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Runs an operation and makes its changes; tells its end, if the commit succeeds, and how many rows it wrote.
    /// `Err` = the transaction is broken.
    fn run_one(&self, txn: &mut RwTxn<'_>, work: &mut dyn Work) -> Result<(End, usize), StoreError> {
        let mut changes = match self.run(txn, work) {
            Ok(changes) => changes,
            Err(end) => return Ok((end, 0)),
        };
        let mut failed = apply::failed_checks(&self.core, txn, &changes)?;
        if !failed.is_empty() {
            // It holds a row at a version from before, or inserts without having looked: it may do better now.
            self.core.counters.retries.add(1);
            changes = match self.run(txn, work) {
                Ok(changes) => changes,
                Err(end) => return Ok((end, 0)),
            };
            failed = apply::failed_checks(&self.core, txn, &changes)?;
        }
        if !failed.is_empty() {
            self.core.counters.conflicts.add(1);
            return Ok((lost(&changes, &failed), 0));
        }
        Ok((End::Answered, apply::write(&self.core, txn, &changes)?))
    }

    /// Runs an operation once. `Err` = its end, without changes.
    fn run(&self, txn: &RwTxn<'_>, work: &mut dyn Work) -> Result<Vec<Change>, End> {
        let mut view = Rows::new(&self.core, txn);
        let mut tx = Tx::read_write(&mut view, &self.versions);
        // A fault in one operation must not end the thread, and with it the namenode's writes.
        let ran = catch_unwind(AssertUnwindSafe(|| work.run(&mut tx)));
        let changes = match ran {
            Ok(Ok(Ran::Done)) => Ok(tx.into_changes()),
            Ok(Ok(Ran::Refused)) => Err(End::Answered),
            Ok(Err(Stop::Fault(why))) => Err(fatal(why)),
            Ok(Err(Stop::Stale)) => Err(End::Expired),
            Ok(Err(Stop::Miss)) => Err(fatal("an operation missed a row where none can be missed".into())),
            Err(_) => Err(fatal("an operation panicked; see the log above".into())),
        };
        view.count(&self.core.counters);
        let changes = changes?;
        check_limits(&changes).map_err(End::Failed)?;
        match unguarded_add(&changes) {
            Some(key) => Err(fatal(format!("row {key:?}: a lone add, which a second run would double"))),
            None => Ok(changes),
        }
    }
}

/// Whether another transaction may succeed. After a commit of unknown outcome the engine refuses all further ones.
fn runs_again(error: &StoreError) -> bool {
    error.is_retryable() && !matches!(error, StoreError::MaybeCommitted(_))
}

/// The end of an operation that disagrees with the transaction it ran in: retriable if a row moved that it holds at a
/// version learnt earlier, its own fault if it inserts what it could have seen.
fn lost(changes: &[Change], failed: &[Key]) -> End {
    let inserted = changes.iter().find(|c| c.check == Check::Absent && failed.contains(&c.key));
    match inserted {
        Some(change) => fatal(format!("row {:?} is inserted, but exists", change.key)),
        None => End::Expired,
    }
}

fn fatal(why: String) -> End {
    End::Failed(StoreError::Fatal(why))
}

fn finish_all(group: &mut VecDeque<Box<dyn Work>>, end: &End) {
    group.drain(..).for_each(|work| work.finish(end.clone()));
}

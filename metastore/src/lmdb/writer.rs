//! The writer: one thread that runs all operations that write, many of them in one durable transaction.
//!
//! A group is whatever waited while the last transaction was in flight, and whoever of those that it answered comes back
//! at once. Each operation runs over the transaction, so it sees the writes of those before it; its own writes enter only
//! after it ended well. Nobody is answered before the commit of the whole group has returned. Waiting for anything but
//! the engine happens while no transaction is open.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::queue::Queue;
use super::transaction::Transaction;
use super::{Core, Lmdb, apply};
use crate::change::{Check, Fold};
use crate::group::GroupConfig;
use crate::key::Key;
use crate::store::StoreError;
use crate::tx::{Stop, Tx, Versions};
use crate::work::{End, Fence, Ran, Verdict, Wake, Work};

/// Transactions that one group may need because a fence moved or the disk failed.
const GROUP_ATTEMPTS: u32 = 6;
/// The longest wait for a group to gather, however long the last one took.
const LONGEST_GATHERING: Duration = Duration::from_millis(5);
/// The writer is the only lane of its kind.
const LANE: usize = 0;

/// The writing thread of one namenode. Dropping it finishes queued work and ends the thread.
pub struct Writer {
    queue: Arc<Queue>,
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
        let queue = Arc::new(Queue::new(config.queue));
        let config = config.clone();
        let lane = Lane { store: store.clone(), queue: queue.clone(), fence, versions, config, runtime };
        let thread = std::thread::Builder::new()
            .name("lmdb-writer".into())
            .spawn(move || lane.serve())
            .map_err(|error| store.core.error(error.into()))?;
        Ok(Writer { queue, thread: Some(thread) })
    }

    /// Queues an operation that may write; all targets share the one lane. Gives the work back when the queue is full.
    pub fn write(&self, _target: u64, work: Box<dyn Work>) -> Result<(), Box<dyn Work>> {
        self.queue.push(work)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
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
    /// Closes after the last operation, whoever drops the writer.
    store: Lmdb,
    queue: Arc<Queue>,
    fence: Arc<dyn Fence>,
    versions: Versions,
    config: GroupConfig,
    runtime: Handle,
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.queue.abandon();
    }
}

impl Lane {
    fn core(&self) -> &Core {
        &self.store.core
    }

    /// Serves until the queue is closed and everything in it is finished.
    fn serve(&self) {
        let (mut answered, mut took) = (0, Duration::ZERO);
        loop {
            // Whom the last group answered is likely to be back within a part of a commit's time. Without waiting for
            // them, clients fall into two halves that wait for each other, and every commit carries but half of them.
            let expected = (self.queue.len() + answered).min(self.vacant(0));
            if !self.queue.wait() {
                return;
            }
            self.queue.wait_for(expected, (took / 2).min(LONGEST_GATHERING));
            let begun = Instant::now();
            // Taken before there is a transaction: if none can begin, these are told.
            let mut group = VecDeque::new();
            self.queue.take(&mut group, self.vacant(0));
            answered = self.run_group(&mut group, true);
            took = begun.elapsed();
        }
    }

    /// How many more operations fit into a group of `operations`.
    fn vacant(&self, operations: usize) -> usize {
        self.config.max_operations.max(1).saturating_sub(operations)
    }

    /// Runs a group to its end; if it is `open`, joined by what waits in the queue by the time the write lock is held.
    /// Returns how many operations that were.
    fn run_group(&self, group: &mut VecDeque<Box<dyn Work>>, open: bool) -> usize {
        for attempt in 1..=GROUP_ATTEMPTS {
            let error = match self.attempt(group, open) {
                Attempt::Ended(ends) => {
                    let answered = group.len();
                    let _woken: Vec<Wake> =
                        group.drain(..).zip(ends).map(|(work, end)| finish(work, end)).collect();
                    return answered;
                }
                Attempt::FenceMoved(key) => {
                    if self.runtime.block_on(self.fence.moved(LANE, &key)) == Verdict::Fenced {
                        self.queue.take(group, usize::MAX);
                        finish_all(group, &End::Fenced);
                        return 0;
                    }
                    None
                }
                // One that does not fit must not take the others with it.
                Attempt::Failed(StoreError::Full(_)) if group.len() > 1 => {
                    self.core().counters.retries.add(group.len());
                    return group
                        .drain(..)
                        .map(|work| self.run_group(&mut VecDeque::from([work]), false))
                        .sum();
                }
                Attempt::Failed(error) => Some(error),
            };
            self.core().counters.retries.add(group.len());
            match error {
                None => {}
                Some(error) if runs_again(&error) && attempt < GROUP_ATTEMPTS => {
                    tracing::warn!(%error, operations = group.len(), "a group runs again");
                    std::thread::sleep(self.config.backoff * 2u32.pow(attempt));
                }
                Some(error) => {
                    finish_all(group, &End::Failed(error));
                    return 0;
                }
            }
        }
        finish_all(group, &End::Expired);
        0
    }

    /// One transaction over the group.
    fn attempt(&self, group: &mut VecDeque<Box<dyn Work>>, open: bool) -> Attempt {
        let core = self.core();
        let mut transaction = match Transaction::begin(core) {
            Ok(transaction) => transaction,
            Err(error) => return Attempt::Failed(error),
        };
        if open {
            self.queue.take(group, self.vacant(group.len()));
        }
        match self.moved_fence(&transaction) {
            Ok(None) => {}
            Ok(Some(key)) => return Attempt::FenceMoved(key),
            Err(error) => return Attempt::Failed(error),
        }
        core.counters.groups.add(1);
        core.counters.grouped_operations.add(group.len());
        let (now, mut ends) = (Instant::now(), Vec::with_capacity(group.len()));
        for work in group.iter_mut() {
            if work.deadline() <= now {
                ends.push(End::Expired);
                continue;
            }
            core.counters.round_trips.add(1);
            match self.run_one(&mut transaction, work.as_mut()) {
                Ok(end) => ends.push(end),
                Err(error) => return Attempt::Failed(error),
            }
        }
        match transaction.commit() {
            Ok(()) => Attempt::Ended(ends),
            Err(error) => Attempt::Failed(error),
        }
    }

    /// The first row that the lane holds for itself and that is not at the version it knows.
    fn moved_fence(&self, transaction: &Transaction<'_>) -> Result<Option<Key>, StoreError> {
        let mut view = transaction.rows();
        for (key, version) in self.fence.holds(LANE) {
            if view.get(&key)?.is_none_or(|row| row.version != version) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Runs an operation and makes its changes; tells its end, if the commit succeeds. `Err` = the transaction is broken.
    fn run_one(&self, transaction: &mut Transaction<'_>, work: &mut dyn Work) -> Result<End, StoreError> {
        let mut fold = match self.run(transaction, work) {
            Ok(fold) => fold,
            Err(end) => return Ok(end),
        };
        let mut failed = apply::failed_beliefs(transaction, &fold)?;
        if !failed.is_empty() {
            // It holds a row at a version from before, or inserts without having looked: it may do better now.
            self.core().counters.retries.add(1);
            fold = match self.run(transaction, work) {
                Ok(fold) => fold,
                Err(end) => return Ok(end),
            };
            failed = apply::failed_beliefs(transaction, &fold)?;
        }
        if !failed.is_empty() {
            self.core().counters.conflicts.add(1);
            return Ok(lost(&fold, &failed));
        }
        apply::write_fold(transaction, fold)?;
        Ok(End::Answered)
    }

    /// Runs an operation once. `Err` = its end, without changes.
    fn run(&self, transaction: &Transaction<'_>, work: &mut dyn Work) -> Result<Fold, End> {
        let mut view = transaction.rows();
        let mut tx = Tx::read_write(&mut view, &self.versions);
        // A fault in one operation must not end the thread, and with it the namenode's writes.
        let ran = catch_unwind(AssertUnwindSafe(|| work.run(&mut tx)));
        let fold = match ran {
            Ok(Ok(Ran::Done)) => Ok(tx.into_fold()),
            Ok(Ok(Ran::Refused)) => Err(End::Answered),
            Ok(Err(Stop::Fault(why))) => Err(fatal(why)),
            Ok(Err(Stop::Stale)) => Err(End::Expired),
            Ok(Err(Stop::Miss)) => Err(fatal("an operation missed a row where none can be missed".into())),
            Err(_) => Err(fatal("an operation panicked; see the log above".into())),
        };
        view.count(&self.core().counters);
        let fold = fold?;
        match fold.unguarded_add() {
            Some(key) => Err(fatal(format!("row {key:?}: a lone add, which a second run would double"))),
            None => Ok(fold),
        }
    }
}

/// Whether another transaction may succeed. After a commit of unknown outcome the engine refuses all further ones.
fn runs_again(error: &StoreError) -> bool {
    error.is_retryable() && !matches!(error, StoreError::MaybeCommitted(_))
}

/// The end of an operation that disagrees with the transaction it ran in: retriable if a row moved that it holds at a
/// version learnt earlier, its own fault if it inserts what it could have seen.
fn lost(fold: &Fold, failed: &[Key]) -> End {
    let inserts = |key: &&Key| fold.slots.get(*key).is_some_and(|slot| slot.check() == Check::Absent);
    match failed.iter().find(inserts) {
        Some(key) => fatal(format!("row {key:?} is inserted, but exists")),
        None => End::Expired,
    }
}

fn fatal(why: String) -> End {
    End::Failed(StoreError::Fatal(why))
}

fn finish_all(group: &mut VecDeque<Box<dyn Work>>, end: &End) {
    let _woken: Vec<Wake> = group.drain(..).map(|work| finish(work, end.clone())).collect();
}

/// Tells an operation its end. A fault in that must not end the thread either; its client's connection closes.
fn finish(work: Box<dyn Work>, end: End) -> Wake {
    catch_unwind(AssertUnwindSafe(|| work.finish(end))).unwrap_or_default()
}

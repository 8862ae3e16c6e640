//! One lane: takes what waits, runs it as a group, and gives an operation that keeps losing its locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::GroupConfig;
use super::cache::Cache;
use super::run::{Item, Outcome, Then, run_group, run_once, with_fence};
use crate::key::{Key, Scan};
use crate::store::{Fetched, Store, StoreError};
use crate::tx::Versions;
use crate::work::{End, Fence, Verdict, Work};

/// Conflicts after which an operation runs alone, over locked rows.
const LOSSES_BEFORE_LOCK: u32 = 3;
/// How often a locked run may need more rows before its call is given up as retriable.
const LOCK_GROWTHS: usize = 4;
/// Back-off doubles up to 2^this times the configured one.
const MAX_BACKOFF_DOUBLINGS: u32 = 6;

pub(super) struct Lane {
    pub store: Arc<dyn Store>,
    pub fence: Arc<dyn Fence>,
    pub versions: Versions,
    pub config: GroupConfig,
    pub number: usize,
    pub writes: bool,
    /// Set for good, for all lanes together, once one of them learns that this namenode was evicted.
    pub fenced: Arc<AtomicBool>,
}

impl Lane {
    /// Serves until the sender is gone and everything queued is finished.
    pub async fn serve(self, mut queue: mpsc::Receiver<Box<dyn Work>>) {
        let mut jitter = self.jitter();
        let mut heads: Vec<Item> = Vec::new();
        let mut failures = 0;
        // Whether a commit of this lane may still land.
        let mut unsure = false;
        loop {
            if heads.is_empty() {
                match queue.recv().await {
                    Some(work) => heads.push(Item::new(work)),
                    None => return,
                }
            }
            while heads.len() < self.config.max_operations
                && let Ok(work) = queue.try_recv()
            {
                heads.push(Item::new(work));
            }
            if self.is_fenced() {
                heads.drain(..).for_each(|item| drop(item.work.finish(End::Fenced)));
                continue;
            }
            if unsure && !self.fence.bar(self.number).await {
                failures += 1;
                heads = drop_expired(heads);
                tokio::time::sleep(self.back_off(failures, &mut jitter)).await;
                continue;
            }
            let waiting = heads.split_off(heads.len().min(self.config.max_operations.max(1)));
            let (loser, group) = self.sort_out(heads);
            let mut then = Then::GoOn;
            heads = Vec::new();
            if !group.is_empty() {
                (heads, then) = run_group(&self, group).await;
            }
            match loser {
                // Not beside a commit that may still land.
                Some(item) if then >= Then::Bar => heads.push(item),
                Some(item) => {
                    let (again, next) = self.run_locked(item).await;
                    heads.extend(again);
                    then = then.max(next);
                }
                None => {}
            }
            heads.extend(waiting);
            failures = if matches!(then, Then::BackOff | Then::Bar) { failures + 1 } else { 0 };
            unsure = then == Then::Bar;
            match then {
                Then::GoOn => {}
                Then::BackOff | Then::Bar => tokio::time::sleep(self.back_off(failures, &mut jitter)).await,
                Then::Fenced => self.fenced.store(true, Ordering::SeqCst),
            }
        }
    }

    pub fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::SeqCst)
    }

    /// Drops what waited too long; takes out one operation that lost too often.
    fn sort_out(&self, heads: Vec<Item>) -> (Option<Item>, Vec<Item>) {
        let mut group = drop_expired(heads);
        let loser = group.iter().position(|item| item.losses >= LOSSES_BEFORE_LOCK);
        (loser.map(|at| group.remove(at)), group)
    }

    fn jitter(&self) -> StdRng {
        match self.config.seed {
            Some(seed) => StdRng::seed_from_u64(seed ^ (self.number as u64) << 1 ^ u64::from(self.writes)),
            None => StdRng::from_rng(&mut rand::rng()),
        }
    }

    /// The configured back-off, doubled per failure in a row, times 0.5..1.5.
    fn back_off(&self, failures: u32, jitter: &mut StdRng) -> Duration {
        let full = self.config.backoff * 2u32.pow(failures.saturating_sub(1).min(MAX_BACKOFF_DOUBLINGS));
        full.mul_f64(jitter.random_range(0.5..1.5))
    }

    /// Runs one operation alone over locked rows: everything that its runs so far used (what it only read, Loose rows
    /// included, to check; what it wrote, to change), growing a few times. Gives it back when it has to come again.
    async fn run_locked(&self, mut item: Item) -> (Option<Item>, Then) {
        self.store.counters().locked_operations.add(1);
        for _ in 0..=LOCK_GROWTHS {
            let (end, then) = match self.try_locked(&mut item).await {
                Ok(Some(End::Fenced)) => (End::Fenced, Then::Fenced),
                Ok(Some(end)) => (end, Then::GoOn),
                Ok(None) if item.work.deadline() <= Instant::now() => (End::Expired, Then::GoOn),
                Ok(None) => continue,
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, "a locked operation runs again");
                    self.store.counters().retries.add(1);
                    return (Some(item), Then::after(&error));
                }
                Err(error) => (End::Failed(error), Then::GoOn),
            };
            drop(item.work.finish(end));
            return (None, then);
        }
        drop(item.work.finish(End::Expired));
        (None, Then::GoOn)
    }

    /// `None` = it needs rows that are not locked; they are in its wants now. Scans come from one fetch after the
    /// locks, so they are as fresh as the locked rows or fresher.
    async fn try_locked(&self, item: &mut Item) -> Result<Option<End>, StoreError> {
        let held = self.fence.holds(self.number);
        let (check, change) = lock_sets(item, &held);
        let locked = self.store.lock(&check, &change).await?;
        let mut cache = Cache::default();
        let all: Vec<Key> = check.iter().chain(&change).cloned().collect();
        cache.fill(all, Vec::new(), Fetched { rows: locked.rows().to_vec(), scans: Vec::new() })?;
        if !item.wants.scans.is_empty() {
            let scans: Vec<Scan> = item.wants.scans.iter().cloned().collect();
            let fetched = self.store.fetch(&[], &scans).await?;
            cache.fill(Vec::new(), scans, fetched)?;
        }
        let (outcome, trace) = run_once(self, item, &cache);
        let is_locked = |key: &Key| check.contains(key) || change.contains(key);
        let grown = trace.writes.iter().flatten().any(|key| !change.contains(key))
            || trace.wants.keys.iter().any(|key| !is_locked(key));
        item.remember(trace);
        let fold = match outcome {
            Outcome::Missed => return Ok(None),
            Outcome::Refused => return Ok(Some(End::Answered)),
            // It holds a version that is gone, now that nobody can change the row: it cannot win.
            Outcome::Stale => return Ok(Some(End::Expired)),
            Outcome::Failed(why) => return Ok(Some(End::Failed(StoreError::Fatal(why)))),
            Outcome::Done(fold) if !fold.must_commit() => return Ok(Some(End::Answered)),
            Outcome::Done(_) if grown => return Ok(None),
            Outcome::Done(fold) => fold,
        };
        if self.is_fenced() {
            return Ok(Some(End::Fenced));
        }
        let keys = match locked.commit(with_fence(&held, fold.changes())).await {
            Ok(()) => return Ok(Some(End::Answered)),
            Err(StoreError::Conflict(keys)) => keys,
            Err(error) => return Err(error),
        };
        match keys.iter().find(|key| held.iter().any(|(own, _)| own == *key)) {
            Some(key) if self.fence.moved(self.number, key).await == Verdict::Fenced => Ok(Some(End::Fenced)),
            _ => Ok(None),
        }
    }
}

fn drop_expired(items: Vec<Item>) -> Vec<Item> {
    let now = Instant::now();
    let (late, rest): (Vec<Item>, Vec<Item>) =
        items.into_iter().partition(|item| item.work.deadline() <= now);
    late.into_iter().for_each(|item| drop(item.work.finish(End::Expired)));
    rest
}

/// The keys to lock for an operation: those that it will only check, and those that it will change; in lock order.
fn lock_sets(item: &Item, held: &[(Key, u64)]) -> (Vec<Key>, Vec<Key>) {
    let own = held.iter().map(|(key, _)| key);
    let all = item.wants.keys.iter().chain(own).chain(item.writes.iter().flatten()).cloned();
    // What it will change is not known before a run came to its end.
    let will_change = |key: &Key| item.writes.as_ref().is_none_or(|writes| writes.contains(key));
    let (mut change, mut check): (Vec<Key>, Vec<Key>) = all.partition(will_change);
    for keys in [&mut check, &mut change] {
        keys.sort_by(|a, b| a.lock_order().cmp(&b.lock_order()));
        keys.dedup();
    }
    (check, change)
}

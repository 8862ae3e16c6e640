//! One lane: takes what waits, runs it as a group, and gives an operation that keeps losing its locks.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::RngExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::GroupConfig;
use super::cache::{Cache, Wants};
use super::run::{Item, Outcome, run_group, run_once, with_fence};
use crate::key::Key;
use crate::store::{Store, StoreError};
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
}

impl Lane {
    /// Serves until the sender is gone and everything queued is finished.
    pub async fn serve(self, mut queue: mpsc::Receiver<Box<dyn Work>>) {
        let mut heads: Vec<Item> = Vec::new();
        let mut failures = 0;
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
            let waiting = heads.split_off(heads.len().min(self.config.max_operations));
            let (loser, group) = self.sort_out(heads);
            let mut back_off = false;
            heads = Vec::new();
            if !group.is_empty() {
                (heads, back_off) = run_group(&self, group).await;
            }
            if let Some(item) = loser {
                heads.extend(self.run_locked(item).await);
            }
            heads.extend(waiting);
            failures = if back_off { failures + 1 } else { 0 };
            if back_off {
                tokio::time::sleep(self.back_off(failures)).await;
            }
        }
    }

    /// Drops what waited too long; takes out one operation that lost too often.
    fn sort_out(&self, heads: Vec<Item>) -> (Option<Item>, Vec<Item>) {
        let now = Instant::now();
        let (mut loser, mut group) = (None, Vec::new());
        for item in heads {
            if item.work.deadline() <= now {
                item.work.finish(End::Expired);
            } else if loser.is_none() && item.losses >= LOSSES_BEFORE_LOCK {
                loser = Some(item);
            } else {
                group.push(item);
            }
        }
        (loser, group)
    }

    fn back_off(&self, failures: u32) -> Duration {
        let full = self.config.backoff * 2u32.pow(failures.min(MAX_BACKOFF_DOUBLINGS));
        full.mul_f64(jitter(&mut rand::rng()))
    }

    /// Runs one operation alone over locked rows: everything its last run used, growing a few times.
    async fn run_locked(&self, mut item: Item) -> Option<Item> {
        self.store.counters().locked_operations.add(1);
        for _ in 0..=LOCK_GROWTHS {
            match self.try_locked(&mut item).await {
                Ok(Some(end)) => {
                    item.work.finish(end);
                    return None;
                }
                Ok(None) => {}
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, "a locked operation runs again");
                    self.store.counters().retries.add(1);
                    tokio::time::sleep(self.back_off(1)).await;
                    return Some(item);
                }
                Err(error) => {
                    item.work.finish(End::Failed(error));
                    return None;
                }
            }
        }
        item.work.finish(End::Expired);
        None
    }

    /// `None` = it needs rows that are not locked; they are in its wants now.
    async fn try_locked(&self, item: &mut Item) -> Result<Option<End>, StoreError> {
        let held = self.fence.holds(self.number);
        let mut all: Vec<Key> =
            item.wants.keys.iter().cloned().chain(held.iter().map(|(key, _)| key.clone())).collect();
        all.sort_by(|a, b| a.lock_order().cmp(&b.lock_order()));
        all.dedup();
        let locked = self.store.lock(&[], &all).await?;
        let mut cache = Cache::default();
        cache.fill_locked(all.iter(), locked.rows());
        let scans = Wants { keys: Default::default(), scans: item.wants.scans.clone() };
        if !scans.is_empty() {
            let list: Vec<_> = scans.scans.iter().cloned().collect();
            cache.fill(&scans, self.store.fetch(&[], &list).await?);
        }
        let (outcome, trace) = run_once(self, item, &cache);
        let grown = trace.wants.keys.iter().any(|key| !item.wants.keys.contains(key));
        item.wants.add(&trace.wants);
        match outcome {
            Outcome::Missed => Ok(None),
            Outcome::Done(_) if grown => Ok(None),
            Outcome::Refused => Ok(Some(End::Answered)),
            Outcome::Failed(why) => Ok(Some(End::Failed(StoreError::Fatal(why)))),
            Outcome::Done(fold) if !fold.writes_anything() => Ok(Some(End::Answered)),
            Outcome::Done(fold) => match locked.commit(with_fence(self, fold.changes())).await {
                Ok(()) => Ok(Some(End::Answered)),
                Err(StoreError::Conflict(keys)) => {
                    if let Some(key) = keys.iter().find(|key| held.iter().any(|(own, _)| own == *key))
                        && self.fence.moved(self.number, key).await == Verdict::Fenced
                    {
                        return Ok(Some(End::Fenced));
                    }
                    Ok(None)
                }
                Err(error) => Err(error),
            },
        }
    }
}

/// A factor in 0.5..1.5.
fn jitter(rng: &mut impl Rng) -> f64 {
    rng.random_range(0.5..1.5)
}

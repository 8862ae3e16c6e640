//! One group: run, fetch, run, commit.

use std::collections::BTreeSet;

use super::cache::{Cache, GroupView, Trace, Wants};
use super::lane::Lane;
use crate::change::{Change, Check, Effect, Fold};
use crate::key::Key;
use crate::store::StoreError;
use crate::tx::{Stop, Tx};
use crate::work::{End, Ran, Verdict, Work};

/// Conflicts after which a group stops trying to save the rest of itself.
const COMMIT_ATTEMPTS: usize = 8;
/// Fetches after which an operation gives up; a path has at most 1000 components, each may cost one.
const MAX_ROUNDS: u32 = 1100;

/// An operation in a lane, with what is known of it from earlier runs.
pub(super) struct Item {
    pub work: Box<dyn Work>,
    pub wants: Wants,
    /// Conflicts lost so far.
    pub losses: u32,
    /// Fetches that did not suffice, or failed, so far.
    pub rounds: u32,
}

impl Item {
    pub fn new(work: Box<dyn Work>) -> Item {
        Item { work, wants: Wants::default(), losses: 0, rounds: 0 }
    }
}

/// How the last run of an operation came out.
pub(super) enum Outcome {
    Done(Fold),
    Refused,
    Missed,
    Failed(String),
}

/// Runs an operation once over what the group has at hand.
pub(super) fn run_once(lane: &Lane, item: &mut Item, cache: &Cache) -> (Outcome, Trace) {
    let mut trace = Trace::default();
    let mut view = GroupView { cache, trace: &mut trace };
    let (ran, fold) = if lane.writes {
        let mut tx = Tx::read_write(&mut view, &lane.versions);
        let ran = item.work.run(&mut tx);
        (ran, tx.into_fold())
    } else {
        (item.work.run(&mut Tx::read_only(&mut view)), Fold::default())
    };
    // Rows that it writes without having read them (inserts) come along with the next fetch.
    trace.wants.keys.extend(fold.slots.keys().cloned());
    let outcome = match ran {
        Ok(Ran::Done) => Outcome::Done(fold),
        Ok(Ran::Refused) => Outcome::Refused,
        Err(Stop::Miss) => Outcome::Missed,
        Err(Stop::Fault(why)) => Outcome::Failed(why),
    };
    (outcome, trace)
}

/// A group in flight: its operations, and what became of each in the last pass.
struct Group<'l> {
    lane: &'l Lane,
    items: Vec<Option<Item>>,
    traces: Vec<Trace>,
    cache: Cache,
    /// Operations for the next group.
    next: Vec<Item>,
}

/// Runs a group. Returns the operations that head the next one, and whether to back off first.
pub(super) async fn run_group(lane: &Lane, items: Vec<Item>) -> (Vec<Item>, bool) {
    let count = items.len();
    let mut group = Group {
        lane,
        items: items.into_iter().map(Some).collect(),
        traces: (0..count).map(|_| Trace::default()).collect(),
        cache: Cache::default(),
        next: Vec::new(),
    };
    let counters = lane.store.counters();
    if lane.writes {
        counters.groups.add(1);
        counters.grouped_operations.add(count);
    } else {
        counters.read_groups.add(1);
        counters.grouped_reads.add(count);
    }
    if let Err(error) = group.fetch().await {
        let back_off = group.store_failed(error);
        return (group.next, back_off);
    }
    group.pass();
    let back_off = group.commit().await;
    (group.next, back_off)
}

impl Group<'_> {
    /// Collects what all operations need and brings it in one fetch.
    async fn fetch(&mut self) -> Result<(), StoreError> {
        let mut wants = Wants::default();
        for place in 0..self.items.len() {
            let Some(item) = &mut self.items[place] else { continue };
            if item.wants.is_empty() {
                item.wants = run_once(self.lane, item, &self.cache).1.wants;
            }
            let mut with = wants.clone();
            with.add(&item.wants);
            let scanned: usize = with.scans.iter().map(|scan| scan.limit as usize).sum();
            if place > 0 && with.keys.len() + scanned > self.lane.config.max_rows {
                self.postpone(place);
            } else {
                wants = with;
            }
        }
        if wants.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = wants.keys.iter().cloned().collect();
        let scans: Vec<_> = wants.scans.iter().cloned().collect();
        let fetched = self.lane.store.fetch(&keys, &scans).await?;
        self.cache.fill(&wants, fetched);
        Ok(())
    }

    /// Runs every operation in turn, each over the writes of those before it.
    fn pass(&mut self) {
        self.cache.forget_writes();
        for place in 0..self.items.len() {
            let Some(item) = &mut self.items[place] else { continue };
            let (outcome, trace) = run_once(self.lane, item, &self.cache);
            let (missed, fold) = match outcome {
                Outcome::Done(fold) => (false, Some(fold)),
                Outcome::Refused => (false, None),
                Outcome::Missed => (true, None),
                Outcome::Failed(why) => {
                    self.finish(place, End::Failed(StoreError::Fatal(why)));
                    continue;
                }
            };
            let disagrees = fold.is_some_and(|fold| self.cache.add_writes(place, fold).is_err());
            if missed || disagrees {
                item.wants.add(&trace.wants);
                self.lane.store.counters().misses.add(1);
                self.miss(place);
            } else {
                self.traces[place] = trace;
            }
        }
    }

    /// Commits what the operations wrote, shedding those that lost, and answers the rest. True = back off.
    async fn commit(&mut self) -> bool {
        for _ in 0..COMMIT_ATTEMPTS {
            if !self.cache.overlay().writes_anything() {
                self.answer_all();
                return false;
            }
            let changes = self.changes_with_fence();
            match self.lane.store.commit(&changes).await {
                Ok(()) => {
                    self.answer_all();
                    return false;
                }
                Err(StoreError::Conflict(keys)) => {
                    if let Some(done) = self.fence_moved(&keys).await {
                        return done;
                    }
                    self.shed(&keys);
                    self.pass();
                }
                Err(error) => return self.store_failed(error),
            }
        }
        self.everyone_lost();
        true
    }

    /// The group's changes and the lane's own held rows, in lock order.
    fn changes_with_fence(&self) -> Vec<Change> {
        with_fence(self.lane, self.cache.overlay().changes())
    }

    /// If one of the lane's own rows moved, ends the group; `None` = it was another conflict.
    async fn fence_moved(&mut self, keys: &[Key]) -> Option<bool> {
        let held = self.lane.fence.holds(self.lane.number);
        let key = keys.iter().find(|key| held.iter().any(|(own, _)| own == *key))?;
        match self.lane.fence.moved(self.lane.number, key).await {
            Verdict::Again => self.everyone_lost(),
            Verdict::Fenced => self.finish_all(&End::Fenced),
        }
        Some(false)
    }

    /// Operations that touched a conflicting key leave, and so does everyone who saw the writes of one that leaves.
    fn shed(&mut self, keys: &[Key]) {
        let mut leaving: BTreeSet<usize> = BTreeSet::new();
        for place in 0..self.items.len() {
            let trace = &self.traces[place];
            let touched = keys.iter().any(|key| trace.wants.keys.contains(key));
            if self.items[place].is_some() && (touched || trace.saw.iter().any(|seen| leaving.contains(seen)))
            {
                leaving.insert(place);
            }
        }
        for place in leaving {
            self.lose(place);
        }
    }

    fn lose(&mut self, place: usize) {
        let trace = std::mem::take(&mut self.traces[place]);
        if let Some(mut item) = self.items[place].take() {
            self.lane.store.counters().retries.add(1);
            item.wants.add(&trace.wants);
            item.losses += 1;
            self.next.push(item);
        }
    }

    fn everyone_lost(&mut self) {
        (0..self.items.len()).for_each(|place| self.lose(place));
    }

    /// Leaves for the next group, whose fetch brings everything it wants in one piece.
    fn miss(&mut self, place: usize) {
        if let Some(item) = &mut self.items[place] {
            item.rounds += 1;
            match item.rounds > MAX_ROUNDS {
                true => self.finish(place, End::Expired),
                false => self.postpone(place),
            }
        }
    }

    fn postpone(&mut self, place: usize) {
        self.next.extend(self.items[place].take());
    }

    fn finish(&mut self, place: usize, end: End) {
        if let Some(item) = self.items[place].take() {
            item.work.finish(end);
        }
    }

    fn finish_all(&mut self, end: &End) {
        (0..self.items.len()).for_each(|place| self.finish(place, end.clone()));
    }

    fn answer_all(&mut self) {
        self.finish_all(&End::Answered);
    }

    /// The store failed: everyone runs again after a back-off, or learns of it. True = back off.
    fn store_failed(&mut self, error: StoreError) -> bool {
        if !error.is_retryable() {
            self.finish_all(&End::Failed(error));
            return false;
        }
        tracing::debug!(%error, operations = self.items.len(), "a group runs again");
        for place in 0..self.items.len() {
            if let Some(mut item) = self.items[place].take() {
                self.lane.store.counters().retries.add(1);
                item.wants.add(&self.traces[place].wants);
                self.next.push(item);
            }
        }
        true
    }
}

/// Adds the rows that a lane holds for itself.
pub(super) fn with_fence(lane: &Lane, mut changes: Vec<Change>) -> Vec<Change> {
    for (key, version) in lane.fence.holds(lane.number) {
        changes.push(Change { key, check: Check::Version(version), effect: Effect::Keep });
    }
    changes.sort_by(|a, b| a.key.lock_order().cmp(&b.key.lock_order()));
    changes
}

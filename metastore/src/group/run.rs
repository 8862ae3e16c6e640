//! One group: run, fetch, run, commit.

use std::collections::BTreeSet;

use super::cache::{Cache, GroupView, Trace, Wants};
use super::lane::Lane;
use crate::change::{Change, Check, Effect, Fold};
use crate::key::{Key, Scan};
use crate::store::StoreError;
use crate::tx::{Stop, Tx};
use crate::work::{End, Ran, Verdict, Work};

/// Conflicts after which a group stops trying to save the rest of itself.
const COMMIT_ATTEMPTS: usize = 8;
/// So many counted rows weigh as much as one returned row.
const COUNTED_PER_ROW: usize = 16;

/// An operation in a lane, with what is known of it from earlier runs.
pub(super) struct Item {
    pub work: Box<dyn Work>,
    /// Everything that earlier runs used or asked for.
    pub wants: Wants,
    /// What its last run wrote; `None` when that run did not come to its end.
    pub writes: Option<BTreeSet<Key>>,
    /// Conflicts lost so far.
    pub losses: u32,
    /// Fetches that did not suffice so far.
    pub rounds: u32,
}

impl Item {
    pub fn new(work: Box<dyn Work>) -> Item {
        Item { work, wants: Wants::default(), writes: None, losses: 0, rounds: 0 }
    }

    /// Keeps what a run used (nothing, when there was none since the last fetch).
    pub fn remember(&mut self, trace: Trace) {
        if !trace.wants.is_empty() {
            self.wants.add(&trace.wants);
            self.writes = trace.writes;
        }
    }
}

/// What a lane does after a group or a locked operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Then {
    GoOn,
    BackOff,
    /// The same, after a commit that may still land.
    Bar,
    /// This namenode was evicted.
    Fenced,
}

impl Then {
    /// After an error that is retried.
    pub fn after(error: &StoreError) -> Then {
        match error {
            StoreError::MaybeCommitted(_) => Then::Bar,
            _ => Then::BackOff,
        }
    }
}

/// How the last run of an operation came out.
pub(super) enum Outcome {
    Done(Fold),
    Refused,
    Missed,
    Stale,
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
    if !trace.missed && ran.is_ok() {
        trace.writes = Some(fold.written().cloned().collect());
    }
    let outcome = match ran {
        // Also when the operation went on after the stop: what it did rests on a row that it has not seen.
        _ if trace.missed => Outcome::Missed,
        Ok(Ran::Done) => match fold.unguarded_add() {
            Some(key) => Outcome::Failed(format!("row {key:?}: a lone add, which a second run would double")),
            None => Outcome::Done(fold),
        },
        Ok(Ran::Refused) => Outcome::Refused,
        Err(Stop::Miss) => Outcome::Missed,
        Err(Stop::Stale) => Outcome::Stale,
        Err(Stop::Fault(why)) => Outcome::Failed(why),
    };
    (outcome, trace)
}

/// A group in flight: its operations, and what became of each in the last pass.
struct Group<'l> {
    lane: &'l Lane,
    /// The lane's own rows as they were known before the fetch: a barrier that came since must be noticed.
    held: Vec<(Key, u64)>,
    items: Vec<Option<Item>>,
    traces: Vec<Trace>,
    /// What each operation is told once the commit is durable.
    ends: Vec<End>,
    cache: Cache,
    /// Operations for the next group.
    next: Vec<Item>,
}

/// Runs a group. Returns the operations that head the next one, and what to do first.
pub(super) async fn run_group(lane: &Lane, items: Vec<Item>) -> (Vec<Item>, Then) {
    let count = items.len();
    let mut group = Group {
        lane,
        held: if lane.writes { lane.fence.holds(lane.number) } else { Vec::new() },
        items: items.into_iter().map(Some).collect(),
        traces: (0..count).map(|_| Trace::default()).collect(),
        ends: vec![End::Answered; count],
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
        let then = group.store_failed(error);
        return (group.next, then);
    }
    group.pass();
    let then = group.commit().await;
    (group.next, then)
}

impl Group<'_> {
    /// Collects what all operations need and brings it in one fetch. Operations beyond the limit of rows wait for the
    /// next group; one that is beyond it alone runs alone.
    async fn fetch(&mut self) -> Result<(), StoreError> {
        let mut wants = Wants::default();
        let mut rows = 0;
        for place in 0..self.items.len() {
            let Some(item) = &mut self.items[place] else { continue };
            if item.wants.is_empty() {
                let (_, trace) = run_once(self.lane, item, &self.cache);
                item.remember(trace);
            }
            let keys = item.wants.keys.iter().filter(|key| !wants.keys.contains(*key)).count();
            let scans = item.wants.scans.iter().filter(|scan| !wants.scans.contains(*scan));
            let more = keys + scans.map(weight).sum::<usize>();
            if rows > 0 && rows + more > self.lane.config.max_rows {
                self.postpone(place);
            } else {
                rows += more;
                wants.add(&item.wants);
            }
        }
        if wants.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = wants.keys.into_iter().collect();
        let scans: Vec<_> = wants.scans.into_iter().collect();
        let fetched = self.lane.store.fetch(&keys, &scans).await?;
        self.cache.fill(keys, scans, fetched)
    }

    /// Runs every operation in turn, each over the writes of those before it. One that writes nothing and saw nobody's
    /// writes has its answer now, as of the fetch; the others wait for the commit.
    fn pass(&mut self) {
        self.cache.forget_writes();
        for place in 0..self.items.len() {
            let Some(item) = &mut self.items[place] else { continue };
            let (outcome, trace) = run_once(self.lane, item, &self.cache);
            let (end, adds) = match outcome {
                Outcome::Missed => {
                    item.remember(trace);
                    self.miss(place);
                    continue;
                }
                Outcome::Stale => {
                    self.traces[place] = trace;
                    self.lose(place);
                    continue;
                }
                Outcome::Refused => (End::Answered, None),
                Outcome::Failed(why) => (End::Failed(StoreError::Fatal(why)), None),
                Outcome::Done(fold) => {
                    let waits = fold.must_commit() || !trace.saw.is_empty();
                    (End::Answered, waits.then_some(fold))
                }
            };
            if adds.is_none() && trace.saw.is_empty() {
                self.finish(place, end);
                continue;
            }
            self.traces[place] = trace;
            self.ends[place] = end;
            if adds.is_some_and(|fold| !self.cache.add_writes(place, &fold)) {
                self.lose(place);
            }
        }
    }

    /// Commits what the operations wrote, shedding those that lost, and answers the rest.
    async fn commit(&mut self) -> Then {
        for _ in 0..COMMIT_ATTEMPTS {
            if !self.cache.overlay().must_commit() {
                self.answer_all();
                return Then::GoOn;
            }
            if self.lane.is_fenced() {
                self.finish_all(&End::Fenced);
                return Then::Fenced;
            }
            let changes = with_fence(&self.held, self.cache.overlay().changes());
            match self.lane.store.commit(&changes).await {
                Ok(()) => {
                    self.answer_all();
                    return Then::GoOn;
                }
                Err(StoreError::Conflict(keys)) => {
                    if let Some(then) = self.fence_moved(&keys).await {
                        return then;
                    }
                    if !self.shed(&keys) {
                        break;
                    }
                    self.pass();
                }
                Err(error) => return self.store_failed(error),
            }
        }
        (0..self.items.len()).for_each(|place| self.lose(place));
        Then::BackOff
    }

    /// If one of the lane's own rows moved, ends the group; `None` = it was another conflict.
    async fn fence_moved(&mut self, keys: &[Key]) -> Option<Then> {
        let key = keys.iter().find(|key| self.held.iter().any(|(own, _)| own == *key))?;
        match self.lane.fence.moved(self.lane.number, key).await {
            // A barrier is nobody's loss.
            Verdict::Again => {
                self.all_again();
                Some(Then::GoOn)
            }
            Verdict::Fenced => {
                self.finish_all(&End::Fenced);
                Some(Then::Fenced)
            }
        }
    }

    /// Operations that touched a conflicting key leave, and so does everyone who saw the writes of one that leaves.
    /// False = nobody did.
    fn shed(&mut self, keys: &[Key]) -> bool {
        let mut leaving: BTreeSet<usize> = BTreeSet::new();
        for place in 0..self.items.len() {
            let trace = &self.traces[place];
            let touched = keys.iter().any(|key| trace.wants.keys.contains(key));
            if self.items[place].is_some() && (touched || trace.saw.iter().any(|seen| leaving.contains(seen)))
            {
                leaving.insert(place);
            }
        }
        leaving.iter().for_each(|place| self.lose(*place));
        !leaving.is_empty()
    }

    /// Leaves for the next group, and is nearer to its locks.
    fn lose(&mut self, place: usize) {
        if let Some(item) = &mut self.items[place] {
            item.losses += 1;
        }
        self.again(place);
    }

    /// Leaves for the next group, whose fetch brings everything it used so far in one piece.
    fn again(&mut self, place: usize) {
        let trace = std::mem::take(&mut self.traces[place]);
        if let Some(mut item) = self.items[place].take() {
            self.lane.store.counters().retries.add(1);
            item.remember(trace);
            self.next.push(item);
        }
    }

    fn all_again(&mut self) {
        (0..self.items.len()).for_each(|place| self.again(place));
    }

    /// Leaves for the next group because a row was not at hand.
    fn miss(&mut self, place: usize) {
        self.lane.store.counters().misses.add(1);
        if let Some(item) = &mut self.items[place] {
            item.rounds += 1;
            match item.rounds > self.lane.config.max_rounds {
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
            drop(item.work.finish(end));
        }
    }

    fn finish_all(&mut self, end: &End) {
        (0..self.items.len()).for_each(|place| self.finish(place, end.clone()));
    }

    fn answer_all(&mut self) {
        for place in 0..self.items.len() {
            let end = std::mem::replace(&mut self.ends[place], End::Answered);
            self.finish(place, end);
        }
    }

    /// The store failed: everyone runs again after a back-off, or learns of it.
    fn store_failed(&mut self, error: StoreError) -> Then {
        if !error.is_retryable() {
            self.finish_all(&End::Failed(error));
            return Then::GoOn;
        }
        tracing::debug!(%error, operations = self.items.len(), "a group runs again");
        self.all_again();
        Then::after(&error)
    }
}

/// How many rows a scan may bring.
fn weight(scan: &Scan) -> usize {
    match scan.count_only {
        true => 1 + scan.limit as usize / COUNTED_PER_ROW,
        false => scan.limit as usize,
    }
}

/// Adds the rows that a lane holds for itself, at most one change per key: an operation that touches such a row itself
/// must have seen it at the version that the lane knows.
pub(super) fn with_fence(held: &[(Key, u64)], mut changes: Vec<Change>) -> Vec<Change> {
    for (key, version) in held {
        let own = Check::Version(*version);
        match changes.iter_mut().find(|change| change.key == *key) {
            None => changes.push(Change { key: key.clone(), check: own, effect: Effect::Keep }),
            Some(Change { check: Check::Version(v) | Check::Exact(v, ..), .. }) if v == version => {}
            Some(change) => change.check = own,
        }
    }
    changes.sort_by(|a, b| a.key.lock_order().cmp(&b.key.lock_order()));
    changes
}

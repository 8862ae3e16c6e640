//! `mem:` — a store in memory. For tests and simulation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::change::{Change, Effect, Row};
use crate::counters::Counters;
use crate::key::{Key, Scan};
use crate::schema::TableId;
use crate::store::{Fetched, Locked, Scanned, Store, StoreError};

/// How long a commit or a lock waits for rows that another holds locked.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// How long rows stay locked for one who does not come back (contract rule 8).
const LOCK_LEASE: Duration = Duration::from_secs(2);

/// Waits inside a commit, between lock and check.
pub type Pause = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// A store in memory. Clones share the same rows.
#[derive(Clone, Default)]
pub struct Mem {
    shared: Arc<Shared>,
    pause: Option<Pause>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    unlocked: Notify,
    counters: Counters,
}

#[derive(Default)]
struct State {
    rows: BTreeMap<Key, Row>,
    /// Locked rows: whose (a number per lock), and until when.
    locked: BTreeMap<Key, (u64, Instant)>,
    last_lock: u64,
    journal: Option<Vec<Vec<Change>>>,
}

impl Mem {
    /// An empty store.
    pub fn new() -> Mem {
        Mem::default()
    }

    /// The same rows; every commit through this handle waits for `pause` after it has locked its rows and before it
    /// checks them, as a commit does that had to wait for one of its locks.
    pub fn with_pause(mut self, pause: Pause) -> Mem {
        self.pause = Some(pause);
        self
    }

    /// From now on remembers every commit, for [`Mem::journal`]. Grows without bound: for short tests.
    pub fn keep_journal(&self) {
        self.shared.state().journal.get_or_insert_default();
    }

    /// All commits that went through since [`Mem::keep_journal`], in their order.
    pub fn journal(&self) -> Vec<Vec<Change>> {
        self.shared.state().journal.clone().unwrap_or_default()
    }

    /// How many commits [`Mem::journal`] has.
    pub fn journal_len(&self) -> usize {
        self.shared.state().journal.as_ref().map_or(0, Vec::len)
    }

    /// All rows, in primary-key order: for checkers and tests.
    pub fn rows(&self) -> Vec<(Key, Row)> {
        self.shared.state().rows.iter().map(|(k, r)| (k.clone(), r.clone())).collect()
    }

    fn trip(&self) {
        self.shared.counters.round_trips.add(1);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until none of the keys is locked by another, then calls `then` on the state.
    async fn when_unlocked<R>(
        &self,
        keys: &[&Key],
        mut then: impl FnMut(&mut State) -> R,
    ) -> Result<R, StoreError> {
        let give_up = Instant::now() + LOCK_TIMEOUT;
        loop {
            let woken = self.unlocked.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            let free_at = {
                let mut state = self.state();
                let now = Instant::now();
                let others = keys.iter().filter_map(|key| state.locked.get(*key)).map(|(_, until)| *until);
                match others.filter(|until| *until > now).max() {
                    None => return Ok(then(&mut state)),
                    Some(until) => until,
                }
            };
            if tokio::time::timeout_at(give_up.min(free_at), woken).await.is_err()
                && Instant::now() >= give_up
            {
                return Err(StoreError::LockTimeout);
            }
        }
    }

    /// Locks keys, waiting for those that others hold; then calls `then` on the state.
    async fn lock<R>(
        self: &Arc<Self>,
        keys: &[&Key],
        mut then: impl FnMut(&State) -> R,
    ) -> Result<(Locks, R), StoreError> {
        let (number, result) = self
            .when_unlocked(keys, |state| {
                state.last_lock += 1;
                let mine = (state.last_lock, Instant::now() + LOCK_LEASE);
                state.locked.extend(keys.iter().map(|key| ((*key).clone(), mine)));
                (state.last_lock, then(state))
            })
            .await?;
        let keys = keys.iter().map(|key| (*key).clone()).collect();
        Ok((Locks { shared: self.clone(), keys, number }, result))
    }

    fn apply(&self, state: &mut State, changes: &[Change]) -> Result<(), StoreError> {
        let lost: Vec<Key> = changes
            .iter()
            .filter(|c| !c.check.holds(state.rows.get(&c.key)))
            .map(|c| c.key.clone())
            .collect();
        if !lost.is_empty() {
            self.counters.conflicts.add(1);
            return Err(StoreError::Conflict(lost));
        }
        let mut written = 0;
        for change in changes.iter().filter(|c| c.effect != Effect::Keep) {
            written += 1;
            match change.applied(state.rows.get(&change.key)) {
                Some(row) => state.rows.insert(change.key.clone(), row),
                None => state.rows.remove(&change.key),
            };
        }
        if let Some(journal) = &mut state.journal {
            journal.push(changes.to_vec());
        }
        self.counters.rows_written.add(written);
        self.counters.commits.add(1);
        Ok(())
    }
}

/// Refuses keys and values beyond the contract's limits.
pub(crate) fn check_limits(changes: &[Change]) -> Result<(), StoreError> {
    for change in changes {
        let value = match &change.effect {
            Effect::Insert(row) | Effect::Put(row) => row.value.len(),
            _ => 0,
        };
        if !change.key.fits() || value > crate::change::MAX_VALUE_BYTES {
            return Err(StoreError::Fatal(format!("row {:?} is larger than the store allows", change.key)));
        }
    }
    Ok(())
}

fn scan_rows(rows: &BTreeMap<Key, Row>, scan: &Scan) -> Scanned {
    let first = Key::new(scan.partition, scan.table, &[]);
    let in_table = |(key, _): &(&Key, &Row)| key.partition() == scan.partition && key.table() == scan.table;
    let range = rows.range(first..).take_while(in_table).filter(|(key, _)| scan.covers(key));
    let limit = scan.limit as usize;
    if scan.count_only {
        return Scanned::Count(range.take(limit).count() as u64);
    }
    let mut found: Vec<(Key, Row)> = range.map(|(k, r)| (k.clone(), r.clone())).collect();
    if scan.reverse {
        found.reverse();
    }
    found.truncate(limit);
    Scanned::Rows(found)
}

impl Store for Mem {
    fn fetch<'a>(&'a self, keys: &'a [Key], scans: &'a [Scan]) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        async move {
            self.trip();
            let state = self.shared.state();
            let fetched = Fetched {
                rows: keys.iter().map(|key| state.rows.get(key).cloned()).collect(),
                scans: scans.iter().map(|scan| scan_rows(&state.rows, scan)).collect(),
            };
            drop(state);
            let counters = &self.shared.counters;
            counters.fetches.add(1);
            counters.keys.add(keys.len());
            let scanned = |s: &Scanned| if let Scanned::Rows(rows) = s { rows.len() } else { 0 };
            let rows =
                fetched.rows.iter().flatten().count() + fetched.scans.iter().map(scanned).sum::<usize>();
            counters.rows_read.add(rows);
            Ok(fetched)
        }
        .boxed()
    }

    fn commit<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            check_limits(changes)?;
            self.trip();
            let keys: Vec<&Key> = changes.iter().map(|c| &c.key).collect();
            let Some(pause) = &self.pause else {
                return self.shared.when_unlocked(&keys, |state| self.shared.apply(state, changes)).await?;
            };
            let (locks, ()) = self.shared.lock(&keys, |_| ()).await?;
            pause().await;
            locks.commit(changes)
        }
        .boxed()
    }

    fn lock<'a>(
        &'a self,
        check: &'a [Key],
        change: &'a [Key],
    ) -> BoxFuture<'a, Result<Box<dyn Locked>, StoreError>> {
        async move {
            self.trip();
            let keys: Vec<&Key> = check.iter().chain(change).collect();
            let read = |state: &State| keys.iter().map(|key| state.rows.get(*key).cloned()).collect();
            let (locks, rows) = self.shared.lock(&keys, read).await?;
            Ok(Box::new(MemLocked { locks, rows }) as Box<dyn Locked>)
        }
        .boxed()
    }

    fn partitions(
        &self,
        table: TableId,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<u64>, StoreError>> {
        async move {
            self.trip();
            let state = self.shared.state();
            let mut found: Vec<u64> = Vec::new();
            for key in state.rows.keys().filter(|key| key.table() == table) {
                let partition = key.partition();
                if after.is_none_or(|after| partition > after) && found.last() != Some(&partition) {
                    if found.len() == limit {
                        break;
                    }
                    found.push(partition);
                }
            }
            Ok(found)
        }
        .boxed()
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}

/// Keys that are locked until this is dropped, or for [`LOCK_LEASE`].
struct Locks {
    shared: Arc<Shared>,
    keys: Vec<Key>,
    number: u64,
}

impl Locks {
    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        check_limits(changes)?;
        if let Some(change) = changes.iter().find(|c| !self.keys.contains(&c.key)) {
            return Err(StoreError::Fatal(format!("row {:?} is changed without its lock", change.key)));
        }
        let mut state = self.shared.state();
        let mine = |key| state.locked.get(key).is_some_and(|(number, _)| *number == self.number);
        if !self.keys.iter().all(mine) {
            return Err(StoreError::Unavailable("rows were locked for too long and given to others".into()));
        }
        self.shared.apply(&mut state, changes)
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        for key in &self.keys {
            if state.locked.get(key).is_some_and(|(number, _)| *number == self.number) {
                state.locked.remove(key);
            }
        }
        drop(state);
        self.shared.unlocked.notify_waiters();
    }
}

struct MemLocked {
    locks: Locks,
    rows: Vec<Option<Row>>,
}

impl Locked for MemLocked {
    fn rows(&self) -> &[Option<Row>] {
        &self.rows
    }

    fn commit(self: Box<Self>, changes: Vec<Change>) -> BoxFuture<'static, Result<(), StoreError>> {
        async move {
            self.locks.shared.counters.round_trips.add(1);
            self.locks.commit(&changes)
        }
        .boxed()
    }
}

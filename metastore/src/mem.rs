//! `mem:` — a store in memory, with an optional delay per round trip. For tests and simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;

use crate::change::{Change, Effect, Row};
use crate::counters::Counters;
use crate::key::{Key, Scan};
use crate::schema::TableId;
use crate::store::{Fetched, Locked, Scanned, Store, StoreError};

/// How long a commit or a lock waits for rows that another holds locked.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// A store in memory. Clones share the same rows.
#[derive(Clone, Default)]
pub struct Mem {
    shared: Arc<Shared>,
    delay: Duration,
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
    locked: BTreeSet<Key>,
}

impl Mem {
    /// An empty store.
    pub fn new() -> Mem {
        Mem::default()
    }

    /// The same rows, with a wait before every round trip (never while anything is held).
    pub fn with_delay(mut self, delay: Duration) -> Mem {
        self.delay = delay;
        self
    }

    /// All rows, in primary-key order: for checkers and tests.
    pub fn rows(&self) -> Vec<(Key, Row)> {
        self.shared.state().rows.iter().map(|(k, r)| (k.clone(), r.clone())).collect()
    }

    async fn trip(&self) {
        self.shared.counters.round_trips.add(1);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
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
        let attempt = async {
            loop {
                let woken = self.unlocked.notified();
                tokio::pin!(woken);
                woken.as_mut().enable();
                {
                    let mut state = self.state();
                    if !keys.iter().any(|key| state.locked.contains(*key)) {
                        return then(&mut state);
                    }
                }
                woken.await;
            }
        };
        tokio::time::timeout(LOCK_TIMEOUT, attempt).await.map_err(|_| StoreError::LockTimeout)
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
            self.trip().await;
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
            self.trip().await;
            let keys: Vec<&Key> = changes.iter().map(|c| &c.key).collect();
            self.shared.when_unlocked(&keys, |state| self.shared.apply(state, changes)).await?
        }
        .boxed()
    }

    fn lock<'a>(
        &'a self,
        check: &'a [Key],
        change: &'a [Key],
    ) -> BoxFuture<'a, Result<Box<dyn Locked>, StoreError>> {
        async move {
            self.trip().await;
            let keys: Vec<&Key> = check.iter().chain(change).collect();
            let rows = self
                .shared
                .when_unlocked(&keys, |state| {
                    state.locked.extend(keys.iter().map(|key| (*key).clone()));
                    keys.iter().map(|key| state.rows.get(*key).cloned()).collect()
                })
                .await?;
            let keys = keys.into_iter().cloned().collect();
            Ok(Box::new(MemLocked { shared: self.shared.clone(), keys, rows }) as Box<dyn Locked>)
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
            self.trip().await;
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

struct MemLocked {
    shared: Arc<Shared>,
    keys: Vec<Key>,
    rows: Vec<Option<Row>>,
}

impl Locked for MemLocked {
    fn rows(&self) -> &[Option<Row>] {
        &self.rows
    }

    fn commit(self: Box<Self>, changes: Vec<Change>) -> BoxFuture<'static, Result<(), StoreError>> {
        async move {
            check_limits(&changes)?;
            if let Some(change) = changes.iter().find(|c| !self.keys.contains(&c.key)) {
                return Err(StoreError::Fatal(format!("row {:?} is changed without its lock", change.key)));
            }
            self.shared.counters.round_trips.add(1);
            let mut state = self.shared.state();
            self.shared.apply(&mut state, &changes)
        }
        .boxed()
    }
}

impl Drop for MemLocked {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        for key in &self.keys {
            state.locked.remove(key);
        }
        drop(state);
        self.shared.unlocked.notify_waiters();
    }
}

//! A wrapper around any store that injects errors and waits, stops for good, or freezes, as its seed says.
//!
//! Under tokio's paused clock, on a runtime of one thread, one seed is one history.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use crate::change::{Change, Row};
use crate::counters::Counters;
use crate::key::{Key, Scan};
use crate::schema::TableId;
use crate::store::{Fetched, Locked, Scanned, Store, StoreError};

/// One thing that goes wrong with one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Refused before anything happened.
    Before(StoreError),
    /// The call happened, its answer is lost: `Unavailable` for reads and locks, `MaybeCommitted` for commits.
    AnswerLost,
    /// A commit that did not happen, but might have: `MaybeCommitted`.
    NeverLands,
    /// A commit that happens so much after `MaybeCommitted` was answered.
    LandsLater(Duration),
}

/// How often calls go wrong, 0 to 1 per call; at most one fault is drawn for a call. And how long they wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// `Unavailable` before anything happened.
    pub unavailable: f64,
    /// Commits and locks: `LockTimeout`.
    pub lock_timeout: f64,
    /// Commits: a `Conflict` on one of the keys, though none had changed.
    pub conflict: f64,
    /// Commits: `Full`.
    pub full: f64,
    /// `Fatal`.
    pub fatal: f64,
    /// See [`Fault::AnswerLost`].
    pub answer_lost: f64,
    /// Commits: see [`Fault::NeverLands`].
    pub never_lands: f64,
    /// Commits: see [`Fault::LandsLater`].
    pub lands_later: f64,
    /// How much later at most.
    pub latest: Duration,
    /// A wait before the call reaches the store, and as often one before its answer arrives.
    pub wait: f64,
    /// The longest of these waits.
    pub longest_wait: Duration,
}

impl Faults {
    /// Waits only: every interleaving, no errors.
    pub fn waits() -> Faults {
        Faults { wait: 0.5, longest_wait: Duration::from_millis(20), ..Faults::default() }
    }

    /// Waits, and every retryable error.
    pub fn rough() -> Faults {
        Faults {
            unavailable: 0.02,
            lock_timeout: 0.02,
            conflict: 0.05,
            answer_lost: 0.03,
            never_lands: 0.03,
            lands_later: 0.03,
            latest: Duration::from_millis(100),
            ..Faults::waits()
        }
    }
}

/// What befalls the process that calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// It is dead: neither this call's answer nor anything later reaches it, and it calls no more.
    Die,
    /// It is stopped for so long, then goes on.
    Freeze(Duration),
}

/// When a blow strikes: at a call, counted from 1 over all of this store's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The call.
    pub call: u64,
    /// False: before the call reaches the store. True: after it has happened, before its answer arrives.
    pub done: bool,
    /// What happens.
    pub blow: Blow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Running,
    Frozen,
    Dead,
}

/// A store as one process sees it. Clones are the same process.
#[derive(Clone)]
pub struct Faulty {
    inner: Arc<dyn Store>,
    shared: Arc<Shared>,
}

struct Shared {
    faults: Mutex<Faults>,
    rng: Mutex<StdRng>,
    calls: AtomicU64,
    strikes: Mutex<Vec<Strike>>,
    script: Mutex<BTreeMap<u64, Fault>>,
    damaged: Mutex<Vec<Key>>,
    mood: watch::Sender<Mood>,
    landing: AtomicUsize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Lock,
    Commit,
}

impl Faulty {
    /// A store that goes wrong as `faults` and `seed` say.
    pub fn new(inner: Arc<dyn Store>, faults: Faults, seed: u64) -> Faulty {
        let shared = Shared {
            faults: Mutex::new(faults),
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            calls: AtomicU64::new(0),
            strikes: Mutex::default(),
            script: Mutex::default(),
            damaged: Mutex::default(),
            mood: watch::Sender::new(Mood::Running),
            landing: AtomicUsize::new(0),
        };
        Faulty { inner, shared: Arc::new(shared) }
    }

    /// Goes wrong differently from now on.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.shared.faults) = faults;
    }

    /// Calls so far (fetches, commits, locks and commits of locks, partitions).
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// Strikes at a later call.
    pub fn strike(&self, strike: Strike) {
        lock(&self.shared.strikes).push(strike);
    }

    /// The `k`-th call is the last: it happens and is answered, none after it reaches the store.
    pub fn stop_after(&self, k: u64) {
        self.strike(Strike { call: k + 1, done: false, blow: Blow::Die });
    }

    /// The `k`-th call goes wrong in this way, whatever the seed says.
    pub fn inject(&self, k: u64, fault: Fault) {
        lock(&self.shared.script).insert(k, fault);
    }

    /// Damages rows: every fetch that one of them is in names it and fails.
    pub fn damage(&self, rows: &[Key]) {
        lock(&self.shared.damaged).extend_from_slice(rows);
    }

    /// Stops the process for good.
    pub fn die(&self) {
        self.shared.mood.send_replace(Mood::Dead);
    }

    /// Stops the process: calls hang, and answers do not arrive, until [`Faulty::thaw`].
    pub fn freeze(&self) {
        self.shared.mood.send_if_modified(|mood| std::mem::replace(mood, freezed(*mood)) == Mood::Running);
    }

    /// Lets a frozen process go on.
    pub fn thaw(&self) {
        self.shared.mood.send_if_modified(|mood| {
            let frozen = *mood == Mood::Frozen;
            *mood = if frozen { Mood::Running } else { *mood };
            frozen
        });
    }

    /// Whether it was stopped for good.
    pub fn is_dead(&self) -> bool {
        *self.shared.mood.borrow() == Mood::Dead
    }

    /// Commits that were answered `MaybeCommitted` and will still land.
    pub fn landing(&self) -> usize {
        self.shared.landing.load(Ordering::SeqCst)
    }

    /// Counts a call, and draws what goes wrong with it.
    fn draw(&self, kind: Kind, changes: &[Change]) -> (u64, Option<Fault>, Duration, Duration) {
        let number = self.shared.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let faults = lock(&self.shared.faults).clone();
        let mut rng = lock(&self.shared.rng);
        let mut wait = || match rng.random_bool(faults.wait) {
            true => faults.longest_wait.mul_f64(rng.random::<f64>()),
            false => Duration::ZERO,
        };
        let (before, after) = (wait(), wait());
        let drawn = faults.draw(kind, changes, &mut rng);
        let fault = lock(&self.shared.script).remove(&number).or(drawn);
        (number, fault, before, after)
    }

    /// A point of a call at which the process may be struck, and at which it stands while it is frozen or dead.
    async fn pass(&self, call: u64, done: bool) {
        let here = |s: &Strike| s.call == call && s.done == done;
        let blows: Vec<Blow> =
            lock(&self.shared.strikes).iter().filter(|s| here(s)).map(|s| s.blow).collect();
        for blow in blows {
            match blow {
                Blow::Die => self.die(),
                Blow::Freeze(how_long) => {
                    self.freeze();
                    let frozen = self.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(how_long).await;
                        frozen.thaw();
                    });
                }
            }
        }
        let mut mood = self.shared.mood.subscribe();
        let _ = mood.wait_for(|mood| *mood == Mood::Running).await;
    }

    /// One call: stands while the process does, waits, goes wrong or happens, waits, answers.
    async fn call<R>(
        &self,
        kind: Kind,
        changes: &[Change],
        happen: impl Future<Output = Result<R, StoreError>> + Send + 'static,
    ) -> Result<R, StoreError>
    where
        R: Send + 'static,
    {
        let (number, fault, before, after) = self.draw(kind, changes);
        self.pass(number, false).await;
        pause(before).await;
        let lost = || match kind {
            Kind::Commit => StoreError::MaybeCommitted("injected: the answer is lost".into()),
            _ => StoreError::Unavailable("injected: the answer is lost".into()),
        };
        let result = match fault {
            None => happen.await,
            Some(Fault::Before(error)) => Err(error),
            Some(Fault::AnswerLost) => happen.await.and(Err(lost())),
            Some(Fault::NeverLands) => Err(lost()),
            Some(Fault::LandsLater(when)) => {
                let shared = self.shared.clone();
                shared.landing.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    tokio::time::sleep(when).await;
                    let _ = happen.await;
                    shared.landing.fetch_sub(1, Ordering::SeqCst);
                });
                Err(lost())
            }
        };
        self.pass(number, true).await;
        pause(after).await;
        result
    }
}

impl Faults {
    fn draw(&self, kind: Kind, changes: &[Change], rng: &mut StdRng) -> Option<Fault> {
        let mut dice: f64 = rng.random();
        let which: f64 = rng.random();
        let mut hit = |rate: f64, may: bool| {
            let hit = may && dice < rate;
            dice -= if may { rate } else { 0.0 };
            hit && dice < 0.0
        };
        let injected = || "injected".to_string();
        let commit = kind == Kind::Commit;
        if hit(self.unavailable, true) {
            Some(Fault::Before(StoreError::Unavailable(injected())))
        } else if hit(self.fatal, true) {
            Some(Fault::Before(StoreError::Fatal(injected())))
        } else if hit(self.answer_lost, true) {
            Some(Fault::AnswerLost)
        } else if hit(self.lock_timeout, kind != Kind::Read) {
            Some(Fault::Before(StoreError::LockTimeout))
        } else if hit(self.conflict, commit && !changes.is_empty()) {
            let at = ((which * changes.len() as f64) as usize).min(changes.len() - 1);
            Some(Fault::Before(StoreError::Conflict(vec![changes[at].key.clone()])))
        } else if hit(self.full, commit) {
            Some(Fault::Before(StoreError::Full(injected())))
        } else if hit(self.never_lands, commit) {
            Some(Fault::NeverLands)
        } else if hit(self.lands_later, commit) {
            Some(Fault::LandsLater(self.latest.mul_f64(which)))
        } else {
            None
        }
    }
}

fn freezed(mood: Mood) -> Mood {
    if mood == Mood::Running { Mood::Frozen } else { mood }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn pause(how_long: Duration) {
    if !how_long.is_zero() {
        tokio::time::sleep(how_long).await;
    }
}

impl Store for Faulty {
    fn fetch<'a>(&'a self, keys: &'a [Key], scans: &'a [Scan]) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        let (inner, keys, scans) = (self.inner.clone(), keys.to_vec(), scans.to_vec());
        let damaged = lock(&self.shared.damaged).clone();
        let fetch = async move {
            let fetched = inner.fetch(&keys, &scans).await?;
            let scanned = fetched.scans.iter().flat_map(|scanned| match scanned {
                Scanned::Rows(rows) => &rows[..],
                Scanned::Count(_) => &[],
            });
            let mut touched = keys.iter().chain(scanned.map(|(key, _)| key));
            match touched.find(|key| damaged.contains(key)) {
                Some(key) => Err(StoreError::Damaged(key.clone(), "injected: damaged".into())),
                None => Ok(fetched),
            }
        };
        self.call(Kind::Read, &[], fetch).boxed()
    }

    fn commit<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<(), StoreError>> {
        let (inner, own) = (self.inner.clone(), changes.to_vec());
        self.call(Kind::Commit, changes, async move { inner.commit(&own).await }).boxed()
    }

    fn lock<'a>(
        &'a self,
        check: &'a [Key],
        change: &'a [Key],
    ) -> BoxFuture<'a, Result<Box<dyn Locked>, StoreError>> {
        let (inner, check, change) = (self.inner.clone(), check.to_vec(), change.to_vec());
        async move {
            let locked = self.call(Kind::Lock, &[], async move { inner.lock(&check, &change).await }).await?;
            Ok(Box::new(FaultyLocked { process: self.clone(), locked }) as Box<dyn Locked>)
        }
        .boxed()
    }

    fn partitions(
        &self,
        table: TableId,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<u64>, StoreError>> {
        let inner = self.inner.clone();
        self.call(Kind::Read, &[], async move { inner.partitions(table, after, limit).await }).boxed()
    }

    fn counters(&self) -> &Counters {
        self.inner.counters()
    }
}

struct FaultyLocked {
    process: Faulty,
    locked: Box<dyn Locked>,
}

impl Locked for FaultyLocked {
    fn rows(&self) -> &[Option<Row>] {
        self.locked.rows()
    }

    fn commit(self: Box<Self>, changes: Vec<Change>) -> BoxFuture<'static, Result<(), StoreError>> {
        let FaultyLocked { process, locked } = *self;
        async move {
            let own = changes.clone();
            process.call(Kind::Commit, &changes, async move { locked.commit(own).await }).await
        }
        .boxed()
    }
}

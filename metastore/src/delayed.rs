//! A store whose every round trip takes longer, by a time that is told: a network in front of a store that has none, for
//! measuring and for simulation.
//!
//! The wait comes before the round trip. Nothing is held meanwhile: no snapshot was taken yet, no lock and no place in a
//! queue. Any number of waits go on at once.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::change::Change;
use crate::counters::Counters;
use crate::key::{Key, Scan};
use crate::schema::TableId;
use crate::store::{Fetched, Locked, Store, StoreError};

/// A store, and how long a round trip to it takes beyond its own time.
#[derive(Clone)]
pub struct Delayed<S> {
    inner: S,
    delay: Duration,
}

impl<S: Store + Clone> Delayed<S> {
    /// The same rows, further away.
    pub fn new(inner: S, delay: Duration) -> Delayed<S> {
        Delayed { inner, delay }
    }

    /// The store itself.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Waits as long as a round trip is to take longer, and counts that: the timer's own lateness, up to a millisecond, is
    /// in the time that is counted.
    pub async fn wait(&self) {
        if self.delay.is_zero() {
            return;
        }
        let begun = Instant::now();
        sleep(self.delay).await;
        let counters = self.inner.counters();
        counters.delays.add(1);
        counters.delay_us.add(begun.elapsed().as_micros() as usize);
    }
}

impl<S: Store + Clone> Store for Delayed<S> {
    fn fetch<'a>(&'a self, keys: &'a [Key], scans: &'a [Scan]) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        async move {
            self.wait().await;
            self.inner.fetch(keys, scans).await
        }
        .boxed()
    }

    fn commit<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            self.wait().await;
            self.inner.commit(changes).await
        }
        .boxed()
    }

    /// The end of the lock is not waited for: the rows are held by then.
    fn lock<'a>(
        &'a self,
        check: &'a [Key],
        change: &'a [Key],
    ) -> BoxFuture<'a, Result<Box<dyn Locked>, StoreError>> {
        async move {
            self.wait().await;
            self.inner.lock(check, change).await
        }
        .boxed()
    }

    /// Waits once, also where the store takes several snapshots: this is for checks.
    fn partitions(
        &self,
        table: TableId,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<u64>, StoreError>> {
        async move {
            self.wait().await;
            self.inner.partitions(table, after, limit).await
        }
        .boxed()
    }

    fn counters(&self) -> &Counters {
        self.inner.counters()
    }
}

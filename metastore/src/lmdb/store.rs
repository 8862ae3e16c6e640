//! The three calls of the contract over the environment.

use std::collections::HashSet;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::service::{Finish, Granted, Service};
use super::{Core, Lmdb};
use crate::change::{Change, Row};
use crate::counters::Counters;
use crate::key::{Key, Scan};
use crate::mem::check_limits;
use crate::schema::TableId;
use crate::store::{Fetched, Locked, Store, StoreError};

/// Positions tried on one snapshot while walking a table's partitions.
const SEEKS_PER_SNAPSHOT: usize = 4096;

impl Store for Lmdb {
    /// One snapshot, taken and dropped inside this call.
    fn fetch<'a>(&'a self, keys: &'a [Key], scans: &'a [Scan]) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        async move {
            self.core.snapshot(|view| {
                let rows = keys.iter().map(|key| view.copy(key)).collect::<Result<_, _>>()?;
                let scans = scans.iter().map(|scan| view.copy_scan(scan)).collect::<Result<_, _>>()?;
                Ok(Fetched { rows, scans })
            })?
        }
        .boxed()
    }

    fn commit<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            check_limits(changes)?;
            self.core.counters.round_trips.add(1);
            self.service.commit(changes.to_vec()).await
        }
        .boxed()
    }

    /// The lock is the environment's write lock: while it is held, nobody writes anything.
    fn lock<'a>(
        &'a self,
        check: &'a [Key],
        change: &'a [Key],
    ) -> BoxFuture<'a, Result<Box<dyn Locked>, StoreError>> {
        async move {
            let keys: Vec<Key> = check.iter().chain(change).cloned().collect();
            self.core.counters.round_trips.add(1);
            let granted = self.service.lock(keys.clone()).await?;
            let (core, service) = (self.core.clone(), self.service.clone());
            let keys = keys.into_iter().collect();
            Ok(Box::new(LmdbLocked { granted, keys, core, _service: service }) as Box<dyn Locked>)
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
            let mut found = Vec::new();
            let mut next = match after {
                None => Some(0),
                Some(after) => after.checked_add(1),
            };
            while let Some(from) = next {
                next = self
                    .core
                    .snapshot(|view| view.partitions(table, from, limit, SEEKS_PER_SNAPSHOT, &mut found))??;
                tokio::task::yield_now().await;
            }
            Ok(found)
        }
        .boxed()
    }

    fn counters(&self) -> &Counters {
        &self.core.counters
    }
}

struct LmdbLocked {
    granted: Granted,
    keys: HashSet<Key>,
    core: Arc<Core>,
    /// Dropped after `granted`, which ends the lock: closing waits for the thread that holds it.
    _service: Arc<Service>,
}

impl Locked for LmdbLocked {
    fn rows(&self) -> &[Option<Row>] {
        &self.granted.rows
    }

    fn commit(self: Box<Self>, changes: Vec<Change>) -> BoxFuture<'static, Result<(), StoreError>> {
        async move {
            check_limits(&changes)?;
            if let Some(change) = changes.iter().find(|change| !self.keys.contains(&change.key)) {
                return Err(StoreError::Fatal(format!("row {:?} is changed without its lock", change.key)));
            }
            self.core.counters.round_trips.add(1);
            let (reply, answer) = oneshot::channel();
            // A lock that was held for too long is gone, and with it the other end of both channels.
            self.granted.finish.try_send(Finish(changes, reply)).map_err(|_| StoreError::LockTimeout)?;
            answer.await.unwrap_or(Err(StoreError::LockTimeout))
        }
        .boxed()
    }
}

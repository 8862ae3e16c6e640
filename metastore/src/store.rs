//! The contract of a backend: `fetch`, `commit`, `lock`, and a walk over a table's partitions.
//!
//! Its rules are numbered in ARCHITECTURE.md and tested, under the same numbers, by the conformance suite that every
//! backend passes (`tests/all/conformance`).

use futures::future::BoxFuture;

use crate::change::{Change, Row};
use crate::counters::Counters;
use crate::key::{Key, Scan};
use crate::schema::TableId;

/// What can go wrong in a store (contract rule 10).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Some checks did not hold; nothing was written.
    #[error("{} rows changed since they were read", .0.len())]
    Conflict(Vec<Key>),
    /// A lock was not granted in time; nothing was written.
    #[error("a row lock was not granted in time")]
    LockTimeout,
    /// The store cannot be reached or refuses work for now; nothing was written.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The connection broke inside a commit: it may or may not have happened, now or later.
    #[error("the store did not say whether a commit happened: {0}")]
    MaybeCommitted(String),
    /// The store has no room left; nothing was written, reads go on.
    #[error("the store is full: {0}")]
    Full(String),
    /// A row is not as any was ever written; nothing was written, others can be read.
    #[error("store fault: {1}")]
    Damaged(Key, String),
    /// A fault that no repetition mends; nothing was written.
    #[error("store fault: {0}")]
    Fatal(String),
}

impl StoreError {
    /// Whether the same work may succeed when it is run again.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, StoreError::Full(_) | StoreError::Damaged(..) | StoreError::Fatal(_))
    }
}

/// The result of one scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// Rows in the order asked for.
    Rows(Vec<(Key, Row)>),
    /// How many rows there are, up to the scan's limit.
    Count(u64),
}

/// The answer to a fetch: one entry per key and per scan, in request order.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// Rows; `None` = absent.
    pub rows: Vec<Option<Row>>,
    /// Scans.
    pub scans: Vec<Scanned>,
}

/// Rows that are locked until this is committed or dropped.
pub trait Locked: Send {
    /// The locked rows as of after the last lock, in the order of the request (checked keys, then changed keys).
    fn rows(&self) -> &[Option<Row>];
    /// Checks and writes as [`Store::commit`] does, on keys that are all locked here, and ends the locks.
    fn commit(self: Box<Self>, changes: Vec<Change>) -> BoxFuture<'static, Result<(), StoreError>>;
}

/// A transactional, partitioned store.
pub trait Store: Send + Sync + 'static {
    /// Reads keys and scans of any tables and partitions in one round trip and, where the engine has them, on one
    /// snapshot. Takes no locks and never waits for writers.
    fn fetch<'a>(&'a self, keys: &'a [Key], scans: &'a [Scan]) -> BoxFuture<'a, Result<Fetched, StoreError>>;

    /// Makes all changes, or none: `Conflict` names the keys whose checks failed. `changes` come in lock order, one
    /// per key. Returns once they are durable.
    fn commit<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Locks keys that will be checked and keys that will be changed, in lock order.
    fn lock<'a>(
        &'a self,
        check: &'a [Key],
        change: &'a [Key],
    ) -> BoxFuture<'a, Result<Box<dyn Locked>, StoreError>>;

    /// The next partitions of a table, ascending, strictly past `after`. For checks and jobs only.
    fn partitions(
        &self,
        table: TableId,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<u64>, StoreError>>;

    /// What this store counted, where it happened.
    fn counters(&self) -> &Counters;
}

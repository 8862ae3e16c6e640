//! `lmdb:DIR` — the embedded store: one memory-mapped B-tree, shared by all processes of one machine.
//!
//! - [`Lmdb::read`]: an operation that only reads, inline in the caller's thread, over one snapshot; never misses
//! - [`Writer`]: operations that write, many of them in one durable transaction of one thread
//! - [`Store`](crate::store::Store): the three calls of the contract, for conformance tests, jobs and tools
//!
//! The file holds one tree: [`Key::as_bytes`](crate::key::Key::as_bytes) → the row as [`row`] writes it. A commit
//! returns after its pages and then its root are on disk. No snapshot outlives one call: while one lives, no page that
//! it can see is used again, and the file grows.
//!
//! Several processes may open one directory, each once. Writers queue at a turnstile ([`turnstile`]), since the lock
//! inside the environment lets the process that just committed take it again and again. Opening and reading pass
//! neither: they work beside a process that is stopped inside its write transaction.

mod apply;
mod error;
mod open;
mod queue;
mod room;
mod row;
mod service;
mod store;
mod turnstile;
mod view;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use heed::types::Bytes;
use heed::{Database, Env, WithTls};

use crate::counters::Counters;
use crate::store::StoreError;
use crate::tx::View;

pub use writer::Writer;

/// Reader slots, one per reading thread of any process; must be equal in all processes of one environment.
pub const MAX_READERS: u32 = 1024;

/// Settings of one opened environment.
#[derive(Clone, Debug)]
pub struct LmdbConfig {
    /// Size of the memory map in bytes, a multiple of the page size: what the store can grow to. Only address space is
    /// taken. It is never changed while open and must be equal in all processes.
    pub map_bytes: usize,
    /// How often reader slots of dead processes are freed.
    pub stale_reader_check: Duration,
    /// How long a lock may be held before it is rolled back.
    pub lock_hold: Duration,
    /// How long opening waits for other processes that are opening the same environment.
    pub open_wait: Duration,
    /// Commits and locks that may wait in this process; more are refused as busy.
    pub queue: usize,
}

impl Default for LmdbConfig {
    fn default() -> Self {
        LmdbConfig {
            map_bytes: 1 << 40,
            stale_reader_check: Duration::from_secs(5),
            lock_hold: Duration::from_secs(3),
            open_wait: Duration::from_secs(10),
            queue: 1024,
        }
    }
}

/// An opened environment. Clones share it; it closes with the last of them and of its [`Writer`]s.
#[derive(Clone)]
pub struct Lmdb {
    core: Arc<Core>,
    service: Arc<service::Service>,
}

/// What every thread of one environment shares.
struct Core {
    env: Env<WithTls>,
    db: Database<'static, Bytes, Bytes>,
    dir: PathBuf,
    config: LmdbConfig,
    counters: Counters,
}

impl Lmdb {
    /// Opens the store in a directory, which must exist; an empty one becomes an empty store. One process may have a
    /// directory open once; several processes may share it.
    pub fn open(dir: impl AsRef<Path>, config: LmdbConfig) -> Result<Lmdb, StoreError> {
        let core = Arc::new(open::open(dir.as_ref(), config)?);
        let service = Arc::new(service::Service::start(core.clone())?);
        Ok(Lmdb { core, service })
    }

    /// Calls `f` over one snapshot, in this thread. The view never misses and copies nothing: rows are borrowed from
    /// the map. `f` must not call into this store again.
    pub fn read<R>(&self, f: impl FnOnce(&mut dyn View) -> R) -> Result<R, StoreError> {
        self.core.snapshot(|rows| f(rows))
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.core.dir
    }

    /// Length of the data file in bytes, the room ahead included.
    pub fn file_bytes(&self) -> Result<u64, StoreError> {
        self.core.env.real_disk_size().map_err(|error| self.core.error(error))
    }
}

impl Core {
    fn snapshot<R>(&self, f: impl FnOnce(&mut view::Rows<'_>) -> R) -> Result<R, StoreError> {
        let txn = self.env.read_txn().map_err(|error| self.error(error))?;
        let mut rows = view::Rows::new(self, &txn);
        let answer = f(&mut rows);
        self.counters.round_trips.add(1);
        self.counters.fetches.add(1);
        rows.count(&self.counters);
        Ok(answer)
    }
}

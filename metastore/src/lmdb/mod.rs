//! `lmdb:DIR` — the embedded store: one memory-mapped B-tree, shared by all processes of one machine.
//!
//! - [`Lmdb::read`]: an operation that only reads, inline in the caller's thread, over one snapshot; never misses
//! - [`Writer`]: operations that write, many of them in one durable transaction of one thread
//! - [`DelayedPath`]: both with a wait before each, for measuring
//! - [`Store`](crate::store::Store): the three calls of the contract, for conformance tests, jobs and tools
//!
//! The file holds one tree: [`Key::as_bytes`](crate::key::Key::as_bytes) → the row as [`row`] writes it. A commit
//! returns after its pages and then its root are on disk. No snapshot outlives one call: while one lives, no page that
//! it can see is used again, and the file grows.
//!
//! There are two forms ([`Form`]). In the plain one several processes may open one directory, each once. Writers queue
//! at a turnstile ([`turnstile`]), since the lock inside the environment lets the process that just committed take it
//! again and again. Opening and reading pass neither: they work beside a process that is stopped inside its write
//! transaction. In the other a single process writes through a log in front of the tree ([`log`]), which costs about
//! half. A log that a killed process left is put into the tree at the next opening, whatever its form.

mod apply;
mod claim;
mod delayed;
mod error;
mod log;
mod merged;
mod open;
mod queue;
mod remembered;
mod room;
mod row;
mod service;
mod store;
mod transaction;
mod turnstile;
mod view;
mod writer;
mod zeros;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use heed::types::Bytes;
use heed::{Database, Env, WithTls};

use crate::counters::Counters;
use crate::store::StoreError;
use crate::tx::View;

pub use delayed::DelayedPath;
pub use writer::Writer;

/// Reader slots, one per reading thread of any process; must be equal in all processes of one environment.
pub const MAX_READERS: u32 = 1024;

/// How a directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Together with other processes.
    Plain,
    /// By this process alone, with a log in front of the tree.
    Log,
    /// To look at it beside whoever has it open, in whatever form. Nothing can be written, and what is still in the log
    /// is not seen: rows may be as old as the last merge, and some of them older while one goes on.
    Behind,
}

/// Settings of one opened environment.
#[derive(Clone, Debug)]
pub struct LmdbConfig {
    /// Whether others may have it open too.
    pub form: Form,
    /// How often rows in the log are merged into the tree.
    pub merge_every: Duration,
    /// Rows that one commit of a merge moves at most, at least 1. The memory of the pages that it changes is kept.
    pub merge_rows: usize,
    /// Bytes of rows in memory, and of the log, before writes wait for a merge; each may exist twice while one runs.
    pub log_bytes: usize,
    /// Size of the memory map in bytes, a multiple of the page size: what the store can grow to. Only address space is
    /// taken. It is never changed while open and must be equal in all processes.
    pub map_bytes: usize,
    /// How often reader slots of dead processes are freed.
    pub stale_reader_check: Duration,
    /// How long a lock may be held before it is rolled back.
    pub lock_hold: Duration,
    /// How long opening waits for processes that are opening the same environment, or have it in another form.
    pub open_wait: Duration,
    /// Commits and locks that may wait in this process; more are refused as busy.
    pub queue: usize,
}

impl Default for LmdbConfig {
    fn default() -> Self {
        LmdbConfig {
            form: Form::Plain,
            merge_every: Duration::from_secs(2),
            merge_rows: 8 << 10,
            log_bytes: 128 << 20,
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
    /// Ends after the service, which may still write.
    _merger: Option<Arc<log::Merger>>,
}

/// What every thread of one environment shares.
struct Core {
    env: Env<WithTls>,
    db: Database<'static, Bytes, Bytes>,
    room: room::Room,
    dir: PathBuf,
    config: LmdbConfig,
    counters: Counters,
    /// Only in the plain form.
    turnstile: Option<turnstile::Turnstile>,
    /// Only in the form with a log.
    log: Option<log::Log>,
    /// Given up last; none for a bystander.
    claim: Option<claim::Claim>,
}

impl Lmdb {
    /// Opens the store in a directory, which must exist; an empty one becomes an empty store. One process may have a
    /// directory open once; several processes may share it.
    pub fn open(dir: impl AsRef<Path>, config: LmdbConfig) -> Result<Lmdb, StoreError> {
        let core = Arc::new(open::open(dir.as_ref(), config)?);
        let merger = core.log.as_ref().map(|_| log::Merger::start(core.clone())).transpose()?;
        let service = Arc::new(service::Service::start(core.clone())?);
        Ok(Lmdb { core, service, _merger: merger.map(Arc::new) })
    }

    /// Calls `f` over one snapshot, in this thread. The view never misses and copies nothing: rows are borrowed from
    /// where they lie. `f` must not call into this store again.
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
        let layers = self.log.as_ref().map(log::Log::layers);
        let txn = self.env.read_txn().map_err(|error| self.error(error))?;
        let remembered = self.log.as_ref().map(|log| log.merges().remembered(txn.id()));
        let over = layers.iter().flat_map(|layers| layers.youngest_first());
        let mut rows = view::Rows::new(self, &txn, over, remembered.as_ref());
        let answer = f(&mut rows);
        self.counters.round_trips.add(1);
        self.counters.fetches.add(1);
        rows.count(&self.counters);
        Ok(answer)
    }
}

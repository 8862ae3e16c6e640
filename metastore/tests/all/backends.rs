//! The backends that the conformance suite runs on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::Trial;
use trellis_metastore::delayed::Delayed;
use trellis_metastore::lmdb::{Form, Lmdb, LmdbConfig};
use trellis_metastore::mem::Mem;
use trellis_metastore::store::Store;

/// A backend: its name and how to open an empty store of it.
#[derive(Clone, Copy)]
pub struct Backend {
    pub name: &'static str,
    pub open: fn() -> Fixture,
}

/// An empty store, and how to close it and open it again when it outlives its process.
pub struct Fixture {
    store: Mutex<Option<Arc<dyn Store>>>,
    again: Option<Box<dyn Fn() -> Arc<dyn Store> + Send + Sync>>,
}

impl Fixture {
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.lock().unwrap().clone().unwrap()
    }

    /// Closes the store, of which nobody else may hold a clone, and opens it again; `None` = it does not last.
    pub fn reopen(&self) -> Option<Arc<dyn Store>> {
        let again = self.again.as_ref()?;
        let mut store = self.store.lock().unwrap();
        *store = None;
        *store = Some(again());
        store.clone()
    }
}

/// Of a round trip to a store that is further away.
const DELAY: Duration = Duration::from_millis(1);

pub fn all() -> Vec<Backend> {
    vec![
        Backend { name: "mem", open: || fixture(Arc::new(Mem::new()), None) },
        Backend { name: "mem-delayed", open: || fixture(Arc::new(Delayed::new(Mem::new(), DELAY)), None) },
        Backend { name: "lmdb", open: || lmdb(small_lmdb()) },
        Backend { name: "lmdb-delayed", open: delayed_lmdb },
        Backend { name: "lmdb-log", open: || lmdb(with_log()) },
        Backend { name: "lmdb-log-merging", open: || lmdb(merging()) },
    ]
}

fn fixture(store: Arc<dyn Store>, again: Option<Box<dyn Fn() -> Arc<dyn Store> + Send + Sync>>) -> Fixture {
    Fixture { store: Mutex::new(Some(store)), again }
}

fn lmdb(config: LmdbConfig) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let open = move || Arc::new(Lmdb::open(dir.path(), config.clone()).unwrap()) as Arc<dyn Store>;
    fixture(open(), Some(Box::new(open)))
}

fn delayed_lmdb() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let lmdb = move || Lmdb::open(dir.path(), small_lmdb()).unwrap();
    let open = move || Arc::new(Delayed::new(lmdb(), DELAY)) as Arc<dyn Store>;
    fixture(open(), Some(Box::new(open)))
}

/// A small map and short waits.
pub fn small_lmdb() -> LmdbConfig {
    LmdbConfig {
        map_bytes: 256 << 20,
        stale_reader_check: Duration::from_millis(50),
        lock_hold: Duration::from_millis(300),
        ..LmdbConfig::default()
    }
}

/// With a log that is merged only at the end, so that all rows are read through the layers.
pub fn with_log() -> LmdbConfig {
    LmdbConfig { form: Form::Log, merge_every: Duration::from_secs(3600), merge_rows: 30, ..small_lmdb() }
}

/// With a log that is merged all the time, so that rows are found in every place.
pub fn merging() -> LmdbConfig {
    LmdbConfig { merge_every: Duration::from_millis(1), merge_rows: 1, ..with_log() }
}

/// A test of an async function on a runtime of its own, which ends before the store is closed.
pub fn trial<F, R>(name: String, backend: Backend, rule: F) -> Trial
where
    F: FnOnce(Arc<Fixture>) -> R + Send + 'static,
    R: Future<Output = ()>,
{
    Trial::test(name, move || {
        let fixture = Arc::new((backend.open)());
        runtime().block_on(rule(fixture.clone()));
        Ok(())
    })
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

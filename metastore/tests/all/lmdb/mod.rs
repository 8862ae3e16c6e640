//! What holds for the embedded store beyond the contract.

mod crash;
mod delayed;
mod disk;
mod log;
mod measure;
mod model;
mod open;
mod process;
mod sharing;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use libtest_mimic::Trial;
use tokio::time::Instant;
use trellis_metastore::change::{Hold, Row};
use trellis_metastore::group::GroupConfig;
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::lmdb::{Lmdb, LmdbConfig, Writer};
use trellis_metastore::schema::{self, Setting, TableId};
use trellis_metastore::store::{Scanned, Store, StoreError};
use trellis_metastore::tx::{Stop, Tx, Versions};
use trellis_metastore::work::{End, Ran, Unfenced, Wake, Work};

pub use process::is_child;

use crate::backends::{runtime, small_lmdb};

pub fn trials() -> Vec<Trial> {
    [
        open::trials(),
        writer::trials(),
        model::trials(),
        crash::trials(),
        disk::trials(),
        log::trials(),
        delayed::trials(),
        sharing::trials(),
        measure::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A test with an empty directory of its own.
fn trial(name: &str, test: fn(&Path)) -> Trial {
    Trial::test(format!("lmdb::{name}"), move || {
        let dir = tempfile::tempdir()?;
        test(dir.path());
        Ok(())
    })
}

fn open(dir: &Path) -> Lmdb {
    open_as(dir, small_lmdb())
}

fn open_as(dir: &Path, config: LmdbConfig) -> Lmdb {
    Lmdb::open(dir, config).unwrap()
}

/// Why a store is not opened.
fn refusal(dir: &Path, config: LmdbConfig) -> StoreError {
    match Lmdb::open(dir, config) {
        Err(error) => error,
        Ok(_) => panic!("{} was opened", dir.display()),
    }
}

/// The rows of the inodes table in a partition.
fn rows(store: &Lmdb, partition: u64) -> Vec<(Key, Row)> {
    let scan = Scan::of(TableId::Inodes, partition, Scan::MAX_ROWS);
    match runtime().block_on(store.fetch(&[], &[scan])).unwrap().scans.remove(0) {
        Scanned::Rows(rows) => rows,
        Scanned::Count(_) => panic!("counted"),
    }
}

fn start(store: &Lmdb, incarnation: u64) -> (Writer, tokio::runtime::Runtime) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let versions = Versions::of_incarnation(incarnation);
    let config = GroupConfig::default();
    let writer =
        Writer::start(store, Arc::new(Unfenced), versions, &config, runtime.handle().clone()).unwrap();
    (writer, runtime)
}

/// An operation made of a function; its end is sent together with its number.
struct Op<F> {
    number: usize,
    run: F,
    deadline: Instant,
    ended: Sender<(usize, End)>,
}

impl<F: FnMut(&mut Tx<'_>) -> Result<Ran, Stop> + Send> Work for Op<F> {
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<Ran, Stop> {
        (self.run)(tx)
    }
    fn finish(self: Box<Self>, end: End) -> Wake {
        let _ = self.ended.send((self.number, end));
        Wake::default()
    }
    fn deadline(&self) -> Instant {
        self.deadline
    }
}

/// Where operations are made and their ends come in.
struct Ends {
    ended: Sender<(usize, End)>,
    ends: Receiver<(usize, End)>,
}

impl Ends {
    fn new() -> Ends {
        let (ended, ends) = channel();
        Ends { ended, ends }
    }

    fn op<F>(&self, number: usize, run: F) -> Box<dyn Work>
    where
        F: FnMut(&mut Tx<'_>) -> Result<Ran, Stop> + Send + 'static,
    {
        let deadline = Instant::now() + Duration::from_secs(60);
        Box::new(Op { number, run, deadline, ended: self.ended.clone() })
    }

    fn next(&self) -> (usize, End) {
        self.ends.recv_timeout(Duration::from_secs(30)).expect("an operation without an end")
    }

    /// The next `count` ends, by the operations' numbers.
    fn take(&self, count: usize) -> Vec<(usize, End)> {
        let mut ends: Vec<_> = (0..count).map(|_| self.next()).collect();
        ends.sort_by_key(|(number, _)| *number);
        ends
    }
}

fn send(writer: &Writer, work: Box<dyn Work>) {
    assert!(writer.write(0, work).is_ok(), "the queue is full");
}

/// Adds one to a counting row, which it makes if there is none.
fn increment(tx: &mut Tx<'_>, name: &str) -> Result<Ran, Stop> {
    let key = schema::setting(name);
    match tx.get(&key, Hold::Held)? {
        None => tx.insert(&key, &Setting { number: 1, text: String::new() })?,
        Some(row) => tx.put(&key, &Setting { number: row.value.number + 1, ..row.value })?,
    }
    Ok(Ran::Done)
}

/// The number in a row, over a snapshot; 0 = there is none.
fn number(store: &Lmdb, name: &str) -> u64 {
    let read = store.read(|view| {
        Tx::read_only(view)
            .get(&schema::setting(name), Hold::Loose)
            .map(|row| row.map_or(0, |row| row.value.number))
    });
    read.unwrap().unwrap()
}

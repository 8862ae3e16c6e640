//! Where replicas are kept, measured on the embedded store: beside their block, in their storage's partition, or both.
//! What it costs to report new ones, to find those of a file, and to compare a full report. Run with `--release`.
//! usage: replicas [BLOCKS]

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use prost::Message;
use tokio::runtime::Runtime;
use trellis_metastore::change::{Change, Check, Effect, Row};
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::lmdb::{Form, Lmdb, LmdbConfig};
use trellis_metastore::schema::{
    Replica, Replicas, StorageReplicas, Table, block_id, replica, storage_partition, storage_replica,
};
use trellis_metastore::store::{Fetched, Scanned, Store};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Replicas of a block.
const COPIES: u32 = 3;
/// Storages that they are spread over.
const STORAGES: u32 = 6;
/// Blocks reported in one commit: what a group of incremental reports brings.
const GROUP: usize = 64;
/// Files asked for in one fetch: what a group of readers asks.
const READERS: usize = 16;
/// Rows, or scans, of one fetch of a full report, as the namenode pages it.
const PAGE: usize = 2000;
/// Files located.
const LOCATED: usize = 3200;
const FIRST_INODE: u64 = 1 << 20;

/// Where replicas are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    BesideBlock,
    ByStorage,
    Both,
}

const LAYOUTS: [(Layout, &str); 3] =
    [(Layout::BesideBlock, "beside the block"), (Layout::ByStorage, "by storage"), (Layout::Both, "both")];

fn main() -> Result<()> {
    let blocks = std::env::args().nth(1).unwrap_or_else(|| "100000".to_owned()).parse::<usize>()?;
    let runtime = Runtime::new()?;
    let mut page = format!(
        "{blocks} blocks with {COPIES} replicas over {STORAGES} storages; CPU time of the process in µs a block; rows of the \
         store a block\n\n"
    );
    for per_file in [1, 100] {
        let _ = writeln!(
            page,
            "Files of {per_file} block{}:\n\n| kept | reported: µs | rows read | rows written | located: µs | rows read | \
             full report: µs | rows read | complete |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
            if per_file == 1 { "" } else { "s" }
        );
        for (layout, name) in LAYOUTS {
            let bench = Bench::open(layout, blocks, per_file)?;
            let [new, found, full] = runtime.block_on(bench.run())?;
            let _ = writeln!(
                page,
                "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} |",
                new.micros,
                new.read,
                new.written,
                found.micros,
                found.read,
                full.micros,
                full.read,
                if layout == Layout::BesideBlock { "no" } else { "yes" }
            );
        }
        page.push('\n');
    }
    print!("{page}");
    Ok(())
}

/// What something cost, for each block.
struct Cost {
    micros: f64,
    read: f64,
    written: f64,
}

/// A store of its own with replicas kept in one way.
struct Bench {
    layout: Layout,
    blocks: usize,
    per_file: usize,
    store: Lmdb,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn open(layout: Layout, blocks: usize, per_file: usize) -> Result<Bench> {
        let dir = tempfile::tempdir()?;
        let config = LmdbConfig { form: Form::Log, ..LmdbConfig::default() };
        let store = Lmdb::open(dir.path(), config)?;
        Ok(Bench { layout, blocks, per_file, store, _dir: dir })
    }

    async fn run(&self) -> Result<[Cost; 3]> {
        let new = self.cost(self.blocks, self.report_new()).await?;
        let files = LOCATED.min(self.blocks / self.per_file);
        let found = self.cost(files * self.per_file, self.locate(files)).await?;
        let full = self.cost(self.blocks * COPIES as usize / STORAGES as usize, self.compare()).await?;
        Ok([new, found, full])
    }

    /// The cost of some work on so many blocks, with what the store puts off until a moment later.
    async fn cost(&self, blocks: usize, work: impl Future<Output = Result<()>>) -> Result<Cost> {
        let (before, used) = (self.store.counters().read(), cpu()?);
        work.await?;
        tokio::time::sleep(LmdbConfig::default().merge_every * 3).await;
        let counted = self.store.counters().read().since(&before);
        let each = |count: f64| count / blocks as f64;
        Ok(Cost {
            micros: each((cpu()? - used).as_secs_f64() * 1e6),
            read: each(counted.rows_read as f64),
            written: each(counted.rows_written as f64),
        })
    }

    fn block(&self, number: usize) -> u64 {
        block_id(FIRST_INODE + (number / self.per_file) as u64, (number % self.per_file) as u32)
    }

    /// Storages of a block: neighbours, so that each storage has its share.
    fn storages(number: usize) -> impl Iterator<Item = u32> {
        (0..COPIES).map(move |copy| (number as u32 + copy) % STORAGES)
    }

    /// The rows of a block's replicas.
    fn keys(&self, number: usize) -> Vec<Key> {
        let id = self.block(number);
        let mut keys = Vec::new();
        for storage in Bench::storages(number) {
            if self.layout != Layout::ByStorage {
                keys.push(replica(id, storage).key);
            }
            if self.layout != Layout::BesideBlock {
                keys.push(storage_replica(storage, id).key);
            }
        }
        keys
    }

    /// Incremental reports of new replicas: what is known is read, what is new is written.
    async fn report_new(&self) -> Result<()> {
        let said =
            Replica { stamp: 1001, length: 4096, reported_ms: 1_700_000_000_000, ..Replica::default() };
        let value = bytes::Bytes::from(said.encode_to_vec());
        for first in (0..self.blocks).step_by(GROUP) {
            let numbers = first..(first + GROUP).min(self.blocks);
            let mut keys: Vec<Key> = numbers.flat_map(|number| self.keys(number)).collect();
            keys.sort_by(|a, b| a.lock_order().cmp(&b.lock_order()));
            let known = self.store.fetch(&keys, &[]).await?;
            assert!(known.rows.iter().all(Option::is_none), "a new replica is known");
            let row = Row { version: first as u64 + 1, value: value.clone(), ..Row::default() };
            let change = |key| Change { key, check: Check::Absent, effect: Effect::Insert(row.clone()) };
            self.store.commit(&keys.into_iter().map(change).collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    /// Readers ask where the replicas of files are. By storage alone, the rows of their blocks say which storages to ask.
    async fn locate(&self, files: usize) -> Result<()> {
        let all = self.blocks / self.per_file;
        for first in (0..files).step_by(READERS) {
            let asked: Vec<usize> =
                (first..(first + READERS).min(files)).map(|file| file * 7919 % all).collect();
            let fetched = if self.layout == Layout::ByStorage {
                let numbers = asked.iter().flat_map(|file| file * self.per_file..(file + 1) * self.per_file);
                let keys: Vec<Key> = numbers.flat_map(|number| self.keys(number)).collect();
                self.store.fetch(&keys, &[]).await?
            } else {
                let limit = (self.per_file * COPIES as usize) as u32 + 1;
                let scan = |file: &usize| Scan::of(Replicas::ID, FIRST_INODE + *file as u64, limit);
                self.store.fetch(&[], &asked.iter().map(scan).collect::<Vec<_>>()).await?
            };
            let wanted = asked.len() * self.per_file * COPIES as usize;
            assert_eq!(rows(&fetched), wanted, "replicas found");
        }
        Ok(())
    }

    /// A storage names all its replicas, and nothing has changed.
    async fn compare(&self) -> Result<()> {
        let named: Vec<usize> =
            (0..self.blocks).filter(|number| Bench::storages(*number).any(|storage| storage == 0)).collect();
        let mut equal = 0;
        if self.layout == Layout::BesideBlock {
            let mut files: Vec<usize> = named.iter().map(|number| number / self.per_file).collect();
            files.dedup();
            let limit = (self.per_file * COPIES as usize) as u32 + 1;
            for some in files.chunks((PAGE / self.per_file).max(1)) {
                let scan = |file: &usize| Scan::of(Replicas::ID, FIRST_INODE + *file as u64, limit);
                let fetched = self.store.fetch(&[], &some.iter().map(scan).collect::<Vec<_>>()).await?;
                equal += scanned(&fetched).filter(|key| key.rest().ends_with(&0u32.to_be_bytes())).count();
            }
        } else {
            let mut after: Option<Key> = None;
            loop {
                let mut scan = Scan::of(StorageReplicas::ID, storage_partition(0), PAGE as u32);
                if let Some(after) = &after {
                    scan = scan.after(after.rest());
                }
                let fetched = self.store.fetch(&[], &[scan]).await?;
                equal += rows(&fetched);
                match scanned(&fetched).last() {
                    Some(last) if rows(&fetched) == PAGE => after = Some(last.clone()),
                    _ => break,
                }
            }
        }
        assert_eq!(equal, named.len(), "replicas known");
        Ok(())
    }
}

fn scanned(fetched: &Fetched) -> impl Iterator<Item = &Key> {
    fetched
        .scans
        .iter()
        .flat_map(|scan| match scan {
            Scanned::Rows(rows) => rows.as_slice(),
            Scanned::Count(_) => &[],
        })
        .map(|(key, _)| key)
}

fn rows(fetched: &Fetched) -> usize {
    scanned(fetched).count() + fetched.rows.iter().flatten().count()
}

/// CPU time of this process so far.
fn cpu() -> Result<Duration> {
    let used = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(Duration::from_micros(used.num_microseconds().unsigned_abs()))
}

//! Costs on this machine: `TRELLIS_MEASURE=1 cargo test --release -p trellis-metastore --test all -- measure --nocapture`.
//! It asserts no times, so it is no test: without the variable it is not there.

use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::time::{ClockId, clock_gettime};
use trellis_metastore::change::{Change, Check, Effect, Hold, Row};
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::lmdb::{Lmdb, LmdbConfig};
use trellis_metastore::schema::{self, DirStat, Inode, Inodes, TableKey};
use trellis_metastore::store::Store;
use trellis_metastore::tx::{Stop, Tx};
use trellis_metastore::work::{End, Ran};

use super::{Ends, open_as, send, start, trial};
use crate::backends::runtime;

const DIRECTORIES: u64 = 10_000;
const FILES_PER_DIRECTORY: u64 = 100;
const FIRST: u64 = 20_000;

pub fn trials() -> Vec<Trial> {
    match std::env::var_os("TRELLIS_MEASURE") {
        Some(_) => vec![trial("measure_costs_on_a_million_rows", measure)],
        None => Vec::new(),
    }
}

fn measure(dir: &Path) {
    let store = open_as(dir, LmdbConfig::default());
    fill(&store);
    println!("rows {}, file {} MB", DIRECTORIES * FILES_PER_DIRECTORY, store.file_bytes().unwrap() >> 20);
    let reads = 200_000;
    report("an empty snapshot", reads, || store.read(|_| ()).unwrap());
    let mut seed = 1;
    for (rows, directories) in [("10,000 rows", DIRECTORIES / 100), ("all rows", DIRECTORIES)] {
        let keys: Vec<Key> = (0..5000).map(|_| file(&mut seed, directories).key).collect();
        let mut fives = keys.chunks_exact(5).cycle();
        report(&format!("five lookups among {rows}, as they lie"), reads, || {
            let Some(five) = fives.next() else { return };
            let mut bytes = 0;
            let read = store.read(|view| {
                five.iter().try_for_each(|key| {
                    view.read(key, &mut |row| bytes += row.map_or(0, |row| row.value.len()))
                })
            });
            read.unwrap().unwrap();
            assert!(bytes > 0);
        });
        report(&format!("five lookups among {rows}, decoded"), reads, || {
            let found = store.read(|view| {
                let mut tx = Tx::read_only(view);
                (0..5).try_fold(0, |sum, _| Ok::<_, Stop>(sum + lookup(&mut tx, &mut seed, directories)?))
            });
            assert!(found.unwrap().unwrap() > 0);
        });
    }
    report("a scan of 64 rows, decoded", reads / 10, || {
        let parent = FIRST + next(&mut seed) % DIRECTORIES;
        let rows = store.read(|view| {
            Tx::read_only(view).scan_all::<Inodes>(&[Scan::of(
                schema::inode(parent, b"").key.table(),
                parent,
                64,
            )])
        });
        assert_eq!(rows.unwrap().unwrap()[0].len(), 64);
    });
    writes(&store);
}

/// 64 clients, each with one operation in flight: an insert, a put, a merge, over five rows read.
fn writes(store: &Lmdb) {
    let (writer, _runtime) = start(store, 9);
    let ends = Ends::new();
    let (clients, operations) = (64, 20_000);
    let send_one = |n: u64| {
        let mut seed = n * 7919 + 1;
        send(&writer, ends.op(0, move |tx| create(tx, n, &mut seed)));
    };
    let before = store.counters().read();
    let (cpu, wall) = (cpu_time(), Instant::now());
    (0..clients).for_each(send_one);
    for n in clients..operations + clients {
        assert_eq!(ends.next().1, End::Answered);
        if n < operations {
            send_one(n);
        }
    }
    let (cpu, wall) = (cpu_time() - cpu, wall.elapsed());
    let counted = store.counters().read().since(&before);
    println!(
        "a durable operation of 3 rows, {clients} in flight: {:.1} µs CPU, {:.1} µs wall; {:.1} operations a commit",
        cpu.as_secs_f64() * 1e6 / operations as f64,
        wall.as_secs_f64() * 1e6 / operations as f64,
        operations as f64 / counted.commits as f64
    );
}

fn create(tx: &mut Tx<'_>, n: u64, seed: &mut u64) -> Result<Ran, Stop> {
    for _ in 0..3 {
        lookup(tx, seed, DIRECTORIES)?;
    }
    let parent = FIRST + next(seed) % DIRECTORIES;
    let (file, stat) = (schema::inode(parent, format!("new-{n}").as_bytes()), schema::dir_stat(parent, b"."));
    let other = schema::inode(parent, format!("file-{:06}", next(seed) % FILES_PER_DIRECTORY).as_bytes());
    tx.get(&file, Hold::Loose)?;
    tx.get(&stat, Hold::Held)?;
    let row = tx.get(&other, Hold::Held)?.ok_or(Stop::Fault("no such file".into()))?;
    tx.insert(&file, &inode(n))?;
    tx.put(&other, &Inode { mtime_ms: n as i64, ..row.value })?;
    tx.merge(&stat, n as i64, 1)?;
    Ok(Ran::Done)
}

fn lookup(tx: &mut Tx<'_>, seed: &mut u64, directories: u64) -> Result<u64, Stop> {
    Ok(tx.get(&file(seed, directories), Hold::Loose)?.map_or(0, |row| row.value.id))
}

/// The key of a random file.
fn file(seed: &mut u64, directories: u64) -> TableKey<Inodes> {
    let (parent, file) = (FIRST + next(seed) % directories, next(seed) % FILES_PER_DIRECTORY);
    schema::inode(parent, format!("file-{file:06}").as_bytes())
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

fn inode(id: u64) -> Inode {
    Inode {
        id: id + 1,
        kind: 1,
        mode: 0o644,
        owner: "alice".into(),
        group: "users".into(),
        mtime_ms: 1_700_000_000_000,
        atime_ms: 1_700_000_000_000,
        length: 123_456_789,
        block_count: 1,
        replication: 3,
        block_size: 128 << 20,
        ..Inode::default()
    }
}

fn fill(store: &Lmdb) {
    let runtime = runtime();
    let insert = |key, value: Vec<u8>| {
        let row = Row { version: 1, max: 0, add: 0, value: value.into() };
        Change { key, check: Check::Nothing, effect: Effect::Insert(row) }
    };
    for chunk in (0..DIRECTORIES).collect::<Vec<_>>().chunks(200) {
        let mut changes = Vec::new();
        for parent in chunk.iter().map(|d| FIRST + d) {
            let stat = prost::Message::encode_to_vec(&DirStat { id: parent, quota_of: 0 });
            changes.push(insert(schema::dir_stat(parent, b".").key, stat));
            for file in 0..FILES_PER_DIRECTORY {
                let name = format!("file-{file:06}");
                let value = prost::Message::encode_to_vec(&inode(parent * 1000 + file));
                changes.push(insert(schema::inode(parent, name.as_bytes()).key, value));
            }
        }
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        runtime.block_on(store.commit(&changes)).unwrap();
    }
}

fn report(what: &str, times: u32, mut call: impl FnMut()) {
    (0..times / 10).for_each(|_| call());
    let start = cpu_time();
    (0..times).for_each(|_| call());
    println!("{what}: {:.2} µs", (cpu_time() - start).as_secs_f64() * 1e6 / f64::from(times));
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap().into()
}

//! Killed processes.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use rand::RngExt;
use trellis_metastore::change::{Change, Check, Effect, Hold, Row};
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::lmdb::LmdbConfig;
use trellis_metastore::schema::{TableId, setting};
use trellis_metastore::store::{Scanned, Store};
use trellis_metastore::work::{End, Ran};

use super::process::{Process, say, wait_for_parent};
use super::{Ends, increment, number, open, open_as, send, start, trial};
use crate::backends::runtime;

/// Rounds of killing a writer at a random moment.
const KILLS: usize = 20;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("crash_a_writer_killed_in_its_transaction_frees_the_others", writer_killed),
        trial("crash_a_killed_reader_is_cleared_and_the_file_stops_growing", reader_killed),
        trial("crash_every_answered_write_survives_kill_9", |dir| {
            answered_writes_survive(dir, "write-and-tell");
        }),
        trial("crash_every_answered_write_in_the_log_survives_kill_9", |dir| {
            answered_writes_survive(dir, "write-and-tell-with-log");
        }),
    ]
}

pub fn key(partition: u64, rest: u64) -> Key {
    Key::new(partition, TableId::Inodes, &rest.to_be_bytes())
}

pub fn blind(key: Key, value: Vec<u8>) -> Change {
    let row = Row { version: 1, max: 0, add: 0, value: value.into() };
    Change { key, check: Check::Nothing, effect: Effect::Put(row) }
}

fn writer_killed(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "own")));
    assert_eq!(ends.next(), (0, End::Answered));
    let mut child = Process::start("write-and-freeze", dir);
    assert_eq!(child.line(), "inside");
    // This one waits for the lock that the child holds.
    send(&writer, ends.op(1, |tx| increment(tx, "own")));
    assert!(ends.ends.recv_timeout(Duration::from_millis(60)).is_err(), "the child does not hold the lock");
    child.kill();
    assert_eq!(ends.next(), (1, End::Answered));
    assert_eq!((number(&store, "own"), number(&store, "lost")), (2, 0));
    send(&writer, ends.op(2, |tx| increment(tx, "lost")));
    assert_eq!(ends.next(), (2, End::Answered));
    assert_eq!(number(&store, "lost"), 1);
}

/// A child: freezes inside its write transaction, having written.
pub fn write_and_freeze(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 2);
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "lost")));
    send(&writer, ends.op(1, |tx| increment(tx, "lost")));
    assert_eq!(ends.take(2).len(), 2);
    // Both are undone, then a transaction is left open that would have written again.
    send(
        &writer,
        ends.op(2, |tx| {
            tx.get(&setting("lost"), Hold::Held)?;
            tx.delete(&setting("lost"))?;
            Ok(Ran::Done)
        }),
    );
    assert_eq!(ends.next().1, End::Answered);
    send(
        &writer,
        ends.op(3, |tx| {
            increment(tx, "lost")?;
            say("inside");
            wait_for_parent();
            Ok(Ran::Done)
        }),
    );
    ends.next();
}

fn reader_killed(dir: &Path) {
    let store = open(dir);
    let runtime = runtime();
    let mut version = 0;
    let mut growth = |commits: usize| {
        let before = store.file_bytes().unwrap();
        for _ in 0..commits {
            version += 1;
            let changes: Vec<Change> = (0..4).map(|i| blind(key(1, i), vec![version as u8; 8000])).collect();
            runtime.block_on(store.commit(&changes)).unwrap();
        }
        store.file_bytes().unwrap() - before
    };
    growth(20);
    assert_eq!(growth(20), 0, "pages are used again");
    let mut child = Process::start("read-and-freeze", dir);
    assert_eq!(child.line(), "inside");
    assert!(growth(20) > 200_000, "the child's snapshot does not hold its pages");
    child.kill();
    let mut rounds = 0;
    while growth(20) > 0 {
        rounds += 1;
        assert!(rounds < 200, "the reader's slot is never cleared");
    }
}

/// A child: freezes with a snapshot open.
pub fn read_and_freeze(dir: &Path) {
    let store = open(dir);
    let read = store.read(|_| {
        say("inside");
        wait_for_parent();
    });
    read.unwrap();
}

fn answered_writes_survive(dir: &Path, role: &str) {
    let mut random = rand::rng();
    let mut answered = Vec::new();
    for round in 0..KILLS {
        let mut child = Process::start(role, dir);
        let mut told = vec![child.line()];
        let moment = Duration::from_micros(random.random_range(0..12_000));
        std::thread::sleep(moment);
        child.kill();
        while let line = child.line()
            && !line.is_empty()
        {
            told.push(line);
        }
        answered.extend(told.iter().filter_map(|line| line.parse::<u64>().ok()));
        assert!(!answered.is_empty(), "round {round}: {told:?}");
        let store = open(dir);
        let keys: Vec<Key> = answered.iter().map(|number| key(number % 7, *number)).collect();
        let rows = runtime().block_on(store.fetch(&keys, &[])).unwrap().rows;
        for (number, row) in answered.iter().zip(rows) {
            let row = row.unwrap_or_else(|| panic!("round {round}: the answered write {number} is gone"));
            assert_eq!(row.value, vec![*number as u8; 100 + (*number % 3000) as usize]);
        }
    }
    println!("{} answered writes in {KILLS} rounds", answered.len());
}

/// A child: writes rows with growing numbers, a few at a time, and says each number once its commit returned.
pub fn write_and_tell(dir: &Path, config: LmdbConfig) {
    let store = open_as(dir, config);
    let runtime = runtime();
    let scans: Vec<Scan> = (0..7).map(|p| Scan::of(TableId::Inodes, p, 1).reverse()).collect();
    let last =
        runtime.block_on(store.fetch(&[], &scans)).unwrap().scans.into_iter().filter_map(|s| match s {
            Scanned::Rows(rows) => {
                rows.last().map(|(key, _)| u64::from_be_bytes(key.rest().try_into().unwrap()))
            }
            Scanned::Count(_) => None,
        });
    let mut next = last.max().map_or(0, |last| last + 1);
    loop {
        let numbers = next..next + 1 + next % 5;
        next = numbers.end;
        let mut changes: Vec<Change> = numbers
            .clone()
            .map(|n| Change {
                check: Check::Absent,
                ..blind(key(n % 7, n), vec![n as u8; 100 + (n % 3000) as usize])
            })
            .collect();
        changes.sort_by(|a, b| a.key.lock_order().cmp(&b.key.lock_order()));
        runtime.block_on(store.commit(&changes)).unwrap();
        numbers.for_each(|number| say(&number.to_string()));
    }
}

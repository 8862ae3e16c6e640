//! Killed processes, full disks, and what is on disk before an answer.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use rand::RngExt;
use trellis_metastore::change::{Change, Check, Effect, Hold, Row};
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::lmdb::Lmdb;
use trellis_metastore::schema::{Setting, TableId, setting};
use trellis_metastore::store::{Scanned, Store, StoreError};
use trellis_metastore::work::{End, Ran};

use super::process::{Process, say, wait_for_parent};
use super::{Ends, increment, number, open, send, start, trial};
use crate::backends::runtime;

/// Rounds of killing a writer at a random moment.
const KILLS: usize = 20;
/// The file system that is filled.
const SMALL_DISK: &str = "8m";

pub fn trials() -> Vec<Trial> {
    vec![
        trial("crash_a_writer_killed_in_its_transaction_frees_the_others", writer_killed),
        trial("crash_a_killed_reader_is_cleared_and_the_file_stops_growing", reader_killed),
        trial("crash_every_answered_write_survives_kill_9", answered_writes_survive),
        trial("crash_nothing_is_answered_before_it_is_on_disk", synced_before_the_answer)
            .with_ignored_flag(!runs("strace", &["-o", "/dev/null", "true"])),
        trial("full_disk_is_an_error_and_reads_go_on", full_disk)
            .with_ignored_flag(!runs("sh", &["-c", &mounting("true")])),
    ]
}

/// Whether a helper program is there and may do its work; where it may not, its test is shown as ignored.
fn runs(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).stderr(std::process::Stdio::null()).status().is_ok_and(|s| s.success())
}

fn key(partition: u64, rest: u64) -> Key {
    Key::new(partition, TableId::Inodes, &rest.to_be_bytes())
}

fn blind(key: Key, value: Vec<u8>) -> Change {
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

fn answered_writes_survive(dir: &Path) {
    let mut random = rand::rng();
    let mut answered = Vec::new();
    for round in 0..KILLS {
        let mut child = Process::start("write-and-tell", dir);
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
pub fn write_and_tell(dir: &Path) {
    let store = open(dir);
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

fn synced_before_the_answer(dir: &Path) {
    let log = dir.join("strace");
    let store = dir.join("store");
    std::fs::create_dir(&store).unwrap();
    let calls = "trace=openat,pwrite64,pwritev,fdatasync,fsync,msync,write";
    let log_name = log.display().to_string();
    let child = Process::start_under(&["strace", "-f", "-e", calls, "-o", &log_name], "commit-once", &store);
    child.finish();
    let log = std::fs::read_to_string(&log).unwrap();
    // strace splits calls of several threads; what is over is a line of its own kind either way.
    let lines: Vec<&str> = log.lines().collect();
    let begin = position(&lines, 0, |line| line.contains("\"begin"));
    let root_fd =
        lines.iter().find(|l| l.contains("data.mdb") && l.contains("O_DSYNC") && !l.contains("= -1"));
    let root_fd =
        root_fd.and_then(|line| line.rsplit("= ").next()).expect("no file is opened O_DSYNC").trim();
    let pages = position(&lines, begin, |line| line.contains("pwrite"));
    let synced = position(&lines, pages, |line| line.contains("fdatasync") && line.ends_with("= 0"));
    let root = position(&lines, synced, |line| line.contains(&format!("pwrite64({root_fd}, ")));
    let answer = position(&lines, begin, |line| line.contains("\"answered"));
    assert!(pages < synced && synced < root && root < answer, "{log}");
    // The write of the root is durable when it returns; it must have returned.
    let returned = lines[root].contains(") = ")
        || lines[root..answer].iter().any(|line| line.contains("pwrite64 resumed") && line.contains(") = "));
    assert!(returned, "{log}");
}

fn position(lines: &[&str], from: usize, wanted: impl Fn(&str) -> bool) -> usize {
    let found = lines.iter().skip(from).position(|line| wanted(line));
    from + found.unwrap_or_else(|| panic!("a call is missing after line {from}:\n{}", lines.join("\n")))
}

/// A child: one durable operation, announced before and answered after.
pub fn commit_once(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    say("begin");
    send(&writer, ends.op(0, |tx| increment(tx, "x")));
    assert_eq!(ends.next().1, End::Answered);
    say("answered");
}

/// A shell script that runs another, with the same `$0`, where /mnt is a small disk that goes away with it.
fn mounting(then: &str) -> String {
    let inside = format!("sh -c 'mount -t tmpfs -o size={SMALL_DISK} trellis-test /mnt && {then}' \"$0\"");
    match nix::unistd::Uid::effective().is_root() {
        true => format!("unshare --mount {inside}"),
        false => format!("unshare --user --map-root-user --mount {inside}"),
    }
}

fn full_disk(_: &Path) {
    let script = mounting("exec \"$0\"");
    let child = Process::start_under(&["sh", "-c", &script], "fill-the-disk", Path::new("/mnt"));
    assert!(child.finish().contains("all is well"));
}

/// A child on a small disk: fills it, reads on, frees some, writes on, opens again.
pub fn fill_the_disk(dir: &Path) {
    let store = open(dir);
    std::fs::write(dir.join("ballast"), vec![1; 3 << 20]).unwrap();
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    let runtime = runtime();
    let mut written = 0;
    let full = loop {
        match runtime.block_on(store.commit(&[blind(key(1, written), vec![written as u8; 8000])])) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 10_000, "the disk is never full");
    };
    assert!(matches!(full, StoreError::Full(_)), "{full:?}");
    assert!(written > 100, "{written}");
    all_there(&runtime, &store, written);
    // The writer says the same to each operation, and goes on.
    let large = |n: u64| {
        ends.op(n as usize, move |tx| {
            let text = "x".repeat(8000);
            for i in 0..100 {
                tx.insert(&setting(&format!("{n} {i}")), &Setting { number: 0, text: text.clone() })?;
            }
            Ok(Ran::Done)
        })
    };
    (0..3).for_each(|n| send(&writer, large(n)));
    for (_, end) in ends.take(3) {
        assert!(matches!(end, End::Failed(StoreError::Full(_))), "{end:?}");
    }
    all_there(&runtime, &store, written);
    std::fs::remove_file(dir.join("ballast")).unwrap();
    (0..2).for_each(|n| send(&writer, large(n)));
    assert_eq!(ends.take(2), [(0, End::Answered), (1, End::Answered)]);
    runtime.block_on(store.commit(&[blind(key(1, written), vec![written as u8; 8000])])).unwrap();
    all_there(&runtime, &store, written + 1);
    drop(writer);
    drop(store);
    let store = open(dir);
    all_there(&runtime, &store, written + 1);
    say("all is well");
}

fn all_there(runtime: &tokio::runtime::Runtime, store: &Lmdb, written: u64) {
    let scan = Scan::of(TableId::Inodes, 1, Scan::MAX_ROWS);
    match runtime.block_on(store.fetch(&[], &[scan])).unwrap().scans.remove(0) {
        Scanned::Rows(rows) => {
            assert_eq!(rows.len() as u64, written);
            for (n, (_, row)) in rows.iter().enumerate() {
                assert!(row.value.iter().all(|byte| *byte == n as u8) && row.value.len() == 8000);
            }
        }
        Scanned::Count(_) => panic!("counted"),
    }
}

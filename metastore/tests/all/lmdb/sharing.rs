//! Several processes over one store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use trellis_metastore::store::Store;
use trellis_metastore::work::End;

use super::process::{Process, say, wait_for_parent};
use super::{Ends, increment, number, open, send, start, trial};

/// Operations of all processes together before they are stopped.
const OPERATIONS: u64 = 12_000;
/// Operations in flight per process: more than a group, so that the next one always waits already.
const IN_FLIGHT: usize = 200;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("processes_three_writers_lose_no_update_and_none_starves", |dir| writers(dir, 3)),
        trial("processes_open_and_read_beside_one_stopped_in_its_transaction", beside_a_stopped_writer),
        trial("processes_that_open_an_empty_directory_at_once_share_one_store", open_at_once),
        trial("processes_two_writers_lose_no_update_and_none_starves", |dir| writers(dir, 2)),
    ]
}

fn writers(dir: &Path, count: usize) {
    let store = open(dir);
    let mut children: Vec<Process> = (0..count).map(|_| Process::start("increment", dir)).collect();
    for child in &mut children {
        assert_eq!(child.line(), "ready");
    }
    while number(&store, "shared") < OPERATIONS {
        std::thread::sleep(Duration::from_millis(10));
    }
    children.iter_mut().for_each(Process::go_on);
    let (mut answered, mut commits) = (Vec::new(), Vec::new());
    for child in children {
        let said = child.finish();
        let numbers: Vec<u64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
        answered.push(numbers[0]);
        commits.push(numbers[1]);
    }
    assert_eq!(number(&store, "shared"), answered.iter().sum::<u64>(), "lost updates: {answered:?}");
    let all: u64 = commits.iter().sum();
    println!("commits {commits:?}, operations {answered:?}");
    assert!(commits.iter().all(|own| own * 100 >= all * 15), "one starves: {commits:?}");
}

fn beside_a_stopped_writer(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "shared")));
    assert_eq!(ends.next(), (0, End::Answered));
    let mut stopped = Process::start("write-and-freeze", dir);
    assert_eq!(stopped.line(), "inside");
    stopped.signal(Signal::SIGSTOP);
    // This one stands at the turnstile until the child's transaction ends.
    send(&writer, ends.op(1, |tx| increment(tx, "shared")));
    assert!(ends.ends.recv_timeout(Duration::from_millis(100)).is_err(), "the child does not hold the lock");
    let mut readers: Vec<Process> = (0..4).map(|_| Process::start("open-and-read", dir)).collect();
    // Were they to wait, it would be for ever: the child is let go only after them.
    for reader in &mut readers {
        assert_eq!(reader.line(), "1");
    }
    readers.into_iter().for_each(|reader| drop(reader.finish()));
    assert!(ends.ends.try_recv().is_err(), "the child does not hold the lock any more");
    stopped.signal(Signal::SIGCONT);
    stopped.go_on();
    assert_eq!(ends.next(), (1, End::Answered));
    assert_eq!(number(&store, "shared"), 2);
}

/// A child: opens the store, and says what it reads.
pub fn open_and_read(dir: &Path) {
    say(&number(&open(dir), "shared").to_string());
}

fn open_at_once(dir: &Path) {
    const PROCESSES: u64 = 6;
    for round in 0..5 {
        let dir = dir.join(round.to_string());
        std::fs::create_dir(&dir).unwrap();
        let children: Vec<Process> =
            (0..PROCESSES).map(|_| Process::start("open-and-increment", &dir)).collect();
        children.into_iter().for_each(|child| drop(child.finish()));
        assert_eq!(number(&open(&dir), "shared"), PROCESSES);
    }
}

/// A child: opens the store and adds one.
pub fn open_and_increment(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, std::process::id().into());
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "shared")));
    assert_eq!(ends.next().1, End::Answered);
}

/// A child: keeps [`IN_FLIGHT`] increments of one row in flight until told to stop; says how many were answered, and in
/// how many commits.
pub fn increment_until_told(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, std::process::id().into());
    let stop = Arc::new(AtomicBool::new(false));
    let ends = Ends::new();
    let send_one = || send(&writer, ends.op(0, |tx| increment(tx, "shared")));
    say("ready");
    std::thread::spawn({
        let stop = stop.clone();
        move || {
            wait_for_parent();
            stop.store(true, Ordering::Relaxed);
        }
    });
    (0..IN_FLIGHT).for_each(|_| send_one());
    let (mut in_flight, mut answered) = (IN_FLIGHT, 0);
    while in_flight > 0 {
        assert_eq!(ends.next().1, End::Answered);
        answered += 1;
        match stop.load(Ordering::Relaxed) {
            true => in_flight -= 1,
            false => send_one(),
        }
    }
    say(&format!("{answered} {}", store.counters().read().commits));
}

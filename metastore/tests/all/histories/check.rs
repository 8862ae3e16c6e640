//! The checker: replays the journal of the store, and beside it what the operations say they did, in one order.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use trellis_metastore::change::{Change, Effect, Hold, Row};
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::schema::{RetryEntry, TableId};
use trellis_metastore::sim::World;
use trellis_metastore::store::Store;

use super::ops::{Answer, Book, Content, Step, content};

type Model = BTreeMap<Key, Content>;

/// What the histories held, so that a test can say whether they were worth it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub committed: usize,
    pub refused: usize,
    pub looks: usize,
    /// Commits that carried several operations.
    pub shared: usize,
    /// Answers that an earlier run had left.
    pub earlier: usize,
    pub conflicts: u64,
    pub locked: u64,
}

impl Seen {
    pub fn add(&mut self, other: Seen) {
        self.committed += other.committed;
        self.refused += other.refused;
        self.looks += other.looks;
        self.shared += other.shared;
        self.earlier += other.earlier;
        self.conflicts += other.conflicts;
        self.locked += other.locked;
    }
}

/// Checks a history. `all`: there was one lane only, so that whatever any run saw, Loose rows and scans included, must
/// be what was there in the order of the runs.
pub fn check(what: &str, world: &World, book: &Book, all: bool) -> Seen {
    let journal = world.mem().journal();
    let states = replay(what, &journal);
    let stored: BTreeMap<Key, Row> = world.mem().rows().into_iter().collect();
    assert_eq!(states.last().unwrap(), &stored, "{what}: the journal does not lead to the rows");
    let models: Vec<Model> = states.iter().map(model).collect();
    let committed = committed(what, &journal);
    operations(what, book, &committed, &models, all);
    answers(what, book, &committed);
    looks(what, book, &models);
    let mut commits = BTreeMap::new();
    committed.values().for_each(|(commit, _)| *commits.entry(*commit).or_insert(0) += 1);
    let acks = book.acks.lock().unwrap();
    let counters = world.mem().counters();
    Seen {
        committed: committed.len(),
        refused: acks.iter().filter(|ack| matches!(ack.answer, Answer::Refused(_))).count(),
        looks: book.looks.lock().unwrap().len(),
        shared: commits.values().filter(|operations| **operations > 1).count(),
        earlier: acks.iter().filter(|ack| matches!(ack.answer, Answer::Earlier(_))).count(),
        conflicts: counters.conflicts.get(),
        locked: counters.locked_operations.get(),
    }
}

/// The rows after each commit (the first: none), every check tested and every version new.
fn replay(what: &str, journal: &[Vec<Change>]) -> Vec<BTreeMap<Key, Row>> {
    let mut states = vec![BTreeMap::new()];
    let mut versions = BTreeSet::new();
    for (at, commit) in journal.iter().enumerate() {
        let before = &states[at];
        let mut after = before.clone();
        let keys: BTreeSet<&Key> = commit.iter().map(|change| &change.key).collect();
        assert_eq!(keys.len(), commit.len(), "{what}: commit {at} changes a row twice");
        let in_order = commit.windows(2).all(|pair| pair[0].key.lock_order() < pair[1].key.lock_order());
        assert!(in_order, "{what}: commit {at} is not in lock order");
        for change in commit {
            assert!(change.check.holds(before.get(&change.key)), "{what}: commit {at}: {change:?}");
            if let Effect::Insert(row) | Effect::Put(row) = &change.effect {
                assert!(versions.insert(row.version), "{what}: version {} was used twice", row.version);
            }
            match change.applied(before.get(&change.key)) {
                Some(row) => after.insert(change.key.clone(), row),
                None => after.remove(&change.key),
            };
        }
        states.push(after);
    }
    states
}

fn model(rows: &BTreeMap<Key, Row>) -> Model {
    rows.iter().filter_map(|(key, row)| Some((key.clone(), content(key, row)?))).collect()
}

/// Which commit made each operation's run come true: run → (commit, operation). At most one run of an operation.
fn committed(what: &str, journal: &[Vec<Change>]) -> BTreeMap<u64, (usize, u64)> {
    let (mut runs, mut operations) = (BTreeMap::new(), BTreeSet::new());
    for (at, commit) in journal.iter().enumerate() {
        for change in commit.iter().filter(|change| change.key.table() == TableId::RetryCache) {
            let Effect::Insert(row) = &change.effect else { continue };
            let run = RetryEntry::decode(&row.value[..]).unwrap().at_ms as u64;
            let op = u64::from_be_bytes(change.key.rest()[16..].try_into().unwrap());
            assert!(operations.insert(op), "{what}: operation {op} was done twice");
            runs.insert(run, (at, op));
        }
    }
    runs
}

/// Does what the operations say they did, in the order of commits and, in a commit, of runs; compares what each saw
/// with what is there then, and after each commit the whole with the store.
fn operations(what: &str, book: &Book, committed: &BTreeMap<u64, (usize, u64)>, models: &[Model], all: bool) {
    let runs = book.runs.lock().unwrap();
    let mut order: Vec<(usize, u64)> = committed.iter().map(|(run, (commit, _))| (*commit, *run)).collect();
    order.sort();
    if all {
        let by_run: Vec<u64> = order.iter().map(|(_, run)| *run).collect();
        assert!(by_run.is_sorted(), "{what}: runs of one lane were committed out of order");
        // Runs that wrote nothing and were answered take their place between them.
        let only_saw = book
            .acks
            .lock()
            .unwrap()
            .iter()
            .filter_map(|ack| match ack.answer {
                Answer::Refused(run) | Answer::OnlyRead(run) => Some(run),
                Answer::Wrote(_) | Answer::Earlier(_) => None,
            })
            .collect::<Vec<u64>>();
        for run in only_saw {
            let after = order.partition_point(|(_, other)| *other < run);
            let commit = order.get(after).or(order.last()).map_or(0, |(commit, _)| *commit);
            order.insert(after, (commit, run));
        }
    }
    // The first commit made the rows to begin with.
    let mut now = models[1].clone();
    for (at, (commit, id)) in order.iter().enumerate() {
        let run = runs.get(id).unwrap_or_else(|| panic!("{what}: run {id} was committed but not recorded"));
        let writes = committed.contains_key(id);
        let saved = (!writes).then(|| now.clone());
        for (n, step) in run.steps.iter().enumerate() {
            let written = writes && run.steps[n..].iter().any(|later| writes_exactly(later, step));
            do_step(step, written, all, &mut now).unwrap_or_else(|why| {
                panic!("{what}: operation {} run {id} commit {commit}: {why}\n{:#?}", run.op, run.steps)
            });
        }
        if let Some(saved) = saved {
            now = saved;
        }
        if order.get(at + 1).is_none_or(|(next, _)| next != commit) {
            assert_eq!(now, models[commit + 1], "{what}: after commit {commit}");
        }
    }
}

/// Whether `later` replaces or removes the row that `step` read: then it was checked counters and all.
fn writes_exactly(later: &Step, step: &Step) -> bool {
    match (later, step) {
        (Step::Put(key, _) | Step::Delete(key) | Step::Insert(key, _), Step::Read(read, ..)) => key == read,
        _ => false,
    }
}

fn do_step(step: &Step, written: bool, all: bool, now: &mut Model) -> Result<(), String> {
    let differs = |why: &str, now: &Model| Err(format!("{why}: {step:?} over {now:?}"));
    match step {
        Step::Read(key, hold, saw) => {
            let is = now.get(key);
            let exact = all || written || *hold == Hold::HeldExact;
            let held = matches!(hold, Hold::Held) && saw.is_some();
            // Absence is guarded by an insert only, or by nothing.
            if exact && (all || written || saw.is_some()) && is != saw.as_ref() {
                return differs("another row", now);
            }
            if held && is.map(|c| c.0) != saw.map(|c| c.0) {
                return differs("another version", now);
            }
        }
        Step::Insert(key, row) => {
            if now.insert(key.clone(), *row).is_some() {
                return differs("it is there", now);
            }
        }
        Step::Put(key, row) => {
            if now.insert(key.clone(), *row).is_none() {
                return differs("it is not there", now);
            }
        }
        Step::Delete(key) => {
            if now.remove(key).is_none() {
                return differs("it is not there", now);
            }
        }
        Step::Merge(key, max, add) => match now.get_mut(key) {
            Some(row) => *row = (row.0, row.1.max(*max), row.2 + add),
            None => return differs("it is not there", now),
        },
        Step::Scan(scan, saw) if all => {
            let is: Vec<(Key, u64)> = page(scan, now);
            if is != *saw {
                return differs("other rows", now);
            }
        }
        Step::Count(scan, saw) if all => {
            if page(scan, now).len() as u64 != *saw {
                return differs("another count", now);
            }
        }
        Step::Scan(..) | Step::Count(..) => {}
    }
    Ok(())
}

fn page(scan: &Scan, now: &Model) -> Vec<(Key, u64)> {
    let mut rows: Vec<(Key, u64)> =
        now.iter().filter(|(key, _)| scan.covers(key)).map(|(key, row)| (key.clone(), row.0)).collect();
    if scan.reverse {
        rows.reverse();
    }
    rows.truncate(scan.limit as usize);
    rows
}

/// What clients were told is what happened, and happened while they waited.
fn answers(what: &str, book: &Book, committed: &BTreeMap<u64, (usize, u64)>) {
    let by_op: BTreeMap<u64, (usize, u64)> =
        committed.iter().map(|(run, (commit, op))| (*op, (*commit, *run))).collect();
    for ack in book.acks.lock().unwrap().iter() {
        let done = by_op.get(&ack.op);
        match ack.answer {
            Answer::Wrote(run) | Answer::Earlier(run) => {
                let (commit, by) = done.unwrap_or_else(|| panic!("{what}: operation {} is lost", ack.op));
                assert_eq!(*by, run, "{what}: operation {} was answered for another run", ack.op);
                assert!((ack.issued..ack.answered).contains(commit), "{what}: operation {}", ack.op);
            }
            // A copy that the client gave up may still come through later; not before the answer was found.
            Answer::Refused(_) | Answer::OnlyRead(_) => {
                assert!(
                    done.is_none_or(|(commit, _)| *commit >= ack.attempt),
                    "{what}: {} came true",
                    ack.op
                );
            }
        }
    }
}

/// Every look is one moment between its call and its answer.
fn looks(what: &str, book: &Book, models: &[Model]) {
    for (from, to, (rows, scanned)) in book.looks.lock().unwrap().iter() {
        assert!(
            models[*from..=*to].contains(rows),
            "{what}: a look between commits {from} and {to}: {rows:?}"
        );
        let files: Vec<&Key> = rows.keys().filter(|key| key.table() == TableId::Inodes).collect();
        assert_eq!(scanned.iter().collect::<Vec<_>>(), files, "{what}: a scan beside gets");
    }
}

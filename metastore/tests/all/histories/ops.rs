//! Random operations, and a record of what each run of them saw and did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use prost::Message;
use trellis_metastore::change::{Change, Check, Effect, Hold, Row};
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::schema::{
    DirStat, DirStats, Inode, Inodes, RetryEntry, Table, TableId, TableKey, dir_stat, inode, retry_entry,
};
use trellis_metastore::sim::World;
use trellis_metastore::store::Store;
use trellis_metastore::tx::{Stop, Tx};
use trellis_metastore::work::Ran;

use super::Ack;

const DIRECTORY: u64 = 20_000;
const FILES: u8 = 5;
const STATS: u8 = 2;

/// A row as far as it matters: the run that wrote it last, and its counters.
pub type Content = (u64, i64, i64);

/// What a run did, in order.
#[derive(Clone, Debug)]
pub enum Step {
    Read(Key, Hold, Option<Content>),
    Insert(Key, Content),
    Put(Key, Content),
    Delete(Key),
    Merge(Key, i64, i64),
    Scan(Scan, Vec<(Key, u64)>),
    Count(Scan, u64),
}

/// One run of an operation that came to its end.
pub struct Run {
    pub op: u64,
    pub steps: Vec<Step>,
}

/// The answer of an operation, with the run that found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Wrote(u64),
    /// It was done before, in this run.
    Earlier(u64),
    Refused(u64),
    OnlyRead(u64),
}

/// The rows that a look saw, and the names that its scan gave.
pub type Look = (BTreeMap<Key, Content>, Vec<Key>);

/// Everything that happened, as the operations and the clients saw it.
#[derive(Default)]
pub struct Book {
    last_run: AtomicU64,
    /// Operations that clients called.
    pub issued: AtomicUsize,
    pub runs: Mutex<BTreeMap<u64, Run>>,
    pub acks: Mutex<Vec<Ack>>,
    /// Journal lengths before and after, and what was seen between.
    pub looks: Mutex<Vec<(usize, usize, Look)>>,
}

#[derive(Clone, Debug)]
enum Action {
    Scan { after: Option<u8>, limit: u32, reverse: bool, count: bool },
    Read(u8, Hold),
    ReadStat(u8, Hold),
    Write(u8),
    Delete(u8),
    InsertNew(u8),
    Add(u8, i64),
    Reset(u8),
    DropStat(u8),
}

/// A random operation.
#[derive(Debug)]
pub struct Op {
    pub id: u64,
    actions: Vec<Action>,
    /// Whether it asks for all its rows up front, as one with warm hints does.
    warm: bool,
}

fn file(name: u8) -> TableKey<Inodes> {
    inode(DIRECTORY, &[name])
}

fn stat(name: u8) -> TableKey<DirStats> {
    dir_stat(DIRECTORY, &[name])
}

impl Op {
    pub fn draw(id: u64, world: &World) -> Op {
        let name = || world.random(FILES.into()) as u8;
        let stat = || world.random(STATS.into()) as u8;
        let hold = || [Hold::Loose, Hold::Held, Hold::HeldExact][world.random(3) as usize];
        let mut actions = Vec::new();
        // Scans come first: an operation may not scan over its own writes.
        if world.random(3) == 0 {
            let after = (world.random(2) == 0).then(name);
            let limit = 1 + world.random(FILES.into()) as u32;
            let (reverse, count) = (world.random(2) == 0, world.random(2) == 0);
            actions.push(Action::Scan { after, limit, reverse, count });
        }
        for _ in 0..1 + world.random(4) {
            actions.push(match world.random(20) {
                0..3 => Action::Read(name(), hold()),
                3..5 => Action::ReadStat(stat(), hold()),
                5..9 => Action::Write(name()),
                9..12 => Action::Delete(name()),
                12..14 => Action::InsertNew(name()),
                14..18 => Action::Add(stat(), world.random(100) as i64),
                18 => Action::Reset(stat()),
                _ => Action::DropStat(stat()),
            });
        }
        Op { id, actions, warm: world.random(3) > 0 }
    }

    fn retry_key(&self) -> TableKey<trellis_metastore::schema::RetryCache> {
        retry_entry(&[3; 16], self.id as i64)
    }

    fn want(&self, tx: &mut Tx<'_>) {
        for action in &self.actions {
            match action {
                Action::Read(name, _)
                | Action::Write(name)
                | Action::Delete(name)
                | Action::InsertNew(name) => tx.want(&file(*name)),
                Action::ReadStat(name, _)
                | Action::Add(name, _)
                | Action::Reset(name)
                | Action::DropStat(name) => tx.want(&stat(*name)),
                Action::Scan { .. } => tx.want_scan(&scan(action)),
            }
        }
    }
}

fn scan(action: &Action) -> Scan {
    let Action::Scan { after, limit, reverse, count } = action else { panic!("no scan: {action:?}") };
    let mut scan = Scan::of(TableId::Inodes, DIRECTORY, *limit);
    if let Some(after) = after {
        scan = scan.after(file(*after).key.rest());
    }
    (scan.reverse, scan.count_only) = (*reverse, *count);
    scan
}

/// One run in the making.
struct Running<'r, 'v> {
    tx: &'r mut Tx<'v>,
    id: u64,
    steps: Vec<Step>,
}

impl Running<'_, '_> {
    fn read<T: Table>(&mut self, key: &TableKey<T>, hold: Hold) -> Result<Option<Content>, Stop>
    where
        T::Value: Token,
    {
        let saw = self.tx.get(key, hold)?.map(|r| (r.value.token(), r.max, r.add));
        self.steps.push(Step::Read(key.key.clone(), hold, saw));
        Ok(saw)
    }

    /// False = the operation is refused.
    fn act(&mut self, action: &Action) -> Result<bool, Stop> {
        let id = self.id;
        match action {
            Action::Scan { count: true, .. } => {
                let scan = scan(action);
                let saw = self.tx.count_all(std::slice::from_ref(&scan))?[0];
                self.steps.push(Step::Count(scan, saw));
            }
            Action::Scan { .. } => {
                let scan = scan(action);
                let rows = self.tx.scan_all::<Inodes>(std::slice::from_ref(&scan))?.remove(0);
                let key = |rest: &[u8]| Key::new(scan.partition, scan.table, rest);
                let saw = rows.iter().map(|(rest, row)| (key(rest), row.value.id)).collect();
                self.steps.push(Step::Scan(scan.clone(), saw));
            }
            Action::Read(name, hold) => drop(self.read(&file(*name), *hold)?),
            Action::ReadStat(name, hold) => drop(self.read(&stat(*name), *hold)?),
            Action::Write(name) => {
                let value = Inode { id, ..Inode::default() };
                match self.read(&file(*name), Hold::Loose)? {
                    None => {
                        self.tx.insert(&file(*name), &value)?;
                        self.steps.push(Step::Insert(file(*name).key, (id, 0, 0)));
                    }
                    Some((_, max, add)) => {
                        self.tx.put(&file(*name), &value)?;
                        self.steps.push(Step::Put(file(*name).key, (id, max, add)));
                    }
                }
            }
            Action::Delete(name) => {
                if self.read(&file(*name), Hold::Loose)?.is_some() {
                    self.tx.delete(&file(*name))?;
                    self.steps.push(Step::Delete(file(*name).key));
                }
            }
            Action::InsertNew(name) => {
                if self.read(&file(*name), Hold::Loose)?.is_some() {
                    return Ok(false);
                }
                self.tx.insert(&file(*name), &Inode { id, ..Inode::default() })?;
                self.steps.push(Step::Insert(file(*name).key, (id, 0, 0)));
            }
            Action::Add(name, max) => {
                if self.read(&stat(*name), Hold::Loose)?.is_some() {
                    self.tx.merge(&stat(*name), *max, 1)?;
                    self.steps.push(Step::Merge(stat(*name).key, *max, 1));
                } else {
                    self.tx.insert_counted(&stat(*name), &DirStat { id, ..DirStat::default() }, *max, 1)?;
                    self.steps.push(Step::Insert(stat(*name).key, (id, *max, 1)));
                }
            }
            Action::Reset(name) => {
                if let Some((_, max, add)) = self.read(&stat(*name), Hold::Loose)? {
                    let (value, add) = (DirStat { id, ..DirStat::default() }, add + 1000);
                    self.tx.put_counted(&stat(*name), &value, max, add)?;
                    self.steps.push(Step::Put(stat(*name).key, (id, max, add)));
                }
            }
            Action::DropStat(name) => {
                if self.read(&stat(*name), Hold::Loose)?.is_some() {
                    self.tx.delete(&stat(*name))?;
                    self.steps.push(Step::Delete(stat(*name).key));
                }
            }
        }
        Ok(true)
    }
}

/// Values say which run wrote them.
pub trait Token {
    fn token(&self) -> u64;
}

impl Token for Inode {
    fn token(&self) -> u64 {
        self.id
    }
}

impl Token for DirStat {
    fn token(&self) -> u64 {
        self.id
    }
}

/// What a stored row holds; `None` for rows of tables that do not matter.
pub fn content(key: &Key, row: &Row) -> Option<Content> {
    let token = match key.table() {
        TableId::Inodes => Inode::decode(&row.value[..]).unwrap().id,
        TableId::DirStats => DirStat::decode(&row.value[..]).unwrap().id,
        _ => return None,
    };
    Some((token, row.max, row.add))
}

/// The operation as a function that may run any number of times, on any namenode, and is done at most once.
pub fn write(op: Arc<Op>, book: Arc<Book>) -> impl FnMut(&mut Tx<'_>) -> Result<(Ran, Answer), Stop> {
    move |tx| {
        let id = book.last_run.fetch_add(1, Ordering::SeqCst) + 1;
        let retry = op.retry_key();
        tx.want(&retry);
        if op.warm {
            op.want(tx);
        }
        if let Some(earlier) = tx.get(&retry, Hold::Loose)? {
            return Ok((Ran::Refused, Answer::Earlier(earlier.value.at_ms as u64)));
        }
        let mut running = Running { tx, id, steps: Vec::new() };
        let mut refused = false;
        for action in &op.actions {
            if !running.act(action)? {
                refused = true;
                break;
            }
        }
        let steps = running.steps;
        let wrote =
            steps.iter().any(|step| !matches!(step, Step::Read(..) | Step::Scan(..) | Step::Count(..)));
        book.runs.lock().unwrap().insert(id, Run { op: op.id, steps });
        if refused {
            return Ok((Ran::Refused, Answer::Refused(id)));
        }
        if !wrote {
            return Ok((Ran::Done, Answer::OnlyRead(id)));
        }
        tx.insert(&retry, &RetryEntry { at_ms: id as i64, ..RetryEntry::default() })?;
        Ok((Ran::Done, Answer::Wrote(id)))
    }
}

/// Reads every row, and scans over them.
pub fn snapshot(tx: &mut Tx<'_>) -> Result<(Ran, Look), Stop> {
    let all = Scan::of(TableId::Inodes, DIRECTORY, 100);
    tx.want_scan(&all);
    (0..STATS).for_each(|name| tx.want(&stat(name)));
    let mut rows = BTreeMap::new();
    for record in 0..FILES {
        if let Some(r) = tx.get(&file(record), Hold::Loose)? {
            rows.insert(file(record).key, (r.value.id, r.max, r.add));
        }
    }
    for name in 0..STATS {
        if let Some(r) = tx.get(&stat(name), Hold::Loose)? {
            rows.insert(stat(name).key, (r.value.id, r.max, r.add));
        }
    }
    let scanned = tx.scan_all::<Inodes>(std::slice::from_ref(&all))?.remove(0);
    let keys = scanned.iter().map(|(rest, _)| Key::new(DIRECTORY, TableId::Inodes, rest)).collect();
    Ok((Ran::Done, (rows, keys)))
}

/// A few rows to begin with.
pub async fn seed(world: &World) {
    let row = |n: u8| Row { version: u64::from(n) + 1, ..Row::default() };
    let inserts = [file(0).key, file(1).key, stat(0).key];
    let change = |(n, key)| Change { key, check: Check::Absent, effect: Effect::Insert(row(n)) };
    let mut changes: Vec<Change> = (0..).zip(inserts).map(change).collect();
    changes.sort_by(|a, b| a.key.lock_order().cmp(&b.key.lock_order()));
    world.mem().commit(&changes).await.unwrap();
}

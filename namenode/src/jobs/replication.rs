//! Sees to it that every block has as many replicas as its file wants: walks the files that somebody noted, and notes
//! those with replicas on a storage that failed or came back. On the leader. What is under way stands in rows, and
//! so do the storages that count no more: the next leader knows which of them came back. So that nobody sends too much at a
//! time, the leader remembers what it ordered lately; of what was ordered earlier datanodes tell, or have forgotten it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use futures::{StreamExt, stream};
use tokio::sync::watch;
use trellis_metastore::schema::{Attention, Concern, Datanode, attention_partitions, id_in};

use super::{Bucket, Lead, Passed, buckets, pause};
use crate::datanodes::View;
use crate::datanodes::counts::add;
use crate::datanodes::view::Liveness;
use crate::engine::ctx::Term;
use crate::engine::{Engine, Op};
use crate::ops::datanodes::count_storages;
use crate::ops::redundancy::{Examine, Examined, Noted, drop_commands, examine, note_storage};
use crate::refusal::RpcError;

/// Batches of replicas on storages that failed or came back which are noted in one round.
const SCANS: usize = 50;
/// Files looked at in one round, or a page more.
const FILES: usize = 2000;

/// Files looked at together: they share the store's round trips.
const TOGETHER: usize = 32;

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Copies ordered.
    pub copies: u64,
    /// Replicas to be removed.
    pub removed: u64,
    /// Files looked at.
    pub files: usize,
}

/// A copy that was ordered lately: the datanode that sends it may not tell of it yet.
#[derive(Debug)]
struct Order {
    /// The file.
    inode: u64,
    source: u32,
    /// Milliseconds since the epoch.
    since_ms: i64,
}

/// Heartbeats after which a datanode has heard of an order and tells of what it sends.
const HEARTBEATS: u32 = 3;

/// What the leader remembers.
#[derive(Debug, Default)]
pub struct Replication {
    term: Option<u64>,
    /// By block id.
    orders: HashMap<u64, Order>,
    /// Storage → whether its replicas counted when it was looked at last.
    storages: HashMap<u32, bool>,
    /// Datanodes with storages that count no more, whose rows do not say so yet.
    out: VecDeque<(String, Vec<u32>)>,
    /// Storages whose files are to be noted, and the block past which to go on.
    scans: VecDeque<(u32, Option<u64>)>,
    /// Datanodes that were dead when they were looked at last.
    dead: BTreeSet<u32>,
    /// Those of them that may still have commands.
    silent: VecDeque<u32>,
    /// Where to go on: a bucket's partition, and the key past which.
    at: Option<(u64, Vec<u8>)>,
}

/// Rounds every `replication_check` while this namenode leads; until `stop`.
pub async fn run(engine: Arc<Engine>, lead: Lead, mut stop: watch::Receiver<bool>) {
    let mut replication = Replication::default();
    while pause(engine.config().replication_check, &mut stop).await {
        let Some(term) = lead() else {
            replication = Replication::default();
            engine.datanodes().set_attention(0);
            continue;
        };
        let done = replication.round(&engine, Some(term)).await;
        if let Ok(done) = &done {
            add(&engine.datanodes().counts().copies, done.copies);
            add(&engine.datanodes().counts().removed, done.removed);
            engine.datanodes().set_attention(done.files as u64);
        }
        match done {
            Ok(Done { copies: 0, removed: 0, .. }) => {}
            Ok(done) => tracing::info!(done.copies, done.removed, done.files, "looked after replicas"),
            Err(error) => tracing::warn!(%error, "looking after replicas failed; it is tried again"),
        }
    }
}

impl Replication {
    /// One round. `term`: what the leader holds; none = whoever runs it answers for being alone.
    pub async fn round(&mut self, engine: &Arc<Engine>, term: Option<Term>) -> Result<Done, RpcError> {
        let number = term.map(|term| term.number);
        if self.term != number {
            *self = Replication { term: number, ..Replication::default() };
        }
        let view = engine.datanodes().view();
        self.notice(&view);
        let mut passed = Passed::new("looking after replicas");
        self.note(engine, term, &mut passed).await?;
        let (now_ms, age) = (engine.now_ms(), engine.config().datanode_heartbeat * HEARTBEATS);
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        self.orders.retain(|_, order| (0..age).contains(&(now_ms - order.since_ms)));
        self.look(engine, &view, term, &mut passed).await
    }

    /// Storages that came to count, or to count no more, since the last round, and datanodes that died.
    fn notice(&mut self, view: &View) {
        for node in view.nodes() {
            let number = node.row.number;
            match node.liveness {
                Liveness::Dead if self.dead.insert(number) => self.silent.push_back(number),
                Liveness::Dead => {}
                _ => drop(self.dead.remove(&number)),
            }
            let mut out = Vec::new();
            for storage in &node.row.storages {
                let is_alive = view.storage(storage.number).is_some_and(|storage| storage.is_alive());
                let was_alive = match self.storages.get(&storage.number) {
                    Some(was_alive) => *was_alive,
                    // An earlier leader counted it out: it is back once it is heard of.
                    None if is_alive && storage.counted_out => match node.liveness {
                        Liveness::Live => false,
                        _ => continue,
                    },
                    // One that is seen for the first time and works has nothing to be noted.
                    None => true,
                };
                self.storages.insert(storage.number, is_alive);
                if was_alive != is_alive {
                    self.scans.retain(|(number, _)| *number != storage.number);
                    self.scans.push_back((storage.number, None));
                    out.extend((!is_alive).then_some(storage.number));
                }
            }
            if !out.is_empty() {
                self.out.push_back((node.row.uuid.clone(), out));
            }
        }
    }

    /// Notes files of those storages, once the dead are to be told nothing more. What fails is tried again after the others.
    async fn note(
        &mut self,
        engine: &Arc<Engine>,
        term: Option<Term>,
        passed: &mut Passed,
    ) -> Result<(), RpcError> {
        // Before anything is copied because of it.
        for _ in 0..self.out.len() {
            let Some((uuid, storages)) = self.out.front().cloned() else { break };
            match count(engine, uuid, storages, false, term).await {
                Ok(()) => drop(self.out.pop_front()),
                Err(error) => {
                    passed.by(engine, error)?;
                    self.out.rotate_left(1);
                }
            }
        }
        let mut failed = Vec::new();
        for _ in 0..SCANS {
            let Some(datanode) = self.silent.pop_front() else { break };
            let op: Op<Noted> = Box::new(move |tx| drop_commands(tx, datanode, term));
            match engine.write_wait(engine.own_ctx(), 0, 0, false, op).await {
                Ok(Noted { more: None, .. }) => {}
                Ok(_) => self.silent.push_front(datanode),
                Err(error) => {
                    failed.push(datanode);
                    if let Err(error) = passed.by(engine, error) {
                        self.silent.extend(failed);
                        return Err(error);
                    }
                }
            }
        }
        self.silent.extend(failed);
        let mut failed = Vec::new();
        for _ in 0..SCANS {
            let Some((storage, after)) = self.scans.pop_front() else { break };
            let op: Op<Noted> = Box::new(move |tx| note_storage(tx, storage, after, term));
            let noted = match engine.write_wait(engine.own_ctx(), u64::from(storage), 0, false, op).await {
                Ok(Noted { more: None, .. }) => self.count_again(engine, storage, term).await.map(|()| None),
                noted => noted.map(|noted| noted.more),
            };
            match noted {
                Ok(Some(more)) => self.scans.push_front((storage, Some(more))),
                Ok(None) => {}
                Err(error) => {
                    failed.push((storage, after));
                    if let Err(error) = passed.by(engine, error) {
                        self.scans.extend(failed);
                        return Err(error);
                    }
                }
            }
        }
        self.scans.extend(failed);
        Ok(())
    }

    /// All files of a storage are noted: if it came back, that is known from now on.
    async fn count_again(
        &self,
        engine: &Arc<Engine>,
        storage: u32,
        term: Option<Term>,
    ) -> Result<(), RpcError> {
        let view = engine.datanodes().view();
        match view.storage(storage).filter(|_| self.storages.get(&storage) == Some(&true)) {
            Some(found) => count(engine, found.node.row.uuid.clone(), vec![storage], true, term).await,
            None => Ok(()),
        }
    }

    /// Looks at files that were noted before the last look: reports of a file just closed may still be on their way. Of
    /// those that need copies the ones with the fewest replicas come first.
    async fn look(
        &mut self,
        engine: &Arc<Engine>,
        view: &View,
        term: Option<Term>,
        passed: &mut Passed,
    ) -> Result<Done, RpcError> {
        let live = view.nodes().iter().filter(|node| node.liveness == Liveness::Live);
        let live: Vec<(u32, u32)> = live.map(|node| (node.row.number, node.copies)).collect();
        let mut budget = live.len() * engine.config().replication_work;
        let grace = i64::try_from(engine.config().replication_check.as_millis()).unwrap_or(i64::MAX);
        let newest = engine.now_ms().saturating_sub(grace);
        let mut done = Done::default();
        let mut short = Vec::new();
        let all = buckets::<Attention>(engine, attention_partitions()).await?;
        'all: for mut bucket in going_on(all, self.at.take()) {
            while let Some(rows) = bucket.next(engine).await? {
                let last = rows.last().map(|(key, _)| key.clone());
                let old = rows.into_iter().filter(|(_, row)| row.value.since_ms <= newest);
                let files: Vec<u64> = old.filter_map(|(key, _)| id_in(&key)).collect();
                self.page(engine, files, &mut short, term, (&mut done, passed)).await?;
                if done.files >= FILES {
                    self.at = last.map(|key| (bucket.partition, key));
                    break 'all;
                }
            }
        }
        short.sort_unstable();
        for (_, inode) in short {
            let streams = self.streams(&live, engine.config().replication_streams, budget);
            if streams.values().all(|left| *left == 0) {
                break;
            }
            match look_at(engine, call(inode, streams, term)).await {
                Ok(found) => {
                    budget = budget.saturating_sub(found.copies.len());
                    self.take(engine, inode, &found, &mut done);
                }
                Err(error) => passed.by(engine, error)?,
            }
        }
        Ok(done)
    }

    /// Looks at some files together, in shared commits. `short`: those that copies can be made for, once it is their turn,
    /// each with the fewest replicas that a block of it has.
    async fn page(
        &mut self,
        engine: &Arc<Engine>,
        files: Vec<u64>,
        short: &mut Vec<(u32, u64)>,
        term: Option<Term>,
        (done, passed): (&mut Done, &mut Passed),
    ) -> Result<(), RpcError> {
        let calls: Vec<Examine> = files.iter().map(|inode| call(*inode, BTreeMap::new(), term)).collect();
        let mut looking = stream::iter(calls)
            .map(|call| async move { (call.inode, look_at(engine, call).await) })
            .buffer_unordered(TOGETHER);
        while let Some((inode, found)) = looking.next().await {
            match found {
                Ok(found) => {
                    self.take(engine, inode, &found, done);
                    short.extend(found.fewest.map(|fewest| (fewest, inode)));
                }
                Err(error) => passed.by(engine, error)?,
            }
        }
        drop(looking);
        done.files += files.len();
        Ok(())
    }

    /// Remembers what was ordered, and forgets what has arrived.
    fn take(&mut self, engine: &Engine, inode: u64, found: &Examined, done: &mut Done) {
        self.orders.retain(|block, order| order.inode != inode || found.coming.contains(block));
        for copy in &found.copies {
            self.orders.insert(copy.block, Order { inode, source: copy.source, since_ms: engine.now_ms() });
        }
        done.copies += found.copies.len() as u64;
        done.removed += u64::from(found.removed);
    }

    /// Copies that each datanode may begin to send. `live`: its number, and how many it says that it sends.
    fn streams(&self, live: &[(u32, u32)], most: u32, budget: usize) -> BTreeMap<u32, u32> {
        if budget == 0 {
            return BTreeMap::new();
        }
        let mut ordered: HashMap<u32, u32> = HashMap::new();
        for order in self.orders.values() {
            *ordered.entry(order.source).or_default() += 1;
        }
        // It may tell of those ordered lately already.
        let busy = |number, sends: u32| sends.max(ordered.get(number).copied().unwrap_or(0));
        live.iter().map(|(number, sends)| (*number, most.saturating_sub(busy(number, *sends)))).collect()
    }
}

/// The buckets in the order in which a round that goes on `at` a place takes them; what lies before it comes last.
fn going_on(mut all: Vec<Bucket<Attention>>, at: Option<(u64, Vec<u8>)>) -> Vec<Bucket<Attention>> {
    let Some((partition, after)) = at else { return all };
    let first = all.partition_point(|bucket| bucket.partition < partition);
    all.rotate_left(first);
    if let Some(first) = all.first_mut().filter(|bucket| bucket.partition == partition) {
        let rest = Bucket { partition, rows: Vec::new(), after: Some(after) };
        let whole = std::mem::replace(first, rest);
        all.push(whole);
    }
    all
}

/// Writes that storages of a datanode count, or do not.
async fn count(
    engine: &Arc<Engine>,
    uuid: String,
    storages: Vec<u32>,
    counts: bool,
    term: Option<Term>,
) -> Result<(), RpcError> {
    let op: Op<Datanode> = Box::new(move |tx| count_storages(tx, &uuid, &storages, counts, term));
    let row = engine.write_wait(engine.own_ctx(), 0, 0, false, op).await?;
    engine.datanodes().registry().adopt(row);
    Ok(())
}

/// What is to be asked of a file.
fn call(inode: u64, streams: BTreeMap<u32, u32>, term: Option<Term>) -> Examine {
    Examine { inode, after: None, concern: Concern::default(), version: None, streams, term }
}

/// Looks at one file, batch after batch; answers what all of them came to.
async fn look_at(engine: &Arc<Engine>, mut call: Examine) -> Result<Examined, RpcError> {
    let mut all = Examined::default();
    loop {
        let (this, inode) = (call.clone(), call.inode);
        let op: Op<Examined> = Box::new(move |tx| examine(tx, &this));
        let found = engine.write_wait(engine.own_ctx(), inode, 0, false, op).await?;
        let view = engine.datanodes().view();
        let targets = found.copies.iter().flat_map(|copy| &copy.targets);
        let nodes = targets.filter_map(|storage| Some(view.storage(*storage)?.node));
        engine.datanodes().schedule(nodes.map(|node| node.row.uuid.as_str()));
        for copy in &found.copies {
            if let Some(left) = call.streams.get_mut(&copy.source) {
                *left = left.saturating_sub(1);
            }
        }
        all.copies.extend(found.copies);
        all.coming.extend(found.coming);
        all.removed += found.removed;
        all.fewest = all.fewest.into_iter().chain(found.fewest).min();
        all.concern = found.concern;
        let Some(more) = found.more else { return Ok(all) };
        call = Examine { after: Some(more), concern: all.concern.clone(), version: found.version, ..call };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_goes_on_where_the_last_one_ended() {
        let bucket = |partition| Bucket { partition, rows: Vec::new(), after: Some(Vec::new()) };
        let order = |at: Option<(u64, &[u8])>| -> Vec<(u64, Vec<u8>)> {
            let all =
                going_on([1, 3, 5].map(bucket).into(), at.map(|(partition, key)| (partition, key.into())));
            all.into_iter().map(|bucket| (bucket.partition, bucket.after.unwrap_or_default())).collect()
        };
        let whole = |partition| (partition, Vec::new());
        assert_eq!(order(None), [1, 3, 5].map(whole));
        assert_eq!(order(Some((3, b"k"))), [(3, b"k".to_vec()), whole(5), whole(1), whole(3)]);
        assert_eq!(order(Some((4, b"k"))), [5, 1, 3].map(whole), "it is empty by now");
        assert_eq!(order(Some((9, b"k"))), [1, 3, 5].map(whole));
    }
}

//! Sees to it that every block has as many replicas as its file wants: walks the files that somebody noted, and notes
//! those with replicas on a storage that failed or came back. On the leader. What is under way stands in rows; the leader
//! remembers only who is sending how much, so that nobody sends too much at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use futures::{StreamExt, stream};
use tokio::sync::watch;
use tokio::time::Instant;
use trellis_metastore::schema::{Attention, Concern, attention_partitions, id_in};

use super::{Lead, Passed, buckets, pause};
use crate::datanodes::View;
use crate::datanodes::counts::add;
use crate::datanodes::view::Liveness;
use crate::engine::ctx::Term;
use crate::engine::{Engine, Op};
use crate::ops::redundancy::{Examine, Examined, Noted, drop_commands, examine, note_storage};
use crate::refusal::RpcError;

/// Batches of replicas on storages that failed or came back which are noted in one round.
const SCANS: usize = 50;
/// Files looked at in one round, or a bucket more.
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

/// A copy that is being sent, as far as is known.
#[derive(Debug)]
struct Order {
    /// The file.
    inode: u64,
    source: u32,
    since: Instant,
}

/// What the leader remembers.
#[derive(Debug, Default)]
pub struct Replication {
    term: Option<u64>,
    /// By block id.
    orders: HashMap<u64, Order>,
    /// Storage → whether its replicas counted when it was looked at last.
    storages: HashMap<u32, bool>,
    /// Storages whose files are to be noted, and the block past which to go on.
    scans: VecDeque<(u32, Option<u64>)>,
    /// Datanodes that were dead when they were looked at last.
    dead: BTreeSet<u32>,
    /// Those of them that may still have commands.
    silent: VecDeque<u32>,
    /// The bucket to begin with.
    bucket: usize,
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
        let age = engine.config().replication_pending;
        self.orders.retain(|_, order| order.since.elapsed() < age);
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
            for storage in &node.row.storages {
                let is_alive = view.storage(storage.number).is_some_and(|storage| storage.is_alive());
                // One that is seen for the first time and works has nothing to be noted.
                if self.storages.insert(storage.number, is_alive).unwrap_or(true) != is_alive {
                    self.scans.retain(|(number, _)| *number != storage.number);
                    self.scans.push_back((storage.number, None));
                }
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
            match engine.write_wait(engine.own_ctx(), u64::from(storage), 0, false, op).await {
                Ok(Noted { more: Some(more), .. }) => self.scans.push_front((storage, Some(more))),
                Ok(_) => {}
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

    /// Looks at files that were noted before the last look: reports of a file just closed may still be on their way.
    async fn look(
        &mut self,
        engine: &Arc<Engine>,
        view: &View,
        term: Option<Term>,
        passed: &mut Passed,
    ) -> Result<Done, RpcError> {
        let live = view.nodes().iter().filter(|node| node.liveness == Liveness::Live);
        let numbers: Vec<u32> = live.map(|node| node.row.number).collect();
        let mut budget = numbers.len() * engine.config().replication_work;
        let grace = i64::try_from(engine.config().replication_check.as_millis()).unwrap_or(i64::MAX);
        let newest = engine.now_ms().saturating_sub(grace);
        let mut done = Done::default();
        let mut all = buckets::<Attention>(engine, attention_partitions()).await?;
        let count = all.len().max(1);
        all.rotate_left(self.bucket % count);
        for mut bucket in all {
            if done.files >= FILES {
                break;
            }
            self.bucket += 1;
            while let Some(rows) = bucket.next(engine).await? {
                let old = rows.into_iter().filter(|(_, row)| row.value.since_ms <= newest);
                let files: Vec<u64> = old.filter_map(|(key, _)| id_in(&key)).collect();
                self.page(engine, files, (&numbers, &mut budget), term, (&mut done, passed)).await?;
            }
        }
        Ok(done)
    }

    /// Looks at some files: at all of them together, in shared commits, and then at those that need copies one by one.
    async fn page(
        &mut self,
        engine: &Arc<Engine>,
        files: Vec<u64>,
        (live, budget): (&[u32], &mut usize),
        term: Option<Term>,
        (done, passed): (&mut Done, &mut Passed),
    ) -> Result<(), RpcError> {
        let calls: Vec<Examine> = files.iter().map(|inode| call(*inode, BTreeMap::new(), term)).collect();
        let mut looking = stream::iter(calls)
            .map(|call| async move { (call.inode, look_at(engine, call).await) })
            .buffer_unordered(TOGETHER);
        let mut short = Vec::new();
        while let Some((inode, found)) = looking.next().await {
            match found {
                Ok(found) => {
                    self.take(inode, &found, done);
                    if found.concern.under_replicated > 0 {
                        short.push(inode);
                    }
                }
                Err(error) => passed.by(engine, error)?,
            }
        }
        drop(looking);
        done.files += files.len();
        for inode in short {
            if *budget == 0 {
                break;
            }
            let streams = self.streams(live, engine.config().replication_streams, *budget);
            match look_at(engine, call(inode, streams, term)).await {
                Ok(found) => {
                    *budget = budget.saturating_sub(found.copies.len());
                    self.take(inode, &found, done);
                }
                Err(error) => passed.by(engine, error)?,
            }
        }
        Ok(())
    }

    /// Remembers what is being sent, and forgets what has arrived.
    fn take(&mut self, inode: u64, found: &Examined, done: &mut Done) {
        self.orders.retain(|block, order| order.inode != inode || found.coming.contains(block));
        for copy in &found.copies {
            self.orders.insert(copy.block, Order { inode, source: copy.source, since: Instant::now() });
        }
        done.copies += found.copies.len() as u64;
        done.removed += u64::from(found.removed);
    }

    /// Copies that each datanode may begin to send.
    fn streams(&self, live: &[u32], most: u32, budget: usize) -> BTreeMap<u32, u32> {
        if budget == 0 {
            return BTreeMap::new();
        }
        let mut streams: BTreeMap<u32, u32> = live.iter().map(|number| (*number, most)).collect();
        for order in self.orders.values() {
            if let Some(left) = streams.get_mut(&order.source) {
                *left = left.saturating_sub(1);
            }
        }
        streams
    }
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
        all.concern = found.concern;
        let Some(more) = found.more else { return Ok(all) };
        call = Examine { after: Some(more), concern: all.concern.clone(), version: found.version, ..call };
    }
}

//! redundancy — internal: as many replicas of every block as its file wants   (Java: BlockManager, RedundancyMonitor)
//!
//! A file that somebody must look at has an attention row. The leader judges its blocks one batch after the other, has
//! replicas copied and removed, and takes the row away when all is well, nothing is under way, and nobody noted anything
//! meanwhile. A recovery that nobody works on any more is begun anew. What is under way stands in the rows of replicas, so that another leader goes on where this one ended.
//!
//! Held    the leader's term; the file's inode row; each block row that a decision rests on: written where a replica is
//!         removed.
//! Rows    per block acted on: commands 1w; replicas and storage_replicas 1w for each copied or removed, blocks 1w where
//!         one is removed. The end: attention 1w.
//! Cost    5 fetches + 1 commit a batch of up to 100 blocks with copies to order, 3 + 1 without; note_storage: 2 fetches +
//!         1 commit for 100 replicas, 1 more where some moved by concat.
//! Differs a corrupt replica also goes when every other datanode that could take a copy has one: stock waits for ever.
//!         A deletion is taken back when it does not come about, or too few are left without what it is to delete: stock
//!         has it done all the same, or judges anew after an hour.

use std::collections::{BTreeMap, BTreeSet};

use trellis_metastore::change::Hold;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::{
    Block, BlockState, Blocks, Command, CommandKind, Commands, Concern, Ordered, Replica, ReplicaState,
    StorageReplicas, Table, TableKey, attention, block, command, command_in, command_partition, id_in,
    parts_of_block, storage_partition,
};
use trellis_metastore::tx::{MaybeRow, Stop};

use super::blocks::{self, FileBlock};
use super::judged::{Judged, removable};
use super::orders;
use super::recovery::begin_anew;
use super::replicas::{self, Found, is_complete, note_attention};
use crate::datanodes::View;
use crate::datanodes::placement::{Wanted, choose};
use crate::datanodes::view::Liveness;
use crate::engine::ctx::Term;
use crate::engine::tx::Tx;
use crate::engine::walk::Node;
use crate::refusal::{Halt, Result};

/// Blocks of one file that one transaction judges.
pub const BLOCKS: u32 = 100;
/// Replicas of one storage whose files one transaction notes.
pub const REPLICAS: u32 = 100;
/// Commands to a dead datanode that one transaction takes away.
pub const COMMANDS: u32 = 500;

/// Arguments of [`examine`].
#[derive(Clone, Debug)]
pub struct Examine {
    /// The file.
    pub inode: u64,
    /// The ordinal past which to go on.
    pub after: Option<u32>,
    /// What earlier batches found.
    pub concern: Concern,
    /// The version of the attention row when the first batch read it.
    pub version: Option<u64>,
    /// Datanode number → copies that it may begin to send.
    pub streams: BTreeMap<u32, u32>,
    /// The leader's term, held.
    pub term: Option<Term>,
}

/// A copy that was ordered.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Copy {
    /// Block id.
    #[prost(uint64, tag = "1")]
    pub block: u64,
    /// The number of the datanode that sends it.
    #[prost(uint32, tag = "2")]
    pub source: u32,
    /// The storages that it goes to.
    #[prost(uint32, repeated, tag = "3")]
    pub targets: Vec<u32>,
}

/// What one batch came to.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Examined {
    /// Copies that were ordered.
    #[prost(message, repeated, tag = "1")]
    pub copies: Vec<Copy>,
    /// What was found so far.
    #[prost(message, required, tag = "2")]
    pub concern: Concern,
    /// The ordinal past which the next batch goes on; none = that was all.
    #[prost(uint32, optional, tag = "3")]
    pub more: Option<u32>,
    /// Replicas that are to be removed.
    #[prost(uint32, tag = "4")]
    pub removed: u32,
    /// The version of the attention row when the first batch read it.
    #[prost(uint64, optional, tag = "5")]
    pub version: Option<u64>,
    /// Blocks that a copy is under way of.
    #[prost(uint64, repeated, tag = "6")]
    pub coming: Vec<u64>,
    /// The fewest live replicas that a block has of which a copy waits but for a sender; none = there is no such block.
    #[prost(uint32, optional, tag = "7")]
    pub fewest: Option<u32>,
}

/// Judges one batch of a file's blocks; the last one settles its attention row.
pub fn examine(tx: &mut Tx<'_, '_>, call: &Examine) -> Result<Examined> {
    if let Some(term) = call.term {
        tx.hold_term(term)?;
    }
    let row_key = attention(call.inode);
    let scan = blocks::page_scan(call.inode, call.after, BLOCKS);
    tx.want_scan(&scan);
    let Some(row) = tx.get(&row_key, Hold::Held)? else { return Ok(Examined::default()) };
    let version = Some(call.version.unwrap_or(row.version));
    let walked = tx.walk_id(call.inode)?;
    let Some(node) = walked.and_then(|walked| walked.target().cloned()).filter(|node| !node.is_dir()) else {
        // Deleted: the reaper frees its blocks.
        tx.delete(&row_key)?;
        return Ok(Examined::default());
    };
    tx.get(&node.key(), Hold::Held)?;
    let page = blocks::placed(tx.scan_all::<Blocks>(&[scan])?.pop().unwrap_or_default());
    let more = page.last().filter(|_| page.len() == BLOCKS as usize).map(|last| last.ordinal);
    let ids: Vec<u64> = page.iter().map(|placed| placed.block.id).collect();
    let found = replicas::read(tx, &ids)?;
    let mut batch = Batch {
        node: &node,
        streams: call.streams.clone(),
        done: Examined { concern: call.concern.clone(), more, version, ..Examined::default() },
    };
    // All blocks are looked at before the run stops for rows that are not at hand: one fetch brings those of all.
    let mut missed = false;
    for (FileBlock { ordinal, block }, found) in page.iter().zip(&found) {
        match batch.block(tx, &Seen { ordinal: *ordinal, block, found }) {
            Err(Halt::Stop(Stop::Miss)) => missed = true,
            judged => judged?,
        }
    }
    if missed {
        return Err(Stop::Miss.into());
    }
    let mut done = batch.done;
    if done.more.is_none() {
        done.concern.since_ms = row.value.since_ms;
        let is_well = Concern { since_ms: 0, ..done.concern } == Concern::default();
        match is_well && done.version == Some(row.version) {
            true => tx.delete(&row_key)?,
            false if row.value != done.concern => tx.put(&row_key, &done.concern)?,
            false => {}
        }
    }
    Ok(done)
}

/// A block as it was read.
struct Seen<'a> {
    ordinal: u32,
    block: &'a Block,
    found: &'a [Found],
}

struct Batch<'a> {
    node: &'a Node,
    streams: BTreeMap<u32, u32>,
    done: Examined,
}

/// Whether a copy can be sent.
enum Sending {
    /// To these storages; none = no other datanode can take one.
    To(Vec<u32>),
    /// Not now.
    Later,
}

impl Batch<'_> {
    fn block(&mut self, tx: &mut Tx<'_, '_>, seen: &Seen<'_>) -> Result<()> {
        let Seen { block, found, .. } = *seen;
        if block.state() == BlockState::UnderRecovery {
            self.done.concern.ordered += 1;
            let mut last = FileBlock { ordinal: seen.ordinal, block: block.clone() };
            return begin_anew(tx, self.node, &mut last, found);
        }
        let has = |ordered| found.iter().any(|found| found.replica.ordered() == ordered);
        let is_leaving = has(Ordered::Deletion);
        if !is_complete(block) {
            // What was ordered before it was opened again is settled once it is complete.
            self.done.concern.ordered += u32::from(is_leaving || has(Ordered::Copy));
            return Ok(());
        }
        let view = tx.ctx.datanodes.clone();
        let patience = i64::try_from(tx.ctx.config.replication_pending.as_millis()).unwrap_or(i64::MAX);
        let since = tx.ctx.now_ms.saturating_sub(patience);
        let wanted = self.node.inode.replication as usize;
        let judged = Judged::of(&view, block, found, wanted, since);
        let concern = &mut self.done.concern;
        concern.missing += u32::from(judged.live.is_empty());
        concern.under_replicated += u32::from(!judged.live.is_empty() && judged.live.len() < wanted);
        concern.corrupt += u32::from(!judged.corrupt.is_empty());
        concern.excess += u32::from(judged.live.len() > wanted);
        let have = judged.live.len() + judged.coming.len();
        let mut short = wanted.saturating_sub(have);
        let (mut targets, mut is_open) = (Vec::new(), false);
        if short > 0 && !judged.live.is_empty() {
            match self.copy(tx, seen, &judged, short)? {
                Sending::To(storages) => (short, targets) = (short - storages.len(), storages),
                Sending::Later => (short, is_open) = (0, true),
            }
        }
        let going = removable(&view, block, wanted, &judged, short > 0);
        let is_new = |its: &&Found| going.contains(&its.storage) && its.replica.ordered() == Ordered::Nothing;
        self.done.removed += found.iter().filter(is_new).count() as u32;
        if !going.is_empty() {
            orders::let_go(tx, &self.key(seen), block, found, &going)?;
        }
        // Whether a corrupt one may go is not known while it is open whether there is room for another copy.
        let has_time = |storage: u32| is_open && judged.corrupt.contains(&storage);
        let stays = |its: &&Found| {
            let is_kept = judged.kept.contains(&its.storage) && !going.contains(&its.storage);
            is_kept && !has_time(its.storage)
        };
        let kept: Vec<(u64, Found)> =
            found.iter().filter(stays).map(|found| (block.id, found.clone())).collect();
        if !kept.is_empty() {
            orders::take_back(tx, &kept)?;
        }
        let void: Vec<(u64, u32)> = judged.void.iter().map(|storage| (block.id, *storage)).collect();
        if !void.is_empty() {
            tx.get(&self.key(seen), Hold::Held)?;
            replicas::remove(tx, &void)?;
        }
        if !targets.is_empty() {
            self.order(tx, seen, &targets)?;
        }
        if !targets.is_empty() || !judged.coming.is_empty() {
            self.done.coming.push(block.id);
        }
        let is_ordered = is_leaving || !going.is_empty() || !targets.is_empty() || !judged.coming.is_empty();
        self.done.concern.ordered += u32::from(is_ordered);
        Ok(())
    }

    /// Has a block copied to at most `short` storages, whose rows the caller writes.
    fn copy(
        &mut self,
        tx: &mut Tx<'_, '_>,
        seen: &Seen<'_>,
        judged: &Judged,
        short: usize,
    ) -> Result<Sending> {
        let Seen { block, found, .. } = *seen;
        let view = tx.ctx.datanodes.clone();
        // What is on a storage that failed, or is not to come, keeps its datanode from nothing.
        let is_there = |found: &&Found| {
            view.storage(found.storage).is_some_and(|storage| storage.is_alive())
                && !(judged.void.contains(&found.storage) && found.replica.ordered() == Ordered::Copy)
        };
        let taken: Vec<u32> = found.iter().filter(is_there).map(|found| found.storage).collect();
        let wish = Wanted { count: short, bytes: block.length, taken: &taken, ..Wanted::default() };
        let targets = choose(&view, tx.ctx.seed.wrapping_add(block.id), &wish).storages;
        let streams = &mut self.streams;
        let senders = judged.live.iter().filter_map(|storage| Some((*storage, view.storage(*storage)?.node)));
        let senders: Vec<_> = senders.filter(|(_, node)| node.liveness == Liveness::Live).collect();
        // No room anywhere is told apart from no stream free: the second passes.
        if targets.is_empty() && !senders.is_empty() {
            return Ok(Sending::To(targets));
        }
        let is_possible = !senders.is_empty();
        let free = |number: u32, streams: &BTreeMap<u32, u32>| streams.get(&number).copied().unwrap_or(0);
        let source = senders.into_iter().filter(|(_, node)| free(node.row.number, streams) > 0).max_by_key(
            |(storage, node)| {
                let is_sure = judged.sure().contains(storage);
                (is_sure, free(node.row.number, streams), std::cmp::Reverse(node.load))
            },
        );
        let Some((_, source)) = source else {
            if is_possible {
                let live = judged.live.len() as u32;
                self.done.fewest = Some(self.done.fewest.map_or(live, |fewest| fewest.min(live)));
            }
            return Ok(Sending::Later);
        };
        targets.iter().for_each(|target| replicas::want_replica(tx, block.id, *target));
        // One that is still to delete a replica of the block would delete the copy.
        let leaving = leaving(tx, &view, block, &targets)?;
        let targets: Vec<u32> = targets.into_iter().filter(|target| !leaving.contains(target)).collect();
        if targets.is_empty() {
            return Ok(Sending::Later);
        }
        *streams.entry(source.row.number).or_default() -= 1;
        let given = Command {
            stamp: block.stamp,
            length: block.length,
            storages: targets.clone(),
            given_ms: tx.ctx.now_ms,
            ..Command::default()
        };
        orders::give(tx, source.row.number, CommandKind::Transfer, block.id, &given)?;
        self.done.copies.push(Copy { block: block.id, source: source.row.number, targets: targets.clone() });
        Ok(Sending::To(targets))
    }

    /// Notes where copies of a block are to come.
    fn order(&self, tx: &mut Tx<'_, '_>, seen: &Seen<'_>, targets: &[u32]) -> Result<()> {
        let block = seen.block;
        tx.get(&self.key(seen), Hold::Held)?;
        let coming = Replica {
            stamp: block.stamp,
            length: block.length,
            state: ReplicaState::Temporary as i32,
            reported_ms: tx.ctx.now_ms,
            ordered: Ordered::Copy as i32,
            ordered_ms: tx.ctx.now_ms,
            ..Replica::default()
        };
        targets.iter().try_for_each(|target| replicas::put(tx, block.id, *target, &coming))
    }

    fn key(&self, seen: &Seen<'_>) -> TableKey<Blocks> {
        block(self.node.id(), seen.ordinal)
    }
}

/// Storages whose datanodes are yet to be told to delete a replica of the block.
fn leaving(tx: &mut Tx<'_, '_>, view: &View, block: &Block, storages: &[u32]) -> Result<BTreeSet<u32>> {
    let datanode = |storage: &u32| Some(view.storage(*storage)?.node.row.number);
    let keys: Vec<_> = storages
        .iter()
        .filter_map(datanode)
        .map(|number| command(number, CommandKind::Invalidate, block.id))
        .collect();
    let rows = tx.get_all(&keys, Hold::Loose)?;
    Ok(rows.into_iter().flatten().flat_map(|row| row.value.storages).collect())
}

/// What [`note_storage`], or [`drop_commands`], came to.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Noted {
    /// The block id past which the next batch goes on; none = that was all.
    #[prost(uint64, optional, tag = "1")]
    pub more: Option<u64>,
    /// Replicas looked at, or commands taken away.
    #[prost(uint32, tag = "2")]
    pub replicas: u32,
}

/// Notes the files of a batch of a storage's replicas: it failed, or came back. Of one that failed, or whose datanode is
/// dead, nothing is to be deleted any more: what it has when it comes back is judged anew (stock: `removeDatanode`).
pub fn note_storage(
    tx: &mut Tx<'_, '_>,
    storage: u32,
    after: Option<u64>,
    term: Option<Term>,
) -> Result<Noted> {
    if let Some(term) = term {
        tx.hold_term(term)?;
    }
    let mut scan = Scan::of(StorageReplicas::ID, storage_partition(storage), REPLICAS);
    if let Some(after) = after {
        scan = scan.after(&after.to_be_bytes());
    }
    // Of one that does not decode the file is looked at all the same.
    let rows = tx.scan_each::<StorageReplicas>(&[scan])?.pop().unwrap_or_default();
    let ids: Vec<u64> = rows.iter().filter_map(|(key, _)| id_in(key)).collect();
    ids.iter().for_each(|id| tx.want(&attention(parts_of_block(*id).0)));
    // Held: what another file takes over meanwhile is to be noted there.
    let found = blocks::find(tx, &ids, Hold::Held, |_, _| {})?;
    let files: BTreeSet<u64> = found.iter().flatten().map(|(file_id, _)| *file_id).collect();
    files.iter().for_each(|inode| tx.want(&attention(*inode)));
    keep_all(tx, storage, &rows)?;
    if tx.ctx.datanodes.storage(storage).is_some_and(|storage| storage.row().failed) {
        // Of blocks that are gone nobody else would clear them: it does not report any more.
        let gone = ids.iter().zip(&found).filter(|(_, found)| found.is_none());
        replicas::remove(tx, &gone.map(|(id, _)| (*id, storage)).collect::<Vec<_>>())?;
    }
    files.iter().try_for_each(|inode| note_attention(tx, *inode))?;
    let more = ids.last().copied().filter(|_| ids.len() == REPLICAS as usize);
    Ok(Noted { more, replicas: ids.len() as u32 })
}

/// Takes back the deletions that were ordered on a storage that is not there.
fn keep_all(tx: &mut Tx<'_, '_>, storage: u32, rows: &[MaybeRow<StorageReplicas>]) -> Result<()> {
    let view = tx.ctx.datanodes.clone();
    if view.storage(storage).is_none_or(|storage| storage.is_alive()) {
        return Ok(());
    }
    let read = rows.iter().filter_map(|(key, row)| Some((key, row.as_ref().ok()?)));
    let leaving = read.filter(|(_, row)| row.value.ordered() == Ordered::Deletion);
    let leaving =
        leaving.filter_map(|(key, row)| Some((id_in(key)?, Found { storage, replica: row.value.clone() })));
    orders::take_back(tx, &leaving.collect::<Vec<_>>())
}

/// Takes away what a dead datanode was to be told, a batch at a time: when it comes back it is told anew.
pub fn drop_commands(tx: &mut Tx<'_, '_>, datanode: u32, term: Option<Term>) -> Result<Noted> {
    if let Some(term) = term {
        tx.hold_term(term)?;
    }
    let scan = Scan::of(Commands::ID, command_partition(datanode), COMMANDS);
    let rows = tx.scan_all::<Commands>(&[scan])?.pop().unwrap_or_default();
    let keys: Vec<_> = rows
        .iter()
        .filter_map(|(key, _)| command_in(key))
        .map(|(kind, block_id)| command(datanode, kind, block_id))
        .collect();
    for key in &keys {
        tx.get(key, Hold::Held)?;
        tx.delete(key)?;
    }
    let more = (rows.len() == COMMANDS as usize).then_some(0);
    Ok(Noted { more, replicas: keys.len() as u32 })
}

//! redundancy — internal: as many replicas of every block as its file wants   (Java: BlockManager, RedundancyMonitor)
//!
//! A file that somebody must look at has an attention row. The leader judges its blocks one batch after the other, has
//! replicas copied and removed, and takes the row away when all is well and nobody noted anything meanwhile. A replica
//! that is to be removed goes from the rows in the same commit as the command: so no later judgement counts on it.
//!
//! Held    the leader's term; the file's inode row; each block row that a decision rests on.
//! Rows    per block acted on: commands 1w; replicas and storage_replicas 1w for each removed. The end: attention 1w.
//! Cost    6 fetches + 1 commit a batch of up to 100 blocks with copies to order, 4 + 1 without; note_storage: 2 fetches +
//!         1 commit for 100 replicas.
//! Differs a corrupt replica also goes when every other datanode that could take a copy has one: stock waits for ever.

use std::collections::{BTreeMap, BTreeSet};

use trellis_metastore::change::Hold;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::{
    Block, BlockFiles, Blocks, Command, CommandKind, Concern, StorageReplicas, Table, attention, block,
    block_file, bucket_hash, command, parts_of_block, storage_partition,
};
use trellis_metastore::tx::{Record, Stop};

use super::replicas::{self, Found, Worth, give, invalidate, is_complete, note_attention};
use crate::datanodes::View;
use crate::datanodes::placement::{Wanted, choose};
use crate::datanodes::view::Liveness;
use crate::engine::ctx::Term;
use crate::engine::tx::Tx;
use crate::engine::walk::{Chain, Node};
use crate::refusal::{Halt, Result};

/// Blocks of one file that one transaction judges.
pub const BLOCKS: u32 = 100;
/// Replicas of one storage whose files one transaction notes.
pub const REPLICAS: u32 = 100;

/// What is under way for blocks of one file: nothing of it is begun again.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// Block id → storages that a copy is on its way to.
    pub copies: BTreeMap<u64, Vec<u32>>,
    /// Datanode number → copies that it may begin to send.
    pub streams: BTreeMap<u32, u32>,
}

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
    /// What is under way.
    pub pending: Pending,
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
    /// Blocks that have a copy under way, and have it now.
    #[prost(uint64, repeated, tag = "6")]
    pub arrived: Vec<u64>,
}

/// Judges one batch of a file's blocks; the last one settles its attention row.
pub fn examine(tx: &mut Tx<'_, '_>, call: &Examine) -> Result<Examined> {
    if let Some(term) = call.term {
        tx.hold_term(term)?;
    }
    let row_key = attention(call.inode);
    let mut scan = Scan::of(Blocks::ID, call.inode, BLOCKS);
    if let Some(after) = call.after {
        scan = scan.after(&after.to_be_bytes());
    }
    tx.want_scan(&scan);
    let Some(row) = tx.get(&row_key, Hold::Held)? else { return Ok(Examined::default()) };
    let version = Some(call.version.unwrap_or(row.version));
    let walked = tx.walk_id(call.inode, Chain::Loose)?;
    let Some(node) = walked.and_then(|walked| walked.target().cloned()).filter(|node| !node.is_dir()) else {
        // Deleted: the reaper frees its blocks.
        tx.delete(&row_key)?;
        return Ok(Examined::default());
    };
    tx.get(&node.key(), Hold::Held)?;
    let rows = tx.scan_all::<Blocks>(&[scan])?.pop().unwrap_or_default();
    let more = rows.last().filter(|_| rows.len() == BLOCKS as usize).and_then(|(key, _)| ordinal(key));
    let blocks: Vec<(u32, Block)> =
        rows.into_iter().filter_map(|(key, row)| Some((ordinal(&key)?, row.value))).collect();
    let ids: Vec<u64> = blocks.iter().map(|(_, block)| block.id).collect();
    let found = replicas::read(tx, &ids)?;
    let mut batch = Batch {
        node: &node,
        pending: call.pending.clone(),
        done: Examined { concern: call.concern.clone(), more, version, ..Examined::default() },
    };
    // All blocks are looked at before the run stops for rows that are not at hand: one fetch brings those of all.
    let mut missed = false;
    for ((ordinal, block), found) in blocks.iter().zip(&found) {
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
        match is_well && done.version == Some(row.version) && call.pending.copies.is_empty() {
            true => tx.delete(&row_key)?,
            false if row.value != done.concern => tx.put(&row_key, &done.concern)?,
            false => {}
        }
    }
    Ok(done)
}

fn ordinal(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.try_into().ok()?))
}

/// A block as it was read.
struct Seen<'a> {
    ordinal: u32,
    block: &'a Block,
    found: &'a [Found],
}

struct Batch<'a> {
    node: &'a Node,
    pending: Pending,
    done: Examined,
}

/// The replicas of a block, by what they are worth now.
struct Judged {
    /// Storages with a live replica, each on a datanode of its own, those on live datanodes first.
    live: Vec<u32>,
    /// How many of these datanodes are live, not stale.
    sure: usize,
    /// Live ones beside another on the same datanode.
    doubled: Vec<u32>,
    corrupt: Vec<u32>,
}

impl Judged {
    fn of(view: &View, block: &Block, found: &[Found], leaving: &BTreeSet<u32>) -> Judged {
        let found: Vec<Found> =
            found.iter().filter(|found| !leaving.contains(&found.storage)).cloned().collect();
        let mut all: Vec<(bool, u32, u32)> = replicas::storages_of(view, block, &found, Worth::Live)
            .into_iter()
            .filter_map(|storage| {
                let node = view.storage(storage)?.node;
                Some((node.liveness != Liveness::Live, node.row.number, storage))
            })
            .collect();
        all.sort_unstable();
        let (mut live, mut doubled, mut sure, mut seen) = (Vec::new(), Vec::new(), 0, BTreeSet::new());
        for (is_stale, datanode, storage) in all {
            if seen.insert(datanode) {
                live.push(storage);
                sure += usize::from(!is_stale);
            } else {
                doubled.push(storage);
            }
        }
        let corrupt = replicas::storages_of(view, block, &found, Worth::Corrupt);
        Judged { live, sure, doubled, corrupt }
    }
}

impl Batch<'_> {
    fn block(&mut self, tx: &mut Tx<'_, '_>, seen: &Seen<'_>) -> Result<()> {
        let Seen { block, found, .. } = *seen;
        if !is_complete(block) {
            return Ok(());
        }
        let view = tx.ctx.datanodes.clone();
        let storages: Vec<u32> = found.iter().map(|found| found.storage).collect();
        let leaving = leaving(tx, &view, block, &storages)?;
        let judged = Judged::of(&view, block, found, &leaving);
        let wanted = self.node.inode.replication as usize;
        let coming = self.coming(block.id, &judged);
        let concern = &mut self.done.concern;
        concern.missing += u32::from(judged.live.is_empty());
        concern.under_replicated += u32::from(!judged.live.is_empty() && judged.live.len() < wanted);
        concern.corrupt += u32::from(!judged.corrupt.is_empty());
        concern.excess += u32::from(judged.live.len() > wanted || !judged.doubled.is_empty());
        let have = judged.live.len() + coming.len();
        let mut short = wanted.saturating_sub(have);
        if short > 0 && !judged.live.is_empty() {
            short -= self.copy(tx, seen, &judged, &coming, short)?;
        }
        let going = removable(&view, block, wanted, &judged, short > 0);
        if !going.is_empty() {
            self.hold(tx, seen)?;
            invalidate(tx, block, found, &going, false)?;
            let pairs: Vec<(u64, u32)> = going.iter().map(|storage| (block.id, *storage)).collect();
            replicas::remove(tx, &pairs)?;
            self.done.removed += going.len() as u32;
        }
        Ok(())
    }

    /// Copies of a block that are on their way: those that have arrived are told.
    fn coming(&mut self, block: u64, judged: &Judged) -> Vec<u32> {
        let Some(targets) = self.pending.copies.get(&block) else { return Vec::new() };
        let is_there = |storage: &&u32| !judged.live.contains(storage) && !judged.doubled.contains(storage);
        let coming: Vec<u32> = targets.iter().filter(is_there).copied().collect();
        if coming.is_empty() {
            self.done.arrived.push(block);
        }
        coming
    }

    /// Has a block copied; answers to how many storages.
    fn copy(
        &mut self,
        tx: &mut Tx<'_, '_>,
        seen: &Seen<'_>,
        judged: &Judged,
        coming: &[u32],
        short: usize,
    ) -> Result<usize> {
        let Seen { block, found, .. } = *seen;
        let view = tx.ctx.datanodes.clone();
        let taken: Vec<u32> = found.iter().map(|found| found.storage).chain(coming.iter().copied()).collect();
        let wish = Wanted { count: short, bytes: block.length, taken: &taken, ..Wanted::default() };
        let targets = choose(&view, tx.ctx.seed.wrapping_add(block.id), &wish).storages;
        let streams = &mut self.pending.streams;
        let source = judged.live.iter().filter_map(|storage| Some(view.storage(*storage)?.node));
        let free = |number: u32, streams: &BTreeMap<u32, u32>| streams.get(&number).copied().unwrap_or(0);
        let source = source
            .filter(|node| node.liveness == Liveness::Live && free(node.row.number, streams) > 0)
            .max_by_key(|node| (free(node.row.number, streams), std::cmp::Reverse(node.load)));
        let (Some(source), false) = (source, targets.is_empty()) else {
            // No room anywhere is told apart from no stream free: the second passes.
            return Ok(if source.is_none() { short } else { 0 });
        };
        // One that is still to delete a replica of the block would delete the copy.
        let leaving = leaving(tx, &view, block, &targets)?;
        let targets: Vec<u32> = targets.into_iter().filter(|target| !leaving.contains(target)).collect();
        if targets.is_empty() {
            return Ok(short);
        }
        *streams.entry(source.row.number).or_default() -= 1;
        self.hold(tx, seen)?;
        let given = Command {
            stamp: block.stamp,
            length: block.length,
            storages: targets.clone(),
            given_ms: tx.ctx.now_ms,
            ..Command::default()
        };
        give(tx, source.row.number, CommandKind::Transfer, block.id, &given)?;
        let ordered = targets.len();
        self.done.copies.push(Copy { block: block.id, source: source.row.number, targets });
        Ok(ordered)
    }

    fn hold(&self, tx: &mut Tx<'_, '_>, seen: &Seen<'_>) -> Result<()> {
        tx.get(&block(self.node.id(), seen.ordinal), Hold::Held)?;
        Ok(())
    }
}

/// Storages that were told to delete their replica, and may not have done so yet.
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

/// The replicas that may go: never so many that fewer than `wanted` are left on datanodes that are heard of.
/// `stuck`: it has too few, and no datanode can take a copy.
fn removable(view: &View, block: &Block, wanted: usize, judged: &Judged, stuck: bool) -> Vec<u32> {
    let mut going = Vec::new();
    if judged.sure >= wanted || (stuck && judged.sure > 0) {
        going.extend(&judged.corrupt);
    }
    if judged.sure < wanted {
        return going;
    }
    going.extend(&judged.doubled);
    // Stale ones first, then those with the least room, in per cent; of equal ones any, another for each block.
    let mut beyond: Vec<u32> = judged.live.clone();
    beyond.sort_by_cached_key(|storage| {
        let room = view.storage(*storage).map_or(0, |storage| match storage.node.liveness {
            Liveness::Live => 1 + storage.space().remaining / (storage.space().capacity / 100).max(1),
            _ => 0,
        });
        (room, bucket_hash(&[block.id.to_be_bytes(), u64::from(*storage).to_be_bytes()].concat()))
    });
    going.extend(beyond.into_iter().take(judged.live.len() - wanted));
    going
}

/// What [`note_storage`] came to.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Noted {
    /// The block id past which the next batch goes on; none = that was all.
    #[prost(uint64, optional, tag = "1")]
    pub more: Option<u64>,
    /// Replicas looked at.
    #[prost(uint32, tag = "2")]
    pub replicas: u32,
}

/// Notes the files of a batch of a storage's replicas: it failed, or came back.
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
    let rows = tx.scan_all::<StorageReplicas>(&[scan])?.pop().unwrap_or_default();
    let ids: Vec<u64> =
        rows.iter().filter_map(|(key, _)| key.as_slice().try_into().ok().map(u64::from_be_bytes)).collect();
    let moved: Vec<_> = ids.iter().map(|id| block_file(*id)).collect();
    ids.iter().for_each(|id| tx.want(&attention(parts_of_block(*id).0)));
    let moved = tx.get_all(&moved, Hold::Loose)?;
    let file = |(id, moved): (&u64, Option<Record<BlockFiles>>)| match moved {
        Some(row) => row.value.inode,
        None => parts_of_block(*id).0,
    };
    let files: BTreeSet<u64> = ids.iter().zip(moved).map(file).collect();
    files.iter().for_each(|inode| tx.want(&attention(*inode)));
    files.iter().try_for_each(|inode| note_attention(tx, *inode))?;
    let more = ids.last().copied().filter(|_| ids.len() == REPLICAS as usize);
    Ok(Noted { more, replicas: ids.len() as u32 })
}

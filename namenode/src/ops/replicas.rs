//! Replicas: the parts that several operations share. Not an operation itself.
//!
//! A replica is two rows, one beside its block and one in its storage's partition. What it is worth is decided when it
//! is read, beside its block, by [`judge`] alone: nothing about it is stored twice.

use std::collections::BTreeMap;

use trellis_metastore::change::Hold;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::{
    Block, BlockState, Concern, Ordered, Replica, ReplicaState, Replicas, StorageReplicas, Table, TableKey,
    attention, parts_of_block, replica, replica_in, storage_replica,
};
use trellis_metastore::tx::Record;

use crate::datanodes::View;
use crate::engine::tx::Tx;
use crate::refusal::{Kind, Result, refuse};

/// Replicas that a first scan expects of each block.
const EXPECTED: u32 = 4;
/// Rows that a first scan asks for at least: so one that is made before the blocks are known fits up to 15 of them.
const AT_LEAST: u32 = 64;

/// A replica and the number of the storage that has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Number of the storage.
    pub storage: u32,
    /// As it was last reported.
    pub replica: Replica,
}

/// What a replica is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// It has all of the block, and is on a storage that works.
    Live,
    /// It is not whole yet, and may become so.
    Unfinished,
    /// A copy was ordered; nothing of it is there yet.
    Coming,
    /// It is to be deleted: it may be gone already, and counts no more.
    Leaving,
    /// It is bad, or of an older generation.
    Corrupt,
    /// Its storage failed, or its datanode is dead or was never heard of.
    Gone,
}

/// A block of a file as readers are told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// The block.
    pub block: Block,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// The storages to ask, the best first. Their datanodes are in the view of the call.
    pub storages: Vec<u32>,
    /// Whether all of its replicas are corrupt; they are told all the same.
    pub corrupt: bool,
}

/// Whether a block's length and replicas are settled.
pub fn is_complete(block: &Block) -> bool {
    block.state == BlockState::Complete as i32
}

/// Sends a caller who must know where replicas are, or may go, to another namenode: this one started lately and has not
/// heard of most datanodes.
pub fn check_ready(tx: &Tx<'_, '_>) -> Result<()> {
    match tx.ctx.datanodes.is_early() {
        false => Ok(()),
        true => refuse(
            Kind::Standby,
            "This namenode started just now and has not heard of most datanodes yet; ask another, or later.",
        ),
    }
}

/// What a replica is worth beside its block (stock: `checkReplicaCorrupt`, `processReportedBlock`).
pub fn judge(view: &View, block: &Block, storage: u32, replica: &Replica) -> Worth {
    if !view.storage(storage).is_some_and(|storage| storage.is_alive()) {
        return Worth::Gone;
    }
    match replica.ordered() {
        Ordered::Nothing => {}
        Ordered::Copy => return Worth::Coming,
        Ordered::Deletion => return Worth::Leaving,
    }
    if replica.corrupt || replica.stamp < block.stamp {
        return Worth::Corrupt;
    }
    if !matches!(block.state(), BlockState::Complete | BlockState::Committed) {
        return Worth::Unfinished;
    }
    match replica.state() {
        ReplicaState::Finalized if replica.stamp == block.stamp && replica.length == block.length => {
            Worth::Live
        }
        ReplicaState::Finalized | ReplicaState::WaitingToBeRecovered => Worth::Corrupt,
        ReplicaState::BeingWritten | ReplicaState::UnderRecovery | ReplicaState::Temporary => {
            Worth::Unfinished
        }
    }
}

/// Whether the datanode of a replica told of another one later. It has one replica of a block, wherever it lies, and may
/// move it from one of its storages to another (stock: `AddBlockResult.REPLACED`). A copy that was ordered is overtaken by
/// whatever is there.
pub fn is_overtaken(view: &View, found: &[Found], one: &Found) -> bool {
    let rank = |of: &Found| (of.replica.ordered() != Ordered::Copy, of.replica.reported_ms, of.storage);
    let datanode = |of: &Found| view.live_datanode(of.storage);
    let mut later = found.iter().filter(|other| rank(other) > rank(one));
    later.any(|other| datanode(other).is_some_and(|number| datanode(one) == Some(number)))
}

/// The storages among `found` whose replicas are worth `worth`: at most one of each datanode.
pub fn storages_of(view: &View, block: &Block, found: &[Found], worth: Worth) -> Vec<u32> {
    let of = found.iter().filter(|one| judge(view, block, one.storage, &one.replica) == worth);
    of.filter(|one| !is_overtaken(view, found, one)).map(|one| one.storage).collect()
}

/// Blocks that follow one another in one partition of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    last: u64,
    count: u32,
}

/// Splits blocks, in the order of their file, into runs that one scan reads each.
fn runs(blocks: &[u64]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for id in blocks {
        let (inode, ordinal) = parts_of_block(*id);
        match runs.last_mut() {
            Some(run) if parts_of_block(run.last) == (inode, ordinal.wrapping_sub(1)) => {
                (run.last, run.count) = (*id, run.count + 1);
            }
            _ => runs.push(Run { first: *id, last: *id, count: 1 }),
        }
    }
    runs
}

impl Run {
    /// Whether the run has this block: its ids differ in their ordinals alone.
    fn has(&self, block_id: u64) -> bool {
        (self.first..=self.last).contains(&block_id)
            && parts_of_block(block_id).0 == parts_of_block(self.first).0
    }

    fn scan(&self) -> Scan {
        let limit = self.count.saturating_mul(EXPECTED).saturating_add(1).clamp(AT_LEAST, Scan::MAX_ROWS);
        Scan::of(Replicas::ID, parts_of_block(self.first).0, limit).after(&self.first.to_be_bytes())
    }
}

/// Asks for the replicas of blocks, so that one fetch brings them together with others: those that [`read`] will be
/// given, in the same order.
pub fn want(tx: &mut Tx<'_, '_>, blocks: &[u64]) {
    runs(blocks).iter().for_each(|run| tx.want_scan(&run.scan()));
}

/// The replicas of blocks, given in the order of their file: for each block those that it has, in one trip unless there
/// are many of each. Nothing is held: whoever acts on what it read here writes, or holds, the
/// rows of the blocks, as reports do.
pub fn read(tx: &mut Tx<'_, '_>, blocks: &[u64]) -> Result<Vec<Vec<Found>>> {
    let mut found: BTreeMap<u64, Vec<Found>> = BTreeMap::new();
    let mut open: Vec<(Run, Scan)> = runs(blocks).into_iter().map(|run| (run, run.scan())).collect();
    while !open.is_empty() {
        let scans: Vec<Scan> = open.iter().map(|(_, scan)| scan.clone()).collect();
        let pages = tx.scan_all::<Replicas>(&scans)?;
        let mut rest = Vec::new();
        for ((run, scan), page) in open.into_iter().zip(pages) {
            let full = page.len() as u32 >= scan.limit;
            let last = page.last().map(|(key, _)| key.clone());
            let mut inside = true;
            for (key, row) in page {
                let Some((block_id, storage)) = replica_in(&key) else { continue };
                inside = run.has(block_id);
                if inside {
                    found.entry(block_id).or_default().push(Found { storage, replica: row.value });
                }
            }
            if let (true, true, Some(last)) = (full, inside, last) {
                rest.push((run, Scan { limit: Scan::MAX_ROWS, ..scan.after(&last) }));
            }
        }
        open = rest;
    }
    Ok(blocks.iter().map(|id| found.remove(id).unwrap_or_default()).collect())
}

/// Asks for the rows of one replica.
pub fn want_replica(tx: &mut Tx<'_, '_>, block_id: u64, storage: u32) {
    tx.want(&replica(block_id, storage));
    tx.want(&storage_replica(storage, block_id));
}

/// Writes both rows of a replica, new or changed.
pub fn put(tx: &mut Tx<'_, '_>, block_id: u64, storage: u32, new: &Replica) -> Result<()> {
    want_replica(tx, block_id, storage);
    let (beside, on_storage) = (replica(block_id, storage), storage_replica(storage, block_id));
    let rows = (tx.get(&beside, Hold::Loose)?, tx.get(&on_storage, Hold::Loose)?);
    put_row(tx, &beside, rows.0, new)?;
    put_row(tx, &on_storage, rows.1, new)
}

fn put_row<T: Table<Value = Replica>>(
    tx: &mut Tx<'_, '_>,
    key: &TableKey<T>,
    row: Option<Record<T>>,
    new: &Replica,
) -> Result<()> {
    match row {
        None => Ok(tx.insert(key, new)?),
        Some(row) if row.value == *new => Ok(()),
        Some(_) => Ok(tx.put(key, new)?),
    }
}

/// Removes replicas, given by block and storage, in one trip; what is gone already is left alone.
pub fn remove(tx: &mut Tx<'_, '_>, replicas: &[(u64, u32)]) -> Result<()> {
    for (block_id, storage) in replicas {
        want_replica(tx, *block_id, *storage);
    }
    let beside: Vec<TableKey<Replicas>> =
        replicas.iter().map(|(id, storage)| replica(*id, *storage)).collect();
    let on_storage: Vec<TableKey<StorageReplicas>> =
        replicas.iter().map(|(id, storage)| storage_replica(*storage, *id)).collect();
    let rows = (tx.get_all(&beside, Hold::Loose)?, tx.get_all(&on_storage, Hold::Loose)?);
    for (key, _) in beside.iter().zip(rows.0).filter(|(_, row)| row.is_some()) {
        tx.delete(key)?;
    }
    for (key, _) in on_storage.iter().zip(rows.1).filter(|(_, row)| row.is_some()) {
        tx.delete(key)?;
    }
    Ok(())
}

/// Notes that somebody must look at a file's replicas. An older note is written again, so that whoever judged before
/// this change cannot take it away.
pub fn note_attention(tx: &mut Tx<'_, '_>, inode: u64) -> Result<()> {
    let key = attention(inode);
    match tx.get(&key, Hold::Loose)? {
        None => {
            let concern = Concern { since_ms: tx.ctx.now_ms, ..Concern::default() };
            Ok(tx.insert(&key, &concern)?)
        }
        Some(row) => Ok(tx.put(&key, &row.value)?),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trellis_metastore::schema::{Datanode, Storage, block_id};

    use super::*;
    use crate::datanodes::view::{Liveness, Node};

    fn view() -> View {
        let node = |number: u32, liveness| Node {
            row: Arc::new(Datanode {
                uuid: number.to_string(),
                number,
                storages: vec![
                    Storage { number: number + 1, ..Storage::default() },
                    Storage { number: number + 2, failed: true, ..Storage::default() },
                ],
                ..Datanode::default()
            }),
            liveness,
            space: Vec::new(),
            load: 0,
            copies: 0,
            scheduled: 0,
            heard_ms: 0,
            reported_ms: 0,
        };
        View::new(vec![node(10, Liveness::Live), node(20, Liveness::Dead), node(30, Liveness::Stale)])
    }

    #[test]
    fn worth_of_replicas() {
        use BlockState::{Committed, Complete, UnderConstruction, UnderRecovery};
        use ReplicaState::{BeingWritten, Finalized, WaitingToBeRecovered};
        let view = view();
        for (state, replica, storage, worth) in [
            (Complete, (1002, 5, Finalized, false), 11, Worth::Live),
            (Committed, (1002, 5, Finalized, false), 31, Worth::Live),
            (Complete, (1002, 5, Finalized, false), 12, Worth::Gone),
            (Complete, (1002, 5, Finalized, false), 21, Worth::Gone),
            (Complete, (1002, 5, Finalized, false), 99, Worth::Gone),
            (Complete, (1002, 5, Finalized, true), 11, Worth::Corrupt),
            (Complete, (1001, 5, Finalized, false), 11, Worth::Corrupt),
            (Complete, (1002, 4, Finalized, false), 11, Worth::Corrupt),
            (Complete, (1002, 5, WaitingToBeRecovered, false), 11, Worth::Corrupt),
            (Complete, (1002, 4, BeingWritten, false), 11, Worth::Unfinished),
            (Committed, (1003, 5, Finalized, false), 11, Worth::Corrupt),
            (UnderConstruction, (1002, 3, BeingWritten, false), 11, Worth::Unfinished),
            (UnderConstruction, (1001, 3, BeingWritten, false), 11, Worth::Corrupt),
            (UnderRecovery, (1003, 9, Finalized, false), 11, Worth::Unfinished),
        ] {
            let block =
                Block { stamp: 1002, length: 5, last_stamp: 1003, state: state as i32, ..Block::default() };
            let (stamp, length, of, corrupt) = replica;
            let replica = Replica { stamp, length, state: of as i32, corrupt, ..Replica::default() };
            assert_eq!(judge(&view, &block, storage, &replica), worth, "{block:?} {replica:?} {storage}");
            // What was ordered comes before what it is, but not before its datanode's death.
            for (ordered, its) in [(Ordered::Copy, Worth::Coming), (Ordered::Deletion, Worth::Leaving)] {
                let its = if worth == Worth::Gone { worth } else { its };
                let replica = Replica { ordered: ordered as i32, ..replica.clone() };
                assert_eq!(judge(&view, &block, storage, &replica), its, "{replica:?} {storage}");
            }
        }
    }

    #[test]
    fn blocks_in_a_row_are_one_scan() {
        let of = |inode, ordinals: &[u32]| -> Vec<u64> {
            ordinals.iter().map(|ordinal| block_id(inode, *ordinal)).collect()
        };
        let blocks = [of(20000, &[0, 1, 2, 5]), of(20001, &[6, 7])].concat();
        let found = runs(&blocks);
        assert_eq!(found.iter().map(|run| run.count).collect::<Vec<_>>(), [3, 1, 2]);
        assert!(blocks[..3].iter().all(|id| found[0].has(*id)) && !found[0].has(blocks[3]));
        assert!(!found[0].has(block_id(20001, 1)));
    }
}

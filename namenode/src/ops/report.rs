//! report — DatanodeProtocol.blockReceivedAndDeleted, blockReport, reportBadBlocks      (Java: BlockManager)
//!
//! Held    the datanode's row, at its owner and epoch: a report that an old owner applies fails. The block row that
//!         somebody must look at a file by. The replicas' own rows are written. A block that a new replica is noted for is
//!         not held: it may be gone, or another, once that is written; the storage's next full report finds that out.
//! Rows    per replica new, changed or gone: replicas 1w · storage_replicas 1w. Unknown: commands 1w. Condemned, gone,
//!         late or unexpected: attention 1w.
//! Cost    k replicas 1 fetch + 1 commit; some unknown 2 fetches, moved by concat 3; some that their datanode moved from one
//!         storage to another 1 more. Replicas told as they are known:
//!         nothing is written. A full report reads the storage's rows in pages with their blocks, 2 fetches each, and
//!         applies what differs.
//! Differs replicas being written are noted only where the pipeline does not say so already.

use std::collections::{BTreeMap, BTreeSet};

use trellis_metastore::change::Hold;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::{
    Block, BlockState, CommandKind, Datanode, Ordered, Replica, ReplicaState, StorageReplicas, Table,
    TableKey, attention, block, command, id_in, parts_of_block, replica, storage_partition, storage_replica,
};
use trellis_metastore::schema::{Blocks, Command};

use super::blocks::{self, FileBlock};
use super::datanodes;
use super::orders;
use super::replicas::{self, Found, Worth, judge, note_attention};
use crate::engine::tx::Tx;
use crate::refusal::Result;

/// Replicas that one transaction deals with: each costs three rows to read, and up to four to write.
pub const AT_ONCE: usize = 200;

/// What a datanode says of one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Number of the storage.
    pub storage: u32,
    /// Block id.
    pub block: u64,
    /// Generation stamp.
    pub stamp: u64,
    /// Length in bytes.
    pub length: u64,
    /// What became of it.
    pub what: What,
}

/// What became of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It came whole; its source, the datanode with this uuid, should drop its own (the balancer's wish).
    Received(Option<String>),
    /// A full report whose lease was granted then, ms since the epoch, lists it, in this state.
    Listed(ReplicaState, i64),
    /// It is being written.
    Receiving,
    /// It was deleted.
    Deleted,
    /// A full report whose lease was granted then, ms since the epoch, does not list it.
    Missing(i64),
}

impl What {
    /// The state that the replica is in; none = it is gone.
    fn state(&self) -> Option<ReplicaState> {
        match self {
            What::Received(_) => Some(ReplicaState::Finalized),
            What::Listed(state, _) => Some(*state),
            What::Receiving => Some(ReplicaState::BeingWritten),
            What::Deleted | What::Missing(_) => None,
        }
    }
}

/// Arguments of [`apply`]: a datanode's report, or at most [`AT_ONCE`] replicas of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// The datanode's uuid.
    pub uuid: String,
    /// The namenode that applies it: its member id.
    pub member: u64,
    /// Since which epoch of the datanode's row it owns it.
    pub epoch: u64,
    /// In the order in which it happened.
    pub replicas: Vec<Reported>,
}

/// What became of a report.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Applied {
    /// Nothing was applied: another namenode owns the datanode.
    #[prost(bool, tag = "1")]
    pub is_not_owner: bool,
    /// Replicas whose rows changed.
    #[prost(uint32, tag = "2")]
    pub changed: u32,
    /// Replicas of blocks that no file has: they are to be deleted.
    #[prost(uint32, tag = "3")]
    pub unknown: u32,
    /// Replicas that are not as their block is.
    #[prost(uint32, tag = "4")]
    pub condemned: u32,
}

/// A block as a report finds it, with the file that has it.
type FoundBlock = Option<(u64, FileBlock)>;

/// Applies what a datanode reports, if `member` owns it since `epoch`.
pub fn apply(tx: &mut Tx<'_, '_>, call: &Report) -> Result<Applied> {
    for told in &call.replicas {
        let (inode, ordinal) = parts_of_block(told.block);
        tx.want(&block(inode, ordinal));
        tx.want(&attention(inode));
        replicas::want_replica(tx, told.block, told.storage);
    }
    if tx.ctx.datanodes.node(&call.uuid).is_some_and(|node| node.row.storages.len() > 1) {
        replicas::want(tx, &in_files(&call.replicas));
    }
    let Some(row) = datanodes::owned(tx, &call.uuid, call.member, call.epoch)? else {
        return Ok(Applied { is_not_owner: true, ..Applied::default() });
    };
    let ids: Vec<u64> = call.replicas.iter().map(|told| told.block).collect();
    let blocks = blocks::find(tx, &ids, Hold::Loose, |tx, id| {
        tx.want(&command(row.number, CommandKind::Invalidate, id));
    })?;
    let elsewhere = elsewhere(tx, &row, &call.replicas)?;
    let mut applied = Applied::default();
    for ((told, found), elsewhere) in call.replicas.iter().zip(blocks).zip(elsewhere) {
        match told.what.state() {
            Some(state) => present(tx, &row, (told, state), &elsewhere, found, &mut applied)?,
            None => gone(tx, told, found, &mut applied)?,
        }
    }
    Ok(applied)
}

/// The blocks of a report, each once, those of a file together.
fn in_files(told: &[Reported]) -> Vec<u64> {
    let mut ids: Vec<u64> = told.iter().map(|told| told.block).collect();
    ids.sort_unstable_by_key(|id| parts_of_block(*id));
    ids.dedup();
    ids
}

/// For each replica told: the other storages of its datanode that may be known to have one of its block.
fn elsewhere(tx: &mut Tx<'_, '_>, row: &Datanode, told: &[Reported]) -> Result<Vec<Vec<u32>>> {
    let mut known: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    if row.storages.len() > 1 {
        let ids = in_files(told);
        let is_its = |found: &Found| row.storages.iter().any(|storage| storage.number == found.storage);
        for (id, found) in ids.iter().zip(replicas::read(tx, &ids)?) {
            let its = found.iter().filter(|found| is_its(found)).map(|found| found.storage);
            known.entry(*id).or_default().extend(its);
        }
        // One report may tell of several places.
        for told in told {
            known.entry(told.block).or_default().insert(told.storage);
        }
    }
    let others = |told: &Reported| {
        let storages = known.get(&told.block).into_iter().flatten().copied();
        storages.filter(|storage| *storage != told.storage).collect()
    };
    Ok(told.iter().map(others).collect())
}

/// A replica that is there: the only one that its datanode has of its block.
fn present(
    tx: &mut Tx<'_, '_>,
    row: &Datanode,
    (told, state): (&Reported, ReplicaState),
    elsewhere: &[u32],
    found: FoundBlock,
    applied: &mut Applied,
) -> Result<()> {
    let keys: Vec<_> = [told.storage].iter().chain(elsewhere).map(|s| replica(told.block, *s)).collect();
    let mut known: Vec<Option<Replica>> =
        tx.get_all(&keys, Hold::Loose)?.into_iter().map(|row| Some(row?.value)).collect();
    let old = known.remove(0);
    let known = elsewhere.iter().zip(known).filter_map(|(storage, replica)| Some((*storage, replica?)));
    let moved: Vec<(u32, Replica)> = known.collect();
    let overtaken: Vec<(u64, u32)> = moved.iter().map(|(storage, _)| (told.block, *storage)).collect();
    let Some((file_id, placed)) = found else {
        applied.unknown += 1;
        replicas::remove(tx, &[&[(told.block, told.storage)], &overtaken[..]].concat())?;
        return invalidate(tx, row.number, told, true);
    };
    let (key, block) = (block(file_id, placed.ordinal), placed.block);
    let is_whole = state == ReplicaState::Finalized;
    let all = || old.iter().chain(moved.iter().map(|(_, replica)| replica));
    let is_coming = |old: &Replica| old.ordered() == Ordered::Copy;
    let says_less = |old: &Replica| match told.what {
        // An older one is not the copy, and keeps it out.
        _ if is_coming(old) => told.stamp >= block.stamp,
        What::Listed(_, since) => old.reported_ms >= since,
        _ => old.state() == ReplicaState::Finalized && old.stamp >= told.stamp,
    };
    let is_expected = matches!(told.what, What::Receiving) && block.expected.contains(&told.storage);
    if !is_whole && (is_expected || all().any(says_less)) {
        // The pipeline says so, or it is whole since, or a copy that was ordered is on its way.
        return Ok(());
    }
    let is_new = all().all(is_coming);
    let mut places = old.iter().map(|old| (told.storage, old)).chain(moved.iter().map(|(s, old)| (*s, old)));
    let before = places.next().map(|(storage, old)| judge(&tx.ctx.datanodes, &block, storage, old));
    // What is known of the bytes, and what was ordered, goes with them from disk to disk.
    let has_failed = |storage: u32| row.storages.iter().any(|s| s.number == storage && s.failed);
    let same = moved.iter().filter(|(storage, _)| !has_failed(*storage)).map(|(_, replica)| replica);
    let same: Vec<&Replica> = old.iter().chain(same).filter(|old| old.stamp == told.stamp).collect();
    // What is told late, or in full, does not take back a deletion.
    let is_leaving = |old: &&&Replica| old.ordered() == Ordered::Deletion;
    let stays = same.iter().find(is_leaving).or(same.iter().find(|old| !is_coming(old)));
    let new = Replica {
        stamp: told.stamp,
        length: told.length,
        state: state as i32,
        corrupt: same.iter().any(|old| old.corrupt),
        reported_ms: tx.ctx.now_ms,
        ordered: stays.map_or(0, |old| old.ordered),
        ordered_ms: stays.map_or(0, |old| old.ordered_ms),
    };
    let as_before = |old: &Replica| Replica { reported_ms: new.reported_ms, ..old.clone() } == new;
    let is_known = old.as_ref().is_some_and(as_before);
    if !is_known {
        replicas::put(tx, told.block, told.storage, &new)?;
    }
    if !overtaken.is_empty() {
        replicas::remove(tx, &overtaken)?;
    }
    let is_changed = !is_known || !overtaken.is_empty();
    applied.changed += u32::from(is_changed);
    let worth = judge(&tx.ctx.datanodes, &block, told.storage, &new);
    if is_settled(&block) && worth == Worth::Corrupt {
        applied.condemned += 1;
        return attend(tx, &key);
    }
    // One that is not complete yet is counted when it is.
    if !is_changed || block.state() != BlockState::Complete {
        return Ok(());
    }
    let never_counts =
        |worth| matches!(worth, None | Some(Worth::Unfinished | Worth::Coming | Worth::Leaving));
    match &told.what {
        What::Received(Some(source)) if is_new => {
            replaced(tx, (&key, &block), source, told)?;
            attend_later(tx, &key)
        }
        // There may be more than are wanted when a copy came that nobody waits for.
        What::Received(None) if is_new => match before.is_none() {
            true => attend_later(tx, &key),
            false => Ok(()),
        },
        _ if before == Some(worth) || (never_counts(before) && never_counts(Some(worth))) => Ok(()),
        // One more counts now, or one less: it came back, turned up, is whole at last, or is being written again.
        _ => attend(tx, &key),
    }
}

/// A replica that is not there any more.
fn gone(tx: &mut Tx<'_, '_>, told: &Reported, found: FoundBlock, applied: &mut Applied) -> Result<()> {
    let old = tx.get(&storage_replica(told.storage, told.block), Hold::Loose)?;
    let is_recent = |old: &Replica| matches!(told.what, What::Missing(since) if old.reported_ms >= since);
    // What is told of an earlier replica, late, takes nothing from one that came again, or is to come.
    let is_of_another = |old: &Replica| matches!(told.what, What::Deleted) && told.stamp < old.stamp;
    let stays = |old: &Replica| is_recent(old) || is_of_another(old) || old.ordered() == Ordered::Copy;
    if old.is_none_or(|old| stays(&old.value)) {
        return Ok(());
    }
    applied.changed += 1;
    replicas::remove(tx, &[(told.block, told.storage)])?;
    match found {
        Some((file_id, placed)) => attend(tx, &block(file_id, placed.ordinal)),
        None => Ok(()),
    }
}

/// A replica was moved: the one that it was copied from goes, if it is there.
fn replaced(
    tx: &mut Tx<'_, '_>,
    (key, block): (&TableKey<Blocks>, &Block),
    source: &str,
    told: &Reported,
) -> Result<()> {
    let view = tx.ctx.datanodes.clone();
    let Some(node) = view.node(source) else { return Ok(()) };
    let storages: Vec<u32> = node.row.storages.iter().map(|storage| storage.number).collect();
    if storages.contains(&told.storage) {
        return Ok(());
    }
    let keys: Vec<_> = storages.iter().map(|storage| replica(told.block, *storage)).collect();
    let rows = tx.get_all(&keys, Hold::Held)?;
    let found = storages.iter().zip(rows).filter_map(|(storage, row)| {
        let replica = row.map(|row| row.value).filter(|replica| replica.ordered() == Ordered::Nothing)?;
        Some(Found { storage: *storage, replica })
    });
    let found: Vec<Found> = found.collect();
    if found.is_empty() {
        return Ok(());
    }
    let storages: Vec<u32> = found.iter().map(|found| found.storage).collect();
    tx.want(&attention(key.key.partition()));
    orders::let_go(tx, key, block, &found, &storages)?;
    note_attention(tx, key.key.partition())
}

/// Has a datanode delete a replica.
fn invalidate(tx: &mut Tx<'_, '_>, datanode: u32, told: &Reported, silent: bool) -> Result<()> {
    let given = Command {
        stamp: told.stamp,
        length: told.length,
        storages: vec![told.storage],
        silent,
        given_ms: tx.ctx.now_ms,
        ..Command::default()
    };
    orders::give(tx, datanode, CommandKind::Invalidate, told.block, &given)
}

/// Somebody must look at the replicas of the file that has this block, if it still has.
fn attend(tx: &mut Tx<'_, '_>, key: &TableKey<Blocks>) -> Result<()> {
    tx.get(key, Hold::Held)?;
    note_attention(tx, key.key.partition())
}

/// The same, unless the file was noted just now: nobody looks at it before that has aged, whatever the clock of the leader,
/// give or take a second, and if somebody did the note that is held is gone. So the second and third report of a file just
/// closed write nothing here.
fn attend_later(tx: &mut Tx<'_, '_>, key: &TableKey<Blocks>) -> Result<()> {
    let noted = tx.get(&attention(key.key.partition()), Hold::Held)?;
    let young = i64::try_from(tx.ctx.config.replication_check.as_millis() / 2).unwrap_or(i64::MAX);
    let is_young = |since_ms: i64| (0..young).contains(&(tx.ctx.now_ms - since_ms));
    match noted.is_some_and(|row| is_young(row.value.since_ms)) {
        true => Ok(()),
        false => attend(tx, key),
    }
}

/// A replica in a storage's partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Block id.
    pub block: u64,
    /// As it was last reported.
    pub replica: Replica,
    /// Its block is gone, or it is not as its block is: it may have been noted while that came about, and a report that
    /// says the same again is to be applied.
    pub is_odd: bool,
}

/// A page of the replicas of a storage past a block, as rows say, in the order of block ids.
pub fn page(tx: &mut Tx<'_, '_>, storage: u32, after: Option<u64>, limit: u32) -> Result<Vec<Stored>> {
    let mut scan = Scan::of(StorageReplicas::ID, storage_partition(storage), limit);
    if let Some(after) = after {
        scan = scan.after(&after.to_be_bytes());
    }
    let rows = tx.scan_all::<StorageReplicas>(&[scan])?.pop().unwrap_or_default();
    let rows: Vec<(u64, Replica)> =
        rows.into_iter().filter_map(|(key, row)| Some((id_in(&key)?, row.value))).collect();
    let ids: Vec<u64> = rows.iter().map(|(block, _)| *block).collect();
    let blocks = blocks::find(tx, &ids, Hold::Loose, |_, _| {})?;
    let view = tx.ctx.datanodes.clone();
    let is_odd = |replica: &Replica, found: FoundBlock| {
        found.is_none_or(|(_, FileBlock { block, .. })| {
            is_settled(&block) && judge(&view, &block, storage, replica) == Worth::Corrupt
        })
    };
    let stored = |((block, replica), found): ((u64, Replica), FoundBlock)| {
        let is_odd = is_odd(&replica, found);
        Stored { block, replica, is_odd }
    };
    Ok(rows.into_iter().zip(blocks).map(stored).collect())
}

/// Whether a block has its length and stamp.
fn is_settled(block: &Block) -> bool {
    matches!(block.state(), BlockState::Complete | BlockState::Committed)
}

/// Arguments of [`condemn`]: a reader or a datanode met a replica whose bytes are not what they were.
#[derive(Clone, Debug)]
pub struct Bad {
    /// Block id.
    pub block: u64,
    /// Its generation stamp, as far as it is known.
    pub stamp: u64,
    /// The number of the storage.
    pub storage: u32,
}

/// Notes replicas as corrupt; those of another generation, or of blocks that no file has, are left alone.
pub fn condemn(tx: &mut Tx<'_, '_>, bad: &[Bad]) -> Result<Applied> {
    bad.iter().for_each(|bad| replicas::want_replica(tx, bad.block, bad.storage));
    let ids: Vec<u64> = bad.iter().map(|bad| bad.block).collect();
    let blocks = blocks::find(tx, &ids, Hold::Loose, |_, _| {})?;
    let mut applied = Applied::default();
    for (bad, found) in bad.iter().zip(blocks) {
        let row = tx.get(&replica(bad.block, bad.storage), Hold::Loose)?;
        let (Some((file_id, placed)), Some(row)) = (found, row) else { continue };
        if row.value.stamp != bad.stamp || row.value.corrupt || row.value.ordered() == Ordered::Copy {
            continue;
        }
        applied.condemned += 1;
        replicas::put(tx, bad.block, bad.storage, &Replica { corrupt: true, ..row.value })?;
        attend(tx, &block(file_id, placed.ordinal))?;
    }
    Ok(applied)
}

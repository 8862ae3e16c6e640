//! block recovery — how a file is closed whose writer is gone; DatanodeProtocol.commitBlockSynchronization
//!                                        (Java: FSNamesystem.internalReleaseLease, commitBlockSynchronization)
//!
//! The last block of such a file has an unknown length. One datanode, the primary, is given a new stamp and the storages
//! that may have replicas; it agrees with them on a length and says so with commitBlockSynchronization. An answer with
//! another stamp comes too late, or from a primary that was given up.
//!
//! Held    the inode row and the block are written. By its id, the file is proved attached.
//! Rows    a recovery that is begun: blocks 1w · inodes 1w · commands 1w · attention 1w.
//!         commitBlockSynchronization: blocks 1w · inodes 1w · open_files 1w · replicas, storage_replicas 1w each for
//!         every replica that was agreed on · attention 1w unless as many replicas are there as there should be.
//! Cost    warm: commitBlockSynchronization 1 fetch + 1 commit; a block that came by concat up to 4 fetches more.
//! Differs a recovery is begun anew when its primary is dead, or has not answered for a while, by whoever asks for the file
//!         and, as its file is noted, by the leader's replication job (stock: after the while only, by who asks for the file
//!         or once its writer's lease is past the hard limit: a truncate whose primary died waits for 20 minutes, or for
//!         ever beside a client that lives).
//!         The file that the answer closes keeps nobody's lease. An answer that there is nothing of a block that is known
//!         to have had something is refused: stock takes the block off.
//!
//! A block that may have been written to is never given up here, whatever is heard of its datanodes: a writer flushes
//! without telling lengths, and datanodes that are all silent may come back.

use std::collections::BTreeSet;

use trellis_metastore::change::Hold;
use trellis_metastore::schema::{
    Block, BlockState, Command, CommandKind, Inode, OpenFile, Ordered, Recovery, Replica, ReplicaState,
    attention, command, open_file, parts_of_block,
};

use super::blocks::{self, FileBlock};
use super::lease::{INTERNAL_HOLDER, close_file, join_lease};
use super::orders;
use super::pipeline::check_pipeline;
use super::replicas::{self, Found, is_complete, is_overtaken};
use super::write::{BlockName, complete_penultimate, remove_last};
use crate::datanodes::view::Liveness;
use crate::engine::tx::Tx;
use crate::engine::walk::Node;
use crate::refusal::{Kind, Result, refuse};

/// What became of the file of a writer that is gone.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Released {
    /// It is closed.
    Closed(Box<ClosedFile>),
    /// A recovery of its last block goes on.
    Recovering,
}

/// A file that was closed: its row and its last block as they are now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClosedFile {
    pub inode: Inode,
    pub last: Option<FileBlock>,
}

/// Arguments of [`commit_block_synchronization`].
#[derive(Clone, Debug)]
pub struct CommitBlockSynchronization {
    /// The block, with the stamp that it had.
    pub block: BlockName,
    /// The stamp of the recovery.
    pub stamp: u64,
    /// The length that was agreed on, in bytes.
    pub length: u64,
    /// Whether the file is to be closed.
    pub close: bool,
    /// Whether there is nothing of the block.
    pub delete: bool,
    /// Uuids of the storages with replicas of that length and stamp.
    pub storages: Vec<String>,
}

/// Takes a file from its writer: closes it or, if its last block is unfinished, has that recovered and makes `holder` the
/// writer meanwhile (none = who it was). The caller's view of who may do so is its own.
pub(super) fn release(
    tx: &mut Tx<'_, '_>,
    path: &str,
    node: &Node,
    holder: Option<&str>,
) -> Result<Released> {
    let mut inode = node.inode.clone();
    let mut tail = blocks::tail(tx, &inode)?;
    let replicas = match tail.0.iter().all(|placed| is_complete(&placed.block)) {
        true => Vec::new(),
        false => replicas::read(tx, &tail.ids())?,
    };
    let before_was_complete = tail.penultimate().is_none_or(is_complete);
    let before_is_complete = complete_penultimate(tx, &inode, &mut tail, &replicas)?;
    if let (Some(last), Some(found)) = (tail.0.last_mut(), replicas.last()) {
        match last.block.state() {
            BlockState::Complete if before_is_complete => {}
            BlockState::Complete | BlockState::Committed => {
                if !before_is_complete || !blocks::complete(tx, &inode, last, found)? {
                    let why = format!(
                        "DIR* NameSystem.internalReleaseLease: Failed to release lease for file {path}. Committed \
                         blocks are waiting to be minimally replicated."
                    );
                    return refuse(Kind::AlreadyBeingCreated, why);
                }
                inode.unfinished = None;
                blocks::put(tx, inode.id, last)?;
            }
            BlockState::UnderConstruction | BlockState::UnderRecovery => {
                let storages = participants(tx, &last.block, found);
                let was_begun = !last.block.expected.is_empty() || !found.is_empty() || last.block.length > 0;
                if !was_begun && before_is_complete {
                    remove_last(tx, &mut inode, &tail)?;
                    tail.0.pop();
                } else {
                    let has_changed = begin(tx, inode.id, last, storages)? || !before_was_complete;
                    reassign(tx, node, holder, has_changed)?;
                    return Ok(Released::Recovering);
                }
            }
        }
    }
    let inode = close_file(tx, &Node { inode, ..node.clone() })?;
    Ok(Released::Closed(Box::new(ClosedFile { inode, last: tail.0.pop() })))
}

/// Storages that may have a replica and whose datanodes live: those of the pipeline and those that reported one. One of
/// each datanode, which may have put the replica on another storage than it was given: a primary that is told of one
/// datanode twice gives up (stock: `addReplicaIfNotPresent`). Not those of datanodes that have been silent for a while,
/// where two others are left: a primary waits for each (stock: `DatanodeManager.getBlockRecoveryCommand`). And none of a finished replica whose length is not that of
/// the others: of a recovery that ended for some of them only, and stock's primary gives up because of it. Those that
/// were cut as they are to be, or else the longest, rule.
fn participants(tx: &Tx<'_, '_>, block: &Block, found: &[Found]) -> Vec<u32> {
    let view = &tx.ctx.datanodes;
    let datanode = |storage: u32| view.live_datanode(storage);
    let is_there = |one: &&Found| {
        let Found { storage, replica } = *one;
        let counts =
            replica.stamp >= block.stamp && replica.ordered() == Ordered::Nothing && !replica.corrupt;
        counts && datanode(*storage).is_some() && !is_overtaken(view, found, one)
    };
    let told: Vec<&Found> = found.iter().filter(is_there).collect();
    let is_finished = |one: &Found| one.replica.state() == ReplicaState::Finalized;
    let finished = told.iter().filter(|one| is_finished(one));
    let lengths: BTreeSet<u64> = finished.map(|one| one.replica.length).collect();
    let cut_to = block.recovery.as_ref().and_then(|recovery| recovery.cut_to);
    let rules = cut_to.filter(|length| lengths.contains(length)).or(lengths.last().copied());
    let (odd, fit): (Vec<&Found>, Vec<&Found>) =
        told.into_iter().partition(|one| is_finished(one) && Some(one.replica.length) != rules);
    let mut seen: BTreeSet<u32> = odd.iter().filter_map(|one| datanode(one.storage)).collect();
    let reported: Vec<u32> = fit.iter().map(|one| one.storage).collect();
    let place = |given: u32| {
        let mut told = reported.iter().filter(|storage| datanode(**storage) == datanode(given));
        told.next().copied().unwrap_or(given)
    };
    let given = block.expected.iter().map(|storage| place(*storage));
    let all = given.chain(reported.iter().copied());
    let all = all.filter(|storage| datanode(*storage).is_some_and(|number| seen.insert(number)));
    let is_heard =
        |storage: &u32| view.storage(*storage).is_some_and(|storage| storage.node.liveness == Liveness::Live);
    let (heard, silent): (Vec<u32>, Vec<u32>) = all.partition(is_heard);
    if heard.len() >= 2 { heard } else { [heard, silent].concat() }
}

/// Begins the recovery of a file's last block anew if nobody works on it any more, and somebody can: what the leader does
/// for a noted file. The caller holds the file's inode row. Its writer stays who it is, and its lease as old.
pub(super) fn begin_anew(
    tx: &mut Tx<'_, '_>,
    node: &Node,
    last: &mut FileBlock,
    found: &[Found],
) -> Result<()> {
    let storages = participants(tx, &last.block, found);
    if node.inode.open.is_some() && begin(tx, node.id(), last, storages)? {
        // It guards the blocks.
        tx.put(&node.key(), &node.inode)?;
    }
    Ok(())
}

/// Begins a recovery of the last block, or begins it anew when nobody works on it any more and somebody can. False =
/// nothing changed.
fn begin(tx: &mut Tx<'_, '_>, file_id: u64, last: &mut FileBlock, storages: Vec<u32>) -> Result<bool> {
    let earlier = last.block.recovery.clone();
    let waits = |earlier: &Recovery| earlier.primary == 0 && storages.is_empty();
    if earlier.as_ref().is_some_and(|earlier| waits(earlier) || is_under_way(tx, earlier)) {
        return Ok(false);
    }
    let cut_to = earlier.as_ref().and_then(|earlier| earlier.cut_to);
    recover(tx, file_id, last, storages, earlier.map(|earlier| earlier.primary), cut_to)?;
    Ok(true)
}

/// Whether the primary of a recovery may still answer.
fn is_under_way(tx: &Tx<'_, '_>, recovery: &Recovery) -> bool {
    let again = i64::try_from(tx.ctx.config.block_recovery.as_millis()).unwrap_or(i64::MAX);
    let lives = |node: &&crate::datanodes::view::Node| {
        node.row.number == recovery.primary && node.liveness != Liveness::Dead
    };
    tx.ctx.now_ms < recovery.started_ms.saturating_add(again)
        && tx.ctx.datanodes.nodes().iter().any(|node| lives(&node))
}

/// Asks a datanode to recover a block, under its next stamp. Not the `avoided` one, if there is another. Without any
/// the block waits for one. The file is noted until the block is recovered.
pub(super) fn recover(
    tx: &mut Tx<'_, '_>,
    file_id: u64,
    last: &mut FileBlock,
    storages: Vec<u32>,
    avoided: Option<u32>,
    cut_to: Option<u64>,
) -> Result<()> {
    let view = tx.ctx.datanodes.clone();
    let nodes = storages.iter().filter_map(|storage| Some(view.storage(*storage)?.node));
    // The one that was heard of last, as stock.
    let primary = nodes.max_by_key(|node| (Some(node.row.number) != avoided, node.heard_ms));
    let primary = primary.map_or(0, |node| node.row.number);
    let block = &mut last.block;
    let stamp = block.last_stamp + 1;
    block.last_stamp = stamp;
    block.state = BlockState::UnderRecovery as i32;
    block.recovery = Some(Recovery { stamp, started_ms: tx.ctx.now_ms, primary, cut_to });
    blocks::put(tx, file_id, last)?;
    tx.want(&attention(file_id));
    let block = &last.block;
    if storages.is_empty() {
        return replicas::note_attention(tx, file_id);
    }
    tx.want(&command(primary, CommandKind::Recover, block.id));
    let given = Command {
        stamp,
        length: block.length,
        storages,
        old_stamp: block.stamp,
        cut_to,
        given_ms: tx.ctx.now_ms,
        ..Command::default()
    };
    orders::give(tx, primary, CommandKind::Recover, block.id, &given)?;
    replicas::note_attention(tx, file_id)
}

/// Makes another the writer of an open file and renews its lease; `None` leaves it who it was. The namenode's own files,
/// which expiry looks at again and again, are not written when none of their blocks was.
fn reassign(tx: &mut Tx<'_, '_>, node: &Node, holder: Option<&str>, has_changed: bool) -> Result<()> {
    let Some(mut writer) = node.inode.open.clone() else { return Ok(()) };
    if !has_changed
        && writer.holder == INTERNAL_HOLDER
        && holder.is_none_or(|holder| holder == INTERNAL_HOLDER)
    {
        return Ok(());
    }
    if let Some(holder) = holder.filter(|holder| *holder != writer.holder) {
        writer.holder = holder.to_owned();
        let key = open_file(node.id());
        let row = OpenFile { holder: writer.holder.clone() };
        match tx.get(&key, Hold::Loose)? {
            Some(_) => tx.put(&key, &row)?,
            None => tx.insert(&key, &row)?,
        }
    }
    join_lease(tx, &writer.holder)?;
    // Written also when nothing in it changes: it guards the blocks.
    tx.get(&node.key(), Hold::Held)?;
    Ok(tx.put(&node.key(), &Inode { open: Some(writer), ..node.inode.clone() })?)
}

/// What a recovery came to. A repeat, and an answer for a file that was closed meanwhile, change nothing.
pub fn commit_block_synchronization(tx: &mut Tx<'_, '_>, call: &CommitBlockSynchronization) -> Result<()> {
    check_pipeline(call.storages.len())?;
    want_rows(tx, call);
    let Some((mut placed, walked)) = blocks::find_with_file(tx, call.block.id)? else {
        return match call.delete {
            true => Ok(()),
            false => refuse(Kind::Io, format!("Block (={}) not found", call.block)),
        };
    };
    let Some(walked) = walked else {
        let why = format!("File not found: {}, likely due to delayed block removal", call.block);
        return refuse(Kind::FileNotFound, why);
    };
    let path = walked.path_of(walked.path.components().len());
    let Some(node) = walked.into_target() else {
        return refuse(Kind::FileNotFound, format!("File not found: {path}"));
    };
    if node.inode.open.is_none() || is_complete(&placed.block) {
        return Ok(());
    }
    let mut tail = blocks::tail(tx, &node.inode)?;
    let recovery =
        placed.block.recovery.clone().filter(|_| placed.block.state() == BlockState::UnderRecovery);
    let current = recovery.as_ref().map_or(0, |recovery| recovery.stamp);
    if tail.last().map(|last| last.id) != Some(placed.block.id) || current != call.stamp {
        let why = format!(
            "The recovery id {} does not match current recovery id {current} for block {}",
            call.stamp, call.block
        );
        return refuse(Kind::Io, why);
    }
    if call.delete && placed.block.length > 0 {
        let (block, length) = (&call.block, placed.block.length);
        let why = format!("{block} had {length} bytes: it waits for a datanode that has them");
        return refuse(Kind::Io, why);
    }
    let mut inode = node.inode.clone();
    // Read before anything is written beside them.
    let replicas = match tail.penultimate() {
        Some(before) if !is_complete(before) => replicas::read(tx, &[before.id])?,
        _ => Vec::new(),
    };
    let before_is_complete = complete_penultimate(tx, &inode, &mut tail, &replicas)?;
    match call.delete {
        true => remove_last(tx, &mut inode, &tail)?,
        false => settle(tx, &mut inode, &mut placed, call)?,
    }
    match call.close && before_is_complete {
        true => close_file(tx, &Node { inode, ..node }).map(drop),
        false => Ok(tx.put(&node.key(), &inode)?),
    }
}

/// Asks for all that a usual answer needs: the block is still in the file that it was made for.
fn want_rows(tx: &mut Tx<'_, '_>, call: &CommitBlockSynchronization) {
    let file_id = parts_of_block(call.block.id).0;
    blocks::want_tail(tx, file_id, None);
    tx.want(&open_file(file_id));
    tx.want(&attention(file_id));
    let view = tx.ctx.datanodes.clone();
    for storage in call.storages.iter().filter_map(|uuid| view.storage_by_uuid(uuid)) {
        replicas::want_replica(tx, call.block.id, storage.row().number);
    }
}

/// The block gets the length and the stamp that were agreed on, and the replicas that have them.
fn settle(
    tx: &mut Tx<'_, '_>,
    inode: &mut Inode,
    placed: &mut FileBlock,
    call: &CommitBlockSynchronization,
) -> Result<()> {
    let view = tx.ctx.datanodes.clone();
    let storages: Vec<u32> =
        call.storages.iter().filter_map(|uuid| Some(view.storage_by_uuid(uuid)?.row().number)).collect();
    if storages.len() < tx.ctx.config.min_replication as usize {
        let why = format!("{}: none of the storages that have it is known here; try again", call.block);
        return refuse(Kind::Io, why);
    }
    let replica = Replica {
        stamp: call.stamp,
        length: call.length,
        state: ReplicaState::Finalized as i32,
        reported_ms: tx.ctx.now_ms,
        ..Replica::default()
    };
    for storage in &storages {
        replicas::put(tx, placed.block.id, *storage, &replica)?;
    }
    let block = &mut placed.block;
    let before = std::mem::replace(&mut block.length, call.length);
    (block.stamp, block.recovery) = (call.stamp, None);
    match call.close {
        true => {
            (block.state, block.expected) = (BlockState::Complete as i32, Vec::new());
            // Who has another replica is not known here: somebody looks.
            replicas::note_attention(tx, inode.id)?;
        }
        false => (block.state, block.expected) = (BlockState::UnderConstruction as i32, storages),
    }
    blocks::count_last(inode, before, Some(&placed.block));
    blocks::put(tx, inode.id, placed)
}

//! mending a pipeline — ClientProtocol.updateBlockForPipeline, updatePipeline        (Java: FSNamesystem)
//!
//! Held    updateBlockForPipeline: the block is written, the file's inode row held. updatePipeline: both are written.
//!         The file is proved attached by inode_paths up to the root.
//! Rows    blocks 1w · inodes 1r a component, updatePipeline 1w · inode_paths 1r a component.
//! Cost    warm: 1 fetch + 1 commit; a block that came by concat 1–2 fetches more.
//! Differs stamps count up per block; a new stamp that was never given out is refused, and so is
//!         a pipeline of which no storage is known.

use trellis_metastore::schema::{Block, BlockState};

use super::blocks::{self, FileBlock};
use super::replicas::Located;
use super::write::{BlockName, check_pool};
use crate::engine::tx::Tx;
use crate::engine::walk::{Node, Walked};
use crate::refusal::{Kind, Result, refuse};

/// Storages of one block that a request may name (stock: `dfs.replication.max`).
pub const MAX_PIPELINE: usize = 512;

/// Arguments of [`update_block_for_pipeline`].
#[derive(Clone, Debug)]
pub struct UpdateBlockForPipeline {
    /// A block that is being written.
    pub block: BlockName,
    /// The client's name.
    pub holder: String,
}

/// Arguments of [`update_pipeline`].
#[derive(Clone, Debug)]
pub struct UpdatePipeline {
    /// The client's name.
    pub holder: String,
    /// The block as it was.
    pub old: BlockName,
    /// The block with its new stamp, and as long as the client knows it to be on the datanodes that are left.
    pub new: BlockName,
    /// Uuids of the storages of the new pipeline, in its order.
    pub storages: Vec<String>,
}

/// Gives out the block's next stamp, for a pipeline that is set up anew. Answers the block as the client named it, with
/// the stamp.
pub fn update_block_for_pipeline(tx: &mut Tx<'_, '_>, call: &UpdateBlockForPipeline) -> Result<Located> {
    check_pool(tx, Some(&call.block))?;
    let (node, mut placed) = written_block(tx, &call.block, &call.holder)?;
    placed.block.last_stamp += 1;
    blocks::put(tx, node.id(), &placed)?;
    let (stamp, length) = (placed.block.last_stamp, call.block.bytes);
    let block = Block { id: placed.block.id, stamp, length, ..Block::default() };
    Ok(Located { block, offset: u64::MAX, storages: Vec::new(), corrupt: false })
}

/// Notes the pipeline that writes a block from now on.
pub fn update_pipeline(tx: &mut Tx<'_, '_>, call: &UpdatePipeline) -> Result<()> {
    check_pool(tx, Some(&call.old))?;
    check_pool(tx, Some(&call.new))?;
    check_pipeline(call.storages.len())?;
    if call.old.id != call.new.id {
        return refuse(Kind::Io, format!("{} and {} are not the same block", call.old, call.new));
    }
    let (node, mut placed) = written_block(tx, &call.old, &call.holder)?;
    let block = &mut placed.block;
    if call.new.stamp <= block.stamp || call.new.bytes < block.length {
        let why = format!(
            "Update {} (size={}) to an older state: {} (size={})",
            call.old, block.length, call.new, call.new.bytes
        );
        return refuse(Kind::Io, why);
    }
    if call.new.stamp > block.last_stamp {
        return refuse(Kind::Io, format!("{}: this generation stamp was not given out", call.new));
    }
    blocks::check_length(&node.inode, block, call.new.bytes)?;
    let view = tx.ctx.datanodes.clone();
    let known = call.storages.iter().filter_map(|uuid| view.storage_by_uuid(uuid));
    block.expected = known.map(|storage| storage.row().number).collect();
    if block.expected.is_empty() && !call.storages.is_empty() {
        // Without any, a recovery would take the block for one that nobody wrote to.
        let why = format!("{}: none of the storages that write it is known here; try again", call.new);
        return refuse(Kind::Retriable, why);
    }
    let before = std::mem::replace(&mut block.length, call.new.bytes);
    block.stamp = call.new.stamp;
    let mut inode = node.inode.clone();
    blocks::count_last(&mut inode, before, Some(&placed.block));
    blocks::put(tx, node.id(), &placed)?;
    Ok(tx.put(&node.key(), &inode)?)
}

/// Refuses a request that names more storages of a block than there can be.
pub(super) fn check_pipeline(storages: usize) -> Result<()> {
    match storages <= MAX_PIPELINE {
        true => Ok(()),
        false => refuse(Kind::Io, format!("{storages} storages of one block: at most {MAX_PIPELINE}")),
    }
}

/// A block that the caller writes, with its file (stock: `checkUCBlock`).
fn written_block(tx: &mut Tx<'_, '_>, named: &BlockName, holder: &str) -> Result<(Node, FileBlock)> {
    let Some((placed, walked)) = blocks::find_with_file(tx, named.id)? else {
        return refuse(Kind::Io, format!("{named} does not exist."));
    };
    let state = match placed.block.state() {
        BlockState::UnderConstruction => None,
        BlockState::Complete => Some("COMPLETE"),
        BlockState::Committed => Some("COMMITTED"),
        BlockState::UnderRecovery => Some("UNDER_RECOVERY"),
    };
    if let Some(state) = state {
        let why = format!("Unexpected BlockUCState: {named} is {state} but not UNDER_CONSTRUCTION");
        return refuse(Kind::Io, why);
    }
    let node = walked.and_then(Walked::into_target);
    let Some((node, writer)) = node.and_then(|node| Some((node.clone(), node.inode.open?))) else {
        let why = format!(
            "The file {} belonged to does not exist or it is not under construction.",
            blocks::shown(Some(&placed.block))
        );
        return refuse(Kind::Io, why);
    };
    if writer.holder != holder {
        let why = format!("Lease mismatch: {named} is accessed by a non lease holder {holder}");
        return refuse(Kind::LeaseExpired, why);
    }
    Ok((node, placed))
}

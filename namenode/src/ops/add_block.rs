//! getting blocks — ClientProtocol.addBlock, getAdditionalDatanode         (Java: FSDirWriteFileOp, BlockManager)
//!
//! Held    the file's inode row is written (unchanged since read): it guards the list of its blocks.
//! Rows    addBlock: inodes 1w · blocks 2r, 1w, and 1w each of the two before it that is committed or completed ·
//!         replicas of those two r. getAdditionalDatanode: inodes 1r a component · replicas of the block r.
//! Cost    warm: addBlock 1 fetch + 1 commit; 1 fetch more for an attention row when the block before has fewer replicas
//!         than it should. getAdditionalDatanode 1 fetch.
//! Differs a refusal for want of datanodes goes on, in the same line, with each datanode and the reason why it was not
//!         taken. Stamps count up per block, not over the cluster.

use trellis_metastore::schema::{Block, BlockState, MAX_ORDINAL, Ordered, block, block_id};

use super::blocks::{self, FIRST_STAMP, Tail, shown};
use super::pipeline::{MAX_PIPELINE, check_pipeline};
use super::replicas::{self, Located, is_complete};
use super::write::{BlockName, WrittenFile, check_lease, check_pool, complete_penultimate, find_file};
use crate::datanodes::placement::{Placed, Wanted, choose};
use crate::datanodes::view::Liveness;
use crate::engine::tx::Tx;
use crate::engine::walk::Node;
use crate::refusal::{Kind, Result, RpcError, refuse};

/// Datanodes that a refusal names with their reasons.
const MAX_REASONS: usize = 20;

/// Arguments of [`add_block`].
#[derive(Clone, Debug)]
pub struct AddBlock {
    /// Which file.
    pub file: WrittenFile,
    /// Its last block so far, with its final length.
    pub previous: Option<BlockName>,
    /// Uuids of datanodes that the client does not want.
    pub excluded: Vec<String>,
    /// Names of datanodes that it would like, `host:port`.
    pub favored: Vec<String>,
    /// Whether the client's own datanode is no better than others.
    pub anywhere: bool,
}

/// Arguments of [`get_additional_datanode`].
#[derive(Clone, Debug)]
pub struct GetAdditionalDatanode {
    /// Which file.
    pub file: WrittenFile,
    /// The block whose pipeline lost a datanode.
    pub block: BlockName,
    /// Uuids of the storages that are left, in the order of the pipeline.
    pub existing: Vec<String>,
    /// Uuids of datanodes that the client does not want.
    pub excluded: Vec<String>,
    /// How many more are wanted.
    pub count: usize,
}

/// Commits the last block of a file and gives it another; the same call again gets the same block, while it is empty.
pub fn add_block(tx: &mut Tx<'_, '_>, call: &AddBlock) -> Result<Located> {
    check_pool(tx, call.previous.as_ref())?;
    if call.file.file_id != 0 {
        blocks::want_tail(tx, call.file.file_id, call.previous.as_ref().map(|previous| previous.id));
    }
    let (path, found) = find_file(tx, &call.file)?;
    let node = check_lease(tx, &path, found, &call.file)?;
    let mut tail = blocks::tail(tx, &node.inode)?;
    if let Some(given) = given_before(&node, &tail, &path, call.previous.as_ref())? {
        return Ok(given);
    }
    let replicas = replicas::read(tx, &tail.ids())?;
    let mut inode = node.inode.clone();
    if !complete_penultimate(tx, &inode, &mut tail, &replicas)? {
        return refuse(Kind::NotReplicatedYet, format!("Not replicated yet: {path}"));
    }
    check_limits(tx, &node)?;
    let placed = place(tx, &node, call)?;
    if let (Some(last), Some(said), Some(found)) = (tail.0.last_mut(), &call.previous, replicas.last()) {
        blocks::commit(tx, &mut inode, last, said, found)?;
    }
    let ordinal = inode.next_block;
    let offset = inode.length;
    let new = Block {
        id: block_id(inode.id, ordinal),
        stamp: FIRST_STAMP,
        state: BlockState::UnderConstruction as i32,
        last_stamp: FIRST_STAMP,
        expected: placed.storages.clone(),
        ..Block::default()
    };
    tx.insert(&block(inode.id, ordinal), &new)?;
    (inode.next_block, inode.block_count) = (ordinal + 1, inode.block_count + 1);
    blocks::count_last(&mut inode, 0, Some(&new));
    tx.put(&node.key(), &inode)?;
    Ok(Located { block: new, offset, storages: placed.storages, corrupt: false })
}

/// The block that an earlier run of the same call got. Refuses when `previous` is not the file's last block.
fn given_before(
    node: &Node,
    tail: &Tail,
    path: &str,
    previous: Option<&BlockName>,
) -> Result<Option<Located>> {
    let name = |block: &Block| (block.id, block.stamp);
    let (last, before) = (tail.last(), tail.penultimate().map(name));
    let said = previous.map(|previous| (previous.id, previous.stamp));
    if said == last.map(name) {
        return Ok(None);
    }
    let Some(last) = last else { return mismatch(path, previous, None) };
    if said.is_none() && is_complete(last) && last.length >= node.inode.block_size {
        return Ok(None);
    }
    if said != before {
        return mismatch(path, previous, Some(last));
    }
    if last.length != 0 || is_complete(last) {
        let why = format!(
            "Request looked like a retry to allocate block {} but it already contains {} bytes",
            shown(Some(last)),
            last.length
        );
        return refuse(Kind::Io, why);
    }
    let storages = last.expected.clone();
    Ok(Some(Located { block: last.clone(), offset: node.inode.length, storages, corrupt: false }))
}

fn mismatch<T>(path: &str, previous: Option<&BlockName>, last: Option<&Block>) -> Result<T> {
    let previous = previous.map_or_else(|| "null".to_owned(), BlockName::to_string);
    let why = format!(
        "Cannot allocate block in {path}: passed 'previous' block {previous} does not match actual last block in file {}",
        shown(last)
    );
    refuse(Kind::Io, why)
}

fn check_limits(tx: &Tx<'_, '_>, node: &Node) -> Result<()> {
    let (count, limit) = (node.inode.block_count, tx.ctx.config.max_blocks_per_file);
    if count >= limit {
        let why = format!(
            "File has reached the limit on maximum number of blocks (dfs.namenode.fs-limits.max-blocks-per-file): \
             {count} >= {limit}"
        );
        return refuse(Kind::Io, why);
    }
    match node.inode.next_block < MAX_ORDINAL {
        true => Ok(()),
        false => refuse(Kind::Io, "The file has drawn all the block ids that a file can have; copy it."),
    }
}

fn place(tx: &Tx<'_, '_>, node: &Node, call: &AddBlock) -> Result<Placed> {
    let machine = node.inode.open.as_ref().map_or("", |writer| &writer.machine);
    let wanted = Wanted {
        count: node.inode.replication as usize,
        bytes: node.inode.block_size,
        machine: if call.anywhere { "" } else { machine },
        excluded: &call.excluded,
        taken: &[],
        favored: &call.favored,
    };
    replicas::check_ready(tx)?;
    let placed = choose(&tx.ctx.datanodes, tx.ctx.seed, &wanted);
    let least = tx.ctx.config.min_replication as usize;
    match placed.storages.len() >= least.max(1) {
        true => Ok(placed),
        false => Err(no_place(tx, call, &placed).into()),
    }
}

/// Why there is no place for a block: stock's sentence, then each datanode with its reason.
fn no_place(tx: &Tx<'_, '_>, call: &AddBlock, placed: &Placed) -> RpcError {
    let running = tx.ctx.datanodes.nodes().iter().filter(|node| node.liveness != Liveness::Dead).count();
    let mut why = format!(
        "File {} could only be written to {} of the {} minReplication nodes. There are {running} datanode(s) running \
         and {} node(s) are excluded in this operation.",
        call.file.path.text(),
        placed.storages.len(),
        tx.ctx.config.min_replication,
        call.excluded.len()
    );
    for (datanode, reason) in placed.refusals.iter().take(MAX_REASONS) {
        why.push_str(&format!(" {datanode}: {reason}."));
    }
    if placed.refusals.len() > MAX_REASONS {
        why.push_str(&format!(" And {} more.", placed.refusals.len() - MAX_REASONS));
    }
    RpcError::new(Kind::Io, why)
}

/// More datanodes for the pipeline of a block; answers those that are left and then as many of the wanted as there are.
/// One that is yet to delete a replica of the block, or to get a copy, is not chosen: it would lose what the pipeline
/// gives it, or refuse it.
pub fn get_additional_datanode(tx: &mut Tx<'_, '_>, call: &GetAdditionalDatanode) -> Result<Located> {
    replicas::want(tx, &[call.block.id]);
    let (path, found) = find_file(tx, &call.file)?;
    let node = check_lease(tx, &path, found, &call.file)?;
    check_pool(tx, Some(&call.block))?;
    replicas::check_ready(tx)?;
    let view = tx.ctx.datanodes.clone();
    check_pipeline(call.existing.len())?;
    let mut storages = Vec::new();
    for uuid in &call.existing {
        match view.storage_by_uuid(uuid) {
            Some(storage) => storages.push(storage.row().number),
            None => return refuse(Kind::Io, format!("The storage {uuid} is not known.")),
        }
    }
    let found = replicas::read(tx, &[call.block.id])?.pop().unwrap_or_default();
    let ordered = found.iter().filter(|found| found.replica.ordered() != Ordered::Nothing);
    let taken: Vec<u32> = storages.iter().copied().chain(ordered.map(|found| found.storage)).collect();
    let wanted = Wanted {
        count: call.count.min(MAX_PIPELINE),
        bytes: node.inode.block_size,
        machine: node.inode.open.as_ref().map_or("", |writer| &writer.machine),
        excluded: &call.excluded,
        taken: &taken,
        favored: &[],
    };
    let more = choose(&view, tx.ctx.seed, &wanted).storages;
    storages.extend(more);
    let block =
        Block { id: call.block.id, stamp: call.block.stamp, length: call.block.bytes, ..Block::default() };
    Ok(Located { block, offset: u64::MAX, storages, corrupt: false })
}

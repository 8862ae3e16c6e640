//! The blocks of a file and what its inode row says of them: the parts that several operations share. Not an operation
//! itself.
//!
//! The inode row guards the list: whoever adds or takes away a block, or changes a length, writes the inode row too.
//! Only the last block and the one before it can be unfinished.

use trellis_metastore::change::Hold;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::{
    Block, BlockFile, BlockState, Blocks, Inode, Kind as InodeKind, Ordered, Table, block, block_file,
    block_id, hidden_inode, ordinal_in, parts_of_block,
};
use trellis_metastore::tx::{Record, Stop};

use super::replicas::{self, Found, Worth, is_complete, storages_of};
use super::write::BlockName;
use crate::engine::tx::Tx;
use crate::engine::walk::Walked;
use crate::refusal::{Halt, Kind, Result, refuse};

/// The stamp of a new block, as in stock.
pub const FIRST_STAMP: u64 = 1001;
/// Blocks read at a time where a whole file is gone through.
pub(super) const PAGE: u32 = 1000;

/// A block and its place among the blocks of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileBlock {
    /// Its ordinal in the file that has it.
    pub ordinal: u32,
    /// The block.
    pub block: Block,
}

/// A block in messages, as stock prints it: `blk_ID_STAMP`.
pub(super) fn shown(block: Option<&Block>) -> String {
    block.map_or_else(|| "null".to_owned(), |block| format!("blk_{}_{}", block.id, block.stamp))
}

/// The last blocks of a file, the last one last: at most two.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tail(pub Vec<FileBlock>);

impl Tail {
    /// The last block.
    pub fn last(&self) -> Option<&Block> {
        self.0.last().map(|last| &last.block)
    }

    /// The block before the last.
    pub fn penultimate(&self) -> Option<&Block> {
        self.0.len().checked_sub(2).map(|i| &self.0[i].block)
    }

    /// Their ids.
    pub fn ids(&self) -> Vec<u64> {
        self.0.iter().map(|placed| placed.block.id).collect()
    }
}

fn tail_scan(file_id: u64) -> Scan {
    Scan::of(Blocks::ID, file_id, 2).reverse()
}

/// Asks for the last blocks of a file and, if they are the usual ones before and at `last`, their replicas.
pub fn want_tail(tx: &mut Tx<'_, '_>, file_id: u64, last: Option<u64>) {
    tx.want_scan(&tail_scan(file_id));
    if let Some(last) = last {
        let (inode, ordinal) = parts_of_block(last);
        let before = ordinal.checked_sub(1).map(|ordinal| block_id(inode, ordinal));
        replicas::want(tx, &[before, Some(last)].into_iter().flatten().collect::<Vec<_>>());
    }
}

/// The last blocks of a file.
pub fn tail(tx: &mut Tx<'_, '_>, inode: &Inode) -> Result<Tail> {
    if inode.block_count == 0 {
        return Ok(Tail::default());
    }
    let mut rows = placed(tx.scan_all::<Blocks>(&[tail_scan(inode.id)])?.pop().unwrap_or_default());
    rows.reverse();
    match rows.len() == inode.block_count.min(2) as usize {
        true => Ok(Tail(rows)),
        false => Err(Stop::Stale.into()),
    }
}

/// All blocks of a file past an ordinal, in their order; `after` none = from the first.
pub fn all_after(tx: &mut Tx<'_, '_>, inode: &Inode, after: Option<u32>) -> Result<Vec<FileBlock>> {
    let (mut blocks, mut after): (Vec<FileBlock>, _) = (Vec::new(), after);
    loop {
        let page = page_after(tx, inode.id, after, PAGE)?;
        let short = page.len() < PAGE as usize;
        after = page.last().map(|last| last.ordinal);
        blocks.extend(page);
        if short {
            return Ok(blocks);
        }
    }
}

/// The scan for a page of the blocks of a file, past an ordinal.
pub fn page_scan(file_id: u64, after: Option<u32>, limit: u32) -> Scan {
    let scan = Scan::of(Blocks::ID, file_id, limit);
    match after {
        None => scan,
        Some(ordinal) => scan.after(&ordinal.to_be_bytes()),
    }
}

/// A page of the blocks of a file, past an ordinal.
pub fn page_after(
    tx: &mut Tx<'_, '_>,
    file_id: u64,
    after: Option<u32>,
    limit: u32,
) -> Result<Vec<FileBlock>> {
    Ok(placed(tx.scan_all::<Blocks>(&[page_scan(file_id, after, limit)])?.pop().unwrap_or_default()))
}

/// Rows of blocks with the ordinals in their keys.
pub(super) fn placed(rows: Vec<(Vec<u8>, Record<Blocks>)>) -> Vec<FileBlock> {
    let placed = |(key, row): (Vec<u8>, Record<Blocks>)| {
        Some(FileBlock { ordinal: ordinal_in(&key)?, block: row.value })
    };
    rows.into_iter().filter_map(placed).collect()
}

/// Blocks by their ids, wherever they are now, each with the file that has it; `None` of one that is gone. `absent` hears
/// of those that are not where their ids say, before they are looked for elsewhere.
pub fn find(
    tx: &mut Tx<'_, '_>,
    ids: &[u64],
    hold: Hold,
    absent: impl Fn(&mut Tx<'_, '_>, u64),
) -> Result<Vec<Option<(u64, FileBlock)>>> {
    // Another block lies there when concat brought it, and this id was never given out.
    let its = |id: u64, (file_id, ordinal): (u64, u32), row: Option<Record<Blocks>>| {
        let block = row?.value;
        (block.id == id).then_some((file_id, FileBlock { ordinal, block }))
    };
    let places: Vec<(u64, u32)> = ids.iter().map(|id| parts_of_block(*id)).collect();
    let keys: Vec<_> = places.iter().map(|(file_id, ordinal)| block(*file_id, *ordinal)).collect();
    let rows = tx.get_all(&keys, hold)?.into_iter();
    let mut found: Vec<_> =
        rows.zip(places).zip(ids).map(|((row, place), id)| its(*id, place, row)).collect();
    let absents: Vec<usize> = (0..ids.len()).filter(|i| found[*i].is_none()).collect();
    absents.iter().for_each(|i| absent(tx, ids[*i]));
    let files: Vec<_> = absents.iter().map(|i| block_file(ids[*i])).collect();
    let files = absents.into_iter().zip(tx.get_all(&files, hold)?);
    let moved: Vec<(usize, BlockFile)> = files.filter_map(|(i, row)| Some((i, row?.value))).collect();
    let keys: Vec<_> = moved.iter().map(|(_, to)| block(to.inode, to.ordinal)).collect();
    for ((i, to), row) in moved.into_iter().zip(tx.get_all(&keys, hold)?) {
        found[i] = its(ids[i], (to.inode, to.ordinal), row);
    }
    Ok(found)
}

/// A block by its id, with the attached file that has it; no permission is checked. The inode row is held.
pub fn find_with_file(tx: &mut Tx<'_, '_>, id: u64) -> Result<Option<(FileBlock, Option<Walked>)>> {
    let (inode, ordinal) = parts_of_block(id);
    tx.want(&block(inode, ordinal));
    let hinted = tx.walk_id(inode);
    let Some((file_id, found)) = find(tx, &[id], Hold::Held, |_, _| {})?.pop().flatten() else {
        return Ok(None);
    };
    let walked = if file_id == inode { hinted? } else { tx.walk_id(file_id)? };
    if let Some(node) = walked.as_ref().and_then(Walked::target) {
        tx.get(&node.key(), Hold::Held)?;
    }
    Ok(Some((found, walked)))
}

/// Writes a changed block.
pub fn put(tx: &mut Tx<'_, '_>, file_id: u64, placed: &FileBlock) -> Result<()> {
    let key = block(file_id, placed.ordinal);
    match tx.get(&key, Hold::Held)? {
        Some(row) if row.value == placed.block => Ok(()),
        Some(_) => Ok(tx.put(&key, &placed.block)?),
        None => Err(Stop::Stale.into()),
    }
}

/// Notes in the inode how long the last block is now; `before`: how long it was, 0 = it was not counted yet.
pub fn count_last(inode: &mut Inode, before: u64, last: Option<&Block>) {
    let length = last.map_or(0, |last| last.length);
    inode.length = inode.length.saturating_sub(before).saturating_add(length);
    inode.unfinished = last.filter(|last| !is_complete(last)).map(|last| last.length);
}

/// Takes a writer's word for the length of the last block of its file, and completes it if enough replicas are
/// reported (stock: `commitOrCompleteLastBlock`). Changes the inode, which the caller writes.
pub fn commit(
    tx: &mut Tx<'_, '_>,
    inode: &mut Inode,
    last: &mut FileBlock,
    said: &BlockName,
    found: &[Found],
) -> Result<()> {
    let block = &mut last.block;
    match block.state() {
        BlockState::Complete => return Ok(()),
        BlockState::UnderRecovery => {
            let why = format!("Commit or complete block {said}, whereas it is under recovery.");
            return refuse(Kind::Io, why);
        }
        BlockState::Committed => {}
        BlockState::UnderConstruction => {
            if (block.id, block.stamp) != (said.id, said.stamp) {
                let why = format!(
                    "Commit block with mismatching GS. NN has {}, client submits blk_{}_{}",
                    shown(Some(block)),
                    said.id,
                    said.stamp
                );
                return refuse(Kind::Io, why);
            }
            check_length(inode, block, said.bytes)?;
            let before = block.length;
            (block.length, block.state) = (said.bytes, BlockState::Committed as i32);
            count_last(inode, before, Some(block));
        }
    }
    if complete(tx, inode, last, found)? {
        inode.unfinished = None;
    }
    put(tx, inode.id, last)
}

/// Whether a writer may say that its last block is so long.
pub fn check_length(inode: &Inode, block: &Block, bytes: u64) -> Result<()> {
    if bytes < block.length || bytes > inode.block_size.max(block.length) {
        let why = format!(
            "{} has {} of at most {} bytes: it cannot have {bytes}",
            shown(Some(block)),
            block.length,
            inode.block_size
        );
        return refuse(Kind::Io, why);
    }
    Ok(())
}

/// Completes a committed block if enough replicas are reported; says whether it is complete. Does not write it.
pub fn complete(tx: &mut Tx<'_, '_>, inode: &Inode, placed: &mut FileBlock, found: &[Found]) -> Result<bool> {
    let block = &mut placed.block;
    if block.state() != BlockState::Committed {
        return Ok(is_complete(block));
    }
    let view = tx.ctx.datanodes.clone();
    let live = storages_of(&view, block, found, Worth::Live);
    if live.len() < tx.ctx.config.min_replication as usize {
        return Ok(false);
    }
    block.state = BlockState::Complete as i32;
    block.expected.retain(|storage| !live.contains(storage));
    block.recovery = None;
    let corrupt = !storages_of(&view, block, found, Worth::Corrupt).is_empty();
    // What was ordered before the block was opened again is waited for no longer.
    let is_ordered = found.iter().any(|found| found.replica.ordered() != Ordered::Nothing);
    if live.len() != inode.replication as usize || corrupt || is_ordered {
        replicas::note_attention(tx, inode.id)?;
    }
    Ok(true)
}

/// Asks for the rows that [`move_block`] needs.
pub fn want_moves(tx: &mut Tx<'_, '_>, file_id: u64, blocks: &[FileBlock]) {
    for placed in blocks {
        tx.want(&block(file_id, placed.ordinal));
        tx.want(&block_file(placed.block.id));
    }
}

/// Moves a block of one file to a place in another, and says beside its replicas where it is now.
pub fn move_block(
    tx: &mut Tx<'_, '_>,
    (source, placed): (u64, &FileBlock),
    (target, ordinal): (u64, u32),
) -> Result<()> {
    let (key, file) = (block(source, placed.ordinal), block_file(placed.block.id));
    if tx.get(&key, Hold::Held)?.is_none() {
        return Err(Halt::Stop(Stop::Stale));
    }
    let moved_before = tx.get(&file, Hold::Loose)?.is_some();
    tx.delete(&key)?;
    tx.insert(&block(target, ordinal), &placed.block)?;
    let place = BlockFile { inode: target, ordinal };
    match moved_before {
        true => Ok(tx.put(&file, &place)?),
        false => Ok(tx.insert(&file, &place)?),
    }
}

/// Takes blocks out of a file: they go under the hidden parent, as blocks of a nameless file with the id `hidden`, for
/// the reaper. Changes no inode row of the file they were in.
pub fn discard(tx: &mut Tx<'_, '_>, file_id: u64, hidden: u64, blocks: &[FileBlock]) -> Result<()> {
    let Some(last) = blocks.last() else { return Ok(()) };
    want_moves(tx, file_id, blocks);
    for placed in blocks {
        move_block(tx, (file_id, placed), (hidden, placed.ordinal))?;
    }
    let nameless = Inode {
        id: hidden,
        kind: InodeKind::File as i32,
        mtime_ms: tx.ctx.now_ms,
        length: blocks.iter().map(|placed| placed.block.length).fold(0, u64::saturating_add),
        block_count: blocks.len() as u32,
        next_block: last.ordinal.saturating_add(1),
        unfinished: Some(&last.block).filter(|last| !is_complete(last)).map(|last| last.length),
        ..Inode::default()
    };
    tx.insert(&hidden_inode(hidden), &nameless)?;
    tx.detached = true;
    Ok(())
}

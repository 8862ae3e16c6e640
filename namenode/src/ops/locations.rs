//! locations — ClientProtocol.getBlockLocations; the blocks in located listings and statuses
//!                                                   (Java: FSDirStatAndListingOp, FSDirAttrOp, BlockManager)
//!
//! Held    nothing. touch_access_time: the file's row is written.
//! Rows    inodes 1r a component · blocks r from the first to the end of the range · replicas r of the blocks of the
//!         range, and up to 64 rows more; touch_access_time inodes 1w.
//! Cost    warm: 1 fetch for the first 15 blocks of a file. 1 fetch more beyond, past each 1000 blocks, and for blocks
//!         that came by concat. Once per file and hour 1 fetch + 1 commit more, for the access time, which the answer
//!         waits for, as stock's does. Located listings: 1 fetch more than others.
//! Differs replicas on dead datanodes are not told, those on stale ones after others.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use trellis_metastore::change::Hold;
use trellis_metastore::schema::{Block, Inode, block_id};
use trellis_metastore::tx::Stop;

use super::blocks::{self, FileBlock};
use super::replicas::{self, Found, Located, Worth, is_complete, storages_of};
use super::status::file_of;
use crate::datanodes::view::Liveness;
use crate::engine::permission::READ;
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Target};
use crate::path::Path;
use crate::refusal::{Halt, Kind, Result, refuse};

/// Blocks that are read of a file at first.
const FIRST_BLOCKS: u32 = 64;

/// The blocks of a file, and where they are.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FileBlocks {
    /// Length of the file without a last block that is being written, in bytes.
    pub length: u64,
    /// Whether somebody writes it.
    pub under_construction: bool,
    /// The blocks of the range that was asked for.
    pub blocks: Vec<Located>,
    /// The file's last block.
    pub last_block: Option<Located>,
    /// Whether the last block is complete; false without one.
    pub last_block_complete: bool,
}

/// Arguments of [`get_block_locations`].
#[derive(Clone, Debug)]
pub struct GetBlockLocations {
    /// The file.
    pub path: Path,
    /// Start of the range, in bytes.
    pub offset: i64,
    /// Length of the range, in bytes.
    pub length: i64,
}

/// What [`get_block_locations`] answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// The blocks.
    pub blocks: FileBlocks,
    /// The file whose access time is due to be moved before this is answered: see [`touch_access_time`].
    pub access_time_due: Option<u64>,
}

/// Where the blocks of a file are; counts as a read of the file.
pub fn get_block_locations(tx: &mut Tx<'_, '_>, call: &GetBlockLocations) -> Result<Opened> {
    let number = |what: &str, number: i64| match u64::try_from(number) {
        Ok(number) => Ok(number),
        Err(_) => {
            let why = format!("Negative {what} is not supported. File: {}", call.path.text());
            refuse(Kind::IllegalArgument, why)
        }
    };
    let (offset, length) = (number("offset", call.offset)?, number("length", call.length)?);
    want_located(tx, &call.path);
    let inode = match tx.pass_to(&call.path, READ)?.filter(|node| !node.is_dir()) {
        Some(node) => node.inode,
        None => readable_file(tx, &call.path)?,
    };
    let access_time_due = is_due(tx, &inode).then_some(inode.id);
    Ok(Opened { blocks: locate(tx, &inode, offset, length)?, access_time_due })
}

/// The file at a path, which the caller may read. Stock looks at what is there before it looks at who asks.
fn readable_file(tx: &mut Tx<'_, '_>, path: &Path) -> Result<Inode> {
    let walked = tx.walk_unchecked(Target::new(path, DirOp::Read))?;
    let depth = walked.path.components().len();
    let inode = file_of(&walked, &walked.path_of(depth))?.clone();
    tx.check_way(&walked, DirOp::Read)?;
    tx.check_access(&walked, depth, READ)?;
    Ok(inode)
}

/// Asks for what [`locate`] will read first of the file at a path, as far as the hints know it.
pub(super) fn want_located(tx: &mut Tx<'_, '_>, path: &Path) {
    if let Some(id) = tx.hinted_id(path) {
        want(tx, id);
    }
}

/// Asks for what [`locate`] reads first.
fn want(tx: &mut Tx<'_, '_>, id: u64) {
    tx.want_scan(&blocks::page_scan(id, None, FIRST_BLOCKS));
    replicas::want(tx, &[block_id(id, 0)]);
}

/// All blocks of several files, as far as they have any.
pub fn locate_all(tx: &mut Tx<'_, '_>, files: &[&Inode]) -> Result<Vec<FileBlocks>> {
    for file in files.iter().filter(|file| file.block_count > 0) {
        want(tx, file.id);
    }
    let located: Vec<Result<FileBlocks>> = files.iter().map(|file| locate(tx, file, 0, u64::MAX)).collect();
    if located.iter().any(|located| matches!(located, Err(Halt::Stop(Stop::Miss)))) {
        return Err(Stop::Miss.into());
    }
    located.into_iter().collect()
}

/// The blocks of a file from the one with the byte at `offset` on, as far as they begin within `length` bytes; and its
/// last block.
pub fn locate(tx: &mut Tx<'_, '_>, inode: &Inode, offset: u64, length: u64) -> Result<FileBlocks> {
    let mut file = FileBlocks {
        length: inode.length - inode.unfinished.unwrap_or(0).min(inode.length),
        under_construction: inode.open.is_some(),
        ..FileBlocks::default()
    };
    if inode.block_count == 0 {
        return Ok(file);
    }
    replicas::check_ready(tx)?;
    let (mut chosen, last) = range(tx, inode, offset, offset.saturating_add(length))?;
    let in_range = chosen.len();
    if chosen.last().is_none_or(|(_, placed)| *placed != last.1) {
        chosen.push(last);
    }
    let ids: Vec<u64> = chosen.iter().map(|(_, placed)| placed.block.id).collect();
    let found = replicas::read(tx, &ids)?;
    let mut located: Vec<Located> = Vec::with_capacity(chosen.len());
    for ((offset, placed), found) in chosen.into_iter().zip(&found) {
        located.push(place(tx, placed.block, offset, found));
    }
    file.last_block = located.last().cloned();
    file.last_block_complete = file.last_block.as_ref().is_some_and(|last| is_complete(&last.block));
    located.truncate(in_range);
    file.blocks = located;
    Ok(file)
}

/// Blocks with their offsets.
type Placed = (u64, FileBlock);

/// The blocks of a range of bytes, and the last block of the file. Blocks are gone through from the first: they may be
/// of any length.
fn range(tx: &mut Tx<'_, '_>, inode: &Inode, from: u64, end: u64) -> Result<(Vec<Placed>, Placed)> {
    let (mut chosen, mut start, mut after) = (Vec::new(), 0u64, None);
    let mut limit = FIRST_BLOCKS;
    loop {
        let page = blocks::page_after(tx, inode.id, after, limit)?;
        let is_last = page.len() < limit as usize;
        (after, limit) = (page.last().map(|last| last.ordinal), blocks::PAGE);
        let mut last = None;
        for placed in page {
            let next = start.saturating_add(placed.block.length);
            let begun = !chosen.is_empty();
            if (from < next && !begun && from >= start) || (begun && start < end) {
                chosen.push((start, placed.clone()));
            }
            last = Some((start, placed));
            start = next;
        }
        match last {
            Some(last) if is_last => return Ok((chosen, last)),
            Some(_) if start < end => {}
            Some(_) => {
                let last = blocks::tail(tx, inode)?.0.pop().ok_or(Stop::Stale)?;
                return Ok((chosen, (inode.length.saturating_sub(last.block.length), last)));
            }
            None => return Err(Stop::Stale.into()),
        }
    }
}

/// Where readers find a block (stock: `createLocatedBlock`).
fn place(tx: &Tx<'_, '_>, block: Block, offset: u64, found: &[Found]) -> Located {
    let view = &tx.ctx.datanodes;
    let mut corrupt = false;
    let storages = match is_complete(&block) {
        false => block.expected.clone(),
        true => {
            let mut good = storages_of(view, &block, found, Worth::Live);
            if good.is_empty() {
                // They may be there still, until somebody looks and takes that back.
                good = storages_of(view, &block, found, Worth::Leaving);
            }
            let bad = storages_of(view, &block, found, Worth::Corrupt);
            corrupt = good.is_empty() && !bad.is_empty();
            if corrupt { bad } else { good }
        }
    };
    Located { storages: sorted(tx, block.id, storages), block, offset, corrupt }
}

/// Storages in the order in which a caller should ask them: its own machine first, stale ones last, dead ones not at
/// all; else by chance, so that readers spread.
fn sorted(tx: &Tx<'_, '_>, block_id: u64, mut storages: Vec<u32>) -> Vec<u32> {
    let (view, machine) = (&tx.ctx.datanodes, &*tx.ctx.machine);
    storages.shuffle(&mut SmallRng::seed_from_u64(tx.ctx.seed ^ block_id));
    let rank = |number: u32| {
        let storage = view.storage(number).filter(|storage| storage.is_alive())?;
        let node = storage.node;
        let is_local = node.row.ip == machine || node.row.host == machine;
        Some((node.liveness == Liveness::Stale, !is_local))
    };
    let mut ranked: Vec<_> =
        storages.into_iter().filter_map(|storage| Some((rank(storage)?, storage))).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, storage)| storage).collect()
}

/// Whether a read of a file moves its access time.
fn is_due(tx: &Tx<'_, '_>, inode: &Inode) -> bool {
    let precision = i64::try_from(tx.ctx.config.atime_precision.as_millis()).unwrap_or(i64::MAX);
    precision > 0 && tx.ctx.now_ms > inode.atime_ms.saturating_add(precision)
}

/// Moves the access time of a file that was read, if it is still there and still due; says whether it did. The caller
/// of the read gets its answer whatever comes of this.
pub fn touch_access_time(tx: &mut Tx<'_, '_>, id: u64) -> Result<bool> {
    let Some(walked) = tx.walk_id(id)? else { return Ok(false) };
    let Some(node) = walked.target().filter(|node| !node.is_dir() && is_due(tx, &node.inode)) else {
        return Ok(false);
    };
    tx.get(&node.key(), Hold::Held)?;
    tx.put(&node.key(), &Inode { atime_ms: tx.ctx.now_ms, ..node.inode.clone() })?;
    Ok(true)
}

//! truncate — ClientProtocol.truncate                                              (Java: FSDirTruncateOp)
//!
//! Whole blocks behind the new end go at once, to the reaper. A block that the end lies in is cut by a recovery, in
//! place: the file stays open until a datanode says that it is done.
//!
//! Held    the file's inode row is written, with every block that goes or is cut.
//! Rows    inodes 1r a component, 1w · blocks of the file r; per block that goes blocks 2w · block_files 1w; inodes
//!         1w (hidden). Inside a block:
//!         blocks 1w · replicas of it r · commands 1w · attention 1w · open_files 1w · lease_holders 1m. retry_cache 1w.
//! Cost    warm: 2 fetches + 1 commit; inside a block 3 fetches + 1 commit; 1 fetch more for every further 1000 blocks.
//! Differs a repeat gets the first answer (stock runs it again). One that closes the file of a writer past the soft limit
//!         is told to try again. At most 10 000 blocks go at once; more is refused, and can be cut off in steps. What goes
//!         goes whole: that one commit may write 30 000 rows, where a group of several operations fetches 4000 at most.

use trellis_metastore::change::Hold;
use trellis_metastore::schema::{Inode, lease_holder, open_file};

use super::append::{holders, reopen, write_on};
use super::blocks::{self, FileBlock};
use super::lease::{TakenOver, recovering, take_over};
use super::recovery::recover;
use super::replicas::{self, Worth, storages_of};
use super::status::file_of;
use crate::engine::permission::{Demand, WRITE};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Node, Target};
use crate::path::Path;
use crate::policy;
use crate::refusal::{Kind, Result, refuse};

/// Blocks that one call takes off.
pub const MAX_BLOCKS: usize = 10_000;

/// Arguments of [`truncate`].
#[derive(Clone, Debug)]
pub struct Truncate {
    /// The file.
    pub path: Path,
    /// Its new length in bytes.
    pub length: i64,
    /// The client's name.
    pub holder: String,
}

/// Makes a file shorter. True when that is done; false when a block has to be cut first, which goes on.
pub fn truncate(tx: &mut Tx<'_, '_>, call: &Truncate) -> Result<bool> {
    let Ok(length) = u64::try_from(call.length) else {
        let why = format!("Cannot truncate to a negative file size: {}.", call.length);
        return refuse(Kind::HadoopIllegalArgument, why);
    };
    if let Some(id) = tx.hinted_id(&call.path) {
        tx.want_scan(&blocks::page_scan(id, None, blocks::PAGE));
        tx.want(&open_file(id));
        tx.want(&lease_holder(&call.holder));
    }
    let walked = tx.walk_one(Target::new(&call.path, DirOp::Write))?;
    tx.check(&walked, Demand { target: WRITE, ..Demand::default() })?;
    let shown = call.path.text();
    file_of(&walked, shown)?;
    let Some(node) = walked.into_target() else {
        return refuse(Kind::FileNotFound, format!("File does not exist: {shown}"));
    };
    if node.inode.policy == policy::LAZY_PERSIST {
        return refuse(Kind::UnsupportedOperation, format!("Cannot truncate lazy persist file {shown}"));
    }
    if is_being_cut(tx, &node.inode, length)? {
        tx.came_to(&node.inode);
        return Ok(false);
    }
    if let TakenOver::Closed(..) = take_over(tx, "TRUNCATE_FILE", shown, &node, &call.holder)? {
        // Its blocks are read by the next try.
        return recovering(tx, "TRUNCATE_FILE", shown, &call.holder);
    }
    if length > node.inode.length {
        let why = format!(
            "Cannot truncate to a larger file size. Current size: {}, truncate size: {length}.",
            node.inode.length
        );
        return refuse(Kind::HadoopIllegalArgument, why);
    }
    if length == node.inode.length {
        tx.came_to(&node.inode);
        return Ok(true);
    }
    cut(tx, &node, length, &call.holder)
}

/// Whether the file is being cut to this very length.
fn is_being_cut(tx: &mut Tx<'_, '_>, inode: &Inode, length: u64) -> Result<bool> {
    if inode.open.is_none() {
        return Ok(false);
    }
    let tail = blocks::tail(tx, inode)?;
    let Some(last) = tail.last() else { return Ok(false) };
    let cut_to = last.recovery.as_ref().and_then(|recovery| recovery.cut_to);
    let before = inode.length.saturating_sub(last.length);
    Ok(cut_to.is_some_and(|cut_to| before.saturating_add(cut_to) == length))
}

/// Takes off what lies behind `length`, which is less than the file has. True when no block has to be cut for it.
fn cut(tx: &mut Tx<'_, '_>, node: &Node, length: u64, holder: &str) -> Result<bool> {
    let mut inode = node.inode.clone();
    let blocks = blocks::all_after(tx, &inode, None)?;
    let (mut start, mut keep) = (0, 0);
    for placed in &blocks {
        if start >= length {
            break;
        }
        (start, keep) = (start + placed.block.length, keep + 1);
    }
    let (kept, gone) = blocks.split_at(keep);
    inode.block_count = kept.len() as u32;
    inode.length = start;
    inode.mtime_ms = tx.ctx.now_ms;
    tx.came_to(&inode);
    let inside = match kept.last() {
        Some(last) if start > length => Some((last.clone(), last.block.length - (start - length))),
        _ => None,
    };
    // What is read must be read before anything is written.
    let found = match &inside {
        Some((last, _)) => replicas::read(tx, &[last.block.id])?.pop().unwrap_or_default(),
        None => Vec::new(),
    };
    if gone.len() > MAX_BLOCKS {
        let why = format!("truncate: {} blocks; at most {MAX_BLOCKS} at once: cut it in steps", gone.len());
        return refuse(Kind::Io, why);
    }
    if !gone.is_empty() {
        blocks::discard(tx, inode.id, tx.ctx.new_id(1)?, gone)?;
    }
    let Some((last, cut_to)) = inside else {
        tx.get(&node.key(), Hold::Held)?;
        tx.put(&node.key(), &inode)?;
        return Ok(true);
    };
    cut_inside(tx, node, inode, (last, cut_to), &found, holder)?;
    Ok(false)
}

/// Has the last block cut, in place. The file is open until that is done.
fn cut_inside(
    tx: &mut Tx<'_, '_>,
    node: &Node,
    mut inode: Inode,
    (mut last, cut_to): (FileBlock, u64),
    found: &[replicas::Found],
    holder: &str,
) -> Result<()> {
    let live = storages_of(&tx.ctx.datanodes, &last.block, found, Worth::Live);
    let storages = holders(tx, &node.inode, &last.block, found, live);
    write_on(tx, &mut inode, &mut last, storages.clone())?;
    recover(tx, inode.id, &mut last, storages, None, Some(cut_to))?;
    reopen(tx, node, &mut inode, holder)
}

//! Calls of a file's writer — ClientProtocol.complete, abandonBlock, fsync; getting blocks: add_block, pipeline
//!                                                              (Java: FSDirWriteFileOp, FSNamesystem.checkLease)
//!
//! Held    the file's inode row is written (unchanged since read) whenever a block or length of it changes; complete
//!         deletes its open_files row. By id, the file is proved attached: by the chain that the path names or, when
//!         that does not end in the id, by inode_paths up to the root; so a call on a deleted file finds nothing.
//! Rows    complete: inodes 1w · open_files 1w · blocks 2r 1w · replicas of the last two blocks r · attention 1w unless
//!         as many replicas are there as there should be. abandonBlock: inodes 1w · blocks 2w · block_files 1w · inodes 1w
//!         (hidden).
//!         fsync: inodes 1w · blocks 1w when the last block grew.
//! Cost    warm: complete 1 fetch + 1 commit, 1 fetch more for an attention row; abandonBlock and fsync 1 fetch, + 1
//!         commit when something changes; a refusal 1 fetch more (the holder's lease, for the message); a path that no
//!         longer leads to the id: 1 fetch more, cold 1 a level.
//! Differs a writer's length of its last block never goes back, nor beyond the block size (stock asserts, or takes it).
//!         abandonBlock leaves a block alone that was committed. Messages name a holder's lease without the number of its
//!         open files, which every open and close would have to count in the holder's row; and a holder that has closed
//!         them all still has one, until it expires.

use std::fmt;

use trellis_metastore::schema::{Block, BlockState, Inode, block_file, open_file};

use super::blocks::{self, Tail};
use super::lease::{close_file, describe_lease};
use super::replicas::{self, Found, is_complete};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Node, Target};
use crate::path::Path;
use crate::refusal::{Kind, Result, refuse};

/// A block as clients name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockName {
    /// Block pool id.
    pub pool: String,
    /// Block id.
    pub id: u64,
    /// Generation stamp.
    pub stamp: u64,
    /// Length in bytes, as the client knows it.
    pub bytes: u64,
}

impl fmt::Display for BlockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:blk_{}_{}", self.pool, self.id, self.stamp)
    }
}

/// The file that a writer speaks of.
#[derive(Clone, Debug)]
pub struct WrittenFile {
    /// Where the client believes it to be.
    pub path: Path,
    /// Its inode id; 0 = the client knows none, the path counts.
    pub file_id: u64,
    /// The client's name.
    pub holder: String,
}

/// Arguments of [`complete`].
#[derive(Clone, Debug)]
pub struct Complete {
    /// Which file.
    pub file: WrittenFile,
    /// Its last block.
    pub last: Option<BlockName>,
}

/// Arguments of [`abandon_block`].
#[derive(Clone, Debug)]
pub struct AbandonBlock {
    /// Which file.
    pub file: WrittenFile,
    /// The block that the client gives up.
    pub block: BlockName,
}

/// Arguments of [`fsync`].
#[derive(Clone, Debug)]
pub struct Fsync {
    /// Which file.
    pub file: WrittenFile,
    /// Length of its last block as the client knows it; negative = it says nothing.
    pub last_block_length: i64,
}

/// Closes a file once all of its blocks are complete; false while one waits for replicas to be reported. True also for
/// a repeat after it was closed.
pub fn complete(tx: &mut Tx<'_, '_>, call: &Complete) -> Result<bool> {
    check_pool(tx, call.last.as_ref())?;
    if call.file.file_id != 0 {
        tx.want(&open_file(call.file.file_id));
        blocks::want_tail(tx, call.file.file_id, call.last.as_ref().map(|last| last.id));
    }
    let (path, found) = find_file(tx, &call.file)?;
    if let Some(node) = found.as_ref().filter(|node| !node.is_dir() && node.inode.open.is_none()) {
        let tail = blocks::tail(tx, &node.inode)?;
        let name = |block: &Block| (block.id, block.stamp);
        if tail.last().map(name) == call.last.as_ref().map(|last| (last.id, last.stamp)) {
            return Ok(true);
        }
    }
    let node = check_lease(tx, &path, found, &call.file)?;
    let mut tail = blocks::tail(tx, &node.inode)?;
    let replicas = replicas::read(tx, &tail.ids())?;
    let mut inode = node.inode.clone();
    if !complete_penultimate(tx, &inode, &mut tail, &replicas)? {
        return Ok(false);
    }
    if let (Some(last), Some(said), Some(found)) = (tail.0.last_mut(), &call.last, replicas.last()) {
        blocks::commit(tx, &mut inode, last, said, found)?;
    }
    if tail.last().is_some_and(|last| !is_complete(last)) {
        if inode != node.inode {
            tx.put(&node.key(), &inode)?;
        }
        return Ok(false);
    }
    close_file(tx, &Node { inode, ..node })?;
    Ok(true)
}

/// Completes the block before the last if it is only committed; false = replicas are still to be reported.
pub(super) fn complete_penultimate(
    tx: &mut Tx<'_, '_>,
    inode: &Inode,
    tail: &mut Tail,
    replicas: &[Vec<Found>],
) -> Result<bool> {
    let [penultimate, _] = &mut tail.0[..] else { return Ok(true) };
    if is_complete(&penultimate.block) {
        return Ok(true);
    }
    let found = replicas.first().map_or(&[][..], Vec::as_slice);
    if !blocks::complete(tx, inode, penultimate, found)? {
        return Ok(false);
    }
    blocks::put(tx, inode.id, penultimate)?;
    Ok(true)
}

/// Gives up the last block of a file while it is being written, with whatever came of it; another block is left alone.
pub fn abandon_block(tx: &mut Tx<'_, '_>, call: &AbandonBlock) -> Result<()> {
    tx.want(&block_file(call.block.id));
    if call.file.file_id != 0 {
        blocks::want_tail(tx, call.file.file_id, None);
    }
    let (path, found) = find_file(tx, &call.file)?;
    let node = check_lease(tx, &path, found, &call.file)?;
    let tail = blocks::tail(tx, &node.inode)?;
    match tail.0.last() {
        Some(last)
            if last.block.id == call.block.id && last.block.state() == BlockState::UnderConstruction =>
        {
            let mut inode = node.inode.clone();
            remove_last(tx, &mut inode, &tail)?;
            Ok(tx.put(&node.key(), &inode)?)
        }
        _ => Ok(()),
    }
}

/// Takes the last block off an open file; it is the reaper's then. Changes the inode, which the caller writes.
pub(super) fn remove_last(tx: &mut Tx<'_, '_>, inode: &mut Inode, tail: &Tail) -> Result<()> {
    let Some(last) = tail.0.last() else { return Ok(()) };
    let hidden = tx.ctx.new_id(0)?;
    blocks::discard(tx, inode.id, hidden, std::slice::from_ref(last))?;
    inode.block_count = inode.block_count.saturating_sub(1);
    inode.length = inode.length.saturating_sub(last.block.length);
    let before = tail.penultimate();
    inode.unfinished = before.filter(|before| !is_complete(before)).map(|before| before.length);
    Ok(())
}

/// Notes how long the last block of a file is known to be.
pub fn fsync(tx: &mut Tx<'_, '_>, call: &Fsync) -> Result<()> {
    if call.file.file_id != 0 {
        blocks::want_tail(tx, call.file.file_id, None);
    }
    let (path, found) = find_file(tx, &call.file)?;
    let node = check_lease(tx, &path, found, &call.file)?;
    let length = u64::try_from(call.last_block_length).unwrap_or(0);
    let mut tail = blocks::tail(tx, &node.inode)?;
    let Some(last) = tail.0.last_mut() else { return Ok(()) };
    if last.block.state() != BlockState::UnderConstruction || length <= last.block.length {
        return Ok(());
    }
    blocks::check_length(&node.inode, &last.block, length)?;
    let mut inode = node.inode.clone();
    let before = std::mem::replace(&mut last.block.length, length);
    blocks::count_last(&mut inode, before, Some(&last.block));
    blocks::put(tx, inode.id, last)?;
    Ok(tx.put(&node.key(), &inode)?)
}

/// Whether a block that a client names is of this cluster's pool.
pub(super) fn check_pool(tx: &Tx<'_, '_>, block: Option<&BlockName>) -> Result<()> {
    let pool = &tx.ctx.block_pool;
    match block {
        Some(block) if *block.pool != **pool => {
            refuse(Kind::Io, format!("Unexpected BlockPoolId {} - expected {pool}", block.pool))
        }
        _ => Ok(()),
    }
}

/// The file and its path for messages; none when it does not exist, or is no longer attached.
pub(super) fn find_file(tx: &mut Tx<'_, '_>, file: &WrittenFile) -> Result<(String, Option<Node>)> {
    let walked = match file.file_id {
        0 => Some(tx.walk_one(Target::new(&file.path, DirOp::Write))?),
        id => tx.walk_file(&file.path, id)?,
    };
    let Some(walked) = walked else {
        return Ok((file.path.prefix(file.path.components().len()), None));
    };
    Ok((walked.path_of(walked.path.components().len()), walked.target().cloned()))
}

/// Sees to it that the file is there, open, and the caller's to write.
pub(super) fn check_lease(
    tx: &mut Tx<'_, '_>,
    path: &str,
    node: Option<Node>,
    file: &WrittenFile,
) -> Result<Node> {
    let holder = &file.holder;
    let (kind, what) = match node {
        None => (Kind::FileNotFound, "File does not exist: ".to_owned()),
        Some(node) if node.is_dir() => (Kind::LeaseExpired, "INode is not a regular file: ".to_owned()),
        Some(node) => match &node.inode.open {
            None => (Kind::LeaseExpired, "File is not open for writing: ".to_owned()),
            Some(writer) if writer.holder != *holder => {
                let owner = &writer.holder;
                (Kind::LeaseExpired, format!("Client (={holder}) is not the lease owner (={owner}: "))
            }
            Some(_) => return Ok(node),
        },
    };
    let lease = describe_lease(tx, holder)?;
    refuse(kind, format!("{what}{path} (inode {}) {lease}", file.file_id))
}

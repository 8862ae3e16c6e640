//! Calls of a file's writer — ClientProtocol.complete, abandonBlock, addBlock, fsync
//!                                                              (Java: FSDirWriteFileOp, FSNamesystem.checkLease)
//!
//! Held    complete: the file's inode row is written (unchanged since read) and its open_files row deleted. By id, the
//!         file is proved attached: by the chain that the path names or, when that does not end in the id, by
//!         inode_paths up to the root; so a call on a deleted file finds nothing. The others only read.
//! Rows    complete: inodes 1w · open_files 1w.
//! Cost    warm: complete 1 fetch + 1 commit, the others 1 fetch; a refusal 1 fetch more (the holder's lease, for the
//!         message); a path that no longer leads to the id: 1 fetch more, cold 1 a level.
//! Differs files have no blocks yet: addBlock refuses as stock does without datanodes. Messages name a holder's lease
//!         without the number of its open files, which every open and close would have to count in the holder's row; and
//!         a holder that has closed them all still has one, until it expires.

use std::fmt;

use trellis_metastore::schema::open_file;

use super::lease::{close_file, describe_lease};
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

/// Arguments of [`add_block`].
#[derive(Clone, Debug)]
pub struct AddBlock {
    /// Which file.
    pub file: WrittenFile,
    /// Its last block so far.
    pub previous: Option<BlockName>,
    /// Datanodes that the client does not want.
    pub excluded: usize,
}

/// Arguments of [`fsync`].
#[derive(Clone, Debug)]
pub struct Fsync {
    /// Which file.
    pub file: WrittenFile,
    /// Length of its last block as the client knows it; negative = it says nothing.
    pub last_block_length: i64,
}

/// Closes a file. True also for a repeat after it was closed.
pub fn complete(tx: &mut Tx<'_, '_>, call: &Complete) -> Result<bool> {
    if call.file.file_id != 0 {
        tx.want(&open_file(call.file.file_id));
    }
    let (path, found) = find_file(tx, &call.file)?;
    if let Some(node) = found.as_ref().filter(|node| !node.is_dir() && node.inode.open.is_none())
        && node.inode.block_count == 0
        && call.last.is_none()
    {
        return Ok(true);
    }
    let node = check_lease(tx, &path, found, &call.file)?;
    close_file(tx, &node)?;
    Ok(true)
}

/// Gives up a block. A file without blocks stays as it is.
pub fn abandon_block(tx: &mut Tx<'_, '_>, call: &AbandonBlock) -> Result<()> {
    let (path, found) = find_file(tx, &call.file)?;
    check_lease(tx, &path, found, &call.file).map(drop)
}

/// Makes sure that what the file is known to have is durable: it always is.
pub fn fsync(tx: &mut Tx<'_, '_>, call: &Fsync) -> Result<()> {
    let (path, found) = find_file(tx, &call.file)?;
    check_lease(tx, &path, found, &call.file).map(drop)
}

/// Asks for the next block: all that is checked before targets are chosen, of which there are none.
pub fn add_block(tx: &mut Tx<'_, '_>, call: &AddBlock) -> Result<()> {
    let (path, found) = find_file(tx, &call.file)?;
    check_lease(tx, &path, found, &call.file)?;
    if let Some(previous) = &call.previous {
        let why = format!(
            "Cannot allocate block in {path}: passed 'previous' block {previous} does not match actual last block \
             in file null"
        );
        return refuse(Kind::Io, why);
    }
    let why = format!(
        "File {} could only be written to 0 of the {} minReplication nodes. There are 0 datanode(s) running and {} \
         node(s) are excluded in this operation.",
        call.file.path.text(),
        tx.ctx.config.min_replication,
        call.excluded
    );
    refuse(Kind::Io, why)
}

/// The file and its path for messages; none when it does not exist, or is no longer attached.
fn find_file(tx: &mut Tx<'_, '_>, file: &WrittenFile) -> Result<(String, Option<Node>)> {
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
fn check_lease(tx: &mut Tx<'_, '_>, path: &str, node: Option<Node>, file: &WrittenFile) -> Result<Node> {
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

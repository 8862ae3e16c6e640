//! locations — ClientProtocol.getBlockLocations              (Java: FSDirStatAndListingOp, FSDirAttrOp)
//!
//! Held    getBlockLocations: nothing. touch_access_time: the file's row is written.
//! Rows    inodes 1r a component; touch_access_time + 1w.
//! Cost    warm: 1 fetch; once per file and hour 1 fetch + 1 commit more, for the access time, which the answer waits
//!         for, as stock's does.
//! Differs none.

use trellis_metastore::change::Hold;
use trellis_metastore::schema::Inode;

use super::replicas::Located;
use super::status::file_of;
use crate::engine::permission::READ;
use crate::engine::tx::Tx;
use crate::engine::walk::{Chain, DirOp, Target};
use crate::path::Path;
use crate::refusal::{Kind, Result, refuse};

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

impl FileBlocks {
    /// The blocks of a file. Files have none yet.
    pub(super) fn of(inode: &Inode) -> Result<FileBlocks> {
        if inode.block_count > 0 {
            let why = format!("inode {} has blocks, which this namenode cannot locate yet", inode.id);
            return refuse(Kind::UnsupportedOperation, why);
        }
        Ok(FileBlocks { under_construction: inode.open.is_some(), ..FileBlocks::default() })
    }
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
    for (what, number) in [("offset", call.offset), ("length", call.length)] {
        if number < 0 {
            let why = format!("Negative {what} is not supported. File: {}", call.path.text());
            return refuse(Kind::IllegalArgument, why);
        }
    }
    // Stock looks at what is there before it looks at who asks.
    let walked = tx.walk_unchecked(Target::new(&call.path, DirOp::Read))?;
    let depth = walked.path.components().len();
    let inode = file_of(&walked, &walked.path_of(depth))?;
    tx.check_way(&walked, DirOp::Read)?;
    tx.check_access(&walked, depth, READ)?;
    let access_time_due = is_due(tx, inode).then_some(inode.id);
    Ok(Opened { blocks: FileBlocks::of(inode)?, access_time_due })
}

/// Whether a read of a file moves its access time.
fn is_due(tx: &Tx<'_, '_>, inode: &Inode) -> bool {
    let precision = i64::try_from(tx.ctx.config.atime_precision.as_millis()).unwrap_or(i64::MAX);
    precision > 0 && tx.ctx.now_ms > inode.atime_ms.saturating_add(precision)
}

/// Moves the access time of a file that was read, if it is still there and still due; says whether it did. The caller
/// of the read gets its answer whatever comes of this.
pub fn touch_access_time(tx: &mut Tx<'_, '_>, id: u64) -> Result<bool> {
    let Some(walked) = tx.walk_id(id, Chain::Loose)? else { return Ok(false) };
    let Some(node) = walked.target().filter(|node| !node.is_dir() && is_due(tx, &node.inode)) else {
        return Ok(false);
    };
    tx.get(&node.key(), Hold::Held)?;
    tx.put(&node.key(), &Inode { atime_ms: tx.ctx.now_ms, ..node.inode.clone() })?;
    Ok(true)
}

//! summary — ClientProtocol.getContentSummary, getQuotaUsage   (Java: FSDirStatAndListingOp, ContentSummary)
//!
//! Held    nothing: they only read.
//! Rows    inodes 1r a component, and 1r for everything below a directory.
//! Cost    warm: 1 fetch for a file; for a directory 1 fetch more, and the walk: ⌈directories/64⌉ read-only batches, and
//!         one more for every 4000 entries of a large directory.
//! Differs each batch of the walk is a snapshot of its own: what moves meanwhile may be counted twice, or not at all.
//!         Of several directories that refuse, another may be named than stock names.

use trellis_metastore::schema::Inode;

use crate::engine::permission::{EXECUTE, READ};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Target};
use crate::engine::walkjob::{Summary, WalkJob, WalkResult};
use crate::path::Path;
use crate::refusal::{Halt, Kind, Result, refuse};

/// What [`get_quota_usage`] answers. There are no quotas: both limits are -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaUsage {
    /// Files and directories.
    pub names: u64,
    /// Limit of names; -1 = none.
    pub quota: i64,
    /// Bytes times replication.
    pub space: u64,
    /// Limit of space in bytes; -1 = none.
    pub space_quota: i64,
}

/// Counts what is at and below a path; the caller must be able to list all of it.
pub fn get_content_summary(tx: &mut Tx<'_, '_>, path: &Path) -> Result<Summary> {
    summary(tx, path, false, "File")
}

/// The same, as the usage of a quota; in sticky directories all must be the caller's, as in stock.
pub fn get_quota_usage(tx: &mut Tx<'_, '_>, path: &Path) -> Result<QuotaUsage> {
    let sum = summary(tx, path, true, "File/Directory")?;
    Ok(QuotaUsage { names: sum.files + sum.directories, quota: -1, space: sum.space, space_quota: -1 })
}

fn summary(tx: &mut Tx<'_, '_>, path: &Path, sticky: bool, what: &str) -> Result<Summary> {
    let walked = tx.walk_one(Target::new(path, DirOp::Read))?;
    let depth = walked.path.components().len();
    let shown = walked.path_of(depth);
    let Some(node) = walked.target() else {
        return refuse(Kind::FileNotFound, format!("{what} does not exist: {shown}"));
    };
    if !node.is_dir() {
        return Ok(of_file(&node.inode));
    }
    tx.check_access(&walked, depth, READ | EXECUTE)?;
    match tx.ctx.walked.as_deref() {
        Some(WalkResult::Summary { directory, sticky: by, counts })
            if (*directory, *by) == (node.id(), sticky) =>
        {
            Ok(*counts)
        }
        _ => Err(Halt::Needs(WalkJob::Summary { directory: Box::new(node.clone()), path: shown, sticky })),
    }
}

/// The counts of one file. A last block that is not complete takes the space of a whole one, as in stock.
pub(crate) fn of_file(inode: &Inode) -> Summary {
    let bytes = match inode.unfinished {
        Some(known) => inode.length.saturating_sub(known).saturating_add(inode.block_size),
        None => inode.length,
    };
    let space = bytes.saturating_mul(u64::from(inode.replication));
    Summary { length: inode.length, files: 1, directories: 0, space }
}

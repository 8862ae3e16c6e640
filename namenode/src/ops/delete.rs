//! delete — ClientProtocol.delete                              (Java: FSDirDeleteOp)
//!
//! Held    the entry is deleted (unchanged since read); its parent is merged. A directory also holds its whole chain,
//!         and its own counters are deleted exactly: whatever is made or removed inside at the same time excludes it.
//! Rows    inodes 1w · inode_paths 1w · dir_stats 1m (+ 1w a directory); inodes 1w more under the hidden parent.
//! Cost    warm: 1 fetch + 1 commit, whatever is below; a caller who is not the superuser pays, for a directory with
//!         children, 1 more fetch and the permission walk that stock demands: a read-only batch for itself, one for every
//!         64 directories below that are not empty, more where one has over 62 subdirectories, or is sticky.
//! Differs the walk and the removal are not one instant: what appears below in between is removed with the rest.

use trellis_metastore::change::Hold;

use super::entries::{remove_entry, uncount_child};
use crate::engine::permission::{Demand, WRITE};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Node, Target};
use crate::engine::walkjob::{WalkJob, WalkResult};
use crate::path::Path;
use crate::refusal::{Halt, Kind, Result, refuse};

/// Arguments of [`delete`].
#[derive(Clone, Debug)]
pub struct Delete {
    /// What to delete.
    pub path: Path,
    /// Whether a directory may have children.
    pub recursive: bool,
}

/// Deletes a file or directory. False when there is none, and for the root.
pub fn delete(tx: &mut Tx<'_, '_>, call: &Delete) -> Result<bool> {
    if call.path.is_exactly_reserved() {
        return refuse(Kind::InvalidPath, format!("Invalid path name {}", call.path.text()));
    }
    let target = Target::new(&call.path, DirOp::Write).with_stat().with_parent_stat().with_path();
    let walked = tx.walk_one(target)?;
    tx.check(&walked, Demand { parent: WRITE, ..Demand::default() })?;
    let Some(node) = walked.target().cloned() else { return Ok(false) };
    let children = if node.is_dir() { tx.stat_of(&node, Hold::Loose)?.add } else { 0 };
    if children > 0 {
        check_below(tx, &node, &walked.path_of(walked.path.components().len()))?;
        if !call.recursive {
            let why = format!("`{} is non empty': Directory is not empty", call.path.text());
            return refuse(Kind::PathIsNotEmptyDirectory, why);
        }
    }
    let Some(parent) = walked.parent().cloned() else { return Ok(false) };
    if node.is_dir() {
        tx.hold_chain(&walked)?;
    }
    remove_entry(tx, &node, children)?;
    uncount_child(tx, &parent)?;
    Ok(true)
}

/// Sees to it that the caller may delete everything below a directory with children.
pub fn check_below(tx: &Tx<'_, '_>, directory: &Node, path: &str) -> Result<()> {
    match tx.ctx.walked.as_deref() {
        _ if tx.ctx.user.superuser => Ok(()),
        Some(WalkResult::SubAccess { directory: id }) if *id == directory.id() => Ok(()),
        _ => Err(Halt::Needs(WalkJob::SubAccess {
            directory: Box::new(directory.clone()),
            path: path.to_owned(),
        })),
    }
}

//! rename — ClientProtocol.rename, rename2                     (Java: FSDirRenameOp)
//!
//! Held    both entries are written; the parents are merged. A directory that changes parent holds both whole chains,
//!         so of two crossing renames one runs again and no cycle can arise.
//! Rows    inodes 2w · inode_paths 1w · dir_stats 1–2m, a directory + 2w; what it replaces: as delete.
//! Cost    warm: 1 fetch + 1 commit, whatever the size of the tree; rename into an existing directory + 1 fetch; rename2 into the trash by another than the
//!         superuser + 1 fetch and the permission walk of delete.
//! Differs none.

use trellis_metastore::change::Hold;
use trellis_metastore::schema::{InodePath, dir_stat, inode, inode_path};

use super::delete::check_below;
use super::entries::{check_name, count_child, remove_entry, touch_directory, uncount_child};
use crate::engine::permission::{Demand, WRITE};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Node, Target, Walked};
use crate::path::Path;
use crate::refusal::{Halt, Kind, Result, refuse};

/// Arguments of [`rename`].
#[derive(Clone, Debug)]
pub struct Rename {
    /// What to move.
    pub source: Path,
    /// Where to: the new name, or a directory that gets the source's name in it.
    pub target: Path,
}

/// Arguments of [`rename2`].
#[derive(Clone, Debug)]
pub struct Rename2 {
    /// What to move.
    pub source: Path,
    /// The new name.
    pub target: Path,
    /// Whether a file or an empty directory there is replaced.
    pub overwrite: bool,
    /// Whether the target is the trash: then everything below must be the caller's to delete.
    pub to_trash: bool,
}

/// The old form: false where the new one throws, and an existing directory as target takes the source in.
pub fn rename(tx: &mut Tx<'_, '_>, call: &Rename) -> Result<bool> {
    call.target.check_length("rename")?;
    let (source, mut target) = walk_both(tx, &call.source, &call.target)?;
    tx.check(&source, Demand { parent: WRITE, ..Demand::default() })?;
    if target.target().is_some_and(Node::is_dir) && !source.path.is_root() {
        // `/d` stands for `/d/name`. The walk starts anew: the entry in it may exist.
        let inside = target.path.child(&source.path.name());
        target = tx.walk_one(target_of(&inside, DirOp::Write))?;
    }
    tx.check(&target, Demand { ancestor: WRITE, ..Demand::default() })?;
    let Some(node) = source.target().filter(|node| !node.is_root()).cloned() else { return Ok(false) };
    if source.path == target.path {
        // A file onto itself, or an entry into the directory that it is in already.
        tx.came_to(&node.inode);
        return Ok(true);
    }
    if source.path.contains(&target.path) {
        return Ok(false);
    }
    check_reserved(source.path.is_exactly_reserved() || target.path.is_exactly_reserved())?;
    if target.target().is_some() || target.missing() > 1 {
        return Ok(false);
    }
    move_entry(tx, &source, &node, &target)?;
    Ok(true)
}

/// The new form: refuses instead of answering false, and may replace what is at the target.
pub fn rename2(tx: &mut Tx<'_, '_>, call: &Rename2) -> Result<()> {
    call.target.check_length("rename")?;
    let (source, target) = walk_both(tx, &call.source, &call.target)?;
    let (from, to) =
        (source.path_of(source.path.components().len()), target.path_of(target.path.components().len()));
    if call.to_trash
        && let Some(node) = source.target().filter(|node| node.is_dir())
        && tx.stat_of(node, Hold::Loose)?.add > 0
    {
        tx.check(&source, Demand { parent: WRITE, ..Demand::default() })?;
        check_below(tx, node, &from)?;
    }
    check_both(tx, &source, &target)?;
    let Some(node) = source.target().cloned() else {
        return refuse(Kind::FileNotFound, format!("rename source {from} is not found."));
    };
    if node.is_root() {
        return refuse(Kind::Io, "rename source cannot be the root");
    }
    if source.path == target.path {
        return refuse(
            Kind::FileAlreadyExists,
            format!("The source {from} and destination {to} are the same"),
        );
    }
    if source.path.contains(&target.path) {
        let why = format!("Rename destination {to} is a directory or file under source {from}");
        return refuse(Kind::Io, why);
    }
    check_reserved(source.path.is_exactly_reserved() || target.path.is_exactly_reserved())?;
    if target.path.is_root() {
        return refuse(Kind::Io, "rename destination cannot be the root");
    }
    if let Some(replaced) = target.target().cloned() {
        check_replace(tx, call.overwrite, &node, &replaced, &from, &to)?;
    } else if target.missing() > 1 {
        return refuse(Kind::FileNotFound, format!("rename destination parent {to} not found."));
    }
    move_entry(tx, &source, &node, &target)
}

fn target_of(path: &Path, op: DirOp) -> Target<'_> {
    Target::new(path, op).with_stat().with_parent_stat().with_path()
}

fn walk_both(tx: &mut Tx<'_, '_>, source: &Path, target: &Path) -> Result<(Walked, Walked)> {
    tx.walk_two(target_of(source, DirOp::Write), target_of(target, DirOp::Create))
}

fn check_both(tx: &Tx<'_, '_>, source: &Walked, target: &Walked) -> Result<()> {
    tx.check(source, Demand { parent: WRITE, ..Demand::default() })?;
    tx.check(target, Demand { ancestor: WRITE, ..Demand::default() })
}

fn check_reserved(touches_reserved: bool) -> Result<()> {
    match touches_reserved {
        true => refuse(Kind::InvalidPath, "Cannot rename to or from /.reserved"),
        false => Ok(()),
    }
}

/// Whether what stands at the target may be replaced.
fn check_replace(
    tx: &mut Tx<'_, '_>,
    overwrite: bool,
    moved: &Node,
    replaced: &Node,
    from: &str,
    to: &str,
) -> Result<()> {
    if moved.is_dir() != replaced.is_dir() {
        return refuse(Kind::Io, format!("Source {from} and destination {to} must both be directories"));
    }
    if !overwrite {
        return refuse(Kind::FileAlreadyExists, format!("rename destination {to} already exists"));
    }
    if replaced.is_dir() && tx.stat_of(replaced, Hold::HeldExact)?.add > 0 {
        return refuse(Kind::Io, format!("rename destination directory is not empty: {to}"));
    }
    Ok(())
}

/// Moves one entry, and removes what stood at the target.
fn move_entry(tx: &mut Tx<'_, '_>, source: &Walked, node: &Node, target: &Walked) -> Result<()> {
    let (Some(old_parent), Some(new_parent)) = (source.parent().cloned(), target.parent().cloned()) else {
        return refuse(Kind::Io, format!("{} cannot be renamed", source.path.text()));
    };
    let name = target.path.name();
    let new_parent_path = target.path_of(target.path.components().len() - 1);
    check_name(tx, &new_parent, &new_parent_path, &name)?;
    let moves_away = old_parent.id() != new_parent.id();
    let replaced = target.target().cloned();
    if node.is_dir() && moves_away {
        tx.hold_chain(source)?;
    }
    if node.is_dir() && (moves_away || replaced.is_some()) {
        tx.hold_chain(target)?;
    }
    if let Some(replaced) = &replaced {
        remove_entry(tx, replaced, 0)?;
    }
    move_rows(tx, node, new_parent.id(), &name)?;
    match (moves_away, replaced.is_some()) {
        (false, false) => touch_directory(tx, &new_parent),
        (false, true) => uncount_child(tx, &new_parent),
        (true, false) => {
            uncount_child(tx, &old_parent)?;
            count_child(tx, &new_parent, &new_parent_path)
        }
        (true, true) => {
            uncount_child(tx, &old_parent)?;
            touch_directory(tx, &new_parent)
        }
    }
}

/// Writes the rows of an inode under its new parent and name; everything below is keyed by its id and stays.
fn move_rows(tx: &mut Tx<'_, '_>, node: &Node, parent: u64, name: &bytes::Bytes) -> Result<()> {
    let place = inode_path(node.id());
    if tx.get(&place, Hold::Loose)?.is_none() {
        return Err(Halt::Stop(trellis_metastore::tx::Stop::Stale));
    }
    tx.put(&place, &InodePath { parent, name: name.clone() })?;
    if node.is_dir() {
        let stat = tx.stat_of(node, Hold::HeldExact)?;
        tx.delete(&node.stat_key())?;
        tx.insert_counted(&dir_stat(parent, name), &stat.value, stat.max, stat.add)?;
    }
    tx.delete(&node.key())?;
    tx.ctx.expect(parent, name, node.id());
    tx.came_to(&node.inode);
    Ok(tx.insert(&inode(parent, name), &node.inode)?)
}

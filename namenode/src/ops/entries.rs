//! Making, counting and removing directory entries: the parts that several operations share.

use bytes::Bytes;
use trellis_metastore::change::Hold;
use trellis_metastore::schema::{
    DirStat, Inode, InodePath, Kind as InodeKind, dir_stat, hidden_inode, inode, inode_path,
};
use trellis_metastore::tx::Stop;

use crate::engine::permission::MODE_BITS;
use crate::engine::tx::Tx;
use crate::engine::walk::{Node, Walked};
use crate::path::{RESERVED, SNAPSHOT};
use crate::refusal::{Halt, Kind, Result, refuse};
use crate::user;

/// Whether a name may stand in a directory: not reserved, not too long.
pub fn check_name(tx: &Tx<'_, '_>, parent: &Node, parent_path: &str, name: &Bytes) -> Result<()> {
    if parent.is_root() && name.as_ref() == RESERVED {
        let name = String::from_utf8_lossy(name);
        let why = format!(
            "File name \"{name}\" is reserved and cannot be created. If this is during upgrade change the name of the \
             existing file or directory to another name before upgrading to the new release."
        );
        return refuse(Kind::HadoopIllegalArgument, why);
    }
    if name.as_ref() == SNAPSHOT {
        return refuse(Kind::HadoopIllegalArgument, "\".snapshot\" is a reserved name.");
    }
    let limit = tx.ctx.config.max_component_bytes;
    if name.len() > limit {
        let (name, length) = (String::from_utf8_lossy(name), name.len());
        let why = format!(
            "The maximum path component name limit of {name} in directory {parent_path} is exceeded: \
             limit={limit} length={length}"
        );
        return refuse(Kind::PathComponentTooLong, why);
    }
    Ok(())
}

/// Counts a new child in its parent, which must exist and have room, and moves the parent's modification time.
pub fn count_child(tx: &mut Tx<'_, '_>, parent: &Node, parent_path: &str) -> Result<()> {
    let stat = tx.stat_of(parent, Hold::Loose)?;
    let limit = tx.ctx.config.max_directory_items;
    if stat.add >= limit {
        let why = format!(
            "The directory item limit of {parent_path} is exceeded: limit={limit} items={}",
            stat.add.saturating_add(1)
        );
        return refuse(Kind::MaxDirectoryItemsExceeded, why);
    }
    let now = tx.ctx.now_ms;
    Ok(tx.merge(&parent.stat_key(), now, 1)?)
}

/// Takes a removed child out of its parent's count, and moves the parent's modification time.
pub fn uncount_child(tx: &mut Tx<'_, '_>, parent: &Node) -> Result<()> {
    tx.stat_of(parent, Hold::Loose)?;
    let now = tx.ctx.now_ms;
    Ok(tx.merge(&parent.stat_key(), now, -1)?)
}

/// Moves a directory's modification time; its children stay as many.
pub fn touch_directory(tx: &mut Tx<'_, '_>, directory: &Node) -> Result<()> {
    tx.stat_of(directory, Hold::Loose)?;
    let now = tx.ctx.now_ms;
    Ok(tx.merge(&directory.stat_key(), now, 0)?)
}

/// A new directory's row.
pub fn new_directory(tx: &Tx<'_, '_>, id: u64, parent: &Inode, mode: u32) -> Inode {
    Inode {
        id,
        kind: InodeKind::Directory as i32,
        mode: mode & MODE_BITS,
        owner: tx.ctx.user.name.clone(),
        group: parent.group.clone(),
        ..Inode::default()
    }
}

/// Makes the directories of a path that are missing, up to `depth` components, and counts the topmost in its parent.
/// `mode_of(i)` is the mode of the directory that becomes number `i`. Children of the last one made are counted by
/// whoever makes them: it starts with `last_children`. Uses the call's new ids from `first_id` on.
pub fn make_directories(
    tx: &mut Tx<'_, '_>,
    walked: &mut Walked,
    depth: usize,
    mode_of: impl Fn(usize) -> u32,
    last_children: i64,
) -> Result<()> {
    let first_new = walked.present();
    if first_new > depth {
        return Ok(());
    }
    for i in first_new..=depth {
        let name = walked.path.components()[i - 1].clone();
        let parent_path = walked.path_of(i - 1);
        check_name(tx, walked.last(), &parent_path, &name)?;
        if i == first_new {
            count_child(tx, &walked.last().clone(), &parent_path)?;
        }
        let id = tx.ctx.new_id((i - first_new) as u64)?;
        let parent = walked.last();
        let row = new_directory(tx, id, &parent.inode, mode_of(i));
        let children = if i == depth { last_children } else { 1 };
        let now = tx.ctx.now_ms;
        let node = Node { parent: parent.id(), name, inode: row };
        insert_directory(tx, &node, now, children, 0)?;
        walked.push(node);
    }
    Ok(())
}

/// Writes the three rows of a directory.
pub fn insert_directory(
    tx: &mut Tx<'_, '_>,
    node: &Node,
    mtime_ms: i64,
    children: i64,
    quota_of: u64,
) -> Result<()> {
    insert_inode(tx, node)?;
    let stat = DirStat { id: node.id(), quota_of };
    Ok(tx.insert_counted(&dir_stat(node.parent, &node.name), &stat, mtime_ms, children)?)
}

/// Writes the two rows that every inode has. Its names came from a client: one that no row can hold is refused.
pub fn insert_inode(tx: &mut Tx<'_, '_>, node: &Node) -> Result<()> {
    let Inode { owner, open, .. } = &node.inode;
    user::check_name("user", owner)?;
    user::check_name("client", open.as_ref().map_or("", |writer| &writer.holder))?;
    tx.insert(&inode(node.parent, &node.name), &node.inode)?;
    tx.ctx.expect(node.parent, &node.name, node.id());
    let place = InodePath { parent: node.parent, name: node.name.clone() };
    Ok(tx.insert(&inode_path(node.id()), &place)?)
}

/// The one place where an inode's row leaves its directory entry for good (a rename's old entry is none: the inode
/// lives on). Snapshots will decide here what to keep.
pub fn retire(tx: &mut Tx<'_, '_>, node: &Node) -> Result<()> {
    Ok(tx.delete(&node.key())?)
}

/// Removes a file, or a directory of which `children` (read HeldExact) says whether anything is below. What has
/// nothing below it goes at once; all else moves, in one row, under the hidden parent for the reaper.
pub fn remove_entry(tx: &mut Tx<'_, '_>, node: &Node, children: i64) -> Result<()> {
    let place = inode_path(node.id());
    if tx.get(&place, Hold::Loose)?.is_none() {
        return Err(Halt::Stop(Stop::Stale));
    }
    let goes_at_once = if node.is_dir() { children == 0 } else { is_bare_file(&node.inode) };
    retire(tx, node)?;
    tx.delete(&place)?;
    if node.is_dir() {
        tx.delete(&node.stat_key())?;
    }
    if !goes_at_once {
        tx.insert(&hidden_inode(node.id()), &node.inode)?;
        tx.detached = true;
    }
    Ok(())
}

/// Whether a file has no rows but its own two.
fn is_bare_file(inode: &Inode) -> bool {
    inode.block_count == 0 && inode.open.is_none()
}

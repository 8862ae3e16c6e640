//! setPermission, setOwner, setTimes, setReplication — ClientProtocol      (Java: FSDirAttrOp)
//!
//! Held    the inode's own row is written (unchanged since read). A directory's modification time: its counters, too.
//! Rows    inodes 1w; setTimes of a directory: dir_stats 1w · inodes 1w when the access time is set; setReplication of a
//!         file with blocks: attention 1w.
//! Cost    warm: 1 fetch + 1 commit; 1 fetch when nothing changes; setReplication of a file with blocks 1 fetch more.
//! Differs none.

use trellis_metastore::change::Hold;
use trellis_metastore::schema::Inode;

use super::create::check_replication;
use super::replicas::note_attention;
use crate::engine::permission::{Demand, MODE_BITS, WRITE};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Node, Target, Walked};
use crate::path::Path;
use crate::refusal::{Kind, Result, refuse};
use crate::user;

/// Arguments of [`set_permission`].
#[derive(Clone, Debug)]
pub struct SetPermission {
    /// Whose.
    pub path: Path,
    /// The new mode; setuid and setgid are dropped.
    pub mode: u32,
}

/// Arguments of [`set_owner`].
#[derive(Clone, Debug)]
pub struct SetOwner {
    /// Whose.
    pub path: Path,
    /// The new owner; none = stays.
    pub owner: Option<String>,
    /// The new group; none = stays.
    pub group: Option<String>,
}

/// Arguments of [`set_times`].
#[derive(Clone, Debug)]
pub struct SetTimes {
    /// Whose.
    pub path: Path,
    /// The new modification time, ms since the epoch; negative = stays.
    pub mtime_ms: i64,
    /// The new access time, ms since the epoch; negative = stays.
    pub atime_ms: i64,
}

/// Arguments of [`set_replication`].
#[derive(Clone, Debug)]
pub struct SetReplication {
    /// Whose.
    pub path: Path,
    /// The new replication.
    pub replication: u32,
}

/// Changes the mode; answers the row as it is now.
pub fn set_permission(tx: &mut Tx<'_, '_>, call: &SetPermission) -> Result<Inode> {
    let (_, node) = own(tx, &call.path)?;
    let mut inode = node.inode.clone();
    inode.mode = call.mode & MODE_BITS;
    tx.came_to(&inode);
    replace(tx, &node, inode)
}

/// Changes owner, group, or both; answers the row as it is now.
pub fn set_owner(tx: &mut Tx<'_, '_>, call: &SetOwner) -> Result<Inode> {
    user::check_name("user", call.owner.as_deref().unwrap_or_default())?;
    user::check_name("group", call.group.as_deref().unwrap_or_default())?;
    let (_, node) = own(tx, &call.path)?;
    let user = &tx.ctx.user;
    if !user.superuser {
        if call.owner.as_ref().is_some_and(|owner| *owner != user.name) {
            let why = format!("User {} is not a super user (non-super user cannot change owner).", user.name);
            return refuse(Kind::AccessControl, why);
        }
        if let Some(group) = call.group.as_ref().filter(|group| !user.is_in(group)) {
            let why = format!("User {} does not belong to {group}", user.name);
            return refuse(Kind::AccessControl, why);
        }
    }
    let mut inode = node.inode.clone();
    inode.owner = call.owner.clone().unwrap_or(inode.owner);
    inode.group = call.group.clone().unwrap_or(inode.group);
    tx.came_to(&inode);
    replace(tx, &node, inode)
}

/// Changes modification and access time; answers the row as it is now (a directory's modification time is not in it).
pub fn set_times(tx: &mut Tx<'_, '_>, call: &SetTimes) -> Result<Inode> {
    let walked = tx.walk_one(Target::new(&call.path, DirOp::Write).with_stat())?;
    tx.check(&walked, Demand { target: WRITE, ..Demand::default() })?;
    let Some(node) = walked.target().cloned() else {
        let path = path_of(&walked);
        return refuse(Kind::FileNotFound, format!("File/Directory {path} does not exist."));
    };
    let mut inode = node.inode.clone();
    if call.atime_ms >= 0 {
        inode.atime_ms = call.atime_ms;
    }
    if call.mtime_ms >= 0 {
        match node.is_dir() {
            true => {
                let stat = tx.stat_of(&node, Hold::HeldExact)?;
                if stat.max != call.mtime_ms {
                    tx.put_counted(&node.stat_key(), &stat.value, call.mtime_ms, stat.add)?;
                }
            }
            false => inode.mtime_ms = call.mtime_ms,
        }
    }
    tx.came_to(&inode);
    replace(tx, &node, inode)
}

/// Changes the replication of a file. False for a directory and a path that does not exist.
pub fn set_replication(tx: &mut Tx<'_, '_>, call: &SetReplication) -> Result<bool> {
    check_replication(tx, call.replication, call.path.text(), None)?;
    let walked = tx.walk_one(Target::new(&call.path, DirOp::Write))?;
    tx.check(&walked, Demand { target: WRITE, ..Demand::default() })?;
    let Some(node) = walked.target().filter(|node| !node.is_dir()).cloned() else { return Ok(false) };
    let mut inode = node.inode.clone();
    inode.replication = call.replication;
    if inode.replication != node.inode.replication && inode.block_count > 0 {
        note_attention(tx, inode.id)?;
    }
    replace(tx, &node, inode)?;
    Ok(true)
}

/// What the caller must own: it exists, and is the caller's.
fn own(tx: &mut Tx<'_, '_>, path: &Path) -> Result<(Walked, Node)> {
    if path.is_exactly_reserved() {
        return refuse(Kind::InvalidPath, format!("Invalid path name {}", path.text()));
    }
    let walked = tx.walk_one(Target::new(path, DirOp::Write))?;
    let Some(node) = walked.target().cloned() else {
        return refuse(Kind::FileNotFound, format!("Directory/File does not exist {}", path_of(&walked)));
    };
    tx.check(&walked, Demand { owner: true, ..Demand::default() })?;
    Ok((walked, node))
}

fn path_of(walked: &Walked) -> String {
    walked.path_of(walked.path.components().len())
}

/// Writes the row of an inode if it is another now.
fn replace(tx: &mut Tx<'_, '_>, node: &Node, inode: Inode) -> Result<Inode> {
    if inode != node.inode {
        tx.put(&node.key(), &inode)?;
    }
    Ok(inode)
}

//! Who may: permission checks over a resolved path, in stock's order (Java: FSPermissionChecker).

use trellis_metastore::schema::{Inode, Passed};

use super::tx::Tx;
use super::walk::Walked;
use crate::refusal::{Kind, Result, RpcError, refuse};
use crate::user::User;

/// Permission to search a directory.
pub const EXECUTE: u32 = 1;
/// Permission to change a directory's entries, or a file.
pub const WRITE: u32 = 2;
/// Permission to list a directory, or read a file.
pub const READ: u32 = 4;
/// All three.
pub const ALL: u32 = 7;
/// The sticky bit.
pub const STICKY: u32 = 0o1000;
/// The bits that stock keeps of a mode.
pub const MODE_BITS: u32 = 0o1777;

/// Whose an inode is and who may what with it, as the audit log shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Owner's name.
    pub owner: String,
    /// Group's name.
    pub group: String,
    /// Mode bits.
    pub mode: u32,
}

/// What one operation demands of a path besides the way to it; 0 = nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand {
    /// The caller owns the last component.
    pub owner: bool,
    /// Of the last ancestor that exists.
    pub ancestor: u32,
    /// Of the parent; with `WRITE`, its sticky bit counts.
    pub parent: u32,
    /// Of the last component.
    pub target: u32,
}

/// Refuses all but superusers; `operation` is stock's name for the call.
pub fn check_superuser(user: &User, operation: &str) -> std::result::Result<(), RpcError> {
    if user.superuser {
        return Ok(());
    }
    let user = &user.name;
    let why =
        format!("Access denied for user {user}. Superuser privilege is required for operation {operation}");
    Err(RpcError::new(Kind::AccessControl, why))
}

/// Whether a user has `access` to an inode.
pub fn may<'i>(user: &User, inode: impl Into<Passed<'i>>, access: u32) -> bool {
    let inode = inode.into();
    let shift = match () {
        () if user.superuser => return true,
        () if user.name.as_bytes() == inode.owner => 6,
        () if user.is_in(inode.group) => 3,
        () => 0,
    };
    (inode.mode >> shift) & access == access
}

/// Whether the sticky bit of `parent` keeps a user from removing or renaming `child`.
pub fn sticky_forbids(user: &User, parent: &Inode, child: &Inode) -> bool {
    parent.mode & STICKY != 0 && !user.superuser && user.name != parent.owner && user.name != child.owner
}

/// A mode as `ls` shows it, without the type: `rwxr-xr-x`, `t` for the sticky bit.
pub fn symbolic(mode: u32) -> String {
    let mut text: String =
        (0..9).map(|i| if mode & (0o400 >> i) != 0 { ['r', 'w', 'x'][i % 3] } else { '-' }).collect();
    if mode & STICKY != 0 {
        text.pop();
        text.push(if mode & EXECUTE != 0 { 't' } else { 'T' });
    }
    text
}

/// An access as stock writes it in messages.
pub fn access_name(access: u32) -> &'static str {
    ["NONE", "EXECUTE", "WRITE", "WRITE_EXECUTE", "READ", "READ_EXECUTE", "READ_WRITE", "ALL"]
        [(access & ALL) as usize]
}

/// `"/p":owner:group:drwxr-xr-x`, as stock writes an inode in messages.
pub fn describe(path: &str, inode: &Inode) -> String {
    let kind = if inode.is_dir() { 'd' } else { '-' };
    format!("\"{path}\":{}:{}:{kind}{}", inode.owner, inode.group, symbolic(inode.mode))
}

/// The message of a refused access.
pub fn denied(user: &User, path: &str, inode: &Inode, access: u32) -> String {
    let (user, access) = (&user.name, access_name(access));
    format!("Permission denied: user={user}, access={access}, inode={}", describe(path, inode))
}

/// The message of a removal that a sticky bit forbids.
pub fn denied_by_sticky(user: &User, path: &str, inode: &Inode, parent_path: &str, parent: &Inode) -> String {
    let name = &user.name;
    let (inode, parent) = (describe(path, inode), describe(parent_path, parent));
    format!("Permission denied by sticky bit: user={name}, path={inode}, parent={parent}")
}

impl Tx<'_, '_> {
    /// Checks what an operation demands of a path, in stock's order: sticky bit, ancestor, parent, the path, owner.
    pub fn check(&self, walked: &Walked, demand: Demand) -> Result<()> {
        let user = &self.ctx.user;
        if user.superuser {
            return Ok(());
        }
        let depth = walked.path.components().len();
        let parent = depth.checked_sub(1);
        if demand.parent & WRITE != 0
            && let (Some(p), Some(target)) = (walked.parent(), walked.target())
            && sticky_forbids(user, &p.inode, &target.inode)
        {
            let (path, above) = (walked.path_of(depth), walked.path_of(depth - 1));
            return refuse(
                Kind::AccessControl,
                denied_by_sticky(user, &path, &target.inode, &above, &p.inode),
            );
        }
        if demand.ancestor != 0
            && let Some(parent) = parent
        {
            self.check_access(walked, parent.min(walked.present() - 1), demand.ancestor)?;
        }
        if demand.parent != 0
            && let Some(parent) = parent
        {
            self.check_access(walked, parent, demand.parent)?;
        }
        if demand.target != 0 {
            self.check_access(walked, depth, demand.target)?;
        }
        if demand.owner {
            self.check_owner(walked)?;
        }
        Ok(())
    }

    /// Checks access to `nodes[i]`; a node that does not exist is nobody's to refuse.
    pub fn check_access(&self, walked: &Walked, i: usize, access: u32) -> Result<()> {
        match walked.node(i) {
            Some(node) if !may(&self.ctx.user, &node.inode, access) => {
                let message = denied(&self.ctx.user, &walked.path_of(i), &node.inode, access);
                refuse(Kind::AccessControl, message)
            }
            _ => Ok(()),
        }
    }

    /// Checks that the caller owns the last component.
    pub fn check_owner(&self, walked: &Walked) -> Result<()> {
        let user = &self.ctx.user;
        let owns = user.superuser || walked.target().is_some_and(|node| node.inode.owner == user.name);
        if owns {
            return Ok(());
        }
        let path = walked.path_of(walked.path.components().len());
        refuse(
            Kind::AccessControl,
            format!("Permission denied. user={} is not the owner of inode={path}", user.name),
        )
    }
}

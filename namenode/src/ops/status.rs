//! status — ClientProtocol.getFileInfo, getFileLinkInfo, getLocatedFileInfo, isFileClosed, getPreferredBlockSize,
//!          checkAccess, getLinkTarget, getEnclosingRoot                     (Java: FSDirStatAndListingOp)
//!
//! Held    nothing: they only read.
//! Rows    inodes 1r a component · dir_stats 1r of a directory; getLocatedFileInfo also as getBlockLocations.
//! Cost    warm: 1 fetch, at any depth; getLocatedFileInfo as getBlockLocations.
//! Differs none.

use bytes::Bytes;
use trellis_metastore::change::Hold;
use trellis_metastore::schema::Inode;

use super::locations::{FileBlocks, locate, want_located};
use crate::engine::permission::READ;
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Node, Target, Walked, Way};
use crate::path::Path;
use crate::refusal::{Halt, Kind, Result, refuse};

/// The mode that `/.reserved` shows.
const RESERVED_MODE: u32 = 0o1770;

/// A file or directory as clients see it.
#[derive(Clone, Debug, PartialEq)]
pub struct FileStatus {
    /// The name in its directory; empty for the path that was asked for itself.
    pub name: Bytes,
    /// The row.
    pub inode: Inode,
    /// Modification time, ms since the epoch; a directory's comes from its counters.
    pub mtime_ms: i64,
    /// Children of a directory; 0 for a file.
    pub children: i64,
}

impl FileStatus {
    /// The status of a resolved inode; reads a directory's counters.
    pub fn of(tx: &mut Tx<'_, '_>, node: Node, name: Bytes) -> Result<FileStatus> {
        let (mtime_ms, children) = match node.is_dir() {
            true => {
                let stat = tx.stat_of(&node, Hold::Loose)?;
                (stat.max, stat.add)
            }
            false => (node.inode.mtime_ms, 0),
        };
        Ok(FileStatus { name, inode: node.inode, mtime_ms, children })
    }

    /// The status of a directory that is no inode: `/.reserved` and what it lists.
    pub(super) fn unreal(name: &'static [u8], mode: u32, group: String, mtime_ms: i64) -> FileStatus {
        let inode = Inode { mode, group, atime_ms: mtime_ms, ..Inode::default() };
        FileStatus { name: Bytes::from_static(name), inode, mtime_ms, children: 0 }
    }
}

/// A status with the blocks of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct LocatedStatus {
    /// The status.
    pub status: FileStatus,
    /// A file's blocks; `None` for a directory.
    pub blocks: Option<FileBlocks>,
}

/// Resolves a path to read the status of what is there. `None`: nothing is, or what is was found by a superuser whose
/// way leads through a file (others are refused that).
fn walk_to_status(tx: &mut Tx<'_, '_>, path: &Path) -> Result<Option<Walked>> {
    match tx.walk_one(Target::new(path, DirOp::Read).with_stat()) {
        Err(Halt::Refused(error)) if error.kind == Kind::AccessControl && tx.ctx.user.superuser => Ok(None),
        result => result.map(Some),
    }
}

/// getFileInfo and getFileLinkInfo (there are no symbolic links to tell apart). `None` when there is nothing.
pub fn get_file_info(tx: &mut Tx<'_, '_>, path: &Path) -> Result<Option<FileStatus>> {
    if path.is_exactly_reserved() {
        return Ok(Some(FileStatus::unreal(b"", RESERVED_MODE, String::new(), 0)));
    }
    let target = match tx.pass(path)? {
        Way::Open(target) => target,
        Way::Closed => walk_to_status(tx, path)?.and_then(Walked::into_target),
    };
    target.map(|node| FileStatus::of(tx, node, Bytes::new())).transpose()
}

/// getLocatedFileInfo: the status, and the blocks of a file. `None` when there is nothing.
pub fn get_located_file_info(tx: &mut Tx<'_, '_>, path: &Path) -> Result<Option<LocatedStatus>> {
    want_located(tx, path);
    let Some(status) = get_file_info(tx, path)? else { return Ok(None) };
    let blocks = match status.inode.is_dir() {
        true => None,
        false => Some(locate(tx, &status.inode, 0, u64::MAX)?),
    };
    Ok(Some(LocatedStatus { status, blocks }))
}

/// isFileClosed: false while somebody writes the file.
pub fn is_file_closed(tx: &mut Tx<'_, '_>, path: &Path) -> Result<bool> {
    let walked = tx.walk_one(Target::new(path, DirOp::Read))?;
    Ok(file_of(&walked, path.text())?.open.is_none())
}

/// getPreferredBlockSize of a file, in bytes.
pub fn get_preferred_block_size(tx: &mut Tx<'_, '_>, path: &Path) -> Result<u64> {
    let walked = tx.walk_one(Target::new(path, DirOp::Read))?;
    Ok(file_of(&walked, &walked.path_of(walked.path.components().len()))?.block_size)
}

/// The row of the file at a resolved path; `shown` is the path in messages.
pub(super) fn file_of<'w>(walked: &'w Walked, shown: &str) -> Result<&'w Inode> {
    match walked.target() {
        None => refuse(Kind::FileNotFound, format!("File does not exist: {shown}")),
        Some(node) if node.is_dir() => refuse(Kind::FileNotFound, format!("Path is not a file: {shown}")),
        Some(node) => Ok(&node.inode),
    }
}

/// Arguments of [`check_access`].
#[derive(Clone, Debug)]
pub struct CheckAccess {
    /// What to look at.
    pub path: Path,
    /// The bits of `FsAction`: read 4, write 2, execute 1.
    pub access: u32,
}

/// checkAccess: refuses unless the caller has all of the access.
pub fn check_access(tx: &mut Tx<'_, '_>, call: &CheckAccess) -> Result<()> {
    let walked = tx.walk_one(Target::new(&call.path, DirOp::Read))?;
    let depth = walked.path.components().len();
    match walked.target() {
        None => refuse(Kind::FileNotFound, format!("Path not found: {}", walked.path_of(depth))),
        Some(_) => tx.check_access(&walked, depth, call.access),
    }
}

/// getLinkTarget: nothing is a symbolic link, so this always refuses.
pub fn get_link_target(tx: &mut Tx<'_, '_>, path: &Path) -> Result<Bytes> {
    match get_file_info(tx, path)? {
        None => refuse(Kind::FileNotFound, format!("File does not exist: {}", path.text())),
        Some(_) => refuse(Kind::Io, format!("Path {} is not a symbolic link", path.text())),
    }
}

/// getEZForPath: there are no encryption zones; refuses whom the path is closed to.
pub fn get_ez_for_path(tx: &mut Tx<'_, '_>, path: &Path) -> Result<()> {
    let walked = tx.walk_one(Target::new(path, DirOp::Read))?;
    tx.check_access(&walked, walked.path.components().len(), READ)?;
    if let Some(node) = walked.target() {
        tx.came_to(&node.inode);
    }
    Ok(())
}

/// getEnclosingRoot: the root, since there are no encryption zones; refuses whom the path is closed to.
pub fn get_enclosing_root(tx: &mut Tx<'_, '_>, path: &Path) -> Result<Path> {
    get_ez_for_path(tx, path)?;
    Ok(Path::from_components(Vec::new()))
}

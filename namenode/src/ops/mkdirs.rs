//! mkdirs — ClientProtocol.mkdirs                              (Java: FSDirMkdirOp)
//!
//! Held    the last directory that exists is merged (it must still be there); new names must be absent.
//! Rows    per new directory: inodes 1w · dir_stats 1w · inode_paths 1w; dir_stats 1m.
//! Cost    warm: 1 fetch + 1 commit, however many directories it makes; 1 fetch when the directory exists.
//! Differs none.

use super::entries::make_directories;
use crate::engine::permission::{Demand, WRITE};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Target};
use crate::path::Path;
use crate::refusal::{Kind, Result, refuse};

/// The bits that every directory made on the way gets besides (its maker must be able to go on).
pub const IMPLICIT_UWX: u32 = 0o300;

/// Arguments of [`mkdirs`].
#[derive(Clone, Debug)]
pub struct Mkdirs {
    /// The directory to make.
    pub path: Path,
    /// Its mode, umask applied.
    pub mode: u32,
    /// Whether missing parents are made too.
    pub create_parent: bool,
}

impl Mkdirs {
    /// How many inode ids the call may use.
    pub fn ids(&self) -> u64 {
        match self.create_parent {
            true => self.path.components().len() as u64,
            false => 1,
        }
    }
}

/// Makes a directory and, if asked, its missing parents. True also when it exists already.
pub fn mkdirs(tx: &mut Tx<'_, '_>, call: &Mkdirs) -> Result<bool> {
    call.path.check_length("mkdirs")?;
    let mut walked = tx.walk_one(Target::new(&call.path, DirOp::Create).with_parent_stat())?;
    if let Some(target) = walked.target() {
        return match target.is_dir() {
            true => {
                tx.came_to(&target.inode);
                Ok(true)
            }
            false => {
                refuse(Kind::FileAlreadyExists, format!("Path is not a directory: {}", call.path.text()))
            }
        };
    }
    tx.check(&walked, Demand { ancestor: WRITE, ..Demand::default() })?;
    // The path from the root: one by an inode id, or raw, has other components.
    let depth = walked.path.components().len();
    if !call.create_parent && walked.missing() > 1 {
        return refuse(
            Kind::FileNotFound,
            format!("Parent directory doesn't exist: {}", walked.path_of(depth - 1)),
        );
    }
    let mode_of = |i| if i == depth { call.mode } else { call.mode & 0o777 | IMPLICIT_UWX };
    make_directories(tx, &mut walked, depth, mode_of, 0)?;
    tx.came_to(&walked.last().inode);
    Ok(true)
}

//! The length of the data file: whether all pages are there, and room ahead.
//!
//! A commit that makes the file longer has to write the file's own metadata too, and waits for it: one more write each
//! time. So the file is made longer now and then, by some zeros (as stock HDFS does with its edit log), and commits find
//! their place there already.

use std::fs::File;
use std::io;
use std::path::Path;

use heed::{Env, WithTls};
use nix::fcntl::{FallocateFlags, fallocate};

use super::Core;
use super::zeros::write_zeros;
use crate::store::StoreError;

const DATA_FILE: &str = "data.mdb";
/// The file grows by an eighth of what is in use, between these two.
const SMALLEST_STEP: usize = 64 << 10;
const LARGEST_STEP: usize = 4 << 20;
/// So many pages at the end of a file need not have been written.
const UNWRITTEN_PAGES: u64 = 64;

/// Keeps room in one environment's data file.
pub(super) struct Room {
    file: File,
    page_bytes: u64,
}

impl Room {
    pub fn of(dir: &Path, env: &Env<WithTls>) -> io::Result<Room> {
        let file = File::options().write(true).open(dir.join(DATA_FILE))?;
        Ok(Room { file, page_bytes: env.unnamed_database_stat().page_size.into() })
    }

    /// Where the last page ends.
    fn used(&self, env: &Env<WithTls>) -> u64 {
        (env.info().last_page_number as u64 + 1) * self.page_bytes
    }

    /// Refuses a file that was cut. Must come before a page of its tree is read: one past its end would end this process.
    /// One that lacks a few pages may be whole: the engine does not write pages at the end that their own transaction
    /// freed again. It is made as long as it claims to be, without touching what is there.
    pub fn check(&self, env: &Env<WithTls>, dir: &Path) -> Result<(), StoreError> {
        let failed =
            |why: &dyn std::fmt::Display| StoreError::Fatal(format!("lmdb:{}: {why}", dir.display()));
        let length = self.file.metadata().map_err(|error| failed(&error))?.len();
        let needed = self.used(env);
        match needed.saturating_sub(length) {
            0 => Ok(()),
            missing if missing <= UNWRITTEN_PAGES * self.page_bytes => {
                tracing::warn!(missing, dir = %dir.display(), "data.mdb ends before its last page; it is made longer");
                let (from, bytes) = (length.cast_signed(), missing.cast_signed());
                fallocate(&self.file, FallocateFlags::empty(), from, bytes).map_err(|error| failed(&error))
            }
            _ => Err(failed(&format_args!(
                "data.mdb was cut: it has {length} bytes and pages up to byte {needed}; restore it from a backup"
            ))),
        }
    }

    /// Makes the file longer when little room is left. Must be called inside a write transaction: then no other process
    /// changes the file's length, and what lies past its end belongs to nobody. A full disk is no error here: the
    /// commit itself will say so, if it needs the room.
    pub fn keep(&self, core: &Core) {
        if let Err(error) = self.try_keep(core) {
            tracing::debug!(%error, dir = %core.dir.display(), "no room ahead in the data file");
        }
    }

    fn try_keep(&self, core: &Core) -> io::Result<()> {
        let used = self.used(&core.env);
        let length = self.file.metadata()?.len();
        let step = (used as usize / 8).clamp(SMALLEST_STEP, LARGEST_STEP).next_multiple_of(SMALLEST_STEP);
        if length.saturating_sub(used) >= step as u64 / 2 || length >= core.config.map_bytes as u64 {
            return Ok(());
        }
        write_zeros(&self.file, length, step as u64)
    }
}

//! What the engine's errors mean under the contract.

use std::io;

use heed::MdbError;
use nix::errno::Errno;

use super::{Core, MAX_READERS};
use crate::store::StoreError;

/// A commit that fails with EIO while less than this is free on the file system has run out of room: the engine
/// reports a short write as EIO.
const FULL_BELOW_BYTES: u64 = 4 << 20;

impl Core {
    /// An error of a call after which the transaction, if there was one, is gone.
    pub(super) fn error(&self, error: heed::Error) -> StoreError {
        let dir = self.dir.display();
        match error {
            heed::Error::Mdb(MdbError::MapFull) => StoreError::Full(format!(
                "{dir}: its map of {} bytes is used up; delete files, or restart every process with a larger map",
                self.config.map_bytes
            )),
            heed::Error::Mdb(MdbError::ReadersFull) => StoreError::Unavailable(format!(
                "{dir}: all {MAX_READERS} reader slots are taken; use fewer threads or processes"
            )),
            heed::Error::Mdb(MdbError::MapResized) => StoreError::Fatal(format!(
                "{dir}: another process opened it with a larger map; use one map size in all processes"
            )),
            heed::Error::Mdb(MdbError::BadRslot) => StoreError::Fatal(format!(
                "{dir}: a second snapshot was taken in a thread while the first was open"
            )),
            heed::Error::Mdb(error @ (MdbError::Corrupted | MdbError::PageNotFound)) => StoreError::Fatal(
                format!("{dir}: data.mdb is damaged, or was cut ({error}); restore it from a backup"),
            ),
            heed::Error::Mdb(MdbError::Panic) => StoreError::Fatal(format!(
                "{dir}: an earlier write of its root failed; check the disk, then restart this process"
            )),
            heed::Error::Io(error) => self.io_error(&error),
            error => StoreError::Fatal(format!("{dir}: {error}; run 'trellis store check'")),
        }
    }

    fn io_error(&self, error: &io::Error) -> StoreError {
        let dir = self.dir.display();
        let full = match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG) => true,
            Some(Errno::EIO) => free_bytes(&self.dir).is_some_and(|free| free < FULL_BELOW_BYTES),
            _ => false,
        };
        if full {
            return StoreError::Full(format!("{dir}: no space left on its file system; free some"));
        }
        StoreError::Unavailable(format!("{dir}: {error}"))
    }

    /// An error of a commit. Nothing was written, unless the root's own write failed: then it may be on disk.
    pub(super) fn commit_error(&self, error: heed::Error) -> StoreError {
        let poisoned = matches!(self.env.read_txn(), Err(heed::Error::Mdb(MdbError::Panic)));
        match self.error(error) {
            error if !poisoned => error,
            error => StoreError::MaybeCommitted(error.to_string()),
        }
    }
}

fn free_bytes(dir: &std::path::Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(dir).ok()?;
    Some(stat.blocks_available() * stat.fragment_size())
}

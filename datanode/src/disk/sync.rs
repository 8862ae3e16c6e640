//! What makes a replica's bytes and names durable. All of it goes through here and is counted: each costs a turn of the
//! disk.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often something was made durable since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncCounts {
    /// Data files.
    pub data: u64,
    /// Files of checksums.
    pub meta: u64,
    /// Folders.
    pub dirs: u64,
}

impl std::ops::Sub for SyncCounts {
    type Output = SyncCounts;

    fn sub(self, earlier: SyncCounts) -> SyncCounts {
        SyncCounts {
            data: self.data - earlier.data,
            meta: self.meta - earlier.meta,
            dirs: self.dirs - earlier.dirs,
        }
    }
}

impl std::iter::Sum for SyncCounts {
    fn sum<I: Iterator<Item = SyncCounts>>(all: I) -> SyncCounts {
        all.fold(SyncCounts::default(), |sum, one| SyncCounts {
            data: sum.data + one.data,
            meta: sum.meta + one.meta,
            dirs: sum.dirs + one.dirs,
        })
    }
}

/// The syncs of a volume.
#[derive(Debug, Default)]
pub struct Syncs {
    data: AtomicU64,
    meta: AtomicU64,
    dirs: AtomicU64,
    /// What the next sync of files answers.
    #[cfg(test)]
    pub fails: std::sync::Mutex<Option<io::Error>>,
}

impl Syncs {
    /// Makes the bytes of a replica durable. After an error nobody knows which bytes the disk has, whatever a later call
    /// says.
    pub fn files(&self, data: &File, meta: &File) -> io::Result<()> {
        #[cfg(test)]
        if let Some(error) = super::core::lock(&self.fails).take() {
            return Err(error);
        }
        self.data.fetch_add(1, Ordering::Relaxed);
        data.sync_data()?;
        self.meta.fetch_add(1, Ordering::Relaxed);
        meta.sync_data()
    }

    /// Makes the names in a folder durable.
    pub fn dir(&self, dir: &File) -> io::Result<()> {
        self.dirs.fetch_add(1, Ordering::Relaxed);
        dir.sync_all()
    }

    /// How many so far.
    pub fn counts(&self) -> SyncCounts {
        SyncCounts {
            data: self.data.load(Ordering::Relaxed),
            meta: self.meta.load(Ordering::Relaxed),
            dirs: self.dirs.load(Ordering::Relaxed),
        }
    }
}

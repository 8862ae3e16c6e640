//! What makes a replica's bytes and names durable. All of it goes through here and is counted: each costs a turn of the
//! disk.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use super::note::Note;
use super::volume::is_failure;

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
#[derive(Debug)]
pub struct Syncs {
    volume: PathBuf,
    data: AtomicU64,
    meta: AtomicU64,
    dirs: AtomicU64,
    /// That it keeps no notes was logged.
    unnoted: Once,
    /// What the next sync of files answers.
    #[cfg(test)]
    pub fails: std::sync::Mutex<Option<io::Error>>,
}

impl Syncs {
    /// Those of the volume at this path.
    pub fn new(volume: PathBuf) -> Syncs {
        Syncs {
            volume,
            data: AtomicU64::default(),
            meta: AtomicU64::default(),
            dirs: AtomicU64::default(),
            unnoted: Once::new(),
            #[cfg(test)]
            fails: std::sync::Mutex::default(),
        }
    }

    /// Makes the bytes of a replica durable, with what was noted of them before. After an error nobody knows which bytes
    /// the disk has, whatever a later call says.
    pub fn files(&self, data: &File, meta: &File) -> io::Result<()> {
        #[cfg(test)]
        if let Some(error) = super::core::lock(&self.fails).take() {
            return Err(error);
        }
        self.data.fetch_add(1, Ordering::Relaxed);
        data.sync_data()?;
        self.meta.fetch_add(1, Ordering::Relaxed);
        // The note too, which is no data.
        meta.sync_all()
    }

    /// Notes beside a replica's sums what is to be made durable of it. Only with [`super::pipeline::InPipeline::io`] held, if
    /// it has one. A file system that keeps no notes is no failure: stock HDFS has none.
    pub fn note(&self, meta: &File, note: Option<Note>) -> io::Result<()> {
        let Some(note) = note else { return Ok(()) };
        match note.add(meta) {
            Ok(()) => Ok(()),
            Err(error) if is_failure(&error) => Err(error),
            Err(error) => {
                self.unnoted.call_once(|| {
                    tracing::warn!(
                        volume = %self.volume.display(), %error,
                        "it keeps no notes of what is durable: if the power fails while a block is written, the end \
                         of what was flushed to disk before may be lost"
                    );
                });
                Ok(())
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_attributes_is_no_failure() {
        let syncs = Syncs::new("volume".into());
        let meta = File::open("/proc/self/comm").unwrap();
        let note = Some(Note { len: 700, last_sum: 1 });
        syncs.note(&meta, note).unwrap();
        assert!(syncs.unnoted.is_completed());
        let (data, meta) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        syncs.note(&meta, note).unwrap();
        syncs.files(&data, &meta).unwrap();
        assert_eq!(Note::all(&meta).unwrap(), note.into_iter().collect::<Vec<_>>());
        assert_eq!(syncs.counts(), SyncCounts { data: 1, meta: 1, dirs: 0 });
    }
}

//! A volume: one folder's part of the block pool, how much room it has, and whether its disk works.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use nix::errno::Errno;
use nix::sys::statvfs::statvfs;
use trellis_proto::checksum::Checksum;

use super::core::lock;
use super::folder::Folder;
use super::room::{LIMITS, Room, Space};
use super::sync::Syncs;
use super::{meta, names};
use crate::store::{Block, Pool, StorageReport, StorageType};

/// Which of the three kinds of folders a replica's files are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `tmp`
    Tmp,
    /// `current/rbw`
    Rbw,
    /// `current/finalized/subdirN/subdirM`
    Finalized,
}

/// One volume.
pub struct Volume {
    /// Its number in this process.
    pub index: u16,
    /// Uuid of the storage.
    pub storage: Arc<str>,
    /// What it is made of.
    pub storage_type: StorageType,
    /// What makes it durable.
    pub syncs: Syncs,
    /// How much room its file system has.
    pub room: Arc<Room>,
    /// `DATA/current/BP-…`
    pool_dir: PathBuf,
    folder: Folder,
    reserve: u64,
    used: AtomicU64,
    promised: AtomicU64,
    failed: OnceLock<String>,
    /// Held while a folder is made.
    making: Mutex<()>,
    /// Held while the disk is probed.
    probing: Mutex<()>,
}

impl Volume {
    /// The volume of an attached folder. `reserve`: bytes that are never given to replicas.
    pub fn new(
        index: u16,
        folder: Folder,
        pool: &Pool,
        storage: &str,
        storage_type: StorageType,
        reserve: u64,
    ) -> Volume {
        let pool_dir = folder.path().join("current").join(&pool.id);
        let measured = pool_dir.clone();
        Volume {
            index,
            room: Room::new(Box::new(move || measure(&measured)), LIMITS),
            storage: storage.into(),
            storage_type,
            syncs: Syncs::new(folder.path().to_owned()),
            pool_dir,
            folder,
            reserve,
            used: AtomicU64::new(0),
            promised: AtomicU64::new(0),
            failed: OnceLock::new(),
            making: Mutex::new(()),
            probing: Mutex::new(()),
        }
    }

    /// The `--data` folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The pool's folder in it.
    pub fn pool_dir(&self) -> &Path {
        &self.pool_dir
    }

    /// The folder of a replica's files.
    pub fn dir(&self, place: Place, block_id: u64) -> PathBuf {
        match place {
            Place::Tmp => self.pool_dir.join("tmp"),
            Place::Rbw => self.pool_dir.join("current/rbw"),
            Place::Finalized => self.pool_dir.join("current/finalized").join(names::subdir(block_id)),
        }
    }

    /// Path of a data file.
    pub fn data(&self, place: Place, block_id: u64) -> PathBuf {
        self.dir(place, block_id).join(names::data(block_id))
    }

    /// Path of a meta file.
    pub fn meta(&self, place: Place, block: Block) -> PathBuf {
        self.dir(place, block.id).join(names::meta(block))
    }

    /// Makes the folder of a finalized replica if it is not there, durably.
    pub fn make_dir(&self, dir: &Path) -> io::Result<()> {
        // Who finds a folder that somebody else has just made waits until it is durable.
        let _making = lock(&self.making);
        if dir.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(dir)?;
        // From the new folder up to `finalized`.
        let mut above = dir.ancestors().skip(1).take(2);
        let durable = above.try_for_each(|above| self.syncs.dir(&File::open(above)?));
        if durable.is_err() {
            let _ = fs::remove_dir(dir); // so that the next one tries again
        }
        durable
    }

    /// Whether the disk failed, and how.
    pub fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// Notes that the disk failed. False if that was known.
    pub fn fail(&self, reason: String) -> bool {
        self.failed.set(reason).is_ok()
    }

    /// Whether the disk can be written.
    pub fn probe(&self) -> io::Result<()> {
        // All probes use one name.
        let _probing = lock(&self.probing);
        let path = self.pool_dir.join("tmp/probe");
        let file = File::create(&path)?;
        file.sync_all()?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Bytes that may be given to further replicas.
    pub fn remaining(&self, space: Space) -> u64 {
        space.available.saturating_sub(self.reserve).saturating_sub(self.promised.load(Ordering::Relaxed))
    }

    /// As heartbeats tell it.
    pub fn report(&self, space: Space) -> StorageReport {
        let used = self.used.load(Ordering::Relaxed);
        let failed = self.failure().is_some();
        StorageReport {
            storage: self.storage.clone(),
            storage_type: self.storage_type,
            failed,
            capacity: space.size.saturating_sub(self.reserve),
            used: if failed { 0 } else { used },
            remaining: if failed { 0 } else { self.remaining(space) },
            non_dfs_used: if failed { 0 } else { space.used.saturating_sub(used) },
            path: self.path().to_owned(),
        }
    }

    /// Keeps bytes free for a replica that is being written.
    pub fn promise(&self, bytes: u64) {
        self.promised.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends a part of a promise.
    pub fn release(&self, bytes: u64) {
        self.promised.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts a replica that grew from `old` to `new` bytes, or was deleted (`new` 0), with its sums.
    pub fn count(&self, old: u64, new: u64) {
        let (old, new) = (with_sums(old), with_sums(new));
        if new >= old {
            self.used.fetch_add(new - old, Ordering::Relaxed);
        } else {
            self.used.fetch_sub(old - new, Ordering::Relaxed);
        }
    }
}

fn measure(dir: &Path) -> io::Result<Space> {
    let found = statvfs(dir)?;
    let unit = found.fragment_size();
    Ok(Space {
        size: found.blocks().saturating_mul(unit),
        used: found.blocks().saturating_sub(found.blocks_free()).saturating_mul(unit),
        available: found.blocks_available().saturating_mul(unit),
    })
}

/// Bytes that a replica takes with its sums. Those of HDFS's default checksum: to know better, a scan would have to open
/// every file.
pub fn with_sums(len: u64) -> u64 {
    len.saturating_add(if len == 0 { 0 } else { meta::file_len(Checksum::DEFAULT, len.min(u64::MAX / 2)) })
}

/// Errors after which a disk is not used any more, whatever it says next.
pub fn is_failure(error: &io::Error) -> bool {
    let Some(code) = error.raw_os_error() else { return false };
    matches!(
        Errno::from_raw(code),
        Errno::EIO | Errno::EROFS | Errno::ENODEV | Errno::ENXIO | Errno::EUCLEAN | Errno::ESTALE
    )
}

/// Errors that say nothing about a disk or a file: this process lacks descriptors, memory or rights.
pub fn is_want(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EACCES | Errno::EPERM)
    )
}

/// Errors that say that a file does not hold what was written into it.
pub fn is_damage(error: &io::Error) -> bool {
    // The last two: something else lies where the file was.
    let damaged = matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EIO | Errno::ENODATA | Errno::EBADMSG | Errno::EUCLEAN | Errno::ELOOP | Errno::EISDIR)
    );
    damaged || is_contradiction(error)
}

/// Errors of files that contradict each other or themselves.
pub fn is_contradiction(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// Errors that say that a disk is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOSPC | Errno::EDQUOT))
}

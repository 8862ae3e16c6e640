//! The log in front of the tree, for a store that one process has alone.
//!
//! A commit in the tree rewrites every page on the way to each row: some pages, all over the file, for each operation.
//! So a group's rows go into a log instead, one append and one sync, and stand in memory, in a layer over the tree,
//! from where everybody reads them. Now and then the layer is merged into the tree, in key order, in a few
//! ordinary commits; by then many groups share their pages.
//!
//! - [`segment`]: the log on disk
//! - [`entry`]: a row, in both
//! - [`layer`]: the rows in memory
//! - [`merge`]: the thread that merges
//!
//! Who reads takes the layers first and the tree's snapshot then: what a merge moves meanwhile is seen twice, never
//! not at all. Who changes the layers holds [`Log::writing`], so that a reader waits only while a group's rows are put
//! in, which is short, and a group that runs over the layers is never in the way of a reader.

mod entry;
mod layer;
mod merge;
mod segment;

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use heed::{RoTxn, WithTls};

pub(super) use entry::Entry;
pub(super) use layer::{KeyHash, Layer, Layers};
pub(super) use merge::Merger;
use segment::Segments;
pub(super) use segment::{ReadError, exists, read, remove};

use super::remembered::{Merges, Remembered};
use super::{Core, view::Rows};
use crate::store::StoreError;

/// How long a write waits for the tree to take what is in the layers.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A log and the layers that hold what is in it.
pub(super) struct Log {
    layers: RwLock<Layers>,
    writing: Mutex<Writing>,
    /// A merge has ended, well or not.
    merged: Condvar,
    /// A merge is due before its time, or the store closes.
    due: Condvar,
    merges: Merges,
    /// Layers and log grow to this many bytes each before writes wait for a merge.
    room: usize,
}

/// What only one writer at a time may touch.
struct Writing {
    segments: Segments,
    /// Why the last merge failed. Nothing is written until one succeeds: the log could grow beyond what the tree can
    /// ever take.
    failed: Option<StoreError>,
    /// A sync or a wipe failed: what is on disk is not known any more, so the log is neither written nor wiped.
    is_broken: bool,
    is_closing: bool,
}

impl Log {
    /// Makes an empty log in a directory that has none.
    pub fn create(dir: &Path, room: usize) -> std::io::Result<Log> {
        let segments = Segments::create(dir)?;
        let writing = Writing { segments, failed: None, is_broken: false, is_closing: false };
        Ok(Log {
            layers: RwLock::default(),
            writing: Mutex::new(writing),
            merged: Condvar::new(),
            due: Condvar::new(),
            merges: Merges::new(),
            room,
        })
    }

    /// The layers as they are now. Must be taken before the tree's snapshot.
    pub fn layers(&self) -> RwLockReadGuard<'_, Layers> {
        self.layers.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What merges wrote.
    pub fn merges(&self) -> &Merges {
        &self.merges
    }

    /// `_writing` = the caller is the only one that writes.
    fn change_layers(&self, _writing: &Writing) -> RwLockWriteGuard<'_, Layers> {
        self.layers.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether layers or log have reached a part of their room.
    fn has(&self, writing: &Writing, part: usize) -> bool {
        let layer = self.layers().active.bytes();
        layer.max(writing.segments.bytes() as usize) >= part
    }

    /// Begins a group, when no other is open and there is room.
    pub fn begin<'c>(&'c self, core: &'c Core) -> Result<Group<'c>, StoreError> {
        let begun = Instant::now();
        let mut writing = self.writing();
        while !writing.is_broken && (writing.failed.is_some() || self.has(&writing, self.room)) {
            let Some(left) = LONGEST_WAIT.checked_sub(begun.elapsed()) else {
                return Err(StoreError::Unavailable(format!(
                    "{}: its log is full and the disk takes no more; try again later",
                    core.dir.display()
                )));
            };
            // One more merge may do better than the last, which failed.
            self.due.notify_one();
            writing = self.merged.wait_timeout(writing, left).unwrap_or_else(PoisonError::into_inner).0;
            if let Some(error) = &writing.failed {
                return Err(error.clone());
            }
        }
        if writing.is_broken {
            return Err(StoreError::Fatal(format!(
                "{}: an earlier write of its log failed; check the disk, then restart this process",
                core.dir.display()
            )));
        }
        let layers = self.layers();
        let snapshot = core.env.read_txn().map_err(|error| core.error(error))?;
        let remembered = self.merges.remembered(snapshot.id());
        Ok(Group { core, log: self, writing, layers, snapshot, remembered, written: Layer::default() })
    }
}

/// A group on its way into the log: its own rows over all that was there before.
pub(super) struct Group<'c> {
    core: &'c Core,
    log: &'c Log,
    writing: MutexGuard<'c, Writing>,
    layers: RwLockReadGuard<'c, Layers>,
    snapshot: RoTxn<'c, WithTls>,
    remembered: Remembered,
    written: Layer,
}

impl Group<'_> {
    /// The rows as they stand after what the group wrote so far.
    pub fn rows(&self) -> Rows<'_> {
        let own = Some(&self.written).filter(|layer| !layer.is_empty());
        let layers = own.into_iter().chain(self.layers.youngest_first());
        Rows::new(self.core, &self.snapshot, layers, Some(&self.remembered))
    }

    /// What the group writes.
    pub fn written(&mut self) -> &mut Layer {
        &mut self.written
    }

    /// Makes what the group wrote durable and lets everybody see it. After an error nothing was written, but for
    /// `MaybeCommitted`, after which nothing is written any more.
    pub fn commit(self) -> Result<(), StoreError> {
        let Group { core, log, mut writing, layers, snapshot, remembered, written } = self;
        drop((layers, snapshot, remembered));
        writing.segments.append(&written).map_err(|error| core.error(error.into()))?;
        if let Err(error) = writing.segments.sync() {
            writing.is_broken = true;
            return Err(StoreError::MaybeCommitted(core.error(error.into()).to_string()));
        }
        log.change_layers(&writing).active.absorb(&written);
        if log.has(&writing, log.room / 2) {
            log.due.notify_one();
        }
        Ok(())
    }
}

//! What the parts of the store share.
//!
//! Locks are taken in this order: a block's turn, the IO of a replica in a pipeline, the map. Whoever changes a
//! replica's state or names has its turn; a writer's packets need the second only; nothing is read or written with the
//! map's lock held.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Settings;
use super::delete::Deletions;
use super::map::{ReplicaMap, Slot};
use super::pipeline::InPipeline;
use super::room::Space;
use super::suspects::Scanning;
use super::volume::{Place, Volume, is_failure, is_full, is_want};
use crate::store::{Block, Event, EventSink, Pool, Replica, ReplicaState, Result, StoreError};

/// Blocks share this many turns. A turn is held over all IO of a change of state, a sync of a whole block too.
const TURNS_BITS: u32 = 12;

/// The store but for its threads.
pub struct Core {
    pub pool: Pool,
    pub datanode_uuid: String,
    pub settings: Settings,
    pub volumes: Vec<Arc<Volume>>,
    pub deletions: Deletions,
    /// By volume.
    pub scanning: Vec<Scanning>,
    map: Mutex<ReplicaMap>,
    turns: Vec<Mutex<()>>,
    events: EventSink,
}

/// Locks whatever happened to others who held it: what is behind these locks is whole between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which turn is a block's. All bits of the id count: the blocks of a file have the same lowest ones.
fn turn_of(block_id: u64) -> usize {
    (block_id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - TURNS_BITS)) as usize
}

impl Core {
    /// A store of these volumes with the replicas that were found on them.
    pub fn new(
        pool: Pool,
        datanode_uuid: String,
        settings: Settings,
        volumes: Vec<Arc<Volume>>,
        map: ReplicaMap,
        events: EventSink,
    ) -> Core {
        Core {
            pool,
            datanode_uuid,
            settings,
            deletions: Deletions::default(),
            scanning: volumes.iter().map(|_| Scanning::default()).collect(),
            volumes,
            map: Mutex::new(map),
            turns: (0..1 << TURNS_BITS).map(|_| Mutex::new(())).collect(),
            events,
        }
    }

    /// The replicas.
    pub fn map(&self) -> MutexGuard<'_, ReplicaMap> {
        lock(&self.map)
    }

    /// Waits until nobody else changes the state or the names of this block.
    pub fn turn(&self, block_id: u64) -> MutexGuard<'_, ()> {
        lock(&self.turns[turn_of(block_id)])
    }

    /// Tells of an event.
    pub fn event(&self, event: Event) {
        (self.events)(event);
    }

    /// The replica of a block, of whatever stamp.
    pub fn slot(&self, block: Block) -> Result<Slot> {
        self.map().get(block.id).cloned().ok_or(StoreError::NotFound(block))
    }

    /// The volume of a replica.
    pub fn volume(&self, slot: &Slot) -> Arc<Volume> {
        self.volumes[usize::from(slot.volume())].clone()
    }

    /// A replica as callers see it.
    pub fn shown(&self, block_id: u64, slot: &Slot) -> Replica {
        let (stamp, len) = slot.stamp_and_len();
        self.replica(Block { id: block_id, stamp }, len, slot.state(), slot.volume())
    }

    /// A replica as callers see it.
    pub fn replica(&self, block: Block, len: u64, state: ReplicaState, volume: u16) -> Replica {
        Replica { block, len, state, storage: self.volumes[usize::from(volume)].storage.clone() }
    }

    /// Puts a replica in the place of the one that it came from; not if its volume failed meanwhile, which took that
    /// one away.
    pub fn replace(&self, block: Block, slot: Slot) -> Result<()> {
        let mut map = self.map();
        let volume = &self.volumes[usize::from(slot.volume())];
        if volume.failure().is_some() {
            return Err(StoreError::VolumeFailed(volume.path().to_owned()));
        }
        map.put(block.id, slot);
        Ok(())
    }

    /// Adds a new replica.
    pub fn add(&self, block: Block, slot: Slot) -> Result<()> {
        let mut map = self.map();
        let volume = &self.volumes[usize::from(slot.volume())];
        if volume.failure().is_some() {
            return Err(StoreError::VolumeFailed(volume.path().to_owned()));
        }
        map.add(block.id, slot).map_err(|found| exists(block.id, &found))
    }

    /// The error of a write, or of a change of names, on a volume; the volume fails if the disk did.
    pub fn write_error(
        &self,
        volume: &Volume,
        what: &'static str,
        path: &Path,
        error: io::Error,
    ) -> StoreError {
        if is_failure(&error) {
            return self.fail_volume(volume, format!("{what} {}: {error}", path.display()));
        }
        self.probed(volume, what, path, error)
    }

    /// The error of a read on a volume. One bad sector is no failed volume: it fails only if it cannot be written
    /// either.
    pub fn read_error(
        &self,
        volume: &Volume,
        what: &'static str,
        path: &Path,
        error: io::Error,
    ) -> StoreError {
        self.probed(volume, what, path, error)
    }

    fn probed(&self, volume: &Volume, what: &'static str, path: &Path, error: io::Error) -> StoreError {
        let innocent = |error: &io::Error| is_full(error) || is_want(error);
        if !innocent(&error)
            && error.raw_os_error().is_some()
            && volume.probe().is_err_and(|probe| !innocent(&probe))
        {
            return self.fail_volume(volume, format!("{what} {}: {error}", path.display()));
        }
        StoreError::Io { what, path: path.to_owned(), source: error }
    }

    /// The room of a volume's file system, or what it was when its disk last answered; None if it cannot be had, as of a
    /// volume that has failed.
    pub fn space(&self, volume: &Volume) -> Option<Space> {
        if volume.failure().is_some() {
            return None;
        }
        let error = match volume.room.ask() {
            Ok(space) => return Some(space),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                self.fail_volume(volume, error.to_string())
            }
            Err(error) => self.read_error(volume, "looking for room on", volume.path(), error),
        };
        tracing::warn!(%error, "a volume does not tell its room");
        None
    }

    /// Takes a volume out of service.
    pub fn fail_volume(&self, volume: &Volume, reason: String) -> StoreError {
        if volume.fail(reason.clone()) {
            tracing::error!(volume = %volume.path().display(), reason, "a volume failed; its replicas are gone");
            let written = self.map().remove_volume(volume.index);
            for pipeline in written {
                pipeline.stop();
            }
            self.event(Event::VolumeFailed { storage: volume.storage.clone(), reason });
        }
        StoreError::VolumeFailed(volume.path().to_owned())
    }

    /// A replica whose files contradict its sums: the namenode is told, and the caller gets the error.
    pub fn corrupt(&self, replica: Replica, reason: &str) -> StoreError {
        let block = replica.block;
        tracing::warn!(%block, storage = %replica.storage, reason, "a replica is corrupt");
        self.event(Event::Corrupt(replica));
        StoreError::Corrupt { block, reason: reason.to_owned() }
    }

    /// Counts and removes a replica that goes away with its files, on the caller's turn.
    pub fn discard(&self, pipeline: &InPipeline) {
        let place = pipeline.place();
        let (stamp, len) = pipeline.stamp_and_len();
        self.map().remove(pipeline.block_id);
        self.remove_files(&pipeline.volume, place, Block { id: pipeline.block_id, stamp });
        pipeline.volume.count(len, 0);
        pipeline.forget_promise();
    }

    /// Removes the files of a replica; what cannot be removed is logged, and found by the next start.
    pub fn remove_files(&self, volume: &Volume, place: Place, block: Block) -> bool {
        // The data first: without it the meta file is a leftover that a start clears away.
        self.remove_file(volume, block, &volume.data(place, block.id))
            && self.remove_file(volume, block, &volume.meta(place, block))
    }

    /// Removes a file of a replica, if it is there.
    pub fn remove_file(&self, volume: &Volume, block: Block, path: &Path) -> bool {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let error = self.write_error(volume, "removing", path, error);
                tracing::warn!(%block, %error, "a replica's file stays");
                false
            }
            _ => true,
        }
    }
}

/// The error of a call that needs bytes which could not be made durable before.
pub fn lost(block: Block) -> StoreError {
    let reason = "its bytes could not be made durable: it is not written or recovered any more".to_owned();
    StoreError::Unfit { block, reason }
}

/// The error of a create that meets this replica.
pub fn exists(block_id: u64, found: &Slot) -> StoreError {
    let (stamp, _) = found.stamp_and_len();
    StoreError::AlreadyExists { block: Block { id: block_id, stamp }, state: found.state() }
}

/// The error of a call that needs another replica than this one.
pub fn unfit(block_id: u64, found: &Slot, reason: String) -> StoreError {
    let (stamp, _) = found.stamp_and_len();
    StoreError::Unfit { block: Block { id: block_id, stamp }, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids as namenodes of both kinds give them.
    #[test]
    fn blocks_of_one_file_have_turns_of_their_own() {
        for ids in [
            (0..64).map(|block| block << 40 | 70_000).collect::<Vec<u64>>(),
            (0..64).map(|block| (1 << 30) + block).collect(),
            (0..64).map(|inode| 5 << 40 | inode << 8).collect(),
        ] {
            let turns: std::collections::BTreeSet<usize> = ids.iter().map(|id| turn_of(*id)).collect();
            assert!(turns.len() >= 60, "{} turns for 64 blocks", turns.len());
        }
    }
}

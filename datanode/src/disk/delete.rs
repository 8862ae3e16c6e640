//! Deletion: replicas leave the map at once, their files in the background, not too many a second.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::core::{Core, lock, unfit};
use super::map::Slot;
use super::volume::Place;
use crate::store::{Block, Event, Replica, ReplicaState, Result};

/// Replicas that may wait for their deletion.
const QUEUE_MAX: usize = 200_000;

/// Files that are to be deleted.
#[derive(Default)]
pub struct Deletions {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Deletion>,
    /// One is being deleted.
    busy: bool,
    closed: bool,
}

struct Deletion {
    volume: u16,
    place: Place,
    replica: Replica,
}

impl Deletions {
    /// Ends the thread that deletes; what waits stays on disk and is found by the next start.
    pub fn close(&self) {
        lock(&self.queue).closed = true;
        self.changed.notify_all();
    }

    /// Waits until nothing waits.
    pub fn settle(&self) {
        let mut queue = lock(&self.queue);
        while !queue.closed && (queue.busy || !queue.waiting.is_empty()) {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next one; None once closed.
    fn next(&self) -> Option<Deletion> {
        let mut queue = lock(&self.queue);
        queue.busy = false;
        self.changed.notify_all();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(next) = queue.waiting.pop_front() {
                queue.busy = true;
                return Some(next);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the time between two deletions, or until closed.
    fn pause(&self, time: Duration) {
        let queue = lock(&self.queue);
        if !time.is_zero() {
            drop(self.changed.wait_timeout_while(queue, time, |queue| !queue.closed));
        }
    }
}

impl Core {
    /// Forgets a replica with exactly this stamp and has its files deleted.
    pub fn delete(&self, block: Block) -> Result<()> {
        let _turn = self.turn(block.id);
        let slot = self.slot(block)?;
        if slot.stamp_and_len().0 != block.stamp {
            return Err(unfit(block.id, &slot, format!("stamp {} is to be deleted", block.stamp)));
        }
        if lock(&self.deletions.queue).waiting.len() >= QUEUE_MAX {
            return Err(unfit(block.id, &slot, format!("{QUEUE_MAX} deletions wait; say it again later")));
        }
        if let Slot::InPipeline(pipeline) = &slot {
            pipeline.stop();
            let _io = pipeline.io();
            pipeline.forget_promise();
        }
        let replica = self.shown(block.id, &slot);
        self.map().remove(block.id);
        self.enqueue(slot.volume(), slot.place(), replica);
        Ok(())
    }

    fn enqueue(&self, volume: u16, place: Place, replica: Replica) {
        lock(&self.deletions.queue).waiting.push_back(Deletion { volume, place, replica });
        self.deletions.changed.notify_all();
    }

    /// Deletes files until the store is closed.
    pub fn run_deletions(self: Arc<Self>) {
        let pause = match self.settings.deletions_per_second {
            0 => Duration::ZERO,
            rate => Duration::from_secs(1) / rate,
        };
        while let Some(deletion) = self.deletions.next() {
            self.delete_files(&deletion);
            self.deletions.pause(pause);
        }
    }

    fn delete_files(&self, deletion: &Deletion) {
        let Deletion { volume, place, replica } = deletion;
        let volume = &self.volumes[usize::from(*volume)];
        if volume.failure().is_some() {
            return;
        }
        let _turn = self.turn(replica.block.id);
        // The block may have come back meanwhile, under the same names.
        let again = self.map().get(replica.block.id).cloned();
        let again = again.filter(|slot| slot.volume() == volume.index);
        // What the namenode was told of that one since must not be taken back; of a copy it hears once that is whole.
        let told = again.as_ref().is_some_and(|slot| slot.state() != ReplicaState::Temporary);
        let again = again.filter(|slot| slot.place() == *place);
        let removed = match again.map(|slot| slot.stamp_and_len().0) {
            None => self.remove_files(volume, *place, replica.block),
            Some(stamp) if stamp == replica.block.stamp => true,
            Some(_) => self.remove_file(volume, replica.block, &volume.meta(*place, replica.block)),
        };
        if !removed {
            return;
        }
        volume.count(replica.len, 0);
        if !told {
            self.event(Event::Deleted(replica.clone()));
        }
    }
}

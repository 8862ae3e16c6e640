//! Which replicas there are, in memory: 33 bytes for each that rests, and the places that the table keeps free. A million
//! take 67 MiB, measured by the test below.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::pipeline::InPipeline;
use super::volume::Place;
use crate::store::{Acked, Block, ReplicaState};

/// A replica that nobody writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resting {
    /// Generation stamp.
    pub stamp: u64,
    /// Bytes.
    pub len: u64,
    /// Number of its volume.
    pub volume: u16,
    /// RWR: it was being written when the datanode stopped. Otherwise it is FINALIZED.
    pub unfinished: bool,
}

/// A replica whose block is being recovered.
#[derive(Debug, Clone)]
pub struct Recovering {
    /// Id of the recovery.
    pub id: u64,
    /// The replica; its writer is stopped.
    pub replica: Resting,
    /// What it was before: FINALIZED, RBW or RWR.
    pub was: ReplicaState,
    /// What readers may count on.
    pub acked: Acked,
    /// As [`Io::lost`](super::pipeline::Io::lost).
    pub lost: bool,
}

/// A replica of any state.
#[derive(Clone)]
pub enum Slot {
    /// FINALIZED or RWR.
    Resting(Resting),
    /// RBW or TEMPORARY.
    InPipeline(Arc<InPipeline>),
    /// RUR.
    Recovering(Box<Recovering>),
}

impl Slot {
    /// Number of its volume.
    pub fn volume(&self) -> u16 {
        match self {
            Slot::Resting(replica) => replica.volume,
            Slot::InPipeline(pipeline) => pipeline.volume.index,
            Slot::Recovering(recovering) => recovering.replica.volume,
        }
    }

    /// Its state.
    pub fn state(&self) -> ReplicaState {
        match self {
            Slot::Resting(replica) if replica.unfinished => ReplicaState::Rwr,
            Slot::Resting(_) => ReplicaState::Finalized,
            Slot::InPipeline(pipeline) if pipeline.temporary => ReplicaState::Temporary,
            Slot::InPipeline(_) => ReplicaState::Rbw,
            Slot::Recovering(_) => ReplicaState::Rur,
        }
    }

    /// Whether a full report shows it.
    pub fn is_shown(&self) -> bool {
        self.state() != ReplicaState::Temporary
    }

    /// Where its files are.
    pub fn place(&self) -> Place {
        match self {
            Slot::InPipeline(pipeline) => pipeline.place(),
            Slot::Resting(replica) if replica.unfinished => Place::Rbw,
            Slot::Recovering(recovering) if recovering.was != ReplicaState::Finalized => Place::Rbw,
            Slot::Resting(_) | Slot::Recovering(_) => Place::Finalized,
        }
    }

    /// Stamp, and bytes on disk.
    pub fn stamp_and_len(&self) -> (u64, u64) {
        match self {
            Slot::Resting(replica) => (replica.stamp, replica.len),
            Slot::InPipeline(pipeline) => pipeline.stamp_and_len(),
            Slot::Recovering(recovering) => (recovering.replica.stamp, recovering.replica.len),
        }
    }
}

/// Replicas by block id.
pub struct ReplicaMap {
    slots: HashMap<u64, Slot>,
    /// How many of them reports show, by volume.
    shown: Vec<u64>,
}

impl ReplicaMap {
    /// An empty map with room for so many.
    pub fn with_capacity(replicas: usize) -> Self {
        ReplicaMap { slots: HashMap::with_capacity(replicas), shown: Vec::new() }
    }

    /// The replica of a block.
    pub fn get(&self, block_id: u64) -> Option<&Slot> {
        self.slots.get(&block_id)
    }

    /// Adds or replaces a replica.
    pub fn put(&mut self, block_id: u64, slot: Slot) {
        self.count(&slot);
        if let Some(old) = self.slots.insert(block_id, slot) {
            self.discount(&old);
        }
    }

    /// How many replicas of a volume reports show.
    pub fn shown(&self, volume: u16) -> u64 {
        self.shown.get(usize::from(volume)).copied().unwrap_or(0)
    }

    fn count(&mut self, slot: &Slot) {
        let volume = usize::from(slot.volume());
        if self.shown.len() <= volume {
            self.shown.resize(volume + 1, 0);
        }
        if let Some(shown) = self.shown.get_mut(volume) {
            *shown += u64::from(slot.is_shown());
        }
    }

    fn discount(&mut self, slot: &Slot) {
        if let Some(shown) = self.shown.get_mut(usize::from(slot.volume())) {
            *shown -= u64::from(slot.is_shown());
        }
    }

    /// Adds a replica unless there is one of this id, which is then returned.
    pub fn add(&mut self, block_id: u64, slot: Slot) -> Result<(), Slot> {
        match self.slots.entry(block_id) {
            Entry::Occupied(found) => return Err(found.get().clone()),
            Entry::Vacant(place) => {
                place.insert(slot.clone());
            }
        }
        self.count(&slot);
        Ok(())
    }

    /// Forgets a replica.
    pub fn remove(&mut self, block_id: u64) -> Option<Slot> {
        let slot = self.slots.remove(&block_id)?;
        self.discount(&slot);
        Some(slot)
    }

    /// Forgets all replicas of a volume and returns those that were being written.
    pub fn remove_volume(&mut self, volume: u16) -> Vec<Arc<InPipeline>> {
        let mut written = Vec::new();
        self.slots.retain(|_, slot| {
            if slot.volume() != volume {
                return true;
            }
            if let Slot::InPipeline(pipeline) = slot {
                written.push(pipeline.clone());
            }
            false
        });
        if let Some(shown) = self.shown.get_mut(usize::from(volume)) {
            *shown = 0;
        }
        written
    }

    /// All replicas.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Slot)> {
        self.slots.iter().map(|(id, slot)| (*id, slot))
    }

    /// The FINALIZED replicas of a volume whose ids are to be kept, with their lengths.
    pub fn finalized(&self, volume: u16, keep: impl Fn(u64) -> bool) -> Vec<(Block, u64)> {
        let finalized = self.slots.iter().filter_map(|(id, slot)| match slot {
            Slot::Resting(r) if r.volume == volume && !r.unfinished && keep(*id) => {
                Some((Block { id: *id, stamp: r.stamp }, r.len))
            }
            _ => None,
        });
        finalized.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resting_replica_is_small() {
        assert_eq!(std::mem::size_of::<(u64, Slot)>(), 32);
    }

    /// Bytes of this process that are in memory.
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// In a process of its own, since others allocate in this one.
    #[test]
    fn a_million_replicas() {
        const ALONE: &str = "TRELLIS_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            alone.args(["--exact", "disk::map::tests::a_million_replicas", "--nocapture"]).env(ALONE, "1");
            let output = alone.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            eprintln!("{said}");
            assert!(output.status.success() && said.contains("a million replicas"), "{said}");
            return;
        }
        // As a start knows how many there are, and as they come one by one.
        for at_once in [1_000_000, 0] {
            let before = resident();
            let mut map = ReplicaMap::with_capacity(at_once);
            for id in 0..1_000_000 {
                let resting = Resting { stamp: id, len: id, volume: 0, unfinished: false };
                map.put(id << 40 | 5, Slot::Resting(resting));
            }
            let taken = resident().saturating_sub(before) as f64 / (1 << 20) as f64;
            eprintln!("a million replicas, room for {at_once} at first: {taken:.1} MiB");
            assert!((60.0..75.0).contains(&taken));
            assert_eq!(map.iter().count(), 1_000_000);
        }
    }
}

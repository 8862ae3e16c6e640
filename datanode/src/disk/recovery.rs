//! Recovery of a block whose writer is gone: the replicas are brought to one length and stamp.

use std::io;
use std::sync::Arc;

use super::core::{Core, lost, unfit};
use super::map::{Recovering, Resting, Slot};
use super::meta;
use super::note::Note;
use super::reader::Reader;
use super::volume::{Place, is_contradiction};
use crate::store::{
    Acked, Block, RecoveryInfo, Replica, ReplicaReader, ReplicaState, ReplicaWriter, Result, StoreError,
    Target,
};

/// Bytes that a copy reads at a time.
const COPY_BYTES: usize = 1 << 20;

impl Core {
    /// `init_recovery`
    pub fn init_recovery(&self, block: Block, recovery_id: u64) -> Result<Option<RecoveryInfo>> {
        let _turn = self.turn(block.id);
        let Ok(slot) = self.slot(block) else { return Ok(None) };
        let (stamp, _) = slot.stamp_and_len();
        if slot.state() == ReplicaState::Temporary {
            return Ok(None);
        }
        if stamp < block.stamp || stamp >= recovery_id {
            let reason =
                format!("stamp {stamp} does not fit recovery {recovery_id} of stamp {}", block.stamp);
            return Err(unfit(block.id, &slot, reason));
        }
        let recovering = match slot {
            Slot::Resting(replica) => {
                let (was, acked) = (slot.state(), Acked::new(replica.len));
                Recovering { id: recovery_id, replica, was, acked, lost: false }
            }
            Slot::Recovering(recovering) if recovering.lost => {
                return Err(lost(Block { id: block.id, stamp }));
            }
            Slot::Recovering(recovering) if recovering.id >= recovery_id => {
                let block = Block { id: block.id, stamp };
                return Err(StoreError::RecoveryInProgress { block, recovery_id: recovering.id });
            }
            Slot::Recovering(recovering) => Recovering { id: recovery_id, ..*recovering },
            Slot::InPipeline(rbw) => {
                rbw.stop();
                let mut io = rbw.io();
                if io.lost {
                    return Err(lost(rbw.block()));
                }
                if io.broken {
                    let (data, meta) = self.open_files(&rbw.volume, Place::Rbw, rbw.block())?;
                    let end = (rbw.len(), Some(io.last_sum));
                    let cut = meta::cut(&data, &meta, io.checksum, end, rbw.len());
                    cut.map_err(|e| self.files_error(&rbw, e))?;
                    io.broken = false;
                }
                rbw.forget_promise();
                let acked = io.acked.clone();
                let (replica, was) = (rbw.resting(true), ReplicaState::Rbw);
                Recovering { id: recovery_id, replica, was, acked, lost: false }
            }
        };
        let info = RecoveryInfo {
            block: Block { id: block.id, stamp: recovering.replica.stamp },
            len: recovering.replica.len,
            state: recovering.was,
        };
        self.replace(block, Slot::Recovering(Box::new(recovering)))?;
        Ok(Some(info))
    }

    /// `update_recovery`
    pub fn update_recovery(
        self: &Arc<Self>,
        block: Block,
        recovery_id: u64,
        new_block_id: u64,
        len: u64,
    ) -> Result<Replica> {
        let turn = self.turn(block.id);
        let slot = self.slot(block)?;
        let copied = new_block_id != 0 && new_block_id != block.id;
        let recovering = match &slot {
            Slot::Recovering(recovering) if recovering.lost => {
                return Err(lost(Block { id: block.id, stamp: recovering.replica.stamp }));
            }
            Slot::Recovering(recovering) if recovering.id == recovery_id && recovering.replica.len >= len => {
                recovering
            }
            // Said again, because the answer was lost.
            Slot::Resting(replica)
                if !copied && !replica.unfinished && (replica.stamp, replica.len) == (recovery_id, len) =>
            {
                return Ok(self.shown(block.id, &slot));
            }
            _ => {
                let (stamp, here) = slot.stamp_and_len();
                let state = slot.state().as_str_name();
                let reason = format!(
                    "it is {state} with {here} bytes and stamp {stamp}; recovery {recovery_id} to {len} bytes \
                     does not fit"
                );
                return Err(unfit(block.id, &slot, reason));
            }
        };
        if copied {
            let was = recovering.was;
            if was != ReplicaState::Finalized {
                return Err(unfit(block.id, &slot, format!("a copy of it is asked for, and it is {was:?}")));
            }
            drop(turn);
            return self.copy_of(block, recovery_id, new_block_id, len);
        }
        let old = recovering.replica;
        let volume = self.volumes[usize::from(old.volume)].clone();
        let place = slot.place();
        let from = Block { id: block.id, stamp: old.stamp };
        let (data, meta_file) = self.open_files(&volume, place, from)?;
        let changed = || -> io::Result<Option<Note>> {
            let checksum = meta::read_header(&meta_file)?;
            let last_sum = match len < old.len {
                true => Some(meta::cut(&data, &meta_file, checksum, (old.len, None), len)?),
                // A fault is for its readers to find.
                false => meta::last_sum(&data, &meta_file, checksum, len).ok(),
            };
            Ok(last_sum.and_then(|sum| Note::of(checksum, len, sum)))
        };
        let path = volume.data(place, block.id);
        let note = changed().map_err(|error| match is_contradiction(&error) {
            true => {
                self.corrupt(self.replica(from, old.len, ReplicaState::Rur, old.volume), &error.to_string())
            }
            false => self.write_error(&volume, "recovering", &path, error),
        })?;
        let synced = || {
            volume.syncs.note(&meta_file, note)?;
            volume.syncs.files(&data, &meta_file)
        };
        if self.settings.sync_on_close
            && let Err(error) = synced()
        {
            let recovering = Recovering { lost: true, ..(**recovering).clone() };
            self.replace(block, Slot::Recovering(Box::new(recovering)))?;
            return Err(self.write_error(&volume, "syncing", &path, error));
        }
        self.move_files(&volume, block.id, (place, old.stamp), (Place::Finalized, recovery_id))?;
        volume.count(old.len, len);
        let slot = Slot::Resting(Resting { stamp: recovery_id, len, volume: old.volume, unfinished: false });
        self.replace(block, slot.clone())?;
        Ok(self.shown(block.id, &slot))
    }

    /// Copies the first `len` bytes of a replica under recovery into a new replica of the same storage, and ends the
    /// recovery: the old one is what it was.
    fn copy_of(self: &Arc<Self>, block: Block, recovery_id: u64, new_id: u64, len: u64) -> Result<Replica> {
        let mut from = Reader::open(self, block)?;
        let checksum = from.checksum();
        let target = Target {
            storage: Some(from.replica().storage.to_string()),
            storage_type: None,
            expected_len: len,
        };
        let new = Block { id: new_id, stamp: recovery_id };
        let mut to = Box::new(self.create(new, &target, checksum, true)?);
        let step = checksum.chunk_start(COPY_BYTES as u64).max(checksum.bytes_per_checksum().into());
        let (mut data, mut sums) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < len {
            // Whole chunks, so that they can be verified; what is beyond `len` is not written.
            data.resize(step.min(from.replica().len - at) as usize, 0);
            sums.resize(checksum.sums_len(data.len()), 0);
            from.read(at, &mut data)?;
            from.read_sums(at, &mut sums)?;
            if let Err(error) = checksum.verify(&data, &sums) {
                return Err(from.mismatch(&error.to_string()));
            }
            let part = data.len().min((len - at) as usize);
            to.write(at, None, &data[..part])?;
            at += part as u64;
        }
        let copy = to.finish()?;
        let _turn = self.turn(block.id);
        match self.slot(block)? {
            Slot::Recovering(recovering) if recovering.id == recovery_id => {
                self.replace(block, Slot::Resting(recovering.replica))?;
            }
            _ => tracing::warn!(%block, recovery_id, "another recovery began while the block was copied"),
        }
        Ok(copy)
    }
}

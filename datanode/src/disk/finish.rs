//! From one place on disk to another: how a replica's files move when its state changes.
//!
//! The meta file moves first and the data file last: a pair that a crash parted belongs where its data is.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;

use super::core::Core;
use super::map::Slot;
use super::pipeline::{InPipeline, Io};
use super::volume::{Place, Volume};
use crate::store::{Acked, Block, Replica, ReplicaState, Result, StoreError};

impl Core {
    /// Finalizes a replica whose writer ended or was stopped, on the caller's turn. Its data is durable already, if it
    /// has to be.
    pub fn finalize(&self, pipeline: &InPipeline) -> Result<Replica> {
        let volume = &pipeline.volume;
        let block = pipeline.block();
        self.move_files(volume, block.id, (pipeline.place(), block.stamp), (Place::Finalized, block.stamp))?;
        self.rest(pipeline)
    }

    /// A replica whose files are where those of FINALIZED ones are becomes one.
    pub fn rest(&self, pipeline: &InPipeline) -> Result<Replica> {
        let (block, replica) = (pipeline.block(), pipeline.resting(false));
        self.replace(block, Slot::Resting(replica))?;
        pipeline.forget_promise();
        Ok(self.replica(block, replica.len, ReplicaState::Finalized, pipeline.volume.index))
    }

    /// Makes a TEMPORARY replica, whose IO the caller holds, an RBW one without a writer.
    pub fn temporary_to_rbw(&self, pipeline: &InPipeline, io: &Io, acked: u64) -> Result<Replica> {
        let (block, len) = (pipeline.block(), pipeline.len());
        if !pipeline.temporary || io.broken || io.lost || len < acked {
            let reason = format!("it is {:?} with {len} bytes; {acked} were acked", pipeline.state());
            return Err(StoreError::Unfit { block, reason });
        }
        self.move_files(&pipeline.volume, block.id, (Place::Tmp, block.stamp), (Place::Rbw, block.stamp))?;
        let (checksum, last_sum) = (io.checksum, io.last_sum);
        let io = Io { checksum, last_sum, acked: Acked::new(acked), broken: false, lost: false };
        let rbw = InPipeline::new(pipeline.volume.clone(), block, false, len, io);
        self.replace(block, Slot::InPipeline(Arc::new(rbw)))?;
        pipeline.forget_promise();
        Ok(self.replica(block, len, ReplicaState::Rbw, pipeline.volume.index))
    }

    /// Moves a replica's files from one place and stamp to another; both folders are durable then, when finalized
    /// replicas have to be: a stamp that a client was told must not be lost either. A failure leaves them where they
    /// were.
    pub fn move_files(
        &self,
        volume: &Volume,
        block_id: u64,
        (from, old_stamp): (Place, u64),
        (to, stamp): (Place, u64),
    ) -> Result<()> {
        let (old_dir, new_dir) = (volume.dir(from, block_id), volume.dir(to, block_id));
        let old_meta = volume.meta(from, Block { id: block_id, stamp: old_stamp });
        let new_meta = volume.meta(to, Block { id: block_id, stamp });
        let (old_data, new_data) = (volume.data(from, block_id), volume.data(to, block_id));
        let moved = || -> io::Result<()> {
            volume.make_dir(&new_dir)?;
            // Opened before anything moves: what can fail for want of a descriptor fails now.
            let mut dirs = Vec::new();
            if self.settings.sync_on_close {
                dirs.push(File::open(&new_dir)?);
                if from != to {
                    dirs.push(File::open(&old_dir)?);
                }
            }
            fs::rename(&old_meta, &new_meta)?;
            if from != to
                && let Err(error) = fs::rename(&old_data, &new_data)
            {
                fs::rename(&new_meta, &old_meta)?;
                return Err(error);
            }
            if let Err(error) = dirs.iter().try_for_each(|dir| volume.syncs.dir(dir)) {
                fs::rename(&new_meta, &old_meta)?;
                fs::rename(&new_data, &old_data)?;
                return Err(error);
            }
            Ok(())
        };
        moved().map_err(|e| self.write_error(volume, "moving", &old_data, e))
    }
}

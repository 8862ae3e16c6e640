//! A replica that is being written (RBW or TEMPORARY), and who writes it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use trellis_proto::checksum::Checksum;

use super::core::lock;
use super::map::Resting;
use super::volume::{Place, Volume};
use crate::store::{Acked, Block, ReplicaState, WriterStopped};

/// A replica that is being written, or may go on to be.
pub struct InPipeline {
    /// Where it is.
    pub volume: Arc<Volume>,
    /// Its id.
    pub block_id: u64,
    /// TEMPORARY, not RBW.
    pub temporary: bool,
    stamp: AtomicU64,
    len: AtomicU64,
    /// Number of its writer: a writer with another number was stopped.
    writer: AtomicU64,
    stopped: Mutex<Option<WriterStopped>>,
    io: Mutex<Io>,
    /// Bytes that the volume keeps free for it.
    promised: AtomicU64,
}

/// What a write changes besides the length.
pub struct Io {
    /// How its sums are kept.
    pub checksum: Checksum,
    /// The sum of a partial last chunk; 0 if the last chunk is whole.
    pub last_sum: u32,
    /// What readers may count on.
    pub acked: Acked,
    /// A write failed: there may be more in the files than `len` says, or a wrong last sum.
    pub broken: bool,
    /// Its bytes could not be made durable: the system may have dropped them, and what it says later proves nothing. It
    /// is for readers only, until the next start sees what the disk has.
    pub lost: bool,
}

impl InPipeline {
    /// One of `len` bytes, without a writer.
    pub fn new(volume: Arc<Volume>, block: Block, temporary: bool, len: u64, io: Io) -> InPipeline {
        InPipeline {
            volume,
            block_id: block.id,
            temporary,
            stamp: AtomicU64::new(block.stamp),
            len: AtomicU64::new(len),
            writer: AtomicU64::new(0),
            stopped: Mutex::new(None),
            io: Mutex::new(io),
            promised: AtomicU64::new(0),
        }
    }

    /// Block and stamp.
    pub fn block(&self) -> Block {
        Block { id: self.block_id, stamp: self.stamp.load(Ordering::Acquire) }
    }

    /// Bytes on disk.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Stamp, and bytes on disk.
    pub fn stamp_and_len(&self) -> (u64, u64) {
        (self.block().stamp, self.len())
    }

    /// Its state.
    pub fn state(&self) -> ReplicaState {
        if self.temporary { ReplicaState::Temporary } else { ReplicaState::Rbw }
    }

    /// Where its files are.
    pub fn place(&self) -> Place {
        if self.temporary { Place::Tmp } else { Place::Rbw }
    }

    /// As it is once nobody writes it any more.
    pub fn resting(&self, unfinished: bool) -> Resting {
        let (stamp, len) = self.stamp_and_len();
        Resting { stamp, len, volume: self.volume.index, unfinished }
    }

    /// Its files' state, for a reader or for who stopped its writer.
    pub fn io(&self) -> MutexGuard<'_, Io> {
        lock(&self.io)
    }

    /// Its files' state, for the writer of this number; None if that one was stopped.
    pub fn io_of(&self, writer: u64) -> Option<MutexGuard<'_, Io>> {
        let io = lock(&self.io);
        (self.writer.load(Ordering::Acquire) == writer).then_some(io)
    }

    /// Stops its writer and tells it; what that one is writing right now, it still writes. Returns the next writer's
    /// number.
    pub fn stop(&self) -> u64 {
        let next = self.writer.fetch_add(1, Ordering::AcqRel) + 1;
        let stopped = lock(&self.stopped).take();
        if let Some(stopped) = stopped {
            stopped();
        }
        next
    }

    /// Ends its writer, who asked for it.
    pub fn retire(&self) {
        self.writer.fetch_add(1, Ordering::AcqRel);
        drop(lock(&self.stopped).take());
    }

    /// Who is told when the writer is stopped; at once if it was.
    pub fn on_stop(&self, writer: u64, stopped: WriterStopped) {
        let mut place = lock(&self.stopped);
        if self.writer.load(Ordering::Acquire) == writer {
            *place = Some(stopped);
        } else {
            drop(place);
            stopped();
        }
    }

    /// Bytes were added or cut off. Only with [`InPipeline::io`] held.
    pub fn set_len(&self, len: u64) {
        let old = self.len.swap(len, Ordering::AcqRel);
        self.volume.count(old, len);
        if len > old {
            let kept = self.promised.load(Ordering::Relaxed);
            let used = kept.min(len - old);
            self.promised.store(kept - used, Ordering::Relaxed);
            self.volume.release(used);
        }
    }

    /// Its meta file has a new name. Only on the block's turn.
    pub fn set_stamp(&self, stamp: u64) {
        self.stamp.store(stamp, Ordering::Release);
    }

    /// Has the volume keep bytes free for it, in place of those before.
    pub fn promise(&self, bytes: u64) {
        self.volume.promise(bytes);
        self.volume.release(self.promised.swap(bytes, Ordering::Relaxed));
    }

    /// It needs no more room.
    pub fn forget_promise(&self) {
        self.promise(0);
    }
}

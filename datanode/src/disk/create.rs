//! New replicas, and those that writing goes on with.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use nix::libc;
use trellis_proto::checksum::Checksum;

use super::core::{Core, exists, lost, unfit};
use super::map::{Resting, Slot};
use super::meta;
use super::note::Note;
use super::pipeline::{InPipeline, Io};
use super::volume::{Place, Volume, with_sums};
use super::writer::Writer;
use crate::store::{Acked, Block, Replica, ReplicaState, Result, StoreError, Target};

/// Opens a file of a replica, never through a symbolic link.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.custom_flags(libc::O_NOFOLLOW).open(path)
}

impl Core {
    /// A new RBW or TEMPORARY replica and its writer.
    pub fn create(
        self: &Arc<Self>,
        block: Block,
        target: &Target,
        checksum: Checksum,
        temporary: bool,
    ) -> Result<Writer> {
        let _turn = self.turn(block.id);
        let old = self.in_the_way(block, temporary)?;
        // Before the old one goes: where there is no room, it stays.
        let volume = self.choose(target)?;
        if let Some(old) = old {
            old.stop();
            let _io = old.io();
            self.discard(&old);
        }
        let io = Io { checksum, last_sum: 0, acked: Acked::new(0), broken: false, lost: false };
        let pipeline = Arc::new(InPipeline::new(volume.clone(), block, temporary, 0, io));
        let (data, meta) = (volume.data(pipeline.place(), block.id), volume.meta(pipeline.place(), block));
        let made = || -> io::Result<(File, File)> {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true);
            let files = (open(&data, &mut options)?, open(&meta, &mut options)?);
            files.1.write_all_at(&meta::header(checksum), 0)?;
            Ok(files)
        };
        let (data_file, meta_file) = made().map_err(|e| {
            self.remove_files(&volume, pipeline.place(), block);
            self.write_error(&volume, "creating", &data, e)
        })?;
        pipeline.promise(with_sums(target.expected_len));
        if let Err(error) = self.add(block, Slot::InPipeline(pipeline.clone())) {
            pipeline.forget_promise();
            return Err(error);
        }
        Ok(Writer::new(self.clone(), pipeline, 0, (data_file, meta_file), true))
    }

    /// The replica of this block that a new one takes the place of: an older one that is still being written gives way
    /// to a copy. A client's new block gives way to nothing: what is there may have been acked.
    fn in_the_way(&self, block: Block, temporary: bool) -> Result<Option<Arc<InPipeline>>> {
        match self.map().get(block.id) {
            None => Ok(None),
            Some(Slot::InPipeline(old)) if temporary && old.block().stamp < block.stamp => {
                Ok(Some(old.clone()))
            }
            Some(found) => Err(exists(block.id, found)),
        }
    }

    /// The storage that was asked for, if it has room; else the one of that type with the most room.
    fn choose(&self, target: &Target) -> Result<Arc<Volume>> {
        let needed = with_sums(target.expected_len);
        let mut best: Option<(u64, &Arc<Volume>)> = None;
        for volume in self.volumes.iter().filter(|volume| volume.failure().is_none()) {
            let Some(space) = self.space(volume) else { continue };
            let remaining = volume.remaining(space);
            if remaining <= needed {
                continue;
            }
            if target.storage.as_deref() == Some(&volume.storage) {
                return Ok(volume.clone());
            }
            let fits = target.storage_type.is_none_or(|wanted| wanted == volume.storage_type);
            if fits && best.is_none_or(|(most, _)| remaining > most) {
                best = Some((remaining, volume));
            }
        }
        best.map(|(_, volume)| volume.clone()).ok_or(StoreError::OutOfSpace { needed })
    }

    /// Opens a FINALIZED replica for more; on the caller's turn.
    fn append_to(self: &Arc<Self>, block_id: u64, replica: Resting, stamp: u64) -> Result<Writer> {
        let volume = self.volumes[usize::from(replica.volume)].clone();
        let old = Block { id: block_id, stamp: replica.stamp };
        let block = Block { id: block_id, stamp };
        let (data, meta) = self.open_files(&volume, Place::Finalized, old)?;
        let io = self.io_of_files(&volume, old, replica.len, &data, &meta)?;
        self.note_appended(&volume, old, (&data, &meta), &io, replica.len)?;
        self.move_files(&volume, block_id, (Place::Finalized, old.stamp), (Place::Rbw, stamp))?;
        // Counted already, as the FINALIZED one.
        let pipeline = Arc::new(InPipeline::new(volume, block, false, replica.len, io));
        self.replace(block, Slot::InPipeline(pipeline.clone()))?;
        Ok(Writer::new(self.clone(), pipeline, 0, (data, meta), false))
    }

    /// Notes the end of a replica that is appended to, unless its close did: a stock DataNode has noted nothing. The move
    /// that follows makes it durable.
    fn note_appended(
        &self,
        volume: &Volume,
        block: Block,
        (data, meta): (&File, &File),
        io: &Io,
        len: u64,
    ) -> Result<()> {
        let before = Note::all(meta).unwrap_or_default(); // what cannot be read cannot be written, which tells
        if before.iter().any(|note| note.is_true(data, len, io.checksum).unwrap_or(false)) {
            return Ok(());
        }
        let noted = volume.syncs.note(meta, Note::of(io.checksum, len, io.last_sum));
        let path = volume.meta(Place::Finalized, block);
        noted.map_err(|e| self.write_error(volume, "noting", &path, e))
    }

    /// The state of a FINALIZED replica's files that are opened for more: all of it was acked.
    fn io_of_files(&self, volume: &Volume, block: Block, len: u64, data: &File, meta: &File) -> Result<Io> {
        let read = || -> io::Result<Io> {
            let checksum = meta::read_header(meta)?;
            let last_sum = meta::last_sum(data, meta, checksum, len)?;
            Ok(Io { checksum, last_sum, acked: Acked::new(len), broken: false, lost: false })
        };
        read().map_err(|error| {
            let replica = self.replica(block, len, ReplicaState::Finalized, volume.index);
            self.unread(volume, (replica, Place::Finalized), error)
        })
    }

    /// Both files of a replica, to read and write.
    pub fn open_files(&self, volume: &Volume, place: Place, block: Block) -> Result<(File, File)> {
        let both = |path: &Path| {
            let opened = open(path, File::options().read(true).write(true));
            opened.map_err(|e| self.write_error(volume, "opening", path, e))
        };
        Ok((both(&volume.data(place, block.id))?, both(&volume.meta(place, block))?))
    }

    /// `append`.
    pub fn append(self: &Arc<Self>, block: Block, new_stamp: u64, len: u64) -> Result<Writer> {
        let _turn = self.turn(block.id);
        let slot = self.slot(block)?;
        let Slot::Resting(replica @ Resting { unfinished: false, .. }) = slot else {
            return Err(unfit(
                block.id,
                &slot,
                format!("it is {}, not FINALIZED", slot.state().as_str_name()),
            ));
        };
        if replica.stamp != block.stamp || new_stamp < replica.stamp || replica.len != len {
            let (stamp, here) = slot.stamp_and_len();
            let reason =
                format!("{here} bytes with stamp {stamp} cannot be appended to as {len} with {new_stamp}");
            return Err(unfit(block.id, &slot, reason));
        }
        self.append_to(block.id, replica, new_stamp)
    }

    /// `recover_append`.
    pub fn recover_append(self: &Arc<Self>, block: Block, new_stamp: u64, len: u64) -> Result<Writer> {
        let _turn = self.turn(block.id);
        match self.recover_check(block, new_stamp, len)? {
            Slot::Resting(replica) => self.append_to(block.id, replica, new_stamp),
            Slot::InPipeline(rbw) => self.go_on(rbw, new_stamp, len),
            other => Err(unfit(block.id, &other, "it is under recovery".to_owned())),
        }
    }

    /// `recover_close`.
    pub fn recover_close(self: &Arc<Self>, block: Block, new_stamp: u64, len: u64) -> Result<Replica> {
        let _turn = self.turn(block.id);
        match self.recover_check(block, new_stamp, len)? {
            Slot::Resting(replica) => {
                let volume = &self.volumes[usize::from(replica.volume)];
                let place = Place::Finalized;
                self.move_files(volume, block.id, (place, replica.stamp), (place, new_stamp))?;
                let slot = Slot::Resting(Resting { stamp: new_stamp, ..replica });
                self.replace(block, slot.clone())?;
                Ok(self.shown(block.id, &slot))
            }
            Slot::InPipeline(rbw) => {
                self.take_over(&rbw, len, (Place::Finalized, new_stamp))?;
                let replica = self.rest(&rbw)?;
                rbw.retire();
                Ok(replica)
            }
            other => Err(unfit(block.id, &other, "it is under recovery".to_owned())),
        }
    }

    /// `recover_rbw`.
    pub fn recover_rbw(
        self: &Arc<Self>,
        block: Block,
        new_stamp: u64,
        min_len: u64,
        max_len: u64,
    ) -> Result<Writer> {
        let _turn = self.turn(block.id);
        let slot = self.slot(block)?;
        let Slot::InPipeline(rbw) = &slot else {
            return Err(unfit(block.id, &slot, format!("it is {}, not RBW", slot.state().as_str_name())));
        };
        if rbw.temporary {
            return Err(unfit(block.id, &slot, "it is TEMPORARY, not RBW".to_owned()));
        }
        check_stamp(block, new_stamp, &slot)?;
        rbw.stop();
        let (acked, len) = (rbw.io().acked.get(), rbw.len());
        if acked < min_len || len > max_len {
            let reason =
                format!("{acked} bytes acked and {len} received are not within {min_len} and {max_len}");
            return Err(unfit(block.id, &slot, reason));
        }
        self.go_on(rbw.clone(), new_stamp, acked.min(len))
    }

    /// A replica that a recovery of a pipeline may go on with: FINALIZED or RBW, its writer stopped, of this length and
    /// all of it acked.
    fn recover_check(&self, block: Block, new_stamp: u64, len: u64) -> Result<Slot> {
        let slot = self.slot(block)?;
        let state = slot.state();
        if !matches!(state, ReplicaState::Finalized | ReplicaState::Rbw) {
            let reason = format!("it is {}, neither FINALIZED nor RBW", state.as_str_name());
            return Err(unfit(block.id, &slot, reason));
        }
        check_stamp(block, new_stamp, &slot)?;
        let (mut here, mut acked) = (slot.stamp_and_len().1, len);
        if let Slot::InPipeline(rbw) = &slot {
            rbw.stop();
            acked = rbw.io().acked.get();
            here = rbw.len();
        }
        if here != len || acked != len {
            let reason = format!("{here} bytes are here and {acked} are acked where {len} are expected");
            return Err(unfit(block.id, &slot, reason));
        }
        Ok(slot)
    }

    /// The next writer of an RBW whose writer was stopped: under a new stamp, from `len` acked bytes on.
    fn go_on(self: &Arc<Self>, rbw: Arc<InPipeline>, stamp: u64, len: u64) -> Result<Writer> {
        let (number, files) = self.take_over(&rbw, len, (Place::Rbw, stamp))?;
        Ok(Writer::new(self.clone(), rbw, number, files, false))
    }

    /// Cuts an RBW, whose writer was stopped, to `len` acked bytes and moves its files; what is to be FINALIZED is durable
    /// first. Answers the next writer's number.
    fn take_over(
        &self,
        rbw: &InPipeline,
        len: u64,
        (place, stamp): (Place, u64),
    ) -> Result<(u64, (File, File))> {
        let number = rbw.stop();
        let mut io = rbw.io();
        if io.lost {
            return Err(lost(rbw.block()));
        }
        let volume = rbw.volume.clone();
        let (data, meta) = self.open_files(&volume, Place::Rbw, rbw.block())?;
        if io.broken || rbw.len() > len {
            let cut = meta::cut(&data, &meta, io.checksum, (rbw.len(), Some(io.last_sum)), len);
            io.last_sum = cut.map_err(|e| self.files_error(rbw, e))?;
            io.broken = false;
            rbw.set_len(len);
        }
        // Acks of the old pipeline no longer count.
        io.acked = Acked::new(len);
        if place == Place::Finalized && self.settings.sync_on_close {
            let note = Note::of(io.checksum, len, io.last_sum);
            let noted = volume.syncs.note(&meta, note);
            let synced = noted.and_then(|()| volume.syncs.files(&data, &meta));
            synced.map_err(|error| self.not_synced(rbw, &mut io, error))?;
        }
        self.move_files(&volume, rbw.block_id, (Place::Rbw, rbw.block().stamp), (place, stamp))?;
        rbw.set_stamp(stamp);
        Ok((number, (data, meta)))
    }

    /// The error of a replica in a pipeline whose bytes could not be made durable: it is lost.
    pub fn not_synced(&self, pipeline: &InPipeline, io: &mut Io, error: io::Error) -> StoreError {
        io.lost = true;
        let volume = &pipeline.volume;
        self.write_error(volume, "syncing", &volume.data(pipeline.place(), pipeline.block_id), error)
    }

    /// The error of a change of a replica's files: they may contradict each other.
    pub fn files_error(&self, pipeline: &InPipeline, error: io::Error) -> StoreError {
        let volume = &pipeline.volume;
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                let replica = self.replica(pipeline.block(), pipeline.len(), pipeline.state(), volume.index);
                self.corrupt(replica, &error.to_string())
            }
            _ => {
                let path = volume.data(pipeline.place(), pipeline.block_id);
                self.write_error(volume, "cutting", &path, error)
            }
        }
    }
}

/// A recovery's block was given at least the stamp that the caller knows, and not yet one beyond the new one.
fn check_stamp(block: Block, new_stamp: u64, slot: &Slot) -> Result<()> {
    let (stamp, _) = slot.stamp_and_len();
    if (block.stamp..=new_stamp).contains(&stamp) {
        return Ok(());
    }
    let reason = format!("stamp {stamp} is not within {} and {new_stamp}", block.stamp);
    Err(unfit(block.id, slot, reason))
}

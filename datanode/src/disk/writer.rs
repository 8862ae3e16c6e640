//! The writer of a replica: packets to two files.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, MutexGuard};

use trellis_proto::checksum::{Checksum, ChecksumType};
use trellis_proto::data_transfer::CHECKSUM_BYTES;

use super::core::{Core, lost};
use super::meta;
use super::note::Note;
use super::pipeline::{InPipeline, Io};
use super::volume::is_full;
use crate::store::{Acked, Replica, ReplicaWriter, Result, StoreError, WriterStopped};

/// The writer of a replica.
pub struct Writer {
    core: Arc<Core>,
    pipeline: Arc<InPipeline>,
    number: u64,
    data: File,
    meta: File,
    checksum: Checksum,
    acked: Acked,
    /// Sums that were computed here.
    sums: Vec<u8>,
    /// Something was written since the files were last made durable.
    dirty: bool,
    /// The names of both files are durable.
    names_synced: bool,
    full: bool,
    ended: bool,
}

impl Writer {
    /// The writer with this number, over the replica's open files, which are new or have just been moved.
    pub fn new(
        core: Arc<Core>,
        pipeline: Arc<InPipeline>,
        number: u64,
        (data, meta): (File, File),
        new: bool,
    ) -> Writer {
        let (checksum, acked) = {
            let io = pipeline.io();
            (io.checksum, io.acked.clone())
        };
        // Moving them has made their names durable.
        let names_synced = !new && core.settings.sync_on_close;
        Writer {
            core,
            pipeline,
            number,
            data,
            meta,
            checksum,
            acked,
            sums: Vec::new(),
            dirty: true,
            names_synced,
            full: false,
            ended: false,
        }
    }

    /// After a failed write: makes the files again what they were, as far as the disk lets us.
    fn undo(&self, io: &mut Io, len: u64) {
        io.broken = meta::end_at(&self.data, &self.meta, self.checksum, len, io.last_sum).is_err();
    }

    fn broken(&self) -> StoreError {
        let reason = "a write of it failed and could not be undone".to_owned();
        StoreError::Unfit { block: self.pipeline.block(), reason }
    }

    fn stopped(&self) -> StoreError {
        match self.pipeline.volume.failure() {
            Some(_) => StoreError::VolumeFailed(self.pipeline.volume.path().to_owned()),
            None => StoreError::Stopped(self.pipeline.block()),
        }
    }

    /// Makes what was written durable, unless it is. If that fails once, the replica is lost.
    fn sync_files(&mut self) -> Result<()> {
        let pipeline = &self.pipeline;
        let io = pipeline.io();
        if io.lost {
            return Err(lost(pipeline.block()));
        }
        if self.dirty {
            let syncs = &pipeline.volume.syncs;
            let noted = syncs.note(&self.meta, Note::of(self.checksum, pipeline.len(), io.last_sum));
            drop(io);
            // Readers of a replica that is being written do not wait for this.
            let synced = noted.and_then(|()| syncs.files(&self.data, &self.meta));
            synced.map_err(|error| self.core.not_synced(pipeline, &mut pipeline.io(), error))?;
            self.dirty = false;
        }
        Ok(())
    }

    /// Deletes what was written, unless another has it now.
    fn remove(&mut self) {
        self.ended = true;
        let pipeline = self.pipeline.clone();
        let _turn = self.core.turn(pipeline.block_id);
        let mine: Option<MutexGuard<'_, Io>> = pipeline.io_of(self.number);
        if mine.is_some() {
            pipeline.retire();
            self.core.discard(&pipeline);
        }
    }
}

impl ReplicaWriter for Writer {
    fn replica(&self) -> Replica {
        let (block, len) = (self.pipeline.block(), self.pipeline.len());
        self.core.replica(block, len, self.pipeline.state(), self.pipeline.volume.index)
    }

    fn checksum(&self) -> Checksum {
        self.checksum
    }

    fn len(&self) -> u64 {
        self.pipeline.len()
    }

    fn write(&mut self, offset: u64, sums: Option<&[u8]>, data: &[u8]) -> Result<()> {
        let pipeline = self.pipeline.clone();
        let mut io = pipeline.io_of(self.number).ok_or_else(|| self.stopped())?;
        let packet = Packet { offset, sums, data };
        let len = pipeline.len();
        if io.lost {
            return Err(lost(pipeline.block()));
        }
        if io.broken {
            return Err(self.broken());
        }
        if offset > len {
            let reason = format!("a packet begins at byte {offset}; {len} bytes are here");
            return Err(StoreError::Request { block: pipeline.block(), reason });
        }
        let end = offset.saturating_add(data.len() as u64);
        if end <= len {
            return Ok(());
        }
        let sums = packet.sums_from(self.checksum, len, io.last_sum, &mut self.sums);
        let sums = sums.map_err(|reason| StoreError::Request { block: pipeline.block(), reason })?;
        self.dirty = true;
        // The data first: what has no sum yet is found and cut off after a crash.
        let written = self.data.write_all_at(&data[(len - offset) as usize..], len);
        let at = meta::sum_offset(self.checksum, len);
        if let Err(error) = written.and_then(|()| self.meta.write_all_at(sums, at)) {
            self.full |= is_full(&error);
            self.undo(&mut io, len);
            let path = pipeline.volume.data(pipeline.place(), pipeline.block_id);
            return Err(self.core.write_error(&pipeline.volume, "writing", &path, error));
        }
        let partial = self.checksum.chunk_start(end) != end;
        let last = sums.last_chunk::<CHECKSUM_BYTES>().map_or(0, |sum| u32::from_be_bytes(*sum));
        io.last_sum = if partial { last } else { 0 };
        pipeline.set_len(end);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        drop(self.pipeline.io_of(self.number).ok_or_else(|| self.stopped())?);
        self.sync_files()?;
        if !self.names_synced {
            let volume = &self.pipeline.volume;
            let dir = volume.dir(self.pipeline.place(), self.pipeline.block_id);
            let synced = File::open(&dir).and_then(|dir| volume.syncs.dir(&dir));
            synced.map_err(|e| self.core.write_error(volume, "syncing", &dir, e))?;
            self.names_synced = true;
        }
        Ok(())
    }

    fn acked(&self) -> Acked {
        self.acked.clone()
    }

    fn finish(mut self: Box<Self>) -> Result<Replica> {
        if self.core.settings.sync_on_close {
            self.sync_files()?;
        }
        let pipeline = self.pipeline.clone();
        let _turn = self.core.turn(pipeline.block_id);
        let io = pipeline.io_of(self.number).ok_or_else(|| self.stopped())?;
        if io.broken {
            return Err(self.broken());
        }
        let replica = self.core.finalize(&pipeline)?;
        pipeline.retire();
        self.ended = true;
        Ok(replica)
    }

    fn into_rbw(mut self: Box<Self>, acked: u64) -> Result<Replica> {
        if self.core.settings.sync_on_close {
            // What it is a copy of may have been made durable for its writer.
            self.sync_files()?;
        }
        let pipeline = self.pipeline.clone();
        let _turn = self.core.turn(pipeline.block_id);
        let io = pipeline.io_of(self.number).ok_or_else(|| self.stopped())?;
        let replica = self.core.temporary_to_rbw(&pipeline, &io, acked)?;
        pipeline.retire();
        self.ended = true;
        Ok(replica)
    }

    fn abandon(mut self: Box<Self>) {
        self.remove();
    }

    fn on_stop(&mut self, stopped: WriterStopped) {
        self.pipeline.on_stop(self.number, stopped);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // An RBW of a full disk that no reader counts on only takes room.
        if self.pipeline.temporary || (self.full && self.acked.get() == 0) {
            self.remove();
        } else if self.pipeline.io_of(self.number).is_some() {
            self.pipeline.forget_promise();
        }
    }
}

/// What a session hands over.
struct Packet<'a> {
    offset: u64,
    sums: Option<&'a [u8]>,
    data: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The sums to write from the chunk of byte `len` on, where `len` bytes are there already, the last chunk of them
    /// with the sum `last_sum`. Those that came with the packet where they fit, otherwise made in `made`.
    fn sums_from(
        &self,
        checksum: Checksum,
        len: u64,
        last_sum: u32,
        made: &'a mut Vec<u8>,
    ) -> std::result::Result<&'a [u8], String> {
        let new = &self.data[(len - self.offset) as usize..];
        if let Some(sums) = self.sums {
            let into = self.offset - checksum.chunk_start(self.offset);
            let one = into + self.data.len() as u64 <= checksum.bytes_per_checksum().into();
            if sums.len() != checksum.sums_len(self.data.len()) || (into > 0 && !one) {
                let (sums, data) = (sums.len(), self.data.len());
                return Err(format!("{sums} bytes of sums for {data} bytes from byte {} on", self.offset));
            }
            if into == 0 {
                let known = meta::sum_offset(checksum, len) - meta::sum_offset(checksum, self.offset);
                return Ok(&sums[known as usize..]);
            }
        }
        made.clear();
        let kind = checksum.kind();
        let chunk_bytes = u64::from(checksum.bytes_per_checksum());
        let into = len % chunk_bytes;
        let (head, tail) = match into {
            0 => (&[][..], new),
            _ => new.split_at(new.len().min((chunk_bytes - into) as usize)),
        };
        if !head.is_empty() && kind != ChecksumType::Null {
            made.extend_from_slice(&kind.combine(last_sum, kind.sum(head), head.len() as u64).to_be_bytes());
        }
        checksum.compute(tail, made);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::super::core::lock;
    use super::super::reader::Reader;
    use super::super::tests::core;
    use super::super::volume::Place;
    use super::*;
    use crate::store::{Block, ReplicaReader, Target};

    /// After a sync that failed once all say no, though the next one would not fail.
    #[test]
    fn a_replica_whose_bytes_were_not_made_durable_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let (core, events) = core(dir.path());
        let volume = core.volumes[0].clone();
        let fail = || *lock(&volume.syncs.fails) = Some(std::io::Error::from_raw_os_error(nix::libc::ENOSPC));
        let failed = |error: StoreError| {
            assert!(matches!(&error, StoreError::Io { source, .. } if is_full(source)), "{error}");
        };
        let refused = |error: StoreError| {
            assert!(
                matches!(&error, StoreError::Unfit { .. }) && error.to_string().contains("durable"),
                "{error}"
            );
        };
        let block = |id, stamp| Block { id, stamp };
        let written = |id| {
            let mut writer = core.create(block(id, 1), &Target::default(), Checksum::DEFAULT, false).unwrap();
            writer.write(0, None, b"abc").unwrap();
            writer.acked().advance(3);
            Box::new(writer)
        };
        // hsync, and a close.
        let mut hsync = written(1);
        fail();
        failed(hsync.sync().unwrap_err());
        refused(hsync.sync().unwrap_err());
        refused(hsync.write(3, None, b"d").unwrap_err());
        refused(hsync.finish().unwrap_err());
        let close = written(2);
        fail();
        failed(close.finish().unwrap_err());
        // A recovery of a close.
        let _writer = written(3);
        fail();
        failed(core.recover_close(block(3, 1), 2, 3).unwrap_err());
        for id in 1..=3 {
            refused(core.recover_close(block(id, 1), 2, 3).unwrap_err());
            refused(core.recover_append(block(id, 1), 2, 3).map(drop).unwrap_err());
            refused(core.recover_rbw(block(id, 1), 2, 0, 3).map(drop).unwrap_err());
            refused(core.init_recovery(block(id, 1), 2).unwrap_err());
        }
        // The end of a recovery.
        drop(written(4));
        core.init_recovery(block(4, 1), 2).unwrap();
        fail();
        failed(core.update_recovery(block(4, 1), 2, 0, 3).unwrap_err());
        refused(core.update_recovery(block(4, 1), 2, 0, 3).unwrap_err());
        refused(core.init_recovery(block(4, 1), 3).unwrap_err());
        // A copy goes with its writer.
        let mut copy = core.create(block(5, 1), &Target::default(), Checksum::DEFAULT, true).unwrap();
        copy.write(0, None, b"abc").unwrap();
        fail();
        failed(Box::new(copy).into_rbw(3).unwrap_err());
        assert!(core.map().get(5).is_none());
        assert!(volume.failure().is_none() && lock(&events).is_empty());
    }

    /// Neither what it wrote nor what it did to the last sum counts: what was there before is known.
    #[test]
    fn a_failed_write_that_could_not_be_undone_is_no_fault() {
        let dir = tempfile::tempdir().unwrap();
        let (core, events) = core(dir.path());
        let bytes: Vec<u8> = (0..700u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let block = |id, stamp| Block { id, stamp };
        for id in 1..=3 {
            let mut writer = core.create(block(id, 1), &Target::default(), Checksum::DEFAULT, false).unwrap();
            writer.write(0, None, &bytes).unwrap();
            writer.acked().advance(700);
            writer.data.write_all_at(b"more", 700).unwrap();
            writer.meta.write_all_at(&[7; 8], meta::sum_offset(Checksum::DEFAULT, 512)).unwrap();
            writer.pipeline.io().broken = true;
            assert!(matches!(writer.write(700, None, b"d"), Err(StoreError::Unfit { .. })));
        }
        core.init_recovery(block(1, 1), 2).unwrap();
        core.update_recovery(block(1, 1), 2, 0, 700).unwrap();
        core.recover_close(block(2, 1), 2, 700).unwrap();
        let mut again = core.recover_rbw(block(3, 1), 2, 700, 700).unwrap();
        again.write(700, None, b"d").unwrap();
        Box::new(again).finish().unwrap();
        for (id, len) in [(1, 700), (2, 700), (3, 701)] {
            let mut reader = Reader::open(&core, block(id, 2)).unwrap();
            let (mut data, mut sums) = (vec![0; len], [0; 8]);
            reader.read(0, &mut data).unwrap();
            assert_eq!(data[..700], bytes);
            reader.read_sums(0, &mut sums).unwrap();
            Checksum::DEFAULT.verify(&data, &sums).unwrap();
            let file = File::open(core.volumes[0].data(Place::Finalized, id)).unwrap();
            assert_eq!(file.metadata().unwrap().len(), len as u64);
        }
        assert!(lock(&events).is_empty());
    }
}

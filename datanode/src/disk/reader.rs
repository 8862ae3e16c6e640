//! The reader of a replica: what it was when it was opened.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use trellis_proto::checksum::Checksum;

use super::core::{Core, unfit};
use super::create::open;
use super::map::Slot;
use super::meta;
use super::volume::{Place, Volume, is_contradiction, is_damage};
use crate::store::{Block, Event, Replica, ReplicaReader, ReplicaState, Result, StoreError};

/// Bytes of sums that are read at once: those of 2 MiB of data.
const SUMS_AHEAD: u64 = 16 << 10;

/// A reader.
pub struct Reader {
    core: Arc<Core>,
    volume: Arc<Volume>,
    replica: Replica,
    checksum: Checksum,
    data: File,
    meta: File,
    /// The sum of a partial last chunk when the replica was opened: who appends overwrites the one on disk.
    last_sum: [u8; 4],
    sums: Vec<u8>,
    /// Where in the meta file `sums` begins.
    sums_at: u64,
}

impl Reader {
    /// Opens a replica that has at least this stamp.
    pub fn open(core: &Arc<Core>, block: Block) -> Result<Reader> {
        let _turn = core.turn(block.id);
        let slot = core.slot(block)?;
        if slot.stamp_and_len().0 < block.stamp {
            return Err(unfit(block.id, &slot, format!("its stamp is older than {}", block.stamp)));
        }
        if slot.state() == ReplicaState::Temporary {
            return Err(unfit(block.id, &slot, "it is TEMPORARY and not readable".to_owned()));
        }
        let place = slot.place();
        let volume = core.volume(&slot);
        // While it is held, nothing is written.
        let pipeline = match &slot {
            Slot::InPipeline(pipeline) => Some(pipeline.io()),
            _ => None,
        };
        let replica = core.shown(block.id, &slot);
        let (data_path, meta_path) = (volume.data(place, block.id), volume.meta(place, replica.block));
        let opened = open(&data_path, File::options().read(true))
            .and_then(|data| Ok((data, open(&meta_path, File::options().read(true))?)));
        let (data, meta) = match opened {
            Ok(files) => files,
            Err(error) => return Err(core.unopened(&volume, (replica, place), error)),
        };
        let (checksum, last_sum) = match &pipeline {
            Some(io) => (io.checksum, io.last_sum.to_be_bytes()),
            None => match at_rest(&data, &meta, replica.len) {
                Ok(found) => found,
                Err(error) => return Err(core.unread(&volume, (replica, place), error)),
            },
        };
        drop(pipeline);
        let (core, sums) = (core.clone(), Vec::new());
        Ok(Reader { core, volume, replica, checksum, data, meta, last_sum, sums, sums_at: 0 })
    }

    /// Number of its volume.
    pub fn volume_index(&self) -> u16 {
        self.volume.index
    }

    /// Reads sums from `at` in the meta file on, as many bytes as `bytes` holds, all before `end`.
    fn fill(&mut self, at: u64, bytes: usize, end: u64) -> io::Result<()> {
        let cached = self.sums_at..=self.sums_at + self.sums.len() as u64;
        if cached.contains(&at) && cached.contains(&(at + bytes as u64)) {
            return Ok(());
        }
        self.sums.resize(SUMS_AHEAD.max(bytes as u64).min(end - at) as usize, 0);
        self.sums_at = at;
        let read = self.meta.read_exact_at(&mut self.sums, at);
        if read.is_err() {
            self.sums.clear();
        }
        read
    }

    /// The error of a read of an open replica.
    fn failed(&self, error: io::Error) -> StoreError {
        let _turn = self.core.turn(self.replica.block.id);
        match self.core.is_still(&self.replica) {
            Some(place) => self.core.unread(&self.volume, (self.replica.clone(), place), error),
            None => self.changed(),
        }
    }

    /// What was read is not what its sums say: the replica is corrupt, unless a recovery cut it since it was opened.
    pub fn mismatch(&self, reason: &str) -> StoreError {
        let _turn = self.core.turn(self.replica.block.id);
        match self.core.is_still(&self.replica) {
            Some(_) => self.core.corrupt(self.replica.clone(), reason),
            None => self.changed(),
        }
    }

    fn changed(&self) -> StoreError {
        let reason = "it was changed or deleted while it was read".to_owned();
        StoreError::Unfit { block: self.replica.block, reason }
    }

    fn outside(&self, offset: u64, bytes: usize) -> StoreError {
        let reason = format!("{bytes} bytes from {offset} on are not within its {} bytes", self.replica.len);
        StoreError::Request { block: self.replica.block, reason }
    }
}

/// The checksum and the last chunk's sum of a replica that nobody writes. `InvalidData` if a file is too short.
fn at_rest(data: &File, meta: &File, len: u64) -> io::Result<(Checksum, [u8; 4])> {
    let short = |what| io::Error::new(io::ErrorKind::InvalidData, format!("its {what} is too short"));
    let checksum = meta::read_header(meta)?;
    if data.metadata()?.len() < len {
        return Err(short("data"));
    }
    if meta.metadata()?.len() < meta::file_len(checksum, len) {
        return Err(short("meta file"));
    }
    let mut last = [0; 4];
    let start = checksum.chunk_start(len);
    if start < len && checksum.sum_bytes() > 0 {
        meta.read_exact_at(&mut last, meta::sum_offset(checksum, start))?;
    }
    Ok((checksum, last))
}

impl ReplicaReader for Reader {
    fn replica(&self) -> &Replica {
        &self.replica
    }

    fn checksum(&self) -> Checksum {
        self.checksum
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<()> {
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > self.replica.len) {
            return Err(self.outside(offset, data.len()));
        }
        let read = self.data.read_exact_at(data, offset);
        read.map_err(|e| self.failed(e))
    }

    fn read_sums(&mut self, offset: u64, sums: &mut [u8]) -> Result<()> {
        let at = meta::sum_offset(self.checksum, offset);
        let end = meta::file_len(self.checksum, self.replica.len);
        let cut = self.checksum.chunk_start(offset) != offset
            || self.checksum.sum_bytes() == 0 && !sums.is_empty()
            || !sums.len().is_multiple_of(self.checksum.sum_bytes().max(1));
        if cut || at.checked_add(sums.len() as u64).is_none_or(|to| to > end) {
            return Err(self.outside(offset, sums.len()));
        }
        if let Err(error) = self.fill(at, sums.len(), end) {
            return Err(self.failed(error));
        }
        let from = (at - self.sums_at) as usize;
        sums.copy_from_slice(&self.sums[from..from + sums.len()]);
        let partial = self.checksum.chunk_start(self.replica.len) != self.replica.len;
        if partial
            && at + sums.len() as u64 == end
            && let Some(last) = sums.last_chunk_mut::<4>()
        {
            *last = self.last_sum;
        }
        Ok(())
    }

    fn file(&self) -> &File {
        &self.data
    }
}

impl Core {
    /// Where a replica that was opened is, if it is there and not cut. A FINALIZED one is cut under a new stamp only; an RBW one
    /// may keep its stamp when a writer goes on with fewer bytes. On the block's turn.
    fn is_still(&self, opened: &Replica) -> Option<Place> {
        let map = self.map();
        let now = map.get(opened.block.id)?;
        let (stamp, len) = now.stamp_and_len();
        (stamp == opened.block.stamp && len >= opened.len).then(|| now.place())
    }

    /// The error of a replica whose files cannot be opened. When they are gone, so is the replica. On the block's turn.
    pub fn unopened(
        &self,
        volume: &Volume,
        (replica, place): (Replica, Place),
        error: io::Error,
    ) -> StoreError {
        let block = replica.block;
        if error.kind() != io::ErrorKind::NotFound {
            return self.unread(volume, (replica, place), error);
        }
        let error = self.read_error(volume, "opening", &volume.data(place, block.id), error);
        if volume.failure().is_none() {
            tracing::warn!(%block, %error, "a replica's file is gone");
            if let Some(Slot::InPipeline(pipeline)) = self.map().remove(block.id) {
                pipeline.stop();
                pipeline.forget_promise();
            }
            volume.count(replica.len, 0);
            self.event(Event::Missing(replica));
            return StoreError::NotFound(block);
        }
        error
    }

    /// The error of a replica that cannot be read: only what its disk says against it makes it corrupt. On the block's
    /// turn.
    pub fn unread(
        &self,
        volume: &Volume,
        (replica, place): (Replica, Place),
        error: io::Error,
    ) -> StoreError {
        if is_contradiction(&error) {
            return self.corrupt(replica, &error.to_string());
        }
        let damaged = is_damage(&error);
        let failed = self.read_error(volume, "reading", &volume.data(place, replica.block.id), error);
        if damaged && volume.failure().is_none() {
            return self.corrupt(replica, &failed.to_string());
        }
        failed
    }
}

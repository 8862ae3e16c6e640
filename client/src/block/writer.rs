//! Writing files: what a program sees of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time;
use trellis_proto::checksum::{Checksum, ChecksumType};
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as rpc;

use super::packet::{Packer, Packet};
use super::pipeline::Target;
use super::streamer::{Current, File, Progress, Streamer};
use crate::client::Client;
use crate::error::{Error, Fault, Result};
use crate::lease::Held;
use crate::types::{Block, Checksum as Kinds, FileStatus, ServerDefaults};

/// A file that this client has open for writing. Its lease is renewed until this is closed or dropped. Dropped without
/// [`FileWriter::close`], writing ends at once, and the file stays open on the namenode until the lease runs out there.
///
/// Bytes are gathered into packets, which a task of its own sends; at most
/// [`crate::config::DataConfig::max_unacked_packets`] of them (64 KiB each) are in memory. Every method fails, and fails
/// again, once nothing more can be written; what [`FileWriter::hflush`] confirmed before is safe.
pub struct FileWriter {
    client: Client,
    path: String,
    status: FileStatus,
    lease: Option<Held>,
    /// The last block, of an append.
    appending: Option<Append>,
    /// Once there is something to write.
    stream: Option<Stream>,
    /// Bytes of the file in blocks before the current one.
    before: u64,
    closed: bool,
}

/// Where an append goes on.
struct Append {
    block: Block,
    /// None: in a new block after it.
    open: Option<hdfs::LocatedBlockProto>,
}

/// The writer's end of its task.
struct Stream {
    file: Arc<File>,
    packer: Packer,
    packets: mpsc::UnboundedSender<Packet>,
    progress: watch::Receiver<Progress>,
    room: Arc<Semaphore>,
    task: AbortHandle,
    /// Blocks that the namenode has been told to keep.
    persisted: u64,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileWriter({} at {})", self.path, self.position())
    }
}

impl FileWriter {
    /// A file that was created.
    pub(crate) fn created(client: Client, path: &str, status: FileStatus, lease: Held) -> Self {
        Self {
            client,
            path: path.to_owned(),
            status,
            lease: Some(lease),
            appending: None,
            stream: None,
            before: 0,
            closed: false,
        }
    }

    /// A file that was opened to append. `last`: its last block, if the namenode named it; with datanodes if there is
    /// room in it.
    pub(crate) fn appended(
        client: Client,
        path: &str,
        status: FileStatus,
        last: Option<hdfs::LocatedBlockProto>,
        lease: Held,
    ) -> Self {
        let before = status.length;
        let mut writer = Self::created(client, path, status, lease);
        writer.before = before;
        if let Some(last) = last {
            let block = Block::from(last.b.clone());
            let open = Some(last).filter(|last| !last.locs.is_empty());
            if open.is_some() {
                writer.before = before.saturating_sub(block.length);
            }
            writer.appending = Some(Append { block, open });
        }
        writer
    }

    /// As it was when it was opened.
    pub fn status(&self) -> &FileStatus {
        &self.status
    }

    /// The path that it was opened under; a rename does not matter to what is written.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Length of the file with all bytes that were taken so far.
    pub fn position(&self) -> u64 {
        match (&self.stream, &self.appending) {
            (Some(stream), _) => self.before + stream.packer.position(),
            (None, Some(Append { block, open: Some(_) })) => self.before + block.length,
            _ => self.before,
        }
    }

    /// Appends bytes. Returns when all are taken; they are on their way then, and nowhere for certain. Dropped before,
    /// it has taken the first of them: [`FileWriter::position`] says how many.
    pub async fn write(&mut self, mut data: &[u8]) -> Result<()> {
        self.check()?;
        while !data.is_empty() {
            let stream = self.stream().await?;
            data = stream.packer.fill(data);
            self.send_full().await?;
        }
        Ok(())
    }

    /// Returns when all bytes written so far are in the memory of all datanodes, where new readers see them.
    pub async fn hflush(&mut self) -> Result<()> {
        self.flush(false, false).await
    }

    /// Returns when the bytes of the current block written so far are on the disks of all its datanodes.
    /// `update_length`: the namenode, too, then knows how long the file is.
    pub async fn hsync(&mut self, update_length: bool) -> Result<()> {
        self.flush(true, update_length).await
    }

    /// Writes what is left and closes the file. Asks again while the namenode has not heard of enough copies of the
    /// last block. Dropped before it is done, or failed, it may be called again.
    pub async fn close(&mut self) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        // As in stock: the block of an append is taken up even if there is nothing to add.
        if self.appending.as_ref().is_some_and(|append| append.open.is_some()) {
            self.stream().await?;
        }
        if self.stream.is_some() {
            self.send_rest(false).await?;
            if let Some(stream) = self.stream.as_mut().filter(|stream| stream.packer.position() > 0) {
                self.before += stream.end_block().await?;
            }
            self.confirmed().await?;
        }
        let last = match (&self.stream, &self.appending) {
            (Some(stream), _) => stream.progress.borrow().block.clone(),
            (None, Some(append)) => Some(append.block.clone()),
            (None, None) => None,
        };
        self.complete(last.as_ref()).await?;
        self.closed = true;
        self.lease = None;
        Ok(())
    }

    async fn complete(&self, last: Option<&Block>) -> Result<()> {
        let config = &self.client.0.datanodes.config;
        let mut wait = config.locate_wait;
        for tries in 0..=config.max_locate_retries {
            if self.client.complete(&self.path, self.status.file_id, last).await? {
                return Ok(());
            }
            if tries < config.max_locate_retries {
                time::sleep(wait).await;
                wait *= 2;
            }
        }
        let text = format!(
            "Unable to close file {} because the last block does not have enough number of replicas: are enough \
             datanodes alive?",
            self.path
        );
        Err(Error::local("complete", &self.path, Kind::Io, text))
    }

    /// Why nothing more can be written, if that is so.
    fn check(&self) -> Result<()> {
        if self.closed {
            return Err(Error::local("write", &self.path, Kind::Io, format!("{} is closed", self.path)));
        }
        match self.stream.as_ref().and_then(|stream| stream.progress.borrow().failure.clone()) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    async fn flush(&mut self, sync: bool, update_length: bool) -> Result<()> {
        self.check()?;
        if self.stream.is_some() {
            self.send_rest(sync).await?;
            self.confirmed().await?;
        }
        self.persist(update_length).await
    }

    /// Lets the namenode keep the file's blocks, so that they outlive it; and their length.
    async fn persist(&mut self, update_length: bool) -> Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.file.flushed.store(true, Ordering::Relaxed);
        let (blocks, length) = {
            let progress = stream.progress.borrow();
            (progress.blocks, progress.block.as_ref().map(|block| block.length))
        };
        if blocks == stream.persisted && !update_length {
            return Ok(());
        }
        let request = hdfs::FsyncRequestProto {
            src: self.path.clone(),
            client: self.client.name().to_owned(),
            last_block_length: Some(length.map_or(-1, |length| length as i64)),
            file_id: Some(self.status.file_id),
        };
        self.client.call_on(&self.path, &rpc::FSYNC, &request).await?;
        stream.persisted = blocks;
        Ok(())
    }

    /// Sends the packet if it is full, and the block's end if that is full.
    async fn send_full(&mut self) -> Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        if stream.packer.is_full() && stream.packer.has_unsent() {
            let permit = stream.room().await?;
            let packet = stream.packer.packet(false, permit);
            stream.send(packet)?;
        }
        if stream.packer.is_block_full() {
            self.before += stream.end_block().await?;
        }
        Ok(())
    }

    /// Sends what was gathered. With `sync` also an empty packet if need be, so that the bytes before reach disks.
    async fn send_rest(&mut self, sync: bool) -> Result<()> {
        self.send_full().await?;
        let Some(stream) = &mut self.stream else { return Ok(()) };
        if stream.packer.has_unsent() {
            let permit = stream.room().await?;
            let packet = stream.packer.packet(sync, permit);
            stream.send(packet)?;
        } else if sync && stream.packer.position() > 0 {
            let permit = stream.room().await?;
            let packet = stream.packer.sync_packet(permit);
            stream.send(packet)?;
        }
        Ok(())
    }

    /// Waits until all packets so far are on all datanodes.
    async fn confirmed(&mut self) -> Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let Some(last) = stream.packer.last_seqno() else { return Ok(()) };
        let there = |progress: &Progress| progress.failure.is_some() || progress.acked >= last;
        match stream.progress.wait_for(there).await {
            Ok(progress) if progress.acked >= last => Ok(()),
            Ok(progress) => Err(progress.failure.clone().unwrap_or_else(|| stream.file.error("it ended"))),
            Err(_) => Err(stream.file.error("the client was shut down")),
        }
    }

    /// The task, started when there is something to write.
    async fn stream(&mut self) -> Result<&mut Stream> {
        if self.stream.is_none() {
            let defaults = self.client.get_server_defaults().await.map_err(|error| error.on(&self.path))?;
            self.stream = Some(self.start(&defaults)?);
        }
        self.stream.as_mut().ok_or_else(|| Error::local("write", &self.path, Kind::Io, "not started"))
    }

    fn start(&mut self, defaults: &ServerDefaults) -> Result<Stream> {
        let unusable = |why: String| Error::local("write", &self.path, Kind::HadoopIllegalArgument, why);
        if defaults.encrypt_data_transfer {
            let why = "the cluster encrypts the transfer of data, which this client does not support";
            return Err(Error::local("write", &self.path, Kind::UnsupportedOperation, why));
        }
        if self.status.is_erasure_coded || self.status.is_encrypted {
            let why = format!("{} is erasure coded or encrypted, which this client cannot write", self.path);
            return Err(Error::local("write", &self.path, Kind::UnsupportedOperation, why));
        }
        let kind = match defaults.checksum {
            Kinds::Null => ChecksumType::Null,
            Kinds::Crc32 => ChecksumType::Crc32,
            Kinds::Crc32c => ChecksumType::Crc32C,
        };
        let checksum =
            Checksum::new(kind, defaults.bytes_per_checksum).map_err(|error| unusable(error.to_string()))?;
        let block_size = self.status.block_size;
        if block_size == 0 || !block_size.is_multiple_of(checksum.bytes_per_checksum().into()) {
            return Err(unusable(format!(
                "io.bytes.per.checksum({}) and blockSize({block_size}) do not match. blockSize should be a multiple of \
                 io.bytes.per.checksum",
                checksum.bytes_per_checksum()
            )));
        }
        let file = Arc::new(File {
            client: self.client.clone(),
            path: self.path.clone(),
            file_id: self.status.file_id,
            replication: self.status.replication,
            block_size,
            checksum,
            flushed: AtomicBool::new(false),
        });
        let (current, previous) = match &self.appending {
            None => (None, None),
            Some(Append { block, open: None }) => (None, Some(block.clone())),
            Some(Append { block, open: Some(located) }) => (Some(taken_up(block, located)), None),
        };
        let start = current.as_ref().map_or(0, |current| current.block.length);
        let packer = Packer::new(checksum, block_size, defaults.write_packet_size, start);
        let (packets, receiver) = mpsc::unbounded_channel();
        let (sender, progress) = watch::channel(Progress { acked: -1, ..Progress::default() });
        let streamer = Streamer::new(file.clone(), receiver, sender, current, previous);
        let task = tokio::spawn(streamer.run()).abort_handle();
        let room = Arc::new(Semaphore::new(self.client.0.datanodes.config.max_unacked_packets));
        Ok(Stream { file, packer, packets, progress, room, task, persisted: 0 })
    }
}

/// The block that an append goes on with; its pipeline is set up with the first packet.
fn taken_up(block: &Block, located: &hdfs::LocatedBlockProto) -> Current {
    Current {
        block: block.clone(),
        token: located.block_token.clone(),
        targets: Target::all_of(located),
        connection: None,
        sent: block.length,
        appended: true,
        stood: false,
        closing: false,
        failed: Vec::new(),
        recoveries: 0,
        restarting: None,
    }
}

impl Stream {
    /// Room for one more packet.
    async fn room(&mut self) -> Result<OwnedSemaphorePermit> {
        tokio::select! {
            permit = self.room.clone().acquire_owned() => {
                permit.map_err(|_| self.file.error("the writer was shut down"))
            }
            // Packets that cannot be sent any more leave no room.
            failed = self.progress.wait_for(|progress| progress.failure.is_some()) => {
                let failure = failed.ok().and_then(|progress| progress.failure.clone());
                Err(failure.unwrap_or_else(|| self.file.error("the client was shut down")))
            }
        }
    }

    fn send(
        &self,
        packet: std::result::Result<Packet, trellis_proto::data_transfer::TransferError>,
    ) -> Result<()> {
        let packet = packet.map_err(|error| {
            Error::new("write", String::new(), 0, Fault::Unusable(error.to_string())).on(&self.file.path)
        })?;
        self.packets.send(packet).map_err(|_| match self.progress.borrow().failure.clone() {
            Some(failure) => failure,
            None => self.file.error("the client was shut down"),
        })
    }

    /// Ends the block; its length.
    async fn end_block(&mut self) -> Result<u64> {
        let permit = self.room().await?;
        let length = self.packer.position();
        let packet = self.packer.last_packet(permit);
        self.send(packet)?;
        Ok(length)
    }
}

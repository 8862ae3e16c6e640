//! Reading files: which datanode is asked, and what follows when it fails.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::time;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as rpc;
use trellis_proto::pipeline::datanode_name;

use super::connection::DataFault;
use super::locations::{Located, Locations};
use super::read::BlockRead;
use crate::client::Client;
use crate::error::{Error, Result};

/// A file that can be read; clones share what is known of its blocks and datanodes. It has the length that it had when
/// it was opened, or at the last [`FileReader::refresh`].
#[derive(Clone)]
pub struct FileReader(Arc<Inner>);

struct Inner {
    client: Client,
    path: String,
    /// Whether chunks are compared with their checksums.
    verify: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    locations: Locations,
    /// For pages of blocks, bytes.
    block_size: u64,
    /// Datanodes that failed, by uuid: not asked again before all others.
    dead: HashSet<String>,
}

/// A file's bytes from some place on, in order. One connection to one datanode at a time, a few packets in memory.
pub struct FileStream {
    file: Arc<Inner>,
    /// In the file.
    position: u64,
    end: u64,
    current: Option<Current>,
    /// Since bytes last came.
    failures: Failures,
}

/// A block that is being read.
struct Current {
    located: Arc<Located>,
    node: hdfs::DatanodeInfoProto,
    read: BlockRead,
}

/// What went wrong while a byte was looked for.
#[derive(Default)]
struct Failures {
    /// How often there was no datanode left.
    rounds: u32,
    /// Datanodes whose copy of the block is bad, by uuid.
    corrupt: Vec<hdfs::DatanodeInfoProto>,
    last: Option<String>,
}

impl Client {
    /// Opens a file for reading. Chunks are compared with their checksums; a copy that is bad is reported to the
    /// namenode, and another one read.
    ///
    /// # Errors
    /// FileNotFoundException, also for a directory; AccessControlException; IOException when the length of a file that
    /// is being written cannot be found out.
    pub async fn open(&self, path: &str) -> Result<FileReader> {
        self.open_with(path, true).await
    }

    /// The same without looking at checksums.
    pub async fn open_unverified(&self, path: &str) -> Result<FileReader> {
        self.open_with(path, false).await
    }

    async fn open_with(&self, path: &str, verify: bool) -> Result<FileReader> {
        let block_size = self.get_server_defaults().await.map_err(|error| error.on(path))?.block_size;
        let locations = self.locations(path, 0, block_size).await?;
        let state = Mutex::new(State { locations, block_size, dead: HashSet::new() });
        Ok(FileReader(Arc::new(Inner { client: self.clone(), path: path.to_owned(), verify, state })))
    }
}

impl FileReader {
    /// Bytes that can be read.
    pub fn len(&self) -> u64 {
        self.0.lock().locations.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it was being written when its length was asked for.
    pub fn is_open(&self) -> bool {
        self.0.lock().locations.open
    }

    /// The path that it was opened under.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Asks for the length again, of a file that is being written.
    pub async fn refresh(&self) -> Result<u64> {
        let length = self.len();
        self.0.locate(length.saturating_sub(1)).await?;
        Ok(self.len())
    }

    /// `len` bytes from `offset` on, fewer only where the file ends.
    pub async fn read_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        let mut stream = self.stream(offset, offset.saturating_add(len as u64));
        let Some(first) = stream.next().await? else { return Ok(Bytes::new()) };
        let wanted = usize::try_from(stream.end - offset).unwrap_or(len);
        if first.len() >= wanted {
            stream.finish().await;
            return Ok(first);
        }
        let mut all = BytesMut::with_capacity(wanted);
        all.extend_from_slice(&first);
        while let Some(more) = stream.next().await? {
            all.extend_from_slice(&more);
        }
        Ok(all.freeze())
    }

    /// The bytes from `offset` to `end`, or to the file's end if that comes first.
    pub fn stream(&self, offset: u64, end: u64) -> FileStream {
        let end = end.min(self.len());
        FileStream {
            file: self.0.clone(),
            position: offset,
            end: end.max(offset),
            current: None,
            failures: Failures::default(),
        }
    }

    /// All bytes.
    pub fn stream_all(&self) -> FileStream {
        self.stream(0, u64::MAX)
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileReader({}, {} bytes)", self.0.path, self.len())
    }
}

impl FileStream {
    /// The next bytes, as many as the datanode sent in one packet; None at the end. Cancelled, it can be asked for
    /// again.
    ///
    /// # Errors
    /// IOException when no datanode gives the next byte, however often it was asked for.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        while self.position < self.end {
            let Some(current) = &mut self.current else {
                self.current = Some(self.file.begin(self.position, self.end, &mut self.failures).await?);
                continue;
            };
            match current.read.next().await {
                Ok(Some(bytes)) => {
                    self.position += bytes.len() as u64;
                    self.failures = Failures::default();
                    return Ok(Some(bytes));
                }
                Ok(None) => self.finish().await,
                Err(fault) => {
                    let Some(Current { located, node, read }) = self.current.take() else { continue };
                    tracing::debug!(path = self.file.path, %fault, at = read.position(), "a read broke off");
                    self.file.failed(&located, node, fault, &mut self.failures).await;
                }
            }
        }
        self.finish().await;
        Ok(None)
    }

    /// Where the next byte is in the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Gives the connection back if all that was asked for has come.
    async fn finish(&mut self) {
        let Some(Current { node, read, .. }) = self.current.take() else { return };
        if let Some(connection) = read.finish().await {
            self.file.client.0.datanodes.keep(&node, connection);
        }
    }
}

impl fmt::Debug for FileStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileStream({}, {}..{})", self.file.path, self.position, self.end)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the page of a byte.
    async fn locate(&self, offset: u64) -> Result<()> {
        let block_size = self.lock().block_size;
        let newer = self.client.locations(&self.path, offset, block_size).await?;
        self.lock().locations.merge(newer);
        Ok(())
    }

    /// The block of a byte.
    async fn located(&self, offset: u64) -> Result<Arc<Located>> {
        if let Some(located) = self.lock().locations.block_of(offset) {
            return Ok(located);
        }
        self.locate(offset).await?;
        self.lock().locations.block_of(offset).ok_or_else(|| {
            let text = format!("{} has no byte {offset} any more: it was cut or replaced", self.path);
            Error::local("read", &self.path, Kind::Io, text)
        })
    }

    /// Finds a datanode that sends the bytes of one block from `position` on, at most to `end`.
    async fn begin(&self, position: u64, end: u64, failures: &mut Failures) -> Result<Current> {
        loop {
            let located = self.located(position).await?;
            let node = {
                let state = self.lock();
                let alive = |node: &&hdfs::DatanodeInfoProto| !state.dead.contains(&node.id.datanode_uuid);
                located.nodes.iter().find(alive).cloned()
            };
            let Some(node) = node else {
                self.start_over(&located, failures).await?;
                continue;
            };
            let range = (position - located.offset, end.min(located.end()) - located.offset);
            match self.connect(&node, &located, range).await {
                Ok(read) => return Ok(Current { located, node, read }),
                Err(fault) => {
                    tracing::debug!(path = self.path, node = datanode_name(&node.id), %fault, "not read here");
                    self.failed(&located, node, fault, failures).await;
                }
            }
        }
    }

    async fn connect(
        &self,
        node: &hdfs::DatanodeInfoProto,
        located: &Located,
        range: (u64, u64),
    ) -> std::result::Result<BlockRead, DataFault> {
        let datanodes = &self.client.0.datanodes;
        let name = self.client.name();
        if let Some(idle) = datanodes.take_idle(node) {
            // The datanode may have closed it: that says nothing of the datanode.
            match BlockRead::start(idle, name, located, range, self.verify).await {
                Err(DataFault::Io(_) | DataFault::Closed) => {}
                other => return other,
            }
        }
        BlockRead::start(datanodes.connect(node).await?, name, located, range, self.verify).await
    }

    /// Notes a datanode's failure; a bad copy is reported.
    async fn failed(
        &self,
        located: &Located,
        node: hdfs::DatanodeInfoProto,
        fault: DataFault,
        failures: &mut Failures,
    ) {
        failures.last = Some(format!("{}: {fault}", datanode_name(&node.id)));
        self.lock().dead.insert(node.id.datanode_uuid.clone());
        if let DataFault::Checksum(_) = fault {
            tracing::warn!(path = self.path, block = located.block.id, node = datanode_name(&node.id), %fault);
            failures.corrupt.push(node);
            self.report(located, &failures.corrupt).await;
        }
    }

    /// Tells the namenode of bad copies. When all of several are bad the fault is rather this machine's: as in stock,
    /// nothing is reported then.
    async fn report(&self, located: &Located, corrupt: &[hdfs::DatanodeInfoProto]) {
        let Some(worst) = corrupt.last() else { return };
        if located.nodes.len() > 1 && corrupt.len() >= located.nodes.len() {
            return;
        }
        let bad = hdfs::LocatedBlockProto {
            b: (&located.block).into(),
            offset: located.offset,
            locs: vec![worst.clone()],
            corrupt: true,
            ..Default::default()
        };
        let request = hdfs::ReportBadBlocksRequestProto { blocks: vec![bad] };
        // The read goes on without it.
        if let Err(error) = self.client.call_on(&self.path, &rpc::REPORT_BAD_BLOCKS, &request).await {
            tracing::warn!(path = self.path, %error, "a bad copy could not be reported");
        }
    }

    /// No datanode is left: after a while all are asked again, at places that are asked for anew.
    async fn start_over(&self, located: &Located, failures: &mut Failures) -> Result<()> {
        let config = &self.client.0.datanodes.config;
        if failures.rounds >= config.max_acquire_failures {
            let why = match (&failures.last, located.nodes.is_empty(), located.corrupt) {
                (_, _, true) => "all its copies are corrupt".to_owned(),
                (_, true, _) => "no live datanode has it".to_owned(),
                (Some(why), ..) => format!("the last failure was {why}"),
                (None, ..) => "its datanodes failed before".to_owned(),
            };
            let text = format!("Could not obtain block: blk_{} file={}: {why}", located.block.id, self.path);
            return Err(Error::local("read", &self.path, Kind::Io, text));
        }
        // As in stock: up to 3 s at first, then between 3 and 9, between 6 and 15.
        let rounds = failures.rounds;
        let wait = config.acquire_wait * rounds
            + (config.acquire_wait * (rounds + 1)).mul_f64(rand::random_range(0.0..1.0));
        tracing::info!(
            path = self.path,
            block = located.block.id,
            ?wait,
            "no datanode gives the block; waiting"
        );
        time::sleep(wait).await;
        failures.rounds += 1;
        failures.corrupt.clear();
        self.lock().dead.clear();
        self.locate(located.offset).await
    }
}

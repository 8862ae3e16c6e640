//! A writer's bytes, cut into packets and blocks.

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::OwnedSemaphorePermit;
use trellis_proto::checksum::Checksum;
use trellis_proto::data_transfer::{CHECKSUM_BYTES, HEARTBEAT_SEQNO, TransferError, put_packet_head};
use trellis_proto::hdfs::PacketHeaderProto;

/// Longest packet header with its two lengths.
const MAX_HEAD_BYTES: usize = 33;
/// Larger packets than this are not made, whatever the namenode suggests.
const MAX_PACKET_SIZE: usize = 1 << 20;

/// One packet, as it goes over the wire however often.
#[derive(Debug)]
pub(super) struct Packet {
    /// Counts up over the file.
    pub seqno: i64,
    /// Bytes of the block up to this packet's end.
    pub end: u64,
    /// Lengths, header and checksums.
    pub head: Bytes,
    pub data: Bytes,
    /// The block ends here.
    pub last: bool,
    /// Room among the packets that are not acknowledged yet.
    pub _permit: Option<OwnedSemaphorePermit>,
}

/// A packet that only says that the writer is alive.
pub(super) fn heartbeat() -> Result<Bytes, TransferError> {
    let header = PacketHeaderProto {
        offset_in_block: 0,
        seqno: HEARTBEAT_SEQNO,
        last_packet_in_block: false,
        data_len: 0,
        sync_block: None,
    };
    let mut head = BytesMut::new();
    put_packet_head(&mut head, &header, 0, 0)?;
    Ok(head.freeze())
}

/// Gathers bytes for the next packet of the current block.
#[derive(Debug)]
pub(super) struct Packer {
    checksum: Checksum,
    block_size: u64,
    /// Most bytes of a packet, whole chunks.
    packet_bytes: usize,
    /// Where in the block `bytes` begins: at a chunk's start, or where an append began.
    start: u64,
    bytes: BytesMut,
    /// How many of `bytes` were sent before, of a chunk that is not full yet: they are sent again with what follows.
    sent: usize,
    next_seqno: i64,
}

impl Packer {
    /// `start`: length of the last block, of which an append goes on; else 0.
    pub fn new(checksum: Checksum, block_size: u64, packet_size: u32, start: u64) -> Self {
        let chunk = checksum.bytes_per_checksum() as usize;
        let room = (packet_size as usize).min(MAX_PACKET_SIZE).saturating_sub(MAX_HEAD_BYTES);
        let packet_bytes = (room / (chunk + CHECKSUM_BYTES)).max(1) * chunk;
        Self { checksum, block_size, packet_bytes, start, bytes: BytesMut::new(), sent: 0, next_seqno: 0 }
    }

    /// Bytes of the current block so far.
    pub fn position(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Takes as much as fits into the packet; what is left.
    pub fn fill<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        let (now, later) = data.split_at(data.len().min(self.limit() - self.bytes.len()));
        if self.bytes.capacity() < self.bytes.len() + now.len() {
            self.bytes.reserve(self.limit() - self.bytes.len());
        }
        self.bytes.extend_from_slice(now);
        later
    }

    /// Most bytes of the current packet.
    fn limit(&self) -> usize {
        let chunk = u64::from(self.checksum.bytes_per_checksum());
        // After an append in the middle of a chunk a datanode wants the rest of the chunk alone.
        let limit = match self.start % chunk {
            0 => self.packet_bytes as u64,
            partial => chunk - partial,
        };
        limit.min(self.block_size.saturating_sub(self.start)) as usize
    }

    /// Whether the packet has to be sent before more fits.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= self.limit()
    }

    /// Whether there are bytes that were not sent yet.
    pub fn has_unsent(&self) -> bool {
        self.bytes.len() > self.sent
    }

    /// Whether the block is full, or has as many bytes as it will get.
    pub fn is_block_full(&self) -> bool {
        self.position() >= self.block_size
    }

    /// The packet with all that was gathered. The bytes of a chunk that is not full are kept, to be sent once more.
    pub fn packet(&mut self, sync: bool, permit: OwnedSemaphorePermit) -> Result<Packet, TransferError> {
        let chunk_start = self.checksum.chunk_start(self.position());
        let keep_from = chunk_start.saturating_sub(self.start).min(self.bytes.len() as u64) as usize;
        let begin = self.start;
        let data = if self.is_full() {
            self.start = self.position();
            std::mem::take(&mut self.bytes).freeze()
        } else {
            let all = Bytes::copy_from_slice(&self.bytes);
            let kept = self.bytes.split_off(keep_from);
            self.start += keep_from as u64;
            self.bytes = kept;
            all
        };
        self.sent = self.bytes.len();
        self.pack(begin, data, sync, false, permit)
    }

    /// The empty packet that ends the block; what follows goes into a new one.
    pub fn last_packet(&mut self, permit: OwnedSemaphorePermit) -> Result<Packet, TransferError> {
        let end = self.position();
        (self.start, self.sent) = (0, 0);
        self.bytes.clear();
        self.pack(end, Bytes::new(), false, true, permit)
    }

    /// An empty packet that makes datanodes write what they have to disk.
    pub fn sync_packet(&mut self, permit: OwnedSemaphorePermit) -> Result<Packet, TransferError> {
        self.pack(self.position(), Bytes::new(), true, false, permit)
    }

    /// The number of the packet made last; None: there was none.
    pub fn last_seqno(&self) -> Option<i64> {
        self.next_seqno.checked_sub(1).filter(|seqno| *seqno >= 0)
    }

    fn pack(
        &mut self,
        begin: u64,
        data: Bytes,
        sync: bool,
        last: bool,
        permit: OwnedSemaphorePermit,
    ) -> Result<Packet, TransferError> {
        let seqno = self.next_seqno;
        self.next_seqno += 1;
        let header = PacketHeaderProto {
            offset_in_block: begin as i64,
            seqno,
            last_packet_in_block: last,
            data_len: data.len() as i32,
            sync_block: sync.then_some(true),
        };
        let sums_len = self.checksum.sums_len(data.len());
        let mut head = BytesMut::with_capacity(MAX_HEAD_BYTES + sums_len);
        put_packet_head(&mut head, &header, sums_len, data.len())?;
        let mut sums = Vec::new();
        self.checksum.compute(&data, &mut sums);
        head.put_slice(&sums);
        let end = begin + data.len() as u64;
        Ok(Packet { seqno, end, head: head.freeze(), data, last, _permit: Some(permit) })
    }
}

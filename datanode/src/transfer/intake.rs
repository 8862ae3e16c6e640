//! What a packet goes through on its way to the disk: checks, then the replica's writer.

use std::io;

use trellis_proto::checksum::{Checksum, ChecksumError};
use trellis_proto::data_transfer::PacketShape;

use super::acks::Written;
use super::fault::Fault;
use super::peer::{Peer, invalid};
use crate::shared::Shared;
use crate::store::ReplicaWriter;

/// The writer of a replica, and how what comes in is checked.
pub(crate) struct Intake {
    writer: Box<dyn ReplicaWriter>,
    /// The sender's sums.
    checksum: Checksum,
    /// Whether sums are verified here.
    verify: bool,
}

/// Packets that lie whole in a buffer, one after the other.
pub(crate) struct Packets {
    /// With where each begins.
    pub(crate) shapes: Vec<(usize, PacketShape)>,
    /// Bytes of all of them.
    pub(crate) len: usize,
}

impl Packets {
    /// All that are whole in what was received; nothing may follow the last one of a block.
    pub(crate) fn received(peer: &Peer) -> io::Result<Packets> {
        let mut packets = Packets { shapes: Vec::new(), len: 0 };
        while let Some(shape) = peer.packet(packets.len)? {
            if packets.ends() {
                return Err(invalid("a packet follows the last one of the block"));
            }
            let len = shape.data.end;
            packets.shapes.push((packets.len, shape));
            packets.len += len;
        }
        Ok(packets)
    }

    /// Whether the last packet of the block is among them.
    pub(crate) fn ends(&self) -> bool {
        self.shapes.last().is_some_and(|(_, shape)| shape.header.last_packet_in_block)
    }
}

impl Intake {
    /// `last_in_line`: no datanode further down verifies the sums.
    pub(crate) fn new(writer: Box<dyn ReplicaWriter>, checksum: Checksum, last_in_line: bool) -> Intake {
        let verify = last_in_line || checksum != writer.checksum();
        Intake { writer, checksum, verify }
    }

    /// The writer.
    pub(crate) fn writer(&mut self) -> &mut dyn ReplicaWriter {
        &mut *self.writer
    }

    /// The writer, for its end.
    pub(crate) fn into_writer(self) -> Box<dyn ReplicaWriter> {
        self.writer
    }

    /// Takes the packet that begins `bytes`: it is checked, written, and durable if it asks for that.
    pub(crate) fn take(
        &mut self,
        shared: &Shared,
        shape: &PacketShape,
        bytes: &[u8],
    ) -> Result<Written, Fault> {
        let header = &shape.header;
        let data = bytes.get(shape.data.clone()).unwrap_or_default();
        let sums = bytes.get(shape.checksums.clone()).unwrap_or_default();
        let offset = u64::try_from(header.offset_in_block)
            .map_err(|_| invalid(format!("a packet at offset {}", header.offset_in_block)))?;
        if header.last_packet_in_block && !data.is_empty() {
            return Err(invalid("the last packet of a block has data").into());
        }
        if !data.is_empty() {
            self.write(offset, sums, data)?;
            shared.metrics.bytes_written.increment(data.len() as u64);
        } else if offset > self.writer.len() {
            let have = self.writer.len();
            return Err(invalid(format!("an empty packet at offset {offset} of {have} bytes")).into());
        }
        if header.sync_block() {
            self.writer.sync()?;
        }
        let end = offset + data.len() as u64;
        Ok(Written { seqno: header.seqno, end, last: header.last_packet_in_block })
    }

    fn write(&mut self, offset: u64, sums: &[u8], data: &[u8]) -> Result<(), Fault> {
        if sums.is_empty() {
            return Ok(self.writer.write(offset, None, data)?);
        }
        let expected = self.checksum.sums_len(data.len());
        if sums.len() != expected {
            return Err(Fault::Checksum(ChecksumError::Count { sums: sums.len(), data: data.len() }));
        }
        if self.verify {
            self.checksum.verify(data, sums).map_err(Fault::Checksum)?;
        }
        let sums = Some(sums).filter(|_| self.checksum == self.writer.checksum());
        Ok(self.writer.write(offset, sums, data)?)
    }
}

//! One block, or a part of it, from one datanode.

use bytes::{Buf, Bytes};
use trellis_proto::checksum::{Checksum, ChecksumError};
use trellis_proto::data_transfer::Op;
use trellis_proto::hdfs::{self, ClientReadStatusProto, Status};

use super::connection::{Connection, DataFault};
use super::locations::Located;

/// A read under way. Data comes in the datanode's packets, verified.
#[derive(Debug)]
pub(super) struct BlockRead {
    connection: Connection,
    /// None: not verified.
    checksum: Option<Checksum>,
    /// Where in the block the next packet begins.
    expected: u64,
    /// Where in the block the next byte for the caller is.
    at: u64,
    /// Where in the block the read ends.
    end: u64,
}

impl BlockRead {
    /// Begins to read bytes `at..end` of a block. The connection is lost on an error.
    pub async fn start(
        mut connection: Connection,
        client_name: &str,
        located: &Located,
        (at, end): (u64, u64),
        verify: bool,
    ) -> Result<Self, DataFault> {
        let request = hdfs::OpReadBlockProto {
            header: hdfs::ClientOperationHeaderProto {
                base_header: located.header(),
                client_name: client_name.to_owned(),
            },
            offset: at,
            len: end - at,
            send_checksums: Some(verify),
            ..Default::default()
        };
        let answer = connection.op(Op::ReadBlock, &request).await?;
        let info = answer
            .read_op_checksum_info
            .ok_or_else(|| DataFault::Nonsense("it did not say how its chunks are checked".into()))?;
        let checksum = Checksum::from_proto(&info.checksum)
            .map_err(|error| DataFault::Nonsense(format!("unusable checksums: {error}")))?;
        // It begins with the chunk of the first byte, if it sends checksums.
        if info.chunk_offset > at || at - info.chunk_offset >= checksum.bytes_per_checksum().into() {
            let text = format!("asked for byte {at} it begins with {}", info.chunk_offset);
            return Err(DataFault::Nonsense(text));
        }
        let checksum = verify.then_some(checksum);
        Ok(Self { connection, checksum, expected: info.chunk_offset, at, end })
    }

    /// Position in the block.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next bytes, at least one; None at the end. Cancelled, it can be asked for again.
    pub async fn next(&mut self) -> Result<Option<Bytes>, DataFault> {
        while self.at < self.end {
            let packet = self.connection.packet().await?;
            let header = &packet.header;
            let len = packet.data.len() as u64;
            if header.offset_in_block != self.expected as i64 || header.last_packet_in_block {
                let text = format!(
                    "at byte {} of {} it sent the packet of byte {}{}",
                    self.expected,
                    self.end,
                    header.offset_in_block,
                    if header.last_packet_in_block { ", its last" } else { "" }
                );
                return Err(DataFault::Nonsense(text));
            }
            if len == 0 {
                return Err(DataFault::Nonsense(format!(
                    "at byte {} it sent an empty packet",
                    self.expected
                )));
            }
            self.verify(&packet.data, &packet.checksums)?;
            let (from, to) = (self.expected, self.expected + len);
            self.expected = to;
            let mut data = packet.data;
            // Whole chunks come; what was not asked for is cut off at both ends.
            data.advance(usize::try_from(self.at.saturating_sub(from)).unwrap_or(usize::MAX).min(data.len()));
            data.truncate(usize::try_from(self.end - self.at).unwrap_or(usize::MAX));
            self.at += data.len() as u64;
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    fn verify(&self, data: &[u8], sums: &[u8]) -> Result<(), DataFault> {
        let Some(checksum) = self.checksum else { return Ok(()) };
        match checksum.verify(data, sums) {
            Ok(()) => Ok(()),
            Err(ChecksumError::Mismatch { at, .. }) => Err(DataFault::Checksum(self.expected + at as u64)),
            Err(error) => Err(DataFault::Nonsense(error.to_string())),
        }
    }

    /// Ends a read of which all was taken; the connection, free for another op, if the datanode did its part.
    pub async fn finish(mut self) -> Option<Connection> {
        if self.at < self.end {
            return None;
        }
        let last = self.connection.packet().await.ok()?;
        if !last.header.last_packet_in_block || !last.data.is_empty() {
            return None;
        }
        let status = if self.checksum.is_some() { Status::ChecksumOk } else { Status::Success };
        self.connection.send(&ClientReadStatusProto { status: status.into() }).await.ok()?;
        Some(self.connection)
    }
}

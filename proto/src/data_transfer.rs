//! The datanode's streaming protocol, cut into its pieces: ops, delimited messages, packets.
//!
//! Every `take_` function takes one whole piece off a buffer, or says None: read more and ask again. Pieces share the
//! buffer's memory. An error means that the peer is broken: close the connection.
//!
//! ```text
//! op      u16 28 (version) · u8 opcode · delimited message
//! packet  u32 4 + checksums + data · u16 header length · PacketHeaderProto · checksums · data
//! ```

use std::ops::Range;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use crate::exception::RpcError;
use crate::hdfs::PacketHeaderProto;
use crate::presence::decode_request;
use crate::wire::{Reader, WireError};

/// Version of the protocol; a peer of another one is hung up on.
pub const VERSION: u16 = 28;
/// The largest packet, headers included.
pub const MAX_PACKET_BYTES: usize = 16 << 20;
/// The largest message outside of packets.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Bytes of one checksum (CRC32 and CRC32C), big-endian.
pub const CHECKSUM_BYTES: usize = 4;
/// Sequence number of a packet that only says that the writer is alive.
pub const HEARTBEAT_SEQNO: i64 = -1;

/// Why a data connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// Not [`VERSION`].
    #[error("data transfer version {0} was received; this side speaks {VERSION}")]
    Version(u16),
    /// No such op.
    #[error("unknown data transfer op {0}")]
    Op(u8),
    /// Above [`MAX_MESSAGE_BYTES`].
    #[error("a message announces {0} bytes; the limit is {MAX_MESSAGE_BYTES}")]
    MessageLength(usize),
    /// Lengths of a packet that contradict each other or the limit.
    #[error("a packet announces payload length {payload}, header length {header}, data length {data:?}")]
    PacketLength {
        /// PLEN, signed.
        payload: i32,
        /// HLEN, signed.
        header: i16,
        /// From the header, if that could be read.
        data: Option<i32>,
    },
    /// The bytes of a message are no such message.
    #[error("{0}")]
    Decode(RpcError),
    /// The length before a message is no varint.
    #[error("{0}")]
    Wire(WireError),
}

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// What a client or another datanode asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Op {
            $($(#[$doc])* $name = $code,)*
        }

        impl Op {
            /// The op of a code on the wire.
            pub fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Op::$name),)*
                    _ => None,
                }
            }
        }
    };
}

ops! {
    /// `OpWriteBlockProto`
    WriteBlock = 80,
    /// `OpReadBlockProto`
    ReadBlock = 81,
    /// No stock server serves this one any more.
    ReadMetadata = 82,
    /// `OpReplaceBlockProto`
    ReplaceBlock = 83,
    /// `OpCopyBlockProto`
    CopyBlock = 84,
    /// `OpBlockChecksumProto`
    BlockChecksum = 85,
    /// `OpTransferBlockProto`
    TransferBlock = 86,
    /// `OpRequestShortCircuitAccessProto`
    RequestShortCircuitFds = 87,
    /// `ReleaseShortCircuitAccessRequestProto`
    ReleaseShortCircuitFds = 88,
    /// `ShortCircuitShmRequestProto`
    RequestShortCircuitShm = 89,
    /// `OpBlockGroupChecksumProto`
    BlockGroupChecksum = 90,
    /// `OpCustomProto`
    Custom = 127,
}

/// Takes an op and its message, for [`decode_request`]. `TransferError::Version` is known after two bytes.
pub fn take_op(buf: &mut BytesMut) -> Result<Option<(Op, Bytes)>, TransferError> {
    let Some(version) = buf.first_chunk::<2>().map(|v| u16::from_be_bytes(*v)) else { return Ok(None) };
    if version != VERSION {
        return Err(TransferError::Version(version));
    }
    let Some(code) = buf.get(2).copied() else { return Ok(None) };
    let op = Op::from_code(code).ok_or(TransferError::Op(code))?;
    Ok(take_delimited(buf, 3)?.map(|message| (op, message)))
}

/// Appends an op and its message.
pub fn put_op<M: Message>(out: &mut BytesMut, op: Op, message: &M) {
    out.put_u16(VERSION);
    out.put_u8(op as u8);
    put_message(out, message);
}

/// Takes a delimited message: `BlockOpResponseProto`, `PipelineAckProto`, `ClientReadStatusProto`.
pub fn take_message(buf: &mut BytesMut) -> Result<Option<Bytes>, TransferError> {
    take_delimited(buf, 0)
}

/// Appends a delimited message.
pub fn put_message<M: Message>(out: &mut BytesMut, message: &M) {
    // It fails only for lack of room, and BytesMut grows.
    let _ = message.encode_length_delimited(out);
}

/// The message whose length stands at `start`; everything up to its end leaves `buf`.
fn take_delimited(buf: &mut BytesMut, start: usize) -> Result<Option<Bytes>, TransferError> {
    let mut reader = Reader::new(buf.get(start..).unwrap_or_default());
    let len = match reader.varint() {
        Ok(len) => usize::try_from(len).unwrap_or(usize::MAX),
        Err(WireError::Truncated) => return Ok(None),
        Err(error) => return Err(TransferError::Wire(error)),
    };
    if len > MAX_MESSAGE_BYTES {
        return Err(TransferError::MessageLength(len));
    }
    if reader.rest().len() < len {
        return Ok(None);
    }
    let head = buf.len() - reader.rest().len();
    buf.advance(head);
    Ok(Some(buf.split_to(len).freeze()))
}

/// One packet of a block's data.
#[derive(Debug, Clone, PartialEq)]
pub struct Packet {
    /// `data_len` is the length of `data`.
    pub header: PacketHeaderProto,
    /// [`CHECKSUM_BYTES`] per chunk, or nothing.
    pub checksums: Bytes,
    /// From `header.offset_in_block` on.
    pub data: Bytes,
}

/// Where the pieces of a packet lie that stands whole at the head of some bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketShape {
    /// `data_len` is the length of `data`.
    pub header: PacketHeaderProto,
    /// [`CHECKSUM_BYTES`] per chunk, or nothing.
    pub checksums: Range<usize>,
    /// From `header.offset_in_block` on; the packet ends with it.
    pub data: Range<usize>,
}

/// Bytes that a packet takes up, itself counted; None: more bytes are needed to know.
pub fn packet_len(bytes: &[u8]) -> Result<Option<usize>, TransferError> {
    let Some([p0, p1, p2, p3, h0, h1]) = bytes.first_chunk::<6>().copied() else { return Ok(None) };
    let (payload, header) = (i32::from_be_bytes([p0, p1, p2, p3]), i16::from_be_bytes([h0, h1]));
    let wrong = TransferError::PacketLength { payload, header, data: None };
    // PLEN counts itself but not HLEN and the header.
    let body_len = usize::try_from(payload).ok().and_then(|p| p.checked_sub(4));
    let header_len = usize::try_from(header).ok();
    match (body_len, header_len) {
        (Some(body), Some(header)) if 6 + header + body <= MAX_PACKET_BYTES => Ok(Some(6 + header + body)),
        _ => Err(wrong),
    }
}

/// Looks at the packet at the head of `bytes` and leaves it there; None: it is not whole yet.
pub fn look_at_packet(bytes: &[u8]) -> Result<Option<PacketShape>, TransferError> {
    let (Some(whole), Some([p0, p1, p2, p3, h0, h1])) =
        (packet_len(bytes)?, bytes.first_chunk::<6>().copied())
    else {
        return Ok(None);
    };
    let (payload, header_len) = (i32::from_be_bytes([p0, p1, p2, p3]), i16::from_be_bytes([h0, h1]));
    let body = 6 + usize::from(header_len.unsigned_abs());
    if bytes.len() < whole {
        return Ok(None);
    }
    let fields = Bytes::copy_from_slice(bytes.get(6..body).unwrap_or_default());
    let header = decode_request::<PacketHeaderProto>(fields).map_err(TransferError::Decode)?;
    let data_len = usize::try_from(header.data_len).ok().filter(|len| *len <= whole - body);
    let wrong = TransferError::PacketLength { payload, header: header_len, data: Some(header.data_len) };
    let data = whole - data_len.ok_or(wrong)?..whole;
    Ok(Some(PacketShape { header, checksums: body..data.start, data }))
}

/// Takes one packet.
pub fn take_packet(buf: &mut BytesMut) -> Result<Option<Packet>, TransferError> {
    let Some(shape) = look_at_packet(buf)? else { return Ok(None) };
    let whole = buf.split_to(shape.data.end).freeze();
    let (checksums, data) = (whole.slice(shape.checksums), whole.slice(shape.data));
    Ok(Some(Packet { header: shape.header, checksums, data }))
}

/// Appends all of a packet but its checksums and data, which are to follow at once: a sender of large blocks writes
/// them from where they lie. Fails if they do not fit into a packet or `header.data_len` is not `data_len`.
pub fn put_packet_head(
    out: &mut BytesMut,
    header: &PacketHeaderProto,
    checksum_len: usize,
    data_len: usize,
) -> Result<(), TransferError> {
    let header_len = header.encoded_len();
    let payload = 4usize.saturating_add(checksum_len).saturating_add(data_len);
    let fits = payload.saturating_add(2 + header_len) <= MAX_PACKET_BYTES;
    if !fits || usize::try_from(header.data_len) != Ok(data_len) {
        let payload = i32::try_from(payload).unwrap_or(i32::MAX);
        return Err(TransferError::PacketLength {
            payload,
            header: header_len as i16,
            data: Some(header.data_len),
        });
    }
    out.put_u32(payload as u32);
    out.put_u16(header_len as u16);
    // It fails only for lack of room, and BytesMut grows.
    let _ = header.encode(out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdfs::{OpReadBlockProto, PipelineAckProto, Status};

    fn header(offset: i64, seqno: i64, data_len: i32, sync: Option<bool>) -> PacketHeaderProto {
        PacketHeaderProto {
            offset_in_block: offset,
            seqno,
            last_packet_in_block: data_len == 0,
            data_len,
            sync_block: sync,
        }
    }

    #[test]
    fn ops_wait_for_their_bytes() {
        let mut whole = BytesMut::new();
        put_op(&mut whole, Op::ReadBlock, &OpReadBlockProto { offset: 600, len: 1000, ..Default::default() });
        assert_eq!(&whole[..3], b"\0\x1c\x51");
        for cut in 0..whole.len() {
            let mut part = BytesMut::from(&whole[..cut]);
            assert_eq!(take_op(&mut part), Ok(None), "after {cut} bytes");
            assert_eq!(part.len(), cut);
        }
        let (op, message) = take_op(&mut whole).unwrap().unwrap();
        assert_eq!((op, whole.is_empty()), (Op::ReadBlock, true));
        assert_eq!(OpReadBlockProto::decode(message).unwrap().len, 1000);
    }

    #[test]
    fn ops_that_end_the_connection() {
        let take = |bytes: &[u8]| take_op(&mut BytesMut::from(bytes));
        assert_eq!(take(b"\0\x1b"), Err(TransferError::Version(27)));
        assert_eq!(take(b"\0\x1c\x01"), Err(TransferError::Op(1)));
        assert_eq!(take(b"\0\x1c\x50\x81\x80\x80\x02"), Err(TransferError::MessageLength((4 << 20) + 1)));
        assert_eq!(
            take(b"\0\x1c\x50\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            Err(TransferError::Wire(WireError::MalformedVarint))
        );
    }

    #[test]
    fn packets_as_a_stock_datanode_sends_them() {
        // dtprobe.txt: a ranged read of 1000 bytes from 600 on is sent as these two packets.
        let mut wire = BytesMut::new();
        put_packet_head(&mut wire, &header(512, 0, 1536, None), 12, 1536).unwrap();
        assert_eq!(&wire[..6], [&1552u32.to_be_bytes()[..], &25u16.to_be_bytes()[..]].concat());
        wire.put_slice(&[1; 12]);
        wire.put_slice(&[2; 1536]);
        put_packet_head(&mut wire, &header(2048, 1, 0, None), 0, 0).unwrap();
        let (first, second) = (31 + 1548, 31);
        assert_eq!(wire.len(), first + second);

        assert_eq!(take_packet(&mut BytesMut::from(&wire[..first - 1])), Ok(None));
        let packet = take_packet(&mut wire).unwrap().unwrap();
        assert_eq!((packet.header.seqno, packet.header.offset_in_block), (0, 512));
        assert_eq!((&packet.checksums[..], &packet.data[..]), (&[1; 12][..], &[2; 1536][..]));
        let last = take_packet(&mut wire).unwrap().unwrap();
        assert!(last.header.last_packet_in_block && last.data.is_empty() && last.checksums.is_empty());
        assert_eq!(take_packet(&mut wire), Ok(None));

        put_packet_head(&mut wire, &header(0, HEARTBEAT_SEQNO, 0, Some(true)), 0, 0).unwrap();
        assert_eq!(wire[5], 27, "syncBlock makes the header two bytes longer");
    }

    #[test]
    fn a_packet_is_looked_at_where_it_lies() {
        let mut wire = BytesMut::new();
        put_packet_head(&mut wire, &header(512, 7, 600, None), 8, 600).unwrap();
        wire.put_slice(&[1; 8]);
        wire.put_slice(&[2; 600]);
        let whole = wire.len();
        wire.put_slice(b"the next one");
        assert_eq!(packet_len(&wire[..5]), Ok(None));
        assert_eq!(packet_len(&wire[..6]), Ok(Some(whole)));
        assert_eq!(look_at_packet(&wire[..whole - 1]), Ok(None));
        let shape = look_at_packet(&wire).unwrap().unwrap();
        assert_eq!((shape.header.seqno, shape.checksums, shape.data), (7, 31..39, 39..whole));
    }

    #[test]
    fn packets_whose_lengths_contradict_each_other() {
        let bad = |payload: i32, header_len: i16, fields: &PacketHeaderProto| {
            let mut wire = BytesMut::new();
            wire.put_i32(payload);
            wire.put_i16(header_len);
            fields.encode(&mut wire).unwrap();
            wire.put_slice(&[0; 100]);
            take_packet(&mut wire)
        };
        let plain = header(0, 0, 8, None);
        assert!(bad(12, 25, &plain).unwrap().is_some());
        for (payload, header_len, fields) in [
            (3, 25, &plain),
            (-1, 25, &plain),
            (16 << 20, 25, &plain),
            (12, -1, &plain),
            (11, 25, &plain),
            (12, 25, &header(0, 0, -1, None)),
        ] {
            let error = bad(payload, header_len, fields).unwrap_err();
            assert!(matches!(error, TransferError::PacketLength { .. }), "{error}");
        }
        assert!(matches!(bad(12, 24, &plain), Err(TransferError::Decode(_))));
        let out = &mut BytesMut::new();
        assert!(put_packet_head(out, &plain, 0, 9).is_err());
        assert!(put_packet_head(out, &header(0, 0, 17 << 20, None), 0, 17 << 20).is_err());
        assert!(out.is_empty());
    }

    #[test]
    fn acks() {
        let ack = PipelineAckProto {
            seqno: HEARTBEAT_SEQNO,
            reply: vec![Status::Success.into()],
            flag: vec![0],
            ..Default::default()
        };
        let mut wire = BytesMut::new();
        put_message(&mut wire, &ack);
        assert_eq!(&wire[..], b"\x07\x08\x01\x10\x00\x22\x01\x00");
        assert_eq!(take_message(&mut wire).unwrap().map(|m| PipelineAckProto::decode(m).unwrap()), Some(ack));
        assert_eq!(take_message(&mut wire), Ok(None));
    }
}

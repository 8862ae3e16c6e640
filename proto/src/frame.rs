//! Cutting a byte stream into RPC frames, and putting frames together. Both directions look the same: a big-endian
//! `u32` length, then that many bytes, in which every message has its own varint length.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};

use crate::wire::{Reader, WireError};

/// The largest frame that either side takes (`ipc.maximum.data.length`, `ipc.maximum.response.length`).
pub const MAX_FRAME_BYTES: usize = 128 << 20;

/// Why a stream cannot go on; a stock server then closes without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length field is negative or above the limit.
    #[error("a frame announces {announced} bytes; the limit is {limit}")]
    Length {
        /// As on the wire, signed.
        announced: i32,
        /// Bytes.
        limit: usize,
    },
}

/// Takes the next whole frame off `buf`, without its length field; None: more bytes are needed.
///
/// Nothing is reserved for what a peer merely announces. The frame shares `buf`'s memory.
pub fn next_frame(buf: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(head) = buf.first_chunk::<4>() else { return Ok(None) };
    let announced = i32::from_be_bytes(*head);
    let len = usize::try_from(announced).ok().filter(|len| *len <= limit);
    let Some(len) = len else { return Err(FrameError::Length { announced, limit }) };
    if buf.len() - 4 < len {
        return Ok(None);
    }
    buf.advance(4);
    Ok(Some(buf.split_to(len).freeze()))
}

/// Takes a varint-length-delimited message off the front of `frame`.
pub fn take_delimited(frame: &mut Bytes) -> Result<Bytes, WireError> {
    let mut reader = Reader::new(frame);
    let len = reader.delimited()?.len();
    let used = frame.len() - reader.rest().len();
    frame.advance(used - len);
    Ok(frame.split_to(len))
}

/// A message that is too large for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message of {bytes} bytes does not fit into a frame of {MAX_FRAME_BYTES}")]
pub struct TooLarge {
    /// Size that the frame would have had.
    pub bytes: usize,
}

/// Appends one frame of the given messages, each with its length. On an error `out` is as before.
pub(crate) fn put_frame<const N: usize>(out: &mut BytesMut, parts: [&dyn Part; N]) -> Result<(), TooLarge> {
    let lens = parts.map(|part| part.message_len());
    let bytes = lens.iter().map(|len| encoded_len_varint(*len as u64) + len).sum();
    if bytes > MAX_FRAME_BYTES {
        return Err(TooLarge { bytes });
    }
    out.reserve(4 + bytes);
    out.put_u32(bytes as u32);
    for (part, len) in parts.into_iter().zip(lens) {
        encode_varint(len as u64, out);
        part.put_message(out);
    }
    Ok(())
}

/// A message as a part of a frame.
pub(crate) trait Part {
    /// Bytes of the message itself.
    fn message_len(&self) -> usize;
    fn put_message(&self, out: &mut BytesMut);
}

impl<M: Message> Part for M {
    fn message_len(&self) -> usize {
        self.encoded_len()
    }

    fn put_message(&self, out: &mut BytesMut) {
        // `encode` would count it once more, to see whether there is room; BytesMut grows.
        self.encode_raw(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_and_in_order() {
        let stream = b"\0\0\0\x02hi\0\0\0\0\0\0\0\x03you\0\0";
        for step in 1..=stream.len() {
            let (mut buf, mut got) = (BytesMut::new(), Vec::new());
            for piece in stream.chunks(step) {
                buf.extend_from_slice(piece);
                while let Some(frame) = next_frame(&mut buf, 100).unwrap() {
                    got.push(frame);
                }
            }
            assert_eq!(got, [&b"hi"[..], b"", b"you"], "in steps of {step}");
            assert_eq!(&buf[..], b"\0\0");
        }
    }

    #[test]
    fn lengths_out_of_bounds_and_no_memory_for_announcements() {
        for (head, announced) in [(0xffff_ffffu32, -1), (0x8000_0000, i32::MIN), (101, 101)] {
            let mut buf = BytesMut::from(&head.to_be_bytes()[..]);
            assert_eq!(next_frame(&mut buf, 100), Err(FrameError::Length { announced, limit: 100 }));
        }
        let mut buf = BytesMut::from(&(MAX_FRAME_BYTES as u32).to_be_bytes()[..]);
        assert_eq!(next_frame(&mut buf, MAX_FRAME_BYTES), Ok(None));
        assert!(buf.capacity() < 1024);
    }

    #[test]
    fn delimited_messages() {
        let mut frame = Bytes::from_static(b"\x02hi\x00\x05you");
        assert_eq!(take_delimited(&mut frame), Ok(Bytes::from_static(b"hi")));
        assert_eq!(take_delimited(&mut frame), Ok(Bytes::new()));
        assert_eq!(take_delimited(&mut frame), Err(WireError::Truncated));
    }
}

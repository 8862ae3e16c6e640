//! Putting fields of the headers, which precede every message and so are not to allocate. Their numbers are below 16, so
//! that a tag is one byte.

use bytes::{BufMut, BytesMut};
use prost::encoding::{encode_varint, encoded_len_varint};

pub(super) fn put_varint(out: &mut BytesMut, number: u8, value: u64) {
    out.put_u8(number << 3);
    encode_varint(value, out);
}

/// Size of such a field: tag, value.
pub(super) fn varint_len(value: u64) -> usize {
    1 + encoded_len_varint(value)
}

pub(super) fn put_string(out: &mut BytesMut, number: u8, bytes: &[u8]) {
    out.put_u8(number << 3 | 2);
    encode_varint(bytes.len() as u64, out);
    out.put_slice(bytes);
}

/// Size of a string field: tag, length, bytes.
pub(super) fn string_len(len: usize) -> usize {
    1 + encoded_len_varint(len as u64) + len
}

/// The coding of sint32.
pub(super) fn zigzag(value: i32) -> u64 {
    u64::from((value << 1 ^ value >> 31) as u32)
}

//! A row as the log and the layers hold it: length of the key (u16), length of the row or `u32::MAX` for a deleted one
//! (u32), key, row (as in the tree). All numbers are little-endian. Part of the log's format.

use super::super::row;
use crate::change::Row;
use crate::key::Key;

const HEAD_BYTES: usize = 6;
const DELETED: u32 = u32::MAX;

/// A row where it lies.
#[derive(Clone, Copy)]
pub struct Entry<'b> {
    /// The whole key.
    pub key: &'b [u8],
    /// The row as the tree stores it; `None` = deleted.
    pub row: Option<&'b [u8]>,
}

impl<'b> Entry<'b> {
    /// The one at the front and what follows it; `None` = no whole one is there.
    pub fn read(bytes: &'b [u8]) -> Option<(Entry<'b>, &'b [u8])> {
        let (key_length, row_length) = lengths(*bytes.first_chunk()?);
        let (entry, rest) = bytes.split_at_checked(bytes_of_lengths(key_length, row_length))?;
        Some((Entry::of_written(entry), rest))
    }

    /// The one at the front of what [`write`] wrote.
    pub fn of_written(bytes: &'b [u8]) -> Entry<'b> {
        let (key_length, row_length) = lengths(std::array::from_fn(|byte| bytes[byte]));
        let (key, rest) = bytes[HEAD_BYTES..].split_at(key_length);
        Entry { key, row: row_length.map(|length| &rest[..length]) }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        bytes_of_lengths(self.key.len(), self.row.map(<[u8]>::len))
    }
}

fn lengths([key, key_high, row @ ..]: [u8; HEAD_BYTES]) -> (usize, Option<usize>) {
    let row = Some(u32::from_le_bytes(row)).filter(|length| *length != DELETED);
    (u16::from_le_bytes([key, key_high]).into(), row.map(|length| length as usize))
}

fn bytes_of_lengths(key: usize, row: Option<usize>) -> usize {
    HEAD_BYTES + key + row.unwrap_or(0)
}

/// Bytes that a row will take.
pub fn bytes_of(key: &Key, row: Option<&Row>) -> usize {
    bytes_of_lengths(key.as_bytes().len(), row.map(row::encoded_len))
}

/// Writes a row behind what is in `buffer`; `None` = deleted.
pub fn write(key: &Key, row: Option<&Row>, buffer: &mut Vec<u8>) {
    let key = key.as_bytes();
    buffer.extend_from_slice(&(key.len() as u16).to_le_bytes());
    let length = row.map_or(DELETED, |row| row::encoded_len(row) as u32);
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.extend_from_slice(key);
    if let Some(row) = row {
        row::encode(row, buffer);
    }
}

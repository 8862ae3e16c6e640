//! A stored row: version (u64), `max` (i64), `add` (i64), each 8 bytes little-endian, then the value. Part of the
//! format.

use crate::change::{MAX_VALUE_BYTES, Row};
use crate::tx::RowRef;

const HEAD_BYTES: usize = 24;

/// Reads a row where it lies; `None` when it is shorter or longer than a row can be.
pub(super) fn decode(bytes: &[u8]) -> Option<RowRef<'_>> {
    let (version, rest) = bytes.split_first_chunk()?;
    let (max, rest) = rest.split_first_chunk()?;
    let (add, value) = rest.split_first_chunk()?;
    if value.len() > MAX_VALUE_BYTES {
        return None;
    }
    Some(RowRef {
        version: u64::from_le_bytes(*version),
        max: i64::from_le_bytes(*max),
        add: i64::from_le_bytes(*add),
        value,
    })
}

/// How long a stored row is.
pub(super) fn encoded_len(row: &Row) -> usize {
    HEAD_BYTES + row.value.len()
}

/// Writes a row behind what is in `buffer`.
pub(super) fn encode(row: &Row, buffer: &mut Vec<u8>) {
    buffer.reserve(encoded_len(row));
    buffer.extend_from_slice(&row.version.to_le_bytes());
    buffer.extend_from_slice(&row.max.to_le_bytes());
    buffer.extend_from_slice(&row.add.to_le_bytes());
    buffer.extend_from_slice(&row.value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_fixed() {
        let row = Row { version: 0x0102, max: -2, add: 3, value: bytes::Bytes::from_static(b"xy") };
        let mut stored = vec![9];
        encode(&row, &mut stored);
        assert_eq!(stored.remove(0), 9);
        assert_eq!(stored.len(), encoded_len(&row));
        let mut expected = vec![2, 1, 0, 0, 0, 0, 0, 0, 0xfe];
        expected.extend([0xff; 7]);
        expected.extend([3, 0, 0, 0, 0, 0, 0, 0, b'x', b'y']);
        assert_eq!(stored, expected);
        assert_eq!(decode(&stored).map(|r| r.to_row()), Some(row));
    }

    #[test]
    fn rows_of_impossible_lengths_do_not_decode() {
        assert!(decode(&[0; HEAD_BYTES - 1]).is_none());
        assert!(decode(&[0; HEAD_BYTES]).is_some());
        assert!(decode(&[0; HEAD_BYTES + MAX_VALUE_BYTES]).is_some());
        assert!(decode(&[0; HEAD_BYTES + MAX_VALUE_BYTES + 1]).is_none());
    }
}

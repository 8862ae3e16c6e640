//! Primary keys: `(partition, table, key)` as one byte string whose byte order is the primary-key order.

use std::fmt;

use smallvec::SmallVec;

use crate::schema::TableId;

/// The longest third part of a primary key, in bytes.
pub const MAX_KEY_BYTES: usize = 480;
/// Bytes of partition and table, with which each key begins.
pub(crate) const PREFIX: usize = 9;

/// A primary key: partition (u64, big-endian), table (u8), key (≤ [`MAX_KEY_BYTES`]), concatenated.
///
/// `Ord` is the primary-key order. The order in which rows are locked is [`Key::lock_order`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(SmallVec<[u8; 64]>);

impl Key {
    /// Builds a key. Backends refuse one whose third part is longer than [`MAX_KEY_BYTES`].
    pub fn new(partition: u64, table: TableId, key: &[u8]) -> Key {
        let mut bytes = SmallVec::with_capacity(PREFIX + key.len());
        bytes.extend_from_slice(&partition.to_be_bytes());
        bytes.push(table as u8);
        bytes.extend_from_slice(key);
        Key(bytes)
    }

    /// The key of a file's name, which is mapped as [`name_bytes`] maps it.
    pub fn of_name(partition: u64, table: TableId, name: &[u8]) -> Key {
        let mut key = Key::new(partition, table, name);
        flip(&mut key.0[PREFIX..]);
        key
    }

    /// Reads a stored key; `None` when it is too short to be one, too long, or of an unknown table.
    pub fn from_bytes(bytes: &[u8]) -> Option<Key> {
        if bytes.len() < PREFIX || bytes.len() > PREFIX + MAX_KEY_BYTES {
            return None;
        }
        TableId::from_u8(bytes[8])?;
        Some(Key(SmallVec::from_slice(bytes)))
    }

    /// The whole key as stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The partition: what one shard holds whole.
    pub fn partition(&self) -> u64 {
        let mut be = [0; 8];
        be.copy_from_slice(&self.0[..8]);
        u64::from_be_bytes(be)
    }

    /// The table.
    pub fn table(&self) -> TableId {
        TableId::from_u8(self.0[8]).unwrap_or(TableId::Inodes)
    }

    /// The third part.
    pub fn rest(&self) -> &[u8] {
        &self.0[PREFIX..]
    }

    /// Whether the third part keeps the limit.
    pub fn fits(&self) -> bool {
        self.0.len() <= PREFIX + MAX_KEY_BYTES
    }

    /// Sorts keys into the one order in which every commit locks rows: Everywhere before Partitioned; in each,
    /// tables that are never merged before those that are; in each, primary-key order.
    pub fn lock_order(&self) -> (bool, bool, &Key) {
        let table = self.table();
        (table.is_partitioned(), table.is_merged(), self)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}[{}/{}]", self.table(), self.partition(), self.rest().escape_ascii())
    }
}

/// A file name as part of a key, mapped so that byte order is stock HDFS's listing order, in which names compare as
/// *signed* bytes: every byte with its top bit flipped. Its own inverse.
pub fn name_bytes(name: &[u8]) -> SmallVec<[u8; 64]> {
    let mut bytes = SmallVec::from_slice(name);
    flip(&mut bytes);
    bytes
}

/// The name that a key's third part stands for: [`name_bytes`] in place.
pub fn name_of_key(mut key: Vec<u8>) -> Vec<u8> {
    flip(&mut key);
    key
}

fn flip(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= 0x80);
}

/// One scan: rows of one table in one partition, in key order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scan {
    /// The partition.
    pub partition: u64,
    /// The table.
    pub table: TableId,
    /// Start strictly past this third part of a key (before it when `reverse`); the row need not exist.
    pub after: Option<SmallVec<[u8; 64]>>,
    /// At most this many rows; 1 ≤ limit ≤ [`Scan::MAX_ROWS`].
    pub limit: u32,
    /// Descending.
    pub reverse: bool,
    /// Only count rows, up to `limit`.
    pub count_only: bool,
}

impl Scan {
    /// The most rows that one scan returns.
    pub const MAX_ROWS: u32 = 4000;
    /// The most rows that a count-only scan counts.
    pub const MAX_COUNT: u32 = 10_000;

    /// All rows of a table in a partition, up to `limit`.
    pub fn of(table: TableId, partition: u64, limit: u32) -> Scan {
        Scan { partition, table, after: None, limit, reverse: false, count_only: false }
    }

    /// The same, strictly past `after`.
    pub fn after(mut self, after: &[u8]) -> Scan {
        self.after = Some(SmallVec::from_slice(after));
        self
    }

    /// The same, descending.
    pub fn reverse(mut self) -> Scan {
        self.reverse = true;
        self
    }

    /// The same, counted only.
    pub fn count(mut self) -> Scan {
        self.count_only = true;
        self
    }

    /// Whether a key lies in the scanned range (whatever the limit).
    pub fn covers(&self, key: &Key) -> bool {
        key.partition() == self.partition
            && key.table() == self.table
            && match &self.after {
                None => true,
                Some(after) if self.reverse => key.rest() < after.as_slice(),
                Some(after) => key.rest() > after.as_slice(),
            }
    }
}

//! Rows that are newer than the tree, in key order.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::change::Row;
use crate::key::Key;

/// What an entry takes besides its key and its value, about.
const ENTRY_BYTES: usize = 176;

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// The hash of a key, computed once for all layers. Keys with equal hashes cost a look more, nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Of a key.
    pub fn of(key: &Key) -> KeyHash {
        KeyHash(FixedState::default().hash_one(key.as_bytes()))
    }
}

/// The last state of each row that was written, by key; `None` = deleted.
#[derive(Default)]
pub struct Layer {
    rows: BTreeMap<Key, Option<Row>>,
    /// Of all keys in it: most rows that are looked for are in no layer, and here that is known soonest.
    hashes: HashTable<u64>,
    bytes: usize,
}

impl Layer {
    /// Notes the new state of a row.
    pub fn put(&mut self, key: Key, row: Option<Row>) {
        self.bytes += cost(&key, row.as_ref());
        let KeyHash(hash) = KeyHash::of(&key);
        self.hashes.entry(hash, |known| *known == hash, |known| *known).or_insert(hash);
        let key_bytes = key.as_bytes().len();
        if let Some(before) = self.rows.insert(key, row) {
            self.bytes -= ENTRY_BYTES + key_bytes + before.map_or(0, |row| row.value.len());
        }
    }

    /// Lays all rows of a younger layer over these.
    pub fn absorb(&mut self, younger: Layer) {
        younger.rows.into_iter().for_each(|(key, row)| self.put(key, row));
    }

    /// The state of a row, if it was written; `Some(None)` = deleted.
    pub fn get(&self, key: &Key, hash: KeyHash) -> Option<Option<&Row>> {
        if self.may_have(hash) { self.rows.get(key).map(Option::as_ref) } else { None }
    }

    /// Whether a row may have been written; false is certain.
    pub fn may_have(&self, KeyHash(hash): KeyHash) -> bool {
        self.hashes.find(hash, |known| *known == hash).is_some()
    }

    /// The rows of a range.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<'_, Key, Option<Row>> {
        self.rows.range::<[u8], _>((from, to))
    }

    /// All rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Key, Option<&Row>)> {
        self.rows.iter().map(|(key, row)| (key, row.as_ref()))
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// About the memory that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn cost(key: &Key, row: Option<&Row>) -> usize {
    ENTRY_BYTES + key.as_bytes().len() + row.map_or(0, |row| row.value.len())
}

/// What lies over the tree.
#[derive(Default)]
pub struct Layers {
    /// Takes what is written.
    pub active: Layer,
    /// Is on its way into the tree.
    pub merging: Option<Arc<Layer>>,
}

impl Layers {
    /// Those that hold something, youngest first.
    pub fn youngest_first(&self) -> impl Iterator<Item = &Layer> {
        [Some(&self.active), self.merging.as_deref()].into_iter().flatten().filter(|layer| !layer.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::schema::setting;

    fn row(version: u64, value: &'static str) -> Option<Row> {
        Some(Row { version, value: Bytes::from_static(value.as_bytes()), ..Row::default() })
    }

    #[test]
    fn the_last_write_stands_and_the_memory_is_counted() {
        let (a, b) = (setting("a").key, setting("b").key);
        let mut layer = Layer::default();
        layer.put(a.clone(), row(1, "first"));
        layer.put(b.clone(), row(2, "x"));
        let before = layer.bytes();
        let mut younger = Layer::default();
        younger.put(a.clone(), None);
        younger.put(b.clone(), row(3, "yz"));
        layer.absorb(younger);
        let get = |key: &Key| layer.get(key, KeyHash::of(key));
        assert_eq!(get(&a), Some(None));
        assert_eq!(get(&b).flatten().map(|row| row.version), Some(3));
        assert_eq!(get(&setting("c").key), None);
        assert_eq!(layer.bytes(), before - "first".len() + 1);
        assert_eq!(layer.iter().len(), 2);
    }
}

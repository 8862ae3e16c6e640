//! Rows that are newer than the tree: found by key, and in key order.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::change::Row;
use crate::key::{Key, Scan};
use crate::schema::TableId;

/// What an entry takes besides its key and its value, about.
const ENTRY_BYTES: usize = 240;
/// Entries stand in pieces of so many, so that nothing large is moved when there are more.
const PIECE: usize = 1 << 10;

/// The hash of a key, computed once for all layers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Of a key.
    pub fn of(key: &Key) -> KeyHash {
        KeyHash(FixedState::default().hash_one(key.as_bytes()))
    }

    /// Of a partition, for those that ask of all its rows.
    pub fn of_partition(partition: u64) -> KeyHash {
        KeyHash(FixedState::default().hash_one(partition))
    }
}

/// The rows of a table in a partition: what one scan goes through. In the order of primary keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64, TableId);

/// The last state of each row that was written, by key; `None` = deleted.
///
/// Most are written once, looked for by many who do not find them, and read in order once, by the merge. So they stand as
/// they came, a hash table finds them, and what is kept in order is only their numbers, by place.
#[derive(Default)]
pub struct Layer {
    entries: Vec<Vec<Entry>>,
    numbers: HashTable<(KeyHash, u32)>,
    places: BTreeMap<Place, SmallVec<[u32; 4]>>,
    bytes: usize,
}

struct Entry {
    hash: KeyHash,
    key: Key,
    row: Option<Row>,
}

impl Layer {
    /// Notes the new state of a row.
    pub fn put(&mut self, key: Key, row: Option<Row>) {
        let hash = KeyHash::of(&key);
        self.put_hashed(Entry { hash, key, row });
    }

    fn put_hashed(&mut self, entry: Entry) {
        self.bytes += entry.row.as_ref().map_or(0, |row| row.value.len());
        if let Some(number) = self.number_of(&entry.key, entry.hash) {
            let there = &mut self.entries[number as usize / PIECE][number as usize % PIECE];
            self.bytes -= there.row.as_ref().map_or(0, |row| row.value.len());
            there.row = entry.row;
            return;
        }
        self.bytes += ENTRY_BYTES + entry.key.as_bytes().len();
        let number = self.len() as u32;
        self.numbers.insert_unique(entry.hash.0, (entry.hash, number), |(hash, _)| hash.0);
        let entries = &self.entries;
        let in_place = self.places.entry(Place(entry.key.partition(), entry.key.table())).or_default();
        let place = place_of(in_place, |other| at(entries, other).key < entry.key);
        in_place.insert(place, number);
        match self.entries.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(entry),
            // The first one may be all there ever is.
            None => self.entries.push(vec![entry]),
            Some(_) => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(entry);
                self.entries.push(piece);
            }
        }
    }

    /// Lays all rows of a younger layer over these.
    pub fn absorb(&mut self, younger: Layer) {
        younger.entries.into_iter().flatten().for_each(|entry| self.put_hashed(entry));
    }

    /// The state of a row, if it was written; `Some(None)` = deleted.
    pub fn get(&self, key: &Key, hash: KeyHash) -> Option<Option<&Row>> {
        self.number_of(key, hash).map(|number| at(&self.entries, number).row.as_ref())
    }

    fn number_of(&self, key: &Key, hash: KeyHash) -> Option<u32> {
        let is_it =
            |(other, number): &(KeyHash, u32)| *other == hash && at(&self.entries, *number).key == *key;
        self.numbers.find(hash.0, is_it).map(|(_, number)| *number)
    }

    /// Whether a row may have been written; false is certain.
    pub fn may_have(&self, hash: KeyHash) -> bool {
        self.numbers.find(hash.0, |(other, _)| *other == hash).is_some()
    }

    /// Whether a row of this table was written in a partition.
    pub fn has_rows_in(&self, partition: u64, table: TableId) -> bool {
        self.places.contains_key(&Place(partition, table))
    }

    /// The rows of a scan's table and partition, after where the scan begins; before it, if it descends.
    pub fn scan(
        &self,
        scan: &Scan,
    ) -> impl DoubleEndedIterator<Item = (&Key, Option<&Row>)> + ExactSizeIterator {
        let numbers = self.places.get(&Place(scan.partition, scan.table)).map_or(&[][..], SmallVec::as_slice);
        let numbers = match &scan.after {
            None => numbers,
            Some(after) => {
                let count = |is_before: &dyn Fn(&[u8]) -> bool| {
                    numbers.partition_point(|number| is_before(at(&self.entries, *number).key.rest()))
                };
                match scan.reverse {
                    false => &numbers[count(&|rest| rest <= &after[..])..],
                    true => &numbers[..count(&|rest| rest < &after[..])],
                }
            }
        };
        self.of(numbers)
    }

    /// All rows from a place on, in order.
    pub fn rows_from(&self, partition: u64, table: TableId) -> impl Iterator<Item = (&Key, Option<&Row>)> {
        let places = self.places.range((Bound::Included(Place(partition, table)), Bound::Unbounded));
        places.flat_map(|(_, numbers)| self.of(numbers))
    }

    fn of<'l>(
        &'l self,
        numbers: &'l [u32],
    ) -> impl DoubleEndedIterator<Item = (&'l Key, Option<&'l Row>)> + ExactSizeIterator {
        numbers.iter().map(|number| {
            let Entry { key, row, .. } = at(&self.entries, *number);
            (key, row.as_ref())
        })
    }

    /// All rows, in order.
    pub fn in_order(&self) -> impl Iterator<Item = (&Key, Option<&Row>)> {
        self.places.values().flat_map(|numbers| self.of(numbers))
    }

    /// All rows, in any order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, Option<&Row>)> {
        self.entries.iter().flatten().map(|entry| (&entry.key, entry.row.as_ref()))
    }

    /// How many rows were written.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// About the memory that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How many of these, which stand in order, are before what comes now: mostly all, or all but a few.
fn place_of(numbers: &[u32], is_before: impl Fn(u32) -> bool) -> usize {
    let (mut end, mut step) = (numbers.len(), 1);
    loop {
        let start = end.saturating_sub(step);
        match numbers[start..end].first() {
            Some(first) if !is_before(*first) => (end, step) = (start, step * 2),
            _ => return start + numbers[start..end].partition_point(|other| is_before(*other)),
        }
    }
}

fn at(entries: &[Vec<Entry>], number: u32) -> &Entry {
    &entries[number as usize / PIECE][number as usize % PIECE]
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
    fn a_place_is_found_from_the_end() {
        let numbers: Vec<u32> = (0..100).map(|n| 2 * n).collect();
        for len in [0, 1, 2, 3, 7, 100] {
            for new in 0..2 * len as u32 + 2 {
                let place = numbers[..len].iter().filter(|other| **other < new).count();
                assert_eq!(place_of(&numbers[..len], |other| other < new), place, "{new} in {len}");
            }
        }
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
        assert_eq!(layer.len(), 2);
    }
}

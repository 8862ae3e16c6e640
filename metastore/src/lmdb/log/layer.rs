//! Rows that are newer than the tree: found by key, and in key order.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use smallvec::SmallVec;

use super::entry::{self, Entry};
use crate::change::Row;
use crate::key::{Key, PREFIX, Scan};
use crate::schema::TableId;

/// What finding a row takes besides the row, about.
const FIND_BYTES: usize = 100;
/// Rows stand in pieces of so many bytes, so that nothing large is moved when there are more.
const PIECE: usize = 1 << 20;

/// The hash of a key, computed once for all layers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Of a key.
    pub fn of(key: &Key) -> KeyHash {
        KeyHash::of_bytes(key.as_bytes())
    }

    fn of_bytes(key: &[u8]) -> KeyHash {
        KeyHash(FixedState::default().hash_one(key))
    }

    /// Of a partition, for those that ask of all its rows.
    pub fn of_partition(partition: u64) -> KeyHash {
        KeyHash(FixedState::default().hash_one(partition))
    }
}

/// The rows of a table in a partition, what one scan goes through: their keys' first bytes. In the order of primary keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place([u8; PREFIX]);

impl Place {
    fn of(partition: u64, table: TableId) -> Place {
        Place::of_key(Key::new(partition, table, &[]).as_bytes())
    }

    fn of_key(key: &[u8]) -> Place {
        Place(std::array::from_fn(|byte| key[byte]))
    }
}

/// Where a row begins.
#[derive(Clone, Copy)]
struct At {
    piece: u32,
    offset: u32,
}

/// A row in its place, and with which bytes its key goes on there: those who look for its rank seldom need the others.
#[derive(Clone, Copy)]
struct InPlace {
    front: u64,
    at: At,
}

impl InPlace {
    fn of(pieces: &[Vec<u8>], at: At) -> InPlace {
        let rest = &entry_at(pieces, at).key[PREFIX..];
        let front = std::array::from_fn(|byte| rest.get(byte).copied().unwrap_or(0));
        InPlace { front: u64::from_be_bytes(front), at }
    }

    fn is_before(&self, other: &InPlace, pieces: &[Vec<u8>]) -> bool {
        let key = |row: &InPlace| entry_at(pieces, row.at).key;
        if self.front == other.front { key(self) < key(other) } else { self.front < other.front }
    }
}

/// The last state of each row that was written, by key.
///
/// Most are written once, looked for by many who do not find them, and read in order once, by the merge. So they stand as
/// they came and as the log has them, and a hash table finds them. The rows of a place are kept in order, places are not.
#[derive(Default)]
pub struct Layer {
    /// One that was written again, with another length, is left behind there.
    pieces: Vec<Vec<u8>>,
    rows: HashTable<(KeyHash, At)>,
    places: HashMap<Place, SmallVec<[InPlace; 1]>, FixedState>,
    bytes: usize,
}

impl Layer {
    /// One that will hold as much as another did.
    pub fn like(other: &Layer) -> Layer {
        Layer {
            rows: HashTable::with_capacity(other.rows.len()),
            places: HashMap::with_capacity_and_hasher(other.places.len(), FixedState::default()),
            ..Layer::default()
        }
    }

    /// Notes the new state of a row; `None` = deleted.
    pub fn put(&mut self, key: &Key, row: Option<&Row>) {
        self.add(KeyHash::of(key), entry::bytes_of(key, row), |piece| entry::write(key, row, piece));
    }

    /// Notes the new states of rows that stand one after another, as [`Layer::pieces`] has them.
    pub fn put_all(&mut self, mut rows: &[u8]) {
        while !rows.is_empty() {
            let entry = Entry::of_written(rows);
            let (row, rest) = rows.split_at(entry.bytes());
            self.add(KeyHash::of_bytes(entry.key), row.len(), |piece| piece.extend_from_slice(row));
            rows = rest;
        }
    }

    /// Lays all rows of a younger layer over these.
    pub fn absorb(&mut self, younger: &Layer) {
        younger.pieces().for_each(|rows| self.put_all(rows));
    }

    fn add(&mut self, hash: KeyHash, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) {
        match self.pieces.last() {
            Some(piece) if piece.len() + bytes <= PIECE => {}
            // The first one may be all there ever is.
            None => self.pieces.push(Vec::with_capacity(bytes)),
            Some(_) => self.pieces.push(Vec::with_capacity(bytes.max(PIECE))),
        }
        let last = self.pieces.len() - 1;
        let at = At { piece: last as u32, offset: self.pieces[last].len() as u32 };
        write(&mut self.pieces[last]);
        self.bytes += bytes;
        self.note(hash, at);
    }

    /// Makes the row that was added last the one that is found.
    fn note(&mut self, hash: KeyHash, at: At) {
        let Layer { pieces, rows, places, bytes } = self;
        let added = entry_at(pieces, at);
        let is_it =
            |(other, there): &(KeyHash, At)| *other == hash && entry_at(pieces, *there).key == added.key;
        let there = rows.find_mut(hash.0, is_it).map(|(_, there)| there);
        if let Some(there) = &there
            && entry_at(pieces, **there).bytes() == added.bytes()
        {
            let length = added.bytes();
            *bytes -= length;
            overwrite(pieces, **there, length);
            return;
        }
        let new = InPlace::of(pieces, at);
        let in_place = places.entry(Place::of_key(added.key)).or_default();
        let number = number_before(in_place, |other| other.is_before(&new, pieces));
        if let Some(there) = there {
            (*there, in_place[number]) = (at, new);
        } else {
            rows.insert_unique(hash.0, (hash, at), |(hash, _)| hash.0);
            in_place.insert(number, new);
            *bytes += FIND_BYTES;
        }
    }

    /// The state of a row as the tree stores it, if it was written; `Some(None)` = deleted.
    pub fn get(&self, key: &Key, hash: KeyHash) -> Option<Option<&[u8]>> {
        let is_it =
            |(other, at): &(KeyHash, At)| *other == hash && entry_at(&self.pieces, *at).key == key.as_bytes();
        self.rows.find(hash.0, is_it).map(|(_, at)| entry_at(&self.pieces, *at).row)
    }

    /// Whether a row may have been written; false is certain.
    pub fn may_have(&self, hash: KeyHash) -> bool {
        self.rows.find(hash.0, |(other, _)| *other == hash).is_some()
    }

    /// Whether a row of this table was written in a partition.
    pub fn has_rows_in(&self, partition: u64, table: TableId) -> bool {
        self.places.contains_key(&Place::of(partition, table))
    }

    /// The rows of a scan's table and partition, after where the scan begins; before it, if it descends.
    pub fn scan(&self, scan: &Scan) -> impl DoubleEndedIterator<Item = Entry<'_>> + ExactSizeIterator {
        let place = Place::of(scan.partition, scan.table);
        let rows = self.places.get(&place).map_or(&[][..], SmallVec::as_slice);
        let rows = match &scan.after {
            None => rows,
            Some(after) => {
                let count = |is_before: &dyn Fn(&[u8]) -> bool| {
                    rows.partition_point(|row| is_before(&entry_at(&self.pieces, row.at).key[PREFIX..]))
                };
                match scan.reverse {
                    false => &rows[count(&|rest| rest <= &after[..])..],
                    true => &rows[..count(&|rest| rest < &after[..])],
                }
            }
        };
        self.of(rows)
    }

    /// All rows from a place on, in order. Each place is looked for among all of them: for those who seldom ask.
    pub fn rows_from(&self, partition: u64, table: TableId) -> impl Iterator<Item = Entry<'_>> {
        let first = Place::of(partition, table);
        let first = self.places.keys().filter(|place| **place >= first).min();
        let next = |place: &&Place| self.places.keys().filter(|other| other > place).min();
        std::iter::successors(first, next).flat_map(|place| self.of(&self.places[place]))
    }

    /// All rows, in order.
    pub fn in_order(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut places: Vec<_> = self.places.iter().collect();
        places.sort_unstable_by_key(|(place, _)| **place);
        places.into_iter().flat_map(|(_, rows)| self.of(rows))
    }

    fn of<'l>(
        &'l self,
        rows: &'l [InPlace],
    ) -> impl DoubleEndedIterator<Item = Entry<'l>> + ExactSizeIterator {
        rows.iter().map(|row| entry_at(&self.pieces, row.at))
    }

    /// All rows as they came, in pieces: those that were written again more than once.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(Vec::as_slice)
    }

    /// How many rows were written.
    pub fn len(&self) -> usize {
        self.rows.len()
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

fn entry_at(pieces: &[Vec<u8>], at: At) -> Entry<'_> {
    Entry::of_written(&pieces[at.piece as usize][at.offset as usize..])
}

/// Moves the last row of all to where one of the same length stands.
fn overwrite(pieces: &mut [Vec<u8>], old: At, length: usize) {
    let Some((last, others)) = pieces.split_last_mut() else { return };
    let (new, old_offset) = (last.len() - length, old.offset as usize);
    match others.get_mut(old.piece as usize) {
        Some(other) => other[old_offset..old_offset + length].copy_from_slice(&last[new..]),
        None => last.copy_within(new.., old_offset),
    }
    last.truncate(new);
}

/// How many of these, which stand in order, are before what comes now: mostly all, or all but a few.
fn number_before<R>(rows: &[R], is_before: impl Fn(&R) -> bool) -> usize {
    let (mut end, mut step) = (rows.len(), 1);
    loop {
        let start = end.saturating_sub(step);
        match rows[start..end].first() {
            Some(first) if !is_before(first) => (end, step) = (start, step * 2),
            _ => return start + rows[start..end].partition_point(is_before),
        }
    }
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
    use crate::lmdb::row;
    use crate::schema::setting;

    fn stored(row: &Row) -> Vec<u8> {
        let mut stored = Vec::new();
        row::encode(row, &mut stored);
        stored
    }

    fn row(version: u64, value: &'static str) -> Option<Row> {
        Some(Row { version, value: Bytes::from_static(value.as_bytes()), ..Row::default() })
    }

    #[test]
    fn a_number_is_found_from_the_end() {
        let rows: Vec<u32> = (0..100).map(|n| 2 * n).collect();
        for len in [0, 1, 2, 3, 7, 100] {
            for new in 0..2 * len as u32 + 2 {
                let number = rows[..len].iter().filter(|other| **other < new).count();
                assert_eq!(number_before(&rows[..len], |other| *other < new), number, "{new} in {len}");
            }
        }
    }

    #[test]
    fn the_last_write_stands_and_the_memory_is_counted() {
        let (a, b) = (setting("a").key, setting("b").key);
        let mut layer = Layer::default();
        layer.put(&a, row(1, "first").as_ref());
        layer.put(&b, row(2, "xy").as_ref());
        let before = layer.bytes();
        let mut younger = Layer::default();
        younger.put(&a, None);
        younger.put(&b, row(3, "yz").as_ref());
        let added = younger.bytes();
        layer.absorb(&younger);
        let get = |key: &Key| layer.get(key, KeyHash::of(key));
        assert_eq!(get(&a), Some(None));
        assert_eq!(get(&b).flatten().map(<[u8]>::to_vec), row(3, "yz").as_ref().map(stored));
        assert_eq!(get(&setting("c").key), None);
        assert_eq!(layer.len(), 2);
        // One of another length is left behind; one of the same length stands where the old one was.
        let b_bytes = entry::bytes_of(&b, row(3, "yz").as_ref());
        assert_eq!(layer.bytes(), before + added - 2 * FIND_BYTES - b_bytes);
    }

    #[test]
    fn rows_are_found_in_whatever_piece_and_length_they_were_written_last() {
        let name = |number: u32| setting(&format!("{:05}", number)).key;
        let value = |number: u32, round: u32| vec![round as u8; 3000 + ((number * round) % 3) as usize];
        let mut layer = Layer::default();
        for round in 0..3 {
            let mut younger = Layer::default();
            for number in (0..1000).rev().filter(|number| round == 0 || number % (round + 1) == 0) {
                let row = Row { value: value(number, round).into(), ..Row::default() };
                younger.put(&name(number), Some(&row).filter(|_| number % 7 != round));
            }
            layer.absorb(&younger);
        }
        let last = |number: u32| match (number % 3, number % 2) {
            (0, _) => 2,
            (_, 0) => 1,
            _ => 0,
        };
        let expected: Vec<_> = (0..1000)
            .map(|number| {
                let round = last(number);
                let row = Row { value: value(number, round).into(), ..Row::default() };
                (name(number).as_bytes().to_vec(), (number % 7 != round).then(|| stored(&row)))
            })
            .collect();
        let own = |entry: Entry<'_>| (entry.key.to_vec(), entry.row.map(<[u8]>::to_vec));
        assert!(layer.pieces().count() > 3 && layer.len() == 1000);
        assert!(layer.in_order().map(own).eq(expected.iter().cloned()));
        let table = name(0).table();
        assert!(layer.rows_from(0, table).map(own).eq(expected.iter().cloned()));
        let scan = Scan::of(table, name(0).partition(), 4000).after(b"00500");
        assert!(layer.scan(&scan).map(own).eq(expected[501..].iter().cloned()));
        for (number, (_, row)) in (0..).zip(&expected) {
            let key = name(number);
            assert_eq!(layer.get(&key, KeyHash::of(&key)), Some(row.as_deref()), "{number}");
        }
        // Whoever reads the pieces in order has the same at the end.
        let mut again = Layer::like(&layer);
        layer.pieces().for_each(|piece| again.put_all(piece));
        assert!(again.in_order().map(own).eq(expected));
    }
}

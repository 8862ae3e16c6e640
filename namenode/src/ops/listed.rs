//! Entries of directories as their rows lie: read once, side by side, and decoded by those who want them.

use std::ops::Range;

use bytes::Bytes;
use prost::Message;
use trellis_metastore::key::{Key, Scan, name_of_key};
use trellis_metastore::schema::{DirStat, Inode, Shown};
use trellis_metastore::tx::Stop;

use super::status::FileStatus;
use crate::engine::tx::Tx;
use crate::refusal::Result;

/// Entries, in order.
#[derive(Debug, Default)]
pub struct Entries {
    /// Names and rows of all.
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// Where an entry's name, as it stands in its key, and its row are; and what is not in the row.
#[derive(Clone, Debug)]
struct Place {
    key: Range<usize>,
    row: Range<usize>,
    inode: Shown<Part>,
    mtime_ms: i64,
    children: i64,
    /// A directory whose counters are still looked for.
    awaits: bool,
}

/// A part of a row: where it begins, and its length.
type Part = (u32, u32);

/// An entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'e> {
    /// As it stands in its key: [`trellis_metastore::key::name_bytes`].
    pub key: &'e [u8],
    /// What its row shows.
    pub inode: Shown<&'e [u8]>,
    /// Modification time, ms since the epoch; a directory's comes from its counters.
    pub mtime_ms: i64,
    /// Children of a directory; 0 for a file.
    pub children: i64,
}

impl Entries {
    /// Scans entries; they stand in the order of the scans. How many each scan found.
    pub fn scan(tx: &mut Tx<'_, '_>, scans: &[Scan]) -> Result<(Entries, Vec<usize>)> {
        let (mut entries, mut counts) = (Entries::default(), vec![0; scans.len()]);
        let mut broken = None;
        tx.visit_all(scans, &mut |number, key, row| {
            let Some(shown) = Shown::read(row.value) else {
                broken.get_or_insert_with(|| does_not_decode(&scans[number], key));
                return;
            };
            counts[number] += 1;
            entries.push(key, row.value, shown);
        })?;
        broken.map_or(Ok((entries, counts)), |broken| Err(broken.into()))
    }

    fn push(&mut self, key: &[u8], row: &[u8], inode: Shown<&str>) {
        let (begin, shown_at) = (self.bytes.len(), row.as_ptr() as usize);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(row);
        let (key, row) = (begin..begin + key.len(), begin + key.len()..self.bytes.len());
        let (mtime_ms, awaits) = (inode.mtime_ms, inode.is_dir());
        // Its texts lie in the row as it was shown; empty ones may lie anywhere.
        let part = |text: &str| match text.is_empty() {
            true => (0, 0),
            false => ((text.as_ptr() as usize - shown_at) as u32, text.len() as u32),
        };
        let inode = inode.map(part);
        self.places.push(Place { key, row, inode, mtime_ms, children: 0, awaits });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The key of an entry.
    pub fn key(&self, number: usize) -> Option<&[u8]> {
        self.places.get(number).map(|place| &self.bytes[place.key.clone()])
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| &self.bytes[place.key.clone()])
    }

    /// Keeps those up to this key, or all, in the order of their keys; and of these the first `most`.
    pub fn keep(&mut self, end: Option<&[u8]>, most: usize) {
        let Entries { bytes, places } = self;
        let key = |place: &Place| &bytes[place.key.clone()];
        if let Some(end) = end {
            places.retain(|place| key(place) <= end);
        }
        if !places.is_sorted_by(|a, b| key(a) <= key(b)) {
            places.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        }
        places.truncate(most);
    }

    /// Keeps the first ones.
    pub fn truncate(&mut self, most: usize) {
        self.places.truncate(most);
    }

    /// Finds the counters of the directories among them, which must be in order, by scans of the same names. A directory
    /// whose counters are another's or absent was read at another age: again, over fresh rows.
    pub fn find_counters(&mut self, tx: &mut Tx<'_, '_>, scans: &[Scan]) -> Result<()> {
        if self.places.iter().all(|place| !place.awaits) {
            return Ok(());
        }
        let Entries { bytes, places } = self;
        let mut broken = None;
        tx.visit_all(scans, &mut |number, key, row| {
            let Ok(at) = places.binary_search_by(|place| bytes[place.key.clone()].cmp(key)) else { return };
            match DirStat::decode(row.value) {
                Ok(stat) if places[at].awaits && places[at].inode.id == stat.id => {
                    let place = &mut places[at];
                    (place.mtime_ms, place.children, place.awaits) = (row.max, row.add, false);
                }
                Ok(_) => {}
                Err(_) => drop(broken.get_or_insert_with(|| does_not_decode(&scans[number], key))),
            }
        })?;
        match broken {
            Some(broken) => Err(broken.into()),
            None if places.iter().any(|place| place.awaits) => Err(Stop::Stale.into()),
            None => Ok(()),
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.places.iter().map(|Place { key, row, inode, mtime_ms, children, .. }| {
            let row = &self.bytes[row.clone()];
            let text = |(begin, length): Part| &row[begin as usize..][..length as usize];
            Entry {
                key: &self.bytes[key.clone()],
                inode: inode.map(text),
                mtime_ms: *mtime_ms,
                children: *children,
            }
        })
    }

    /// The same, whole.
    pub fn statuses(&self) -> Result<Vec<FileStatus>> {
        let status = |Place { key, row, mtime_ms, children, .. }: &Place| {
            let inode = Inode::decode(&self.bytes[row.clone()])
                .map_err(|error| Stop::Fault(format!("the row of an entry does not decode: {error}")))?;
            let name = Bytes::from(name_of_key(self.bytes[key.clone()].to_vec()));
            Ok(FileStatus { name, inode, mtime_ms: *mtime_ms, children: *children })
        };
        self.places.iter().map(status).collect()
    }
}

fn does_not_decode(scan: &Scan, rest: &[u8]) -> Stop {
    let key = Key::new(scan.partition, scan.table, rest);
    Stop::Fault(format!("row {key:?} does not decode; run 'trellis store check'"))
}

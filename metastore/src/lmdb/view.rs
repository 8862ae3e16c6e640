//! Rows as one transaction and the layers over it show them, read where they lie.

use std::ops::Bound;

use bytes::Bytes;
use heed::RoTxn;
use smallvec::SmallVec;

use super::log::{KeyHash, Layer};
use super::merged::Merged;
use super::remembered::{REMEMBERED_TABLES, Remembered, may_be_remembered};
use super::{Core, row};
use crate::change::Row;
use crate::counters::Counters;
use crate::key::{Key, PREFIX, Scan};
use crate::schema::TableId;
use crate::store::{Scanned, StoreError};
use crate::tx::{RowRef, Stop, View};

/// Reads over one transaction and the layers over it, and how many there were.
pub(super) struct Rows<'t> {
    core: &'t Core,
    txn: &'t RoTxn<'t>,
    /// Youngest first.
    layers: SmallVec<[&'t Layer; 3]>,
    remembered: Option<&'t Remembered>,
    keys: usize,
    rows: usize,
}

impl<'t> Rows<'t> {
    /// Reads through layers, youngest first, to the tree. They must have been taken before the transaction began. What
    /// is remembered of the tree must be of this very transaction.
    pub fn new(
        core: &'t Core,
        txn: &'t RoTxn<'t>,
        layers: impl Iterator<Item = &'t Layer>,
        remembered: Option<&'t Remembered>,
    ) -> Rows<'t> {
        Rows { core, txn, layers: layers.collect(), remembered, keys: 0, rows: 0 }
    }

    /// Adds what was read to a store's counters.
    pub fn count(&self, counters: &Counters) {
        counters.keys.add(self.keys);
        counters.rows_read.add(self.rows);
    }

    /// The row under a key. No row has a key beyond the limit.
    pub fn get(&mut self, key: &Key) -> Result<Option<RowRef<'t>>, StoreError> {
        self.keys += 1;
        if !key.fits() {
            return Ok(None);
        }
        let stored = match self.layered(key) {
            Some(row) => row,
            None => self.stored(key)?,
        };
        let row = stored.map(|stored| self.decode(key.as_bytes(), stored)).transpose()?;
        self.rows += usize::from(row.is_some());
        Ok(row)
    }

    /// The row as the layers have it, if they do.
    fn layered(&self, key: &Key) -> Option<Option<&'t [u8]>> {
        if self.layers.is_empty() {
            return None;
        }
        let hash = KeyHash::of(key);
        self.layers.iter().find_map(|layer| layer.get(key, hash))
    }

    fn is_in_layers(&self, row: KeyHash) -> bool {
        self.layers.iter().any(|layer| layer.may_have(row))
    }

    /// What is remembered of the tree, if it is all that there is of a partition.
    fn remembered_of(&self, partition: u64) -> Option<&Remembered> {
        let has_rows =
            |layer: &&Layer| REMEMBERED_TABLES.into_iter().any(|table| layer.has_rows_in(partition, table));
        self.remembered.filter(|_| !self.layers.iter().any(has_rows))
    }

    /// The row as the tree has it.
    fn stored(&self, key: &Key) -> Result<Option<&'t [u8]>, StoreError> {
        if let Some(stored) = self.remembered.and_then(|remembered| remembered.get(key)) {
            return Ok(Some(stored));
        }
        let stored = self.core.db.get(self.txn, key.as_bytes()).map_err(|error| self.core.error(error))?;
        if let (Some(stored), Some(remembered)) = (stored, self.remembered) {
            remembered.keep(key, stored);
        }
        Ok(stored)
    }

    fn decode(&self, key: &[u8], stored: &'t [u8]) -> Result<RowRef<'t>, StoreError> {
        row::decode(stored).ok_or_else(|| self.core.corrupt(key))
    }

    /// Shows the rows of a scan (third part of the key, row), or only counts them.
    pub fn scan_rows(
        &mut self,
        scan: &Scan,
        visit: &mut dyn FnMut(&[u8], RowRef<'_>),
    ) -> Result<u64, StoreError> {
        let first = Key::new(scan.partition, scan.table, &[]);
        let from = |rest: &[u8]| Key::new(scan.partition, scan.table, rest);
        let past = past(first.as_bytes());
        let after = scan.after.as_ref().map(|rest| from(rest));
        let range = match (&after, scan.reverse) {
            (None, _) => (Bound::Included(first.as_bytes()), Bound::Excluded(past.as_slice())),
            (Some(key), false) => (Bound::Excluded(key.as_bytes()), Bound::Excluded(past.as_slice())),
            (Some(key), true) => (Bound::Included(first.as_bytes()), Bound::Excluded(key.as_bytes())),
        };
        let layers: SmallVec<[_; 3]> =
            self.layers.iter().map(|&layer| layer.scan(scan)).filter(|rows| rows.len() > 0).collect();
        if scan.reverse {
            let tree = self.core.db.rev_range(self.txn, &range).map_err(|error| self.core.error(error))?;
            let layers = layers.into_iter().map(Iterator::rev);
            self.walk(Merged::new(tree, layers, true), scan, visit)
        } else {
            let tree = self.core.db.range(self.txn, &range).map_err(|error| self.core.error(error))?;
            match layers.is_empty() {
                true => self.walk(tree, scan, visit),
                false => self.walk(Merged::new(tree, layers.into_iter(), false), scan, visit),
            }
        }
    }

    fn walk(
        &mut self,
        rows: impl Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>>,
        scan: &Scan,
        visit: &mut dyn FnMut(&[u8], RowRef<'_>),
    ) -> Result<u64, StoreError> {
        let mut seen = 0;
        for entry in rows.take(scan.limit as usize) {
            let (key, stored) = entry.map_err(|error| self.core.error(error))?;
            seen += 1;
            if !scan.count_only {
                self.rows += 1;
                visit(&key[PREFIX..], self.decode(key, stored)?);
            }
        }
        Ok(seen)
    }

    /// One key, copied.
    pub fn copy(&mut self, key: &Key) -> Result<Option<Row>, StoreError> {
        Ok(self.get(key)?.map(RowRef::to_row))
    }

    /// One scan, copied.
    pub fn copy_scan(&mut self, scan: &Scan) -> Result<Scanned, StoreError> {
        let mut found = Vec::new();
        let count = self.scan_rows(scan, &mut |rest, row| {
            found.push((Key::new(scan.partition, scan.table, rest), row.to_row()));
        })?;
        Ok(if scan.count_only { Scanned::Count(count) } else { Scanned::Rows(found) })
    }

    /// Collects partitions that have rows of a table, from partition `next` on, until `found` has `limit` or `seeks`
    /// positions were tried. Returns where to go on; `None` = the table's end, or enough.
    pub fn partitions(
        &mut self,
        table: TableId,
        mut next: u64,
        limit: usize,
        seeks: usize,
        found: &mut Vec<u64>,
    ) -> Result<Option<u64>, StoreError> {
        for _ in 0..seeks {
            if found.len() >= limit {
                return Ok(None);
            }
            let Some(key) = self.first_from(next, table)? else { return Ok(None) };
            if key.table() == table {
                found.push(key.partition());
            }
            // In a partition that was entered before the table's place, its rows of the table may still come.
            next = match key.table() < table {
                true => key.partition(),
                false => match key.partition().checked_add(1) {
                    Some(partition) => partition,
                    None => return Ok(None),
                },
            };
        }
        Ok(Some(next))
    }

    /// The first key from this table's place in a partition on.
    fn first_from(&self, partition: u64, table: TableId) -> Result<Option<Key>, StoreError> {
        let at = Key::new(partition, table, &[]);
        let range = (Bound::Included(at.as_bytes()), Bound::Unbounded);
        let tree = self.core.db.range(self.txn, &range).map_err(|error| self.core.error(error))?;
        let layers = self.layers.iter().map(|layer| layer.rows_from(partition, table));
        let Some(entry) = Merged::new(tree, layers, false).next() else { return Ok(None) };
        let (key, _) = entry.map_err(|error| self.core.error(error))?;
        Key::from_bytes(key).map(Some).ok_or_else(|| self.core.corrupt(key))
    }
}

impl View for Rows<'_> {
    fn read(&mut self, key: &Key, visit: &mut dyn FnMut(Option<RowRef<'_>>)) -> Result<(), Stop> {
        visit(self.get(key).map_err(fault)?);
        Ok(())
    }

    fn scan(&mut self, scan: &Scan, visit: &mut dyn FnMut(&[u8], RowRef<'_>)) -> Result<u64, Stop> {
        self.scan_rows(scan, visit).map_err(fault)
    }

    fn recall(&self, name: &[u8]) -> Option<&[u64]> {
        self.remembered?.recall(name, |row| self.is_in_layers(row))
    }

    fn note(&self, name: &[u8], keys: &[Key], numbers: &[u64]) {
        let Some(remembered) = self.remembered.filter(|_| keys.iter().all(may_be_remembered)) else { return };
        let rows: SmallVec<[KeyHash; 16]> = keys.iter().map(KeyHash::of).collect();
        // What follows from rows that are not in the tree yet is not for those who read the tree.
        if !rows.iter().any(|row| self.is_in_layers(*row)) {
            remembered.note(name, &rows, numbers);
        }
    }

    fn recall_page(&self, partition: u64, room: u32) -> Option<Bytes> {
        self.remembered_of(partition)?.recall_page(partition, room)
    }

    fn note_page(&self, partition: u64, room: u32, page: &Bytes) {
        if let Some(remembered) = self.remembered_of(partition) {
            remembered.note_page(partition, room, page);
        }
    }
}

impl Core {
    fn corrupt(&self, key: &[u8]) -> StoreError {
        let dir = self.dir.display();
        let what = |name| format!("{dir}: row {name} is damaged; run 'trellis store check'");
        match Key::from_bytes(key) {
            Some(key) => {
                let what = what(format!("{key:?}"));
                StoreError::Damaged(key, what)
            }
            None => StoreError::Fatal(what(key.escape_ascii().to_string())),
        }
    }
}

fn fault(error: StoreError) -> Stop {
    Stop::Fault(error.to_string())
}

/// The first byte string past all that begin with `prefix`, whose last byte (a table's number) is below 255.
fn past(prefix: &[u8]) -> SmallVec<[u8; 16]> {
    let mut past = SmallVec::from_slice(prefix);
    if let Some(last) = past.last_mut() {
        *last += 1;
    }
    past
}

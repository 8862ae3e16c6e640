//! The transaction as operations see it: rows, the caller, the clock, new ids.

use std::sync::PoisonError;

use bytes::Bytes;
use trellis_metastore::change::Hold;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::{Inode, Table, TableKey, setting};
use trellis_metastore::tx::{MaybeRow, Record, RowRef, Stop, Tx as RowTx};

use super::ctx::{Ctx, Term};
use super::permission::Rights;

/// One run of an operation. Everything it does goes through here, so that it can be run again from the top.
pub struct Tx<'a, 'v> {
    pub(super) rows: &'a mut RowTx<'v>,
    /// Who calls, when, with which ids.
    pub ctx: &'a Ctx,
    /// Set by whoever moves something under the hidden parent: the reaper is woken once that is durable.
    pub detached: bool,
}

impl<'a, 'v> Tx<'a, 'v> {
    /// A run over `rows` for the call `ctx`.
    pub fn new(rows: &'a mut RowTx<'v>, ctx: &'a Ctx) -> Self {
        Tx { rows, ctx, detached: false }
    }

    /// Says which inode the operation came to (stock: the `auditStat` that it returns).
    pub fn came_to(&self, inode: &Inode) {
        let Some(outcome) = &self.ctx.outcome else { return };
        let Inode { owner, group, mode, .. } = inode;
        let rights = Rights { owner: owner.clone(), group: group.clone(), mode: *mode };
        *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(rights);
    }

    /// Says that a row will be read soon, so that one fetch brings it together with others.
    pub fn want<T: Table>(&mut self, key: &TableKey<T>) {
        self.rows.want(key);
    }

    /// Says that a scan will be made soon.
    pub fn want_scan(&mut self, scan: &Scan) {
        self.rows.want_scan(scan);
    }

    /// Reads a row; an absent one is `None` and guards nothing.
    pub fn get<T: Table>(&mut self, key: &TableKey<T>, hold: Hold) -> Result<Option<Record<T>>, Stop> {
        self.rows.get(key, hold)
    }

    /// Reads several rows of one table in one trip.
    pub fn get_all<T: Table>(
        &mut self,
        keys: &[TableKey<T>],
        hold: Hold,
    ) -> Result<Vec<Option<Record<T>>>, Stop> {
        self.rows.get_all(keys, hold)
    }

    /// Makes several scans of one table in one trip: (third part of the key, row), in order.
    #[allow(clippy::type_complexity)]
    pub fn scan_all<T: Table>(&mut self, scans: &[Scan]) -> Result<Vec<Vec<(Vec<u8>, Record<T>)>>, Stop> {
        self.rows.scan_all(scans)
    }

    /// Shows the rows of several scans where they lie, in one trip: number of the scan, third part of the key, row.
    pub fn visit_all(
        &mut self,
        scans: &[Scan],
        visit: &mut dyn FnMut(usize, &[u8], RowRef<'_>),
    ) -> Result<(), Stop> {
        self.rows.visit_all(scans, visit)
    }

    /// As [`Tx::scan_all`], for jobs: a row that does not decode is told in its place, and the others are read all the same.
    pub fn scan_each<T: Table>(&mut self, scans: &[Scan]) -> Result<Vec<Vec<MaybeRow<T>>>, Stop> {
        self.rows.scan_each(scans)
    }

    /// The page of this directory that was noted, if nothing in it has changed since.
    pub fn recall_page(&self, directory: u64, room: u32) -> Option<Bytes> {
        self.rows.recall_page(directory, room)
    }

    /// Notes a page with room for so many entries that shows all there is in a directory, whose children must all be in the
    /// partition of its number.
    pub fn note_page(&self, directory: u64, room: u32, page: &Bytes) {
        self.rows.note_page(directory, room, page);
    }

    /// Counts rows, up to each scan's limit, in one trip.
    pub fn count_all(&mut self, scans: &[Scan]) -> Result<Vec<u64>, Stop> {
        self.rows.count_all(scans)
    }

    /// Writes a row that must be absent.
    pub fn insert<T: Table>(&mut self, key: &TableKey<T>, value: &T::Value) -> Result<(), Stop> {
        self.rows.insert(key, value)
    }

    /// Writes a row that must be absent, with its two counters.
    pub fn insert_counted<T: Table>(
        &mut self,
        key: &TableKey<T>,
        value: &T::Value,
        max: i64,
        add: i64,
    ) -> Result<(), Stop> {
        self.rows.insert_counted(key, value, max, add)
    }

    /// Replaces the value of a row read before.
    pub fn put<T: Table>(&mut self, key: &TableKey<T>, value: &T::Value) -> Result<(), Stop> {
        self.rows.put(key, value)
    }

    /// Holds the leader's term: housekeeping of a leader that was replaced does not go through.
    pub fn hold_term(&mut self, term: Term) -> Result<(), Stop> {
        self.rows.hold(&setting(crate::membership::LEADER), term.version)
    }

    /// Replaces a row read before, counters included.
    pub fn put_counted<T: Table>(
        &mut self,
        key: &TableKey<T>,
        value: &T::Value,
        max: i64,
        add: i64,
    ) -> Result<(), Stop> {
        self.rows.put_counted(key, value, max, add)
    }

    /// Deletes a row read before. What still stands in the name space goes by [`crate::ops::retire`] alone.
    pub fn delete<T: Table>(&mut self, key: &TableKey<T>) -> Result<(), Stop> {
        self.rows.delete(key)
    }

    /// Raises the first counter of a row read before and adds to the second.
    pub fn merge<T: Table>(&mut self, key: &TableKey<T>, max: i64, add: i64) -> Result<(), Stop> {
        self.rows.merge(key, max, add)
    }
}

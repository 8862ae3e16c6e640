//! What a group has at hand: rows of its one fetch, and over them the writes of its own operations.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::change::{Effect, Fold, Hold, Row, Slot};
use crate::key::{Key, Scan};
use crate::store::{Fetched, Scanned};
use crate::tx::{RowRef, Stop, View};

/// Keys and scans that an operation used or asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Wants {
    pub keys: BTreeSet<Key>,
    pub scans: BTreeSet<Scan>,
}

impl Wants {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.scans.is_empty()
    }

    pub fn add(&mut self, other: &Wants) {
        self.keys.extend(other.keys.iter().cloned());
        self.scans.extend(other.scans.iter().cloned());
    }
}

/// The rows of the group's fetch and the writes of its operations so far.
#[derive(Default)]
pub(super) struct Cache {
    rows: HashMap<Key, Option<Row>>,
    scans: HashMap<Scan, Scanned>,
    overlay: Fold,
    /// Which operations wrote a key (their places in the group).
    writers: BTreeMap<Key, Vec<usize>>,
}

impl Cache {
    pub fn fill(&mut self, wants: &Wants, fetched: Fetched) {
        self.rows.extend(wants.keys.iter().cloned().zip(fetched.rows));
        self.scans.extend(wants.scans.iter().cloned().zip(fetched.scans));
    }

    pub fn fill_locked<'a>(&mut self, keys: impl Iterator<Item = &'a Key>, rows: &[Option<Row>]) {
        self.rows.extend(keys.cloned().zip(rows.iter().cloned()));
    }

    pub fn forget_writes(&mut self) {
        self.overlay = Fold::default();
        self.writers.clear();
    }

    pub fn overlay(&self) -> &Fold {
        &self.overlay
    }

    /// Adds the writes and holds of the operation at `place` to the group's. `Err` names a key on which it disagrees
    /// with the operations before it; then nothing is added and the operation has to run in a later group.
    pub fn add_writes(&mut self, place: usize, own: Fold) -> Result<(), Key> {
        if let Some(key) = own.slots.iter().find_map(|(key, slot)| (!self.agrees(key, slot)).then_some(key)) {
            return Err(key.clone());
        }
        for (key, slot) in own.slots {
            let written = slot.is_written();
            let group = self.overlay.slots.entry(key.clone()).or_insert_with(|| Slot::new(slot.base.clone()));
            if group.base.is_some() {
                group.hold(if slot.hold > Hold::Loose { slot.hold } else { Hold::Loose });
            }
            match slot.effect {
                // The operation inserted and deleted again: the key must be absent, nothing stays.
                Effect::Keep if written => {
                    let _ =
                        group.fold(Effect::Insert(Row::default())).and_then(|()| group.fold(Effect::Delete));
                }
                effect => group.fold(effect).map_err(|_| key.clone())?,
            }
            if written {
                self.writers.entry(key).or_default().push(place);
            }
        }
        Ok(())
    }

    /// Whether what an operation saw under a key is what the group has there now.
    fn agrees(&self, key: &Key, slot: &Slot) -> bool {
        let now = match self.overlay.slots.get(key) {
            Some(group) => group.current(),
            None => match self.rows.get(key) {
                Some(row) => row.clone(),
                None => return true,
            },
        };
        match (&now, &slot.base) {
            (None, None) => true,
            (Some(now), Some(base)) => now.version == base.version,
            _ => false,
        }
    }
}

/// What one run of an operation did: everything it used, what was not there, whose writes it saw.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub wants: Wants,
    pub missed: bool,
    pub saw: BTreeSet<usize>,
}

/// The view of one run.
pub(super) struct GroupView<'a> {
    pub cache: &'a Cache,
    pub trace: &'a mut Trace,
}

impl GroupView<'_> {
    fn has(&self, key: &Key) -> bool {
        self.cache.overlay.slots.get(key).is_some_and(Slot::is_written) || self.cache.rows.contains_key(key)
    }

    fn saw(&mut self, key: &Key) {
        if let Some(writers) = self.cache.writers.get(key) {
            self.trace.saw.extend(writers.iter().copied());
        }
    }

    fn miss<T>(&mut self) -> Result<T, Stop> {
        self.trace.missed = true;
        Err(Stop::Miss)
    }
}

impl View for GroupView<'_> {
    fn read(&mut self, key: &Key, visit: &mut dyn FnMut(Option<RowRef<'_>>)) -> Result<(), Stop> {
        self.trace.wants.keys.insert(key.clone());
        self.saw(key);
        let cache = self.cache;
        match (cache.overlay.slots.get(key).filter(|slot| slot.is_written()), cache.rows.get(key)) {
            (Some(slot), _) => visit(slot.current().as_ref().map(RowRef::from)),
            (None, Some(row)) => visit(row.as_ref().map(RowRef::from)),
            (None, None) => return self.miss(),
        }
        Ok(())
    }

    fn scan(&mut self, scan: &Scan, visit: &mut dyn FnMut(&[u8], RowRef<'_>)) -> Result<u64, Stop> {
        self.trace.wants.scans.insert(scan.clone());
        let cache = self.cache;
        let Some(fetched) = cache.scans.get(scan) else { return self.miss() };
        let first = Key::new(scan.partition, scan.table, &[]);
        let written: Vec<(&Key, &Slot)> = cache
            .overlay
            .slots
            .range(first..)
            .take_while(|(key, _)| key.partition() == scan.partition && key.table() <= scan.table)
            .filter(|(key, slot)| slot.is_written() && scan.covers(key))
            .collect();
        written.iter().for_each(|(key, _)| self.saw(key));
        match fetched {
            Scanned::Count(count) => Ok(counted(*count, &written).min(u64::from(scan.limit))),
            Scanned::Rows(rows) if written.is_empty() => {
                rows.iter().for_each(|(key, row)| visit(key.rest(), RowRef::from(row)));
                Ok(rows.len() as u64)
            }
            Scanned::Rows(rows) => {
                let mut merged: BTreeMap<Key, Row> = rows.iter().cloned().collect();
                let full = rows.len() >= scan.limit as usize;
                let mut removed = false;
                for (key, slot) in written {
                    match slot.current() {
                        // Past the end of a full page there may be rows that the fetch did not bring.
                        Some(row) if !full || in_page(scan, key, rows) => {
                            drop(merged.insert(key.clone(), row))
                        }
                        Some(_) => {}
                        None => removed |= merged.remove(key).is_some(),
                    }
                }
                if full && removed {
                    return self.miss();
                }
                Ok(show(scan, &merged, visit))
            }
        }
    }

    fn want(&mut self, key: &Key) {
        self.trace.wants.keys.insert(key.clone());
        self.trace.missed |= !self.has(key);
    }

    fn want_scan(&mut self, scan: &Scan) {
        self.trace.wants.scans.insert(scan.clone());
        self.trace.missed |= !self.cache.scans.contains_key(scan);
    }
}

/// A fetched count with the group's own inserts and deletes.
fn counted(fetched: u64, written: &[(&Key, &Slot)]) -> u64 {
    written.iter().fold(fetched, |count, (_, slot)| match (slot.base.is_some(), slot.current().is_some()) {
        (false, true) => count + 1,
        (true, false) => count.saturating_sub(1),
        _ => count,
    })
}

fn in_page(scan: &Scan, key: &Key, rows: &[(Key, Row)]) -> bool {
    rows.last().is_some_and(|(last, _)| if scan.reverse { key > last } else { key < last || key == last })
}

fn show(scan: &Scan, rows: &BTreeMap<Key, Row>, visit: &mut dyn FnMut(&[u8], RowRef<'_>)) -> u64 {
    let limit = scan.limit as usize;
    let mut shown = 0;
    let mut show_one = |(key, row): (&Key, &Row)| {
        shown += 1;
        visit(key.rest(), RowRef::from(row));
    };
    match scan.reverse {
        true => rows.iter().rev().take(limit).for_each(&mut show_one),
        false => rows.iter().take(limit).for_each(&mut show_one),
    }
    shown
}

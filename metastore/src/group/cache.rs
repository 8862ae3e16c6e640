//! What a group has at hand: rows of its one fetch, and over them the writes of its own operations.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::change::{Effect, Fold, Hold, Row, Slot};
use crate::key::{Key, Scan};
use crate::store::{Fetched, Scanned, StoreError};
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
    scans: BTreeMap<Scan, Scanned>,
    overlay: Fold,
    /// Which operations wrote a key (their places in the group).
    writers: BTreeMap<Key, Vec<usize>>,
}

impl Cache {
    /// Takes in a fetch of `keys` and `scans`; refuses an answer of another shape, which would read as "absent".
    pub fn fill(&mut self, keys: Vec<Key>, scans: Vec<Scan>, fetched: Fetched) -> Result<(), StoreError> {
        if fetched.rows.len() != keys.len() || fetched.scans.len() != scans.len() {
            return Err(StoreError::Fatal(format!(
                "asked for {} keys and {} scans, the store answered {} and {}",
                keys.len(),
                scans.len(),
                fetched.rows.len(),
                fetched.scans.len()
            )));
        }
        self.rows.extend(keys.into_iter().zip(fetched.rows));
        self.scans.extend(scans.into_iter().zip(fetched.scans));
        Ok(())
    }

    /// The fetched row under a key (`Some(None)` = absent); a fetched scan that covers it tells as well.
    fn stored(&self, key: &Key) -> Option<Option<&Row>> {
        if let Some(row) = self.rows.get(key) {
            return Some(row.as_ref());
        }
        self.scans.iter().filter(|(scan, _)| scan.covers(key)).find_map(|(scan, scanned)| {
            let Scanned::Rows(rows) = scanned else { return None };
            let order = |other: &Key| if scan.reverse { key.cmp(other) } else { other.cmp(key) };
            match rows.binary_search_by(|(other, _)| order(other)) {
                Ok(at) => Some(Some(&rows[at].1)),
                // Absent, unless it lies past the end of a full page.
                Err(at) => (at < rows.len() || rows.len() < scan.limit as usize).then_some(None),
            }
        })
    }

    pub fn forget_writes(&mut self) {
        self.overlay = Fold::default();
        self.writers.clear();
    }

    pub fn overlay(&self) -> &Fold {
        &self.overlay
    }

    /// Adds the writes and holds of the operation at `place` to the group's. False when it disagrees with what the
    /// group has: it inserted what is there without looking, or holds a version that is gone. Then nothing is added.
    pub fn add_writes(&mut self, place: usize, own: &Fold) -> bool {
        let mut folded = Vec::with_capacity(own.slots.len());
        for (key, slot) in &own.slots {
            if !slot.is_written() && slot.hold == Hold::Loose {
                continue;
            }
            if !self.agrees(key, slot) {
                return false;
            }
            let mut group = self.overlay.slots.get(key).cloned().unwrap_or_else(|| match self.stored(key) {
                Some(row) => Slot::new(row.cloned()),
                None if slot.is_known() => Slot::new(slot.base.clone()),
                None => Slot::given(slot.base.as_ref().map_or(0, |row| row.version)),
            });
            if group.base.is_some() {
                group.hold(slot.hold);
            }
            let done = match slot.is_insert_undone() {
                true => group.fold(Effect::Insert(Row::default())).and_then(|()| group.fold(Effect::Delete)),
                false => group.fold(slot.effect.clone()),
            };
            if done.is_err() {
                return false;
            }
            folded.push((key.clone(), group, slot.is_written()));
        }
        for (key, group, written) in folded {
            if written {
                self.writers.entry(key.clone()).or_default().push(place);
            }
            self.overlay.slots.insert(key, group);
        }
        true
    }

    /// Whether what an operation saw under a key is what the group has there now.
    fn agrees(&self, key: &Key, slot: &Slot) -> bool {
        let now = match self.overlay.slots.get(key) {
            Some(group) => group.current(),
            None => match self.stored(key) {
                Some(row) => row.map(Cow::Borrowed),
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

/// What one run of an operation did: everything it used or asked for, whether it read what was not there, what it
/// wrote (`None` = it did not come to its end), and whose writes it saw (their places in the group).
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub wants: Wants,
    pub missed: bool,
    pub writes: Option<BTreeSet<Key>>,
    pub saw: BTreeSet<usize>,
}

/// The view of one run.
pub(super) struct GroupView<'a> {
    pub cache: &'a Cache,
    pub trace: &'a mut Trace,
}

impl GroupView<'_> {
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
        if let Some(slot) = cache.overlay.slots.get(key).filter(|slot| slot.is_written()) {
            visit(slot.current().as_deref().map(RowRef::from));
            return Ok(());
        }
        match cache.stored(key) {
            Some(row) => visit(row.map(RowRef::from)),
            None => return self.miss(),
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
            Scanned::Count(count) => counted(scan, *count, &written).map_or_else(|| self.miss(), Ok),
            Scanned::Rows(rows) if written.is_empty() => {
                rows.iter().for_each(|(key, row)| visit(key.rest(), RowRef::from(row)));
                Ok(rows.len() as u64)
            }
            Scanned::Rows(rows) => {
                let mut merged: BTreeMap<Key, Row> = rows.iter().cloned().collect();
                let full = rows.len() >= scan.limit as usize;
                for (key, slot) in written {
                    match slot.current() {
                        // Past the end of a full page there may be rows that the fetch did not bring.
                        Some(row) if !full || in_page(scan, key, rows) => {
                            drop(merged.insert(key.clone(), row.into_owned()))
                        }
                        Some(_) => {}
                        None => drop(merged.remove(key)),
                    }
                }
                if full && merged.len() < scan.limit as usize {
                    return self.miss();
                }
                Ok(show(scan, &merged, visit))
            }
        }
    }

    fn want(&mut self, key: &Key) {
        self.trace.wants.keys.insert(key.clone());
    }

    fn want_scan(&mut self, scan: &Scan) {
        self.trace.wants.scans.insert(scan.clone());
    }
}

/// A fetched count with the group's own inserts and deletes; `None` when the fetch stopped counting too early to say.
fn counted(scan: &Scan, fetched: u64, written: &[(&Key, &Slot)]) -> Option<u64> {
    let (mut inserted, mut deleted) = (0, 0);
    for (_, slot) in written {
        match (slot.base.is_some(), slot.current().is_some()) {
            (false, true) => inserted += 1,
            (true, false) => deleted += 1,
            _ => {}
        }
    }
    let limit = u64::from(scan.limit);
    match fetched >= limit && deleted > inserted {
        true => None,
        false => Some((fetched + inserted).saturating_sub(deleted).min(limit)),
    }
}

fn in_page(scan: &Scan, key: &Key, rows: &[(Key, Row)]) -> bool {
    rows.last().is_some_and(|(last, _)| if scan.reverse { key >= last } else { key <= last })
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

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;

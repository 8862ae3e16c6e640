//! What an operation sees of the store: one [`Tx`] over a [`View`] that may not have every row at hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use prost::Message;

use crate::change::{Change, Effect, Fold, Hold, Row, Slot};
use crate::key::{Key, Scan};
use crate::schema::{Table, TableKey};

/// Why a run of an operation stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// A row was not at hand; it is noted, will be fetched, and the operation runs again from the top.
    #[error("a row is not at hand yet")]
    Miss,
    /// The rows at hand cannot be the truth any more: one is held at a version that is gone, or two that belong
    /// together do not fit. The operation leaves its group and runs again over fresh rows, as after a lost conflict.
    #[error("the rows at hand are stale")]
    Stale,
    /// A stored row does not decode, or an operation broke a rule of the contract.
    #[error("{0}")]
    Fault(String),
}

/// A stored row, borrowed from where it lies.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    /// See [`Row::version`].
    pub version: u64,
    /// See [`Row::max`].
    pub max: i64,
    /// See [`Row::add`].
    pub add: i64,
    /// The encoded value.
    pub value: &'a [u8],
}

impl<'a> From<&'a Row> for RowRef<'a> {
    fn from(row: &'a Row) -> Self {
        RowRef { version: row.version, max: row.max, add: row.add, value: &row.value }
    }
}

impl RowRef<'_> {
    /// A copy that owns its value.
    pub fn to_row(self) -> Row {
        Row { version: self.version, max: self.max, add: self.add, value: Bytes::copy_from_slice(self.value) }
    }
}

/// Rows as one run of an operation sees them: a group's cache, which may miss, or an engine's own snapshot, which
/// never does.
pub trait View {
    /// Shows the row under a key (`None` = absent), or notes the miss.
    fn read(&mut self, key: &Key, visit: &mut dyn FnMut(Option<RowRef<'_>>)) -> Result<(), Stop>;

    /// Shows the rows of a scan in order (third part of the key, row) and returns their number, or notes the miss.
    /// A count-only scan shows nothing.
    fn scan(&mut self, scan: &Scan, visit: &mut dyn FnMut(&[u8], RowRef<'_>)) -> Result<u64, Stop>;

    /// Says that a key will be read soon, so that one fetch brings it together with others.
    fn want(&mut self, _key: &Key) {}

    /// The same for a scan.
    fn want_scan(&mut self, _scan: &Scan) {}

    /// Numbers that were noted under a name, if none of the rows that they follow from has changed since.
    fn recall(&self, _name: &[u8]) -> Option<&[u64]> {
        None
    }

    /// Notes numbers that follow from the rows under `keys` and from nothing else. Views that could not tell when they
    /// change note nothing.
    fn note(&self, _name: &[u8], _keys: &[Key], _numbers: &[u64]) {}

    /// The page that was noted for a partition, if none of its inodes and counters of directories has changed since.
    fn recall_page(&self, _partition: u64, _room: u32) -> Option<Bytes> {
        None
    }

    /// Notes a page with room for so many entries, which follows from the inodes and the counters of directories in a
    /// partition and from nothing else. Views that could not tell when they change note nothing.
    fn note_page(&self, _partition: u64, _room: u32, _page: &Bytes) {}
}

/// Where row versions come from (contract rule 3): incarnation << 40 | counter, never used twice.
#[derive(Clone, Debug)]
pub struct Versions {
    last: Arc<AtomicU64>,
    end: u64,
}

const COUNTER_BITS: u32 = 40;

impl Versions {
    /// The versions of one incarnation (< 2^24; drawn once per process start, never reused). A larger one has none.
    pub fn of_incarnation(incarnation: u64) -> Versions {
        let base = incarnation << COUNTER_BITS;
        let count = if incarnation >> (64 - COUNTER_BITS) == 0 { (1 << COUNTER_BITS) - 1 } else { 0 };
        Versions { last: Arc::new(AtomicU64::new(base)), end: base + count }
    }

    /// Whether this incarnation has used up its versions. Operations then fail; a new start draws a new incarnation.
    pub fn are_exhausted(&self) -> bool {
        // A little early, so that those who ask at the same time stay below the end.
        self.last.load(Ordering::Relaxed).saturating_add(1 << 10) >= self.end
    }

    /// Versions for work before a namenode has its incarnation (formatting, joining): incarnation 0, which no namenode
    /// draws, from a random place on.
    pub fn before_joining() -> Versions {
        let start = rand::random_range(0..1 << (COUNTER_BITS - 1));
        Versions { last: Arc::new(AtomicU64::new(start)), end: 1 << COUNTER_BITS }
    }

    /// The next version.
    pub fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A row with the third part of its key; or why it does not decode.
pub type MaybeRow<T> = (Vec<u8>, Result<Record<T>, Stop>);

/// A decoded row.
#[derive(Clone, Debug)]
pub struct Record<T: Table> {
    /// See [`Row::version`].
    pub version: u64,
    /// See [`Row::max`].
    pub max: i64,
    /// See [`Row::add`].
    pub add: i64,
    /// The value.
    pub value: T::Value,
}

/// One run of an operation: reads through a view, collects its own writes, sees them itself.
pub struct Tx<'v> {
    view: &'v mut dyn View,
    /// `None` for a run that may only read; then no row is copied or remembered.
    writes: Option<(Fold, &'v Versions)>,
}

impl<'v> Tx<'v> {
    /// A run that only reads.
    pub fn read_only(view: &'v mut dyn View) -> Tx<'v> {
        Tx { view, writes: None }
    }

    /// A run that may write.
    pub fn read_write(view: &'v mut dyn View, versions: &'v Versions) -> Tx<'v> {
        Tx { view, writes: Some((Fold::default(), versions)) }
    }

    /// Whether this run may write.
    pub fn is_writable(&self) -> bool {
        self.writes.is_some()
    }

    /// Says that a key will be read soon.
    pub fn want<T: Table>(&mut self, key: &TableKey<T>) {
        if key.key.fits() {
            self.view.want(&key.key);
        }
    }

    /// Says that a scan will be made soon.
    pub fn want_scan(&mut self, scan: &Scan) {
        let most = if scan.count_only { Scan::MAX_COUNT } else { Scan::MAX_ROWS };
        if within_limits(scan, most).is_ok() {
            self.view.want_scan(scan);
        }
    }

    /// Reads a row; an absent one is `None` and guards nothing.
    pub fn get<T: Table>(&mut self, key: &TableKey<T>, hold: Hold) -> Result<Option<Record<T>>, Stop> {
        let Some((fold, _)) = &mut self.writes else {
            fits(&key.key)?;
            let mut got = Ok(None);
            self.view.read(&key.key, &mut |row| {
                got = row.map(|row| decode::<T>(|| key.key.clone(), row)).transpose()
            })?;
            return got;
        };
        if !fold.slots.get(&key.key).is_some_and(Slot::is_known) {
            fits(&key.key)?;
            let mut base = None;
            self.view.read(&key.key, &mut |row| base = row.map(RowRef::to_row))?;
            match fold.slots.get_mut(&key.key) {
                Some(given) if given.base.as_ref().map(|b| b.version) != base.as_ref().map(|b| b.version) => {
                    return Err(Stop::Stale);
                }
                Some(given) => (given.base, given.read) = (base, true),
                None => drop(fold.slots.insert(key.key.clone(), Slot::new(base))),
            }
        }
        let Some(slot) = fold.slots.get_mut(&key.key) else { return Ok(None) };
        if slot.base.is_some() {
            slot.hold(hold);
        }
        slot.current().map(|row| decode::<T>(|| key.key.clone(), RowRef::from(&*row))).transpose()
    }

    /// Shows the value of a row, undecoded, to one who needs little of it; an absent row is `None`. Nothing is held or
    /// remembered: to change the row it is read as others are.
    pub fn look<T: Table, R>(
        &mut self,
        key: &TableKey<T>,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Stop> {
        if let Some((fold, _)) = &self.writes
            && let Some(slot) = fold.slots.get(&key.key).filter(|slot| slot.is_known())
        {
            return Ok(slot.current().map(|row| look(&row.value)));
        }
        fits(&key.key)?;
        let (mut look, mut seen) = (Some(look), None);
        self.view.read(&key.key, &mut |row| {
            if let (Some(row), Some(look)) = (row, look.take()) {
                seen = Some(look(row.value));
            }
        })?;
        Ok(seen)
    }

    /// See [`View::recall`]. A run that has written recalls nothing: it sees its own rows.
    pub fn recall(&self, name: &[u8]) -> Option<&[u64]> {
        if self.has_written() { None } else { self.view.recall(name) }
    }

    /// See [`View::note`].
    pub fn note(&self, name: &[u8], keys: &[Key], numbers: &[u64]) {
        if !self.has_written() {
            self.view.note(name, keys, numbers);
        }
    }

    /// See [`View::recall_page`]. A run that has written recalls nothing.
    pub fn recall_page(&self, partition: u64, room: u32) -> Option<Bytes> {
        if self.has_written() { None } else { self.view.recall_page(partition, room) }
    }

    /// See [`View::note_page`].
    pub fn note_page(&self, partition: u64, room: u32, page: &Bytes) {
        if !self.has_written() {
            self.view.note_page(partition, room, page);
        }
    }

    /// Reads several rows of one table, noting all misses before it stops.
    pub fn get_all<T: Table>(
        &mut self,
        keys: &[TableKey<T>],
        hold: Hold,
    ) -> Result<Vec<Option<Record<T>>>, Stop> {
        keys.iter().for_each(|key| self.want(key));
        keys.iter().map(|key| self.get(key, hold)).collect()
    }

    /// Scans, noting all misses before it stops. One result per scan: (third part of the key, row). Rows that this
    /// run itself wrote in the range are refused: scan first.
    #[allow(clippy::type_complexity)]
    pub fn scan_all<T: Table>(&mut self, scans: &[Scan]) -> Result<Vec<Vec<(Vec<u8>, Record<T>)>>, Stop> {
        let whole =
            |rows: Vec<MaybeRow<T>>| rows.into_iter().map(|(rest, row)| row.map(|row| (rest, row))).collect();
        self.scan_each(scans)?.into_iter().map(whole).collect()
    }

    /// Shows the rows of several scans where they lie, noting all misses before it stops: number of the scan, third part of
    /// the key, row. Rows that this run itself wrote in the range are refused: scan first.
    pub fn visit_all(
        &mut self,
        scans: &[Scan],
        visit: &mut dyn FnMut(usize, &[u8], RowRef<'_>),
    ) -> Result<(), Stop> {
        scans.iter().try_for_each(|scan| within_limits(scan, Scan::MAX_ROWS))?;
        scans.iter().for_each(|scan| self.view.want_scan(scan));
        for (number, scan) in scans.iter().enumerate() {
            self.refuse_own_writes(scan)?;
            self.view.scan(scan, &mut |rest, row| visit(number, rest, row))?;
        }
        Ok(())
    }

    /// As [`Tx::scan_all`], for jobs: a row that does not decode is told in its place, and the others are read all the same.
    pub fn scan_each<T: Table>(&mut self, scans: &[Scan]) -> Result<Vec<Vec<MaybeRow<T>>>, Stop> {
        let mut all: Vec<Vec<MaybeRow<T>>> = scans.iter().map(|_| Vec::new()).collect();
        self.visit_all(scans, &mut |number, rest, row| {
            let Scan { partition, table, .. } = scans[number];
            all[number].push((rest.to_vec(), decode::<T>(|| Key::new(partition, table, rest), row)));
        })?;
        Ok(all)
    }

    /// Counts rows, up to each scan's limit, noting all misses before it stops.
    pub fn count_all(&mut self, scans: &[Scan]) -> Result<Vec<u64>, Stop> {
        let scans: Vec<Scan> = scans.iter().map(|scan| scan.clone().count()).collect();
        scans.iter().try_for_each(|scan| within_limits(scan, Scan::MAX_COUNT))?;
        scans.iter().for_each(|scan| self.view.want_scan(scan));
        scans
            .iter()
            .map(|scan| {
                self.refuse_own_writes(scan)?;
                self.view.scan(scan, &mut |_, _| {})
            })
            .collect()
    }

    /// Writes a row that must be absent.
    pub fn insert<T: Table>(&mut self, key: &TableKey<T>, value: &T::Value) -> Result<(), Stop> {
        self.insert_counted(key, value, 0, 0)
    }

    /// Writes a row that must be absent, with its two counters.
    pub fn insert_counted<T: Table>(
        &mut self,
        key: &TableKey<T>,
        value: &T::Value,
        max: i64,
        add: i64,
    ) -> Result<(), Stop> {
        fits(&key.key)?;
        let value = encode(&key.key, value)?;
        let version = self.new_version(&key.key)?;
        let (fold, _) = self.writable(&key.key)?;
        let row = Row { version, max, add, value };
        let slot = fold.slots.entry(key.key.clone()).or_insert_with(Slot::unread);
        slot.fold(Effect::Insert(row)).map_err(|why| broken(&key.key, why))
    }

    /// Replaces the value of a row read before; its counters stay as they were read.
    pub fn put<T: Table>(&mut self, key: &TableKey<T>, value: &T::Value) -> Result<(), Stop> {
        let (max, add) = self.seen(&key.key)?;
        self.put_counted(key, value, max, add)
    }

    /// Replaces a row read before, counters included.
    pub fn put_counted<T: Table>(
        &mut self,
        key: &TableKey<T>,
        value: &T::Value,
        max: i64,
        add: i64,
    ) -> Result<(), Stop> {
        self.seen(&key.key)?;
        let value = encode(&key.key, value)?;
        let version = self.new_version(&key.key)?;
        self.change(&key.key, Effect::Put(Row { version, max, add, value }))
    }

    /// Deletes a row read before.
    pub fn delete<T: Table>(&mut self, key: &TableKey<T>) -> Result<(), Stop> {
        self.seen(&key.key)?;
        self.change(&key.key, Effect::Delete)
    }

    /// Raises the first counter of a row read before to `max` ([`KEEP_MAX`](crate::change::KEEP_MAX) leaves it) and
    /// adds `add` to the second. Only in tables that are merged ([`TableId::is_merged`](crate::schema::TableId::is_merged));
    /// and `add` only beside an insert, put or delete of the same operation, which keeps a second run from adding
    /// twice (lease holders are the exception: there it is harmless).
    pub fn merge<T: Table>(&mut self, key: &TableKey<T>, max: i64, add: i64) -> Result<(), Stop> {
        if !T::ID.is_merged() {
            return Err(broken(&key.key, "merged, in a table whose rows are only replaced"));
        }
        self.seen(&key.key)?;
        self.change(&key.key, Effect::Merge { max, add })
    }

    /// Holds a row at a version that was learnt earlier, without reading it: if the row has moved on, nothing of this
    /// operation is written, and it is never answered as done. Since versions never come back, it then loses until it
    /// is given up as retriable; one that has a better answer for that case reads the row instead and compares.
    pub fn hold<T: Table>(&mut self, key: &TableKey<T>, version: u64) -> Result<(), Stop> {
        fits(&key.key)?;
        let (fold, _) = self.writable(&key.key)?;
        let slot = fold.slots.entry(key.key.clone()).or_insert_with(|| Slot::given(version));
        match &slot.base {
            Some(row) if row.version == version => slot.hold(Hold::Held),
            _ => return Err(Stop::Stale),
        }
        Ok(())
    }

    /// What the run did, by key.
    pub(crate) fn into_fold(self) -> Fold {
        self.writes.map(|(fold, _)| fold).unwrap_or_default()
    }

    /// The run's changes in lock order, for a caller that commits them itself.
    pub fn into_changes(self) -> Vec<Change> {
        self.into_fold().changes()
    }

    fn has_written(&self) -> bool {
        self.writes.as_ref().is_some_and(|(fold, _)| fold.slots.values().any(Slot::is_written))
    }

    fn writable(&mut self, key: &Key) -> Result<(&mut Fold, &Versions), Stop> {
        match &mut self.writes {
            Some((fold, versions)) => Ok((fold, versions)),
            None => Err(broken(key, "written by an operation that only reads")),
        }
    }

    fn new_version(&mut self, key: &Key) -> Result<u64, Stop> {
        let (_, versions) = self.writable(key)?;
        match versions.are_exhausted() {
            false => Ok(versions.next()),
            true => Err(broken(key, "no row versions are left; restart this namenode")),
        }
    }

    /// The counters of a row that was read before and is there.
    fn seen(&mut self, key: &Key) -> Result<(i64, i64), Stop> {
        let (fold, _) = self.writable(key)?;
        match fold.slots.get(key).filter(|slot| slot.is_known()).and_then(Slot::current) {
            Some(row) => Ok((row.max, row.add)),
            None => Err(broken(key, "changed without having been read, or absent")),
        }
    }

    fn change(&mut self, key: &Key, effect: Effect) -> Result<(), Stop> {
        let (fold, _) = self.writable(key)?;
        match fold.slots.get_mut(key) {
            Some(slot) => slot.fold(effect).map_err(|why| broken(key, why)),
            None => Err(broken(key, "changed without having been read")),
        }
    }

    fn refuse_own_writes(&self, scan: &Scan) -> Result<(), Stop> {
        let Some((fold, _)) = &self.writes else { return Ok(()) };
        match fold.slots.iter().find(|(key, slot)| slot.is_written() && scan.covers(key)) {
            Some((key, _)) => Err(broken(key, "scanned after it was written in the same operation")),
            None => Ok(()),
        }
    }
}

/// A key beyond the store's limit fails its own operation, never the group that it is in.
fn fits(key: &Key) -> Result<(), Stop> {
    if key.fits() { Ok(()) } else { Err(broken(key, "its key is too long")) }
}

fn within_limits(scan: &Scan, most: u32) -> Result<(), Stop> {
    match (1..=most).contains(&scan.limit) {
        true => Ok(()),
        false => {
            Err(Stop::Fault(format!("a scan of {:?} asks for {} rows of 1..={most}", scan.table, scan.limit)))
        }
    }
}

fn broken(key: &Key, why: &str) -> Stop {
    Stop::Fault(format!("row {key:?}: {why}"))
}

/// `key` is for messages.
fn decode<T: Table>(key: impl FnOnce() -> Key, row: RowRef<'_>) -> Result<Record<T>, Stop> {
    match T::Value::decode(row.value) {
        Ok(value) => Ok(Record { version: row.version, max: row.max, add: row.add, value }),
        Err(error) => {
            let key = key();
            Err(Stop::Fault(format!("row {key:?} does not decode: {error}; run 'trellis store check'")))
        }
    }
}

fn encode<M: Message>(key: &Key, value: &M) -> Result<Bytes, Stop> {
    let bytes = value.encode_to_vec();
    if bytes.len() > crate::change::MAX_VALUE_BYTES {
        return Err(broken(key, "its value is too large"));
    }
    Ok(bytes.into())
}

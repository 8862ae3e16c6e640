//! Reading rows: whole tables partition by partition, and single rows in batches.

use std::collections::HashSet;

use prost::Message;
use trellis_metastore::change::Row;
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::schema::{Table, TableKey};
use trellis_metastore::store::{Scanned, Store, StoreError};

use super::Findings;

/// Rows and keys read at a time.
pub const BATCH: usize = 500;
/// Partitions scanned at a time.
pub const PARTITIONS: usize = 64;
/// Versions remembered; in larger stores the others are not compared.
const MAX_VERSIONS: usize = 1 << 22;
/// The first version there is. Incarnation 0 is that of work before a namenode has its own: formatting, joining.
const FIRST_VERSION: u64 = 1;

/// Versions seen so far.
#[derive(Default)]
pub struct Versions(HashSet<u64>);

/// A decoded row with its key.
#[derive(Clone, Debug)]
pub struct Found<T: Table> {
    pub key: Key,
    pub value: T::Value,
}

/// Walks a whole table, a batch of rows at a time.
pub struct Walk<T: Table> {
    /// Partitions to come, the next one last.
    partitions: Vec<u64>,
    last_partition: Option<u64>,
    /// Large partitions that are not at their end: where they go on.
    unfinished: Vec<(u64, Vec<u8>)>,
    done: bool,
    table: std::marker::PhantomData<fn() -> T>,
}

impl<T: Table> Walk<T> {
    pub fn new() -> Self {
        Walk {
            partitions: Vec::new(),
            last_partition: None,
            unfinished: Vec::new(),
            done: false,
            table: std::marker::PhantomData,
        }
    }

    /// The next rows; none = the end. Undecodable rows are findings.
    pub async fn next(
        &mut self,
        store: &dyn Store,
        findings: &mut Findings,
    ) -> Result<Option<Vec<Found<T>>>, StoreError> {
        if findings.is_full() {
            return Ok(None);
        }
        let mut scans: Vec<Scan> = Vec::new();
        if let Some((partition, after)) = self.unfinished.pop() {
            scans.push(Scan::of(T::ID, partition, BATCH as u32).after(&after));
        } else {
            if self.partitions.is_empty() && !self.done {
                self.partitions = store.partitions(T::ID, self.last_partition, BATCH).await?;
                self.partitions.reverse();
                self.last_partition = self.partitions.first().copied();
                self.done = self.partitions.is_empty();
            }
            let rest = self.partitions.len().saturating_sub(PARTITIONS);
            let next = self.partitions.drain(rest..).rev();
            scans.extend(next.map(|partition| Scan::of(T::ID, partition, BATCH as u32)));
        }
        if scans.is_empty() {
            return Ok(None);
        }
        let mut all = Vec::new();
        for (scan, rows) in scans.iter().zip(scanned(store, &scans).await?) {
            if let Some((last, _)) = rows.last().filter(|_| rows.len() == BATCH) {
                self.unfinished.push((scan.partition, last.rest().to_vec()));
            }
            for (key, row) in rows {
                match row {
                    Some(row) => all.extend(findings.decode(key, row)),
                    None => findings.add(format!("{key:?}"), "is damaged: it cannot be read"),
                }
            }
        }
        Ok(Some(all))
    }
}

impl Findings {
    /// Decodes a row and looks at its version.
    fn decode<T: Table>(&mut self, key: Key, row: Row) -> Option<Found<T>> {
        if row.version < FIRST_VERSION {
            self.add(format!("{key:?}"), format!("version {} is of no incarnation", row.version));
        }
        if self.versions.0.len() < MAX_VERSIONS && !self.versions.0.insert(row.version) {
            self.add(format!("{key:?}"), format!("version {:#x} stands in another row as well", row.version));
        }
        match T::Value::decode(row.value.as_ref()) {
            Ok(value) => Some(Found { key, value }),
            Err(error) => {
                self.add(format!("{key:?}"), format!("does not decode: {error}"));
                None
            }
        }
    }
}

/// Walks a table that is checked no further: its rows can be read and decoded.
pub async fn readable<T: Table>(store: &dyn Store, findings: &mut Findings) -> Result<(), StoreError> {
    let mut walk = Walk::<T>::new();
    while walk.next(store, findings).await?.is_some() {}
    Ok(())
}

/// A page of a scan, decoded. Undecodable rows are left out: their table's walk reports them.
pub struct Page<T: Table> {
    pub rows: Vec<Found<T>>,
    /// Third part of the last row's key, be it readable or not.
    pub last_key: Option<Vec<u8>>,
    /// Whether there may be more.
    pub is_full: bool,
}

/// The pages of scans, in their order.
pub async fn scan<T: Table>(store: &dyn Store, scans: &[Scan]) -> Result<Vec<Page<T>>, StoreError> {
    let pages = scans.iter().zip(scanned(store, scans).await?);
    Ok(pages
        .map(|(scan, rows)| Page {
            is_full: rows.len() == scan.limit as usize,
            last_key: rows.last().map(|(key, _)| key.rest().to_vec()),
            rows: rows
                .into_iter()
                .filter_map(|(key, row)| {
                    Some(Found { value: T::Value::decode(row?.value.as_ref()).ok()?, key })
                })
                .collect(),
        })
        .collect())
}

/// The rows of scans, in their order; of a damaged row only the key.
async fn scanned(store: &dyn Store, scans: &[Scan]) -> Result<Vec<Vec<(Key, Option<Row>)>>, StoreError> {
    match store.fetch(&[], scans).await {
        Ok(fetched) => Ok(fetched.scans.into_iter().map(|scanned| rows_of(scanned).collect()).collect()),
        Err(StoreError::Damaged(..)) => {
            let mut all = Vec::with_capacity(scans.len());
            for scan in scans {
                all.push(row_by_row(store, scan).await?);
            }
            Ok(all)
        }
        Err(error) => Err(error),
    }
}

/// The same for one scan, a row at a time: a damaged one spoils every fetch that it is in.
async fn row_by_row(store: &dyn Store, scan: &Scan) -> Result<Vec<(Key, Option<Row>)>, StoreError> {
    let mut all = Vec::new();
    let mut next = Scan { limit: 1, ..scan.clone() };
    while all.len() < scan.limit as usize {
        let found = match store.fetch(&[], std::slice::from_ref(&next)).await {
            Ok(fetched) => fetched.scans.into_iter().flat_map(rows_of).next(),
            Err(StoreError::Damaged(key, _)) => Some((key, None)),
            Err(error) => return Err(error),
        };
        let Some((key, row)) = found else { break };
        next = next.after(key.rest());
        all.push((key, row));
    }
    Ok(all)
}

fn rows_of(scanned: Scanned) -> impl Iterator<Item = (Key, Option<Row>)> {
    let rows = match scanned {
        Scanned::Rows(rows) => rows,
        Scanned::Count(_) => Vec::new(),
    };
    rows.into_iter().map(|(key, row)| (key, Some(row)))
}

/// The rows under some keys; a damaged one is as good as absent.
async fn fetched(store: &dyn Store, keys: &[Key]) -> Result<Vec<Option<Row>>, StoreError> {
    let mut all = match store.fetch(keys, &[]).await {
        Ok(fetched) => return Ok(fetched.rows),
        Err(StoreError::Damaged(..)) => Vec::with_capacity(keys.len()),
        Err(error) => return Err(error),
    };
    for key in keys {
        match store.fetch(std::slice::from_ref(key), &[]).await {
            Ok(fetched) => all.extend(fetched.rows),
            Err(StoreError::Damaged(..)) => all.push(None),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Reads rows by key, in batches; undecodable ones count as absent (their own table's walk reports them).
pub async fn read<T: Table>(
    store: &dyn Store,
    keys: &[TableKey<T>],
) -> Result<Vec<Option<(Row, T::Value)>>, StoreError> {
    let mut all = Vec::with_capacity(keys.len());
    for batch in keys.chunks(BATCH) {
        let plain: Vec<Key> = batch.iter().map(|key| key.key.clone()).collect();
        let rows = fetched(store, &plain).await?;
        all.extend(rows.into_iter().map(|row| {
            let row = row?;
            let value = T::Value::decode(row.value.as_ref()).ok()?;
            Some((row, value))
        }));
    }
    Ok(all)
}

/// How many rows a table has in each of these partitions.
pub async fn counts(
    store: &dyn Store,
    table: trellis_metastore::schema::TableId,
    partitions: &[u64],
) -> Result<Vec<i64>, StoreError> {
    let mut all = Vec::with_capacity(partitions.len());
    for batch in partitions.chunks(PARTITIONS) {
        let scan = |partition: &u64| Scan::of(table, *partition, Scan::MAX_COUNT).count();
        let scans: Vec<Scan> = batch.iter().map(scan).collect();
        for (partition, counted) in batch.iter().zip(store.fetch(&[], &scans).await?.scans) {
            all.push(match counted {
                Scanned::Count(count) if count < u64::from(Scan::MAX_COUNT) => count as i64,
                _ => count_pages(store, table, *partition).await?,
            });
        }
    }
    Ok(all)
}

/// The same for one that is too large for a count.
async fn count_pages(
    store: &dyn Store,
    table: trellis_metastore::schema::TableId,
    partition: u64,
) -> Result<i64, StoreError> {
    let (mut total, mut after) = (0, None::<Vec<u8>>);
    loop {
        let mut scan = Scan::of(table, partition, Scan::MAX_ROWS);
        if let Some(after) = &after {
            scan = scan.after(after);
        }
        let rows = scanned(store, &[scan]).await?;
        let Some((last, _)) = rows.iter().flatten().next_back() else { return Ok(total) };
        after = Some(last.rest().to_vec());
        total += rows.iter().flatten().count() as i64;
    }
}

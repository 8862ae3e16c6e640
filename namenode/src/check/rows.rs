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
    partitions: Vec<u64>,
    last_partition: Option<u64>,
    after: Option<Vec<u8>>,
    done: bool,
    table: std::marker::PhantomData<fn() -> T>,
}

impl<T: Table> Walk<T> {
    pub fn new() -> Self {
        Walk {
            partitions: Vec::new(),
            last_partition: None,
            after: None,
            done: false,
            table: std::marker::PhantomData,
        }
    }

    /// The next rows, all of one partition or of several small ones; none = the end. Undecodable rows are findings.
    pub async fn next(
        &mut self,
        store: &dyn Store,
        findings: &mut Findings,
    ) -> Result<Option<Vec<Found<T>>>, StoreError> {
        if findings.is_full() {
            return Ok(None);
        }
        if self.partitions.is_empty() && !self.done {
            self.partitions = store.partitions(T::ID, self.last_partition, BATCH).await?;
            self.partitions.reverse();
            self.last_partition = self.partitions.first().copied();
            self.done = self.partitions.is_empty();
        }
        let Some(partition) = self.partitions.last().copied() else { return Ok(None) };
        let mut scan = Scan::of(T::ID, partition, BATCH as u32);
        if let Some(after) = &self.after {
            scan = scan.after(after);
        }
        let rows = match store.fetch(&[], &[scan]).await?.scans.pop() {
            Some(Scanned::Rows(rows)) => rows,
            _ => Vec::new(),
        };
        self.after = rows.last().map(|(key, _)| key.rest().to_vec());
        if rows.len() < BATCH {
            self.partitions.pop();
            self.after = None;
        }
        Ok(Some(rows.into_iter().filter_map(|(key, row)| findings.decode(key, row)).collect()))
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

/// Reads rows by key, in batches; undecodable ones count as absent (their own table's walk reports them).
pub async fn read<T: Table>(
    store: &dyn Store,
    keys: &[TableKey<T>],
) -> Result<Vec<Option<(Row, T::Value)>>, StoreError> {
    let mut all = Vec::with_capacity(keys.len());
    for batch in keys.chunks(BATCH) {
        let plain: Vec<Key> = batch.iter().map(|key| key.key.clone()).collect();
        let rows = store.fetch(&plain, &[]).await?.rows;
        all.extend(rows.into_iter().map(|row| {
            let row = row?;
            let value = T::Value::decode(row.value.as_ref()).ok()?;
            Some((row, value))
        }));
    }
    Ok(all)
}

/// How many rows a table has in a partition.
pub async fn count(
    store: &dyn Store,
    table: trellis_metastore::schema::TableId,
    partition: u64,
) -> Result<i64, StoreError> {
    let counted = Scan::of(table, partition, Scan::MAX_COUNT).count();
    match store.fetch(&[], &[counted]).await?.scans.pop() {
        Some(Scanned::Count(count)) if count < u64::from(Scan::MAX_COUNT) => {
            return Ok(i64::try_from(count).unwrap_or(i64::MAX));
        }
        _ => {}
    }
    let (mut total, mut after) = (0, None::<Vec<u8>>);
    loop {
        let mut scan = Scan::of(table, partition, Scan::MAX_ROWS);
        if let Some(after) = &after {
            scan = scan.after(after);
        }
        let Some(Scanned::Rows(rows)) = store.fetch(&[], &[scan]).await?.scans.pop() else {
            return Ok(total);
        };
        let Some((last, _)) = rows.last() else { return Ok(total) };
        after = Some(last.rest().to_vec());
        total += rows.len() as i64;
    }
}

//! Changes inside a write transaction: checked first, then made.

use heed::RwTxn;

use super::view::Rows;
use super::{Core, row};
use crate::change::{Change, Check, Effect, Fold, Row};
use crate::key::Key;
use crate::store::StoreError;
use crate::tx::RowRef;

/// The keys whose checks do not hold in the transaction.
pub(super) fn failed_checks(
    core: &Core,
    txn: &RwTxn<'_>,
    changes: &[Change],
) -> Result<Vec<Key>, StoreError> {
    let checked = changes.iter().filter(|change| change.check != Check::Nothing);
    failing(core, txn, checked.map(|change| (&change.key, change.check.clone())))
}

/// The keys of a run in this very transaction that are not as it believed. What it read there holds by itself.
pub(super) fn failed_beliefs(core: &Core, txn: &RwTxn<'_>, fold: &Fold) -> Result<Vec<Key>, StoreError> {
    let believed = fold.slots.iter().filter(|(_, slot)| !slot.read);
    failing(core, txn, believed.map(|(key, slot)| (key, slot.check())))
}

fn failing<'k>(
    core: &Core,
    txn: &RwTxn<'_>,
    checks: impl Iterator<Item = (&'k Key, Check)>,
) -> Result<Vec<Key>, StoreError> {
    let mut rows = Rows::new(core, txn);
    let mut failed = Vec::new();
    for (key, check) in checks {
        if !holds(&check, rows.get(key)?) {
            failed.push(key.clone());
        }
    }
    Ok(failed)
}

/// [`Check::holds`] on a row where it lies.
fn holds(check: &Check, row: Option<RowRef<'_>>) -> bool {
    match (check, row) {
        (Check::Nothing, _) | (Check::Absent, None) => true,
        (Check::Version(v), Some(row)) => row.version == *v,
        (Check::Exact(v, max, add), Some(row)) => (row.version, row.max, row.add) == (*v, *max, *add),
        _ => false,
    }
}

/// Makes all effects and returns how many rows were written. After an error the transaction is half-written and must
/// be aborted.
pub(super) fn write(core: &Core, txn: &mut RwTxn<'_>, changes: &[Change]) -> Result<usize, StoreError> {
    let mut buffer = Vec::new();
    let mut written = 0;
    for change in changes {
        let key = change.key.as_bytes();
        match &change.effect {
            Effect::Keep => continue,
            Effect::Insert(row) | Effect::Put(row) => put(core, txn, key, row, &mut buffer)?,
            Effect::Delete => {
                core.db.delete(txn, key).map_err(|error| core.error(error))?;
            }
            Effect::Merge { max, add } => {
                let before = Rows::new(core, txn).copy(&change.key)?;
                let Some(before) = before else { continue };
                put(core, txn, key, &before.merged(*max, *add), &mut buffer)?;
            }
        }
        written += 1;
    }
    Ok(written)
}

/// Writes the rows of a run in this very transaction as they stand after it, and returns how many there were. After an
/// error the transaction is half-written and must be aborted.
pub(super) fn write_fold(core: &Core, txn: &mut RwTxn<'_>, fold: &Fold) -> Result<usize, StoreError> {
    let mut buffer = Vec::new();
    let mut written = 0;
    for (key, slot) in fold.slots.iter().filter(|(_, slot)| slot.is_written()) {
        match slot.current() {
            Some(row) => put(core, txn, key.as_bytes(), &row, &mut buffer)?,
            None if slot.base.is_some() => {
                core.db.delete(txn, key.as_bytes()).map_err(|error| core.error(error))?;
            }
            None => continue,
        }
        written += 1;
    }
    Ok(written)
}

fn put(
    core: &Core,
    txn: &mut RwTxn<'_>,
    key: &[u8],
    row: &Row,
    buffer: &mut Vec<u8>,
) -> Result<(), StoreError> {
    row::encode(row, buffer);
    core.db.put(txn, key, buffer).map_err(|error| core.error(error))
}

/// Ends a transaction that wrote `written` rows: durably, or by dropping it when there are none.
pub(super) fn commit(core: &Core, txn: RwTxn<'_>, written: usize) -> Result<(), StoreError> {
    if written == 0 {
        txn.abort();
        return Ok(());
    }
    txn.commit().map_err(|error| core.commit_error(error))?;
    core.counters.commits.add(1);
    core.counters.rows_written.add(written);
    Ok(())
}

/// Checks and makes changes, and ends the transaction durably, or without a trace.
pub(super) fn check_and_commit(
    core: &Core,
    mut txn: RwTxn<'_>,
    changes: &[Change],
) -> Result<(), StoreError> {
    let failed = failed_checks(core, &txn, changes)?;
    if !failed.is_empty() {
        core.counters.conflicts.add(1);
        return Err(StoreError::Conflict(failed));
    }
    let written = write(core, &mut txn, changes)?;
    commit(core, txn, written)
}

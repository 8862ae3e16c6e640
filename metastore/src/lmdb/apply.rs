//! Changes inside a write transaction: checked first, then made.

use super::Core;
use super::log::Layer;
use super::transaction::{Transaction, Tree};
use crate::change::{Change, Check, Effect, Fold};
use crate::key::Key;
use crate::store::StoreError;
use crate::tx::RowRef;

/// The keys of a run in this very transaction that are not as it believed. What it read there holds by itself.
pub(super) fn failed_beliefs(transaction: &Transaction<'_>, fold: &Fold) -> Result<Vec<Key>, StoreError> {
    let believed = fold.slots.iter().filter(|(_, slot)| !slot.read);
    failing(transaction, believed.map(|(key, slot)| (key, slot.check())))
}

/// The keys whose checks do not hold in the transaction.
fn failing<'k>(
    transaction: &Transaction<'_>,
    checks: impl Iterator<Item = (&'k Key, Check)>,
) -> Result<Vec<Key>, StoreError> {
    let mut rows = transaction.rows();
    let mut failed = Vec::new();
    for (key, check) in checks.filter(|(_, check)| *check != Check::Nothing) {
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

/// Writes the rows of a run in this very transaction as they stand after it. After an error the transaction is
/// half-written and must be dropped.
pub(super) fn write_fold(transaction: &mut Transaction<'_>, fold: Fold) -> Result<(), StoreError> {
    for (key, slot) in fold.slots.into_iter().filter(|(_, slot)| slot.is_written()) {
        let was_there = slot.base.is_some();
        match slot.into_current() {
            None if !was_there => {}
            row => transaction.write(&key, row.as_ref())?,
        }
    }
    Ok(())
}

/// Checks and makes changes, and ends the transaction durably, or without a trace.
pub(super) fn check_and_commit(
    core: &Core,
    mut transaction: Transaction<'_>,
    changes: &[Change],
) -> Result<(), StoreError> {
    let checks = changes.iter().map(|change| (&change.key, change.check.clone()));
    let failed = failing(&transaction, checks)?;
    if !failed.is_empty() {
        core.counters.conflicts.add(1);
        return Err(StoreError::Conflict(failed));
    }
    for change in changes {
        let key = &change.key;
        match &change.effect {
            Effect::Keep => {}
            Effect::Insert(row) | Effect::Put(row) => transaction.write(key, Some(row))?,
            Effect::Delete => transaction.write(key, None)?,
            Effect::Merge { max, add } => {
                let before = transaction.rows().copy(key)?;
                if let Some(before) = before {
                    transaction.write(key, Some(&before.merged(*max, *add)))?;
                }
            }
        }
    }
    transaction.commit()
}

/// Puts the rows of a layer into the tree, in order, in durable commits of some rows each: the engine keeps the memory
/// of as many pages as its largest commit changed. After an error some are in the tree, and may be put there again.
pub(super) fn merge(core: &Core, layer: &Layer) -> Result<(), StoreError> {
    let mut left = layer.in_order();
    loop {
        let rows: Vec<_> = left.by_ref().take(core.config.merge_rows.max(1)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let mut tree = Tree::new(core, core.env.write_txn().map_err(|error| core.error(error))?);
        rows.iter().try_for_each(|entry| tree.write(entry.key, entry.row))?;
        if let Some(log) = &core.log {
            log.merges().announce(tree.id(), rows.iter().filter_map(|entry| Key::from_bytes(entry.key)));
        }
        tree.commit()?;
        core.counters.merges.add(1);
        core.counters.merged_rows.add(rows.len());
    }
}

//! The contract of a backend, one function per rule, numbered as the rules are; every backend passes all of them.

mod changes;
mod errors;
mod folds;
mod locks;
mod reads;

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use tokio::time::timeout;
use trellis_metastore::change::{Change, Check, Effect, KEEP_MAX, MAX_VALUE_BYTES, Row};
use trellis_metastore::key::{Key, MAX_KEY_BYTES, Scan};
use trellis_metastore::schema::TableId;
use trellis_metastore::store::{Scanned, Store, StoreError};
use trellis_metastore::tx::Versions;

use crate::backends::{Backend, Fixture, trial};

/// Longer than any wait that the contract allows.
const FOREVER: Duration = Duration::from_secs(30);
/// Time for a call of another task to reach the store and wait there. If it is slower the test proves less, and never
/// fails for it.
const TO_REACH_THE_STORE: Duration = Duration::from_millis(60);
const T: TableId = TableId::Inodes;
const MERGED: TableId = TableId::DirStats;

pub fn trials(backend: Backend) -> Vec<Trial> {
    macro_rules! rules {
        ($($file:ident::$rule:ident),* $(,)?) => {
            vec![$(trial(format!("{}::{}", backend.name, stringify!($rule)), backend, $file::$rule)),*]
        };
    }
    rules![
        reads::rule_00_keys_and_values_up_to_the_limits,
        reads::rule_01_one_fetch_is_one_snapshot,
        reads::rule_01_answers_come_in_request_order,
        locks::rule_02_commit_checks_after_its_last_lock,
        locks::rule_02_lock_returns_rows_as_of_its_last_lock,
        locks::rule_02_a_row_deleted_and_inserted_again_while_a_lock_waits_is_there,
        locks::rule_02_commits_and_locks_of_the_same_rows_do_not_deadlock,
        changes::rule_03_versions_are_kept_and_never_repeat,
        changes::rule_03_absent_rows_cannot_be_held,
        changes::rule_04_one_of_several_inserts_wins,
        changes::rule_04_absence_that_is_only_checked,
        changes::rule_04_a_scan_guards_nothing,
        changes::rule_05_put_and_delete_need_the_row_unchanged,
        changes::rule_05_merge_needs_the_version_only_and_keeps_it,
        changes::rule_05_conflict_names_exactly_the_failed_keys,
        folds::rule_05_changes_of_one_key_fold_into_what_they_do_one_by_one,
        folds::rule_05_a_fold_has_the_strictest_of_its_checks,
        reads::rule_06_scans_in_both_directions_with_limits,
        reads::rule_06_a_scan_starts_past_a_cursor_whose_row_need_not_exist,
        reads::rule_06_a_scan_never_leaves_its_partition_and_table,
        changes::rule_07_nothing_is_visible_after_an_error,
        locks::rule_08_every_wait_ends,
        locks::rule_08_a_dropped_lock_is_free,
        errors::rule_09_commits_are_there_after_reopening,
        errors::rule_10_errors_and_repetition,
        reads::rule_11_partitions_walk_the_whole_table,
    ]
}

fn key(partition: u64, rest: &str) -> Key {
    Key::new(partition, T, rest.as_bytes())
}

fn row(version: u64, value: &str) -> Row {
    Row { version, max: 0, add: 0, value: bytes::Bytes::copy_from_slice(value.as_bytes()) }
}

fn insert(key: &Key, row: Row) -> Change {
    Change { key: key.clone(), check: Check::Absent, effect: Effect::Insert(row) }
}

fn put(key: &Key, old: u64, row: Row) -> Change {
    Change { key: key.clone(), check: Check::Exact(old, 0, 0), effect: Effect::Put(row) }
}

fn merge(key: &Key, version: u64, max: i64, add: i64) -> Change {
    Change { key: key.clone(), check: Check::Version(version), effect: Effect::Merge { max, add } }
}

fn delete(key: &Key, check: Check) -> Change {
    Change { key: key.clone(), check, effect: Effect::Delete }
}

fn keep(key: &Key, check: Check) -> Change {
    Change { key: key.clone(), check, effect: Effect::Keep }
}

async fn get(store: &Arc<dyn Store>, key: &Key) -> Option<Row> {
    store.fetch(std::slice::from_ref(key), &[]).await.unwrap().rows.remove(0)
}

async fn rows(store: &Arc<dyn Store>, scan: Scan) -> Vec<String> {
    match store.fetch(&[], &[scan]).await.unwrap().scans.remove(0) {
        Scanned::Rows(rows) => {
            rows.iter().map(|(key, _)| String::from_utf8_lossy(key.rest()).into_owned()).collect()
        }
        Scanned::Count(_) => panic!("counted"),
    }
}

async fn count(store: &Arc<dyn Store>, scan: Scan) -> u64 {
    match store.fetch(&[], &[scan.count()]).await.unwrap().scans.remove(0) {
        Scanned::Count(count) => count,
        Scanned::Rows(_) => panic!("not counted"),
    }
}

async fn insert_all(store: &Arc<dyn Store>, keys: &[Key]) {
    let mut changes: Vec<Change> =
        keys.iter().enumerate().map(|(i, key)| insert(key, row(i as u64 + 1, "x"))).collect();
    changes.sort_by(|a, b| a.key.lock_order().cmp(&b.key.lock_order()));
    store.commit(&changes).await.unwrap();
}

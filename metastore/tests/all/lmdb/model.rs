//! Random commits on the embedded store and in memory come out the same.

use std::path::Path;

use libtest_mimic::Trial;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use trellis_metastore::change::{Change, Check, Effect, KEEP_MAX, Row};
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::lmdb::LmdbConfig;
use trellis_metastore::mem::Mem;
use trellis_metastore::schema::TableId;
use trellis_metastore::store::{Scanned, Store, StoreError};

use super::{open, open_as, trial};
use crate::backends::{merging, runtime, small_lmdb, with_log};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("random_commits_equal_the_store_in_memory", |dir| equal(dir, &small_lmdb())),
        trial("random_commits_to_a_log_equal_the_store_in_memory", |dir| equal(dir, &with_log())),
        trial("random_commits_to_a_log_that_is_merged_equal_the_store_in_memory", |dir| {
            equal(dir, &merging())
        }),
    ]
}

const TABLES: [TableId; 3] = [TableId::Inodes, TableId::DirStats, TableId::Settings];

fn keys() -> impl Strategy<Value = Key> {
    (0..3u64, 0..3usize, prop::sample::select(vec![0, 1, 2, 479, 480]))
        .prop_map(|(partition, table, bytes)| Key::new(partition, TABLES[table], &vec![b'k'; bytes]))
}

fn rows() -> impl Strategy<Value = Row> {
    let length = prop::sample::select(vec![0, 1, 100, 1900, 2100, 4096, 8191, 8192]);
    (1..6u64, -2..3i64, -2..3i64, length).prop_map(|(version, max, add, bytes)| Row {
        version,
        max,
        add,
        value: vec![7; bytes].into(),
    })
}

fn changes() -> impl Strategy<Value = Change> {
    let check = prop_oneof![
        3 => Just(Check::Nothing),
        2 => (1..6u64).prop_map(Check::Version),
        1 => (1..6u64, -2..3i64, -2..3i64).prop_map(|(v, max, add)| Check::Exact(v, max, add)),
        2 => Just(Check::Absent),
    ];
    let effect = prop_oneof![
        1 => Just(Effect::Keep),
        3 => rows().prop_map(Effect::Insert),
        2 => rows().prop_map(Effect::Put),
        1 => Just(Effect::Delete),
        2 => (prop_oneof![Just(KEEP_MAX), -5..6i64], -5..6i64)
            .prop_map(|(max, add)| Effect::Merge { max, add }),
    ];
    (keys(), check, effect).prop_map(|(key, check, effect)| Change { key, check, effect })
}

fn commits() -> impl Strategy<Value = Vec<Vec<Change>>> {
    let commit = prop::collection::vec(changes(), 1..5).prop_map(|mut changes| {
        changes.sort_by(|a, b| a.key.lock_order().cmp(&b.key.lock_order()));
        changes.dedup_by(|a, b| a.key == b.key);
        changes
    });
    prop::collection::vec(commit, 1..25)
}

fn equal(dir: &Path, config: &LmdbConfig) {
    let runtime = runtime();
    let case = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let result = runner.run(&commits(), |commits| {
        let dir = dir.join(case.replace(case.get() + 1).to_string());
        std::fs::create_dir(&dir).unwrap();
        let (lmdb, mem) = (open_as(&dir, config.clone()), Mem::new());
        for changes in &commits {
            let (one, other) =
                runtime.block_on(async { (lmdb.commit(changes).await, mem.commit(changes).await) });
            prop_assert_eq!(sorted(one), sorted(other));
        }
        prop_assert_eq!(runtime.block_on(dump(&lmdb)), mem.rows());
        drop(lmdb);
        let reopened = open(&dir);
        prop_assert_eq!(runtime.block_on(dump(&reopened)), mem.rows());
        Ok(())
    });
    result.unwrap();
}

fn sorted(result: Result<(), StoreError>) -> Result<(), StoreError> {
    result.map_err(|error| match error {
        StoreError::Conflict(mut keys) => {
            keys.sort();
            StoreError::Conflict(keys)
        }
        error => error,
    })
}

/// All rows, by walking all tables' partitions.
async fn dump(store: &impl Store) -> Vec<(Key, Row)> {
    let mut all = Vec::new();
    for table in TABLES {
        for partition in store.partitions(table, None, 100).await.unwrap() {
            let fetched = store.fetch(&[], &[Scan::of(table, partition, 100)]).await.unwrap();
            for scanned in fetched.scans {
                let Scanned::Rows(rows) = scanned else { panic!("counted") };
                all.extend(rows);
            }
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

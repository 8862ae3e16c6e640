//! The reaper and the sweep of kept answers.

use std::time::Duration;

use trellis_metastore::change::{Change, Check, Effect, Hold, Row};
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::schema::{
    Inode, Kind, TableId, hidden_inode, hidden_partitions, open_file, retry_partitions,
};
use trellis_metastore::store::Scanned;
use trellis_namenode::config::Config;
use trellis_namenode::engine::tx::Tx;
use trellis_namenode::jobs::{lease_expiry, reaper, retry_sweep};
use trellis_namenode::ops::reap::{Reaped, reap_directory};

use crate::calls::{assert_sound, root};
use crate::support::{Namenode, SUPERUSER, pass_time};

/// How many rows a table has in a range of partitions.
async fn rows(nn: &Namenode, table: TableId, partitions: std::ops::Range<u64>) -> u64 {
    let scans: Vec<Scan> = partitions.map(|p| Scan::of(table, p, Scan::MAX_COUNT).count()).collect();
    let fetched = nn.engine.backend().store().fetch(&[], &scans).await.unwrap();
    fetched.scans.iter().map(|scan| if let Scanned::Count(count) = scan { *count } else { 0 }).sum()
}

/// All partitions in which a table has rows.
pub async fn partitions(nn: &Namenode, table: TableId) -> Vec<u64> {
    nn.engine.backend().store().partitions(table, None, 10_000).await.unwrap()
}

/// Reaps until nothing is left to reap.
pub async fn reap_all(nn: &Namenode) {
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    while reaper::round(&nn.engine, &stopped).await.unwrap() > 0 {}
}

/// A row under a key, with a value that is none.
pub async fn spoil(nn: &Namenode, key: &Key) {
    let row = Row { version: 1 << 50, value: vec![0xff; 5].into(), ..Row::default() };
    let change = Change { key: key.clone(), check: Check::Nothing, effect: Effect::Put(row) };
    nn.engine.backend().store().commit(&[change]).await.unwrap();
}

/// One row that does not decode stops nobody.
pub async fn what_does_not_decode_is_passed_by() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    for partition in hidden_partitions() {
        spoil(&nn, &Key::new(partition, TableId::Inodes, &partition.to_be_bytes())).await;
    }
    su.mk("/d").await.unwrap();
    let files = [su.open("/d/a", "c1").await.unwrap().id, su.open("/d/b", "c1").await.unwrap().id];
    // One of a batch, whose companion does not decode.
    spoil(&nn, &open_file(files[0]).key).await;
    assert_eq!(su.rm("/d", true).await, Ok(true));
    reap_all(&nn).await;
    let passed = &nn.engine.datanodes().counts().passed;
    assert!(passed.load(std::sync::atomic::Ordering::Relaxed) > 0);
    let spoilt = hidden_partitions().end - hidden_partitions().start;
    assert_eq!(rows(&nn, TableId::Inodes, hidden_partitions()).await, spoilt + 1);
    let left = nn.read(SUPERUSER, move |tx| Ok(tx.get_all(&files.map(hidden_inode), Hold::Loose)?));
    let left = left.await.unwrap();
    assert!(left[0].is_some() && left[1].is_none(), "{left:?}");
}

pub async fn trees_are_freed() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    let kept = su.touch("/keep/f").await.unwrap();
    for i in 0..150 {
        su.touch(&format!("/a/wide/f{i}")).await.unwrap();
    }
    su.mk("/a/deep/er/and/deeper").await.unwrap();
    su.open("/a/deep/er/open", "c1").await.unwrap();
    su.open("/b", "c1").await.unwrap();
    assert_eq!(su.rm("/a", true).await, Ok(true));
    assert_eq!(su.rm("/b", true).await, Ok(true));
    assert_eq!(rows(&nn, TableId::Inodes, hidden_partitions()).await, 2);
    assert_sound(&nn).await;
    // Between any two batches everything fits together.
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    while reaper::round(&nn.engine, &stopped).await.unwrap() > 0 {
        assert_sound(&nn).await;
    }
    assert_eq!(rows(&nn, TableId::Inodes, hidden_partitions()).await, 0);
    assert_eq!(partitions(&nn, TableId::OpenFiles).await, Vec::<u64>::new());
    let keep = su.must("/keep").await.inode.id;
    assert_eq!(partitions(&nn, TableId::InodePaths).await, {
        let mut left = vec![keep, kept.id];
        left.sort_unstable();
        left
    });
    assert_eq!(su.must("/").await.children, 1);
    assert_sound(&nn).await;
}

/// The job itself: a detach wakes it, long before its period.
pub async fn a_detach_wakes_the_reaper() {
    let config = Config { reap_every: Duration::from_secs(3600), ..Config::default() };
    let nn = Namenode::fresh_with(config).await;
    root(&nn).touch("/a/b/f").await.unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let job = tokio::spawn(reaper::run(nn.engine.clone(), stopped));
    assert_eq!(root(&nn).rm("/a", true).await, Ok(true));
    let gone = async {
        while rows(&nn, TableId::Inodes, hidden_partitions()).await > 0
            || !partitions(&nn, TableId::InodePaths).await.is_empty()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("the reaper sleeps on");
    stop.send_replace(true);
    job.await.unwrap();
    assert_sound(&nn).await;
}

/// Jobs that find nothing ask once, whatever the number of partitions; and nothing escapes those that find much in one.
pub async fn an_idle_round_costs_one_trip() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    su.touch("/a/f").await.unwrap();
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    let trips = |spent: trellis_metastore::counters::Reading| spent.round_trips;
    let (freed, spent) = nn.spent(reaper::round(&nn.engine, &stopped)).await;
    assert_eq!((freed, trips(spent)), (Ok(0), 1));
    su.open("/a/open", "lively").await.unwrap();
    let (expired, spent) = nn.spent(lease_expiry::round(&nn.engine, None)).await;
    assert_eq!((expired, trips(spent)), (Ok(lease_expiry::Expired::default()), 1));
    let bucket = retry_partitions().start;
    let (swept, spent) = nn.spent(retry_sweep::sweep(&nn.engine, bucket)).await;
    assert_eq!((swept, trips(spent)), (Ok(0), 1));
}

/// More in one partition than the first read and a page further bring.
pub async fn a_crowded_bucket_is_emptied() {
    const CROWD: u64 = 400;
    let nn = Namenode::fresh().await;
    let plant = move |tx: &mut Tx<'_, '_>| {
        for id in (0..CROWD).map(|i| (1 << 30) + 64 * i) {
            tx.insert(&hidden_inode(id), &Inode { id, kind: Kind::File as i32, ..Inode::default() })?;
        }
        Ok(Reaped::default())
    };
    nn.write(SUPERUSER, plant).await.unwrap();
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    assert_eq!(reaper::round(&nn.engine, &stopped).await, Ok(CROWD));
    assert_eq!(reaper::round(&nn.engine, &stopped).await, Ok(0));
    assert_sound(&nn).await;
}

pub async fn a_batch_costs_two_fetches_and_one_commit() {
    let nn = Namenode::fresh().await;
    for i in 0..40 {
        root(&nn).touch(&format!("/d/f{i}")).await.unwrap();
        root(&nn).mk(&format!("/d/d{i}/e")).await.unwrap();
    }
    let id = root(&nn).must("/d").await.inode.id;
    root(&nn).rm("/d", true).await.unwrap();
    let op = move |tx: &mut Tx<'_, '_>| reap_directory(tx, id);
    let before = nn.engine.backend().counters().read();
    // As the job runs it: without an identity to keep.
    let done: Reaped = nn.engine.write_wait(nn.engine.own_ctx(), id, 0, false, Box::new(op)).await.unwrap();
    let spent = nn.engine.backend().counters().read().since(&before);
    assert_eq!(done, Reaped { entries: 80, more: false });
    assert_eq!((spent.fetches, spent.commits), (2, 1));
    // 40 files of two rows, 40 directories of four, the directory itself.
    assert_eq!(spent.rows_written, 40 * 2 + 40 * 4 + 1);
    assert_sound(&nn).await;
}

pub async fn kept_answers_are_swept() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    su.mk("/a").await.unwrap();
    pass_time(Duration::from_secs(400));
    su.mk("/b").await.unwrap();
    let count = || rows(&nn, TableId::RetryCache, retry_partitions());
    assert_eq!(count().await, 2);
    pass_time(Duration::from_secs(201));
    let mut swept = 0;
    for bucket in retry_partitions() {
        swept += retry_sweep::sweep(&nn.engine, bucket).await.unwrap();
    }
    assert_eq!((swept, count().await), (1, 1));
    assert_sound(&nn).await;
}

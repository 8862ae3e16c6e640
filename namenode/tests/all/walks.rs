//! Reading without a bound: permission walks and content summaries over large trees, and what they cost.

use std::sync::Arc;
use std::time::Duration;

use trellis_metastore::change::Row;
use trellis_metastore::counters::Reading;
use trellis_metastore::key::Key;
use trellis_metastore::mem::Mem;
use trellis_metastore::schema::Kind;
use trellis_namenode::config::Config;
use trellis_namenode::engine::walks::{BATCH, ROWS};
use trellis_proto::exception::Kind as Class;

use crate::actor::{Actor, Said};
use crate::plant::{copy_of, plant};
use crate::support::Namenode;

/// A namenode over a copy of rows, its hints warm for `path`.
async fn warm_copy(rows: &[(Key, Row)], incarnation: u64, path: &str) -> Namenode {
    let store = Arc::new(copy_of(rows).await);
    let nn = Namenode::start(store, incarnation, Config::default()).await;
    let root = Actor::superuser(&nn);
    root.status(path).await.unwrap().unwrap();
    // The first write reserves inode ids.
    root.mkdirs("/u/warm", 0o755, true).await.unwrap();
    nn
}

/// Alice's directory `/u/tree`, with what `fill` makes in it.
async fn tree(fill: impl AsyncFn(&Namenode)) -> Vec<(Key, Row)> {
    let store = Mem::new();
    let nn = Namenode::start(Arc::new(store.clone()), 1, Config::default()).await;
    let root = Actor::superuser(&nn);
    root.give_dir("/u", 0o777, "alice", "bin").await;
    root.give_dir("/u/tree", 0o755, "alice", "bin").await;
    fill(&nn).await;
    store.rows()
}

fn trips(spent: &Reading) -> (u64, u64) {
    assert_eq!(spent.round_trips, spent.fetches + spent.commits);
    (spent.fetches, spent.commits)
}

/// What the deletion of the tree costs a user.
async fn delete_costs(rows: &[(Key, Row)], incarnation: u64, user: &str) -> (u64, u64) {
    let nn = warm_copy(rows, incarnation, "/u/tree").await;
    let (deleted, spent) = nn.spent(Actor::new(&nn, user).delete("/u/tree", true)).await;
    assert_eq!(deleted, Ok("true".to_owned()));
    trips(&spent)
}

/// Other than the superuser pay for the walk: the top, then its full directories, 64 at a time; empty ones are free.
pub async fn deleting_a_thousand_directories_costs_the_walk() {
    const DIRECTORIES: usize = 1000;
    let rows = tree(async |nn| {
        plant(nn, "/u/tree", Kind::Directory, DIRECTORIES, |i| format!("d{i}")).await;
        plant(nn, "/u/tree", Kind::Directory, 50, |i| format!("empty{i}")).await;
        for i in 0..DIRECTORIES {
            plant(nn, &format!("/u/tree/d{i}"), Kind::File, 1, |_| "f".into()).await;
        }
    })
    .await;
    assert_eq!(delete_costs(&rows, 2, "hdfs").await, (1, 1));
    let walk = 1 + DIRECTORIES.div_ceil(BATCH) as u64;
    assert_eq!(delete_costs(&rows, 3, "alice").await, (1 + walk + 1, 1));
}

/// The number of files makes no difference, to the superuser and the owner, for deletions and renames.
pub async fn files_below_cost_nothing() {
    let mut all = Vec::new();
    for (turn, files) in [1, 100_000].into_iter().enumerate() {
        let rows = tree(async |nn| {
            plant(nn, "/u/tree", Kind::File, files, |i| format!("f{i}")).await;
        })
        .await;
        let mut costs = Vec::new();
        for (i, user) in ["hdfs", "alice"].into_iter().enumerate() {
            let incarnation = (10 + 10 * turn + i) as u64;
            costs.push(delete_costs(&rows, incarnation, user).await);
        }
        let nn = warm_copy(&rows, 9, "/u/tree").await;
        for user in ["hdfs", "alice"] {
            let actor = Actor::new(&nn, user);
            actor.status("/u/moved").await.unwrap();
            let (renamed, spent) = nn.spent(actor.rename("/u/tree", "/u/moved")).await;
            assert_eq!(renamed, Ok("true".to_owned()));
            costs.push(trips(&spent));
            actor.rename("/u/moved", "/u/tree").await.unwrap();
        }
        all.push(costs);
    }
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], [(1, 1), (3, 1), (1, 1), (1, 1)]);
}

/// Directories larger than a batch are read on in pages, at the top and below.
pub async fn a_summary_reads_large_directories_in_pages() {
    const FILES: usize = 5000;
    const DIRECTORIES: usize = 130;
    let rows = tree(async |nn| {
        plant(nn, "/u/tree", Kind::Directory, DIRECTORIES, |i| format!("d{i}")).await;
        plant(nn, "/u/tree", Kind::File, FILES, |i| format!("f{i}")).await;
        plant(nn, "/u/tree/d7", Kind::File, FILES, |i| format!("f{i}")).await;
    })
    .await;
    let nn = warm_copy(&rows, 2, "/u/tree").await;
    let alice = Actor::new(&nn, "alice");
    let (sum, spent) = nn.spent(alice.content_summary("/u/tree")).await;
    let expected = format!("dirs={} files={} length=0 space=0", DIRECTORIES + 1, 2 * FILES);
    assert_eq!(sum, Ok(expected));
    let rows = ROWS as usize;
    let top = (DIRECTORIES + FILES).div_ceil(rows);
    let below = DIRECTORIES.div_ceil(BATCH);
    let further = (FILES - rows / BATCH).div_ceil(rows);
    assert_eq!(trips(&spent), (2 + (top + below + further) as u64, 0));
}

fn class<T: std::fmt::Debug>(said: Said<T>) -> Class {
    said.unwrap_err().kind
}

/// What a walk refuses, and with which words.
pub async fn walks_refuse_as_stock_does() {
    let nn = Namenode::fresh().await;
    let (root, alice) = (Actor::superuser(&nn), Actor::new(&nn, "alice"));
    root.give_dir("/w", 0o777, "alice", "bin").await;
    root.give_dir("/w/u", 0o755, "alice", "bin").await;
    root.give_dir("/w/u/sticky/in", 0o755, "alice", "bin").await;
    root.give("/w/u/sticky", 0o755, "alice", "bin").await;
    plant(&nn, "/w/u/sticky", Kind::File, 3, |i| format!("mine{i}")).await;
    root.give_file("/w/u/sticky/theirs", 0o644, "bob", "bin").await;
    root.give("/w/u/sticky", 0o1777, "hdfs", "supergroup").await;
    let said = alice.delete("/w/u", true).await.unwrap_err();
    assert_eq!(
        said.message,
        "Permission denied by sticky bit: user=alice, path=\"/w/u/sticky/theirs\":bob:bin:-rw-r--r--, \
         parent=\"/w/u/sticky\":alice:bin:drwxr-xr-x"
    );
    assert_eq!(class(alice.quota_usage("/w/u").await), Class::AccessControl);
    let counted = "dirs=3 files=4 length=0 space=0";
    assert_eq!(alice.content_summary("/w/u").await, Ok(counted.to_owned()));
    root.give("/w/u/sticky/in", 0o700, "hdfs", "supergroup").await;
    assert_eq!(
        alice.content_summary("/w/u").await.unwrap_err().message,
        "Permission denied: user=alice, access=READ_EXECUTE, inode=\"/w/u/sticky/in\":hdfs:supergroup:drwx------"
    );
    root.delete("/w/u/sticky/theirs", false).await.unwrap();
    assert_eq!(
        alice.delete("/w/u", true).await.map_err(|error| error.message),
        Err(
            "Permission denied by sticky bit: user=alice, path=\"/w/u/sticky/in\":hdfs:supergroup:drwx------, \
             parent=\"/w/u/sticky\":alice:bin:drwxr-xr-x"
                .to_owned()
        )
    );
    root.delete("/w/u/sticky/in", false).await.unwrap();
    assert_eq!(alice.delete("/w/u", true).await, Ok("true".to_owned()));
}

/// The root's children lie in many partitions.
pub async fn a_summary_of_the_root() {
    let nn = Namenode::fresh().await;
    let root = Actor::superuser(&nn);
    plant(&nn, "/", Kind::Directory, 200, |i| format!("d{i}")).await;
    plant(&nn, "/", Kind::File, 100, |i| format!("f{i}")).await;
    plant(&nn, "/d7", Kind::File, 100, |i| format!("f{i}")).await;
    let expected = "dirs=201 files=200 length=0 space=0".to_owned();
    assert_eq!(root.content_summary("/").await, Ok(expected.clone()));
    assert_eq!(Actor::new(&nn, "bob").content_summary("/").await, Ok(expected));
}

/// Walks beyond those that may go on at a time wait, but not for ever.
pub async fn walks_wait_for_each_other() {
    const CALL_AGE: Duration = Duration::from_millis(300);
    let nn = Namenode::fresh_with(Config { call_age: CALL_AGE, ..Config::default() }).await;
    let root = Actor::superuser(&nn);
    root.give_dir("/w/u", 0o755, "alice", "bin").await;
    let expected = "dirs=1 files=0 length=0 space=0".to_owned();
    let walks = nn.engine.walks();
    let all = walks.acquire_many(walks.available_permits() as u32).await.unwrap();
    assert_eq!(class(root.content_summary("/w/u").await), Class::Retriable);
    let waits = root.content_summary("/w/u");
    let lets = async {
        tokio::time::sleep(CALL_AGE / 6).await;
        drop(all);
    };
    assert_eq!(futures::join!(waits, lets).0, Ok(expected.clone()));
    let many = futures::future::join_all((0..100).map(|_| root.content_summary("/w/u"))).await;
    assert!(many.iter().all(|sum| *sum == Ok(expected.clone())), "{many:?}");
}

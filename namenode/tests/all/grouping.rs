//! How many calls share a durable commit of the embedded store, counted by the store.

use std::pin::pin;
use std::sync::mpsc;

use futures::future::join_all;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use trellis_metastore::schema::Block;
use trellis_namenode::config::Config;
use trellis_namenode::datanodes::reports::incremental;
use trellis_namenode::engine::Op;
use trellis_namenode::ops::report::{Reported, What};

use crate::actor::Actor;
use crate::calls::{new_file, root};
use crate::files::named;
use crate::reports;
use crate::support::{Answer, FRESH_STORE, Namenode};

const CREATORS: usize = 64;
/// Files that each of them creates.
const FILES: usize = 8;
/// Fewer operations in a commit would mean that creators in one directory hold each other up.
const LEAST_PER_COMMIT: u64 = 16;

/// The writer is held until the calls of all creators wait, so the counts do not depend on who runs when.
pub async fn creators_in_one_directory_share_commits() {
    FRESH_STORE.set("lmdb");
    // One range of ids serves all calls: to reserve another is a commit too.
    let nn = Namenode::fresh_with(Config { id_range: 10_000_000, ..Config::default() }).await;
    let root = Actor::superuser(&nn);
    root.mkdirs("/hot", 0o755, true).await.unwrap();
    let ((), spent) = nn.spent(create_in_rounds(&nn, &root)).await;
    let created = (CREATORS * FILES) as u64;
    assert!(spent.grouped_operations / spent.commits >= LEAST_PER_COMMIT, "{spent:?}");
    // A round is the group that holds the writer, which commits nothing, and one group of all creates.
    let rounds = FILES as u64;
    assert_eq!((spent.commits, spent.groups), (rounds, 2 * rounds), "{spent:?}");
    assert_eq!(spent.grouped_operations, created + rounds, "{spent:?}");
    assert_eq!((spent.retries, spent.conflicts), (0, 0), "{spent:?}");
    assert_eq!(root.listing("/hot", "").await.unwrap().unwrap().entries.len() as u64, created);
}

async fn create_in_rounds(nn: &Namenode, root: &Actor) {
    for round in 0..FILES {
        let (holds, release) = hold_writer(nn).await;
        let mut creates = pin!(join_all((0..CREATORS).map(|creator| async move {
            root.create(&format!("/hot/f{creator}-{round}"), &format!("creator-{creator}"), |_| {}).await
        })));
        assert!(futures::poll!(&mut creates).is_pending());
        drop(release);
        for answer in creates.await {
            answer.unwrap();
        }
        holds.await.unwrap();
    }
}

/// Writers of files of one block: create, addBlock, the datanode's report, complete. What all of them do at a time is one
/// commit: none of the four excludes another's.
pub async fn writers_of_one_block_files_share_commits() {
    FRESH_STORE.set("lmdb");
    let nn = Namenode::fresh_with(Config { id_range: 10_000_000, ..Config::default() }).await;
    root(&nn).mkdirs("/small", 0o777, true).await.unwrap();
    reports::register(&nn, "u1").await.unwrap();
    reports::storages(&nn, "u1", &["s1"]).await.unwrap();
    reports::show_live(&nn);
    let ((), spent) = nn.spent(write_in_rounds(&nn)).await;
    let files = (CREATORS * FILES) as u64;
    assert_eq!((spent.commits, spent.conflicts, spent.retries), (4 * FILES as u64, 0, 0), "{spent:?}");
    assert!(spent.commits * 10 <= 6 * files, "{spent:?}");
}

async fn write_in_rounds(nn: &Namenode) {
    let (path, holder) = (|i: usize| format!("/small/{i}"), |i: usize| format!("writer-{i}"));
    for round in 0..FILES {
        let files = || (0..CREATORS).map(move |writer| (round * CREATORS + writer, writer));
        let ids = together(
            nn,
            files().map(|(i, writer)| async move {
                let mut call = new_file(&path(i), &holder(writer), 1);
                (call.block_size, call.replication) = (4096, 1);
                root(nn).create_as(call).await.unwrap().id
            }),
        )
        .await;
        let ids = &ids;
        let blocks = together(
            nn,
            files().map(|(i, writer)| async move {
                root(nn).add_block(&path(i), ids[writer], &holder(writer), None).await.unwrap().block
            }),
        )
        .await;
        let told = |block: &Block| Reported {
            storage: reports::STORAGE,
            block: block.id,
            stamp: block.stamp,
            length: 4096,
            what: What::Received(None),
        };
        let applied = incremental(&nn.engine, "u1", blocks.iter().map(told).collect()).await.unwrap();
        assert_eq!(applied.changed as usize, CREATORS);
        let blocks = &blocks;
        let closed = together(
            nn,
            files().map(|(i, writer)| async move {
                let last = Some(named(&blocks[writer], 4096));
                root(nn).close(&path(i), ids[writer], &holder(writer), last).await.unwrap()
            }),
        )
        .await;
        assert!(closed.into_iter().all(|closed| closed));
    }
}

/// Makes calls that all wait before the writer takes any.
async fn together<A>(nn: &Namenode, calls: impl Iterator<Item = impl Future<Output = A>>) -> Vec<A> {
    let (holds, release) = hold_writer(nn).await;
    let mut calls = pin!(join_all(calls));
    assert!(futures::poll!(&mut calls).is_pending());
    drop(release);
    let answers = calls.await;
    holds.await.unwrap();
    answers
}

/// Keeps the writer busy with an operation that writes nothing, until the sender is dropped.
async fn hold_writer(nn: &Namenode) -> (JoinHandle<()>, mpsc::Sender<()>) {
    let (release, released) = mpsc::channel::<()>();
    let (inside, is_inside) = oneshot::channel();
    let mut inside = Some(inside);
    let op: Op<Answer> = Box::new(move |_| {
        inside.take().map(|inside| inside.send(()));
        let _ = released.recv(); // until the sender is gone
        Ok(Answer::default())
    });
    let engine = nn.engine.clone();
    let holds = tokio::spawn(async move {
        engine.write_wait(engine.own_ctx(), 0, 0, false, op).await.unwrap();
    });
    is_inside.await.unwrap();
    (holds, release)
}

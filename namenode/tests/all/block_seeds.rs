//! Interleavings of writers, datanodes and the reaper, each by name, over many seeds of a simulated world.

use std::time::Duration;

use futures::future::join;
use tokio::time::{Instant, sleep, timeout};
use trellis_metastore::faulty::Blow;
use trellis_metastore::schema::{
    Block, CommandKind, Datanode, ReplicaState, StorageReplicas, storage_partition,
};
use trellis_metastore::sim::{self, Plan};
use trellis_namenode::datanodes::reports::{Listed, full, incremental, inherit, take_over};
use trellis_namenode::datanodes::view::Liveness;
use trellis_namenode::engine::Op;
use trellis_namenode::jobs::reaper;
use trellis_namenode::jobs::replication::Replication;
use trellis_namenode::ops::datanodes::{self, Claim};
use trellis_namenode::ops::redundancy::{Noted, note_storage};
use trellis_namenode::ops::report::{Reported, What};
use trellis_proto::exception::Kind;

use crate::calls::{assert_sound, root};
use crate::files::{give_datanodes, named, row, rows, show, storage};
use crate::reports::own;
use crate::seeds::{Cluster, kind, over_seeds};
use crate::support::{Namenode, pass_time};

/// The named seeds.
pub const ALL: &[(&str, fn())] = &[
    ("a_report_judging_by_a_row_that_moved_on", a_report_judging_by_a_row_that_moved_on),
    ("complete_and_a_report_against_delete_r", complete_and_a_report_against_delete_r),
    ("an_acknowledged_report_whose_owner_dies", an_acknowledged_report_whose_owner_dies),
    ("delete_create_and_a_rename_of_written_files", delete_create_and_a_rename_of_written_files),
    ("an_append_against_a_removal", an_append_against_a_removal),
    ("a_failed_storage_against_a_concat", a_failed_storage_against_a_concat),
];

/// How long a datanode waits for a namenode's answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Three datanodes that registered everywhere and that the first namenode owns.
pub async fn with_datanodes(c: &Cluster) {
    give_datanodes(&c.calm).await;
    for i in 0..3 {
        let call = Claim { member: c.one.engine.member(), from: 0 };
        let op: Op<Datanode> = Box::new(move |tx| datanodes::claim(tx, &row(i).uuid, &call));
        let row = own(&c.calm, op).await.unwrap();
        for nn in [&c.calm, &c.one, &c.two] {
            nn.engine.datanodes().registry().registered(row.clone(), Instant::now(), nn.engine.now_ms());
            show(nn, &[Liveness::Live; 3]);
        }
    }
}

fn received(i: u32, block: &Block, length: u64) -> Vec<Reported> {
    let what = What::Received(None);
    vec![Reported { storage: storage(i), block: block.id, stamp: block.stamp, length, what }]
}

/// A datanode tells both namenodes, as they do; of an owner that does not answer it is taken over.
async fn tell(c: &Cluster, i: u32, block: &Block, length: u64) {
    let uuid = row(i).uuid;
    let send = async |nn: &Namenode| {
        timeout(PATIENCE, incremental(&nn.engine, &uuid, received(i, block, length))).await
    };
    let (first, second) = (send(&c.one).await, send(&c.two).await);
    second.unwrap().unwrap();
    if !first.is_ok_and(|told| told.is_ok()) {
        owner_is_gone(c, i).await;
    }
}

pub async fn tell_all(c: &Cluster, block: &Block, length: u64) {
    for i in 0..3 {
        tell(c, i, block, length).await;
    }
}

/// The second namenode owns a datanode from now on.
async fn owner_is_gone(c: &Cluster, i: u32) {
    let call = Claim { member: c.two.engine.member(), from: c.one.engine.member() };
    take_over(&c.two.engine, &row(i).uuid, call).await.unwrap();
    inherit(&c.two.engine, &row(i).uuid).await.unwrap();
}

/// Full reports of what datanodes have, given as block, stamp and length: whoever owns them now.
pub async fn tell_in_full(nn: &Namenode, on: &[(u64, u64, u64)]) {
    for i in 0..3 {
        let op: Op<Datanode> = Box::new(move |tx| datanodes::look_up(tx, &row(i).uuid));
        let from = nn.engine.read_wait(nn.engine.own_ctx(), 0, op).await.unwrap().owner;
        take_over(&nn.engine, &row(i).uuid, Claim { member: nn.engine.member(), from }).await.unwrap();
        let listed = |(block, stamp, length): &(u64, u64, u64)| Listed {
            block: *block,
            state: ReplicaState::Finalized as u8,
            stamp: *stamp,
            length: *length,
        };
        let mut listed: Vec<Listed> = on.iter().map(listed).collect();
        listed.sort_unstable();
        let now_ms = nn.engine.now_ms() + 1;
        full(&nn.engine, &row(i).uuid, storage(i), &listed, now_ms).await.unwrap();
    }
}

/// How many replicas are known.
pub async fn replicas(nn: &Namenode) -> usize {
    let mut count = 0;
    for i in 0..3 {
        count += rows::<StorageReplicas>(nn, storage_partition(storage(i))).await.len();
    }
    count
}

/// A closed file of one block, by calm hands.
async fn written(c: &Cluster, text: &str, length: u64) -> (u64, Block) {
    let su = root(&c.calm);
    let id = su.write_file(text, &[length]).await;
    (id, su.blocks(id).await.remove(0))
}

/// A pipeline goes on without a datanode, whose report of the old generation is on its way. Somebody looks at it, at
/// once or, when neither the report nor complete saw the other, with the next full report.
fn a_report_judging_by_a_row_that_moved_on() {
    over_seeds(&["at once"], |c| async move {
        with_datanodes(&c).await;
        let su = root(&c.calm);
        let id = su.begin("/f", "c1").await;
        su.setrep("/f", 2).await.unwrap();
        let block = su.add_block("/f", id, "c1", None).await.unwrap().block;
        let wait = Duration::from_millis(c.world.random(60));
        let report = async {
            sleep(wait).await;
            incremental(&c.one.engine, &row(0).uuid, received(0, &block, 100)).await.unwrap();
        };
        let write = async {
            let at = root(&c.two);
            let stamp = at.next_stamp(named(&block, 0), "c1").await.unwrap();
            let new = Block { stamp, ..block.clone() };
            at.new_pipeline(named(&block, 0), named(&new, 0), "c1", &[1, 2]).await.unwrap();
            su.report(&new, 100, ReplicaState::Finalized, &[1, 2]).await;
            assert_eq!(at.close("/f", id, "c1", Some(named(&new, 100))).await, Ok(true));
            new
        };
        let ((), new) = join(report, write).await;
        c.settle().await;
        let found = su.locations("/f", 0, 100).await.unwrap().blocks.remove(0);
        assert_eq!((found.storages.len(), found.block.stamp), (2, new.stamp));
        if su.concern(id).await.is_some() {
            return "at once".into();
        }
        let listed = [Listed { block: block.id, state: 0, stamp: block.stamp, length: 100 }];
        let (uuid, now_ms) = (row(0).uuid, c.one.engine.now_ms() + 1);
        full(&c.one.engine, &uuid, storage(0), &listed, now_ms).await.unwrap();
        assert!(su.concern(id).await.is_some());
        "later".into()
    });
}

/// Whatever a report adds while its block is freed, the next full report takes away.
fn complete_and_a_report_against_delete_r() {
    over_seeds(&["closed", "gone"], |c| async move {
        with_datanodes(&c).await;
        let su = root(&c.calm);
        su.mk("/a/b").await.unwrap();
        let id = su.begin("/a/b/f", "c1").await;
        let block = su.add_block("/a/b/f", id, "c1", None).await.unwrap().block;
        su.report(&block, 7, ReplicaState::Finalized, &[1, 2]).await;
        let waits = [c.world.random(30), c.world.random(60)].map(Duration::from_millis);
        let (_stop, stopped) = tokio::sync::watch::channel(false);
        let delete = async {
            assert_eq!(root(&c.two).rm("/a", true).await, Ok(true));
            while reaper::round(&c.two.engine, &stopped).await.unwrap() > 0 {}
        };
        let complete = async {
            sleep(waits[0]).await;
            root(&c.one).close("/a/b/f", id, "c1", Some(named(&block, 7))).await
        };
        let report = async {
            sleep(waits[1]).await;
            incremental(&c.one.engine, &row(0).uuid, received(0, &block, 7)).await.unwrap();
        };
        let ((), (done, ())) = join(delete, join(complete, report)).await;
        let late = root(&c.one).close("/a/b/f", id, "c1", Some(named(&block, 7))).await;
        assert_eq!(kind(&late), Some(Kind::FileNotFound));
        c.settle().await;
        assert!(replicas(&c.calm).await <= 1);
        tell_in_full(&c.calm, &[(block.id, block.stamp, 7)]).await;
        assert_eq!(replicas(&c.calm).await, 0);
        for i in 0..3 {
            assert!(su.told(i, CommandKind::Invalidate, block.id).await.is_some());
        }
        assert_sound(&c.calm).await;
        match done {
            Ok(yes) => {
                assert!(yes);
                "closed".into()
            }
            Err(error) => {
                assert_eq!(error.kind, Kind::FileNotFound);
                "gone".into()
            }
        }
    });
}

/// What another than the owner acknowledged is not lost with the owner, wherever that dies.
fn an_acknowledged_report_whose_owner_dies() {
    let runs = sim::sweep(&Plan::default(), 0, usize::MAX, &[Blow::Die], |world| async move {
        let c = Cluster::of(world).await;
        with_datanodes(&c).await;
        let su = root(&c.calm);
        let id = su.begin("/f", "c1").await;
        let block = su.add_block("/f", id, "c1", None).await.unwrap().block;
        let uuid = row(0).uuid;
        // The second one answers; what becomes of the first one's call nobody waits for.
        let kept = incremental(&c.two.engine, &uuid, received(0, &block, 7)).await.unwrap();
        assert!(kept.is_not_owner);
        let _ = timeout(PATIENCE, incremental(&c.one.engine, &uuid, received(0, &block, 7))).await;
        owner_is_gone(&c, 0).await;
        assert_eq!(root(&c.two).close("/f", id, "c1", Some(named(&block, 7))).await, Ok(true));
        // The old owner applies nothing any more.
        let other = Block { stamp: 9, ..block.clone() };
        let _ = timeout(PATIENCE, incremental(&c.one.engine, &uuid, received(0, &other, 1))).await;
        c.settle().await;
        let found = su.locations("/f", 0, 7).await.unwrap().blocks.remove(0);
        assert_eq!((found.storages, replicas(&c.calm).await), (vec![storage(0)], 1));
    });
    assert!(runs > 4, "{runs}");
}

fn delete_create_and_a_rename_of_written_files() {
    over_seeds(&["old moved", "new moved", "none moved"], |c| async move {
        with_datanodes(&c).await;
        let (old, old_block) = written(&c, "/s/f", 10).await;
        let wait = Duration::from_millis(c.world.random(80));
        let rename = async {
            sleep(wait).await;
            root(&c.one).mv("/s/f", "/s/g").await.unwrap()
        };
        let replace = async {
            let at = root(&c.two);
            let removed = at.rm("/s/f", false).await.unwrap();
            let new = at.begin("/s/f", "c1").await;
            // Its writer knows it by its id, wherever it is.
            let block = at.add_block("/s/f", new, "c1", None).await.unwrap().block;
            root(&c.calm).report(&block, 20, ReplicaState::Finalized, &[0, 1, 2]).await;
            assert_eq!(at.close("/s/f", new, "c1", Some(named(&block, 20))).await, Ok(true));
            (removed, new, block)
        };
        let (moved, (removed, new, block)) = join(rename, replace).await;
        c.settle().await;
        let at = async |text: &str| {
            let found = root(&c.calm).stat(text).await.unwrap();
            found.map(|status| (status.inode.id, status.inode.length))
        };
        let (old, new) = (Some((old, 10)), Some((new, 20)));
        let (f, g, blocks, note) = match (moved, removed) {
            (true, false) => (new, old, vec![block, old_block], "old moved"),
            (true, true) => (None, new, vec![block], "new moved"),
            (false, _) => (new, None, vec![block], "none moved"),
        };
        assert_eq!((at("/s/f").await, at("/s/g").await), (f, g));
        assert_eq!(replicas(&c.calm).await, 3 * blocks.len());
        note.into()
    });
}

/// Whoever writes on reads which replicas there are while the leader has some of them removed: of those that it chose none
/// is to be deleted. So it is with a truncate, which chooses who takes part in the cut.
fn an_append_against_a_removal() {
    over_seeds(&["append all", "append one", "truncate all", "truncate one"], |c| async move {
        with_datanodes(&c).await;
        let (id, block) = written(&c, "/f", 10).await;
        let su = root(&c.calm);
        su.setrep("/f", 1).await.unwrap();
        let waits = [c.world.random(40), c.world.random(40)].map(Duration::from_millis);
        let cuts = c.world.random(2) == 0;
        let remove = async {
            sleep(waits[0]).await;
            pass_time(Duration::from_secs(5));
            Replication::default().round(&c.one.engine, None).await.unwrap().removed
        };
        let write = async {
            sleep(waits[1]).await;
            match cuts {
                true => assert_eq!(root(&c.two).truncate("/f", 5, "c1").await, Ok(false)),
                false => drop(root(&c.two).append("/f", "c1", false).await.unwrap()),
            }
        };
        let (removed, ()) = join(remove, write).await;
        c.settle().await;
        let now = su.blocks(id).await.remove(0);
        for i in 0..3 {
            let told = su.told(i, CommandKind::Invalidate, block.id).await;
            assert!(told.is_none() || !now.expected.contains(&storage(i)), "{now:?} {told:?}");
        }
        assert_eq!(now.expected.len() as u64, 3 - removed);
        let which = if removed == 0 { "all" } else { "one" };
        format!("{} {which}", if cuts { "truncate" } else { "append" })
    });
}

/// A file with replicas on a storage that is gone is noted while it is joined to another that has none there. Whichever
/// comes first, the file that has the blocks is looked at.
fn a_failed_storage_against_a_concat() {
    over_seeds(&["noted"], |c| async move {
        with_datanodes(&c).await;
        let su = root(&c.calm);
        su.mk("/d").await.unwrap();
        for (text, without) in [("/d/target", 0), ("/d/source", 2)] {
            let (_, block) = written(&c, text, 10).await;
            su.setrep(text, 2).await.unwrap();
            let gone = Reported { what: What::Deleted, ..received(without, &block, 10).remove(0) };
            incremental(&c.one.engine, &row(without).uuid, vec![gone]).await.unwrap();
        }
        let id = su.must("/d/target").await.inode.id;
        for _ in 0..2 {
            pass_time(Duration::from_secs(5));
            Replication::default().round(&c.calm.engine, None).await.unwrap();
        }
        assert_eq!(su.concern(id).await, None);
        for nn in [&c.calm, &c.one, &c.two] {
            show(nn, &[Liveness::Dead, Liveness::Live, Liveness::Live]);
        }
        let waits = [c.world.random(40), c.world.random(40)].map(Duration::from_millis);
        let note = async {
            sleep(waits[0]).await;
            let op: Op<Noted> = Box::new(|tx| note_storage(tx, storage(0), None, None));
            own(&c.one, op).await.unwrap().replicas
        };
        let join_files = async {
            sleep(waits[1]).await;
            root(&c.two).concat("/d/target", &["/d/source"]).await.unwrap();
        };
        assert_eq!(join(note, join_files).await.0, 1);
        c.settle().await;
        assert!(su.concern(id).await.is_some());
        "noted".into()
    });
}

//! Interleavings that broke an earlier draft of the design, each by name, over many seeds of a simulated world: two
//! namenodes over one store that waits at random points.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join;
use trellis_metastore::faulty::{Blow, Faults};
use trellis_metastore::sim::{self, Plan, World};
use trellis_namenode::config::Config;
use trellis_namenode::jobs::{lease_expiry, reaper};
use trellis_proto::exception::{Kind, RpcError};

use crate::calls::{Answered, assert_sound, new_file, root};
use crate::reap::reap_all;
use crate::support::{Namenode, pass_time, rounds};

/// The named seeds.
pub const ALL: &[(&str, fn())] = &[
    ("rmdir_against_create", rmdir_against_create),
    ("crossing_renames", crossing_renames),
    ("the_reaper_against_a_rename_out_of_the_tree", the_reaper_against_a_rename_out_of_the_tree),
    ("a_mkdir_that_loses_and_a_create_inside_it", a_mkdir_that_loses_and_a_create_inside_it),
    ("a_refusal_that_saw_a_write_that_loses", a_refusal_that_saw_a_write_that_loses),
    ("delete_create_and_a_rename_still_running", delete_create_and_a_rename_still_running),
    ("a_hedged_false_then_true", a_hedged_false_then_true),
    ("a_hedged_rename", a_hedged_rename),
    ("a_directory_renamed_under_64_creators", a_directory_renamed_under_64_creators),
    ("a_renewal_between_expiry_s_fetch_and_commit", a_renewal_between_expiry_s_fetch_and_commit),
    ("complete_against_a_deletion_above", complete_against_a_deletion_above),
    ("repeats_at_another_namenode", repeats_at_another_namenode),
    ("a_namenode_dies_at_every_store_call", a_namenode_dies_at_every_store_call),
];

/// A world of two namenodes, and a calm one beside them, without faults.
pub struct Cluster {
    pub world: Arc<World>,
    pub calm: Namenode,
    pub one: Namenode,
    pub two: Namenode,
}

impl Cluster {
    pub async fn of(world: Arc<World>) -> Cluster {
        let calm = Namenode::start(world.store(), 1000, Config::default()).await;
        let (one, two) = (Namenode::seated(&world.seat()), Namenode::seated(&world.seat()));
        Cluster { world, calm, one, two }
    }

    /// Waits for what is on its way, then looks whether the rows fit together, before and after reaping.
    pub async fn settle(&self) {
        self.world.settle().await;
        assert_sound(&self.calm).await;
        reap_all(&self.calm).await;
        assert_sound(&self.calm).await;
    }

    async fn exists(&self, text: &str) -> bool {
        root(&self.calm).stat(text).await.unwrap().is_some()
    }
}

fn plan(seed: u64, faults: Faults) -> Plan {
    Plan { seed, faults, lock_wait: (0.3, Duration::from_millis(20)), ..Plan::default() }
}

/// Runs a scenario over all seeds; it answers what happened, and each of `must_happen` has to.
pub fn over_seeds<F: Future<Output = String>>(must_happen: &[&str], scenario: impl Fn(Cluster) -> F) {
    let mut seen = BTreeMap::<String, u64>::new();
    for seed in 0..rounds(60, 1000) {
        let plan = plan(seed, if seed % 3 == 2 { Faults::rough() } else { Faults::waits() });
        let note = sim::run(async {
            let cluster = Cluster::of(Arc::new(World::new(&plan))).await;
            scenario(cluster).await
        });
        *seen.entry(note).or_default() += 1;
    }
    for what in must_happen {
        assert!(seen.contains_key(*what), "{what} never happened: {seen:?}");
    }
}

/// The kind of a refusal.
pub fn kind<T>(answer: &Answered<T>) -> Option<Kind> {
    answer.as_ref().err().map(|error: &RpcError| error.kind)
}

/// Creates a file in a directory that must exist.
async fn create_in(nn: &Namenode, text: &str) -> Answered<u64> {
    let mut call = new_file(text, "c1", 1);
    call.create_parent = false;
    root(nn).create_as(call).await.map(|inode| inode.id)
}

fn rmdir_against_create() {
    over_seeds(&["created", "removed"], |c| async move {
        root(&c.calm).mk("/d").await.unwrap();
        let (made, removed) = join(create_in(&c.one, "/d/f"), root(&c.two).rm("/d", false)).await;
        c.settle().await;
        match made {
            Ok(_) => {
                assert_eq!(kind(&removed), Some(Kind::PathIsNotEmptyDirectory));
                assert!(c.exists("/d/f").await);
                "created".into()
            }
            Err(error) => {
                assert_eq!((error.kind, removed), (Kind::FileNotFound, Ok(true)));
                assert!(!c.exists("/d").await);
                "removed".into()
            }
        }
    });
}

fn crossing_renames() {
    let plan = plan(1, Faults::waits());
    sim::run(async {
        let c = Cluster::of(Arc::new(World::new(&plan))).await;
        let mut winners = [0, 0];
        for i in 0..rounds(150, 1000) {
            let l = format!("/l{i}");
            root(&c.calm).mk(&format!("{l}/a/x/y")).await.unwrap();
            root(&c.calm).mk(&format!("{l}/c/d/e")).await.unwrap();
            let down = [format!("{l}/a"), format!("{l}/c/d/e/a")];
            let up = [format!("{l}/c"), format!("{l}/a/x/y/c")];
            let (first, second) =
                join(root(&c.one).mv(&down[0], &down[1]), root(&c.two).mv(&up[0], &up[1])).await;
            let first = first.unwrap();
            assert_eq!(second.unwrap(), !first, "one and only one, in try {i}");
            winners[usize::from(first)] += 1;
            let deepest = if first { format!("{l}/c/d/e/a/x/y") } else { format!("{l}/a/x/y/c/d/e") };
            assert!(c.exists(&deepest).await, "{deepest}");
            assert_eq!(root(&c.calm).must(&l).await.children, 1);
        }
        assert!(winners.iter().all(|won| *won > 10), "{winners:?}");
        c.settle().await;
    });
}

fn the_reaper_against_a_rename_out_of_the_tree() {
    over_seeds(&["moved", "reaped"], |c| async move {
        for i in 0..3 {
            root(&c.calm).touch(&format!("/a/b/c/f{i}")).await.unwrap();
        }
        let (_stop, stopped) = tokio::sync::watch::channel(false);
        let delete_and_reap = async {
            assert_eq!(root(&c.one).rm("/a", true).await, Ok(true));
            while reaper::round(&c.one.engine, &stopped).await.unwrap() > 0 {}
        };
        let wait = Duration::from_millis(c.world.random(60));
        let rename_out = async {
            tokio::time::sleep(wait).await;
            root(&c.two).mv("/a/b/c", "/z").await
        };
        let ((), moved) = join(delete_and_reap, rename_out).await;
        c.settle().await;
        let there = root(&c.calm).stat("/z").await.unwrap().map(|status| status.children);
        assert_eq!(there, moved.unwrap().then_some(3));
        if there.is_some() {
            assert!(c.exists("/z/f2").await);
        }
        if there.is_some() { "moved".into() } else { "reaped".into() }
    });
}

fn a_mkdir_that_loses_and_a_create_inside_it() {
    over_seeds(&["made", "lost"], |c| async move {
        root(&c.calm).mk("/p").await.unwrap();
        let ours = join(root(&c.one).mk("/p/m"), create_in(&c.one, "/p/m/f"));
        let ((made, inside), other) = join(ours, create_in(&c.two, "/p/m")).await;
        c.settle().await;
        match other {
            Ok(_) => {
                assert_eq!(kind(&made), Some(Kind::FileAlreadyExists));
                // Before the file came there was no parent; after it, one that is a file.
                assert!(matches!(kind(&inside), Some(Kind::ParentNotDirectory | Kind::FileNotFound)));
                "lost".into()
            }
            Err(error) => {
                assert_eq!((error.kind, made), (Kind::FileAlreadyExists, Ok(true)));
                assert_eq!(c.exists("/p/m/f").await, inside.is_ok());
                if inside.is_ok() { "made".into() } else { "made, empty".into() }
            }
        }
    });
}

fn a_refusal_that_saw_a_write_that_loses() {
    over_seeds(&[], |c| async move {
        root(&c.calm).mk("/q").await.unwrap();
        let ours = join(create_in(&c.one, "/q/f"), root(&c.one).rm("/q", false));
        let ((made, removed), moved) = join(ours, root(&c.two).mv("/q", "/r")).await;
        c.settle().await;
        let seen = (made.is_ok(), removed.ok(), moved.unwrap());
        // None = refused, for it is not empty: then the file must be there.
        let orders = [
            (true, None, true),
            (true, Some(false), true),
            (false, Some(true), false),
            (false, Some(false), true),
        ];
        assert!(orders.contains(&seen), "{seen:?} is no order of the three");
        assert_eq!(c.exists("/r/f").await, seen.0);
        format!("{seen:?}")
    });
}

fn delete_create_and_a_rename_still_running() {
    over_seeds(&["old moved", "new moved", "none moved"], |c| async move {
        let old = root(&c.calm).touch("/s/f").await.unwrap().id;
        let wait = Duration::from_millis(c.world.random(80));
        let rename = async {
            tokio::time::sleep(wait).await;
            root(&c.one).mv("/s/f", "/s/g").await.unwrap()
        };
        let replace = async {
            let removed = root(&c.two).rm("/s/f", false).await.unwrap();
            (removed, create_in(&c.two, "/s/f").await.unwrap())
        };
        let (moved, (removed, new)) = join(rename, replace).await;
        c.settle().await;
        let at = async |text: &str| root(&c.calm).stat(text).await.unwrap().map(|status| status.inode.id);
        let (f, g) = (at("/s/f").await, at("/s/g").await);
        match (moved, removed) {
            (true, false) => {
                assert_eq!((f, g), (Some(new), Some(old)));
                "old moved".into()
            }
            (true, true) => {
                assert_eq!((f, g), (None, Some(new)));
                "new moved".into()
            }
            (false, removed) => {
                assert_eq!((f, g, removed), (Some(new), None, true));
                "none moved".into()
            }
        }
    });
}

fn a_hedged_false_then_true() {
    over_seeds(&["false", "true"], |c| async move {
        let (one, two) = (c.one.repeating(1), c.two.repeating(1));
        let wait = Duration::from_millis(c.world.random(60));
        let source_comes = async {
            tokio::time::sleep(wait).await;
            root(&c.calm).mk("/a").await.unwrap();
        };
        let twins = join(root(&one).mv("/a", "/b"), async {
            tokio::time::sleep(wait).await;
            root(&two).mv("/a", "/b").await
        });
        let ((), (first, second)) = join(source_comes, twins).await;
        c.settle().await;
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(first, second, "twins get one answer");
        assert_eq!((c.exists("/a").await, c.exists("/b").await), (!first, first));
        first.to_string()
    });
}

fn a_hedged_rename() {
    over_seeds(&[], |c| async move {
        root(&c.calm).mk("/a/x").await.unwrap();
        let (one, two) = (c.one.repeating(1), c.two.repeating(1));
        let (first, second) = join(root(&one).mv("/a", "/b"), root(&two).mv("/a", "/b")).await;
        assert_eq!((first, second), (Ok(true), Ok(true)));
        c.settle().await;
        assert!(c.exists("/b/x").await && !c.exists("/b/a").await);
        String::new()
    });
}

fn a_directory_renamed_under_64_creators() {
    sim::run(async {
        let plan = Plan { seed: 5, ..Plan::default() };
        let c = Cluster::of(Arc::new(World::new(&plan))).await;
        root(&c.calm).mk("/hot").await.unwrap();
        let mut creators = tokio::task::JoinSet::new();
        for i in 0..64 {
            let nn = if i % 2 == 0 { c.one.clone() } else { c.two.clone() };
            creators.spawn(async move {
                let mut made = 0;
                for n in 0..40 {
                    match create_in(&nn, &format!("/hot/f{i}-{n}")).await {
                        Ok(_) => made += 1,
                        Err(error) => {
                            assert_eq!(error.kind, Kind::FileNotFound);
                            break;
                        }
                    }
                }
                made
            });
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        let began = tokio::time::Instant::now();
        assert_eq!(root(&c.two).mv("/hot", "/cold").await, Ok(true));
        let took = began.elapsed();
        let (mut made, mut cut_short) = (0, 0);
        while let Some(one) = creators.join_next().await {
            let one = one.unwrap();
            made += one;
            cut_short += i64::from(one < 40);
        }
        assert_eq!(root(&c.calm).must("/cold").await.children, made);
        assert!(cut_short > 0, "the rename came after all creates");
        // Of the simulated clock: a round trip is a millisecond of it.
        assert!(took < Duration::from_secs(2), "{took:?}");
        c.settle().await;
    });
}

fn a_renewal_between_expiry_s_fetch_and_commit() {
    let runs = sim::sweep(
        &Plan::default(),
        0,
        usize::MAX,
        &[Blow::Freeze(Duration::from_millis(50))],
        |world| async move {
            let c = Cluster::of(world).await;
            let file = root(&c.calm).open("/d/f", "c1").await.unwrap();
            pass_time(Duration::from_secs(1201));
            let renew = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                root(&c.two).renew("c1").await.unwrap();
                root(&c.calm).must("/d/f").await.inode.open.is_some()
            };
            let (done, open_after_renewal) = join(lease_expiry::round(&c.one.engine, None), renew).await;
            let closed = done.unwrap().files > 0;
            let open = root(&c.calm).must("/d/f").await.inode.open.is_some();
            assert_eq!(open, !closed);
            assert!(open || !open_after_renewal, "a renewal was acknowledged, and the file closed after it");
            assert_eq!(root(&c.calm).complete("/d/f", file.id, "c1").await, Ok(true));
            c.settle().await;
        },
    );
    assert!(runs > 10, "{runs}");
}

fn complete_against_a_deletion_above() {
    over_seeds(&["true", "gone"], |c| async move {
        let file = root(&c.calm).open("/a/b/f", "c1").await.unwrap().id;
        let wait = Duration::from_millis(c.world.random(30));
        let (_stop, stopped) = tokio::sync::watch::channel(false);
        let delete = async {
            assert_eq!(root(&c.one).rm("/a", true).await, Ok(true));
            while reaper::round(&c.one.engine, &stopped).await.unwrap() > 0 {}
        };
        let complete = async {
            tokio::time::sleep(wait).await;
            root(&c.two).complete("/a/b/f", file, "c1").await
        };
        let ((), done) = join(delete, complete).await;
        // Once the deletion was answered there is nothing to complete.
        let late = root(&c.two).complete("/a/b/f", file, "c1").await;
        assert_eq!(kind(&late), Some(Kind::FileNotFound));
        c.settle().await;
        match done {
            Ok(yes) => yes.to_string(),
            Err(error) => {
                assert_eq!(error.kind, Kind::FileNotFound);
                "gone".into()
            }
        }
    });
}

fn repeats_at_another_namenode() {
    over_seeds(&[], |c| async move {
        let su = root(&c.calm);
        su.touch("/t/moved").await.unwrap();
        su.touch("/t/moved2").await.unwrap();
        su.touch("/t/removed").await.unwrap();
        su.touch("/t/tree/f").await.unwrap();
        let file = su.touch("/t/f").await.unwrap();
        let mut id = 0;
        let mut next = || {
            id += 1;
            (c.one.repeating(id), c.two.repeating(id))
        };
        let (a, b) = next();
        assert_eq!(root(&a).mv("/t/moved", "/t/m").await, Ok(true));
        assert_eq!(root(&b).mv("/t/moved", "/t/m").await, Ok(true));
        assert_eq!(root(&c.two).mv("/t/moved", "/t/m").await, Ok(false));
        let (a, b) = next();
        assert_eq!(root(&a).mv2("/t/moved2", "/t/m", true).await, Ok(()));
        assert_eq!(root(&b).mv2("/t/moved2", "/t/m", true).await, Ok(()));
        assert_eq!(kind(&root(&c.two).mv2("/t/moved2", "/t/m", true).await), Some(Kind::FileNotFound));
        for (text, recursive) in [("/t/removed", false), ("/t/tree", true)] {
            let (a, b) = next();
            assert_eq!(root(&a).rm(text, recursive).await, Ok(true));
            assert_eq!(root(&b).rm(text, recursive).await, Ok(true));
            assert_eq!(root(&c.two).rm(text, recursive).await, Ok(false));
        }
        let (a, b) = next();
        assert_eq!(root(&a).rm("/nope", false).await, Ok(false));
        su.touch("/nope").await.unwrap();
        assert_eq!(root(&b).rm("/nope", false).await, Ok(false));
        let (a, b) = next();
        let made = create_in(&a, "/t/new").await.unwrap();
        assert_eq!(create_in(&b, "/t/new").await, Ok(made));
        assert_eq!(kind(&create_in(&c.two, "/t/new").await), Some(Kind::AlreadyBeingCreated));
        assert_eq!(su.complete("/t/new", made, "c1").await, Ok(true));
        assert_eq!(create_in(&b, "/t/new").await, Ok(made));
        let (a, b) = next();
        let over = root(&a).create_as(new_file("/t/new", "c1", 3)).await.unwrap();
        assert_eq!(root(&b).create_as(new_file("/t/new", "c1", 3)).await.unwrap().id, over.id);
        assert_eq!(su.must("/t/new").await.inode.id, over.id);
        let (a, b) = next();
        assert_eq!(root(&a).complete("/t/new", over.id, "c1").await, Ok(true));
        assert_eq!(root(&b).complete("/t/new", over.id, "c1").await, Ok(true));
        let (a, b) = next();
        assert_eq!((root(&a).mk("/t/x/y").await, root(&b).mk("/t/x/y").await), (Ok(true), Ok(true)));
        // What overwrites state must not come back after others changed it again.
        let (a, b) = next();
        root(&a).chmod("/t/f", 0o600).await.unwrap();
        su.chmod("/t/f", 0o644).await.unwrap();
        root(&b).chmod("/t/f", 0o600).await.unwrap();
        let (a, b) = next();
        root(&a).chown("/t/f", Some("bob"), None).await.unwrap();
        su.chown("/t/f", Some("eve"), None).await.unwrap();
        root(&b).chown("/t/f", Some("bob"), None).await.unwrap();
        let (a, b) = next();
        root(&a).utimes("/t/f", 1, 1).await.unwrap();
        su.utimes("/t/f", 2, 2).await.unwrap();
        root(&b).utimes("/t/f", 1, 1).await.unwrap();
        let (a, b) = next();
        root(&a).setrep("/t/f", 1).await.unwrap();
        su.setrep("/t/f", 2).await.unwrap();
        assert_eq!(root(&b).setrep("/t/f", 1).await, Ok(true));
        let now = su.must("/t/f").await.inode;
        assert_eq!((now.id, now.mode, now.owner.as_str()), (file.id, 0o644, "eve"));
        assert_eq!((now.mtime_ms, now.atime_ms, now.replication), (2, 2, 2));
        c.settle().await;
        String::new()
    });
}

/// A call that fails over, as clients do: the same identity, at the other namenode.
pub async fn failover<T: std::fmt::Debug, F: Future<Output = Answered<T>>>(
    nodes: [&Namenode; 2],
    call: i64,
    ask: impl Fn(Namenode) -> F,
) -> Answered<T> {
    let patience = Duration::from_secs(5);
    let answer = sim::failover(2, 0, patience, 8, |node| {
        let asked = ask(nodes[node].repeating(call));
        async move { Some(asked.await).filter(|answer| kind(answer) != Some(Kind::Retriable)) }
    });
    answer.await.expect("some namenode answers")
}

fn a_namenode_dies_at_every_store_call() {
    let runs = sim::sweep(&Plan::default(), 0, usize::MAX, &[Blow::Die], |world| async move {
        let c = Cluster::of(world).await;
        let nodes = [&c.one, &c.two];
        let made = failover(nodes, 1, |nn| async move { root(&nn).mk("/a/b/c").await }).await;
        assert_eq!(made, Ok(true));
        let file = failover(nodes, 2, |nn| async move { create_in(&nn, "/a/b/f").await }).await.unwrap();
        let moved = failover(nodes, 3, |nn| async move { root(&nn).mv("/a/b", "/z").await }).await;
        assert_eq!(moved, Ok(true));
        let closed =
            failover(nodes, 4, |nn| async move { root(&nn).complete("/a/b/f", file, "c1").await }).await;
        assert_eq!(closed, Ok(true));
        let over = failover(nodes, 5, |nn| async move {
            root(&nn).create_as(new_file("/z/f", "c1", 3)).await.map(|inode| inode.id)
        });
        assert_ne!(over.await.unwrap(), file);
        let gone = failover(nodes, 6, |nn| async move { root(&nn).rm("/z", true).await }).await;
        assert_eq!(gone, Ok(true));
        assert!(!c.exists("/z").await && c.exists("/a").await);
        let (_stop, stopped) = tokio::sync::watch::channel(false);
        let reaping = async { while reaper::round(&c.one.engine, &stopped).await.is_ok_and(|n| n > 0) {} };
        let _ = tokio::time::timeout(Duration::from_secs(5), reaping).await;
        c.settle().await;
        assert_eq!(root(&c.calm).must("/").await.children, 1);
    });
    assert!(runs > 20, "{runs}");
}

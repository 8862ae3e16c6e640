//! Clients that write files on datanodes, over several namenodes that all look after these. Whatever became of
//! namenodes, datanodes and reports: what was acknowledged is there in the end, with as many replicas as wanted, and no
//! other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use trellis_metastore::faulty::{Blow, Faults};
use trellis_metastore::key::Scan;
use trellis_metastore::schema::{Blocks, Replicas, Table};
use trellis_metastore::sim::{self, World};
use trellis_namenode::config::Config;
use trellis_namenode::engine::tx::Tx;

use super::farm::{Farm, Kept};
use super::writer::{Writer, Written};
use super::{SILENCE, plan, start_all};
use crate::calls::{assert_sound_and_noted, root};
use crate::reap::reap_all;
use crate::support::{Namenode, SUPERUSER, rounds};

/// How long until everybody was told everything and all copies are made.
const CALM: Duration = Duration::from_secs(90);
/// A datanode that is silent for longer is dead.
const DEAD: Duration = Duration::from_secs(15);

fn config() -> Config {
    Config {
        datanode_heartbeat: Duration::from_millis(500),
        datanode_recheck: Duration::from_secs(5),
        datanode_stale: Duration::from_secs(3),
        datanode_poll: Duration::from_millis(500),
        block_recovery: Duration::from_secs(5),
        replication_check: Duration::from_secs(1),
        replication_pending: Duration::from_secs(10),
        ready_wait: Duration::from_secs(2),
        ..Config::default()
    }
}

/// Makes datanodes restart and fall silent, some until they are dead.
async fn disturb(farm: Arc<Farm>) {
    let world = farm.world.clone();
    loop {
        sleep(Duration::from_millis(world.random(20_000))).await;
        let dn = world.random(super::farm::DATANODES as u64) as usize;
        match world.random(4) {
            0 => farm.restart(dn),
            1 => farm.fall_silent(dn, DEAD * 2),
            _ => farm.fall_silent(dn, Duration::from_secs(4)),
        }
    }
}

type Seen = BTreeMap<&'static str, usize>;

async fn play(world: Arc<World>, nodes: usize, writers: u8, work: usize) -> Seen {
    let first = Namenode::start(world.store(), 1000, Config::default()).await;
    root(&first).mk("/w").await.unwrap();
    let nodes = start_all(&world, nodes, &config()).await;
    nodes.iter().for_each(|node| node.keep_datanodes());
    let farm = Farm::start(world.clone(), nodes.clone());
    // All datanodes have a storage before somebody writes to one.
    while !farm.is_known() {
        sleep(Duration::from_millis(100)).await;
    }
    let disturber = tokio::spawn(disturb(farm.clone()));
    let working: Vec<_> = (0..writers)
        .map(|number| {
            let mut writer = Writer::new(farm.clone(), number);
            tokio::spawn(async move {
                writer.work(work).await;
                writer
            })
        })
        .collect();
    let (mut files, mut seen) = (BTreeMap::new(), Seen::new());
    for writer in working {
        let writer = writer.await.unwrap();
        files.extend(writer.files);
        writer.seen.into_iter().for_each(|(what, count)| *seen.entry(what).or_default() += count);
    }
    disturber.abort();
    world.settle().await;
    sleep(DEAD * 2).await;
    // What was lost on its way the next full report tells.
    (0..super::farm::DATANODES).for_each(|dn| farm.restart(dn));
    sleep(CALM).await;
    farm.stop();
    for node in nodes.iter() {
        node.stop.send_replace(true);
    }
    sleep(SILENCE).await;
    let last = Namenode::start(world.store(), 1001, Config::default()).await;
    reap_all(&last).await;
    assert_sound_and_noted(&last).await;
    for (text, written) in &files {
        look_at(&last, &farm, text, written).await;
    }
    seen
}

/// A file is what was acknowledged, and its datanodes have it.
async fn look_at(nn: &Namenode, farm: &Farm, text: &str, written: &Written) {
    let inode = root(nn).must(text).await.inode;
    assert_eq!((inode.id, inode.open.is_none(), inode.replication), (written.id, true, written.replication));
    let found = crate::files::rows::<Blocks>(nn, inode.id).await;
    let blocks: Vec<_> = found.iter().map(|block| (block.id, block.stamp, block.length)).collect();
    assert_eq!(blocks, written.blocks, "{text}");
    for (id, stamp, length) in blocks {
        let whole = Kept { stamp, length, is_whole: true };
        let kept = farm.kept(id);
        let good = kept.iter().flatten().filter(|kept| **kept == whole).count();
        let all = kept.iter().flatten().count();
        let wanted = written.replication as usize;
        assert_eq!(
            (good, all),
            (wanted, wanted),
            "{text}: block {id} of {length} bytes, stamp {stamp}: {kept:?}"
        );
        assert_eq!(rows_of(nn, id).await, wanted, "{text}: block {id}");
    }
}

/// How many replicas of a block are known.
async fn rows_of(nn: &Namenode, block: u64) -> usize {
    let partition = trellis_metastore::schema::parts_of_block(block).0;
    let scan = Scan::of(Replicas::ID, partition, Scan::MAX_ROWS);
    let op = move |tx: &mut Tx<'_, '_>| Ok(tx.scan_all::<Replicas>(std::slice::from_ref(&scan))?);
    let rows = nn.read(SUPERUSER, op).await.unwrap().remove(0);
    rows.iter().filter(|(key, _)| key.starts_with(&block.to_be_bytes())).count()
}

/// A store that answers late, never, wrongly; datanodes that restart and fall silent.
pub fn writers_over_a_rough_store() {
    let seen = std::cell::RefCell::new(Seen::new());
    for seed in 0..rounds(4, 300) {
        sim::sweep(&plan(seed, Faults::rough()), 0, 0, &[], |world| async {
            for (what, count) in play(world, 3, 3, 8).await {
                *seen.borrow_mut().entry(what).or_default() += count;
            }
        });
    }
    let seen = seen.into_inner();
    for what in [
        "written",
        "abandoned",
        "a new pipeline",
        "waited for replicas",
        "recovered",
        "a partial block",
        "appended",
        "cut off",
        "cut inside",
        "another replication",
        "joined",
        "deleted",
    ] {
        assert!(seen.contains_key(what), "{what} never came about: {seen:?}");
    }
}

/// One of two namenodes, each the owner of half of the datanodes, dies, or freezes for less or longer than the other
/// waits for it, at some of its store calls.
pub fn an_owner_dies_or_freezes() {
    let blows = [Blow::Freeze(SILENCE * 2), Blow::Die, Blow::Freeze(SILENCE / 2)];
    let blows = &blows[..rounds(2, blows.len())];
    let runs = sim::sweep(&plan(3, Faults::waits()), 0, rounds(2, 60), blows, |world| async {
        play(world, 2, 2, 5).await;
    });
    assert!(runs > 8, "{runs}");
}

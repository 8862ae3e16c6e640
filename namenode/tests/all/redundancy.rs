//! The job that sees to it that every block has as many replicas as its file wants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trellis_metastore::change::Hold;
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::schema::{
    Block, BlockState, Command, CommandKind, Commands, Concern, Inode, Ordered, Replica, ReplicaState,
    Replicas, Table, TableId, attention, attention_partitions, block, block_id, command_partition, replica,
    storage_replica,
};
use trellis_namenode::datanodes::View;
use trellis_namenode::datanodes::reports::{Listed, full};
use trellis_namenode::datanodes::view::{Liveness, Node, Space};
use trellis_namenode::engine::Op;
use trellis_namenode::jobs::datanodes;
use trellis_namenode::jobs::replication::{Done, Replication};
use trellis_namenode::ops::redundancy::{Examine, Examined, Noted, examine, note_storage};
use trellis_namenode::ops::replicas::note_attention;
use trellis_namenode::ops::report::{Applied, Bad, Reported, What, condemn};

use trellis_metastore::counters::Reading;
use trellis_proto::exception::RpcError;

use crate::actor::Actor;
use crate::calls::{assert_sound, root};
use crate::files::named;
use crate::reap::{reap_all, spoil};
use crate::reports::{self, apply, own};
use crate::support::{Answer, FRESH_STORE, Namenode, SUPERUSER, pass_time};

/// Past the time that copies and deletions are waited for.
const PENDING: Duration = Duration::from_secs(301);

/// Datanodes u1, u2, … with two storages each, and one file of complete blocks of 7 bytes.
struct World {
    nn: Namenode,
    job: Replication,
    file: u64,
    /// (number of the datanode, number of its first storage) of each.
    nodes: Vec<(u32, u32)>,
    /// Numbers of their second storages, which have less room.
    second: Vec<u32>,
}

impl World {
    async fn new(datanodes: usize, replication: u32, blocks: u32) -> World {
        let nn = Namenode::fresh().await;
        let (mut nodes, mut second) = (Vec::new(), Vec::new());
        for i in 1..=datanodes {
            let (uuid, storage, other) = (format!("u{i}"), format!("s{i}"), format!("t{i}"));
            reports::register(&nn, &uuid).await.unwrap();
            let row = reports::storages(&nn, &uuid, &[&storage, &other]).await.unwrap();
            nodes.push((row.number, row.storages[0].number));
            second.push(row.storages[1].number);
        }
        let root = Actor::superuser(&nn);
        root.file("/f").await;
        let file = root.status("/f").await.unwrap().unwrap().inode.id;
        let op: Op<Answer> = Box::new(move |tx| {
            let walked = tx.walk_id(file)?.unwrap();
            let node = walked.target().unwrap().clone();
            tx.get(&node.key(), Hold::Held)?;
            let (block_count, next_block, length) = (blocks, blocks, 7 * u64::from(blocks));
            let inode = Inode { replication, block_count, next_block, length, ..node.inode.clone() };
            tx.put(&node.key(), &inode)?;
            for ordinal in 0..blocks {
                let row =
                    Block { id: block_id(file, ordinal), ..reports::row(ordinal, BlockState::Complete) };
                tx.insert(&block(file, ordinal), &row)?;
            }
            note_attention(tx, file)?;
            Ok(Answer { yes: true })
        });
        own(&nn, op).await.unwrap();
        let world = World { nn, job: Replication::default(), file, nodes, second };
        world.show(&vec![Liveness::Live; datanodes]);
        world
    }

    /// How the datanodes are, in their order.
    fn show(&self, liveness: &[Liveness]) {
        let view = self.nn.engine.datanodes().registry().view(Instant::now());
        let space = Space { capacity: 1 << 30, remaining: 1 << 29, ..Space::default() };
        let node = |(node, liveness): (&Node, &Liveness)| {
            let row = Arc::clone(&node.row);
            let space = vec![space, Space { remaining: 1 << 28, ..space }];
            Node { liveness: *liveness, space, row, ..node.clone() }
        };
        let nodes = view.nodes().iter().zip(liveness).map(node).collect();
        self.nn.engine.datanodes().set_view(View::new(nodes));
    }

    /// The datanodes, one of which sends copies.
    fn sending(&self, place: usize, copies: u32) -> View {
        let view = self.nn.engine.datanodes().view();
        let busy =
            |(i, node): (usize, &Node)| Node { copies: if i == place { copies } else { 0 }, ..node.clone() };
        View::new(view.nodes().iter().enumerate().map(busy).collect())
    }

    fn told(&self, ordinal: u32, place: usize, what: What) -> Reported {
        Reported { block: block_id(self.file, ordinal), ..reports::told(ordinal, self.nodes[place].1, what) }
    }

    /// The same on its second storage.
    fn told_elsewhere(&self, ordinal: u32, place: usize, what: What) -> Reported {
        Reported { storage: self.second[place], ..self.told(ordinal, place, what) }
    }

    async fn tell_elsewhere(&self, ordinal: u32, place: usize, what: What) {
        let told = self.told_elsewhere(ordinal, place, what);
        apply(&self.nn, &format!("u{}", place + 1), vec![told]).await.unwrap();
    }

    /// A datanode tells of the replica of a block.
    async fn tell(&self, ordinal: u32, place: usize, what: What) {
        let told = self.told(ordinal, place, what);
        apply(&self.nn, &format!("u{}", place + 1), vec![told]).await.unwrap();
    }

    /// A datanode tells in full that it has these blocks.
    async fn list(&self, place: usize, blocks: &[u32]) {
        let listed = |ordinal: &u32| Listed {
            block: block_id(self.file, *ordinal),
            state: ReplicaState::Finalized as u8,
            stamp: 1001,
            length: 7,
        };
        let listed: Vec<Listed> = blocks.iter().map(listed).collect();
        let (uuid, granted_ms) = (format!("u{}", place + 1), self.nn.engine.now_ms() + 1);
        full(&self.nn.engine, &uuid, self.nodes[place].1, &listed, granted_ms).await.unwrap();
    }

    async fn holders(&self, blocks: u32, places: &[usize]) {
        for ordinal in 0..blocks {
            for place in places {
                self.tell(ordinal, *place, What::Received(None)).await;
            }
        }
    }

    /// A round some time after what was noted.
    async fn round(&mut self) -> Done {
        pass_time(Duration::from_secs(5));
        self.job.round(&self.nn.engine, None).await.unwrap()
    }

    /// Commands of one kind by (place of the datanode, ordinal of the block).
    async fn commands(&self, kind: CommandKind) -> BTreeMap<(usize, u32), Command> {
        let nodes = self.nodes.clone();
        let read = move |tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>| {
            let scans: Vec<Scan> = nodes
                .iter()
                .map(|(number, _)| Scan::of(Commands::ID, command_partition(*number), 1000))
                .collect();
            Ok(tx.scan_all::<Commands>(&scans)?)
        };
        let all = self.nn.read(SUPERUSER, read).await.unwrap();
        let mut found = BTreeMap::new();
        for (place, rows) in all.into_iter().enumerate() {
            for (key, row) in rows.into_iter().filter(|(key, _)| key[0] == kind as u8) {
                let id = u64::from_be_bytes(key[1..].try_into().unwrap());
                found.insert((place, (id >> 40) as u32), row.value);
            }
        }
        found
    }

    /// Datanodes get their commands.
    async fn deliver(&self) {
        let engine = &self.nn.engine;
        datanodes::round(engine).await.unwrap();
        for place in 1..=self.nodes.len() {
            engine.datanodes().registry().hand_out(&format!("u{place}"), 1000);
        }
        datanodes::round(engine).await.unwrap();
        self.show(&vec![Liveness::Live; self.nodes.len()]);
    }

    /// Rows of the replicas of a block, by storage.
    async fn rows(&self, ordinal: u32) -> Vec<(u32, Replica)> {
        let (file, id) = (self.file, block_id(self.file, ordinal));
        let read = move |tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>| {
            Ok(tx.scan_all::<Replicas>(&[Scan::of(Replicas::ID, file, 1000)])?.remove(0))
        };
        let rows = self.nn.read(SUPERUSER, read).await.unwrap();
        let number = |key: &[u8]| u32::from_be_bytes(key[8..12].try_into().unwrap());
        let of_block = rows.into_iter().filter(|(key, _)| key[..8] == id.to_be_bytes());
        of_block.map(|(key, row)| (number(&key), row.value)).collect()
    }

    /// Datanodes that have a replica of a block that counts, by rows: each as often as it has a row.
    async fn replicas(&self, ordinal: u32) -> Vec<usize> {
        let rows = self.rows(ordinal).await;
        let counts = rows.into_iter().filter(|(_, row)| row.ordered() == Ordered::Nothing);
        let storages: Vec<(u32, u32)> =
            self.nodes.iter().map(|(_, first)| *first).zip(self.second.iter().copied()).collect();
        let has = |storage: u32| {
            storages.iter().position(|(first, second)| [*first, *second].contains(&storage)).unwrap()
        };
        counts.map(|(storage, _)| has(storage)).collect()
    }

    /// Where readers find the first block.
    async fn read_from(&self) -> Vec<u32> {
        root(&self.nn).locations("/f", 0, 7).await.unwrap().blocks.remove(0).storages
    }

    async fn concern(&self) -> Option<Concern> {
        let key = attention(self.file);
        self.nn.read(SUPERUSER, move |tx| Ok(tx.get(&key, Hold::Loose)?.map(|row| row.value))).await.unwrap()
    }
}

/// A file is to be looked at again for copies only where one can be made; those with the fewest replicas come first.
pub async fn what_can_be_copied() {
    for (datanodes, holders, fewest) in [(3, &[0][..], Some(1)), (3, &[0, 1], Some(2)), (2, &[0, 1], None)] {
        let world = World::new(datanodes, 3, 1).await;
        world.holders(1, holders).await;
        let (inode, concern) = (world.file, Concern::default());
        let streams = BTreeMap::new();
        let call = Examine { inode, after: None, concern, version: None, streams, term: None };
        let op: Op<Examined> = Box::new(move |tx| examine(tx, &call));
        let found = own(&world.nn, op).await.unwrap();
        assert_eq!((found.fewest, found.concern.under_replicated), (fewest, 1), "{datanodes} {holders:?}");
    }
}

/// One commit of as many rows as there may be.
pub async fn very_many_blocks_are_cut_off() {
    FRESH_STORE.set("lmdb");
    let world = World::new(1, 1, 10_001).await;
    let su = root(&world.nn);
    let refused = su.truncate("/f", 0, "c1").await.unwrap_err();
    assert!(refused.message.contains("at most 10000 at once"), "{refused}");
    let began = std::time::Instant::now();
    let (cut, spent) = world.nn.spent(su.truncate("/f", 7, "c1")).await;
    let took = began.elapsed();
    assert_eq!((cut, spent.commits), (Ok(true), 1));
    assert!(spent.rows_written >= 30_000, "{}", spent.rows_written);
    eprintln!("{} rows in one commit: {took:?}", spent.rows_written);
    reap_all(&world.nn).await;
    assert_eq!(su.truncate("/f", 0, "c1").await, Ok(true));
    reap_all(&world.nn).await;
    assert_sound(&world.nn).await;
}

/// What it costs to look at a file: one whose blocks are copied, one that is well.
pub async fn costs() -> (Measured, Measured) {
    let world = World::new(3, 2, 10).await;
    world.holders(10, &[0]).await;
    let look = |streams: u32| {
        let (inode, concern) = (world.file, Concern::default());
        let streams = [(world.nodes[0].0, streams)].into();
        let call = Examine { inode, after: None, concern, version: None, streams, term: None };
        let op: Op<Examined> = Box::new(move |tx| examine(tx, &call));
        world.nn.spent(own(&world.nn, op))
    };
    let copied = look(10).await;
    world.holders(10, &[1]).await;
    (copied, look(10).await)
}

type Measured = (Result<Examined, RpcError>, Reading);

pub async fn too_few_are_copied() {
    let mut world = World::new(3, 3, 1).await;
    world.holders(1, &[0]).await;
    let early = world.job.round(&world.nn.engine, None).await.unwrap();
    assert_eq!(early.files, 0, "reports of a file just closed may be on their way");
    assert_eq!(world.round().await.copies, 1);
    let given = world.commands(CommandKind::Transfer).await;
    let mut targets = given[&(0, 0)].storages.clone();
    targets.sort_unstable();
    assert_eq!(targets, [world.nodes[1].1, world.nodes[2].1]);
    assert_eq!(world.concern().await.map(|concern| concern.under_replicated), Some(1));
    // What is under way is not begun again, by nobody.
    assert_eq!(world.round().await.copies, 0);
    world.job = Replication::default();
    assert_eq!(world.round().await.copies, 0, "another leader sees it");
    world.list(1, &[]).await;
    world.tell(0, 1, What::Deleted).await;
    assert_eq!(world.round().await.copies, 0, "a full report and what is told late do not end it");
    world.holders(1, &[1, 2]).await;
    world.round().await;
    world.round().await;
    assert_eq!(world.concern().await, None);
}

pub async fn too_many_are_removed() {
    let mut world = World::new(4, 2, 1).await;
    world.holders(1, &[0, 1, 2, 3]).await;
    // Those that are silent go first, and never so many that fewer than wanted are left that are heard of.
    world.show(&[Liveness::Live, Liveness::Stale, Liveness::Live, Liveness::Live]);
    assert_eq!(world.round().await.removed, 2);
    let left = world.replicas(0).await;
    assert!(left.len() == 2 && !left.contains(&1), "{left:?}");
    assert_eq!(world.commands(CommandKind::Invalidate).await.len(), 2);
    assert_eq!(world.round().await.removed, 0, "none is counted on twice");
    world.job = Replication::default();
    assert_eq!(world.round().await.removed, 0, "nor by another leader");
    world.deliver().await;
    let gone: Vec<usize> = (0..4).filter(|place| !left.contains(place)).collect();
    for place in &gone {
        // Reports that were made before it is done change nothing.
        world.list(*place, &[0]).await;
        world.tell(0, *place, What::Received(None)).await;
    }
    assert_eq!((world.round().await.removed, world.replicas(0).await), (0, left.clone()));
    for place in gone {
        world.tell(0, place, What::Deleted).await;
    }
    world.round().await;
    assert_eq!((world.concern().await, world.replicas(0).await), (None, left));
    assert_sound(&world.nn).await;
}

/// A deletion that does not come about is told again.
pub async fn a_deletion_that_is_lost() {
    let mut world = World::new(2, 1, 1).await;
    world.holders(1, &[0, 1]).await;
    assert_eq!(world.round().await.removed, 1);
    let told = world.commands(CommandKind::Invalidate).await;
    world.deliver().await;
    world.round().await;
    assert!(world.commands(CommandKind::Invalidate).await.is_empty(), "it may be about to happen");
    pass_time(PENDING);
    assert_eq!(world.round().await.removed, 0, "it is the same one");
    let again = world.commands(CommandKind::Invalidate).await;
    assert!(again.keys().eq(told.keys()), "{again:?} {told:?}");
    // Without the other one it is not told again.
    let (gone, left) = if told.contains_key(&(0, 0)) { (0, 1) } else { (1, 0) };
    let mut liveness = [Liveness::Live; 2];
    liveness[left] = Liveness::Stale;
    world.deliver().await;
    world.show(&liveness);
    pass_time(PENDING);
    assert_eq!(world.round().await.removed, 0);
    assert_eq!(world.replicas(0).await, [0, 1]);
    // It may have come about all the same: when both are there the other one stays.
    world.show(&[Liveness::Live; 2]);
    assert_eq!(world.round().await.removed, 1);
    assert_eq!(world.replicas(0).await, [left]);
    world.tell(0, gone, What::Deleted).await;
    world.round().await;
    world.round().await;
    assert_eq!((world.concern().await, world.replicas(0).await), (None, vec![left]));
}

/// What was to be deleted is judged anew when those that were to stay are gone: nobody waits for its deletion to come about.
pub async fn what_was_to_be_deleted_is_the_last() {
    let mut world = World::new(2, 1, 1).await;
    world.holders(1, &[0, 1]).await;
    world.show(&[Liveness::Live, Liveness::Stale]);
    assert_eq!(world.round().await.removed, 1);
    assert_eq!(world.replicas(0).await, [0]);
    world.show(&[Liveness::Dead, Liveness::Live]);
    assert_eq!(world.read_from().await, [world.nodes[1].1], "it may be there still");
    world.round().await;
    world.round().await;
    assert_eq!(world.replicas(0).await, [0, 1]);
    assert!(world.commands(CommandKind::Invalidate).await.is_empty());
    assert_eq!(world.read_from().await, [world.nodes[1].1]);
    // It may have been deleted all the same: the one that comes back is not deleted because of it.
    world.show(&[Liveness::Live; 2]);
    world.round().await;
    world.round().await;
    assert_eq!(world.replicas(0).await, [0]);
    // Taken back once more, it is not told again.
    world.show(&[Liveness::Dead, Liveness::Live]);
    world.round().await;
    world.round().await;
    pass_time(PENDING);
    world.round().await;
    assert_eq!(world.replicas(0).await, [0, 1]);
    assert!(world.commands(CommandKind::Invalidate).await.is_empty());
    // Nobody said that it is gone: it is there.
    world.show(&[Liveness::Stale, Liveness::Live]);
    world.round().await;
    world.round().await;
    assert_eq!(world.replicas(0).await, [1]);
    assert_sound(&world.nn).await;
}

/// A datanode that moves a replica from one of its storages to another tells of the new place alone.
pub async fn a_replica_moves_on_its_datanode() {
    let mut world = World::new(2, 2, 1).await;
    world.holders(1, &[0, 1]).await;
    world.round().await;
    assert_eq!(world.concern().await, None);
    world.tell_elsewhere(0, 0, What::Received(None)).await;
    assert_eq!(world.concern().await, None);
    let rows = world.rows(0).await;
    assert_eq!(rows.iter().map(|(of, _)| *of).collect::<Vec<_>>(), [world.second[0], world.nodes[1].1]);
    // There and back in one report; what is said of one being written is older.
    let (back, there) = (world.told(0, 0, What::Received(None)), world.told_elsewhere(0, 0, What::Receiving));
    apply(&world.nn, "u1", vec![back, there]).await.unwrap();
    assert_eq!(world.replicas(0).await, [0, 1]);
    assert_eq!(world.rows(0).await[0].0, world.nodes[0].1);
    // Two rows of one datanode, however they came about, are one replica, and cost no command.
    let (id, other) = (block_id(world.file, 0), world.second[0]);
    let (file, row) = (world.file, world.rows(0).await[0].1.clone());
    let row = Replica { reported_ms: row.reported_ms + 1, ..row };
    let op: Op<Answer> = Box::new(move |tx| {
        tx.insert(&replica(id, other), &row)?;
        tx.insert(&storage_replica(other, id), &row)?;
        note_attention(tx, file)?;
        Ok(Answer { yes: true })
    });
    own(&world.nn, op).await.unwrap();
    assert_eq!(world.read_from().await.len(), 2);
    assert_eq!(world.round().await.removed, 0);
    assert_eq!(
        (world.replicas(0).await, world.commands(CommandKind::Invalidate).await.len()),
        (vec![0, 1], 0)
    );
    // What is known of it goes with it.
    let bad = vec![Bad { block: id, stamp: 1001, storage: other }];
    let op: Op<Applied> = Box::new(move |tx| condemn(tx, &bad));
    assert_eq!(own(&world.nn, op).await.unwrap().condemned, 1);
    world.holders(1, &[0]).await;
    let rows = world.rows(0).await;
    assert!(rows.len() == 2 && rows[0].1.corrupt && rows[0].0 == world.nodes[0].1, "{rows:?}");
    let op: Op<Answer> = Box::new(move |tx| {
        trellis_namenode::ops::replicas::remove(tx, &[(id, other)])?;
        Ok(Answer { yes: true })
    });
    own(&world.nn, op).await.unwrap();
    assert_sound(&world.nn).await;
    // So does that it is to be deleted.
    let mut world = World::new(2, 1, 1).await;
    world.holders(1, &[0, 1]).await;
    assert_eq!(world.round().await.removed, 1);
    let left = world.replicas(0).await[0];
    world.tell_elsewhere(0, 1 - left, What::Received(None)).await;
    assert_eq!((world.round().await.removed, world.replicas(0).await), (0, vec![left]));
    assert_eq!(world.rows(0).await.len(), 2);
}

/// A copy may land on another storage of its datanode than it was sent to.
pub async fn a_copy_lands_on_another_storage() {
    let mut world = World::new(3, 2, 3).await;
    world.holders(3, &[0]).await;
    assert_eq!(world.round().await.copies, 2, "no more streams at a time from one datanode");
    let given = world.commands(CommandKind::Transfer).await;
    let mut arrived = Vec::new();
    for ((_, ordinal), command) in given {
        let to = world.nodes.iter().position(|(_, storage)| *storage == command.storages[0]).unwrap();
        world.tell_elsewhere(ordinal, to, What::Received(None)).await;
        assert_eq!(world.replicas(ordinal).await, [0, to]);
        assert_eq!(world.rows(ordinal).await.len(), 2);
        arrived.push(ordinal);
    }
    // The streams are free at once.
    assert_eq!(world.round().await.copies, 1);
    assert_sound(&world.nn).await;
}

/// What a datanode was to send holds up other copies only as long as it may not have heard of it, or says that it sends.
pub async fn copies_that_are_lost_hold_up_no_others() {
    let mut world = World::new(3, 2, 5).await;
    world.holders(5, &[0]).await;
    assert_eq!(world.round().await.copies, 2);
    assert_eq!(world.round().await.copies, 0, "it may not tell of them yet");
    assert_eq!(world.round().await.copies, 2, "it sends nothing: they were lost");
    world.nn.engine.datanodes().set_view(world.sending(0, 1));
    assert_eq!(world.round().await.copies, 0);
    assert_eq!(world.round().await.copies, 1, "one stream is busy");
    // What was lost is ordered again once its time is over.
    assert_eq!(world.commands(CommandKind::Transfer).await.len(), 5);
    pass_time(Duration::from_secs(300));
    assert_eq!(world.round().await.copies, 1);
}

/// A recovery asks each datanode once, where its replica is.
pub async fn a_recovery_asks_a_datanode_once() {
    let world = World::new(2, 2, 1).await;
    world.holders(1, &[0, 1]).await;
    let su = root(&world.nn);
    let located = su.append("/f", "c1", false).await.unwrap().unwrap();
    assert_eq!(located.storages.len(), 2);
    let writing = |told: Reported| Reported { stamp: 1002, length: 9, ..told };
    let there = writing(world.told_elsewhere(0, 0, What::Receiving));
    apply(&world.nn, "u1", vec![there]).await.unwrap();
    assert_eq!(su.recover("/f", "c2").await, Ok(false));
    let told = world.commands(CommandKind::Recover).await.into_values().next().unwrap();
    let mut asked = told.storages.clone();
    asked.sort_unstable();
    let mut want = [world.second[0], world.nodes[1].1];
    want.sort_unstable();
    assert_eq!(asked, want);
    assert_sound(&world.nn).await;
}

/// What was to be deleted on a datanode that dies is judged anew when it comes back: it may be the last one then.
pub async fn the_dead_keep_what_they_have() {
    let mut world = World::new(2, 1, 1).await;
    world.holders(1, &[0, 1]).await;
    world.show(&[Liveness::Live, Liveness::Stale]);
    assert_eq!(world.round().await.removed, 1);
    assert_eq!(world.commands(CommandKind::Invalidate).await.len(), 1);
    world.show(&[Liveness::Live, Liveness::Dead]);
    world.round().await;
    assert!(world.commands(CommandKind::Invalidate).await.is_empty());
    world.show(&[Liveness::Dead, Liveness::Live]);
    world.round().await;
    world.round().await;
    assert_eq!(world.replicas(0).await, [0, 1]);
    assert!(world.commands(CommandKind::Invalidate).await.is_empty());
}

/// A copy that nobody waits for any more makes one too many: that is seen, and ends.
pub async fn a_copy_that_comes_late() {
    let mut world = World::new(3, 2, 1).await;
    world.holders(1, &[0]).await;
    world.round().await;
    let first = world.commands(CommandKind::Transfer).await[&(0, 0)].storages[0];
    let first = world.nodes.iter().position(|(_, storage)| *storage == first).unwrap();
    let second = 3 - first;
    // Its target is dead, and then comes back with it.
    let mut liveness = [Liveness::Live; 3];
    liveness[first] = Liveness::Dead;
    world.show(&liveness);
    world.round().await;
    assert_eq!(world.commands(CommandKind::Transfer).await[&(0, 0)].storages, [world.nodes[second].1]);
    world.tell(0, second, What::Received(None)).await;
    world.round().await;
    world.round().await;
    assert_eq!(world.concern().await, None);
    world.show(&[Liveness::Live; 3]);
    world.tell(0, first, What::Received(None)).await;
    assert_eq!(world.round().await, Done { removed: 1, files: 1, copies: 0 });
    let left = world.replicas(0).await;
    assert_eq!(left.len(), 2);
    let gone = (0..3).find(|place| !left.contains(place)).unwrap();
    world.tell(0, gone, What::Deleted).await;
    for _ in 0..3 {
        let done = world.round().await;
        assert_eq!((done.copies, done.removed), (0, 0), "nothing goes to and fro");
    }
    assert_eq!(world.concern().await, None);
}

/// What is to be deleted is written on by nobody, and asked by no recovery.
pub async fn what_leaves_is_not_written_on() {
    let mut world = World::new(3, 1, 1).await;
    world.holders(1, &[0, 1]).await;
    world.round().await;
    let left = world.replicas(0).await[0];
    let su = root(&world.nn);
    let located = su.append("/f", "c1", false).await.unwrap().unwrap();
    assert_eq!(located.storages, [world.nodes[left].1]);
    // A pipeline that lost its datanode does not get the one that is to delete its replica.
    let existing = format!("s{}", left + 1);
    let file = ("/f", world.file, "c1");
    let asked = su.more_datanodes(file, named(&located.block, 7), &[&existing]).await.unwrap();
    assert_eq!(asked, [world.nodes[left].1, world.nodes[2].1]);
    assert_eq!(su.recover("/f", "c2").await, Ok(false));
    let told = world.commands(CommandKind::Recover).await;
    assert_eq!(told.into_values().map(|told| told.storages).collect::<Vec<_>>(), [vec![world.nodes[left].1]]);
    // Of a block that is being written nothing is removed; what was ordered waits.
    world.round().await;
    assert!(world.concern().await.is_some_and(|concern| concern.ordered == 1));
    assert_sound(&world.nn).await;
}

pub async fn the_last_ones_stay() {
    let mut world = World::new(3, 2, 1).await;
    world.holders(1, &[0, 1, 2]).await;
    world.show(&[Liveness::Live, Liveness::Stale, Liveness::Stale]);
    assert_eq!(world.round().await.removed, 0, "only one of three is heard of");
    assert_eq!(world.concern().await.map(|concern| concern.excess), Some(1));
}

pub async fn corrupt_ones_go_when_enough_are_good() {
    let mut world = World::new(3, 2, 1).await;
    world.holders(1, &[0, 1]).await;
    let short = Reported { length: 6, ..world.told(0, 1, What::Received(None)) };
    apply(&world.nn, "u2", vec![short]).await.unwrap();
    let done = world.round().await;
    assert_eq!((done.copies, done.removed), (1, 0), "one good is not enough");
    assert_eq!(world.commands(CommandKind::Transfer).await[&(0, 0)].storages, [world.nodes[2].1]);
    world.tell(0, 2, What::Received(None)).await;
    assert_eq!(world.round().await.removed, 1);
    assert_eq!(world.replicas(0).await, [0, 2]);

    // Where no other datanode is, the corrupt one makes room.
    let mut world = World::new(2, 2, 1).await;
    world.holders(1, &[0]).await;
    let short = Reported { length: 6, ..world.told(0, 1, What::Received(None)) };
    apply(&world.nn, "u2", vec![short]).await.unwrap();
    assert_eq!(world.round().await.removed, 1);
    world.tell(0, 1, What::Deleted).await;
    let deleted = world.commands(CommandKind::Invalidate).await;
    assert_eq!(deleted.keys().collect::<Vec<_>>(), [&(1, 0)]);
    assert_eq!(world.round().await.copies, 0, "the command would delete the copy");
    world.deliver().await;
    assert_eq!(world.round().await.copies, 1);
    // No good one at all: nothing goes, and that is told.
    let mut world = World::new(2, 1, 1).await;
    let short = Reported { length: 6, ..world.told(0, 0, What::Received(None)) };
    apply(&world.nn, "u1", vec![short]).await.unwrap();
    assert_eq!(world.round().await.removed, 0);
    let concern = world.concern().await.unwrap();
    assert_eq!((concern.missing, concern.corrupt), (1, 1));
}

/// What changes after a file was found well is noted again: a copy that was given up arrives after the one that took its
/// place, a replica goes bad or goes.
pub async fn late_changes_are_noted_again() {
    for (what, length, removed, copies) in [
        (What::Received(None), 7, 1, 0),
        (What::Listed(ReplicaState::Finalized, 0), 7, 1, 0),
        (What::Received(Some("nobody".into())), 7, 1, 0),
        (What::Received(None), 6, 1, 0),
    ] {
        let mut world = World::new(3, 2, 1).await;
        world.holders(1, &[0, 1]).await;
        world.round().await;
        assert_eq!(world.concern().await, None);
        let told = Reported { length, ..world.told(0, 2, what.clone()) };
        apply(&world.nn, "u3", vec![told]).await.unwrap();
        let done = world.round().await;
        assert_eq!((done.removed, done.copies), (removed, copies), "{what:?} of {length} bytes");
    }
    // One that is not whole counts for nothing, until it is whole.
    let mut world = World::new(3, 2, 1).await;
    world.holders(1, &[0, 1]).await;
    world.tell(0, 2, What::Receiving).await;
    world.round().await;
    assert_eq!(world.concern().await, None);
    world.tell(0, 2, What::Received(None)).await;
    assert_eq!(world.round().await.removed, 1);
    // One that was whole is being written again, with another stamp.
    let mut world = World::new(3, 2, 1).await;
    world.holders(1, &[0, 1]).await;
    world.round().await;
    let again = Reported { stamp: 1002, ..world.told(0, 1, What::Receiving) };
    apply(&world.nn, "u2", vec![again]).await.unwrap();
    assert_eq!(world.round().await.copies, 1);
    // One is gone.
    let mut world = World::new(3, 2, 1).await;
    world.holders(1, &[0, 1]).await;
    world.round().await;
    world.tell(0, 1, What::Deleted).await;
    assert_eq!(world.round().await.copies, 1);
}

/// A datanode that was away while a block was recovered still writes the block as it was, which keeps a copy out: that is
/// told in full while a copy to there is waited for.
pub async fn an_older_one_where_a_copy_is_to_come_goes() {
    let mut world = World::new(2, 2, 1).await;
    world.holders(1, &[0]).await;
    assert_eq!(world.round().await.copies, 1);
    let old = Reported { stamp: 1000, ..world.told(0, 1, What::Listed(ReplicaState::BeingWritten, 0)) };
    apply(&world.nn, "u2", vec![old]).await.unwrap();
    assert_eq!(world.round().await.removed, 1);
}

/// A datanode deletes a replica only by the stamp that it knows: one that missed an append goes by its own, or the copy
/// that is to take its place is refused for ever.
pub async fn an_outdated_one_goes_by_its_own_stamp() {
    let outdated = async || {
        let world = World::new(2, 2, 1).await;
        world.holders(1, &[0]).await;
        let old = Reported { stamp: 1000, ..world.told(0, 1, What::Received(None)) };
        apply(&world.nn, "u2", vec![old]).await.unwrap();
        world
    };
    let stamps = async |world: &World| -> Vec<(usize, u64)> {
        let given = world.commands(CommandKind::Invalidate).await;
        given.iter().map(|((place, _), command)| (*place, command.stamp)).collect()
    };
    let mut world = outdated().await;
    assert_eq!(world.round().await.removed, 1);
    assert_eq!(stamps(&world).await, [(1, 1000)]);
    // Its file is deleted before anybody looked after it.
    let world = outdated().await;
    assert_eq!(root(&world.nn).rm("/f", false).await, Ok(true));
    reap_all(&world.nn).await;
    assert_eq!(stamps(&world).await, [(0, 1001), (1, 1000)]);
}

pub async fn a_datanode_dies_and_returns() {
    let mut world = World::new(3, 2, 3).await;
    world.holders(3, &[0, 1]).await;
    world.round().await;
    assert_eq!(world.concern().await, None);
    world.show(&[Liveness::Live, Liveness::Dead, Liveness::Live]);
    assert_eq!(world.round().await, Done::default(), "its files are noted, and looked at in the next");
    let done = world.round().await;
    assert_eq!(done.copies, 2, "no more streams at a time from one datanode");
    for ordinal in 0..3 {
        world.tell(ordinal, 2, What::Received(None)).await;
    }
    world.round().await;
    world.round().await;
    assert_eq!(world.concern().await, None);
    // It returns with its replicas: now there are too many.
    world.show(&[Liveness::Live; 3]);
    world.round().await;
    assert_eq!(world.round().await.removed, 3);
}

/// A datanode died under one leader and comes back under the next, which never saw it dead: its files are noted all the
/// same, once; not before it is heard of.
pub async fn a_datanode_returns_under_another_leader() {
    let mut world = World::new(3, 2, 1).await;
    world.holders(1, &[0, 1]).await;
    world.round().await;
    world.show(&[Liveness::Live, Liveness::Dead, Liveness::Live]);
    world.round().await;
    assert_eq!(world.round().await.copies, 1);
    world.tell(0, 2, What::Received(None)).await;
    world.round().await;
    world.round().await;
    assert_eq!(world.concern().await, None);
    world.job = Replication::default();
    world.show(&[Liveness::Live, Liveness::Stale, Liveness::Live]);
    world.round().await;
    assert_eq!(world.round().await, Done::default(), "it was not heard of yet");
    world.show(&[Liveness::Live; 3]);
    world.round().await;
    assert_eq!(world.round().await.removed, 1);
    let (gone, _) = *world.commands(CommandKind::Invalidate).await.keys().next().unwrap();
    world.deliver().await;
    world.tell(0, gone, What::Deleted).await;
    world.round().await;
    world.round().await;
    assert_eq!(world.concern().await, None);
    world.job = Replication::default();
    world.show(&[Liveness::Live; 3]);
    world.round().await;
    assert_eq!(world.round().await.files, 0, "the leader after that has nothing to note");
}

/// A large file is judged in batches, and so are the replicas of a storage.
/// Rows that do not decode stop nobody: of files noted, of a file's blocks, of replicas on a storage that failed.
pub async fn what_does_not_decode_is_passed_by() {
    let mut world = World::new(3, 2, 1).await;
    world.holders(1, &[0, 1]).await;
    for partition in attention_partitions() {
        spoil(&world.nn, &Key::new(partition, TableId::Attention, &1u64.to_be_bytes())).await;
    }
    for i in 0..40 {
        let (su, name) = (Actor::superuser(&world.nn), format!("/g{i}"));
        su.file(&name).await;
        let id = su.status(&name).await.unwrap().unwrap().inode.id;
        spoil(&world.nn, &block(id, 0).key).await;
        let op: Op<Answer> = Box::new(move |tx| {
            note_attention(tx, id)?;
            Ok(Answer { yes: true })
        });
        own(&world.nn, op).await.unwrap();
    }
    spoil(&world.nn, &storage_replica(world.nodes[1].1, 7).key).await;
    assert_eq!(world.round().await.copies, 0);
    assert_eq!(world.concern().await, None);
    let passed = &world.nn.engine.datanodes().counts().passed;
    assert!(passed.load(std::sync::atomic::Ordering::Relaxed) >= 40);
    world.show(&[Liveness::Live, Liveness::Dead, Liveness::Live]);
    world.round().await;
    assert_eq!(world.round().await.copies + world.commands(CommandKind::Transfer).await.len() as u64, 2);
}

pub async fn many_blocks() {
    let mut world = World::new(2, 1, 250).await;
    let told: Vec<Reported> = (0..250).map(|ordinal| world.told(ordinal, 0, What::Received(None))).collect();
    for batch in told.chunks(100) {
        apply(&world.nn, "u1", batch.to_vec()).await.unwrap();
    }
    world.round().await;
    assert_eq!(world.concern().await, None);
    world.show(&[Liveness::Dead, Liveness::Live]);
    world.round().await;
    world.round().await;
    assert_eq!(world.concern().await.map(|concern| concern.missing), Some(250));
    world.show(&[Liveness::Live; 2]);
    world.round().await;
    world.round().await;
    assert_eq!(world.concern().await, None);
    let storage = world.nodes[0].1;
    let mut after = None;
    let mut seen = 0;
    loop {
        let op: Op<Noted> = Box::new(move |tx| note_storage(tx, storage, after, None));
        let noted = own(&world.nn, op).await.unwrap();
        seen += noted.replicas;
        let Some(more) = noted.more else { break };
        after = Some(more);
    }
    assert_eq!(seen, 250);
}

/// A copy that does not arrive is ordered again.
pub async fn a_copy_that_is_lost() {
    // One that only one datanode can take goes there again.
    for datanodes in [2, 3] {
        let mut world = World::new(datanodes, 2, 1).await;
        world.holders(1, &[0]).await;
        assert_eq!(world.round().await.copies, 1);
        world.deliver().await;
        assert_eq!(world.round().await.copies, 0);
        pass_time(PENDING);
        world.job = Replication::default();
        assert_eq!(world.round().await.copies, 1);
        assert_eq!(world.commands(CommandKind::Transfer).await.len(), 1);
        assert_sound(&world.nn).await;
    }
}

/// Of a storage that failed nothing is kept once its files are well, and of those that are deleted nothing at all.
pub async fn what_failed_is_forgotten() {
    let mut world = World::new(3, 2, 2).await;
    world.holders(2, &[0, 1]).await;
    world.round().await;
    assert_eq!(world.concern().await, None);
    reports::storages(&world.nn, "u1", &["t1"]).await.unwrap();
    world.show(&[Liveness::Live; 3]);
    world.round().await;
    let given = world.commands(CommandKind::Transfer).await;
    assert!(!given.is_empty() || world.round().await.copies > 0);
    assert_eq!(world.replicas(0).await, [0, 1], "it may come back with the only one");
    for ((_, ordinal), command) in world.commands(CommandKind::Transfer).await {
        assert!(!command.storages.contains(&world.nodes[0].1));
        let is_to = |number: &u32| command.storages.contains(number);
        let to = (0..3).find(|place| is_to(&world.nodes[*place].1) || is_to(&world.second[*place])).unwrap();
        match is_to(&world.second[to]) {
            true => world.tell_elsewhere(ordinal, to, What::Received(None)).await,
            false => world.tell(ordinal, to, What::Received(None)).await,
        }
    }
    world.round().await;
    world.round().await;
    assert_eq!(world.concern().await, None);
    for ordinal in 0..2 {
        let rows = world.rows(ordinal).await;
        assert!(rows.len() == 2 && rows.iter().all(|(of, _)| *of != world.nodes[0].1), "{rows:?}");
    }
    assert_sound(&world.nn).await;
}

/// Nothing is asked of a dead datanode, and what it was asked before is taken back.
pub async fn the_dead_are_told_nothing() {
    let mut world = World::new(2, 1, 1).await;
    world.holders(1, &[0, 1]).await;
    world.show(&[Liveness::Live, Liveness::Stale]);
    assert_eq!(root(&world.nn).rm("/f", false).await, Ok(true));
    reap_all(&world.nn).await;
    assert_eq!(world.commands(CommandKind::Invalidate).await.len(), 2);
    world.show(&[Liveness::Live, Liveness::Dead]);
    world.round().await;
    let left = world.commands(CommandKind::Invalidate).await;
    assert_eq!(left.keys().collect::<Vec<_>>(), [&(0, 0)]);
    let world = World::new(2, 1, 1).await;
    world.holders(1, &[0, 1]).await;
    world.show(&[Liveness::Live, Liveness::Dead]);
    assert_eq!(root(&world.nn).rm("/f", false).await, Ok(true));
    reap_all(&world.nn).await;
    let left = world.commands(CommandKind::Invalidate).await;
    assert_eq!(left.keys().collect::<Vec<_>>(), [&(0, 0)]);
    assert_sound(&world.nn).await;
}

//! Reports of datanodes as operations: what rows become of them.

use std::ops::Range;

use trellis_metastore::change::Hold;
use trellis_metastore::schema::{
    Block, BlockFile, BlockState, Command, CommandKind, Datanode, Replica, ReplicaState, Storage, attention,
    block, block_file, block_id, command, replica, storage_replica,
};
use trellis_namenode::datanodes::View;
use trellis_namenode::datanodes::registry::{Beat, Registry, Timing};
use trellis_namenode::datanodes::reports::{Listed, full, incremental};
use trellis_namenode::datanodes::view::{Liveness, Node, Space};
use trellis_namenode::engine::Op;
use trellis_namenode::jobs;
use trellis_namenode::ops::datanodes::{self, Claim, Register, ToldStorage, tell_storages};
use trellis_namenode::ops::report::{self, Applied, Report, Reported, What};
use trellis_proto::exception::RpcError;

use crate::support::{Answer, FRESH_STORE, Namenode, SUPERUSER, pass_time, rounds};

/// An inode that need not exist: reports ask for blocks alone.
pub const FILE: u64 = 20_000;
/// The number of the first storage of the first datanode.
pub const STORAGE: u32 = 2;

pub async fn own<A: prost::Message + Default + 'static>(nn: &Namenode, op: Op<A>) -> Result<A, RpcError> {
    nn.engine.write_wait(nn.engine.own_ctx(), 0, 0, false, op).await
}

/// A datanode that registers with this namenode, which would own it.
pub async fn register(nn: &Namenode, uuid: &str) -> Result<Datanode, RpcError> {
    let said = Datanode {
        uuid: uuid.into(),
        ip: uuid.into(),
        host: uuid.into(),
        data_port: 9866,
        ..Datanode::default()
    };
    register_as(nn, said).await
}

async fn register_as(nn: &Namenode, said: Datanode) -> Result<Datanode, RpcError> {
    let call = Register { said, claims: Some(Claim { member: nn.engine.member(), from: 0 }) };
    let row = own(nn, Box::new(move |tx| datanodes::register(tx, &call))).await?;
    let now = tokio::time::Instant::now();
    nn.engine.datanodes().registry().registered(row.clone(), now, nn.engine.now_ms());
    nn.engine.datanodes().show();
    Ok(row)
}

/// Its storages are these.
pub async fn storages(nn: &Namenode, uuid: &str, storages: &[&str]) -> Result<Datanode, RpcError> {
    let told = |uuid: &&str| ToldStorage { uuid: (*uuid).into(), kind: 1, failed: false };
    let (uuid, told): (String, Vec<ToldStorage>) = (uuid.into(), storages.iter().map(told).collect());
    let row = own(nn, Box::new(move |tx| tell_storages(tx, &uuid, &told, true))).await?;
    nn.engine.datanodes().registry().adopt(row.clone());
    nn.engine.datanodes().show();
    Ok(row)
}

async fn fresh() -> Namenode {
    let nn = Namenode::fresh().await;
    register(&nn, "u1").await.unwrap();
    storages(&nn, "u1", &["s1"]).await.unwrap();
    nn
}

pub fn row(ordinal: u32, state: BlockState) -> Block {
    let id = block_id(FILE, ordinal);
    Block { id, stamp: 1001, last_stamp: 1001, length: 7, state: state as i32, ..Block::default() }
}

/// Complete blocks of 7 bytes.
pub async fn plant(nn: &Namenode, ordinals: Range<u32>) {
    write_blocks(nn, ordinals.map(|ordinal| (ordinal, row(ordinal, BlockState::Complete))).collect()).await;
}

async fn write_blocks(nn: &Namenode, blocks: Vec<(u32, Block)>) {
    let op: Op<Answer> = Box::new(move |tx| {
        for (ordinal, row) in &blocks {
            let key = block(FILE, *ordinal);
            match tx.get(&key, Hold::Held)? {
                Some(_) => tx.put(&key, row)?,
                None => tx.insert(&key, row)?,
            }
        }
        Ok(Answer { yes: true })
    });
    own(nn, op).await.unwrap();
}

/// What a datanode says of a block of 7 bytes.
pub fn told(ordinal: u32, storage: u32, what: What) -> Reported {
    Reported { storage, block: block_id(FILE, ordinal), stamp: 1001, length: 7, what }
}

pub async fn apply(nn: &Namenode, uuid: &str, replicas: Vec<Reported>) -> Result<Applied, RpcError> {
    let epoch = nn.engine.datanodes().registry().row(uuid).map_or(0, |row| row.epoch);
    let call = Report { uuid: uuid.into(), member: nn.engine.member(), epoch, replicas };
    own(nn, Box::new(move |tx| report::apply(tx, &call))).await
}

/// A replica's two rows, which must agree.
async fn found(nn: &Namenode, ordinal: u32, storage: u32) -> Option<Replica> {
    let id = block_id(FILE, ordinal);
    let read = move |tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>| {
        let beside = tx.get(&replica(id, storage), Hold::Loose)?.map(|row| row.value);
        Ok((beside, tx.get(&storage_replica(storage, id), Hold::Loose)?.map(|row| row.value)))
    };
    let (beside, on_storage) = nn.read(SUPERUSER, read).await.unwrap();
    assert_eq!(beside, on_storage);
    beside
}

async fn is_noted(nn: &Namenode, inode: u64) -> bool {
    nn.read(SUPERUSER, move |tx| Ok(tx.get(&attention(inode), Hold::Loose)?.is_some())).await.unwrap()
}

async fn deletion(nn: &Namenode, datanode: u32, ordinal: u32) -> Option<Command> {
    let key = command(datanode, CommandKind::Invalidate, block_id(FILE, ordinal));
    nn.read(SUPERUSER, move |tx| Ok(tx.get(&key, Hold::Loose)?.map(|row| row.value))).await.unwrap()
}

pub async fn replicas_come_change_and_go() {
    let nn = fresh().await;
    let writing = Block { expected: vec![STORAGE], ..row(1, BlockState::UnderConstruction) };
    write_blocks(&nn, vec![(0, row(0, BlockState::UnderConstruction)), (1, writing)]).await;
    let both = vec![told(0, STORAGE, What::Receiving), told(1, STORAGE, What::Receiving)];
    assert_eq!(apply(&nn, "u1", both).await.unwrap().changed, 1);
    assert_eq!(found(&nn, 0, STORAGE).await.map(|r| r.state()), Some(ReplicaState::BeingWritten));
    assert_eq!(found(&nn, 1, STORAGE).await, None, "the pipeline says so");
    let whole = vec![told(0, STORAGE, What::Received(None)), told(1, STORAGE, What::Received(None))];
    assert_eq!(apply(&nn, "u1", whole.clone()).await.unwrap().changed, 2);
    assert_eq!(apply(&nn, "u1", whole).await.unwrap(), Applied::default(), "told as it is known");
    // A report that was overtaken does not undo one that is whole.
    assert_eq!(apply(&nn, "u1", vec![told(0, STORAGE, What::Receiving)]).await.unwrap().changed, 0);
    // Nor does the deletion of an earlier one that is told late.
    let earlier = Reported { stamp: 1000, ..told(0, STORAGE, What::Deleted) };
    assert_eq!(apply(&nn, "u1", vec![earlier]).await.unwrap(), Applied::default());
    assert_eq!(found(&nn, 0, STORAGE).await.map(|r| r.stamp), Some(1001));
    assert!(!is_noted(&nn, FILE).await);
    assert_eq!(apply(&nn, "u1", vec![told(0, STORAGE, What::Deleted)]).await.unwrap().changed, 1);
    assert_eq!(found(&nn, 0, STORAGE).await, None);
    assert!(is_noted(&nn, FILE).await);
}

pub async fn what_is_not_as_its_block_is_condemned() {
    let nn = fresh().await;
    let newer = Block { stamp: 1002, last_stamp: 1002, ..row(1, BlockState::Committed) };
    write_blocks(&nn, vec![(0, row(0, BlockState::Complete)), (1, newer)]).await;
    let short = Reported { length: 6, ..told(0, STORAGE, What::Received(None)) };
    let stale = told(1, STORAGE, What::Received(None));
    assert_eq!(apply(&nn, "u1", vec![short, stale]).await.unwrap().condemned, 2);
    assert!(is_noted(&nn, FILE).await);
    // As it was reported: what it is worth is decided beside its block.
    assert_eq!(found(&nn, 0, STORAGE).await.map(|r| (r.length, r.corrupt)), Some((6, false)));

    plant(&nn, 2..3).await;
    apply(&nn, "u1", vec![told(2, STORAGE, What::Received(None))]).await.unwrap();
    for (stamp, condemned) in [(1000, 0), (1001, 1), (1001, 0)] {
        let bad = |storage| report::Bad { block: block_id(FILE, 2), stamp, storage };
        let bad = vec![bad(STORAGE), bad(77), bad(STORAGE)];
        let op: Op<Applied> = Box::new(move |tx| report::condemn(tx, &bad));
        assert_eq!(own(&nn, op).await.unwrap().condemned, condemned, "{stamp}");
    }
    // It stays bad until its bytes are others.
    apply(&nn, "u1", vec![told(2, STORAGE, What::Received(None))]).await.unwrap();
    assert_eq!(found(&nn, 2, STORAGE).await.map(|r| r.corrupt), Some(true));
}

pub async fn blocks_that_no_file_has() {
    let nn = fresh().await;
    let all = vec![
        told(0, STORAGE, What::Received(None)),
        told(1, STORAGE, What::Listed(ReplicaState::WaitingToBeRecovered, 0)),
        told(2, STORAGE, What::Deleted),
    ];
    assert_eq!(apply(&nn, "u1", all).await.unwrap().unknown, 2);
    let given = deletion(&nn, 1, 0).await.unwrap();
    assert_eq!((given.silent, given.storages), (true, vec![STORAGE]));
    assert!(deletion(&nn, 1, 1).await.is_some() && deletion(&nn, 1, 2).await.is_none());
    assert_eq!(found(&nn, 0, STORAGE).await, None);
}

/// After a concat the id names another file than the one that has the block.
pub async fn a_moved_block() {
    let nn = fresh().await;
    let op: Op<Answer> = Box::new(move |tx| {
        tx.insert(&block_file(block_id(FILE, 0)), &BlockFile { inode: FILE + 1, ordinal: 5 })?;
        tx.insert(&block(FILE + 1, 5), &row(0, BlockState::Complete))?;
        Ok(Answer { yes: true })
    });
    own(&nn, op).await.unwrap();
    let short = Reported { length: 6, ..told(0, STORAGE, What::Received(None)) };
    assert_eq!(apply(&nn, "u1", vec![short]).await.unwrap().condemned, 1);
    assert!(is_noted(&nn, FILE + 1).await && !is_noted(&nn, FILE).await);
    assert!(found(&nn, 0, STORAGE).await.is_some());
    // The id of the place where it lies now was never given out.
    let stray = Reported { block: block_id(FILE + 1, 5), ..told(0, STORAGE, What::Received(None)) };
    assert_eq!(apply(&nn, "u1", vec![stray]).await.unwrap().unknown, 1);
}

fn listed(ordinal: u32, length: u64) -> Listed {
    Listed { block: block_id(FILE, ordinal), state: 0, stamp: 1001, length }
}

pub async fn a_full_report() {
    let nn = fresh().await;
    plant(&nn, 0..10).await;
    let told: Vec<Reported> = (0..6).map(|ordinal| told(ordinal, STORAGE, What::Received(None))).collect();
    apply(&nn, "u1", told[..5].to_vec()).await.unwrap();
    pass_time(std::time::Duration::from_secs(1));
    let granted_ms = nn.engine.now_ms();
    apply(&nn, "u1", told[5..].to_vec()).await.unwrap();
    // Block 0 as before, 1 changed, 2 to 5 not there, 8 new, 77 unknown.
    let list = [listed(0, 7), listed(1, 6), listed(8, 7), listed(77, 7)];
    let compared = full(&nn.engine, "u1", STORAGE, &list, granted_ms).await.unwrap();
    assert_eq!((compared.rows, compared.differing), (6, 6));
    let mut there = Vec::new();
    for ordinal in 0..10 {
        if let Some(replica) = found(&nn, ordinal, STORAGE).await {
            there.push((ordinal, replica.length));
        }
    }
    assert_eq!(there, [(0, 7), (1, 6), (5, 7), (8, 7)], "5 was reported after the lease was granted");
    assert!(deletion(&nn, 1, 77).await.is_some());
    let (compared, spent) = nn.spent(full(&nn.engine, "u1", STORAGE, &list[..3], granted_ms)).await;
    // The one that is not as its block is, is noted again.
    assert_eq!((compared.unwrap().differing, spent.rows_written), (1, 1));
}

/// What was whole and is not any more is told in full, and believed unless it was told to be whole since.
pub async fn a_full_report_of_what_is_not_whole() {
    let nn = fresh().await;
    plant(&nn, 0..3).await;
    let writing = Block {
        stamp: 1002,
        last_stamp: 1002,
        expected: vec![STORAGE],
        ..row(2, BlockState::UnderConstruction)
    };
    let told: Vec<Reported> = (0..3).map(|ordinal| told(ordinal, STORAGE, What::Received(None))).collect();
    apply(&nn, "u1", vec![told[0].clone(), told[2].clone()]).await.unwrap();
    write_blocks(&nn, vec![(2, writing)]).await;
    pass_time(std::time::Duration::from_secs(1));
    let granted_ms = nn.engine.now_ms();
    apply(&nn, "u1", vec![told[1].clone()]).await.unwrap();
    let found_again = |of| Listed { state: ReplicaState::WaitingToBeRecovered as u8, ..of };
    let appended = Listed { state: ReplicaState::BeingWritten as u8, stamp: 1003, ..listed(2, 9) };
    let list = [found_again(listed(0, 7)), found_again(listed(1, 7)), appended];
    full(&nn.engine, "u1", STORAGE, &list, granted_ms).await.unwrap();
    let mut states = Vec::new();
    for ordinal in 0..3 {
        let replica = found(&nn, ordinal, STORAGE).await.unwrap();
        states.push((replica.stamp, replica.state()));
    }
    use ReplicaState::{BeingWritten, Finalized, WaitingToBeRecovered};
    assert_eq!(states, [(1001, WaitingToBeRecovered), (1001, Finalized), (1003, BeingWritten)]);
    assert!(is_noted(&nn, FILE).await);
}

/// A report may be written while its block is freed, or gets another stamp: what is left then, the next full report finds
/// although it says what the rows say.
pub async fn a_full_report_of_what_was_overtaken() {
    let nn = fresh().await;
    plant(&nn, 0..3).await;
    let told = (0..3).map(|ordinal| told(ordinal, STORAGE, What::Received(None))).collect();
    apply(&nn, "u1", told).await.unwrap();
    let newer = Block { stamp: 1002, last_stamp: 1002, ..row(1, BlockState::Complete) };
    write_blocks(&nn, vec![(1, newer)]).await;
    let op: Op<Answer> = Box::new(move |tx| {
        tx.get(&block(FILE, 0), Hold::Held)?;
        tx.delete(&block(FILE, 0))?;
        Ok(Answer { yes: true })
    });
    own(&nn, op).await.unwrap();
    let list = [listed(0, 7), listed(1, 7), listed(2, 7)];
    let compared = full(&nn.engine, "u1", STORAGE, &list, 0).await.unwrap();
    assert_eq!((compared.rows, compared.differing), (3, 2));
    assert_eq!(found(&nn, 0, STORAGE).await, None);
    assert!(deletion(&nn, 1, 0).await.is_some());
    assert!(is_noted(&nn, FILE).await && found(&nn, 1, STORAGE).await.is_some());
}

/// Many unchanged replicas: pages are read, nothing is written.
pub async fn a_large_report_of_nothing_new() {
    FRESH_STORE.set("lmdb");
    let nn = fresh().await;
    let count: u32 = rounds(5_000, 100_000);
    let numbers: Vec<u32> = (0..count).collect();
    for some in numbers.chunks(500) {
        plant(&nn, some[0]..some[some.len() - 1] + 1).await;
        for batch in some.chunks(report::AT_ONCE) {
            let told = batch.iter().map(|ordinal| told(*ordinal, STORAGE, What::Received(None)));
            apply(&nn, "u1", told.collect()).await.unwrap();
        }
    }
    let list: Vec<Listed> = (0..count).map(|ordinal| listed(ordinal, 7)).collect();
    let before = cpu();
    let (compared, spent) = nn.spent(full(&nn.engine, "u1", STORAGE, &list, nn.engine.now_ms())).await;
    let took = cpu() - before;
    let compared = compared.unwrap();
    assert_eq!((compared.rows, compared.differing), (u64::from(count), 0));
    assert_eq!((spent.rows_written, spent.commits), (0, 0));
    eprintln!(
        "{count} unchanged: {took:?} of CPU, {} rows read in {} trips",
        spent.rows_read, spent.round_trips
    );
}

/// User and system time of this process.
fn cpu() -> std::time::Duration {
    use nix::sys::time::TimeValLike;
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    std::time::Duration::from_micros(micros as u64)
}

/// All datanodes of a namenode live and have room.
pub fn show_live(nn: &Namenode) {
    let view = nn.engine.datanodes().registry().view(tokio::time::Instant::now());
    let space = Space { capacity: 1 << 40, remaining: 1 << 39, ..Space::default() };
    let node = |node: &Node| Node {
        liveness: Liveness::Live,
        space: vec![space; node.row.storages.len()],
        ..node.clone()
    };
    nn.engine.datanodes().set_view(View::new(view.nodes().iter().map(node).collect()));
}

/// The balancer copied a replica elsewhere and wants the first one gone.
pub async fn a_balanced_replica() {
    let nn = fresh().await;
    register(&nn, "u2").await.unwrap();
    let storage = storages(&nn, "u2", &["s2"]).await.unwrap().storages[0].number;
    plant(&nn, 0..1).await;
    apply(&nn, "u1", vec![told(0, STORAGE, What::Received(None))]).await.unwrap();
    let moved = vec![told(0, storage, What::Received(Some("u1".into())))];
    apply(&nn, "u2", moved.clone()).await.unwrap();
    assert_eq!(deletion(&nn, 1, 0).await.map(|given| given.storages), Some(vec![STORAGE]));
    // Told twice, it asks for nothing more.
    apply(&nn, "u1", vec![told(0, STORAGE, What::Deleted)]).await.unwrap();
    apply(&nn, "u2", moved).await.unwrap();
    assert!(found(&nn, 0, storage).await.is_some());
}

/// Until its first heartbeat nobody knows its room: a namenode that started just now sends writers elsewhere.
pub async fn one_that_only_registered_is_not_heard_of_yet() {
    let nn = Namenode::fresh().await;
    register(&nn, "u1").await.unwrap();
    let row = storages(&nn, "u1", &["s1"]).await.unwrap();
    let mut registry = nn.engine.datanodes().registry();
    let now = tokio::time::Instant::now();
    registry.looked(Vec::new(), now);
    assert!(registry.view(now).is_early());
    let told = ToldStorage { uuid: "s1".into(), kind: 1, failed: false };
    let beat = Beat { storages: vec![(told, Space::default())], ..Beat::default() };
    registry.hear(&row, &beat, now, nn.engine.now_ms()).unwrap();
    assert!(!registry.view(now).is_early());
}

/// What a datanode was given is counted until a heartbeat that tells of it for sure: the second.
pub async fn what_was_given_counts_for_two_heartbeats() {
    let nn = Namenode::fresh().await;
    let row = register(&nn, "u1").await.unwrap();
    let mut registry = nn.engine.datanodes().registry();
    let now = tokio::time::Instant::now();
    let scheduled = |registry: &Registry| registry.view(now).nodes()[0].scheduled;
    registry.schedule("u1");
    registry.schedule("nobody");
    registry.schedule("u1");
    assert_eq!(scheduled(&registry), 2);
    for (given, counted) in [(1, 3), (0, 1), (0, 0)] {
        registry.hear(&row, &Beat::default(), now, 1).unwrap();
        (0..given).for_each(|_| registry.schedule("u1"));
        assert_eq!(scheduled(&registry), counted);
    }
    // What is there counts no more: many small files must not seem to fill a disk.
    (0..3).for_each(|_| registry.schedule("u1"));
    registry.hear(&row, &Beat::default(), now, 1).unwrap();
    registry.schedule("u1");
    for (arrived, counted) in [(1, 3), (2, 1), (5, 0)] {
        registry.arrived("u1", arrived);
        registry.arrived("nobody", 1);
        assert_eq!(scheduled(&registry), counted);
    }
}

/// A report of received blocks tells what is there.
pub async fn what_arrived_is_no_longer_expected() {
    let nn = Namenode::fresh().await;
    let row = register(&nn, "u1").await.unwrap();
    let now = tokio::time::Instant::now();
    {
        let mut registry = nn.engine.datanodes().registry();
        (0..2).for_each(|_| registry.schedule("u1"));
        registry.hear(&row, &Beat::default(), now, 1).unwrap();
    }
    let scheduled = || nn.engine.datanodes().registry().view(now).nodes()[0].scheduled;
    assert_eq!(scheduled(), 2);
    let told = |what| Reported { storage: 1, block: block_id(FILE, 0), stamp: 1001, length: 1, what };
    nn.engine
        .datanodes()
        .told("u1", &[told(What::Receiving), told(What::Received(None)), told(What::Deleted)]);
    assert_eq!(scheduled(), 1);
}

/// However many replicas are to be deleted, what somebody waits for is told with the next heartbeat.
pub async fn deletions_hold_nothing_up() {
    let nn = fresh().await;
    let op: Op<Answer> = Box::new(move |tx| {
        for ordinal in 0..1500 {
            let id = block_id(FILE, ordinal);
            tx.insert(&command(1, CommandKind::Invalidate, id), &Command::default())?;
        }
        for kind in [CommandKind::Recover, CommandKind::Transfer] {
            tx.insert(&command(1, kind, block_id(FILE, 0)), &Command::default())?;
        }
        Ok(Answer { yes: true })
    });
    own(&nn, op).await.unwrap();
    let mut told = Vec::new();
    for left in [502, 0, 0] {
        jobs::datanodes::round(&nn.engine).await.unwrap();
        let given = nn.engine.datanodes().registry().hand_out("u1", 1000);
        told.extend(given.iter().map(|given| (given.kind, given.block)));
        assert_eq!(1502 - told.len(), left);
    }
    assert!(told[..2].iter().all(|(kind, _)| *kind != CommandKind::Invalidate), "{:?}", &told[..2]);
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), 1502, "each is told once");
}

/// What is decided about a dead datanode it never hears of: it has to begin anew, as with stock.
pub async fn one_that_was_dead_registers_anew() {
    let nn = Namenode::fresh().await;
    let row = register(&nn, "u1").await.unwrap();
    let dead = Timing::of(nn.engine.config()).dead;
    let mut registry = nn.engine.datanodes().registry();
    let late = tokio::time::Instant::now();
    registry.hear(&row, &Beat::default(), late, 1).unwrap();
    let later = late + dead + std::time::Duration::from_secs(1);
    assert!(registry.hear(&row, &Beat::default(), later, 2).is_none());
    assert!(registry.hear(&row, &Beat::default(), later, 3).is_none() && registry.row("u1").is_none());
    registry.registered(row.clone(), later, 4);
    registry.hear(&row, &Beat::default(), later, 5).unwrap();
}

pub async fn who_owns_a_datanode() {
    let nn = fresh().await;
    let me = nn.engine.member();
    let claim = |from: u64, member: u64| -> Op<Datanode> {
        Box::new(move |tx| datanodes::claim(tx, "u1", &Claim { member, from }))
    };
    let owner = |row: Datanode| (row.owner, row.epoch);
    assert_eq!(owner(own(&nn, claim(0, 9)).await.unwrap()), (me, 1), "it has an owner");
    assert_eq!(owner(own(&nn, claim(me, 9)).await.unwrap()), (9, 2), "the owner is gone");
    let late = apply(&nn, "u1", vec![told(0, STORAGE, What::Received(None))]).await.unwrap();
    assert!(late.is_not_owner && late.unknown == 0);
    let release: Op<Datanode> = Box::new(move |tx| datanodes::release(tx, "u1", me));
    assert_eq!(owner(own(&nn, release).await.unwrap()), (9, 2), "not its own");
    let release: Op<Datanode> = Box::new(move |tx| datanodes::release(tx, "u1", 9));
    assert_eq!(owner(own(&nn, release).await.unwrap()), (0, 3));
    assert_eq!(owner(own(&nn, claim(0, me)).await.unwrap()), (me, 4));
    // What was begun before another one owned it does not go on, as this namenode cannot know what that one did.
    plant(&nn, 0..1).await;
    for (epoch, is_not_owner) in [(1, true), (4, false)] {
        let replicas = vec![told(0, STORAGE, What::Received(None))];
        let call = Report { uuid: "u1".into(), member: me, epoch, replicas };
        let applied = own(&nn, Box::new(move |tx| report::apply(tx, &call))).await.unwrap();
        assert_eq!(applied.is_not_owner, is_not_owner);
    }
}

/// A row that was read before a change is told after it: the change stays.
pub async fn an_older_row_changes_nothing() {
    let nn = fresh().await;
    let before = nn.read(SUPERUSER, |tx| datanodes::look_up(tx, "u1")).await.unwrap();
    let after = storages(&nn, "u1", &["s1", "s2"]).await.unwrap();
    assert_eq!((before.epoch, after.storages.len()), (after.epoch, 2));
    let mut registry = nn.engine.datanodes().registry();
    assert_eq!(registry.adopt(before).storages.len(), 2);
    let later = Datanode { host: "elsewhere".into(), changes: after.changes + 1, ..after };
    assert_eq!(registry.adopt(later).host, "elsewhere");
}

/// A datanode with more storages than there is room for keeps those that it has; what failed and is empty makes room.
pub async fn a_datanode_with_too_many_storages() {
    let nn = fresh().await;
    plant(&nn, 0..1).await;
    apply(&nn, "u1", vec![told(0, STORAGE, What::Received(None))]).await.unwrap();
    let named = |of: &str| -> Vec<String> { (0..100).map(|i| format!("{of}{i}")).collect() };
    let names = |row: &Datanode| -> Vec<String> { row.storages.iter().map(|s| s.uuid.clone()).collect() };
    let first = named("a");
    let all: Vec<&str> = first.iter().map(String::as_str).collect();
    let row = storages(&nn, "u1", &all).await.unwrap();
    assert_eq!((row.storages.len(), names(&row)[0].as_str()), (64, "s1"), "it has a replica");
    assert_eq!(names(&row)[1..], first[..63]);
    // The same again changes nothing.
    assert_eq!(storages(&nn, "u1", &all).await.unwrap(), row);
    let second = named("b");
    let all: Vec<&str> = second[..10].iter().map(String::as_str).collect();
    let row = storages(&nn, "u1", &all).await.unwrap();
    assert_eq!(names(&row), [&["s1".to_owned()], &second[..10]].concat());
    // Long names: as many as its row holds.
    let mut long: Vec<String> = (0..64).map(|i| format!("{i:0255}")).collect();
    long.push("x".repeat(256));
    let all: Vec<&str> = long.iter().map(String::as_str).collect();
    let row = storages(&nn, "u1", &all).await.unwrap();
    assert!((20..30).contains(&row.storages.len()), "{}", row.storages.len());
    assert!(row.storages.iter().any(|s| s.uuid == "s1" && s.failed));
}

/// What is listed and not known is applied as it is met, never all at once.
pub async fn a_large_report_of_what_is_new() {
    let nn = fresh().await;
    plant(&nn, 0..450).await;
    let list: Vec<Listed> = (0..450).map(|ordinal| listed(ordinal, 7)).collect();
    let compared = full(&nn.engine, "u1", STORAGE, &list, 0).await.unwrap();
    assert_eq!((compared.rows, compared.differing, compared.most), (0, 450, report::AT_ONCE));
    // Now some rows that are not listed, between and beyond those that are.
    let some: Vec<Listed> = list.iter().copied().filter(|of| of.block % 3 == 0).collect();
    pass_time(std::time::Duration::from_secs(1));
    let compared = full(&nn.engine, "u1", STORAGE, &some, nn.engine.now_ms()).await.unwrap();
    assert_eq!((compared.rows, compared.differing as usize), (450, 450 - some.len()));
    for ordinal in [0, 1, 2, 448, 449] {
        let is_there = some.iter().any(|listed| listed.block == block_id(FILE, ordinal));
        assert_eq!(found(&nn, ordinal, STORAGE).await.is_some(), is_there, "{ordinal}");
    }
}

/// Another namenode owns the datanode by now: it hears that its report did not count, and what it told earlier is kept.
pub async fn a_report_whose_owner_is_another() {
    let nn = fresh().await;
    plant(&nn, 0..2).await;
    let me = nn.engine.member();
    let give = |from, member| -> Op<Datanode> {
        Box::new(move |tx| datanodes::claim(tx, "u1", &Claim { member, from }))
    };
    own(&nn, give(me, 9)).await.unwrap();
    let refused = full(&nn.engine, "u1", STORAGE, &[listed(0, 7)], 0).await.unwrap_err();
    assert_eq!(refused.kind, trellis_proto::exception::Kind::InvalidBlockReportLease);
    assert_eq!(found(&nn, 0, STORAGE).await, None);
    // What is kept from then is applied before what is told once this one owns it again.
    let tell = |what| vec![told(0, STORAGE, what)];
    let kept = incremental(&nn.engine, "u1", tell(What::Received(None))).await.unwrap();
    assert!(kept.is_not_owner);
    let row = own(&nn, give(9, me)).await.unwrap();
    nn.engine.datanodes().registry().adopt(row);
    let applied = incremental(&nn.engine, "u1", tell(What::Deleted)).await.unwrap();
    assert_eq!((applied.changed, applied.is_not_owner), (1, false));
    assert_eq!(found(&nn, 0, STORAGE).await, None, "the deletion came last");
}

pub async fn storages_of_a_datanode() {
    let nn = fresh().await;
    let numbers = |row: &Datanode| -> Vec<(u32, bool)> {
        row.storages.iter().map(|Storage { number, failed, .. }| (*number, *failed)).collect()
    };
    let row = storages(&nn, "u1", &["s2", "s3", "s2"]).await.unwrap();
    assert_eq!(numbers(&row), [(2, true), (3, false), (4, false)]);
    let row = storages(&nn, "u1", &["s1", "s2"]).await.unwrap();
    assert_eq!(numbers(&row), [(2, false), (3, false), (4, true)]);
    assert_eq!(register(&nn, "u1").await.unwrap().storages, row.storages, "kept by uuid");
    // Another datanode at the same address: the first one's disks were wiped.
    let said = Datanode { uuid: "u2".into(), ip: "u1".into(), data_port: 9866, ..Datanode::default() };
    assert_eq!(register_as(&nn, said).await.unwrap().number, 5);
    let row = nn.read(SUPERUSER, |tx| datanodes::look_up(tx, "u1")).await.unwrap();
    assert_eq!(numbers(&row), [(2, true), (3, true), (4, true)]);
    assert_eq!(numbers(&storages(&nn, "u1", &["s1"]).await.unwrap())[0], (2, false), "it was somewhere else");
}

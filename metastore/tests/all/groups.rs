//! What lanes and groups promise, one scenario per promise, over the store in memory on a virtual clock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use libtest_mimic::Trial;
use tokio::time::{Instant, sleep};
use trellis_metastore::change::{Change, Check, Effect, Hold, Row};
use trellis_metastore::faulty::{Blow, Fault, Strike};
use trellis_metastore::group::{GroupConfig, Lanes};
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::schema::{
    DirStat, DirStats, Inode, Inodes, Members, RetryEntry, TableId, TableKey, dir_stat, inode, member_lane,
    retry_entry,
};
use trellis_metastore::sim::{self, Ended, Plan, Seat, World};
use trellis_metastore::store::{Store, StoreError};
use trellis_metastore::tx::{Stop, Tx};
use trellis_metastore::work::{End, Fence, Ran, Unfenced, Verdict};

const DIRECTORY: u64 = 20_000;
/// Longer than any test here waits.
const HOUR: Duration = Duration::from_secs(3600);

pub fn trials() -> Vec<Trial> {
    macro_rules! trials {
        ($($name:ident),* $(,)?) => {
            vec![$(Trial::test(concat!("groups::", stringify!($name)), || {
                sim::run($name());
                Ok(())
            })),*]
        };
    }
    trials![
        no_answer_that_saw_a_write_leaves_before_the_commit,
        a_refusal_that_saw_a_write_that_loses_is_taken_back,
        who_touched_a_conflict_leaves_with_all_who_saw_their_writes,
        every_run_draws_new_versions,
        a_barrier_runs_the_group_again_and_is_nobodys_loss,
        a_barrier_adopted_between_fetch_and_commit_is_noticed,
        an_eviction_ends_everything_in_all_lanes,
        a_lost_answer_is_resolved_by_running_again,
        a_commit_that_lands_late_happens_once,
        an_operation_that_always_misses_is_given_up,
        a_full_queue_gives_the_work_back,
        queued_work_is_finished_after_the_lanes_are_dropped,
        work_that_waited_too_long_is_not_run,
        three_losses_and_it_runs_over_locked_rows,
        a_locked_run_may_grow_four_times,
        a_hold_at_a_version_that_is_gone_ends_retriable,
        a_hold_without_writes_is_checked,
        an_insert_without_looking_ends,
        a_lone_add_is_refused,
        a_full_store_fails_writers_and_answers_bystanders,
        a_group_fetches_at_most_so_many_rows,
        a_swallowed_miss_is_run_again,
        an_oversized_key_fails_its_operation_only,
        locks_of_one_who_does_not_come_back_are_given_away,
        reads_share_their_trips,
        creates_share_their_trips,
    ]
}

struct Bench {
    world: World,
    seat: Seat,
    lanes: Lanes,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(GroupConfig { write_lanes: 1, ..GroupConfig::default() }, Arc::new(Unfenced))
    }

    fn with(config: GroupConfig, fence: Arc<dyn Fence>) -> Bench {
        let world = World::new(&Plan { config, ..Plan::default() });
        let seat = world.seat();
        let lanes = seat.lanes(fence);
        Bench { world, seat, lanes }
    }

    /// Queues an operation.
    fn write<T: Send + 'static>(
        &self,
        run: impl FnMut(&mut Tx<'_>) -> Result<(Ran, T), Stop> + Send + 'static,
    ) -> Ended<T> {
        self.write_until(HOUR, run)
    }

    fn write_until<T: Send + 'static>(
        &self,
        within: Duration,
        run: impl FnMut(&mut Tx<'_>) -> Result<(Ran, T), Stop> + Send + 'static,
    ) -> Ended<T> {
        let (work, ended) = sim::work(Instant::now() + within, run);
        assert!(self.lanes.write(0, work).is_ok(), "the queue is full");
        ended
    }

    /// Changes a row behind the lanes' back, as another namenode would.
    async fn touch(&self, key: &Key) {
        static VERSION: AtomicU64 = AtomicU64::new(1 << 60);
        let version = VERSION.fetch_add(1, Ordering::Relaxed);
        let stored = self.world.mem().rows().into_iter().find(|(k, _)| k == key).map(|(_, row)| row);
        let (check, effect) = match stored {
            Some(row) => (Check::Version(row.version), Effect::Put(Row { version, ..row })),
            None => (Check::Absent, Effect::Insert(Row { version, ..Row::default() })),
        };
        self.world.mem().commit(&[Change { key: key.clone(), check, effect }]).await.unwrap();
    }

    /// The process stands still before its `call`-th store call for a second.
    fn stand_before(&self, call: u64) {
        self.seat.faulty.strike(Strike { call, done: false, blow: Blow::Freeze(Duration::from_secs(1)) });
    }

    fn commits(&self) -> Vec<Vec<Change>> {
        self.world.mem().journal()
    }

    fn stored(&self, key: &Key) -> Option<Row> {
        self.world.mem().rows().into_iter().find(|(k, _)| k == key).map(|(_, row)| row)
    }
}

fn file(name: u8) -> TableKey<Inodes> {
    inode(DIRECTORY, &[name])
}

fn stat() -> TableKey<DirStats> {
    dir_stat(DIRECTORY, b"stat")
}

fn id(id: u64) -> Inode {
    Inode { id, ..Inode::default() }
}

/// Asks for all names at once, so that one fetch brings them.
fn want(tx: &mut Tx<'_>, names: &[u8]) {
    names.iter().for_each(|name| tx.want(&file(*name)));
}

fn upsert(tx: &mut Tx<'_>, name: u8) -> Result<(), Stop> {
    match tx.get(&file(name), Hold::Held)? {
        Some(_) => tx.put(&file(name), &id(1)),
        None => tx.insert(&file(name), &id(1)),
    }
}

fn exists(tx: &mut Tx<'_>, name: u8) -> Result<bool, Stop> {
    Ok(tx.get(&file(name), Hold::Loose)?.is_some())
}

async fn end_of<T>(ended: Ended<T>) -> (End, Option<T>) {
    ended.await.expect("an operation was dropped without an end")
}

async fn no_answer_that_saw_a_write_leaves_before_the_commit() {
    let bench = Bench::new();
    bench.stand_before(2);
    let mut writer = bench.write(|tx| upsert(tx, 1).map(|()| (Ran::Done, ())));
    let mut saw = bench.write(|tx| Ok((Ran::Refused, exists(tx, 1)?)));
    let mut reader = bench.write(|tx| Ok((Ran::Done, exists(tx, 1)?)));
    let mut bystander = bench.write(|tx| Ok((Ran::Refused, exists(tx, 2)?)));
    sleep(Duration::from_millis(500)).await;
    assert!(writer.try_recv().is_err() && saw.try_recv().is_err() && reader.try_recv().is_err());
    assert_eq!(bystander.try_recv(), Ok((End::Answered, Some(false))));
    assert_eq!(end_of(writer).await, (End::Answered, Some(())));
    assert_eq!(saw.await, Ok((End::Answered, Some(true))));
    assert_eq!(reader.await, Ok((End::Answered, Some(true))));
    assert_eq!(bench.commits().len(), 1);
}

async fn a_refusal_that_saw_a_write_that_loses_is_taken_back() {
    let bench = Bench::new();
    bench.stand_before(2);
    // Creates 1 unless 9 is there; 9 comes between its fetch and its commit (it holds what it put there).
    let writer = bench.write(|tx| {
        want(tx, &[1, 9]);
        if exists(tx, 9)? {
            return Ok((Ran::Refused, false));
        }
        tx.insert(&file(9), &id(1))?;
        tx.insert(&file(1), &id(1))?;
        Ok((Ran::Done, true))
    });
    let refused = bench.write(|tx| Ok((Ran::Refused, exists(tx, 1)?)));
    sleep(Duration::from_millis(500)).await;
    bench.touch(&file(9).key).await;
    assert_eq!(end_of(writer).await, (End::Answered, Some(false)));
    assert_eq!(end_of(refused).await, (End::Answered, Some(false)), "it spoke of a row that never was");
    assert_eq!(bench.stored(&file(1).key), None);
}

async fn who_touched_a_conflict_leaves_with_all_who_saw_their_writes() {
    let bench = Bench::new();
    bench.stand_before(2);
    let all = [
        bench.write(|tx| upsert(tx, 1).map(|()| (Ran::Done, ()))),
        bench.write(|tx| upsert(tx, 2).map(|()| (Ran::Done, ()))),
        // Sees 2's writer, who stays.
        bench.write(|tx| {
            want(tx, &[2, 3]);
            exists(tx, 2)?;
            upsert(tx, 3).map(|()| (Ran::Done, ()))
        }),
        // Sees 1's writer, who loses; and the next one sees this one.
        bench.write(|tx| {
            want(tx, &[1, 4]);
            exists(tx, 1)?;
            upsert(tx, 4).map(|()| (Ran::Done, ()))
        }),
        bench.write(|tx| {
            want(tx, &[5]);
            tx.scan_all::<Inodes>(&[Scan::of(TableId::Inodes, DIRECTORY, 10).after(file(3).key.rest())])?;
            upsert(tx, 5).map(|()| (Ran::Done, ()))
        }),
    ];
    sleep(Duration::from_millis(500)).await;
    bench.touch(&file(1).key).await;
    for ended in all {
        assert_eq!(end_of(ended).await.0, End::Answered);
    }
    let keys = |commit: &[Change]| commit.iter().map(|c| c.key.clone()).collect::<Vec<_>>();
    let commits = bench.commits();
    assert_eq!(keys(&commits[1]), [file(2).key, file(3).key]);
    assert_eq!(keys(&commits[2]), [file(1).key, file(4).key, file(5).key]);
    assert_eq!(commits.len(), 3);
}

async fn every_run_draws_new_versions() {
    let bench = Bench::new();
    let all = Arc::new(Mutex::new(Vec::new()));
    for call in [2, 4] {
        bench.seat.faulty.inject(call, Fault::Before(StoreError::Conflict(vec![file(1).key])));
    }
    for call in [6, 8] {
        bench.seat.faulty.inject(call, Fault::AnswerLost);
    }
    let seen = all.clone();
    let ended = bench.write(move |tx| {
        upsert(tx, 1)?;
        seen.lock().unwrap().extend(tx.get(&file(1), Hold::Loose)?.map(|record| record.version));
        Ok((Ran::Done, ()))
    });
    assert_eq!(end_of(ended).await.0, End::Answered);
    let mut versions = all.lock().unwrap().clone();
    assert!(versions.len() >= 5, "{versions:?}");
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), all.lock().unwrap().len());
}

/// A lane's member row, as it was last learnt.
struct MemberFence {
    version: Mutex<u64>,
    mem: Arc<dyn Store>,
    asked: AtomicUsize,
}

fn lane_row() -> TableKey<Members> {
    member_lane(1, 0)
}

impl MemberFence {
    fn new(world: &World) -> Arc<MemberFence> {
        Arc::new(MemberFence { version: Mutex::new(0), mem: world.store(), asked: AtomicUsize::new(0) })
    }

    async fn adopt(&self) -> Verdict {
        let row = self.mem.fetch(&[lane_row().key], &[]).await.unwrap().rows.remove(0);
        *self.version.lock().unwrap() = row.as_ref().map_or(0, |row| row.version);
        if row.is_some() { Verdict::Again } else { Verdict::Fenced }
    }
}

impl Fence for MemberFence {
    fn holds(&self, lane: usize) -> Vec<(Key, u64)> {
        if lane == 0 { vec![(lane_row().key, *self.version.lock().unwrap())] } else { vec![] }
    }

    fn moved<'a>(&'a self, _lane: usize, key: &'a Key) -> BoxFuture<'a, Verdict> {
        assert_eq!(*key, lane_row().key);
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(self.adopt())
    }
}

async fn fenced_bench(write_lanes: usize) -> (Bench, Arc<MemberFence>) {
    let config = GroupConfig { write_lanes, ..GroupConfig::default() };
    let world = World::new(&Plan { config, ..Plan::default() });
    let fence = MemberFence::new(&world);
    let seat = world.seat();
    let lanes = seat.lanes(fence.clone());
    let bench = Bench { world, seat, lanes };
    bench.touch(&lane_row().key).await;
    fence.adopt().await;
    (bench, fence)
}

async fn a_barrier_runs_the_group_again_and_is_nobodys_loss() {
    let (bench, fence) = fenced_bench(1).await;
    (1..=5).for_each(|n| bench.stand_before(2 * n));
    let ended = bench.write(|tx| upsert(tx, 1).map(|()| (Ran::Done, ())));
    for _ in 0..5 {
        sleep(Duration::from_millis(500)).await;
        bench.touch(&lane_row().key).await;
        sleep(Duration::from_millis(510)).await;
    }
    assert_eq!(end_of(ended).await.0, End::Answered);
    assert_eq!(fence.asked.load(Ordering::SeqCst), 5);
    assert_eq!(bench.world.mem().counters().locked_operations.get(), 0);
}

async fn a_barrier_adopted_between_fetch_and_commit_is_noticed() {
    let (bench, fence) = fenced_bench(1).await;
    bench.stand_before(2);
    let ended = bench.write(|tx| upsert(tx, 1).map(|()| (Ran::Done, ())));
    sleep(Duration::from_millis(500)).await;
    bench.touch(&lane_row().key).await;
    fence.adopt().await;
    let before = bench.commits().len();
    assert_eq!(end_of(ended).await.0, End::Answered);
    assert_eq!(fence.asked.load(Ordering::SeqCst), 1, "a group from before the barrier passed it");
    assert_eq!(bench.commits().len(), before + 1);
}

async fn an_eviction_ends_everything_in_all_lanes() {
    let (bench, _) = fenced_bench(2).await;
    let written = bench.commits().len();
    bench.stand_before(2);
    let in_flight = bench.write(|tx| upsert(tx, 1).map(|()| (Ran::Done, ())));
    sleep(Duration::from_millis(500)).await;
    let queued = bench.write(|tx| upsert(tx, 2).map(|()| (Ran::Done, ())));
    let row = bench.stored(&lane_row().key).unwrap();
    let evict = Change { key: lane_row().key, check: Check::Version(row.version), effect: Effect::Delete };
    bench.world.mem().commit(&[evict]).await.unwrap();
    assert_eq!(end_of(in_flight).await.0, End::Fenced);
    assert_eq!(end_of(queued).await.0, End::Fenced);
    assert!(bench.lanes.are_fenced());
    let calls = bench.seat.faulty.calls();
    for target in [0, 1] {
        let run = |tx: &mut Tx<'_>| upsert(tx, 3).map(|()| (Ran::Done, ()));
        let (work, later) = sim::work(Instant::now() + HOUR, run);
        assert!(bench.lanes.write(target, work).is_ok());
        assert_eq!(end_of(later).await.0, End::Fenced);
        let (work, later) = sim::work(Instant::now() + HOUR, |tx| Ok((Ran::Done, exists(tx, 1)?)));
        assert!(bench.lanes.read(target, work).is_ok());
        assert_eq!(end_of(later).await.0, End::Fenced);
    }
    assert_eq!(bench.seat.faulty.calls(), calls, "an evicted namenode touched the store");
    assert_eq!(bench.commits().len(), written + 1);
}

/// Counts one up under a retry key, at most once; answers in which run it was done.
fn counted(bench: &Bench, call: i64) -> Ended<u64> {
    let mut runs = 0;
    bench.write(move |tx| {
        runs += 1;
        let key = retry_entry(&[7; 16], call);
        tx.want(&stat());
        if let Some(done) = tx.get(&key, Hold::Loose)? {
            return Ok((Ran::Refused, done.value.at_ms as u64));
        }
        match tx.get(&stat(), Hold::Held)? {
            Some(_) => tx.merge(&stat(), 0, 1)?,
            None => tx.insert_counted(&stat(), &DirStat::default(), 0, 1)?,
        }
        tx.insert(&key, &RetryEntry { at_ms: runs, ..RetryEntry::default() })?;
        Ok((Ran::Done, runs as u64))
    })
}

async fn a_lost_answer_is_resolved_by_running_again() {
    for fault in [Fault::AnswerLost, Fault::NeverLands] {
        let bench = Bench::new();
        bench.seat.faulty.inject(2, fault.clone());
        let (first, second) = (counted(&bench, 1), counted(&bench, 2));
        let (first, second) = (end_of(first).await, end_of(second).await);
        assert_eq!((first.0, second.0), (End::Answered, End::Answered));
        assert_eq!(bench.stored(&stat().key).unwrap().add, 2);
        let landed = fault == Fault::AnswerLost;
        assert_eq!(first.1.unwrap() <= 2, landed, "the answer is that of the run that was committed");
        assert_eq!(bench.commits().len(), 1);
    }
}

async fn a_commit_that_lands_late_happens_once() {
    for late in [0, 1, 2, 3, 4, 5, 6, 8, 10, 50] {
        let bench = Bench::new();
        bench.seat.faulty.inject(2, Fault::LandsLater(Duration::from_millis(late)));
        let ended = [counted(&bench, 1), counted(&bench, 2), counted(&bench, 2)];
        let mut answers = Vec::new();
        for ended in ended {
            let (end, answer) = end_of(ended).await;
            assert_eq!(end, End::Answered);
            answers.push(answer.unwrap());
        }
        bench.world.settle().await;
        assert_eq!(answers[1], answers[2], "two answers to one call");
        assert_eq!(bench.stored(&stat().key).unwrap().add, 2, "landed {late} ms late");
    }
}

async fn an_operation_that_always_misses_is_given_up() {
    let config = GroupConfig { write_lanes: 1, max_rounds: 50, ..GroupConfig::default() };
    let bench = Bench::with(config, Arc::new(Unfenced));
    let mut runs = 0;
    let ended = bench.write(move |tx| {
        runs += 1;
        tx.get(&inode(DIRECTORY, &u32::to_be_bytes(runs)), Hold::Loose)?;
        Ok((Ran::Done, ()))
    });
    assert_eq!(end_of(ended).await.0, End::Expired);
    assert_eq!(bench.seat.faulty.calls(), 51);
}

async fn a_full_queue_gives_the_work_back() {
    let bench =
        Bench::with(GroupConfig { write_lanes: 1, queue: 2, ..GroupConfig::default() }, Arc::new(Unfenced));
    bench.seat.faulty.freeze();
    let first = bench.write(|tx| Ok((Ran::Done, exists(tx, 1)?)));
    sleep(Duration::from_millis(10)).await;
    let queued = [
        bench.write(|tx| Ok((Ran::Done, exists(tx, 1)?))),
        bench.write(|tx| Ok((Ran::Done, exists(tx, 1)?))),
    ];
    let (work, refused) = sim::work(Instant::now() + HOUR, |tx| Ok((Ran::Done, exists(tx, 1)?)));
    let back = bench.lanes.write(0, work).expect_err("a third one fits in a queue of two");
    back.finish(End::Expired);
    assert_eq!(end_of(refused).await, (End::Expired, None));
    bench.seat.faulty.thaw();
    assert_eq!(end_of(first).await.0, End::Answered);
    for ended in queued {
        assert_eq!(end_of(ended).await.0, End::Answered);
    }
}

async fn queued_work_is_finished_after_the_lanes_are_dropped() {
    let bench = Bench::with(
        GroupConfig { write_lanes: 1, max_operations: 2, ..GroupConfig::default() },
        Arc::new(Unfenced),
    );
    let all: Vec<_> =
        (0..7).map(|n| bench.write(move |tx| upsert(tx, n).map(|()| (Ran::Done, ())))).collect();
    let Bench { world, lanes, .. } = bench;
    drop(lanes);
    for ended in all {
        assert_eq!(end_of(ended).await.0, End::Answered);
    }
    assert_eq!(world.mem().rows().len(), 7);
}

async fn work_that_waited_too_long_is_not_run() {
    let bench = Bench::new();
    bench.stand_before(1);
    let first = bench.write(|tx| Ok((Ran::Done, exists(tx, 1)?)));
    sleep(Duration::from_millis(10)).await;
    let late = bench.write_until(Duration::from_millis(100), |_| -> Result<(Ran, ()), Stop> {
        panic!("it was run after its deadline")
    });
    let patient = bench.write(|tx| Ok((Ran::Done, exists(tx, 1)?)));
    assert_eq!(end_of(first).await.0, End::Answered);
    assert_eq!(end_of(late).await.0, End::Expired);
    assert_eq!(end_of(patient).await.0, End::Answered);
}

async fn three_losses_and_it_runs_over_locked_rows() {
    let bench = Bench::new();
    (1..=3).for_each(|n| bench.stand_before(2 * n));
    let ended = bench.write(|tx| {
        want(tx, &[1]);
        tx.scan_all::<Inodes>(&[Scan::of(TableId::Inodes, DIRECTORY + 1, 10)])?;
        upsert(tx, 1).map(|()| (Ran::Done, ()))
    });
    for _ in 0..3 {
        sleep(Duration::from_millis(500)).await;
        bench.touch(&file(1).key).await;
        sleep(Duration::from_millis(510)).await;
    }
    assert_eq!(end_of(ended).await.0, End::Answered);
    assert_eq!(bench.world.mem().counters().locked_operations.get(), 1);
    assert_eq!(bench.seat.faulty.calls(), 6 + 3, "three groups; then lock, scan, commit");
}

async fn a_locked_run_may_grow_four_times() {
    for growths in [4, 5] {
        let bench = Bench::new();
        for call in [2, 4, 6] {
            bench.seat.faulty.inject(call, Fault::Before(StoreError::Conflict(vec![file(0).key])));
        }
        // Two runs in the first group, one in each of the next two; then every locked run wants one row more.
        let mut runs = 0;
        let ended = bench.write(move |tx| {
            runs += 1;
            let grown = u8::try_from(runs).unwrap().saturating_sub(4).min(growths);
            for name in 0..=grown {
                upsert(tx, name)?;
            }
            Ok((Ran::Done, ()))
        });
        let end = end_of(ended).await.0;
        assert_eq!(end, if growths == 4 { End::Answered } else { End::Expired }, "{growths}");
        assert_eq!(bench.world.mem().counters().locked_operations.get(), 1);
        assert_eq!(bench.commits().len(), usize::from(growths == 4));
    }
}

async fn a_hold_at_a_version_that_is_gone_ends_retriable() {
    for read_too in [false, true] {
        let bench = Bench::new();
        bench.touch(&file(1).key).await;
        let ended = bench.write(move |tx| {
            if read_too {
                exists(tx, 1)?;
            }
            tx.hold(&file(1), 3)?;
            upsert(tx, 2).map(|()| (Ran::Done, ()))
        });
        assert_eq!(end_of(ended).await.0, End::Expired);
        assert_eq!(bench.stored(&file(2).key), None);
        assert!(bench.seat.faulty.calls() < 20, "{}", bench.seat.faulty.calls());
    }
}

async fn a_hold_without_writes_is_checked() {
    let bench = Bench::new();
    bench.touch(&file(1).key).await;
    let version = bench.stored(&file(1).key).unwrap().version;
    let good = bench.write(move |tx| tx.hold(&file(1), version).map(|()| (Ran::Done, ())));
    assert_eq!(end_of(good).await.0, End::Answered);
    bench.touch(&file(1).key).await;
    let gone = bench.write(move |tx| tx.hold(&file(1), version).map(|()| (Ran::Done, ())));
    assert_eq!(end_of(gone).await.0, End::Expired);
}

async fn an_insert_without_looking_ends() {
    let bench = Bench::new();
    bench.touch(&file(1).key).await;
    let before = bench.stored(&file(1).key);
    let blind = bench.write(|tx| tx.insert(&file(1), &id(9)).map(|()| (Ran::Done, ())));
    let other = bench.write(|tx| upsert(tx, 2).map(|()| (Ran::Done, ())));
    assert_eq!(end_of(blind).await.0, End::Expired);
    assert_eq!(end_of(other).await.0, End::Answered);
    assert_eq!(bench.stored(&file(1).key), before);
    assert!(bench.seat.faulty.calls() < 20, "{}", bench.seat.faulty.calls());
}

async fn a_lone_add_is_refused() {
    let bench = Bench::new();
    bench.touch(&stat().key).await;
    let lone = bench.write(|tx| {
        tx.get(&stat(), Hold::Loose)?;
        tx.merge(&stat(), 5, 1).map(|()| (Ran::Done, ()))
    });
    assert!(matches!(end_of(lone).await.0, End::Failed(StoreError::Fatal(_))));
    let only_max = bench.write(|tx| {
        tx.get(&stat(), Hold::Loose)?;
        tx.merge(&stat(), 5, 0).map(|()| (Ran::Done, ()))
    });
    assert_eq!(end_of(only_max).await.0, End::Answered);
    assert_eq!(bench.stored(&stat().key).map(|row| (row.max, row.add)), Some((5, 0)));
}

async fn a_full_store_fails_writers_and_answers_bystanders() {
    let bench = Bench::new();
    bench.seat.faulty.inject(2, Fault::Before(StoreError::Full("disk".into())));
    let writer = bench.write(|tx| upsert(tx, 1).map(|()| (Ran::Done, ())));
    let saw = bench.write(|tx| Ok((Ran::Refused, exists(tx, 1)?)));
    let bystander = bench.write(|tx| Ok((Ran::Refused, exists(tx, 2)?)));
    assert!(matches!(end_of(writer).await.0, End::Failed(StoreError::Full(_))));
    assert!(matches!(end_of(saw).await.0, End::Failed(StoreError::Full(_))));
    assert_eq!(end_of(bystander).await, (End::Answered, Some(false)));
}

async fn a_group_fetches_at_most_so_many_rows() {
    let config = GroupConfig { write_lanes: 1, max_rows: 10, ..GroupConfig::default() };
    let bench = Bench::with(config, Arc::new(Unfenced));
    let scan = |limit: u32, partition: u64| {
        bench.write(move |tx| {
            tx.scan_all::<Inodes>(&[Scan::of(TableId::Inodes, partition, limit)])?;
            Ok((Ran::Done, ()))
        })
    };
    // 4 + 4 fit; the third waits; the one of 20 runs alone; equal scans count once.
    let all = [scan(4, 1), scan(4, 2), scan(4, 3), scan(20, 4), scan(4, 3), scan(4, 3)];
    for ended in all {
        assert_eq!(end_of(ended).await.0, End::Answered);
    }
    assert_eq!(bench.seat.faulty.calls(), 3);
}

async fn a_swallowed_miss_is_run_again() {
    let bench = Bench::new();
    bench.touch(&file(1).key).await;
    let ended =
        bench.write(|tx| Ok((Ran::Done, tx.get(&file(1), Hold::Loose).is_ok_and(|row| row.is_some()))));
    assert_eq!(end_of(ended).await, (End::Answered, Some(true)));
}

async fn an_oversized_key_fails_its_operation_only() {
    let bench = Bench::new();
    let long = bench.write(|tx| {
        tx.want(&inode(DIRECTORY, &[b'x'; 600]));
        tx.get(&inode(DIRECTORY, &[b'x'; 600]), Hold::Loose).map(|_| (Ran::Done, ()))
    });
    let other = bench.write(|tx| upsert(tx, 1).map(|()| (Ran::Done, ())));
    assert!(matches!(end_of(long).await.0, End::Failed(StoreError::Fatal(_))));
    assert_eq!(end_of(other).await.0, End::Answered);
}

async fn locks_of_one_who_does_not_come_back_are_given_away() {
    let world = World::new(&Plan::default());
    let store = world.store();
    let locked = store.lock(&[], &[file(1).key]).await.unwrap();
    let insert = |version| {
        let row = Row { version, ..Row::default() };
        vec![Change { key: file(1).key, check: Check::Absent, effect: Effect::Insert(row) }]
    };
    assert_eq!(store.commit(&insert(1)).await, Err(StoreError::LockTimeout));
    sleep(Duration::from_secs(3)).await;
    let other = store.lock(&[], &[file(1).key]).await.unwrap();
    assert!(matches!(locked.commit(insert(2)).await, Err(StoreError::Unavailable(_))));
    other.commit(insert(3)).await.unwrap();
    assert_eq!(store.fetch(&[file(1).key], &[]).await.unwrap().rows[0].as_ref().unwrap().version, 3);
}

/// Runs 64 clients, each `calls` calls one after another with a short pause between; gives round trips per call.
async fn trips_per_call(
    bench: Arc<Bench>,
    calls: u64,
    call: fn(Arc<Bench>, u64, u64) -> BoxFuture<'static, End>,
) -> f64 {
    const CLIENTS: u64 = 64;
    let before = bench.world.mem().counters().read();
    let clients = (0..CLIENTS).map(|client| {
        let bench = bench.clone();
        tokio::spawn(async move {
            for n in 0..calls {
                assert_eq!(call(bench.clone(), client, n).await, End::Answered);
                sleep(Duration::from_micros(bench.world.random(2000))).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let did = bench.world.mem().counters().read().since(&before);
    did.round_trips as f64 / (CLIENTS * calls) as f64
}

async fn reads_share_their_trips() {
    let bench = Arc::new(Bench::with(GroupConfig::default(), Arc::new(Unfenced)));
    for name in 0..=255 {
        bench.touch(&file(name).key).await;
    }
    let trips = trips_per_call(bench, 20, |bench, client, n| {
        Box::pin(async move {
            let name = (client * 20 + n) as u8;
            let (work, ended) =
                sim::work(Instant::now() + HOUR, move |tx| Ok((Ran::Done, exists(tx, name)?)));
            assert!(bench.lanes.read(client, work).is_ok());
            let (end, found) = end_of(ended).await;
            assert_eq!(found, Some(true));
            end
        })
    });
    let trips = trips.await;
    assert!(trips < 0.2, "{trips} round trips per read");
}

async fn creates_share_their_trips() {
    let bench = Arc::new(Bench::with(GroupConfig::default(), Arc::new(Unfenced)));
    for parent in 0..8u8 {
        bench.touch(&dir_stat(DIRECTORY, &[parent]).key).await;
    }
    let trips = trips_per_call(bench.clone(), 20, |bench, client, n| {
        Box::pin(async move {
            let parent = client % 8;
            let (work, ended) = sim::work(Instant::now() + HOUR, move |tx| {
                let stat = dir_stat(DIRECTORY, &[parent as u8]);
                let file = inode(DIRECTORY + 1 + parent, &[client as u8, n as u8]);
                let retry = retry_entry(&[client as u8; 16], n as i64);
                tx.want(&stat);
                tx.want(&file);
                let earlier = tx.get(&retry, Hold::Loose)?;
                assert!(earlier.is_none() && tx.get(&stat, Hold::Loose)?.is_some());
                assert!(tx.get(&file, Hold::Loose)?.is_none());
                tx.insert(&file, &id(n))?;
                tx.merge(&stat, n as i64, 1)?;
                tx.insert(&retry, &RetryEntry::default())?;
                Ok((Ran::Done, ()))
            });
            assert!(bench.lanes.write(DIRECTORY + 1 + parent, work).is_ok());
            end_of(ended).await.0
        })
    });
    let trips = trips.await;
    let children: i64 = (0..8u8).map(|p| bench.stored(&dir_stat(DIRECTORY, &[p]).key).unwrap().add).sum();
    assert_eq!(children, 64 * 20);
    let did = bench.world.mem().counters().read();
    assert_eq!((did.conflicts, did.retries), (0, 0), "parents are checked, not rewritten");
    assert!(trips < 0.2, "{trips} round trips per create");
}

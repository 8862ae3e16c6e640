//! A lane's own rows: barriers and eviction.

use super::*;

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

    fn bar(&self, _lane: usize) -> BoxFuture<'_, bool> {
        Box::pin(async {
            touch(self.mem.as_ref(), &lane_row().key).await;
            self.adopt().await;
            true
        })
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

pub async fn a_barrier_runs_the_group_again_and_is_nobodys_loss() {
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

pub async fn a_barrier_adopted_between_fetch_and_commit_is_noticed() {
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

pub async fn an_eviction_ends_everything_in_all_lanes() {
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

pub async fn what_was_refused_after_a_lost_commit_never_comes_true() {
    let (bench, _) = fenced_bench(1).await;
    bench.seat.faulty.inject(2, Fault::LandsLater(Duration::from_secs(3)));
    bench.stand_before(3);
    let ended = bench.write(|tx| match exists(tx, 1)? {
        true => Ok((Ran::Refused, false)),
        false => tx.insert(&file(1), &id(1)).map(|()| (Ran::Done, true)),
    });
    sleep(Duration::from_millis(500)).await;
    bench.touch(&file(1).key).await;
    assert_eq!(end_of(ended).await, (End::Answered, Some(false)));
    let row = bench.stored(&file(1).key).unwrap();
    let gone = Change { key: file(1).key, check: Check::Version(row.version), effect: Effect::Delete };
    bench.world.mem().commit(&[gone]).await.unwrap();
    bench.world.settle().await;
    assert_eq!(bench.stored(&file(1).key), None, "the first commit landed after the refusal");
}

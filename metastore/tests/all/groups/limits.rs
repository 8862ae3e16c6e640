//! Limits of queues, groups, rounds, keys, time, room.

use super::*;

pub async fn an_operation_that_always_misses_is_given_up() {
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

pub async fn a_full_queue_gives_the_work_back() {
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
    drop(back.finish(End::Expired));
    assert_eq!(end_of(refused).await, (End::Expired, None));
    bench.seat.faulty.thaw();
    assert_eq!(end_of(first).await.0, End::Answered);
    for ended in queued {
        assert_eq!(end_of(ended).await.0, End::Answered);
    }
}

pub async fn queued_work_is_finished_after_the_lanes_are_dropped() {
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

pub async fn work_that_waited_too_long_is_not_run() {
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

pub async fn a_full_store_fails_writers_and_answers_bystanders() {
    let bench = Bench::new();
    bench.seat.faulty.inject(2, Fault::Before(StoreError::Full("disk".into())));
    let writer = bench.write(|tx| upsert(tx, 1).map(|()| (Ran::Done, ())));
    let saw = bench.write(|tx| Ok((Ran::Refused, exists(tx, 1)?)));
    let bystander = bench.write(|tx| Ok((Ran::Refused, exists(tx, 2)?)));
    assert!(matches!(end_of(writer).await.0, End::Failed(StoreError::Full(_))));
    assert!(matches!(end_of(saw).await.0, End::Failed(StoreError::Full(_))));
    assert_eq!(end_of(bystander).await, (End::Answered, Some(false)));
}

pub async fn a_group_fetches_at_most_so_many_rows() {
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

pub async fn a_swallowed_miss_is_run_again() {
    let bench = Bench::new();
    bench.touch(&file(1).key).await;
    let ended =
        bench.write(|tx| Ok((Ran::Done, tx.get(&file(1), Hold::Loose).is_ok_and(|row| row.is_some()))));
    assert_eq!(end_of(ended).await, (End::Answered, Some(true)));
}

pub async fn an_oversized_key_fails_its_operation_only() {
    let bench = Bench::new();
    let long = bench.write(|tx| {
        tx.want(&inode(DIRECTORY, &[b'x'; 600]));
        tx.get(&inode(DIRECTORY, &[b'x'; 600]), Hold::Loose).map(|_| (Ran::Done, ()))
    });
    let other = bench.write(|tx| upsert(tx, 1).map(|()| (Ran::Done, ())));
    assert!(matches!(end_of(long).await.0, End::Failed(StoreError::Fatal(_))));
    assert_eq!(end_of(other).await.0, End::Answered);
}

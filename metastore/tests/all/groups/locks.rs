//! Operations that keep losing, and what a commit checks.

use super::*;

pub async fn three_losses_and_it_runs_over_locked_rows() {
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

pub async fn a_locked_run_may_grow_four_times() {
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

pub async fn a_hold_at_a_version_that_is_gone_ends_retriable() {
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

pub async fn a_hold_without_writes_is_checked() {
    let bench = Bench::new();
    bench.touch(&file(1).key).await;
    let version = bench.stored(&file(1).key).unwrap().version;
    let good = bench.write(move |tx| tx.hold(&file(1), version).map(|()| (Ran::Done, ())));
    assert_eq!(end_of(good).await.0, End::Answered);
    bench.touch(&file(1).key).await;
    let gone = bench.write(move |tx| tx.hold(&file(1), version).map(|()| (Ran::Done, ())));
    assert_eq!(end_of(gone).await.0, End::Expired);
}

pub async fn an_insert_without_looking_ends() {
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

pub async fn a_lone_add_is_refused() {
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

pub async fn locks_of_one_who_does_not_come_back_are_given_away() {
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

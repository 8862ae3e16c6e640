//! Who is answered when, and what a conflict or a lost answer does to a group.

use super::*;

pub async fn no_answer_that_saw_a_write_leaves_before_the_commit() {
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

pub async fn a_refusal_that_saw_a_write_that_loses_is_taken_back() {
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

pub async fn who_touched_a_conflict_leaves_with_all_who_saw_their_writes() {
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

pub async fn every_run_draws_new_versions() {
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

pub async fn a_lost_answer_is_resolved_by_running_again() {
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

pub async fn a_commit_that_lands_late_happens_once() {
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

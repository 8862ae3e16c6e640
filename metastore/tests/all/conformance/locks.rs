//! Waiting: freshness after the last lock, no deadlock, every wait ends (rules 2, 8).

use super::*;

pub async fn rule_02_commit_checks_after_its_last_lock(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let (a, b) = (key(1, "a"), key(2, "b"));
    insert_all(&store, &[a.clone(), b.clone()]).await;
    let locked = store.lock(&[], &[a.clone(), b.clone()]).await.unwrap();
    let waiting = tokio::spawn({
        let (store, a, b) = (store.clone(), a.clone(), b.clone());
        async move { store.commit(&[put(&a, 1, row(10, "late")), keep(&b, Check::Version(2))]).await }
    });
    tokio::time::sleep(TO_REACH_THE_STORE).await;
    locked.commit(vec![put(&b, 2, row(11, "moved"))]).await.unwrap();
    assert_eq!(timeout(FOREVER, waiting).await.unwrap().unwrap(), Err(StoreError::Conflict(vec![b.clone()])));
    assert_eq!(get(&store, &a).await.unwrap().version, 1);
    assert_eq!(get(&store, &b).await.unwrap().version, 11);
}

pub async fn rule_02_lock_returns_rows_as_of_its_last_lock(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let (a, b, gone) = (key(1, "a"), key(2, "b"), key(3, "gone"));
    insert_all(&store, &[a.clone(), b.clone(), gone.clone()]).await;
    let first = store.lock(&[], &[a.clone(), b.clone(), gone.clone()]).await.unwrap();
    let waiting = tokio::spawn({
        let (store, a, b, gone) = (store.clone(), a.clone(), b.clone(), gone.clone());
        async move {
            let second = store.lock(&[a.clone(), gone], std::slice::from_ref(&b)).await?;
            let versions: Vec<_> = second.rows().iter().map(|r| r.as_ref().map(|r| r.version)).collect();
            second.commit(vec![keep(&a, Check::Version(10)), put(&b, 11, row(12, ""))]).await?;
            Ok::<_, StoreError>(versions)
        }
    });
    tokio::time::sleep(TO_REACH_THE_STORE).await;
    let changes = vec![put(&a, 1, row(10, "")), put(&b, 2, row(11, "")), delete(&gone, Check::Version(3))];
    first.commit(changes).await.unwrap();
    let seen = timeout(FOREVER, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(
        seen,
        [Some(10), None, Some(11)],
        "checked keys first, then changed ones, all of them current"
    );
    assert_eq!(get(&store, &b).await.unwrap().version, 12);
}

pub async fn rule_02_a_row_deleted_and_inserted_again_while_a_lock_waits_is_there(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let (a, neighbour) = (key(1, "a"), key(1, "b"));
    insert_all(&store, &[a.clone(), neighbour.clone()]).await;
    let first = store.lock(&[], std::slice::from_ref(&a)).await.unwrap();
    let waiting = tokio::spawn({
        let (store, a) = (store.clone(), a.clone());
        async move { store.commit(&[put(&a, 1, row(12, "stale"))]).await }
    });
    tokio::time::sleep(TO_REACH_THE_STORE).await;
    first.commit(vec![delete(&a, Check::Version(1))]).await.unwrap();
    assert_eq!(timeout(FOREVER, waiting).await.unwrap().unwrap(), Err(StoreError::Conflict(vec![a.clone()])));
    store.commit(&[insert(&a, row(20, "again"))]).await.unwrap();
    let locked = store.lock(std::slice::from_ref(&a), &[neighbour]).await.unwrap();
    assert_eq!(locked.rows()[0].as_ref().map(|row| row.version), Some(20));
}

pub async fn rule_02_commits_and_locks_of_the_same_rows_do_not_deadlock(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let mut keys: Vec<Key> = (0..6)
        .flat_map(|p| [key(p, "x"), Key::new(p, MERGED, b"x"), Key::new(p, TableId::Members, b"x")])
        .collect();
    keys.sort_by(|a, b| a.lock_order().cmp(&b.lock_order()));
    insert_all(&store, &keys).await;
    let tasks: Vec<_> = (0..4usize)
        .map(|task| {
            let (store, keys) = (store.clone(), keys.clone());
            tokio::spawn(async move {
                for round in 0..12usize {
                    let mine = keys.iter().enumerate().filter(|(i, _)| (i * 7 + task * 5 + round) % 3 != 0);
                    if (round + task) % 3 == 0 {
                        let change: Vec<Key> = mine.map(|(_, key)| key.clone()).collect();
                        let locked = store.lock(&[], &change).await.unwrap();
                        let merges = change
                            .iter()
                            .map(|key| Change { check: Check::Nothing, ..merge(key, 0, KEEP_MAX, 1) });
                        locked.commit(merges.collect()).await.unwrap();
                    } else {
                        let changes: Vec<Change> = mine
                            .map(|(i, key)| match (i + task) % 2 {
                                0 => keep(key, Check::Version(1 << 50)),
                                _ => Change { check: Check::Nothing, ..merge(key, 0, KEEP_MAX, 1) },
                            })
                            .collect();
                        let lost = store.commit(&changes).await;
                        assert!(matches!(lost, Err(StoreError::Conflict(_))), "{lost:?}");
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(FOREVER, task).await.expect("a deadlock").unwrap();
    }
}

pub async fn rule_08_every_wait_ends(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let a = key(1, "a");
    insert_all(&store, std::slice::from_ref(&a)).await;
    let frozen = store.lock(&[], std::slice::from_ref(&a)).await.unwrap();
    timeout(FOREVER, store.fetch(std::slice::from_ref(&a), &[])).await.expect("reads never wait").unwrap();
    let change = [put(&a, 1, row(10, "mine"))];
    let waited = timeout(FOREVER, store.commit(&change)).await.expect("a wait that never ends");
    let late = timeout(FOREVER, frozen.commit(vec![put(&a, 1, row(11, "late"))])).await.expect("never ends");
    match waited {
        // The lock was taken away: its owner must not write any more.
        Ok(()) => assert_eq!(late, Err(StoreError::LockTimeout)),
        Err(StoreError::LockTimeout) => assert_eq!(late, Ok(())),
        other => panic!("{other:?}"),
    }
    let version = get(&store, &a).await.unwrap().version;
    assert!([10, 11].contains(&version));
    timeout(FOREVER, store.commit(&[put(&a, version, row(12, ""))])).await.unwrap().unwrap();
}

pub async fn rule_08_a_dropped_lock_is_free(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let a = key(1, "a");
    insert_all(&store, std::slice::from_ref(&a)).await;
    for _ in 0..3 {
        drop(store.lock(&[], std::slice::from_ref(&a)).await.unwrap());
    }
    // Given up before it was granted.
    drop(timeout(Duration::from_nanos(1), store.lock(&[], std::slice::from_ref(&a))).await);
    timeout(FOREVER, store.commit(&[put(&a, 1, row(10, ""))])).await.unwrap().unwrap();
}

//! Versions, guards, checks and effects (rules 3, 4, 5, 7).

use super::*;

pub async fn rule_03_versions_are_kept_and_never_repeat(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let (first, second) = (Versions::of_incarnation(7), Versions::of_incarnation(8));
    let mut drawn = Vec::new();
    for (i, versions) in [&first, &second, &first.clone(), &second].into_iter().enumerate() {
        let version = versions.next();
        drawn.push(version);
        let key = key(1, &i.to_string());
        store
            .commit(&[insert(&key, Row { max: i64::MIN, add: i64::MAX, ..row(version, "v") })])
            .await
            .unwrap();
        let stored = get(&store, &key).await.unwrap();
        assert_eq!((stored.version, stored.max, stored.add), (version, i64::MIN, i64::MAX));
    }
    assert_eq!(drawn, [(7 << 40) + 1, (8 << 40) + 1, (7 << 40) + 2, (8 << 40) + 2]);
    store.commit(&[insert(&key(2, "largest"), row(u64::MAX >> 1, ""))]).await.unwrap();
    assert_eq!(get(&store, &key(2, "largest")).await.unwrap().version, u64::MAX >> 1);
}

pub async fn rule_03_absent_rows_cannot_be_held(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let absent = key(1, "absent");
    for check in [Check::Version(1), Check::Version(0), Check::Exact(0, 0, 0)] {
        for change in [
            keep(&absent, check.clone()),
            delete(&absent, check.clone()),
            Change { key: absent.clone(), check: check.clone(), effect: Effect::Put(row(5, "")) },
        ] {
            assert_eq!(store.commit(&[change]).await, Err(StoreError::Conflict(vec![absent.clone()])));
        }
    }
    assert_eq!(get(&store, &absent).await, None);
}

pub async fn rule_04_one_of_several_inserts_wins(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let name = key(1, "name");
    let racers: Vec<_> = (1..=6)
        .map(|racer| {
            let (store, name) = (store.clone(), name.clone());
            tokio::spawn(async move {
                let own = key(2, &racer.to_string());
                store.commit(&[insert(&name, row(racer, "")), insert(&own, row(racer, ""))]).await
            })
        })
        .collect();
    let mut won = Vec::new();
    for (racer, task) in racers.into_iter().enumerate() {
        match timeout(FOREVER, task).await.unwrap().unwrap() {
            Ok(()) => won.push(racer as u64 + 1),
            lost => assert_eq!(lost, Err(StoreError::Conflict(vec![name.clone()]))),
        }
    }
    assert_eq!(won.len(), 1);
    assert_eq!(get(&store, &name).await.unwrap().version, won[0]);
    assert_eq!(rows(&store, Scan::of(T, 2, 10)).await, [won[0].to_string()]);
}

pub async fn rule_04_absence_that_is_only_checked(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let (name, other) = (key(1, "name"), key(2, "other"));
    store.commit(&[keep(&name, Check::Absent), insert(&other, row(1, ""))]).await.unwrap();
    assert_eq!(get(&store, &name).await, None, "nothing stays of what was inserted and deleted");
    store.commit(&[insert(&name, row(2, ""))]).await.unwrap();
    let lost = store.commit(&[keep(&name, Check::Absent), delete(&other, Check::Version(1))]).await;
    assert_eq!(lost, Err(StoreError::Conflict(vec![name])));
    assert!(get(&store, &other).await.is_some());
}

pub async fn rule_04_a_scan_guards_nothing(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let stat = Key::new(1, MERGED, b"dir");
    insert_all(&store, std::slice::from_ref(&stat)).await;
    assert!(rows(&store, Scan::of(T, 50, 10)).await.is_empty());
    // A child appears, and counts itself in the directory's guard.
    store.commit(&[insert(&key(50, "child"), row(9, "")), merge(&stat, 1, 5, 1)]).await.unwrap();
    // Who saw the partition empty is stopped by the counter, and by nothing else.
    let exact = delete(&stat, Check::Exact(1, 0, 0));
    assert_eq!(store.commit(&[exact]).await, Err(StoreError::Conflict(vec![stat.clone()])));
    store.commit(&[delete(&stat, Check::Version(1))]).await.unwrap();
}

pub async fn rule_05_put_and_delete_need_the_row_unchanged(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let a = key(1, "a");
    store.commit(&[insert(&a, Row { max: 3, add: 4, ..row(1, "one") })]).await.unwrap();
    let exact = |version, max, add| Check::Exact(version, max, add);
    for wrong in
        [exact(2, 3, 4), exact(1, 4, 4), exact(1, 3, 5), exact(1, 0, 0), Check::Version(2), Check::Absent]
    {
        for effect in [Effect::Put(row(9, "no")), Effect::Delete, Effect::Keep] {
            let change = Change { key: a.clone(), check: wrong.clone(), effect };
            assert_eq!(store.commit(&[change]).await, Err(StoreError::Conflict(vec![a.clone()])));
        }
    }
    let replaced = Row { max: -1, add: 7, ..row(2, "two, and longer than before") };
    let change = Change { key: a.clone(), check: exact(1, 3, 4), effect: Effect::Put(replaced.clone()) };
    store.commit(&[change]).await.unwrap();
    assert_eq!(get(&store, &a).await, Some(replaced), "counters as given, a smaller max too");
    store.commit(&[keep(&a, Check::Version(2)), insert(&key(1, "b"), row(3, ""))]).await.unwrap();
    store.commit(&[delete(&a, exact(2, -1, 7))]).await.unwrap();
    assert_eq!(get(&store, &a).await, None);
    // A blind write, onto an absent row and onto one that is there.
    for version in [4, 5] {
        let blind = Change { key: a.clone(), check: Check::Nothing, effect: Effect::Put(row(version, "")) };
        store.commit(&[blind]).await.unwrap();
        assert_eq!(get(&store, &a).await.unwrap().version, version);
    }
}

pub async fn rule_05_merge_needs_the_version_only_and_keeps_it(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let stat = Key::new(1, MERGED, b"dir");
    store.commit(&[insert(&stat, Row { max: 100, add: 0, ..row(1, "value") })]).await.unwrap();
    // Both merged from the same reading: they do not exclude each other.
    store.commit(&[merge(&stat, 1, 90, 1)]).await.unwrap();
    store.commit(&[merge(&stat, 1, 120, 2)]).await.unwrap();
    store.commit(&[merge(&stat, 1, KEEP_MAX, -1)]).await.unwrap();
    assert_eq!(get(&store, &stat).await, Some(Row { max: 120, add: 2, ..row(1, "value") }));
    assert_eq!(
        store.commit(&[merge(&stat, 2, 500, 1)]).await,
        Err(StoreError::Conflict(vec![stat.clone()])),
        "a merge needs the version"
    );
    store
        .commit(&[keep(&stat, Check::Version(1)), insert(&Key::new(2, MERGED, b""), row(7, ""))])
        .await
        .unwrap();
    let replaced =
        Change { key: stat.clone(), check: Check::Exact(1, 120, 2), effect: Effect::Put(row(3, "")) };
    store.commit(&[replaced]).await.unwrap();
    assert_eq!(store.commit(&[merge(&stat, 1, 1, 1)]).await, Err(StoreError::Conflict(vec![stat])));
}

pub async fn rule_05_conflict_names_exactly_the_failed_keys(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let keys: Vec<Key> = (0..6).map(|p| key(p, "x")).collect();
    insert_all(&store, &keys[..4]).await;
    let changes = [
        put(&keys[0], 1, row(10, "")),
        put(&keys[1], 99, row(11, "")),
        insert(&keys[2], row(12, "")),
        keep(&keys[3], Check::Exact(4, 0, 1)),
        insert(&keys[4], row(14, "")),
        keep(&keys[5], Check::Version(6)),
    ];
    let Err(StoreError::Conflict(mut lost)) = store.commit(&changes).await else { panic!("no conflict") };
    lost.sort();
    assert_eq!(lost, [keys[1].clone(), keys[2].clone(), keys[3].clone(), keys[5].clone()]);
    let locked = store.lock(&[], &keys).await.unwrap();
    let Err(StoreError::Conflict(mut lost)) = locked.commit(changes.to_vec()).await else {
        panic!("no conflict")
    };
    lost.sort();
    assert_eq!(lost, [keys[1].clone(), keys[2].clone(), keys[3].clone(), keys[5].clone()]);
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(get(&store, key).await.map(|row| row.version), (i < 4).then_some(i as u64 + 1));
    }
}

pub async fn rule_07_nothing_is_visible_after_an_error(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let keys: Vec<Key> = (0..5).map(|p| key(p, "x")).collect();
    insert_all(&store, &keys[..3]).await;
    let before = store.fetch(&keys, &[]).await.unwrap().rows;
    let tail: [Change; 2] = [
        keep(&keys[4], Check::Version(77)),
        insert(&keys[4], Row { value: vec![0; MAX_VALUE_BYTES + 1].into(), ..row(9, "") }),
    ];
    for last in tail {
        let changes = vec![
            put(&keys[0], 1, row(10, "new")),
            delete(&keys[1], Check::Exact(2, 0, 0)),
            merge(&keys[2], 3, 5, 5),
            insert(&keys[3], row(13, "")),
            last,
        ];
        assert!(store.commit(&changes).await.is_err());
        assert_eq!(store.fetch(&keys, &[]).await.unwrap().rows, before);
        let locked = store.lock(&[], &keys).await.unwrap();
        assert!(locked.commit(changes).await.is_err());
        assert_eq!(store.fetch(&keys, &[]).await.unwrap().rows, before);
    }
    let locked = store.lock(&[], &keys[..1]).await.unwrap();
    let unlocked =
        locked.commit(vec![put(&keys[0], 1, row(10, "")), delete(&keys[1], Check::Version(2))]).await;
    assert!(matches!(unlocked, Err(StoreError::Fatal(_))), "only locked rows may be changed: {unlocked:?}");
    assert_eq!(store.fetch(&keys, &[]).await.unwrap().rows, before);
}

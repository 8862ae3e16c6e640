//! What lasts, and what an error says (rules 9, 10).

use super::*;

pub async fn rule_09_commits_are_there_after_reopening(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let keys: Vec<Key> = (0..20).map(|p| key(p % 3, &p.to_string())).collect();
    insert_all(&store, &keys).await;
    let stat = Key::new(1, MERGED, b"dir");
    store.commit(&[insert(&stat, row(50, "")), delete(&keys[3], Check::Version(4))]).await.unwrap();
    store.commit(&[merge(&stat, 50, 9, 2)]).await.unwrap();
    let before = store.fetch(&keys, &[Scan::of(MERGED, 1, 5)]).await.unwrap();
    drop(store);
    let Some(store) = fixture.reopen() else { return };
    let after = store.fetch(&keys, &[Scan::of(MERGED, 1, 5)]).await.unwrap();
    assert_eq!((after.rows, after.scans), (before.rows, before.scans));
    store.commit(&[insert(&keys[3], row(60, ""))]).await.unwrap();
}

pub async fn rule_10_errors_and_repetition(fixture: Arc<Fixture>) {
    let text = || "x".to_string();
    for (error, retryable) in [
        (StoreError::Conflict(vec![key(1, "a")]), true),
        (StoreError::LockTimeout, true),
        (StoreError::Unavailable(text()), true),
        (StoreError::MaybeCommitted(text()), true),
        (StoreError::Full(text()), false),
        (StoreError::Damaged(key(1, "a"), text()), false),
        (StoreError::Fatal(text()), false),
    ] {
        assert_eq!(error.is_retryable(), retryable, "{error}");
    }
    let store = fixture.store();
    let before = store.counters().read();
    store.commit(&[insert(&key(1, "a"), row(1, ""))]).await.unwrap();
    store.commit(&[insert(&key(1, "a"), row(2, ""))]).await.unwrap_err();
    store.fetch(&[key(1, "a"), key(1, "b")], &[Scan::of(T, 1, 9)]).await.unwrap();
    let counted = store.counters().read().since(&before);
    assert_eq!((counted.commits, counted.conflicts, counted.rows_written), (1, 1, 1));
    assert_eq!((counted.fetches, counted.keys, counted.rows_read), (1, 2, 2));
}

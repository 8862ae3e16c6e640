//! What is read: limits of rows, snapshots, scans, partitions (rules 0, 1, 6, 11).

use super::*;

pub async fn rule_00_keys_and_values_up_to_the_limits(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let key_of = |bytes: usize| Key::new(7, T, &vec![0xab; bytes]);
    let value_of = |bytes: usize| Row { value: vec![0xcd; bytes].into(), ..row(1, "") };
    let longest =
        [insert(&key_of(0), value_of(0)), insert(&key_of(MAX_KEY_BYTES), value_of(MAX_VALUE_BYTES))];
    store.commit(&longest).await.unwrap();
    assert_eq!(get(&store, &key_of(0)).await, Some(value_of(0)));
    assert_eq!(get(&store, &key_of(MAX_KEY_BYTES)).await, Some(value_of(MAX_VALUE_BYTES)));
    assert_eq!(get(&store, &key_of(MAX_KEY_BYTES + 1)).await, None);
    assert_eq!(count(&store, Scan::of(T, 7, 10)).await, 2);
    for over in
        [insert(&key_of(MAX_KEY_BYTES + 1), value_of(1)), insert(&key_of(9), value_of(MAX_VALUE_BYTES + 1))]
    {
        let refused = store.commit(&[insert(&key(1, "beside"), row(2, "")), over]).await;
        assert!(matches!(refused, Err(StoreError::Fatal(_))), "{refused:?}");
    }
    assert_eq!(get(&store, &key(1, "beside")).await, None);
}

pub async fn rule_01_one_fetch_is_one_snapshot(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let keys: Vec<Key> = (0..8).map(|partition| key(partition, "x")).collect();
    insert_all(&store, &keys).await;
    let writer = tokio::spawn({
        let (store, keys) = (store.clone(), keys.clone());
        async move {
            let mut old: Vec<u64> = (1..=8).collect();
            for round in 1..60u64 {
                let version = 100 + round;
                let changes: Vec<Change> = keys
                    .iter()
                    .zip(&old)
                    .map(|(key, old)| put(key, *old, row(version, &round.to_string())))
                    .collect();
                store.commit(&changes).await.unwrap();
                old = vec![version; 8];
            }
        }
    });
    let scans: Vec<Scan> = (0..8).map(|partition| Scan::of(T, partition, 10)).collect();
    while !writer.is_finished() {
        let fetched = store.fetch(&keys, &scans).await.unwrap();
        let mut values: Vec<Row> = fetched.rows.into_iter().map(Option::unwrap).collect();
        for scanned in fetched.scans {
            let Scanned::Rows(found) = scanned else { panic!("counted") };
            values.extend(found.into_iter().map(|(_, row)| row));
        }
        assert!(values.iter().all(|row| row.value == values[0].value), "torn: {values:?}");
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
}

pub async fn rule_01_answers_come_in_request_order(fixture: Arc<Fixture>) {
    let store = fixture.store();
    insert_all(&store, &[key(1, "a"), key(2, "b"), Key::new(1, MERGED, b"a")]).await;
    let asked = [key(2, "b"), key(9, "none"), Key::new(1, MERGED, b"a"), key(1, "a"), key(2, "b")];
    let scans = [Scan::of(T, 2, 5), Scan::of(T, 9, 5), Scan::of(T, 1, 5).count(), Scan::of(MERGED, 1, 5)];
    let fetched = store.fetch(&asked, &scans).await.unwrap();
    let versions: Vec<Option<u64>> = fetched.rows.iter().map(|row| row.as_ref().map(|r| r.version)).collect();
    assert_eq!(versions, [Some(2), None, Some(3), Some(1), Some(2)]);
    let lengths: Vec<usize> = fetched
        .scans
        .iter()
        .map(|scan| match scan {
            Scanned::Rows(rows) => rows.len(),
            Scanned::Count(count) => 100 + *count as usize,
        })
        .collect();
    assert_eq!(lengths, [1, 0, 101, 1]);
    let nothing = store.fetch(&[], &[]).await.unwrap();
    assert!(nothing.rows.is_empty() && nothing.scans.is_empty());
}

pub async fn rule_06_scans_in_both_directions_with_limits(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let names = ["", "\u{0}", "a", "aa", "b", "c", "\u{7f}"];
    insert_all(&store, &names.map(|name| key(5, name))).await;
    assert_eq!(rows(&store, Scan::of(T, 5, 100)).await, names);
    let mut reversed = names;
    reversed.reverse();
    assert_eq!(rows(&store, Scan::of(T, 5, 100).reverse()).await, reversed);
    for limit in 1..=8u32 {
        let some = names.len().min(limit as usize);
        assert_eq!(rows(&store, Scan::of(T, 5, limit)).await, names[..some]);
        assert_eq!(rows(&store, Scan::of(T, 5, limit).reverse()).await, reversed[..some]);
        assert_eq!(count(&store, Scan::of(T, 5, limit)).await, some as u64);
        assert_eq!(count(&store, Scan::of(T, 5, limit).reverse()).await, some as u64);
    }
    assert_eq!(count(&store, Scan::of(T, 5, 100).after(b"aa")).await, 3);
    assert_eq!(count(&store, Scan::of(T, 5, 100).after(b"aa").reverse()).await, 3);
    assert_eq!(count(&store, Scan::of(T, 5, 2).after(b"aa")).await, 2);
}

pub async fn rule_06_a_scan_starts_past_a_cursor_whose_row_need_not_exist(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let names: Vec<String> = (0..50).map(|i| format!("{i:02}")).collect();
    insert_all(&store, &names.iter().map(|name| key(5, name)).collect::<Vec<_>>()).await;
    assert_eq!(rows(&store, Scan::of(T, 5, 2).after(b"10")).await, ["11", "12"]);
    assert_eq!(rows(&store, Scan::of(T, 5, 2).after(b"10").reverse()).await, ["09", "08"]);
    assert_eq!(rows(&store, Scan::of(T, 5, 2).after(b"10x")).await, ["11", "12"]);
    assert_eq!(rows(&store, Scan::of(T, 5, 2).after(b"10x").reverse()).await, ["10", "09"]);
    assert_eq!(rows(&store, Scan::of(T, 5, 2).after(b"")).await, ["00", "01"]);
    assert!(rows(&store, Scan::of(T, 5, 2).after(b"").reverse()).await.is_empty());
    assert!(rows(&store, Scan::of(T, 5, 2).after(b"49")).await.is_empty());
    assert!(rows(&store, Scan::of(T, 5, 2).after(&[0xff; 480])).await.is_empty());
    assert_eq!(rows(&store, Scan::of(T, 5, 2).after(&[0xff; 480]).reverse()).await, ["49", "48"]);
    // Page by page, while the rows of each page are deleted.
    let (mut seen, mut cursor) = (Vec::new(), Vec::new());
    loop {
        let page = rows(&store, Scan::of(T, 5, 7).after(&cursor)).await;
        let Some(last) = page.last() else { break };
        cursor = last.as_bytes().to_vec();
        let gone: Vec<Change> = page.iter().map(|name| delete(&key(5, name), Check::Nothing)).collect();
        store.commit(&gone).await.unwrap();
        seen.extend(page);
    }
    assert_eq!(seen, names);
    assert_eq!(count(&store, Scan::of(T, 5, 100)).await, 0);
}

pub async fn rule_06_a_scan_never_leaves_its_partition_and_table(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let tables = [T, MERGED, TableId::InodePaths, TableId::Settings];
    let partitions = [0, 1, 2, 255, 256, u64::MAX - 1, u64::MAX];
    let keys: Vec<Key> = partitions
        .iter()
        .flat_map(|p| tables.iter().filter(|t| !(*p ^ **t as u64).is_multiple_of(3)).map(|t| (*p, *t)))
        .flat_map(|(p, t)| [b"".as_slice(), b"m", &[0xff; 40]].map(|rest| Key::new(p, t, rest)))
        .collect();
    insert_all(&store, &keys).await;
    for partition in [0, 1, 2, 3, 254, 255, 256, 257, u64::MAX - 1, u64::MAX] {
        for table in [T, MERGED, TableId::InodePaths, TableId::Blocks, TableId::Settings] {
            let mut there: Vec<Key> =
                keys.iter().filter(|k| (k.partition(), k.table()) == (partition, table)).cloned().collect();
            there.sort();
            for scan in [Scan::of(table, partition, 100), Scan::of(table, partition, 100).after(b"a")] {
                let mut covered: Vec<Key> = there.iter().filter(|key| scan.covers(key)).cloned().collect();
                assert_eq!(count(&store, scan.clone()).await, covered.len() as u64);
                let scans = [scan.clone(), Scan { after: None, ..scan.clone() }.reverse()];
                let mut fetched = store.fetch(&[], &scans).await.unwrap().scans;
                let found = |scanned: Scanned| match scanned {
                    Scanned::Rows(rows) => rows.into_iter().map(|(key, _)| key).collect::<Vec<_>>(),
                    Scanned::Count(_) => panic!("counted"),
                };
                assert_eq!(found(fetched.remove(0)), covered);
                covered = there.iter().rev().cloned().collect();
                assert_eq!(found(fetched.remove(0)), covered);
            }
        }
    }
}

pub async fn rule_11_partitions_walk_the_whole_table(fixture: Arc<Fixture>) {
    let store = fixture.store();
    let mut expected = Vec::new();
    let mut keys = Vec::new();
    for p in (0..300u64).chain([1 << 40, u64::MAX]) {
        if p % 3 == 0 {
            expected.push(p);
            keys.extend(["a", "b"].map(|rest| Key::new(p, TableId::Blocks, rest.as_bytes())));
        }
        if p % 2 == 0 {
            keys.push(Key::new(p, TableId::Inodes, b"lower"));
        }
        if p % 5 == 0 {
            keys.push(Key::new(p, TableId::RetryCache, b"higher"));
        }
    }
    insert_all(&store, &keys).await;
    assert_eq!(store.partitions(TableId::Blocks, None, 1000).await.unwrap(), expected);
    assert!(store.partitions(TableId::OpenFiles, None, 10).await.unwrap().is_empty());
    assert!(store.partitions(TableId::Blocks, Some(u64::MAX), 10).await.unwrap().is_empty());
    assert_eq!(
        store.partitions(TableId::Blocks, Some(4), 2).await.unwrap(),
        [6, 9],
        "past a partition without rows"
    );
    let (mut walked, mut after) = (Vec::new(), None);
    loop {
        let page = store.partitions(TableId::Blocks, after, 7).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(*last);
        walked.extend(page);
    }
    assert_eq!(walked, expected);
}

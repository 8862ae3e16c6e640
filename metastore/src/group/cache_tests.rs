//! What an operation sees over the writes of those before it, against what it would see after their commit.

use super::*;
use crate::schema::TableId;

const PARTITION: u64 = 7;

fn key(name: u8) -> Key {
    Key::new(PARTITION, TableId::Inodes, &[name])
}

fn row(version: u64) -> Row {
    Row { version, ..Row::default() }
}

fn slot(base: Option<Row>, effects: Vec<Effect>) -> Slot {
    let mut slot = Slot::new(base);
    effects.into_iter().for_each(|effect| slot.fold(effect).unwrap());
    slot
}

fn fold(slots: Vec<(Key, Slot)>) -> Fold {
    Fold { slots: slots.into_iter().collect() }
}

/// A cache that fetched the scans over a partition with the rows of `stored` (name, version = name), and then took in
/// the deletes and inserts of one operation.
fn cache(stored: &[u8], scans: &[Scan], deleted: &[u8], inserted: &[u8]) -> Cache {
    let mut cache = Cache::default();
    let fetched = scans
        .iter()
        .map(|scan| {
            let mut rows: Vec<_> = stored.iter().map(|n| (key(*n), row(u64::from(*n)))).collect();
            rows.retain(|(key, _)| scan.covers(key));
            if scan.reverse {
                rows.reverse();
            }
            rows.truncate(scan.limit as usize);
            if scan.count_only { Scanned::Count(rows.len() as u64) } else { Scanned::Rows(rows) }
        })
        .collect();
    cache.fill(vec![], scans.to_vec(), Fetched { rows: vec![], scans: fetched }).unwrap();
    let mut own = vec![];
    for name in deleted {
        own.push((key(*name), slot(Some(row(u64::from(*name))), vec![Effect::Delete])));
    }
    for name in inserted {
        own.push((key(*name), slot(None, vec![Effect::Insert(row(1000 + u64::from(*name)))])));
    }
    assert!(cache.add_writes(0, &fold(own)));
    cache
}

fn scan(cache: &Cache, scan: &Scan) -> (Result<u64, Stop>, Vec<u8>, Trace) {
    let mut trace = Trace::default();
    let mut names = vec![];
    let mut view = GroupView { cache, trace: &mut trace };
    let count = view.scan(scan, &mut |rest, _| names.push(rest[0]));
    (count, names, trace)
}

#[test]
fn a_scan_over_own_writes_is_what_the_commit_will_show_or_a_miss() {
    let stored = [10, 20, 30, 40, 50];
    let subsets: Vec<Vec<u8>> = (0..32u32).map(|bits| subset(&stored, bits)).collect();
    let news = [5, 15, 35, 55];
    let (mut exact, mut missed) = (0, 0);
    for limit in [1, 2, 5, 9] {
        for after in [None, Some(20u8), Some(25)] {
            for reverse in [false, true] {
                for count in [false, true] {
                    let mut asked = Scan::of(TableId::Inodes, PARTITION, limit);
                    (asked.reverse, asked.count_only) = (reverse, count);
                    asked.after = after.map(|a| smallvec::smallvec![a]);
                    for deleted in &subsets {
                        for bits in 0..16 {
                            let inserted = subset(&news, bits);
                            let cache = cache(&stored, std::slice::from_ref(&asked), deleted, &inserted);
                            let mut after: Vec<u8> = stored
                                .iter()
                                .filter(|n| !deleted.contains(n))
                                .chain(&inserted)
                                .copied()
                                .collect();
                            after.sort();
                            after.retain(|name| asked.covers(&key(*name)));
                            if reverse {
                                after.reverse();
                            }
                            after.truncate(limit as usize);
                            match scan(&cache, &asked) {
                                (Ok(n), names, _) => {
                                    exact += 1;
                                    assert_eq!(n, after.len() as u64, "{asked:?} -{deleted:?} +{inserted:?}");
                                    assert!(count || names == after, "{asked:?} -{deleted:?} +{inserted:?}");
                                }
                                (Err(stop), _, trace) => {
                                    missed += 1;
                                    assert!(stop == Stop::Miss && trace.missed);
                                    let covered = |names: &[u8]| {
                                        names.iter().filter(|n| asked.covers(&key(**n))).count()
                                    };
                                    assert!(
                                        covered(&stored) >= limit as usize && covered(deleted) > 0,
                                        "needless miss"
                                    );
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(exact > missed && missed > 0, "{exact} {missed}");
}

fn subset(of: &[u8], bits: u32) -> Vec<u8> {
    of.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0).map(|(_, name)| *name).collect()
}

#[test]
fn a_deleted_row_of_a_full_page_is_a_miss_and_one_past_it_is_not() {
    let two = Scan::of(TableId::Inodes, PARTITION, 2);
    let full = cache(&[1, 2, 3], std::slice::from_ref(&two), &[2], &[]);
    assert_eq!(scan(&full, &two).0, Err(Stop::Miss));
    let past = cache(&[1, 2, 3], std::slice::from_ref(&two), &[3], &[4]);
    let (count, names, trace) = scan(&past, &two);
    assert_eq!((count, names), (Ok(2), vec![1, 2]));
    assert_eq!(trace.saw, BTreeSet::from([0]), "what lies in the range counts as seen");
}

#[test]
fn scans_of_other_ranges_see_nobody() {
    let other = Scan::of(TableId::DirStats, PARTITION, 9);
    let (count, _, trace) = scan(&cache(&[], std::slice::from_ref(&other), &[], &[1, 2]), &other);
    assert_eq!((count, trace.saw.len()), (Ok(0), 0));
    let past = Scan::of(TableId::Inodes, PARTITION, 9).after(&[2]);
    assert!(scan(&cache(&[], std::slice::from_ref(&past), &[], &[1, 2]), &past).2.saw.is_empty());
}

#[test]
fn a_fetched_scan_answers_for_its_keys() {
    for reverse in [false, true] {
        let mut page = Scan::of(TableId::Inodes, PARTITION, 2);
        page.reverse = reverse;
        let cache = cache(&[10, 20, 30], std::slice::from_ref(&page), &[], &[]);
        let version = |name: u8| cache.stored(&key(name)).map(|row| row.map(|row| row.version));
        assert_eq!(version(20), Some(Some(20)));
        assert_eq!(version(if reverse { 25 } else { 15 }), Some(None), "absent within the page");
        assert_eq!(version(if reverse { 10 } else { 30 }), None, "past a full page");
        assert_eq!(version(if reverse { 15 } else { 25 }), None, "past a full page");
    }
}

#[test]
fn one_disagreement_and_nothing_is_added() {
    let mut cache = Cache::default();
    let rows = vec![Some(row(1)), Some(row(2)), None];
    cache.fill(vec![key(1), key(2), key(3)], vec![], Fetched { rows, scans: vec![] }).unwrap();
    assert!(cache.add_writes(0, &fold(vec![(key(3), slot(None, vec![Effect::Insert(row(9))]))])));
    let before = cache.overlay().changes();
    for bad in [
        (key(3), slot(None, vec![Effect::Insert(row(11))])),
        (key(2), Slot::given(77)),
        (key(2), slot(None, vec![Effect::Insert(row(11))])),
        (key(3), slot(Some(row(8)), vec![Effect::Delete])),
    ] {
        let good = (key(1), slot(Some(row(1)), vec![Effect::Put(row(10))]));
        assert!(!cache.add_writes(1, &fold(vec![good, bad])));
        assert_eq!(cache.overlay().changes(), before);
        assert_eq!(cache.writers.get(&key(1)), None);
    }
}

#[test]
fn a_given_version_never_stands_in_for_the_row() {
    let stored = Row { version: 5, max: 3, add: 4, value: bytes::Bytes::from_static(b"v") };
    let mut cache = Cache::default();
    cache.fill(vec![key(1)], vec![], Fetched { rows: vec![Some(stored.clone())], scans: vec![] }).unwrap();
    assert!(cache.add_writes(0, &fold(vec![(key(1), Slot::given(5))])));
    let merge = Effect::Merge { max: 0, add: 1 };
    assert!(cache.add_writes(1, &fold(vec![(key(1), slot(Some(stored.clone()), vec![merge]))])));
    let mut seen = None;
    let mut trace = Trace::default();
    GroupView { cache: &cache, trace: &mut trace }
        .read(&key(1), &mut |row| seen = row.map(RowRef::to_row))
        .unwrap();
    assert_eq!(seen, Some(Row { add: 5, ..stored }));
    assert_eq!(trace.saw, BTreeSet::from([1]));
}

#[test]
fn inserted_and_deleted_again_stays_a_check_for_the_group() {
    let mut cache = Cache::default();
    cache.fill(vec![key(1)], vec![], Fetched { rows: vec![None], scans: vec![] }).unwrap();
    assert!(
        cache.add_writes(0, &fold(vec![(key(1), slot(None, vec![Effect::Insert(row(9)), Effect::Delete]))]))
    );
    let changes = cache.overlay().changes();
    assert_eq!(changes.len(), 1);
    assert_eq!((&changes[0].check, &changes[0].effect), (&crate::change::Check::Absent, &Effect::Keep));
}

#[test]
fn an_answer_of_another_shape_is_refused() {
    let fetched = Fetched { rows: vec![None], scans: vec![] };
    assert!(matches!(
        Cache::default().fill(vec![key(1), key(2)], vec![], fetched),
        Err(StoreError::Fatal(_))
    ));
}

//! The writing thread: groups, fences, faults, full stores.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use libtest_mimic::Trial;
use tokio::time::Instant;
use trellis_metastore::change::Hold;
use trellis_metastore::group::GroupConfig;
use trellis_metastore::key::Key;
use trellis_metastore::lmdb::{Lmdb, LmdbConfig, Writer};
use trellis_metastore::schema::{Setting, setting};
use trellis_metastore::store::{Store, StoreError};
use trellis_metastore::tx::{Stop, Tx, Versions};
use trellis_metastore::work::{End, Fence, Ran, Verdict, Wake, Work};

use super::{Ends, Op, increment, number, open, open_as, send, start, trial};
use crate::backends::small_lmdb;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("writer_commits_what_waits_as_one_group", one_group),
        trial("writer_drops_the_writes_of_refusals_and_faults", refusals_and_faults),
        trial("writer_outlives_a_fault_in_an_answer", fault_in_an_answer),
        trial("writer_reads_only_commits_nothing", reads_only),
        trial("writer_expires_what_waited_too_long", expired),
        trial("writer_gives_work_back_when_its_queue_is_full", queue_full),
        trial("writer_finishes_what_is_queued_when_dropped", finishes_when_dropped),
        trial("writer_adopts_a_fence_that_moved", fence_moved),
        trial("writer_ends_everything_when_fenced", fenced),
        trial("writer_never_half_applies_a_stale_hold", stale_hold),
        trial("writer_full_map_fails_only_what_does_not_fit", full_map),
        trial("writer_oversized_row_fails_alone", oversized),
        trial("writer_makes_its_file_longer_by_steps", steps),
        trial("reader_inside_a_reader_is_an_error", nested_read),
    ]
}

/// An operation that keeps the writer busy until the sender is dropped.
fn block(writer: &Writer, ends: &Ends, number: usize) -> Sender<()> {
    let (release, released) = channel();
    let (inside, is_inside) = channel();
    send(
        writer,
        ends.op(number, move |_| {
            let _ = inside.send(());
            let _ = released.recv();
            Ok(Ran::Done)
        }),
    );
    is_inside.recv().unwrap();
    release
}

/// Commits find room in the file: only now and then does one make it longer.
fn steps(dir: &Path) {
    const COMMITS: usize = 400;
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    let mut lengths = vec![store.file_bytes().unwrap()];
    for number in 0..COMMITS {
        send(
            &writer,
            ends.op(number, move |tx| {
                let text = "x".repeat(1000);
                tx.insert(&setting(&format!("row {number}")), &Setting { number: 0, text })?;
                Ok(Ran::Done)
            }),
        );
        assert_eq!(ends.next().1, End::Answered);
        lengths.push(store.file_bytes().unwrap());
    }
    let grown = lengths.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(lengths[COMMITS] - lengths[0] > 400_000, "{lengths:?}");
    assert!(
        (1..COMMITS / 20).contains(&grown),
        "{grown} of {COMMITS} commits made the file longer: {lengths:?}"
    );
}

fn one_group(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    let release = block(&writer, &ends, 0);
    for n in 1..=80 {
        send(&writer, ends.op(n, |tx| increment(tx, "n")));
    }
    let before = store.counters().read();
    drop(release);
    assert!(ends.take(81).iter().all(|(_, end)| *end == End::Answered));
    assert_eq!(number(&store, "n"), 80, "each sees the writes of those before it");
    let counted = store.counters().read().since(&before);
    // 64 and 16; the snapshot is the reading of the number.
    assert_eq!((counted.commits, counted.groups, counted.grouped_operations), (2, 2, 80));
    assert_eq!((counted.round_trips, counted.fetches, counted.rows_written), (80 + 1, 1, 80));
    assert_eq!((counted.retries, counted.conflicts), (0, 0));
}

fn refusals_and_faults(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    let release = block(&writer, &ends, 0);
    send(&writer, ends.op(1, |tx| increment(tx, "a")));
    send(&writer, ends.op(2, |tx| increment(tx, "a").map(|_| Ran::Refused)));
    send(&writer, ends.op(3, |tx| increment(tx, "a").and_then(|_| Err(Stop::Fault("broken".into())))));
    send(
        &writer,
        ends.op(4, |tx| {
            increment(tx, "a")?;
            panic!("a panic inside an operation")
        }),
    );
    send(&writer, ends.op(5, |tx| increment(tx, "a")));
    // It inserts without having looked.
    send(
        &writer,
        ends.op(6, |tx| {
            increment(tx, "b")?;
            tx.insert(&setting("a"), &Setting::default())?;
            Ok(Ran::Done)
        }),
    );
    drop(release);
    let end = ends.take(7);
    let fatal = |n: usize, part: &str| match &end[n].1 {
        End::Failed(StoreError::Fatal(why)) => assert!(why.contains(part), "{why}"),
        other => panic!("{n}: {other:?}"),
    };
    for n in [0, 1, 2, 5] {
        assert_eq!(end[n].1, End::Answered, "{n}");
    }
    fatal(3, "broken");
    fatal(4, "panicked");
    fatal(6, "exists");
    assert_eq!((number(&store, "a"), number(&store, "b")), (2, 0));
}

/// An operation that is committed and cannot be answered.
struct Unanswerable;

impl Work for Unanswerable {
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<Ran, Stop> {
        increment(tx, "a")
    }
    fn finish(self: Box<Self>, _: End) -> Wake {
        panic!("a panic inside an answer")
    }
    fn deadline(&self) -> Instant {
        Instant::now() + std::time::Duration::from_secs(60)
    }
}

fn fault_in_an_answer(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    let release = block(&writer, &ends, 0);
    send(&writer, Box::new(Unanswerable));
    send(&writer, ends.op(1, |tx| increment(tx, "a")));
    drop(release);
    assert_eq!(ends.take(2), [(0, End::Answered), (1, End::Answered)]);
    send(&writer, ends.op(2, |tx| increment(tx, "a")));
    assert_eq!(ends.next(), (2, End::Answered));
    assert_eq!(number(&store, "a"), 3);
}

fn reads_only(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "a")));
    ends.next();
    let before = store.counters().read();
    send(&writer, ends.op(1, |tx| tx.get(&setting("a"), Hold::Held).map(|_| Ran::Done)));
    assert_eq!(ends.next(), (1, End::Answered));
    let counted = store.counters().read().since(&before);
    assert_eq!((counted.commits, counted.rows_written, counted.round_trips, counted.keys), (0, 0, 1, 1));
}

fn expired(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    let release = block(&writer, &ends, 0);
    let (run, deadline) = (|tx: &mut Tx<'_>| increment(tx, "a"), Instant::now());
    send(&writer, Box::new(Op { number: 1, run, deadline, ended: ends.ended.clone() }));
    send(&writer, ends.op(2, |tx| increment(tx, "a")));
    drop(release);
    assert_eq!(ends.take(3), [(0, End::Answered), (1, End::Expired), (2, End::Answered)]);
    assert_eq!(number(&store, "a"), 1);
}

fn queue_full(dir: &Path) {
    let store = open(dir);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let config = GroupConfig { queue: 3, ..GroupConfig::default() };
    let versions = Versions::of_incarnation(1);
    let fence = Arc::new(trellis_metastore::work::Unfenced);
    let writer = Writer::start(&store, fence, versions, &config, runtime.handle().clone()).unwrap();
    let ends = Ends::new();
    let release = block(&writer, &ends, 0);
    (1..=3).for_each(|n| send(&writer, ends.op(n, |tx| increment(tx, "a"))));
    let refused = writer.write(0, ends.op(4, |tx| increment(tx, "a")));
    let Err(work) = refused else { panic!("a fourth was queued") };
    drop(work.finish(End::Expired));
    drop(release);
    assert_eq!(ends.take(5)[4], (4, End::Expired));
    assert_eq!(number(&store, "a"), 3);
}

fn finishes_when_dropped(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    (0..200).for_each(|n| send(&writer, ends.op(n, |tx| increment(tx, "a"))));
    drop(writer);
    assert_eq!(ends.ends.try_iter().filter(|(_, end)| *end == End::Answered).count(), 200);
    assert_eq!(number(&store, "a"), 200);
}

/// Holds one row at a version; when it moves, adopts the version that `Moved::adopt` names, or gives up.
struct Moved {
    held: Mutex<(Key, u64)>,
    adopt: Mutex<Option<u64>>,
    asked: Mutex<u32>,
    store: Lmdb,
}

impl Fence for Moved {
    fn holds(&self, lane: usize) -> Vec<(Key, u64)> {
        assert_eq!(lane, 0);
        vec![self.held.lock().unwrap().clone()]
    }
    fn moved<'a>(&'a self, _lane: usize, key: &'a Key) -> BoxFuture<'a, Verdict> {
        async move {
            *self.asked.lock().unwrap() += 1;
            // The transaction is gone: the store can be asked and written.
            let row = self.store.fetch(std::slice::from_ref(key), &[]).await.unwrap().rows.remove(0);
            let mut held = self.held.lock().unwrap();
            assert_ne!(row.map(|row| row.version), Some(held.1));
            match *self.adopt.lock().unwrap() {
                Some(version) => {
                    held.1 = version;
                    Verdict::Again
                }
                None => Verdict::Fenced,
            }
        }
        .boxed()
    }
}

fn with_fence(dir: &Path) -> (Lmdb, Writer, Arc<Moved>, tokio::runtime::Runtime) {
    let store = open(dir);
    let (first, _runtime) = start(&store, 1);
    let ends = Ends::new();
    send(&first, ends.op(0, |tx| increment(tx, "member")));
    assert_eq!(ends.next().1, End::Answered);
    let fence = Arc::new(Moved {
        held: Mutex::new((setting("member").key, (1 << 40) + 1)),
        adopt: Mutex::new(None),
        asked: Mutex::new(0),
        store: store.clone(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let versions = Versions::of_incarnation(2);
    let config = GroupConfig::default();
    let writer = Writer::start(&store, fence.clone(), versions, &config, runtime.handle().clone()).unwrap();
    (store, writer, fence, runtime)
}

fn fence_moved(dir: &Path) {
    let (store, writer, fence, runtime) = with_fence(dir);
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "a")));
    assert_eq!(ends.next().1, End::Answered);
    assert_eq!(*fence.asked.lock().unwrap(), 0);
    rewrite_member(&store, &runtime, (5 << 40) + 1);
    *fence.adopt.lock().unwrap() = Some((5 << 40) + 1);
    send(&writer, ends.op(1, |tx| increment(tx, "a")));
    assert_eq!(ends.next(), (1, End::Answered));
    assert_eq!(*fence.asked.lock().unwrap(), 1);
    assert_eq!(number(&store, "a"), 2);
    // One that adopts the wrong version again and again is not run for ever.
    *fence.adopt.lock().unwrap() = Some(7);
    rewrite_member(&store, &runtime, (5 << 40) + 2);
    send(&writer, ends.op(2, |tx| increment(tx, "a")));
    assert_eq!(ends.next(), (2, End::Expired));
    assert_eq!(number(&store, "a"), 2);
}

fn rewrite_member(store: &Lmdb, runtime: &tokio::runtime::Runtime, version: u64) {
    use trellis_metastore::change::{Change, Check, Effect, Row};
    let row = Row { version, ..Row::default() };
    let change = Change { key: setting("member").key, check: Check::Nothing, effect: Effect::Put(row) };
    runtime.block_on(store.commit(&[change])).unwrap();
}

fn fenced(dir: &Path) {
    let (store, writer, fence, _runtime) = with_fence(dir);
    let ends = Ends::new();
    let release = block(&writer, &ends, 0);
    (1..=100).for_each(|n| send(&writer, ends.op(n, |tx| increment(tx, "a"))));
    // From now on the row is not at the version that the lane knows.
    fence.held.lock().unwrap().1 = 77;
    drop(release);
    let ends = ends.take(101);
    assert_eq!(ends[0].1, End::Answered);
    assert!(ends[1..].iter().all(|(_, end)| *end == End::Fenced), "what is queued too: {ends:?}");
    assert_eq!((number(&store, "a"), *fence.asked.lock().unwrap()), (0, 1));
}

fn stale_hold(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "term")));
    assert_eq!(ends.next().1, End::Answered);
    let release = block(&writer, &ends, 1);
    let hold = |version: u64| {
        move |tx: &mut Tx<'_>| {
            tx.hold(&setting("term"), version)?;
            increment(tx, "a")
        }
    };
    send(&writer, ends.op(2, hold((1 << 40) + 1)));
    send(&writer, ends.op(3, hold((1 << 40) + 2)));
    // One that learns the version on its second run.
    let mut known = 0;
    send(
        &writer,
        ends.op(4, move |tx| {
            let ran = hold(known)(tx);
            known = (1 << 40) + 1;
            ran
        }),
    );
    drop(release);
    assert_eq!(
        ends.take(4).iter().map(|(_, end)| end.clone()).collect::<Vec<_>>(),
        [End::Answered, End::Answered, End::Expired, End::Answered]
    );
    assert_eq!(number(&store, "a"), 2);
    assert_eq!(store.counters().read().conflicts, 1);
}

fn full_map(dir: &Path) {
    let store = open_as(dir, LmdbConfig { map_bytes: 1 << 20, ..small_lmdb() });
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    let large = |tx: &mut Tx<'_>| {
        increment(tx, "large")?;
        for i in 0..200 {
            tx.insert(&setting(&format!("large {i}")), &Setting { number: 0, text: "x".repeat(8000) })?;
        }
        Ok(Ran::Done)
    };
    let release = block(&writer, &ends, 0);
    send(&writer, ends.op(1, |tx| increment(tx, "small")));
    send(&writer, ends.op(2, large));
    send(&writer, ends.op(3, |tx| increment(tx, "small")));
    drop(release);
    let end = ends.take(4);
    assert_eq!((&end[1].1, &end[3].1), (&End::Answered, &End::Answered));
    match &end[2].1 {
        End::Failed(StoreError::Full(why)) => assert!(why.contains("map of 1048576 bytes"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!((number(&store, "small"), number(&store, "large")), (2, 0));
    send(&writer, ends.op(4, |tx| increment(tx, "small")));
    assert_eq!(ends.next(), (4, End::Answered));
    drop(writer);
    drop(store);
    let store = open_as(dir, LmdbConfig { map_bytes: 8 << 20, ..small_lmdb() });
    let (writer, _runtime) = start(&store, 2);
    send(&writer, ends.op(5, large));
    assert_eq!(ends.next(), (5, End::Answered), "a larger map takes it");
}

fn oversized(dir: &Path) {
    let store = open(dir);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    let release = block(&writer, &ends, 0);
    send(
        &writer,
        ends.op(1, |tx| {
            tx.insert(&setting(&"k".repeat(481)), &Setting::default())?;
            Ok(Ran::Done)
        }),
    );
    send(&writer, ends.op(2, |tx| increment(tx, "a")));
    drop(release);
    let end = ends.take(3);
    assert!(matches!(end[1].1, End::Failed(StoreError::Fatal(_))), "{:?}", end[1]);
    assert_eq!(end[2].1, End::Answered);
}

fn nested_read(dir: &Path) {
    let store = open(dir);
    let inner = store.read(|_| store.read(|_| ())).unwrap();
    assert!(matches!(inner, Err(StoreError::Fatal(_))), "{inner:?}");
    store.read(|_| ()).unwrap();
}

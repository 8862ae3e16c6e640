//! A store that is a round trip away: every trip waits once, many wait at once, and nobody holds anything meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use tokio::sync::mpsc;
use tokio::time::Instant;
use trellis_metastore::change::Hold;
use trellis_metastore::delayed::Delayed;
use trellis_metastore::group::{GroupConfig, transact};
use trellis_metastore::key::Key;
use trellis_metastore::lmdb::{DelayedPath, Lmdb, Writer};
use trellis_metastore::schema::{self, TableId};
use trellis_metastore::store::Store;
use trellis_metastore::tx::{Stop, Tx, Versions};
use trellis_metastore::work::{End, Ran, Unfenced, Wake, Work};

use super::{increment, number, open, runtime, trial};

/// On the virtual clock: far longer than a test runs.
const DELAY: Duration = Duration::from_secs(3600);
/// Operations of a kind.
const MANY: usize = 100;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("delayed::every_round_trip_waits_once_and_many_wait_at_once", many_at_once),
        trial("delayed::nothing_is_held_meanwhile", nothing_held),
        trial("delayed::who_finds_no_room_is_given_back", no_room),
    ]
}

/// An operation whose end is awaited on the runtime.
struct Op<F> {
    run: F,
    ended: mpsc::UnboundedSender<End>,
}

impl<F: FnMut(&mut Tx<'_>) -> Result<Ran, Stop> + Send> Work for Op<F> {
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<Ran, Stop> {
        (self.run)(tx)
    }
    fn finish(self: Box<Self>, end: End) -> Wake {
        let _ = self.ended.send(end);
        Wake::default()
    }
    fn deadline(&self) -> Instant {
        Instant::now() + Duration::from_secs(60)
    }
}

/// Calls a test on a virtual clock, which moves on when nothing else is to be done.
fn virtually<R>(test: impl Future<Output = R>) -> R {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(test)
}

/// The way of a namenode to a store with room for so many.
fn path_to(lmdb: &Lmdb, room: usize) -> DelayedPath {
    let (config, runtime) = (GroupConfig::default(), tokio::runtime::Handle::current());
    let writer =
        Writer::start(lmdb, Arc::new(Unfenced), Versions::of_incarnation(1), &config, runtime).unwrap();
    DelayedPath::new(Delayed::new(lmdb.clone(), DELAY), writer, room)
}

fn many_at_once(dir: &Path) {
    let lmdb = open(dir);
    virtually(async {
        let path = path_to(&lmdb, 2 * MANY);
        let (ended, mut ends) = mpsc::unbounded_channel();
        let (before, begun) = (lmdb.counters().read(), Instant::now());
        for _ in 0..MANY {
            let look = |tx: &mut Tx<'_>| tx.get(&schema::setting("n"), Hold::Loose).map(|_| Ran::Refused);
            assert!(path.read(Box::new(Op { run: look, ended: ended.clone() })).is_ok());
            let add = |tx: &mut Tx<'_>| increment(tx, "n");
            assert!(path.write(0, Box::new(Op { run: add, ended: ended.clone() })).is_ok());
        }
        let fetches = (0..MANY).map(|_| path.store().fetch(&[], &[]));
        futures::future::try_join_all(fetches).await.unwrap();
        for _ in 0..2 * MANY {
            assert_eq!(ends.recv().await, Some(End::Answered));
        }
        let took = begun.elapsed();
        assert!(took >= DELAY && took < 2 * DELAY, "they waited one after another: {took:?}");
        let counted = lmdb.counters().read().since(&before);
        assert_eq!((counted.round_trips, counted.delays), (3 * MANY as u64, 3 * MANY as u64));
        let mean = Duration::from_micros(counted.delay_us / counted.delays);
        assert!(mean >= DELAY && mean < DELAY + Duration::from_secs(1), "{mean:?}");
    });
    assert_eq!(number(&lmdb, "n"), MANY as u64);
}

/// Adds one to a row beside those that wait, in real time: the virtual clock stands still until this returns.
fn increment_at_once(lmdb: &Lmdb, name: &'static str) {
    let lmdb = lmdb.clone();
    let done = std::thread::spawn(move || {
        let versions = Versions::of_incarnation(2);
        runtime().block_on(transact(&lmdb, &versions, move |tx| increment(tx, name).map(drop)))
    });
    done.join().unwrap().unwrap();
}

fn nothing_held(dir: &Path) {
    let lmdb = open(dir);
    virtually(async {
        let path = path_to(&lmdb, MANY);
        let (ended, mut ends) = mpsc::unbounded_channel();
        let look = |tx: &mut Tx<'_>| match tx.get(&schema::setting("made meanwhile"), Hold::Loose)? {
            Some(_) => Ok(Ran::Refused),
            None => Err(Stop::Fault("the snapshot is older than the wait".into())),
        };
        assert!(path.read(Box::new(Op { run: look, ended: ended.clone() })).is_ok());
        assert!(path.write(0, Box::new(Op { run: |tx: &mut Tx<'_>| increment(tx, "n"), ended })).is_ok());
        let store = Delayed::new(lmdb.clone(), DELAY);
        let key = schema::setting("made meanwhile").key;
        let fetch = tokio::spawn({
            let store = store.clone();
            async move { store.fetch(&[key], &[]).await }
        });
        let other = Key::new(1, TableId::Inodes, b"locked");
        let lock = tokio::spawn(async move { store.lock(&[], &[other]).await.map(drop) });
        // Now all of them wait.
        tokio::time::sleep(DELAY / 2).await;
        increment_at_once(&lmdb, "made meanwhile");
        assert_eq!([ends.recv().await, ends.recv().await], [Some(End::Answered), Some(End::Answered)]);
        assert!(fetch.await.unwrap().unwrap().rows[0].is_some());
        lock.await.unwrap().unwrap();
    });
    assert_eq!(number(&lmdb, "n"), 1);
}

fn no_room(dir: &Path) {
    let lmdb = open(dir);
    virtually(async {
        let path = path_to(&lmdb, 1);
        let (ended, mut ends) = mpsc::unbounded_channel();
        let op = || Box::new(Op { run: |tx: &mut Tx<'_>| increment(tx, "n"), ended: ended.clone() });
        assert!(path.write(0, op()).is_ok());
        assert!(
            path.write(0, op()).is_err() && path.read(op()).is_err(),
            "one waits, and there is room for one"
        );
        assert_eq!(ends.recv().await, Some(End::Answered));
        assert!(path.write(0, op()).is_ok());
        assert_eq!(ends.recv().await, Some(End::Answered));
    });
    assert_eq!(number(&lmdb, "n"), 2);
}

//! What lanes and groups promise, one scenario per promise, over the store in memory on a virtual clock.

mod answers;
mod fences;
mod limits;
mod locks;
mod trips;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use libtest_mimic::Trial;
use tokio::time::{Instant, sleep};
use trellis_metastore::change::{Change, Check, Effect, Hold, Row};
use trellis_metastore::faulty::{Blow, Fault, Strike};
use trellis_metastore::group::{GroupConfig, Lanes};
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::schema::{
    DirStat, DirStats, Inode, Inodes, Members, RetryEntry, TableId, TableKey, dir_stat, inode, member_lane,
    retry_entry,
};
use trellis_metastore::sim::{self, Ended, Plan, Seat, World};
use trellis_metastore::store::{Store, StoreError};
use trellis_metastore::tx::{Stop, Tx};
use trellis_metastore::work::{End, Fence, Ran, Unfenced, Verdict};

const DIRECTORY: u64 = 20_000;
/// Longer than any test here waits.
const HOUR: Duration = Duration::from_secs(3600);

pub fn trials() -> Vec<Trial> {
    macro_rules! trials {
        ($($module:ident::$name:ident),* $(,)?) => {
            vec![$(Trial::test(concat!("groups::", stringify!($name)), || {
                sim::run($module::$name());
                Ok(())
            })),*]
        };
    }
    trials![
        answers::no_answer_that_saw_a_write_leaves_before_the_commit,
        answers::a_refusal_that_saw_a_write_that_loses_is_taken_back,
        answers::who_touched_a_conflict_leaves_with_all_who_saw_their_writes,
        answers::every_run_draws_new_versions,
        fences::a_barrier_runs_the_group_again_and_is_nobodys_loss,
        fences::a_barrier_adopted_between_fetch_and_commit_is_noticed,
        fences::an_eviction_ends_everything_in_all_lanes,
        fences::what_was_refused_after_a_lost_commit_never_comes_true,
        answers::a_lost_answer_is_resolved_by_running_again,
        answers::a_commit_that_lands_late_happens_once,
        limits::an_operation_that_always_misses_is_given_up,
        limits::a_full_queue_gives_the_work_back,
        limits::queued_work_is_finished_after_the_lanes_are_dropped,
        limits::work_that_waited_too_long_is_not_run,
        locks::three_losses_and_it_runs_over_locked_rows,
        locks::a_locked_run_may_grow_four_times,
        locks::a_hold_at_a_version_that_is_gone_ends_retriable,
        locks::a_hold_without_writes_is_checked,
        locks::an_insert_without_looking_ends,
        locks::a_lone_add_is_refused,
        limits::a_full_store_fails_writers_and_answers_bystanders,
        limits::a_group_fetches_at_most_so_many_rows,
        limits::a_swallowed_miss_is_run_again,
        limits::an_oversized_key_fails_its_operation_only,
        locks::locks_of_one_who_does_not_come_back_are_given_away,
        trips::reads_share_their_trips,
        trips::creates_share_their_trips,
    ]
}

struct Bench {
    world: World,
    seat: Seat,
    lanes: Lanes,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(GroupConfig { write_lanes: 1, ..GroupConfig::default() }, Arc::new(Unfenced))
    }

    fn with(config: GroupConfig, fence: Arc<dyn Fence>) -> Bench {
        let world = World::new(&Plan { config, ..Plan::default() });
        let seat = world.seat();
        let lanes = seat.lanes(fence);
        Bench { world, seat, lanes }
    }

    /// Queues an operation.
    fn write<T: Send + 'static>(
        &self,
        run: impl FnMut(&mut Tx<'_>) -> Result<(Ran, T), Stop> + Send + 'static,
    ) -> Ended<T> {
        self.write_until(HOUR, run)
    }

    fn write_until<T: Send + 'static>(
        &self,
        within: Duration,
        run: impl FnMut(&mut Tx<'_>) -> Result<(Ran, T), Stop> + Send + 'static,
    ) -> Ended<T> {
        let (work, ended) = sim::work(Instant::now() + within, run);
        assert!(self.lanes.write(0, work).is_ok(), "the queue is full");
        ended
    }

    /// Changes a row behind the lanes' back, as another namenode would.
    async fn touch(&self, key: &Key) {
        touch(self.world.mem(), key).await;
    }

    /// The process stands still before its `call`-th store call for a second.
    fn stand_before(&self, call: u64) {
        self.seat.faulty.strike(Strike { call, done: false, blow: Blow::Freeze(Duration::from_secs(1)) });
    }

    fn commits(&self) -> Vec<Vec<Change>> {
        self.world.mem().journal()
    }

    fn stored(&self, key: &Key) -> Option<Row> {
        self.world.mem().rows().into_iter().find(|(k, _)| k == key).map(|(_, row)| row)
    }
}

/// Writes a new version of a row, or the row if it is not there.
async fn touch(store: &dyn Store, key: &Key) {
    static VERSION: AtomicU64 = AtomicU64::new(1 << 60);
    let version = VERSION.fetch_add(1, Ordering::Relaxed);
    let stored = store.fetch(std::slice::from_ref(key), &[]).await.unwrap().rows.remove(0);
    let (check, effect) = match stored {
        Some(row) => (Check::Version(row.version), Effect::Put(Row { version, ..row })),
        None => (Check::Absent, Effect::Insert(Row { version, ..Row::default() })),
    };
    store.commit(&[Change { key: key.clone(), check, effect }]).await.unwrap();
}

fn file(name: u8) -> TableKey<Inodes> {
    inode(DIRECTORY, &[name])
}

fn stat() -> TableKey<DirStats> {
    dir_stat(DIRECTORY, b"stat")
}

fn id(id: u64) -> Inode {
    Inode { id, ..Inode::default() }
}

/// Asks for all names at once, so that one fetch brings them.
fn want(tx: &mut Tx<'_>, names: &[u8]) {
    names.iter().for_each(|name| tx.want(&file(*name)));
}

fn upsert(tx: &mut Tx<'_>, name: u8) -> Result<(), Stop> {
    match tx.get(&file(name), Hold::Held)? {
        Some(_) => tx.put(&file(name), &id(1)),
        None => tx.insert(&file(name), &id(1)),
    }
}

fn exists(tx: &mut Tx<'_>, name: u8) -> Result<bool, Stop> {
    Ok(tx.get(&file(name), Hold::Loose)?.is_some())
}

async fn end_of<T>(ended: Ended<T>) -> (End, Option<T>) {
    ended.await.expect("an operation was dropped without an end")
}

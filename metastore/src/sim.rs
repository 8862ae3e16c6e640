//! Many namenodes in one process, over one store in memory, on a virtual clock: one seed is one history.
//!
//! A test brings its own namenode; this module gives it a seat. In outline:
//!
//! ```ignore
//! let plan = Plan { seed, faults: Faults::rough(), ..Plan::default() };
//! sim::run(async {
//!     let world = World::new(&plan);
//!     format(world.store()).await;                      // set-up goes to the store itself, without faults
//!     let nodes = [0, 1, 2].map(|_| {
//!         let seat = world.seat();                      // a process: its own incarnation, faults and lanes' seed
//!         Engine::new(Backend::grouped(seat.store(), fence, seat.versions(), &seat.config), ..)
//!     });
//!     world.seats()[1].faulty.freeze();                 // SIGSTOP; `thaw`, `die`, `stop_after(k)`, `strike(..)`
//!     let answer = sim::failover(nodes.len(), 0, patience, 10, |node| nodes[node].call(..)).await;
//!     world.settle().await;                             // commits that land after MaybeCommitted have landed
//!     check(world.mem().rows());
//! });
//! ```
//!
//! [`sweep`] runs such a scenario again and again, so that each store call of a seat is once the one at which its
//! process dies or freezes, before the call and after it. Nothing in a scenario may take time or chance from elsewhere:
//! tokio's clock, the world's [`World::random`] numbers.

#![allow(clippy::panic)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::delayed::Delayed;
use crate::faulty::{Blow, Faults, Faulty, Strike};
use crate::group::{GroupConfig, Lanes};
use crate::mem::Mem;
use crate::store::Store;
use crate::tx::{Stop, Tx, Versions};
use crate::work::{End, Fence, Ran, Wake, Work};

/// What a world is made from.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Behind everything that is drawn.
    pub seed: u64,
    /// What goes wrong between each process and the store.
    pub faults: Faults,
    /// A round trip.
    pub delay: Duration,
    /// How often a commit waits for its locks, and how long at most.
    pub lock_wait: (f64, Duration),
    /// The lanes of each process; their seed is set per seat.
    pub config: GroupConfig,
    /// A blow for a seat (counted from 0).
    pub strike: Option<(usize, Strike)>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            seed: 0,
            faults: Faults::default(),
            delay: Duration::from_millis(1),
            lock_wait: (0.0, Duration::ZERO),
            config: GroupConfig::default(),
            strike: None,
        }
    }
}

/// One process: how it sees the store, and what makes it different from the others.
#[derive(Clone)]
pub struct Seat {
    /// Counted from 0, over the whole world.
    pub number: usize,
    /// Its incarnation, from 1.
    pub incarnation: u64,
    /// Its view of the store, to be struck, frozen and stopped.
    pub faulty: Faulty,
    /// For its lanes.
    pub config: GroupConfig,
}

impl Seat {
    /// Its store.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.faulty.clone())
    }

    /// The row versions of its incarnation; call it once.
    pub fn versions(&self) -> Versions {
        Versions::of_incarnation(self.incarnation)
    }

    /// Lanes over its store.
    pub fn lanes(&self, fence: Arc<dyn Fence>) -> Lanes {
        Lanes::start(self.store(), fence, self.versions(), &self.config)
    }
}

/// A store and the processes around it.
pub struct World {
    plan: Plan,
    mem: Mem,
    rng: Arc<Mutex<StdRng>>,
    seats: Mutex<Vec<Seat>>,
    /// How many calls each seat had made when the world was first settled.
    settled: Mutex<Option<Vec<u64>>>,
}

impl World {
    /// An empty store that keeps a journal, and nobody around it.
    pub fn new(plan: &Plan) -> World {
        let rng = Arc::new(Mutex::new(StdRng::seed_from_u64(plan.seed)));
        let mem = Mem::new();
        mem.keep_journal();
        World { plan: plan.clone(), mem, rng, seats: Mutex::default(), settled: Mutex::default() }
    }

    /// The store itself: no faults, no strikes, no delay, same rows.
    pub fn mem(&self) -> &Mem {
        &self.mem
    }

    /// The same rows, a round trip away.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(Delayed::new(self.mem.clone(), self.plan.delay))
    }

    /// A new process. One that replaces a dead one is a new seat too.
    pub fn seat(&self) -> Seat {
        let mut seats = lock(&self.seats);
        let number = seats.len();
        let seed = self.random(u64::MAX);
        let (rate, longest) = self.plan.lock_wait;
        let mut mem = self.mem.clone();
        if rate > 0.0 {
            let rng = self.rng.clone();
            mem = mem.with_pause(Arc::new(move || {
                let mut rng = lock(&rng);
                let (hit, part) = (rng.random_bool(rate), rng.random::<f64>());
                let wait = if hit { longest.mul_f64(part) } else { Duration::ZERO };
                Box::pin(tokio::time::sleep(wait))
            }));
        }
        let faulty =
            Faulty::new(Arc::new(Delayed::new(mem, self.plan.delay)), self.plan.faults.clone(), seed);
        if let Some((_, strike)) = self.plan.strike.filter(|(victim, _)| *victim == number) {
            faulty.strike(strike);
        }
        let config = GroupConfig { seed: Some(seed), ..self.plan.config.clone() };
        let seat = Seat { number, incarnation: number as u64 + 1, faulty, config };
        seats.push(seat.clone());
        seat
    }

    /// All processes so far, dead ones included.
    pub fn seats(&self) -> Vec<Seat> {
        lock(&self.seats).clone()
    }

    /// A number below `below` (or 0), from the world's seed.
    pub fn random(&self, below: u64) -> u64 {
        lock(&self.rng).random_range(0..below.max(1))
    }

    /// Ends all faults, lets the frozen go on, and waits until what was answered `MaybeCommitted` has landed.
    pub async fn settle(&self) {
        let calls = self.seats().iter().map(|seat| seat.faulty.calls()).collect();
        lock(&self.settled).get_or_insert(calls);
        for seat in self.seats() {
            seat.faulty.set_faults(Faults::default());
            seat.faulty.thaw();
        }
        while self.seats().iter().any(|seat| seat.faulty.landing() > 0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a scenario on a runtime of one thread whose clock only moves when everybody waits.
pub fn run<F: Future>(scenario: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(scenario),
        Err(error) => panic!("no runtime for a simulation: {error}"),
    }
}

/// Runs a scenario undisturbed, then again for the store calls that the `victim` seat made in that run before
/// [`World::settle`] (at most `points` of them, evenly spread) and each blow, struck before the call and after it.
/// Returns how many runs that were. A run that panics says which it was.
pub fn sweep<F, R>(plan: &Plan, victim: usize, points: usize, blows: &[Blow], scenario: F) -> usize
where
    F: Fn(Arc<World>) -> R,
    R: Future<Output = ()>,
{
    let one = |strike: Option<Strike>| {
        let plan = Plan { strike: strike.map(|strike| (victim, strike)), ..plan.clone() };
        let _note = Note(format!("seed {}, strike {:?}", plan.seed, plan.strike));
        let world = run(async {
            let world = Arc::new(World::new(&plan));
            scenario(world.clone()).await;
            world
        });
        let settled = lock(&world.settled).as_ref().and_then(|calls| calls.get(victim).copied());
        settled.or_else(|| world.seats().get(victim).map(|seat| seat.faulty.calls())).unwrap_or(0)
    };
    let calls = one(None);
    assert!(calls > 0 || blows.is_empty(), "seat {victim} made no store call");
    let mut runs = 1;
    let step = (calls as usize).div_ceil(points.max(1)).max(1);
    for call in (1..=calls).step_by(step) {
        for done in [false, true] {
            for blow in blows {
                one(Some(Strike { call, done, blow: *blow }));
                runs += 1;
            }
        }
    }
    runs
}

/// Says which run it was, if that ends in a panic.
struct Note(String);

impl Drop for Note {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the simulation of {}", self.0);
        }
    }
}

/// A client's call: goes to one of `nodes` nodes (by number) after another, `first` first, until one answers. A node
/// that does not answer within `patience`, or answers `None` (try again), is left for the next. `None` = nobody did in
/// `attempts`.
pub async fn failover<T, R: Future<Output = Option<T>>>(
    nodes: usize,
    first: usize,
    patience: Duration,
    attempts: usize,
    mut call: impl FnMut(usize) -> R,
) -> Option<T> {
    for attempt in 0..attempts {
        let node = (first + attempt) % nodes.max(1);
        if let Ok(Some(answer)) = tokio::time::timeout(patience, call(node)).await {
            return Some(answer);
        }
    }
    None
}

/// Where the end of an operation and its answer arrive.
pub type Ended<T> = oneshot::Receiver<(End, Option<T>)>;

/// An operation made from a function, and where to wait for its end; the answer is that of its last run.
pub fn work<T: Send + 'static>(
    deadline: Instant,
    run: impl FnMut(&mut Tx<'_>) -> Result<(Ran, T), Stop> + Send + 'static,
) -> (Box<dyn Work>, Ended<T>) {
    let (sender, receiver) = oneshot::channel();
    (Box::new(FromFn { deadline, run, last: None, sender }), receiver)
}

struct FromFn<T, F> {
    deadline: Instant,
    run: F,
    last: Option<T>,
    sender: oneshot::Sender<(End, Option<T>)>,
}

impl<T, F> Work for FromFn<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> Result<(Ran, T), Stop> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<Ran, Stop> {
        self.last = None;
        let (ran, answer) = (self.run)(tx)?;
        self.last = Some(answer);
        Ok(ran)
    }

    fn finish(self: Box<Self>, end: End) -> Wake {
        let this = *self;
        let _ = this.sender.send((end, this.last));
        Wake::default()
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }
}

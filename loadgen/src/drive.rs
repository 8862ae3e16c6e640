//! The loops: operations begin, end, and are noted.
//!
//! In a closed loop each client begins an operation when its last one has ended. In an open loop operations begin when a
//! [`Schedule`] says so, whatever the system does: a thread of its own keeps the time, clients have any number under way,
//! and one that cannot begin in time begins later; its latency counts from when it was to begin.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout_at};
use trellis_client::Client;

use crate::arrivals::{Arrivals, Schedule};
use crate::episodes::EpisodeRecords;
use crate::error::{Error, Result};
use crate::files::NewFile;
use crate::loops;
use crate::mix::Op;
use crate::ops::{Done, End, Task, perform};
use crate::patience::GivenUp;
use crate::pick::{Effect, Picker};
use crate::progress::Progress;
use crate::record::{Recorder, Recorders, Times};
use crate::stop::Stop;

/// Operations that are under way may take so long once no more begin; then they count as errors.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// Operations that one client has under way; further ones begin when some have ended.
pub(crate) const MAX_UNDER_WAY: usize = 4096;
/// Arrivals that wait for one client; then the clock's thread waits for it, and further arrivals are late.
const MAX_WAITING: usize = 65_536;
/// How exactly the clock's thread wakes up.
const TIMER_SLACK_NS: u64 = 1;
/// The clock's thread looks at least so often whether the phase was ended.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_millis(100);
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// A client with what it picks.
#[derive(Debug)]
pub struct Worker {
    /// Shared with others when there are fewer connections than clients.
    pub client: Client,
    /// Its own.
    pub picker: Picker,
    /// What the files that it makes are like.
    pub new_file: NewFile,
}

/// A part of a run.
#[derive(Debug, Clone, Copy)]
pub struct Phase {
    /// On the progress bar.
    pub name: &'static str,
    /// How long operations begin.
    pub length: Duration,
    /// Operations a second and how they follow one another; None: a closed loop.
    pub open: Option<(f64, Arrivals)>,
    /// Of the schedule.
    pub seed: u64,
}

/// What a phase has to heed beside its own clock.
#[derive(Debug, Clone)]
pub struct Control {
    /// When it starts; all times count from here.
    pub started: Instant,
    /// Ends it early.
    pub stop: Stop,
    /// Counts operations by episode.
    pub episodes: Option<EpisodeRecords>,
}

impl Control {
    /// Of a phase that starts now.
    pub fn new(stop: &Stop) -> Control {
        Control { started: Instant::now(), stop: stop.clone(), episodes: None }
    }
}

/// What came of a phase.
#[derive(Debug)]
pub struct Outcome<K = Op> {
    /// What happened.
    pub recorder: Recorder<K>,
    /// Until the last operation had ended.
    pub elapsed: Duration,
    /// Operations that were to begin in an open loop.
    pub intended: u64,
    /// It ended early since there was nothing left to work on.
    pub exhausted: bool,
    /// When somebody ended it before its time.
    pub stopped_at: Option<Duration>,
}

struct Shared {
    started: Instant,
    phase: Phase,
    stop: Stop,
    stopped_at: OnceLock<Duration>,
    recorders: Recorders<Op>,
    exhausted: AtomicBool,
    given_up: GivenUp,
}

impl Shared {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether no more operations are to begin, now or then.
    fn is_over(&self, at: Duration) -> bool {
        if self.stop.is_asked() {
            self.stopped_at.get_or_init(|| self.now());
            return true;
        }
        at >= self.phase.length
    }

    /// Waits until waiting for what is under way has lasted too long.
    async fn deadline(&self) {
        let end = tokio::time::Instant::from_std(self.started + self.phase.length);
        // Either is an end.
        let _ = timeout_at(end, self.stop.asked()).await;
        sleep(DRAIN_LIMIT).await;
    }

    fn note(&self, worker: usize, op: Op, intended: Duration, begun: Duration, done: &Done) {
        let times = Times { intended, begun, ended: self.now() };
        self.recorders.with(worker, |recorder| recorder.note(op, times, done));
    }

    fn unfinished(&self, worker: usize, op: Op, intended: Duration) {
        let now = self.now();
        self.recorders.with(worker, |recorder| recorder.unfinished(op, intended, now));
    }
}

/// Runs a phase to its end; the workers come back for the next one.
pub async fn run(workers: Vec<Worker>, phase: Phase, control: Control) -> Result<(Vec<Worker>, Outcome)> {
    let Control { started, stop, episodes } = control;
    let shared = Arc::new(Shared {
        started,
        phase,
        stop,
        stopped_at: OnceLock::new(),
        recorders: Recorders::new(phase.open.is_some(), episodes),
        exhausted: AtomicBool::new(false),
        given_up: GivenUp::default(),
    });
    let mut tasks = JoinSet::new();
    let mut clock = None;
    match phase.open {
        None => {
            for (index, worker) in workers.into_iter().enumerate() {
                let client = worker.client.clone();
                loops::spawn(&mut tasks, &client, closed(worker, index, shared.clone()));
            }
        }
        Some((rate, arrivals)) => {
            let mut senders = Vec::with_capacity(workers.len());
            for (index, worker) in workers.into_iter().enumerate() {
                let (sender, tickets) = mpsc::channel(MAX_WAITING);
                senders.push(sender);
                let client = worker.client.clone();
                loops::spawn(&mut tasks, &client, open(worker, index, shared.clone(), tickets));
            }
            let (schedule, shared) = (Schedule::new(arrivals, rate, phase.seed), shared.clone());
            clock = Some(tokio::task::spawn_blocking(move || keep_time(schedule, &shared, &senders)));
        }
    }
    let shown = tokio::spawn(show(shared.clone()));
    let patience = tokio::spawn(give_up(shared.clone()));
    let mut workers = Vec::with_capacity(tasks.len());
    let failed = |error| Error::Unreadable(format!("a client failed: {error}"));
    while let Some(worker) = tasks.join_next().await {
        workers.push(worker.map_err(failed)?);
    }
    let elapsed = shared.now();
    shown.abort();
    patience.abort();
    let intended = match clock {
        Some(clock) => clock.await.map_err(failed)?,
        None => 0,
    };
    workers.sort_by_key(|worker| worker.picker.client());
    let exhausted = shared.exhausted.load(Ordering::Relaxed);
    let stopped_at = shared.stopped_at.get().copied().filter(|at| *at < phase.length);
    let recorder = shared.recorders.merged();
    Ok((workers, Outcome { recorder, elapsed, intended, exhausted, stopped_at }))
}

/// One client of a closed loop.
async fn closed(mut worker: Worker, index: usize, shared: Arc<Shared>) -> Worker {
    let mut patience = shared.given_up.patience();
    loop {
        let begun = shared.now();
        if shared.is_over(begun) {
            return worker;
        }
        let Some((task, effect)) = worker.picker.draw() else {
            shared.exhausted.store(true, Ordering::Relaxed);
            return worker;
        };
        let done = {
            let done = pin!(perform(&worker.client, &task, &worker.new_file));
            patience.wait_for(done).await
        };
        match done {
            Some(done) => {
                shared.note(index, task.op, begun, begun, &done);
                worker.note(effect, &done);
            }
            None => {
                shared.unfinished(index, task.op, begun);
                return worker;
            }
        }
    }
}

/// Tells the clients of a closed loop when waiting for what is under way has lasted too long.
async fn give_up(shared: Arc<Shared>) {
    shared.deadline().await;
    shared.given_up.say();
}

/// One client of an open loop.
async fn open(
    mut worker: Worker,
    index: usize,
    shared: Arc<Shared>,
    mut tickets: mpsc::Receiver<Duration>,
) -> Worker {
    let mut deadline = pin!(shared.deadline());
    let mut under_way = FuturesUnordered::new();
    let mut more = true;
    while more || !under_way.is_empty() {
        tokio::select! {
            biased;
            Some((begun, done)) = under_way.next(), if !under_way.is_empty() => {
                let Begun { op, intended, begun, effect } = begun;
                shared.note(index, op, intended, begun, &done);
                worker.note(effect, &done);
            }
            ticket = tickets.recv(), if more && under_way.len() < MAX_UNDER_WAY => {
                match ticket.map(|intended| (intended, worker.picker.draw())) {
                    Some((intended, Some((task, effect)))) => {
                        under_way.push(worker.begin(task, effect, intended, shared.now()));
                    }
                    Some((_, None)) => {
                        shared.exhausted.store(true, Ordering::Relaxed);
                        more = false;
                    }
                    None => more = false,
                }
            }
            () = &mut deadline => break,
        }
    }
    for left in &under_way {
        shared.unfinished(index, left.begun.op, left.begun.intended);
    }
    worker
}

impl Worker {
    /// Notes what an operation left behind.
    pub fn note(&mut self, effect: Effect, done: &Done) {
        if matches!(done.end, End::Success) {
            self.picker.note(effect);
        }
    }

    fn begin(&self, task: Task, effect: Effect, intended: Duration, begun: Duration) -> UnderWay<Begun> {
        let (client, new_file, op) = (self.client.clone(), self.new_file.clone(), task.op);
        let done = async move { perform(&client, &task, &new_file).await }.boxed();
        UnderWay { begun: Begun { op, intended, begun, effect }, done }
    }
}

/// An operation of an open loop.
#[derive(Debug, Clone, Copy)]
struct Begun {
    op: Op,
    intended: Duration,
    begun: Duration,
    effect: Effect,
}

/// An operation that runs, and what must be known of it when it has ended.
pub(crate) struct UnderWay<T> {
    pub begun: T,
    pub done: BoxFuture<'static, Done>,
}

impl<T: Copy + Unpin> Future for UnderWay<T> {
    type Output = (T, Done);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(T, Done)> {
        let begun = self.begun;
        self.done.poll_unpin(context).map(|done| (begun, done))
    }
}

/// Of the calling thread. Without it it would wake up less exactly, and the operations' lateness shows that.
pub(crate) fn wake_exactly() {
    let _ = nix::sys::prctl::set_timerslack(TIMER_SLACK_NS);
}

/// Tells clients in turn to begin, each time when it is time. How many were to begin.
fn keep_time(schedule: Schedule, shared: &Shared, clients: &[mpsc::Sender<Duration>]) -> u64 {
    wake_exactly();
    let mut intended = 0;
    let mut gone = false;
    for (start, client) in schedule.zip(clients.iter().cycle()) {
        while !gone
            && !shared.is_over(start)
            && let Some(wait) = start.checked_sub(shared.now())
        {
            thread::sleep(wait.min(LONGEST_SLEEP));
        }
        if shared.is_over(start) {
            break;
        }
        intended += 1;
        // Clients end early only when the phase is over or there is nothing left to work on. What was to begin counts.
        gone = gone || client.blocking_send(start).is_err();
    }
    intended
}

/// Shows how far the phase is, until it is stopped.
async fn show(shared: Arc<Shared>) {
    let progress = Progress::new(shared.phase.name, shared.phase.length.as_secs(), "s");
    let mut interval = tokio::time::interval(PROGRESS_INTERVAL);
    let (mut before, mut at) = (0, Duration::ZERO);
    loop {
        interval.tick().await;
        let (ended, now) = (shared.recorders.count(), shared.now());
        let rate = (ended - before) as f64 / (now - at).as_secs_f64().max(1e-3);
        progress.set(
            now.as_secs().min(shared.phase.length.as_secs()),
            format!("{} {rate:.0}/s", shared.phase.name),
        );
        (before, at) = (ended, now);
    }
}

//! Lines of a trace, each when it is time and its turn.
//!
//! A thread of its own reads the trace and keeps the time. It begins every line in the order of the trace; [`Order`] says
//! whether it may run at once or waits for an earlier one. Clients carry lines out, any number at once, and with each that
//! ends go on to those that waited for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use trellis_client::Client;

use super::account::Account;
use super::calls::{Task, perform};
use super::commands::{Command, Says};
use super::order::{Order, Ticket, Want};
use super::place::Place;
use super::prepare::Plan;
use super::steps::{Step, Steps, Verdict};
use crate::drive::{
    DRAIN_LIMIT, LONGEST_SLEEP, MAX_UNDER_WAY, Outcome, PROGRESS_INTERVAL, UnderWay, wake_exactly,
};
use crate::error::{Error, Result};
use crate::files::NewFile;
use crate::loops;
use crate::ops::Done;
use crate::progress::Progress;
use crate::record::{Recorders, Times};
use crate::stop::Stop;

/// Lines that have begun and not ended; then the clock's thread waits, and further lines are late.
const MAX_BEGUN: usize = 65_536;
/// The same as fast as possible: so many for each that is under way, so that those which wait for others do not keep the
/// rest from running.
const BEGUN_FOR_EACH: usize = 16;
/// How often the clock's thread looks whether there still are clients while it waits for them.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Why lines that were refused are skipped where nobody is.
pub const NOT_CHECKED: &str = "it was refused, and the target checks no permissions";

/// Why the rest of a trace is skipped.
pub const ENDED: &str = "somebody ended the replay before";

/// Who carries lines out.
#[derive(Debug)]
pub struct Players {
    /// One for each connection; all lines are theirs, unless there are users.
    pub own: Vec<Client>,
    /// By number of the user.
    pub users: Vec<Client>,
    /// Who is refused.
    pub stranger: Client,
}

impl Players {
    /// All of them.
    pub fn all(&self) -> Vec<Client> {
        self.own.iter().chain(&self.users).chain([&self.stranger]).cloned().collect()
    }

    fn of(&self, worker: usize, who: Who) -> &Client {
        let own = self.own.get(worker % self.own.len().max(1)).unwrap_or(&self.stranger);
        match who {
            Who::Own => own,
            Who::Stranger => &self.stranger,
            Who::User(number) => self.users.get(number as usize).unwrap_or(own),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Who {
    Own,
    Stranger,
    User(u32),
}

/// How lines are played.
#[derive(Debug, Clone)]
pub struct Pace {
    /// So many times as fast as the trace; None: as fast as possible.
    pub speed: Option<f64>,
    /// Lines under way at once, as fast as possible.
    pub at_once: u32,
    /// What new files are like.
    pub new_file: NewFile,
    /// Lines that were refused can be.
    pub refuses: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Played {
    /// What clients saw.
    pub outcome: Outcome<Command>,
    /// What became of the lines.
    pub account: Account,
    /// When the last line was to begin, since the first.
    pub last: Duration,
    /// Lines that waited for an earlier one.
    pub waited: u64,
    /// Lines that began in another second than they were to.
    pub in_another_second: u64,
    /// When the last line that began was to begin, and did.
    pub last_begun: (Duration, Duration),
}

struct Shared {
    started: Instant,
    players: Players,
    pace: Pace,
    order: Mutex<Order<Job>>,
    /// Rung when a line ends while the clock's thread waits for that.
    room: Condvar,
    recorders: Recorders<Command>,
    in_another_second: AtomicU64,
    /// Microseconds of the last line that began.
    last_intended: AtomicU64,
    last_begun: AtomicU64,
}

/// A line that has begun.
struct Job {
    ticket: Ticket,
    task: Task,
    who: Who,
    /// None: as soon as possible.
    intended: Option<Duration>,
}

impl Shared {
    fn order(&self) -> MutexGuard<'_, Order<Job>> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines that may have begun without having ended.
    fn most_begun(&self) -> usize {
        match self.pace.speed {
            Some(_) => MAX_BEGUN,
            None => (self.pace.at_once as usize * BEGUN_FOR_EACH).min(MAX_BEGUN),
        }
    }

    /// Lines that one of so many workers has under way.
    fn most_under_way(&self, workers: usize) -> usize {
        match self.pace.speed {
            Some(_) => MAX_UNDER_WAY,
            None => (self.pace.at_once as usize).div_ceil(workers.max(1)),
        }
    }

    fn note(&self, worker: usize, begun: Begun, done: &Done) {
        let Begun { command, intended, begun, .. } = begun;
        let intended = intended.unwrap_or(begun);
        let times = Times { intended, begun, ended: self.started.elapsed() };
        self.recorders.with(worker, |recorder| recorder.note(command, times, done));
        self.in_another_second.fetch_add(u64::from(intended.as_secs() != begun.as_secs()), Ordering::Relaxed);
        self.last_intended.fetch_max(intended.as_micros() as u64, Ordering::Relaxed);
        self.last_begun.fetch_max(begun.as_micros() as u64, Ordering::Relaxed);
    }

    fn unfinished(&self, command: Command, intended: Option<Duration>) {
        let now = self.started.elapsed();
        self.recorders.with(0, |recorder| recorder.unfinished(command, intended.unwrap_or(now), now));
    }
}

/// Plays a trace that was planned.
pub async fn play(
    steps: Steps,
    plan: Plan,
    place: Place,
    players: Players,
    pace: Pace,
    stop: Stop,
) -> Result<Played> {
    let (workers, at_pace) = (players.own.len().max(1), pace.speed.is_some());
    let shared = Arc::new(Shared {
        started: Instant::now(),
        players,
        pace,
        order: Mutex::default(),
        room: Condvar::new(),
        recorders: Recorders::new(at_pace, None),
        in_another_second: AtomicU64::new(0),
        last_intended: AtomicU64::new(0),
        last_begun: AtomicU64::new(0),
    });
    let (over, is_over) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut senders = Vec::with_capacity(workers);
    for index in 0..workers {
        // What has begun is bounded, so that this is never full.
        let (sender, jobs) = mpsc::channel(MAX_BEGUN);
        senders.push(sender);
        let client = shared.players.of(index, Who::Own);
        loops::spawn(&mut tasks, client, work(index, shared.clone(), jobs, is_over.clone()));
    }
    let total = plan.commands.values().sum();
    let shown = tokio::spawn(show(shared.clone(), total));
    let reader = Reader { steps, plan, place, shared: shared.clone(), senders, next_above: 0, stop };
    let clock = tokio::task::spawn_blocking(move || reader.run());
    let failed = |error| Error::Unreadable(format!("a client failed: {error}"));
    let read = clock.await.map_err(failed)?;
    // Those under way may still take a while.
    let drained = async {
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(failed)?;
        }
        Ok::<(), Error>(())
    };
    tokio::pin!(drained);
    match tokio::time::timeout(DRAIN_LIMIT, &mut drained).await {
        Ok(ended) => ended?,
        Err(_) => {
            let _ = over.send(true);
            drained.await?;
        }
    }
    let elapsed = shared.started.elapsed();
    shown.abort();
    let Read { account, last, stopped_at } = read?;
    let waited = {
        let mut order = shared.order();
        order.waiting().for_each(|job| shared.unfinished(job.task.command, job.intended));
        order.waited
    };
    let intended = account.replayed;
    let recorder = shared.recorders.merged();
    let outcome = Outcome { recorder, elapsed, intended, exhausted: false, stopped_at };
    let in_another_second = shared.in_another_second.load(Ordering::Relaxed);
    let micros = |time: &AtomicU64| Duration::from_micros(time.load(Ordering::Relaxed));
    let last_begun = (micros(&shared.last_intended), micros(&shared.last_begun));
    Ok(Played { outcome, account, last, waited, in_another_second, last_begun })
}

/// What came of reading it.
struct Read {
    account: Account,
    /// When the last line was to begin.
    last: Duration,
    /// When somebody ended it.
    stopped_at: Option<Duration>,
}

/// The thread that reads and keeps the time.
struct Reader {
    steps: Steps,
    plan: Plan,
    place: Place,
    shared: Arc<Shared>,
    senders: Vec<mpsc::Sender<Job>>,
    /// Place in the plan's list of lines that make directories above their path.
    next_above: usize,
    /// Somebody may end it early.
    stop: Stop,
}

impl Reader {
    /// Until there are no more lines, or somebody ends it.
    fn run(mut self) -> Result<Read> {
        wake_exactly();
        let (mut account, mut last, mut stopped_at) = (Account::default(), Duration::ZERO, None);
        while account.lines < self.plan.seen.lines {
            let verdict = self.steps.read()?.ok_or_else(|| self.plan.seen.cut_after(account.lines))?;
            account.note(&verdict);
            self.plan.seen.compare(account.lines, self.steps.digest())?;
            let Verdict::Step(step) = verdict else { continue };
            if !step.allowed && !self.shared.pace.refuses {
                account.skip_instead(NOT_CHECKED);
                continue;
            }
            let after = |speed: f64| Duration::try_from_secs_f64(step.at_ms as f64 / 1000.0 / speed);
            // A trace may have any time in it: what takes longer than a clock counts never begins.
            let intended = self.shared.pace.speed.map(|speed| after(speed).unwrap_or(Duration::MAX));
            if !self.wait_for(intended) {
                stopped_at.get_or_insert_with(|| self.shared.started.elapsed());
                account.skip_instead(ENDED);
                continue;
            }
            last = intended.unwrap_or_default();
            self.begin(step, intended, account.replayed)?;
        }
        Ok(Read { account, last, stopped_at })
    }

    /// Waits until a line is to begin; false: somebody ended the replay.
    fn wait_for(&self, intended: Option<Duration>) -> bool {
        while !self.stop.is_asked() {
            let wait = intended.and_then(|start| start.checked_sub(self.shared.started.elapsed()));
            match wait.filter(|wait| !wait.is_zero()) {
                Some(wait) => std::thread::sleep(wait.min(LONGEST_SLEEP)),
                None => return true,
            }
        }
        false
    }

    fn begin(&mut self, step: Step, intended: Option<Duration>, turn: u64) -> Result<()> {
        let above = self.made_above(step.line);
        let wants = wants(&step, above);
        let (task, who) = (self.task(&step), self.who(&step));
        let job = {
            let mut order = self.shared.order();
            while order.len() >= self.shared.most_begun() {
                let wait = self.shared.room.wait_timeout(order, LOOK_INTERVAL);
                (order, _) = wait.unwrap_or_else(PoisonError::into_inner);
                if self.senders.iter().any(mpsc::Sender::is_closed) {
                    return Err(gone());
                }
            }
            order.begin(wants.into_iter(), |ticket| Job { ticket, task, who, intended })
        };
        let Some(job) = job else { return Ok(()) };
        // Whoever has the fewest to do, and in turn among equals.
        let (before, after) = self.senders.split_at(turn as usize % self.senders.len().max(1));
        let idlest = after.iter().chain(before).rev().max_by_key(|sender| sender.capacity());
        idlest.ok_or_else(gone)?.blocking_send(job).map_err(|_| gone())
    }

    /// The depth of the highest directory that a line makes above its path, if the plan knows of one.
    fn made_above(&mut self, line: u64) -> Option<usize> {
        let list = &self.plan.model.made_above;
        while list.get(self.next_above).is_some_and(|(number, _)| *number < line) {
            self.next_above += 1;
        }
        list.get(self.next_above).filter(|(number, _)| *number == line).map(|(_, depth)| *depth)
    }

    fn task(&self, step: &Step) -> Task {
        let moved = |path: &String| self.place.of(path, step.allowed);
        // One user alone may give nothing away; as many users the superuser does it.
        let owner = step.rights.as_ref().filter(|_| !self.shared.players.users.is_empty());
        Task {
            command: step.command,
            allowed: step.allowed,
            path: moved(&step.path),
            to: step.to.as_ref().map(moved),
            sources: step.sources.iter().map(moved).collect(),
            overwrite: step.overwrite,
            owner: owner.map(|rights| (rights.owner.clone(), rights.group.clone())),
            mode: step.rights.as_ref().map(|rights| rights.mode),
            clock_ms: step.clock_ms,
        }
    }

    fn who(&self, step: &Step) -> Who {
        match self.plan.users.get(&step.user) {
            _ if !step.allowed => Who::Stranger,
            // Who owned what a trace does not tell.
            Some(number) if !step.command.is_for_owners() => Who::User(*number),
            _ => Who::Own,
        }
    }
}

/// Clients end before the clock's thread only when they fail.
fn gone() -> Error {
    Error::Unreadable("a client failed".to_owned())
}

/// How a line holds its paths.
fn wants(step: &Step, made_above: Option<usize>) -> Vec<Want<'_>> {
    let row = step.command.row();
    // What is refused changes nothing.
    if !row.changes || !step.allowed {
        return vec![Want::read(&step.path)];
    }
    let path = match (row.says, made_above) {
        (Says::Makes(_), Some(alone_from)) => Want { path: &step.path, alone_from },
        _ => Want::change(&step.path),
    };
    let others = step.to.iter().chain(&step.sources).map(|path| Want::change(path));
    std::iter::once(path).chain(others).collect()
}

/// One connection.
async fn work(
    index: usize,
    shared: Arc<Shared>,
    mut jobs: mpsc::Receiver<Job>,
    mut is_over: watch::Receiver<bool>,
) {
    let most = shared.most_under_way(shared.players.own.len());
    let (mut under_way, mut ready) = (FuturesUnordered::new(), VecDeque::new());
    let (mut more, mut freed) = (true, Vec::new());
    while more || !under_way.is_empty() {
        tokio::select! {
            biased;
            Some((begun, done)) = under_way.next(), if !under_way.is_empty() => {
                shared.note(index, begun, &done);
                shared.order().end(begun.ticket, &mut freed);
                shared.room.notify_one();
                ready.extend(freed.drain(..));
            }
            job = jobs.recv(), if more && under_way.len() < most => match job {
                Some(job) => ready.push_back(job),
                None => more = false,
            },
            _ = is_over.wait_for(|over| *over) => break,
        }
        while under_way.len() < most
            && let Some(job) = ready.pop_front()
        {
            under_way.push(begin(index, &shared, job));
        }
    }
    for left in &under_way {
        shared.unfinished(left.begun.command, left.begun.intended);
    }
    jobs.close();
    while let Some(job) = ready.pop_front().or_else(|| jobs.try_recv().ok()) {
        shared.unfinished(job.task.command, job.intended);
    }
}

fn begin(worker: usize, shared: &Shared, job: Job) -> UnderWay<Begun> {
    let Job { ticket, task, who, intended } = job;
    let (client, new_file) = (shared.players.of(worker, who).clone(), shared.pace.new_file.clone());
    let begun = Begun { ticket, command: task.command, intended, begun: shared.started.elapsed() };
    UnderWay { begun, done: async move { perform(&client, &task, &new_file).await }.boxed() }
}

/// A line that runs.
#[derive(Debug, Clone, Copy)]
struct Begun {
    ticket: Ticket,
    command: Command,
    intended: Option<Duration>,
    begun: Duration,
}

/// Shows how far it is, until it is stopped.
async fn show(shared: Arc<Shared>, total: u64) {
    let progress = Progress::new("replaying", total, "lines, {per_sec}, {eta}");
    let mut interval = tokio::time::interval(PROGRESS_INTERVAL);
    loop {
        interval.tick().await;
        progress.set(shared.recorders.count(), "replaying".to_owned());
    }
}

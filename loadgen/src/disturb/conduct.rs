//! Does what is to be done to the servers, each thing in its time, and tells what came of it.

use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};
use trellis_client::Client;
use trellis_client::client::Counts;

use super::process::{Process, Who};
use super::{Act, Disturb, Disturbance};
use crate::episodes::Marks;
use crate::error::Result;
use crate::stop::Stop;
use crate::watch::counts;

/// How long to wait for commands once the run is over.
const COMMANDS_END: Duration = Duration::from_secs(2);

/// All that is to be done in a run.
#[derive(Debug)]
pub struct Plan {
    all: Vec<Disturb>,
    /// Of those that name a pid: the process that it is now.
    found: Vec<Option<Process>>,
    steps: Vec<Step>,
    /// When the episodes begin: one with each step.
    pub marks: Marks,
}

/// One thing that is done at one time.
#[derive(Debug, Clone, Copy)]
struct Step {
    at: Duration,
    /// Of the disturbance.
    index: usize,
    /// What was stopped goes on.
    continues: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Conducted {
    /// In the order of the configuration.
    pub disturbances: Vec<Disturbance>,
    /// The episodes after the first.
    pub episodes: Vec<Begun>,
}

/// The begin of an episode.
#[derive(Debug)]
pub struct Begun {
    /// What was done.
    pub with: String,
    /// When, since the start of the measured time.
    pub at: Duration,
    /// What all clients had counted by then.
    pub counts: Counts,
}

impl Plan {
    /// Looks whether all processes are there and may be signalled: that should be known before anything is measured.
    pub fn new(all: &[Disturb]) -> Result<Plan> {
        let mut found = Vec::with_capacity(all.len());
        let mut steps = Vec::new();
        for (index, disturb) in all.iter().enumerate() {
            steps.push(Step { at: disturb.at, index, continues: false });
            if let Act::Stop(_, length) = &disturb.act {
                steps.push(Step { at: disturb.at.saturating_add(*length), index, continues: true });
            }
            let who = match &disturb.act {
                Act::Kill(who) | Act::Stop(who, _) => who,
                Act::Run(_) => {
                    found.push(None);
                    continue;
                }
            };
            let process = who.find()?;
            process.signal(None)?;
            found.push(matches!(who, Who::Pid(_)).then_some(process));
        }
        steps.sort_by_key(|step| step.at);
        Ok(Plan { all: all.to_vec(), found, marks: Marks::new(steps.len()), steps })
    }

    /// Does it all, until the run is over or somebody ends it: then what stands still goes on at once.
    pub async fn conduct(self, started: Instant, clients: Vec<Client>, over: Stop, stop: Stop) -> Conducted {
        let mut work = Work::new(&self, started);
        let mut episodes = Vec::with_capacity(self.steps.len());
        for (number, step) in self.steps.iter().enumerate() {
            let Some(disturb) = self.all.get(step.index) else { continue };
            tokio::select! {
                biased;
                () = over.asked() => break,
                () = stop.asked() => break,
                () = sleep_until((started + step.at).into()) => {}
            }
            let (with, at) = (if step.continues { "end of " } else { "" }, started.elapsed());
            self.marks.begin(number, at);
            episodes.push(Begun { with: format!("{with}{}", disturb.name()), at, counts: counts(&clients) });
            match step.continues {
                true => work.go_on(step.index),
                false => work.begin(step.index, disturb, self.found.get(step.index).copied().flatten()),
            }
        }
        work.let_all_go_on();
        over.asked().await;
        work.see_commands_end().await;
        Conducted { disturbances: work.end(&self.all), episodes }
    }
}

/// A process that stands still. It goes on when this is dropped, whatever ends the run.
#[derive(Debug)]
struct Stopped(Process);

impl Drop for Stopped {
    fn drop(&mut self) {
        // One that has ended meanwhile does not mind.
        let _ = self.0.signal(Signal::SIGCONT);
    }
}

/// What is under way.
#[derive(Debug)]
struct Work {
    started: Instant,
    started_at: SystemTime,
    told: Vec<Disturbance>,
    stopped: Vec<(usize, Stopped)>,
    killed: Vec<(usize, Process)>,
    commands: JoinSet<(usize, std::io::Result<ExitStatus>, Duration)>,
}

impl Work {
    fn new(plan: &Plan, started: Instant) -> Work {
        let untold = |disturb: &Disturb| Disturbance {
            what: disturb.to_string(),
            intended_s: disturb.at.as_secs_f64(),
            begun_s: None,
            ended_s: None,
            done: false,
            outcome: "not done: the run had ended before".into(),
        };
        Work {
            started,
            started_at: SystemTime::now() - started.elapsed(),
            told: plan.all.iter().map(untold).collect(),
            stopped: Vec::new(),
            killed: Vec::new(),
            commands: JoinSet::new(),
        }
    }

    fn begin(&mut self, index: usize, disturb: &Disturb, found: Option<Process>) {
        let begun = self.started.elapsed();
        let process = |who: &Who| found.map_or_else(|| who.find(), Ok);
        let done = match &disturb.act {
            Act::Kill(who) => process(who).and_then(|process| {
                process.signal(Signal::SIGKILL)?;
                self.killed.push((index, process));
                Ok(format!("process {} was killed", process.pid))
            }),
            Act::Stop(who, _) => process(who).and_then(|process| {
                process.signal(Signal::SIGSTOP)?;
                self.stopped.push((index, Stopped(process)));
                Ok(format!("process {} stood still", process.pid))
            }),
            Act::Run(command) => self.command(index, command),
        };
        if let Some(told) = self.told.get_mut(index) {
            told.begun_s = Some(begun.as_secs_f64());
            told.done = done.is_ok();
            told.outcome = done.unwrap_or_else(|error| error.to_string());
        }
    }

    /// Starts a command. What it prints nobody keeps: a server that it starts may outlive this program.
    fn command(&mut self, index: usize, command: &str) -> Result<String> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own: Ctrl-C does not reach it.
        let mut child = shell.process_group(0).spawn().map_err(crate::Error::io("starting sh"))?;
        let pid = child.id().map_or("a process".to_owned(), |pid| format!("process {pid}"));
        let started = self.started;
        self.commands.spawn(async move {
            let ended = child.wait().await;
            (index, ended, started.elapsed())
        });
        Ok(format!("still ran as {pid} when the run had ended, and was left to itself"))
    }

    fn go_on(&mut self, index: usize) {
        let Some(at) = self.stopped.iter().position(|(of, _)| *of == index) else { return };
        drop(self.stopped.swap_remove(at));
        let now = self.started.elapsed().as_secs_f64();
        if let Some(told) = self.told.get_mut(index) {
            told.ended_s = Some(now);
            let length = now - told.begun_s.unwrap_or(now);
            told.outcome = format!("{} for {length:.3} s", told.outcome);
        }
    }

    fn let_all_go_on(&mut self) {
        while let Some((index, _)) = self.stopped.last() {
            self.go_on(*index);
        }
    }

    /// Notes how commands have ended, and waits a little for those that are just about to.
    async fn see_commands_end(&mut self) {
        let deadline = tokio::time::Instant::now() + COMMANDS_END;
        while let Ok(Some(Ok((index, ended, at)))) = timeout_at(deadline, self.commands.join_next()).await {
            let Some(told) = self.told.get_mut(index) else { continue };
            told.ended_s = Some(at.as_secs_f64());
            told.done = ended.as_ref().is_ok_and(ExitStatus::success);
            told.outcome = match ended {
                Ok(status) => format!("ended with {status}"),
                Err(error) => format!("cannot be waited for: {error}"),
            };
        }
    }

    /// What came of all of it.
    fn end(mut self, all: &[Disturb]) -> Vec<Disturbance> {
        for (index, process) in &self.killed {
            let Some((told, disturb)) = self.told.get_mut(*index).zip(all.get(*index)) else { continue };
            let Act::Kill(who) = &disturb.act else { continue };
            if let Some((next, since)) = process.successor(who) {
                let at = since.duration_since(self.started_at).map(|at| at.as_secs_f64());
                told.ended_s = at.ok().zip(told.begun_s).map(|(at, begun)| at.max(begun));
                told.outcome = format!("{}; process {} is in its place", told.outcome, next.pid);
            }
        }
        self.told
    }
}

#[cfg(test)]
mod tests {
    use std::process::Child;

    use super::*;

    fn sleeper() -> Child {
        std::process::Command::new("sleep").arg("600").spawn().expect("started")
    }

    fn is_stopped(child: &Child) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    }

    async fn until(mut so: impl FnMut() -> bool) {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn plan(all: &[String]) -> Plan {
        let all: Vec<Disturb> = all.iter().map(|text| text.parse().expect("well formed")).collect();
        Plan::new(&all).expect("all are there")
    }

    #[tokio::test]
    async fn all_is_done_in_order_and_told() {
        let (mut victim, mut other) = (sleeper(), sleeper());
        let (stopped, killed) = (other.id(), victim.id());
        let plan = plan(&[
            format!("kill:{killed}@30ms"),
            format!("stop:{stopped}@10ms+10ms"),
            "run:exit 3@40ms".into(),
            format!("kill:{killed}@10m"),
        ]);
        let (over, marks) = (Stop::default(), plan.marks.clone());
        let work = tokio::spawn(plan.conduct(Instant::now(), Vec::new(), over.clone(), Stop::default()));
        until(|| victim.try_wait().expect("ours").is_some() && marks.begun(3).is_some()).await;
        over.ask();
        let told = work.await.expect("it does not panic");
        let names: Vec<&str> = told.episodes.iter().map(|begun| begun.with.as_str()).collect();
        let (stop, kill) = (format!("stop:{stopped}"), format!("kill:{killed}"));
        assert_eq!(names, [&stop, &format!("end of {stop}"), &kill, "run:exit 3"]);
        let outcomes: Vec<(bool, &str)> =
            told.disturbances.iter().map(|told| (told.done, told.outcome.as_str())).collect();
        assert_eq!(outcomes[0], (true, format!("process {killed} was killed").as_str()));
        assert!(outcomes[1].1.starts_with(&format!("process {stopped} stood still for 0.")), "{outcomes:?}");
        assert_eq!(
            outcomes[2..],
            [(false, "ended with exit status: 3"), (false, "not done: the run had ended before")]
        );
        assert!(told.disturbances[1].ended_s > told.disturbances[1].begun_s);
        assert!(!is_stopped(&other) && marks.begun(4).is_none());
        other.kill().expect("ours");
        other.wait().expect("it ended");
    }

    #[tokio::test]
    async fn what_stands_still_goes_on_when_the_run_is_ended() {
        let mut child = sleeper();
        let plan = plan(&[format!("stop:{}@0s+10m", child.id())]);
        let (over, stop) = (Stop::default(), Stop::default());
        let work = tokio::spawn(plan.conduct(Instant::now(), Vec::new(), over.clone(), stop.clone()));
        until(|| is_stopped(&child)).await;
        stop.ask();
        until(|| !is_stopped(&child)).await;
        over.ask();
        let told = work.await.expect("it does not panic");
        assert!(told.disturbances[0].done && told.disturbances[0].ended_s.is_some());
        // So it does when all is dropped in the middle.
        let plan = self::plan(&[format!("stop:{}@0s+10m", child.id())]);
        let (over, stop) = (Stop::default(), Stop::default());
        let work = tokio::spawn(plan.conduct(Instant::now(), Vec::new(), over, stop));
        until(|| is_stopped(&child)).await;
        work.abort();
        until(|| !is_stopped(&child)).await;
        child.kill().expect("ours");
        child.wait().expect("it ended");
        let gone: Disturb = format!("kill:{}@1s", child.id()).parse().expect("well formed");
        assert!(Plan::new(&[gone]).is_err());
    }
}

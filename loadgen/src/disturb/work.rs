//! What is done to the servers and not yet over, and what is told of it.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures::future::join_all;
use nix::sys::signal::Signal;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};
use trellis_client::Client;

use super::lasting::Lasting;
use super::process::{Process, Who};
use super::{Act, Disturb, Disturbance};
use crate::datanodes::Datanodes;
use crate::datanodes::round::{Reports, Round};
use crate::drive::DRAIN_LIMIT;
use crate::error::{Error, Result};
use crate::pick::Picks;
use crate::stop::Stop;

/// How long to wait for commands once the run is over.
const COMMANDS_END: Duration = Duration::from_secs(2);

/// What a run itself consists of: it is looked at, and changed.
#[derive(Debug)]
pub struct Inside {
    /// What counts.
    pub clients: Vec<Client>,
    /// Where operations go.
    pub picks: Arc<Picks>,
    /// Those that it plays.
    pub datanodes: Option<Arc<Datanodes>>,
}

/// What is under way.
#[derive(Debug)]
pub(super) struct Work {
    started: Instant,
    started_at: SystemTime,
    pub(super) inside: Inside,
    told: Vec<Disturbance>,
    lasting: Vec<(usize, Lasting)>,
    rounds: Vec<(usize, Arc<Round>)>,
    /// Of which it is not known yet what came in their place.
    killed: Vec<(usize, Process, Who)>,
    commands: JoinSet<(usize, std::io::Result<ExitStatus>, Duration)>,
}

impl Work {
    pub(super) fn new(all: &[Disturb], started: Instant, inside: Inside) -> Work {
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
            inside,
            told: all.iter().map(untold).collect(),
            lasting: Vec::new(),
            rounds: Vec::new(),
            killed: Vec::new(),
            commands: JoinSet::new(),
        }
    }

    pub(super) fn begin(&mut self, index: usize, disturb: &Disturb, found: Option<Process>) {
        // Whoever is killed or stopped now may be in the place of one that was killed before.
        self.note_successors();
        let begun = self.started.elapsed();
        let process = |who: &Who| found.map_or_else(|| who.find(), Ok);
        let done = match &disturb.act {
            Act::Kill(who) => process(who).and_then(|process| {
                process.signal(Signal::SIGKILL)?;
                self.killed.push((index, process, who.clone()));
                Ok(format!("process {} was killed", process.pid))
            }),
            Act::Stop(who, _) => process(who).and_then(|process| {
                self.lasting.push((index, Lasting::stop(process)?));
                Ok(format!("process {} stood still", process.pid))
            }),
            Act::Run(command) => self.command(index, command),
            Act::Report => self.report(index, disturb.at),
            Act::Hot(hot, _) => {
                self.lasting.push((index, Lasting::heat(&self.inside.picks, *hot)));
                let (operations, directories) = (hot.operations_percent, hot.directories_percent);
                Ok(format!("{operations} % of the operations went to {directories} % of the directories"))
            }
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

    /// Has all simulated datanodes report.
    fn report(&mut self, index: usize, at: Duration) -> Result<String> {
        let Some(datanodes) = &self.inside.datanodes else {
            return Err(Error::refused("there are no simulated datanodes"));
        };
        let round = datanodes.report_unasked(self.started + at);
        self.rounds.push((index, round.clone()));
        Ok(round.reports().to_string())
    }

    pub(super) fn end_lasting(&mut self, index: usize) {
        let Some(at) = self.lasting.iter().position(|(of, _)| *of == index) else { return };
        drop(self.lasting.swap_remove(at));
        let now = self.started.elapsed().as_secs_f64();
        if let Some(told) = self.told.get_mut(index) {
            told.ended_s = Some(now);
            let length = now - told.begun_s.unwrap_or(now);
            told.outcome = format!("{} for {length:.3} s", told.outcome);
        }
    }

    pub(super) fn end_all_lasting(&mut self) {
        while let Some((index, _)) = self.lasting.last() {
            self.end_lasting(*index);
        }
    }

    /// Notes how commands have ended, and waits a little for those that are just about to.
    pub(super) async fn see_commands_end(&mut self) {
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

    /// Notes what came of full reports, and waits for them as long as for operations, unless somebody ends it.
    pub(super) async fn see_reports_end(&mut self, stop: &Stop) {
        let over = join_all(self.rounds.iter().map(|(_, round)| round.over()));
        tokio::select! {
            _ = timeout(DRAIN_LIMIT, over) => {}
            () = stop.asked() => {}
        }
        for (index, round) in &self.rounds {
            let Some(told) = self.told.get_mut(*index) else { continue };
            let reports = round.reports();
            told.done = reports.is_over() && reports.answered > 0;
            told.ended_s = reports.last_after_s.filter(|_| told.done).map(|last| told.intended_s + last);
            told.outcome = reports.to_string();
        }
    }

    /// What came of the full reports of a disturbance.
    pub(super) fn reports(&self, index: usize) -> Option<Reports> {
        self.rounds.iter().find(|(of, _)| *of == index).map(|(_, round)| round.reports())
    }

    /// What came of all of it.
    pub(super) fn end(mut self) -> Vec<Disturbance> {
        self.note_successors();
        self.told
    }

    /// Notes since when others are in the place of those that were killed.
    fn note_successors(&mut self) {
        let Work { killed, told, started_at, .. } = self;
        killed.retain(|(index, process, who)| {
            let Some(told) = told.get_mut(*index) else { return false };
            let Some((next, since)) = process.successor(who) else { return true };
            let at = since.duration_since(*started_at).map(|at| at.as_secs_f64());
            told.ended_s = at.ok().zip(told.begun_s).map(|(at, begun)| at.max(begun));
            told.outcome = format!("{}; process {} came in its place", told.outcome, next.pid);
            false
        });
    }
}

//! Does what is to be done to the servers, each thing in its time, and tells what came of it.

use std::time::{Duration, Instant};

use tokio::time::sleep_until;
use trellis_client::client::Counts;

use super::process::{Process, Who};
use super::work::{Inside, Work};
use super::{Act, Disturb, Disturbance};
use crate::datanodes::round::Reports;
use crate::episodes::Marks;
use crate::error::Result;
use crate::stop::Stop;
use crate::watch::counts;

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
    /// What lasts for a while ends.
    is_end: bool,
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
    /// What came of full reports that were sent then.
    pub block_reports: Option<Reports>,
}

impl Plan {
    /// Looks whether all processes are there and may be signalled: that should be known before anything is measured.
    pub fn new(all: &[Disturb]) -> Result<Plan> {
        let mut found = Vec::with_capacity(all.len());
        let mut steps = Vec::new();
        for (index, disturb) in all.iter().enumerate() {
            steps.push(Step { at: disturb.at, index, is_end: false });
            if let Some(at) = disturb.ends_at() {
                steps.push(Step { at, index, is_end: true });
            }
            let who = match &disturb.act {
                Act::Kill(who) | Act::Stop(who, _) => who,
                Act::Run(_) | Act::Report | Act::Hot(..) => {
                    found.push(None);
                    continue;
                }
            };
            let process = who.find()?;
            process.signal(None)?;
            found.push(matches!(who, Who::Pid(_)).then_some(process));
        }
        // At one time, what began earlier ends before something begins.
        steps.sort_by_key(|step| (step.at, all.get(step.index).map(|disturb| disturb.at)));
        Ok(Plan { all: all.to_vec(), found, marks: Marks::new(steps.len()), steps })
    }

    /// Does it all, until the run is over or somebody ends it: then what lasts for a while ends at once.
    pub async fn conduct(self, started: Instant, inside: Inside, over: Stop, stop: Stop) -> Conducted {
        let mut work = Work::new(&self.all, started, inside);
        let mut episodes = Vec::with_capacity(self.steps.len());
        for (number, step) in self.steps.iter().enumerate() {
            let Some(disturb) = self.all.get(step.index) else { continue };
            tokio::select! {
                biased;
                () = over.asked() => break,
                () = stop.asked() => break,
                () = sleep_until((started + step.at).into()) => {}
            }
            let (with, at) = (if step.is_end { "end of " } else { "" }, started.elapsed());
            self.marks.begin(number, at);
            let with = format!("{with}{}", disturb.name());
            episodes.push(Begun { with, at, counts: counts(&work.inside.clients), block_reports: None });
            match step.is_end {
                true => work.end_lasting(step.index),
                false => work.begin(step.index, disturb, self.found.get(step.index).copied().flatten()),
            }
        }
        work.end_all_lasting();
        over.asked().await;
        work.see_commands_end().await;
        work.see_reports_end(&stop).await;
        for (begun, step) in episodes.iter_mut().zip(&self.steps) {
            begun.block_reports = work.reports(step.index);
        }
        Conducted { disturbances: work.end(), episodes }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::process::Child;

    use super::*;
    use crate::config::{Config, Pick};
    use crate::mix::Op;
    use crate::pick::Picker;
    use crate::pick::tests::{config, picks};

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

    fn inside(config: &Config) -> Inside {
        Inside { clients: Vec::new(), picks: picks(config, 1600), datanodes: None }
    }

    fn nothing() -> Inside {
        inside(&config("open", Pick::Popular))
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
        let work = tokio::spawn(plan.conduct(Instant::now(), nothing(), over.clone(), Stop::default()));
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
    async fn each_that_was_killed_is_told_with_the_one_that_came_after_it() {
        let dir = std::env::temp_dir().join(format!("trellis-successors-{}", std::process::id()));
        let (mut first, mut second) = (sleeper(), sleeper());
        let write = |child: &Child| std::fs::write(&dir, child.id().to_string()).expect("written");
        write(&first);
        let plan = plan(&[format!("kill:{}@0s", dir.display()), format!("kill:{}@300ms", dir.display())]);
        let (over, marks) = (Stop::default(), plan.marks.clone());
        let work = tokio::spawn(plan.conduct(Instant::now(), nothing(), over.clone(), Stop::default()));
        until(|| first.try_wait().expect("ours").is_some()).await;
        write(&second);
        until(|| marks.begun(1).is_some() && second.try_wait().expect("ours").is_some()).await;
        let mut third = sleeper();
        write(&third);
        over.ask();
        let told = work.await.expect("it does not panic");
        let came = |pid: u32| format!("process {pid} came in its place");
        assert!(told.disturbances[0].outcome.ends_with(&came(second.id())), "{:?}", told.disturbances);
        assert!(told.disturbances[1].outcome.ends_with(&came(third.id())), "{:?}", told.disturbances);
        third.kill().expect("ours");
        third.wait().expect("it ended");
        std::fs::remove_file(&dir).expect("it is there");
    }

    #[tokio::test]
    async fn what_stands_still_goes_on_when_the_run_is_ended() {
        let mut child = sleeper();
        let plan = plan(&[format!("stop:{}@0s+10m", child.id())]);
        let (over, stop) = (Stop::default(), Stop::default());
        let work = tokio::spawn(plan.conduct(Instant::now(), nothing(), over.clone(), stop.clone()));
        until(|| is_stopped(&child)).await;
        stop.ask();
        until(|| !is_stopped(&child)).await;
        over.ask();
        let told = work.await.expect("it does not panic");
        assert!(told.disturbances[0].done && told.disturbances[0].ended_s.is_some());
        // So it does when all is dropped in the middle.
        let plan = self::plan(&[format!("stop:{}@0s+10m", child.id())]);
        let (over, stop) = (Stop::default(), Stop::default());
        let work = tokio::spawn(plan.conduct(Instant::now(), nothing(), over, stop));
        until(|| is_stopped(&child)).await;
        work.abort();
        until(|| !is_stopped(&child)).await;
        child.kill().expect("ours");
        child.wait().expect("it ended");
        let gone: Disturb = format!("kill:{}@1s", child.id()).parse().expect("well formed");
        assert!(Plan::new(&[gone]).is_err());
    }

    #[tokio::test]
    async fn a_hot_phase_ends_with_its_time_and_with_the_run() {
        for (length, is_stopped) in [("20ms", false), ("10m", true)] {
            let disturb: Disturb = format!("hot:100/1@10ms+{length}").parse().expect("well formed");
            let config = Config { disturb: vec![disturb.clone()], ..config("open", Pick::Popular) };
            let inside = inside(&config);
            let mut picker = Picker::new(inside.picks.clone(), 0);
            let mut dirs = || {
                let dir = |path: String| path.rsplit_once('/').map(|(dir, _)| dir.to_owned());
                let opened = (0..200).filter_map(|_| picker.of(Op::Open));
                opened.map(|(task, _)| dir(task.path)).collect::<HashSet<_>>().len()
            };
            assert!(dirs() > 20);
            let (over, stop) = (Stop::default(), Stop::default());
            let plan = Plan::new(&[disturb]).expect("nothing is to be there");
            let marks = plan.marks.clone();
            let work = tokio::spawn(plan.conduct(Instant::now(), inside, over.clone(), stop.clone()));
            if is_stopped {
                until(|| dirs() == 1).await;
                stop.ask();
            } else {
                until(|| marks.begun(1).is_some()).await;
            }
            until(|| dirs() > 20).await;
            over.ask();
            let told = work.await.expect("it does not panic");
            let told = &told.disturbances[0];
            let outcome = "100 % of the operations went to 1 % of the directories for ";
            assert!(
                told.done && told.ended_s > told.begun_s && told.outcome.starts_with(outcome),
                "{told:?}"
            );
        }
    }

    #[tokio::test]
    async fn without_datanodes_nothing_is_reported() {
        let over = Stop::default();
        let plan = plan(&["report@0s".into()]);
        let marks = plan.marks.clone();
        let work = tokio::spawn(plan.conduct(Instant::now(), nothing(), over.clone(), Stop::default()));
        until(|| marks.begun(0).is_some()).await;
        over.ask();
        let told = work.await.expect("it does not panic");
        assert!(!told.disturbances[0].done && told.episodes[0].block_reports.is_none());
    }

    #[test]
    fn what_began_earlier_ends_first() {
        let plan = plan(&["hot:9/1@3s+1s".into(), "hot:9/1@1s+2s".into(), "hot:9/1@4s+0s".into()]);
        let steps: Vec<_> = plan.steps.iter().map(|step| (step.index, step.is_end)).collect();
        assert_eq!(steps, [(1, false), (1, true), (0, false), (0, true), (2, false), (2, true)]);
    }
}

//! What a run is asked to do: embedded whole in its report.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::arrivals::Arrivals;
use crate::build::check_base;
use crate::contents::Asked;
use crate::disturb::{self, Disturb};
use crate::error::{Error, Result};
use crate::mix::{Mix, Op, Workload};

/// No run has more clients: each is a task with memory of its own.
const MAX_CLIENTS: u32 = 100_000;
/// Nor more operations a second in an open loop.
const MAX_RATE: f64 = 10e6;

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// `hdfs://HOST:PORT[,HOST:PORT…]`.
    pub target: String,
    /// Where the namespace lies.
    pub base: String,
    /// What is done.
    pub workload: Workload,
    /// Percent of creates in place of the workload's own; only of a mix.
    pub create_share: Option<f64>,
    /// Clients: each does one operation after another in a closed loop, and has its share of the arrivals in an open one.
    pub clients: u32,
    /// Client ids with a connection to a namenode; clients share them when there are fewer.
    pub connections: u32,
    /// Operations a second, as intended; None: a closed loop.
    pub rate: Option<f64>,
    /// How they follow one another; only with a rate.
    pub arrivals: Option<Arrivals>,
    /// Which files are liked more than others.
    pub popularity: Popularity,
    /// Part of the operations that goes to a part of the directories.
    pub hot: Option<Hot>,
    /// How files are picked.
    pub pick: Pick,
    /// Of all that is drawn.
    pub seed: u64,
    /// How long to run before anything is measured.
    pub warm_up_s: f64,
    /// How long operations begin.
    pub duration_s: f64,
    /// How often each operation of a mix is done alone, before the run, to see what it costs the store.
    pub cost_samples: u32,
    /// `HOST:PORT` of `/metrics` of all namenodes.
    pub metrics: Vec<String>,
    /// Processes whose CPU time is read from /proc, for servers without such metrics.
    pub server_pids: Vec<u32>,
    /// What is done to the servers meanwhile.
    #[serde(default)]
    pub disturb: Vec<Disturb>,
    /// Operations of a disturbed run that take longer are late.
    #[serde(default = "usual_late_after_s")]
    pub late_after_s: f64,
    /// Of a replay, whose workload is `replay`; then what else only a run can have is as if it was not asked for.
    #[serde(default)]
    pub replay: Option<ReplayConfig>,
    /// What files hold, as far as it is to be otherwise than in the namespace; in a report all of it.
    #[serde(default)]
    pub contents: Asked,
}

/// What counts as late when nothing else is said.
fn usual_late_after_s() -> f64 {
    1.0
}

/// What a replay is asked to do, besides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayConfig {
    /// The trace's files, in order.
    pub files: Vec<PathBuf>,
    /// So many times as fast as the trace; None: as fast as possible.
    pub speed: Option<f64>,
    /// Each line by the user that it names, instead of all by one.
    pub as_logged: bool,
    /// So many lines are read at most.
    pub limit: Option<u64>,
    /// What begins so long after the first line.
    pub from_s: f64,
    /// And not later than this.
    pub until_s: Option<f64>,
    /// What an earlier replay left in the base is deleted before.
    pub fresh: bool,
}

impl ReplayConfig {
    /// All of these files, as fast as possible, as one user.
    pub fn new(files: Vec<PathBuf>) -> ReplayConfig {
        ReplayConfig {
            files,
            speed: None,
            as_logged: false,
            limit: None,
            from_s: 0.0,
            until_s: None,
            fresh: false,
        }
    }
}

impl Config {
    /// A closed loop of one client that does this for ten seconds, and nothing else.
    pub fn new(target: impl Into<String>, base: impl Into<String>, workload: Workload) -> Config {
        Config {
            target: target.into(),
            base: base.into(),
            workload,
            create_share: None,
            clients: 1,
            connections: 1,
            rate: None,
            arrivals: None,
            popularity: Popularity::Uniform,
            hot: None,
            pick: Pick::Popular,
            seed: 1,
            warm_up_s: 0.0,
            duration_s: 10.0,
            cost_samples: 0,
            metrics: Vec::new(),
            server_pids: Vec::new(),
            disturb: Vec::new(),
            late_after_s: usual_late_after_s(),
            replay: None,
            contents: Asked::default(),
        }
    }

    /// The same with what is usual wherever nothing was asked for, so that it says all about a run, whatever is usual with
    /// another program. Only what the namespace says about files is still to be filled in.
    pub fn effective(self) -> Config {
        let mix = self.workload.mix(self.create_share).ok();
        let has_costs = !self.metrics.is_empty() && mix.is_some_and(|mix| mix.single().is_none());
        let is_popular = self.pick == Pick::Popular;
        Config {
            create_share: self.create_share.or(self.workload.create_percent()),
            arrivals: self.arrivals.or(self.rate.map(|_| self.workload.usual_arrivals())),
            hot: self.hot.or(self.workload.hot().filter(|_| is_popular)),
            cost_samples: if has_costs { self.cost_samples } else { 0 },
            ..self
        }
    }

    /// The mix, when everything makes sense.
    pub fn check(&self) -> Result<Mix> {
        self.check_common()?;
        let refused = |what: &str| Err(Error::refused(what));
        let times = [self.warm_up_s, self.duration_s];
        if times.iter().any(|time| Duration::try_from_secs_f64(*time).is_err()) || self.duration_s <= 0.0 {
            return refused("--duration must be above zero");
        }
        disturb::check(&self.disturb, Duration::from_secs_f64(self.duration_s))?;
        if Duration::try_from_secs_f64(self.late_after_s).is_err() {
            return refused("--late-after is a length of time");
        }
        match (self.rate, self.arrivals) {
            (None, Some(_)) => return refused("--arrivals needs a --rate"),
            (Some(rate), _) if !(rate > 0.0 && rate <= MAX_RATE) => {
                return Err(Error::refused(format!(
                    "--rate is above 0 and at most {MAX_RATE} operations a second"
                )));
            }
            _ => {}
        }
        let mix = self.workload.mix(self.create_share).map_err(Error::refused)?;
        if self.pick != Pick::Popular && !mix.single().is_some_and(is_done_to_files) {
            return refused("--pick once and all are for workloads of one operation on files that are there");
        }
        let is_hot = self.hot.is_some() || self.disturb.iter().any(|disturb| disturb.hot().is_some());
        if self.pick != Pick::Popular && (self.popularity != Popularity::Uniform || is_hot) {
            return refused(
                "--pick once and all take every file, so --popularity, --hot and --disturb hot:… have no meaning",
            );
        }
        Ok(mix)
    }

    /// What runs and replays share.
    pub(crate) fn check_common(&self) -> Result<()> {
        check_base(&self.base)?;
        if !(1..=MAX_CLIENTS).contains(&self.clients) || !(1..=self.clients).contains(&self.connections) {
            return Err(Error::refused(format!(
                "--clients is from 1 to {MAX_CLIENTS}, --connections from 1 to as many as clients"
            )));
        }
        if let Some(twice) =
            self.metrics.iter().enumerate().find(|(at, name)| self.metrics[..*at].contains(name))
        {
            return Err(Error::refused(format!("--metrics names {} twice: it would count twice", twice.1)));
        }
        if !self.metrics.is_empty() && !self.server_pids.is_empty() {
            return Err(Error::refused("give --metrics, or --server-pid for servers without them, not both"));
        }
        Ok(())
    }
}

fn is_done_to_files(op: Op) -> bool {
    !matches!(op, Op::Create | Op::Mkdir)
}

/// How files are picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    /// By popularity.
    Popular,
    /// Every file once; the run ends when there are no more.
    Once,
    /// Every file once by each client, under the name that it had at first. The run ends when there are no more.
    All,
}

impl FromStr for Pick {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "popular" => Ok(Pick::Popular),
            "once" => Ok(Pick::Once),
            "all" => Ok(Pick::All),
            _ => Err("there are popular, once, all"),
        }
    }
}

/// How much files are liked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Popularity {
    /// All the same.
    Uniform,
    /// The n-th in proportion to n to the power of minus this. Which is the n-th has nothing to do with where it lies.
    Zipf(f64),
    /// The same of the n-th youngest. The higher a file's number, the younger it is, so that the young lie together.
    Age(f64),
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Popularity::Uniform => f.write_str("uniform"),
            Popularity::Zipf(s) => write!(f, "zipf:{s}"),
            Popularity::Age(s) => write!(f, "age:{s}"),
        }
    }
}

impl FromStr for Popularity {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, exponent): (fn(f64) -> Popularity, _) = match text.split_once(':') {
            None if text == "uniform" => return Ok(Popularity::Uniform),
            Some(("zipf", s)) => (Popularity::Zipf, s),
            Some(("age", s)) => (Popularity::Age, s),
            _ => return Err("say uniform, zipf:S or age:S, such as zipf:0.9"),
        };
        let exponent = exponent.parse().ok().filter(|s| (0.0..=10.0).contains(s));
        exponent.map(kind).ok_or("the exponent is a number from 0 to 10")
    }
}

/// So many percent of the operations go to so many percent of the directories.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hot {
    /// Of the operations.
    pub operations_percent: f64,
    /// Of the directories; at least one.
    pub directories_percent: f64,
}

impl FromStr for Hot {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "say OPERATIONS/DIRECTORIES in percent, such as 80/20";
        let (operations, directories) = text.split_once('/').ok_or(FORM)?;
        let percent =
            |text: &str| text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent)).ok_or(FORM);
        Ok(Hot { operations_percent: percent(operations)?, directories_percent: percent(directories)? })
    }
}

impl fmt::Display for Hot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.operations_percent, self.directories_percent)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contents::Blocks;

    /// One that makes sense.
    pub fn config() -> Config {
        Config {
            target: "hdfs://h:1".into(),
            base: "/load".into(),
            workload: "spotify".parse().expect("one"),
            create_share: Some(5.0),
            clients: 4,
            connections: 2,
            rate: Some(10.5),
            arrivals: Some(Arrivals::Pareto),
            popularity: Popularity::Zipf(0.9),
            hot: Some(Hot { operations_percent: 80.0, directories_percent: 20.0 }),
            pick: Pick::Popular,
            seed: u64::MAX,
            warm_up_s: 0.0,
            duration_s: 1.0,
            cost_samples: 3,
            metrics: vec!["h:2".into()],
            server_pids: Vec::new(),
            disturb: vec!["stop:4711@500ms+2s".parse().expect("well formed")],
            late_after_s: 0.5,
            replay: None,
            contents: Asked { blocks: Some(Blocks::Simulated), ..Asked::default() },
        }
    }

    #[test]
    fn it_comes_back_from_a_report() {
        let text = serde_json::to_string(&config()).expect("JSON");
        assert_eq!(serde_json::from_str::<Config>(&text).expect("ours"), config());
    }

    #[test]
    fn what_is_usual_is_filled_in() {
        let plain = |workload: &str| {
            let config = Config::new("hdfs://h:1", "/load", workload.parse().expect("one"));
            Config { rate: Some(5.0), cost_samples: 7, metrics: vec!["h:2".into()], ..config }
        };
        let eighty = Some(Hot { operations_percent: 80.0, directories_percent: 20.0 });
        for (workload, creates, arrivals, hot, cost_samples) in [
            ("spotify", Some(2.7), Arrivals::Poisson, None, 7),
            ("lambda", Some(1.09), Arrivals::Pareto, None, 7),
            // Its shares add up to 99.98 %.
            ("pangu", Some(958.0 / 99.98), Arrivals::Poisson, eighty, 7),
            ("open", None, Arrivals::Poisson, None, 0),
        ] {
            let full = plain(workload).effective();
            let same = full.create_share.zip(creates).map(|(one, other)| (one - other).abs() < 1e-8);
            assert!(same.unwrap_or(full.create_share == creates), "{workload}: {full:?}");
            assert_eq!((full.arrivals, full.hot, full.cost_samples), (Some(arrivals), hot, cost_samples));
            // It is the same run.
            let shares = |config: &Config| config.check().expect("sound").shares().to_vec();
            for (one, other) in shares(&full).iter().zip(shares(&plain(workload))) {
                assert!(one.0 == other.0 && (one.1 - other.1).abs() < 1e-9, "{workload}");
            }
            assert_eq!(full.clone().effective(), full);
        }
        // What was asked for stays, also when it makes no sense.
        assert_eq!(config().effective(), config());
        let closed = Config { rate: None, ..config() };
        assert!(closed.clone().effective() == closed && closed.check().is_err());
        assert_eq!(Config { rate: None, arrivals: None, ..config() }.effective().arrivals, None);
        assert_eq!(Config { metrics: Vec::new(), ..config() }.effective().cost_samples, 0);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(config().check().is_ok());
        let wrong: &[fn(&mut Config)] = &[
            |c| c.duration_s = 0.0,
            |c| c.duration_s = f64::NAN,
            |c| c.warm_up_s = -1.0,
            |c| c.clients = 0,
            |c| c.connections = 5,
            |c| c.rate = Some(0.0),
            |c| c.rate = None,
            |c| c.server_pids = vec![1],
            |c| c.metrics = vec!["h:2".into(), "h:2".into()],
            |c| c.duration_s = 0.5,
            |c| c.late_after_s = -1.0,
            |c| c.pick = Pick::Once,
            |c| c.base = "/".into(),
            |c| c.create_share = Some(100.0),
        ];
        for (index, change) in wrong.iter().enumerate() {
            let mut config = config();
            change(&mut config);
            assert!(config.check().is_err(), "{index}");
        }
    }

    #[test]
    fn what_takes_every_file_has_no_hot_phase() {
        let hot = |workload: &str, pick| Config {
            pick,
            disturb: vec!["hot:80/20@1s+1s".parse().expect("well formed")],
            ..Config::new("hdfs://h:1", "/load", workload.parse().expect("one"))
        };
        assert!(hot("open", Pick::Popular).check().is_ok());
        for pick in [Pick::Once, Pick::All] {
            let error = hot("open", pick).check().expect_err("refused").to_string();
            assert!(error.contains("--disturb hot:… have no meaning"), "{error}");
        }
    }

    #[test]
    fn dials_are_read() {
        assert_eq!("zipf:1.1".parse(), Ok(Popularity::Zipf(1.1)));
        assert_eq!("80/0.5".parse(), Ok(Hot { operations_percent: 80.0, directories_percent: 0.5 }));
        let all = [Popularity::Uniform, Popularity::Zipf(0.9), Popularity::Age(2.0)];
        assert!(all.iter().all(|one| one.to_string().parse() == Ok(*one)));
        let wrong = ["", "zipf", "zipf:-1", "zipf:x", "age", "age:11", "youth:1"];
        assert!(wrong.iter().all(|text| text.parse::<Popularity>().is_err()));
        assert!(["80", "80/", "101/20", "80/-1"].iter().all(|text| text.parse::<Hot>().is_err()));
    }
}

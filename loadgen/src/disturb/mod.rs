//! What is done to the servers while they are measured: killed, stopped for a while, whatever a command does; or told by
//! all datanodes at once what those hold, or asked for little else than a few directories.
//!
//! - [`process`]: a process that is signalled, named by its pid or by a file that holds it
//! - [`lasting`]: what lasts for a while
//! - [`work`]: what is under way
//! - [`conduct`]: does it all in time, and tells what came of it

pub mod conduct;
mod lasting;
pub mod process;
pub mod work;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::process::Who;
use crate::config::Hot;
use crate::contents::Blocks;
use crate::error::{Error, Result};

/// So many things can be done in one run.
const MAX_DISTURBANCES: usize = 100;
const FORM: &str = "say kill:WHO@WHEN, stop:WHO@WHEN+HOW_LONG, run:COMMAND@WHEN, report@WHEN or \
                    hot:OPS/DIRS@WHEN+HOW_LONG, as in stop:4711@5s+2s or hot:80/20@5s+2s; WHO is a pid or a file that \
                    holds it";
/// The one thing that is done to nobody in particular.
const REPORT: &str = "report";

/// Something that is to be done to the servers: `kill:WHO@WHEN`, `stop:WHO@WHEN+HOW_LONG`, `run:COMMAND@WHEN`,
/// `report@WHEN`, `hot:OPS/DIRS@WHEN+HOW_LONG`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Disturb {
    /// As it was written.
    text: String,
    /// When, since the start of the measured time.
    pub at: Duration,
    /// What.
    pub act: Act,
}

/// What is done.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// SIGKILL.
    Kill(Who),
    /// SIGSTOP, and SIGCONT so much later.
    Stop(Who, Duration),
    /// A command of `sh`.
    Run(String),
    /// All simulated datanodes report in full.
    Report,
    /// Operations go to few directories, for so long.
    Hot(Hot, Duration),
}

impl Disturb {
    /// Without the times: what an episode begins with.
    pub fn name(&self) -> &str {
        self.text.rsplit_once('@').map_or(&self.text, |(name, _)| name)
    }

    /// What lasts for a while does so until then.
    fn ends_at(&self) -> Option<Duration> {
        match self.act {
            Act::Stop(_, length) | Act::Hot(_, length) => Some(self.at.saturating_add(length)),
            Act::Kill(_) | Act::Run(_) | Act::Report => None,
        }
    }

    /// Where operations go in a hot phase.
    pub fn hot(&self) -> Option<Hot> {
        match self.act {
            Act::Hot(hot, _) => Some(hot),
            _ => None,
        }
    }
}

impl FromStr for Disturb {
    type Err = String;

    fn from_str(text: &str) -> Result<Disturb, String> {
        let wrong = |why: &str| format!("{text}: {why}; {FORM}");
        // A command may have the same signs in it.
        let (act, when) = text.rsplit_once('@').ok_or_else(|| wrong("it does not say when"))?;
        let (kind, what) = match act {
            REPORT => (REPORT, REPORT),
            _ => act.split_once(':').ok_or_else(|| wrong("it does not say what"))?,
        };
        let (at, how_long) = match when.split_once('+') {
            Some((at, how_long)) => (at, Some(how_long)),
            None => (when, None),
        };
        let time = |time: &str| humantime::parse_duration(time).map_err(|error| wrong(&error.to_string()));
        if what.trim().is_empty() {
            return Err(wrong("nothing stands before the @"));
        }
        let who = || what.parse().map_err(|why: String| wrong(&why));
        let act = match (kind, how_long) {
            ("kill", None) => Act::Kill(who()?),
            ("stop", Some(how_long)) => Act::Stop(who()?, time(how_long)?),
            ("run", None) => Act::Run(what.to_owned()),
            (REPORT, None) if act == REPORT => Act::Report,
            ("hot", Some(how_long)) => Act::Hot(what.parse().map_err(wrong)?, time(how_long)?),
            ("stop" | "hot", None) => return Err(wrong("it does not say for how long")),
            ("kill" | "run", Some(_)) => return Err(wrong("only what is stopped goes on later")),
            (REPORT, Some(_)) => return Err(wrong("reports are sent at once, and not for a time")),
            (REPORT, None) => return Err(wrong("all datanodes report, so that nobody is named")),
            _ => return Err(wrong("there is no such thing")),
        };
        Ok(Disturb { text: text.to_owned(), at: time(at)?, act })
    }
}

impl TryFrom<String> for Disturb {
    type Error = String;

    fn try_from(text: String) -> Result<Disturb, String> {
        text.parse()
    }
}

impl From<Disturb> for String {
    fn from(disturb: Disturb) -> String {
        disturb.text
    }
}

impl fmt::Display for Disturb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether all of it can come about in a run of this length.
pub fn check(all: &[Disturb], duration: Duration) -> Result<()> {
    if all.len() > MAX_DISTURBANCES {
        return Err(Error::refused(format!("--disturb may be given {MAX_DISTURBANCES} times")));
    }
    if let Some(late) = all.iter().find(|disturb| disturb.at >= duration) {
        return Err(Error::refused(format!(
            "--disturb {late}: by then the run is over; its --duration is {duration:?}"
        )));
    }
    let mut hot: Vec<_> = all.iter().filter(|disturb| disturb.hot().is_some()).collect();
    hot.sort_by_key(|disturb| disturb.at);
    match hot.windows(2).find(|pair| pair[0].ends_at() > Some(pair[1].at)) {
        Some(pair) => Err(Error::refused(format!(
            "--disturb {}: by then {} is not over; one phase can be hot at a time",
            pair[1], pair[0]
        ))),
        None => Ok(()),
    }
}

/// Whether it can come about where files have such blocks.
pub fn check_blocks(all: &[Disturb], blocks: Blocks) -> Result<()> {
    match all.iter().find(|disturb| disturb.act == Act::Report) {
        Some(report) if blocks != Blocks::Simulated => Err(Error::refused(format!(
            "--disturb {report}: datanodes report that the load generator plays itself, and this run has --blocks {blocks}. \
             Build a namespace with --blocks simulated; real datanodes report by --disturb 'run:hdfs dfsadmin \
             -triggerBlockReport HOST:IPC_PORT@WHEN', one for each"
        ))),
        _ => Ok(()),
    }
}

/// Something that was done to the servers. Times are in seconds since the start of the measured time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// As it was asked for.
    pub what: String,
    /// When it was to happen.
    pub intended_s: f64,
    /// When it was done or tried; None: the run had ended before.
    pub begun_s: Option<f64>,
    /// When it was over: a stopped process went on, a command ended, a killed process had another in its place, the last
    /// report was answered, operations went where they go usually. None: not during the run, or nobody knows.
    pub ended_s: Option<f64>,
    /// Whether it came about.
    pub done: bool,
    /// What came of it, for people.
    pub outcome: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_done_is_read() {
        let stop: Disturb = "stop:4711@5s+2500ms".parse().expect("well formed");
        assert_eq!(stop.at, Duration::from_secs(5));
        assert!(matches!(&stop.act, Act::Stop(Who::Pid(4711), length) if length.as_millis() == 2500));
        assert_eq!(stop.name(), "stop:4711");
        let kill: Disturb = "kill:data/run/namenode-1.pid@1m".parse().expect("well formed");
        assert!(matches!(&kill.act, Act::Kill(Who::File(path)) if path.ends_with("namenode-1.pid")));
        let run: Disturb = "run:ssh a@b 'date +%s'@3s".parse().expect("well formed");
        assert_eq!(run.act, Act::Run("ssh a@b 'date +%s'".into()));
        let report: Disturb = "report@3s".parse().expect("well formed");
        assert_eq!((&report.act, report.name()), (&Act::Report, "report"));
        let hot: Disturb = "hot:80/0.5@3s+1s".parse().expect("well formed");
        let percents = Hot { operations_percent: 80.0, directories_percent: 0.5 };
        assert_eq!((&hot.act, hot.name()), (&Act::Hot(percents, Duration::from_secs(1)), "hot:80/0.5"));
        let json = serde_json::to_string(&run).expect("JSON");
        assert_eq!(serde_json::from_str::<Disturb>(&json).expect("ours"), run);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "when"),
            ("kill:5", "when"),
            ("kill@5s", "what"),
            ("kill:@5s", "nothing stands before"),
            ("kill:5@5", "time unit needed"),
            ("kill:5@5s+1s", "only what is stopped"),
            ("stop:5@5s", "how long"),
            ("stop:5@5s+", "value was empty"),
            ("report", "when"),
            ("report@5s+1s", "at once"),
            ("report:5@5s", "nobody is named"),
            ("hot@5s+1s", "what"),
            ("hot:80/20@5s", "how long"),
            ("hot:80@5s+1s", "OPERATIONS/DIRECTORIES"),
            ("hot:101/20@5s+1s", "OPERATIONS/DIRECTORIES"),
            ("freeze:5@5s", "no such thing"),
            ("kill:0@5s", "no process of a server"),
            ("kill:1@5s", "no process of a server"),
            ("kill:99999999999@5s", "no pid"),
        ] {
            let error = text.parse::<Disturb>().expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        let late = ["run:true@5s".parse().expect("well formed")];
        assert!(check(&late, Duration::from_secs(6)).is_ok());
        let error = check(&late, Duration::from_secs(5)).expect_err("too late").to_string();
        assert!(error.contains("by then the run is over"), "{error}");
        let many = vec![late[0].clone(); MAX_DISTURBANCES + 1];
        assert!(check(&many, Duration::from_secs(60)).is_err());
    }

    #[test]
    fn one_phase_is_hot_at_a_time() {
        let all = |texts: [&str; 2]| texts.map(|text| text.parse().expect("well formed"));
        let check = |texts| check(&all(texts), Duration::from_secs(60));
        assert!(check(["hot:80/20@3s+1s", "hot:90/1@1s+2s"]).is_ok());
        let error = check(["hot:80/20@3s+1s", "hot:90/1@1s+2001ms"]).expect_err("both").to_string();
        assert!(error.contains("hot:80/20@3s+1s: by then hot:90/1@1s+2001ms is not over"), "{error}");
        assert!(check(["stop:5@1s+9s", "hot:80/20@3s+1s"]).is_ok());
    }

    #[test]
    fn only_simulated_datanodes_report() {
        let all = ["report@1s".parse().expect("well formed")];
        assert!(check_blocks(&all, Blocks::Simulated).is_ok());
        for blocks in [Blocks::None, Blocks::Real] {
            let error = check_blocks(&all, blocks).expect_err("refused").to_string();
            assert!(error.contains("run:hdfs dfsadmin -triggerBlockReport"), "{error}");
            assert!(check_blocks(&["run:true@1s".parse().expect("well formed")], blocks).is_ok());
        }
    }
}

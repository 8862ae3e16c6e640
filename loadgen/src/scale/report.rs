//! `scale.json`: THE schema, described in docs/LOAD.md. Fields are added, never changed; then [`SCHEMA`] stays.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Config;
use super::level::Level;
use crate::error::Result;
use crate::report::Report;
use crate::saved;
use crate::servers::machine;
use crate::summary::build_id;

/// The schema that this program writes and reads.
pub const SCHEMA: u32 = 1;
/// A namenode's own work goes on while counters are read: so much of the round trips may still wait, or have waited before.
const UNDER_WAY: f64 = 0.001;

/// What was asked for and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program that made it, which is also what was measured: its version and a checksum of its file.
    pub build: String,
    /// Cores of the machine, which namenodes and load generator share.
    pub machine_cores: u32,
    /// The whole configuration, with what is usual where nothing was asked for.
    pub config: Config,
    /// Each number of namenodes, ascending: all its runs together.
    pub levels: Vec<Level>,
    /// All runs in their order, each with its report.
    pub points: Vec<Point>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Of which round, from 0.
    pub round: u32,
    /// On so many namenodes.
    pub namenodes: u32,
    /// Its report.
    pub report: Report,
}

impl Scale {
    /// Of these runs.
    pub fn of(mut config: Config, points: Vec<Point>) -> Scale {
        config.create_share = config.create_share.or(config.workload.create_percent());
        Scale {
            schema: SCHEMA,
            build: build_id(),
            machine_cores: machine::cores(),
            levels: Level::all(&points),
            notes: notes(&config, &points),
            config,
            points,
        }
    }

    /// Writes it whole, or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        saved::write(path, self)
    }

    /// Reads one.
    pub fn read(path: &Path) -> Result<Scale> {
        saved::read(path, "report of a scale run", SCHEMA)
    }
}

fn notes(config: &Config, points: &[Point]) -> Vec<String> {
    let mut notes = vec![
        "metadata only: files are made without blocks (create and complete)".to_owned(),
        "namenodes and load generator share this machine; one lmdb: store in its plain form throughout"
            .to_owned(),
    ];
    if config.store_delay_us > 0 {
        notes.push(format!(
            "every round trip to the store waits {} µs on purpose, before it holds anything (store_delay); timers wake up to \
             a millisecond late, and what was really waited is shown",
            config.store_delay_us
        ));
    }
    for point in points {
        let counted = |name: &str| point.report.store.get(name).copied().unwrap_or_default();
        let (trips, delays) = (counted("round_trips"), counted("delays"));
        let expected = if config.store_delay_us > 0 { trips } else { 0.0 };
        let mut told = |what: &str| {
            notes.push(format!("round {}, {} namenodes: {what}", point.round + 1, point.namenodes));
        };
        if (delays - expected).abs() > trips * UNDER_WAY + 1.0 {
            told(&format!("{delays} of {trips} round trips waited, not {expected}"));
        }
        if let Some(warning) = point.report.counted().warning() {
            told(&warning);
        }
        if point.report.total.errors > 0 {
            told(&format!("{} errors", point.report.total.errors));
        }
    }
    notes
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::demands::Demands;
    use crate::report;
    use crate::scale::tests::config;

    /// A run with this rate.
    pub fn point(round: u32, namenodes: u32, ops_per_s: f64) -> Point {
        let mut report = report::tests::sample();
        report.total.ops_per_s = ops_per_s;
        report.total.errors = 0;
        report.config = config().run("hdfs://h:1", vec!["h:2".into()], namenodes, round);
        report.store = [("round_trips", 1000.0), ("delays", 1000.0), ("delay_us", 2.5e6), ("commits", 30.0)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        Point { round, namenodes, report }
    }

    #[test]
    fn it_comes_back_as_it_was() {
        let scale = Scale::of(config(), vec![point(0, 1, 100.0), point(0, 2, 190.0)]);
        let path = std::env::temp_dir().join(format!("trellis-scale-{}.json", std::process::id()));
        scale.write(&path).expect("written");
        let back = Scale::read(&path);
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(back.expect("ours"), scale);
    }

    #[test]
    fn round_trips_that_did_not_wait_are_told() {
        let quiet = Scale::of(config(), vec![point(0, 1, 1.0)]).notes.len();
        let mut point = point(1, 2, 1.0);
        point.report.store.insert("delays".into(), 990.0);
        point.report.total.errors = 3;
        let notes = Scale::of(config(), vec![point]).notes;
        assert_eq!(notes.len(), quiet + 2, "{notes:?}");
        assert_eq!(notes[quiet], "round 2, 2 namenodes: 990 of 1000 round trips waited, not 1000");
    }

    /// Case G1.
    #[test]
    fn g1_runs_that_servers_did_not_see_are_told_and_no_model_rests_on_them() {
        let mut point = point(1, 2, 1.0);
        let quiet = Scale::of(config(), vec![point.clone()]).notes.len();
        point.report.calls.values_mut().for_each(|calls| calls.servers_ok = Some(1));
        let notes = Scale::of(config(), vec![point.clone()]).notes;
        assert_eq!(notes.len(), quiet + 1, "{notes:?}");
        assert!(notes[quiet].starts_with("round 2, 2 namenodes: cached: clients saw 11 calls"), "{notes:?}");
        let refused = Demands::of(&point.report).expect_err("not the servers' operations");
        assert!(refused.to_string().contains("cached: clients saw 11 calls"), "{refused}");
    }
}

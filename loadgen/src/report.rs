//! `report.json`: THE schema, described in docs/LOAD.md. Fields are added, never changed; then [`SCHEMA`] stays.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::contents::{Asked, Contents};
use crate::datanodes::Work;
use crate::disturb::Disturbance;
use crate::episodes::Episode;
use crate::error::Result;
use crate::namespace::Spec;
use crate::saved;

/// The schema that this program writes and reads.
pub const SCHEMA: u32 = 1;

/// What a run was and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program that made it: its version and a checksum of its file.
    pub build: String,
    /// When it began, ms since 1970.
    pub begun_at_ms: u64,
    /// Of the run, in the names of what it made.
    pub run: u32,
    /// The whole configuration, seed included, with what is usual where nothing was asked for.
    pub config: Config,
    /// The namespace that it ran on; a replay makes its own.
    pub namespace: Option<Namespace>,
    /// No real datanode was asked: files have no blocks, or simulated ones.
    pub metadata_only: bool,
    /// What files held that the run made; None in reports from before there were blocks: nothing.
    #[serde(default)]
    pub contents: Option<Contents>,
    /// What simulated datanodes did, from the start of the command to the end of the run.
    #[serde(default)]
    pub simulated_datanodes: Option<Work>,
    /// All operations together.
    pub total: Total,
    /// How the arrivals of an open loop were kept.
    pub open_loop: Option<OpenLoop>,
    /// What became of a trace's lines.
    #[serde(default)]
    pub replay: Option<Replay>,
    /// Operations by name.
    pub operations: BTreeMap<String, Operation>,
    /// Calls by method, as issued and as the servers counted them.
    pub calls: BTreeMap<String, Calls>,
    /// The sums of both differ by more than 1 %: something else answered in the servers' place, or asked them as well, and no
    /// rate here is theirs. A note says by how much. Only when the servers' are known.
    #[serde(default)]
    pub cached: bool,
    /// What the store counted, `trellis_store_NAME_total` by NAME; empty without `--metrics`.
    pub store: BTreeMap<String, f64>,
    /// Errors by kind.
    pub errors: Vec<ErrorKind>,
    /// It ended before its time: somebody ended it, or there was nothing left to work on. A note says which.
    #[serde(default)]
    pub ended_early: bool,
    /// What was done to the servers meanwhile, as `config.disturb` asks.
    #[serde(default)]
    pub disturbances: Vec<Disturbance>,
    /// The run in parts, from one disturbance to the next; empty without any.
    #[serde(default)]
    pub episodes: Vec<Episode>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// The namespace of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Namespace {
    /// What it is.
    pub spec: Spec,
    /// Files of the spec that were there when the run began.
    pub files_present: u32,
}

/// All operations together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// Successes.
    pub count: u64,
    /// Successes a second.
    pub ops_per_s: f64,
    /// Refused.
    pub refused: u64,
    /// Errors.
    pub errors: u64,
    /// From the start to the end of the last operation.
    pub elapsed_s: f64,
    /// So many of all operations are quicker: 50 %.
    #[serde(default)]
    pub p50_us: f64,
    /// 90 %.
    #[serde(default)]
    pub p90_us: f64,
    /// 99 %.
    #[serde(default)]
    pub p99_us: f64,
    /// 99.9 %.
    #[serde(default)]
    pub p999_us: f64,
    /// The slowest of all.
    #[serde(default)]
    pub max_us: f64,
    /// CPU time of all servers for each operation that was answered (successes and refusals).
    pub server_cpu_us_per_op: Option<f64>,
    /// The same of the load generator.
    pub client_cpu_us_per_op: f64,
    /// How busy the load generator's machine was meanwhile, for whatever process.
    #[serde(default)]
    pub machine_busy_percent: Option<f64>,
    /// Cores of that machine.
    #[serde(default)]
    pub machine_cores: Option<u32>,
    /// Exchanges with the store for each operation that was answered.
    pub store_round_trips_per_op: Option<f64>,
    /// Rows read and written for each operation that was answered.
    pub rows_per_op: Option<f64>,
    /// Operations in a group that commits.
    pub operations_per_group: Option<f64>,
    /// Commits refused because a row had changed.
    pub conflicts: Option<u64>,
    /// Operations run again.
    pub retries: Option<u64>,
    /// Clients went over to another namenode.
    pub failovers: u64,
    /// Calls were sent once more.
    pub resends: u64,
}

impl Total {
    /// So many whole seconds it took. One that lacks a few hundredths is whole: the last operation ends before the time does.
    pub fn whole_seconds(&self) -> usize {
        (self.elapsed_s + 0.05) as usize
    }
}

/// An open loop: what was offered, and how exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Operations that were to begin.
    pub offered: u64,
    /// A second of the duration.
    pub offered_per_s: f64,
    /// Operations that ended, whatever came of them, a second of the elapsed time.
    pub achieved_per_s: f64,
    /// Operations that never began: waiting for the others took too long, or there was nothing left to work on.
    pub never_begun: u64,
    /// How late operations began.
    pub late_p50_us: f64,
    /// How late operations began.
    pub late_p99_us: f64,
    /// How late operations began.
    pub late_max_us: f64,
}

/// What became of a trace's lines: `lines` are `replayed`, and those in `skipped`, and those in `broken`. Of those that
/// were replayed the report's total tells the successes, the refused ones (as the trace says) and the errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Lines that were read.
    pub lines: u64,
    /// Lines that were replayed, whatever came of them.
    pub replayed: u64,
    /// Lines that were not, by why.
    pub skipped: BTreeMap<String, u64>,
    /// Lines that cannot be read, by why.
    pub broken: Vec<ErrorKind>,
    /// From the first line that was replayed to the last, in the trace.
    pub trace_s: f64,
    /// Directories that were made before.
    pub prepared_dirs: u64,
    /// Files that were made before.
    pub prepared_files: u64,
    /// How long that took.
    pub prepared_s: f64,
    /// Lines that name what the trace itself had moved or removed, or never made.
    pub unexplained: u64,
    /// Lines that waited for an earlier one to end, since the order mattered.
    pub waited: u64,
    /// By how much the rate at which lines began differs from that at which they were to, percent of it; None: as fast as
    /// possible.
    pub rate_error_percent: Option<f64>,
    /// Lines that began in another second than they were to.
    pub in_another_second: u64,
}

impl Replay {
    /// Lines that were skipped.
    pub fn skipped_lines(&self) -> u64 {
        self.skipped.values().sum()
    }

    /// Lines that cannot be read.
    pub fn broken_lines(&self) -> u64 {
        self.broken.iter().map(|kind| kind.count).sum()
    }
}

/// One operation. Latencies are of all that ended, from the intended start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its share of the mix, as asked for.
    pub share: f64,
    /// Successes.
    pub count: u64,
    /// Successes a second.
    pub ops_per_s: f64,
    /// Refused as can be expected: another client was quicker.
    pub refused: u64,
    /// Errors.
    pub errors: u64,
    /// On average.
    pub mean_us: f64,
    /// So many are quicker: 50 %.
    pub p50_us: f64,
    /// 90 %.
    pub p90_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// 99.9 %.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
    /// Exchanges with the store; in a mix: of the operation alone, before the run.
    pub store_round_trips_per_op: Option<f64>,
    /// Rows read and written; in a mix: of the operation alone, before the run.
    pub rows_per_op: Option<f64>,
    /// By the second of the end, from the start.
    pub seconds: Vec<Second>,
}

/// One second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Successes.
    pub count: u64,
    /// Of all that ended.
    pub ended: u64,
    /// Their latency on average.
    pub mean_us: f64,
    /// Of them, refused.
    #[serde(default)]
    pub refused: u64,
    /// Of them, errors.
    #[serde(default)]
    pub errors: u64,
    /// The longest latency among them.
    #[serde(default)]
    pub max_us: f64,
    /// Were to begin in this second.
    #[serde(default)]
    pub begun: u64,
}

impl Second {
    /// Takes in the same second of another operation.
    pub fn merge(&mut self, other: &Second) {
        let time = self.mean_us * self.ended as f64 + other.mean_us * other.ended as f64;
        self.count += other.count;
        self.ended += other.ended;
        self.mean_us = time / self.ended.max(1) as f64;
        self.refused += other.refused;
        self.errors += other.errors;
        self.max_us = self.max_us.max(other.max_us);
        self.begun += other.begun;
    }
}

/// Calls of a method. With an answer each; `None` where the servers do not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Answered without an exception, as the clients saw it.
    pub ok: u64,
    /// Answered with one.
    pub exceptions: u64,
    /// Answered without an exception, as the servers counted it.
    pub servers_ok: Option<u64>,
    /// Answered with one.
    pub servers_exceptions: Option<u64>,
}

/// Errors of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorKind {
    /// An exception's class, or what happened otherwise.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// The first of a client.
    pub example: String,
}

impl Report {
    /// Writes it whole, or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        saved::write(path, self)
    }

    /// The seconds of all operations together.
    pub fn seconds(&self) -> Vec<Second> {
        let mut sums: Vec<Second> = Vec::new();
        for operation in self.operations.values() {
            sums.resize(sums.len().max(operation.seconds.len()), Second::default());
            sums.iter_mut().zip(&operation.seconds).for_each(|(sum, second)| sum.merge(second));
        }
        sums
    }

    /// Reads one. Those of older programs do not say what was usual, which has been the same since.
    pub fn read(path: &Path) -> Result<Report> {
        let report: Report = saved::read(path, "report", SCHEMA)?;
        let mut config = report.config.effective();
        if let Some(contents) = &report.contents {
            config.contents = Asked::from(contents);
        }
        Ok(Report { config, ..report })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;
    use crate::arrivals::Arrivals;
    use crate::contents::Blocks;

    /// A report with something in every field.
    pub fn sample() -> Report {
        let second =
            Second { count: 10, ended: 12, mean_us: 55.5, refused: 1, errors: 1, max_us: 90.1, begun: 13 };
        let operation = Operation {
            share: 1.0,
            count: 10,
            ops_per_s: 10.0,
            refused: 1,
            errors: 1,
            mean_us: 55.5,
            p50_us: 50.0,
            p90_us: 60.0,
            p99_us: 70.0,
            p999_us: 80.0,
            max_us: 90.1,
            store_round_trips_per_op: Some(1.0),
            rows_per_op: Some(8.25),
            seconds: vec![second; 3],
        };
        let total = Total {
            count: 10,
            ops_per_s: 10.0,
            refused: 1,
            errors: 1,
            elapsed_s: 3.5,
            p50_us: 1.5,
            p90_us: 2.5,
            p99_us: 3.5,
            p999_us: 4.5,
            max_us: 5.5,
            server_cpu_us_per_op: Some(12.5),
            client_cpu_us_per_op: 10.0,
            machine_busy_percent: Some(40.0),
            machine_cores: Some(2),
            store_round_trips_per_op: Some(1.0),
            rows_per_op: None,
            operations_per_group: None,
            conflicts: Some(0),
            retries: Some(0),
            failovers: 0,
            resends: 2,
        };
        let disturbance = Disturbance {
            what: "stop:4711@1s+1s".into(),
            intended_s: 1.0,
            begun_s: Some(1.001),
            ended_s: Some(2.002),
            done: true,
            outcome: "pid 4711 stood still".into(),
        };
        let episode =
            |name: &str| Episode { begins_with: name.into(), count: 5, late: 2, ..Episode::default() };
        let open_loop = OpenLoop {
            offered: 13,
            offered_per_s: 4.0,
            achieved_per_s: 3.5,
            never_begun: 1,
            late_p50_us: 5.0,
            late_p99_us: 9.0,
            late_max_us: 100.0,
        };
        let calls = Calls { ok: 10, exceptions: 1, servers_ok: Some(10), servers_exceptions: Some(1) };
        let contents = Contents {
            blocks: Blocks::Simulated,
            sizes: "64k".parse().expect("a size"),
            block_size: Some(1 << 20),
            replication: Some(3),
            ..Contents::default()
        };
        Report {
            schema: SCHEMA,
            build: "0.1.0+0".into(),
            begun_at_ms: 1,
            run: 7,
            config: Config { contents: Asked::from(&contents), ..crate::config::tests::config() },
            namespace: Some(Namespace { spec: Spec::default(), files_present: 9 }),
            metadata_only: true,
            contents: Some(contents),
            simulated_datanodes: Some(Work { datanodes: 6, reports: 9, ..Work::default() }),
            total,
            open_loop: Some(open_loop),
            replay: None,
            operations: [("open".to_owned(), operation)].into(),
            calls: [("getBlockLocations".to_owned(), calls)].into(),
            cached: false,
            store: [("commits".to_owned(), 0.0)].into(),
            errors: vec![ErrorKind { kind: "k".into(), count: 1, example: "e".into() }],
            ended_early: false,
            disturbances: vec![disturbance],
            episodes: vec![episode("start"), episode("stop:4711")],
            notes: vec!["n".into()],
        }
    }

    /// What is read of a report that was written.
    fn again(report: &Report, name: &str) -> Report {
        let path = std::env::temp_dir().join(format!("trellis-{name}-{}.json", std::process::id()));
        report.write(&path).expect("written");
        let back = Report::read(&path);
        fs::remove_file(&path).expect("it is there");
        back.expect("ours")
    }

    #[test]
    fn a_report_comes_back_as_it_was() {
        assert_eq!(again(&sample(), "report"), sample());
    }

    #[test]
    fn reports_that_do_not_say_what_was_usual_are_the_same_as_those_that_do() {
        let mut new = sample();
        new.config.workload = "pangu".parse().expect("one");
        new.config.create_share = new.config.workload.create_percent();
        new.config.arrivals = Some(Arrivals::Poisson);
        let mut old = new.clone();
        let config = &mut old.config;
        (config.create_share, config.arrivals, config.hot) = (None, None, None);
        config.contents = Asked::default();
        assert_eq!(again(&old, "old-report"), new);
        assert!(crate::compare::differences(&again(&old, "older-report"), &new).is_empty());
    }

    #[test]
    fn what_the_schema_promises_is_there() {
        let json = serde_json::to_value(sample()).expect("JSON");
        for field in ["ops_per_s", "server_cpu_us_per_op"] {
            assert!(json["total"][field].is_number(), "{field}");
        }
        let fields = "count ops_per_s refused errors p50_us p90_us p99_us p999_us max_us store_round_trips_per_op rows_per_op";
        for field in fields.split(' ') {
            assert!(json["operations"]["open"][field].is_number(), "{field}");
        }
        assert_eq!(json["config"]["workload"], "spotify");
    }

    #[test]
    fn another_schema_is_refused() {
        let path = std::env::temp_dir().join(format!("trellis-schema-{}.json", std::process::id()));
        fs::write(&path, "{\"schema\": 2}").expect("written");
        let error = Report::read(&path).expect_err("another").to_string();
        fs::remove_file(&path).expect("it is there");
        assert!(error.contains("its schema is 2"), "{error}");
    }

    #[test]
    fn tables_show_what_matters() {
        let text = crate::show::show(&sample());
        for part in
            ["open   ", "p99.9 µs", "offered 4.0", "servers 12.5 µs", "error, 1 times k: e", "note: n"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let mut faster = sample();
        faster.config.seed = 2;
        faster.total.ops_per_s *= 2.0;
        let text = crate::compare::compare(&sample(), &faster);
        assert!(text.contains("2.000 ± 0.000 *") && text.contains("differs: seed: A"), "{text}");
    }
}

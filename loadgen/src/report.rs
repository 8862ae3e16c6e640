//! `report.json`: THE schema, described in docs/LOAD.md. Fields are added, never changed; then [`SCHEMA`] stays.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::contents::Contents;
use crate::datanodes::Work;
use crate::error::{Error, Result};
use crate::namespace::Spec;

/// The schema that this program writes and reads.
pub const SCHEMA: u32 = 1;
/// No longer report is read.
const MAX_BYTES: u64 = 1 << 30;

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
    /// The whole configuration, seed included.
    pub config: Config,
    /// The namespace that it ran on.
    pub namespace: Namespace,
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
    /// Operations by name.
    pub operations: BTreeMap<String, Operation>,
    /// Calls by method, as issued and as the servers counted them.
    pub calls: BTreeMap<String, Calls>,
    /// What the store counted, `trellis_store_NAME_total` by NAME; empty without `--metrics`.
    pub store: BTreeMap<String, f64>,
    /// Errors by kind.
    pub errors: Vec<ErrorKind>,
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
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".tmp");
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::other);
        let written =
            text.and_then(|text| fs::write(&unfinished, text)).and_then(|()| fs::rename(&unfinished, path));
        written.map_err(Error::io(format!("writing {}", path.display())))
    }

    /// Reads one.
    pub fn read(path: &Path) -> Result<Report> {
        let what = || format!("reading {}", path.display());
        if fs::metadata(path).map_err(Error::io(what()))?.len() > MAX_BYTES {
            return Err(Error::Unreadable(format!("{} is too long for a report", path.display())));
        }
        let text = fs::read(path).map_err(Error::io(what()))?;
        let unreadable = |why: String| Error::Unreadable(format!("{} is no report: {why}", path.display()));
        let schema: Schema = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
        if schema.schema != SCHEMA {
            return Err(unreadable(format!("its schema is {}, this program knows {SCHEMA}", schema.schema)));
        }
        serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))
    }
}

#[derive(Deserialize)]
struct Schema {
    schema: u32,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with something in every field.
    pub fn sample() -> Report {
        let second = Second { count: 10, ended: 12, mean_us: 55.5 };
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
            store_round_trips_per_op: Some(1.0),
            rows_per_op: None,
            operations_per_group: None,
            conflicts: Some(0),
            retries: Some(0),
            failovers: 0,
            resends: 2,
        };
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
        Report {
            schema: SCHEMA,
            build: "0.1.0+0".into(),
            begun_at_ms: 1,
            run: 7,
            config: crate::config::tests::config(),
            namespace: Namespace { spec: Spec::default(), files_present: 9 },
            metadata_only: true,
            contents: Some(Contents::default()),
            simulated_datanodes: Some(Work { datanodes: 6, reports: 9, ..Work::default() }),
            total,
            open_loop: Some(open_loop),
            operations: [("open".to_owned(), operation)].into(),
            calls: [("getBlockLocations".to_owned(), calls)].into(),
            store: [("commits".to_owned(), 0.0)].into(),
            errors: vec![ErrorKind { kind: "k".into(), count: 1, example: "e".into() }],
            notes: vec!["n".into()],
        }
    }

    #[test]
    fn a_report_comes_back_as_it_was() {
        let path = std::env::temp_dir().join(format!("trellis-report-{}.json", std::process::id()));
        sample().write(&path).expect("written");
        let back = Report::read(&path);
        fs::remove_file(&path).expect("it is there");
        assert_eq!(back.expect("ours"), sample());
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
        for second in faster.operations.get_mut("open").expect("there").seconds.iter_mut() {
            second.count *= 2;
        }
        let text = crate::compare::compare(&sample(), &faster);
        assert!(text.contains("2.000 ± 0.000 *") && text.contains("differs: seed: A"), "{text}");
    }
}

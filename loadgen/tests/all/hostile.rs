//! What the commands leave behind, as somebody with bad intentions would write it: every text is hostile, and there is much of
//! everything.

use serde_json::{Value, json};
use trellis_loadgen::model::calibrate::Calibration;
use trellis_loadgen::model::check::Check;
use trellis_loadgen::model::demands::{Demands, Measured};
use trellis_loadgen::model::report::{Model, Question};
use trellis_loadgen::report::Report;
use trellis_loadgen::scale::Config;
use trellis_loadgen::scale::report::{Point, Scale};
use trellis_loadgen::spread::Spread;

/// Breaks out of whatever does not escape it.
pub const HOSTILE: &str = "\"'></td></title></style><script>alert(1)</script><img src=x onerror=alert(2)>";

/// Seconds with everything in them, some with nothing.
fn seconds() -> Vec<Value> {
    let second = |at: u64| match at {
        4..=6 => json!({"count": 0, "ended": 0, "mean_us": 0.0, "begun": 400}),
        _ => {
            json!({"count": 350 + at * 7, "ended": 420 + at * 7, "mean_us": 900.0 * (at as f64 + 1.0), "refused": 30,
                    "errors": 40, "max_us": 1e6 + at as f64, "begun": 400})
        }
    };
    (0..20).map(second).collect()
}

fn operation(scale: f64) -> Value {
    json!({"share": 0.1, "count": 7000, "ops_per_s": 350.0, "refused": 600, "errors": 800, "mean_us": 900.0 * scale,
           "p50_us": 400.0 * scale, "p90_us": 2e3 * scale, "p99_us": 2.1e4 * scale, "p999_us": 2.2e4 * scale,
           "max_us": 2.2e6, "store_round_trips_per_op": scale, "rows_per_op": 17.0 * scale, "seconds": seconds()})
}

/// A report in which every text is hostile, with many operations and much that was done to the servers.
pub fn report() -> Report {
    let names = "chmod_dir chmod_file chown_dir create delete list_dir open rename set_replication stat_dir stat_file";
    let mut operations: serde_json::Map<String, Value> =
        names.split(' ').enumerate().map(|(at, name)| (name.into(), operation(1.0 + at as f64))).collect();
    operations.insert(HOSTILE.into(), operation(0.01));
    let done = |from: f64, to: Option<f64>| json!({"what": HOSTILE, "intended_s": from, "begun_s": from, "ended_s": to, "done": true, "outcome": HOSTILE});
    let mut disturbances = vec![done(4.0, Some(7.0)), done(12.0, None), done(19.9, Some(21.0))];
    disturbances.extend((0..6).map(|at| done(15.0 + f64::from(at) * 0.1, None)));
    let report = json!({
        "schema": 1, "build": HOSTILE, "begun_at_ms": 1_764_636_000_000_u64, "run": 7,
        "config": {"target": format!("hdfs://{HOSTILE}"), "base": format!("/{HOSTILE}"), "workload": "spotify",
                   "create_share": 5.0, "clients": 64, "connections": 64, "rate": 4000.0, "arrivals": "poisson",
                   "popularity": "uniform", "hot": null, "pick": "popular", "seed": u64::MAX, "warm_up_s": 1.0,
                   "duration_s": 20.0, "cost_samples": 10, "metrics": [HOSTILE], "server_pids": [],
                   "disturb": [format!("run:{HOSTILE}@4s")]},
        "namespace": {"spec": {"files": 100_000, "depth": 7, "files_per_dir": 16, "dirs_per_dir": 2, "name_length": 34,
                               "seed": 1}, "files_present": 99_990},
        "metadata_only": true,
        "total": {"count": 84_000, "ops_per_s": 4199.9, "refused": 7200, "errors": 9600, "elapsed_s": 20.02,
                  "server_cpu_us_per_op": 78.3, "client_cpu_us_per_op": 20.1, "store_round_trips_per_op": 1.3,
                  "rows_per_op": 20.5, "operations_per_group": 3.4, "conflicts": 1, "retries": 12, "failovers": 33,
                  "resends": 44, "p50_us": 800.0, "p99_us": 2e6, "p999_us": 3e6, "max_us": 3.1e6},
        "open_loop": {"offered": 80_000, "offered_per_s": 4000.0, "achieved_per_s": 3999.0, "never_begun": 0,
                      "late_p50_us": 60.0, "late_p99_us": 100.0, "late_max_us": 9000.0},
        "operations": operations,
        "calls": {HOSTILE: {"ok": 1, "exceptions": 2, "servers_ok": 1, "servers_exceptions": 3}},
        "store": {HOSTILE: 12.0},
        "errors": [{"kind": HOSTILE, "count": 9600, "example": HOSTILE}],
        "ended_early": true,
        "disturbances": disturbances,
        "episodes": [{"begins_with": HOSTILE, "from_s": 0.0, "to_s": 4.0, "count": 1, "refused": 2, "errors": 3,
                      "late": 4, "max_us": 5.0, "failovers": 6, "resends": 7}],
        "notes": [HOSTILE],
    });
    serde_json::from_value(report).unwrap()
}

/// The same of a replay.
pub fn replay() -> Report {
    let mut all = serde_json::to_value(report()).unwrap();
    all["config"]["workload"] = "replay".into();
    all["config"]["replay"] = json!({"files": [HOSTILE, HOSTILE], "speed": 10.0, "as_logged": true, "limit": 100_000,
                                     "from_s": 0.5, "until_s": null, "fresh": false});
    all["namespace"] = Value::Null;
    all["replay"] = json!({"lines": 120_000, "replayed": 100_800, "skipped": {HOSTILE: 19_100},
                           "broken": [{"kind": HOSTILE, "count": 100, "example": HOSTILE}], "trace_s": 200.5,
                           "prepared_dirs": 1234, "prepared_files": 56_789, "prepared_s": 12.3, "unexplained": 17,
                           "waited": 12_345, "rate_error_percent": -0.42, "in_another_second": 321});
    serde_json::from_value(all).unwrap()
}

/// A run of a scale run: a little below linear, differently in each round.
fn point(round: u32, namenodes: u32) -> Point {
    let mut report = report();
    let times = f64::from(namenodes);
    report.total.ops_per_s = 11_000.0 * times / (1.0 + 0.01 * times + 0.03 * f64::from(round));
    report.total.machine_busy_percent = Some(20.0 + times + f64::from(round));
    report.total.p99_us = 4000.0 * times;
    let answered = (report.total.count + report.total.refused) as f64;
    for (counter, each) in [
        ("round_trips", 1.05),
        ("delays", 1.05),
        ("delay_us", 3100.0),
        ("rows_read", 11.0),
        ("rows_written", 0.3),
        ("commits", 0.05),
    ] {
        report.store.insert(counter.into(), answered * each);
    }
    Point { round, namenodes, report }
}

/// Runs on one to 64 namenodes, in three rounds.
pub fn scale() -> Scale {
    let config: Config = serde_json::from_value(json!({
        "namenodes": [1, 2, 4, 8, 64], "rounds": 3, "clients_per_namenode": 6, "store_delay_us": 2000,
        "settings": [HOSTILE], "base": format!("/{HOSTILE}"),
        "spec": {"files": 100_000, "depth": 7, "files_per_dir": 16, "dirs_per_dir": 2, "name_length": 34, "seed": 1},
        "workload": "spotify", "create_share": 20.0, "popularity": "uniform", "seed": 1, "warm_up_s": 2.0,
        "duration_s": 10.0,
    }))
    .unwrap();
    let points = config.order().into_iter().map(|(round, namenodes)| point(round, namenodes)).collect();
    let mut scale = Scale::of(config, points);
    scale.build = HOSTILE.into();
    scale.notes.push(HOSTILE.into());
    scale
}

fn check(file: &str, namenodes: u32, is_calibration: bool) -> Check {
    let rate = 1900.0 * f64::from(namenodes);
    Check {
        file: file.into(),
        namenodes,
        clients: 6 * namenodes,
        store_delay_us: 2000,
        measured_ops_per_s: Spread { median: rate, lowest: rate * 0.9, highest: rate * 1.05 },
        measured_busy_percent: Some(Spread { median: 9.0, lowest: 8.0, highest: 12.0 }),
        predicted_ops_per_s: rate * 1.04,
        predicted_busy_percent: 11.0,
        error_percent: 4.0,
        is_calibration,
    }
}

/// A capacity model of up to 120 namenodes and 96 nodes, checked against two files.
pub fn model() -> Model {
    let demands = Demands {
        namenode_cpu_us: 90.0,
        client_cpu_us: 30.0,
        calls: 1.03,
        round_trips: 1.03,
        writes: 0.075,
        rows_read: 11.0,
        rows_written: 0.3,
        hold_us: 1000.0,
        group: 1.0,
        trip_us: 3100.0,
        rest_us: 50.0,
    };
    let measured = Measured { namenodes: 1, clients: 6, machine_cores: 2, ops_per_s: 1900.0 };
    let (file, timer_late_us) = (HOSTILE.to_owned(), Some(1100.0));
    let calibration =
        Calibration { file, demands, measured, timer_late_us, further_us: 50.0, too_slow_percent: 0.0 };
    let question: Question = serde_json::from_value(json!({
        "namenodes": [1, 2, 4, 8, 12, 20, 30, 40, 60, 80, 120], "store_nodes": [2, 4, 6, 8, 12, 24, 96],
        "clients_per_namenode": 256,
        "machines": {"cores_per_namenode": 12, "network_us": 100.0, "database": {
            "nodes": 1, "cores_per_node": 12, "replicas": 2, "statement_us": 33.0, "row_us": 5.2,
            "written_row_us": 10.0, "client_statement_us": 24.0, "client_row_us": 0.73,
            "operations_per_statement": 8.0, "trip_us": 200.0}},
    }))
    .unwrap();
    let mut checks: Vec<Check> =
        [1, 2, 4, 8].map(|namenodes| check(HOSTILE, namenodes, namenodes == 1)).into();
    checks.extend([check("busy.json", 1, false), check("busy.json", 2, false)]);
    let mut model = Model::of(calibration, checks, question).unwrap();
    model.build = HOSTILE.into();
    for text in model.published.iter_mut().flat_map(|one| [&mut one.system, &mut one.source]) {
        text.push_str(HOSTILE);
    }
    model
}

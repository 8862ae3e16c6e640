//! Pages of reports that somebody with bad intentions wrote.

use serde_json::{Value, json};
use trellis_loadgen::page::axis::Axis;
use trellis_loadgen::page::chart::{Chart, Point, Style};
use trellis_loadgen::page::figure::Colour;
use trellis_loadgen::page::html::Html;
use trellis_loadgen::page::{document, pair, run};
use trellis_loadgen::report::Report;

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

/// A page with what the other pages do not have: points with margins, measured and predicted.
pub fn curve() -> String {
    let measured = [1.0, 2.0, 4.0, 8.0].map(|x| Point { margin: Some(900.0), ..Point::new(x, x * 11_000.0) });
    let predicted = [8.0, 16.0, 30.0, 60.0].map(|x| Point::new(x, x * 10_500.0)).to_vec();
    let chart = Chart::new(HOSTILE, Axis::linear("namenodes"), Axis::linear("operations/s"))
        .with("ideal", Style::Reference, Colour::Grey, vec![Point::new(1.0, 11e3), Point::new(60.0, 660e3)])
        .with("measured", Style::Measured, Colour::Blue, measured.to_vec())
        .with("predicted", Style::Predicted, Colour::Orange, predicted);
    let mut html = Html::default();
    html.add(&chart.figure());
    document(HOSTILE, &html)
}

/// All pages, with a name each.
pub fn all() -> Vec<(&'static str, String)> {
    let report = report();
    let pair = pair::page([&report, &report], [HOSTILE, "b.json"]);
    vec![("run", run::page(&report)), ("pair", pair), ("curve", curve())]
}

#[test]
fn nothing_in_a_report_becomes_markup() {
    for (name, page) in all() {
        assert!(page.matches("&lt;script&gt;").count() > 1, "{name}: the texts are there");
        for markup in ["<script", "<img", "</td></title>", "http://", "https://", "url(", "NaN", "inf\""] {
            assert!(!page.contains(markup), "{name} has {markup}");
        }
    }
}

#[test]
fn a_page_has_what_the_report_has() {
    let page = run::page(&report());
    for part in [
        "spotify with 5 % creates, open loop at 4000 operations/s",
        "2025-12-02T00:40:00Z",
        "This run ended before its time",
        "78.3 µs",
        "9\u{202f}600 × ",
        "<dd>4200</dd>",
        "late_after_s",
        "<td>no</td>",
    ] {
        assert!(page.contains(part), "no {part:?}");
    }
    let pair = pair::page([&report(), &report()], ["a", "b"]);
    assert!(pair.contains("B is 1 × A") && pair.contains("Nothing: options"));
}

#[test]
fn a_report_of_an_older_program_has_a_page() {
    let mut old = serde_json::to_value(report()).unwrap();
    let fields = old.as_object_mut().unwrap();
    ["ended_early", "disturbances", "episodes"].iter().for_each(|field| drop(fields.remove(*field)));
    ["p50_us", "p90_us", "p99_us", "p999_us", "max_us"].iter().for_each(|field| {
        fields["total"].as_object_mut().unwrap().remove(*field);
    });
    ["disturb", "late_after_s"].iter().for_each(|field| {
        fields["config"].as_object_mut().unwrap().remove(*field);
    });
    let seconds = json!([{"count": 5, "ended": 6, "mean_us": 7.5}]);
    fields["operations"]
        .as_object_mut()
        .unwrap()
        .values_mut()
        .for_each(|one| one["seconds"] = seconds.clone());
    let page = run::page(&serde_json::from_value(old).unwrap());
    assert!(page.contains("Throughput") && !page.contains("What was done to the servers"));
}

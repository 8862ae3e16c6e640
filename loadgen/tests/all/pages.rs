//! Pages of what [`hostile`](super::hostile) has.

use serde_json::json;
use trellis_loadgen::findings::Findings;
use trellis_loadgen::page::html::Html;
use trellis_loadgen::page::{model, pair, run, scale};

use super::hostile::{self, HOSTILE, report};

/// All pages, with a name each.
pub fn all() -> Vec<(&'static str, String)> {
    let report = report();
    let pair = pair::page([&report, &report], [HOSTILE, "b.json"]);
    let page = |findings: Findings| findings.page();
    vec![
        ("pair", pair),
        ("run", page(report.into())),
        ("replay", page(hostile::replay().into())),
        ("scale", page(hostile::scale().into())),
        ("model", page(hostile::model().into())),
    ]
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

#[test]
fn the_page_of_a_replay_accounts_for_every_line() {
    let page = run::page(&hostile::replay());
    for part in
        ["replay at 10 times its pace", "<td>120\u{202f}000</td>", "<td>19\u{202f}100</td>", "-0.42 %"]
    {
        assert!(page.contains(part), "no {part:?}");
    }
}

#[test]
fn the_page_of_a_scale_run_draws_its_curve() {
    let scale = hostile::scale();
    let page = scale::page(&scale);
    for part in [
        "Namenodes on one store: 1, 2, 4, 8, 64",
        "store delay: every round trip to the store waits 2 ms on purpose",
        "Throughput by namenodes",
        "CPU time for each operation that was answered",
        "Round trips and commits",
        "Rows read and written",
        "All namenodes together",
        "What a round trip waits on purpose",
        "How busy the machine was",
        "Latency of all operations",
        // Its runs are marked: clients and servers counted 3 and 4 calls.
        "15 of 15 runs are marked cached",
        "operations/s that clients saw",
    ] {
        assert!(page.contains(part), "no {part:?}");
    }
    let (throughput, _) = page.split_once("CPU for each operation</h2>").unwrap();
    // In both widths, and in the legend; each with an error bar and its ends.
    assert_eq!(throughput.matches("class=\"full blue\"").count(), 5 * 2 + 1);
    assert_eq!(throughput.matches("line margin blue").count(), 5 * 3 * 2);
    assert!(throughput.contains("line dotted grey"), "the linear one");
    // 64 times what one did, in the table below.
    assert!(throughput.contains("<th scope=\"row\">64</th><td>676\u{202f}923</td>"), "{throughput}");
    // What nobody knows is left out, and so it is without any run.
    let mut old = serde_json::to_value(&scale).unwrap();
    for level in old["levels"].as_array_mut().unwrap() {
        for field in ["p50_us", "p99_us", "rows_per_s", "store_round_trips_per_s"] {
            assert!(level.as_object_mut().unwrap().remove(field).is_some());
        }
        level["rows_per_op"] = json!(null);
    }
    let page = scale::page(&serde_json::from_value(old.clone()).unwrap());
    for part in ["Latencies: unknown.", "All namenodes together: unknown.", "Rows read and written: unknown."]
    {
        assert!(page.contains(part), "no {part:?}");
    }
    (old["levels"], old["points"]) = (json!([]), json!([]));
    assert!(scale::page(&serde_json::from_value(old).unwrap()).contains("Throughput: unknown."));
}

#[test]
fn the_page_of_the_model_tells_what_it_rests_on() {
    let all = hostile::model();
    let page = model::page(&all);
    assert!(all.assumptions.len() >= 6);
    for assumption in &all.assumptions {
        let mut escaped = Html::default();
        escaped.text(assumption);
        assert!(page.contains(escaped.as_str()), "no {assumption:?}");
    }
    for part in [
        "<th scope=\"row\">CPU of a node for a row that is read</th><td>5.2 µs</td>",
        "<th scope=\"row\">CPU of a namenode for a row</th><td>0.73 µs</td>",
        "<th scope=\"row\">operations that may write</th><td>0.075</td>",
        "<dd>1.25 M</dd><dd class=\"more\">60 namenodes, 12 nodes of the database</dd>",
        "<th scope=\"col\">96 nodes</th>",
        "<td>+4.0</td>",
        "of 5 kinds of runs that it was not calibrated on",
        // Where something was published there is a line.
        "predicted, 12 nodes",
        "Not every number of nodes has a line",
    ] {
        assert!(page.contains(part), "no {part:?}");
    }
    // Clusters are predicted or published, checked runs measured, too; whatever is predicted is hollow.
    let (clusters, rest) = page.split_once("Where the time would go").unwrap();
    let (times, checks) = rest.split_once("Measured runs, and what the model says of them").unwrap();
    let count = |text: &str, what: &str| text.matches(&format!("class=\"{what} ")).count();
    // Five lines of eleven clusters, in both widths and the legend; the others stand in the table.
    assert_eq!((count(clusters, "hollow"), count(clusters, "full")), (5 * (11 * 2 + 1), 2 + 1));
    assert!(count(clusters, "line dashed") > 0 && count(clusters, "line") == count(clusters, "line dashed"));
    assert_eq!((count(times, "guess"), count(times, "bar")), (6 * 2, 0));
    assert!(count(checks, "hollow") > 0 && count(checks, "full") > 0);
    // Without checks nobody knows how far off it is.
    let mut unchecked = all;
    unchecked.checks.clear();
    let page = model::page(&unchecked);
    assert!(page.contains("No measured runs were given") && page.contains("<dd>unknown</dd>"));
}

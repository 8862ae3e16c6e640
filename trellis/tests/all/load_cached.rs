//! Case G1, by RPC: the servers see every operation that clients count, however often a path is asked for. (By a mount the
//! kernel may answer.)

use serde_json::Value;

use crate::load::{answered, assert_counts_agree, built_with, run};
use crate::support::{Up, is_long, output};

/// More than a namenode remembers of what is called how; clients remember nothing. The long form is the case's own.
fn paths() -> u64 {
    if is_long() { 100_000 } else { 20_000 }
}

/// Both counted the same, and the report says that the rate is the servers'.
fn assert_own_rate(report: &Value) -> u64 {
    let calls = assert_counts_agree(report);
    assert_eq!(report["cached"], false, "{report:#}");
    let notes = report["notes"].as_array().unwrap();
    assert!(!notes.iter().any(|note| note.as_str().unwrap().starts_with("cached")), "{notes:#?}");
    calls
}

#[test]
fn g1_stats_by_rpc_are_answered_by_servers() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    let count = paths();
    built_with(&up, &["--files", &count.to_string()]);
    built_with(&up, &["--base", "/one", "--files", "1"]);

    let brief = ["--workload", "fileStatus", "--clients", "8", "--warm-up", "0s", "--duration"];
    let one = run(&up, &[&brief[..], &["1s", "--base", "/one"]].concat());
    let stats = assert_own_rate(&one);
    assert!(stats > 1 && stats == answered(&one, "getFileInfo"), "{one:#}");

    let each = run(&up, &[&brief[..], &["10m", "--pick", "once"]].concat());
    assert_eq!((assert_own_rate(&each), answered(&each, "getFileInfo")), (count, count));
    assert_eq!((&each["total"]["count"], &each["ended_early"]), (&count.into(), &true.into()));
    let report = up.data.with_extension("json");
    let shown = output(&["load", "show", report.to_str().unwrap()]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    let both = format!("calls: clients saw {count} answers, servers counted {count};");
    assert!(shown.contains(&both) && !shown.contains("cached"), "{shown}");
}

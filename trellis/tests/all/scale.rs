//! `trellis load scale`: what it starts, what it writes, and that nothing is left of it.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{complaint, output, runs, trellis, wait};

/// Short enough for a test: nothing is asserted of speed.
const BRIEF: [&str; 8] =
    ["--files", "300", "--clients-per-namenode", "3", "--warm-up", "0s", "--duration", "1s"];

#[test]
fn more_namenodes_on_one_store_and_every_round_trip_waits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scale.json");
    let args = ["load", "scale", "--namenodes", "1,2", "--rounds", "2", "--store-delay", "5ms", "--report"];
    let done = output(&[&args[..], &[path.to_str().unwrap()], &BRIEF[..]].concat());
    assert!(done.status.success(), "{}", complaint(&done));
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.starts_with("300 of 300 files made") && said.contains("of linear"), "{said}");
    let scale: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(scale["config"]["store_delay_us"], 5000);
    let points = scale["points"].as_array().unwrap();
    let order: Vec<_> =
        points.iter().map(|point| (point["round"].as_u64(), point["namenodes"].as_u64())).collect();
    assert_eq!(order, [(0, 1), (0, 2), (1, 2), (1, 1)].map(|(round, count)| (Some(round), Some(count))));
    for point in points {
        sound(point);
    }
    for (level, namenodes) in scale["levels"].as_array().unwrap().iter().zip([1, 2]) {
        assert_eq!(
            (level["namenodes"].as_u64(), level["clients"].as_u64()),
            (Some(namenodes), Some(3 * namenodes))
        );
        for name in ["of_linear", "machine_busy_percent", "server_cpu_us_per_op", "rows_per_op", "delay_us"] {
            assert!(level[name]["median"].as_f64().unwrap() > 0.0, "{name}: {level:#}");
        }
    }
    assert_eq!(scale["levels"][0]["of_linear"]["median"].as_f64(), Some(1.0));
    let page = dir.path().join("scale.html");
    assert!(said.ends_with(&format!("page: {}\n", page.display())), "{said}");
    let drawn = fs::read_to_string(&page).unwrap();
    assert!(drawn.contains("waits 5 ms on purpose") && drawn.contains("Throughput by namenodes"), "{drawn}");
    // A file shows again what the command showed, and draws it.
    let other = dir.path().join("other.html");
    let shown = output(&["load", "show", path.to_str().unwrap(), "--html", other.to_str().unwrap()]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(said.contains(shown.split_once("page: ").unwrap().0), "{shown}");
    assert_eq!(fs::read_to_string(&other).unwrap(), drawn);
    let compared = output(&["load", "show", path.to_str().unwrap(), path.to_str().unwrap()]);
    assert!(complaint(&compared).contains("only reports of runs are compared"), "{}", complaint(&compared));
    modelled(dir.path(), &path);
}

/// The model meets the runs that it was calibrated on, and says something of all others. How well is not asserted here.
fn modelled(dir: &Path, scale: &Path) {
    let (path, scale) = (dir.join("model.json"), scale.to_str().unwrap());
    let args = ["load", "model", "--calibrate", scale, "--check", scale, "--report", path.to_str().unwrap()];
    let done = output(&args);
    assert!(done.status.success(), "{}", complaint(&done));
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(
        said.contains("calibrated on") && said.contains("assumed: ") && said.contains("HopsFS"),
        "{said}"
    );
    let page = fs::read_to_string(dir.join("model.html")).unwrap();
    assert!(page.contains("What is assumed") && page.contains("60 namenodes, 12 nodes"), "{page}");
    let model: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let checks = model["checks"].as_array().unwrap();
    assert_eq!(checks.iter().map(|check| check["is_calibration"] == true).collect::<Vec<_>>(), [true, false]);
    assert!(checks.iter().all(|check| check["predicted_ops_per_s"].as_f64().unwrap() > 0.0), "{checks:?}");
    let clusters = model["clusters"].as_array().unwrap();
    assert!(clusters.iter().any(|cluster| cluster["namenodes"] == 60 && cluster["store_nodes"] == 12));
    for cluster in clusters {
        let rate = |name: &str| cluster["predicted"][name].as_f64().unwrap();
        assert!(
            rate("ops_per_s") > 0.0 && rate("ops_per_s") <= rate("bound_ops_per_s") * 1.000_001,
            "{cluster:#}"
        );
    }
    // Nothing but what it was calibrated on proves nothing; a bound that does not hold is an error.
    let within = |files: &str, percent: &str| {
        let done = output(
            &[
                &args[..4],
                &["--no-html", "--check", files, "--within", percent, "--report", path.to_str().unwrap()],
            ]
            .concat(),
        );
        (done.status.success(), complaint(&done))
    };
    fs::remove_file(dir.join("model.html")).unwrap();
    assert!(within(scale, "1000").0 && !dir.join("model.html").exists());
    let (holds, why) = within(scale, "0");
    assert!(!holds && why.contains("the model is off by"), "{why}");
    let refused = |args: &[&str]| complaint(&output(&[&["load", "model"], args].concat()));
    assert!(refused(&["--calibrate", scale, "--calibrate-on", "7"]).contains("no runs on so many namenodes"));
    assert!(refused(&["--calibrate", path.to_str().unwrap()]).contains("is no report"));
    assert!(refused(&["--calibrate", scale, "--store-replicas", "0"]).contains("at least 1"));
    assert!(refused(&["--calibrate", scale, "--within", "15"]).contains("--check"));
}

/// Clients of every namenode were answered, and its trips waited as long as asked.
fn sound(point: &Value) {
    let (report, namenodes) = (&point["report"], point["namenodes"].as_u64().unwrap());
    let addresses = report["config"]["metrics"].as_array().unwrap();
    assert_eq!(
        (addresses.len() as u64, report["config"]["clients"].as_u64()),
        (namenodes, Some(3 * namenodes))
    );
    assert!(report["total"]["count"].as_u64().unwrap() > 0 && report["total"]["errors"] == 0, "{report:#}");
    let counted = |name: &str| report["store"][name].as_f64().unwrap();
    // What namenodes do by themselves may be under way while counters are read: a few trips each.
    let (trips, delays) = (counted("round_trips"), counted("delays"));
    assert!(trips > 0.0 && (trips - delays).abs() <= 5.0 * namenodes as f64, "{trips} {delays}");
    assert!(counted("delay_us") >= delays * 5000.0, "{report:#}");
    assert!(report["total"]["machine_busy_percent"].as_f64().unwrap() > 0.0);
}

/// The namenodes that a command on this directory has started, once there are so many.
fn namenodes(data: &Path, count: usize) -> Vec<Pid> {
    let pid = |index: usize| {
        let text = fs::read_to_string(data.join(format!("run/namenode-{index}.pid"))).ok()?;
        text.trim().parse().ok().map(Pid::from_raw)
    };
    let mut all = None;
    wait(|| {
        all = (0..count).map(pid).collect::<Option<Vec<Pid>>>();
        all.is_some()
    });
    all.unwrap()
}

fn start(data: &Path) -> Child {
    let args = ["load", "scale", "--namenodes", "3", "--data", data.to_str().unwrap(), "--report"];
    let long = ["--files", "50", "--warm-up", "0s", "--duration", "10m"];
    let report = data.join("scale.json");
    let mut command = trellis(&[&args[..], &[report.to_str().unwrap()], &long[..]].concat());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn its_namenodes_end_with_it_however_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    for (signal, says) in [(Signal::SIGINT, "stopped before the end"), (Signal::SIGKILL, "")] {
        let running = start(dir.path());
        let pids = namenodes(dir.path(), 3);
        assert!(pids.iter().all(|pid| runs(*pid)));
        kill(Pid::from_raw(running.id().cast_signed()), signal).unwrap();
        let ended = running.wait_with_output().unwrap();
        assert!(!ended.status.success() && complaint(&ended).contains(says), "{}", complaint(&ended));
        wait(|| pids.iter().all(|pid| !runs(*pid)));
        assert!(!dir.path().join("scale.json").exists());
    }
}

#[test]
fn a_namenode_that_ends_by_itself_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path());
    let pids = namenodes(dir.path(), 3);
    // It is asked for something: the run has begun.
    let audit = dir.path().join("logs/audit-1.log");
    wait(|| fs::metadata(&audit).is_ok_and(|log| log.len() > 0));
    kill(pids[1], Signal::SIGKILL).unwrap();
    let ended = running.wait_with_output().unwrap();
    assert!(
        !ended.status.success() && complaint(&ended).contains("namenode 1 has ended by itself"),
        "{}",
        complaint(&ended)
    );
    wait(|| pids.iter().all(|pid| !runs(*pid)));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_starts() {
    let refused = |args: &[&str]| {
        let done = output(&[&["load", "scale"], args].concat());
        assert!(!done.status.success() && done.stdout.is_empty(), "{args:?}");
        complaint(&done)
    };
    assert!(refused(&["--namenodes", "1,1"]).contains("each number once"));
    assert!(refused(&["--clients-per-namenode", "0"]).contains("--clients"));
    assert!(refused(&["--store-delay", "5s"]).contains("a tenth of heartbeat"));
    assert!(refused(&["--report", "scale.html"]).contains("--no-html"));
    assert!(refused(&["--set", "store_delay=1ms"]).contains("give --store-delay"));
    assert!(refused(&["--set", "no_such=1"]).contains("no_such"));
}

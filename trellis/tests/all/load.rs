//! `trellis load`: what it reports, held against what the servers count.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::support::{Up, complaint, output, trellis, wait};

/// How long the only namenode stands still.
const FROZEN: Duration = Duration::from_millis(2500);
/// Operations a second meanwhile.
pub const RATE: u64 = 200;
/// How long they go on, in seconds: long enough for whoever freezes the namenode to begin and end in time.
const LENGTH: u64 = 10;

/// Builds a namespace.
pub fn build(up: &Up, args: &[&str]) -> Output {
    output(&[&["load", "build", "--workers", "8", "--target", &up.fs], args].concat())
}

/// Builds a namespace of so many files; what it printed.
pub fn built(up: &Up, files: &str) -> String {
    built_with(up, &["--files", files])
}

/// The same with these options.
pub fn built_with(up: &Up, args: &[&str]) -> String {
    let built = build(up, args);
    assert!(built.status.success(), "{}", complaint(&built));
    String::from_utf8(built.stdout).unwrap()
}

/// Makes a run with the servers' counters, and gives its report.
pub fn run(up: &Up, args: &[&str]) -> Value {
    let path = up.data.with_extension("json");
    let (metrics, report) = (up.http.join(","), path.to_str().unwrap());
    let fixed = ["load", "run", "--target", &up.fs, "--metrics", &metrics, "--report", report];
    let done = output(&[&fixed, args].concat());
    assert!(done.status.success(), "{args:?}: {}", complaint(&done));
    read(&path)
}

pub fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// What clients saw answered, and what servers counted, is the same for each method; the sum.
pub fn assert_counts_agree(report: &Value) -> u64 {
    let number =
        |calls: &Value, name: &str| calls[name].as_u64().unwrap_or_else(|| panic!("no {name}: {report:#}"));
    let mut sum = 0;
    for (method, calls) in report["calls"].as_object().unwrap() {
        let [ok, exceptions] = ["ok", "exceptions"].map(|name| number(calls, name));
        let servers = ["servers_ok", "servers_exceptions"].map(|name| number(calls, name));
        assert_eq!([ok, exceptions], servers, "{method}: {report:#}");
        sum += ok + exceptions;
    }
    sum
}

/// A short run of a workload: what clients saw is what servers counted, and nothing failed.
pub fn assert_workload_counts(up: &Up, workload: &str, args: &[&str]) -> Value {
    let brief = ["--workload", workload, "--duration", "700ms", "--clients", "4", "--cost-samples", "5"];
    let report = run(up, &[&brief, args].concat());
    let calls = assert_counts_agree(&report);
    let total = &report["total"];
    let [count, refused, errors] = ["count", "refused", "errors"].map(|name| total[name].as_u64().unwrap());
    // Two clients may have met at one file.
    assert!(errors == 0 && count > refused && calls >= count, "{workload}: {report:#}");
    for name in ["ops_per_s", "server_cpu_us_per_op", "store_round_trips_per_op", "rows_per_op"] {
        assert!(total[name].as_f64().unwrap() > 0.0, "{workload} {name}: {report:#}");
    }
    for (name, operation) in report["operations"].as_object().unwrap() {
        // A mix has operations that a short run does not come to.
        assert!(operation["store_round_trips_per_op"].as_f64().unwrap() >= 0.9, "{workload} {name}");
        let seconds = operation["seconds"].as_array().unwrap().iter();
        assert_eq!(seconds.map(|second| second["count"].as_u64().unwrap()).sum::<u64>(), operation["count"]);
    }
    report
}

/// How often clients saw a method answered without an exception.
pub fn answered(report: &Value, method: &str) -> u64 {
    report["calls"][method]["ok"].as_u64().unwrap_or(0)
}

#[test]
fn every_workload_counts_what_the_servers_count() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    built(&up, "400");
    for (workload, calls_each) in [
        ("create", 2),
        ("mkdirs", 1),
        ("open", 1),
        ("fileStatus", 1),
        ("rename", 1),
        ("append", 2),
        ("spotify", 0),
        ("lambda", 0),
        ("pangu", 0),
        ("delete", 1),
    ] {
        let warm_up = if calls_each == 0 { "300ms" } else { "0s" };
        let report = assert_workload_counts(&up, workload, &["--warm-up", warm_up]);
        let [count, refused] = ["count", "refused"].map(|name| report["total"][name].as_u64().unwrap());
        if calls_each > 0 && refused == 0 {
            assert_eq!(assert_counts_agree(&report), count * calls_each, "{workload}");
        }
        assert_eq!((&report["metadata_only"], &report["contents"]["blocks"]), (&true.into(), &"none".into()));
    }
    // What was deleted is made anew, under its first name; what was renamed is there already.
    let said = built(&up, "400");
    assert!(said.starts_with("went on in /load, where "), "{said}");
    assert!(built(&up, "400").starts_with("went on in /load, where 400 files were there already"));
}

#[test]
fn a_build_goes_on_where_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    assert!(built(&up, "300").starts_with("300 of 300 files made in 19 directories below /load"));
    let listed = up.fs(&["ls", "-C", "-R", "/load"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let of = |kind: &str| -> Vec<&str> {
        listed.lines().filter(|path| path.rsplit('/').next().unwrap().starts_with(kind)).collect()
    };
    let (files, dirs) = (of("f-"), of("d-"));
    assert_eq!((files.len(), dirs.len()), (300, 19), "{listed}");
    // As a build that is killed leaves it: the last directories are not there, of others files are missing.
    let last = dirs.iter().max_by_key(|path| path.len()).unwrap();
    let gone = files.iter().filter(|path| path.starts_with(last)).count();
    let other = files.iter().find(|path| !path.starts_with(last)).unwrap();
    assert!(up.fs(&["rm", "-r", "-skipTrash", last, other]).status.success());
    // Nothing is measured in it before it is whole.
    let early = output(&["load", "run", "--target", &up.fs, "--workload", "create", "--duration", "1s"]);
    let why = complaint(&early);
    assert!(
        !early.status.success() && why.contains("of 19 directories of the namespace in /load are"),
        "{why}"
    );
    let said = built(&up, "300");
    let there = 300 - gone - 1;
    assert!(said.starts_with(&format!("went on in /load, where {there} files were there already")), "{said}");
    let again = up.fs(&["ls", "-C", "-R", "/load"]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), listed, "names are those of the first time");
    // Another namespace does not get mixed up with it, nor does anything else.
    let other = build(&up, &["--files", "300", "--seed", "2"]);
    assert!(complaint(&other).contains("holds another namespace"), "{}", complaint(&other));
    let above = build(&up, &["--base", "/load/sub/../x"]);
    assert!(complaint(&above).contains("absolute path"), "{}", complaint(&above));
    assert!(up.fs(&["mkdir", "-p", "/taken/x"]).status.success());
    let taken = build(&up, &["--base", "/taken"]);
    assert!(complaint(&taken).contains("holds something else"), "{}", complaint(&taken));
}

#[test]
fn two_workers_that_rename_the_same_names_share_the_successes() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &["--namenodes", "2"]);
    assert_eq!(up.http.len(), 2);
    built(&up, "1000");
    let report = run(
        &up,
        &["--workload", "rename", "--pick", "all", "--clients", "2", "--warm-up", "0s", "--duration", "10m"],
    );
    let counts = |of: &Value| ["count", "refused", "errors"].map(|name| of[name].as_u64().unwrap());
    assert_eq!(counts(&report["total"]), [1000, 1000, 0], "{report:#}");
    assert_eq!(counts(&report["operations"]["rename"]), [1000, 1000, 0]);
    assert_eq!(assert_counts_agree(&report), 2000);
    let renames: BTreeMap<String, Value> =
        serde_json::from_value(report["calls"]["rename2"].clone()).unwrap();
    assert_eq!(
        (renames["servers_ok"].as_u64(), renames["servers_exceptions"].as_u64()),
        (Some(1000), Some(1000))
    );
    assert_eq!(report["total"]["failovers"], 0);
}

/// How many calls of `open` a namenode has answered.
pub fn opened(http: &str) -> u64 {
    counted(http, "getBlockLocations\",outcome=\"ok")
}

/// How many calls a namenode has answered whose labels have this in them.
pub fn counted(http: &str, labels: &str) -> u64 {
    let mut stream = TcpStream::connect(http).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let calls =
        text.lines().find(|line| line.starts_with("trellis_rpc_calls_total") && line.contains(labels));
    calls.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Waits until the namenode has answered more calls of `open` than these.
pub fn wait_for_opens(up: &Up, before: u64) {
    wait(|| {
        // Not more often: a run waits for namenodes to come to rest before it begins.
        sleep(Duration::from_millis(400));
        opened(&up.http[0]) > before
    });
}

#[test]
fn an_open_loop_shows_how_late_a_frozen_namenode_was() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    built(&up, "100");
    let path = dir.path().join("report.json");
    let (rate, length) = (RATE.to_string(), format!("{LENGTH}s"));
    let mut args = vec!["load", "run", "--target", &up.fs, "--metrics", &up.http[0], "--workload", "open"];
    args.extend(["--rate", &rate, "--arrivals", "constant", "--duration", &length, "--warm-up", "0s"]);
    args.extend(["--clients", "4", "--report", path.to_str().unwrap()]);
    let mut running = trellis(&args).stdout(Stdio::null()).spawn().unwrap();
    wait_for_opens(&up, 0);
    kill(up.pid(0), Signal::SIGSTOP).unwrap();
    let since = Instant::now();
    sleep(FROZEN);
    let frozen = since.elapsed();
    kill(up.pid(0), Signal::SIGCONT).unwrap();
    assert!(running.try_wait().unwrap().is_none(), "it ended while the namenode was frozen");
    assert!(running.wait().unwrap().success());
    let report = read(&path);

    // None was skipped, and each was answered.
    let offered = RATE * LENGTH;
    assert_eq!(report["open_loop"]["offered"], offered);
    assert_eq!(
        (report["total"]["count"].as_u64(), report["total"]["errors"].as_u64()),
        (Some(offered), Some(0))
    );
    assert_eq!(assert_counts_agree(&report), offered);
    assert_eq!(report["open_loop"]["never_begun"], 0);
    // Those that were to begin in the first half of the freeze waited for the other half at least: an eighth of all.
    let open = &report["operations"]["open"];
    let us = |name: &str| open[name].as_f64().unwrap();
    let half_us = frozen.as_secs_f64() * 1e6 / 2.0;
    assert!(us("p90_us") > half_us && us("p50_us") <= us("p90_us"), "{open:#}");
    // The first that was to begin after the signal waited for nearly all of it.
    let gap_us = 1e6 / RATE as f64;
    assert!(us("max_us") > half_us * 2.0 - gap_us * 2.0, "{open:#}");
    // While it stood still none ended: a second without any is in the bins, and the late ones are in a later one.
    let ended: Vec<u64> =
        open["seconds"].as_array().unwrap().iter().map(|s| s["ended"].as_u64().unwrap()).collect();
    assert!(ended.contains(&0) && ended.iter().sum::<u64>() == offered, "{ended:?}");
}

#[test]
fn a_server_without_metrics_is_watched_from_outside() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    built(&up, "100");
    let (pid, path) = (up.pid(0).to_string(), dir.path().join("report.json"));
    let report = path.to_str().unwrap();
    let target = ["--target", &up.fs, "--server-pid", &pid, "--report", report];
    let brief = ["--workload", "spotify", "--create-share", "5", "--duration", "2s", "--warm-up", "0s"];
    let ran = output(&[&["load", "run"], &target[..], &brief[..]].concat());
    assert!(ran.status.success(), "{}", complaint(&ran));
    let read = read(&path);
    assert!(read["total"]["server_cpu_us_per_op"].as_f64().unwrap() > 0.0);
    assert!(
        read["total"]["rows_per_op"].is_null() && read["calls"]["create"]["servers_ok"].is_null(),
        "{read:#}"
    );
    // A report is shown as the run showed it, and beside itself it is the same.
    let shown = output(&["load", "show", report]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(String::from_utf8(ran.stdout).unwrap().starts_with(text.trim_end()), "{text}");
    let page = dir.path().join("compared.html");
    let compared = output(&["load", "show", report, report, "--html", page.to_str().unwrap()]);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Two runs compared") && page.contains("Nothing: options"), "{page}");
    let text = String::from_utf8(compared.stdout).unwrap();
    assert!(text.contains("1.000") && !text.contains("differs:"), "{text}");
}

/// The figures between these texts of a line.
fn figures<const N: usize>(line: &str, texts: [&str; N]) -> Vec<f64> {
    let mut rest =
        line.strip_prefix(texts[0]).unwrap_or_else(|| panic!("{line:?} does not begin with {:?}", texts[0]));
    let mut figures = Vec::new();
    for text in &texts[1..] {
        let (figure, after) = rest.split_once(text).unwrap_or_else(|| panic!("{line:?} lacks {text:?}"));
        figures.push(figure.parse().unwrap_or_else(|_| panic!("{figure:?} in {line:?} is no figure")));
        rest = after;
    }
    assert_eq!(rest, "", "{line}");
    figures
}

#[test]
fn what_the_load_generator_can_offer_is_set_beside_a_report() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    built(&up, "32");
    let args = ["--workload", "fileStatus", "--clients", "2", "--warm-up", "0s", "--duration", "300ms"];
    let mut report = run(&up, &args);
    drop(up);
    let path = dir.path().join("against.json");
    let against = path.to_str().unwrap();
    let brief = ["load", "self-test", "--duration", "300ms", "--clients", "8", "--connections", "2"];
    let mut with_rate = |rate: f64, args: &[&str]| {
        report["total"]["ops_per_s"] = rate.into();
        fs::write(&path, report.to_string()).unwrap();
        output(&[&brief[..], &["--against", against], args].concat())
    };
    // It does what the report's run did. Whatever it offers, it is so many times one operation a second.
    for (rate, code) in [(1.0, 0), (1e12, 1)] {
        let said = with_rate(rate, &[]);
        assert_eq!(said.status.code(), Some(code), "{}", complaint(&said));
        let text = String::from_utf8(said.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let [offered, beside] = lines[..] else { panic!("{text}") };
        let texts = [
            "fileStatus against a namenode that answers constants: ",
            " ops/s; CPU of this program for each operation: ",
            " \u{b5}s",
        ];
        let [ops_per_s, cpu_us] = figures(offered, texts)[..] else { panic!("{offered}") };
        assert!(ops_per_s > 0.0 && cpu_us > 0.0, "{offered}");
        let texts = ["", " times the ", " ops/s of that report; at least ", " are wanted"];
        let [times, theirs, wanted] = figures(beside, texts)[..] else { panic!("{beside}") };
        assert_eq!((theirs, wanted), (rate, 5.0));
        assert!((times - ops_per_s / rate).abs() <= 1.0, "{text}");
    }
    // What cannot be set beside is said before anything is done.
    for (rate, args, why) in [
        (0.0, &[][..], "that report has no rate: nothing succeeded"),
        (1.0, &["--workload", "open"], "that report is of fileStatus: leave out --workload"),
    ] {
        let refused = with_rate(rate, args);
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{why}");
        assert!(complaint(&refused).contains(why), "{}", complaint(&refused));
    }
}

#[test]
fn what_cannot_be_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    let refused = |args: &[&str]| {
        let done = output(&[&["load", "run", "--target", &up.fs], args].concat());
        assert!(!done.status.success(), "{args:?}");
        complaint(&done)
    };
    assert!(refused(&["--workload", "open"]).contains("'trellis load build'"));
    assert!(refused(&["--workload", "sleep"]).contains("spotify, lambda, pangu, create"));
    assert!(refused(&["--workload", "open", "--arrivals", "poisson"]).contains("--rate"));
    assert!(refused(&["--workload", "open", "--create-share", "5"]).contains("--create-share is for mixes"));
    assert!(refused(&["--workload", "spotify", "--pick", "once"]).contains("--pick once and all"));
    assert!(refused(&["--workload", "open", "--metrics", "127.0.0.1:1"]).contains("/metrics"));
    assert!(refused(&["--workload", "open", "--real-blocks"]).contains("unexpected argument"));
    assert!(refused(&["--workload", "open", "--disturb", "stop:5@1s"]).contains("for how long"));
    assert!(refused(&["--workload", "open", "--disturb", "run:true@1h"]).contains("by then the run is over"));
    let absent = refused(&["--workload", "open", "--disturb", "kill:/nowhere/nn.pid@1s"]);
    assert!(absent.contains("reading a pid from /nowhere/nn.pid"), "{absent}");
    assert!(refused(&["--workload", "open", "--report", "r.html"]).contains("--no-html"));
    let file = dir.path().join("no-report.json");
    fs::write(&file, "{}").unwrap();
    let shown = output(&["load", "show", file.to_str().unwrap()]);
    assert!(complaint(&shown).contains("is no report"), "{}", complaint(&shown));
}

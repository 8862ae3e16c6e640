//! `trellis load`: what it reports, held against what the servers count.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{Up, complaint, output, trellis, wait};

/// How long the only namenode stands still.
const FROZEN: Duration = Duration::from_millis(2500);
/// Operations a second meanwhile.
const RATE: u64 = 200;
/// How long they go on, in seconds: long enough for whoever freezes the namenode to begin and end in time.
const LENGTH: u64 = 10;

fn build(up: &Up, args: &[&str]) -> Output {
    output(&[&["load", "build", "--workers", "8", "--target", &up.fs], args].concat())
}

/// Builds a namespace of so many files; what it printed.
fn built(up: &Up, files: &str) -> String {
    let built = build(up, &["--files", files]);
    assert!(built.status.success(), "{}", complaint(&built));
    String::from_utf8(built.stdout).unwrap()
}

/// Makes a run with the servers' counters, and gives its report.
fn run(up: &Up, args: &[&str]) -> Value {
    let path = up.data.with_extension("json");
    let (metrics, report) = (up.http.join(","), path.to_str().unwrap());
    let fixed = ["load", "run", "--target", &up.fs, "--metrics", &metrics, "--report", report];
    let done = output(&[&fixed, args].concat());
    assert!(done.status.success(), "{args:?}: {}", complaint(&done));
    read(&path)
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// What clients saw answered, and what servers counted, is the same for each method; the sum.
fn assert_counts_agree(report: &Value) -> u64 {
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

#[test]
fn every_workload_counts_what_the_servers_count() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    built(&up, "400");
    let brief = ["--duration", "700ms", "--clients", "4", "--cost-samples", "5"];
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
        let report = run(&up, &[&["--workload", workload, "--warm-up", warm_up], &brief[..]].concat());
        let calls = assert_counts_agree(&report);
        let total = &report["total"];
        let [count, refused, errors] =
            ["count", "refused", "errors"].map(|name| total[name].as_u64().unwrap());
        // Two clients may have met at one file.
        assert!(errors == 0 && count > refused, "{workload}: {report:#}");
        if calls_each > 0 && refused == 0 {
            assert_eq!(calls, count * calls_each, "{workload}");
        }
        for name in ["ops_per_s", "server_cpu_us_per_op", "store_round_trips_per_op", "rows_per_op"] {
            assert!(total[name].as_f64().unwrap() > 0.0, "{workload} {name}: {report:#}");
        }
        for (name, operation) in report["operations"].as_object().unwrap() {
            // A mix has operations that a short run does not come to.
            assert!(operation["store_round_trips_per_op"].as_f64().unwrap() >= 0.9, "{workload} {name}");
            let seconds = operation["seconds"].as_array().unwrap().iter();
            assert_eq!(
                seconds.map(|second| second["count"].as_u64().unwrap()).sum::<u64>(),
                operation["count"]
            );
        }
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
fn opened(http: &str) -> u64 {
    let mut stream = TcpStream::connect(http).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let calls = text.lines().find(|line| {
        line.starts_with("trellis_rpc_calls_total") && line.contains("getBlockLocations\",outcome=\"ok")
    });
    calls.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Waits until the namenode has answered more calls of `open` than these.
fn wait_for_opens(up: &Up, before: u64) {
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

/// A run without warm-up, with all that is wanted of it.
fn brief(up: &Up, report: &Path, args: &[&str]) -> Command {
    let metrics = up.http.join(",");
    let fixed = ["load", "run", "--target", &up.fs, "--metrics", &metrics, "--clients", "4"];
    trellis(&[&fixed[..], &["--report", report.to_str().unwrap()], args].concat())
}

/// Sums a count over all episodes.
fn sum(report: &Value, name: &str) -> u64 {
    report["episodes"].as_array().unwrap().iter().map(|episode| episode[name].as_u64().unwrap()).sum()
}

#[test]
fn a_run_goes_on_when_a_namenode_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &["--namenodes", "2", "--restart"]);
    built(&up, "100");
    let (killed, path) = (up.pid(1).to_string(), dir.path().join("report.json"));
    let kill = format!("kill:{}@1s", up.data.join("run/namenode-1.pid").display());
    let mut args = vec!["--workload", "open", "--warm-up", "0s", "--duration", "4s", "--disturb", &kill];
    args.extend(["--disturb", "run:exit 3@2s"]);
    let ran = brief(&up, &path, &args).output().unwrap();
    assert!(ran.status.success(), "{}", complaint(&ran));
    let report = read(&path);
    let done = |index: usize| report["disturbances"][index]["outcome"].as_str().unwrap();
    assert!(done(0).starts_with(&format!("process {killed} was killed")), "{report:#}");
    assert_eq!(done(1), "ended with exit status: 3");
    // Each operation is in one episode, and the clients of the dead namenode went over to the other.
    for name in ["count", "refused", "errors", "failovers", "resends"] {
        assert_eq!(report["total"][name], sum(&report, name), "{name}");
    }
    let begins = report["episodes"].as_array().unwrap().iter();
    let begins: Vec<&str> = begins.map(|episode| episode["begins_with"].as_str().unwrap()).collect();
    assert_eq!(begins, ["start", kill.split('@').next().unwrap(), "run:exit 3"]);
    let failovers = |index: usize| report["episodes"][index]["failovers"].as_u64().unwrap();
    assert!(report["total"]["errors"] == 0 && failovers(0) == 0 && failovers(1) > 0, "{report:#}");
    // What the dead one had counted is lost, so nothing is made up: neither in sums, nor by method.
    assert!(report["total"]["server_cpu_us_per_op"].is_null(), "{report:#}");
    assert!(report["calls"]["getBlockLocations"]["servers_ok"].is_null());
    let notes = report["notes"].to_string();
    assert!(notes.contains("the servers' counters cannot be used"), "{notes}");
    assert!(notes.contains("run:exit 3@2s did not come about"), "{notes}");
    let shown = String::from_utf8(ran.stdout).unwrap();
    assert!(shown.contains("episode") && shown.contains(&kill), "{shown}");
}

#[test]
fn an_episode_holds_what_was_to_begin_while_the_namenode_stood_still() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    built(&up, "100");
    let (path, rate) = (dir.path().join("report.json"), RATE.to_string());
    let stop = format!("stop:{}@1s+2s", up.pid(0));
    let mut args = vec!["--workload", "open", "--warm-up", "0s", "--rate", &rate, "--arrivals", "constant"];
    args.extend(["--duration", "5s", "--disturb", &stop, "--late-after", "500ms"]);
    let ran = brief(&up, &path, &args).output().unwrap();
    assert!(ran.status.success(), "{}", complaint(&ran));
    let report = read(&path);
    assert_eq!((report["total"]["count"].as_u64(), sum(&report, "count")), (Some(5 * RATE), 5 * RATE));
    assert_eq!(assert_counts_agree(&report), 5 * RATE);
    let episode = &report["episodes"][1];
    let [from, to] = ["from_s", "to_s"].map(|name| episode[name].as_f64().unwrap());
    // A machine that is busy wakes the load generator late.
    assert!(from >= 1.0 && to >= 3.0 && from < to, "{report:#}");
    // How many were to begin before a second of the run.
    let before = |second: f64| ((second * RATE as f64).ceil() as u64).min(5 * RATE);
    let count = before(to) - before(from);
    assert_eq!(episode["count"], count, "{report:#}");
    // All of them waited until it went on; one or two may have been answered while it was being stopped.
    let late = episode["late"].as_u64().unwrap();
    let waited = before((to - 0.5).max(from)) - before(from);
    assert!((waited..=count).contains(&(late + 2).min(count)) && late <= count, "{report:#}");
    assert!(
        report["disturbances"][0]["outcome"].as_str().unwrap().contains("stood still for "),
        "{report:#}"
    );
    // The page has it, too.
    let page = fs::read_to_string(path.with_extension("html")).unwrap();
    assert!(page.contains(&format!("end of stop:{}", up.pid(0))), "{page}");
}

#[test]
fn a_run_that_is_ended_reports_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    built(&up, "100");
    let path = dir.path().join("report.json");
    let started = |args: &[&str]| {
        let before = opened(&up.http[0]);
        let mut run = brief(&up, &path, &[&["--workload", "open"], args].concat());
        let run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_opens(&up, before);
        run
    };
    let interrupt = |run: &Child| kill(Pid::from_raw(run.id().cast_signed()), Signal::SIGINT).unwrap();
    let endless = ["--warm-up", "0s", "--duration", "10m"];
    for mode in [&[][..], &["--rate", "50", "--arrivals", "constant"]] {
        let run = started(&[&endless, mode].concat());
        interrupt(&run);
        let ended = run.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", complaint(&ended));
        let report = read(&path);
        assert_eq!(report["ended_early"], true);
        assert!(report["notes"].to_string().contains("somebody ended it after"), "{report:#}");
        assert!(assert_counts_agree(&report) > 0);
        fs::remove_file(&path).unwrap();
    }
    // While it waits for a namenode that stands still it can be ended at once.
    let mut run = started(&endless);
    kill(up.pid(0), Signal::SIGSTOP).unwrap();
    interrupt(&run);
    // It says so; from then on the next one counts.
    run.stderr.as_mut().unwrap().read_exact(&mut [0; 16]).unwrap();
    interrupt(&run);
    let ended = run.wait_with_output().unwrap();
    kill(up.pid(0), Signal::SIGCONT).unwrap();
    assert_eq!((ended.status.code(), path.exists()), (Some(130), false), "{}", complaint(&ended));
    // Before anything was measured there is nothing to report.
    let run = started(&["--warm-up", "10m"]);
    interrupt(&run);
    let ended = run.wait_with_output().unwrap();
    assert!(complaint(&ended).contains("ended before anything was measured"), "{}", complaint(&ended));
    assert!(!ended.status.success() && !path.exists());
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

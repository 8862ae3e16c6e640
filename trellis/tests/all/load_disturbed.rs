//! `trellis load run`, when something is done to the namenodes meanwhile, or to itself.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::load::{RATE, assert_counts_agree, built, opened, read, wait_for_opens};
use crate::support::{Up, complaint, trellis};

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
fn a_hot_phase_is_an_episode_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    built(&up, "100");
    let path = dir.path().join("report.json");
    let mut args = vec!["--workload", "open", "--warm-up", "0s", "--duration", "2s"];
    args.extend(["--disturb", "hot:90/1@500ms+500ms"]);
    let ran = brief(&up, &path, &args).output().unwrap();
    assert!(ran.status.success(), "{}", complaint(&ran));
    let report = read(&path);
    let begins = report["episodes"].as_array().unwrap().iter();
    let begins: Vec<&str> = begins.map(|episode| episode["begins_with"].as_str().unwrap()).collect();
    assert_eq!(begins, ["start", "hot:90/1", "end of hot:90/1"]);
    assert_eq!(report["total"]["count"], sum(&report, "count"));
    let outcome = "90 % of the operations went to 1 % of the directories for ";
    let (shown, page) = (String::from_utf8(ran.stdout).unwrap(), path.with_extension("html"));
    assert!(shown.contains(outcome) && fs::read_to_string(page).unwrap().contains(outcome), "{shown}");
    // Where every file is taken once, nothing can be hot.
    let mut refused = brief(&up, &path, &[&args[..], &["--pick", "once"]].concat());
    let refused = refused.output().unwrap();
    assert!(!refused.status.success() && complaint(&refused).contains("hot:… have no meaning"));
    // Nor in a replay.
    let replay = ["load", "replay", "trace.log", "--disturb", "hot:90/1@500ms+500ms"];
    let replayed = trellis(&replay).output().unwrap();
    assert_eq!(replayed.status.code(), Some(2), "{}", complaint(&replayed));
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

//! Case G3: replaying an audit log, each of its steps.

use std::fs;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::load::read;
use crate::replay::{Bench, assert_adds_up, ended, line};
use crate::support::{complaint, trellis, wait};

/// How many lines were to begin in each second, of whatever command.
fn begun(report: &Value) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    for operation in report["operations"].as_object().unwrap().values() {
        for (at, second) in operation["seconds"].as_array().unwrap().iter().enumerate() {
            all.resize(all.len().max(at + 1), 0);
            all[at] += second["begun"].as_u64().unwrap();
        }
    }
    while all.last() == Some(&0) {
        all.pop();
    }
    all
}

#[test]
fn g3_three_lines_are_enough_and_keep_their_distances() {
    let bench = Bench::start();
    let text = [
        line(0, "mkdirs", "/a", "null"),
        line(1200, "create", "/a/f", "null"),
        line(3100, "open", "/a/f", "null"),
    ];
    let report = bench.replay(&bench.file("three.log", text.concat()), &["--speed", "1"]);
    assert_eq!(ended(&report), [3, 0, 0]);
    assert_eq!((begun(&report), report["replay"]["trace_s"].as_f64()), (vec![1, 1, 0, 1], Some(3.1)));
    // It cannot have ended before the last line was to begin.
    assert!(report["total"]["elapsed_s"].as_f64().unwrap() >= 3.1, "{report:#}");
}

#[test]
fn g3_whatever_stock_writes_is_read_and_counted() {
    let bench = Bench::start();
    let by_web = |text: String| text.replace("proto=rpc", "proto=webhdfs");
    let lines = [
        line(0, "create", "/odd/tab\\there", "null"),
        line(100, "create", "/odd/line\\nend", "null"),
        line(200, "create", "/odd/a name", "null"),
        // Escaped, and as logs of before Hadoop 2.8 have it.
        line(300, "create", "/odd/\\u00FC\\u4F60\\uD834\\uDD1E", "null"),
        line(400, "create", "/odd/ü你", "null"),
        line(2500, "create", "/odd/onto", "null"),
        // Out of order: these begin with the line before, and the last in its own time.
        line(700, "rename (options=[OVERWRITE])", "/odd/from", "/odd/onto"),
        line(600, "concat", "[/odd/a,/odd/b]", "/odd/t"),
        by_web(line(800, "open", "/odd/onto", "null")),
        "no line of an audit log\n".to_owned(),
        // A delete that returned false is one that was not allowed.
        line(900, "!delete", "/odd/absent", "null"),
        by_web(line(1000, "!open", "/odd/onto", "null")),
        // Asking for what is not there is allowed.
        line(1100, "getfileinfo", "/odd/nothing", "null"),
        line(1200, "delete", "/odd/tab\\there", "null"),
        by_web(line(3400, "mkdirs", "/odd/last", "null")),
    ];
    let trace = bench.file("trace.log", lines.concat());
    let report = bench.replay(&trace, &["--speed", "1"]);
    let replay = &report["replay"];
    assert_eq!((replay["lines"].as_u64(), replay["replayed"].as_u64()), (Some(15), Some(14)));
    assert_eq!((&replay["skipped"], replay["broken"].as_array().unwrap().len()), (&json!({}), 1));
    assert_eq!(replay["broken"][0]["example"], "line 10: no line of an audit log");
    // Empty files are not joined, as the note says.
    assert_eq!(ended(&report), [11, 2, 1], "{report:#}");
    assert_eq!(begun(&report), [5, 0, 8, 1]);
    let names = bench.up.fs(&["stat", "%n", "/replay/trace/odd/*"]).stdout;
    let names = String::from_utf8(names).unwrap();
    let names: Vec<&str> = names.split_terminator('\n').collect();
    let wanted = ["a", "a name", "b", "last", "line", "end", "nothing", "onto", "t", "ü你", "ü你𝄞"];
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let [names, wanted] = [&names[..], &wanted[..]]
        .map(|names| sorted(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()));
    assert_eq!(names, wanted, "from was moved, tab⇥here deleted; nothing else was");
}

/// A replay that goes on until it is ended.
fn start(bench: &Bench, base: &str, trace: &str) -> Child {
    let report = bench.dir.path().join(format!("{}.json", base.trim_start_matches('/')));
    let args = ["load", "replay", trace, "--target", &bench.up.fs, "--speed", "1", "--base", base];
    let mut command = trellis(&[&args[..], &["--report", report.to_str().unwrap()]].concat());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn g3_two_replays_at_once_each_keep_to_their_base() {
    let bench = Bench::start();
    let text = [
        line(0, "create", "/d/f", "null"),
        line(1, "rename", "/d/f", "/d/g"),
        line(2, "delete", "/gone", "null"),
        // Neither comes so far.
        line(59_000, "delete", "/d", "null"),
    ];
    let trace = bench.file("trace.log", text.concat());
    let trace = trace.to_str().unwrap();
    assert!(bench.up.fs(&["mkdir", "-p", "/beside/d"]).status.success());
    assert!(bench.up.fs(&["mkdir", "/d"]).status.success());
    let mut running: Vec<Child> = ["/one", "/two"].map(|base| start(&bench, base, trace)).into();
    let there = |base: &str| format!("{base}/trace\n{base}/trace/d\n{base}/trace/d/g\n");
    for base in ["/one", "/two"] {
        wait(|| bench.listed(base).contains(&there(base)) && !bench.listed(base).contains("gone"));
    }
    assert!(running.iter_mut().all(|one| one.try_wait().unwrap().is_none()), "both are under way");
    // A base is nobody else's meanwhile.
    assert!(bench.refused(trace.as_ref(), &["--base", "/one"]).contains("--fresh deletes it"));
    for (one, base) in running.into_iter().zip(["one", "two"]) {
        kill(Pid::from_raw(one.id().cast_signed()), Signal::SIGINT).unwrap();
        let ended_with = one.wait_with_output().unwrap();
        assert!(ended_with.status.success(), "{}", complaint(&ended_with));
        let report = read(&bench.dir.path().join(format!("{base}.json")));
        assert_adds_up(&report);
        assert_eq!((&report["replay"]["lines"], ended(&report)), (&json!(4), [3, 0, 0]), "{report:#}");
    }
    // Only its own base is removed by a replay that begins afresh.
    let of_others = || ["/two", "/beside", "/d"].map(|path| bench.listed(path)).concat();
    let before = of_others();
    let short = bench.file("short.log", line(0, "create", "/other", "null"));
    let report = bench.replay(&short, &["--base", "/one", "--fresh"]);
    assert_eq!(ended(&report), [1, 0, 0]);
    assert!(bench.listed("/one/trace").contains("/one/trace/other\n"), "{}", bench.listed("/one"));
    assert!(!bench.listed("/one").contains("/d") && of_others() == before, "{before}");
}

#[test]
fn g3_two_that_want_one_base_do_not_share_it() {
    let bench = Bench::start();
    let trace = bench.file("trace.log", line(0, "create", "/f", "null"));
    let both = [0, 1].map(|_| start(&bench, "/same", trace.to_str().unwrap()));
    let ended = both.map(|one| one.wait_with_output().unwrap());
    let refused: Vec<String> = ended.iter().filter(|one| !one.status.success()).map(complaint).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].contains("give another --base"), "{refused:?}");
    assert!(fs::exists(bench.dir.path().join("same.json")).unwrap());
}

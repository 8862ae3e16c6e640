//! `trellis load`: where it writes. What is read stays, what cannot be written is told before any work, and what could not be
//! written whole is not there.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;
use tempfile::TempDir;

use crate::load::built;
use crate::support::{Up, complaint, output, trellis, wait};

fn names(dir: &TempDir) -> Vec<String> {
    let names =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// In this folder, with no more than so many blocks for each file: a disk that is full.
fn on_a_full_disk(dir: &TempDir, blocks: u32, args: &[&str]) -> Output {
    let command = trellis(args);
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let shell = ["-c", &script];
    let full =
        Command::new("sh").args(shell).arg(command.get_program()).args(args).current_dir(dir.path()).output();
    full.unwrap()
}

#[test]
fn no_output_takes_the_place_of_an_input() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["in", "other"] {
        fs::write(dir.path().join(name), "as it was").unwrap();
    }
    symlink("in", dir.path().join("link")).unwrap();
    let commands: [&[&str]; 9] = [
        &["replay", "in", "--report", "link", "--no-html"],
        &["run", "--workload", "open", "--disturb", "kill:in@1s", "--report", "link"],
        &["scale", "--config", "in", "--report", "link"],
        &["model", "--calibrate", "in", "--report", "link"],
        &["model", "--calibrate", "other", "--check", "other,in", "--report", "link"],
        &["show", "in", "--html", "link"],
        &["show", "other", "in", "--html", "link"],
        &["anonymise", "in", "--out", "link"],
        &["anonymise", "other", "--key", "in", "--out", "link"],
    ];
    for args in commands {
        let done = trellis(&[&["load"], args].concat()).current_dir(dir.path()).output().unwrap();
        let why = complaint(&done);
        assert!(!done.status.success() && why.contains(" reads; give another name"), "{args:?}: {why}");
        assert_eq!(names(&dir), ["in", "link", "other"], "{args:?}");
        assert_eq!(fs::read_to_string(dir.path().join("in")).unwrap(), "as it was", "{args:?}");
    }
    let two = ["load", "anonymise", "in", "--new-key", "new", "--out", "new"];
    let done = trellis(&two).current_dir(dir.path()).output().unwrap();
    assert!(complaint(&done).contains("that is where --out goes"), "{}", complaint(&done));
}

#[test]
fn where_nothing_can_be_written_is_told_before_any_work() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody listens there: whoever had begun would say so.
    let nobody = ["run", "--target", "hdfs://127.0.0.1:1", "--workload", "open"];
    let commands: [&[&str]; 6] = [
        &nobody,
        &["replay", "/dev/null", "--target", "hdfs://127.0.0.1:1"],
        &["scale"],
        &["model", "--calibrate", "nowhere"],
        &["show", "nowhere"],
        &["synth", "--lines", "1"],
    ];
    for (path, reason) in [(".", "that is a folder"), ("nowhere/x", "No such file")] {
        for args in commands {
            let option = match args[0] {
                "show" => "--html",
                "synth" => "--out",
                _ => "--report",
            };
            let args = [&["load"], args, &[option, path]].concat();
            let done = trellis(&args).current_dir(dir.path()).output().unwrap();
            let why = complaint(&done);
            assert!(!done.status.success() && why.contains(&format!("{option} {path}: ")), "{args:?}: {why}");
            assert!(why.contains(reason), "{args:?}: {why}");
            assert!(done.stdout.is_empty() && names(&dir).is_empty(), "{args:?}: {:?}", names(&dir));
        }
    }
}

#[test]
fn what_is_no_file_is_written_into_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    built(&up, "32");
    let outputs = tempfile::tempdir().unwrap();
    let [fifo, stdout] = ["fifo", "stdout"].map(|name| outputs.path().join(name));
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    symlink("/proc/self/fd/1", &stdout).unwrap();
    let run = |report: &Path| {
        let fixed = ["load", "run", "--target", &up.fs, "--workload", "fileStatus", "--clients", "2"];
        let brief = ["--warm-up", "0s", "--duration", "200ms", "--report", report.to_str().unwrap()];
        output(&[&fixed[..], &brief].concat())
    };
    let is_report = |text: &[u8]| {
        let report: Value = serde_json::from_slice(text).unwrap();
        assert_eq!(report["config"]["workload"], "fileStatus");
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| fs::read(&fifo).unwrap());
        let done = run(&fifo);
        assert!(done.status.success(), "{}", complaint(&done));
        is_report(&reader.join().unwrap());
    });
    // Alone: somebody may read it.
    let done = run(&stdout);
    assert!(done.status.success(), "{}", complaint(&done));
    is_report(&done.stdout);
    // Standard output is a file, and already written to.
    let text = outputs.path().join("text");
    let args = ["load", "synth", "--lines", "3", "--out", stdout.to_str().unwrap()];
    fs::write(&text, "first\n").unwrap();
    let appended = fs::OpenOptions::new().append(true).open(&text).unwrap();
    assert!(trellis(&args).stdout(appended).status().unwrap().success());
    let lines = fs::read_to_string(&text).unwrap();
    assert!(lines.starts_with("first\n") && lines.lines().count() == 4, "{lines}");
    assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo() && fs::read_link(&stdout).is_ok());
    assert_eq!(names(&outputs), ["fifo", "stdout", "text"], "no page either");
    // A page that finds no room leaves nothing.
    fs::write(outputs.path().join("r.json"), &done.stdout).unwrap();
    let lost = on_a_full_disk(&outputs, 1, &["load", "show", "r.json", "--html", "r.html"]);
    assert!(!lost.status.success() && complaint(&lost).contains("writing r.html"), "{}", complaint(&lost));
    assert_eq!(names(&outputs), ["fifo", "r.json", "stdout", "text"]);
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let made = output(&["load", "synth", "--lines", "3000", "--out", trace.to_str().unwrap()]);
    assert!(made.status.success(), "{}", complaint(&made));
    let commands: [&[&str]; 4] = [
        &["synth", "--lines", "3000", "--out", "new"],
        &["synth", "--lines", "3000", "--out", "new.gz"],
        &["anonymise", "trace", "--new-key", "key", "--out", "new"],
        &["anonymise", "trace", "--new-key", "key", "--out", "new.gz"],
    ];
    for args in commands {
        let done = on_a_full_disk(&dir, 8, &[&["load"], args].concat());
        let why = complaint(&done);
        assert!(!done.status.success() && why.contains("writing new"), "{args:?}: {why}");
        assert_eq!(names(&dir), ["trace"], "{args:?}");
    }
    // So it can be tried again.
    let again = ["load", "anonymise", "trace", "--new-key", "key", "--out", "new"];
    let done = trellis(&again).current_dir(dir.path()).output().unwrap();
    assert!(done.status.success(), "{}", complaint(&done));
    assert_eq!(names(&dir), ["key", "new", "trace"]);
    let done = trellis(&again).current_dir(dir.path()).output().unwrap();
    assert!(complaint(&done).contains("is there already: give another name"), "{}", complaint(&done));
}

#[test]
fn a_trace_that_is_stopped_is_not_there() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let dir = tempfile::tempdir().unwrap();
        // It waits for more to read.
        let args = ["load", "anonymise", "-", "--new-key", "key", "--out", "new.gz"];
        let mut command = trellis(&args);
        command.current_dir(dir.path()).stdin(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        wait(|| names(&dir).iter().filter(|name| name.ends_with(".tmp")).count() == 2);
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(!done.status.success() && complaint(&done).contains("stopped"), "{}", complaint(&done));
        assert!(names(&dir).is_empty(), "{:?}", names(&dir));
    }
}

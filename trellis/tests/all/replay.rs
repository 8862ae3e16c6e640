//! `trellis load replay`, `synth` and `anonymise`: every line is accounted for, in its order, and in its place.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::load::{assert_counts_agree, read};
use crate::support::{Up, complaint, is_long, output};

/// A trace of Spotify's mix, and the options that made it.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../loadgen/traces/spotify.log");
const SAMPLE_OPTIONS: &str =
    "--create-share 20 --files 200 --depth 3 --name-length 24 --lines 300 --rate 100 --users 5 --refused 2";

/// A line of an audit log, `ms` after the first; `!` before a command that was refused.
pub fn line(ms: u64, command: &str, src: &str, dst: &str) -> String {
    let (allowed, command) = (!command.starts_with('!'), command.trim_start_matches('!'));
    let (second, ms) = (ms / 1000, ms % 1000);
    format!(
        "2024-01-01 00:00:{second:02},{ms:03} INFO FSNamesystem.audit: allowed={allowed}\tugi=ann (auth:SIMPLE)\tip=/10.0.0.1\t\
         cmd={command}\tsrc={src}\tdst={dst}\tperm=null\tproto=rpc\n"
    )
}

pub struct Bench {
    pub dir: tempfile::TempDir,
    pub up: Up,
}

impl Bench {
    pub fn start() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let up = Up::start(&dir.path().join("data"), &[]);
        Bench { dir, up }
    }

    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Replays a trace and gives the report, in which every line is accounted for.
    pub fn replay(&self, trace: &Path, args: &[&str]) -> Value {
        let report = self.dir.path().join("report.json");
        let fixed = [
            "load",
            "replay",
            trace.to_str().unwrap(),
            "--target",
            &self.up.fs,
            "--metrics",
            &self.up.http[0],
        ];
        let done = output(&[&fixed[..], &["--report", report.to_str().unwrap()], args].concat());
        assert!(done.status.success(), "{args:?}: {}", complaint(&done));
        let shown = output(&["load", "show", report.to_str().unwrap()]);
        let [printed, shown] = [done.stdout, shown.stdout].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(printed.rsplit_once("report: ").unwrap().0, shown);
        let report = read(&report);
        assert_adds_up(&report);
        assert_counts_agree(&report);
        report
    }

    pub fn refused(&self, trace: &Path, args: &[&str]) -> String {
        let fixed = ["load", "replay", trace.to_str().unwrap(), "--target", &self.up.fs];
        let done = output(&[&fixed[..], args].concat());
        assert!(!done.status.success(), "{args:?}");
        complaint(&done)
    }

    pub fn listed(&self, path: &str) -> String {
        String::from_utf8(self.up.fs(&["ls", "-C", "-R", path]).stdout).unwrap()
    }
}

/// Each line that was read is in one count.
pub fn assert_adds_up(report: &Value) {
    let [lines, replayed] = ["lines", "replayed"].map(|name| report["replay"][name].as_u64().unwrap());
    assert_eq!(lines, replayed + skipped(report) + broken(report), "{report:#}");
    assert_eq!(ended(report).iter().sum::<u64>(), replayed, "{report:#}");
}

/// Successes, refused ones, errors.
pub fn ended(report: &Value) -> [u64; 3] {
    ["count", "refused", "errors"].map(|name| report["total"][name].as_u64().unwrap())
}

pub fn skipped(report: &Value) -> u64 {
    report["replay"]["skipped"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

pub fn broken(report: &Value) -> u64 {
    report["replay"]["broken"].as_array().unwrap().iter().map(|kind| kind["count"].as_u64().unwrap()).sum()
}

#[test]
fn every_line_is_accounted_for() {
    let bench = Bench::start();
    let mut text = fs::read_to_string(SAMPLE).unwrap().replacen('\n', "\r\n", 7);
    text += "\n";
    text += "rubbish\n";
    text += &line(0, "setAcl", "/a", "null");
    text += &line(0, "setAcl", "/b", "null");
    text += &line(0, "levitate", "/b", "null");
    text += &line(0, "open", "/.reserved/.inodes/16386", "null");
    text += &line(0, "concat", "[/a, /b", "/c");
    text += &format!("{}\n", "x".repeat(3 << 20));
    text += &line(0, "open", "/cut/here", "null")[..125];
    let trace = bench.file("trace.log", text);
    for speed in ["max", "20"] {
        let report = bench.replay(&trace, &["--speed", speed, "--fresh"]);
        let refused = fs::read_to_string(SAMPLE).unwrap().matches("allowed=false").count() as u64;
        assert_eq!(
            (report["replay"]["lines"].as_u64(), report["replay"]["replayed"].as_u64()),
            (Some(309), Some(300))
        );
        assert_eq!(ended(&report), [300 - refused, refused, 0], "{report:#}");
        assert_eq!(
            report["replay"]["skipped"],
            serde_json::json!({
                "empty": 1,
                "the log does not say what was set": 2,
                "the command is not known": 1,
                "the path begins with /.reserved": 1,
            })
        );
        let broken = report["replay"]["broken"].as_array().unwrap();
        assert_eq!(broken.len(), 4, "{broken:#?}");
        assert!(
            broken.iter().all(|kind| kind["example"].as_str().unwrap().starts_with("line 30")),
            "{broken:#?}"
        );
        assert_eq!(report["replay"]["unexplained"], 0);
        let is_open_loop = report["open_loop"]["offered"].as_u64() == Some(300);
        assert_eq!(
            (is_open_loop, report["replay"]["rate_error_percent"].is_number()),
            (speed != "max", speed != "max")
        );
    }
    // The same again from a packed file, by the users that it names.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &fs::read(SAMPLE).unwrap()).unwrap();
    let trace = bench.file("trace.gz", packed.finish().unwrap());
    let report = bench.replay(&trace, &["--speed", "max", "--as-logged", "--base", "/many"]);
    assert_eq!((ended(&report)[2], report["replay"]["replayed"].as_u64()), (0, Some(300)), "{report:#}");
    let owners = String::from_utf8(bench.up.fs(&["ls", "-R", "/many/trace"]).stdout).unwrap();
    assert!(owners.contains(" user000 ") && owners.contains(" user004 "), "{owners}");
}

#[test]
fn lines_that_touch_one_another_run_in_their_order() {
    let bench = Bench::start();
    let mut text = String::new();
    let mut ms = 0;
    let mut add = |command: &str, src: &str, dst: &str| {
        text += &line(ms, command, src, dst);
        ms += 1;
    };
    // Nothing of this works in another order. Other paths keep all clients busy meanwhile.
    for round in 0..150 {
        add("create", "/one/f", "null");
        add("getfileinfo", &format!("/other/{round}"), "null");
        add("rename (options=[NONE])", "/one/f", "/one/g");
        add("append", "/one/g", "null");
        add("delete", "/one/g", "null");
        add("mkdirs", "/d/e", "null");
        add("create", "/d/e/f", "null");
        add("rename", "/d", "/moved");
        add("setReplication", "/moved/e/f", "null");
        add("delete", "/moved", "null");
        // The first makes the second's directory once more.
        add("create", "/d/x/f", "null");
        add("rename (options=[OVERWRITE])", "/once", "/d/x/once");
        add("rename (options=[OVERWRITE])", "/d/x/once", "/once");
        add("delete", "/d", "null");
    }
    let trace = bench.file("trace.log", text);
    for speed in ["max", "1000"] {
        let report =
            bench.replay(&trace, &["--speed", speed, "--clients", "64", "--connections", "8", "--fresh"]);
        assert_eq!(ended(&report), [150 * 14, 0, 0], "{report:#}");
        assert!(report["replay"]["waited"].as_u64().unwrap() > 0);
        let listed = bench.listed("/replay/trace");
        let left: Vec<&str> = listed.lines().filter(|path| !path.contains("/other")).collect();
        assert_eq!(left, ["/replay/trace/once", "/replay/trace/one"], "{listed}");
    }
}

#[test]
fn what_was_refused_is_refused_and_changes_nothing() {
    let bench = Bench::start();
    let mut text = String::new();
    for command in
        ["!delete", "!open", "!create", "!mkdirs", "!setPermission", "!getfileinfo", "!listStatus", "!append"]
    {
        text += &line(0, command, "/d/f", "null");
    }
    text += &line(0, "!rename", "/d/f", "/d/g");
    text += &line(0, "!rename (options=[OVERWRITE])", "/d/f", "/d/g");
    text += &line(0, "open", "/d/f", "null");
    // What replaces a path that lies beside the base must not, either.
    text += &line(1, "delete", "/outside", "null");
    let trace = bench.file("trace.log", text);
    assert!(bench.up.fs(&["mkdir", "/outside"]).status.success());
    for users in [&[][..], &["--as-logged"]] {
        let report = bench.replay(&trace, &[&["--fresh", "--speed", "max"], users].concat());
        assert_eq!(ended(&report), [2, 10, 0], "{report:#}");
        assert_eq!(
            bench.listed("/replay/trace").lines().collect::<Vec<_>>(),
            ["/replay/trace/d", "/replay/trace/d/f"]
        );
        assert!(bench.listed("/").lines().any(|path| path == "/outside"));
    }
}

#[test]
fn names_are_what_was_escaped_and_lines_that_nothing_explains_are_told() {
    let bench = Bench::start();
    let text = [
        line(0, "create", "/odd/tab\\there", "null"),
        line(0, "create", "/odd/\\u00FC\\uD834\\uDD1E \\\"q\\\"", "null"),
        line(0, "open", "/odd/line\\nend", "null"),
        line(0, "concat", "[/odd/a, /odd/b,c]", "/odd/t"),
        line(1, "delete", "/odd/gone", "null"),
        line(2, "open", "/odd/gone", "null"),
    ];
    let trace = bench.file("trace.log", text.concat());
    let report = bench.replay(&trace, &[]);
    // Empty files are not joined, and what the trace deleted itself is not there.
    assert_eq!(ended(&report), [4, 0, 2], "{report:#}");
    assert_eq!(report["replay"]["unexplained"], 1);
    let kinds: Vec<&str> =
        report["errors"].as_array().unwrap().iter().map(|error| error["kind"].as_str().unwrap()).collect();
    assert!(kinds.iter().any(|kind| kind.ends_with("FileNotFoundException")), "{kinds:?}");
    let names = bench.up.fs(&["stat", "%n", "/replay/trace/odd/*"]).stdout;
    let names = String::from_utf8(names).unwrap();
    for name in ["tab\there", "ü𝄞 \"q\"", "line\nend", "a", "b,c", "t"] {
        assert!(names.contains(&format!("{name}\n")), "{name:?} is not in {names:?}");
    }
}

#[test]
fn a_seed_gives_a_trace_and_its_names_can_be_taken_out() {
    let bench = Bench::start();
    let (made, key) = (bench.dir.path().join("made.log"), bench.dir.path().join("key"));
    let options: Vec<&str> = SAMPLE_OPTIONS.split(' ').collect();
    let synth =
        |out: &Path| output(&[&["load", "synth", "--out", out.to_str().unwrap()], &options[..]].concat());
    assert!(synth(&made).status.success());
    assert!(fs::read(&made).unwrap() == fs::read(SAMPLE).unwrap(), "the sample is not what its options give");
    assert!(complaint(&synth(&made)).contains("is there already"), "what is there is not overwritten");
    let piped = output(&[&["load", "synth"], &options[..]].concat());
    assert!(piped.stdout == fs::read(SAMPLE).unwrap());

    let nameless = |key_option: &str, out: &str| {
        let out = bench.dir.path().join(out);
        let fixed =
            ["load", "anonymise", SAMPLE, key_option, key.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let done = output(&fixed);
        assert!(done.status.success(), "{}", complaint(&done));
        let secret = fs::read_to_string(&key).unwrap();
        let said = [done.stdout, done.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains(secret.trim()));
        out
    };
    let (first, second) = (nameless("--new-key", "first.log"), nameless("--key", "second.log"));
    let text = fs::read_to_string(&first).unwrap();
    assert!(text == fs::read_to_string(&second).unwrap(), "one key gives one trace");
    assert!(!text.contains("user00") && !text.contains("data") && !text.contains("10.0.0."), "{text}");
    let [named, nameless] =
        [Path::new(SAMPLE), &first].map(|trace| bench.replay(trace, &["--speed", "max", "--fresh"]));
    assert_eq!(ended(&named), ended(&nameless));
    for count in ["prepared_dirs", "prepared_files", "unexplained"] {
        assert_eq!(named["replay"][count], nameless["replay"][count], "{count}");
    }
}

#[test]
fn what_cannot_be_replayed_is_said_before_anything_is_done() {
    let bench = Bench::start();
    let sample = Path::new(SAMPLE);
    assert!(bench.refused(Path::new("/nowhere/x.log"), &[]).contains("opening /nowhere/x.log"));
    assert!(bench.refused(Path::new("-"), &[]).contains("read twice"));
    let pipe = bench.dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(bench.refused(&pipe, &[]).contains("pipe is no regular file"));
    assert!(bench.refused(sample, &["--speed", "0"]).contains("--speed is max, or from"));
    assert!(bench.refused(sample, &["--speed", "fast"]).contains("a number such as 10, or max"));
    assert!(
        bench.refused(sample, &["--from", "2s", "--until", "1s"]).contains("--from must be before --until")
    );
    assert!(bench.refused(sample, &["--from", "1h"]).contains("none of the 300 lines can be replayed"));
    assert!(bench.refused(sample, &["--base", "/"]).contains("absolute path below the root"));
    assert!(bench.refused(&bench.file("cut.gz", b"\x1f\x8b\x08\x00"), &[]).contains("cut.gz"));
    assert_eq!(bench.listed("/"), "");
    assert!(bench.up.fs(&["mkdir", "-p", "/taken/x"]).status.success());
    assert!(bench.refused(sample, &["--base", "/taken", "--fresh"]).contains("holds something else"));
    let part = bench.replay(sample, &["--speed", "max", "--limit", "100", "--until", "500ms"]);
    assert_eq!(part["replay"]["lines"], 100);
    let outside = part["replay"]["skipped"]["outside of --from and --until"].as_u64().unwrap();
    assert!(outside > 0 && part["replay"]["replayed"].as_u64().unwrap() == 100 - outside);
    assert!(bench.refused(sample, &[]).contains("--fresh deletes it"));
}

/// The measure of a replay: it keeps its pace within 1 %, from the trace's own to a hundred times that, and loses no line.
/// That of the short form is too short for the first half.
#[test]
fn a_replay_keeps_its_pace_and_loses_no_line() {
    const PACE: u64 = 20;
    let lines: u64 = if is_long() { 100_000 } else { 1000 };
    let bench = Bench::start();
    let trace = bench.dir.path().join("trace.log");
    let mut options = String::new();
    write!(
        options,
        "load synth --files 5000 --refused 1 --lines {lines} --rate {PACE} --out {}",
        trace.display()
    )
    .unwrap();
    let made = output(&options.split(' ').collect::<Vec<_>>());
    assert!(made.status.success(), "{}", complaint(&made));
    for speed in [1, 10, 100] {
        let seconds = if is_long() { 100 } else { 2 };
        let part = lines.min(seconds * PACE * speed);
        let report =
            bench.replay(&trace, &["--speed", &speed.to_string(), "--limit", &part.to_string(), "--fresh"]);
        let replay = &report["replay"];
        assert_eq!((replay["lines"].as_u64(), replay["replayed"].as_u64()), (Some(part), Some(part)));
        assert_eq!(ended(&report)[2], 0, "{report:#}");
        assert_eq!(report["open_loop"]["offered"], part);
        let error = replay["rate_error_percent"].as_f64().unwrap();
        assert!(!is_long() || error.abs() < 1.0, "×{speed}: off by {error} %");
    }
}

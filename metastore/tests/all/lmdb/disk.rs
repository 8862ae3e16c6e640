//! Disks: what is on them before an answer, full ones, and ones that fail.

use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::Trial;
use trellis_metastore::lmdb::{Lmdb, LmdbConfig};
use trellis_metastore::schema::{Setting, setting};
use trellis_metastore::store::{Store, StoreError};
use trellis_metastore::work::{End, Ran};

use super::crash::{blind, key};
use super::process::{Process, say};
use super::{Ends, increment, number, open, open_as, rows, send, start, trial};
use crate::backends::runtime;

/// The file system that is filled.
const SMALL_DISK: &str = "8m";

pub fn trials() -> Vec<Trial> {
    let strace = runs("strace", &["-o", "/dev/null", "-e", "inject=fdatasync:error=EIO:when=99", "true"]);
    let mount = runs("sh", &["-c", &mounting("true")]);
    let strace = |test: Trial| needing(test, strace, "strace");
    let mounted = |test: Trial| needing(test, mount, "unshare, mount");
    vec![
        strace(trial("disk_nothing_is_answered_before_it_is_written", synced_before_the_answer)),
        strace(trial("disk_a_commit_that_fails_once_runs_again", failing_once)),
        strace(trial("disk_a_commit_that_fails_is_not_answered_and_not_seen", failing)),
        strace(trial("disk_a_failed_write_of_the_root_is_of_unknown_outcome", failing_root)),
        strace(trial("disk_nothing_is_answered_before_the_log_is_written", log_synced_before_the_answer)),
        strace(trial("disk_a_failed_sync_of_the_log_is_of_unknown_outcome", failing_log)),
        mounted(trial("disk_full_is_an_error_and_reads_go_on", |_| full_disk("fill-the-disk"))),
        mounted(trial("disk_full_under_a_log_is_an_error_and_reads_go_on", |_| {
            full_disk("fill-the-disk-with-log");
        })),
    ]
}

/// A test that is shown as ignored, with what it needs, where that is not there.
fn needing(test: Trial, there: bool, what: &str) -> Trial {
    if there { test } else { test.with_kind(format!("needs {what}")).with_ignored_flag(true) }
}

/// Whether a helper program is there and may do its work.
fn runs(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Runs a child under strace with these calls failing; returns the log of its calls and what it said.
fn traced(dir: &Path, role: &str, inject: Option<&str>) -> (String, String) {
    let (log, store) = (dir.join("strace"), dir.join("store"));
    if !store.exists() {
        std::fs::create_dir(&store).unwrap();
    }
    let (calls, log_name) =
        ("trace=openat,pwrite64,pwritev,fdatasync,fsync,msync,write", log.display().to_string());
    let mut starter = vec!["strace", "-f", "-e", calls, "-o", &log_name];
    starter.extend(inject.iter().flat_map(|inject| ["-e", inject]));
    let said = Process::start_under(&starter, role, &store).finish();
    (std::fs::read_to_string(&log).unwrap(), said)
}

fn synced_before_the_answer(dir: &Path) {
    let (log, _) = traced(dir, "commit-once", None);
    // strace splits calls of several threads; the line in which a call returns ends with its result either way.
    let lines: Vec<&str> = log.lines().collect();
    let begin = position(&lines, 0, |line| line.contains("\"begin"));
    let root_write = format!("pwrite64({}, ", root_fd(&lines));
    let pages = position(&lines, begin, |line| line.contains("pwrite"));
    let synced = position(&lines, pages, |line| line.contains("fdatasync") && line.ends_with("= 0"));
    let root = position(&lines, synced, |line| line.contains(&root_write));
    let answer = position(&lines, begin, |line| line.contains("\"answered"));
    assert!(pages < synced && synced < root && root < answer, "{log}");
    // The write of the root is durable when it returns; it must have returned.
    let returned = lines[root].contains(") = ")
        || lines[root..answer].iter().any(|line| line.contains("pwrite64 resumed") && line.contains(") = "));
    assert!(returned, "{log}");
}

fn log_synced_before_the_answer(dir: &Path) {
    let (log, _) = traced(dir, "commit-once-with-log", None);
    let lines: Vec<&str> = log.lines().collect();
    let opened = lines.iter().find(|line| line.contains("log.0") && line.contains("O_CREAT")).unwrap();
    let append = format!("pwrite64({}, ", opened.rsplit("= ").next().unwrap().trim());
    let begin = position(&lines, 0, |line| line.contains("\"begin"));
    let answer = position(&lines, begin, |line| line.contains("\"answered"));
    let appended = lines[..answer].iter().rposition(|line| line.contains(&append)).unwrap();
    let synced = position(&lines, appended, |line| line.contains("fdatasync") && line.ends_with("= 0"));
    assert!(begin < appended && synced < answer, "{log}");
}

fn failing_log(dir: &Path) {
    let (log, said) = traced(dir, "commit-twice-with-log", Some("inject=fdatasync:error=EIO:when=2+"));
    assert!(said.contains("second Failed(MaybeCommitted("), "{said}\n{log}");
    let number = number(&open(&dir.join("store")), "x");
    assert!([1, 2].contains(&number), "{number}");
}

/// The descriptor through which roots are written: each write is on disk when it returns.
fn root_fd<'l>(lines: &[&'l str]) -> &'l str {
    let opened =
        |line: &&&str| line.contains("data.mdb") && line.contains("O_DSYNC") && !line.contains("= -1");
    let line = lines.iter().find(opened).expect("no file is opened O_DSYNC");
    line.rsplit("= ").next().unwrap().trim()
}

fn position(lines: &[&str], from: usize, wanted: impl Fn(&str) -> bool) -> usize {
    let found = lines.iter().skip(from).position(|line| wanted(line));
    from + found.unwrap_or_else(|| panic!("a call is missing after line {from}:\n{}", lines.join("\n")))
}

/// A child: one durable operation, announced before and answered after.
pub fn commit_once(dir: &Path, config: LmdbConfig) {
    let store = open_as(dir, config);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    say("begin");
    send(&writer, ends.op(0, |tx| increment(tx, "x")));
    assert_eq!(ends.next().1, End::Answered);
    say("answered");
}

fn failing_once(dir: &Path) {
    let (_, said) = traced(dir, "commit-twice", Some("inject=fdatasync:error=EIO:when=2"));
    assert!(said.contains("second Answered, 2 commits, 1 retries, number 2"), "{said}");
    assert_eq!(number(&open(&dir.join("store")), "x"), 2);
}

fn failing(dir: &Path) {
    let (_, said) = traced(dir, "commit-twice", Some("inject=fdatasync:error=EIO:when=2+"));
    assert!(said.contains("second Failed(Unavailable("), "{said}");
    assert!(said.contains("1 commits, 6 retries, number 1"), "{said}");
    let store = open(&dir.join("store"));
    assert_eq!(number(&store, "x"), 1);
    let (writer, _runtime) = start(&store, 5);
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "x")));
    assert_eq!(ends.next().1, End::Answered, "the next process goes on");
}

fn failing_root(dir: &Path) {
    // Which of the writing thread's calls it is, from a run in which it succeeds.
    let (log, _) = traced(dir, "commit-twice", None);
    let lines: Vec<&str> = log.lines().collect();
    let root_write = format!("pwrite64({}, ", root_fd(&lines));
    let second = lines.iter().rposition(|line| line.contains(&root_write)).unwrap();
    let thread = lines[second].split_whitespace().next().unwrap();
    let own = |line: &&&str| line.starts_with(thread) && line.contains("pwrite64(");
    let place = lines[..=second].iter().filter(own).count();
    let again = dir.join("again");
    std::fs::create_dir(&again).unwrap();
    let inject = format!("inject=pwrite64:error=EIO:when={place}");
    let (log, said) = traced(&again, "commit-twice", Some(&inject));
    assert!(said.contains("second Failed(MaybeCommitted("), "{said}\n{log}");
    let number = number(&open(&again.join("store")), "x");
    assert!([1, 2].contains(&number), "{number}");
}

/// A child: two operations, one after the other; says how the second ended.
pub fn commit_twice(dir: &Path, config: LmdbConfig) {
    let store = open_as(dir, config);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "x")));
    assert_eq!(ends.next().1, End::Answered);
    send(&writer, ends.op(0, |tx| increment(tx, "x")));
    let (_, end) = ends.next();
    let counted = store.counters().read();
    let number = match end {
        End::Failed(StoreError::MaybeCommitted(_)) => "unknown".to_string(),
        _ => number(&store, "x").to_string(),
    };
    say(&format!(
        "second {end:?}, {} commits, {} retries, number {number}",
        counted.commits, counted.retries
    ));
}

/// A shell script that runs another, with the same `$0`, where /mnt is a small disk that goes away with it.
fn mounting(then: &str) -> String {
    let inside = format!("sh -c 'mount -t tmpfs -o size={SMALL_DISK} trellis-test /mnt && {then}' \"$0\"");
    match nix::unistd::Uid::effective().is_root() {
        true => format!("unshare --mount {inside}"),
        false => format!("unshare --user --map-root-user --mount {inside}"),
    }
}

fn full_disk(role: &str) {
    let script = mounting("exec \"$0\"");
    let child = Process::start_under(&["sh", "-c", &script], role, Path::new("/mnt"));
    assert!(child.finish().contains("all is well"));
}

/// A child on a small disk: fills it, reads on, frees some, writes on, opens again.
pub fn fill_the_disk(dir: &Path, config: LmdbConfig) {
    let store = open_as(dir, config);
    std::fs::write(dir.join("ballast"), vec![1; 3 << 20]).unwrap();
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    let runtime = runtime();
    let mut written = 0;
    let full = loop {
        match runtime.block_on(store.commit(&[blind(key(1, written), vec![written as u8; 8000])])) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 10_000, "the disk is never full");
    };
    assert!(matches!(full, StoreError::Full(_)), "{full:?}");
    assert!(written > 100, "{written}");
    all_there(&store, written);
    // The writer says the same to each operation, and goes on.
    let large = |n: u64, rows: u64| {
        ends.op(n as usize, move |tx| {
            let text = "x".repeat(8000);
            for i in 0..rows {
                tx.insert(&setting(&format!("{n} {i}")), &Setting { number: 0, text: text.clone() })?;
            }
            Ok(Ran::Done)
        })
    };
    (0..3).for_each(|n| send(&writer, large(n, 100)));
    for (_, end) in ends.take(3) {
        assert!(matches!(end, End::Failed(StoreError::Full(_))), "{end:?}");
    }
    all_there(&store, written);
    std::fs::remove_file(dir.join("ballast")).unwrap();
    (0..2).for_each(|n| send(&writer, large(n, 20)));
    assert_eq!(ends.take(2), [(0, End::Answered), (1, End::Answered)]);
    runtime.block_on(store.commit(&[blind(key(1, written), vec![written as u8; 8000])])).unwrap();
    all_there(&store, written + 1);
    drop(writer);
    drop(store);
    let store = open(dir);
    all_there(&store, written + 1);
    say("all is well");
}

fn all_there(store: &Lmdb, written: u64) {
    let rows = rows(store, 1);
    assert_eq!(rows.len() as u64, written);
    for (n, (_, row)) in rows.iter().enumerate() {
        assert!(row.value.iter().all(|byte| *byte == n as u8) && row.value.len() == 8000);
    }
}

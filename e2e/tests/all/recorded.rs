//! Answers compared with tables that were recorded from the stock NameNode.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::hadoop::{folder, stdout_of};
use e2e::recording::{exchanges, matches_recorded, table, transcript};
use e2e::server::{Server, Shape, target_is_stock};
use e2e::table::Columns;

/// What the stock benchmark is asked to do.
const NNBENCH: [&str; 6] = ["create", "mkdirs", "open", "fileStatus", "rename", "delete"];
/// The soft limit of leases that Trellis is given; stock's is fixed.
const LEASE_SOFT: &str = "lease_soft=3s";

/// The stock shell prints and answers what it does against the stock NameNode; the commands go to the namenodes in turn.
pub fn shell(namenodes: usize) -> Result<Vec<String>> {
    let server = Server::start(namenodes, 0)?;
    let recorded = folder().join("wire/shell.txt");
    let actual = server.hadoop().probe("Shells", &server.urls(), Some(&recorded))?;
    matches_recorded("shell.txt", &actual, transcript, Columns { key: 1, compared: 2 })
}

/// Cases from the field, step by step.
pub fn cases(namenodes: usize) -> Result<Vec<String>> {
    let server = Server::start(namenodes, 0)?;
    let actual = server.hadoop().probe("CaseProbe", &server.urls(), None)?;
    matches_recorded("cases.tsv", &actual, table, Columns { key: 2, compared: 4 })
}

/// Cases from the field that need data.
pub fn data_cases(namenodes: usize) -> Result<Vec<String>> {
    let server = Server::of(&Shape { settings: vec![LEASE_SOFT], ..Shape::new(namenodes, 3) })?;
    let soft = if target_is_stock() { Duration::from_mins(1) } else { Duration::from_secs(3) };
    let mut command = server.hadoop().command(&["probe", "DataProbe"]);
    command.args(server.urls()).env("HADOOP_OPTS", format!("-Dsoft={}", soft.as_millis()));
    let output = command.output().context("running DataProbe")?;
    let actual = stdout_of("DataProbe", &output)?;
    let notes = matches_recorded("datacases.tsv", &actual, table, Columns { key: 2, compared: 4 })?;
    server.stop_and_check()?;
    Ok(notes)
}

/// Every namespace operation as superuser, owner, member of the group and stranger.
pub fn who_may(namenodes: usize) -> Result<Vec<String>> {
    let server = Server::start(namenodes, 0)?;
    let actual = server.hadoop().probe("WhoMay", &server.urls(), None)?;
    matches_recorded("whomay.tsv", &actual, table, Columns { key: 2, compared: 5 })
}

/// Calls that are wrong in one way each: exception class and error code.
pub fn errors() -> Result<Vec<String>> {
    let server = Server::start(1, 1)?;
    let actual = server.hadoop().probe("ErrProbe", &[], None)?;
    matches_recorded("errors.tsv", &actual, table, Columns { key: 1, compared: 3 })
}

/// Well- and ill-formed connections, byte by byte.
pub fn wire() -> Result<Vec<String>> {
    exchanges_with("rpcprobe.py", "rpcprobe.txt")
}

/// The fields of every kind of answer, absent ones included.
pub fn fields() -> Result<Vec<String>> {
    exchanges_with("callprobe.py", "calls.txt")
}

fn exchanges_with(program: &str, recorded: &str) -> Result<Vec<String>> {
    let server = Server::start(1, 0)?;
    let mut command = Command::new(folder().join("harness").join(program));
    let output =
        command.arg(server.ports()?[0].to_string()).output().with_context(|| format!("running {program}"))?;
    let actual = stdout_of(program, &output)?;
    matches_recorded(recorded, &actual, exchanges, Columns { key: 1, compared: 2 })
}

/// The stock benchmark runs to its end, operation by operation.
pub fn nnbench() -> Result<Vec<String>> {
    let server = Server::start(1, 0)?;
    let operations = tempfile::NamedTempFile::new()?;
    fs::write(operations.path(), NNBENCH.join("\n"))?;
    let arguments = ["0", "4", "200"].map(str::to_owned); // no CPU time, 4 threads, 200 operations of each kind
    let printed = server.hadoop().probe("NnBench", &arguments, Some(operations.path()))?;
    let done: Vec<&str> = printed.lines().filter(|line| line.split('\t').nth(1) == Some("0")).collect();
    ensure!(done.len() == NNBENCH.len(), "not every operation ended well:\n{printed}");
    Ok(Vec::new())
}

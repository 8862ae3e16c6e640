//! Answers compared with tables that were recorded from the stock NameNode.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::hadoop::{folder, stdout_of};
use e2e::server::{Server, target_is_stock};
use e2e::table::{Columns, Exclusions, compare};

/// What the stock benchmark is asked to do.
const NNBENCH: [&str; 6] = ["create", "mkdirs", "open", "fileStatus", "rename", "delete"];

/// The stock shell prints and answers what it does against the stock NameNode; the commands go to the namenodes in turn.
pub fn shell(namenodes: usize) -> Result<Vec<String>> {
    let server = Server::start(namenodes, false)?;
    let recorded = folder().join("wire/shell.txt");
    let expected = read(&recorded)?;
    let actual = server.hadoop().probe("Shells", &server.urls(), Some(&recorded))?;
    let columns = Columns { key: 1, compared: 2 };
    compare(&transcript(&expected), &transcript(&actual), columns, &excluded("shell-excluded.tsv")?)
}

/// One row a command: its line, then its exit code and output.
fn transcript(text: &str) -> String {
    let mut table = String::from("command\tanswer");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with(['=', '|', '!']) {
            table.push_str(&line.replace('\t', " "));
            table.push(' ');
        } else {
            let _ = write!(table, "\n{line}\t");
        }
    }
    table
}

/// Cases from the field, step by step.
pub fn cases(namenodes: usize) -> Result<Vec<String>> {
    let server = Server::start(namenodes, false)?;
    let actual = server.hadoop().probe("CaseProbe", &server.urls(), None)?;
    let columns = Columns { key: 2, compared: 4 };
    compare(&wire_table("cases.tsv")?, &actual, columns, &excluded("cases-excluded.tsv")?)
}

/// Every namespace operation as superuser, owner, member of the group and stranger.
pub fn who_may(namenodes: usize) -> Result<Vec<String>> {
    let server = Server::start(namenodes, false)?;
    let actual = server.hadoop().probe("WhoMay", &server.urls(), None)?;
    let columns = Columns { key: 2, compared: 5 };
    compare(&wire_table("whomay.tsv")?, &actual, columns, &excluded("whomay-excluded.tsv")?)
}

/// Calls that are wrong in one way each: exception class and error code.
pub fn errors() -> Result<Vec<String>> {
    let server = Server::start(1, true)?;
    let actual = server.hadoop().probe("ErrProbe", &[], None)?;
    let columns = Columns { key: 1, compared: 3 };
    compare(&wire_table("errors.tsv")?, &actual, columns, &excluded("errors-excluded.tsv")?)
}

/// Well- and ill-formed connections, byte by byte.
pub fn wire() -> Result<Vec<String>> {
    exchanges_with("rpcprobe.py", "rpcprobe.txt", "rpcprobe-excluded.tsv")
}

/// The fields of every kind of answer, absent ones included.
pub fn fields() -> Result<Vec<String>> {
    exchanges_with("callprobe.py", "calls.txt", "calls-excluded.tsv")
}

fn exchanges_with(program: &str, recorded: &str, exclusions: &str) -> Result<Vec<String>> {
    let server = Server::start(1, false)?;
    let mut command = Command::new(folder().join("harness").join(program));
    let output = command.arg(server.port()).output().with_context(|| format!("running {program}"))?;
    let actual = stdout_of(program, &output)?;
    let columns = Columns { key: 1, compared: 2 };
    compare(&exchanges(&wire_table(recorded)?), &exchanges(&actual), columns, &excluded(exclusions)?)
}

fn exchanges(text: &str) -> String {
    let mut table = String::from("exchange\tanswer");
    for line in text.lines() {
        match line.strip_prefix("## ") {
            Some(name) => {
                let _ = write!(table, "\n{name}\t");
            }
            None => table.push_str(&line.replace('\t', " ")),
        }
    }
    table
}

/// The stock benchmark runs to its end, operation by operation.
pub fn nnbench() -> Result<Vec<String>> {
    let server = Server::start(1, false)?;
    let operations = tempfile::NamedTempFile::new()?;
    fs::write(operations.path(), NNBENCH.join("\n"))?;
    let arguments = ["0", "4", "200"].map(str::to_owned); // no CPU time, 4 threads, 200 operations of each kind
    let printed = server.hadoop().probe("NnBench", &arguments, Some(operations.path()))?;
    let done: Vec<&str> = printed.lines().filter(|line| line.split('\t').nth(1) == Some("0")).collect();
    ensure!(done.len() == NNBENCH.len(), "not every operation ended well:\n{printed}");
    Ok(Vec::new())
}

fn wire_table(name: &str) -> Result<String> {
    read(&folder().join("wire").join(name))
}

fn read(path: &PathBuf) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// What is not compared yet; the stock NameNode must do it all. No file, no exclusions.
fn excluded(name: &str) -> Result<Exclusions> {
    let path = folder().join(name);
    if target_is_stock() || !path.exists() { Ok(Exclusions::default()) } else { Exclusions::read(&path) }
}

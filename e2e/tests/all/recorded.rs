//! Answers compared with tables that were recorded from the stock NameNode.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::hadoop::{folder, stdout_of};
use e2e::server::{Server, target_is_stock};
use e2e::table::{Columns, Exclusions, compare};

/// The stock shell prints and answers what it does against the stock NameNode; the commands go to the namenodes in turn.
pub fn shell(namenodes: usize) -> Result<Vec<String>> {
    let server = Server::start(namenodes, false)?;
    let recorded = folder().join("wire/shell.txt");
    let expected = read(&recorded)?;
    let actual = server.hadoop().probe("Shells", &server.urls(), Some(&recorded))?;
    // one row a command: the line, then its answers; commands repeat, so each is numbered
    let columns = Columns { key: 2, compared: 3 };
    compare(&transcript(&expected), &transcript(&actual), columns, &excluded("shell-excluded.tsv")?)
}

fn transcript(text: &str) -> String {
    let mut table = String::from("number\tcommand\tanswer");
    let mut number = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with(['=', '|', '!']) {
            table.push_str(&line.replace('\t', " "));
            table.push(' ');
        } else {
            number += 1;
            table.push_str(&format!("\n{number:04}\t{line}\t"));
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
    let server = Server::start(1, false)?;
    let output = Command::new(folder().join("harness/rpcprobe.py"))
        .arg(server.port())
        .output()
        .context("rpcprobe.py")?;
    let actual = stdout_of("rpcprobe.py", &output)?;
    let columns = Columns { key: 1, compared: 2 };
    compare(&exchanges(&wire_table("rpcprobe.txt")?), &exchanges(&actual), columns, &Exclusions::default())
}

fn exchanges(text: &str) -> String {
    let mut table = String::from("exchange\tanswer");
    for line in text.lines() {
        match line.strip_prefix("## ") {
            Some(name) => table.push_str(&format!("\n{name}\t")),
            None => table.push_str(&line.replace('\t', " ")),
        }
    }
    table
}

/// The stock benchmark runs to its end, operation by operation.
pub fn nnbench() -> Result<Vec<String>> {
    let server = Server::start(1, false)?;
    let operations = ["create", "mkdirs", "open", "fileStatus", "rename", "delete"];
    let mut arguments = vec!["4".to_owned(), "200".to_owned()];
    arguments.extend(operations.map(str::to_owned));
    let printed = server.hadoop().probe("NnBench", &arguments, None)?;
    let done: Vec<&str> = printed.lines().filter(|line| line.split('\t').nth(1) == Some("0")).collect();
    ensure!(done.len() == operations.len(), "not every operation ended well:\n{printed}");
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

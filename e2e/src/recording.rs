//! Recordings of what stock answers, under `hadoop/wire`: read, compared with, and written anew.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use crate::hadoop::folder;
use crate::server::target_is_stock;
use crate::table::{Columns, Exclusions, compare};

/// Compares with `wire/NAME`, less the rows of `NAME-excluded.tsv` (NAME without its end), which the stock kind must
/// give all the same. `rows` makes a table of a recording. With `E2E_RECORD=1` and the stock kind, writes it instead.
pub fn matches_recorded(
    name: &str,
    actual: &str,
    rows: impl Fn(&str) -> String,
    columns: Columns,
) -> Result<Vec<String>> {
    let path = folder().join("wire").join(name);
    if recording() {
        fs::write(&path, actual).with_context(|| format!("writing {}", path.display()))?;
        return Ok(vec![format!("{name} was recorded")]);
    }
    let expected = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let stem = name.split('.').next().unwrap_or(name);
    let list = folder().join(format!("{stem}-excluded.tsv"));
    let excluded =
        if target_is_stock() || !list.exists() { Exclusions::default() } else { Exclusions::read(&list)? };
    compare(&rows(&expected), &rows(actual), columns, &excluded)
}

/// True with `E2E_RECORD=1` and the stock kind: what is answered becomes what is expected.
pub fn recording() -> bool {
    target_is_stock() && std::env::var("E2E_RECORD").is_ok_and(|value| value == "1")
}

/// A table as it is.
pub fn table(text: &str) -> String {
    text.to_owned()
}

/// One row a shell command: its line, then its exit code and output.
pub fn transcript(text: &str) -> String {
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

/// One row an exchange: its name, then its lines.
pub fn exchanges(text: &str) -> String {
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

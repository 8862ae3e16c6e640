//! Hadoop's own file-system contract suites.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::hadoop::{folder, tail};
use e2e::recording::recording;
use e2e::server::{Server, target_is_stock};
use e2e::surefire::{Outcome, Test, read_folder};

const LIST: &str = "contract-expected.tsv";
const EXCLUDED: &str = "contract-excluded.tsv";

/// What is expected of a test that no list names.
const UNLISTED: &str = "to be in the list";

/// All suites. `contract-expected.tsv`, recorded from the stock NameNode and DataNode, says of every test whether it passes,
/// skips itself, or fails. `contract-excluded.tsv` has what ends otherwise against Trellis: the message it must fail with,
/// and the reason.
pub fn contract() -> Result<Vec<String>> {
    let server = Server::start(1, 1)?;
    let work = tempfile::tempdir().context("making a folder for the suites")?;
    let output = Command::new(folder().join("contract/run"))
        .arg(&server.urls()[0])
        .env("CONTRACT_WORK", work.path())
        .stdin(Stdio::null())
        .output()
        .context("running the contract suites")?;
    let reports = read_folder(&work.path().join("target/surefire-reports"))
        .with_context(|| tail(&String::from_utf8_lossy(&output.stdout), 40))?;
    if recording() {
        fs::write(folder().join(LIST), recorded(&reports))?;
        return Ok(vec![format!("{LIST} was recorded")]);
    }
    let excluded = if target_is_stock() { String::new() } else { read(EXCLUDED)? };
    let (wrong, notes) = judge(&read(LIST)?, &excluded, &reports);
    ensure!(wrong.is_empty(), "{} tests do not end as expected:\n{}", wrong.len(), wrong.join("\n"));
    Ok(notes)
}

/// The list of what every test does.
fn recorded(reports: &[Test]) -> String {
    let word = |outcome: &Outcome| match outcome {
        Outcome::Passed => "passes",
        Outcome::Skipped => "skips itself",
        Outcome::Failed(_) => "fails",
    };
    let mut lines: Vec<String> = reports
        .iter()
        .map(|test| format!("{}\t{}\t{}", test.suite, test.name, word(&test.outcome)))
        .collect();
    lines.sort();
    format!("suite\ttest\texpected\n{}\n", lines.join("\n"))
}

fn read(name: &str) -> Result<String> {
    let path = folder().join(name);
    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

fn judge(expected: &str, excluded: &str, reports: &[Test]) -> (Vec<String>, Vec<String>) {
    let mut left: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for line in expected.lines().skip(1).chain(excluded.lines().skip(1)) {
        let mut columns = line.split('\t');
        let (suite, name) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
        left.insert((suite, name), columns.next().unwrap_or_default()); // an exclusion replaces what stock does
    }
    let all = left.clone();
    let (mut wrong, mut notes) = (Vec::new(), Vec::new());
    for test in reports {
        let key = (test.suite.as_str(), test.name.as_str());
        left.remove(&key);
        let want = all.get(&key).copied().unwrap_or(UNLISTED);
        match (&test.outcome, want) {
            (Outcome::Passed, "passes") | (Outcome::Skipped, "skips itself") => {}
            (Outcome::Failed(trace), message)
                if !["passes", "skips itself"].contains(&message) && trace.contains(message) => {}
            (Outcome::Passed, other) if other != "skips itself" && other != UNLISTED => {
                notes.push(format!("passes by now: {} {}", key.0, key.1))
            }
            (Outcome::Failed(trace), _) => {
                let start: Vec<&str> = trace.lines().take(4).collect();
                wrong.push(format!("{} {}: expected: {want}, got:\n  {}", key.0, key.1, start.join("\n  ")));
            }
            (outcome, _) => wrong.push(format!("{} {}: expected: {want}, got: {outcome:?}", key.0, key.1)),
        }
    }
    wrong.extend(left.keys().map(|(suite, name)| format!("{suite} {name} was not run")));
    (wrong, notes)
}

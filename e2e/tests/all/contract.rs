//! Hadoop's own file-system contract suites.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::hadoop::{folder, tail};
use e2e::server::Server;
use e2e::surefire::{Outcome, Test, read_folder};

/// What a failing test must have in its stack trace: the client's call that asks where to put data.
const ADD_BLOCK: &str = "DFSOutputStream.addBlock";

/// All suites without a datanode. `contract-expected.tsv`, recorded from the stock NameNode without one, says of every
/// test whether it passes, skips itself, or fails; and a failure must come from addBlock.
pub fn contract() -> Result<Vec<String>> {
    let server = Server::start(1, false)?;
    let work = tempfile::tempdir().context("making a folder for the suites")?;
    let output = Command::new(folder().join("contract/run"))
        .arg(&server.urls()[0])
        .env("CONTRACT_WORK", work.path())
        .stdin(Stdio::null())
        .output()
        .context("running the contract suites")?;
    let reports = read_folder(&work.path().join("target/surefire-reports"))
        .with_context(|| tail(&String::from_utf8_lossy(&output.stdout), 40))?;
    let path = folder().join("contract-expected.tsv");
    let expected = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let (wrong, notes) = judge(&expected, &reports);
    ensure!(wrong.is_empty(), "{} tests do not end as expected:\n{}", wrong.len(), wrong.join("\n"));
    Ok(notes)
}

fn judge(expected: &str, reports: &[Test]) -> (Vec<String>, Vec<String>) {
    let mut left: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for line in expected.lines().skip(1) {
        let mut columns = line.split('\t');
        let (suite, name) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
        left.insert((suite, name), columns.next().unwrap_or_default());
    }
    let all = left.clone();
    let (mut wrong, mut notes) = (Vec::new(), Vec::new());
    for test in reports {
        let key = (test.suite.as_str(), test.name.as_str());
        left.remove(&key);
        let want = all.get(&key).copied().unwrap_or("to be in the list");
        match (&test.outcome, want) {
            (Outcome::Passed, "passes") | (Outcome::Skipped, "skips itself") => {}
            (Outcome::Failed(trace), "addBlock") if trace.contains(ADD_BLOCK) => {}
            (Outcome::Passed, "addBlock") => notes.push(format!("passes by now: {} {}", key.0, key.1)),
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

//! End-to-end tests: real processes, and the stock Hadoop 3.4.2 clients against them.
//!
//! - [`server`]: what a test talks to, a Trellis cluster or, with `E2E_TARGET=stock`, the stock NameNode. Each test is
//!   thus itself tested: what it demands of Trellis, the stock NameNode must fulfil.
//! - [`cluster`]: a Trellis cluster, started by `trellis up` and killed piece by piece.
//! - [`datanode`]: our datanodes under another's namenode.
//! - [`stock`]: the stock NameNode and DataNode on loopback.
//! - [`hadoop`]: the stock programs and recorders of `hadoop/harness`.
//! - [`table`]: answers compared with the tables recorded from stock, less a checked-in list of exclusions.
//! - [`surefire`]: the reports of Hadoop's contract suites.
//! - [`talk`]: a recorder that stays and answers line by line; [`workers`]: one that works on while things are killed.
//! - [`recording`]: those tables themselves: which file, which list of exclusions, recording anew.
//! - [`disk`]: block files on a datanode's disk, to be damaged.
//! - [`bench`]: what the measurements in `bin/` share.

pub mod bench;
pub mod cluster;
pub mod datanode;
pub mod disk;
pub mod hadoop;
pub mod recording;
pub mod server;
pub mod stock;
pub mod surefire;
pub mod table;
pub mod talk;
pub mod workers;

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// True when tests are to take their long forms (`cargo xtask test --long`).
pub fn long() -> bool {
    std::env::var("TRELLIS_TEST_LONG").is_ok_and(|value| !["", "0", "false"].contains(&value.as_str()))
}

/// `E2E_ROUNDS`, or what a test does without it.
pub fn rounds(usual: u64) -> u64 {
    std::env::var("E2E_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

/// How long replicas may take to come back, with all that a test does to wait for it.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// Waits until something is so; an error says what never was.
pub fn wait(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + WAIT_LIMIT;
    while !is_so()? {
        ensure!(Instant::now() < deadline, "not within {WAIT_LIMIT:?}: {what}");
        sleep(Duration::from_millis(200));
    }
    Ok(())
}

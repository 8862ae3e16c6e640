//! `cargo xtask docs`: pages in docs/ that are generated. Each is compared by a test; the same test writes it.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::cargo;

/// Runs all tests: those that compare a page write it when `TRELLIS_WRITE_DOCS` is set.
pub fn write() -> Result<ExitCode> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--exclude", "trellis-e2e", "--no-fail-fast", "--quiet"]);
    let status = command.env("TRELLIS_WRITE_DOCS", "1").status().context("starting cargo")?;
    if !status.success() {
        bail!("not all pages could be written: see above");
    }
    println!("docs/ is up to date; 'git diff docs' shows what changed");
    Ok(ExitCode::SUCCESS)
}

//! `trellis load show`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use trellis_loadgen::compare::compare;
use trellis_loadgen::findings::Findings;
use trellis_loadgen::output::is_stdout;
use trellis_loadgen::page::pair;
use trellis_loadgen::paths::Paths;
use trellis_loadgen::report::Report;

use super::outputs::write_page;
use crate::output::print;

const EXAMPLE: &str = "\
Examples:
  trellis load show report.json
  trellis load show scale.json --html scale.html
  trellis load show stock.json trellis.json
  trellis load show stock.json trellis.json --html compared.html

Two reports of runs are compared with 95 % margins, from the seconds of each run; what was not the same in both runs is listed.";

/// Options of `trellis load show`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// A report: of a run or a replay, of scale, of the model
    #[arg(value_name = "A")]
    report: PathBuf,
    /// Of two runs, the other, to compare it with
    #[arg(value_name = "B")]
    other: Option<PathBuf>,
    /// Also writes a page to look at; one that is there is replaced
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A report that can be compared.
fn run_of(path: &Path) -> Result<Report> {
    match Findings::read(path)? {
        Findings::Run(report) => Ok(*report),
        Findings::Scale(_) | Findings::Model(_) => {
            bail!("{}: only reports of runs are compared", path.display())
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let reads = Paths::default()
        .reads("the command", [Some(&args.report), args.other.as_ref()].into_iter().flatten());
    match &args.html {
        Some(path) => reads.replaces("--html", path),
        None => reads,
    }
    .check()?;
    let (text, page) = match &args.other {
        Some(path) => {
            let (report, other) = (run_of(&args.report)?, run_of(path)?);
            let names = [&args.report, path].map(|path| path.display().to_string());
            let names = names.each_ref().map(String::as_str);
            (compare(&report, &other), pair::page([&report, &other], names))
        }
        None => {
            let findings = Findings::read(&args.report)?;
            (findings.show(), findings.page())
        }
    };
    // Where standard output is the page's it is nothing else's.
    if !args.html.as_deref().is_some_and(is_stdout) {
        print(text.trim_end())?;
    }
    if let Some(path) = &args.html {
        write_page(path, &page)?;
    }
    Ok(ExitCode::SUCCESS)
}

//! `trellis load show`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use trellis_loadgen::compare::compare;
use trellis_loadgen::report::Report;
use trellis_loadgen::show::show;

use crate::output::print;

const EXAMPLE: &str = "\
Examples:
  trellis load show report.json
  trellis load show stock.json trellis.json

Two reports are compared with 95 % margins, from the seconds of each run; what was not the same in both runs is listed.";

/// Options of `trellis load show`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// A report
    #[arg(value_name = "A")]
    report: PathBuf,
    /// Another, to compare it with
    #[arg(value_name = "B")]
    other: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let report = Report::read(&args.report)?;
    let text = match &args.other {
        Some(other) => compare(&report, &Report::read(other)?),
        None => show(&report),
    };
    print(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

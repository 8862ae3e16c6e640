//! `trellis load show`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use trellis_loadgen::compare::compare;
use trellis_loadgen::page::{pair, run};
use trellis_loadgen::report::Report;
use trellis_loadgen::show::show;

use super::outputs::write_page;
use crate::output::print;

const EXAMPLE: &str = "\
Examples:
  trellis load show report.json
  trellis load show stock.json trellis.json
  trellis load show stock.json trellis.json --html compared.html

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
    /// Also writes a page to look at; one that is there is replaced
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let report = Report::read(&args.report)?;
    let (text, page) = match &args.other {
        Some(path) => {
            let other = Report::read(path)?;
            let names = [&args.report, path].map(|path| path.display().to_string());
            let names = names.each_ref().map(String::as_str);
            (compare(&report, &other), pair::page([&report, &other], names))
        }
        None => (show(&report), run::page(&report)),
    };
    print(text.trim_end())?;
    if let Some(path) = &args.html {
        if [Some(&args.report), args.other.as_ref()].contains(&Some(path)) {
            bail!("--html {}: that is a report; give another name", path.display());
        }
        write_page(path, &page)?;
    }
    Ok(ExitCode::SUCCESS)
}

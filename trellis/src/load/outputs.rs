//! What a measurement, or the model, leaves behind: a report, and a page of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use trellis_loadgen::findings::Findings;
use trellis_loadgen::report::Report;
use trellis_loadgen::saved::write_whole;
use trellis_loadgen::stop::Stop;

use crate::output::{complain, print};
use crate::signals::Signals;

/// The exit code of what Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// Where a report goes; commands that leave another kind behind give it another name as the usual one.
#[derive(clap::Args)]
pub struct OutputArgs {
    /// Where to write the report; one that is there is replaced. A page to look at is written beside it, with .html
    #[arg(long, value_name = "FILE", default_value = "report.json")]
    report: PathBuf,
    /// No page
    #[arg(long)]
    no_html: bool,
}

/// Where both go.
#[derive(Debug)]
pub struct Outputs {
    report: PathBuf,
    page: Option<PathBuf>,
}

impl OutputArgs {
    /// The page goes beside the report. Said before anything is measured: both need names of their own.
    pub fn check(&self) -> Result<Outputs> {
        let page = self.report.with_extension("html");
        if !self.no_html && page == self.report {
            bail!(
                "--report {}: the page would have the same name; give one with .json, or --no-html",
                self.report.display()
            );
        }
        Ok(Outputs { report: self.report.clone(), page: (!self.no_html).then_some(page) })
    }
}

impl Outputs {
    /// Measures until it is done or somebody ends it, then writes and prints what came of it.
    pub async fn of(
        self,
        measured: impl Future<Output = Result<Report, trellis_loadgen::Error>>,
        stop: &Stop,
    ) -> Result<ExitCode> {
        let report = tokio::select! {
            report = measured => report?,
            aborted = interrupted(stop) => return aborted,
        };
        self.keep(&report.into())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Writes and prints what came of it.
    pub fn keep(&self, findings: &Findings) -> Result<()> {
        findings.write(&self.report)?;
        print(findings.show().trim_end())?;
        print(format_args!("report: {}", self.report.display()))?;
        match &self.page {
            Some(page) => write_page(page, &findings.page()),
            None => Ok(()),
        }
    }
}

/// Writes a page, and says where it is.
pub fn write_page(path: &Path, page: &str) -> Result<()> {
    write_whole(path, page.as_bytes())?;
    print(format_args!("page: {}", path.display()))
}

/// Ends the measurement when it is asked to, and comes back when it is asked once more.
async fn interrupted(stop: &Stop) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    signals.next().await;
    stop.ask();
    complain("ending the run; what was measured is reported. Once more ends it at once, without a report");
    signals.next().await;
    Ok(ExitCode::from(INTERRUPTED))
}

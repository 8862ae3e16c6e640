//! What a measurement, or the model, leaves behind: a report, and a page of it.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use trellis_loadgen::findings::Findings;
use trellis_loadgen::output::{is_as_it_is, is_stdout};
use trellis_loadgen::paths::Paths;
use trellis_loadgen::report::Report;
use trellis_loadgen::saved::write_whole;
use trellis_loadgen::stop::Stop;

use super::written;
use crate::output::{complain, print, say};
use crate::signals::Signals;

/// The exit code of what Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// Where a report goes; commands that leave another kind behind give it another name as the usual one.
#[derive(clap::Args)]
pub struct OutputArgs {
    /// Where to write the report; one that is there is replaced. A page to look at is written beside it, with .html. What is
    /// no file, such as /dev/stdout, is written into, and has no page
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
    /// The page goes beside the report. Said before anything is measured: both can be written, and are nothing that is read.
    pub fn check(&self, reads: Paths) -> Result<Outputs> {
        let report = self.report.clone();
        let has_page = !self.no_html && !is_as_it_is(&report);
        let page = has_page.then(|| report.with_extension("html"));
        let mut paths = reads.replaces("--report", &report);
        paths.check()?;
        if page.as_ref() == Some(&report) {
            bail!(
                "--report {}: the page would have the same name; give one with .json, or --no-html",
                report.display()
            );
        }
        if let Some(page) = &page {
            paths = paths.replaces("the page of --report,", page);
            paths.check()?;
        }
        Ok(Outputs { report, page })
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
        self.keep_unless_stopped(report.into()).await
    }

    /// Writes and prints what came of it. A pipe may wait for its reader: a signal ends that.
    pub async fn keep_unless_stopped(self, findings: Findings) -> Result<ExitCode> {
        let mut signals = Signals::listen()?;
        tokio::select! {
            kept = tokio::task::spawn_blocking(move || self.keep(&findings)) => kept??,
            () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Tells how it goes on, unless standard output is the report's.
    pub fn say(&self, line: impl Display) {
        if !is_stdout(&self.report) {
            say(line);
        }
    }

    /// Writes and prints what came of it. Where standard output is the report's it is nothing else's.
    pub fn keep(&self, findings: &Findings) -> Result<()> {
        written(findings.write(&self.report))?;
        if !is_stdout(&self.report) {
            print(findings.show().trim_end())?;
            print(format_args!("report: {}", self.report.display()))?;
        }
        match &self.page {
            Some(page) => write_page(page, &findings.page()),
            None => Ok(()),
        }
    }
}

/// Writes a page, and says where it is.
pub fn write_page(path: &Path, page: &str) -> Result<()> {
    written(write_whole(path, page.as_bytes()))?;
    match is_stdout(path) {
        true => Ok(()),
        false => print(format_args!("page: {}", path.display())),
    }
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

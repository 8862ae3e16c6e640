//! `cargo xtask bench`: measurements against stock, written into docs/BENCHMARKS.md.
//!
//! The measuring itself is `e2e/src/bin/nnbench.rs`: it starts both servers, warms them, and runs interleaved pairs. The
//! server's CPU time is read when the benchmark logs that its timed part begins and when it logs that it is over, so what
//! prepares an operation (the files that are renamed or deleted) does not count.

use std::fs;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;
use clap::Subcommand;

use crate::{cargo, root};

const PAGE: &str = "docs/BENCHMARKS.md";
const BEGIN: &str = "<!-- nnbench: begin -->";
const END: &str = "<!-- nnbench: end -->";

/// What can be measured.
#[derive(Subcommand)]
pub enum Command {
    /// Hadoop's NNThroughputBenchmark over RPC, against the stock NameNode and Trellis in turn
    #[command(after_help = "\
Example:
  cargo xtask bench nnbench                        measures and writes docs/BENCHMARKS.md
  cargo xtask bench nnbench --number 2000 --dry    a short look

Needs Java 17 and Maven. The machine should do nothing else meanwhile.")]
    Nnbench(Nnbench),
}

/// Options of `cargo xtask bench nnbench`.
#[derive(clap::Args)]
pub struct Nnbench {
    /// Operations of each kind in one run
    #[arg(long, default_value_t = 10_000)]
    number: u32,
    /// Prints only, leaves docs/BENCHMARKS.md alone
    #[arg(long)]
    dry: bool,
}

/// Runs a measurement.
pub fn run(command: Command) -> Result<ExitCode> {
    let Command::Nnbench(args) = command;
    let server = server()?;
    let mut measure = cargo();
    measure.args(["run", "--quiet", "--package", "trellis-e2e", "--bin", "nnbench", "--"]);
    measure.arg(args.number.to_string()).env("TRELLIS_BIN", server).stdout(Stdio::piped());
    let output =
        measure.spawn().and_then(|child| child.wait_with_output()).context("starting the measurement")?;
    let figures = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{figures}");
    if !output.status.success() {
        bail!("the measurement ended with {}; {PAGE} is as it was", output.status);
    }
    if !args.dry {
        let path = root().join(PAGE);
        let page = fs::read_to_string(&path).with_context(|| format!("reading {PAGE}"))?;
        let section = format!("{BEGIN}\n\nOn {}.\n\n{}\n{END}", machine(), figures.trim_start());
        fs::write(&path, replaced(&page, &section)?).with_context(|| format!("writing {PAGE}"))?;
        println!("\nwritten to {PAGE}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The program to measure: `TRELLIS_BIN`, or built here with `--release`.
fn server() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TRELLIS_BIN") {
        return Ok(PathBuf::from(path));
    }
    let built =
        cargo().args(["build", "--release", "--package", "trellis"]).status().context("starting cargo")?;
    if !built.success() {
        bail!("trellis could not be built ({built})");
    }
    let metadata = MetadataCommand::new().no_deps().current_dir(root()).exec().context("cargo metadata")?;
    Ok(metadata.target_directory.join("release/trellis").into())
}

/// The page with the section between the marks replaced.
fn replaced(page: &str, section: &str) -> Result<String> {
    match (page.find(BEGIN), page.find(END)) {
        (Some(begin), Some(end)) if begin < end => {
            Ok(format!("{}{section}{}", &page[..begin], &page[end + END.len()..]))
        }
        _ => bail!("{PAGE} must hold the lines {BEGIN} and {END}, in this order"),
    }
}

/// The machine, in a few words.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']).trim();
    match model {
        "" => format!("{cores} cores"),
        model => format!("{cores} cores ({model})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_section_between_the_marks_changes() {
        let page = format!("head\n{BEGIN}\nold\n{END}\ntail\n");
        assert_eq!(replaced(&page, "new").unwrap(), "head\nnew\ntail\n");
        assert!(replaced("no marks", "new").is_err());
        assert!(fs::read_to_string(root().join(PAGE)).unwrap().contains(BEGIN));
    }
}

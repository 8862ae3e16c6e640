//! `cargo xtask bench`: measurements, each written into its section of docs/BENCHMARKS.md.
//!
//! The measuring itself is a program that prints its section: in `e2e/src/bin/` `peers`, `nnbench` and `bytes` against stock,
//! `grouping` and `scale` alone, in `metastore/examples/` `replicas`, on a store alone. One that ends with a failure leaves the page
//! as it is.

use std::fs;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;
use clap::Subcommand;

use crate::{cargo, root};

const PAGE: &str = "docs/BENCHMARKS.md";

/// What can be measured.
#[derive(Subcommand)]
pub enum Command {
    /// Spotify's mix, with more creates too, and each operation alone, against the stock NameNode and Trellis in turn
    #[command(after_help = "\
Example:
  cargo xtask bench peers                                  measures and writes docs/BENCHMARKS.md
  cargo xtask bench peers --seconds 2 --files 5000 --dry   a short look

Needs Java 17 and Maven. The machine should do nothing else meanwhile.")]
    Peers(Peers),
    /// Hadoop's NNThroughputBenchmark over RPC, against the stock NameNode and Trellis in turn
    #[command(after_help = "\
Example:
  cargo xtask bench nnbench                        measures and writes docs/BENCHMARKS.md
  cargo xtask bench nnbench --number 2000 --dry    a short look

Needs Java 17 and Maven. The machine should do nothing else meanwhile.")]
    Nnbench(Nnbench),
    /// 64 creators on the embedded store: operations per durable commit, one directory against 64, changes under load
    #[command(after_help = "\
Example:
  cargo xtask bench grouping                       measures and writes docs/BENCHMARKS.md
  cargo xtask bench grouping --seconds 1 --dry     a short look

Fails when a bound does not hold. The machine should do nothing else meanwhile.")]
    Grouping(Grouping),
    /// Files with data: put, get, small files, block reports, against the stock NameNode and DataNode and Trellis in turn
    #[command(after_help = "\
Example:
  cargo xtask bench bytes                          measures and writes docs/BENCHMARKS.md
  cargo xtask bench bytes --megabytes 128 --dry    a short look

Needs Java 17 and Maven. Fails when a bound does not hold. The machine should do nothing else meanwhile.")]
    Bytes(Bytes),
    /// One to eight namenodes on one store that is far away; what the capacity model says of that, and of larger clusters
    #[command(after_help = "\
Example:
  cargo xtask bench scale                                  measures and writes docs/BENCHMARKS.md
  cargo xtask bench scale --seconds 2 --files 5000 --dry   a short look

Fails when a bound does not hold. The machine should do nothing else meanwhile.")]
    Scale(Scale),
    /// Rows of replicas kept beside their block, by their storage, or both: what reporting and finding them costs
    #[command(after_help = "\
Example:
  cargo xtask bench replicas                       measures and writes docs/BENCHMARKS.md
  cargo xtask bench replicas --blocks 10000 --dry  a short look

The machine should do nothing else meanwhile.")]
    Replicas(Replicas),
}

/// Options of `cargo xtask bench peers`.
#[derive(clap::Args)]
pub struct Peers {
    /// Length of one run
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Files in the namespace
    #[arg(long, default_value_t = 200_000)]
    files: u32,
    /// Prints only, leaves docs/BENCHMARKS.md alone
    #[arg(long)]
    dry: bool,
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

/// Options of `cargo xtask bench grouping`.
#[derive(clap::Args)]
pub struct Grouping {
    /// Length of one run
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Prints only, leaves docs/BENCHMARKS.md alone
    #[arg(long)]
    dry: bool,
}

/// Options of `cargo xtask bench bytes`.
#[derive(clap::Args)]
pub struct Bytes {
    /// Size of the file that is put and got
    #[arg(long, default_value_t = 1024)]
    megabytes: u32,
    /// Prints only, leaves docs/BENCHMARKS.md alone
    #[arg(long)]
    dry: bool,
}

/// Options of `cargo xtask bench scale`.
#[derive(clap::Args)]
pub struct Scale {
    /// Length of one run
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Files in the namespace
    #[arg(long, default_value_t = 100_000)]
    files: u32,
    /// Prints only, leaves docs/BENCHMARKS.md alone
    #[arg(long)]
    dry: bool,
}

/// Options of `cargo xtask bench replicas`.
#[derive(clap::Args)]
pub struct Replicas {
    /// Blocks in the store
    #[arg(long, default_value_t = 100_000)]
    blocks: u32,
    /// Prints only, leaves docs/BENCHMARKS.md alone
    #[arg(long)]
    dry: bool,
}

/// Runs a measurement.
pub fn run(command: Command) -> Result<ExitCode> {
    let (name, sizes, dry) = match command {
        Command::Peers(args) => ("peers", vec![args.seconds, args.files], args.dry),
        Command::Nnbench(args) => ("nnbench", vec![args.number], args.dry),
        Command::Grouping(args) => ("grouping", vec![args.seconds], args.dry),
        Command::Bytes(args) => ("bytes", vec![args.megabytes], args.dry),
        Command::Scale(args) => ("scale", vec![args.seconds, args.files], args.dry),
        Command::Replicas(args) => ("replicas", vec![args.blocks], args.dry),
    };
    let mut measure = cargo();
    measure.args(["run", "--release", "--quiet", "--package"]);
    match name {
        "replicas" => measure.args(["trellis-metastore", "--example", name, "--"]),
        _ => measure.args(["trellis-e2e", "--bin", name, "--"]).env("TRELLIS_BIN", server()?),
    };
    measure.args(sizes.iter().map(u32::to_string)).stdout(Stdio::piped());
    let output =
        measure.spawn().and_then(|child| child.wait_with_output()).context("starting the measurement")?;
    let figures = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{figures}");
    if !output.status.success() {
        bail!("the measurement ended with {}; {PAGE} is as it was", output.status);
    }
    if !dry {
        let path = root().join(PAGE);
        let page = fs::read_to_string(&path).with_context(|| format!("reading {PAGE}"))?;
        let section = format!("On {}.\n\n{}", machine(), figures.trim_start());
        fs::write(&path, replaced(&page, name, &section)?).with_context(|| format!("writing {PAGE}"))?;
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

/// The page with the section between the marks of a measurement replaced.
fn replaced(page: &str, name: &str, section: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"));
    match (page.find(&begin), page.find(&end)) {
        (Some(from), Some(to)) if from < to => {
            Ok(format!("{}{begin}\n\n{section}\n{}", &page[..from], &page[to..]))
        }
        _ => bail!("{PAGE} must hold the lines {begin} and {end}, in this order"),
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
        let page = "<!-- a: begin -->\nold\n<!-- a: end -->\n<!-- b: begin -->\nold\n<!-- b: end -->\ntail\n";
        let expected =
            "<!-- a: begin -->\nold\n<!-- a: end -->\n<!-- b: begin -->\n\nnew\n\n<!-- b: end -->\ntail\n";
        assert_eq!(replaced(page, "b", "new\n").unwrap(), expected);
        assert!(replaced(page, "c", "new\n").is_err());
        let page = fs::read_to_string(root().join(PAGE)).unwrap();
        for name in ["peers", "nnbench", "grouping", "bytes", "scale", "replicas"] {
            assert!(replaced(&page, name, "").is_ok(), "{name}");
        }
    }
}

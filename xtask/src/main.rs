//! Developer commands: `cargo xtask test`, `cargo xtask docs`, `cargo xtask bench`.
//!
//! - [`test`]: everything that is checked, level by level, with a summary
//! - [`levels`]: what the levels are, and what they need
//! - [`tally`]: how many tests passed, read from what the test programs print
//! - [`docs`]: pages that are generated
//! - [`bench`]: measurements, against stock and alone
//! - [`edges`]: which crate may use which
//! - [`modules`]: source files that nobody declares

mod bench;
mod docs;
mod edges;
mod levels;
mod modules;
mod tally;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Developer commands of Trellis.
#[derive(Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the tests, level by level, and says what passed, failed and was skipped
    Test(test::Args),
    /// Writes the generated pages in docs/
    Docs,
    /// Measures, against the stock NameNode and alone, and writes docs/BENCHMARKS.md
    #[command(subcommand)]
    Bench(bench::Command),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Test(args) => test::run(&args),
        Command::Docs => docs::write(),
        Command::Bench(command) => bench::run(command),
    }
}

/// The root of the project.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// `cargo`, in the root of the project.
pub fn cargo() -> std::process::Command {
    let mut command = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

//! `trellis load`: the metadata load generator. docs/LOAD.md says what its figures mean.
//!
//! - [`build`]: makes a namespace
//! - [`measure`]: makes a run, and its report
//! - [`self_test`]: what the load generator itself can offer
//! - [`show`]: prints a report, or two compared

mod build;
mod measure;
mod self_test;
mod show;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Commands of the load generator.
#[derive(Subcommand)]
pub enum Command {
    /// Makes a namespace of empty files, or what is missing of it
    Build(build::Args),
    /// Drives namenodes with a workload, measures, and writes a report
    Run(Box<measure::Args>),
    /// Measures what this program itself can offer, against a namenode that answers constants
    SelfTest(self_test::Args),
    /// That namenode
    #[command(hide = true)]
    ConstantNamenode,
    /// Prints a report, or two compared
    Show(show::Args),
}

/// Runs a command.
pub async fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Build(args) => build::run(args).await,
        Command::Run(args) => measure::run(*args).await,
        Command::SelfTest(args) => self_test::run(args).await,
        Command::ConstantNamenode => self_test::serve().await,
        Command::Show(args) => show::run(&args),
    }
}

/// What is driven, and where.
#[derive(clap::Args)]
pub struct Place {
    /// The namenodes: hdfs://HOST:PORT[,HOST:PORT…], ours or stock's
    #[arg(long, value_name = "URI", default_value = "hdfs://127.0.0.1:8020")]
    target: String,
    /// Where the namespace lies; nothing else may be there
    #[arg(long, value_name = "PATH", default_value = "/load")]
    base: String,
}

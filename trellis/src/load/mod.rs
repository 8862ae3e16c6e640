//! `trellis load`: the metadata load generator. docs/LOAD.md says what its figures mean.
//!
//! - [`build`]: makes a namespace
//! - [`measure`]: makes a run, and its report
//! - [`show`]: prints a report, or two compared

mod build;
mod measure;
mod show;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use trellis_loadgen::contents::{Asked, Blocks};
use trellis_loadgen::distribution::{Distribution, number};

/// Commands of the load generator.
#[derive(Subcommand)]
pub enum Command {
    /// Makes a namespace, or what is missing of it
    Build(build::Args),
    /// Drives namenodes with a workload, measures, and writes a report
    Run(measure::Args),
    /// Prints a report, or two compared
    Show(show::Args),
}

/// Runs a command.
pub async fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Build(args) => build::run(args).await,
        Command::Run(args) => measure::run(args).await,
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

/// What files hold.
#[derive(clap::Args)]
pub struct Files {
    /// Where the blocks of files are: none (they have none), simulated (on datanodes that this command plays itself, without
    /// bytes), real (on real datanodes, with bytes)
    #[arg(long, value_name = "WHERE")]
    blocks: Option<Blocks>,
    /// How long files are: a number of bytes such as 64k, a range such as 4k-1g, or several of these with weights, such as
    /// 0:10,1-64k:70,64k-1g:20; within a range each doubling is as likely as another [default: 64k with blocks]
    #[arg(long, value_name = "SIZES")]
    sizes: Option<Distribution>,
    /// How long blocks are, such as 128m [default: as the namenode suggests]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    block_size: Option<u64>,
    /// Replicas of each block [default: as the namenode suggests]
    #[arg(long, value_name = "COUNT")]
    replication: Option<u16>,
    /// Simulated datanodes; the only ones that may be alive [default: 6]
    #[arg(long, value_name = "COUNT")]
    datanodes: Option<u32>,
}

fn bytes(text: &str) -> Result<u64, &'static str> {
    number(text).ok_or("say a number of bytes, such as 4096 or 128m")
}

impl Files {
    fn asked(&self) -> Asked {
        let Files { blocks, sizes, block_size, replication, datanodes } = self;
        Asked {
            blocks: *blocks,
            sizes: sizes.clone(),
            block_size: *block_size,
            replication: *replication,
            datanodes: *datanodes,
        }
    }
}

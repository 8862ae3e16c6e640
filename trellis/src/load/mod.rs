//! `trellis load`: the metadata load generator. docs/LOAD.md says what its figures mean.
//!
//! - [`build`]: makes a namespace
//! - [`measure`]: makes a run, and its report
//! - [`self_test`]: what the load generator itself can offer
//! - [`scale`]: makes runs on more and more namenodes, which it starts; [`model`]: says how many operations a cluster could do
//! - [`replay`]: replays an audit log; [`synth`]: makes one up; [`anonymise`]: takes the names out of one
//! - [`outputs`]: the files that a measurement leaves behind; [`show`]: prints a report, or two compared

mod anonymise;
mod build;
mod measure;
mod model;
mod outputs;
mod replay;
mod scale;
mod self_test;
mod show;
mod synth;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Subcommand;
use trellis_loadgen::Error;
use trellis_loadgen::contents::{Asked, Blocks};
use trellis_loadgen::distribution::{Distribution, number};

use crate::output::is_closed_pipe;
use crate::signals::Signals;

/// Commands of the load generator.
#[derive(Subcommand)]
pub enum Command {
    /// Makes a namespace, or what is missing of it
    Build(build::Args),
    /// Drives namenodes with a workload, measures, and writes a report
    Run(Box<measure::Args>),
    /// Measures what this program itself can offer, against a namenode that answers constants
    SelfTest(self_test::Args),
    /// That namenode
    #[command(hide = true)]
    ConstantNamenode,
    /// Starts more and more namenodes on one store, and measures what each adds
    Scale(scale::Args),
    /// Replays an audit log, measures, and writes a report
    Replay(replay::Args),
    /// Makes up an audit log from a mix
    Synth(synth::Args),
    /// Takes the names out of an audit log
    Anonymise(anonymise::Args),
    /// Says how many operations larger clusters could do, from what was measured
    Model(model::Args),
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
        Command::Scale(args) => scale::run(args).await,
        Command::Replay(args) => replay::run(args).await,
        Command::Synth(args) => synth::run(args).await,
        Command::Anonymise(args) => anonymise::run(args).await,
        Command::Model(args) => model::run(args),
        Command::Show(args) => show::run(&args),
    }
}

/// What came of writing; None: whoever read it from a pipe has gone.
fn written<T>(result: Result<T, Error>) -> Result<Option<T>> {
    match result {
        Err(Error::Io { error, .. }) if is_closed_pipe(&error) => Ok(None),
        result => Ok(Some(result?)),
    }
}

/// Makes a trace on a thread of its own. A signal ends that at once, and what is unfinished goes.
async fn unless_stopped<T: Send + 'static>(
    signals: &mut Signals,
    unfinished: &[PathBuf],
    make: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::select! {
        made = tokio::task::spawn_blocking(make) => made?,
        () = signals.next() => {
            for path in unfinished {
                // It may be whole by now, and bear its own name.
                let _ = fs::remove_file(path);
            }
            bail!("stopped before the end: no whole trace was written")
        }
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

//! `trellis admin`: looks after a running cluster.

pub mod client_config;
pub mod settings;
pub mod status;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Commands on a cluster.
#[derive(Subcommand)]
pub enum Command {
    /// Says which namenodes live and who leads
    Status(status::Args),
    /// Prints an hdfs-site.xml that spreads stock clients over all live namenodes
    ClientConfig(client_config::Args),
    /// Prints every setting of a namenode, as flags, environment and file give it, as a file for --config
    Settings(settings::Args),
}

/// Runs a command.
pub async fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Status(args) => status::run(args).await,
        Command::ClientConfig(args) => client_config::run(args),
        Command::Settings(args) => settings::run(args),
    }
}

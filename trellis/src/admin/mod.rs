//! `trellis admin`: looks after a running cluster.

pub mod client_config;
pub mod lists;
pub mod open_files;
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
    /// Lists files that are open for writing, with who writes them
    OpenFiles(open_files::List),
    /// Closes a file whose writer is gone
    Close(open_files::Close),
    /// Lists blocks with too few replicas, with their files
    #[command(after_help = lists::BLOCKS_EXAMPLE)]
    UnderReplicated(lists::Args),
    /// Lists blocks without any live replica, with their files
    #[command(after_help = lists::BLOCKS_EXAMPLE)]
    Missing(lists::Args),
    /// Lists blocks with corrupt replicas, with their files
    #[command(after_help = lists::BLOCKS_EXAMPLE)]
    Corrupt(lists::Args),
    /// Lists datanodes with their state, owner and space
    #[command(after_help = lists::DATANODES_EXAMPLE)]
    Datanodes(lists::Args),
}

/// Runs a command.
pub async fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Status(args) => status::run(args).await,
        Command::ClientConfig(args) => client_config::run(args).await,
        Command::Settings(args) => settings::run(args),
        Command::OpenFiles(args) => open_files::list(args).await,
        Command::Close(args) => open_files::close(args).await,
        Command::UnderReplicated(args) => lists::run("under-replicated", args).await,
        Command::Missing(args) => lists::run("missing", args).await,
        Command::Corrupt(args) => lists::run("corrupt", args).await,
        Command::Datanodes(args) => lists::run("datanodes", args).await,
    }
}

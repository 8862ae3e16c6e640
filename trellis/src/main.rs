//! The one binary.
//!
//! - [`up`]: a whole cluster in the foreground: starts namenodes as child processes and tends them
//! - [`namenode`], [`datanode`]: one namenode, one datanode
//! - [`store`]: init, check, dump
//! - [`fs`]: verbs on names, as `hdfs dfs` has them
//! - [`fsck`]: files and their replicas, as `hdfs fsck` says it
//! - [`admin`]: status, client-config, settings, open files, blocks in trouble, datanodes
//! - [`load`]: the metadata load generator
//! - [`web`]: lines from a namenode's HTTP port
//! - [`signals`]: being asked to end
//! - [`settings`], [`config`]: the table of settings, and where they come from
//! - [`output`]: printing that survives a closed pipe, and says when it failed

mod admin;
mod config;
mod datanode;
#[cfg(test)]
mod docs;
mod fs;
mod fsck;
mod limits;
mod load;
mod namenode;
mod output;
mod settings;
mod signals;
mod store;
mod up;
mod web;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// A namenode allocates in one thread and frees in another all the time, where the system's allocator is slow.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a server that has ended waits for what blocks its threads.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// Trellis: a file system that speaks HDFS and keeps all its metadata in a transactional store.
#[derive(Parser)]
#[command(name = "trellis", version, arg_required_else_help = true, max_term_width = 110, after_help = EXAMPLE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLE: &str = "\
Example:
  trellis up                      starts a cluster in ./trellis-data
  trellis COMMAND --help          says more, with an example

Settings come from flags, then TRELLIS_* variables, then the file named by --config.";

#[derive(Subcommand)]
enum Command {
    /// Runs a whole cluster in the foreground
    Up(up::Args),
    /// Runs one namenode
    Namenode(namenode::Args),
    /// Runs one datanode
    Datanode(datanode::Args),
    /// Makes, checks or shows a store
    #[command(subcommand)]
    Store(store::Command),
    /// Works on files and directories: ls, put, get, cat, mv, rm …
    Fs(fs::Args),
    /// Looks at files and their replicas
    Fsck(fsck::Args),
    /// Looks after a running cluster
    #[command(subcommand)]
    Admin(admin::Command),
    /// Builds namespaces and measures what namenodes do under load
    #[command(subcommand)]
    Load(load::Command),
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(fs::plain(std::env::args_os().collect()));
    match log(&cli.command).and_then(|()| run(cli.command)) {
        Ok(code) => code,
        Err(error) => {
            output::complain(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Up(args) => up::run(args),
        Command::Namenode(args) => namenode::run(args),
        Command::Datanode(args) => datanode::run(args),
        Command::Store(command) => one_thread()?.block_on(store::run(command)),
        Command::Fs(args) => one_thread()?.block_on(fs::run(args)),
        Command::Fsck(args) => one_thread()?.block_on(fsck::run(args)),
        Command::Admin(command) => one_thread()?.block_on(admin::run(command)),
        Command::Load(command) => serve(load::run(command)),
    }
}

fn one_thread() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")
}

/// Runs a server, or what keeps servers busy, on as many threads as there are processors, to its end. What still waits then, for a disk that hangs
/// or a peer, is left behind.
fn serve(server: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let done = runtime.block_on(server);
    runtime.shutdown_timeout(LEFT_BEHIND);
    done
}

/// Logs to stderr what `TRELLIS_LOG` asks for. Without it a server tells what it does, a command that answers and ends
/// only what its user must know.
fn log(command: &Command) -> Result<()> {
    let usual = match command {
        Command::Up(_) | Command::Namenode(_) | Command::Datanode(_) => "info",
        Command::Store(_) | Command::Fs(_) | Command::Fsck(_) | Command::Admin(_) | Command::Load(_) => {
            "error"
        }
    };
    let filter = std::env::var("TRELLIS_LOG").unwrap_or_else(|_| usual.to_owned());
    let filter = EnvFilter::try_new(&filter)
        .with_context(|| format!("TRELLIS_LOG={filter}: give a level such as info, or target=level,…"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // A line that cannot be written (the log's disk is full) is dropped. To complain of it, on stderr again, would
        // end the thread that logs.
        .log_internal_errors(false)
        .init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_server_ends_though_something_hangs() {
        let (_hangs, never) = mpsc::channel::<()>();
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            let code = serve(async {
                tokio::task::spawn_blocking(move || never.recv());
                Ok(ExitCode::SUCCESS)
            });
            ended.send(code.is_ok()).unwrap();
        });
        assert!(end.recv_timeout(Duration::from_secs(30)).unwrap());
    }
}

//! `trellis fs`: the file system from the shell, with the verbs of `hdfs dfs`.
//!
//! As there: the options that `--help` lists, what is printed to stdout, how a path is written and shown, exit codes 0
//! and 1. Not as there: wrong usage ends with 2 instead of 255 (`truncate` beyond the end with 1); `concat` takes a single
//! source, too; `cp -p` preserves times, owner and mode only; `text` unpacks gzip only; times are in UTC; columns are as
//! wide as their cells; `rm` says where in the trash something went; complaints may say more; all paths of a command lie
//! on one file system.
//!
//! - [`words`]: command lines in the stock shell's way
//! - [`place`]: path arguments
//! - [`shell`]: the client, output, failures, what paths name; [`glob`]: patterns
//! - [`walk`]: a tree, entry by entry, in bounded memory
//! - [`list`], [`counts`], [`find`]: verbs that look
//! - [`make`], [`remove`], [`attributes`], [`mode`]: verbs that change
//! - [`upload`], [`download`], [`rewrite`], [`show`]: verbs on what files hold; [`transfer`]: one file from somewhere to
//!   somewhere; [`local`]: files of this machine
//! - [`text`]: modes, times and sizes as the stock shell prints them

mod attributes;
mod counts;
mod download;
mod find;
mod glob;
mod list;
mod local;
mod make;
mod mode;
mod place;
mod remove;
mod rewrite;
mod shell;
mod show;
mod text;
mod transfer;
mod upload;
mod walk;
mod words;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use trellis_client::Client;

use self::shell::Shell;
pub use self::words::plain;

/// How long an interrupted command may take to delete what it did not finish.
const CLEAN_UP_WITHIN: Duration = Duration::from_secs(5);
/// The exit code of an interrupted command, as shells have it.
const INTERRUPTED: i32 = 130;

const EXAMPLE: &str = "\
Examples:
  trellis fs mkdir -p /user/ann/in
  trellis fs put part-0 part-1 /user/ann/in
  trellis fs --fs hdfs://127.0.0.1:8020,127.0.0.1:8030 ls -R /
  trellis fs chmod -R g+w /user/ann
  trellis fs ls hdfs://127.0.0.1:8020/user

Patterns (* ? [ab] {a,b}) are expanded by this command, so quote them. A path that does not begin \
with '/' lies in /user/NAME. The file system is --fs, else TRELLIS_FS, else fs.defaultFS of HADOOP_CONF_DIR, else that \
of a path hdfs://HOST:PORT/PATH, else hdfs://127.0.0.1:8020. Command lines of hdfs dfs work too: -rm -skipTrash /x.
Exit codes: 0 done, 1 something failed, 2 wrong usage.";

/// Options of `trellis fs`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The namenodes: hdfs://HOST:PORT[,HOST:PORT…]; when one fails the next is asked
    #[arg(long, value_name = "URI", env = "TRELLIS_FS")]
    fs: Option<String>,
    /// Sets a property of Hadoop's configuration, such as dfs.replication or dfs.blocksize
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    define: Vec<String>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Lists directories
    Ls(list::Ls),
    /// Prints what is known of paths
    Stat(list::Stat),
    /// Answers a question about a path by the exit code
    Test(list::Test),
    /// Prints the paths of a tree that match
    Find(find::Find),
    /// Sums up sizes below paths
    Du(counts::Du),
    /// Counts directories, files and bytes below paths
    Count(counts::Count),
    /// Prints the space of the file system
    Df(counts::Df),
    /// Makes directories
    Mkdir(make::Mkdir),
    /// Makes empty files; one that exists must be empty
    Touchz(make::Touchz),
    /// Sets times to now; makes a file that is missing
    Touch(make::Touch),
    /// Renames, or moves into a directory
    Mv(make::Mv),
    /// Deletes files, and with -r directories; into the trash where the cluster has one
    Rm(remove::Rm),
    /// Deletes empty directories
    Rmdir(remove::Rmdir),
    /// Changes permission bits
    Chmod(attributes::Chmod),
    /// Changes owner, group or both
    Chown(attributes::Chown),
    /// Changes the group
    Chgrp(attributes::Chgrp),
    /// Changes the replication of files, and of all files below directories
    Setrep(attributes::Setrep),
    /// Copies files and folders of this machine
    Put(upload::Put),
    /// The same as put
    #[command(name = "copyFromLocal")]
    CopyFromLocal(upload::Put),
    /// Moves files and folders of this machine
    #[command(name = "moveFromLocal")]
    MoveFromLocal(upload::Put),
    /// Appends files of this machine, or stdin
    #[command(name = "appendToFile")]
    AppendToFile(upload::AppendToFile),
    /// Copies files and directories to this machine
    Get(download::Get),
    /// The same as get
    #[command(name = "copyToLocal")]
    CopyToLocal(download::Get),
    /// Writes files one after another into a local file
    Getmerge(download::Getmerge),
    /// Prints files
    Cat(show::Cat),
    /// Prints the first 1024 bytes of a file
    Head(show::Head),
    /// Prints the last 1024 bytes of a file
    Tail(show::Tail),
    /// Prints files as text, unpacked
    Text(show::Text),
    /// Prints checksums of files
    Checksum(show::Checksum),
    /// Copies files and directories inside the file system
    Cp(rewrite::Cp),
    /// Cuts files
    Truncate(rewrite::Truncate),
    /// Puts the blocks of files after those of the first one
    Concat(rewrite::Concat),
}

impl Verb {
    /// The path arguments that lie in the file system.
    fn paths(&self) -> &[String] {
        match self {
            Verb::Ls(verb) => &verb.paths,
            Verb::Stat(verb) => verb.split().1,
            Verb::Test(verb) => std::slice::from_ref(&verb.path),
            Verb::Find(verb) => &verb.paths,
            Verb::Du(verb) => &verb.paths,
            Verb::Count(verb) => &verb.paths,
            Verb::Df(verb) => &verb.paths,
            Verb::Mkdir(verb) => &verb.paths,
            Verb::Touchz(verb) => &verb.paths,
            Verb::Touch(verb) => &verb.paths,
            Verb::Mv(verb) => &verb.paths,
            Verb::Rm(verb) => &verb.paths,
            Verb::Rmdir(verb) => &verb.paths,
            Verb::Chmod(verb) => &verb.paths,
            Verb::Chown(verb) => &verb.paths,
            Verb::Chgrp(verb) => &verb.paths,
            Verb::Setrep(verb) => &verb.paths,
            Verb::Put(verb) | Verb::CopyFromLocal(verb) | Verb::MoveFromLocal(verb) => last(&verb.paths),
            Verb::AppendToFile(verb) => last(&verb.paths),
            Verb::Get(verb) | Verb::CopyToLocal(verb) => verb.sources(),
            Verb::Getmerge(verb) => verb.paths.split_last().map_or(&[], |(_, sources)| sources),
            Verb::Cat(verb) => &verb.paths,
            Verb::Head(verb) => std::slice::from_ref(&verb.path),
            Verb::Tail(verb) => std::slice::from_ref(&verb.path),
            Verb::Text(verb) => &verb.paths,
            Verb::Checksum(verb) => &verb.paths,
            Verb::Cp(verb) => &verb.paths,
            Verb::Truncate(verb) => &verb.paths,
            Verb::Concat(verb) => &verb.paths,
        }
    }
}

/// The target of a copy from this machine.
fn last(paths: &[String]) -> &[String] {
    paths.last().map_or(&[], std::slice::from_ref)
}

/// A client of the file system that `fs` or the configuration names.
pub fn client(fs: Option<&str>) -> Result<Client> {
    Ok(Shell::new(fs, &[], &[])?.client)
}

/// Runs a verb.
pub async fn run(args: Args) -> Result<ExitCode> {
    let mut shell = Shell::new(args.fs.as_deref(), &args.define, args.verb.paths())?;
    let interrupted = tokio::select! {
        () = verb(args.verb, &mut shell) => false,
        signal = tokio::signal::ctrl_c() => signal.is_ok(),
    };
    if interrupted {
        if let Some(unfinished) = shell.unfinished.take() {
            // No longer than somebody waits who has pressed the keys.
            let _ = tokio::time::timeout(CLEAN_UP_WITHIN, unfinished.delete(&shell.client)).await;
        }
        // At once: a thread may be waiting for stdin.
        std::process::exit(INTERRUPTED);
    }
    Ok(shell.end())
}

async fn verb(verb: Verb, shell: &mut Shell) {
    match verb {
        Verb::Ls(verb) => verb.run(shell).await,
        Verb::Stat(verb) => verb.run(shell).await,
        Verb::Test(verb) => verb.run(shell).await,
        Verb::Find(verb) => verb.run(shell).await,
        Verb::Du(verb) => verb.run(shell).await,
        Verb::Count(verb) => verb.run(shell).await,
        Verb::Df(verb) => verb.run(shell).await,
        Verb::Mkdir(verb) => verb.run(shell).await,
        Verb::Touchz(verb) => verb.run(shell).await,
        Verb::Touch(verb) => verb.run(shell).await,
        Verb::Mv(verb) => verb.run(shell).await,
        Verb::Rm(verb) => verb.run(shell).await,
        Verb::Rmdir(verb) => verb.run(shell).await,
        Verb::Chmod(verb) => verb.run(shell).await,
        Verb::Chown(verb) => verb.run(shell).await,
        Verb::Chgrp(verb) => verb.run(shell).await,
        Verb::Setrep(verb) => verb.run(shell).await,
        Verb::Put(verb) => verb.run(shell, "put", false).await,
        Verb::CopyFromLocal(verb) => verb.run(shell, "copyFromLocal", false).await,
        Verb::MoveFromLocal(verb) => verb.run(shell, "moveFromLocal", true).await,
        Verb::AppendToFile(verb) => verb.run(shell).await,
        Verb::Get(verb) => verb.run(shell, "get").await,
        Verb::CopyToLocal(verb) => verb.run(shell, "copyToLocal").await,
        Verb::Getmerge(verb) => verb.run(shell).await,
        Verb::Cat(verb) => verb.run(shell).await,
        Verb::Head(verb) => verb.run(shell).await,
        Verb::Tail(verb) => verb.run(shell).await,
        Verb::Text(verb) => verb.run(shell).await,
        Verb::Checksum(verb) => verb.run(shell).await,
        Verb::Cp(verb) => verb.run(shell).await,
        Verb::Truncate(verb) => verb.run(shell).await,
        Verb::Concat(verb) => verb.run(shell).await,
    }
}

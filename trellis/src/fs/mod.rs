//! `trellis fs`: the namespace from the shell, with the verbs of `hdfs dfs` that work on names.
//!
//! As there: the options that `--help` lists, what is printed to stdout, how a path is written and shown, exit codes 0
//! and 1. Not as there: wrong usage ends with 2 instead of 255; times are in UTC; columns are as wide as their cells;
//! `rm` says where in the trash something went; complaints may say more; all paths of a command lie on one file system.
//!
//! - [`words`]: command lines in the stock shell's way
//! - [`place`]: path arguments
//! - [`shell`]: the client, output, failures, patterns
//! - [`walk`]: a tree, entry by entry, in bounded memory
//! - [`list`], [`counts`], [`find`]: verbs that look
//! - [`make`], [`remove`], [`attributes`], [`mode`]: verbs that change
//! - [`data`]: verbs that must wait for file data
//! - [`text`]: modes, times and sizes as the stock shell prints them

mod attributes;
mod counts;
mod data;
mod find;
mod list;
mod make;
mod mode;
mod place;
mod remove;
mod shell;
mod text;
mod walk;
mod words;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use self::shell::Shell;
pub use self::words::plain;

const EXAMPLE: &str = "\
Examples:
  trellis fs mkdir -p /user/ann/in
  trellis fs --fs hdfs://127.0.0.1:8020,127.0.0.1:8030 ls -R /
  trellis fs chmod -R g+w /user/ann
  trellis fs ls hdfs://127.0.0.1:8020/user

Patterns (* ? [ab] {a,b}) are expanded by this command, so quote them. A path that does not begin \
with '/' lies in /user/NAME. The file system is --fs, else TRELLIS_FS, else fs.defaultFS of HADOOP_CONF_DIR, else that \
of a path hdfs://HOST:PORT/PATH, else hdfs://127.0.0.1:8020. Command lines of hdfs dfs work too: -rm -skipTrash /x.
There is no file data yet: cat, get, put and their like say so.
Exit codes: 0 done, 1 something failed, 2 wrong usage.";

/// Options of `trellis fs`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The namenodes: hdfs://HOST:PORT[,HOST:PORT…]; when one fails the next is asked
    #[arg(long, value_name = "URI", env = "TRELLIS_FS")]
    fs: Option<String>,
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
    /// Needs file data
    #[command(hide = true, aliases = [
        "appendToFile", "checksum", "concat", "copyFromLocal", "copyToLocal", "cp", "get", "getmerge", "head",
        "moveFromLocal", "moveToLocal", "put", "tail", "text", "truncate",
    ])]
    Cat(data::Data),
}

impl Verb {
    /// The path arguments.
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
            Verb::Cat(_) => &[],
        }
    }
}

/// Runs a verb.
pub async fn run(args: Args) -> Result<ExitCode> {
    let mut shell = Shell::new(args.fs.as_deref(), args.verb.paths())?;
    match args.verb {
        Verb::Ls(verb) => verb.run(&mut shell).await,
        Verb::Stat(verb) => verb.run(&mut shell).await,
        Verb::Test(verb) => verb.run(&mut shell).await,
        Verb::Find(verb) => verb.run(&mut shell).await,
        Verb::Du(verb) => verb.run(&mut shell).await,
        Verb::Count(verb) => verb.run(&mut shell).await,
        Verb::Df(verb) => verb.run(&mut shell).await,
        Verb::Mkdir(verb) => verb.run(&mut shell).await,
        Verb::Touchz(verb) => verb.run(&mut shell).await,
        Verb::Touch(verb) => verb.run(&mut shell).await,
        Verb::Mv(verb) => verb.run(&mut shell).await,
        Verb::Rm(verb) => verb.run(&mut shell).await,
        Verb::Rmdir(verb) => verb.run(&mut shell).await,
        Verb::Chmod(verb) => verb.run(&mut shell).await,
        Verb::Chown(verb) => verb.run(&mut shell).await,
        Verb::Chgrp(verb) => verb.run(&mut shell).await,
        Verb::Setrep(verb) => verb.run(&mut shell).await,
        Verb::Cat(verb) => verb.run(&mut shell),
    }
    Ok(shell.end())
}

//! `trellis load anonymise`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use trellis_loadgen::trace::anonymise::{Key, anonymise};
use trellis_loadgen::trace::sink::Sink;

use super::written;
use crate::output::complain;

const EXAMPLE: &str = "\
Examples:
  trellis load anonymise hdfs-audit.log --out trace.log.gz
  trellis load anonymise monday.log --new-key secret.key --out monday-anonymous.log
  trellis load anonymise tuesday.log --key secret.key --out tuesday-anonymous.log

Names of paths, users and groups, addresses and callers' contexts become hashes that depend on a key: what was the same \
stays the same. Without --key or --new-key the key is forgotten. Lines that cannot be read are left out, and counted.";

/// Options of `trellis load anonymise`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The trace: audit logs or Dynamometer's tables, also packed by gzip; -: standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// A file with the key, made by --new-key
    #[arg(long, value_name = "FILE", conflicts_with = "new_key")]
    key: Option<PathBuf>,
    /// Makes a key in this new file, for further traces
    #[arg(long, value_name = "FILE")]
    new_key: Option<PathBuf>,
    /// A new file, packed if its name ends with .gz; -: standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let known = args.key.as_deref().map(Key::read).transpose()?;
    let mut sink = Sink::create(&args.out)?;
    let key = match (known, &args.new_key) {
        (Some(key), _) => key,
        (None, Some(path)) => Key::create(path)?,
        (None, None) => Key::random(),
    };
    let made = anonymise(&args.files, &key, &mut sink).and_then(|made| sink.finish().map(|()| made));
    if let Some(made) = written(made)? {
        for (why, (count, first)) in &made.left_out {
            complain(format_args!(
                "{count} of {} lines were left out: {why}, first in line {first}",
                made.lines
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

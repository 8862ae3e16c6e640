//! `trellis load anonymise`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use trellis_loadgen::output::Output;
use trellis_loadgen::paths::Paths;
use trellis_loadgen::trace::anonymise::{Anonymised, Key, anonymise};
use trellis_loadgen::trace::sink::Sink;

use super::{unless_stopped, written};
use crate::output::complain;
use crate::signals::Signals;

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
pub async fn run(args: Args) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let reads = Paths::default().reads("the command", &args.files).reads("--key", &args.key);
    let paths = reads.makes_trace("--out", &args.out);
    match &args.new_key {
        Some(path) => paths.makes("--new-key", path),
        None => paths,
    }
    .check()?;
    let (key, new_key) = match (&args.key, &args.new_key) {
        (Some(path), _) => (Key::read(path)?, None),
        (None, Some(path)) => Key::create(path).map(|(key, file)| (key, Some(file)))?,
        (None, None) => (Key::random(), None),
    };
    let out = args.out.clone();
    // A pipe may wait for its reader.
    let sink = unless_stopped(&mut signals, &[], move || Ok(Sink::create(&out)?)).await?;
    let unfinished = [sink.unfinished(), new_key.as_ref().and_then(Output::unfinished)];
    let unfinished: Vec<PathBuf> = unfinished.into_iter().flatten().map(PathBuf::from).collect();
    let make = move || make(&args, &key, new_key, sink);
    if let Some(made) = unless_stopped(&mut signals, &unfinished, make).await? {
        for (why, (count, first)) in &made.left_out {
            complain(format_args!(
                "{count} of {} lines were left out: {why}, first in line {first}",
                made.lines
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the trace, and then the new key's file: there is none without the other.
fn make(args: &Args, key: &Key, new_key: Option<Output>, mut sink: Sink) -> Result<Option<Anonymised>> {
    let made = written(anonymise(&args.files, key, &mut sink))?;
    new_key.map(Output::keep).transpose()?;
    let finished = written(sink.finish());
    if let (Err(_), Some(path)) = (&finished, &args.new_key) {
        // Why there is no trace is more than why there is a key.
        let _ = fs::remove_file(path);
    }
    Ok(finished?.and(made))
}

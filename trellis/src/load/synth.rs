//! `trellis load synth`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use trellis_loadgen::arrivals::Arrivals;
use trellis_loadgen::config::{Hot, Popularity};
use trellis_loadgen::mix::Workload;
use trellis_loadgen::namespace::Spec;
use trellis_loadgen::paths::Paths;
use trellis_loadgen::trace::sink::Sink;
use trellis_loadgen::trace::synth::Synth;

use super::{unless_stopped, written};
use crate::output::complain;
use crate::signals::Signals;

const EXAMPLE: &str = "\
Examples:
  trellis load synth --lines 100000 --rate 500 --out trace.log
  trellis load synth --workload pangu --files 1000000 --lines 10000000 --rate 20000 --seed 7 --out trace.log.gz

One seed gives one trace, byte for byte. It is an audit log as a stock NameNode writes it, of operations on a namespace \
that is there when the trace begins: 'trellis load replay' makes what it needs of it.";

/// Options of `trellis load synth`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// What is done
    #[arg(long, value_name = "NAME", default_value = "spotify")]
    workload: Workload,
    /// Creates in percent, for mixes; the other operations are scaled in proportion
    #[arg(long, value_name = "PERCENT")]
    create_share: Option<f64>,
    /// Lines in all
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    lines: u64,
    /// Lines a second
    #[arg(long, value_name = "LINES", default_value_t = 1000.0)]
    rate: f64,
    /// How they follow one another: constant, poisson, pareto [default: poisson; lambda: pareto]
    #[arg(long, value_name = "KIND")]
    arrivals: Option<Arrivals>,
    /// Which files are liked more: uniform, zipf:S, age:S (the younger, the more)
    #[arg(long, value_name = "KIND", default_value = "uniform")]
    popularity: Popularity,
    /// So many percent of the operations go to so many percent of the directories [default: pangu: 80/20]
    #[arg(long, value_name = "OPS/DIRS")]
    hot: Option<Hot>,
    /// Users
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    users: u32,
    /// So many percent of the lines were refused
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    refused: f64,
    /// Where the namespace lies
    #[arg(long, value_name = "PATH", default_value = "/data")]
    root: String,
    /// Files of the namespace
    #[arg(long, value_name = "COUNT", default_value_t = Spec::default().files)]
    files: u32,
    /// Directories between the root and the deepest files
    #[arg(long, value_name = "LEVELS", default_value_t = Spec::default().depth)]
    depth: u32,
    /// Files in each directory
    #[arg(long, value_name = "COUNT", default_value_t = Spec::default().files_per_dir)]
    files_per_dir: u32,
    /// Directories in each directory above the lowest level
    #[arg(long, value_name = "COUNT", default_value_t = Spec::default().dirs_per_dir)]
    dirs_per_dir: u32,
    /// Characters of every name
    #[arg(long, value_name = "COUNT", default_value_t = Spec::default().name_length)]
    name_length: u32,
    /// Of all that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A new file, packed if its name ends with .gz; -: standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    let synth = Synth {
        workload: args.workload,
        create_share: args.create_share,
        spec: Spec {
            files: args.files,
            depth: args.depth,
            files_per_dir: args.files_per_dir,
            dirs_per_dir: args.dirs_per_dir,
            name_length: args.name_length,
            seed: args.seed,
            // A trace does not say what files hold.
            ..Spec::default()
        },
        root: args.root,
        lines: args.lines,
        rate: args.rate,
        arrivals: args.arrivals.unwrap_or(args.workload.usual_arrivals()),
        popularity: args.popularity,
        hot: args.hot,
        users: args.users,
        refused_percent: args.refused,
        seed: args.seed,
    };
    let mut signals = Signals::listen()?;
    Paths::default().makes_trace("--out", &args.out).check()?;
    // A pipe may wait for its reader.
    let mut sink = unless_stopped(&mut signals, &[], move || Ok(Sink::create(&args.out)?)).await?;
    let unfinished: Vec<PathBuf> = sink.unfinished().map(PathBuf::from).into_iter().collect();
    let make = move || written(synth.write(&mut sink).and_then(|made| sink.finish().map(|()| made)));
    let made = unless_stopped(&mut signals, &unfinished, make).await?;
    if let Some(made) = made.filter(|made| made.lines < args.lines) {
        complain(format_args!("only {} lines: there was no file left to work on", made.lines));
    }
    Ok(ExitCode::SUCCESS)
}

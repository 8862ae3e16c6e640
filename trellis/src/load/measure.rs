//! `trellis load run`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use trellis_loadgen::arrivals::Arrivals;
use trellis_loadgen::config::{Config, Hot, Pick, Popularity};
use trellis_loadgen::disturb::process::Who;
use trellis_loadgen::disturb::{Act, Disturb};
use trellis_loadgen::mix::Workload;
use trellis_loadgen::paths::Paths;
use trellis_loadgen::run::run_until;
use trellis_loadgen::stop::Stop;

use super::{Files, Place, outputs};
use crate::limits::raise_open_files;

const EXAMPLE: &str = "\
Examples:
  trellis load run --workload spotify --metrics 127.0.0.1:9870
  trellis load run --workload spotify --create-share 20 --clients 256 --connections 16 --duration 60s
  trellis load run --workload open --rate 20000 --arrivals poisson --popularity zipf:0.9
  trellis load run --workload create --blocks simulated --sizes 1k-1g
  trellis load run --target hdfs://stock:8020 --server-pid 4711 --workload rename --report stock.json
  trellis load run --workload open --rate 1000 --disturb stop:trellis-data/run/namenode-0.pid@10s+5s
  trellis load run --workload spotify --rate 1000 --disturb report@10s --disturb hot:80/0.1@15s+5s

Workloads: spotify, lambda, pangu; create, mkdirs (or mkdir), open, fileStatus (or stat_file), rename, delete, append, \
stat_dir, list_dir, list_file, chown_dir, set_replication, chmod_file, chmod_dir. With --rate it is an open \
loop: operations begin when they are to, whatever the system does, and latency counts from then. Files have the blocks that \
those of the namespace have, unless --blocks says otherwise. docs/LOAD.md says what the figures mean. Exit code 0 when a \
report was written, also when operations failed. Ctrl-C ends the run early, with a report of what was measured; once more, \
at once and without.";

/// Options of `trellis load run`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// What is done
    #[arg(long, value_name = "NAME")]
    workload: Workload,
    /// Creates in percent, for mixes; the other operations are scaled in proportion
    #[arg(long, value_name = "PERCENT")]
    create_share: Option<f64>,
    /// Clients; namenodes are given to their connections in turn
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    clients: u32,
    /// Connections, which clients share [default: one for each client]
    #[arg(long, value_name = "COUNT")]
    connections: Option<u32>,
    /// Operations a second, in an open loop
    #[arg(long, value_name = "OPS")]
    rate: Option<f64>,
    /// How they follow one another: constant, poisson, pareto [default: poisson; lambda: pareto]
    #[arg(long, value_name = "KIND", requires = "rate")]
    arrivals: Option<Arrivals>,
    /// Which files are liked more: uniform, zipf:S, age:S (the younger, the more)
    #[arg(long, value_name = "KIND", default_value = "uniform")]
    popularity: Popularity,
    /// So many percent of the operations go to so many percent of the directories [default: pangu: 80/20]
    #[arg(long, value_name = "OPS/DIRS")]
    hot: Option<Hot>,
    /// How files are picked: popular, once (every file once), all (every file once by each client, under its first name)
    /// [default: popular; delete: once]
    #[arg(long, value_name = "HOW")]
    pick: Option<Pick>,
    #[command(flatten)]
    files: Files,
    /// Of all that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long to run before anything is measured
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    warm_up: Duration,
    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// How often each operation of a mix is done alone before, to see what it costs the store; needs --metrics
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=100_000))]
    cost_samples: u32,
    /// HTTP ports of all namenodes, HOST:PORT[,HOST:PORT…], whose counters are read before and after
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Server processes on this machine whose CPU time is read instead, as of stock NameNodes
    #[arg(long, value_name = "PID", value_delimiter = ',', conflicts_with = "metrics")]
    server_pid: Vec<u32>,
    /// Something that is done to the servers, any number of times: kill:WHO@WHEN, stop:WHO@WHEN+HOW_LONG, run:COMMAND@WHEN;
    /// report@WHEN (all simulated datanodes report in full), hot:OPS/DIRS@WHEN+HOW_LONG (as --hot, for so long). WHEN counts
    /// from the start of the measured time; WHO is a pid, or a file that holds it
    #[arg(long, value_name = "WHAT")]
    disturb: Vec<Disturb>,
    /// In a disturbed run, operations that take longer are counted as late
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    late_after: Duration,
    #[command(flatten)]
    outputs: outputs::OutputArgs,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    raise_open_files();
    let pids = args.disturb.iter().filter_map(|disturb| match &disturb.act {
        Act::Kill(Who::File(path)) | Act::Stop(Who::File(path), _) => Some(path),
        Act::Kill(Who::Pid(_)) | Act::Stop(Who::Pid(_), _) | Act::Run(_) | Act::Report | Act::Hot(..) => None,
    });
    let outputs = args.outputs.check(Paths::default().reads("--disturb", pids))?;
    let (config, stop) = (config(args), Stop::default());
    outputs.of(run_until(&config, &stop), &stop).await
}

fn config(args: Args) -> Config {
    let usual_pick = match args.workload.name() {
        // Files that are gone cannot be picked again.
        "delete" => Pick::Once,
        _ => Pick::Popular,
    };
    Config {
        target: args.place.target,
        base: args.place.base,
        workload: args.workload,
        create_share: args.create_share,
        clients: args.clients,
        connections: args.connections.unwrap_or(args.clients),
        rate: args.rate,
        arrivals: args.arrivals,
        popularity: args.popularity,
        hot: args.hot,
        pick: args.pick.unwrap_or(usual_pick),
        seed: args.seed,
        warm_up_s: args.warm_up.as_secs_f64(),
        duration_s: args.duration.as_secs_f64(),
        cost_samples: args.cost_samples,
        metrics: args.metrics,
        server_pids: args.server_pid,
        disturb: args.disturb,
        late_after_s: args.late_after.as_secs_f64(),
        replay: None,
        contents: args.files.asked(),
    }
}

//! `trellis load replay`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use trellis_loadgen::config::{Config, ReplayConfig};
use trellis_loadgen::mix::Workload;
use trellis_loadgen::paths::Paths;
use trellis_loadgen::stop::Stop;
use trellis_loadgen::trace::replay::replay;

use super::outputs;
use crate::limits::raise_open_files;

const EXAMPLE: &str = "\
Examples:
  trellis load replay hdfs-audit.log --metrics 127.0.0.1:9870
  trellis load replay hdfs-audit.log.2.gz hdfs-audit.log.1.gz hdfs-audit.log --speed 10
  trellis load replay trace.log --speed max --clients 256 --connections 16
  HADOOP_USER_NAME=hdfs trellis load replay hdfs-audit.log --as-logged --from 2h --until 3h

Files are audit logs (log4j's time, then allowed=, ugi= and so on) or Dynamometer's tables, also packed by gzip. Every path \
is moved below the base; what must have been there when the trace began is made first. Lines run in the order of the trace \
wherever one changes what the other names. docs/LOAD.md says what exactly is kept, and which commands are replayed. Exit \
code 0 when a report was written, also when lines failed. Ctrl-C ends the replay early, with a report of the lines until \
then; once more, at once and without.";

/// Options of `trellis load replay`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The trace, oldest file first
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The namenodes: hdfs://HOST:PORT[,HOST:PORT…], ours or stock's
    #[arg(long, value_name = "URI", default_value = "hdfs://127.0.0.1:8020")]
    target: String,
    /// Below which the trace takes place; empty or absent
    #[arg(long, value_name = "PATH", default_value = "/replay")]
    base: String,
    /// Deletes before what an earlier replay left in the base
    #[arg(long)]
    fresh: bool,
    /// So many times as fast as the trace; max: as fast as possible
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = parse_speed)]
    speed: Speed,
    /// Each line by the user that it names, and what is there first is theirs; only for the superuser [default: all by one
    /// user: you]
    #[arg(long)]
    as_logged: bool,
    /// Reads so many lines at most
    #[arg(long, value_name = "LINES")]
    limit: Option<u64>,
    /// Skips what is earlier than this after the first line
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    from: Duration,
    /// Skips what is not earlier than this after the first line
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    until: Option<Duration>,
    /// With --speed max: lines under way at once
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    clients: u32,
    /// Connections; --as-logged has one more for each user [default: 16, at most as many as clients]
    #[arg(long, value_name = "COUNT")]
    connections: Option<u32>,
    /// HTTP ports of all namenodes, HOST:PORT[,HOST:PORT…], whose counters are read before and after
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Server processes on this machine whose CPU time is read instead, as of stock NameNodes
    #[arg(long, value_name = "PID", value_delimiter = ',', conflicts_with = "metrics")]
    server_pid: Vec<u32>,
    #[command(flatten)]
    outputs: outputs::OutputArgs,
}

/// A multiple of the trace's pace; None: as fast as possible.
#[derive(Clone, Copy)]
struct Speed(Option<f64>);

fn parse_speed(text: &str) -> Result<Speed, &'static str> {
    match text {
        "max" => Ok(Speed(None)),
        _ => text.parse().map(|speed| Speed(Some(speed))).map_err(|_| "a number such as 10, or max"),
    }
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    raise_open_files();
    let outputs = args.outputs.check(Paths::default().reads("the command", &args.files))?;
    let (config, stop) = (config(args), Stop::default());
    outputs.of(replay(&config, &stop), &stop).await
}

fn config(args: Args) -> Config {
    const USUAL_CONNECTIONS: u32 = 16;
    Config {
        clients: args.clients,
        connections: args.connections.unwrap_or(USUAL_CONNECTIONS.min(args.clients)),
        seed: 0,
        duration_s: 0.0,
        metrics: args.metrics,
        server_pids: args.server_pid,
        replay: Some(ReplayConfig {
            files: args.files,
            speed: args.speed.0,
            as_logged: args.as_logged,
            limit: args.limit,
            from_s: args.from.as_secs_f64(),
            until_s: args.until.map(|until| until.as_secs_f64()),
            fresh: args.fresh,
        }),
        ..Config::new(args.target, args.base, Workload::replay())
    }
}

//! `trellis load model`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use trellis_loadgen::model::calibrate::Calibration;
use trellis_loadgen::model::check::{Check, worst};
use trellis_loadgen::model::cluster::{Database, Machines};
use trellis_loadgen::model::report::{Model, Question};
use trellis_loadgen::paths::Paths;

use super::outputs;

const EXAMPLE: &str = "\
Examples:
  trellis load model --calibrate scale.json --check scale.json,busy.json --within 15
  trellis load model --calibrate report.json --namenodes 20,60,120 --store-nodes 12,24 --cores-per-namenode 32

What an operation demands is taken from a run in a closed loop, with --metrics: a report, or the runs of a scale report on \
the fewest namenodes. --check says what the model makes of runs that were measured. The database of the clusters is stated, \
not measured; its figures as given are of one PostgreSQL server. docs/LOAD.md says what is assumed.";

/// Options of `trellis load model`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE, mut_arg("report", |report| report.default_value("model.json")))]
pub struct Args {
    /// The report of a run, or of a scale run
    #[arg(long, value_name = "FILE")]
    calibrate: PathBuf,
    /// Of a scale run: the runs on so many namenodes [default: the fewest]
    #[arg(long, value_name = "COUNT")]
    calibrate_on: Option<u32>,
    /// Scale reports whose runs are predicted
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    check: Vec<PathBuf>,
    /// Fails when the model is off by more, for any run that it was not calibrated on
    #[arg(long, value_name = "PERCENT", requires = "check")]
    within: Option<f64>,
    /// How much longer a group has the embedded store with each operation beyond its first
    #[arg(long, value_name = "US", default_value_t = 50.0)]
    write_us: f64,
    /// Namenodes of the clusters
    #[arg(
        long,
        value_name = "COUNTS",
        value_delimiter = ',',
        default_value = "1,2,4,8,12,20,30,40,60,80,120"
    )]
    namenodes: Vec<u32>,
    /// Nodes of the database
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "2,4,8,12,24")]
    store_nodes: Vec<u32>,
    /// Clients of each namenode
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    clients_per_namenode: u32,
    /// Cores of a namenode's machine
    #[arg(long, value_name = "COUNT", default_value_t = 12)]
    cores_per_namenode: u32,
    /// Cores of a node of the database
    #[arg(long, value_name = "COUNT", default_value_t = 12)]
    store_cores_per_node: u32,
    /// Nodes that write each row
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    store_replicas: u32,
    /// CPU time of a node for a statement
    #[arg(long, value_name = "US", default_value_t = 33.0)]
    store_cpu_us_per_statement: f64,
    /// CPU time of a node for a row that is read
    #[arg(long, value_name = "US", default_value_t = 5.2)]
    store_cpu_us_per_row: f64,
    /// CPU time of a node for a row that is written
    #[arg(long, value_name = "US", default_value_t = 10.0)]
    store_cpu_us_per_written_row: f64,
    /// CPU time of a namenode for a statement
    #[arg(long, value_name = "US", default_value_t = 24.0)]
    namenode_cpu_us_per_statement: f64,
    /// CPU time of a namenode for a row
    #[arg(long, value_name = "US", default_value_t = 0.73)]
    namenode_cpu_us_per_row: f64,
    /// Operations whose round trips are one statement
    #[arg(long, value_name = "COUNT", default_value_t = 8.0)]
    operations_per_statement: f64,
    /// From a namenode to a node of the database and back, beside the node's work
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = humantime::parse_duration)]
    store_trip: Duration,
    /// From a client to its namenode and back
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = humantime::parse_duration)]
    network: Duration,
    #[command(flatten)]
    outputs: outputs::OutputArgs,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let reads = Paths::default().reads("--calibrate", [&args.calibrate]).reads("--check", &args.check);
    let outputs = args.outputs.check(reads)?;
    if !(args.write_us >= 0.0 && args.write_us.is_finite()) {
        bail!("--write-us {}: a time is not negative", args.write_us);
    }
    let calibration = Calibration::read(&args.calibrate, args.calibrate_on, args.write_us)?;
    let mut checks = Vec::new();
    for path in &args.check {
        checks.extend(Check::all(&calibration, path)?);
    }
    let within = args.within.map(|within| (within, worst(&checks)));
    let model = Model::of(calibration, checks, question(args))?;
    outputs.keep(&model.into())?;
    match within {
        Some((_, None)) => {
            bail!("nothing was checked: all runs given are those that the model was calibrated on")
        }
        Some((within, Some(worst))) if worst > within => {
            bail!("the model is off by {worst:.1} % for one of the runs, by more than {within} %")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn question(args: Args) -> Question {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let database = Database {
        // Each of the numbers given in its turn.
        nodes: 1,
        cores_per_node: args.store_cores_per_node,
        replicas: args.store_replicas,
        statement_us: args.store_cpu_us_per_statement,
        row_us: args.store_cpu_us_per_row,
        written_row_us: args.store_cpu_us_per_written_row,
        client_statement_us: args.namenode_cpu_us_per_statement,
        client_row_us: args.namenode_cpu_us_per_row,
        operations_per_statement: args.operations_per_statement,
        trip_us: us(args.store_trip),
    };
    let machines =
        Machines { cores_per_namenode: args.cores_per_namenode, network_us: us(args.network), database };
    Question {
        namenodes: args.namenodes,
        store_nodes: args.store_nodes,
        clients_per_namenode: args.clients_per_namenode,
        machines,
    }
}

//! `trellis load scale`: starts the namenodes, makes the runs, ends the namenodes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use trellis_loadgen::build::build;
use trellis_loadgen::config::Popularity;
use trellis_loadgen::mix::Workload;
use trellis_loadgen::namespace::Spec;
use trellis_loadgen::paths::Paths;
use trellis_loadgen::run::run as make_run;
use trellis_loadgen::scale::Config;
use trellis_loadgen::scale::report::{Point, Scale};
use trellis_loadgen::scale::show::line;
use trellis_loadgen::target::Target;

use super::outputs::{OutputArgs, Outputs};
use crate::config::Sources;
use crate::limits::raise_open_files;
use crate::one_thread;
use crate::signals::Signals;
use crate::store::init::init;
use crate::up::Plan;
use crate::up::data_dir::DataDir;
use crate::up::fleet::Fleet;

const EXAMPLE: &str = "\
Examples:
  trellis load scale --namenodes 1,2,4,8 --store-delay 2ms --clients-per-namenode 6 --rounds 3
  trellis load scale --namenodes 1,2 --data /srv/scale --files 1000000 --create-share 20 --duration 60s

Every namenode is a process of this program on any free ports; all share one lmdb: store, in its plain form also when there \
is but one. They end with this command, however it ends. With --store-delay the store is as if it were far away, so that \
waiting and not this machine's cores bounds what a namenode does: look at how busy the machine was. docs/LOAD.md says what \
the figures mean.";

/// Options of `trellis load scale`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE, mut_arg("report", |report| report.default_value("scale.json")))]
pub struct Args {
    /// How many namenodes, one number after another
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,2,4,8")]
    namenodes: Vec<u32>,
    /// How often all of them; every other time backwards
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    rounds: u32,
    /// Clients of each namenode, with a connection each
    #[arg(long, value_name = "COUNT", default_value_t = 6)]
    clients_per_namenode: u32,
    /// How much longer every round trip to the store is made to take
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = humantime::parse_duration)]
    store_delay: Duration,
    /// What is done
    #[arg(long, value_name = "NAME", default_value = "spotify")]
    workload: Workload,
    /// Creates in percent, for mixes; the other operations are scaled in proportion
    #[arg(long, value_name = "PERCENT")]
    create_share: Option<f64>,
    /// Which files are liked more: uniform, zipf:S, age:S (the younger, the more)
    #[arg(long, value_name = "KIND", default_value = "uniform")]
    popularity: Popularity,
    /// Files of the namespace, which is Spotify's otherwise
    #[arg(long, value_name = "COUNT", default_value_t = Spec::default().files)]
    files: u32,
    /// Of all that is drawn; each further round has the next
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long to run before anything is measured
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    warm_up: Duration,
    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Where the store and logs lie, and stay; without it, in a folder that is removed at the end
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    outputs: OutputArgs,
    #[command(flatten)]
    sources: Sources,
}

/// Directories that are made at once.
const BUILD_WORKERS: u32 = 64;
const BASE: &str = "/load";
/// After this a namenode whose connections broke is known to have ended, or not to have.
const A_DEATH_SHOWS: Duration = Duration::from_secs(1);
/// The namenodes' setting behind `--store-delay`.
const STORE_DELAY: &str = "store_delay";

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    raise_open_files();
    let outputs = args.outputs.check(Paths::default().reads("--config", &args.sources.config))?;
    let config = config(&args);
    config.check()?;
    if args.sources.set.iter().any(|pair| pair.trim_start().starts_with(STORE_DELAY)) {
        bail!("--set {STORE_DELAY}: give --store-delay, which the report knows of");
    }
    let undelayed = with_delay(&args.sources, Duration::ZERO);
    let delayed = with_delay(&args.sources, args.store_delay);
    // Wrong settings are told before anything is made.
    delayed.namenode()?;
    let mut signals = Signals::listen()?;
    let folder = match &args.data {
        Some(_) => None,
        None => Some(tempfile::tempdir().context("cannot make a folder; give one with --data")?),
    };
    let data = args.data.as_deref().or(folder.as_ref().map(TempDir::path)).unwrap_or(Path::new("."));
    let mut plan = Plan::shared(DataDir::open(data)?, undelayed);
    let scale = tokio::select! {
        scale = measure(&mut plan, delayed, config, &outputs) => scale?,
        () = signals.next() => bail!("stopped before the end: nothing was written"),
    };
    outputs.keep_unless_stopped(scale.into()).await
}

fn config(args: &Args) -> Config {
    Config {
        namenodes: args.namenodes.clone(),
        rounds: args.rounds,
        clients_per_namenode: args.clients_per_namenode,
        store_delay_us: u64::try_from(args.store_delay.as_micros()).unwrap_or(u64::MAX),
        settings: args.sources.set.clone(),
        base: BASE.to_owned(),
        spec: Spec { files: args.files, ..Spec::default() },
        workload: args.workload,
        create_share: args.create_share,
        popularity: args.popularity,
        seed: args.seed,
        warm_up_s: args.warm_up.as_secs_f64(),
        duration_s: args.duration.as_secs_f64(),
    }
}

fn with_delay(sources: &Sources, delay: Duration) -> Sources {
    let mut sources = sources.clone();
    sources.set.push(format!("{STORE_DELAY}={}", humantime::format_duration(delay)));
    sources
}

/// Makes the namespace, then all runs.
async fn measure(plan: &mut Plan, delayed: Sources, config: Config, outputs: &Outputs) -> Result<Scale> {
    make_store(plan)?;
    let fleet = Fleet::start(plan, 1).await?;
    let built = build(&Target::parse(&fleet.target())?, &config.base, &config.spec, BUILD_WORKERS).await?;
    fleet.end().await;
    outputs.say(format_args!(
        "{} of {} files made, {} were there",
        built.files_made, config.spec.files, built.files_found
    ));
    plan.sources = delayed;
    let mut points = Vec::new();
    for (round, namenodes) in config.order() {
        let mut fleet = Fleet::start(plan, namenodes as usize).await?;
        let metrics = fleet.addresses.iter().map(|address| address.http.to_string()).collect();
        let run = config.run(&fleet.target(), metrics, namenodes, round);
        let report = tokio::select! {
            report = make_run(&run) => report,
            death = fleet.died() => return Err(death),
        };
        let report = match report {
            Ok(report) => report,
            // If one of them has just ended, that explains it.
            Err(error) => return Err(fleet.died_within(A_DEATH_SHOWS).await.unwrap_or_else(|| error.into())),
        };
        fleet.end().await;
        let point = Point { round, namenodes, report };
        outputs.say(line(&point));
        points.push(point);
    }
    Ok(Scale::of(config, points))
}

/// Makes an empty namespace, unless there is one. On a thread of its own: its runtime must end, and close the store with it,
/// before a namenode opens it.
fn make_store(plan: &Plan) -> Result<()> {
    let config = plan.sources.namenode()?.config;
    std::thread::scope(|scope| {
        let making = scope.spawn(|| one_thread()?.block_on(init(&plan.store, None, &config)).map(drop));
        making.join().unwrap_or_else(|_| bail!("making the store failed; please report this"))
    })
}

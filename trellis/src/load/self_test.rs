//! `trellis load self-test`, and the namenode that it drives, a process of its own.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use trellis_loadgen::config::Config;
use trellis_loadgen::mix::Workload;
use trellis_loadgen::namespace::Spec;
use trellis_loadgen::report::Report;
use trellis_loadgen::selftest::{self, constant};

use crate::output::print;

/// A generator that offers so many times what was measured was not what limited it.
const ENOUGH: f64 = 5.0;

/// What is done when neither an option nor a report says it.
const USUAL_WORKLOAD: &str = "spotify";

const EXAMPLE: &str = "\
Examples:
  trellis load self-test
  trellis load self-test --workload spotify --against report.json

Starts a process that answers each call with a constant, and drives it in a closed loop. With --against it does what that \
report's run did, and says how many times its rate this program can offer; exit code 1 when that is less than 5.";

/// Options of `trellis load self-test`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// What is done, as in `run` [default: that of the report, or spotify]
    #[arg(long, value_name = "NAME")]
    workload: Option<Workload>,
    /// Clients
    #[arg(long, value_name = "COUNT", default_value_t = 512)]
    clients: u32,
    /// Connections, which clients share
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    connections: u32,
    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// A report whose rate is set beside
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    let measured = args.against.as_deref().map(Report::read).transpose()?;
    if let Some(report) = &measured {
        check(&args, report)?;
    }
    let (mut server, port) = start().await?;
    let config = config(&args, measured.as_ref(), port)?;
    let offered = selftest::run(&config, &Spec::default()).await;
    // Its work is done, however that went.
    let _ = server.kill().await;
    let offered = offered?;
    print(format_args!(
        "{} against a namenode that answers constants: {:.0} ops/s; CPU of this program for each operation: {:.2} \u{b5}s",
        config.workload, offered.ops_per_s, offered.cpu_us_per_op
    ))?;
    let Some(report) = measured else { return Ok(ExitCode::SUCCESS) };
    let rate = report.total.ops_per_s;
    let times = offered.ops_per_s / rate;
    print(format_args!("{times:.1} times the {rate:.0} ops/s of that report; at least {ENOUGH} are wanted"))?;
    Ok(if times < ENOUGH { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Says why this report's rate cannot be set beside.
fn check(args: &Args, report: &Report) -> Result<()> {
    if report.total.ops_per_s <= 0.0 {
        bail!("that report has no rate: nothing succeeded");
    }
    if report.config.replay.is_some() {
        bail!("that report is of a replay: set a run's beside");
    }
    let theirs = report.config.workload;
    match args.workload {
        Some(ours) if ours != theirs => bail!("that report is of {theirs}: leave out --workload"),
        _ => Ok(()),
    }
}

fn config(args: &Args, report: Option<&Report>, port: u16) -> Result<Config> {
    let theirs = report.map(|report| &report.config);
    let workload = match args.workload.or(theirs.map(|config| config.workload)) {
        Some(workload) => workload,
        None => USUAL_WORKLOAD.parse().map_err(Error::msg)?,
    };
    Ok(Config {
        create_share: theirs.and_then(|config| config.create_share),
        clients: args.clients,
        connections: args.connections,
        warm_up_s: 1.0,
        duration_s: args.duration.as_secs_f64(),
        ..Config::new(format!("hdfs://127.0.0.1:{port}"), "/load", workload)
    })
}

/// Starts the other process, which ends with this one, and learns its port.
async fn start() -> Result<(Child, u16)> {
    let program = std::env::current_exe().context("looking for this program")?;
    let mut server = Command::new(program)
        .args(["load", "constant-namenode"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("starting the namenode that answers constants")?;
    let stdout = server.stdout.take().context("it has no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await.context("reading its port")?;
    let port = line.trim().parse().with_context(|| format!("it did not say its port: {line:?}"))?;
    Ok((server, port))
}

/// Serves constants on a free port, which it prints, until stdin ends.
pub async fn serve() -> Result<ExitCode> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port")?;
    print(listener.local_addr()?.port())?;
    let serving = tokio::task::spawn_blocking(move || constant::serve(&listener));
    let parent_is_gone = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    tokio::select! {
        // Whatever it is that is read, or why not.
        _ = parent_is_gone => Ok(ExitCode::SUCCESS),
        failed = serving => {
            let Err(error) = failed?;
            Err(error).context("serving constants")
        }
    }
}

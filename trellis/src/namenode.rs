//! `trellis namenode`: one namenode, until it is told to stop.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal;
use nix::unistd::getppid;
use trellis_metastore::group::GroupConfig;
use trellis_metastore::lmdb::{Form, LmdbConfig};
use trellis_metastore::open::StoreUrl;
use trellis_namenode::server::{Namenode, Options, Port, ServeError};

use crate::config::Sources;
use crate::limits::raise_open_files;
use crate::output::say;
use crate::settings::Settings;
use crate::signals::Signals;

/// What a namenode prints once it serves, followed by its RPC and its HTTP address as URLs.
pub const READY: &str = "trellis namenode ready: ";

const EXAMPLE: &str = "\
Example:
  trellis store init --store lmdb:/srv/names/store
  trellis namenode --store lmdb:/srv/names/store --rpc 0.0.0.0:8020 --http 0.0.0.0:9870

Several namenodes, each a process on this machine, may serve one lmdb: store. One that has it alone (--alone) writes it \
through a log, at about half the cost. SIGTERM and SIGINT stop a namenode in order.";

/// Options of `trellis namenode`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The store: lmdb:DIR, made by `trellis store init`; or mem:, empty at every start
    #[arg(long, value_name = "URL", env = "TRELLIS_STORE")]
    store: StoreUrl,
    /// Where to listen for RPC; port 0 = any free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8020")]
    rpc: String,
    /// Where to listen for HTTP (/metrics, /health); port 0 = any free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9870")]
    http: String,
    /// Has an lmdb: store for itself, and writes it through a log; no other process can open it meanwhile
    #[arg(long)]
    alone: bool,
    /// Where to append the audit log, in HDFS's format; none when left out
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// The setting `replication`, unless one is given elsewhere: as many as `trellis up` has datanodes
    #[arg(long, hide = true, value_name = "N")]
    default_replication: Option<u32>,
    /// The `trellis up` that started this: both end together
    #[arg(long, hide = true, value_name = "PID")]
    parent_pid: Option<i32>,
    #[command(flatten)]
    sources: Sources,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    raise_open_files();
    if let Some(parent) = args.parent_pid {
        end_with(parent)?;
    }
    let mut defaults = Settings::default();
    if let Some(replication) = args.default_replication {
        defaults.config.replication = replication;
    }
    let Settings { config, limits } = args.sources.namenode_over(defaults)?;
    let options = Options {
        config,
        limits,
        rpc: resolve("--rpc", &args.rpc)?,
        http: resolve("--http", &args.http)?,
        store: args.store,
        audit: args.audit_log,
        group: GroupConfig::default(),
        lmdb: LmdbConfig { form: if args.alone { Form::Log } else { Form::Plain }, ..LmdbConfig::default() },
    };
    crate::serve(serve(options))
}

async fn serve(options: Options) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let mut namenode = Namenode::start(options).await.map_err(|error| {
        let option = match &error {
            ServeError::Listen { port: Port::Rpc, .. } => "--rpc",
            ServeError::Listen { port: Port::Http, .. } => "--http",
            _ => return anyhow!(error),
        };
        anyhow!("{error}; stop what listens there, or give another address with {option}")
    })?;
    say(format_args!("{READY}hdfs://{} http://{}", namenode.rpc, namenode.http));
    tokio::select! {
        ended = namenode.ended() => {
            ended?;
            bail!("the namenode ended by itself");
        }
        () = signals.next() => {}
    }
    namenode.stop().await?;
    Ok(ExitCode::SUCCESS)
}

/// Ends this process when its parent ends, however that happens.
pub fn end_with(parent: i32) -> Result<()> {
    set_pdeathsig(signal::Signal::SIGKILL).context("cannot tie this process to its parent")?;
    // It may have ended before that took effect.
    if getppid().as_raw() != parent {
        bail!("the 'trellis up' that started this (pid {parent}) has ended");
    }
    Ok(())
}

/// The address that an option names.
pub fn resolve(option: &str, address: &str) -> Result<SocketAddr> {
    let mut found = address
        .to_socket_addrs()
        .with_context(|| format!("{option} {address}: give HOST:PORT of an address of this machine"))?;
    found.next().with_context(|| format!("{option} {address}: the name has no address"))
}

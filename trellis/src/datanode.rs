//! `trellis datanode`: one datanode, until it is told to stop.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use trellis_client::uri::Address;
use trellis_datanode::disk::{Folders, VolumeDir};
use trellis_datanode::server::{Advertised, Datanode, Options, Port, ServeError};
use trellis_datanode::store::{BlockStore, StorageType};

use crate::config::Sources;
use crate::limits::raise_open_files;
use crate::namenode::{end_with, resolve};
use crate::output::say;
use crate::settings::datanode::Settings;
use crate::signals::Signals;

/// What a datanode prints once a namenode knows it, followed by its data, IPC and HTTP addresses
/// as URLs.
pub const READY: &str = "trellis datanode ready: ";

const EXAMPLE: &str = "\
Example:
  trellis datanode --namenode nn1:8020,nn2:8020 --data /disk1 --data '[SSD]/disk2' --address 0.0.0.0:9866

The folders have the layout of HDFS: a stock DataNode can serve them afterwards, and the other way round. All namenodes \
must be of one cluster, Trellis's or Hadoop's. SIGTERM and SIGINT stop a datanode in order.";

/// Options of `trellis datanode`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The RPC addresses of all namenodes of one cluster
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', required = true)]
    namenode: Vec<String>,
    /// A folder for blocks, best one for each disk; [SSD], [ARCHIVE] or [DISK] before it says what the disk is
    #[arg(long, value_name = "DIR", env = "TRELLIS_DATANODE_DATA", value_delimiter = ',', required = true)]
    data: Vec<String>,
    /// Where to listen for data transfer; port 0 = any free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9866")]
    address: String,
    /// Where to listen for RPC of clients and other datanodes
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9867")]
    ipc: String,
    /// Where to listen for HTTP (/metrics, /health)
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9864")]
    http: String,
    /// This machine's name as clients know it; that of the system when left out
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    /// Address of the data port as clients reach it, if that is another than --address. Namenodes take the port; the
    /// host is the one that this datanode's calls come from, and --hostname
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// IPC port as clients reach it, if that is another than that of --ipc
    #[arg(long, value_name = "PORT")]
    advertise_ipc: Option<u16>,
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
    let Settings { config, disk } = args.sources.datanode()?;
    let dirs: Vec<VolumeDir> = args.data.iter().map(|text| volume(text)).collect::<Result<_>>()?;
    let folders = Folders::open(&dirs)?;
    let address = |text: &String| {
        Address::parse(text)
            .map_err(|error| anyhow!("--namenode {text}: {error}; give HOST:PORT[,HOST:PORT…]"))
    };
    let options = Options {
        namenodes: args.namenode.iter().map(address).collect::<Result<_>>()?,
        data: resolve("--address", &args.address)?,
        ipc: resolve("--ipc", &args.ipc)?,
        http: resolve("--http", &args.http)?,
        advertised: Advertised {
            hostname: args.hostname,
            data: args.advertise.map(|text| resolve("--advertise", &text)).transpose()?,
            ipc_port: args.advertise_ipc,
        },
        config,
        open: Box::new(move |pool, events| {
            let store = folders.attach(pool, disk, events)?;
            Ok(Arc::new(store) as Arc<dyn BlockStore>)
        }),
    };
    crate::serve(serve(options))
}

async fn serve(options: Options) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let mut datanode = Datanode::start(options).await.map_err(|error| {
        let option = match &error {
            ServeError::Listen { port: Port::Data, .. } => "--address",
            ServeError::Listen { port: Port::Ipc, .. } => "--ipc",
            ServeError::Listen { port: Port::Http, .. } => "--http",
            _ => return anyhow!(error),
        };
        anyhow!("{error}; stop what listens there, or give another address with {option}")
    })?;
    let mut told_to_stop = std::pin::pin!(signals.next());
    tokio::select! {
        ready = datanode.known() => ready?,
        () = &mut told_to_stop => {
            datanode.stop().await?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    say(format_args!("{READY}data://{} ipc://{} http://{}", datanode.data, datanode.ipc, datanode.http));
    tokio::select! {
        // Without an error: it was shut down by RPC.
        ended = datanode.ended() => {
            ended?;
            return Ok(ExitCode::SUCCESS);
        }
        () = &mut told_to_stop => {}
    }
    datanode.stop().await?;
    Ok(ExitCode::SUCCESS)
}

/// A folder with its disk's type before it, as in `dfs.datanode.data.dir`.
fn volume(text: &str) -> Result<VolumeDir> {
    let Some((kind, path)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return Ok(VolumeDir { path: PathBuf::from(text), storage_type: StorageType::Disk });
    };
    match StorageType::from_str_name(&kind.to_ascii_uppercase()) {
        Some(
            storage_type
            @ (StorageType::Disk | StorageType::Ssd | StorageType::Archive | StorageType::Nvdimm),
        ) => Ok(VolumeDir { path: PathBuf::from(path), storage_type }),
        _ => bail!("--data {text}: [DISK], [SSD], [NVDIMM] and [ARCHIVE] are known, not [{kind}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_may_say_what_their_disk_is() {
        let plain = volume("/disk1").unwrap();
        assert_eq!((plain.path, plain.storage_type), (PathBuf::from("/disk1"), StorageType::Disk));
        let fast = volume("[ssd]/disk2").unwrap();
        assert_eq!((fast.path, fast.storage_type), (PathBuf::from("/disk2"), StorageType::Ssd));
        assert!(volume("[RAM_DISK]/x").is_err() && volume("[X]/x").is_err());
    }
}

//! `trellis store init`: an empty namespace, written in one transaction or not at all.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use trellis_metastore::lmdb::LmdbConfig;
use trellis_metastore::open::{Opened, StoreUrl};
use trellis_namenode::config::Config;
use trellis_namenode::ops::format::Format;
use trellis_namenode::store::{Initialised, init as initialise};
use trellis_namenode::user::Users;

use crate::config::Sources;
use crate::output::say;

const EXAMPLE: &str = "\
Example:
  trellis store init --store lmdb:/srv/names/store

Done twice it says so and changes nothing; with another --cluster-id than the store's it refuses.";

/// Options of `trellis store init`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The store: lmdb:DIR; the directory is made when it is missing
    #[arg(long, value_name = "URL", env = "TRELLIS_STORE")]
    store: StoreUrl,
    /// The cluster's id; drawn when it is not given
    #[arg(long, value_name = "ID")]
    cluster_id: Option<String>,
    #[command(flatten)]
    sources: Sources,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    if args.store == StoreUrl::Mem {
        bail!("mem: is made by the namenode that uses it; give lmdb:DIR");
    }
    if let Some(id) = args.cluster_id.as_deref().filter(|id| !is_cluster_id(id)) {
        bail!("--cluster-id {id:?}: give printable ASCII characters without blanks");
    }
    let Initialised { cluster_id, made } =
        init(&args.store, args.cluster_id, &args.sources.namenode()?.config).await?;
    match made {
        true => say(format_args!("{}: made an empty namespace, cluster {cluster_id}", args.store)),
        false => {
            say(format_args!(
                "{}: initialised already, cluster {cluster_id}; nothing was changed",
                args.store
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_cluster_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Makes an empty namespace, unless there is one. Its root belongs to the user that runs this.
pub async fn init(url: &StoreUrl, cluster_id: Option<String>, config: &Config) -> Result<Initialised> {
    if let StoreUrl::Lmdb(dir) = url {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make the directory of {url}"))?;
    }
    let opened = Opened::open(url, LmdbConfig::default()).map_err(|error| anyhow!("{error}"))?;
    let cluster_id_given = cluster_id.is_some();
    let call = Format {
        cluster_id: cluster_id.unwrap_or_else(|| format!("CID-{}", uuid::Uuid::new_v4())),
        cluster_id_given,
        superuser: Users::of_process(),
        supergroup: config.supergroup.clone(),
    };
    initialise(&opened, call).await.map_err(|error| anyhow!("{url}: {}", error.message))
}

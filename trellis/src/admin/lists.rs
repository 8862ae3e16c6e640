//! `trellis admin under-replicated`, `missing`, `corrupt`, `datanodes`: lists that a namenode tells.

use std::process::ExitCode;

use anyhow::{Result, bail};
use trellis_namenode::fsck::admin::FAILED;

use crate::web::Namenodes;

/// Help on lists of blocks.
pub const BLOCKS_EXAMPLE: &str = "\
Examples:
  trellis admin under-replicated --http nn1:9870,nn2:9870
  trellis admin missing
  trellis admin corrupt

Prints a line for each block: its name and stamp, its length, its replicas, its file. Only for superusers. The list is of \
files that were found to need attention, whose replicas are looked at anew; files that are being written are not in it.";

/// Help on the list of datanodes.
pub const DATANODES_EXAMPLE: &str = "\
Example:
  trellis admin datanodes --http nn1:9870

Prints each datanode as this namenode hears of it: its state, the namenode whose commands it obeys, when it was last heard \
of; and its storages with their space. Up to 10000 replicas of a storage are counted. Only for superusers.";

/// Options of a list.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    namenodes: Namenodes,
}

/// Prints the list with this name.
pub async fn run(name: &str, args: Args) -> Result<ExitCode> {
    let last = args.namenodes.print(&format!("/admin/{name}"), &[]).await?;
    match last.strip_prefix(FAILED) {
        Some(why) => bail!("the list is not whole: {why}"),
        None if last.is_empty() => {
            bail!("the list is not whole: the namenode stopped in the middle; try again")
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

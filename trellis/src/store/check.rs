//! `trellis store check`: reads all rows and says what does not fit together.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use trellis_metastore::open::StoreUrl;
use trellis_namenode::check::{MAX_FINDINGS, check};

use crate::output::{complain, print};

const EXAMPLE: &str = "\
Example:
  trellis store check --store lmdb:trellis-data/store

Prints a line for each finding and exits with 1; with 0 when there is none. Stop the namenodes first, or at least let \
nobody write: rows are read in many batches, and those of a store that is being written may not fit together. \
It changes nothing.";

/// Options of `trellis store check`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The store: lmdb:DIR
    #[arg(long, value_name = "URL", env = "TRELLIS_STORE")]
    store: StoreUrl,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    let opened = super::open(&args.store)?;
    let findings = check(opened.store()).await.map_err(|error| anyhow!("{}: {error}", args.store))?;
    for finding in &findings {
        print(finding)?;
    }
    if findings.is_empty() {
        let rows = opened.store().counters().read().rows_read;
        print(format_args!("{}: all is well ({rows} rows read; some are read more than once)", args.store))?;
        return Ok(ExitCode::SUCCESS);
    }
    let more = if findings.len() >= MAX_FINDINGS { " or more" } else { "" };
    complain(format_args!(
        "{}: {} findings{more}; keep a copy of the store before anything else writes to it",
        args.store,
        findings.len()
    ));
    Ok(ExitCode::FAILURE)
}

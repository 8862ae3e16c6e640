//! `trellis store`: makes, checks and shows a store.
//!
//! - [`init`]: makes an empty namespace
//! - [`check`]: what does not fit together
//! - [`dump`]: every row, decoded

pub mod check;
pub mod dump;
pub mod init;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::Subcommand;
use trellis_metastore::lmdb::{Form, LmdbConfig};
use trellis_metastore::open::{Opened, StoreUrl};

/// How long a command waits for a store that another process has alone.
const OPEN_WAIT: Duration = Duration::from_secs(1);

/// Commands on a store.
#[derive(Subcommand)]
pub enum Command {
    /// Makes an empty namespace in a store; says so when there is one already
    Init(init::Args),
    /// Reads all rows and says what does not fit together
    Check(check::Args),
    /// Prints every row as a line of JSON
    Dump(dump::Args),
}

/// Runs a command.
pub async fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Init(args) => init::run(args).await,
        Command::Check(args) => check::run(args).await,
        Command::Dump(args) => dump::run(args).await,
    }
}

/// Opens a store that exists, to read all of it. What is in memory belongs to another process.
pub fn open(url: &StoreUrl) -> Result<Opened> {
    open_as(url, Form::Plain)
}

/// Opens a store that exists, beside whoever has it open; rows may be as old as a merge of its log.
pub fn look_at(url: &StoreUrl) -> Result<Opened> {
    open_as(url, Form::Behind)
}

fn open_as(url: &StoreUrl, form: Form) -> Result<Opened> {
    match url {
        // What cannot be looked at is told apart when it is opened.
        StoreUrl::Lmdb(dir) if matches!(dir.join("data.mdb").try_exists(), Ok(false)) => {
            bail!(
                "{url}: there is no store; make one with 'trellis store init --store {url}', or check the path"
            )
        }
        StoreUrl::Lmdb(_) => {
            let config = LmdbConfig { form, open_wait: OPEN_WAIT, ..LmdbConfig::default() };
            Opened::open(url, config).map_err(|error| anyhow!("{url}: {error}"))
        }
        StoreUrl::Mem => bail!("mem: lives inside its namenode and ends with it; give lmdb:DIR"),
    }
}

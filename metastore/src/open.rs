//! Opening a store by its URL.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::delayed::Delayed;
use crate::lmdb::{Lmdb, LmdbConfig};
use crate::mem::Mem;
use crate::store::{Store, StoreError};

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// `lmdb:DIR`: embedded, durable.
    Lmdb(PathBuf),
    /// `mem:`: gone with the process.
    Mem,
}

impl std::str::FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreUrl, String> {
        match text.split_once(':') {
            Some(("lmdb", dir)) if !dir.is_empty() => Ok(StoreUrl::Lmdb(dir.into())),
            Some(("mem", "")) => Ok(StoreUrl::Mem),
            Some(("mysql" | "postgres", _)) => {
                Err(format!("'{text}': stores on a SQL server are not built yet; use lmdb:DIR"))
            }
            _ => Err(format!(
                "'{text}' is no store: use lmdb:DIR (embedded, durable) or mem: (for a try, not durable)"
            )),
        }
    }
}

impl std::fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreUrl::Lmdb(dir) => write!(f, "lmdb:{}", dir.display()),
            StoreUrl::Mem => write!(f, "mem:"),
        }
    }
}

/// An opened store.
#[derive(Clone)]
pub enum Opened {
    /// Embedded.
    Lmdb(Lmdb),
    /// Embedded, and a round trip away: for measuring.
    Delayed(Delayed<Lmdb>),
    /// Any store behind the contract alone.
    Other(Arc<dyn Store>),
}

impl Opened {
    /// Opens the store at a URL. `lmdb` says how large an embedded one may grow, among other things.
    pub fn open(url: &StoreUrl, lmdb: LmdbConfig) -> Result<Opened, StoreError> {
        match url {
            StoreUrl::Lmdb(dir) => Ok(Opened::Lmdb(Lmdb::open(dir, lmdb)?)),
            StoreUrl::Mem => Ok(Opened::Other(Arc::new(Mem::new()))),
        }
    }

    /// The same, with a wait before every round trip: for measuring.
    pub fn open_delayed(url: &StoreUrl, lmdb: LmdbConfig, delay: Duration) -> Result<Opened, StoreError> {
        match url {
            StoreUrl::Lmdb(dir) => Ok(Opened::Delayed(Delayed::new(Lmdb::open(dir, lmdb)?, delay))),
            StoreUrl::Mem => Ok(Opened::Other(Arc::new(Delayed::new(Mem::new(), delay)))),
        }
    }

    /// The three calls.
    pub fn store(&self) -> &dyn Store {
        match self {
            Opened::Lmdb(lmdb) => lmdb,
            Opened::Delayed(store) => store,
            Opened::Other(store) => store.as_ref(),
        }
    }
}

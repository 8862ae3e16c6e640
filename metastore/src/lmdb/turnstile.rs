//! The turnstile: writers of all processes queue here before they ask for the environment's write lock.
//!
//! That lock is not fair: the process that just committed takes it again before one that waits has woken up. Whoever
//! waits for the lock stands in the turnstile, so the one that just committed cannot pass; it is let go as soon as the
//! lock is held. A killed process frees both.

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use heed::RwTxn;

use super::Core;
use crate::store::StoreError;

const FILE: &str = "turnstile.lock";

/// One process's place at the turnstile, for one of its threads at a time.
pub(super) struct Turnstile(Mutex<File>);

impl Turnstile {
    pub fn of(dir: &Path) -> std::io::Result<Turnstile> {
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(dir.join(FILE))?;
        Ok(Turnstile(Mutex::new(file)))
    }

    /// Begins a write transaction, when it is this thread's turn.
    pub fn begin<'c>(&self, core: &'c Core) -> Result<RwTxn<'c>, StoreError> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.lock().map_err(|error| core.error(error.into()))?;
        let begun = core.env.write_txn();
        file.unlock().map_err(|error| core.error(error.into()))?;
        begun.map_err(|error| core.error(error))
    }
}

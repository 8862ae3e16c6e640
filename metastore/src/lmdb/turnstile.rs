//! The turnstile: writers of all processes queue here before they ask for the environment's write lock.
//!
//! That lock is not fair: the process that just committed takes it again before one that waits has woken up. Whoever
//! waits for the lock stands in the turnstile, so the one that just committed cannot pass; it is let go as soon as the
//! lock is held. A killed process frees both.

use std::fs::File;
use std::path::Path;

use heed::RwTxn;

use super::Core;
use crate::store::StoreError;

const FILE: &str = "turnstile.lock";

/// One thread's place at the turnstile: its own open file, so that threads of one process exclude each other too.
pub(super) struct Turnstile(File);

impl Turnstile {
    pub fn of(dir: &Path) -> std::io::Result<Turnstile> {
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(dir.join(FILE))?;
        Ok(Turnstile(file))
    }

    /// Begins a write transaction, when it is this thread's turn.
    pub fn begin<'c>(&self, core: &'c Core) -> Result<RwTxn<'c>, StoreError> {
        self.0.lock().map_err(|error| core.error(error.into()))?;
        let begun = core.env.write_txn();
        self.0.unlock().map_err(|error| core.error(error.into()))?;
        begun.map_err(|error| core.error(error))
    }
}

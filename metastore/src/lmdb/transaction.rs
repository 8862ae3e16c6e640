//! A write transaction: in the tree itself, or in the log in front of it.

use heed::RwTxn;

use super::Core;
use super::log::Group;
use super::row;
use super::view::Rows;
use crate::change::Row;
use crate::key::Key;
use crate::store::StoreError;

/// The only write transaction of the moment. Dropped, it leaves no trace.
pub(super) struct Transaction<'c> {
    core: &'c Core,
    form: Form<'c>,
    written: usize,
}

enum Form<'c> {
    Tree { txn: RwTxn<'c>, buffer: Vec<u8> },
    Log(Group<'c>),
}

impl<'c> Transaction<'c> {
    /// Begins one, once no other is open in any process.
    pub fn begin(core: &'c Core) -> Result<Transaction<'c>, StoreError> {
        let form = match (&core.log, &core.turnstile) {
            (Some(log), _) => Form::Log(log.begin(core)?),
            (None, Some(turnstile)) => Form::Tree { txn: turnstile.begin(core)?, buffer: Vec::new() },
            (None, None) => {
                return Err(StoreError::Fatal(format!(
                    "{}: opened for looking at it only; nothing is written",
                    core.dir.display()
                )));
            }
        };
        Ok(Transaction { core, form, written: 0 })
    }

    /// The rows as they stand after what was written so far.
    pub fn rows(&self) -> Rows<'_> {
        match &self.form {
            Form::Tree { txn, .. } => Rows::new(self.core, txn, std::iter::empty()),
            Form::Log(group) => group.rows(),
        }
    }

    /// Writes a row, or replaces it. After an error the transaction is half-written and must be dropped.
    pub fn put(&mut self, key: &Key, row: Row) -> Result<(), StoreError> {
        match &mut self.form {
            Form::Tree { txn, buffer } => {
                buffer.clear();
                row::encode(&row, buffer);
                self.core.db.put(txn, key.as_bytes(), buffer).map_err(|error| self.core.error(error))?;
            }
            Form::Log(group) => group.written().put(key.clone(), Some(row)),
        }
        self.written += 1;
        Ok(())
    }

    /// Deletes a row. After an error the transaction is half-written and must be dropped.
    pub fn delete(&mut self, key: &Key) -> Result<(), StoreError> {
        match &mut self.form {
            Form::Tree { txn, .. } => {
                self.core.db.delete(txn, key.as_bytes()).map_err(|error| self.core.error(error))?;
            }
            Form::Log(group) => group.written().put(key.clone(), None),
        }
        self.written += 1;
        Ok(())
    }

    /// Ends it: durably, or by dropping it when nothing was written.
    pub fn commit(self) -> Result<(), StoreError> {
        let Transaction { core, form, written } = self;
        if written == 0 {
            return Ok(());
        }
        match form {
            Form::Tree { txn, .. } => {
                core.room.keep(core);
                txn.commit().map_err(|error| core.commit_error(error))?;
            }
            Form::Log(group) => group.commit()?,
        }
        core.counters.commits.add(1);
        core.counters.rows_written.add(written);
        Ok(())
    }
}

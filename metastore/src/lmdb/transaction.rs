//! A write transaction: in the tree itself, or in the log in front of it.

use std::time::Instant;

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
    /// A row on its way into the tree.
    buffer: Vec<u8>,
    written: usize,
    begun: Instant,
}

enum Form<'c> {
    Tree(Tree<'c>),
    Log(Group<'c>),
}

/// A write transaction in the tree itself.
pub(super) struct Tree<'c> {
    core: &'c Core,
    txn: RwTxn<'c>,
}

impl<'c> Tree<'c> {
    pub fn new(core: &'c Core, txn: RwTxn<'c>) -> Tree<'c> {
        Tree { core, txn }
    }

    /// Its number, which snapshots after its commit have.
    pub fn id(&self) -> usize {
        self.txn.id()
    }

    /// Writes a row as it is stored, replaces it, or deletes it (`None`).
    pub fn write(&mut self, key: &[u8], row: Option<&[u8]>) -> Result<(), StoreError> {
        let Tree { core, txn } = self;
        let written = match row {
            Some(row) => core.db.put(txn, key, row),
            None => core.db.delete(txn, key).map(drop),
        };
        written.map_err(|error| core.error(error))
    }

    /// Returns once all that was written is on disk.
    pub fn commit(self) -> Result<(), StoreError> {
        self.core.room.keep(self.core);
        self.txn.commit().map_err(|error| self.core.commit_error(error))
    }
}

impl<'c> Transaction<'c> {
    /// Begins one, once no other is open in any process.
    pub fn begin(core: &'c Core) -> Result<Transaction<'c>, StoreError> {
        let form = match (&core.log, &core.turnstile) {
            (Some(log), _) => Form::Log(log.begin(core)?),
            (None, Some(turnstile)) => Form::Tree(Tree::new(core, turnstile.begin(core)?)),
            (None, None) => {
                return Err(StoreError::Fatal(format!(
                    "{}: opened for looking at it only; nothing is written",
                    core.dir.display()
                )));
            }
        };
        Ok(Transaction { core, form, buffer: Vec::new(), written: 0, begun: Instant::now() })
    }

    /// The rows as they stand after what was written so far.
    pub fn rows(&self) -> Rows<'_> {
        match &self.form {
            Form::Tree(tree) => Rows::new(self.core, &tree.txn, std::iter::empty(), None),
            Form::Log(group) => group.rows(),
        }
    }

    /// Writes a row, replaces it, or deletes it (`None`). After an error the transaction is half-written and must be
    /// dropped.
    pub fn write(&mut self, key: &Key, row: Option<&Row>) -> Result<(), StoreError> {
        match &mut self.form {
            Form::Tree(tree) => {
                self.buffer.clear();
                let stored = row.map(|row| {
                    row::encode(row, &mut self.buffer);
                    &self.buffer[..]
                });
                tree.write(key.as_bytes(), stored)?;
            }
            Form::Log(group) => group.written().put(key, row),
        }
        self.written += 1;
        Ok(())
    }

    /// Ends it: durably, or by dropping it when nothing was written.
    pub fn commit(self) -> Result<(), StoreError> {
        let Transaction { core, form, written, begun, .. } = self;
        match form {
            // Dropped, it leaves no trace.
            _ if written == 0 => {}
            Form::Tree(tree) => tree.commit()?,
            Form::Log(group) => group.commit()?,
        }
        core.counters.transaction_us.add(begun.elapsed().as_micros() as usize);
        if written > 0 {
            core.counters.commits.add(1);
            core.counters.rows_written.add(written);
        }
        Ok(())
    }
}

//! Reads and writes of a namenode over an embedded store that is a round trip away, for measuring.
//!
//! An operation waits first, beside any number of others; then it does what it would have done at once: takes its snapshot,
//! or its place in the writer's queue.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Lmdb, Writer};
use crate::delayed::Delayed;
use crate::store::{Store, StoreError};
use crate::tx::Tx;
use crate::work::{End, Work};

/// The way to a store that is further away. Dropping it lets what waits finish.
pub struct DelayedPath {
    store: Delayed<Lmdb>,
    writer: Arc<Writer>,
    /// For operations that wait; more are refused as busy.
    room: Arc<Semaphore>,
}

impl DelayedPath {
    /// Over a store and its writer. So many operations may wait at a time.
    pub fn new(store: Delayed<Lmdb>, writer: Writer, queue: usize) -> DelayedPath {
        let room = queue.clamp(1, Semaphore::MAX_PERMITS);
        DelayedPath { store, writer: Arc::new(writer), room: Arc::new(Semaphore::new(room)) }
    }

    /// The store, for whoever needs its three calls.
    pub fn store(&self) -> &dyn Store {
        &self.store
    }

    /// Runs an operation that only reads, after a wait, over a snapshot taken then. Must be called on a tokio runtime. Gives
    /// the work back when too many wait.
    pub fn read(&self, mut work: Box<dyn Work>) -> Result<(), Box<dyn Work>> {
        let Some(place) = self.place() else { return Err(work) };
        let store = self.store.clone();
        tokio::spawn(async move {
            store.wait().await;
            drop(place);
            let end = match store.inner().read(|view| work.run(&mut Tx::read_only(view))) {
                Ok(Ok(_)) => End::Answered,
                Ok(Err(stop)) => End::Failed(StoreError::Fatal(stop.to_string())),
                Err(error) => End::Failed(error),
            };
            drop(work.finish(end));
        });
        Ok(())
    }

    /// Queues an operation that may write, after a wait. Must be called on a tokio runtime. Gives the work back when too many
    /// wait.
    pub fn write(&self, target: u64, work: Box<dyn Work>) -> Result<(), Box<dyn Work>> {
        let Some(place) = self.place() else { return Err(work) };
        let (store, writer) = (self.store.clone(), self.writer.clone());
        tokio::spawn(async move {
            store.wait().await;
            drop(place);
            if let Err(work) = writer.write(target, work) {
                drop(work.finish(End::Expired));
            }
        });
        Ok(())
    }

    fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.room.clone().try_acquire_owned().ok()
    }
}

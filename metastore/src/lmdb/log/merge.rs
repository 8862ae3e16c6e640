//! Merging: what is in the layers goes into the tree, in key order, in one commit.

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use super::segment::Left;
use super::{Layer, Log, remove};
use crate::lmdb::{Core, apply};
use crate::store::StoreError;

/// The thread that merges. Dropping it merges what is left and removes the log.
pub struct Merger {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Merger {
    /// Starts the thread for a store that has a log.
    pub fn start(core: Arc<Core>) -> Result<Merger, StoreError> {
        let merging = core.clone();
        let thread = std::thread::Builder::new()
            .name("lmdb-merger".into())
            .spawn(move || {
                if let Some(log) = &merging.log {
                    serve(&merging, log);
                }
            })
            .map_err(|error| core.error(error.into()))?;
        Ok(Merger { core, thread: Some(thread) })
    }
}

impl Drop for Merger {
    fn drop(&mut self) {
        if let Some(log) = &self.core.log {
            log.writing().is_closing = true;
            log.due.notify_one();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Merges every so often, and when a merge is due, until the store closes.
fn serve(core: &Core, log: &Log) {
    let mut left = None;
    loop {
        let mut writing = log.writing();
        if !writing.is_closing {
            let waited = log.due.wait_timeout(writing, core.config.merge_every);
            writing = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_closing = writing.is_closing;
        if left.is_none() && !log.layers().active.is_empty() {
            let mut layers = log.change_layers(&writing);
            layers.merging = Some(Arc::new(std::mem::take(&mut layers.active)));
            left = Some(writing.segments.turn());
        }
        drop(writing);
        if let Some(file) = &left {
            let merged = merge(core, log, file);
            let mut writing = log.writing();
            writing.failed = merged.as_ref().err().cloned();
            if merged.is_ok() {
                log.change_layers(&writing).merging = None;
                left = None;
            }
            log.merged.notify_all();
        }
        let writing = log.writing();
        if is_closing && (writing.failed.is_some() || writing.is_broken) {
            tracing::warn!(dir = %core.dir.display(), "closed with rows in its log; they are merged at the next opening");
            return;
        }
        if is_closing && left.is_none() && log.layers().active.is_empty() {
            if let Err(error) = remove(&core.dir) {
                tracing::warn!(%error, dir = %core.dir.display(), "could not remove the log; it is merged again at the next opening");
            }
            return;
        }
    }
}

/// Puts the layer that waits for it into the tree, then wipes the file that holds its rows.
fn merge(core: &Core, log: &Log, file: &Left) -> Result<(), StoreError> {
    let layer = log.layers().merging.clone();
    apply::merge(core, layer.as_deref().unwrap_or(&Layer::default()))?;
    file.wipe().map_err(|error| core.error(error.into()))
}

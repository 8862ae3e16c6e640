//! Merging: what is in the layers goes into the tree, in key order, in one commit.

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

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

/// A layer and the file that holds its rows, on their way into the tree.
struct Aside {
    layer: Arc<Layer>,
    file: Left,
}

/// Merges every so often, and when a merge is due, until the store closes.
fn serve(core: &Core, log: &Log) {
    let mut aside = None;
    loop {
        let is_closing = wait(log, core.config.merge_every);
        aside = aside.or_else(|| set_aside(log));
        let Some(merging) = &aside else {
            match is_closing {
                true => return close(core, log),
                false => continue,
            }
        };
        match merge(core, merging) {
            Ok(()) => {
                aside = None;
                ended(log, None);
            }
            Err(error) => {
                tracing::warn!(%error, dir = %core.dir.display(), "could not merge the log; nothing is written until it succeeds");
                ended(log, Some(error));
                if is_closing {
                    return;
                }
            }
        }
    }
}

/// Waits until it is time. Tells whether the store closes.
fn wait(log: &Log, merge_every: Duration) -> bool {
    let mut writing = log.writing();
    if !writing.is_closing {
        let waited = log.due.wait_timeout(writing, merge_every);
        writing = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    writing.is_closing
}

/// Lets writers go on with an empty layer in the other file; none when there is nothing to merge.
fn set_aside(log: &Log) -> Option<Aside> {
    let mut writing = log.writing();
    let mut layers = log.change_layers(&writing);
    if layers.active.is_empty() {
        return None;
    }
    let layer = Arc::new(std::mem::take(&mut layers.active));
    layers.merging = Some(layer.clone());
    drop(layers);
    Some(Aside { layer, file: writing.segments.turn() })
}

/// Puts the rows into the tree, then wipes the file.
fn merge(core: &Core, Aside { layer, file }: &Aside) -> Result<(), StoreError> {
    apply::merge(core, layer)?;
    file.wipe().map_err(|error| core.error(error.into()))
}

/// Tells writers how a merge ended, and readers that its rows are in the tree.
fn ended(log: &Log, failed: Option<StoreError>) {
    let mut writing = log.writing();
    if failed.is_none() {
        log.change_layers(&writing).merging = None;
    }
    writing.failed = failed;
    log.merged.notify_all();
}

/// Removes the log, all of which is in the tree; but for one of which that is not sure.
fn close(core: &Core, log: &Log) {
    let dir = core.dir.display();
    if log.writing().is_broken {
        tracing::warn!(%dir, "its log is left; it is put into the tree at the next opening");
    } else if let Err(error) = remove(&core.dir) {
        tracing::warn!(%error, %dir, "could not remove its log; it is put into the tree again at the next opening");
    }
}

//! Merging: what is in the layers goes into the tree, in key order, in one commit or a few.
//!
//! Until the last of them readers have the layer over the tree, and the log has all its rows: who comes after a crash puts
//! them there again.

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
        if log.writing().is_broken {
            let dir = core.dir.display();
            tracing::warn!(%dir, "its log is left as it is; it is put into the tree at the next opening");
            return;
        }
        aside = aside.or_else(|| set_aside(log));
        let Some(merging) = &aside else {
            match is_closing {
                true => return close(core),
                false => continue,
            }
        };
        match merge(core, log, merging) {
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

/// Waits until it is time, or a merge is due that did not just fail. Tells whether the store closes.
fn wait(log: &Log, merge_every: Duration) -> bool {
    let mut writing = log.writing();
    // Who filled the log during the last merge woke nobody.
    let is_due = writing.failed.is_none() && log.has(&writing, log.room / 2);
    if !writing.is_closing && !is_due {
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
    let empty = Layer::like(&layers.active);
    let layer = Arc::new(std::mem::replace(&mut layers.active, empty));
    layers.merging = Some(layer.clone());
    drop(layers);
    Some(Aside { layer, file: writing.segments.turn() })
}

/// Puts the rows into the tree, then wipes the file. A wipe that failed is not tried again: a sync reports an error only
/// once. And the other file must not be wiped after it, or these rows alone would be put over newer ones.
fn merge(core: &Core, log: &Log, Aside { layer, file }: &Aside) -> Result<(), StoreError> {
    apply::merge(core, layer)?;
    file.wipe().map_err(|error| {
        log.writing().is_broken = true;
        core.error(error.into())
    })
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

/// Removes the log, all of which is in the tree.
fn close(core: &Core) {
    if let Err(error) = remove(&core.dir) {
        let dir = core.dir.display();
        tracing::warn!(%error, %dir, "could not remove its log; it is put into the tree again at the next opening");
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use super::super::exists;
    use super::*;
    use crate::change::Row;
    use crate::lmdb::{Form, LmdbConfig, open};
    use crate::schema::setting;

    const LONG: Duration = Duration::from_secs(3600);

    /// A store with a log and no thread that merges, after a commit of one row.
    fn written(dir: &Path, log_bytes: usize) -> Core {
        let config = LmdbConfig { form: Form::Log, map_bytes: 16 << 20, log_bytes, ..LmdbConfig::default() };
        let core = open::open(dir, config).unwrap();
        let mut group = core.log.as_ref().unwrap().begin(&core).unwrap();
        group.written().put(&setting("a").key, Some(&Row::default()));
        group.commit().unwrap();
        core
    }

    #[test]
    fn a_merge_that_came_due_during_the_last_one_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let core = written(dir.path(), 100);
        assert!(!wait(core.log.as_ref().unwrap(), LONG));
    }

    #[test]
    fn after_a_wipe_that_failed_nothing_is_written_and_the_log_stays_whole() {
        let dir = tempfile::tempdir().unwrap();
        let core = written(dir.path(), 1 << 20);
        let log = core.log.as_ref().unwrap();
        let mut aside = set_aside(log).unwrap();
        aside.file = Left(Arc::new(File::open(dir.path().join("log.0")).unwrap()));
        let error = merge(&core, log, &aside).unwrap_err();
        ended(log, Some(error));
        assert!(matches!(log.begin(&core).map(drop), Err(StoreError::Fatal(_))));
        log.writing().is_closing = true;
        serve(&core, log);
        assert!(exists(dir.path()).unwrap());
    }
}

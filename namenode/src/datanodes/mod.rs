//! What this namenode knows of datanodes from their own heartbeats, and where new replicas may go.
//!
//! - [`view`]: all datanodes at one moment, as operations see them
//! - [`registry`]: what each told, whose it is, what it is to be told
//! - [`heartbeats`]: what becomes of one that registers, or tells that it lives
//! - [`counts`]: what became of reports and commands
//! - `kept`: reports that another namenode applies
//! - [`reports`]: how reports go through the engine
//! - [`placement`]: chooses storages for the replicas of a block
//!
//! Nothing here is the truth about replicas: that is in rows. Liveness and free space are never written.

pub mod counts;
pub mod heartbeats;
mod kept;
pub mod placement;
pub mod registry;
pub mod reports;
pub mod view;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use self::counts::Counts;
use self::registry::{Registry, Timing};
use self::view::Liveness;
pub use self::view::View;
use crate::config::Config;
use crate::metrics::{
    ATTENTION_FILES, DATANODES_DEAD, DATANODES_LIVE, DATANODES_OWNED, DATANODES_STALE, Metrics,
};
use crate::ops::report::{Reported, What};

/// Files whose reports are waited for share this many bells.
const BELLS: usize = 256;
/// Space and load in the view may be so old.
const VIEW_AGE: Duration = Duration::from_millis(200);
/// Full reports that are worked on at a time; others wait.
const FULL_REPORTS_AT_ONCE: usize = 2;

/// The datanodes that this namenode hears of.
pub struct Datanodes {
    registry: Mutex<Registry>,
    view: RwLock<Arc<View>>,
    /// When the view was made.
    viewed: Mutex<Option<Instant>>,
    bells: Vec<Notify>,
    full_reports: Semaphore,
    counts: Counts,
    /// Files that the leader looked at in its last round.
    attention: AtomicU64,
}

impl Datanodes {
    /// Nobody was heard of yet. `member`: this namenode's id.
    pub fn new(member: u64, config: &Config) -> Datanodes {
        Datanodes {
            registry: Mutex::new(Registry::new(member, Timing::of(config))),
            view: RwLock::default(),
            viewed: Mutex::default(),
            bells: (0..BELLS).map(|_| Notify::new()).collect(),
            full_reports: Semaphore::new(FULL_REPORTS_AT_ONCE),
            counts: Counts::default(),
            attention: AtomicU64::new(0),
        }
    }

    /// All datanodes as of now.
    pub fn view(&self) -> Arc<View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the view: a datanode came, went, or told of itself.
    pub fn set_view(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }

    /// What each datanode told. Never held over an await.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the view anew from what datanodes told.
    pub fn show(&self) {
        let now = Instant::now();
        let view = self.registry().view(now);
        self.set_view(view);
        *self.viewed.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// The same, if the view is not of just now.
    pub fn show_soon(&self) {
        let viewed = *self.viewed.lock().unwrap_or_else(PoisonError::into_inner);
        if viewed.is_none_or(|at| at.elapsed() >= VIEW_AGE) {
            self.show();
        }
    }

    /// Datanodes, by uuid, were given one replica more each.
    pub fn schedule<'a>(&self, uuids: impl Iterator<Item = &'a str>) {
        let mut registry = self.registry();
        uuids.for_each(|uuid| registry.schedule(uuid));
    }

    /// A datanode told of replicas: those that it received are no longer on their way.
    pub fn told(&self, uuid: &str, replicas: &[Reported]) {
        let arrived = replicas.iter().filter(|replica| matches!(replica.what, What::Received(_))).count();
        self.registry().arrived(uuid, u32::try_from(arrived).unwrap_or(u32::MAX));
    }

    /// Rings (`notify_waiters`) whenever a replica of a block made for `inode` was reported here, whoever applies the
    /// report; now and then for another file. Enable it before looking at the rows.
    pub fn reported(&self, inode: u64) -> &Notify {
        &self.bells[inode as usize % BELLS]
    }

    /// What became of reports and commands.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The leader looked at so many files.
    pub fn set_attention(&self, files: u64) {
        self.attention.store(files, Ordering::Relaxed);
    }

    /// Shows how datanodes are and what became of their reports.
    pub fn report(&self, metrics: &Metrics) {
        let view = self.view();
        let are = |liveness| view.nodes().iter().filter(|node| node.liveness == liveness).count() as f64;
        metrics.set_gauge(DATANODES_LIVE, are(Liveness::Live));
        metrics.set_gauge(DATANODES_STALE, are(Liveness::Stale));
        metrics.set_gauge(DATANODES_DEAD, are(Liveness::Dead));
        metrics.set_gauge(DATANODES_OWNED, self.registry().owned().len() as f64);
        metrics.set_gauge(ATTENTION_FILES, self.attention.load(Ordering::Relaxed) as f64);
        for (metric, value) in self.counts.read() {
            metrics.set_counter(metric.name, metric.help, value);
        }
    }

    /// Leave to work on a full report: each is kept in memory whole.
    pub fn full_reports(&self) -> &Semaphore {
        &self.full_reports
    }
}

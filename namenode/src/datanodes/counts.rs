//! What became of reports and commands here, counted for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::{self, Metric};
use crate::ops::report::Applied;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident = $metric:ident;)*) => {
        /// Counters that only go up.
        #[derive(Debug, Default)]
        pub struct Counts { $($(#[$doc])* pub $name: AtomicU64),* }

        impl Counts {
            /// All of them, with the metrics that they are shown as.
            pub fn read(&self) -> Vec<(Metric, u64)> {
                vec![$((metrics::$metric, self.$name.load(Ordering::Relaxed))),*]
            }
        }
    };
}

counts! {
    /// Incremental reports that were applied.
    incremental = DATANODE_REPORTS;
    /// Storages of full reports that were applied.
    full = DATANODE_FULL_REPORTS;
    /// Reports that were kept for their owner.
    kept = DATANODE_REPORTS_KEPT;
    /// Replicas whose rows changed.
    changed = REPLICAS_CHANGED;
    /// Replicas of blocks that no file has.
    unknown = REPLICAS_UNKNOWN;
    /// Replicas that are not as their block is.
    condemned = REPLICAS_CONDEMNED;
    /// Commands handed out.
    commands = DATANODE_COMMANDS;
    /// Copies ordered.
    copies = REPLICATION_COPIES;
    /// Replicas that are to be removed.
    removed = REPLICATION_REMOVED;
    /// Files and rows that a job could not deal with.
    passed = JOB_ITEMS_PASSED;
}

impl Counts {
    /// Counts what became of replicas.
    pub fn applied(&self, applied: &Applied) {
        add(&self.changed, applied.changed);
        add(&self.unknown, applied.unknown);
        add(&self.condemned, applied.condemned);
    }
}

/// Counts so many.
pub fn add(counter: &AtomicU64, count: impl TryInto<u64>) {
    counter.fetch_add(count.try_into().unwrap_or(0), Ordering::Relaxed);
}

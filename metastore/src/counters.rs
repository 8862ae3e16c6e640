//! What the store does, counted where it happens.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($(#[doc = $what:literal] $name:ident,)*) => {
        /// Monotonic counters of a store; cheap to bump from any thread.
        #[derive(Debug, Default)]
        pub struct Counters { $(#[doc = $what] pub $name: Counter,)* }

        /// A reading of all counters.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Reading { $(#[doc = $what] pub $name: u64,)* }

        impl Counters {
            /// Reads all counters, one after another.
            pub fn read(&self) -> Reading {
                Reading { $($name: self.$name.get(),)* }
            }
        }

        impl Reading {
            /// What happened since an earlier reading.
            pub fn since(&self, earlier: &Reading) -> Reading {
                Reading { $($name: self.$name - earlier.$name,)* }
            }

            /// Names, what each counts, and values, in the order of declaration.
            pub fn entries(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $what.trim_ascii_start(), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Exchanges with the store, as the server counts them; lmdb: snapshots, and operations in write transactions.
    round_trips,
    /// Fetches (lmdb: snapshots).
    fetches,
    /// Commits that wrote something durably.
    commits,
    /// Keys looked up.
    keys,
    /// Rows returned by lookups and scans.
    rows_read,
    /// Rows inserted, replaced, merged or deleted.
    rows_written,
    /// Commits that moved rows from the log into the tree (lmdb with a log only).
    merges,
    /// Rows that these moved.
    merged_rows,
    /// Operations that were run in groups that commit.
    grouped_operations,
    /// Groups that commit.
    groups,
    /// Operations that were run in read-only groups.
    grouped_reads,
    /// Read-only groups.
    read_groups,
    /// Commits refused because a row had changed.
    conflicts,
    /// Operations run again because of a conflict, a time-out or an unreachable store.
    retries,
    /// Operations run again because a row was not at hand.
    misses,
    /// Operations that took locks because they kept losing.
    locked_operations,
    /// Microseconds that write transactions were open until they were durable (lmdb only): nobody else writes meanwhile.
    transaction_us,
    /// Round trips that waited because of the setting store_delay.
    delays,
    /// Microseconds that these waited.
    delay_us,
}

/// One counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// The value so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

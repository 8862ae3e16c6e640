//! What a volume's scanner is told from outside: which replicas are suspected, and that it is to end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::core::lock;

/// Suspects that may wait.
const SUSPECTS_MAX: usize = 10_000;
/// For so long after it was looked at a replica is no suspect: many readers find the same fault.
const RECENT: Duration = Duration::from_secs(600);
/// Replicas that were looked at, to be remembered.
const RECENT_MAX: usize = 1000;

/// What a volume's scanner is told.
#[derive(Default)]
pub struct Scanning {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    suspects: BTreeSet<u64>,
    /// When suspects were looked at.
    recent: BTreeMap<u64, Instant>,
    closed: bool,
}

impl State {
    fn is_recent(&self, block_id: u64) -> bool {
        self.recent.get(&block_id).is_some_and(|looked| looked.elapsed() < RECENT)
    }
}

impl Scanning {
    /// Adds a block that somebody found wrong. Not if it was looked at a short time ago, and not if too many wait, for
    /// the scanner comes by anyway.
    pub fn suspect(&self, block_id: u64) {
        let mut state = lock(&self.state);
        if state.suspects.len() < SUSPECTS_MAX && !state.is_recent(block_id) {
            state.suspects.insert(block_id);
            self.changed.notify_all();
        }
    }

    /// The next suspect to look at.
    pub fn next_suspect(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.closed { None } else { state.suspects.pop_first() }
    }

    /// A suspect was read to its end, or to its fault.
    pub fn looked_at(&self, block_id: u64) {
        let mut state = lock(&self.state);
        state.suspects.remove(&block_id);
        if state.recent.len() >= RECENT_MAX {
            state.recent.retain(|_, looked| looked.elapsed() < RECENT);
        }
        if state.recent.len() < RECENT_MAX {
            state.recent.insert(block_id, Instant::now());
        }
    }

    /// Ends the scanner.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// Whether it is to end.
    pub fn closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Waits for a while, or until there are suspects or it is to end. False if it is.
    pub fn sleep(&self, time: Duration) -> bool {
        let idle = |state: &mut State| !state.closed && state.suspects.is_empty();
        let waited = self.changed.wait_timeout_while(lock(&self.state), time, idle);
        !waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_is_looked_at_once() {
        let scanning = Scanning::default();
        scanning.suspect(5);
        scanning.suspect(5);
        scanning.suspect(3);
        assert_eq!(scanning.next_suspect(), Some(3));
        scanning.suspect(3);
        scanning.looked_at(3);
        scanning.suspect(3);
        assert_eq!(scanning.next_suspect(), Some(5));
        // It could not be looked at: it is one again as soon as somebody says so.
        scanning.suspect(5);
        assert_eq!((scanning.next_suspect(), scanning.next_suspect()), (Some(5), None));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let scanning = Scanning::default();
        (0..2 * SUSPECTS_MAX as u64).for_each(|id| scanning.suspect(id));
        (1 << 40..(1 << 40) + RECENT_MAX as u64 + 100).for_each(|id| scanning.looked_at(id));
        let state = lock(&scanning.state);
        assert_eq!((state.suspects.len(), state.recent.len()), (SUSPECTS_MAX, RECENT_MAX));
    }

    #[test]
    fn who_sleeps_wakes_for_a_suspect_and_for_the_end() {
        let scanning = Scanning::default();
        let long = Duration::from_secs(3600);
        std::thread::scope(|scope| {
            scope.spawn(|| scanning.suspect(1));
            assert!(scanning.sleep(long));
        });
        scanning.next_suspect();
        std::thread::scope(|scope| {
            scope.spawn(|| scanning.close());
            assert!(!scanning.sleep(long));
        });
        scanning.suspect(2);
        assert_eq!(scanning.next_suspect(), None);
    }
}

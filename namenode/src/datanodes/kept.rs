//! Reports that this namenode acknowledged and may not apply: kept for a while, in case it becomes the owner.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::ops::report::Reported;

/// Replicas that are kept for one datanode at most.
const MAX_REPLICAS: usize = 20_000;
/// So many times as long as usual a report is kept while no owner is seen: an outage of the store, say.
const PATIENCE: u32 = 10;

/// The kept reports of one datanode.
#[derive(Debug, Default)]
pub struct Kept {
    reports: VecDeque<(Instant, Vec<Reported>)>,
    replicas: usize,
    /// When something was dropped that no owner may have applied.
    dropped: Option<Instant>,
}

/// For how long reports are kept.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    /// An owner that lives for so long after a report has applied it.
    pub age: Duration,
    /// When another owner was seen alive last.
    pub owner_seen: Instant,
}

impl Age {
    /// An owner was there for long enough to have applied what was told at `at`.
    fn is_applied(self, at: Instant) -> bool {
        self.owner_seen.saturating_duration_since(at) > self.age
    }
}

impl Kept {
    /// Keeps a report; the oldest ones go when an owner has applied them, or there are too many.
    pub fn put(&mut self, report: Vec<Reported>, now: Instant, age: Age) {
        self.age(now, age);
        self.replicas += report.len();
        self.reports.push_back((now, report));
        while self.replicas > MAX_REPLICAS && self.pop() {
            self.dropped = Some(now);
        }
    }

    /// What is kept, oldest first, and whether something was dropped that no owner may have applied.
    pub fn take(&mut self, now: Instant, age: Age) -> (Vec<Vec<Reported>>, bool) {
        self.age(now, age);
        self.replicas = 0;
        let is_dropped = self.dropped.take().is_some();
        (self.reports.drain(..).map(|(_, report)| report).collect(), is_dropped)
    }

    /// Something else was lost.
    pub fn note_gap(&mut self, now: Instant) {
        self.dropped = Some(now);
    }

    fn age(&mut self, now: Instant, age: Age) {
        self.dropped = self.dropped.filter(|at| !age.is_applied(*at));
        while let Some((at, _)) = self.reports.front() {
            let is_applied = age.is_applied(*at);
            if !is_applied && now.saturating_duration_since(*at) <= age.age * PATIENCE {
                return;
            }
            self.pop();
            if !is_applied {
                self.dropped = Some(now);
            }
        }
    }

    fn pop(&mut self) -> bool {
        let Some((_, report)) = self.reports.pop_front() else { return false };
        self.replicas -= report.len();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::report::What;

    const MINUTE: Duration = Duration::from_secs(60);

    fn report(replicas: u64) -> Vec<Reported> {
        let told = |block| Reported { storage: 1, block, stamp: 1, length: 1, what: What::Deleted };
        (0..replicas).map(told).collect()
    }

    fn sizes(taken: (Vec<Vec<Reported>>, bool)) -> (Vec<usize>, bool) {
        (taken.0.iter().map(Vec::len).collect(), taken.1)
    }

    #[test]
    fn an_owner_that_lived_has_applied_what_is_old() {
        let (start, mut kept) = (Instant::now(), Kept::default());
        for i in 0..4 {
            let now = start + MINUTE * i;
            kept.put(report(u64::from(i) + 1), now, Age { age: MINUTE, owner_seen: now });
        }
        let owner_seen = start + MINUTE * 3;
        // It was seen last three minutes ago: only what was a minute older than that is known to be applied.
        let taken = kept.take(start + MINUTE * 6, Age { age: MINUTE, owner_seen });
        assert_eq!(sizes(taken), (vec![3, 4], false));
        assert_eq!(sizes(kept.take(start, Age { age: MINUTE, owner_seen })), (vec![], false));
    }

    #[test]
    fn what_goes_while_nobody_owns_leaves_a_gap() {
        let (start, mut kept) = (Instant::now(), Kept::default());
        let age = Age { age: MINUTE, owner_seen: start };
        kept.put(report(1), start, age);
        kept.put(report(2), start + MINUTE * 9, age);
        assert_eq!(sizes(kept.take(start + MINUTE * 11, age)), (vec![2], true));
        // The gap is forgotten when an owner was there long after.
        for (seen, gap) in [(11, true), (12, true), (13, false)] {
            kept.put(report(1), start, age);
            kept.put(report(2), start + MINUTE * 11, age);
            let later = Age { age: MINUTE, owner_seen: start + MINUTE * seen };
            assert_eq!(kept.take(start + MINUTE * 14, later).1, gap, "seen at {seen}");
        }
    }

    #[test]
    fn too_many_leave_a_gap() {
        let (start, mut kept) = (Instant::now(), Kept::default());
        let age = Age { age: MINUTE, owner_seen: start };
        kept.put(report(MAX_REPLICAS as u64), start, age);
        kept.put(report(1), start, age);
        assert_eq!(sizes(kept.take(start + MINUTE * 60, age)), (vec![], true));
        kept.put(report(MAX_REPLICAS as u64), start, age);
        kept.put(report(1), start, age);
        assert_eq!(sizes(kept.take(start, age)), (vec![1], true));
    }
}

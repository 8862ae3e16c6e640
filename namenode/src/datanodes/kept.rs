//! Reports that this namenode acknowledged and may not apply: kept for a while, in case it becomes the owner.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::ops::report::Reported;

/// Replicas that are kept for one datanode at most.
const MAX_REPLICAS: usize = 20_000;

/// The kept reports of one datanode.
#[derive(Debug, Default)]
pub struct Kept {
    reports: VecDeque<(Instant, Vec<Reported>)>,
    replicas: usize,
    /// When something was dropped that was not too old yet.
    dropped: Option<Instant>,
}

impl Kept {
    /// Keeps a report; the oldest ones go when they are older than `age`, or too many.
    pub fn put(&mut self, report: Vec<Reported>, now: Instant, age: Duration) {
        self.age(now, age);
        self.replicas += report.len();
        self.reports.push_back((now, report));
        while self.replicas > MAX_REPLICAS
            && let Some((_, report)) = self.reports.pop_front()
        {
            self.replicas -= report.len();
            self.dropped = Some(now);
        }
    }

    /// What is kept, oldest first, and whether something younger than `age` was dropped.
    pub fn take(&mut self, now: Instant, age: Duration) -> (Vec<Vec<Reported>>, bool) {
        self.age(now, age);
        self.replicas = 0;
        let dropped = self.dropped.take().is_some_and(|at| now.saturating_duration_since(at) <= age);
        (self.reports.drain(..).map(|(_, report)| report).collect(), dropped)
    }

    fn age(&mut self, now: Instant, age: Duration) {
        while let Some((at, _)) = self.reports.front()
            && now.saturating_duration_since(*at) > age
            && let Some((_, report)) = self.reports.pop_front()
        {
            self.replicas -= report.len();
        }
    }
}

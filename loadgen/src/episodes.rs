//! A disturbed run in parts: an episode begins with each thing that is done to the servers.
//!
//! Operations belong to the episode in which they were to begin, whenever they ended. So those that had to wait for a
//! frozen namenode are found where it froze, and the episodes add up to the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::datanodes::round::Reports;
use crate::ops::End;
use crate::record::nanos;

/// A part of a run. Operations belong to the part in which they were to begin, whenever they ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// `start`, or what was done to the servers then.
    pub begins_with: String,
    /// Seconds since the start of the measured time.
    pub from_s: f64,
    /// The same.
    pub to_s: f64,
    /// Successes.
    pub count: u64,
    /// Refused.
    pub refused: u64,
    /// Errors.
    pub errors: u64,
    /// Of all of these, those that took longer than `config.late_after_s`.
    pub late: u64,
    /// The longest latency.
    pub max_us: f64,
    /// Clients went over to another namenode within this time.
    pub failovers: u64,
    /// Calls were sent once more within this time.
    pub resends: u64,
    /// Of one that begins with full reports of all simulated datanodes: what came of those, also later.
    #[serde(default)]
    pub block_reports: Option<Reports>,
}

/// When episodes begin, since the start of the measured time. One thread marks, all others read. Clones are the same.
#[derive(Debug, Clone)]
pub struct Marks(Arc<[AtomicU64]>);

/// Of one that has not begun.
const NOT_YET: u64 = u64::MAX;

impl Marks {
    /// With so many episodes after the first, which begins with the run.
    pub fn new(later: usize) -> Marks {
        Marks((0..later).map(|_| AtomicU64::new(NOT_YET)).collect())
    }

    /// An episode begins: the n-th after the first. They begin in order.
    pub fn begin(&self, later: usize, at: Duration) {
        if let Some(mark) = self.0.get(later) {
            mark.store(nanos(at), Ordering::Release);
        }
    }

    /// When the n-th after the first began; None: it has not.
    pub fn begun(&self, later: usize) -> Option<Duration> {
        let mark = self.0.get(later)?.load(Ordering::Acquire);
        (mark != NOT_YET).then(|| Duration::from_nanos(mark))
    }

    fn episode(&self, at: Duration) -> usize {
        let at = nanos(at);
        let has_begun = |mark: u64| mark != NOT_YET && mark <= at;
        self.0.iter().take_while(|mark| has_begun(mark.load(Ordering::Acquire))).count()
    }
}

/// What happened in one episode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EpisodeRecord {
    /// Did what they are for.
    pub success: u64,
    /// Were refused as can be expected.
    pub refused: u64,
    /// Anything else.
    pub errors: u64,
    /// Of all of these, those that took longer than is tolerable.
    pub late: u64,
    /// The longest latency, ns.
    pub max_ns: u64,
}

/// What happened, by episode.
#[derive(Debug, Clone)]
pub struct EpisodeRecords {
    marks: Marks,
    late_after: Duration,
    records: Vec<EpisodeRecord>,
}

impl EpisodeRecords {
    /// Of nothing yet; an operation is late that takes longer than `late_after`.
    pub fn new(marks: Marks, late_after: Duration) -> EpisodeRecords {
        let records = vec![EpisodeRecord::default(); marks.0.len() + 1];
        EpisodeRecords { marks, late_after, records }
    }

    /// Notes an operation.
    pub fn note(&mut self, intended: Duration, latency: Duration, end: &End) {
        let Some(record) = self.begun(intended, latency) else { return };
        match end {
            End::Success => record.success += 1,
            End::Refused { .. } => record.refused += 1,
            End::Error(_) => record.errors += 1,
        }
    }

    /// Notes an operation that had not ended when its time was over.
    pub fn unfinished(&mut self, intended: Duration, latency: Duration) {
        let Some(record) = self.begun(intended, latency) else { return };
        record.errors += 1;
    }

    fn begun(&mut self, intended: Duration, latency: Duration) -> Option<&mut EpisodeRecord> {
        let record = self.records.get_mut(self.marks.episode(intended))?;
        record.late += u64::from(latency > self.late_after);
        record.max_ns = record.max_ns.max(nanos(latency));
        Some(record)
    }

    /// Takes in what another has of the same run.
    pub fn merge(&mut self, other: &EpisodeRecords) {
        for (ours, theirs) in self.records.iter_mut().zip(&other.records) {
            ours.success += theirs.success;
            ours.refused += theirs.refused;
            ours.errors += theirs.errors;
            ours.late += theirs.late;
            ours.max_ns = ours.max_ns.max(theirs.max_ns);
        }
    }

    /// In order.
    pub fn all(&self) -> &[EpisodeRecord] {
        &self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn operations_belong_where_they_were_to_begin() {
        let marks = Marks::new(2);
        let mut records = EpisodeRecords::new(marks.clone(), MS(100));
        records.note(MS(999), MS(100), &End::Success);
        marks.begin(0, MS(1000));
        records.note(MS(999), MS(101), &End::Success);
        records.note(MS(1000), MS(1), &End::Refused { by_exception: false });
        let mut others = EpisodeRecords::new(marks.clone(), MS(100));
        marks.begin(1, MS(3000));
        others.note(MS(2999), MS(5000), &End::Success);
        others.unfinished(MS(3000), MS(60_000));
        records.merge(&others);
        let record = |success, refused, errors, late, max_ms: u64| EpisodeRecord {
            success,
            refused,
            errors,
            late,
            max_ns: max_ms * 1_000_000,
        };
        assert_eq!(
            records.all(),
            [record(2, 0, 0, 1, 101), record(1, 1, 0, 1, 5000), record(0, 0, 1, 1, 60_000)]
        );
        assert_eq!((marks.begun(1), marks.begun(2)), (Some(MS(3000)), None));
    }

    #[test]
    fn what_has_not_begun_has_no_operations() {
        let marks = Marks::new(1);
        let mut records = EpisodeRecords::new(marks.clone(), MS(100));
        records.note(Duration::MAX, MS(1), &End::Success);
        marks.begin(7, MS(1));
        assert_eq!((records.all()[0].success, records.all()[1].success), (1, 0));
        assert_eq!(marks.begun(0), None);
    }
}

//! What happened to the operations: latencies, outcomes, calls, second by second. Recorders of several clients merge.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::episodes::{EpisodeRecord, EpisodeRecords};
use crate::mix::{MAX_CALLS, Op};
use crate::ops::{Done, End};

/// Latencies are told apart to three digits, from a microsecond to an hour.
const DIGITS: u8 = 3;
const LOWEST_NS: u64 = 1000;
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Different errors that are told of; further kinds are counted together.
const MAX_ERROR_KINDS: usize = 20;
/// Bins are of one second; no phase has more.
const MAX_BINS: usize = 1_000_000;

/// The kind of error of operations that had not ended when their time was over.
pub const UNFINISHED: &str = "unfinished";
/// Clients share recorders: one each would take much memory.
const SHARDS: usize = 16;

/// By what operations are told apart: a line of a table.
pub trait Key: Copy + Ord {
    /// In reports.
    fn name(self) -> &'static str;

    /// The calls that it consists of, in order.
    fn calls(self) -> &'static [&'static str];
}

/// Of all operations.
#[derive(Debug)]
pub struct Recorder<K = Op> {
    ops: BTreeMap<K, OpRecord>,
    /// How late operations of an open loop began, ns.
    late: Option<Histogram<u64>>,
    /// By episode, when the run is to be disturbed.
    episodes: Option<EpisodeRecords>,
    /// By kind: how many, and the first.
    pub errors: BTreeMap<String, (u64, String)>,
}

/// Of one operation.
#[derive(Debug)]
pub struct OpRecord {
    /// From the intended start to the end, of all that ended, whatever came of them; ns.
    pub latency: Histogram<u64>,
    /// Did what they are for.
    pub success: u64,
    /// Were refused as can be expected.
    pub refused: u64,
    /// Anything else.
    pub errors: u64,
    /// Its calls that were answered without an exception.
    pub answered: [u64; MAX_CALLS],
    /// Its calls that were answered with one.
    pub exceptions: [u64; MAX_CALLS],
    /// By the second of their end.
    pub bins: Vec<Bin>,
}

/// One second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bin {
    /// Successes.
    pub success: u64,
    /// Of all that ended.
    pub ended: u64,
    /// Sum of their latencies, ns.
    pub latency_ns: u64,
    /// Of all that ended, refused.
    pub refused: u64,
    /// Of all that ended, errors.
    pub errors: u64,
    /// The longest latency, ns.
    pub max_ns: u64,
    /// Were to begin in it.
    pub begun: u64,
}

/// When an operation began and ended, all since the start of the phase.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// When it was to begin; latency counts from here.
    pub intended: Duration,
    /// When it began.
    pub begun: Duration,
    /// When it ended.
    pub ended: Duration,
}

fn histogram() -> Option<Histogram<u64>> {
    Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS).ok()
}

impl<K> Default for Recorder<K> {
    fn default() -> Recorder<K> {
        Recorder { ops: BTreeMap::new(), late: None, episodes: None, errors: BTreeMap::new() }
    }
}

impl<K: Key> Recorder<K> {
    /// Notes an operation.
    pub fn note(&mut self, op: K, times: Times, done: &Done) {
        let Some(record) = self.op(op) else { return };
        let latency = times.ended.saturating_sub(times.intended);
        record.latency.saturating_record(nanos(latency));
        let counts = done.answers.counts;
        record.answered.iter_mut().zip(counts).for_each(|(calls, count)| *calls += u64::from(count));
        record.bin(times.intended).begun += 1;
        record.bin(times.ended).note(latency, &done.end);
        let by_exception = match &done.end {
            End::Success => false,
            End::Refused { by_exception } => *by_exception,
            End::Error(failure) => failure.is_by_exception(),
        };
        if by_exception && let Some(calls) = record.exceptions.get_mut(done.answers.at) {
            *calls += 1;
        }
        match &done.end {
            End::Success => record.success += 1,
            End::Refused { .. } => record.refused += 1,
            End::Error(failure) => {
                record.errors += 1;
                self.error(failure.kind(), failure.to_string());
            }
        }
        if let Some(episodes) = self.episodes.as_mut() {
            episodes.note(times.intended, latency, &done.end);
        }
        if let Some(late) = self.late.as_mut() {
            late.saturating_record(nanos(times.begun.saturating_sub(times.intended)));
        }
    }

    /// Notes operations that had not ended when their time was over.
    pub fn unfinished(&mut self, op: K, intended: Duration, now: Duration) {
        let Some(record) = self.op(op) else { return };
        let latency = now.saturating_sub(intended);
        record.errors += 1;
        record.latency.saturating_record(nanos(latency));
        record.bin(intended).begun += 1;
        if let Some(episodes) = self.episodes.as_mut() {
            episodes.unfinished(intended, latency);
        }
        self.error(UNFINISHED, format!("{}: had not ended when the run did", op.name()));
    }

    /// Also notes how late operations begin.
    pub fn with_lateness(mut self) -> Recorder<K> {
        self.late = histogram();
        self
    }

    /// Also counts by episode.
    pub fn with_episodes(mut self, episodes: Option<EpisodeRecords>) -> Recorder<K> {
        self.episodes = episodes;
        self
    }

    fn op(&mut self, op: K) -> Option<&mut OpRecord> {
        match self.ops.entry(op) {
            Entry::Occupied(there) => Some(there.into_mut()),
            // The bounds are constants that are in order.
            Entry::Vacant(free) => Some(free.insert(OpRecord::new(histogram()?))),
        }
    }

    fn error(&mut self, kind: &str, text: String) {
        self.merge_error(kind, (1, text));
    }

    fn merge_error(&mut self, kind: &str, (count, text): (u64, String)) {
        let is_new = !self.errors.contains_key(kind) && self.errors.len() >= MAX_ERROR_KINDS;
        let kind = if is_new { "others" } else { kind };
        self.errors.entry(kind.to_owned()).or_insert((0, text)).0 += count;
    }

    /// Takes in what another has.
    pub fn merge(&mut self, other: Recorder<K>) {
        for (op, theirs) in other.ops {
            match self.ops.get_mut(&op) {
                Some(ours) => ours.merge(&theirs),
                None => drop(self.ops.insert(op, theirs)),
            }
        }
        for (kind, seen) in other.errors {
            self.merge_error(&kind, seen);
        }
        match (&mut self.late, other.late) {
            (Some(ours), Some(theirs)) => drop(ours.add(&theirs)),
            (ours @ None, theirs) => *ours = theirs,
            (Some(_), None) => {}
        }
        match (&mut self.episodes, other.episodes) {
            (Some(ours), Some(theirs)) => ours.merge(&theirs),
            (ours @ None, theirs) => *ours = theirs,
            (Some(_), None) => {}
        }
    }

    /// Operations that were done, in the order of the table.
    pub fn ops(&self) -> impl Iterator<Item = (K, &OpRecord)> {
        self.ops.iter().map(|(op, record)| (*op, record))
    }

    /// Of one operation.
    pub fn of(&self, op: K) -> Option<&OpRecord> {
        self.ops.get(&op)
    }

    /// Latencies of all operations together, ns.
    pub fn latency(&self) -> Option<Histogram<u64>> {
        let mut all = histogram()?;
        for record in self.ops.values() {
            all.add(&record.latency).ok()?;
        }
        Some(all)
    }

    /// How late operations of an open loop began.
    pub fn late(&self) -> Option<&Histogram<u64>> {
        self.late.as_ref()
    }

    /// By episode; empty when the run was not to be disturbed.
    pub fn episodes(&self) -> &[EpisodeRecord] {
        self.episodes.as_ref().map_or(&[], EpisodeRecords::all)
    }

    /// How many ended or were given up.
    pub fn count(&self) -> u64 {
        self.ops.values().map(OpRecord::count).sum()
    }
}

/// Recorders that many clients write to at once.
#[derive(Debug)]
pub struct Recorders<K>(Vec<Shard<K>>);

/// One of them, which no other shares a cache line with.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<K>(Mutex<Recorder<K>>);

impl<K: Key> Recorders<K> {
    /// None of them has anything yet; `lateness`: they also note how late operations begin.
    pub fn new(lateness: bool, episodes: Option<EpisodeRecords>) -> Recorders<K> {
        let recorder = || {
            let recorder = Recorder::default().with_episodes(episodes.clone());
            if lateness { recorder.with_lateness() } else { recorder }
        };
        Recorders((0..SHARDS).map(|_| Shard(Mutex::new(recorder()))).collect())
    }

    /// Writes to the one that a client uses.
    pub fn with(&self, client: usize, note: impl FnOnce(&mut Recorder<K>)) {
        if let Some(Shard(recorder)) = self.0.get(client % SHARDS) {
            note(&mut recorder.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// How many operations all have together.
    pub fn count(&self) -> u64 {
        let locked = self.0.iter().map(|shard| shard.0.lock().unwrap_or_else(PoisonError::into_inner));
        locked.map(|recorder| recorder.count()).sum()
    }

    /// Takes out what all have.
    pub fn merged(&self) -> Recorder<K> {
        let mut merged = Recorder::default();
        for Shard(recorder) in &self.0 {
            merged.merge(std::mem::take(&mut *recorder.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        merged
    }
}

impl OpRecord {
    fn new(latency: Histogram<u64>) -> OpRecord {
        OpRecord {
            latency,
            success: 0,
            refused: 0,
            errors: 0,
            answered: [0; MAX_CALLS],
            exceptions: [0; MAX_CALLS],
            bins: Vec::new(),
        }
    }

    /// All of them.
    pub fn count(&self) -> u64 {
        self.success + self.refused + self.errors
    }

    fn bin(&mut self, at: Duration) -> &mut Bin {
        let index = (at.as_secs() as usize).min(MAX_BINS - 1);
        if self.bins.len() <= index {
            self.bins.resize(index + 1, Bin::default());
        }
        &mut self.bins[index]
    }

    fn merge(&mut self, other: &OpRecord) {
        // Both have the same bounds.
        let _ = self.latency.add(&other.latency);
        self.success += other.success;
        self.refused += other.refused;
        self.errors += other.errors;
        self.answered.iter_mut().zip(other.answered).for_each(|(ours, theirs)| *ours += theirs);
        self.exceptions.iter_mut().zip(other.exceptions).for_each(|(ours, theirs)| *ours += theirs);
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), Bin::default());
        }
        for (ours, theirs) in self.bins.iter_mut().zip(&other.bins) {
            ours.merge(theirs);
        }
    }
}

impl Bin {
    fn note(&mut self, latency: Duration, end: &End) {
        self.ended += 1;
        self.latency_ns = self.latency_ns.saturating_add(nanos(latency));
        self.max_ns = self.max_ns.max(nanos(latency));
        match end {
            End::Success => self.success += 1,
            End::Refused { .. } => self.refused += 1,
            End::Error(_) => self.errors += 1,
        }
    }

    fn merge(&mut self, other: &Bin) {
        self.success += other.success;
        self.ended += other.ended;
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
        self.refused += other.refused;
        self.errors += other.errors;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.begun += other.begun;
    }
}

/// Nanoseconds, as far as they can be counted.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Answers;

    fn at(intended_ms: u64, begun_ms: u64, ended_ms: u64) -> Times {
        let ms = Duration::from_millis;
        Times { intended: ms(intended_ms), begun: ms(begun_ms), ended: ms(ended_ms) }
    }

    fn success() -> Done {
        Done { answers: Answers::of_first(1), end: End::Success }
    }

    fn refused() -> Done {
        Done { answers: Answers::default(), end: End::Refused { by_exception: true } }
    }

    #[test]
    fn latency_counts_from_the_intended_start() {
        // A server that stands still from 0 to 5 s, and a thousand operations a second that were meant to begin then.
        let mut recorder = Recorder::default().with_lateness();
        for intended in 0..5000 {
            recorder.note(Op::Open, at(intended, 5000, 5000), &success());
        }
        for intended in 5000..10_000 {
            recorder.note(Op::Open, at(intended, intended, intended + 1), &success());
        }
        let open = recorder.of(Op::Open).expect("noted");
        let (half, most) = (open.latency.value_at_quantile(0.5), open.latency.value_at_quantile(0.9));
        assert!(half <= 2_000_000 && (3_990_000_000..=4_010_000_000).contains(&most), "{half} {most}");
        assert!(open.latency.max() >= 5_000_000_000);
        assert_eq!(recorder.late().map(|late| late.count_between(2000, u64::MAX)), Some(5000));
        assert_eq!(
            open.bins.iter().map(|bin| bin.success).collect::<Vec<_>>(),
            [0, 0, 0, 0, 0, 5999, 1000, 1000, 1000, 1000, 1]
        );
        // They were to begin at the same pace all the time.
        assert_eq!(
            open.bins.iter().map(|bin| bin.begun).collect::<Vec<_>>(),
            [&[1000; 10][..], &[0]].concat()
        );
        assert_eq!(open.bins[5].max_ns, 5_000_000_000);
    }

    #[test]
    fn merging_is_as_noting_in_one() {
        let (mut one, mut left, mut right) = (Recorder::default(), Recorder::default(), Recorder::default());
        for ms in 1..1000 {
            let times = at(0, 0, ms * 3);
            let done = || if ms % 3 == 0 { refused() } else { success() };
            let op = if ms % 2 == 0 { Op::Open } else { Op::Create };
            one.note(op, times, &done());
            if ms % 5 == 0 { &mut left } else { &mut right }.note(op, times, &done());
        }
        left.merge(right);
        assert_eq!(left.count(), 999);
        for (op, wanted) in one.ops() {
            let merged = left.of(op).expect("noted");
            assert_eq!(merged.latency, wanted.latency);
            assert_eq!(
                (merged.success, merged.refused, merged.errors),
                (wanted.success, wanted.refused, wanted.errors)
            );
            assert_eq!((merged.answered, merged.exceptions), (wanted.answered, wanted.exceptions));
            assert_eq!(merged.bins, wanted.bins);
        }
    }

    #[test]
    fn calls_are_counted_as_the_server_does() {
        let mut recorder = Recorder::default();
        let answers = |create, add_block, complete, at| {
            let mut answers = Answers { at, ..Answers::default() };
            answers.counts[..3].copy_from_slice(&[create, add_block, complete]);
            answers
        };
        // Three blocks, and closed at the second try.
        let whole = Done { answers: answers(1, 3, 2, 2), end: End::Success };
        let last_refused = Done { answers: answers(1, 1, 0, 2), end: End::Refused { by_exception: true } };
        let says_false = Done { answers: answers(1, 0, 0, 0), end: End::Refused { by_exception: false } };
        for done in [&whole, &last_refused, &says_false, &refused()] {
            recorder.note(Op::Create, at(0, 0, 1), done);
        }
        let create = recorder.of(Op::Create).expect("noted");
        assert_eq!((create.answered, create.exceptions), ([3, 4, 2, 0], [1, 0, 1, 0]));
        assert_eq!((create.success, create.refused, create.errors), (1, 3, 0));
    }

    #[test]
    fn what_does_not_end_is_an_error_and_shows_in_the_latencies() {
        let mut recorder = Recorder::default();
        recorder.unfinished(Op::Open, Duration::from_secs(1), Duration::from_secs(4));
        let open = recorder.of(Op::Open).expect("noted");
        assert!(open.errors == 1 && open.latency.max() >= 2_990_000_000);
        assert_eq!(recorder.errors[UNFINISHED].0, 1);
    }
}

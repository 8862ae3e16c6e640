//! A report's figures from what was measured.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use hdrhistogram::Histogram;
use trellis_client::Answers;

use crate::cached::Counted;
use crate::config::Config;
use crate::contents::{Blocks, Contents};
use crate::disturb::conduct::{Begun, Conducted};
use crate::drive::Outcome;
use crate::episodes::{Episode, EpisodeRecord};
use crate::mix::Op;
use crate::record::{Bin, Key, OpRecord};
use crate::report::{Calls, ErrorKind, OpenLoop, Operation, Second, Total};
use crate::run::Cost;
use crate::servers::{Growth, machine};
use crate::watch::Watched;

/// All that was measured.
#[derive(Debug)]
pub struct Measured<'a, K = Op> {
    /// What was asked for.
    pub config: &'a Config,
    /// What was done: operations with their shares, which sum to 1.
    pub shares: &'a [(K, f64)],
    /// What the clients saw.
    pub outcome: &'a Outcome<K>,
    /// How long operations were to begin in an open loop, seconds.
    pub offered_s: Option<f64>,
    /// What was counted meanwhile.
    pub watched: Watched,
    /// Of operations of a mix, alone.
    pub costs: &'a BTreeMap<K, Cost>,
    /// What was done to the servers; nothing is to those of a replay.
    pub conducted: Option<&'a Conducted>,
    /// What the files that were made held.
    pub contents: &'a Contents,
}

impl<K: Key> Measured<'_, K> {
    fn counted(&self) -> Option<&Growth> {
        self.watched.growth.as_ref().and_then(|growth| growth.as_ref().ok())
    }

    fn sum(&self, part: impl Fn(&OpRecord) -> u64) -> u64 {
        self.outcome.recorder.ops().map(|(_, record)| part(record)).sum()
    }

    /// Operations that were answered.
    fn answered(&self) -> u64 {
        self.sum(|record| record.success + record.refused)
    }

    /// Not a mix.
    fn is_single(&self) -> bool {
        self.shares.len() == 1
    }

    fn elapsed_s(&self) -> f64 {
        self.outcome.elapsed.as_secs_f64().max(1e-9)
    }
}

/// All operations together.
pub fn total<K: Key>(measured: &Measured<'_, K>) -> Total {
    let count = measured.sum(|record| record.success);
    let answered = measured.answered();
    let us_per_op = |seconds: f64| if answered == 0 { 0.0 } else { seconds * 1e6 / answered as f64 };
    let cost = measured.counted().and_then(|growth| Cost::of(growth, answered));
    let store =
        |name: &str| measured.counted().filter(|growth| !growth.store.is_empty()).map(|g| g.store(name));
    let groups = store("groups").filter(|groups| *groups > 0.0);
    let latency = measured.outcome.recorder.latency();
    let quantile =
        |share: f64| latency.as_ref().map_or(0.0, |latency| micros(latency.value_at_quantile(share)));
    Total {
        count,
        ops_per_s: count as f64 / measured.elapsed_s(),
        refused: measured.sum(|record| record.refused),
        errors: measured.sum(|record| record.errors),
        elapsed_s: measured.elapsed_s(),
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p99_us: quantile(0.99),
        p999_us: quantile(0.999),
        max_us: latency.as_ref().map_or(0.0, |latency| micros(latency.max())),
        server_cpu_us_per_op: measured.counted().map(|growth| us_per_op(growth.cpu_seconds)),
        client_cpu_us_per_op: us_per_op(measured.watched.client_cpu_s),
        machine_busy_percent: measured.watched.machine_busy_percent,
        machine_cores: Some(machine::cores()),
        store_round_trips_per_op: cost.map(|cost| cost.round_trips),
        rows_per_op: cost.map(|cost| cost.rows),
        operations_per_group: store("grouped_operations").zip(groups).map(|(all, groups)| all / groups),
        conflicts: store("conflicts").map(|count| count as u64),
        retries: store("retries").map(|count| count as u64),
        failovers: measured.watched.counts[1].failovers - measured.watched.counts[0].failovers,
        resends: measured.watched.counts[1].resends - measured.watched.counts[0].resends,
    }
}

/// How the arrivals of an open loop were kept.
pub fn open_loop<K: Key>(measured: &Measured<'_, K>) -> Option<OpenLoop> {
    let offered_s = measured.offered_s?;
    let Outcome { recorder, intended, .. } = measured.outcome;
    let unfinished = recorder.errors.get(crate::record::UNFINISHED).map_or(0, |(count, _)| *count);
    let late = |of: fn(&Histogram<u64>) -> u64| recorder.late().map_or(0.0, |late| micros(of(late)));
    Some(OpenLoop {
        offered: *intended,
        offered_per_s: *intended as f64 / offered_s,
        achieved_per_s: (recorder.count() - unfinished) as f64 / measured.elapsed_s(),
        never_begun: intended.saturating_sub(recorder.count()),
        late_p50_us: late(|late| late.value_at_quantile(0.5)),
        late_p99_us: late(|late| late.value_at_quantile(0.99)),
        late_max_us: late(Histogram::max),
    })
}

/// Operations by name.
pub fn operations<K: Key>(measured: &Measured<'_, K>) -> BTreeMap<String, Operation> {
    let shares = measured.shares.iter();
    let rows = shares.map(|(op, share)| {
        let record = measured.outcome.recorder.of(*op);
        let cost = match measured.is_single() {
            // Its own, as measured.
            true => measured.counted().and_then(|growth| Cost::of(growth, measured.answered())),
            false => measured.costs.get(op).copied(),
        };
        (op.name().to_owned(), operation(*share, record, cost, measured.elapsed_s()))
    });
    rows.collect()
}

fn operation(share: f64, record: Option<&OpRecord>, cost: Option<Cost>, elapsed_s: f64) -> Operation {
    let count = |part: fn(&OpRecord) -> u64| record.map_or(0, part);
    let latency =
        |of: &dyn Fn(&Histogram<u64>) -> u64| record.map_or(0.0, |record| micros(of(&record.latency)));
    let quantile = |share: f64| latency(&|latency| latency.value_at_quantile(share));
    Operation {
        share,
        count: count(|record| record.success),
        ops_per_s: count(|record| record.success) as f64 / elapsed_s,
        refused: count(|record| record.refused),
        errors: count(|record| record.errors),
        mean_us: record.map_or(0.0, |record| rounded(record.latency.mean() / 1000.0)),
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p99_us: quantile(0.99),
        p999_us: quantile(0.999),
        max_us: latency(&Histogram::max),
        store_round_trips_per_op: cost.map(|cost| cost.round_trips),
        rows_per_op: cost.map(|cost| cost.rows),
        seconds: record.map(|record| record.bins.iter().map(second).collect()).unwrap_or_default(),
    }
}

fn second(bin: &Bin) -> Second {
    let mean_ns = bin.latency_ns as f64 / bin.ended.max(1) as f64;
    Second {
        count: bin.success,
        ended: bin.ended,
        mean_us: rounded(mean_ns / 1000.0),
        refused: bin.refused,
        errors: bin.errors,
        max_us: micros(bin.max_ns),
        begun: bin.begun,
    }
}

/// Calls by method, as issued and as the servers counted them.
pub fn calls<K: Key>(measured: &Measured<'_, K>) -> BTreeMap<String, Calls> {
    let mut all = match measured.contents.blocks {
        // Writers of real data make calls of their own.
        Blocks::Real => {
            measured.watched.answers.iter().map(|(method, answers)| seen((*method, *answers))).collect()
        }
        Blocks::None | Blocks::Simulated => of_operations(measured),
    };
    // A server without metrics has a CPU time only.
    let growth = measured.counted().filter(|_| !measured.config.metrics.is_empty());
    if let Some(growth) = growth {
        for (method, answers) in &growth.calls {
            let calls = all.entry(method.clone()).or_default();
            (calls.servers_ok, calls.servers_exceptions) = (Some(answers.ok), Some(answers.exceptions));
        }
        for calls in all.values_mut() {
            calls.servers_ok.get_or_insert(0);
            calls.servers_exceptions.get_or_insert(0);
        }
    }
    all
}

/// The sums of both.
pub fn counted<K: Key>(measured: &Measured<'_, K>) -> Counted {
    Counted::of(&calls(measured))
}

fn seen((method, Answers { ok, exceptions }): (&str, Answers)) -> (String, Calls) {
    (method.to_owned(), Calls { ok, exceptions, ..Calls::default() })
}

/// The calls that the operations consisted of.
fn of_operations<K: Key>(measured: &Measured<'_, K>) -> BTreeMap<String, Calls> {
    let mut all: BTreeMap<String, Calls> = BTreeMap::new();
    for (op, record) in measured.outcome.recorder.ops() {
        let counts = record.answered.iter().zip(&record.exceptions);
        for (method, (ok, exceptions)) in op.calls().iter().zip(counts) {
            let calls = all.entry((*method).to_owned()).or_default();
            calls.ok += ok;
            calls.exceptions += exceptions;
        }
    }
    all
}

/// How much the store's counters grew.
pub fn store<K: Key>(measured: &Measured<'_, K>) -> BTreeMap<String, f64> {
    measured.counted().map(|growth| growth.store.clone()).unwrap_or_default()
}

/// Errors by kind.
pub fn errors<K>(outcome: &Outcome<K>) -> Vec<ErrorKind> {
    let kinds = outcome.recorder.errors.iter();
    kinds
        .map(|(kind, (count, example))| ErrorKind {
            kind: kind.clone(),
            count: *count,
            example: example.clone(),
        })
        .collect()
}

/// Whether it ended before its time.
pub fn ended_early<K>(outcome: &Outcome<K>) -> bool {
    outcome.exhausted || outcome.stopped_at.is_some()
}

/// A disturbed run in parts.
pub fn episodes<K: Key>(measured: &Measured<'_, K>) -> Vec<Episode> {
    let Some(conducted) = measured.conducted else { return Vec::new() };
    let [start, end] = [(Duration::ZERO, 0), (measured.outcome.elapsed, 1)].map(|(at, counts)| Begun {
        with: "start".into(),
        at,
        counts: measured.watched.counts[counts],
        block_reports: None,
    });
    let begun: Vec<&Begun> = [&start].into_iter().chain(&conducted.episodes).chain([&end]).collect();
    let episode = |(ends, record): (&[&Begun], &EpisodeRecord)| {
        let [from, to] = ends else { return None };
        Some(Episode {
            begins_with: from.with.clone(),
            from_s: from.at.as_secs_f64(),
            to_s: to.at.as_secs_f64(),
            count: record.success,
            refused: record.refused,
            errors: record.errors,
            late: record.late,
            max_us: micros(record.max_ns),
            failovers: to.counts.failovers - from.counts.failovers,
            resends: to.counts.resends - from.counts.resends,
            block_reports: from.block_reports,
        })
    };
    begun.windows(2).zip(measured.outcome.recorder.episodes()).filter_map(episode).collect()
}

/// What a reader must know.
pub fn notes<K: Key>(measured: &Measured<'_, K>) -> Vec<String> {
    let mut notes = vec![match measured.contents.blocks {
        Blocks::None => "metadata only: files are made without blocks (create and complete)".to_owned(),
        Blocks::Simulated => format!(
            "metadata only: blocks are on {} datanodes that the load generator plays itself, without bytes; its CPU time \
             has theirs in it",
            measured.contents.datanodes
        ),
        Blocks::Real => "real blocks: files are written to datanodes, with bytes".to_owned(),
    }];
    if !measured.is_single() && !measured.costs.is_empty() {
        let samples = measured.config.cost_samples;
        notes.push(format!(
            "what each operation costs the store was measured before the run, {samples} times alone; in the run, where \
             operations share groups, it is the total that counts"
        ));
    }
    if let Some(Err(error)) = &measured.watched.growth {
        notes.push(format!("the servers' counters cannot be used: {error}"));
    }
    let differ = |calls: &Calls| {
        calls.servers_ok.is_some_and(|ok| ok != calls.ok)
            || calls.servers_exceptions.is_some_and(|exceptions| exceptions != calls.exceptions)
    };
    let differing: Vec<String> =
        calls(measured).into_iter().filter(|(_, c)| differ(c)).map(|(method, _)| method).collect();
    if !differing.is_empty() {
        notes.push(format!("clients and servers count these calls differently: {}", differing.join(", ")));
    }
    notes.extend(counted(measured).warning());
    if measured.outcome.exhausted {
        notes.push("the run ended before its time: there was no file left to work on".to_owned());
    }
    if let Some(at) = measured.outcome.stopped_at {
        let length = at.as_secs_f64();
        notes.push(format!("the run ended before its time: somebody ended it after {length:.3} s"));
    }
    let disturbances = measured.conducted.iter().flat_map(|conducted| &conducted.disturbances);
    for disturbance in disturbances.filter(|disturbance| !disturbance.done) {
        notes.push(format!("{} did not come about: {}", disturbance.what, disturbance.outcome));
    }
    notes
}

/// This program: its version, and a checksum of its file.
pub fn build_id() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match fs::read("/proc/self/exe") {
        Ok(bytes) => {
            format!("{version}+{:016x}", crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &bytes))
        }
        Err(_) => version.to_owned(),
    }
}

/// Nanoseconds as microseconds.
fn micros(ns: u64) -> f64 {
    rounded(ns as f64 / 1000.0)
}

/// To a tenth: more is not known.
fn rounded(us: f64) -> f64 {
    (us * 10.0).round() / 10.0
}

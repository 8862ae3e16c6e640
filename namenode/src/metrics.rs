//! THE table of metrics, and where they are counted. `/metrics` shows all of them.
//!
//! Handles are made once; counting is an atomic addition. Nothing is formatted or looked up on the way of a call.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use trellis_metastore::counters::Reading;
use trellis_proto::exception::{Log, RpcError};

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, unit last.
    pub name: &'static str,
    /// What it counts in.
    pub unit: Unit,
    /// What it says.
    pub help: &'static str,
}

macro_rules! metrics_table {
    ($($constant:ident $name:literal $unit:ident $help:literal;)*) => {
        $(#[doc = $help] pub const $constant: Metric = Metric { name: $name, unit: Unit::$unit, help: $help };)*

        /// The table, but for the store's counters: `trellis_store_NAME_total`, one for each of the store's own.
        pub const TABLE: &[Metric] = &[$($constant),*];
    };
}

#[rustfmt::skip]
metrics_table! {
    RPC_CALLS               "trellis_rpc_calls_total"               Count   "Calls answered, by protocol, method and outcome: ok, refused (the caller's own doing), failed (somebody should look).";
    RPC_SECONDS             "trellis_rpc_call_seconds"              Seconds "From a call's arrival to its answer, by protocol and method.";
    RPC_CONNECTIONS         "trellis_rpc_connections"               Count   "Open client connections.";
    RPC_CONNECTIONS_TOTAL   "trellis_rpc_connections_total"         Count   "Client connections accepted.";
    RPC_CONNECTIONS_REFUSED "trellis_rpc_connections_refused_total" Count   "Client connections closed at once because there were too many.";
    RPC_CONNECTIONS_TIMED_OUT "trellis_rpc_connections_timed_out_total" Count "Client connections closed because nothing moved on them.";
    RPC_IN_FLIGHT           "trellis_rpc_calls_in_flight"           Count   "Calls that wait for their answer: for the store, or for the client to read it.";
    RPC_LARGE_REQUESTS      "trellis_rpc_large_request_bytes"       Bytes   "Memory lent to large requests.";
    AUDIT_DROPPED           "trellis_audit_lines_dropped_total"     Count   "Audit lines dropped because the disk was too slow.";
    AUDIT_LOST              "trellis_audit_lines_lost_total"        Count   "Audit lines that could not be written, as on a full disk.";
    DATANODES_LIVE          "trellis_datanodes_live"                Count   "Datanodes that were heard of lately.";
    DATANODES_STALE         "trellis_datanodes_stale"               Count   "Datanodes that are silent for a while, or were not heard of yet.";
    DATANODES_DEAD          "trellis_datanodes_dead"                Count   "Datanodes whose replicas do not count.";
    DATANODES_OWNED         "trellis_datanodes_owned"               Count   "Datanodes that this namenode gives commands to and whose reports it applies.";
    DATANODE_REPORTS        "trellis_datanode_reports_total"        Count   "Incremental reports of datanodes that were applied here.";
    DATANODE_FULL_REPORTS   "trellis_datanode_full_reports_total"   Count   "Storages of full reports that were applied here.";
    DATANODE_REPORTS_KEPT   "trellis_datanode_reports_kept_total"   Count   "Incremental reports that were kept, since another namenode applies them.";
    REPLICAS_CHANGED        "trellis_replicas_changed_total"        Count   "Replicas that came, changed or went with a report.";
    REPLICAS_UNKNOWN        "trellis_replicas_unknown_total"        Count   "Replicas reported of blocks that no file has.";
    REPLICAS_CONDEMNED      "trellis_replicas_condemned_total"      Count   "Replicas reported that are not as their block is, or whose bytes are bad.";
    DATANODE_COMMANDS       "trellis_datanode_commands_total"       Count   "Commands handed out to datanodes.";
    REPLICATION_COPIES      "trellis_replication_copies_total"      Count   "Copies of blocks that this namenode ordered as the leader.";
    REPLICATION_REMOVED     "trellis_replication_removed_total"     Count   "Replicas that this namenode had removed as the leader: too many, or corrupt.";
    JOB_ITEMS_PASSED        "trellis_job_items_passed_total"        Count   "Files and rows that a job could not deal with and passed by; the log has the first of each round.";
    ATTENTION_FILES         "trellis_attention_files"               Count   "Files whose replicas the leader looked at in its last round; 0 elsewhere.";
    PROCESS_CPU             "process_cpu_seconds_total"             Seconds "User and system time of this process.";
    PROCESS_START           "process_start_time_seconds"            Seconds "When this process began, since 1970.";
    PROCESS_MEMORY          "process_resident_anonymous_bytes"      Bytes   "Anonymous resident memory (RssAnon).";
}

/// docs/METRICS.md.
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics of a namenode\n\nServed on the HTTP port under `/metrics`, in Prometheus' text format. Made from the \
         table in `namenode/src/metrics.rs`; do not edit.\n\n| metric | unit | what |\n| --- | --- | --- |\n",
    );
    for Metric { name, unit, help } in TABLE {
        page.push_str(&format!("| `{name}` | {} | {help} |\n", unit.as_str()));
    }
    for (name, what, _) in Reading::default().entries() {
        page.push_str(&format!("| `{}` | count | {what} |\n", store_counter(name)));
    }
    page
}

/// The metric of one of the store's counters.
pub fn store_counter(name: &str) -> String {
    format!("trellis_store_{name}_total")
}

/// Upper bounds of the latency histograms, in seconds.
const BUCKETS: &[f64] = &[
    10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 60.0,
];

/// The metrics of one namenode.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    /// [`RPC_CONNECTIONS`].
    pub connections: Gauge,
    /// [`RPC_CONNECTIONS_TOTAL`].
    pub connections_total: Counter,
    /// [`RPC_CONNECTIONS_REFUSED`].
    pub connections_refused: Counter,
    /// [`RPC_CONNECTIONS_TIMED_OUT`].
    pub connections_timed_out: Counter,
    /// [`AUDIT_LOST`].
    pub audit_lost: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// Metrics that nothing was counted in yet.
    pub fn new() -> Metrics {
        let builder = PrometheusBuilder::new();
        // Only an empty list is refused, and this one is not.
        let builder = builder.set_buckets(BUCKETS).unwrap_or_else(|_| PrometheusBuilder::new());
        let recorder = builder.build_recorder();
        for metric in TABLE {
            let (name, unit, help) = (metric.name.into(), Some(metric.unit), metric.help.into());
            match metric.name {
                name_ if name_.ends_with("_total") => recorder.describe_counter(name, unit, help),
                name_ if name_ == RPC_SECONDS.name => recorder.describe_histogram(name, unit, help),
                _ => recorder.describe_gauge(name, unit, help),
            }
        }
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let start = recorder.register_gauge(&Key::from_static_name(PROCESS_START.name), &METADATA);
        start.set(began.as_secs_f64());
        let handle = recorder.handle();
        Metrics {
            handle,
            connections: recorder.register_gauge(&Key::from_static_name(RPC_CONNECTIONS.name), &METADATA),
            connections_total: counter(&recorder, RPC_CONNECTIONS_TOTAL),
            connections_refused: counter(&recorder, RPC_CONNECTIONS_REFUSED),
            connections_timed_out: counter(&recorder, RPC_CONNECTIONS_TIMED_OUT),
            audit_lost: counter(&recorder, AUDIT_LOST),
            recorder,
        }
    }

    /// Sets a gauge; for values that are read when somebody asks.
    pub fn set_gauge(&self, metric: Metric, value: f64) {
        self.recorder.register_gauge(&Key::from_static_name(metric.name), &METADATA).set(value);
    }

    /// Sets a counter that is kept elsewhere; for values that are read when somebody asks.
    pub fn set_counter(&self, name: &str, help: &str, value: u64) {
        let name = name.to_owned();
        self.recorder.describe_counter(name.clone().into(), Some(Unit::Count), help.to_owned().into());
        self.recorder.register_counter(&Key::from_name(name), &METADATA).absolute(value);
    }

    /// Takes what the histograms have gathered out of their buffers; to be called every few seconds.
    pub fn tidy(&self) {
        self.handle.run_upkeep();
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> String {
        if let Some((cpu, memory)) = process() {
            self.set_gauge(PROCESS_MEMORY, memory as f64);
            // A counter of whole numbers cannot hold seconds; Prometheus takes a gauge just as well.
            self.set_gauge(PROCESS_CPU, cpu.as_secs_f64());
        }
        self.handle.render()
    }

    /// Handles for one method.
    fn meters(&self, protocol: &'static str, method: &'static str) -> Meters {
        let labels = || vec![Label::new("protocol", protocol), Label::new("method", method)];
        let outcome = |outcome: &'static str| {
            let labels = [labels(), vec![Label::new("outcome", outcome)]].concat();
            self.recorder.register_counter(&Key::from_parts(RPC_CALLS.name, labels), &METADATA)
        };
        Meters {
            ok: outcome("ok"),
            refused: outcome("refused"),
            failed: outcome("failed"),
            seconds: self
                .recorder
                .register_histogram(&Key::from_parts(RPC_SECONDS.name, labels()), &METADATA),
        }
    }
}

const METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, None);

fn counter(recorder: &PrometheusRecorder, metric: Metric) -> Counter {
    recorder.register_counter(&Key::from_static_name(metric.name), &METADATA)
}

/// Counts the calls of one method; registers itself with the first.
pub struct MethodMeter {
    protocol: &'static str,
    method: &'static str,
    meters: OnceLock<Meters>,
}

struct Meters {
    ok: Counter,
    refused: Counter,
    failed: Counter,
    seconds: Histogram,
}

impl MethodMeter {
    /// For a method of a protocol (simple name).
    pub fn new(protocol: &'static str, method: &'static str) -> MethodMeter {
        MethodMeter { protocol, method, meters: OnceLock::new() }
    }

    /// Counts an answer.
    pub fn note(&self, metrics: &Arc<Metrics>, error: Option<&RpcError>, took: Duration) {
        let meters = self.meters.get_or_init(|| metrics.meters(self.protocol, self.method));
        match error.map(|error| error.kind.row().log) {
            None => meters.ok.increment(1),
            Some(Log::Debug | Log::Info) => meters.refused.increment(1),
            Some(Log::Warn) => meters.failed.increment(1),
        }
        meters.seconds.record(took.as_secs_f64());
    }
}

/// User and system time, and anonymous memory in bytes, of this process.
fn process() -> Option<(Duration, u64)> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
    let cpu = Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()));
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = memory.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some((cpu, kib * 1024))
}

#[cfg(test)]
mod tests {
    use trellis_proto::exception::Kind;

    use super::*;

    #[test]
    fn counts_and_renders() {
        let metrics = Arc::new(Metrics::new());
        let meter = MethodMeter::new("ClientProtocol", "mkdirs");
        meter.note(&metrics, None, Duration::from_micros(30));
        meter.note(&metrics, Some(&RpcError::new(Kind::FileNotFound, "")), Duration::from_micros(3));
        metrics.set_counter("trellis_store_commits_total", "Commits.", 7);
        let text = metrics.render();
        for want in [
            "trellis_rpc_calls_total{protocol=\"ClientProtocol\",method=\"mkdirs\",outcome=\"ok\"} 1",
            "trellis_rpc_calls_total{protocol=\"ClientProtocol\",method=\"mkdirs\",outcome=\"refused\"} 1",
            "trellis_rpc_call_seconds_bucket{protocol=\"ClientProtocol\",method=\"mkdirs\",le=\"0.00005\"} 2",
            "trellis_store_commits_total 7",
            "trellis_audit_lines_lost_total 0",
            "process_resident_anonymous_bytes ",
        ] {
            assert!(text.contains(want), "{want} is not in\n{text}");
        }
    }

    #[test]
    fn names_once_and_with_units() {
        for (i, metric) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|other| other.name != metric.name), "{}", metric.name);
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
        for (name, what, _) in Reading::default().entries() {
            assert!(what.ends_with('.') && !what.starts_with(' '), "{name}: {what}");
        }
    }
}

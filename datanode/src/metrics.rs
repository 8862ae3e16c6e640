//! THE table of a datanode's metrics, and where they are counted. `/metrics` shows all of them.

use metrics::{Counter, Key, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

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
    (counters { $($counter:ident $counter_name:literal $counter_unit:ident $counter_help:literal;)* }
     gauges { $($gauge:ident $gauge_name:literal $gauge_unit:ident $gauge_help:literal;)* }) => {
        /// The table.
        pub const TABLE: &[Metric] = &[
            $(Metric { name: $counter_name, unit: Unit::$counter_unit, help: $counter_help },)*
            $(Metric { name: $gauge_name, unit: Unit::$gauge_unit, help: $gauge_help },)*
        ];

        /// The counters of one datanode.
        pub struct Metrics {
            recorder: PrometheusRecorder,
            handle: PrometheusHandle,
            $(#[doc = $counter_help] pub $counter: Counter,)*
        }

        /// Values that are read when somebody asks.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Gauges {
            $(#[doc = $gauge_help] pub $gauge: f64,)*
        }

        impl Metrics {
            /// Metrics that nothing was counted in yet.
            pub fn new() -> Metrics {
                let recorder = PrometheusBuilder::new().build_recorder();
                $(recorder.describe_counter(
                    $counter_name.into(), Some(Unit::$counter_unit), $counter_help.into());)*
                $(recorder.describe_gauge($gauge_name.into(), Some(Unit::$gauge_unit), $gauge_help.into());)*
                Metrics {
                    handle: recorder.handle(),
                    $($counter: recorder.register_counter(&Key::from_static_name($counter_name), &METADATA),)*
                    recorder,
                }
            }

            fn set(&self, gauges: &Gauges) {
                $(self.recorder
                    .register_gauge(&Key::from_static_name($gauge_name), &METADATA)
                    .set(gauges.$gauge);)*
            }
        }
    };
}

#[rustfmt::skip]
metrics_table! {
    counters {
        ops              "trellis_datanode_ops_total"               Count "Data-transfer ops that were begun.";
        ops_failed       "trellis_datanode_ops_failed_total"        Count "Data-transfer ops that did not come to their end.";
        sessions_refused "trellis_datanode_sessions_refused_total"  Count "Data connections closed at once because there were too many.";
        bytes_read       "trellis_datanode_read_bytes_total"        Bytes "Data of blocks sent to readers and other datanodes.";
        blocks_read      "trellis_datanode_block_reads_total"       Count "Reads that came to their end, or that their readers ended early.";
        bytes_written    "trellis_datanode_written_bytes_total"     Bytes "Data of blocks written.";
        blocks_written   "trellis_datanode_blocks_written_total"    Count "Blocks finished, copies among them.";
        checksum_faults  "trellis_datanode_checksum_faults_total"   Count "Transfers that ended since data did not match its checksums.";
        mirrors_failed   "trellis_datanode_mirrors_failed_total"    Count "Pipelines whose next datanode failed.";
        copies           "trellis_datanode_copies_total"            Count "Copies sent to other datanodes.";
        copies_failed    "trellis_datanode_copies_failed_total"     Count "Copies for the namenode that failed.";
        recoveries       "trellis_datanode_recoveries_total"        Count "Blocks whose recovery this datanode led to its end.";
        recoveries_failed "trellis_datanode_recoveries_failed_total" Count "Blocks whose recovery this datanode led and could not end.";
        heartbeats       "trellis_datanode_heartbeats_total"        Count "Heartbeats that namenodes answered.";
        full_reports     "trellis_datanode_full_reports_total"      Count "Full block reports that namenodes took.";
        reports_failed   "trellis_datanode_reports_failed_total"    Count "Calls to namenodes that failed; what they carried is sent again.";
        commands         "trellis_datanode_commands_total"          Count "Commands of namenodes that were obeyed.";
        commands_ignored "trellis_datanode_commands_ignored_total"  Count "Commands of namenodes that were not obeyed: of one that is not the active one, or unknown.";
        volumes_failed   "trellis_datanode_volumes_failed_total"    Count "Storages that failed.";
    }
    gauges {
        sessions       "trellis_datanode_sessions"                 Count   "Data-transfer sessions.";
        copying        "trellis_datanode_copies_waiting"           Count   "Copies for the namenode that run or wait.";
        unreported     "trellis_datanode_changes_unreported"       Count   "Changes of replicas that namenodes have not heard of yet, of all namenodes together.";
        blocks         "trellis_datanode_blocks"                   Count   "Replicas.";
        capacity       "trellis_datanode_capacity_bytes"           Bytes   "Size of all storages.";
        used           "trellis_datanode_used_bytes"               Bytes   "What replicas take.";
        remaining      "trellis_datanode_remaining_bytes"          Bytes   "Room for more replicas.";
        process_cpu    "process_cpu_seconds_total"                 Seconds "User and system time of this process.";
        process_memory "process_resident_anonymous_bytes"          Bytes   "Anonymous resident memory (RssAnon).";
    }
}

const METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, None);

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// All metrics in Prometheus' text format. Numbers of the process are filled in here.
    pub fn render(&self, gauges: Gauges) -> String {
        let (process_cpu, process_memory) = process().unwrap_or_default();
        self.set(&Gauges { process_cpu, process_memory, ..gauges });
        self.handle.render()
    }
}

/// docs/METRICS-DATANODE.md.
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics of a datanode\n\nServed on the HTTP port under `/metrics`, in Prometheus' text format. Made from the \
         table in `datanode/src/metrics.rs`; do not edit.\n\n| metric | unit | what |\n| --- | --- | --- |\n",
    );
    for Metric { name, unit, help } in TABLE {
        page.push_str(&format!("| `{name}` | {} | {help} |\n", unit.as_str()));
    }
    page
}

/// User and system time in seconds, and anonymous memory in bytes, of this process.
fn process() -> Option<(f64, f64)> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: f64 = memory.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some((seconds(usage.user_time()) + seconds(usage.system_time()), kib * 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/METRICS-DATANODE.md");
        if std::env::var_os("TRELLIS_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        let why = "docs/METRICS-DATANODE.md is out of date: run 'cargo xtask docs' and commit it";
        assert!(found == page(), "{why}");
    }

    #[test]
    fn counts_and_renders() {
        let metrics = Metrics::new();
        metrics.bytes_written.increment(7);
        let text = metrics.render(Gauges { sessions: 3.0, ..Gauges::default() });
        for want in [
            "trellis_datanode_written_bytes_total 7",
            "trellis_datanode_sessions 3",
            "trellis_datanode_volumes_failed_total 0",
            "process_resident_anonymous_bytes ",
        ] {
            assert!(text.contains(want), "{want} is not in\n{text}");
        }
        for (i, metric) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|other| other.name != metric.name), "{}", metric.name);
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
    }
}

//! A report as a table.

use std::fmt::Write as _;

use crate::config::{Config, Pick, ReplayConfig};
use crate::disturb::Disturbance;
use crate::episodes::Episode;
use crate::report::{ErrorKind, Operation, Replay, Report, Total};

/// A report, to be read.
pub fn show(report: &Report) -> String {
    let mut text = head(report);
    let warning = report.counted().warning();
    if let Some(warning) = &warning {
        let _ = writeln!(text, "{warning}");
    }
    let rows = report.operations.iter().map(|(name, operation)| row(name, operation)).collect();
    text.push('\n');
    text.push_str(&table(&HEADS, rows));
    text.push('\n');
    text.push_str(&totals(report));
    text.push_str(&disturbed(report));
    if let Some(replay) = &report.replay {
        text.push_str(&replayed(report, replay));
    }
    for error in &report.errors {
        let _ = writeln!(text, "error, {} times {}: {}", error.count, error.kind, error.example);
    }
    for note in report.notes.iter().filter(|note| Some(*note) != warning.as_ref()) {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Of [`row`].
pub(crate) const HEADS: [&str; 11] = [
    "operation",
    "count",
    "ops/s",
    "refused",
    "errors",
    "p50 µs",
    "p90 µs",
    "p99 µs",
    "p99.9 µs",
    "max µs",
    "trips, rows",
];

fn head(report: &Report) -> String {
    let config = &report.config;
    let namespace = report
        .namespace
        .as_ref()
        .map(|namespace| format!(": {} of {} files present", namespace.files_present, namespace.spec.files));
    let place = format!(
        "{} below {}{}; build {}\n",
        config.target,
        config.base,
        namespace.unwrap_or_default(),
        report.build
    );
    if let Some(replay) = &config.replay {
        return replay_head(config, replay) + &place;
    }
    let mode = match config.rate {
        Some(rate) => format!("open loop, {rate} ops/s{}", arrivals(config)),
        None => "closed loop".to_owned(),
    };
    format!(
        "{}{}, {mode}, {} clients on {} connections, {} s after {} s of warm-up, seed {}; {}\n{place}",
        config.workload,
        creates(config.create_share),
        config.clients,
        config.connections,
        config.duration_s,
        config.warm_up_s,
        config.seed,
        picks(config),
    )
}

/// How many creates a mix has.
pub(crate) fn creates(percent: Option<f64>) -> String {
    // Of a workload's own share, no more digits than matter.
    let rounded = percent.map(|percent| (percent * 1e4).round() / 1e4);
    rounded.map(|percent| format!(" with {percent} % creates")).unwrap_or_default()
}

/// How the operations of an open loop follow one another.
pub(crate) fn arrivals(config: &Config) -> String {
    config.arrivals.map(|arrivals| format!(" ({arrivals})")).unwrap_or_default()
}

/// How files are picked.
pub(crate) fn picks(config: &Config) -> String {
    match (config.pick, config.hot) {
        (Pick::Popular, None) => format!("popularity {}", config.popularity),
        (Pick::Popular, Some(hot)) => format!("popularity {}, hot {hot}", config.popularity),
        (Pick::Once, _) => "every file once".to_owned(),
        (Pick::All, _) => "every file once by each client".to_owned(),
    }
}

fn replay_head(config: &Config, replay: &ReplayConfig) -> String {
    let files: Vec<String> = replay.files.iter().map(|file| file.display().to_string()).collect();
    let users = if replay.as_logged { "as the users that it names" } else { "as one user" };
    format!(
        "replay of {} {}, {users}, {} clients on {} connections\n",
        files.join(", "),
        speed(replay),
        config.clients,
        config.connections
    )
}

/// How fast a trace was to be replayed.
pub(crate) fn speed(replay: &ReplayConfig) -> String {
    replay.speed.map_or("as fast as possible".to_owned(), |speed| format!("at {speed} times its pace"))
}

/// What became of a trace's lines.
fn replayed(report: &Report, replay: &Replay) -> String {
    let Total { count, refused, errors, .. } = report.total;
    let mut text = format!(
        "lines: {} = {} replayed ({count} successes, {refused} refused as the trace says, {errors} errors) + {} skipped + {} broken\n",
        replay.lines,
        replay.replayed,
        replay.skipped_lines(),
        replay.broken_lines()
    );
    for (why, count) in &replay.skipped {
        let _ = writeln!(text, "skipped, {count}: {why}");
    }
    for ErrorKind { kind, count, example } in &replay.broken {
        let _ = writeln!(text, "broken, {count}: {kind}: {example}");
    }
    let _ = writeln!(
        text,
        "prepared {} directories and {} files in {:.1} s; unexplained lines: {}; lines that waited for an earlier one: {}",
        replay.prepared_dirs, replay.prepared_files, replay.prepared_s, replay.unexplained, replay.waited
    );
    if let Some(percent) = replay.rate_error_percent {
        let _ = writeln!(
            text,
            "the rate at which lines began was off by {percent:+.2} %; began in another second than they were to: {}",
            replay.in_another_second
        );
    }
    text
}

/// A row of the table of operations.
pub(crate) fn row(name: &str, operation: &Operation) -> Vec<String> {
    let Operation { count, ops_per_s, refused, errors, .. } = operation;
    let times = [operation.p50_us, operation.p90_us, operation.p99_us, operation.p999_us, operation.max_us];
    let mut cells =
        vec![name.to_owned(), count.to_string(), figure(*ops_per_s), refused.to_string(), errors.to_string()];
    cells.extend(times.map(figure));
    let cost = operation.store_round_trips_per_op.zip(operation.rows_per_op);
    cells.push(cost.map_or("-".to_owned(), |(trips, rows)| format!("{trips:.2}, {rows:.2}")));
    cells
}

fn totals(report: &Report) -> String {
    let total = &report.total;
    let whose = if report.counted().is_cached() { " that clients saw (cached)" } else { "" };
    let mut text = format!(
        "total: {} ops/s{whose}, {} successes, {} refused, {} errors in {:.3} s\n",
        figure(total.ops_per_s),
        total.count,
        total.refused,
        total.errors,
        total.elapsed_s
    );
    let [p50, p90, p99, p999, max] =
        [total.p50_us, total.p90_us, total.p99_us, total.p999_us, total.max_us].map(figure);
    let _ = writeln!(text, "latency in µs: p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p999}, max {max}");
    if let Some(open) = &report.open_loop {
        let _ = writeln!(
            text,
            "offered {} ops/s ({}), achieved {}; begun late by {} µs (p50), {} (p99), {} (max); never begun: {}",
            figure(open.offered_per_s),
            open.offered,
            figure(open.achieved_per_s),
            figure(open.late_p50_us),
            figure(open.late_p99_us),
            figure(open.late_max_us),
            open.never_begun
        );
    }
    let server = total.server_cpu_us_per_op.map_or("unknown".to_owned(), |us| format!("{us:.1} µs"));
    let _ = writeln!(
        text,
        "CPU for each operation: servers {server}, this program {:.1} µs{}",
        total.client_cpu_us_per_op,
        total.machine_busy_percent.map(|busy| format!("; machine {busy:.1} % busy")).unwrap_or_default()
    );
    if let Some((trips, rows)) = total.store_round_trips_per_op.zip(total.rows_per_op) {
        let group = total
            .operations_per_group
            .map_or("no groups".to_owned(), |size| format!("{size:.2} operations in a group"));
        let _ = writeln!(
            text,
            "store, for each operation: {trips:.2} round trips, {rows:.2} rows; {group}; conflicts {}, run again {}",
            total.conflicts.unwrap_or_default(),
            total.retries.unwrap_or_default()
        );
    }
    let counted = report.counted();
    let servers = counted.servers.map_or("do not tell".to_owned(), |count| format!("counted {count}"));
    let _ = writeln!(
        text,
        "calls: clients saw {} answers, servers {servers}; sent once more: {}, other namenode: {}",
        counted.clients, total.resends, total.failovers
    );
    text
}

/// What was done to the servers, and the run in parts; nothing when it was left alone.
fn disturbed(report: &Report) -> String {
    if report.disturbances.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n{}\n{}",
        table(&DISTURBANCE_HEADS, disturbances(report)),
        table(&EPISODE_HEADS, episodes(report))
    );
    let _ = writeln!(text, "Operations belong to the episode in which they were to begin. {}.", late(report));
    text
}

/// What counts as late.
pub(crate) fn late(report: &Report) -> String {
    format!("An operation is late that took longer than {} s", report.config.late_after_s)
}

/// Of [`disturbances`].
pub(crate) const DISTURBANCE_HEADS: [&str; 5] =
    ["done to the servers", "due, s", "done, s", "over, s", "outcome"];

/// A row for each thing that was done to the servers.
pub(crate) fn disturbances(report: &Report) -> Vec<Vec<String>> {
    let seconds = |at: Option<f64>| at.map_or("-".to_owned(), |at| format!("{at:.3}"));
    let row = |one: &Disturbance| {
        let times = [Some(one.intended_s), one.begun_s, one.ended_s].map(seconds);
        [one.what.clone()].into_iter().chain(times).chain([one.outcome.clone()]).collect()
    };
    report.disturbances.iter().map(row).collect()
}

/// Of [`episodes`].
pub(crate) const EPISODE_HEADS: [&str; 10] =
    ["episode", "from, s", "to, s", "count", "refused", "errors", "late", "max µs", "failovers", "resends"];

/// A row for each part of a disturbed run.
pub(crate) fn episodes(report: &Report) -> Vec<Vec<String>> {
    let row = |episode: &Episode| {
        let counts =
            [episode.count, episode.refused, episode.errors, episode.late].map(|count| count.to_string());
        let times = [episode.from_s, episode.to_s].map(|at| format!("{at:.3}"));
        let more = [figure(episode.max_us), episode.failovers.to_string(), episode.resends.to_string()];
        [episode.begins_with.clone()].into_iter().chain(times).chain(counts).chain(more).collect()
    };
    report.episodes.iter().map(row).collect()
}

/// A number with what matters of it.
pub(crate) fn figure(value: f64) -> String {
    if value.abs() < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Columns as wide as they must be; the first to the left, the others to the right.
pub(crate) fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut all = vec![heads.iter().map(|head| (*head).to_owned()).collect::<Vec<_>>()];
    all.extend(rows);
    let width =
        |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..heads.len()).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for row in &all {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

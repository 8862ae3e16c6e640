//! A scale run as a table.

use std::fmt::Write as _;

use super::Config;
use super::level::Level;
use super::report::{Point, Scale};
use crate::show::{creates, figure, table};
use crate::spread::Spread;

/// Of [`row`].
pub(crate) const HEADS: [&str; 12] = [
    "namenodes",
    "clients",
    "ops/s",
    "of linear",
    "machine busy %",
    "server µs/op",
    "client µs/op",
    "trips/op",
    "rows/op",
    "commits/op",
    "ops/group",
    "a trip waits µs",
];

/// What was run.
pub(crate) fn what(config: &Config) -> String {
    format!(
        "{}{}, closed loop, {} clients of each namenode, {} s after {} s of warm-up, {} rounds; {} files",
        config.workload,
        creates(config.create_share),
        config.clients_per_namenode,
        config.duration_s,
        config.warm_up_s,
        config.rounds,
        config.spec.files,
    )
}

/// What the levels' figures are.
pub(crate) const SPREADS: &str = "medians of the rounds, in parentheses their lowest and highest";

/// The table, to be read.
pub fn show(scale: &Scale) -> String {
    let mut text = format!(
        "{}; store delay {} µs\n{} cores for namenodes and load generator together; build {}\n\n",
        what(&scale.config),
        scale.config.store_delay_us,
        scale.machine_cores,
        scale.build,
    );
    text.push_str(&table(&HEADS, scale.levels.iter().map(row).collect()));
    let _ = writeln!(text, "\n{SPREADS}");
    for note in &scale.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// A row of the table of levels.
pub(crate) fn row(level: &Level) -> Vec<String> {
    let known = |figure: Option<Spread>, digits| figure.map_or("-".to_owned(), |spread| spread.text(digits));
    vec![
        level.namenodes.to_string(),
        level.clients.to_string(),
        level.ops_per_s.text(0),
        known(level.of_linear, 3),
        known(level.machine_busy_percent, 1),
        known(level.server_cpu_us_per_op, 1),
        level.client_cpu_us_per_op.text(1),
        known(level.store_round_trips_per_op, 2),
        known(level.rows_per_op, 2),
        known(level.commits_per_op, 3),
        known(level.operations_per_group, 2),
        known(level.delay_us, 0),
    ]
}

/// One run in a line, said as soon as it has ended.
pub fn line(point: &Point) -> String {
    let total = &point.report.total;
    let cpu = total.server_cpu_us_per_op.unwrap_or_default() + total.client_cpu_us_per_op;
    let busy = total.machine_busy_percent.map_or("not told".to_owned(), |busy| format!("{busy:.1} %"));
    format!(
        "round {}, namenodes {}: {} ops/s, {cpu:.1} µs CPU for each, machine busy {busy}",
        point.round + 1,
        point.namenodes,
        figure(total.ops_per_s)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::report::tests::point;
    use crate::scale::tests::config;

    #[test]
    fn a_table_shows_what_matters() {
        let points = vec![point(0, 1, 100.0), point(0, 2, 190.0), point(1, 1, 100.0), point(1, 2, 200.0)];
        let text = show(&Scale::of(config(), points.clone()));
        for part in ["of linear", "1.000 (0.950 to 1.000)", "200 (190 to 200)", "note: metadata only", "2500"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(line(&points[1]).starts_with("round 1, namenodes 2: 190.0 ops/s, 22.5 µs CPU"));
    }
}

//! The model's answers as tables.

use std::fmt::Write as _;

use super::check::Check;
use super::cluster::Stay;
use super::report::{Cluster, Model};
use crate::show::{figure, table};

/// All of it, to be read.
pub fn show(model: &Model) -> String {
    let mut text = demands(model);
    if !model.checks.is_empty() {
        text.push_str("\nmeasured, and what the model says of it:\n");
        text.push_str(&table(&CHECK_HEADS, checks(&model.checks)));
    }
    text.push_str("\npredicted ops/s, by namenodes and nodes of the database:\n");
    let (heads, rows) = grid(model);
    text.push_str(&table(&heads.iter().map(String::as_str).collect::<Vec<_>>(), rows));
    let _ = writeln!(text, "{MARKS}");
    if let Some(cluster) = beside(model) {
        text.push_str(&ways(cluster));
    }
    for published in &model.published {
        let _ = writeln!(
            text,
            "published: {} with {} namenodes and {} nodes, {} ops/s ({})",
            published.system,
            published.namenodes,
            published.store_nodes,
            figure(published.ops_per_s),
            published.source
        );
    }
    for assumption in &model.assumptions {
        let _ = writeln!(text, "assumed: {assumption}");
    }
    text
}

fn demands(model: &Model) -> String {
    let d = &model.calibration.demands;
    format!(
        "an operation in {} demands: namenode {:.1} µs CPU, client {:.1} µs; {:.2} round trips, {:.2} rows read, {:.2} \
         written; {:.3} writes, of which {:.2} share a group that has the store {:.0} µs; what is left: {:.0} µs\n",
        model.calibration.file,
        d.namenode_cpu_us,
        d.client_cpu_us,
        d.round_trips,
        d.rows_read,
        d.rows_written,
        d.writes,
        d.group,
        d.hold_us,
        d.rest_us
    )
}

/// Of [`checks`].
pub(crate) const CHECK_HEADS: [&str; 10] = [
    "file",
    "namenodes",
    "clients",
    "delay µs",
    "measured ops/s",
    "predicted",
    "error %",
    "busy %",
    "predicted %",
    "",
];

/// Measured runs beside predictions, a row for each kind.
pub(crate) fn checks(checks: &[Check]) -> Vec<Vec<String>> {
    let row = |check: &Check| {
        vec![
            check.file.clone(),
            check.namenodes.to_string(),
            check.clients.to_string(),
            check.store_delay_us.to_string(),
            check.measured_ops_per_s.text(0),
            format!("{:.0}", check.predicted_ops_per_s),
            format!("{:+.1}", check.error_percent),
            check.measured_busy_percent.map_or("-".to_owned(), |busy| busy.text(1)),
            format!("{:.1}", check.predicted_busy_percent),
            if check.is_calibration { "calibrated on" } else { "" }.to_owned(),
        ]
    };
    checks.iter().map(row).collect()
}

/// What stands beside a rate in [`grid`].
pub(crate) const MARKS: &str = "n: the namenodes' cores would bound it; d: the database's; -: waiting would";

/// Heads and rows: one for each number of namenodes, with a column for each number of nodes.
pub(crate) fn grid(model: &Model) -> (Vec<String>, Vec<Vec<String>>) {
    let question = &model.question;
    let columns = question.store_nodes.iter().map(|nodes| format!("{nodes} nodes"));
    let heads = std::iter::once("namenodes".to_owned()).chain(columns).collect();
    let row = |namenodes: &u32| {
        let cells = model.clusters.iter().filter(|cluster| cluster.namenodes == *namenodes);
        std::iter::once(namenodes.to_string()).chain(cells.map(cell)).collect()
    };
    (heads, question.namenodes.iter().map(row).collect())
}

/// Part of the bottleneck's servers that is busy from which it is what bounds.
const BUSY: f64 = 0.9;

fn cell(cluster: &Cluster) -> String {
    let predicted = &cluster.predicted;
    let bounding = predicted.stations.iter().find(|stay| stay.name == predicted.bottleneck);
    let mark = match bounding.filter(|stay| stay.utilisation.is_some_and(|part| part >= BUSY)) {
        Some(stay) if stay.name.starts_with("namenodes") => 'n',
        Some(_) => 'd',
        None => '-',
    };
    format!("{:.0} {mark}", predicted.ops_per_s)
}

/// The cluster that stands beside the first published one; else the largest.
pub(crate) fn beside(model: &Model) -> Option<&Cluster> {
    let published = model.published.first();
    let equal = |cluster: &&Cluster| {
        published.is_some_and(|p| (p.namenodes, p.store_nodes) == (cluster.namenodes, cluster.store_nodes))
    };
    model.clusters.iter().find(equal).or(model.clusters.last())
}

/// Where an operation's time goes.
fn ways(cluster: &Cluster) -> String {
    let predicted = &cluster.predicted;
    let mut text = format!(
        "\nwith {} namenodes, {} nodes and {} clients: {} ops/s of {} at most, {} µs each\n",
        cluster.namenodes,
        cluster.store_nodes,
        cluster.clients,
        figure(predicted.ops_per_s),
        figure(predicted.bound_ops_per_s),
        figure(predicted.mean_us)
    );
    text.push_str(&table(&STATION_HEADS, stations(cluster)));
    text
}

/// Of [`stations`].
pub(crate) const STATION_HEADS: [&str; 3] = ["station", "µs", "busy %"];

/// A row for each place where an operation spends time.
pub(crate) fn stations(cluster: &Cluster) -> Vec<Vec<String>> {
    let row = |stay: &Stay| {
        let busy = stay.utilisation.map_or("-".to_owned(), |part| format!("{:.1}", part * 100.0));
        vec![stay.name.clone(), figure(stay.residence_us), busy]
    };
    cluster.predicted.stations.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::report::tests::model;

    #[test]
    fn tables_tell_measured_and_predicted_apart_and_what_bounds() {
        let text = show(&model());
        for part in [
            "measured ops/s",
            "calibrated on",
            "-3.5",
            "12 nodes",
            "60 ",
            " d\n",
            "published: HopsFS",
            "assumed: ",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.contains("with 60 namenodes, 12 nodes and 15360 clients"), "{text}");
    }
}

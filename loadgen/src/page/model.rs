//! The page of the capacity model. What was measured and what is predicted look different wherever they stand.

use super::axis::{Axis, count, micros, number};
use super::chart::{Chart, Point, Style};
use super::figure::Colour;
use super::html::Html;
use super::parts::{notes, tile};
use super::rows::{self, Rows};
use crate::model::check::{Check, worst};
use crate::model::cluster::{Database, Machines};
use crate::model::demands::Demands;
use crate::model::report::{Cluster, Model};
use crate::model::show;

/// Numbers of nodes that have a line; the table has all.
const MAX_LINES: usize = 5;

/// The page.
pub fn page(model: &Model) -> String {
    let title = "What larger clusters could do, as a model says";
    let mut html = Html::default();
    html.tag("header", &[], |html| {
        html.line("h1", "", title);
        html.line("p", "", calibrated(model));
        html.line(
            "p",
            "",
            "Filled circles with bars were measured here, filled squares by others. Hollow diamonds on broken lines, \
             and hollow bars, are predicted.",
        );
    });
    tiles(&mut html, model);
    clusters(&mut html, model);
    times(&mut html, model);
    checks(&mut html, model);
    demands(&mut html, model);
    html.section("What is assumed", |html| {
        notes(html, &model.assumptions);
        html.tag("div", &[("class", "wrap")], |html| {
            html.table(&["stated, not measured", ""], &stated(model));
        });
    });
    html.line("footer", "", format!("trellis load {}, schema {}", model.build, model.schema));
    super::document(&format!("trellis load: {title}"), &html)
}

fn calibrated(model: &Model) -> String {
    let (file, run) = (&model.calibration.file, &model.calibration.measured);
    format!(
        "calibrated on {file}: {} namenodes, {} clients, {} operations/s on {} cores",
        run.namenodes,
        run.clients,
        number(run.ops_per_s),
        run.machine_cores
    )
}

fn name(namenodes: u32, store_nodes: u32) -> String {
    format!("{namenodes} namenodes, {store_nodes} nodes of the database")
}

fn tiles(html: &mut Html, model: &Model) {
    html.tag("dl", &[("class", "tiles")], |html| {
        if let Some(cluster) = show::beside(model) {
            let Cluster { namenodes, store_nodes, predicted, .. } = cluster;
            let rate = number(predicted.ops_per_s);
            tile(html, "predicted operations/s", &rate, &name(*namenodes, *store_nodes));
            let busiest = predicted.stations.iter().find(|stay| stay.name == predicted.bottleneck);
            if let Some(part) = busiest.and_then(|stay| stay.utilisation) {
                let busy = format!("{} %", number(part * 100.0));
                tile(html, "busiest there, as predicted", &busy, &predicted.bottleneck);
            }
        }
        for published in &model.published {
            let title = format!("{}, operations/s as published", published.system);
            tile(
                html,
                &title,
                &number(published.ops_per_s),
                &name(published.namenodes, published.store_nodes),
            );
        }
        let (tested, off) = (model.checks.iter().filter(|check| !check.is_calibration), worst(&model.checks));
        let error = off.map_or("unknown".to_owned(), |percent| format!("{} %", number(percent)));
        let of = match off {
            Some(_) => format!("of {} kinds of runs that it was not calibrated on", tested.count()),
            None => "no run was checked that it was not calibrated on".to_owned(),
        };
        tile(html, "largest error", &error, &of);
    });
}

/// The numbers of nodes that have a line, most first, as their lines lie: the published ones, and some of the others.
fn lines(model: &Model) -> Vec<u32> {
    let is_published = |nodes: &u32| model.published.iter().any(|published| published.store_nodes == *nodes);
    let mut all = model.question.store_nodes.clone();
    all.sort_unstable();
    all.dedup();
    let (mut drawn, others): (Vec<u32>, Vec<u32>) = all.into_iter().partition(is_published);
    drawn.extend(evenly(&others, MAX_LINES.saturating_sub(drawn.len())));
    drawn.sort_unstable_by(|one, other| other.cmp(one));
    drawn
}

/// So many of these at most, the first and the last among them.
fn evenly(all: &[u32], most: usize) -> Vec<u32> {
    if all.len() <= most {
        return all.to_vec();
    }
    let gaps = most.saturating_sub(1).max(1);
    (0..most).filter_map(|index| all.get(index * (all.len() - 1) / gaps).copied()).collect()
}

fn clusters(html: &mut Html, model: &Model) {
    html.section("Clusters", |html| {
        let of = |nodes: u32| {
            let clusters = model.clusters.iter().filter(|cluster| cluster.store_nodes == nodes);
            ascending(
                clusters.map(|cluster| Point::new(cluster.namenodes.into(), cluster.predicted.ops_per_s)),
            )
        };
        let (lines, axis) = (lines(model), Axis::count("namenodes"));
        let mut chart = Chart::new("Operations a second by namenodes", axis, Axis::linear("operations/s"));
        for (index, nodes) in lines.iter().enumerate() {
            let name = format!("predicted, {nodes} nodes");
            chart = chart.with(name, Style::Predicted, Colour::nth(index), of(*nodes));
        }
        for published in &model.published {
            let at = vec![Point::new(published.namenodes.into(), published.ops_per_s)];
            let name = format!("{}, published, {} nodes", published.system, published.store_nodes);
            chart = chart.with(name, Style::Published, Colour::Dark, at);
        }
        html.add(&chart.figure());
        if lines.len() < model.question.store_nodes.len() {
            html.line("p", "", "Not every number of nodes has a line; the table has all.");
        }
        html.line("h3", "", "Predicted operations a second, by namenodes and nodes of the database");
        let (heads, rows) = show::grid(model);
        html.table(&heads.iter().map(String::as_str).collect::<Vec<_>>(), &rows);
        html.line("p", "", format!("{}.", show::MARKS));
        for published in &model.published {
            let same = model.clusters.iter().find(|cluster| {
                (cluster.namenodes, cluster.store_nodes) == (published.namenodes, published.store_nodes)
            });
            let times = same.map(|cluster| {
                let times = cluster.predicted.ops_per_s / published.ops_per_s;
                format!(" Predicted for as many here: {} times that.", number(times))
            });
            html.line(
                "p",
                "",
                format!(
                    "{} with {}: {} operations/s, measured by its authors ({}).{}",
                    published.system,
                    name(published.namenodes, published.store_nodes),
                    number(published.ops_per_s),
                    published.source,
                    times.unwrap_or_default()
                ),
            );
        }
    });
}

/// In the order of x, each once.
fn ascending(points: impl Iterator<Item = Point>) -> Vec<Point> {
    let mut all: Vec<Point> = points.collect();
    all.sort_by(|one, other| one.x.total_cmp(&other.x));
    all.dedup_by(|one, other| one.x.total_cmp(&other.x).is_eq());
    all
}

fn times(html: &mut Html, model: &Model) {
    let Some(cluster) = show::beside(model) else { return };
    let predicted = &cluster.predicted;
    html.section("Where the time would go", |html| {
        html.line(
            "p",
            "",
            format!(
                "Predicted for {} and {} clients: {} operations/s of {} at most, {} each.",
                name(cluster.namenodes, cluster.store_nodes),
                count(cluster.clients.into()),
                number(predicted.ops_per_s),
                number(predicted.bound_ops_per_s),
                micros(predicted.mean_us)
            ),
        );
        let stations = predicted.stations.iter();
        let drawn = Rows {
            title: "Time of an operation".into(),
            axis: Axis::linear_micros("for each operation"),
            style: rows::Style::Predicted,
            series: vec![("predicted".into(), Colour::Orange)],
            rows: stations.map(|stay| (stay.name.clone(), vec![Some(stay.residence_us)])).collect(),
        };
        html.add(&drawn.figure());
        html.table(&show::STATION_HEADS, &show::stations(cluster));
    });
}

fn checks(html: &mut Html, model: &Model) {
    html.section("Measured runs, and what the model says of them", |html| {
        if model.checks.is_empty() {
            html.line("p", "", "No measured runs were given: nothing here says how far off the model is.");
            return;
        }
        let mut left = &model.checks[..];
        while let Some(first) = left.first() {
            let others = left.iter().position(|check| !is_beside(first, check)).unwrap_or(left.len());
            let (group, rest) = left.split_at(others);
            left = rest;
            html.add(&rates(group).figure());
            let busy = busy(group);
            if busy.series.iter().any(|series| series.style == Style::Measured) {
                html.add(&busy.figure());
            }
        }
        html.line("h3", "", "Errors");
        html.table(&show::CHECK_HEADS, &show::checks(&model.checks));
        html.line(
            "p",
            "",
            "The error is that of the prediction beside the median of what was measured. Runs that the model was calibrated \
             on prove nothing.",
        );
    });
}

/// Whether two are drawn together: one file has one store delay.
fn is_beside(one: &Check, other: &Check) -> bool {
    (&one.file, one.store_delay_us) == (&other.file, other.store_delay_us)
}

fn of_file(checks: &[Check], what: &str, y: &str) -> Chart {
    let of = checks.first().map(|check| match check.store_delay_us {
        0 => format!("{what}: {}", check.file),
        us => format!("{what}: {}, store delay {}", check.file, micros(us as f64)),
    });
    Chart::new(of.unwrap_or_default(), Axis::count("namenodes"), Axis::linear(y))
}

fn rates(checks: &[Check]) -> Chart {
    let measured = |of_calibration: bool| {
        let of = checks.iter().filter(move |check| check.is_calibration == of_calibration);
        ascending(of.map(|check| Point::of(check.namenodes.into(), check.measured_ops_per_s)))
    };
    let predicted = checks.iter().map(|check| Point::new(check.namenodes.into(), check.predicted_ops_per_s));
    of_file(checks, "Operations a second", "operations/s")
        .with("measured", Style::Measured, Colour::Blue, measured(false))
        .with("measured, calibrated on", Style::Measured, Colour::Grey, measured(true))
        .with("predicted", Style::Predicted, Colour::Orange, ascending(predicted))
}

fn busy(checks: &[Check]) -> Chart {
    let known = checks.iter().filter_map(|check| Some((check.namenodes, check.measured_busy_percent?)));
    let measured = known.map(|(namenodes, busy)| Point::of(namenodes.into(), busy));
    let predicted =
        checks.iter().map(|check| Point::new(check.namenodes.into(), check.predicted_busy_percent));
    of_file(checks, "How busy the machine was", "busy, %")
        .with("measured", Style::Measured, Colour::Blue, ascending(measured))
        .with("predicted", Style::Predicted, Colour::Orange, ascending(predicted))
}

fn demands(html: &mut Html, model: &Model) {
    let Demands {
        namenode_cpu_us,
        client_cpu_us,
        calls,
        round_trips,
        writes,
        rows_read,
        rows_written,
        hold_us,
        group,
        trip_us,
        rest_us,
    } = model.calibration.demands;
    html.section("What an operation demands", |html| {
        let rows = [
            ("CPU of namenodes, µs", namenode_cpu_us),
            ("CPU of the client, µs", client_cpu_us),
            ("calls", calls),
            ("round trips to the store", round_trips),
            ("what a round trip waits because of the store delay, µs", trip_us),
            ("rows read", rows_read),
            ("rows written", rows_written),
            ("operations that may write", writes),
            ("of those, in a group", group),
            ("how long a group has the embedded store, µs", hold_us),
            ("what is left of the measured response time, µs", rest_us),
        ];
        // Small ones have more digits than a drawing shows.
        let text = |value: f64| if value < 10.0 { format!("{value:.3}") } else { number(value) };
        let rows: Vec<Vec<String>> = rows.map(|(what, value)| vec![what.to_owned(), text(value)]).into();
        let head = format!("measured in {}, for each operation", model.calibration.file);
        html.tag("div", &[("class", "wrap")], |html| html.table(&[&head, ""], &rows));
    });
}

/// Every parameter that nobody has measured here.
fn stated(model: &Model) -> Vec<Vec<String>> {
    let question = &model.question;
    let Machines { cores_per_namenode, network_us, database } = &question.machines;
    let Database {
        // Each of those asked for in its turn.
        nodes: _,
        cores_per_node,
        replicas,
        statement_us,
        row_us,
        written_row_us,
        client_statement_us,
        client_row_us,
        operations_per_statement,
        trip_us,
    } = database;
    let whole = |count: &u32| number((*count).into());
    let rows = [
        ("clients of each namenode", whole(&question.clients_per_namenode)),
        ("cores of a namenode", whole(cores_per_namenode)),
        ("cores of a node of the database", whole(cores_per_node)),
        ("nodes that write each row", whole(replicas)),
        ("CPU of a node for a statement", micros(*statement_us)),
        ("CPU of a node for a row that is read", micros(*row_us)),
        ("CPU of each node that writes a row", micros(*written_row_us)),
        ("CPU of a namenode for a statement", micros(*client_statement_us)),
        ("CPU of a namenode for a row", micros(*client_row_us)),
        ("operations whose round trips are one statement", number(*operations_per_statement)),
        ("a round trip to the database, beside the node's work", micros(*trip_us)),
        ("a client's way to its namenode and back", micros(*network_us)),
        ("a group's further operation has the embedded store", micros(model.calibration.further_us)),
    ];
    rows.map(|(what, value)| vec![what.to_owned(), value]).into()
}

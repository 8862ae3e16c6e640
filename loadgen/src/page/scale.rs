//! The page of runs on more and more namenodes: the scaling curve.

use super::axis::{Axis, count, micros, number};
use super::chart::{Chart, Point, Style};
use super::figure::Colour;
use super::html::Html;
use super::parts::{asked, begun, notes, tile};
use crate::scale::level::Level;
use crate::scale::report::Scale;
use crate::scale::show;
use crate::spread::Spread;

/// What all cores together are.
const ALL_CORES_PERCENT: f64 = 100.0;

/// The page.
pub fn page(scale: &Scale) -> String {
    let counts: Vec<String> = scale.levels.iter().map(|level| level.namenodes.to_string()).collect();
    let title = format!("Namenodes on one store: {}", counts.join(", "));
    let mut html = Html::default();
    html.tag("header", &[], |html| {
        html.line("h1", "", &title);
        html.line("p", "", show::what(&scale.config));
        html.line("p", "", delay(scale));
        let begun = scale.points.first().map(|point| format!("begun {}; ", begun(&point.report)));
        let cores = format!("{} cores for namenodes and load generator together", scale.machine_cores);
        html.line("p", "", begun.unwrap_or_default() + &cores);
        warnings(html, scale);
    });
    tiles(&mut html, scale);
    throughput(&mut html, scale);
    costs(&mut html, scale);
    store(&mut html, scale);
    machine(&mut html, scale);
    latencies(&mut html, scale);
    runs(&mut html, scale);
    html.section("Notes", |html| notes(html, &scale.notes));
    html.section("What was asked for", |html| {
        asked(html, &scale.config, &[vec!["program".into(), scale.build.clone()]]);
    });
    html.line("footer", "", format!("trellis load {}, schema {}", scale.build, scale.schema));
    super::document(&format!("trellis load: {title}"), &html)
}

/// How far away the store was.
fn delay(scale: &Scale) -> String {
    match scale.config.store_delay_us {
        0 => "no store delay: round trips to the store take what they take".to_owned(),
        us => format!("store delay: every round trip to the store waits {} on purpose", micros(us as f64)),
    }
}

fn warnings(html: &mut Html, scale: &Scale) {
    let cached = scale.points.iter().filter(|point| point.report.counted().is_cached()).count();
    if cached > 0 {
        let runs = scale.points.len();
        html.line(
            "p",
            "warning",
            format!(
                "{cached} of {runs} runs are marked cached: their rates are what clients saw, not what servers did. The \
                 notes say which."
            ),
        );
    }
    let errors: u64 = scale.levels.iter().map(|level| level.errors).sum();
    if errors > 0 {
        html.line(
            "p",
            "warning",
            format!("{} operations ended as errors; the notes say where.", count(errors)),
        );
    }
}

/// What the rates are called: those of a cached run are not the servers'.
fn rate_name(scale: &Scale) -> &'static str {
    let all = || scale.points.iter().map(|point| &point.report);
    let named = all().find(|report| report.counted().is_cached()).or(all().next());
    named.map_or("operations/s", |report| report.rate_name())
}

fn tiles(html: &mut Html, scale: &Scale) {
    let Some((fewest, most)) = scale.levels.first().zip(scale.levels.last()) else { return };
    let at = format!("{} namenodes", most.namenodes);
    let ends = |spread: Spread, text: fn(f64) -> String| {
        format!("{at}; {} to {} in the rounds", text(spread.lowest), text(spread.highest))
    };
    html.tag("dl", &[("class", "tiles")], |html| {
        let rate = most.ops_per_s;
        tile(html, rate_name(scale), &number(rate.median), &ends(rate, number));
        if let Some(linear) = most.of_linear {
            tile(html, "of linear", &share(linear.median), &ends(linear, share));
        }
        if let Some(busy) = most.machine_busy_percent {
            tile(html, "machine busy", &percent(busy.median), &ends(busy, percent));
        }
        let cpu = fewest.server_cpu_us_per_op.zip(most.server_cpu_us_per_op);
        if let Some((first, last)) = cpu {
            let more = format!("{at}; {}: {}", fewest.namenodes, micros(first.median));
            tile(html, "server CPU per operation", &micros(last.median), &more);
        }
        if let Some(p99) = most.p99_us {
            tile(html, "latency, p99", &micros(p99.median), &ends(p99, micros));
        }
        let waited = most.delay_us.map(|us| format!("{at}; {} really waited", micros(us.median)));
        let asked = micros(scale.config.store_delay_us as f64);
        tile(html, "store delay", &asked, &waited.unwrap_or_default());
    });
}

fn share(part: f64) -> String {
    format!("{part:.3}")
}

fn percent(percent: f64) -> String {
    format!("{} %", number(percent))
}

/// An empty chart over the numbers of namenodes.
fn chart(title: &str, y: Axis) -> Chart {
    Chart::new(title, Axis::count("namenodes"), y)
}

/// A point for each level of which a figure is known.
fn points(scale: &Scale, figure: impl Fn(&Level) -> Option<Spread>) -> Vec<Point> {
    let known = scale.levels.iter().filter_map(|level| Some((level.namenodes, figure(level)?)));
    known.map(|(namenodes, spread)| Point::of(namenodes.into(), spread)).collect()
}

/// A figure of each level, with its name and colour.
type Line = (&'static str, Colour, fn(&Level) -> Option<Spread>);

/// Measured figures over the numbers of namenodes.
fn curves(scale: &Scale, title: &str, y: Axis, lines: &[Line]) -> Chart {
    lines.iter().fold(chart(title, y), |chart, (name, colour, figure)| {
        chart.with(*name, Style::Measured, *colour, points(scale, figure))
    })
}

/// A chart, if anything is known of it.
fn add(html: &mut Html, chart: &Chart, unknown: &str) {
    match chart.series.is_empty() {
        true => html.line("p", "", format!("{unknown}: unknown.")),
        false => html.add(&chart.figure()),
    }
}

fn throughput(html: &mut Html, scale: &Scale) {
    html.section("Throughput", |html| {
        let linear = scale.levels.first().map(|fewest| {
            let each = fewest.ops_per_s.median / f64::from(fewest.namenodes.max(1));
            let levels = scale.levels.iter().map(|level| f64::from(level.namenodes));
            levels.map(|namenodes| Point::new(namenodes, each * namenodes)).collect()
        });
        let drawn = chart("Throughput by namenodes", Axis::linear(rate_name(scale)))
            .with("linear", Style::Reference, Colour::Grey, linear.unwrap_or_default())
            .with("measured", Style::Measured, Colour::Blue, points(scale, |level| Some(level.ops_per_s)));
        add(html, &drawn, "Throughput");
        html.table(&show::HEADS, &scale.levels.iter().map(show::row).collect::<Vec<_>>());
        html.line(
            "p",
            "",
            format!(
                "Figures are {}. Linear is what the fewest namenodes did, times as many. Of linear compares within each round.",
                show::SPREADS
            ),
        );
    });
}

fn costs(html: &mut Html, scale: &Scale) {
    html.section("CPU for each operation", |html| {
        let lines: [Line; 2] = [
            ("namenodes", Colour::Blue, |level| level.server_cpu_us_per_op),
            ("load generator", Colour::Orange, |level| Some(level.client_cpu_us_per_op)),
        ];
        let axis = Axis::linear_micros("CPU per operation");
        add(html, &curves(scale, "CPU time for each operation that was answered", axis, &lines), "CPU time");
    });
}

fn store(html: &mut Html, scale: &Scale) {
    html.section("Load of the store", |html| {
        html.line("p", "", format!("{}.", capital(&delay(scale))));
        let drawings: [(&str, &str, &[Line]); 4] = [
            (
                "Round trips and commits",
                "for each operation",
                &[
                    ("round trips to the store", Colour::Blue, |level| level.store_round_trips_per_op),
                    ("durable commits", Colour::Orange, |level| level.commits_per_op),
                ],
            ),
            (
                "Rows read and written",
                "rows for each operation",
                &[("rows", Colour::Blue, |level| level.rows_per_op)],
            ),
            (
                "Operations in a group that commits",
                "operations in a group",
                &[("operations in a group", Colour::Blue, |level| level.operations_per_group)],
            ),
            (
                "All namenodes together",
                "a second",
                &[
                    ("rows", Colour::Blue, |level| level.rows_per_s),
                    ("round trips", Colour::Orange, |level| level.store_round_trips_per_s),
                ],
            ),
        ];
        for (title, label, lines) in drawings {
            add(html, &curves(scale, title, Axis::linear(label), lines), title);
        }
        if scale.config.store_delay_us > 0 {
            let asked = scale.levels.iter().map(|level| f64::from(level.namenodes));
            let asked = asked.map(|at| Point::new(at, scale.config.store_delay_us as f64)).collect();
            let waits =
                chart("What a round trip waits on purpose", Axis::linear_micros("for each round trip"))
                    .with("asked for", Style::Reference, Colour::Grey, asked)
                    .with(
                        "really waited",
                        Style::Measured,
                        Colour::Blue,
                        points(scale, |level| level.delay_us),
                    );
            add(html, &waits, &waits.title);
        }
    });
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

fn machine(html: &mut Html, scale: &Scale) {
    html.section("How busy the machine was", |html| {
        let busy = points(scale, |level| level.machine_busy_percent);
        let all = busy.iter().map(|point| Point::new(point.x, ALL_CORES_PERCENT)).collect();
        let drawn = chart("All cores, for whatever process", Axis::linear("busy, %"))
            .with("all cores", Style::Reference, Colour::Grey, all)
            .with("busy", Style::Measured, Colour::Blue, busy);
        add(html, &drawn, "How busy it was");
        html.line(
            "p",
            "",
            "Namenodes and load generator share it: where it is busy, it and not the namenodes bounds the throughput.",
        );
    });
}

fn latencies(html: &mut Html, scale: &Scale) {
    html.section("Latency", |html| {
        let lines: [Line; 2] =
            [("p50", Colour::Blue, |level| level.p50_us), ("p99", Colour::Purple, |level| level.p99_us)];
        let drawn = curves(scale, "Latency of all operations", Axis::log_micros("latency"), &lines);
        add(html, &drawn, "Latencies");
    });
}

fn runs(html: &mut Html, scale: &Scale) {
    html.section("Every run", |html| {
        let known = |value: Option<f64>| value.map_or("–".to_owned(), number);
        let rows: Vec<Vec<String>> = scale
            .points
            .iter()
            .map(|point| {
                let total = &point.report.total;
                vec![
                    (point.round + 1).to_string(),
                    point.namenodes.to_string(),
                    number(total.ops_per_s),
                    known(total.machine_busy_percent),
                    known(total.server_cpu_us_per_op),
                    micros(total.p50_us),
                    micros(total.p99_us),
                    count(total.refused),
                    count(total.errors),
                ]
            })
            .collect();
        let heads = [
            "round",
            "namenodes",
            rate_name(scale),
            "machine busy %",
            "server µs/op",
            "p50",
            "p99",
            "refused",
            "errors",
        ];
        html.table(&heads, &rows);
        html.line("p", "", "In their order: every other round runs backwards.");
    });
}

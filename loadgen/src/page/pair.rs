//! The page of two runs compared.

use super::axis::{Axis, micros, number};
use super::chart::Style as Line;
use super::figure::Colour;
use super::html::Html;
use super::parts::{self, Timeline, begun, headline, notes, settings};
use super::rows::{Rows, Style};
use crate::compare;
use crate::report::{Operation, Report};

const COLOURS: [Colour; 2] = [Colour::Blue, Colour::Orange];
const SIDES: [&str; 2] = ["A", "B"];

/// The page. `names` is what the two are called, such as their files.
pub fn page(reports: [&Report; 2], names: [&str; 2]) -> String {
    let mut html = Html::default();
    html.tag("header", &[], |html| {
        html.line("h1", "", "Two runs compared");
        for ((report, name), side) in reports.into_iter().zip(names).zip(SIDES) {
            html.tag("p", &[], |html| {
                html.line("strong", "", side);
                let config = &report.config;
                html.text(format!(
                    " {name}: {}, {} below {}, begun ",
                    headline(report),
                    config.target,
                    config.base
                ));
                html.line("span", "nowrap", begun(report));
                if report.ended_early {
                    html.line("em", "", " (ended before its time)");
                }
            });
        }
        compare::warnings(reports).iter().for_each(|warning| html.line("p", "warning", warning));
    });
    let [a, b] = reports;
    tiles(&mut html, a, b);
    html.section("Rates and mean latencies", |html| {
        html.table(&compare::HEADS, &compare::rows(a, b));
        html.line("p", "", compare::MARGINS);
    });
    over_time(&mut html, reports);
    latencies(&mut html, a, b);
    html.section("What an operation costs the store", |html| {
        let rows = both(a, b).map(|(name, pair)| (name.as_str(), pair.to_vec()));
        parts::costs(html, &SIDES.into_iter().zip(COLOURS).collect::<Vec<_>>(), &rows.collect::<Vec<_>>());
    });
    html.section("What was not the same", |html| match compare::differences(a, b) {
        none if none.is_empty() => html.line("p", "", "Nothing: options, namespace and program were."),
        all => notes(html, &all),
    });
    for (report, side) in reports.into_iter().zip(SIDES) {
        html.section(&format!("{side}: notes and settings"), |html| {
            notes(html, &report.notes);
            html.details("what was asked for", |html| settings(html, report));
        });
    }
    super::document("trellis load: two runs compared", &html)
}

fn tiles(html: &mut Html, a: &Report, b: &Report) {
    let rate = if a.counted().is_cached() { a.rate_name() } else { b.rate_name() };
    let (a, b) = (&a.total, &b.total);
    html.tag("dl", &[("class", "tiles")], |html| {
        let mut both = |name: &str, a: Option<f64>, b: Option<f64>, text: fn(f64) -> String| {
            let Some((a, b)) = a.zip(b) else { return };
            let ratio = if a > 0.0 { format!("B is {} × A", number(b / a)) } else { String::new() };
            html.tag("div", &[], |html| {
                html.line("dt", "", name);
                html.line("dd", "side", format!("A {}", text(a)));
                html.line("dd", "side", format!("B {}", text(b)));
                html.line("dd", "more", ratio);
            });
        };
        both(rate, Some(a.ops_per_s), Some(b.ops_per_s), number);
        both("server CPU per operation", a.server_cpu_us_per_op, b.server_cpu_us_per_op, micros);
        // Reports of older programs do not have them.
        let known = |us: f64| Some(us).filter(|us| *us > 0.0);
        both("latency, p50", known(a.p50_us), known(b.p50_us), micros);
        both("latency, p99", known(a.p99_us), known(b.p99_us), micros);
        both("errors", Some(a.errors as f64), Some(b.errors as f64), number);
    });
}

fn over_time(html: &mut Html, reports: [&Report; 2]) {
    let times = reports.map(Timeline::of);
    let [first, _] = reports;
    if times.iter().any(Timeline::is_empty) {
        return;
    }
    html.section("Over time", |html| {
        let [one, _] = &times;
        let mut rates = one.chart("Throughput", Axis::linear("successes/s"), first);
        let mut means = one.chart("Mean latency of what ended then", Axis::log_micros("latency"), first);
        // What was done to the servers of one run says nothing of the other.
        (rates.bands, means.bands) = (Vec::new(), Vec::new());
        for ((time, side), colour) in times.iter().zip(SIDES).zip(COLOURS) {
            rates = rates.with(side, Line::Line, colour, time.rate(|second| second.count));
            means = means.with(side, Line::Line, colour, time.points(|second| second.mean_us));
        }
        html.add(&rates.figure());
        html.add(&means.figure());
    });
}

/// Of the operations that both have.
fn both<'a>(a: &'a Report, b: &'a Report) -> impl Iterator<Item = (&'a String, [&'a Operation; 2])> {
    a.operations.iter().filter_map(|(name, one)| Some((name, [one, b.operations.get(name)?])))
}

fn latencies(html: &mut Html, a: &Report, b: &Report) {
    let rows = |of: fn(&Operation) -> f64| {
        let figures =
            move |pair: [&Operation; 2]| pair.map(|one| Some(of(one)).filter(|us| *us > 0.0)).to_vec();
        both(a, b).map(move |(name, pair)| (name.clone(), figures(pair))).collect()
    };
    html.section("Latency by operation", |html| {
        for (title, rows) in [
            ("Latency, half of all (p50)", rows(|one| one.p50_us)),
            ("Latency, 99 of 100 (p99)", rows(|one| one.p99_us)),
        ] {
            let series = SIDES.map(str::to_owned).into_iter().zip(COLOURS).collect();
            let axis = Axis::log_micros("latency");
            html.add(&Rows { title: title.into(), axis, style: Style::Marks, series, rows }.figure());
        }
    });
}

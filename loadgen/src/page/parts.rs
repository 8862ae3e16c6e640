//! What the pages of runs have in common.

use serde::Serialize;
use serde_json::Value;

use super::axis::{self, Axis};
use super::chart::{Band, Chart, Point};
use super::figure::Colour;
use super::html::Html;
use super::rows::{Row, Rows, Style};
use crate::report::{Operation, Report, Second};
use crate::show;

/// No chart over time has more points; those of longer runs are of several seconds each.
const MAX_POINTS: usize = 300;

/// Rates and latencies over time, each point of so many seconds.
pub struct Timeline {
    /// Of each point; the last second counts only when it is whole.
    seconds: Vec<Second>,
    /// How many seconds a point stands for.
    each: usize,
}

impl Timeline {
    /// Of all operations of a run.
    pub fn of(report: &Report) -> Timeline {
        let mut all = report.seconds();
        all.truncate(report.total.whole_seconds());
        let each = all.len().div_ceil(MAX_POINTS).max(1);
        let merged = |seconds: &[Second]| {
            let mut sum = Second::default();
            seconds.iter().for_each(|second| sum.merge(second));
            sum
        };
        // The last few seconds make no whole point; their rate would be too low.
        Timeline { seconds: all.chunks_exact(each).map(merged).collect(), each }
    }

    /// A figure of each point, which lies in the middle of its time. Empty when it is zero all the time.
    pub fn points(&self, figure: impl Fn(&Second) -> f64) -> Vec<Point> {
        let middle = |index: usize| (index as f64 + 0.5) * self.each as f64;
        let points = self.seconds.iter().enumerate();
        let points: Vec<Point> =
            points.map(|(index, second)| Point::new(middle(index), figure(second))).collect();
        if points.iter().any(|point| point.y > 0.0) { points } else { Vec::new() }
    }

    /// The same for each second.
    pub fn rate(&self, count: impl Fn(&Second) -> u64) -> Vec<Point> {
        self.points(|second| count(second) as f64 / self.each as f64)
    }

    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        self.seconds.is_empty()
    }

    /// The axis of the time.
    fn axis(&self) -> Axis {
        match self.each {
            1 => Axis::linear("time, s"),
            each => Axis::linear(format!("time, s (steps of {each} s)")),
        }
    }

    /// A chart over the time, with what was done to the servers.
    pub fn chart(&self, title: &str, y: Axis, report: &Report) -> Chart {
        let mut chart = Chart::new(title, self.axis(), y);
        chart.bin = self.each as f64;
        let done = report.disturbances.iter().filter_map(|one| Some((one, one.begun_s?)));
        chart.bands = done
            .map(|(one, from)| Band { from, to: one.ended_s, name: format!("{}: {}", one.what, one.outcome) })
            .collect();
        chart.bands.sort_by(|one, other| one.from.total_cmp(&other.from));
        chart
    }
}

/// What a run was, in a line.
pub fn headline(report: &Report) -> String {
    let config = &report.config;
    if let Some(replay) = &config.replay {
        return format!("replay {}", show::speed(replay));
    }
    let mode = match config.rate {
        Some(rate) => format!("open loop at {} operations/s{}", axis::number(rate), show::arrivals(config)),
        None => "closed loop".to_owned(),
    };
    format!("{}{}, {mode}", config.workload, show::creates(config.create_share))
}

/// When it began, in UTC.
pub fn begun(report: &Report) -> String {
    let since = std::time::Duration::from_millis(report.begun_at_ms);
    match std::time::SystemTime::UNIX_EPOCH.checked_add(since) {
        // Years beyond 9999 have no such form.
        Some(at) if since.as_secs() < 253_402_300_800 => humantime::format_rfc3339_seconds(at).to_string(),
        _ => format!("{} ms since 1970", report.begun_at_ms),
    }
}

/// Everything that the run was asked to do, and where.
pub fn settings(html: &mut Html, report: &Report) {
    let mut rows = Vec::new();
    if let Some(namespace) = &report.namespace {
        rows.push(vec!["namespace".into(), namespace.spec.to_string()]);
        rows.push(vec!["files present".into(), axis::count(namespace.files_present.into())]);
    }
    rows.push(vec!["program".into(), report.build.clone()]);
    asked(html, &report.config, &rows);
}

/// Every field of a configuration, and more rows below it.
pub fn asked(html: &mut Html, config: &impl Serialize, more: &[Vec<String>]) {
    let config = serde_json::to_value(config).unwrap_or_default();
    let fields = config.as_object().into_iter().flatten();
    let mut rows: Vec<Vec<String>> = fields.map(|(name, value)| vec![name.clone(), plain(value)]).collect();
    rows.extend_from_slice(more);
    html.tag("div", &[("class", "settings")], |html| html.table(&["setting", "value"], &rows));
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) => text.clone(),
        Value::Array(all) if all.is_empty() => "–".into(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let known = fields.iter().filter(|(_, value)| !value.is_null());
            let known: Vec<String> = known.map(|(name, value)| format!("{name} {}", plain(value))).collect();
            if known.is_empty() { "–".into() } else { known.join(", ") }
        }
        other => other.to_string(),
    }
}

/// A figure that matters, large.
pub fn tile(html: &mut Html, name: &str, value: &str, more: &str) {
    html.tag("div", &[], |html| {
        html.line("dt", "", name);
        html.line("dd", "", value);
        if !more.is_empty() {
            html.line("dd", "more", more);
        }
    });
}

/// What a reader must know.
pub fn notes(html: &mut Html, notes: &[String]) {
    html.tag("ul", &[("class", "notes")], |html| {
        notes.iter().for_each(|note| html.line("li", "", note));
    });
}

/// What operations cost the store, in bars: for each operation one for each side. Says so where nobody knows.
pub fn costs(html: &mut Html, sides: &[(&str, Colour)], operations: &[(&str, Vec<&Operation>)]) {
    let rows = |of: fn(&Operation) -> Option<f64>| {
        let figures = move |all: &[&Operation]| all.iter().map(|one| of(one)).collect();
        operations.iter().map(move |(name, all)| ((*name).to_owned(), figures(all))).collect()
    };
    let parts: [(_, _, Vec<Row>); 2] = [
        ("Round trips to the store", "round trips per operation", rows(|one| one.store_round_trips_per_op)),
        ("Rows read and written", "rows per operation", rows(|one| one.rows_per_op)),
    ];
    for (title, label, rows) in parts {
        if rows.iter().all(|(_, figures)| figures.iter().all(Option::is_none)) {
            html.line("p", "", format!("{title}, by operation: unknown."));
            continue;
        }
        let series = sides.iter().map(|(name, colour)| ((*name).to_owned(), *colour)).collect();
        let (title, axis) = (title.into(), Axis::linear(label));
        html.add(&Rows { title, axis, style: Style::Bars, series, rows }.figure());
    }
}

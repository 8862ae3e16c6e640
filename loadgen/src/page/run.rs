//! The page of a run.

use super::axis::{Axis, count, micros, number};
use super::chart::Style as Line;
use super::figure::Colour;
use super::html::Html;
use super::parts::{self, Timeline, begun, headline, notes, settings, tile};
use super::rows::{Rows, Style};
use crate::report::{Operation, Report};
use crate::show;

/// The page.
pub fn page(report: &Report) -> String {
    let mut html = Html::default();
    html.tag("header", &[], |html| {
        html.line("h1", "", headline(report));
        let config = &report.config;
        html.line(
            "p",
            "",
            format!(
                "{} below {}, {} clients on {} connections{}",
                config.target,
                config.base,
                count(config.clients.into()),
                count(config.connections.into()),
                // Of a trace nothing is picked.
                config
                    .replay
                    .as_ref()
                    .map_or_else(|| format!("; {}", show::picks(config)), |_| String::new())
            ),
        );
        html.line("p", "", format!("begun {}", begun(report)));
        if report.ended_early {
            html.line("p", "warning", "This run ended before its time; the notes say why.");
        }
        if let Some(warning) = report.counted().warning() {
            html.line("p", "warning", warning);
        }
    });
    tiles(&mut html, report);
    over_time(&mut html, report);
    disturbed(&mut html, report);
    replayed(&mut html, report);
    latencies(&mut html, report);
    costs(&mut html, report);
    counted(&mut html, report);
    complaints(&mut html, report);
    configuration(&mut html, report);
    super::document(&format!("trellis load: {}", headline(report)), &html)
}

fn tiles(html: &mut Html, report: &Report) {
    let total = &report.total;
    html.tag("dl", &[("class", "tiles")], |html| {
        let successes = format!("{} in {:.1} s", count(total.count), total.elapsed_s);
        tile(html, report.rate_name(), &number(total.ops_per_s), &successes);
        if let Some(open) = &report.open_loop {
            let achieved = format!("{} achieved", number(open.achieved_per_s));
            tile(html, "offered/s", &number(open.offered_per_s), &achieved);
        }
        let cpu = "server CPU per operation";
        match total.server_cpu_us_per_op {
            // Less than its clock can tell.
            Some(0.0) => tile(html, cpu, &micros(0.0), ""),
            // They did others than those that clients saw.
            Some(us) if report.counted().is_cached() => tile(html, cpu, &micros(us), ""),
            Some(us) => {
                tile(html, cpu, &micros(us), &format!("{} operations per CPU second", number(1e6 / us)))
            }
            None => tile(html, cpu, "unknown", why_unknown(report)),
        }
        let late = if report.open_loop.is_some() { "from the intended start" } else { "" };
        for (name, value) in [("p50", total.p50_us), ("p99", total.p99_us), ("longest", total.max_us)] {
            // Reports of older programs do not have it.
            if value > 0.0 {
                tile(html, &format!("latency, {name}"), &micros(value), late);
            }
        }
        let share = |part: u64| {
            let all = total.count + total.refused + total.errors;
            format!("{} % of all", number(part as f64 * 100.0 / all.max(1) as f64))
        };
        tile(html, "refused", &count(total.refused), &share(total.refused));
        tile(html, "errors", &count(total.errors), &share(total.errors));
    });
}

/// Why nothing is known of the servers.
fn why_unknown(report: &Report) -> &'static str {
    match report.config.metrics.is_empty() && report.config.server_pids.is_empty() {
        true => "the servers were not asked",
        false => "the notes say why",
    }
}

fn over_time(html: &mut Html, report: &Report) {
    let time = Timeline::of(report);
    html.section("Over time", |html| {
        if time.is_empty() {
            html.line("p", "", "The run was shorter than a second.");
            return;
        }
        let mut rates = time.chart("Throughput", Axis::linear(report.rate_name()), report);
        rates = rates.with("successes", Line::Area, Colour::Blue, time.rate(|second| second.count));
        if report.open_loop.is_some() {
            rates = rates.with("offered", Line::Dashed, Colour::Grey, time.rate(|second| second.begun));
        }
        rates = rates.with("refused", Line::Line, Colour::Purple, time.rate(|second| second.refused));
        rates = rates.with("errors", Line::Line, Colour::Orange, time.rate(|second| second.errors));
        html.add(&rates.figure());
        let mut latency = time
            .chart("Latency of what ended then", Axis::log_micros("latency"), report)
            .with("mean", Line::Line, Colour::Blue, time.points(|second| second.mean_us))
            .with("longest", Line::Line, Colour::Purple, time.points(|second| second.max_us));
        // They stand below the first chart.
        latency.tells_bands = false;
        html.add(&latency.figure());
    });
}

fn disturbed(html: &mut Html, report: &Report) {
    if report.disturbances.is_empty() {
        return;
    }
    html.section("What was done to the servers", |html| {
        html.tag("div", &[("class", "told")], |html| {
            html.table(&show::DISTURBANCE_HEADS, &show::disturbances(report));
        });
        let what = "Operations belong to the episode in which they were to begin, whenever they ended; failovers and calls \
                    that were sent once more, to the one in which that happened.";
        html.line("p", "", format!("{what} {}.", show::late(report)));
        html.table(&show::EPISODE_HEADS, &show::episodes(report));
    });
}

fn replayed(html: &mut Html, report: &Report) {
    let Some(replay) = &report.replay else { return };
    html.section("The trace", |html| {
        let row = |what: &str, lines: u64| vec![what.to_owned(), count(lines)];
        let mut rows = vec![row("read", replay.lines), row("replayed", replay.replayed)];
        rows.extend(replay.skipped.iter().map(|(why, lines)| row(&format!("skipped: {why}"), *lines)));
        rows.extend(replay.broken.iter().map(|kind| row(&format!("broken: {}", kind.kind), kind.count)));
        rows.push(row("waited for an earlier one", replay.waited));
        rows.push(row("name what the trace itself had moved or removed, or never made", replay.unexplained));
        html.tag("div", &[("class", "wrap")], |html| html.table(&["lines", ""], &rows));
        let rate = replay.rate_error_percent.map(|percent| {
            format!(
                " The rate at which lines began was off by {percent:+.2} %; {} began in another second than they were to.",
                count(replay.in_another_second)
            )
        });
        html.line(
            "p",
            "",
            format!(
                "{:.1} s of the trace. {} directories and {} files were made before, in {:.1} s.{}",
                replay.trace_s,
                count(replay.prepared_dirs),
                count(replay.prepared_files),
                replay.prepared_s,
                rate.unwrap_or_default()
            ),
        );
    });
}

fn latencies(html: &mut Html, report: &Report) {
    let figures = |operation: &Operation| {
        let Operation { p50_us, p90_us, p99_us, p999_us, max_us, .. } = *operation;
        [p50_us, p90_us, p99_us, p999_us, max_us].map(|us| Some(us).filter(|us| *us > 0.0)).to_vec()
    };
    let names = ["p50", "p90", "p99", "p99.9", "longest"];
    let colours = [Colour::Blue, Colour::Green, Colour::Gold, Colour::Orange, Colour::Purple];
    let done = report.operations.iter().filter(|(_, operation)| operation.max_us > 0.0);
    let drawn = Rows {
        title: "Latency by operation".into(),
        axis: Axis::log_micros("latency"),
        style: Style::Marks,
        series: names.into_iter().map(str::to_owned).zip(colours).collect(),
        rows: done.map(|(name, operation)| (name.clone(), figures(operation))).collect(),
    };
    html.section("By operation", |html| {
        html.add(&drawn.figure());
        let rows: Vec<Vec<String>> =
            report.operations.iter().map(|(name, operation)| show::row(name, operation)).collect();
        html.table(&show::HEADS, &rows);
        html.line("p", "", "Latencies are of all that ended, refused ones and errors included.");
    });
}

fn costs(html: &mut Html, report: &Report) {
    let total = &report.total;
    html.section("What an operation costs", |html| {
        let text = |value: Option<f64>| value.map_or("unknown".to_owned(), number);
        let rows = [
            ("CPU of the servers for each operation that was answered, µs", total.server_cpu_us_per_op),
            ("CPU of the load generator for each, µs", Some(total.client_cpu_us_per_op)),
            ("round trips to the store for each", total.store_round_trips_per_op),
            ("rows read and written for each", total.rows_per_op),
            ("operations in a group that commits", total.operations_per_group),
            ("commits that lost against another, in all", total.conflicts.map(|count| count as f64)),
            ("operations that were run again, in all", total.retries.map(|count| count as f64)),
        ];
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|(name, value)| vec![name.into(), text(value)]).collect();
        html.tag("div", &[("class", "wrap")], |html| html.table(&["in this run", ""], &rows));
        let rows = report.operations.iter().map(|(name, operation)| (name.as_str(), vec![operation]));
        parts::costs(html, &[("each operation", Colour::Blue)], &rows.collect::<Vec<_>>());
    });
}

fn counted(html: &mut Html, report: &Report) {
    html.section("What clients and servers counted", |html| {
        let text = |value: Option<u64>| value.map_or("unknown".to_owned(), count);
        let rows: Vec<Vec<String>> = report
            .calls
            .iter()
            .map(|(method, calls)| {
                let servers = calls.servers_ok.zip(calls.servers_exceptions);
                let same = servers.map(|servers| servers == (calls.ok, calls.exceptions));
                let verdict = same.map_or("–", |same| if same { "yes" } else { "no" });
                let clients = [calls.ok, calls.exceptions].map(count);
                let servers = [calls.servers_ok, calls.servers_exceptions].map(text);
                [method.clone()].into_iter().chain(clients).chain(servers).chain([verdict.into()]).collect()
            })
            .collect();
        let heads = ["call", "clients: answers", "exceptions", "servers: answers", "exceptions", "the same"];
        html.table(&heads, &rows);
        html.line(
            "p",
            "",
            format!(
                "Calls were sent once more {} times; clients went over to another namenode {} times.",
                count(report.total.resends),
                count(report.total.failovers)
            ),
        );
        if !report.store.is_empty() {
            html.details("counters of the store", |html| {
                let rows: Vec<Vec<String>> =
                    report.store.iter().map(|(name, value)| vec![name.clone(), number(*value)]).collect();
                html.table(&["counter", "grew by"], &rows);
            });
        }
    });
}

fn complaints(html: &mut Html, report: &Report) {
    if !report.errors.is_empty() {
        html.section("Errors", |html| {
            html.tag("ul", &[("class", "errors")], |html| {
                for error in &report.errors {
                    html.tag("li", &[], |html| {
                        html.line("strong", "", format!("{} × {}", count(error.count), error.kind));
                        html.line("code", "", &error.example);
                    });
                }
            });
        });
    }
    html.section("Notes", |html| notes(html, &report.notes));
}

fn configuration(html: &mut Html, report: &Report) {
    html.section("What was asked for", |html| {
        settings(html, report);
        html.details("as JSON", |html| {
            html.line("pre", "", serde_json::to_string_pretty(&report.config).unwrap_or_default());
        });
    });
    html.line(
        "footer",
        "",
        format!("trellis load {}, schema {}, run {:08x}", report.build, report.schema, report.run),
    );
}

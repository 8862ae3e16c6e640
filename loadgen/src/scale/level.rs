//! All runs of one number of namenodes together: medians, and how far they lie apart.

use serde::{Deserialize, Serialize};

use super::report::Point;
use crate::report::Report;
use crate::spread::Spread;

/// One number of namenodes. `None` stands for what is not known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// How many namenodes.
    pub namenodes: u32,
    /// Clients of all of them.
    pub clients: u32,
    /// Successes a second.
    pub ops_per_s: Spread,
    /// The rate beside what the fewest namenodes did in the same round times as many: 1 is linear.
    pub of_linear: Option<Spread>,
    /// How busy the machine was, for whatever process.
    pub machine_busy_percent: Option<Spread>,
    /// CPU time of all namenodes for each operation that was answered.
    pub server_cpu_us_per_op: Option<Spread>,
    /// The same of the load generator.
    pub client_cpu_us_per_op: Spread,
    /// Exchanges with the store for each operation that was answered.
    pub store_round_trips_per_op: Option<Spread>,
    /// Rows read and written for each operation that was answered.
    pub rows_per_op: Option<Spread>,
    /// Durable commits for each operation that was answered.
    pub commits_per_op: Option<Spread>,
    /// Operations in a group that commits.
    pub operations_per_group: Option<Spread>,
    /// What a round trip really waited because of the store delay.
    pub delay_us: Option<Spread>,
    /// So many of all operations were quicker: 50 %.
    #[serde(default)]
    pub p50_us: Option<Spread>,
    /// 99 %.
    #[serde(default)]
    pub p99_us: Option<Spread>,
    /// Exchanges with the store a second, of all namenodes together.
    #[serde(default)]
    pub store_round_trips_per_s: Option<Spread>,
    /// Rows read and written a second.
    #[serde(default)]
    pub rows_per_s: Option<Spread>,
    /// Refused operations of all runs.
    pub refused: u64,
    /// Errors of all runs.
    pub errors: u64,
}

impl Level {
    /// All levels of these runs, ascending.
    pub fn all(points: &[Point]) -> Vec<Level> {
        let mut counts: Vec<u32> = points.iter().map(|point| point.namenodes).collect();
        counts.sort_unstable();
        counts.dedup();
        counts.into_iter().map(|count| Level::of(count, points)).collect()
    }

    fn of(namenodes: u32, points: &[Point]) -> Level {
        let mine: Vec<&Point> = points.iter().filter(|point| point.namenodes == namenodes).collect();
        let reports = || mine.iter().map(|point| &point.report);
        // Only when every run tells.
        let known = |figure: &dyn Fn(&Report) -> Option<f64>| {
            reports().map(figure).collect::<Option<Vec<f64>>>().map(Spread::of)
        };
        let linear: Option<Vec<f64>> = mine.iter().map(|point| of_linear(point, points)).collect();
        Level {
            namenodes,
            clients: reports().map(|report| report.config.clients).max().unwrap_or_default(),
            ops_per_s: Spread::of(reports().map(|report| report.total.ops_per_s)),
            of_linear: linear.map(Spread::of),
            machine_busy_percent: known(&|report| report.total.machine_busy_percent),
            server_cpu_us_per_op: known(&|report| report.total.server_cpu_us_per_op),
            client_cpu_us_per_op: Spread::of(reports().map(|report| report.total.client_cpu_us_per_op)),
            store_round_trips_per_op: known(&|report| report.total.store_round_trips_per_op),
            rows_per_op: known(&|report| report.total.rows_per_op),
            commits_per_op: known(&|report| store_per_op(report, "commits")),
            operations_per_group: known(&|report| report.total.operations_per_group),
            delay_us: known(&mean_delay_us),
            p50_us: known(&|report| above_zero(report.total.p50_us)),
            p99_us: known(&|report| above_zero(report.total.p99_us)),
            store_round_trips_per_s: known(&|report| store_per_s(report, &["round_trips"])),
            rows_per_s: known(&|report| store_per_s(report, &["rows_read", "rows_written"])),
            refused: reports().map(|report| report.total.refused).sum(),
            errors: reports().map(|report| report.total.errors).sum(),
        }
    }
}

/// The rate of a run beside that of the fewest namenodes in its round.
fn of_linear(point: &Point, points: &[Point]) -> Option<f64> {
    let fewest = points.iter().map(|point| point.namenodes).min()?;
    let base = points.iter().find(|base| base.round == point.round && base.namenodes == fewest)?;
    let times = f64::from(point.namenodes) / f64::from(fewest);
    let ratio = point.report.total.ops_per_s / (base.report.total.ops_per_s * times);
    ratio.is_finite().then_some(ratio)
}

/// How much one of the store's counters grew for each operation that was answered; None: nobody counted.
pub fn store_per_op(report: &Report, counter: &str) -> Option<f64> {
    let answered = report.total.count + report.total.refused;
    let grown = report.store.get(counter)?;
    (answered > 0).then(|| grown / answered as f64)
}

/// How much some of the store's counters grew in a second; None: nobody counted.
fn store_per_s(report: &Report, counters: &[&str]) -> Option<f64> {
    let grown = counters.iter().map(|counter| report.store.get(*counter).copied());
    let grown: f64 = grown.sum::<Option<f64>>()?;
    Some(grown / report.total.elapsed_s).filter(|rate| rate.is_finite())
}

/// Reports of older programs do not have every latency.
fn above_zero(us: f64) -> Option<f64> {
    Some(us).filter(|us| *us > 0.0)
}

/// What a round trip really waited because of the store delay, on average.
pub fn mean_delay_us(report: &Report) -> Option<f64> {
    let (delays, us) = (report.store.get("delays")?, report.store.get("delay_us")?);
    (*delays > 0.0).then(|| us / delays)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::report::tests::point;

    #[test]
    fn efficiency_is_that_of_the_same_round() {
        let points = [
            point(0, 1, 100.0),
            point(0, 4, 400.0),
            point(1, 4, 300.0),
            point(1, 1, 100.0),
            point(2, 1, 50.0),
            point(2, 4, 190.0),
        ];
        let levels = Level::all(&points);
        assert_eq!(levels.iter().map(|level| level.namenodes).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(levels[0].of_linear, Some(Spread { median: 1.0, lowest: 1.0, highest: 1.0 }));
        assert_eq!(levels[1].of_linear, Some(Spread { median: 0.95, lowest: 0.75, highest: 1.0 }));
        assert_eq!(levels[1].ops_per_s, Spread { median: 300.0, lowest: 190.0, highest: 400.0 });
        assert_eq!((levels[1].clients, levels[1].refused), (24, 3));
        // 1000 in 3.5 s; nobody counted rows.
        let trips = levels[0].store_round_trips_per_s.expect("they were counted");
        assert!((trips.median - 1000.0 / 3.5).abs() < 1e-9 && levels[0].rows_per_s.is_none());
        assert_eq!(levels[0].p99_us, Some(Spread { median: 3.5, lowest: 3.5, highest: 3.5 }));
        let delay = levels[0].delay_us.expect("it was counted");
        assert!((delay.median - 2500.0).abs() < 1e-9);
    }

    #[test]
    fn without_the_fewest_in_its_round_nothing_is_claimed() {
        let levels = Level::all(&[point(0, 1, 100.0), point(1, 2, 200.0)]);
        assert_eq!(levels[1].of_linear, None);
    }
}

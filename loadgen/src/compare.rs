//! Two reports beside each other, with error margins.
//!
//! Means are those of the reports. A rate's margin is that of the mean of its whole seconds: Student's t for 95 % times
//! their standard deviation over the root of their number. A mean latency is a ratio, of the time in each second to the
//! operations in it, and so is its margin (the usual estimate of a ratio of sums). Margins of ratios of two reports add as
//! independent relative errors do.

use std::fmt::Write as _;

use crate::namespace::Spec;
use crate::report::{Operation, Report, Second};
use crate::show::{figure, table};

/// Two-sided 95 % points of Student's distribution, from one degree of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// Of the normal distribution.
const NORMAL: f64 = 1.96;

/// A mean, and how far off it may be; None: there are too few seconds to tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of its 95 % interval.
    pub margin: Option<f64>,
}

impl Estimate {
    /// Of a sample.
    pub fn of(sample: &[f64]) -> Estimate {
        Estimate::of_ratio(&sample.iter().map(|value| (*value, 1.0)).collect::<Vec<_>>())
    }

    /// Of what a sample's parts are together, to what they are of.
    pub fn of_ratio(sample: &[(f64, f64)]) -> Estimate {
        let count = sample.len() as f64;
        let (part, whole) = sample.iter().fold((0.0, 0.0), |sums, one| (sums.0 + one.0, sums.1 + one.1));
        let mean = if whole > 0.0 { part / whole } else { 0.0 };
        if sample.len() < 2 || whole <= 0.0 {
            return Estimate { mean, margin: None };
        }
        let squares = sample.iter().map(|(part, whole)| (part - mean * whole).powi(2)).sum::<f64>();
        let t = STUDENT.get(sample.len() - 2).copied().unwrap_or(NORMAL);
        Estimate { mean, margin: Some(t * (squares / (count - 1.0) * count).sqrt() / whole) }
    }

    /// Part of the mean.
    fn relative(self) -> Option<f64> {
        self.margin.filter(|_| self.mean > 0.0).map(|margin| margin / self.mean)
    }

    /// This as a multiple of another; None when either is zero.
    pub fn over(self, other: Estimate) -> Option<Estimate> {
        let mean = Some(self.mean / other.mean).filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
        let relative = self.relative().zip(other.relative()).map(|(a, b)| a.hypot(b));
        Some(Estimate { mean, margin: relative.map(|relative| relative * mean) })
    }

    fn text(self, digits: usize) -> String {
        let number = |value: f64| if digits == 0 { figure(value) } else { format!("{value:.digits$}") };
        match self.margin {
            Some(margin) => format!("{} ± {}", number(self.mean), number(margin)),
            None => number(self.mean),
        }
    }
}

/// What a row shows of one side.
struct Side {
    rate: Estimate,
    latency: Estimate,
    p99_us: f64,
}

impl Side {
    fn new(report: &Report, seconds: &[Second], ops_per_s: f64, p99_us: f64) -> Side {
        let mut whole = seconds.to_vec();
        whole.resize(report.total.whole_seconds(), Second::default());
        let margin = Estimate::of(&whole.iter().map(|second| second.count as f64).collect::<Vec<_>>()).margin;
        let rate = Estimate { mean: ops_per_s, margin };
        let times = seconds.iter().map(|second| (second.mean_us * second.ended as f64, second.ended as f64));
        Side { rate, latency: Estimate::of_ratio(&times.collect::<Vec<_>>()), p99_us }
    }

    /// All operations of a run together.
    fn all(report: &Report) -> Side {
        Side::new(report, &report.seconds(), report.total.ops_per_s, report.total.p99_us)
    }

    fn of(report: &Report, operation: &Operation) -> Side {
        Side::new(report, &operation.seconds, operation.ops_per_s, operation.p99_us)
    }
}

/// Of [`rows`].
pub(crate) const HEADS: [&str; 9] =
    ["operation", "A ops/s", "B ops/s", "B/A", "A mean µs", "B mean µs", "B/A", "A p99 µs", "B p99 µs"];
/// What [`rows`] show.
pub(crate) const MARGINS: &str = "margins: 95 %, from second to second; * differs by more than its margin";

/// A row for each operation that both have.
pub(crate) fn rows(a: &Report, b: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![row("all", &Side::all(a), &Side::all(b))];
    for (name, one) in &a.operations {
        if let Some(other) = b.operations.get(name) {
            rows.push(row(name, &Side::of(a, one), &Side::of(b, other)));
        }
    }
    rows
}

/// Two reports, to be read.
pub fn compare(a: &Report, b: &Report) -> String {
    let mut text = table(&HEADS, rows(a, b));
    let _ = writeln!(text, "\n{MARGINS}");
    let cpu = |report: &Report| {
        report.total.server_cpu_us_per_op.map_or("unknown".to_owned(), |us| format!("{us:.1} µs"))
    };
    let _ = writeln!(text, "CPU of the servers for each operation: A {}, B {}", cpu(a), cpu(b));
    for warning in warnings([a, b]) {
        let _ = writeln!(text, "{warning}");
    }
    for difference in differences(a, b) {
        let _ = writeln!(text, "differs: {difference}");
    }
    text
}

fn row(name: &str, a: &Side, b: &Side) -> Vec<String> {
    let mut cells = vec![name.to_owned()];
    for (a, b) in [(a.rate, b.rate), (a.latency, b.latency)] {
        let ratio = b.over(a).map_or("-".to_owned(), |ratio| {
            let is_clear = ratio.margin.is_some_and(|margin| (ratio.mean - 1.0).abs() > margin);
            format!("{}{}", ratio.text(3), if is_clear { " *" } else { "" })
        });
        cells.extend([a.text(0), b.text(0), ratio]);
    }
    cells.extend([figure(a.p99_us), figure(b.p99_us)]);
    cells
}

/// Whose rate is not that of servers.
pub(crate) fn warnings(reports: [&Report; 2]) -> Vec<String> {
    let sides = reports.into_iter().zip(["A", "B"]);
    sides.filter_map(|(report, side)| Some(format!("{side} is {}", report.counted().warning()?))).collect()
}

/// What was not the same in the two runs, so that nobody compares what cannot be compared.
pub(crate) fn differences(a: &Report, b: &Report) -> Vec<String> {
    let values = |report: &Report| serde_json::to_value(&report.config).unwrap_or_default();
    let (one, other) = (values(a), values(b));
    let fields = one.as_object().into_iter().flatten();
    let differing = fields.filter(|(name, value)| other.get(name.as_str()) != Some(value));
    let mut all: Vec<String> = differing
        .map(|(name, value)| {
            format!("{name}: A {value}, B {}", other.get(name.as_str()).cloned().unwrap_or_default())
        })
        .collect();
    let namespaces = [&a.namespace, &b.namespace];
    let [one, other] = namespaces.map(|namespace| namespace.as_ref().map(|it| (&it.spec, it.files_present)));
    if one != other {
        let text = |(spec, present): (&Spec, u32)| format!("{spec}; {present} files were there");
        let [one, other] = [one, other].map(|namespace| namespace.map_or("none".to_owned(), text));
        all.push(format!("namespace: A {one}, B {other}"));
    }
    if a.build != b.build {
        all.push(format!("build: A {}, B {}", a.build, b.build));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_are_those_of_students_distribution() {
        // 1 2 3: mean 2, standard deviation 1, t(2) = 4.303.
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]);
        assert!((estimate.mean - 2.0).abs() < 1e-9);
        assert!(estimate.margin.is_some_and(|margin| (margin - 4.303 / 3f64.sqrt()).abs() < 1e-9));
        assert_eq!(Estimate::of(&[5.0]), Estimate { mean: 5.0, margin: None });
        assert_eq!(Estimate::of(&[7.0; 50]), Estimate { mean: 7.0, margin: Some(0.0) });
    }

    #[test]
    fn margins_of_ratios_add_in_squares() {
        let (a, b) =
            (Estimate { mean: 100.0, margin: Some(3.0) }, Estimate { mean: 200.0, margin: Some(8.0) });
        let ratio = b.over(a).expect("finite");
        assert!((ratio.mean - 2.0).abs() < 1e-9);
        assert!(ratio.margin.is_some_and(|margin| (margin - 0.1).abs() < 1e-9));
        assert_eq!(a.over(Estimate { mean: 0.0, margin: None }), None);
    }

    #[test]
    fn seconds_without_an_operation_count() {
        let mut report = crate::report::tests::sample();
        report.total.elapsed_s = 2.9;
        let second = Second { count: 4, ended: 4, mean_us: 1.0, ..Second::default() };
        let side = Side::new(&report, &[second], 2.0, 9.0);
        // 4 and 0: standard deviation √8, t(1) = 12.706.
        assert!((side.rate.mean - 2.0).abs() < 1e-9);
        assert!(
            side.rate.margin.is_some_and(|margin| (margin - 12.706 * 2.0).abs() < 1e-6),
            "{:?}",
            side.rate
        );
    }

    #[test]
    fn a_mean_latency_is_that_of_all_operations_not_of_seconds() {
        let report = crate::report::tests::sample();
        let second = |ended, mean_us| Second { ended, mean_us, ..Second::default() };
        // Frozen: nobody ends for a second, then many at once, late.
        let seconds = [second(1000, 100.0), second(0, 0.0), second(3000, 1_000_000.0), second(1000, 100.0)];
        let side = Side::new(&report, &seconds, 1.0, 1.0);
        assert!((side.latency.mean - 600_040.0).abs() < 1e-6, "{:?}", side.latency);
        assert!(side.latency.margin.is_some_and(|margin| margin > 300_000.0), "{:?}", side.latency);
        // All alike: nothing to be unsure of.
        let alike = Side::new(&report, &[second(10, 7.0), second(90, 7.0)], 1.0, 1.0).latency;
        assert!(alike.margin.is_some_and(|margin| margin < 1e-9), "{alike:?}");
    }
}

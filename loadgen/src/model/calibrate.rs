//! Demands from what was measured, so that the model says of that very run what was measured of it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::cluster::{Deployment, OneMachine, predict};
use super::demands::{Demands, Measured};
use crate::error::{Error, Result};
use crate::findings::Findings;
use crate::saved;

/// Steps that find what is left of the response time.
const STEPS: u32 = 60;
/// What is asked of the timer of a store delay and what it takes: it rounds up twice, to whole milliseconds.
pub const TIMER_LATE_US: f64 = 1000.0;

/// Where demands come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The file.
    pub file: String,
    /// What an operation demands.
    pub demands: Demands,
    /// The run, or the middle of several of a kind.
    pub measured: Measured,
    /// How much later than asked a round trip's delay ended; None: it is not known.
    pub timer_late_us: Option<f64>,
    /// How much longer a group has the store with each operation beyond its first: stated.
    pub further_us: f64,
    /// By how many percent the model is slower than that run, with nothing left that it does not know; 0 as a rule.
    pub too_slow_percent: f64,
}

impl Calibration {
    /// From `report.json`, or from the runs of `scale.json` on so many namenodes (the fewest, without a number).
    pub fn read(path: &Path, namenodes: Option<u32>, further_us: f64) -> Result<Calibration> {
        let file = path.display().to_string();
        let scale = match Findings::read(path)? {
            Findings::Scale(scale) => scale,
            Findings::Run(_) if namenodes.is_some() => {
                return Err(Error::refused(format!("{file} is one run: leave --calibrate-on out")));
            }
            Findings::Run(report) => {
                let (demands, measured) = Demands::of(&report)?;
                return Ok(Calibration::new(file, demands, measured, None, further_us));
            }
            Findings::Model(_) => return Err(saved::is_none(path, "report", "it is a model's")),
        };
        let wanted = namenodes.or(scale.levels.iter().map(|level| level.namenodes).min());
        let runs = scale.points.iter().filter(|point| Some(point.namenodes) == wanted);
        let runs: Vec<(Demands, Measured)> =
            runs.map(|point| Demands::of(&point.report)).collect::<Result<_>>()?;
        let Some((demands, measured)) = middle(runs) else {
            return Err(Error::refused(format!("{file} has no runs on so many namenodes")));
        };
        let late = (demands.trip_us > 0.0).then_some(demands.trip_us - scale.config.store_delay_us as f64);
        Ok(Calibration::new(file, demands, measured, late, further_us))
    }

    /// Puts into the rest what the model does not account for.
    fn new(
        file: String,
        demands: Demands,
        measured: Measured,
        timer_late_us: Option<f64>,
        further_us: f64,
    ) -> Calibration {
        let mut calibration =
            Calibration { file, demands, measured, timer_late_us, further_us, too_slow_percent: 0.0 };
        let wanted_us = f64::from(measured.clients) / measured.ops_per_s * 1e6;
        let mut mean_us = wanted_us;
        for _ in 0..STEPS {
            let deployment = calibration.one_machine(measured.machine_cores, demands.trip_us);
            mean_us =
                predict(&calibration.demands, &deployment, measured.namenodes, measured.clients).mean_us;
            let rest = &mut calibration.demands.rest_us;
            *rest = (*rest + wanted_us - mean_us).max(0.0);
        }
        calibration.too_slow_percent = ((mean_us / wanted_us - 1.0) * 100.0).max(0.0);
        calibration
    }

    /// A machine like the one that was measured on, with so many cores.
    pub fn one_machine(&self, cores: u32, trip_us: f64) -> Deployment {
        Deployment::OneMachine(OneMachine { cores, trip_us, further_us: self.further_us })
    }

    /// What a round trip waits when so much is asked for.
    pub fn trip_us(&self, asked_us: u64) -> f64 {
        match asked_us {
            0 => 0.0,
            asked => asked as f64 + self.timer_late_us.unwrap_or(TIMER_LATE_US),
        }
    }
}

/// The run whose rate is in the middle, of an even number the two together: one that was disturbed has no say.
fn middle(mut runs: Vec<(Demands, Measured)>) -> Option<(Demands, Measured)> {
    runs.sort_by(|(_, one), (_, other)| one.ops_per_s.total_cmp(&other.ops_per_s));
    let middle = runs.get(runs.len().saturating_sub(1) / 2..=runs.len() / 2)?;
    let (_, first) = middle.first()?;
    let demands: Vec<Demands> = middle.iter().map(|(demands, _)| *demands).collect();
    let ops_per_s = middle.iter().map(|(_, measured)| measured.ops_per_s).sum::<f64>() / middle.len() as f64;
    Some((Demands::mean(&demands)?, Measured { ops_per_s, ..*first }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::cluster::tests::demands;

    /// Of a run that was this quick.
    pub fn calibration(ops_per_s: f64) -> Calibration {
        let measured = Measured { namenodes: 1, clients: 6, machine_cores: 2, ops_per_s };
        Calibration::new("a.json".into(), demands(), measured, Some(1000.0), 50.0)
    }

    #[test]
    fn the_run_it_comes_from_is_met() {
        let calibration = calibration(1700.0);
        let deployment = calibration.one_machine(2, calibration.trip_us(2000));
        let predicted = predict(&calibration.demands, &deployment, 1, 6);
        assert!((predicted.ops_per_s / 1700.0 - 1.0).abs() < 1e-4, "{predicted:?}");
        assert!(calibration.demands.rest_us > 0.0 && calibration.too_slow_percent < 0.01);
    }

    #[test]
    fn a_run_that_was_disturbed_has_no_say() {
        let run = |ops_per_s, hold_us| {
            let measured = Measured { namenodes: 1, clients: 6, machine_cores: 2, ops_per_s };
            (Demands { hold_us, ..demands() }, measured)
        };
        let of = |runs: Vec<_>| middle(runs).map(|(demands, measured)| (measured.ops_per_s, demands.hold_us));
        assert_eq!(of(vec![run(569.0, 800.0), run(338.0, 9000.0), run(531.0, 900.0)]), Some((531.0, 900.0)));
        assert_eq!(of(vec![run(600.0, 800.0), run(500.0, 900.0)]), Some((550.0, 850.0)));
        assert_eq!(of(vec![run(600.0, 800.0)]), Some((600.0, 800.0)));
        assert_eq!(of(Vec::new()), None);
    }

    #[test]
    fn a_run_quicker_than_its_parts_is_told() {
        let calibration = calibration(2500.0);
        assert!(calibration.demands.rest_us < 1e-9 && calibration.too_slow_percent > 10.0);
        assert!((calibration.trip_us(500) - 1500.0).abs() < 1e-9 && calibration.trip_us(0) < 1e-9);
    }
}

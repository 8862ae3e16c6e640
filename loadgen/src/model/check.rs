//! What the model says of runs that were measured.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::calibrate::Calibration;
use super::cluster::predict;
use super::demands::Demands;
use crate::error::{Error, Result};
use crate::scale::report::Scale;
use crate::spread::Spread;

/// Runs of one kind, and what the model says of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The file that they are in.
    pub file: String,
    /// Namenodes.
    pub namenodes: u32,
    /// Clients of all of them.
    pub clients: u32,
    /// What every round trip was asked to wait.
    pub store_delay_us: u64,
    /// Operations that were answered, a second.
    pub measured_ops_per_s: Spread,
    /// How busy the machine was.
    pub measured_busy_percent: Option<Spread>,
    /// What the model says.
    pub predicted_ops_per_s: f64,
    /// How busy the machine's cores are, as the model says.
    pub predicted_busy_percent: f64,
    /// The prediction beside the median of what was measured.
    pub error_percent: f64,
    /// These runs are what the model was calibrated on: no test of it.
    pub is_calibration: bool,
}

impl Check {
    /// All kinds of runs in a file.
    pub fn all(calibration: &Calibration, path: &Path) -> Result<Vec<Check>> {
        let scale = Scale::read(path)?;
        let file = path.display().to_string();
        scale.levels.iter().map(|level| Check::of(calibration, &scale, &file, level.namenodes)).collect()
    }

    fn of(calibration: &Calibration, scale: &Scale, file: &str, namenodes: u32) -> Result<Check> {
        let runs = scale.points.iter().filter(|point| point.namenodes == namenodes);
        let runs: Vec<_> = runs.map(|point| Demands::of(&point.report)).collect::<Result<_>>()?;
        let Some((_, first)) = runs.first() else {
            return Err(Error::Unreadable(format!("{file} has no run on {namenodes} namenodes")));
        };
        let store_delay_us = scale.config.store_delay_us;
        let deployment = calibration.one_machine(first.machine_cores, calibration.trip_us(store_delay_us));
        let predicted = predict(&calibration.demands, &deployment, namenodes, first.clients);
        let measured = Spread::of(runs.iter().map(|(_, measured)| measured.ops_per_s));
        let level = scale.levels.iter().find(|level| level.namenodes == namenodes);
        let cores = predicted.stations.iter().find(|stay| stay.name == "cores");
        Ok(Check {
            file: file.to_owned(),
            namenodes,
            clients: first.clients,
            store_delay_us,
            measured_ops_per_s: measured,
            measured_busy_percent: level.and_then(|level| level.machine_busy_percent),
            predicted_ops_per_s: predicted.ops_per_s,
            predicted_busy_percent: cores.and_then(|stay| stay.utilisation).unwrap_or_default() * 100.0,
            error_percent: (predicted.ops_per_s / measured.median - 1.0) * 100.0,
            is_calibration: file == calibration.file && namenodes == calibration.measured.namenodes,
        })
    }
}

/// The largest error of those that the model was not calibrated on, in percent; None: there are none.
pub fn worst(checks: &[Check]) -> Option<f64> {
    let errors = checks.iter().filter(|check| !check.is_calibration).map(|check| check.error_percent.abs());
    errors.reduce(f64::max)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A check with this error.
    pub fn check(error_percent: f64, is_calibration: bool) -> Check {
        Check {
            file: "a.json".into(),
            namenodes: 2,
            clients: 12,
            store_delay_us: 2000,
            measured_ops_per_s: Spread { median: 1000.0, lowest: 990.0, highest: 1010.0 },
            measured_busy_percent: None,
            predicted_ops_per_s: 1000.0 + 10.0 * error_percent,
            predicted_busy_percent: 20.0,
            error_percent,
            is_calibration,
        }
    }

    #[test]
    fn what_was_calibrated_on_proves_nothing() {
        assert_eq!(worst(&[check(50.0, true)]), None);
        assert_eq!(worst(&[check(50.0, true), check(-7.0, false), check(3.0, false)]), Some(7.0));
    }
}

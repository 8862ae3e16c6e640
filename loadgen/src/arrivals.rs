//! When operations of an open loop begin, whatever the system does: intended starts, since the start of a phase.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Pareto};
use serde::{Deserialize, Serialize};

/// λFS's driver draws its rate anew this often …
const REDRAW: Duration = Duration::from_secs(15);
/// … from a Pareto distribution of this shape, whose scale is the base rate …
const SHAPE: f64 = 2.0;
/// … and no more than so many times the base rate.
const MAX_BURST: f64 = 7.0;

/// How intended starts follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// Independent of one another.
    Poisson,
    /// The same, at a rate that is drawn anew every 15 s: `rate` is the least, on average it is somewhat less than twice
    /// as much.
    Pareto,
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arrivals::Constant => "constant",
            Arrivals::Poisson => "poisson",
            Arrivals::Pareto => "pareto",
        })
    }
}

impl FromStr for Arrivals {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "constant" => Ok(Arrivals::Constant),
            "poisson" => Ok(Arrivals::Poisson),
            "pareto" => Ok(Arrivals::Pareto),
            _ => Err("there are constant, poisson, pareto"),
        }
    }
}

/// Intended starts, without end.
#[derive(Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    base_rate: f64,
    rate: f64,
    /// Seconds.
    next: f64,
    /// When the rate is drawn again, seconds.
    redraw: f64,
    count: u64,
    rng: StdRng,
}

impl Schedule {
    /// `rate`: operations a second, above 0.
    pub fn new(arrivals: Arrivals, rate: f64, seed: u64) -> Schedule {
        let rng = StdRng::seed_from_u64(seed);
        Schedule { arrivals, base_rate: rate, rate, next: 0.0, redraw: 0.0, count: 0, rng }
    }

    fn burst(&mut self) -> f64 {
        // Both parameters are positive, so that it is never refused.
        let factor = Pareto::new(1.0, SHAPE).map_or(1.0, |pareto| pareto.sample(&mut self.rng));
        self.base_rate * factor.min(MAX_BURST)
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        match self.arrivals {
            // Not a sum: that would drift.
            Arrivals::Constant => self.next = self.count as f64 / self.base_rate,
            Arrivals::Poisson => self.next += self.rng.sample::<f64, _>(Exp1) / self.rate,
            Arrivals::Pareto => {
                let mut gap: f64 = self.rng.sample(Exp1);
                // A gap that reaches beyond the next draw goes on there at the new rate.
                while self.next + gap / self.rate >= self.redraw {
                    gap -= ((self.redraw - self.next) * self.rate).max(0.0);
                    self.next = self.redraw;
                    self.rate = self.burst();
                    self.redraw += REDRAW.as_secs_f64();
                }
                self.next += gap / self.rate;
            }
        }
        self.count += 1;
        Some(Duration::from_secs_f64(self.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(arrivals: Arrivals, seed: u64, seconds: f64) -> Vec<f64> {
        let all = Schedule::new(arrivals, 1000.0, seed).map(|start| start.as_secs_f64());
        all.take_while(|start| *start < seconds).collect()
    }

    #[test]
    fn the_rate_is_kept() {
        assert_eq!(starts(Arrivals::Constant, 1, 20.0).len(), 20_000);
        let poisson = starts(Arrivals::Poisson, 1, 100.0).len() as f64;
        assert!((poisson / 100_000.0 - 1.0).abs() < 0.02, "{poisson}");
        // The mean of the bounded distribution is 2 - 1/7 times its scale.
        let pareto = starts(Arrivals::Pareto, 1, 15.0 * 60.0).len() as f64 / 900.0;
        assert!((1500.0..2200.0).contains(&pareto), "{pareto}");
    }

    #[test]
    fn a_rate_that_is_drawn_stays_for_fifteen_seconds() {
        let all = starts(Arrivals::Pareto, 3, 60.0);
        let within = |begin: f64, end: f64| all.iter().filter(|at| (begin..end).contains(*at)).count() as f64;
        for interval in 0..4 {
            let begin = 15.0 * f64::from(interval);
            let (first, second) = (within(begin, begin + 7.5), within(begin + 7.5, begin + 15.0));
            assert!((first / second - 1.0).abs() < 0.1 && first / 7.5 > 950.0, "{first} {second}");
        }
    }

    #[test]
    fn gaps_of_poisson_vary_as_much_as_they_last() {
        let all = starts(Arrivals::Poisson, 5, 100.0);
        let gaps: Vec<f64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn one_seed_is_one_schedule() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson, Arrivals::Pareto] {
            assert_eq!(starts(arrivals, 9, 20.0), starts(arrivals, 9, 20.0));
        }
        assert_ne!(starts(Arrivals::Poisson, 9, 1.0), starts(Arrivals::Poisson, 10, 1.0));
    }
}

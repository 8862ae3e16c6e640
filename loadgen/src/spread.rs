//! Figures of several runs: the one in the middle, and how far they lie apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The median, or the upper of the two in the middle; 0 of nothing.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = figures.into_iter().collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// Figures of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
}

impl Spread {
    /// Of these; zeros of nothing.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Spread {
        let all: Vec<f64> = figures.into_iter().collect();
        let lowest = all.iter().copied().reduce(f64::min).unwrap_or_default();
        let highest = all.iter().copied().reduce(f64::max).unwrap_or_default();
        Spread { median: median(all), lowest, highest }
    }

    /// With so many digits after the point; without the ends when they are the same.
    pub fn text(&self, digits: usize) -> String {
        let number = |value: f64| format!("{value:.digits$}");
        let [median, lowest, highest] = [self.median, self.lowest, self.highest].map(number);
        match lowest == highest {
            true => median,
            false => format!("{median} ({lowest} to {highest})"),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.lowest, self.highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp)] // one of those given, unchanged
    fn the_one_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0]), 4.0);
        assert_eq!(median([]), 0.0);
        assert_eq!(Spread::of([2.0, 4.0, 1.0]).to_string(), "2.00 (1.00 to 4.00)");
        assert_eq!(Spread::of([2.0, 4.0]).text(1), "4.0 (2.0 to 4.0)");
        assert_eq!(Spread::of([2.01, 2.04]).text(1), "2.0", "no more than is shown");
    }
}

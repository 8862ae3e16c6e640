//! What measurements share.

/// Interleaved runs of each side; what is shown is their median.
pub const PAIRS: usize = 3;

/// The median, or the upper of the two in the middle; 0 of nothing.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = figures.into_iter().collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    #[allow(clippy::float_cmp)] // one of those given, unchanged
    fn the_one_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0]), 4.0);
        assert_eq!(median([]), 0.0);
    }
}

//! Whole numbers with their weights: sizes of files, lengths of names. Draws are a pure function of a random number, the
//! same on every machine: there is no floating point in them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::namespace::mixed;

/// More terms are refused.
const MAX_TERMS: usize = 4096;
/// What a whole doubling weighs within a range.
const DOUBLING: u64 = 1 << 20;
/// Units, the largest first.
const UNITS: [(char, u64); 4] = [('t', 1 << 40), ('g', 1 << 30), ('m', 1 << 20), ('k', 1 << 10)];

/// A distribution, such as `64k`, `4k-1g`, or `0:10,1-64k:70,64k-1g:20`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Distribution(Vec<Term>);

/// A range, ends included. Within it each doubling is as likely as another, and within a doubling each number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Term {
    from: u64,
    to: u64,
    weight: u64,
}

impl Distribution {
    /// Always the same number.
    pub fn fixed(number: u64) -> Distribution {
        Distribution(vec![Term { from: number, to: number, weight: 1 }])
    }

    /// From ranges, ends included, with their weights; None without any, or too many.
    pub fn of(ranges: impl IntoIterator<Item = (u64, u64, u64)>) -> Option<Distribution> {
        let terms = ranges.into_iter().map(|(from, to, weight)| Term { from, to, weight });
        let terms: Vec<Term> = terms.filter(|term| term.weight > 0).collect();
        let are_sound = terms.iter().all(|term| term.from <= term.to)
            && terms.iter().try_fold(0u64, |sum, term| sum.checked_add(term.weight)).is_some();
        (are_sound && (1..=MAX_TERMS).contains(&terms.len())).then_some(Distribution(terms))
    }

    /// Whether it is never anything but 0.
    pub fn is_zero(&self) -> bool {
        self.most() == 0
    }

    /// The largest number.
    pub fn most(&self) -> u64 {
        self.0.iter().map(|term| term.to).max().unwrap_or(0)
    }

    /// The number that belongs to a random one.
    pub fn at(&self, random: u64) -> u64 {
        let sum = self.0.iter().map(|term| term.weight).sum();
        let mut place = scaled(random, sum);
        for term in &self.0 {
            if place < term.weight {
                return term.at(mixed(random ^ 0x5bd1));
            }
            place -= term.weight;
        }
        0
    }
}

/// `random` of all 64 bits as a number below `end`.
fn scaled(random: u64, end: u64) -> u64 {
    ((u128::from(random) * u128::from(end)) >> 64) as u64
}

impl Term {
    fn at(&self, random: u64) -> u64 {
        let doublings = || self.doublings();
        let weight = |(from, to, whole): &(u64, u64, u64)| {
            (u128::from(to - from + 1) * u128::from(DOUBLING) / u128::from(*whole)).max(1) as u64
        };
        let mut place = scaled(random, doublings().map(|part| weight(&part)).sum());
        for part @ (from, to, _) in doublings() {
            if place < weight(&part) {
                // One number more than the difference, which may be all of them.
                let count = (to - from).saturating_add(1);
                return from + scaled(mixed(random ^ 0x2e63), count);
            }
            place -= weight(&part);
        }
        self.to
    }

    /// The range cut at its doublings: first, last, and how many numbers the whole doubling has.
    fn doublings(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let to = self.to;
        let mut next = Some(self.from);
        std::iter::from_fn(move || {
            let from = next?;
            let whole = from.max(1);
            let last = from.saturating_add(whole - 1).min(to);
            next = last.checked_add(1).filter(|next| *next <= to);
            Some((from, last, whole))
        })
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Term { from, to, weight }) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}", Number(*from))?;
            if to != from {
                write!(f, "-{}", Number(*to))?;
            }
            if self.0.len() > 1 {
                write!(f, ":{weight}")?;
            }
        }
        Ok(())
    }
}

struct Number(u64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, unit)| self.0 > 0 && self.0.is_multiple_of(*unit)) {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A number such as `4096` or `64k`; units are powers of 1024.
pub fn number(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find(|(name, _)| text.ends_with([*name, name.to_ascii_uppercase()]));
    let digits = if unit.is_some() { &text[..text.len() - 1] } else { text };
    digits.parse::<u64>().ok()?.checked_mul(unit.map_or(1, |(_, unit)| *unit))
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?}: say a number such as 64k, a range such as 4k-1g, or several with weights: 0:10,1-64k:90"
            )
        };
        let term = |text: &str| {
            let (range, weight) = text.split_once(':').unwrap_or((text, "1"));
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            Some((number(from)?, number(to)?, weight.parse().ok().filter(|weight: &u64| *weight > 0)?))
        };
        let terms: Option<Vec<_>> = text.split(',').map(term).collect();
        terms.and_then(Distribution::of).ok_or_else(wrong)
    }
}

impl From<Distribution> for String {
    fn from(distribution: Distribution) -> String {
        distribution.to_string()
    }
}

impl TryFrom<String> for Distribution {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Distribution {
        text.parse().expect(text)
    }

    /// How many of 100 000 draws lie in a range.
    fn count(distribution: &Distribution, range: std::ops::RangeInclusive<u64>) -> usize {
        (0..100_000).filter(|index| range.contains(&distribution.at(mixed(*index)))).count()
    }

    #[test]
    fn texts_come_back_as_they_were() {
        for text in ["0", "64k", "4k-1g", "0:10,1-64k:70,65537-3t:20", "7:5,7:6", "0-18446744073709551615"] {
            assert_eq!(of(text).to_string(), text);
        }
        assert_eq!(of("65536"), of("64K"));
        for wrong in ["", "x", "5-4", "1:0", "1:", "-", "1,", "99999999999g", "1:18446744073709551615,2:1"] {
            assert!(wrong.parse::<Distribution>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn draws_follow_the_weights() {
        let three = of("0:10,1k:60,1m-4m:30");
        for (range, wanted) in [(0..=0, 10_000), (1024..=1024, 60_000), (1 << 20..=4 << 20, 30_000)] {
            let found = count(&three, range.clone());
            assert!(found.abs_diff(wanted) < 700, "{range:?}: {found}");
        }
        assert_eq!((three.most(), three.is_zero(), of("0").is_zero()), (4 << 20, false, true));
    }

    #[test]
    fn each_doubling_is_as_likely_as_another() {
        let sizes = of("1k-1023k");
        for power in 10..19 {
            let found = count(&sizes, 1 << power..=(2 << power) - 1);
            assert!(found.abs_diff(10_000) < 500, "{power}: {found}");
        }
        assert_eq!(count(&sizes, 1024..=1023 << 10), 100_000);
        // The last one counts as far as it goes; 0 is a doubling of its own.
        let found = count(&of("0-5"), 4..=5);
        assert!(found.abs_diff(100_000 / 7) < 700, "{found}");
        assert_eq!(count(&of("3-3"), 3..=3), 100_000);
        assert!((0..100).map(|i| of("0-18446744073709551615").at(mixed(i))).max() > Some(1 << 40));
    }
}

//! Axes: from figures to places, with round ticks; and how figures are written.

/// How figures lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// At equal distances, from zero.
    Linear,
    /// Each decade as long as the next. What is not above zero has no place.
    Log,
}

/// What the figures of an axis are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Plain numbers; the label has the unit.
    Number,
    /// How many there are of something: no tick lies between two of them.
    Count,
    /// Microseconds, shown in whichever unit fits.
    Micros,
}

/// An axis as asked for. How far it goes is seen from the figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// How.
    pub scale: Scale,
    /// What its figures are.
    pub kind: Kind,
}

impl Axis {
    /// Numbers, from zero.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), scale: Scale::Linear, kind: Kind::Number }
    }

    /// How many, from zero.
    pub fn count(label: impl Into<String>) -> Axis {
        Axis { kind: Kind::Count, ..Axis::linear(label) }
    }

    /// Microseconds, from zero.
    pub fn linear_micros(label: impl Into<String>) -> Axis {
        Axis { kind: Kind::Micros, ..Axis::linear(label) }
    }

    /// Numbers by their size.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { scale: Scale::Log, ..Axis::linear(label) }
    }

    /// Microseconds by their size.
    pub fn log_micros(label: impl Into<String>) -> Axis {
        Axis { kind: Kind::Micros, ..Axis::log(label) }
    }

    /// A figure of it, to be read.
    pub fn text(&self, value: f64) -> String {
        match self.kind {
            Kind::Number | Kind::Count => number(value),
            Kind::Micros => micros(value),
        }
    }

    /// The same for a table, which has room for more digits.
    pub fn exact(&self, value: f64) -> String {
        match self.kind {
            Kind::Number | Kind::Count if (99.95..1e15).contains(&value) => count(value.round() as u64),
            _ => self.text(value),
        }
    }

    /// So that all of these have a place, on so many pixels, with a tick every `tick_px` or so.
    pub(super) fn fit(
        &self,
        values: impl Iterator<Item = f64>,
        pixels: f64,
        tick_px: f64,
        end: End,
    ) -> Fitted {
        let values = values.filter(|value| value.is_finite());
        let ticks = (pixels / tick_px).floor().max(2.0);
        match self.scale {
            Scale::Linear => {
                let least_step = if self.kind == Kind::Count { 1.0 } else { 0.0 };
                linear(values, ticks, least_step, pixels, end)
            }
            Scale::Log => log(values.filter(|value| *value > 0.0), ticks, pixels),
        }
    }
}

/// Where a linear axis ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At a round figure, with a tick.
    Round,
    /// Where the last figure lies.
    Last,
}

/// An axis that knows its ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fitted {
    scale: Scale,
    low: f64,
    high: f64,
    pixels: f64,
    /// Figures that are written beside it.
    pub ticks: Vec<f64>,
}

impl Fitted {
    /// How many pixels from the low end a figure lies; None: it has no place.
    pub fn place(&self, value: f64) -> Option<f64> {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        part.is_finite().then_some(part.clamp(0.0, 1.0) * self.pixels)
    }
}

fn linear(values: impl Iterator<Item = f64>, ticks: f64, least_step: f64, pixels: f64, end: End) -> Fitted {
    let (low, high) = values.fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    let step = round_up((high - low).max(f64::MIN_POSITIVE) / ticks).max(least_step);
    // Nothing but zeros, or figures beyond all measure: any axis will do.
    let step = if high > low && step.is_finite() { step } else { 1.0 };
    let (first, last) = ((low / step).floor(), (high / step).ceil().max(1.0));
    let count = (last - first).clamp(1.0, 100.0) as usize;
    let high = if end == End::Last && high > low { high } else { last * step };
    let ticks = (0..=count).map(|tick| (first + tick as f64) * step).filter(|tick| *tick <= high).collect();
    Fitted { scale: Scale::Linear, low: first * step, high, pixels, ticks }
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_up(step: f64) -> f64 {
    let decade = 10f64.powf(step.log10().floor());
    // A rounding error must not lead to the next one.
    let part = step / decade - 1e-9;
    decade * [1.0, 2.0, 5.0].into_iter().find(|round| part <= *round).unwrap_or(10.0)
}

fn log(values: impl Iterator<Item = f64>, ticks: f64, pixels: f64) -> Fitted {
    let ends = values.fold(None, |ends: Option<(f64, f64)>, value| match ends {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    });
    let (low, high) = ends.unwrap_or((1.0, 10.0));
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let last = last.max(first + 1);
    let decades = f64::from(last - first);
    let parts: &[f64] = if decades * 3.0 <= ticks { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = (decades / ticks).ceil().max(1.0) as usize;
    let (low, high) = (10f64.powi(first), 10f64.powi(last));
    let all = (first..=last)
        .step_by(every)
        .flat_map(|decade| parts.iter().map(move |part| part * 10f64.powi(decade)));
    let ticks = all.filter(|tick| *tick <= high).collect();
    Fitted { scale: Scale::Log, low, high, pixels, ticks }
}

/// A number with what matters of it: 0, 0.25, 7.5, 950, 12.5 k, 1.25 M.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let (part, unit) = match size {
        _ if size >= 999.5e6 => (value / 1e9, " G"),
        _ if size >= 999.5e3 => (value / 1e6, " M"),
        _ if size >= 10e3 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{unit}", short(part))
}

/// Microseconds in the unit that fits: 250 µs, 1.5 ms, 12 s.
pub fn micros(value: f64) -> String {
    let size = value.abs();
    let (part, unit) = match size {
        _ if size >= 999.5e3 => (value / 1e6, "s"),
        _ if size >= 999.5 => (value / 1e3, "ms"),
        _ => (value, "µs"),
    };
    format!("{} {unit}", short(part))
}

/// Three digits, or all of a whole number.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A whole number in groups of three digits.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(axis: &Axis, values: &[f64]) -> Fitted {
        axis.fit(values.iter().copied(), 100.0, 20.0, End::Round)
    }

    #[test]
    fn ticks_are_round_and_hold_all_figures() {
        let axis = Axis::linear("x");
        assert_eq!(fitted(&axis, &[3.0, 97.0]).ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(fitted(&axis, &[0.0]).ticks, [0.0, 1.0]);
        assert_eq!(fitted(&axis, &[-5.0, 5.0]).ticks, [-6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0]);
        assert_eq!(fitted(&axis, &[f64::NAN, f64::INFINITY]).ticks, [0.0, 1.0]);
        assert_eq!(fitted(&axis, &[50.0]).place(25.0), Some(50.0));
        let to_last = axis.fit([0.0, 73.0].into_iter(), 100.0, 20.0, End::Last);
        assert_eq!((to_last.ticks.last(), to_last.place(73.0)), (Some(&60.0), Some(100.0)));
        let counts = [&[2.0][..], &[13.0]].map(|values| fitted(&Axis::count("x"), values).ticks);
        assert_eq!(counts, [&[0.0, 1.0, 2.0][..], &[0.0, 5.0, 10.0, 15.0]]);
        let log = Axis::log("x");
        assert_eq!(fitted(&log, &[3.0, 4000.0]).ticks, [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(fitted(&log, &[10.0]).ticks, [10.0, 20.0, 50.0, 100.0]);
        assert_eq!(fitted(&log, &[1.0, 1e9]).ticks, [1.0, 100.0, 10_000.0, 1e6, 1e8]);
        assert_eq!(fitted(&log, &[]).ticks, [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(fitted(&log, &[1.0, 100.0]).place(10.0), Some(50.0));
        assert_eq!((fitted(&log, &[1.0]).place(0.0), fitted(&log, &[1.0]).place(-1.0)), (None, None));
    }

    #[test]
    fn any_figures_have_an_axis() {
        for values in [[f64::MAX, f64::MIN], [f64::MIN_POSITIVE, 0.0], [1e300, 1e-300], [f64::MAX, 1.0]] {
            for axis in [Axis::linear("x"), Axis::log("x")] {
                let fitted = fitted(&axis, &values);
                assert!(fitted.ticks.len() <= 101, "{values:?}: {fitted:?}");
                let places = values.iter().filter_map(|value| fitted.place(*value));
                assert!(places.into_iter().all(|place| (0.0..=100.0).contains(&place)), "{values:?}");
            }
        }
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [0.0, 0.25, 7.5, 100.0, 950.4, 2500.0, 12_500.0, 999_600.0, 1.25e6].map(number),
            ["0", "0.25", "7.5", "100", "950", "2500", "12.5 k", "1 M", "1.25 M"]
        );
        assert_eq!([0.5, 250.0, 1500.0, 12e6].map(micros), ["0.5 µs", "250 µs", "1.5 ms", "12 s"]);
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]
        );
    }
}

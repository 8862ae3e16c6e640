//! How long a write takes on one embedded store that several namenodes share.
//!
//! Each namenode has one writer, which takes all operations that wait as one group; the writers queue at the turnstile, and
//! one group at a time has the store, from its first look until it is durable. So a namenode has at most one group there,
//! and what arrives meanwhile forms the next. Seen from the turnstile, writers are customers of one server, who come back
//! once another operation has arrived (the machine repairman, solved exactly). An operation that finds its writer busy
//! waits for the rest of that group, half of it on average, and then for its own.

use super::mva::{Station, solve};

/// Rounds of the fixed point at most; it settles in far fewer.
const ROUNDS: u32 = 500;
/// Settled: the next round changes no more than this part.
const SETTLED: f64 = 1e-9;
/// What does not fit into full groups waits ever longer: so much longer, for all that comes beyond, that a closed loop stays
/// at what does fit.
const OVERLOAD: f64 = 1e6;
/// A namenode's writer takes no more operations at a time.
pub const MAX_GROUP: f64 = 64.0;

/// The store as its writers see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turnstile {
    /// Namenodes that share it.
    pub namenodes: u32,
    /// How long a group of one operation has the store, in microseconds.
    pub first_us: f64,
    /// How much longer with each further operation.
    pub further_us: f64,
}

/// How writes fare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Writes {
    /// From an operation's arrival at its writer until it is durable.
    pub residence_us: f64,
    /// Operations in a group.
    pub group: f64,
    /// Part of the time that somebody has the store, 0 to 1.
    pub utilisation: f64,
}

impl Turnstile {
    /// At so many writing operations a microsecond, on all namenodes together.
    pub fn at(&self, per_us: f64) -> Writes {
        let namenodes = self.namenodes.max(1);
        let each = per_us / f64::from(namenodes);
        if each <= 0.0 {
            return Writes { residence_us: self.first_us, group: 1.0, utilisation: 0.0 };
        }
        // How long a group takes, its queueing included; found by going round.
        let (mut trip, mut group) = (self.first_us, 1.0);
        let mut cycle = trip;
        for _ in 0..ROUNDS {
            // Nobody may arrive during a trip: then the writer waits for the next one.
            let idle = (-each * trip).exp() / each;
            let network =
                [Station::queues("turnstile", 1, 1, self.hold_us(group)), Station::delay("arrival", idle)];
            let next = solve(&network, namenodes).stations.first().map_or(trip, |load| load.residence_us);
            let settled = (next - trip).abs() <= SETTLED * trip;
            trip = (trip + next) / 2.0;
            cycle = trip + (-each * trip).exp() / each;
            group = (each * cycle).clamp(1.0, MAX_GROUP);
            if settled {
                break;
            }
        }
        let utilisation = (f64::from(namenodes) * self.hold_us(group) / cycle).min(1.0);
        let beyond = (each * cycle / MAX_GROUP - 1.0).max(0.0);
        let residence_us = trip * (1.0 + trip / cycle / 2.0) * (1.0 + OVERLOAD * beyond);
        Writes { residence_us, group, utilisation }
    }

    /// Writing operations a second that it lets through at most, in full groups; None: no bound is known.
    pub fn most_per_s(&self) -> Option<f64> {
        let hold_us = self.hold_us(MAX_GROUP);
        (hold_us > 0.0).then(|| MAX_GROUP / hold_us * 1e6)
    }

    fn hold_us(&self, group: f64) -> f64 {
        self.first_us + self.further_us * (group - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: Turnstile = Turnstile { namenodes: 8, first_us: 1000.0, further_us: 50.0 };

    #[test]
    fn a_lone_write_takes_as_long_as_it_has_the_store() {
        let writes = SHARED.at(1e-9);
        assert!(
            (writes.residence_us - 1000.0).abs() < 1.0 && (writes.group - 1.0).abs() < 1e-3,
            "{writes:?}"
        );
        assert!(writes.utilisation < 1e-3 && (SHARED.at(0.0).residence_us - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn busy_writers_take_turns_and_their_groups_grow() {
        // So much that nobody ever finds the store free: each writer waits for the seven others.
        let writes = SHARED.at(0.01);
        let hold = SHARED.hold_us(writes.group);
        assert!(writes.utilisation > 0.99, "{writes:?}");
        assert!((writes.residence_us / (1.5 * 8.0 * hold) - 1.0).abs() < 0.02, "{writes:?}");
        // What arrives in a cycle is a group: 0.01 / 8 a microsecond over 8 holds.
        assert!((writes.group / (0.01 * hold) - 1.0).abs() < 0.05, "{writes:?}");
        let full = SHARED.most_per_s().expect("a bound") / 1e6;
        let [fits, does_not] = [0.99, 1.01].map(|part| SHARED.at(full * part));
        assert!(
            fits.group <= MAX_GROUP && does_not.residence_us > 100.0 * fits.residence_us,
            "{fits:?} {does_not:?}"
        );
    }

    #[test]
    fn more_writes_take_longer_and_fewer_namenodes_less() {
        let rates = [1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2];
        for pair in rates.windows(2) {
            let (calm, busy) = (SHARED.at(pair[0]), SHARED.at(pair[1]));
            assert!(busy.residence_us >= calm.residence_us && busy.group >= calm.group, "{calm:?} {busy:?}");
            assert!((0.0..=1.0).contains(&busy.utilisation) && busy.utilisation >= calm.utilisation);
            let alone = Turnstile { namenodes: 1, ..SHARED }.at(pair[1]);
            assert!(alone.residence_us <= busy.residence_us * 1.001, "{alone:?} {busy:?}");
        }
    }
}

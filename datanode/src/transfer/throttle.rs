//! Limits the speed of background work.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A pause is cut into pieces of this length, so that a new limit takes effect soon.
const PAUSE: Duration = Duration::from_millis(200);

/// A limit in bytes per second, shared by all who work under it.
#[derive(Debug)]
pub(crate) struct Throttle(Mutex<State>);

#[derive(Debug)]
struct State {
    /// 0 = none.
    bytes_per_second: u64,
    /// When what was taken so far is paid off.
    paid: Instant,
    /// How often the limit was set.
    changes: u64,
}

impl Throttle {
    /// 0 = no limit.
    pub(crate) fn new(bytes_per_second: u64) -> Throttle {
        Throttle(Mutex::new(State { bytes_per_second, paid: Instant::now(), changes: 0 }))
    }

    /// The limit.
    pub(crate) fn limit(&self) -> u64 {
        self.lock().bytes_per_second
    }

    /// Sets the limit; debts of the old one are forgiven.
    pub(crate) fn set(&self, bytes_per_second: u64) {
        let mut state = self.lock();
        *state = State { bytes_per_second, paid: Instant::now(), changes: state.changes + 1 };
    }

    /// Notes `bytes`, and pauses the thread for as long as they take under the limit.
    pub(crate) fn take(&self, bytes: usize) {
        let (changes, due) = self.charge(bytes, Instant::now());
        loop {
            let pause = due.saturating_duration_since(Instant::now()).min(PAUSE);
            if pause.is_zero() || self.lock().changes != changes {
                return;
            }
            thread::sleep(pause);
        }
    }

    /// When so many more bytes are paid off, and under which limit.
    fn charge(&self, bytes: usize, now: Instant) -> (u64, Instant) {
        let mut state = self.lock();
        if state.bytes_per_second == 0 {
            return (state.changes, now);
        }
        let costs = Duration::from_secs_f64(bytes as f64 / state.bytes_per_second as f64);
        state.paid = state.paid.max(now) + costs;
        (state.changes, state.paid)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_paid_off_one_after_the_other() {
        let now = Instant::now() + Duration::from_secs(1);
        let after = |ms| now + Duration::from_millis(ms);
        let throttle = Throttle::new(1000);
        assert_eq!(throttle.charge(100, now), (0, after(100)));
        assert_eq!(throttle.charge(100, now), (0, after(200)));
        assert_eq!(throttle.charge(100, after(250)), (0, after(350)));
        throttle.set(0);
        assert_eq!((throttle.charge(1 << 30, now), throttle.limit()), ((1, now), 0));
    }
}

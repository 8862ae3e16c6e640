//! How busy this machine is, from /proc/stat.

use std::fs;

use crate::error::{Error, Result};

const PATH: &str = "/proc/stat";
/// Kinds of time of the first line: user, nice, system, idle, iowait, irq, softirq, steal. What guests use is in the first
/// two already.
const KINDS: usize = 8;
const IDLE: usize = 3;
const WAITING_FOR_DISKS: usize = 4;

/// CPU time of all cores since the machine started, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    idle: u64,
    all: u64,
}

impl Times {
    /// As they are now.
    pub fn now() -> Result<Times> {
        let text = fs::read_to_string(PATH).map_err(Error::io(format!("reading {PATH}")))?;
        Times::parse(&text)
            .ok_or_else(|| Error::Unreadable(format!("{PATH} does not tell the time of all cores")))
    }

    fn parse(text: &str) -> Option<Times> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> =
            line.split_whitespace().take(KINDS).map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let idle = ticks.get(IDLE)? + ticks.get(WAITING_FOR_DISKS)?;
        Some(Times { idle, all: ticks.iter().sum() })
    }

    /// Percent of the time since an earlier look that cores were not idle: busy for whatever process, or taken by another
    /// machine on the same hardware. None: no time has passed.
    pub fn busy_percent_since(&self, earlier: &Times) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|all| *all > 0)? as f64;
        // Some kernels let the idle time go back by a tick.
        let idle = self.idle.saturating_sub(earlier.idle) as f64;
        Some(((all - idle) / all * 100.0).clamp(0.0, 100.0))
    }
}

/// Cores that this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_neither_idle_nor_waiting_for_a_disk() {
        let at = |line: &str| Times::parse(line).expect("all cores");
        let earlier = at("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1");
        let later = at("cpu  140 5 60 830 55 3 2 5 9 0");
        // 40 + 5 + 10 + 3 + 2 + 5 of 100.
        assert!(later.busy_percent_since(&earlier).is_some_and(|busy| (busy - 65.0).abs() < 1e-9));
        assert_eq!(earlier.busy_percent_since(&earlier), None);
        assert!(Times::parse("cpu0 1 2 3").is_none() && Times::parse("cpu  1 2 x").is_none());
        assert!(Times::now().is_ok() && cores() > 0);
    }
}

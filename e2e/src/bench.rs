//! What measurements share.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::unistd::{SysconfVar, sysconf};

/// Interleaved runs of each side; what is shown is their median.
pub const PAIRS: usize = 3;

/// The median, or the upper of the two in the middle; 0 of nothing.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = figures.into_iter().collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// How long a process that has come to rest may go without using CPU time.
const REST: Duration = Duration::from_millis(300);
/// Looks before one that never rests counts as it is.
const LOOKS: usize = 100;

/// CPU time that a process has used, in seconds.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("reading a server's CPU time")?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks =
        |field: usize| after_name.split_whitespace().nth(field).and_then(|word| word.parse::<f64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).context("a server's CPU time")?;
    let a_second = sysconf(SysconfVar::CLK_TCK)?.context("ticks a second")?;
    Ok((user + system) / a_second as f64)
}

/// The same once it has come to rest: what a server puts off until later counts.
pub fn cpu_seconds_at_rest(pid: u32) -> Result<f64> {
    let mut now = cpu_seconds(pid)?;
    for _ in 0..LOOKS {
        sleep(REST);
        let before = std::mem::replace(&mut now, cpu_seconds(pid)?);
        if now - before <= 0.011 {
            break; // a tick at most
        }
    }
    Ok(now)
}

#[cfg(test)]
mod tests {
    use super::{cpu_seconds, median};

    #[test]
    fn this_process_has_used_some_time() {
        let before = cpu_seconds(std::process::id()).expect("ours");
        let used = std::iter::repeat_with(|| cpu_seconds(std::process::id()).expect("ours"));
        assert!(used.take(1_000_000).any(|after| after > before));
    }

    #[test]
    #[allow(clippy::float_cmp)] // one of those given, unchanged
    fn the_one_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0]), 4.0);
        assert_eq!(median([]), 0.0);
    }
}

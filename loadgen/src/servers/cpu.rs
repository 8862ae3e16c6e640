//! CPU time of processes.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::{SysconfVar, sysconf};

use crate::error::{Error, Result};

/// How long a process that has come to rest may go without using CPU time.
const REST: Duration = Duration::from_millis(300);
/// Looks before one that never rests counts as it is.
const LOOKS: usize = 100;
/// A tick of /proc at most.
const RESTING_S: f64 = 0.011;

/// Fields of /proc/PID/stat, counted from the one behind the name.
const USER: usize = 11;
const SYSTEM: usize = 12;
const BEGAN: usize = 19;

/// CPU time that a process has used, in seconds.
pub fn seconds(pid: u32) -> Result<f64> {
    let [user, system] = ticks(pid, [USER, SYSTEM])?;
    match sysconf(SysconfVar::CLK_TCK).ok().flatten() {
        Some(a_second) => Ok((user + system) as f64 / a_second as f64),
        None => Err(Error::Unreadable("the system does not tell its clock's ticks".into())),
    }
}

/// When a process began, in ticks since the machine started: with its number, one process for good.
pub fn began(pid: u32) -> Result<u64> {
    ticks(pid, [BEGAN]).map(|[began]| began)
}

fn ticks<const N: usize>(pid: u32, fields: [usize; N]) -> Result<[u64; N]> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).map_err(Error::io(format!("reading {path}")))?;
    let words: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let tick = |field: usize| words.get(field).and_then(|word| word.parse().ok());
    let mut all = [0; N];
    for (ticks, field) in all.iter_mut().zip(fields) {
        *ticks = tick(field).ok_or_else(|| Error::Unreadable(format!("{path} cannot be understood")))?;
    }
    Ok(all)
}

/// CPU time of this process, in seconds.
pub fn own_seconds() -> f64 {
    // It fails only for wrong arguments.
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0.0 };
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// CPU time of a process once it has come to rest: what a server puts off until later counts.
pub fn seconds_at_rest(pid: u32) -> Result<f64> {
    at_rest(|| seconds(pid))
}

/// The same for any clock of CPU time.
pub fn at_rest(mut seconds: impl FnMut() -> Result<f64>) -> Result<f64> {
    let mut now = seconds()?;
    for _ in 0..LOOKS {
        sleep(REST);
        let before = std::mem::replace(&mut now, seconds()?);
        if now - before <= RESTING_S {
            break;
        }
    }
    Ok(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_some_time() {
        let before = (seconds(std::process::id()).expect("ours"), own_seconds());
        let used = std::iter::repeat_with(|| (seconds(std::process::id()).expect("ours"), own_seconds()));
        assert!(used.take(1_000_000).any(|after| after.0 > before.0 && after.1 > before.1));
    }

    #[test]
    fn rest_is_waited_for() {
        let mut readings = [1.0, 2.0, 3.0, 3.005].into_iter();
        let rested = at_rest(|| Ok(readings.next().unwrap_or(99.0))).expect("all can be read");
        assert!(rested > 3.0 && rested < 4.0, "{rested}");
    }
}

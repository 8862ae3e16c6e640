//! Being asked to end: Ctrl-C, SIGTERM, and SIGHUP where it would end a process (not under `nohup`).

use std::fs;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask for an end.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// Hears them from now on, in place of being ended by them.
    pub fn listen() -> Result<Signals> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        // Whoever started this process may have it ignore a hangup: a listener would undo that.
        let hangup = (!is_ignored(SignalKind::hangup())).then(|| listen(SignalKind::hangup()));
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: hangup.transpose()?,
        })
    }

    /// Waits for one.
    pub async fn next(&mut self) {
        let Signals { interrupt, terminate, hangup } = self;
        let hangup = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Whether this process ignores a signal, as the OS says it; where it says nothing, it does not.
fn is_ignored(signal: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal.as_raw_value() - 1) & 1 == 1)
}

//! What lasts for a while: it ends when it is dropped, whatever ends the run.

use std::sync::Arc;

use nix::sys::signal::Signal;

use super::process::Process;
use crate::config::Hot;
use crate::error::Result;
use crate::pick::Picks;

/// Something that lasts.
#[derive(Debug)]
pub(super) enum Lasting {
    /// A process stands still.
    Stopped(Process),
    /// Operations go to few directories.
    Hot(Arc<Picks>, Hot),
}

impl Lasting {
    pub(super) fn stop(process: Process) -> Result<Lasting> {
        process.signal(Signal::SIGSTOP)?;
        Ok(Lasting::Stopped(process))
    }

    pub(super) fn heat(picks: &Arc<Picks>, hot: Hot) -> Lasting {
        picks.heat(hot);
        Lasting::Hot(picks.clone(), hot)
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        match self {
            // One that has ended meanwhile does not mind.
            Lasting::Stopped(process) => _ = process.signal(Signal::SIGCONT),
            Lasting::Hot(picks, hot) => picks.cool(*hot),
        }
    }
}

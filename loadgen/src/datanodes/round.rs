//! A round of full reports that nobody asked for: one of each datanode to each namenode, all at once.

use std::fmt;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// What came of a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Reports {
    /// How many there are to be: one of each datanode to each namenode.
    pub due: u64,
    /// Those that a namenode took.
    pub answered: u64,
    /// Those that it did not want: of several namenodes of ours one takes a datanode's.
    pub refused: u64,
    /// When the last one was answered, in seconds after all were due.
    pub last_after_s: Option<f64>,
}

impl Reports {
    /// Whether nothing more comes.
    pub fn is_over(&self) -> bool {
        self.answered + self.refused >= self.due
    }
}

impl fmt::Display for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} full reports were answered", self.answered, self.due)?;
        if let Some(last) = self.last_after_s {
            write!(f, ", the last {last:.3} s after they were due")?;
        }
        match self.refused {
            0 => Ok(()),
            refused => write!(f, "; {refused} went to namenodes that did not want them"),
        }
    }
}

/// A round that is under way.
#[derive(Debug)]
pub struct Round {
    at: Instant,
    reports: watch::Sender<Reports>,
}

impl Round {
    pub(super) fn new(at: Instant, due: u64) -> Round {
        Round { at, reports: watch::Sender::new(Reports { due, ..Reports::default() }) }
    }

    /// A namenode took one.
    pub(super) fn answered(&self) {
        let after = self.at.elapsed().as_secs_f64();
        self.reports.send_modify(|reports| {
            reports.answered += 1;
            reports.last_after_s = Some(after);
        });
    }

    /// A namenode did not want one.
    pub(super) fn refused(&self) {
        self.reports.send_modify(|reports| reports.refused += 1);
    }

    /// What came of it so far.
    pub fn reports(&self) -> Reports {
        *self.reports.borrow()
    }

    /// Waits until nothing more comes.
    pub async fn over(&self) {
        // The sender is this round itself.
        let _ = self.reports.subscribe().wait_for(Reports::is_over).await;
    }
}

#[cfg(test)]
mod tests {
    use futures::future::FutureExt;

    use super::*;

    #[tokio::test]
    async fn it_is_over_when_each_was_taken_or_refused() {
        let round = Round::new(Instant::now(), 3);
        assert_eq!(round.reports().to_string(), "0 of 3 full reports were answered");
        round.answered();
        round.refused();
        assert!(round.over().now_or_never().is_none());
        round.answered();
        round.over().await;
        let reports = Reports { last_after_s: Some(0.25), ..round.reports() };
        assert_eq!(
            reports.to_string(),
            "2 of 3 full reports were answered, the last 0.250 s after they were due; 1 went to namenodes that did not \
             want them"
        );
    }
}

//! Ends a run before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Whether somebody wants a run to end. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    /// To look at before each operation: a channel's lock would go from thread to thread.
    is_asked: AtomicBool,
    told: watch::Sender<bool>,
}

impl Stop {
    /// The run is to end: no more operations begin, and what was measured until now is reported.
    pub fn ask(&self) {
        self.0.is_asked.store(true, Ordering::Release);
        self.0.told.send_replace(true);
    }

    /// Whether somebody asked.
    pub fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Acquire)
    }

    /// Waits until somebody asks.
    pub async fn asked(&self) {
        // The sender lives as long as this.
        let _ = self.0.told.subscribe().wait_for(|asked| *asked).await;
    }
}

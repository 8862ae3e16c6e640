//! Ends a run before its time.

use std::sync::Arc;

use tokio::sync::watch;

/// Whether somebody wants a run to end. Clones are the same.
#[derive(Debug, Clone)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Stop(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    /// The run is to end: no more operations begin, and what was measured until now is reported.
    pub fn ask(&self) {
        self.0.send_replace(true);
    }

    /// Whether somebody asked.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until somebody asks.
    pub async fn asked(&self) {
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(|asked| *asked).await;
    }
}

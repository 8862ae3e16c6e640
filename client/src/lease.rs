//! Leases: as long as a client has files open for writing, it says so every half minute.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time;

use crate::client::{Client, Inner};

/// After a renewal that failed, the next one comes sooner by this factor.
const HURRY: u32 = 10;

/// The open files of a client, and the task that renews its lease (one per client, whatever the number of files).
#[derive(Debug)]
pub(crate) struct Leases {
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: usize,
    running: bool,
}

/// One open file; dropped, it is closed as far as renewals go.
#[derive(Debug)]
pub(crate) struct Held(Weak<Inner>);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(client) = self.0.upgrade() {
            client.leases.lock().open -= 1;
        }
    }
}

impl Leases {
    pub fn new(interval: Duration) -> Self {
        Self { interval, state: Mutex::new(State::default()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether to go on renewing.
    fn has_open(&self) -> bool {
        let mut state = self.lock();
        state.running = state.open > 0;
        state.running
    }
}

impl Client {
    /// Keeps the lease until the result is dropped. Needs a tokio runtime.
    pub(crate) fn hold_lease(&self) -> Held {
        let start = {
            let mut state = self.0.leases.lock();
            state.open += 1;
            !std::mem::replace(&mut state.running, true)
        };
        if start {
            tokio::spawn(renew(Arc::downgrade(&self.0), self.0.leases.interval));
        }
        Held(Arc::downgrade(&self.0))
    }
}

/// Ends when no file is open or the client is gone.
async fn renew(client: Weak<Inner>, interval: Duration) {
    let mut wait = interval;
    loop {
        time::sleep(wait).await;
        let Some(inner) = client.upgrade() else { return };
        if !inner.leases.has_open() {
            return;
        }
        let client = Client(inner);
        wait = match client.renew_lease().await {
            Ok(()) => interval,
            Err(error) => {
                tracing::warn!(holder = client.name(), %error, "the lease of open files could not be renewed");
                interval / HURRY
            }
        };
    }
}

//! Keeps one namenode going: start, death, restart, stop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Error, Result};
use tokio::sync::{mpsc, watch};

use super::Plan;
use super::child::Child;
use super::data_dir::Addresses;

/// The first pause before a restart; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause before a restart.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest pause before a restart of one that had served: its clients are waiting for it.
const LONGEST_PAUSE_IN_SERVICE: Duration = Duration::from_secs(2);
/// Whoever lived this long is restarted after the first pause again.
const LIVED_WELL: Duration = Duration::from_secs(60);

/// Whether, and how, to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Go on.
    No,
    /// Ask, wait, kill.
    Kindly,
    /// Kill.
    AtOnce,
}

/// What happened to a namenode.
pub enum Event {
    /// It serves.
    Ready {
        /// Which one.
        index: usize,
        /// Its process.
        pid: u32,
        /// Where it listens.
        addresses: Addresses,
    },
    /// Its process has ended without being asked.
    Died {
        /// Which one.
        index: usize,
        /// Its exit status, for people.
        how: String,
        /// Whether it had served.
        was_ready: bool,
        /// When it is started again; none = not.
        again_in: Option<Duration>,
    },
    /// It cannot be run at all.
    Fault {
        /// Which one.
        index: usize,
        /// Why.
        error: Error,
    },
}

/// One namenode of the cluster.
pub struct Node {
    plan: Arc<Plan>,
    index: usize,
    events: mpsc::Sender<Event>,
    stop: watch::Receiver<Stop>,
}

/// How one life ended.
enum End {
    Stopped,
    Died { how: String, was_ready: bool },
}

impl Node {
    /// Namenode `index` of the plan.
    pub fn new(
        plan: Arc<Plan>,
        index: usize,
        events: mpsc::Sender<Event>,
        stop: watch::Receiver<Stop>,
    ) -> Node {
        Node { plan, index, events, stop }
    }

    /// Runs it until it is told to stop, or until it is dead and not to be started again.
    pub async fn tend(mut self) {
        let index = self.index;
        let mut ports = self.plan.ports[index];
        let mut pause = FIRST_PAUSE;
        loop {
            let born = Instant::now();
            let end = self.live(&mut ports).await;
            self.plan.data.forget(index);
            let (how, was_ready) = match end {
                Ok(End::Stopped) => return,
                Ok(End::Died { how, was_ready }) => (how, was_ready),
                Err(error) => return self.tell(Event::Fault { index, error }).await,
            };
            if born.elapsed() >= LIVED_WELL {
                pause = FIRST_PAUSE;
            }
            pause = pause.min(if was_ready { LONGEST_PAUSE_IN_SERVICE } else { LONGEST_PAUSE });
            let again_in = self.plan.restart.then_some(pause);
            self.tell(Event::Died { index, how, was_ready, again_in }).await;
            if again_in.is_none() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause *= 2,
                () = stopped(&mut self.stop) => return,
            }
        }
    }

    /// One life of its process. The ports that it got stay its own, so that clients find it again after a restart.
    async fn live(&mut self, ports: &mut (u16, u16)) -> Result<End> {
        if *self.stop.borrow() != Stop::No {
            return Ok(End::Stopped);
        }
        let mut child = Child::start(&self.plan, self.index, *ports)?;
        self.plan.data.write_pid(self.index, child.pid)?;
        let ready = tokio::select! {
            ready = child.ready() => ready?,
            () = stopped(&mut self.stop) => {
                child.end(&mut self.stop).await;
                return Ok(End::Stopped);
            }
        };
        if let Some(addresses) = ready {
            *ports = (addresses.rpc.port(), addresses.http.port());
            self.plan.data.write_addresses(self.index, &addresses)?;
            self.tell(Event::Ready { index: self.index, pid: child.pid, addresses }).await;
        }
        tokio::select! {
            how = child.ended() => Ok(End::Died { how, was_ready: ready.is_some() }),
            () = stopped(&mut self.stop) => {
                child.end(&mut self.stop).await;
                Ok(End::Stopped)
            }
        }
    }

    /// Nobody listens only when all is ending.
    async fn tell(&self, event: Event) {
        let _ = self.events.send(event).await;
    }
}

/// Waits until it is time to stop; a supervisor that is gone is a reason too.
async fn stopped(stop: &mut watch::Receiver<Stop>) {
    let _ = stop.wait_for(|stop| *stop != Stop::No).await;
}

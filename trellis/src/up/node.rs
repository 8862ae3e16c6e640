//! Keeps one server going: start, death, restart, stop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Error, Result};
use tokio::sync::{mpsc, watch};

use super::Plan;
use super::child::Child;
use super::data_dir::{Addresses, Member};

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

/// What happened to a server.
pub enum Event {
    /// It serves.
    Ready {
        /// Which one.
        member: Member,
        /// Its process.
        pid: u32,
        /// Where it listens.
        addresses: Addresses,
    },
    /// Its process has ended without being asked.
    Died {
        /// Which one.
        member: Member,
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
        member: Member,
        /// Why.
        error: Error,
    },
}

/// One server of the cluster.
pub struct Node {
    plan: Arc<Plan>,
    member: Member,
    /// The namenodes of a datanode.
    namenodes: Arc<str>,
    events: mpsc::Sender<Event>,
    stop: watch::Receiver<Stop>,
}

/// How one life ended.
enum End {
    Stopped,
    Died { how: String, was_ready: bool },
}

impl Node {
    /// A server of the plan; a datanode is told its `namenodes`.
    pub fn new(
        plan: Arc<Plan>,
        member: Member,
        namenodes: Arc<str>,
        events: mpsc::Sender<Event>,
        stop: watch::Receiver<Stop>,
    ) -> Node {
        Node { plan, member, namenodes, events, stop }
    }

    /// Runs it until it is told to stop, or until it is dead and not to be started again.
    pub async fn tend(mut self) {
        let member = self.member;
        let mut ports = self.plan.ports_of(member);
        let mut pause = FIRST_PAUSE;
        loop {
            let born = Instant::now();
            let end = self.live(&mut ports).await;
            self.plan.data.forget(member);
            let (how, was_ready) = match end {
                Ok(End::Stopped) => return,
                Ok(End::Died { how, was_ready }) => (how, was_ready),
                Err(error) => return self.tell(Event::Fault { member, error }).await,
            };
            if born.elapsed() >= LIVED_WELL {
                pause = FIRST_PAUSE;
            }
            pause = pause.min(if was_ready { LONGEST_PAUSE_IN_SERVICE } else { LONGEST_PAUSE });
            let again_in = self.plan.restart.then_some(pause);
            self.tell(Event::Died { member, how, was_ready, again_in }).await;
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
    async fn live(&mut self, ports: &mut Vec<u16>) -> Result<End> {
        if *self.stop.borrow() != Stop::No {
            return Ok(End::Stopped);
        }
        let mut child = Child::start(&self.plan, self.member, ports, &self.namenodes)?;
        self.plan.data.write_pid(self.member, child.pid)?;
        let ready = tokio::select! {
            ready = child.ready() => ready?,
            () = stopped(&mut self.stop) => {
                child.end(&mut self.stop).await;
                return Ok(End::Stopped);
            }
        };
        if let Some(addresses) = ready {
            *ports = addresses.all().map(|address| address.port()).collect();
            self.plan.data.write_addresses(self.member, &addresses)?;
            self.tell(Event::Ready { member: self.member, pid: child.pid, addresses }).await;
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

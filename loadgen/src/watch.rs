//! What is counted beside the operations while they run: by the servers, by the clients, by the system.

use std::collections::BTreeMap;

use trellis_client::client::Counts;
use trellis_client::{Answers, Client};

use crate::error::Result;
use crate::servers::{Growth, Reading, Servers, cpu, machine};

/// Counters as they stood when it was begun.
#[derive(Debug)]
pub struct Watch {
    servers: Servers,
    clients: Vec<Client>,
    before: Reading,
    cpu_before: f64,
    machine_before: Option<machine::Times>,
    counts_before: Counts,
    answers_before: BTreeMap<&'static str, Answers>,
}

/// By how much they grew.
#[derive(Debug)]
pub struct Watched {
    /// What the servers counted; None: there was nobody to ask.
    pub growth: Option<Result<Growth>>,
    /// CPU time of this process, seconds.
    pub client_cpu_s: f64,
    /// How busy this machine was; None: it does not tell.
    pub machine_busy_percent: Option<f64>,
    /// What all clients had counted before and after.
    pub counts: [Counts; 2],
    /// What clients were answered, by method; empty unless they count it.
    pub answers: BTreeMap<&'static str, Answers>,
}

impl Watch {
    /// Begins once the servers have come to rest.
    pub async fn begin(servers: Servers, clients: Vec<Client>) -> Result<Watch> {
        let before = servers.read_at_rest().await?;
        let counts_before = counts(&clients);
        let (cpu_before, machine_before) = (cpu::own_seconds(), machine::Times::now().ok());
        let answers_before = answers(&clients);
        Ok(Watch { servers, clients, before, cpu_before, machine_before, counts_before, answers_before })
    }

    /// Ends once they have done so again. A server that was killed meanwhile does not answer: the rest is worth a report
    /// all the same.
    pub async fn end(self) -> Watched {
        let client_cpu_s = cpu::own_seconds() - self.cpu_before;
        let busy = machine::Times::now().ok().zip(self.machine_before);
        let machine_busy_percent = busy.and_then(|(now, then)| now.busy_percent_since(&then));
        let counts = [self.counts_before, counts(&self.clients)];
        let answers = since(answers(&self.clients), &self.answers_before);
        let after = self.servers.read_at_rest().await;
        let growth = after.and_then(|after| after.since(&self.before));
        let growth = if self.servers.is_empty() { None } else { Some(growth) };
        Watched { growth, client_cpu_s, machine_busy_percent, counts, answers }
    }
}

/// What all clients had counted by now.
pub fn counts(clients: &[Client]) -> Counts {
    let all = clients.iter().map(Client::counts);
    all.fold(Counts::default(), |sum, counts| Counts {
        failovers: sum.failovers + counts.failovers,
        resends: sum.resends + counts.resends,
    })
}

/// What all clients were answered by now.
fn answers(clients: &[Client]) -> BTreeMap<&'static str, Answers> {
    let mut all: BTreeMap<_, Answers> = BTreeMap::new();
    for (method, some) in clients.iter().flat_map(Client::answers) {
        let sum = all.entry(method).or_default();
        sum.ok += some.ok;
        sum.exceptions += some.exceptions;
    }
    all
}

/// What came since then.
fn since(
    now: BTreeMap<&'static str, Answers>,
    before: &BTreeMap<&'static str, Answers>,
) -> BTreeMap<&'static str, Answers> {
    let since = now.into_iter().map(|(method, now)| {
        let then = before.get(method).copied().unwrap_or_default();
        (method, Answers { ok: now.ok - then.ok, exceptions: now.exceptions - then.exceptions })
    });
    since.filter(|(_, answers)| *answers != Answers::default()).collect()
}

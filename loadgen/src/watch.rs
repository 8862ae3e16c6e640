//! What is counted beside the operations while they run: by the servers, by the clients, by the system.

use trellis_client::Client;
use trellis_client::client::Counts;

use crate::disturb::conduct::counts;
use crate::error::Result;
use crate::servers::{Growth, Reading, Servers, cpu};

/// Counters as they stood when it was begun.
#[derive(Debug)]
pub struct Watch {
    servers: Servers,
    clients: Vec<Client>,
    before: Reading,
    cpu_before: f64,
    counts_before: Counts,
}

/// By how much they grew.
#[derive(Debug)]
pub struct Watched {
    /// What the servers counted; None: there was nobody to ask.
    pub growth: Option<Result<Growth>>,
    /// CPU time of this process, seconds.
    pub client_cpu_s: f64,
    /// What all clients had counted before and after.
    pub counts: [Counts; 2],
}

impl Watch {
    /// Begins once the servers have come to rest.
    pub async fn begin(servers: Servers, clients: Vec<Client>) -> Result<Watch> {
        let before = servers.read_at_rest().await?;
        let counts_before = counts(&clients);
        Ok(Watch { servers, clients, before, cpu_before: cpu::own_seconds(), counts_before })
    }

    /// Ends once they have done so again. A server that was killed meanwhile does not answer: the rest is worth a report
    /// all the same.
    pub async fn end(self) -> Watched {
        let client_cpu_s = cpu::own_seconds() - self.cpu_before;
        let counts = [self.counts_before, counts(&self.clients)];
        let after = self.servers.read_at_rest().await;
        let growth = after.and_then(|after| after.since(&self.before));
        Watched { growth: if self.servers.is_empty() { None } else { Some(growth) }, client_cpu_s, counts }
    }
}

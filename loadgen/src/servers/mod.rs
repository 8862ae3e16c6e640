//! What the servers count themselves, and the CPU time that they use.
//!
//! - [`metrics`]: a namenode's `/metrics`
//! - [`cpu`]: CPU time of processes, from /proc
//! - [`machine`]: how busy this machine is

pub mod cpu;
pub mod machine;
pub mod metrics;

use std::collections::BTreeMap;

use self::metrics::Metrics;
use crate::error::{Error, Result};

/// CPU time of a namenode, in its metrics.
const CPU: &str = "process_cpu_seconds_total";
/// When it began, in its metrics: another one's counters began again.
const BEGAN: &str = "process_start_time_seconds";
const CALLS: &str = "trellis_rpc_calls_total";
const CLIENT_PROTOCOL: &str = "ClientProtocol";
const STORE_PREFIX: &str = "trellis_store_";
const STORE_SUFFIX: &str = "_total";

/// Where to read.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    /// `HOST:PORT` of each namenode's `/metrics`.
    pub metrics: Vec<String>,
    /// Processes, for servers without metrics.
    pub pids: Vec<u32>,
}

/// All servers at one time.
#[derive(Debug)]
pub struct Reading {
    metrics: Vec<Metrics>,
    cpu_seconds: f64,
    /// Of each server, when it began, by whatever clock it tells; None: it does not.
    began: Vec<Option<f64>>,
}

/// What the servers did between two readings, summed over all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Growth {
    /// CPU time.
    pub cpu_seconds: f64,
    /// Calls of clients that were answered, by method.
    pub calls: BTreeMap<String, Answers>,
    /// `trellis_store_NAME_total` by NAME.
    pub store: BTreeMap<String, f64>,
}

/// How calls of a method were answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answers {
    /// Without an exception.
    pub ok: u64,
    /// With an exception.
    pub exceptions: u64,
}

impl Servers {
    /// Whether there is anything to read.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty() && self.pids.is_empty()
    }

    /// Reads all, as they are now.
    pub async fn read(&self) -> Result<Reading> {
        self.blocking(Servers::read_now).await
    }

    /// The same once they have come to rest: what a server puts off until later counts.
    pub async fn read_at_rest(&self) -> Result<Reading> {
        self.blocking(|servers| {
            cpu::at_rest(|| servers.cpu_seconds())?;
            servers.read_now()
        })
        .await
    }

    async fn blocking<T: Send + 'static>(&self, read: fn(&Servers) -> Result<T>) -> Result<T> {
        let servers = self.clone();
        let read = tokio::task::spawn_blocking(move || read(&servers));
        read.await
            .map_err(|error| Error::Unreadable(format!("reading the servers' counters failed: {error}")))?
    }

    fn read_now(&self) -> Result<Reading> {
        let metrics: Vec<_> =
            self.metrics.iter().map(|address| Metrics::read(address)).collect::<Result<_>>()?;
        let cpu_seconds = match self.pids.is_empty() {
            true => metrics.iter().map(|metrics| metrics.value(CPU)).sum::<Result<f64>>()?,
            false => self.cpu_seconds()?,
        };
        let began = match self.pids.is_empty() {
            true => metrics.iter().map(|metrics| metrics.value(BEGAN).ok()).collect(),
            false => self
                .pids
                .iter()
                .map(|pid| cpu::began(*pid).map(|began| Some(began as f64)))
                .collect::<Result<_>>()?,
        };
        Ok(Reading { metrics, cpu_seconds, began })
    }

    fn cpu_seconds(&self) -> Result<f64> {
        match self.pids.is_empty() {
            true => self.metrics.iter().map(|address| Metrics::read(address)?.value(CPU)).sum(),
            false => self.pids.iter().map(|pid| cpu::seconds(*pid)).sum(),
        }
    }
}

impl Reading {
    /// What happened since an earlier reading of the same servers.
    ///
    /// # Errors
    /// When a server was restarted: it began at another time, or a counter is smaller than before. What it counted before
    /// that is lost.
    pub fn since(&self, earlier: &Reading) -> Result<Growth> {
        let cpu_seconds = self.cpu_seconds - earlier.cpu_seconds;
        let mut growth = Growth { cpu_seconds, ..Growth::default() };
        let restarted = || {
            Error::Unreadable(
                "a server was restarted meanwhile, and what it had counted until then is lost".into(),
            )
        };
        if self.began != earlier.began {
            return Err(restarted());
        }
        for (now, before) in self.metrics.iter().zip(&earlier.metrics) {
            for (key, value) in now.all() {
                let grown = value - before.value(key).unwrap_or_default();
                let name = key.split('{').next().unwrap_or_default();
                let store = name.strip_prefix(STORE_PREFIX).and_then(|name| name.strip_suffix(STORE_SUFFIX));
                if (store.is_some() || name == CALLS) && grown < 0.0 {
                    return Err(restarted());
                }
                if let Some(store) = store {
                    *growth.store.entry(store.to_owned()).or_default() += grown;
                } else if name == CALLS && metrics::label(key, "protocol") == Some(CLIENT_PROTOCOL) {
                    let Some(method) = metrics::label(key, "method") else { continue };
                    let answers = growth.calls.entry(method.to_owned()).or_default();
                    match metrics::label(key, "outcome") {
                        Some("ok") => answers.ok += grown as u64,
                        _ => answers.exceptions += grown as u64,
                    }
                }
            }
        }
        growth.calls.retain(|_, answers| *answers != Answers::default());
        if cpu_seconds < 0.0 { Err(restarted()) } else { Ok(growth) }
    }
}

impl Growth {
    /// One of the store's counters; 0 when the servers have none.
    pub fn store(&self, name: &str) -> f64 {
        self.store.get(name).copied().unwrap_or_default()
    }

    /// Rows read and written.
    pub fn rows(&self) -> f64 {
        self.store("rows_read") + self.store("rows_written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(text: &str) -> Reading {
        Reading { metrics: vec![Metrics::parse(text)], cpu_seconds: 0.0, began: vec![None] }
    }

    #[test]
    fn growth_is_summed_by_method_and_counter() {
        let before = reading(
            "trellis_store_commits_total 5\ntrellis_rpc_calls_total{protocol=\"ClientProtocol\",method=\"mkdirs\",outcome=\"ok\"} 2",
        );
        let after = reading(
            "trellis_store_commits_total 9\n\
             trellis_rpc_calls_total{protocol=\"ClientProtocol\",method=\"mkdirs\",outcome=\"ok\"} 5\n\
             trellis_rpc_calls_total{protocol=\"ClientProtocol\",method=\"mkdirs\",outcome=\"refused\"} 1\n\
             trellis_rpc_calls_total{protocol=\"ClientProtocol\",method=\"mkdirs\",outcome=\"failed\"} 1\n\
             trellis_rpc_calls_total{protocol=\"ClientProtocol\",method=\"create\",outcome=\"ok\"} 0\n\
             trellis_rpc_calls_total{protocol=\"DatanodeProtocol\",method=\"sendHeartbeat\",outcome=\"ok\"} 7",
        );
        let growth = after.since(&before).expect("it grew");
        assert_eq!(
            growth.calls.into_iter().collect::<Vec<_>>(),
            [("mkdirs".to_owned(), Answers { ok: 3, exceptions: 2 })]
        );
        assert_eq!(growth.store["commits"] as u64, 4);
        let error = before.since(&after).expect_err("it shrank");
        assert!(error.to_string().contains("restarted"), "{error}");
        // One that was restarted may have counted more than the one before it.
        let another = Reading { began: vec![Some(2.0)], ..reading("trellis_store_commits_total 50") };
        let error = another.since(&Reading { began: vec![Some(1.0)], ..before }).expect_err("another");
        assert!(error.to_string().contains("restarted"), "{error}");
    }
}

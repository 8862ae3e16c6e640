//! What an operation demands, taken from a report.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::report::Report;
use crate::scale::level::{mean_delay_us, store_per_op};
use crate::target::Target;

/// What an operation of a workload demands, on average over all of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Demands {
    /// CPU time of namenodes, in microseconds.
    pub namenode_cpu_us: f64,
    /// CPU time of the client.
    pub client_cpu_us: f64,
    /// Calls that clients make.
    pub calls: f64,
    /// Exchanges with the store.
    pub round_trips: f64,
    /// Groups' operations: those that may write.
    pub writes: f64,
    /// Rows read.
    pub rows_read: f64,
    /// Rows written.
    pub rows_written: f64,
    /// How long a group has the embedded store, in microseconds.
    pub hold_us: f64,
    /// Operations in such a group.
    pub group: f64,
    /// What a round trip waits because of the store delay.
    pub trip_us: f64,
    /// What is left of the measured response time: wake-ups, the loopback network, whatever the model does not know.
    pub rest_us: f64,
}

/// Where demands were measured, and how quick that was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Namenodes.
    pub namenodes: u32,
    /// Clients of a closed loop.
    pub clients: u32,
    /// Cores of the machine that all of them shared.
    pub machine_cores: u32,
    /// Operations that were answered, a second.
    pub ops_per_s: f64,
}

impl Demands {
    /// Of a closed loop with the servers' counters; the rest is not known yet, and 0.
    pub fn of(report: &Report) -> Result<(Demands, Measured)> {
        let total = &report.total;
        let answered = total.count + total.refused;
        let missing = |what: &str| {
            Error::refused(format!(
                "the report has no {what}: make one with --metrics of all namenodes, on ours"
            ))
        };
        if report.config.rate.is_some() {
            return Err(Error::refused(
                "the report is of an open loop: calibrate from a closed one (without --rate)",
            ));
        }
        if let Some(warning) = report.counted().warning() {
            return Err(Error::refused(format!("demands are those of servers: {warning}")));
        }
        if answered == 0 {
            return Err(Error::refused("the report has no operations that were answered"));
        }
        let per_op = |counter: &str| store_per_op(report, counter).ok_or_else(|| missing(counter));
        let groups = per_op("groups")?;
        let writes = per_op("grouped_operations")?;
        let calls: u64 = report.calls.values().map(|calls| calls.ok + calls.exceptions).sum();
        let demands = Demands {
            namenode_cpu_us: total.server_cpu_us_per_op.ok_or_else(|| missing("CPU time of servers"))?,
            client_cpu_us: total.client_cpu_us_per_op,
            calls: calls as f64 / answered as f64,
            round_trips: per_op("round_trips")?,
            writes,
            rows_read: per_op("rows_read")?,
            rows_written: per_op("rows_written")?,
            hold_us: if groups > 0.0 { per_op("transaction_us")? / groups } else { 0.0 },
            group: if groups > 0.0 { writes / groups } else { 1.0 },
            trip_us: mean_delay_us(report).unwrap_or_default(),
            rest_us: 0.0,
        };
        let namenodes = Target::parse(&report.config.target)?.addresses().len();
        let measured = Measured {
            namenodes: u32::try_from(namenodes).unwrap_or(u32::MAX),
            clients: report.config.clients,
            machine_cores: total.machine_cores.ok_or_else(|| missing("number of cores"))?,
            ops_per_s: answered as f64 / total.elapsed_s,
        };
        Ok((demands, measured))
    }

    /// The mean of several runs of the same kind; None of nothing.
    pub fn mean(all: &[Demands]) -> Option<Demands> {
        let mean = |part: fn(&Demands) -> f64| all.iter().map(part).sum::<f64>() / all.len() as f64;
        (!all.is_empty()).then(|| Demands {
            namenode_cpu_us: mean(|demands| demands.namenode_cpu_us),
            client_cpu_us: mean(|demands| demands.client_cpu_us),
            calls: mean(|demands| demands.calls),
            round_trips: mean(|demands| demands.round_trips),
            writes: mean(|demands| demands.writes),
            rows_read: mean(|demands| demands.rows_read),
            rows_written: mean(|demands| demands.rows_written),
            hold_us: mean(|demands| demands.hold_us),
            group: mean(|demands| demands.group),
            trip_us: mean(|demands| demands.trip_us),
            rest_us: mean(|demands| demands.rest_us),
        })
    }
}

//! Time-outs and bounds, with HDFS's own defaults where it has one.

use std::time::Duration;

/// One connection's time-outs and bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionConfig {
    /// How long connecting may take, name resolution included (`ipc.client.connect.timeout`).
    pub connect_timeout: Duration,
    /// How long a call may wait for its answer; then it counts as lost. A connection on which nothing at all came for
    /// as long is closed. A stock client waits 120 s (`ipc.client.rpc-timeout.ms`); half of it is enough since a
    /// namenode drops calls that are older than 60 s.
    pub call_timeout: Duration,
    /// A connection that waits for answers and hears nothing for this long sends a ping (`ipc.ping.interval`).
    pub ping_interval: Duration,
    /// A connection without calls is closed after this time (`ipc.client.connection.maxidletime`).
    pub idle_timeout: Duration,
    /// Calls that wait for their answers on one connection; further ones queue up. A call of more than 4 KiB counts
    /// as several, so this bounds the memory of the send buffer too.
    pub max_in_flight: u32,
    /// Largest answer, bytes (`ipc.maximum.response.length`).
    pub max_response_bytes: usize,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(20),
            call_timeout: Duration::from_secs(60),
            ping_interval: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(10),
            max_in_flight: 4096,
            max_response_bytes: trellis_proto::frame::MAX_FRAME_BYTES,
        }
    }
}

/// How often and how long a call is tried (stock's `dfs.client.failover.*` and `dfs.client.retry.*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a call may go on to the next namenode (`dfs.client.failover.max.attempts`).
    pub max_failovers: u32,
    /// How often a call may be sent to the same namenode again since that asked for it
    /// (`dfs.client.retry.max.attempts`).
    pub max_retries: u32,
    /// The first wait; it doubles (`dfs.client.failover.sleep.base.millis`). Every wait is between half of it and
    /// the whole. Namenodes that this call has not tried yet are asked without a wait.
    pub backoff_base: Duration,
    /// The longest wait (`dfs.client.failover.sleep.max.millis`).
    pub backoff_max: Duration,
    /// No further attempt begins this long after the first.
    pub give_up_after: Duration,
    /// While no namenode has ever answered the client, calls wait for none of them any more this long after it was made:
    /// the address is more likely wrong than the namenode on its way back. Each is still asked once.
    pub give_up_unanswered_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_failovers: 15,
            max_retries: 10,
            backoff_base: Duration::from_millis(500),
            backoff_max: Duration::from_secs(15),
            give_up_after: Duration::from_secs(180),
            give_up_unanswered_after: Duration::MAX,
        }
    }
}

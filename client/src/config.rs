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

/// Time-outs and bounds of connections to datanodes, and how often things are tried there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataConfig {
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a datanode may be silent when it has to say something (`dfs.client.socket-timeout`). A pipeline gets
    /// [`DataConfig::timeout_per_node`] more for each of its datanodes.
    pub read_timeout: Duration,
    /// How long a datanode may take nothing of what is sent to it.
    pub write_timeout: Duration,
    /// What a pipeline may take longer for each datanode.
    pub timeout_per_node: Duration,
    /// A writer that has nothing to send says so this often, so that its datanodes do not give it up.
    pub heartbeat_interval: Duration,
    /// Idle connections are kept this long, for the next read (`dfs.client.socketcache.expiryMsec`).
    pub keep_idle: Duration,
    /// And so many of them (`dfs.client.socketcache.capacity`).
    pub max_idle: usize,
    /// Packets of a writer that are not acknowledged yet; more wait (`dfs.client.write.max-packets-in-flight`).
    pub max_unacked_packets: usize,
    /// A reader asks so often for a block's locations again when no datanode serves it
    /// (`dfs.client.max.block.acquire.failures`).
    pub max_acquire_failures: u32,
    /// It waits that long before, at most, and longer each time (`dfs.client.retry.window.base`).
    pub acquire_wait: Duration,
    /// A writer asks so often for a block's datanodes when it cannot connect to them
    /// (`dfs.client.block.write.retries`); and for another datanode in place of a failed one.
    pub max_block_retries: u32,
    /// When no datanode takes a failed one's place: go on with those that are left instead of giving up
    /// (`dfs.client.block.write.replace-datanode-on-failure.best-effort`).
    pub replace_best_effort: bool,
    /// It mends a pipeline so often without having got anything further.
    pub max_recoveries: u32,
    /// A datanode of a pipeline that says that it restarts is waited for that long, if it is on this machine or the only
    /// one (`dfs.client.datanode-restart.timeout`).
    pub restart_timeout: Duration,
    /// While the namenode has not heard of enough copies of a block before the last, a writer asks so often for the next
    /// one (`dfs.client.block.write.locateFollowingBlock.retries`), also to close the file.
    pub max_locate_retries: u32,
    /// The first wait for that; it doubles (`dfs.client.block.write.locateFollowingBlock.initial.delay.ms`).
    pub locate_wait: Duration,
    /// A datanode that a writer could not use is left out for that long
    /// (`dfs.client.write.exclude.nodes.cache.expiry.interval.millis`).
    pub exclude_for: Duration,
    /// Connect to datanodes by their names instead of their addresses (`dfs.client.use.datanode.hostname`).
    pub use_datanode_hostname: bool,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            timeout_per_node: Duration::from_secs(5),
            heartbeat_interval: Duration::from_secs(30),
            keep_idle: Duration::from_secs(3),
            max_idle: 16,
            max_unacked_packets: 80,
            max_acquire_failures: 3,
            acquire_wait: Duration::from_secs(3),
            max_block_retries: 3,
            replace_best_effort: false,
            max_recoveries: 5,
            restart_timeout: Duration::from_secs(30),
            max_locate_retries: 5,
            locate_wait: Duration::from_millis(400),
            exclude_for: Duration::from_secs(600),
            use_datanode_hostname: false,
        }
    }
}

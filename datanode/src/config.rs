//! Settings of a datanode's services, with stock HDFS's defaults where it has one.

use std::time::Duration;

/// How a datanode serves and reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How often each namenode is told that this datanode lives.
    pub heartbeat: Duration,
    /// How often each namenode gets the list of all replicas.
    pub full_report: Duration,
    /// A full report of more replicas goes storage by storage.
    pub report_split: u64,
    /// How long a call to a namenode or datanode may take.
    pub rpc_timeout: Duration,
    /// Data-transfer sessions at a time; more are closed at once.
    pub max_sessions: usize,
    /// How long a sender of data may be silent.
    pub read_timeout: Duration,
    /// How long a receiver of data may take nothing.
    pub write_timeout: Duration,
    /// The two are longer by this for each datanode further down.
    pub timeout_per_node: Duration,
    /// How long a data connection may wait for its next op.
    pub keepalive: Duration,
    /// Memory for packets above 512 KiB, of all sessions together.
    pub large_packet_bytes: usize,
    /// Kept free on a volume for a block that a client begins to write, whose length nobody knows yet.
    pub expected_block: u64,
    /// Copies to other datanodes at a time that the namenode asked for.
    pub max_copies: usize,
    /// Bytes per second of all of them together; 0 = as fast as it goes.
    pub copy_bandwidth: u64,
    /// Blocks that the balancer moves at a time.
    pub max_moves: usize,
    /// Bytes per second that the balancer moves; it may set another value.
    pub balance_bandwidth: u64,
    /// Whether other datanodes are called by their host names instead of their addresses.
    pub use_hostnames: bool,
    /// Connections to the IPC port; more are closed at once.
    pub max_ipc_connections: usize,
    /// Members of this group may shut this datanode down.
    pub supergroup: String,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            heartbeat: Duration::from_secs(3),
            full_report: Duration::from_secs(6 * 3600),
            report_split: 1_000_000,
            rpc_timeout: Duration::from_secs(60),
            max_sessions: 4096,
            read_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(8 * 60),
            timeout_per_node: Duration::from_secs(5),
            keepalive: Duration::from_secs(4),
            large_packet_bytes: 256 << 20,
            expected_block: 128 << 20,
            max_copies: 8,
            copy_bandwidth: 0,
            max_moves: 100,
            balance_bandwidth: 100 << 20,
            use_hostnames: false,
            max_ipc_connections: 1024,
            supergroup: "supergroup".to_owned(),
        }
    }
}

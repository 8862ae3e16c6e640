//! Every setting of a namenode, with stock's name where stock has one.

use std::time::Duration;

/// Settings of a namenode.
#[derive(Clone, Debug)]
pub struct Config {
    /// Longest name in bytes (`dfs.namenode.fs-limits.max-component-length`).
    pub max_component_bytes: usize,
    /// Most children of a directory (`dfs.namenode.fs-limits.max-directory-items`).
    pub max_directory_items: i64,
    /// Smallest block size in bytes (`dfs.namenode.fs-limits.min-block-size`; stock: 1 MiB).
    pub min_block_bytes: u64,
    /// Block size given to clients that name none (`dfs.blocksize`).
    pub block_bytes: u64,
    /// Replication given to clients that name none (`dfs.replication`).
    pub replication: u32,
    /// Smallest replication (`dfs.namenode.replication.min`).
    pub min_replication: u32,
    /// Largest replication (`dfs.replication.max`).
    pub max_replication: u32,
    /// Names a page of a listing (`dfs.ls.limit`).
    pub listing_page: u32,
    /// Open files in a page of their list (`dfs.namenode.list.openfiles.num.responses`).
    pub open_files_page: usize,
    /// Most blocks of a file (`dfs.namenode.fs-limits.max-blocks-per-file`).
    pub max_blocks_per_file: u32,
    /// How long a call that needs replicas to be reported first is kept, before it is told that they are not yet.
    pub report_wait: Duration,
    /// After this without an answer the recovery of a block is begun anew (stock: 90 s).
    pub block_recovery: Duration,
    /// How far an access time may lag (`dfs.namenode.accesstime.precision`); zero = access times are not kept.
    pub atime_precision: Duration,
    /// After this without renewal another client may take a lease over (`dfs.namenode.lease-recheck`, soft limit 60 s).
    pub lease_soft: Duration,
    /// After this without renewal the leader closes the file (`dfs.namenode.lease-hard-limit-sec`).
    pub lease_hard: Duration,
    /// How often the leader looks for expired leases.
    pub lease_check: Duration,
    /// Minutes that clients keep trash (`fs.trash.interval`).
    pub trash_minutes: u64,
    /// How long answers are kept for repeats (stock: 10 min).
    pub retry_kept: Duration,
    /// How often one bucket of the retry cache is swept by the leader.
    pub retry_sweep: Duration,
    /// A call that waited longer is dropped: its client has gone elsewhere.
    pub call_age: Duration,
    /// How often a namenode's heartbeat counter moves.
    pub heartbeat: Duration,
    /// A namenode whose heartbeat counter has not moved for this long is evicted.
    pub member_timeout: Duration,
    /// How often the reaper looks for detached trees when nobody wakes it.
    pub reap_every: Duration,
    /// Inode ids reserved at a time.
    pub id_range: u64,
    /// Members of this group are superusers (`dfs.permissions.superusergroup`).
    pub supergroup: String,
    /// A datanode's heartbeat interval, for the formula of its death (`dfs.heartbeat.interval`).
    pub datanode_heartbeat: Duration,
    /// A datanode silent for longer is stale (`dfs.namenode.stale.datanode.interval`).
    pub datanode_stale: Duration,
    /// One silent for longer than twice this and ten heartbeats is dead
    /// (`dfs.namenode.heartbeat.recheck-interval`).
    pub datanode_recheck: Duration,
    /// How often a namenode looks at the rows of datanodes and of commands.
    pub datanode_poll: Duration,
    /// Whether a datanode's host name must resolve (`dfs.namenode.datanode.registration.ip-hostname-check`).
    pub datanode_ip_hostname_check: bool,
    /// Leases for full block reports at a time (`dfs.namenode.max.full.block.report.leases`).
    pub full_report_leases: usize,
    /// How long such a lease lasts (`dfs.namenode.full.block.report.lease.length.ms`).
    pub full_report_lease: Duration,
    /// How long reports are kept that another namenode is to apply.
    pub kept_reports: Duration,
    /// How often the leader looks after replicas (`dfs.namenode.redundancy.interval.seconds`).
    pub replication_check: Duration,
    /// A copy that has not arrived after this long is ordered again
    /// (`dfs.namenode.reconstruction.pending.timeout-sec`).
    pub replication_pending: Duration,
    /// Copies that one datanode sends at a time (`dfs.namenode.replication.max-streams`).
    pub replication_streams: u32,
    /// Copies ordered in one look, for each live datanode
    /// (`dfs.namenode.replication.work.multiplier.per.iteration`).
    pub replication_work: usize,
    /// A namenode that starts sends clients elsewhere until it has heard of most storages, no longer than this.
    pub ready_wait: Duration,
    /// How much longer every round trip to the store is made to take, for measuring; 0 = not at all.
    pub store_delay: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            max_component_bytes: 255,
            max_directory_items: 1_048_576,
            min_block_bytes: 1024,
            block_bytes: 128 << 20,
            replication: 3,
            min_replication: 1,
            max_replication: 512,
            listing_page: 1000,
            open_files_page: 1000,
            max_blocks_per_file: 10_000,
            report_wait: Duration::from_secs(3),
            block_recovery: Duration::from_secs(30),
            atime_precision: Duration::from_secs(3600),
            lease_soft: Duration::from_secs(60),
            lease_hard: Duration::from_secs(20 * 60),
            lease_check: Duration::from_secs(2),
            trash_minutes: 0,
            retry_kept: Duration::from_secs(600),
            retry_sweep: Duration::from_secs(2),
            call_age: Duration::from_secs(60),
            heartbeat: Duration::from_secs(1),
            member_timeout: Duration::from_secs(5),
            reap_every: Duration::from_secs(2),
            id_range: 100_000,
            supergroup: "supergroup".to_owned(),
            datanode_heartbeat: Duration::from_secs(3),
            datanode_stale: Duration::from_secs(30),
            datanode_recheck: Duration::from_secs(300),
            datanode_poll: Duration::from_secs(1),
            datanode_ip_hostname_check: true,
            full_report_leases: 6,
            full_report_lease: Duration::from_secs(300),
            kept_reports: Duration::from_secs(60),
            replication_check: Duration::from_secs(3),
            replication_pending: Duration::from_secs(300),
            replication_streams: 2,
            replication_work: 2,
            ready_wait: Duration::from_secs(10),
            store_delay: Duration::ZERO,
        }
    }
}

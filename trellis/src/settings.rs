//! THE tables of settings, a namenode's here and a datanode's in [`datanode`]: name, stock's name, meaning.
//! `docs/CONFIG.md` is generated from them.
//!
//! A setting is the field with the same name of one of the parts of [`Settings`]. A field without a line here does not
//! compile.

pub mod datanode;

use std::time::Duration;

use trellis_namenode::config::Config;
use trellis_namenode::rpc::server::Limits;

/// All settings of a namenode.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Of operations and housekeeping.
    pub config: Config,
    /// Of the RPC server.
    pub limits: Limits,
}

/// One setting of those in `S`.
pub struct Setting<S = Settings> {
    /// Its name: in the file, after `--set`, and in capitals after `TRELLIS_` in the environment.
    pub name: &'static str,
    /// What stock HDFS calls it; empty when it has none.
    pub stock: &'static str,
    /// What it means.
    pub help: &'static str,
    /// What a value looks like.
    pub form: &'static str,
    /// Sets it from a text.
    pub set: fn(&mut S, &str) -> Result<(), String>,
    /// Its value as a text that `set` takes.
    pub show: fn(&S) -> String,
}

macro_rules! settings {
    ($settings:ident: $($part:ident: $type:ident { $($name:ident, $stock:literal, $help:literal;)* })*) => {
        /// All settings, in the order of their structs.
        pub const SETTINGS: &[Setting<$settings>] = &[$($(Setting {
            name: stringify!($name),
            stock: $stock,
            help: $help,
            form: form_of(|settings: &$settings| &settings.$part.$name),
            set: |settings, text| {
                settings.$part.$name = Value::parse(text)?;
                Ok(())
            },
            show: |settings| settings.$part.$name.show(),
        },)*)*];

        // Does nothing. It does not compile while a field has no line in the table.
        $(const _: fn($type) = |part| {
            let $type { $($name: _),* } = part;
        };)*
    };
}
use settings;

settings! { Settings:
    config: Config {
        max_component_bytes, "dfs.namenode.fs-limits.max-component-length", "Longest name in bytes.";
        max_directory_items, "dfs.namenode.fs-limits.max-directory-items", "Most children of a directory.";
        min_block_bytes, "dfs.namenode.fs-limits.min-block-size", "Smallest block size that a file may have.";
        block_bytes, "dfs.blocksize", "Block size given to clients that name none.";
        replication, "dfs.replication", "Replication given to clients that name none.";
        min_replication, "dfs.namenode.replication.min", "Smallest replication.";
        max_replication, "dfs.replication.max", "Largest replication.";
        listing_page, "dfs.ls.limit", "Names in a page of a listing.";
        open_files_page, "dfs.namenode.list.openfiles.num.responses", "Files in a page of the list of open files.";
        max_blocks_per_file, "dfs.namenode.fs-limits.max-blocks-per-file", "Most blocks of a file.";
        report_wait, "", "How long a call that needs replicas to be reported first is kept, before it is told that they are not yet.";
        block_recovery, "", "After this long without an answer the recovery of a block is begun anew.";
        atime_precision, "dfs.namenode.accesstime.precision", "How far an access time may lag; 0s = access times are not kept.";
        lease_soft, "", "After this long without renewal another client may take a lease over.";
        lease_hard, "dfs.namenode.lease-hard-limit-sec", "After this long without renewal the leader closes the file.";
        lease_check, "dfs.namenode.lease-recheck-interval-ms", "How often the leader looks for expired leases.";
        trash_minutes, "fs.trash.interval", "Minutes that clients keep trash; 0 = no trash.";
        retry_kept, "dfs.namenode.retrycache.expirytime.millis", "How long answers are kept for repeats of a call.";
        retry_sweep, "", "How often the leader sweeps one bucket of the retry cache.";
        call_age, "", "A call that waited longer is dropped: its client has gone elsewhere.";
        heartbeat, "", "How often a namenode's heartbeat counter moves.";
        member_timeout, "", "A namenode whose heartbeat counter has not moved for this long is evicted.";
        reap_every, "", "How often the reaper looks for deleted trees when nobody wakes it.";
        id_range, "", "Inode ids reserved at a time.";
        supergroup, "dfs.permissions.superusergroup", "Members of this group are superusers.";
        datanode_heartbeat, "dfs.heartbeat.interval", "How often datanodes send heartbeats, for the formula of their death.";
        datanode_stale, "dfs.namenode.stale.datanode.interval", "A datanode silent for longer is stale.";
        datanode_recheck, "dfs.namenode.heartbeat.recheck-interval", "A datanode silent for longer than twice this and ten heartbeats is dead.";
        datanode_poll, "", "How often a namenode looks at the rows of datanodes and of their commands.";
        datanode_ip_hostname_check, "dfs.namenode.datanode.registration.ip-hostname-check", "Whether a datanode's host name must resolve.";
        full_report_leases, "dfs.namenode.max.full.block.report.leases", "Datanodes that may send a full block report at a time.";
        full_report_lease, "dfs.namenode.full.block.report.lease.length.ms", "How long a datanode may take for a full block report.";
        kept_reports, "", "How long reports are kept that another namenode is to apply; ten times as long while none is seen that would.";
        replication_check, "dfs.namenode.redundancy.interval.seconds", "How often the leader looks after replicas.";
        replication_pending, "dfs.namenode.reconstruction.pending.timeout-sec", "A copy that has not arrived after this long is ordered again.";
        replication_streams, "dfs.namenode.replication.max-streams", "Copies that one datanode sends at a time.";
        replication_work, "dfs.namenode.replication.work.multiplier.per.iteration", "Copies ordered in one look, for each live datanode.";
        ready_wait, "", "A namenode that starts sends clients elsewhere until it has heard of most storages, no longer than this.";
        store_delay, "", "For measuring: every round trip to the store waits so long first, as if the store were far away; 0s = not at all.";
    }
    limits: Limits {
        max_connections, "", "Open connections; more are closed at once, so that their clients ask another namenode.";
        max_calls, "", "Calls of one connection that wait for the store; beyond it, nothing is read from it.";
        max_frame_bytes, "ipc.maximum.data.length", "The largest request.";
        large_request_bytes, "", "Memory for all requests above 64 KiB together; at least max_frame_bytes.";
        max_output_bytes, "", "Answers of one connection that wait to be read; beyond it, nothing is read from it.";
        handshake, "", "A connection that has not said who it is for so long is closed.";
        stalled, "", "A connection on which half a request, or an unread answer, has not moved for so long is closed.";
        idle, "ipc.client.connection.maxidletime", "A connection without calls for so long is closed.";
        drain, "", "How long a clean stop waits for calls in flight.";
        rpc_threads, "", "Threads that serve connections; 0 = one per core.";
        proxy_users, "hadoop.proxyuser.NAME.*", "Users that may act for others, whoever they are.";
    }
}

/// A type that a setting may have.
trait Value: Sized {
    /// What a value looks like, for people.
    const FORM: &'static str;
    fn parse(text: &str) -> Result<Self, String>;
    fn show(&self) -> String;
}

const fn form_of<S, T: Value>(_: fn(&S) -> &T) -> &'static str {
    T::FORM
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl Value for $number {
            const FORM: &'static str = "number";
            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("{text:?} is not a number from {} to {}", Self::MIN, Self::MAX))
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )* };
}
numbers!(i64, u64, u32, usize);

impl Value for bool {
    const FORM: &'static str = "true or false";
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("{text:?} is neither true nor false"))
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for String {
    const FORM: &'static str = "text";
    fn parse(text: &str) -> Result<Self, String> {
        match text.is_empty() {
            true => Err("it must not be empty".to_owned()),
            false => Ok(text.to_owned()),
        }
    }
    fn show(&self) -> String {
        self.clone()
    }
}

impl Value for Vec<String> {
    const FORM: &'static str = "texts with commas between";
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }
    fn show(&self) -> String {
        self.join(",")
    }
}

impl Value for Duration {
    const FORM: &'static str = "time: 250ms, 2s, 10m, 1h";
    fn parse(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text).map_err(|_| {
            format!("{text:?} is not a time: give a whole number and ms, s, m, h or days, such as 30s")
        })
    }
    fn show(&self) -> String {
        humantime::format_duration(*self).to_string()
    }
}

/// A heartbeat takes a few round trips, and must come in time all the same.
const STORE_DELAYS_IN_A_HEARTBEAT: u32 = 10;

/// Settings that work together only in some ways: what is wrong, if anything is.
pub fn check(Settings { config, limits }: &Settings) -> Result<(), String> {
    let rules = [
        (
            config.max_component_bytes == 0 || config.max_component_bytes > 255,
            "max_component_bytes must be 1 to 255",
        ),
        (config.max_directory_items < 1, "max_directory_items must be at least 1"),
        (config.min_replication == 0, "min_replication must be at least 1"),
        (config.min_replication > config.max_replication, "min_replication must not exceed max_replication"),
        (
            config.replication < config.min_replication || config.replication > config.max_replication,
            "replication must lie between min_replication and max_replication",
        ),
        (config.block_bytes < config.min_block_bytes, "block_bytes must be at least min_block_bytes"),
        (config.listing_page == 0 || config.listing_page > 4000, "listing_page must be 1 to 4000"),
        (
            config.open_files_page == 0 || config.open_files_page > 10_000,
            "open_files_page must be 1 to 10000",
        ),
        (config.lease_hard < config.lease_soft, "lease_hard must not be shorter than lease_soft"),
        (config.heartbeat.is_zero(), "heartbeat must not be 0"),
        (
            config.member_timeout < config.heartbeat * 2,
            "member_timeout must be at least twice the heartbeat, or live namenodes are evicted",
        ),
        (config.call_age.is_zero(), "call_age must not be 0"),
        (
            config.lease_check.is_zero() || config.retry_sweep.is_zero(),
            "lease_check and retry_sweep must not be 0",
        ),
        (config.reap_every.is_zero(), "reap_every must not be 0"),
        (config.id_range == 0, "id_range must be at least 1"),
        (config.datanode_poll.is_zero(), "datanode_poll must not be 0"),
        (
            config.datanode_stale < config.datanode_heartbeat,
            "datanode_stale must be at least datanode_heartbeat, or live datanodes are stale",
        ),
        (config.replication_check.is_zero(), "replication_check must not be 0"),
        (
            config.replication_streams == 0 || config.replication_work == 0,
            "replication_streams and replication_work must be at least 1",
        ),
        (config.full_report_leases == 0, "full_report_leases must be at least 1"),
        (
            config.store_delay > config.heartbeat / STORE_DELAYS_IN_A_HEARTBEAT,
            "store_delay must be at most a tenth of heartbeat, or namenodes take each other for dead",
        ),
        (
            limits.max_connections == 0 || limits.max_calls == 0,
            "max_connections and max_calls must be at least 1",
        ),
        (limits.max_frame_bytes < 1 << 16, "max_frame_bytes must be at least 65536"),
        (limits.max_output_bytes == 0, "max_output_bytes must be at least 1"),
    ];
    match rules.iter().find(|(broken, _)| *broken) {
        Some((_, why)) => Err((*why).to_owned()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_shown_in_a_form_that_sets_it_again() {
        let default = Settings::default();
        for setting in SETTINGS {
            let shown = (setting.show)(&default);
            let mut other = default.clone();
            (setting.set)(&mut other, &shown).unwrap();
            assert_eq!((setting.show)(&other), shown, "{}", setting.name);
        }
        assert_eq!(check(&default), Ok(()));
    }

    #[test]
    fn times_need_a_unit_and_must_not_overflow() {
        assert_eq!(<Duration as Value>::parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(<Duration as Value>::parse("10min").map(|t| t.show()), Ok("10m".to_owned()));
        for bad in ["5", "s", "-1s", "18446744073709551615h", ""] {
            assert!(<Duration as Value>::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let mut settings = Settings::default();
        settings.config.member_timeout = Duration::from_millis(1);
        assert!(check(&settings).unwrap_err().contains("twice the heartbeat"));
    }
}

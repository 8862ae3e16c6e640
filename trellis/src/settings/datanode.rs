//! THE table of a datanode's settings.

use trellis_datanode::config::Config;
use trellis_datanode::disk::Settings as Disk;

use super::{Setting, Value, form_of, settings};

/// All settings of a datanode.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Of its services.
    pub config: Config,
    /// Of its folders.
    pub disk: Disk,
}

settings! { Settings:
    config: Config {
        heartbeat, "dfs.heartbeat.interval", "How often each namenode is told that this datanode lives.";
        full_report, "dfs.blockreport.intervalMsec", "How often each namenode gets the list of all replicas.";
        report_split, "dfs.blockreport.split.threshold", "A full report of more replicas goes storage by storage.";
        rpc_timeout, "ipc.client.rpc-timeout.ms", "How long a call to a namenode or datanode may take.";
        max_sessions, "dfs.datanode.max.transfer.threads", "Data-transfer sessions at a time; more are closed at once.";
        read_timeout, "dfs.client.socket-timeout", "How long a sender of data may be silent.";
        write_timeout, "dfs.datanode.socket.write.timeout", "How long a receiver of data may take nothing.";
        timeout_per_node, "", "The two are longer by this for each datanode further down.";
        keepalive, "dfs.datanode.socket.reuse.keepalive", "How long a data connection may wait for its next op.";
        large_packet_bytes, "", "Memory for packets above 512 KiB, of all sessions together.";
        expected_block, "dfs.blocksize", "Kept free for a block that a client begins to write, whose length nobody knows yet.";
        max_copies, "", "Copies to other datanodes at a time that the namenode asked for.";
        copy_bandwidth, "dfs.datanode.data.transfer.bandwidthPerSec", "Bytes per second of all these copies together; 0 = as fast as it goes.";
        max_moves, "dfs.datanode.balance.max.concurrent.moves", "Blocks that the balancer moves at a time.";
        balance_bandwidth, "dfs.datanode.balance.bandwidthPerSec", "Bytes per second that the balancer moves; it may set another value.";
        use_hostnames, "dfs.datanode.use.datanode.hostname", "Whether other datanodes are called by their host names instead of their addresses.";
        max_ipc_connections, "", "Connections to the IPC port; more are closed at once.";
        supergroup, "dfs.permissions.superusergroup", "Members of this group may shut a datanode down.";
    }
    disk: Disk {
        sync_on_close, "dfs.datanode.synconclose", "A block's data, sums and names are durable before it counts as finished.";
        reserve_bytes, "dfs.datanode.du.reserved", "Bytes of each folder's disk that replicas never get.";
        deletions_per_second, "", "Replicas whose files are deleted in a second, at most; 0 = no limit.";
        scan_bytes_per_second, "dfs.block.scanner.volume.bytes.per.second", "What the scanner reads in a second from each folder; 0 = only what is suspected.";
        scan_period, "dfs.datanode.scan.period.hours", "How long the scanner takes, at least, from one reading of a replica to the next.";
        names_period, "dfs.datanode.directoryscan.interval", "How often the names on disk are compared with the replicas in memory.";
    }
}

/// Settings that work together only in some ways: what is wrong, if anything is.
pub fn check(Settings { config, .. }: &Settings) -> Result<(), String> {
    let rules = [
        (config.heartbeat.is_zero(), "heartbeat must not be 0"),
        (config.full_report.is_zero(), "full_report must not be 0"),
        (config.read_timeout.is_zero() || config.write_timeout.is_zero(), "time-outs must not be 0"),
        (config.keepalive.is_zero(), "keepalive must not be 0"),
        (
            config.max_sessions == 0 || config.max_ipc_connections == 0,
            "a datanode without connections is none",
        ),
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
}

//! The next datanode of a pipeline.

use std::io;
use std::time::{Duration, Instant};

use trellis_proto::data_transfer::Op;
use trellis_proto::hdfs::{BlockOpResponseProto, DatanodeInfoProto, OpWriteBlockProto};

use super::peer::{Peer, invalid};
use crate::config::Config;
use crate::shared::Shared;

/// A connection on which the next datanode takes a block.
#[derive(Debug)]
pub(crate) struct Mirror {
    /// The connection.
    pub(crate) peer: Peer,
    /// How long it may be silent while acks are due.
    pub(crate) timeout: Duration,
    /// When something was last sent to it.
    pub(crate) last_sent: Instant,
}

impl Mirror {
    /// Connects to the first of `targets`, and has it prepare for what `op` says; the others are further down.
    pub(crate) fn connect(
        shared: &Shared,
        targets: &[DatanodeInfoProto],
        op: &OpWriteBlockProto,
    ) -> io::Result<Mirror> {
        let peer = connect(shared, targets)?;
        peer.send_op(Op::WriteBlock, op)?;
        let timeout = read_timeout(&shared.config, targets.len());
        Ok(Mirror { peer, timeout, last_sent: Instant::now() })
    }

    /// What it says after preparing.
    pub(crate) fn answer(&mut self) -> io::Result<BlockOpResponseProto> {
        self.peer.next_message(self.timeout)
    }

    /// Sends what it takes at once of packets as they came, and says how much that is; 0: nothing for now.
    pub(crate) fn forward(&mut self, packets: &[u8]) -> io::Result<usize> {
        let sent = self.peer.send_some(packets)?;
        if sent > 0 {
            self.last_sent = Instant::now();
        }
        Ok(sent)
    }
}

/// Connects to the first of `targets`.
pub(crate) fn connect(shared: &Shared, targets: &[DatanodeInfoProto]) -> io::Result<Peer> {
    let Some(first) = targets.first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no datanode is named"));
    };
    let config = &shared.config;
    let host = if config.use_hostnames { &first.id.host_name } else { &first.id.ip_addr };
    let connect = read_timeout(config, targets.len());
    let write = config.write_timeout + config.timeout_per_node * nodes(targets.len());
    let connected = u16::try_from(first.id.xfer_port)
        .map_err(invalid)
        .and_then(|port| Peer::connect((host, port), connect, write, shared.large.clone()));
    let mut peer = connected
        .map_err(|error| io::Error::new(error.kind(), format!("{host}:{}: {error}", first.id.xfer_port)))?;
    peer.close_with(&shared.transfers);
    Ok(peer)
}

/// How long `below` datanodes may be silent.
fn read_timeout(config: &Config, below: usize) -> Duration {
    config.read_timeout + config.timeout_per_node * nodes(below)
}

fn nodes(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The op for the next datanode: the same, less this one's part.
pub(crate) fn passed_on(op: &OpWriteBlockProto) -> OpWriteBlockProto {
    fn rest<T: Clone>(all: &[T]) -> Vec<T> {
        all.iter().skip(1).cloned().collect()
    }
    OpWriteBlockProto {
        targets: rest(&op.targets),
        storage_type: op.target_storage_types.first().copied(),
        target_storage_types: rest(&op.target_storage_types),
        pinning: op.target_pinnings.first().copied().or(Some(false)),
        target_pinnings: rest(&op.target_pinnings),
        storage_id: op.target_storage_ids.first().cloned(),
        target_storage_ids: rest(&op.target_storage_ids),
        ..op.clone()
    }
}

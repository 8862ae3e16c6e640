//! What namenodes are told: heartbeats, changes, and full reports, which list every replica of every storage in Hadoop's
//! buffer encoding.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use prost::encoding::encode_varint;
use trellis_proto::hdfs::datanode::{
    DatanodeRegistrationProto, HeartbeatRequestProto, StorageBlockReportProto,
    StorageReceivedDeletedBlocksProto, VolumeFailureSummaryProto,
};
use trellis_proto::hdfs::{DatanodeStorageProto, StorageReportProto};

use super::outbox::Changes;
use super::registration::storage_proto;
use crate::shared::Shared;
use crate::store::{BlockStore, Replica, StorageReport};

/// A report's buffers are at most so long.
const BUFFER_BYTES: usize = 64 << 10;
/// The longest record: four varints.
const RECORD_BYTES: usize = 40;

/// A report, storage by storage, and how many replicas it has. Blocks while the store is walked.
pub(crate) fn full_report(store: &dyn BlockStore) -> (Vec<StorageBlockReportProto>, u64) {
    let mut total = 0;
    let live = store.storages().into_iter().filter(|storage| !storage.failed);
    let reports = live.map(|storage| {
        let mut buffers = Buffers::default();
        store.report(&storage.storage, &mut |replica| buffers.put(replica));
        total += buffers.replicas;
        buffers.into_proto(storage_proto(&storage.storage, storage.storage_type))
    });
    (reports.collect(), total)
}

#[derive(Default)]
struct Buffers {
    full: Vec<Bytes>,
    last: BytesMut,
    replicas: u64,
}

impl Buffers {
    fn put(&mut self, replica: &Replica) {
        if self.last.len() + RECORD_BYTES > BUFFER_BYTES {
            self.full.push(self.last.split().freeze());
        }
        let id = replica.block.id as i64;
        encode_varint(((id << 1) ^ (id >> 63)) as u64, &mut self.last);
        encode_varint(replica.len, &mut self.last);
        encode_varint(replica.block.stamp, &mut self.last);
        encode_varint(replica.state as u64, &mut self.last);
        self.replicas += 1;
    }

    fn into_proto(mut self, storage: DatanodeStorageProto) -> StorageBlockReportProto {
        if !self.last.is_empty() {
            self.full.push(self.last.freeze());
        }
        StorageBlockReportProto {
            storage,
            blocks: Vec::new(),
            number_of_blocks: Some(self.replicas),
            blocks_buffers: self.full,
        }
    }
}

/// Changes as a call carries them.
pub(crate) fn by_storage(shared: &Shared, changes: &Changes) -> Vec<StorageReceivedDeletedBlocksProto> {
    let mut storages = BTreeMap::<_, Vec<_>>::new();
    for ((storage, _), change) in changes {
        storages.entry(storage).or_default().push(change.to_proto());
    }
    // Hadoop still demands the old field.
    #[allow(deprecated)]
    let storages = storages.into_iter().map(|(storage, blocks)| StorageReceivedDeletedBlocksProto {
        storage_uuid: storage.to_string(),
        blocks,
        storage: Some(storage_proto(storage, shared.namenodes.storage_type(storage))),
    });
    storages.collect()
}

/// A heartbeat; `wants_lease`: a full report is due.
pub(crate) fn heartbeat_request(
    registration: &DatanodeRegistrationProto,
    shared: &Shared,
    storages: &[StorageReport],
    wants_lease: bool,
) -> HeartbeatRequestProto {
    let (failed, live): (Vec<_>, Vec<_>) = storages.iter().partition(|storage| storage.failed);
    // Hadoop still demands the old field.
    #[allow(deprecated)]
    let report = |storage: &StorageReport| StorageReportProto {
        storage_uuid: storage.storage.to_string(),
        failed: Some(false),
        capacity: Some(storage.capacity),
        dfs_used: Some(storage.used),
        remaining: Some(storage.remaining),
        block_pool_used: Some(storage.used),
        storage: Some(storage_proto(&storage.storage, storage.storage_type)),
        non_dfs_used: Some(storage.non_dfs_used),
        mount: None,
    };
    let failures = (!failed.is_empty()).then(|| VolumeFailureSummaryProto {
        failed_storage_locations: failed.iter().map(|storage| storage.path.display().to_string()).collect(),
        last_volume_failure_date: shared.namenodes.last_failure_ms(),
        estimated_capacity_lost_total: failed.iter().map(|storage| storage.capacity).sum(),
    });
    HeartbeatRequestProto {
        registration: registration.clone(),
        reports: live.into_iter().map(report).collect(),
        xmits_in_progress: Some(shared.copying.taken() as u32),
        xceiver_count: Some(shared.sessions.taken() as u32),
        failed_volumes: Some(failed.len() as u32),
        cache_capacity: Some(0),
        cache_used: Some(0),
        volume_failure_summary: failures,
        request_full_block_report_lease: Some(wants_lease),
        slow_peers: Vec::new(),
        slow_disks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Block, ReplicaState};

    #[test]
    fn records_as_a_stock_datanode_writes_them() {
        let mut replica = Replica {
            block: Block { id: 1_073_741_825, stamp: 1001 },
            len: 6,
            state: ReplicaState::Finalized,
            storage: "DS-1".into(),
        };
        let mut buffers = Buffers::default();
        buffers.put(&replica);
        (replica.block.id, replica.state) = (-2i64 as u64, ReplicaState::Rbw);
        buffers.put(&replica);
        let report = buffers.into_proto(DatanodeStorageProto::default());
        assert_eq!(report.number_of_blocks, Some(2));
        assert_eq!(report.blocks_buffers, [&b"\x82\x80\x80\x80\x08\x06\xe9\x07\x00\x03\x06\xe9\x07\x01"[..]]);
    }

    #[test]
    fn buffers_are_bounded() {
        let mut buffers = Buffers::default();
        for id in 0..20_000 {
            buffers.put(&Replica {
                block: Block { id: id << 40, stamp: id },
                len: id,
                state: ReplicaState::Finalized,
                storage: "DS-1".into(),
            });
        }
        let report = buffers.into_proto(DatanodeStorageProto::default());
        assert!(report.blocks_buffers.len() > 2);
        assert!(report.blocks_buffers.iter().all(|buffer| buffer.len() <= BUFFER_BYTES));
    }
}

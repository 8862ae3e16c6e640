//! What namenodes are told: heartbeats, changes, and full reports, which list every replica of every storage.

use std::collections::BTreeMap;

use trellis_proto::block_report::{Listed, ReplicaList};
use trellis_proto::hdfs::StorageReportProto;
use trellis_proto::hdfs::datanode::{
    DatanodeRegistrationProto, HeartbeatRequestProto, StorageBlockReportProto,
    StorageReceivedDeletedBlocksProto, VolumeFailureSummaryProto,
};
use trellis_proto::registration::storage_proto;

use super::outbox::Changes;
use crate::shared::Shared;
use crate::store::{BlockStore, StorageReport};

/// A report, storage by storage, and how many replicas it has. Blocks while the store is walked.
pub(crate) fn full_report(store: &dyn BlockStore) -> (Vec<StorageBlockReportProto>, u64) {
    let mut total = 0;
    let live = store.storages().into_iter().filter(|storage| !storage.failed);
    let reports = live.map(|storage| {
        let mut list = ReplicaList::default();
        store.report(&storage.storage, &mut |replica| {
            let (id, stamp) = (replica.block.id, replica.block.stamp);
            list.put(Listed { id, len: replica.len, stamp, state: replica.state as u64 });
        });
        total += list.len();
        list.into_proto(storage_proto(&storage.storage, storage.storage_type))
    });
    (reports.collect(), total)
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

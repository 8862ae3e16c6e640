//! Answers that need no store: defaults, statistics, what there is none of.

use trellis_proto::common::{GetDelegationTokenRequestProto, GetDelegationTokenResponseProto};
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::hdfs;
use trellis_proto::hdfs::{SafeModeActionProto, StorageTypeProto, StorageTypesProto};

use super::call::Caller;
use super::plan::check_superuser;
use super::service::Service;

type Answer<A> = Result<A, RpcError>;

/// Bytes per checksum (`dfs.bytes-per-checksum`).
const BYTES_PER_CHECKSUM: u32 = 512;
/// Bytes per packet that clients send to datanodes (`dfs.client-write-packet-size`).
const WRITE_PACKET_BYTES: u32 = 64 << 10;
/// Buffer of streams (`io.file.buffer.size`).
const FILE_BUFFER_BYTES: u32 = 4096;
/// The storage policy of files that have none of their own.
pub const DEFAULT_POLICY: u32 = 7;
/// `QUOTA_DONT_SET`: leave a quota as it is.
const QUOTA_DONT_SET: u64 = i64::MAX as u64;
/// `QUOTA_RESET`: remove a quota.
const QUOTA_RESET: u64 = u64::MAX;

pub(super) fn server_defaults(
    service: &Service,
    _: &Caller,
    _: hdfs::GetServerDefaultsRequestProto,
) -> Answer<hdfs::GetServerDefaultsResponseProto> {
    let config = service.engine().config();
    let server_defaults = hdfs::FsServerDefaultsProto {
        block_size: config.block_bytes,
        bytes_per_checksum: BYTES_PER_CHECKSUM,
        write_packet_size: WRITE_PACKET_BYTES,
        replication: config.replication,
        file_buffer_size: FILE_BUFFER_BYTES,
        encrypt_data_transfer: Some(false),
        trash_interval: Some(config.trash_minutes),
        checksum_type: Some(hdfs::ChecksumTypeProto::ChecksumCrc32c.into()),
        // Absent would make clients look into their own configuration.
        key_provider_uri: Some(String::new()),
        policy_id: Some(DEFAULT_POLICY),
        snapshot_trash_root_enabled: Some(false),
    };
    Ok(hdfs::GetServerDefaultsResponseProto { server_defaults })
}

/// Number, name, and the storage types for creation, fallback of creation, fallback of replication.
type Policy = (
    u32,
    &'static str,
    &'static [StorageTypeProto],
    &'static [StorageTypeProto],
    &'static [StorageTypeProto],
);

use StorageTypeProto::{Archive, Disk, Nvdimm, Provided, RamDisk, Ssd};

/// Stock's eight storage policies, by number.
#[rustfmt::skip]
pub const POLICIES: &[Policy] = &[
    (1,  "PROVIDED",     &[Provided, Disk], &[Provided, Disk], &[Provided, Disk]),
    (2,  "COLD",         &[Archive],        &[],               &[]),
    (5,  "WARM",         &[Disk, Archive],  &[Disk, Archive],  &[Disk, Archive]),
    (7,  "HOT",          &[Disk],           &[],               &[Archive]),
    (10, "ONE_SSD",      &[Ssd, Disk],      &[Ssd, Disk],      &[Ssd, Disk]),
    (12, "ALL_SSD",      &[Ssd],            &[Disk],           &[Disk]),
    (14, "ALL_NVDIMM",   &[Nvdimm],         &[Disk],           &[Disk]),
    (15, "LAZY_PERSIST", &[RamDisk, Disk],  &[Disk],           &[Disk]),
];

/// A storage policy as clients see it.
pub(super) fn policy_message(
    (id, name, creation, fallback, replication): &Policy,
) -> hdfs::BlockStoragePolicyProto {
    let types = |types: &[StorageTypeProto]| StorageTypesProto {
        storage_types: types.iter().map(|kind| i32::from(*kind)).collect(),
    };
    hdfs::BlockStoragePolicyProto {
        policy_id: *id,
        name: (*name).to_owned(),
        creation_policy: types(creation),
        // Stock leaves out what is empty.
        creation_fallback_policy: (!fallback.is_empty()).then(|| types(fallback)),
        replication_fallback_policy: (!replication.is_empty()).then(|| types(replication)),
    }
}

pub(super) fn storage_policies(
    _: &Service,
    _: &Caller,
    _: hdfs::GetStoragePoliciesRequestProto,
) -> Answer<hdfs::GetStoragePoliciesResponseProto> {
    Ok(hdfs::GetStoragePoliciesResponseProto { policies: POLICIES.iter().map(policy_message).collect() })
}

pub(super) fn ec_block_group_stats(
    _: &Service,
    _: &Caller,
    _: hdfs::GetFsEcBlockGroupStatsRequestProto,
) -> Answer<hdfs::GetFsEcBlockGroupStatsResponseProto> {
    Ok(hdfs::GetFsEcBlockGroupStatsResponseProto {
        highest_prio_low_redundancy_blocks: Some(0),
        ..Default::default()
    })
}

pub(super) fn slow_datanode_report(
    _: &Service,
    _: &Caller,
    _: hdfs::GetSlowDatanodeReportRequestProto,
) -> Answer<hdfs::GetSlowDatanodeReportResponseProto> {
    Ok(hdfs::GetSlowDatanodeReportResponseProto::default())
}

/// There is no safe mode that could be entered: asking for it is refused rather than answered with a lie.
pub(super) fn safe_mode(
    _: &Service,
    caller: &Caller,
    request: hdfs::SetSafeModeRequestProto,
) -> Answer<hdfs::SetSafeModeResponseProto> {
    match request.action() {
        SafeModeActionProto::SafemodeGet => {}
        SafeModeActionProto::SafemodeLeave => check_superuser(caller, "safemode_leave")?,
        SafeModeActionProto::SafemodeForceExit => check_superuser(caller, "safemode_force_exit")?,
        SafeModeActionProto::SafemodeEnter => {
            check_superuser(caller, "safemode_enter")?;
            let why = "There is no safe mode to enter: the namespace is in the metadata store, which is always \
                       consistent. Take write permission away from / to keep users from writing.";
            return Err(RpcError::new(Kind::UnsupportedOperation, why));
        }
    }
    Ok(hdfs::SetSafeModeResponseProto { result: false })
}

pub(super) fn restore_failed_storage(
    _: &Service,
    caller: &Caller,
    request: hdfs::RestoreFailedStorageRequestProto,
) -> Answer<hdfs::RestoreFailedStorageResponseProto> {
    let operation = match request.arg.as_str() {
        "check" => "checkRestoreFailedStorage",
        "true" => "enableRestoreFailedStorage",
        _ => "disableRestoreFailedStorage",
    };
    check_superuser(caller, operation)?;
    if request.arg == "true" {
        let why = "There are no edit directories to restore: the namespace is in the metadata store.";
        return Err(RpcError::new(Kind::UnsupportedOperation, why));
    }
    Ok(hdfs::RestoreFailedStorageResponseProto { result: false })
}

pub(super) fn refresh_nodes(
    _: &Service,
    caller: &Caller,
    _: hdfs::RefreshNodesRequestProto,
) -> Answer<hdfs::RefreshNodesResponseProto> {
    check_superuser(caller, "refreshNodes")?;
    Ok(hdfs::RefreshNodesResponseProto {})
}

pub(super) fn finalize_upgrade(
    _: &Service,
    caller: &Caller,
    _: hdfs::FinalizeUpgradeRequestProto,
) -> Answer<hdfs::FinalizeUpgradeResponseProto> {
    check_superuser(caller, "finalizeUpgrade")?;
    Ok(hdfs::FinalizeUpgradeResponseProto {})
}

pub(super) fn upgrade_status(
    _: &Service,
    _: &Caller,
    _: hdfs::UpgradeStatusRequestProto,
) -> Answer<hdfs::UpgradeStatusResponseProto> {
    Ok(hdfs::UpgradeStatusResponseProto { upgrade_finalized: true })
}

/// No information means: no rolling upgrade is on.
pub(super) fn rolling_upgrade(
    _: &Service,
    caller: &Caller,
    request: hdfs::RollingUpgradeRequestProto,
) -> Answer<hdfs::RollingUpgradeResponseProto> {
    match request.action() {
        hdfs::RollingUpgradeActionProto::Query => check_superuser(caller, "queryRollingUpgrade")?,
        hdfs::RollingUpgradeActionProto::Finalize => check_superuser(caller, "finalizeRollingUpgrade")?,
        hdfs::RollingUpgradeActionProto::Start => {
            check_superuser(caller, "startRollingUpgrade")?;
            let why = "There is no rolling upgrade to prepare: stop and start the namenodes one by one, then run \
                       'trellis store upgrade'.";
            return Err(RpcError::new(Kind::UnsupportedOperation, why));
        }
    }
    Ok(hdfs::RollingUpgradeResponseProto { rolling_upgrade_info: None })
}

pub(super) fn cache_directives(
    _: &Service,
    _: &Caller,
    _: hdfs::ListCacheDirectivesRequestProto,
) -> Answer<hdfs::ListCacheDirectivesResponseProto> {
    Ok(hdfs::ListCacheDirectivesResponseProto::default())
}

pub(super) fn cache_pools(
    _: &Service,
    _: &Caller,
    _: hdfs::ListCachePoolsRequestProto,
) -> Answer<hdfs::ListCachePoolsResponseProto> {
    Ok(hdfs::ListCachePoolsResponseProto::default())
}

pub(super) fn set_quota(
    _: &Service,
    caller: &Caller,
    request: hdfs::SetQuotaRequestProto,
) -> Answer<hdfs::SetQuotaResponseProto> {
    let operation = match (request.namespace_quota, request.storagespace_quota) {
        (QUOTA_RESET, QUOTA_DONT_SET) => "clearQuota",
        (QUOTA_DONT_SET, QUOTA_RESET) => "clearSpaceQuota",
        (_, QUOTA_DONT_SET) => "setQuota",
        _ => "setSpaceQuota",
    };
    check_superuser(caller, operation)?;
    Err(RpcError::new(Kind::UnsupportedOperation, "Quotas are not supported yet."))
}

pub(super) fn delegation_token(
    _: &Service,
    _: &Caller,
    _: GetDelegationTokenRequestProto,
) -> Answer<GetDelegationTokenResponseProto> {
    Ok(GetDelegationTokenResponseProto { token: None })
}

pub(super) fn data_encryption_key(
    _: &Service,
    _: &Caller,
    _: hdfs::GetDataEncryptionKeyRequestProto,
) -> Answer<hdfs::GetDataEncryptionKeyResponseProto> {
    Ok(hdfs::GetDataEncryptionKeyResponseProto { data_encryption_key: None })
}

/// No directory is snapshottable; stock's answer to that.
fn not_snapshottable<A>(path: &str) -> Answer<A> {
    Err(RpcError::new(Kind::Snapshot, format!("Directory is not a snapshottable directory: {path}")))
}

pub(super) fn create_snapshot(
    _: &Service,
    _: &Caller,
    request: hdfs::CreateSnapshotRequestProto,
) -> Answer<hdfs::CreateSnapshotResponseProto> {
    not_snapshottable(&request.snapshot_root)
}

pub(super) fn rename_snapshot(
    _: &Service,
    _: &Caller,
    request: hdfs::RenameSnapshotRequestProto,
) -> Answer<hdfs::RenameSnapshotResponseProto> {
    not_snapshottable(&request.snapshot_root)
}

pub(super) fn delete_snapshot(
    _: &Service,
    _: &Caller,
    request: hdfs::DeleteSnapshotRequestProto,
) -> Answer<hdfs::DeleteSnapshotResponseProto> {
    not_snapshottable(&request.snapshot_root)
}

pub(super) fn snapshots(
    _: &Service,
    _: &Caller,
    request: hdfs::GetSnapshotListingRequestProto,
) -> Answer<hdfs::GetSnapshotListingResponseProto> {
    not_snapshottable(&request.snapshot_root)
}

pub(super) fn snapshot_diff(
    _: &Service,
    _: &Caller,
    request: hdfs::GetSnapshotDiffReportRequestProto,
) -> Answer<hdfs::GetSnapshotDiffReportResponseProto> {
    not_snapshottable(&request.snapshot_root)
}

pub(super) fn snapshot_diff_listing(
    _: &Service,
    _: &Caller,
    request: hdfs::GetSnapshotDiffReportListingRequestProto,
) -> Answer<hdfs::GetSnapshotDiffReportListingResponseProto> {
    not_snapshottable(&request.snapshot_root)
}

pub(super) fn snapshottable_directories(
    _: &Service,
    _: &Caller,
    _: hdfs::GetSnapshottableDirListingRequestProto,
) -> Answer<hdfs::GetSnapshottableDirListingResponseProto> {
    Ok(hdfs::GetSnapshottableDirListingResponseProto { snapshottable_dir_list: None })
}

pub(super) fn create_encryption_zone(
    _: &Service,
    caller: &Caller,
    request: hdfs::CreateEncryptionZoneRequestProto,
) -> Answer<hdfs::CreateEncryptionZoneResponseProto> {
    check_superuser(caller, "createEncryptionZone")?;
    let why =
        format!("Can't create an encryption zone for {} since no key provider is available.", request.src);
    Err(RpcError::new(Kind::Io, why))
}

pub(super) fn encryption_zones(
    _: &Service,
    caller: &Caller,
    _: hdfs::ListEncryptionZonesRequestProto,
) -> Answer<hdfs::ListEncryptionZonesResponseProto> {
    check_superuser(caller, "listEncryptionZones")?;
    Ok(hdfs::ListEncryptionZonesResponseProto::default())
}

pub(super) fn reencryption_status(
    _: &Service,
    caller: &Caller,
    _: hdfs::ListReencryptionStatusRequestProto,
) -> Answer<hdfs::ListReencryptionStatusResponseProto> {
    check_superuser(caller, "listReencryptionStatus")?;
    Ok(hdfs::ListReencryptionStatusResponseProto::default())
}

pub(super) fn ec_policies(
    _: &Service,
    _: &Caller,
    _: hdfs::GetErasureCodingPoliciesRequestProto,
) -> Answer<hdfs::GetErasureCodingPoliciesResponseProto> {
    Ok(hdfs::GetErasureCodingPoliciesResponseProto::default())
}

pub(super) fn ec_codecs(
    _: &Service,
    _: &Caller,
    _: hdfs::GetErasureCodingCodecsRequestProto,
) -> Answer<hdfs::GetErasureCodingCodecsResponseProto> {
    Ok(hdfs::GetErasureCodingCodecsResponseProto::default())
}

pub(super) fn msync(_: &Service, _: &Caller, _: hdfs::MsyncRequestProto) -> Answer<hdfs::MsyncResponseProto> {
    Ok(hdfs::MsyncResponseProto {})
}

pub(super) fn ha_service_state(
    _: &Service,
    _: &Caller,
    _: hdfs::HaServiceStateRequestProto,
) -> Answer<hdfs::HaServiceStateResponseProto> {
    Err(RpcError::new(Kind::ServiceFailed, "HA for namenode is not enabled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_those_of_the_operations() {
        let own = crate::policy::ALL.iter().map(|policy| (policy.id, policy.name));
        assert!(POLICIES.iter().map(|(id, name, ..)| (*id, *name)).eq(own));
    }
}

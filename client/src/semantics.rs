//! What happens if a call is carried out twice: ONE table, by method.
//!
//! From the annotations of Hadoop 3.4.2's `ClientProtocol`. Only [`crate::failover`] looks here, and only after an
//! attempt failed.

use trellis_proto::hdfs::client_namenode_protocol;
use trellis_proto::methods::Service;

/// Whether a call that may have been carried out can be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It changes nothing.
    ReadOnly,
    /// Twice is as good as once.
    Idempotent,
    /// The namenodes' retry cache answers a repeat with the first answer, as long as client id and call id are the
    /// same.
    AtMostOnce,
    /// Nothing is known about it.
    Never,
}

use Repeat::{AtMostOnce, Idempotent, ReadOnly};

/// All methods of ClientProtocol, sorted by name.
#[rustfmt::skip]
pub const CLIENT_PROTOCOL: &[(&str, Repeat)] = &[
    ("abandonBlock", Idempotent),
    ("addBlock", Idempotent),
    ("addCacheDirective", AtMostOnce),
    ("addCachePool", AtMostOnce),
    ("addErasureCodingPolicies", AtMostOnce),
    ("allowSnapshot", Idempotent),
    ("append", AtMostOnce),
    ("cancelDelegationToken", Idempotent),
    ("checkAccess", ReadOnly),
    ("complete", Idempotent),
    ("concat", AtMostOnce),
    ("create", AtMostOnce),
    ("createEncryptionZone", AtMostOnce),
    ("createSnapshot", AtMostOnce),
    ("createSymlink", AtMostOnce),
    ("delete", AtMostOnce),
    ("deleteSnapshot", AtMostOnce),
    ("disableErasureCodingPolicy", AtMostOnce),
    ("disallowSnapshot", Idempotent),
    ("enableErasureCodingPolicy", AtMostOnce),
    ("finalizeUpgrade", Idempotent),
    ("fsync", Idempotent),
    ("getAclStatus", ReadOnly),
    ("getAdditionalDatanode", Idempotent),
    ("getBatchedListing", ReadOnly),
    ("getBlockLocations", ReadOnly),
    ("getContentSummary", ReadOnly),
    ("getCurrentEditLogTxid", ReadOnly),
    ("getDataEncryptionKey", ReadOnly),
    ("getDatanodeReport", ReadOnly),
    ("getDatanodeStorageReport", ReadOnly),
    ("getDelegationToken", Idempotent),
    ("getECTopologyResultForPolicies", ReadOnly),
    ("getEZForPath", ReadOnly),
    ("getEditsFromTxid", ReadOnly),
    ("getEnclosingRoot", ReadOnly),
    ("getErasureCodingCodecs", ReadOnly),
    ("getErasureCodingPolicies", ReadOnly),
    ("getErasureCodingPolicy", ReadOnly),
    ("getFileInfo", ReadOnly),
    ("getFileLinkInfo", ReadOnly),
    ("getFsECBlockGroupStats", ReadOnly),
    ("getFsReplicatedBlockStats", ReadOnly),
    ("getFsStats", ReadOnly),
    ("getHAServiceState", ReadOnly),
    ("getLinkTarget", ReadOnly),
    ("getListing", ReadOnly),
    ("getLocatedFileInfo", ReadOnly),
    ("getPreferredBlockSize", ReadOnly),
    ("getQuotaUsage", ReadOnly),
    ("getServerDefaults", ReadOnly),
    ("getSlowDatanodeReport", ReadOnly),
    ("getSnapshotDiffReport", ReadOnly),
    ("getSnapshotDiffReportListing", ReadOnly),
    ("getSnapshotListing", ReadOnly),
    ("getSnapshottableDirListing", ReadOnly),
    ("getStoragePolicies", ReadOnly),
    ("getStoragePolicy", ReadOnly),
    ("getXAttrs", ReadOnly),
    ("isFileClosed", ReadOnly),
    ("listCacheDirectives", ReadOnly),
    ("listCachePools", ReadOnly),
    ("listCorruptFileBlocks", ReadOnly),
    ("listEncryptionZones", ReadOnly),
    ("listOpenFiles", ReadOnly),
    ("listReencryptionStatus", ReadOnly),
    ("listXAttrs", ReadOnly),
    ("metaSave", Idempotent),
    ("mkdirs", Idempotent),
    ("modifyAclEntries", Idempotent),
    ("modifyCacheDirective", AtMostOnce),
    ("modifyCachePool", AtMostOnce),
    ("msync", ReadOnly),
    ("recoverLease", Idempotent),
    ("reencryptEncryptionZone", AtMostOnce),
    ("refreshNodes", Idempotent),
    ("removeAcl", Idempotent),
    ("removeAclEntries", Idempotent),
    ("removeCacheDirective", AtMostOnce),
    ("removeCachePool", AtMostOnce),
    ("removeDefaultAcl", Idempotent),
    ("removeErasureCodingPolicy", AtMostOnce),
    ("removeXAttr", AtMostOnce),
    ("rename", AtMostOnce),
    ("rename2", AtMostOnce),
    ("renameSnapshot", AtMostOnce),
    ("renewDelegationToken", Idempotent),
    ("renewLease", Idempotent),
    ("reportBadBlocks", Idempotent),
    ("restoreFailedStorage", Idempotent),
    ("rollEdits", Idempotent),
    ("rollingUpgrade", Idempotent),
    ("satisfyStoragePolicy", AtMostOnce),
    ("saveNamespace", AtMostOnce),
    ("setAcl", Idempotent),
    ("setBalancerBandwidth", Idempotent),
    ("setErasureCodingPolicy", AtMostOnce),
    ("setOwner", Idempotent),
    ("setPermission", Idempotent),
    ("setQuota", Idempotent),
    ("setReplication", Idempotent),
    ("setSafeMode", Idempotent),
    ("setStoragePolicy", Idempotent),
    ("setTimes", Idempotent),
    ("setXAttr", AtMostOnce),
    ("truncate", Idempotent),
    ("unsetErasureCodingPolicy", AtMostOnce),
    ("unsetStoragePolicy", Idempotent),
    ("updateBlockForPipeline", Idempotent),
    ("updatePipeline", AtMostOnce),
    ("upgradeStatus", Idempotent),
];

impl Repeat {
    /// Of a method by its wire name. Only ClientProtocol's are known.
    pub fn of(service: &Service, method: &str) -> Repeat {
        if service.protocol != client_namenode_protocol::SERVICE.protocol {
            return Repeat::Never;
        }
        match CLIENT_PROTOCOL.binary_search_by(|(name, _)| (*name).cmp(method)) {
            Ok(at) => CLIENT_PROTOCOL.get(at).map_or(Repeat::Never, |(_, repeat)| *repeat),
            Err(_) => Repeat::Never,
        }
    }

    /// Whether a call that may have been carried out can be sent again, with the same call id.
    pub fn is_safe(self) -> bool {
        self != Repeat::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_method_once() {
        let names: Vec<_> = CLIENT_PROTOCOL.iter().map(|(name, _)| *name).collect();
        let methods: Vec<_> = client_namenode_protocol::SERVICE.methods.iter().map(|m| m.name).collect();
        assert_eq!(names, methods);
    }

    #[test]
    fn looks_up_by_service_and_name() {
        let client = &client_namenode_protocol::SERVICE;
        assert_eq!(Repeat::of(client, "rename"), AtMostOnce);
        assert_eq!(Repeat::of(client, "mkdirs"), Idempotent);
        assert_eq!(Repeat::of(client, "getFileInfo"), ReadOnly);
        assert_eq!(Repeat::of(client, "nope"), Repeat::Never);
        let other = &trellis_proto::hdfs::datanode::datanode_protocol_service::SERVICE;
        assert!(!Repeat::of(other, "blockReport").is_safe());
    }
}

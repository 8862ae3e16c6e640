//! THE table of ClientProtocol: one line per method, all of them, in the protocol's own order.
//!
//! | a line says | meaning |
//! |---|---|
//! | `read(CONSTANT, plan)` | an operation that only reads; where the store is embedded it runs in the connection's task |
//! | `write(…)` | an operation that may write; a repeat is run again and does no harm |
//! | `write_once(…)` | a repeat (same client, same call) gets the first answer, on every namenode; stock's retry cache covers it too |
//! | `write_kept(…)` | the same for methods that overwrite state, which stock lets run again |
//! | `task(…)` | more than one operation, in a task of its own; a repeat is run again and does no harm |
//! | `answer(…)` | answered without the store |
//! | `refuse(…)` | not supported: the exception that stock clients understand, and why; `su`: after stock's check of the caller |
//!
//! The audit name is stock's; a method without one leaves no line, as in stock. How many inodes a call may make, and
//! what its audit line says, is in its plan. docs/COMPAT.md is made from this table.

use super::plan::methods;
use super::{attributes, blocks, cluster, files, fixed, names, reports, status};

#[rustfmt::skip]
methods! {
    /// ClientProtocol.
    CLIENT_PROTOCOL of trellis_proto::hdfs::client_namenode_protocol:
    "getBlockLocations" => read(GET_BLOCK_LOCATIONS, status::block_locations, audit "open", note "a write follows when the access time is due");
    "getServerDefaults" => answer(GET_SERVER_DEFAULTS, fixed::server_defaults);
    "create" => write_once(CREATE, files::create, audit "create");
    "append" => write_once(APPEND, blocks::append, audit "append");
    "setReplication" => write_kept(SET_REPLICATION, attributes::set_replication, audit "setReplication");
    "setStoragePolicy" => refuse(SET_STORAGE_POLICY, UnsupportedOperation, "Attributes cannot be changed yet.");
    "unsetStoragePolicy" => refuse(UNSET_STORAGE_POLICY, UnsupportedOperation, "Attributes cannot be changed yet.");
    "getStoragePolicy" => read(GET_STORAGE_POLICY, status::storage_policy);
    "getStoragePolicies" => answer(GET_STORAGE_POLICIES, fixed::storage_policies);
    "setPermission" => write_kept(SET_PERMISSION, attributes::set_permission, audit "setPermission");
    "setOwner" => write_kept(SET_OWNER, attributes::set_owner, audit "setOwner");
    "abandonBlock" => write(ABANDON_BLOCK, blocks::abandon_block);
    "addBlock" => write(ADD_BLOCK, blocks::add_block);
    "getAdditionalDatanode" => read(GET_ADDITIONAL_DATANODE, blocks::additional_datanode);
    "complete" => write(COMPLETE, blocks::complete, note "answers late rather than false: it waits for replicas to be reported");
    "reportBadBlocks" => task(REPORT_BAD_BLOCKS, reports::client_reports_bad_blocks);
    "concat" => write_once(CONCAT, blocks::concat, audit "concat", note "at most 1000 sources and 4000 of their blocks at once");
    "truncate" => write_kept(TRUNCATE, blocks::truncate, audit "truncate", note "at most 10 000 blocks at once");
    "rename" => write_once(RENAME, names::rename, audit "rename");
    "rename2" => write_once(RENAME2, names::rename2, audit "rename");
    "delete" => write_once(DELETE, names::delete, audit "delete");
    "mkdirs" => write(MKDIRS, names::mkdirs, audit "mkdirs");
    "getListing" => read(GET_LISTING, status::listing, audit "listStatus");
    "getBatchedListing" => read(GET_BATCHED_LISTING, status::batched_listing, audit "listStatus");
    "renewLease" => write(RENEW_LEASE, files::renew_lease);
    "recoverLease" => write(RECOVER_LEASE, files::recover_lease);
    "getFsStats" => read(GET_FS_STATS, cluster::fs_stats, note "blocks in trouble as when their files were last looked at");
    "getFsReplicatedBlockStats" => read(GET_FS_REPLICATED_BLOCK_STATS, cluster::replicated_block_stats, note "as when their files were last looked at; those of the highest priority are not told apart");
    "getFsECBlockGroupStats" => answer(GET_FS_EC_BLOCK_GROUP_STATS, fixed::ec_block_group_stats, note "always 0: there is no erasure coding");
    "getDatanodeReport" => read(GET_DATANODE_REPORT, cluster::datanode_report, note "as this namenode hears of them; no datanode is ever decommissioned; up to 10 000 blocks of a storage are counted");
    "getDatanodeStorageReport" => read(GET_DATANODE_STORAGE_REPORT, cluster::datanode_storage_report, note "the same");
    "getPreferredBlockSize" => read(GET_PREFERRED_BLOCK_SIZE, status::preferred_block_size);
    "setSafeMode" => answer(SET_SAFE_MODE, fixed::safe_mode, note "get and leave; there is no safe mode to enter");
    "saveNamespace" => refuse(SAVE_NAMESPACE, su "saveNamespace", UnsupportedOperation, "There is no image to save: the namespace is in the metadata store. Back the store up instead ('trellis store dump').");
    "rollEdits" => refuse(ROLL_EDITS, su "rollEditLog", UnsupportedOperation, "There is no edit log to roll: the namespace is in the metadata store.");
    "restoreFailedStorage" => answer(RESTORE_FAILED_STORAGE, fixed::restore_failed_storage, note "check answers false: there are no edit directories to restore; the rest is refused");
    "refreshNodes" => answer(REFRESH_NODES, fixed::refresh_nodes, note "nothing to read: there are no lists of datanodes to admit or leave out, as in stock without them");
    "finalizeUpgrade" => answer(FINALIZE_UPGRADE, fixed::finalize_upgrade, note "no upgrade is ever unfinished");
    "upgradeStatus" => answer(UPGRADE_STATUS, fixed::upgrade_status);
    "rollingUpgrade" => answer(ROLLING_UPGRADE, fixed::rolling_upgrade, note "query and finalize; namenodes are upgraded one by one, without a mode for it");
    "listCorruptFileBlocks" => read(LIST_CORRUPT_FILE_BLOCKS, cluster::corrupt_file_blocks);
    "metaSave" => refuse(META_SAVE, su "metaSave", UnsupportedOperation, "A namenode writes no dumps. See its /metrics, or 'trellis store dump'.");
    "getFileInfo" => read(GET_FILE_INFO, status::file_info, audit "getfileinfo");
    "getLocatedFileInfo" => read(GET_LOCATED_FILE_INFO, status::located_file_info, audit "getfileinfo");
    "addCacheDirective" => refuse(ADD_CACHE_DIRECTIVE, UnsupportedOperation, "Centralized caching is not supported.");
    "modifyCacheDirective" => refuse(MODIFY_CACHE_DIRECTIVE, UnsupportedOperation, "Centralized caching is not supported.");
    "removeCacheDirective" => refuse(REMOVE_CACHE_DIRECTIVE, UnsupportedOperation, "Centralized caching is not supported.");
    "listCacheDirectives" => answer(LIST_CACHE_DIRECTIVES, fixed::cache_directives, note "always empty");
    "addCachePool" => refuse(ADD_CACHE_POOL, su "addCachePool", UnsupportedOperation, "Centralized caching is not supported.");
    "modifyCachePool" => refuse(MODIFY_CACHE_POOL, su "modifyCachePool", UnsupportedOperation, "Centralized caching is not supported.");
    "removeCachePool" => refuse(REMOVE_CACHE_POOL, su "removeCachePool", UnsupportedOperation, "Centralized caching is not supported.");
    "listCachePools" => answer(LIST_CACHE_POOLS, fixed::cache_pools, note "always empty");
    "getFileLinkInfo" => read(GET_FILE_LINK_INFO, status::file_link_info, audit "getfileinfo");
    "getContentSummary" => read(GET_CONTENT_SUMMARY, status::content_summary, audit "contentSummary");
    "setQuota" => answer(SET_QUOTA, fixed::set_quota, note "refused after stock's check of the caller: quotas are not supported yet");
    "fsync" => write(FSYNC, blocks::fsync);
    "setTimes" => write_kept(SET_TIMES, attributes::set_times, audit "setTimes");
    "createSymlink" => refuse(CREATE_SYMLINK, UnsupportedOperation, "Symlinks not supported");
    "getLinkTarget" => read(GET_LINK_TARGET, status::link_target, note "refused as stock does for what is no link");
    "updateBlockForPipeline" => write(UPDATE_BLOCK_FOR_PIPELINE, blocks::update_block_for_pipeline);
    "updatePipeline" => write_once(UPDATE_PIPELINE, blocks::update_pipeline);
    "getDelegationToken" => answer(GET_DELEGATION_TOKEN, fixed::delegation_token, note "no token, as stock without security");
    "renewDelegationToken" => refuse(RENEW_DELEGATION_TOKEN, Io, "Delegation Token can be renewed only with kerberos or web authentication");
    "cancelDelegationToken" => refuse(CANCEL_DELEGATION_TOKEN, InvalidToken, "Token not found: this cluster gives out no tokens.");
    "setBalancerBandwidth" => refuse(SET_BALANCER_BANDWIDTH, su "setBalancerBandwidth", UnsupportedOperation, "The balancer is not served yet: there is no bandwidth to set for it.");
    "getDataEncryptionKey" => answer(GET_DATA_ENCRYPTION_KEY, fixed::data_encryption_key, note "no key: data transfer is not encrypted");
    "createSnapshot" => answer(CREATE_SNAPSHOT, fixed::create_snapshot, note "refused as stock does for a directory that is not snapshottable");
    "renameSnapshot" => answer(RENAME_SNAPSHOT, fixed::rename_snapshot, note "refused as stock does for a directory that is not snapshottable");
    "allowSnapshot" => refuse(ALLOW_SNAPSHOT, su "allowSnapshot", Snapshot, "Snapshots are not supported yet.");
    "disallowSnapshot" => refuse(DISALLOW_SNAPSHOT, su "disallowSnapshot", Snapshot, "Snapshots are not supported yet: no directory is snapshottable.");
    "getSnapshottableDirListing" => answer(GET_SNAPSHOTTABLE_DIR_LISTING, fixed::snapshottable_directories, note "always none");
    "getSnapshotListing" => answer(GET_SNAPSHOT_LISTING, fixed::snapshots, note "refused as stock does for a directory that is not snapshottable");
    "deleteSnapshot" => answer(DELETE_SNAPSHOT, fixed::delete_snapshot, note "refused as stock does for a directory that is not snapshottable");
    "getSnapshotDiffReport" => answer(GET_SNAPSHOT_DIFF_REPORT, fixed::snapshot_diff, note "refused as stock does for a directory that is not snapshottable");
    "getSnapshotDiffReportListing" => answer(GET_SNAPSHOT_DIFF_REPORT_LISTING, fixed::snapshot_diff_listing, note "refused as stock does for a directory that is not snapshottable");
    "isFileClosed" => read(IS_FILE_CLOSED, status::is_file_closed, audit "isFileClosed");
    "modifyAclEntries" => refuse(MODIFY_ACL_ENTRIES, Acl, "ACLs are not supported yet.");
    "removeAclEntries" => refuse(REMOVE_ACL_ENTRIES, Acl, "ACLs are not supported yet.");
    "removeDefaultAcl" => refuse(REMOVE_DEFAULT_ACL, Acl, "ACLs are not supported yet.");
    "removeAcl" => refuse(REMOVE_ACL, Acl, "ACLs are not supported yet.");
    "setAcl" => refuse(SET_ACL, Acl, "ACLs are not supported yet.");
    "getAclStatus" => read(GET_ACL_STATUS, status::acl_status, audit "getAclStatus", note "owner, group and mode: there are no further entries");
    "setXAttr" => refuse(SET_X_ATTR, UnsupportedOperation, "Extended attributes are not supported yet.");
    "getXAttrs" => read(GET_X_ATTRS, status::xattrs, audit "getXAttrs", note "always none");
    "listXAttrs" => read(LIST_X_ATTRS, status::xattr_names, audit "listXAttrs", note "always none");
    "removeXAttr" => refuse(REMOVE_X_ATTR, UnsupportedOperation, "Extended attributes are not supported yet.");
    "checkAccess" => read(CHECK_ACCESS, status::check_access, audit "checkAccess");
    "createEncryptionZone" => answer(CREATE_ENCRYPTION_ZONE, fixed::create_encryption_zone, note "refused as stock does without a key provider");
    "listEncryptionZones" => answer(LIST_ENCRYPTION_ZONES, fixed::encryption_zones, note "always none");
    "reencryptEncryptionZone" => refuse(REENCRYPT_ENCRYPTION_ZONE, su "reencryptEncryptionZone", Io, "No key provider is available: there are no encryption zones.");
    "listReencryptionStatus" => answer(LIST_REENCRYPTION_STATUS, fixed::reencryption_status, note "always none");
    "getEZForPath" => read(GET_EZ_FOR_PATH, status::encryption_zone, audit "getEZForPath", note "always none");
    "setErasureCodingPolicy" => refuse(SET_ERASURE_CODING_POLICY, UnsupportedOperation, "Erasure coding is not supported.");
    "unsetErasureCodingPolicy" => refuse(UNSET_ERASURE_CODING_POLICY, NoEcPolicySet, "No erasure coding policy explicitly set: erasure coding is not supported.");
    "getECTopologyResultForPolicies" => refuse(GET_EC_TOPOLOGY_RESULT_FOR_POLICIES, su "getECTopologyResultForPolicies", UnsupportedOperation, "Erasure coding is not supported.");
    "getCurrentEditLogTxid" => refuse(GET_CURRENT_EDIT_LOG_TXID, su "getCurrentEditLogTxid", UnsupportedOperation, "There is no stream of edits: the namespace is in the metadata store.");
    "getEditsFromTxid" => refuse(GET_EDITS_FROM_TXID, su "getEditsFromTxid", UnsupportedOperation, "There is no stream of edits: the namespace is in the metadata store.");
    "getErasureCodingPolicies" => answer(GET_ERASURE_CODING_POLICIES, fixed::ec_policies, note "always none");
    "addErasureCodingPolicies" => refuse(ADD_ERASURE_CODING_POLICIES, su "addErasureCodingPolicies", UnsupportedOperation, "Erasure coding is not supported.");
    "removeErasureCodingPolicy" => refuse(REMOVE_ERASURE_CODING_POLICY, su "removeErasureCodingPolicy", UnsupportedOperation, "Erasure coding is not supported.");
    "enableErasureCodingPolicy" => refuse(ENABLE_ERASURE_CODING_POLICY, su "enableErasureCodingPolicy", UnsupportedOperation, "Erasure coding is not supported.");
    "disableErasureCodingPolicy" => refuse(DISABLE_ERASURE_CODING_POLICY, su "disableErasureCodingPolicy", UnsupportedOperation, "Erasure coding is not supported.");
    "getErasureCodingPolicy" => read(GET_ERASURE_CODING_POLICY, status::ec_policy, audit "getErasureCodingPolicy", note "always none");
    "getErasureCodingCodecs" => answer(GET_ERASURE_CODING_CODECS, fixed::ec_codecs, note "always none");
    "getQuotaUsage" => read(GET_QUOTA_USAGE, status::quota_usage, audit "quotaUsage", note "usage is counted; there are no quotas");
    "listOpenFiles" => read(LIST_OPEN_FILES, files::open_files, audit "listOpenFiles", note "none keeps a datanode from being decommissioned: none ever is");
    "msync" => answer(MSYNC, fixed::msync, note "nothing to wait for: every namenode answers from the store");
    "satisfyStoragePolicy" => refuse(SATISFY_STORAGE_POLICY, Io, "Cannot request to satisfy storage policy when storage policy satisfier feature has been disabled by admin. Seek for an admin help to enable it or use Mover tool.");
    "getHAServiceState" => answer(GET_HA_SERVICE_STATE, fixed::ha_service_state, note "refused as stock does without HA: every namenode is active");
    "getSlowDatanodeReport" => answer(GET_SLOW_DATANODE_REPORT, fixed::slow_datanode_report, note "always empty yet");
    "getEnclosingRoot" => read(GET_ENCLOSING_ROOT, status::enclosing_root, note "always /");
}

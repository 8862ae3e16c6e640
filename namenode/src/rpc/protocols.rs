//! The tables of the other protocols that share the namenode's port, in the form of [`super::client_protocol`].

use trellis_proto::common;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::hdfs::nnha_status_heartbeat_proto::State;
use trellis_proto::hdfs::{VersionRequestProto, VersionResponseProto, namenode};

use super::call::Caller;
use super::plan::{check_superuser, methods};
use super::service::Service;
use super::{blocks, datanode, reports};

#[rustfmt::skip]
methods! {
    /// DatanodeProtocol. Never an exception that makes a DataNode give up for good.
    DATANODE_PROTOCOL of trellis_proto::hdfs::datanode::datanode_protocol_service:
    "registerDatanode" => task(REGISTER_DATANODE, datanode::register);
    "sendHeartbeat" => task(SEND_HEARTBEAT, datanode::heartbeat);
    "blockReport" => task(BLOCK_REPORT, reports::block_report);
    "cacheReport" => answer(CACHE_REPORT, reports::cache_report, note "nothing is noted: centralized caching is not supported");
    "blockReceivedAndDeleted" => task(BLOCK_RECEIVED_AND_DELETED, reports::received_and_deleted);
    "errorReport" => answer(ERROR_REPORT, datanode::error_report);
    "versionRequest" => answer(VERSION_REQUEST, datanode::version_request);
    "reportBadBlocks" => task(REPORT_BAD_BLOCKS, reports::report_bad_blocks);
    "commitBlockSynchronization" => write(COMMIT_BLOCK_SYNCHRONIZATION, blocks::commit_block_synchronization);
}

#[rustfmt::skip]
methods! {
    /// NamenodeProtocol: what nnbench, the balancer and checkpointing namenodes ask.
    NAMENODE_PROTOCOL of trellis_proto::hdfs::namenode::namenode_protocol_service:
    "getBlocks" => refuse(GET_BLOCKS, su "getBlocks", UnsupportedOperation, "The balancer is not served yet: blocks are not listed for it.");
    "getBlockKeys" => answer(GET_BLOCK_KEYS, block_keys, note "no keys: block tokens are off");
    "getTransactionId" => refuse(GET_TRANSACTION_ID, su "getTransactionID", UnsupportedOperation, "There is no edit log: the namespace is in the metadata store.");
    "getMostRecentCheckpointTxId" => refuse(GET_MOST_RECENT_CHECKPOINT_TX_ID, su "getMostRecentCheckpointTxId", UnsupportedOperation, "There are no checkpoints: the namespace is in the metadata store.");
    "rollEditLog" => refuse(ROLL_EDIT_LOG, su "rollEditLog", UnsupportedOperation, "There is no edit log to roll: the namespace is in the metadata store.");
    "versionRequest" => answer(VERSION_REQUEST, version_request);
    "errorReport" => refuse(ERROR_REPORT, su "errorReport", UnsupportedOperation, "There are no subordinate namenodes: all are active.");
    "registerSubordinateNamenode" => refuse(REGISTER_SUBORDINATE_NAMENODE, su "registerSubordinateNamenode", UnsupportedOperation, "There are no subordinate namenodes: all are active.");
    "startCheckpoint" => refuse(START_CHECKPOINT, su "startCheckpoint", UnsupportedOperation, "There are no checkpoints: the namespace is in the metadata store.");
    "endCheckpoint" => refuse(END_CHECKPOINT, su "endCheckpoint", UnsupportedOperation, "There are no checkpoints: the namespace is in the metadata store.");
    "getEditLogManifest" => refuse(GET_EDIT_LOG_MANIFEST, su "getEditLogManifest", UnsupportedOperation, "There is no edit log: the namespace is in the metadata store.");
    "isUpgradeFinalized" => answer(IS_UPGRADE_FINALIZED, upgrade_finalized);
    "isRollingUpgrade" => answer(IS_ROLLING_UPGRADE, rolling_upgrade);
    "getNextSPSPath" => refuse(GET_NEXT_SPS_PATH, su "getNextSPSPath", Io, "The storage policy satisfier is disabled.");
}

#[rustfmt::skip]
methods! {
    /// HAServiceProtocol: every namenode is active, there is nothing to switch.
    HA_SERVICE_PROTOCOL of trellis_proto::common::ha_service_protocol_service:
    "monitorHealth" => answer(MONITOR_HEALTH, monitor_health);
    "transitionToActive" => refuse(TRANSITION_TO_ACTIVE, su "transitionToActive", ServiceFailed, "HA for namenode is not enabled");
    "transitionToStandby" => refuse(TRANSITION_TO_STANDBY, su "transitionToStandby", ServiceFailed, "HA for namenode is not enabled");
    "transitionToObserver" => refuse(TRANSITION_TO_OBSERVER, su "transitionToObserver", ServiceFailed, "HA for namenode is not enabled");
    "getServiceStatus" => refuse(GET_SERVICE_STATUS, ServiceFailed, "HA for namenode is not enabled");
}

#[rustfmt::skip]
methods! {
    /// GetUserMappingsProtocol: `hdfs groups`.
    GET_USER_MAPPINGS of trellis_proto::common::get_user_mappings_protocol_service:
    "getGroupsForUser" => answer(GET_GROUPS_FOR_USER, groups_for_user);
}

#[rustfmt::skip]
methods! {
    /// RefreshUserMappingsProtocol: `hdfs dfsadmin -refreshUserToGroupsMappings`.
    REFRESH_USER_MAPPINGS of trellis_proto::common::refresh_user_mappings_protocol_service:
    "refreshUserToGroupsMappings" => answer(REFRESH_USER_TO_GROUPS_MAPPINGS, refresh_groups);
    "refreshSuperUserGroupsConfiguration" => answer(REFRESH_SUPER_USER_GROUPS_CONFIGURATION, refresh_proxy_users, note "nothing to read: who may act for others is set at the start");
}

#[rustfmt::skip]
methods! {
    /// RefreshAuthorizationPolicyProtocol.
    REFRESH_AUTHORIZATION_POLICY of trellis_proto::common::refresh_authorization_policy_protocol_service:
    "refreshServiceAcl" => refuse(REFRESH_SERVICE_ACL, Authorization, "Service Level Authorization not enabled!");
}

#[rustfmt::skip]
methods! {
    /// RefreshCallQueueProtocol.
    REFRESH_CALL_QUEUE of trellis_proto::common::refresh_call_queue_protocol_service:
    "refreshCallQueue" => answer(REFRESH_CALL_QUEUE, refresh_call_queue, note "nothing to read: there is no call queue to configure");
}

#[rustfmt::skip]
methods! {
    /// GenericRefreshProtocol.
    GENERIC_REFRESH of trellis_proto::common::generic_refresh_protocol_service:
    "refresh" => answer(REFRESH, generic_refresh, note "no identifier is registered");
}

#[rustfmt::skip]
methods! {
    /// ReconfigurationProtocol: `hdfs dfsadmin -reconfig`.
    RECONFIGURATION of trellis_proto::hdfs::reconfiguration_protocol_service:
    "getReconfigurationStatus" => refuse(GET_RECONFIGURATION_STATUS, su "getNamenodeReconfigurationStatus", UnsupportedOperation, "Settings of a running namenode cannot be changed: start it anew.");
    "startReconfiguration" => refuse(START_RECONFIGURATION, su "startNamenodeReconfiguration", UnsupportedOperation, "Settings of a running namenode cannot be changed: start it anew.");
    "listReconfigurableProperties" => answer(LIST_RECONFIGURABLE_PROPERTIES, reconfigurable_properties, note "always none");
}

type Answer<A> = Result<A, RpcError>;

fn version_request(service: &Service, _: &Caller, _: VersionRequestProto) -> Answer<VersionResponseProto> {
    Ok(VersionResponseProto { info: service.identity().namespace_info(State::Active) })
}

fn block_keys(
    _: &Service,
    caller: &Caller,
    _: namenode::GetBlockKeysRequestProto,
) -> Answer<namenode::GetBlockKeysResponseProto> {
    check_superuser(caller, "getBlockKeys")?;
    Ok(namenode::GetBlockKeysResponseProto { keys: None })
}

fn upgrade_finalized(
    _: &Service,
    caller: &Caller,
    _: namenode::IsUpgradeFinalizedRequestProto,
) -> Answer<namenode::IsUpgradeFinalizedResponseProto> {
    check_superuser(caller, "isUpgradeFinalized")?;
    Ok(namenode::IsUpgradeFinalizedResponseProto { is_upgrade_finalized: true })
}

fn rolling_upgrade(
    _: &Service,
    caller: &Caller,
    _: namenode::IsRollingUpgradeRequestProto,
) -> Answer<namenode::IsRollingUpgradeResponseProto> {
    check_superuser(caller, "isRollingUpgrade")?;
    Ok(namenode::IsRollingUpgradeResponseProto { is_rolling_upgrade: false })
}

fn monitor_health(
    _: &Service,
    caller: &Caller,
    _: common::MonitorHealthRequestProto,
) -> Answer<common::MonitorHealthResponseProto> {
    check_superuser(caller, "monitorHealth")?;
    Ok(common::MonitorHealthResponseProto {})
}

/// Groups as this namenode sees them; none for a user that its host does not know.
fn groups_for_user(
    service: &Service,
    _: &Caller,
    request: common::GetGroupsForUserRequestProto,
) -> Answer<common::GetGroupsForUserResponseProto> {
    if request.user.is_empty() {
        return Err(RpcError::new(Kind::IllegalArgument, "Null user"));
    }
    Ok(common::GetGroupsForUserResponseProto {
        groups: service.engine().users().get(&request.user).groups.clone(),
    })
}

/// Stricter than stock, which leaves this to an authorization policy that is off by default.
fn refresh_groups(
    service: &Service,
    caller: &Caller,
    _: common::RefreshUserToGroupsMappingsRequestProto,
) -> Answer<common::RefreshUserToGroupsMappingsResponseProto> {
    check_superuser(caller, "refreshUserToGroupsMappings")?;
    service.engine().users().refresh();
    Ok(common::RefreshUserToGroupsMappingsResponseProto {})
}

fn refresh_proxy_users(
    _: &Service,
    caller: &Caller,
    _: common::RefreshSuperUserGroupsConfigurationRequestProto,
) -> Answer<common::RefreshSuperUserGroupsConfigurationResponseProto> {
    check_superuser(caller, "refreshSuperUserGroupsConfiguration")?;
    Ok(common::RefreshSuperUserGroupsConfigurationResponseProto {})
}

fn refresh_call_queue(
    _: &Service,
    caller: &Caller,
    _: common::RefreshCallQueueRequestProto,
) -> Answer<common::RefreshCallQueueResponseProto> {
    check_superuser(caller, "refreshCallQueue")?;
    Ok(common::RefreshCallQueueResponseProto {})
}

/// As stock answers an identifier that nobody has registered.
fn generic_refresh(
    _: &Service,
    _: &Caller,
    request: common::GenericRefreshRequestProto,
) -> Answer<common::GenericRefreshResponseCollectionProto> {
    let identifier = request.identifier();
    let response = common::GenericRefreshResponseProto {
        exit_status: Some(-1),
        user_message: Some(format!(
            "Identifier '{identifier}' does not exist in RefreshRegistry. Valid options are: "
        )),
        sender_name: None,
    };
    Ok(common::GenericRefreshResponseCollectionProto { responses: vec![response] })
}

fn reconfigurable_properties(
    _: &Service,
    caller: &Caller,
    _: trellis_proto::hdfs::ListReconfigurablePropertiesRequestProto,
) -> Answer<trellis_proto::hdfs::ListReconfigurablePropertiesResponseProto> {
    check_superuser(caller, "listNamenodeReconfigurableProperties")?;
    Ok(trellis_proto::hdfs::ListReconfigurablePropertiesResponseProto::default())
}

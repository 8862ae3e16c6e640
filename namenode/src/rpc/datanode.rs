//! DatanodeProtocol: datanodes come, live, and are told what to do. What they report of replicas: `reports`.
//!
//! A DataNode ends its service for good when it is answered one of three exceptions, so only one that is to leave gets
//! them, and only when it registers. In a heartbeat, one that is not known is asked to register.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use trellis_metastore::schema::Datanode;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::hdfs::datanode as wire;
use trellis_proto::hdfs::datanode::DatanodeRegistrationProto;
use trellis_proto::hdfs::nnha_status_heartbeat_proto::State;
use trellis_proto::hdfs::{
    DatanodeIdProto, DatanodeStorageProto, NnhaStatusHeartbeatProto, StorageReportProto, StorageTypeProto,
    VersionRequestProto, VersionResponseProto,
};

use super::call::Caller;
use super::commands;
use super::service::Service;
use crate::datanodes::counts::add;
use crate::datanodes::heartbeats;
use crate::datanodes::registry::{Beat, Lease};
use crate::datanodes::view::Space;
use crate::ops::datanodes::ToldStorage;

pub(super) type Answer<A> = Result<A, RpcError>;

/// The oldest software that may register, as stock (`dfs.namenode.min.supported.datanode.version`).
const OLDEST_VERSION: [u32; 3] = [2, 1, 0];
/// How long a host name may take to resolve.
const RESOLVE: Duration = Duration::from_secs(5);
/// Commands in one heartbeat's answer (stock: `dfs.block.invalidate.limit`).
pub(super) const COMMANDS: usize = 1000;
/// The error by which a datanode says that it ends.
const FATAL_DISK_ERROR: u32 = 3;

/// Never ACTIVE: a DataNode that holds no active namenode takes whoever says so first. Heartbeats tell.
pub(super) fn version_request(
    service: &Service,
    _: &Caller,
    _: VersionRequestProto,
) -> Answer<VersionResponseProto> {
    Ok(VersionResponseProto { info: service.identity().namespace_info(State::Standby) })
}

/// What a datanode says of itself.
fn said(registration: &DatanodeRegistrationProto) -> Datanode {
    let DatanodeIdProto {
        ip_addr,
        host_name,
        datanode_uuid,
        xfer_port,
        info_port,
        ipc_port,
        info_secure_port,
    } = &registration.datanode_id;
    Datanode {
        uuid: datanode_uuid.clone(),
        ip: ip_addr.clone(),
        host: host_name.clone(),
        data_port: *xfer_port,
        http_port: *info_port,
        https_port: info_secure_port.unwrap_or(0),
        ipc_port: *ipc_port,
        version: registration.software_version.clone(),
        ..Datanode::default()
    }
}

pub(super) async fn register(
    service: Arc<Service>,
    caller: Caller,
    request: wire::RegisterDatanodeRequestProto,
) -> Answer<wire::RegisterDatanodeResponseProto> {
    let mut registration = request.registration;
    check_version(&registration.software_version)?;
    check_cluster(&service, &registration)?;
    let mut said = said(&registration);
    if said.uuid.is_empty() {
        return Err(RpcError::new(Kind::Io, "a datanode without a uuid"));
    }
    let engine = service.engine();
    if engine.config().datanode_ip_hostname_check {
        check_host(&caller.machine, &said.host).await?;
    }
    caller.machine.as_ref().clone_into(&mut said.ip);
    registration.datanode_id.ip_addr.clone_from(&said.ip);
    let row = heartbeats::register(engine, said).await?;
    tracing::info!(
        uuid = row.uuid,
        ip = row.ip,
        port = row.data_port,
        host = row.host,
        "a datanode registered"
    );
    Ok(wire::RegisterDatanodeResponseProto { registration })
}

/// Refuses a datanode whose host name leads nowhere; one of this machine may have any.
pub async fn check_host(ip: &str, host: &str) -> Result<(), RpcError> {
    if ip.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) || host == ip {
        return Ok(());
    }
    match tokio::time::timeout(RESOLVE, tokio::net::lookup_host((host, 0))).await {
        Ok(Ok(_)) => Ok(()),
        _ => {
            let why = format!("hostname cannot be resolved (ip={ip}, hostname={host})");
            Err(RpcError::new(
                Kind::DisallowedDatanode,
                format!("Datanode denied communication with namenode because {why}"),
            ))
        }
    }
}

fn check_version(version: &str) -> Result<(), RpcError> {
    let mut parts = version.split(['.', '-', '_']).map_while(|part| part.parse::<u32>().ok());
    let numbers: [u32; 3] = std::array::from_fn(|_| parts.next().unwrap_or(0));
    if numbers >= OLDEST_VERSION {
        return Ok(());
    }
    let why = format!("The reported DataNode version is too low: '{version}', at least 2.1.0-beta is needed");
    Err(RpcError::new(Kind::IncorrectVersion, why))
}

/// A datanode of another cluster is to leave.
fn check_cluster(service: &Service, registration: &DatanodeRegistrationProto) -> Result<(), RpcError> {
    let (identity, info) = (service.identity(), &registration.storage_info);
    if info.namespce_id == identity.namespace_id && info.cluster_id == identity.cluster_id {
        return Ok(());
    }
    let why = format!(
        "Registration IDs mismatched: the DataNode is of namespace {} in cluster {}, this namenode of namespace {} in \
         cluster {}",
        info.namespce_id, info.cluster_id, identity.namespace_id, identity.cluster_id
    );
    Err(RpcError::new(Kind::UnregisteredNode, why))
}

pub(super) fn check_pool(service: &Service, pool: &str) -> Result<(), RpcError> {
    match service.identity().block_pool_id == pool {
        true => Ok(()),
        false => Err(RpcError::new(Kind::Io, format!("block pool {pool} is not of this cluster"))),
    }
}

/// A storage as reports name it: in a message of its own or, by old software, by its uuid alone.
pub(super) fn told(storage: Option<&DatanodeStorageProto>, uuid: &str, failed: bool) -> ToldStorage {
    let kind = storage.and_then(|storage| storage.storage_type).unwrap_or(StorageTypeProto::Disk.into());
    let uuid = storage.map_or(uuid, |storage| &storage.storage_uuid).to_owned();
    ToldStorage { uuid, kind, failed }
}

fn beat(request: &wire::HeartbeatRequestProto) -> Beat {
    #[allow(deprecated, reason = "old software names storages so")]
    let storage = |report: &StorageReportProto| {
        let space = Space {
            capacity: report.capacity(),
            used: report.dfs_used(),
            remaining: report.remaining(),
            pool_used: report.block_pool_used(),
            other_used: report.non_dfs_used(),
        };
        (told(report.storage.as_ref(), &report.storage_uuid, report.failed()), space)
    };
    Beat {
        storages: request.reports.iter().map(storage).collect(),
        load: request.xceiver_count().max(request.xmits_in_progress()),
        copies: request.xmits_in_progress(),
    }
}

pub(super) async fn heartbeat(
    service: Arc<Service>,
    _: Caller,
    request: wire::HeartbeatRequestProto,
) -> Answer<wire::HeartbeatResponseProto> {
    let (engine, said, beat) = (service.engine(), said(&request.registration), beat(&request));
    let wants_lease = request.request_full_block_report_lease();
    let lease = wants_lease.then(|| rand::random_range(1..i64::MAX as u64));
    let answered = heartbeats::heartbeat(engine, &said, &beat, lease, COMMANDS).await?;
    let mut orders = Vec::new();
    if answered.must_register {
        orders.push(commands::register());
    }
    let given = &answered.commands;
    add(&engine.datanodes().counts().commands, given.len());
    orders.extend(commands::commands(&service.identity().block_pool_id, &engine.datanodes().view(), given));
    Ok(match answered.epoch {
        Some(epoch) => answer(State::Active, epoch, orders, answered.lease),
        None => answer(State::Standby, 0, orders, None),
    })
}

fn answer(
    state: State,
    txid: u64,
    cmds: Vec<wire::DatanodeCommandProto>,
    lease: Option<Lease>,
) -> wire::HeartbeatResponseProto {
    wire::HeartbeatResponseProto {
        cmds,
        ha_status: NnhaStatusHeartbeatProto { state: state.into(), txid },
        full_block_report_lease_id: Some(lease.map_or(0, |lease| lease.id)),
        ..wire::HeartbeatResponseProto::default()
    }
}

pub(super) fn error_report(
    service: &Service,
    _: &Caller,
    request: wire::ErrorReportRequestProto,
) -> Answer<wire::ErrorReportResponseProto> {
    let uuid = &request.registartion.datanode_id.datanode_uuid;
    let (code, message) = (request.error_code, &request.msg);
    tracing::warn!(uuid, code, message, "a datanode reports an error");
    if code == FATAL_DISK_ERROR {
        service.engine().datanodes().registry().lost(uuid);
        service.engine().datanodes().show();
    }
    Ok(wire::ErrorReportResponseProto {})
}

//! What the IPC port answers: ClientDatanodeProtocol and InterDatanodeProtocol, method by method.

use std::ffi::CString;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::task::JoinError;
use trellis_client::user::default_user;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::hdfs::{
    self, BlockProto, DatanodeLocalInfoProto, DatanodeVolumeInfoProto, DeleteBlockPoolRequestProto,
    EvictWritersResponseProto, GetBalancerBandwidthResponseProto, GetDatanodeInfoResponseProto,
    GetReplicaVisibleLengthRequestProto, GetReplicaVisibleLengthResponseProto, GetVolumeReportResponseProto,
    InitReplicaRecoveryRequestProto, InitReplicaRecoveryResponseProto, ShutdownDatanodeRequestProto,
    ShutdownDatanodeResponseProto, TriggerBlockReportRequestProto, TriggerBlockReportResponseProto,
    UpdateReplicaUnderRecoveryRequestProto, UpdateReplicaUnderRecoveryResponseProto,
    client_datanode_protocol_service as client, inter_datanode_protocol_service as inter,
};
use trellis_proto::methods::Service;
use trellis_proto::presence::decode_request;
use trellis_proto::registration::SOFTWARE_VERSION;
use trellis_proto::rpc::{Call, Context, reply};

use crate::namenodes::outbox::Wanted;
use crate::refusal::exception;
use crate::shared::{Shared, blocking};
use crate::store::{Block, StoreError};

/// The protocols of the port.
pub(super) static PROTOCOLS: &[&Service] =
    &[&client::SERVICE, &inter::SERVICE, &hdfs::reconfiguration_protocol_service::SERVICE];

/// The visible length of a replica of which no byte is (-1), as of one that was being written when its datanode stopped.
const NOTHING_VISIBLE: u64 = u64::MAX;

/// Who calls, believed as it is.
#[derive(Debug, Clone)]
pub(super) struct Caller(String);

impl Caller {
    /// The user of a connection.
    pub(super) fn of(context: Context) -> Caller {
        let name = context.user.unwrap_or_default();
        Caller(name.split(['/', '@']).next().unwrap_or_default().to_owned())
    }
}

/// An answer, put where it leaves.
type Answered = Result<(), RpcError>;

/// Answers a call.
pub(super) async fn answer(shared: &Arc<Shared>, caller: &Caller, call: Call, out: &mut BytesMut) {
    let answered = match std::ptr::eq(call.service, &inter::SERVICE) {
        true => between_datanodes(shared, &call, out).await,
        false => of_clients(shared, caller, &call, out).await,
    };
    if let Err(error) = answered {
        tracing::debug!(method = call.method.name, %error, "refused");
        reply::put_error(out, &call.id, &error);
    }
}

async fn between_datanodes(shared: &Arc<Shared>, call: &Call, out: &mut BytesMut) -> Answered {
    match call.method.name {
        name if name == inter::INIT_REPLICA_RECOVERY.name => init_recovery(shared, call, out).await,
        name if name == inter::UPDATE_REPLICA_UNDER_RECOVERY.name => update_recovery(shared, call, out).await,
        name => Err(unsupported(name)),
    }
}

async fn of_clients(shared: &Arc<Shared>, caller: &Caller, call: &Call, out: &mut BytesMut) -> Answered {
    match call.method.name {
        name if name == client::GET_REPLICA_VISIBLE_LENGTH.name => {
            return visible_length(shared, call, out).await;
        }
        name if name == client::GET_DATANODE_INFO.name => {
            let info = DatanodeLocalInfoProto {
                software_version: SOFTWARE_VERSION.to_owned(),
                config_version: String::new(),
                uptime: shared.started.elapsed().as_secs(),
            };
            reply::put_success(out, &call.id, &GetDatanodeInfoResponseProto { local_info: info });
            return Ok(());
        }
        name if name == client::GET_BLOCK_LOCAL_PATH_INFO.name => return Err(no_local_path(caller)),
        _ => {}
    }
    demand_superuser(shared, caller).await?;
    match call.method.name {
        name if name == client::SHUTDOWN_DATANODE.name => {
            let request: ShutdownDatanodeRequestProto = decode_request(call.body.clone())?;
            if request.for_upgrade {
                return Err(unsupported("shutdownDatanode for an upgrade, for which writers would wait,"));
            }
            tracing::info!(user = caller.0, "shut down by RPC");
            shared.shutdown.send_replace(true);
            reply::put_success(out, &call.id, &ShutdownDatanodeResponseProto {});
        }
        name if name == client::EVICT_WRITERS.name => {
            shared.writers.close_all();
            reply::put_success(out, &call.id, &EvictWritersResponseProto {});
        }
        name if name == client::TRIGGER_BLOCK_REPORT.name => {
            let request: TriggerBlockReportRequestProto = decode_request(call.body.clone())?;
            trigger_report(shared, &request)?;
            reply::put_success(out, &call.id, &TriggerBlockReportResponseProto {});
        }
        name if name == client::GET_BALANCER_BANDWIDTH.name => {
            let bandwidth = shared.balance.limit();
            reply::put_success(out, &call.id, &GetBalancerBandwidthResponseProto { bandwidth });
        }
        name if name == client::GET_VOLUME_REPORT.name => {
            let report = in_store(shared, |shared| Ok(volumes(shared))).await?;
            reply::put_success(out, &call.id, &report);
        }
        name if name == client::DELETE_BLOCK_POOL.name => {
            return Err(undeletable(shared, &decode_request(call.body.clone())?));
        }
        name => return Err(unsupported(name)),
    }
    Ok(())
}

async fn visible_length(shared: &Arc<Shared>, call: &Call, out: &mut BytesMut) -> Answered {
    let request: GetReplicaVisibleLengthRequestProto = decode_request(call.body.clone())?;
    let block = block(shared, &request.block)?;
    let found = blocking(shared, move |shared| shared.store.visible_len(block)).await.map_err(lost)?;
    let length = found.map_err(|error| match error {
        // A reader takes "not found" for a block that has no bytes yet.
        StoreError::NotFound(_) => exception(&shared.store.pool().id, &error),
        error => RpcError::new(Kind::Io, error.to_string()),
    })?;
    let length = length.unwrap_or(NOTHING_VISIBLE);
    reply::put_success(out, &call.id, &GetReplicaVisibleLengthResponseProto { length });
    Ok(())
}

async fn init_recovery(shared: &Arc<Shared>, call: &Call, out: &mut BytesMut) -> Answered {
    let request: InitReplicaRecoveryRequestProto = decode_request(call.body.clone())?;
    let (block, id) = (block(shared, &request.block.block.b)?, request.block.new_gen_stamp);
    let found = in_store(shared, move |shared| shared.store.init_recovery(block, id)).await?;
    let response = InitReplicaRecoveryResponseProto {
        replica_found: found.is_some(),
        state: found.map(|info| info.state.into()),
        block: found.map(|info| BlockProto {
            block_id: info.block.id,
            gen_stamp: info.block.stamp,
            num_bytes: Some(info.len),
        }),
    };
    reply::put_success(out, &call.id, &response);
    Ok(())
}

async fn update_recovery(shared: &Arc<Shared>, call: &Call, out: &mut BytesMut) -> Answered {
    let request: UpdateReplicaUnderRecoveryRequestProto = decode_request(call.body.clone())?;
    let (block, id, len) = (block(shared, &request.block)?, request.recovery_id, request.new_length);
    let new_block_id = match request.new_block_id() {
        0 => block.id,
        other => other,
    };
    let replica = in_store(shared, move |shared| {
        let replica = shared.store.update_recovery(block, id, new_block_id, len)?;
        shared.namenodes.received(&replica, None);
        Ok(replica)
    });
    let storage_uuid = Some(replica.await?.storage.to_string());
    reply::put_success(out, &call.id, &UpdateReplicaUnderRecoveryResponseProto { storage_uuid });
    Ok(())
}

/// Has one namenode, or all, told what changed, or everything.
fn trigger_report(shared: &Shared, request: &TriggerBlockReportRequestProto) -> Answered {
    let wanted = request.nn_address.as_deref();
    let mut found = false;
    for index in 0..shared.namenodes.len() {
        let (Some(link), Some(outbox)) = (shared.namenodes.link(index), shared.namenodes.outbox(index))
        else {
            continue;
        };
        if wanted.is_some_and(|wanted| wanted != link.address().to_string()) {
            continue;
        }
        found = true;
        match request.incremental {
            true => outbox.flush(),
            false => outbox.want_full_report(Wanted::Now),
        }
    }
    match found {
        true => Ok(()),
        false => {
            let why = format!("this datanode serves no namenode {}", wanted.unwrap_or_default());
            Err(RpcError::new(Kind::Io, why))
        }
    }
}

fn volumes(shared: &Shared) -> GetVolumeReportResponseProto {
    let live = shared.store.storages().into_iter().filter(|storage| !storage.failed);
    let volume_info = live.map(|storage| DatanodeVolumeInfoProto {
        num_blocks: shared.store.replica_count(&storage.storage),
        path: storage.path.display().to_string(),
        storage_type: storage.storage_type.into(),
        used_space: storage.used,
        free_space: storage.remaining,
        reserved_space: 0,
        reserved_space_for_replicas: 0,
    });
    GetVolumeReportResponseProto { volume_info: volume_info.collect() }
}

/// Nobody reads blocks but through this datanode: as stock where no user is configured to.
fn no_local_path(caller: &Caller) -> RpcError {
    let why = format!(
        "Can't continue with getBlockLocalPathInfo() authorization. The user {} is not configured in \
         dfs.block.local-path-access.user",
        caller.0
    );
    RpcError::new(Kind::AccessControl, why)
}

/// The pool that is served cannot be deleted, and there is no other.
fn undeletable(shared: &Shared, request: &DeleteBlockPoolRequestProto) -> RpcError {
    let why = match request.block_pool == shared.store.pool().id {
        true => "The block pool is still running".to_owned(),
        false => format!("there is no block pool {} here", request.block_pool),
    };
    RpcError::new(Kind::Io, why)
}

fn unsupported(method: &str) -> RpcError {
    RpcError::new(Kind::UnsupportedOperation, format!("{method} is not supported by this datanode"))
}

fn block(shared: &Shared, block: &hdfs::ExtendedBlockProto) -> Result<Block, RpcError> {
    shared.block(block).map_err(|fault| RpcError::new(Kind::Io, fault.to_string()))
}

/// Does something with replicas.
async fn in_store<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, RpcError> {
    let done = blocking(shared, work).await.map_err(lost)?;
    done.map_err(|error| exception(&shared.store.pool().id, &error))
}

fn lost(error: JoinError) -> RpcError {
    RpcError::new(Kind::Io, error.to_string())
}

/// Only the user that runs this datanode, and members of the supergroup, may do it.
async fn demand_superuser(shared: &Arc<Shared>, caller: &Caller) -> Answered {
    let name = caller.0.clone();
    let may =
        blocking(shared, move |shared| name == default_user() || is_in(&name, &shared.config.supergroup));
    match may.await {
        Ok(true) => Ok(()),
        _ => {
            let why = format!("Access denied for user {}. Superuser privilege is required", caller.0);
            Err(RpcError::new(Kind::AccessControl, why))
        }
    }
}

/// Whether the OS knows a user as a member of a group.
fn is_in(user: &str, group: &str) -> bool {
    let Ok(Some(user_entry)) = nix::unistd::User::from_name(user) else { return false };
    let (Ok(Some(group)), Ok(name)) = (nix::unistd::Group::from_name(group), CString::new(user)) else {
        return false;
    };
    nix::unistd::getgrouplist(&name, user_entry.gid).is_ok_and(|groups| groups.contains(&group.gid))
}

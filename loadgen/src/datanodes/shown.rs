//! What namenodes show: whom they take for alive beside these datanodes, to whom blocks would go, too; and whether they
//! know enough of them.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use trellis_client::config::ConnectionConfig;
use trellis_client::namenode::Namenode;
use trellis_client::types::SafeMode;
use trellis_client::uri::Address;
use trellis_client::user::default_user;
use trellis_proto::hdfs::client_namenode_protocol as rpc;
use trellis_proto::hdfs::datanode::error_report_request_proto::ErrorCode;
use trellis_proto::hdfs::datanode::{ErrorReportRequestProto, datanode_protocol_service as protocol};
use trellis_proto::hdfs::{
    DatanodeInfoProto, DatanodeReportTypeProto, GetDatanodeReportRequestProto, SafeModeActionProto,
    SetSafeModeRequestProto, VersionRequestProto,
};
use trellis_proto::registration::registration;

use super::Shared;
use super::node::is_simulated;
use crate::error::{Error, Result};
use crate::target::Target;

/// Whoever lives is heard from within this time.
const LISTEN: Duration = Duration::from_secs(7);
/// What a namenode shows may be older than what it was told, by this much.
const SHOWN_LATE: Duration = Duration::from_secs(2);
/// How long a namenode may take to show that all live.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);
/// How long safe mode may last once all blocks were reported; a stock namenode stays in it for 30 s more.
const SAFE_WITHIN: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);

/// The namenodes, to be asked one by one.
pub(super) fn namenodes(target: &Target) -> Vec<Namenode> {
    let link = |address: &Address| {
        let service = &rpc::SERVICE;
        Namenode::alone(address.clone(), service, default_user(), ConnectionConfig::default())
    };
    target.addresses().iter().map(link).collect()
}

async fn alive(namenode: &Namenode) -> Result<Vec<DatanodeInfoProto>> {
    let request = GetDatanodeReportRequestProto { r#type: DatanodeReportTypeProto::Live.into() };
    Ok(namenode.call_once(&rpc::GET_DATANODE_REPORT, &request).await?.di)
}

/// Takes those that an earlier load generator left behind out of the namenodes' sight, and refuses to go on beside any
/// others.
pub(super) async fn send_away(namenodes: &[Namenode], shared: &Shared) -> Result<()> {
    for namenode in namenodes {
        if strangers(namenode, shared).await?.is_empty() {
            continue;
        }
        sleep(SHOWN_LATE).await;
        let strangers = strangers(namenode, shared).await?;
        // A real one, or one of a load generator that is at work, is heard again; each server has a clock of its own.
        sleep(LISTEN).await;
        for (name, before, now) in heard_again(&strangers, &self::strangers(namenode, shared).await?) {
            if before != now || !is_simulated(&name) {
                return Err(Error::refused(format!(
                    "datanode {name} is alive at {}: simulated datanodes must be the only ones. Stop it (its namenodes \
                     must have noticed; 'trellis up --datanodes 0' starts none), or use --blocks real",
                    namenode.address()
                )));
            }
        }
        for stranger in strangers.into_iter().filter(|node| is_simulated(&node.id.datanode_uuid)) {
            send_off(namenode, stranger).await?;
        }
    }
    Ok(())
}

async fn strangers(namenode: &Namenode, shared: &Shared) -> Result<Vec<DatanodeInfoProto>> {
    let mut alive = alive(namenode).await?;
    alive.retain(|node| shared.node(&node.id.datanode_uuid).is_none());
    Ok(alive)
}

/// Of each of those that are still there: its uuid, and when it was heard at first, and now.
fn heard_again(before: &[DatanodeInfoProto], now: &[DatanodeInfoProto]) -> Vec<(String, u64, u64)> {
    let earlier: HashMap<&str, u64> =
        before.iter().map(|node| (node.id.datanode_uuid.as_str(), node.last_update())).collect();
    let again = now.iter().map(|node| {
        let uuid = &node.id.datanode_uuid;
        (uuid.clone(), earlier.get(uuid.as_str()).copied().unwrap_or(0), node.last_update())
    });
    again.collect()
}

/// Tells a namenode that a datanode, silent by now, has ended.
async fn send_off(namenode: &Namenode, node: DatanodeInfoProto) -> Result<()> {
    let service = &protocol::SERVICE;
    let (address, config) = (namenode.address().clone(), ConnectionConfig::default());
    let link = Namenode::alone(address, service, default_user(), config);
    let info = link.call_once(&protocol::VERSION_REQUEST, &VersionRequestProto {}).await?.info;
    let request = ErrorReportRequestProto {
        registartion: registration(node.id, info.storage_info),
        error_code: ErrorCode::FatalDiskError as u32,
        msg: "the load generator that simulated this datanode has ended".to_owned(),
    };
    link.call_once(&protocol::ERROR_REPORT, &request).await?;
    Ok(())
}

/// Waits until every namenode shows all of them as alive, with room: it gives them blocks then.
pub(super) async fn wait_until_shown(namenodes: &[Namenode], shared: &Shared) -> Result<()> {
    let until = Instant::now() + SHOWN_WITHIN;
    for namenode in namenodes {
        loop {
            let nodes = alive(namenode).await?;
            let shown = nodes
                .iter()
                .filter(|node| node.remaining() > 0 && shared.node(&node.id.datanode_uuid).is_some())
                .count();
            if shown == shared.nodes.len() {
                break;
            }
            if Instant::now() >= until {
                return Err(Error::refused(format!(
                    "{} shows {shown} of {} simulated datanodes as alive after {} s",
                    namenode.address(),
                    shared.nodes.len(),
                    SHOWN_WITHIN.as_secs()
                )));
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}

/// Waits until no namenode is in safe mode: one that was started anew is, until it has heard of most blocks.
pub(super) async fn wait_until_writable(namenodes: &[Namenode]) -> Result<()> {
    let until = Instant::now() + SAFE_WITHIN;
    for namenode in namenodes {
        let action = SafeModeActionProto::from(SafeMode::Get).into();
        let request = SetSafeModeRequestProto { action, checked: Some(false) };
        while namenode.call_once(&rpc::SET_SAFE_MODE, &request).await?.result {
            if Instant::now() >= until {
                return Err(Error::refused(format!(
                    "{} is in safe mode, {} s after all blocks were reported: see what it says to 'hdfs dfsadmin \
                     -safemode get'",
                    namenode.address(),
                    SAFE_WITHIN.as_secs()
                )));
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}

//! A block whose writer is gone: one datanode leads, all agree on a length, the namenode hears of it. And the rest of
//! the IPC port.

use prost::Message;
use trellis_client::config::ConnectionConfig;
use trellis_client::namenode::Namenode as Link;
use trellis_client::uri::Address;
use trellis_proto::common::TokenProto;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs::datanode::datanode_command_proto::Type;
use trellis_proto::hdfs::datanode::*;
use trellis_proto::hdfs::{
    BlockProto, DatanodeIdProto, DatanodeInfoProto, DeleteBlockPoolRequestProto,
    GetBalancerBandwidthRequestProto, GetReplicaVisibleLengthRequestProto, GetVolumeReportRequestProto,
    InitReplicaRecoveryRequestProto, LocatedBlockProto, RecoveringBlockProto, ShutdownDatanodeRequestProto,
    TriggerBlockReportRequestProto, UpdateReplicaUnderRecoveryRequestProto,
    client_datanode_protocol_service as client, inter_datanode_protocol_service as inter,
    reconfiguration_protocol_service as reconfiguration,
};
use trellis_proto::methods::{Rpc, Service};
use trellis_proto::presence::Checked;

use crate::namenode::{LONG, Namenode};
use crate::peer::{Peer, block, write_op};
use crate::support::{Node, blocking, bytes, config};

fn recovering(id: u64, stamp: u64, nodes: &[DatanodeIdProto], cut_to: Option<u64>) -> RecoveringBlockProto {
    RecoveringBlockProto {
        new_gen_stamp: 20,
        block: LocatedBlockProto {
            b: block(id, stamp, 0),
            locs: nodes.iter().map(|id| DatanodeInfoProto { id: id.clone(), ..Default::default() }).collect(),
            block_token: TokenProto::default(),
            ..Default::default()
        },
        truncate_block: cut_to.map(|len| BlockProto { block_id: id, gen_stamp: 20, num_bytes: Some(len) }),
        ec_policy: None,
        block_indices: None,
    }
}

fn recover(block: RecoveringBlockProto) -> DatanodeCommandProto {
    DatanodeCommandProto {
        cmd_type: Type::BlockRecoveryCommand.into(),
        recovery_cmd: Some(BlockRecoveryCommandProto { blocks: vec![block] }),
        ..Default::default()
    }
}

fn link(node: &Node, service: &'static Service, user: &str) -> Link {
    let address = Address::new("127.0.0.1", node.datanode.ipc.port());
    Link::alone(address, service, user.to_owned(), ConnectionConfig::default())
}

async fn commits(namenode: &Namenode, count: usize) -> CommitBlockSynchronizationRequestProto {
    let enough = |calls: &[CommitBlockSynchronizationRequestProto]| calls.len() >= count;
    namenode.wait("commitBlockSynchronization", enough).await.remove(count - 1)
}

#[tokio::test]
async fn writers_are_stopped_and_all_get_the_shortest_length() {
    let (namenode, others) = (Namenode::start().await, Namenode::start().await);
    let (one, two) = (Node::start(&namenode, config()).await, Node::start(&others, config()).await);
    let (a, b, data) = (one.datanode.data, two.datanode.data, bytes(3000));
    let sent = data.clone();
    let mut writer = blocking(move || {
        let mut writers = Vec::new();
        for (address, len) in [(a, 3000), (b, 2000)] {
            let (mut writer, _) = Peer::write(address, &write_op(1, 7, &[]));
            writer.packet(0, 0, &sent[..len], false);
            writer.ack();
            writers.push(writer);
        }
        writers.remove(0)
    })
    .await;
    namenode.command(recover(recovering(1, 7, &[one.id.clone(), two.id.clone()], None)));
    let commit = commits(&namenode, 1).await;
    assert_eq!((commit.new_gen_stamp, commit.new_length), (20, 2000));
    assert!(commit.close_file && !commit.delete_block);
    assert_eq!(commit.new_taragets, [one.id.clone(), two.id.clone()]);
    assert!(commit.new_target_storages.iter().all(|storage| storage.starts_with("DS-")));
    blocking(move || {
        assert!(writer.is_closed());
        for address in [a, b] {
            assert_eq!(Peer::read_block(address, block(1, 20, 2000)), data[..2000]);
        }
    })
    .await;

    // The same one comes once more, too late.
    let again = InitReplicaRecoveryRequestProto { block: recovering(1, 7, &[], None) };
    let link = link(&two, &inter::SERVICE, "hdfs");
    assert!(link.call_once(&inter::INIT_REPLICA_RECOVERY, &again).await.unwrap_err().exception().is_some());

    // Nobody has this one: it can be forgotten.
    namenode.command(recover(recovering(9, 7, &[one.id.clone(), two.id.clone()], None)));
    let commit = commits(&namenode, 2).await;
    assert!(commit.delete_block && commit.new_taragets.is_empty());
    for node in [one, two] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_truncation_cuts_finished_replicas_and_one_node_may_be_gone() {
    let namenode = Namenode::start().await;
    let (one, gone) = (Node::start(&namenode, config()).await, Node::start(&namenode, config()).await);
    let (address, data) = (one.datanode.data, bytes(3000));
    let (sent, gone_id) = (data.clone(), gone.id.clone());
    blocking(move || Peer::write_block(address, &write_op(1, 7, &[]), &sent)).await;
    gone.stop().await;
    namenode.command(recover(recovering(1, 7, &[one.id.clone(), gone_id], Some(1234))));
    let commit = commits(&namenode, 1).await;
    assert_eq!((commit.new_length, &commit.new_taragets[..]), (1234, &[one.id.clone()][..]));
    let found = blocking(move || Peer::read_block(address, block(1, 20, 1234))).await;
    assert_eq!(found, data[..1234]);
    one.stop().await;
}

/// Its primary died when one datanode had ended it: the next recovery ends it for all.
#[tokio::test]
async fn a_truncation_that_one_of_two_has_ended_goes_on() {
    let (namenode, others) = (Namenode::start().await, Namenode::start().await);
    let (one, two) = (Node::start(&namenode, config()).await, Node::start(&others, config()).await);
    let (a, b, data) = (one.datanode.data, two.datanode.data, bytes(3000));
    let sent = data.clone();
    blocking(move || [a, b].map(|address| Peer::write_block(address, &write_op(1, 7, &[]), &sent))).await;
    let ids = [one.id.clone(), two.id.clone()];
    let earlier = RecoveringBlockProto { new_gen_stamp: 19, ..recovering(1, 7, &ids, Some(1234)) };
    let ended = link(&two, &inter::SERVICE, "hdfs");
    let init = InitReplicaRecoveryRequestProto { block: earlier };
    ended.call_once(&inter::INIT_REPLICA_RECOVERY, &init).await.unwrap();
    let update = UpdateReplicaUnderRecoveryRequestProto {
        block: block(1, 7, 3000),
        recovery_id: 19,
        new_length: 1234,
        new_block_id: Some(1),
    };
    ended.call_once(&inter::UPDATE_REPLICA_UNDER_RECOVERY, &update).await.unwrap();
    namenode.command(recover(recovering(1, 7, &ids, Some(1234))));
    let commit = commits(&namenode, 1).await;
    assert_eq!((commit.new_length, &commit.new_taragets[..]), (1234, &ids[..]));
    for address in [a, b] {
        let found = blocking(move || Peer::read_block(address, block(1, 20, 1234))).await;
        assert_eq!(found, data[..1234]);
    }
    for node in [one, two] {
        node.stop().await;
    }
}

#[tokio::test]
async fn what_clients_and_administrators_may_ask() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let address = node.datanode.data;
    let _writer = blocking(move || {
        let (mut writer, _) = Peer::write(address, &write_op(1, 7, &[]));
        writer.packet(0, 0, &[1; 700], false);
        writer.ack();
        writer
    })
    .await;
    let anybody = link(&node, &client::SERVICE, "nobody-in-particular");
    let visible = |id, stamp| GetReplicaVisibleLengthRequestProto { block: block(id, stamp, 0) };
    let length = anybody.call_once(&client::GET_REPLICA_VISIBLE_LENGTH, &visible(1, 7)).await.unwrap();
    assert_eq!(length.length, 700);
    let error = anybody.call_once(&client::GET_REPLICA_VISIBLE_LENGTH, &visible(2, 7)).await.unwrap_err();
    assert_eq!(error.kind(), Some(Kind::ReplicaNotFound));
    // One that is older is no block without bytes.
    let error = anybody.call_once(&client::GET_REPLICA_VISIBLE_LENGTH, &visible(1, 8)).await.unwrap_err();
    assert_eq!(error.kind(), Some(Kind::Io));
    let shutdown = ShutdownDatanodeRequestProto { for_upgrade: false };
    let error = anybody.call_once(&client::SHUTDOWN_DATANODE, &shutdown).await.unwrap_err();
    assert_eq!(error.kind(), Some(Kind::AccessControl));

    let admin = link(&node, &client::SERVICE, &trellis_client::user::default_user());
    let bandwidth = admin.call_once(&client::GET_BALANCER_BANDWIDTH, &GetBalancerBandwidthRequestProto {});
    assert_eq!(bandwidth.await.unwrap().bandwidth, 100 << 20);
    let volumes = admin.call_once(&client::GET_VOLUME_REPORT, &GetVolumeReportRequestProto {}).await.unwrap();
    assert_eq!((volumes.volume_info.len(), volumes.volume_info[0].num_blocks), (1, 1));
    let before =
        namenode.wait::<BlockReportRequestProto>("blockReport", |calls| !calls.is_empty()).await.len();
    let trigger = TriggerBlockReportRequestProto { incremental: false, nn_address: None };
    admin.call_once(&client::TRIGGER_BLOCK_REPORT, &trigger).await.unwrap();
    let reports = namenode.wait::<BlockReportRequestProto>("blockReport", |calls| calls.len() > before).await;
    assert_eq!(reports.last().unwrap().context.as_ref().unwrap().lease_id(), 0, "wanted, not leased");

    let mut node = node;
    admin.call_once(&client::SHUTDOWN_DATANODE, &shutdown).await.unwrap();
    tokio::time::timeout(LONG, node.datanode.ended()).await.unwrap().unwrap();

    // What was being written when it stopped: nobody knows what of it was acked.
    let node = Node::in_dir(&namenode, config(), node.dir).await;
    let anybody = link(&node, &client::SERVICE, "nobody-in-particular");
    let length = anybody.call_once(&client::GET_REPLICA_VISIBLE_LENGTH, &visible(1, 7)).await.unwrap();
    assert_eq!(length.length as i64, -1);
    node.stop().await;
}

/// What becomes of a method that this caller calls.
async fn outcome<Request: Message, Response: Checked>(
    node: &Node,
    user: &str,
    method: &Rpc<Request, Response>,
    request: Request,
) -> (&'static str, &'static str, Option<Kind>) {
    let answer = link(node, method.service, user).call_once(method, &request).await;
    let refused =
        answer.err().map(|error| error.kind().unwrap_or_else(|| panic!("{}: {error}", method.name)));
    (method.service.name, method.name, refused)
}

#[tokio::test]
async fn every_method_does_its_job_or_is_refused_as_by_stock() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let admin = trellis_client::user::default_user();
    let (no, io, access) = (Some(Kind::UnsupportedOperation), Some(Kind::Io), Some(Kind::AccessControl));
    let pool = block(1, 7, 0).pool_id;
    let upgrade = ShutdownDatanodeRequestProto { for_upgrade: true };
    let mut seen = Vec::new();
    macro_rules! check {
        ($($method:path, $request:expr, anybody $anybody:expr, admin $admin:expr;)*) => {$(
            for (user, expected) in [("nobody-in-particular", $anybody), (&*admin, $admin)] {
                let outcome = outcome(&node, user, &$method, $request).await;
                assert_eq!(outcome.2, expected, "{} by {user}", outcome.1);
                seen.push((outcome.0, outcome.1));
            }
        )*};
    }
    check! {
        client::GET_REPLICA_VISIBLE_LENGTH, Default::default(), anybody io, admin io;
        client::REFRESH_NAMENODES, Default::default(), anybody access, admin no;
        client::DELETE_BLOCK_POOL, Default::default(), anybody access, admin io;
        client::DELETE_BLOCK_POOL, DeleteBlockPoolRequestProto { block_pool: pool.clone(), force: true },
            anybody access, admin io;
        client::GET_BLOCK_LOCAL_PATH_INFO, Default::default(), anybody access, admin access;
        client::SHUTDOWN_DATANODE, upgrade, anybody access, admin no;
        client::EVICT_WRITERS, Default::default(), anybody access, admin None;
        client::GET_DATANODE_INFO, Default::default(), anybody None, admin None;
        client::GET_VOLUME_REPORT, Default::default(), anybody access, admin None;
        client::GET_RECONFIGURATION_STATUS, Default::default(), anybody access, admin no;
        client::START_RECONFIGURATION, Default::default(), anybody access, admin no;
        client::LIST_RECONFIGURABLE_PROPERTIES, Default::default(), anybody access, admin no;
        client::TRIGGER_BLOCK_REPORT, Default::default(), anybody access, admin None;
        client::GET_BALANCER_BANDWIDTH, Default::default(), anybody access, admin None;
        client::SUBMIT_DISK_BALANCER_PLAN, Default::default(), anybody access, admin no;
        client::CANCEL_DISK_BALANCER_PLAN, Default::default(), anybody access, admin no;
        client::QUERY_DISK_BALANCER_PLAN, Default::default(), anybody access, admin no;
        client::GET_DISK_BALANCER_SETTING, Default::default(), anybody access, admin no;
        reconfiguration::GET_RECONFIGURATION_STATUS, Default::default(), anybody access, admin no;
        reconfiguration::START_RECONFIGURATION, Default::default(), anybody access, admin no;
        reconfiguration::LIST_RECONFIGURABLE_PROPERTIES, Default::default(), anybody access, admin no;
        inter::INIT_REPLICA_RECOVERY, Default::default(), anybody io, admin io;
        inter::UPDATE_REPLICA_UNDER_RECOVERY, Default::default(), anybody io, admin io;
    }
    let services = [&client::SERVICE, &reconfiguration::SERVICE, &inter::SERVICE];
    let all = services.iter().flat_map(|service| service.methods.iter().map(|m| (service.name, m.name)));
    let missed: Vec<_> = all.filter(|method| !seen.contains(method)).collect();
    assert_eq!(missed, []);
    // None of it has stopped the datanode.
    let address = node.datanode.data;
    blocking(move || Peer::write_block(address, &write_op(1, 7, &[]), &[1; 10])).await;
    node.stop().await;
}

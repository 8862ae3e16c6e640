//! What a datanode tells its namenodes, and which of them it obeys.

use std::time::Duration;

use trellis_datanode::config::Config;
use trellis_datanode::server::{Datanode, ServeError};
use trellis_proto::exception::Kind;
use trellis_proto::hdfs::datanode::block_command_proto::Action;
use trellis_proto::hdfs::datanode::datanode_command_proto::Type;
use trellis_proto::hdfs::datanode::received_deleted_block_info_proto::BlockStatus;
use trellis_proto::hdfs::datanode::*;
use trellis_proto::hdfs::nnha_status_heartbeat_proto::State;
use trellis_proto::hdfs::{BlockProto, VersionRequestProto};

use crate::namenode::{Fault, LONG, Namenode, POOL};
use crate::peer::{Peer, write_op};
use crate::support::{Node, blocking, config, options};

fn register() -> DatanodeCommandProto {
    DatanodeCommandProto {
        cmd_type: Type::RegisterCommand.into(),
        register_cmd: Some(RegisterCommandProto {}),
        ..Default::default()
    }
}

fn invalidate(id: u64, stamp: u64, num_bytes: u64) -> DatanodeCommandProto {
    DatanodeCommandProto {
        cmd_type: Type::BlockCommand.into(),
        blk_cmd: Some(BlockCommandProto {
            action: Action::Invalidate.into(),
            block_pool_id: POOL.to_owned(),
            blocks: vec![BlockProto { block_id: id, gen_stamp: stamp, num_bytes: Some(num_bytes) }],
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// All changes that were heard: block and state.
fn changes(calls: &[BlockReceivedAndDeletedRequestProto]) -> Vec<(u64, BlockStatus)> {
    let all = calls.iter().flat_map(|call| &call.blocks).flat_map(|storage| &storage.blocks);
    all.map(|change| (change.block.block_id, change.status())).collect()
}

async fn write(node: &Node, id: u64) {
    let address = node.datanode.data;
    blocking(move || Peer::write_block(address, &write_op(id, 7, &[]), &[1; 1000])).await;
}

#[tokio::test]
async fn introduces_itself_and_reports_under_a_lease() {
    let namenode = Namenode::start().await;
    namenode.set_lease(0);
    let node = Node::start(&namenode, config()).await;
    write(&node, 1).await;
    let beats = namenode.wait::<HeartbeatRequestProto>("sendHeartbeat", |calls| calls.len() > 3).await;
    assert!(beats.iter().all(HeartbeatRequestProto::request_full_block_report_lease));
    assert!(namenode.heard::<BlockReportRequestProto>("blockReport").is_empty(), "nobody gave a lease");
    let storage = &beats[0].reports[0];
    assert!(storage.capacity() > 0 && storage.storage.is_some());

    namenode.set_lease(77);
    let reports = namenode.wait::<BlockReportRequestProto>("blockReport", |calls| !calls.is_empty()).await;
    let context = reports[0].context.as_ref().unwrap();
    assert_eq!((context.total_rpcs, context.cur_rpc, context.lease_id()), (1, 0, 77));
    assert_ne!(context.id, 0);
    let list = &reports[0].reports[0];
    assert_eq!(list.number_of_blocks, Some(1));
    assert_eq!(list.blocks_buffers.concat(), [2, 0xe8, 7, 7, 0], "block 1, 1000 bytes, stamp 7, finished");
    let first = namenode.heard::<RegisterDatanodeRequestProto>("registerDatanode").remove(0).registration;
    assert_eq!(first.storage_info.layout_version as i32, -57);

    // It is the same datanode after a restart.
    let dir = node.stop().await;
    let node = Node::in_dir(&namenode, config(), dir).await;
    assert_eq!(node.id.datanode_uuid, first.datanode_id.datanode_uuid);
    node.stop().await;
}

#[tokio::test]
async fn what_was_not_taken_is_told_again() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    for fault in [Fault::Drop, Fault::Exception(Kind::Io), Fault::Exception(Kind::Standby)] {
        namenode.fail("blockReceivedAndDeleted", fault);
    }
    namenode.fail("sendHeartbeat", Fault::Drop);
    namenode.fail("blockReport", Fault::Exception(Kind::InvalidBlockReportLease));
    write(&node, 1).await;
    let told = |calls: &[_]| {
        changes(calls).iter().filter(|change| **change == (1, BlockStatus::Received)).count() >= 1
    };
    namenode.wait("blockReceivedAndDeleted", told).await;
    namenode.wait::<BlockReportRequestProto>("blockReport", |calls| !calls.is_empty()).await;
    namenode.fail("versionRequest", Fault::Exception(Kind::Standby));
    namenode.fail("registerDatanode", Fault::Drop);
    namenode.command(register());
    namenode.wait::<RegisterDatanodeRequestProto>("registerDatanode", |calls| calls.len() >= 3).await;
    // A full report follows every registration.
    namenode.wait::<BlockReportRequestProto>("blockReport", |calls| calls.len() >= 2).await;
    node.stop().await;
}

#[tokio::test]
async fn deletions_are_told_unless_the_namenode_knows() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    for id in 1..=3 {
        write(&node, id).await;
    }
    let times = |calls: &[_], change| changes(calls).iter().filter(|told| **told == change).count();
    let written = (2, BlockStatus::Received);
    namenode.wait("blockReceivedAndDeleted", |calls| times(calls, written) == 1).await;
    namenode.command(invalidate(2, 6, 0));
    namenode.command(invalidate(3, 7, i64::MAX as u64));
    namenode.command(invalidate(1, 7, 0));
    let told = |calls: &[_]| changes(calls).contains(&(1, BlockStatus::Deleted));
    let calls = namenode.wait("blockReceivedAndDeleted", told).await;
    let deleted: Vec<_> =
        changes(&calls).into_iter().filter(|(_, status)| *status == BlockStatus::Deleted).collect();
    assert_eq!(deleted, [(1, BlockStatus::Deleted)]);
    assert_eq!((node.files("blk_2").len(), node.files("blk_1").len()), (1, 0), "another stamp stays");
    // The namenode hears by which it would go.
    namenode.wait("blockReceivedAndDeleted", |calls| times(calls, written) == 2).await;
    node.stop().await;
}

#[tokio::test]
async fn only_the_active_namenode_is_obeyed() {
    let (one, two) = (Namenode::start().await, Namenode::start().await);
    two.claim(State::Standby, 1);
    let dir = tempfile::tempdir().unwrap();
    let both = vec![one.address.clone(), two.address.clone()];
    let mut quick = config();
    quick.expected_block = 0;
    let mut datanode = Datanode::start(options(dir.path(), both, quick)).await.unwrap();
    datanode.known().await.unwrap();
    let address = datanode.data;
    blocking(move || {
        for id in 1..=3 {
            Peer::write_block(address, &write_op(id, 7, &[]), &[1; 10]);
        }
    })
    .await;
    // Both are told everything.
    for namenode in [&one, &two] {
        let told = |calls: &[_]| changes(calls).contains(&(3, BlockStatus::Received));
        namenode.wait("blockReceivedAndDeleted", told).await;
        namenode.wait::<BlockReportRequestProto>("blockReport", |calls| !calls.is_empty()).await;
    }
    let beats = |namenode: &Namenode| namenode.heard::<HeartbeatRequestProto>("sendHeartbeat").len();
    let heard_two = beats(&two);
    two.command(invalidate(1, 7, 0));
    one.command(invalidate(2, 7, 0));
    let gone = |id| move |calls: &[_]| changes(calls).contains(&(id, BlockStatus::Deleted));
    one.wait("blockReceivedAndDeleted", gone(2)).await;
    two.wait::<HeartbeatRequestProto>("sendHeartbeat", |calls| calls.len() > heard_two + 1).await;
    assert!(!gone(1)(&one.heard("blockReceivedAndDeleted")), "a standby's command was obeyed");

    // The other takes over: with a txid that is not higher it is not believed.
    two.claim(State::Active, 1);
    let heard = beats(&two);
    two.wait::<HeartbeatRequestProto>("sendHeartbeat", |calls| calls.len() > heard + 1).await;
    two.command(invalidate(1, 7, 0));
    two.wait::<HeartbeatRequestProto>("sendHeartbeat", |calls| calls.len() > heard + 3).await;
    assert!(!gone(1)(&one.heard("blockReceivedAndDeleted")));
    two.claim(State::Active, 2);
    two.command(invalidate(1, 7, 0));
    two.wait("blockReceivedAndDeleted", gone(1)).await;
    datanode.stop().await.unwrap();
}

#[tokio::test]
async fn a_namenode_that_does_not_want_it_ends_it() {
    for (method, kind) in [
        ("registerDatanode", Kind::DisallowedDatanode),
        ("sendHeartbeat", Kind::UnregisteredNode),
        ("blockReport", Kind::IncorrectVersion),
    ] {
        let namenode = Namenode::start().await;
        namenode.fail(method, Fault::Exception(kind));
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path(), vec![namenode.address.clone()], config());
        let mut datanode = Datanode::start(options).await.unwrap();
        let ended = tokio::time::timeout(LONG, datanode.ended()).await.unwrap();
        assert!(matches!(ended, Err(ServeError::NoneLeft(_))), "{method}: {ended:?}");
    }
}

#[tokio::test]
async fn a_namenode_of_another_cluster_is_not_served() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let dir = node.stop().await;
    namenode.set_cluster("CID-other");
    let options = options(dir.path(), vec![namenode.address.clone()], config());
    let mut datanode = Datanode::start(options).await.unwrap();
    let ended = tokio::time::timeout(LONG, datanode.ended()).await.unwrap();
    let why = ended.unwrap_err().to_string();
    assert!(why.contains("CID-other") && why.contains("CID-test"), "{why}");
}

#[tokio::test]
async fn a_namenode_that_comes_late_is_found() {
    let namenode = Namenode::start().await;
    namenode.fail("versionRequest", Fault::Drop);
    namenode.fail("versionRequest", Fault::Exception(Kind::Retriable));
    let config = Config { full_report: Duration::from_millis(100), ..config() };
    let node = Node::start(&namenode, config).await;
    assert!(namenode.heard::<VersionRequestProto>("versionRequest").len() >= 2);
    namenode.wait::<BlockReportRequestProto>("blockReport", |calls| calls.len() > 2).await;
    node.stop().await;
}

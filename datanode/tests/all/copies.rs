//! Copies between datanodes: for the namenode, for a client, for the balancer.

use std::net::TcpListener;
use std::slice::from_ref;

use trellis_proto::data_transfer::Op;
use trellis_proto::hdfs::datanode::block_command_proto::Action;
use trellis_proto::hdfs::datanode::datanode_command_proto::Type;
use trellis_proto::hdfs::datanode::received_deleted_block_info_proto::BlockStatus;
use trellis_proto::hdfs::datanode::{
    BlockCommandProto, BlockReceivedAndDeletedRequestProto, DatanodeCommandProto, ErrorReportRequestProto,
    ReportBadBlocksRequestProto,
};
use trellis_proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;
use trellis_proto::hdfs::{
    BlockOpResponseProto, BlockProto, DatanodeIdProto, DatanodeInfoProto, DatanodeInfosProto,
    OpReplaceBlockProto, OpTransferBlockProto, OpWriteBlockProto, Status, StorageTypeProto,
    StorageTypesProto, StorageUuidsProto,
};

use crate::namenode::{Namenode, POOL};
use crate::peer::{Peer, block, header, write_op};
use crate::support::{Node, blocking, bytes, config};

fn info(id: &DatanodeIdProto) -> DatanodeInfoProto {
    DatanodeInfoProto { id: id.clone(), ..Default::default() }
}

fn transfer(id: u64, stamp: u64, len: u64, targets: &[DatanodeIdProto]) -> DatanodeCommandProto {
    DatanodeCommandProto {
        cmd_type: Type::BlockCommand.into(),
        blk_cmd: Some(BlockCommandProto {
            action: Action::Transfer.into(),
            block_pool_id: POOL.to_owned(),
            blocks: vec![BlockProto { block_id: id, gen_stamp: stamp, num_bytes: Some(len) }],
            targets: vec![DatanodeInfosProto { datanodes: targets.iter().map(info).collect() }],
            target_storage_uuids: vec![StorageUuidsProto {
                storage_uuids: vec![String::new(); targets.len()],
            }],
            target_storage_types: vec![StorageTypesProto {
                storage_types: vec![StorageTypeProto::Disk.into(); targets.len()],
            }],
        }),
        ..Default::default()
    }
}

/// Waits until the block was reported as received so often.
async fn received(namenode: &Namenode, id: u64, times: usize) {
    let enough = |calls: &[BlockReceivedAndDeletedRequestProto]| {
        let changes = calls.iter().flat_map(|call| &call.blocks).flat_map(|storage| &storage.blocks);
        let done = changes.filter(|c| c.block.block_id == id && c.status() == BlockStatus::Received);
        done.count() >= times
    };
    namenode.wait("blockReceivedAndDeleted", enough).await;
}

#[tokio::test]
async fn for_the_namenode_through_two_more() {
    // One namenode for each, so that each gets its own commands.
    let (namenode, others) = (Namenode::start().await, Namenode::start().await);
    let node = Node::start(&namenode, config()).await;
    let (two, three) = (Node::start(&others, config()).await, Node::start(&others, config()).await);
    let (address, data) = (node.datanode.data, bytes(200_001));
    let sent = data.clone();
    blocking(move || Peer::write_block(address, &write_op(1, 7, &[]), &sent)).await;
    namenode.command(transfer(1, 7, 200_001, &[two.id.clone(), three.id.clone()]));
    received(&others, 1, 2).await;
    for copy in [two.datanode.data, three.datanode.data] {
        let found = blocking(move || Peer::read_block(copy, block(1, 7, 200_001))).await;
        assert!(found == data);
    }
    // What is not here, or too short, is told.
    namenode.command(transfer(9, 7, 5, from_ref(&two.id)));
    namenode
        .wait::<ErrorReportRequestProto>("errorReport", |calls| calls.iter().any(|c| c.error_code == 2))
        .await;
    namenode.command(transfer(1, 7, 300_000, from_ref(&two.id)));
    let bad =
        namenode.wait::<ReportBadBlocksRequestProto>("reportBadBlocks", |calls| !calls.is_empty()).await;
    let located = &bad[0].blocks[0];
    assert_eq!((located.b.block_id, &located.locs[0].id), (1, &node.id));
    for node in [node, two, three] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_stop_cuts_off_a_copy_that_nobody_takes() {
    const MUCH: usize = 16 << 20;
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let (address, listener) = (node.datanode.data, TcpListener::bind("127.0.0.1:0").unwrap());
    let xfer_port = listener.local_addr().unwrap().port().into();
    let played = DatanodeIdProto { xfer_port, ..node.id.clone() };
    blocking(move || Peer::write_block(address, &write_op(1, 7, &[]), &bytes(MUCH))).await;
    namenode.command(transfer(1, 7, MUCH as u64, from_ref(&played)));
    let mut peer = blocking(move || {
        let mut peer = Peer::accept(&listener);
        peer.take_op::<OpWriteBlockProto>();
        peer
    })
    .await;
    node.stop().await;
    let taken = blocking(move || {
        let mut taken = 0;
        while let Ok(packet) = peer.take_packet() {
            taken += packet.data.len();
        }
        taken
    });
    assert!(taken.await < MUCH, "it went on after the stop");
}

#[tokio::test]
async fn a_copy_that_turns_out_corrupt_is_reported_and_goes_away() {
    let (namenode, others) = (Namenode::start().await, Namenode::start().await);
    let (node, two) = (Node::start(&namenode, config()).await, Node::start(&others, config()).await);
    let address = node.datanode.data;
    blocking(move || Peer::write_block(address, &write_op(1, 7, &[]), &bytes(5000))).await;
    let file = node.files("blk_1").remove(0);
    let mut data = std::fs::read(&file).unwrap();
    data[3000] ^= 1;
    std::fs::write(&file, data).unwrap();
    namenode.command(transfer(1, 7, 5000, from_ref(&two.id)));
    let bad = others.wait::<ReportBadBlocksRequestProto>("reportBadBlocks", |calls| !calls.is_empty()).await;
    let located = &bad[0].blocks[0];
    assert_eq!((located.b.block_id, &located.locs[0].id.datanode_uuid), (1, &node.id.datanode_uuid));
    assert!(two.files("blk_1").is_empty());
    for node in [node, two] {
        node.stop().await;
    }
}

#[tokio::test]
async fn for_a_client_that_mends_its_pipeline() {
    let namenode = Namenode::start().await;
    let (one, two) = (Node::start(&namenode, config()).await, Node::start(&namenode, config()).await);
    let (from, to, to_id, data) = (one.datanode.data, two.datanode.data, two.id.clone(), bytes(3000));
    blocking(move || {
        // unfinished, and finished
        let (mut writer, _) = Peer::write(from, &write_op(1, 7, &[]));
        writer.packet(0, 0, &data[..1000], false);
        writer.ack();
        Peer::write_block(from, &write_op(2, 7, &[]), &data);
        // What an older pipeline left on the target is replaced.
        Peer::write_block(to, &write_op(2, 6, &[]), &data[..100]);
        for (id, len) in [(1, 1000), (2, 3000)] {
            let op = OpTransferBlockProto {
                header: header(block(id, 7, 0), "test"),
                targets: vec![info(&to_id)],
                target_storage_types: vec![StorageTypeProto::Disk.into()],
                target_storage_ids: vec![String::new()],
            };
            let mut peer = Peer::connect(from);
            peer.op(Op::TransferBlock, &op);
            let answer: BlockOpResponseProto = peer.answer();
            assert_eq!(answer.status(), Status::Success, "{answer:?}");
            assert_eq!(Peer::read_block(to, block(id, 7, len)), data[..len as usize]);
        }
        // The copy of the unfinished one is unfinished too: the pipeline goes on with it.
        let mut op = write_op(1, 7, &[]);
        op.stage = Stage::PipelineSetupStreamingRecovery.into();
        (op.min_bytes_rcvd, op.max_bytes_rcvd, op.latest_generation_stamp) = (1000, 1000, 8);
        let (mut peer, answer) = Peer::write(to, &op);
        assert_eq!(answer.status(), Status::Success, "{answer:?}");
        peer.packet(0, 512, &data[512..1500], false);
        assert_eq!(peer.ack(), (0, vec![Status::Success]));
        let mut missing = Peer::connect(from);
        let op = OpTransferBlockProto { header: header(block(9, 7, 0), "test"), ..Default::default() };
        missing.op(Op::TransferBlock, &op);
        assert!(missing.answer::<BlockOpResponseProto>().message().contains("not found"));
    })
    .await;
    for node in [one, two] {
        node.stop().await;
    }
}

#[tokio::test]
async fn for_the_balancer() {
    let namenode = Namenode::start().await;
    let (one, two) = (Node::start(&namenode, config()).await, Node::start(&namenode, config()).await);
    let (from, from_id, to, data) = (one.datanode.data, one.id.clone(), two.datanode.data, bytes(100_000));
    blocking(move || {
        Peer::write_block(from, &write_op(1, 7, &[]), &data);
        let op = OpReplaceBlockProto {
            header: header(block(1, 7, 100_000), "").base_header,
            del_hint: "third".to_owned(),
            source: info(&from_id),
            storage_type: Some(StorageTypeProto::Disk.into()),
            storage_id: None,
        };
        let mut peer = Peer::connect(to);
        peer.op(Op::ReplaceBlock, &op);
        let answer: BlockOpResponseProto = peer.answer();
        assert_eq!(answer.status(), Status::Success, "{answer:?}");
        assert!(Peer::read_block(to, block(1, 7, 100_000)) == data);
        // Once more: it is there already.
        let mut peer = Peer::connect(to);
        peer.op(Op::ReplaceBlock, &op);
        assert_eq!(peer.answer::<BlockOpResponseProto>().status(), Status::Error);
    })
    .await;
    let hinted = |calls: &[BlockReceivedAndDeletedRequestProto]| {
        let changes = calls.iter().flat_map(|call| &call.blocks).flat_map(|storage| &storage.blocks);
        changes.into_iter().any(|change| change.delete_hint() == "third")
    };
    namenode.wait("blockReceivedAndDeleted", hinted).await;
    for node in [one, two] {
        node.stop().await;
    }
}

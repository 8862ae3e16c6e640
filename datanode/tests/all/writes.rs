//! A client writes: alone, through a pipeline, again after its pipeline broke, and appending.

use trellis_proto::data_transfer::Op;
use trellis_proto::hdfs::datanode::BlockReceivedAndDeletedRequestProto;
use trellis_proto::hdfs::datanode::received_deleted_block_info_proto::BlockStatus;
use trellis_proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;
use trellis_proto::hdfs::{BlockOpResponseProto, PipelineAckProto, Status};
use trellis_proto::pipeline::datanode_name;

use crate::namenode::Namenode;
use crate::peer::{Peer, block, write_op};
use crate::support::{Node, blocking, bytes, config};

const OK: Status = Status::Success;

/// What a namenode heard of a block, the newest state of each.
fn reported(calls: &[BlockReceivedAndDeletedRequestProto], id: u64) -> Option<(BlockStatus, u64, u64)> {
    let changes = calls.iter().flat_map(|call| &call.blocks).flat_map(|storage| &storage.blocks);
    let of_block = changes.filter(|change| change.block.block_id == id);
    of_block.last().map(|change| (change.status(), change.block.gen_stamp, change.block.num_bytes()))
}

#[tokio::test]
async fn the_exchange_that_was_recorded_from_a_stock_datanode() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let (address, data) = (node.datanode.data, bytes(1300));
    blocking(move || {
        let (mut peer, answer) = Peer::write(address, &write_op(1, 5000, &[]));
        let ready = BlockOpResponseProto { first_bad_link: Some(String::new()), ..Default::default() };
        assert_eq!(answer, ready);
        let ack = |seqno| PipelineAckProto {
            seqno,
            reply: vec![OK.into()],
            downstream_ack_time_nanos: Some(0),
            flag: vec![0],
        };
        peer.packet(0, 0, &data[..1024], false);
        assert_eq!(peer.answer::<PipelineAckProto>(), ack(0));
        peer.packet(-1, 0, b"", false);
        assert_eq!(peer.answer::<PipelineAckProto>(), ack(-1));
        peer.packet(1, 1024, &data[1024..], true);
        assert_eq!(peer.answer::<PipelineAckProto>(), ack(1));
        peer.packet(2, 1300, b"", false);
        assert_eq!(peer.answer::<PipelineAckProto>(), ack(2));
        assert!(peer.is_closed());
        assert_eq!(Peer::read_block(address, block(1, 5000, 1300)), data);
    })
    .await;
    let received = |calls: &[_]| reported(calls, 1) == Some((BlockStatus::Received, 5000, 1300));
    namenode.wait("blockReceivedAndDeleted", received).await;
    assert_eq!(node.files("blk_1").len(), 1);
    node.stop().await;
}

#[tokio::test]
async fn three_in_a_pipeline_have_the_same_bytes() {
    let namenode = Namenode::start().await;
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Node::start(&namenode, config()).await);
    }
    let data = bytes(1_000_003);
    let (first, below) = (nodes[0].datanode.data, [nodes[1].id.clone(), nodes[2].id.clone()]);
    let sent = data.clone();
    blocking(move || Peer::write_block(first, &write_op(1, 7, &below), &sent)).await;
    for node in &nodes {
        let (address, data) = (node.datanode.data, data.clone());
        let found = blocking(move || Peer::read_block(address, block(1, 7, 1_000_003))).await;
        assert!(found == data);
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn what_does_not_match_its_sums_is_not_taken() {
    let namenode = Namenode::start().await;
    let (first, second) = (Node::start(&namenode, config()).await, Node::start(&namenode, config()).await);
    let (one, two, below) = (first.datanode.data, second.datanode.data, second.id.clone());
    blocking(move || {
        let (mut peer, _) = Peer::write(two, &write_op(1, 7, &[]));
        peer.packet_with(0, 0, &[1; 512], &[0; 4], false, false);
        assert_eq!(peer.ack(), (0, vec![Status::ErrorChecksum]));
        assert!(peer.is_closed());

        // The last one finds it; the one above is to blame, and says nothing more.
        let (mut peer, _) = Peer::write(one, &write_op(2, 7, &[below]));
        peer.packet_with(0, 0, &[1; 512], &[0; 4], false, false);
        assert!(peer.try_answer::<PipelineAckProto>().is_err());
    })
    .await;
    for node in [first, second] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_dies_leaves_what_it_wrote_for_recovery() {
    let namenode = Namenode::start().await;
    let mut node = Node::start(&namenode, config()).await;
    let (address, data) = (node.datanode.data, bytes(2000));
    let sent = data.clone();
    blocking(move || {
        // after the set-up; in the middle of a packet; after a packet; before the last one
        drop(Peer::write(address, &write_op(1, 7, &[])));
        let (mut peer, _) = Peer::write(address, &write_op(2, 7, &[]));
        peer.send(b"\0\0\x10\0\0\x19\x09").unwrap();
        drop(peer);
        for (id, len) in [(3, 512), (4, 2000)] {
            let (mut peer, _) = Peer::write(address, &write_op(id, 7, &[]));
            peer.packet(0, 0, &sent[..len], false);
            assert_eq!(peer.ack(), (0, vec![OK]));
            assert_eq!(Peer::read_block(address, block(id, 7, len as u64)), sent[..len]);
        }
        // Nobody else may write it from its start.
        let (_, answer) = Peer::write(address, &write_op(3, 7, &[]));
        assert_eq!(answer.status(), Status::Error);
        assert!(answer.message().contains("already exists"), "{answer:?}");
    })
    .await;
    // A restart finds them again.
    let dir = node.stop().await;
    node = Node::in_dir(&namenode, config(), dir).await;
    let (address, id) = (node.datanode.data, node.id.clone());
    blocking(move || {
        for (id, len) in [(3, 512), (4, 2000)] {
            assert_eq!(Peer::read_block(address, block(id, 7, len as u64)), data[..len]);
        }
        // Nobody knows what was acked of them: a pipeline goes on without this datanode.
        for stage in [
            Stage::PipelineSetupStreamingRecovery,
            Stage::PipelineSetupAppendRecovery,
            Stage::PipelineCloseRecovery,
        ] {
            let mut op = write_op(4, 7, &[]);
            op.stage = stage.into();
            (op.min_bytes_rcvd, op.max_bytes_rcvd, op.latest_generation_stamp) = (2000, 2000, 8);
            let answer = Peer::write(address, &op).1;
            assert_eq!((answer.status(), answer.first_bad_link()), (Status::Error, &*datanode_name(&id)));
            assert!(answer.message().contains("ReplicaNotFoundException: "), "{answer:?}");
        }
        assert_eq!(Peer::read_block(address, block(4, 7, 2000)), data, "they left it as it was");
    })
    .await;
    node.stop().await;
}

#[tokio::test]
async fn a_broken_pipeline_goes_on_with_a_new_stamp() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let (address, data) = (node.datanode.data, bytes(3000));
    blocking(move || {
        let (mut old, _) = Peer::write(address, &write_op(1, 7, &[]));
        old.packet(0, 0, &data[..1000], false);
        assert_eq!(old.ack(), (0, vec![OK]));

        let again = |stage: Stage, min, max| {
            let mut op = write_op(1, 7, &[]);
            op.stage = stage.into();
            (op.min_bytes_rcvd, op.max_bytes_rcvd, op.latest_generation_stamp) = (min, max, 8);
            op
        };
        let (_, answer) = Peer::write(address, &again(Stage::PipelineSetupStreamingRecovery, 2000, 3000));
        assert_eq!(answer.status(), Status::Error, "it has not so much");
        let (mut new, answer) =
            Peer::write(address, &again(Stage::PipelineSetupStreamingRecovery, 1000, 1000));
        assert_eq!(answer.status(), OK, "{answer:?}");
        assert!(old.is_closed(), "the old writer is stopped");
        // The client sends the last chunk again.
        new.packet(0, 512, &data[512..3000], false);
        new.packet(1, 3000, b"", false);
        assert_eq!((new.ack(), new.ack()), ((0, vec![OK]), (1, vec![OK])));
        assert_eq!(Peer::read_block(address, block(1, 8, 3000)), data);

        // The pipeline breaks once more, while it is closed.
        let mut close = again(Stage::PipelineCloseRecovery, 3000, 3000);
        (close.header.base_header.block.generation_stamp, close.latest_generation_stamp) = (8, 9);
        let (mut peer, answer) = Peer::write(address, &close);
        assert_eq!(answer.status(), OK, "{answer:?}");
        assert!(peer.is_closed());
    })
    .await;
    let closed = |calls: &[_]| reported(calls, 1) == Some((BlockStatus::Received, 9, 3000));
    namenode.wait("blockReceivedAndDeleted", closed).await;
    node.stop().await;
}

#[tokio::test]
async fn appending_to_a_block_that_ends_within_a_chunk() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let (address, data) = (node.datanode.data, bytes(2000));
    blocking(move || {
        Peer::write_block(address, &write_op(1, 7, &[]), &data[..700]);
        let mut op = write_op(1, 7, &[]);
        op.stage = Stage::PipelineSetupAppend.into();
        (op.header.base_header.block.num_bytes, op.min_bytes_rcvd, op.latest_generation_stamp) =
            (Some(700), 700, 8);
        let (mut peer, answer) = Peer::write(address, &op);
        assert_eq!(answer.status(), OK, "{answer:?}");
        // As stock clients do it: first what is missing of the chunk, by itself.
        peer.packet(0, 700, &data[700..1024], false);
        peer.packet(1, 1024, &data[1024..], false);
        peer.packet(2, 2000, b"", false);
        for seqno in 0..3 {
            assert_eq!(peer.ack(), (seqno, vec![OK]));
        }
        assert_eq!(Peer::read_block(address, block(1, 8, 2000)), data);
    })
    .await;
    let appended = |calls: &[_]| reported(calls, 1) == Some((BlockStatus::Received, 8, 2000));
    namenode.wait("blockReceivedAndDeleted", appended).await;
    node.stop().await;
}

#[tokio::test]
async fn appending_under_the_stamp_that_the_block_has() {
    let namenode = Namenode::start().await;
    let (one, two) = (Node::start(&namenode, config()).await, Node::start(&namenode, config()).await);
    let (first, second, below, data) = (one.datanode.data, two.datanode.data, [two.id.clone()], bytes(2000));
    blocking(move || {
        Peer::write_block(first, &write_op(1, 7, &below), &data[..700]);
        let append = |new, len| {
            let mut op = write_op(1, 7, &below);
            op.stage = Stage::PipelineSetupAppend.into();
            (op.header.base_header.block.num_bytes, op.min_bytes_rcvd) = (Some(len), len);
            op.latest_generation_stamp = new;
            op
        };
        assert_eq!(Peer::write(first, &append(6, 700)).1.status(), Status::Error, "an older one");
        // hdfs-native does it: it asks the namenode for no new stamp.
        let (mut peer, answer) = Peer::write(first, &append(7, 700));
        assert_eq!(answer.status(), OK, "{answer:?}");
        peer.packet(0, 700, &data[700..1024], false);
        peer.packet(1, 1024, &data[1024..], true);
        peer.packet(2, 2000, b"", false);
        for seqno in 0..3 {
            assert_eq!(peer.ack(), (seqno, vec![OK, OK]));
        }
        for address in [first, second] {
            assert_eq!(Peer::read_block(address, block(1, 7, 2000)), data);
        }
    })
    .await;
    let appended = |calls: &[_]| reported(calls, 1) == Some((BlockStatus::Received, 7, 2000));
    namenode.wait("blockReceivedAndDeleted", appended).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_with_a_reason() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let (address, id) = (node.datanode.data, node.id.clone());
    blocking(move || {
        let mut op = write_op(1, 7, &[]);
        op.header.base_header.block.pool_id = "BP-other".to_owned();
        let (_, answer) = Peer::write(address, &op);
        assert!(answer.message().contains("BP-other"), "{answer:?}");
        assert_eq!(answer.first_bad_link(), format!("{}:{}", id.ip_addr, id.xfer_port));
        let mut op = write_op(1, 7, &[]);
        op.stage = Stage::DataStreaming.into();
        assert_eq!(Peer::write(address, &op).1.status(), Status::Error);
        let mut op = write_op(1, 7, &[]);
        op.requested_checksum.bytes_per_checksum = 0;
        assert_eq!(Peer::write(address, &op).1.status(), Status::Error);

        // An offset beyond what is there, of a heartbeat too: what it names would count as acked.
        for (seqno, data) in [(0, &[0; 512][..]), (1, b""), (-1, b"")] {
            let (mut peer, _) = Peer::write(address, &write_op((30 + seqno) as u64, 7, &[]));
            peer.packet(seqno, 512, data, false);
            assert!(peer.is_closed(), "{seqno}");
        }
        // Sums that are too few.
        let (mut peer, _) = Peer::write(address, &write_op(3, 7, &[]));
        peer.packet_with(0, 0, &[0; 1024], &[0; 4], false, false);
        assert_eq!(peer.ack(), (0, vec![Status::ErrorChecksum]));
        // A client may send no sums: they are made here.
        let (mut peer, _) = Peer::write(address, &write_op(4, 7, &[]));
        peer.packet_with(0, 0, &[5; 1024], &[], false, false);
        peer.packet(1, 1024, b"", false);
        assert_eq!((peer.ack(), peer.ack()), ((0, vec![OK]), (1, vec![OK])));
        assert_eq!(Peer::read_block(address, block(4, 7, 1024)), [5; 1024]);

        let mut peer = Peer::connect(address);
        peer.op(Op::ReadMetadata, &op);
        assert_eq!(peer.answer::<BlockOpResponseProto>().status(), Status::ErrorUnsupported);
    })
    .await;
    node.stop().await;
}

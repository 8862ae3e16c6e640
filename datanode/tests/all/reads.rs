//! Reads, block checksums, what is not supported.

use std::fs::File;
use std::os::unix::fs::FileExt;

use trellis_proto::data_transfer::Op;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs::datanode::ReportBadBlocksRequestProto;
use trellis_proto::hdfs::*;

use crate::namenode::{Fault, LONG, Namenode, POOL};
use crate::peer::{Peer, block, header, write_op};
use crate::support::{Node, blocking, bytes, config};

#[tokio::test]
async fn the_exchange_that_was_recorded_from_a_stock_datanode() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let address = node.datanode.data;
    blocking(move || {
        Peer::write_block(address, &write_op(1, 5000, &[]), &[0; 3000]);
        let mut peer = Peer::connect(address);
        let answer = peer.read(block(1, 5000, 3000), 600, 1000);
        let info = answer.read_op_checksum_info.unwrap();
        assert_eq!((answer.status(), info.chunk_offset), (Status::Success, 512));
        assert_eq!(info.checksum.r#type(), ChecksumTypeProto::ChecksumCrc32c);
        assert_eq!(info.checksum.bytes_per_checksum, 512);
        let packet = peer.take_packet().unwrap();
        assert_eq!((packet.header.offset_in_block, packet.header.seqno, packet.data.len()), (512, 0, 1536));
        assert_eq!(packet.checksums.len(), 12);
        let last = peer.take_packet().unwrap();
        assert_eq!((last.header.offset_in_block, last.header.seqno), (2048, 1));
        assert!(last.header.last_packet_in_block && last.data.is_empty());
        peer.message(&ClientReadStatusProto { status: Status::ChecksumOk.into() });

        let base_header = header(block(1, 5000, 3000), "").base_header;
        peer.op(Op::BlockChecksum, &OpBlockChecksumProto { header: base_header, block_checksum_options: None });
        let sum = peer.answer::<BlockOpResponseProto>().checksum_response.unwrap();
        assert_eq!((sum.bytes_per_crc, sum.crc_per_block), (512, 6));
        let md5: [u8; 16] = sum.block_checksum[..].try_into().unwrap();
        assert_eq!(u128::from_be_bytes(md5), 0x8896_7485_424e_37c2_e96f_65cf_891c_d5dd);
        assert_eq!(sum.crc_type(), ChecksumTypeProto::ChecksumCrc32c);
        let options = sum.block_checksum_options.unwrap();
        assert_eq!((options.block_checksum_type(), options.stripe_length), (BlockChecksumTypeProto::Md5crc, Some(0)));

        let mut peer = Peer::connect(address);
        let answer = peer.read(block(424_242, 5000, 10), 0, 10);
        assert_eq!(answer.status(), Status::Error);
        let text = format!(
            "opReadBlock {POOL}:blk_424242_5000 received exception \
             org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException: Replica not found for \
             {POOL}:blk_424242_5000. The block may have been removed recently by the balancer or by intentionally \
             reducing the replication factor. This condition is usually harmless. To be certain, please check the \
             preceding datanode log messages for signs of a more serious issue."
        );
        assert_eq!(answer.message(), text);
        let mut peer = Peer::connect(address);
        peer.send(b"\0\x1b\x51\0").unwrap();
        assert!(peer.is_closed(), "another version");
    })
    .await;
    node.stop().await;
}

#[tokio::test]
async fn ranges_with_and_without_sums() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let (address, data) = (node.datanode.data, bytes(3_000_001));
    blocking(move || {
        Peer::write_block(address, &write_op(1, 7, &[]), &data);
        let len = data.len();
        let mut peer = Peer::connect(address);
        for (offset, want) in [
            (0, len),
            (0, 0),
            (len, 0),
            (len - 1, 1),
            (513, 1),
            (1_000_000, 700_000),
            (511, 1026),
            (len - 40_000, 40_000),
        ] {
            let answer = peer.read(block(1, 7, len as u64), offset as u64, want as u64);
            assert_eq!(answer.status(), Status::Success, "{offset} {want}: {answer:?}");
            let (start, found) = peer.read_data();
            let skip = if found.is_empty() { 0 } else { offset - start as usize };
            assert!(found[skip..][..want] == data[offset..offset + want], "{offset} {want}");
            assert!(found.len() < want + 2 * 512, "{offset} {want}: {}", found.len());
        }
        let plain = OpReadBlockProto {
            header: header(block(1, 7, len as u64), "test"),
            offset: 100,
            len: 5000,
            send_checksums: Some(false),
            ..Default::default()
        };
        peer.op(Op::ReadBlock, &plain);
        let info = peer.answer::<BlockOpResponseProto>().read_op_checksum_info.unwrap();
        assert_eq!(info.checksum.r#type(), ChecksumTypeProto::ChecksumNull);
        let packet = peer.take_packet().unwrap();
        assert!(packet.checksums.is_empty() && packet.data[100..5100] == data[100..5100]);

        let mut peer = Peer::connect(address);
        let answer = peer.read(block(1, 7, 0), len as u64, 1);
        assert!(answer.message().contains("don't match block"), "{answer:?}");
        let mut peer = Peer::connect(address);
        assert_eq!(peer.read(block(1, 8, 0), 0, 1).status(), Status::Error, "a stamp that is not here yet");
    })
    .await;
    node.stop().await;
}

#[tokio::test]
async fn checksums_of_a_part_and_of_the_whole() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let (address, data) = (node.datanode.data, bytes(100_000));
    blocking(move || {
        Peer::write_block(address, &write_op(1, 7, &[]), &data);
        Peer::write_block(address, &write_op(2, 7, &[]), &data[..70_001]);
        let mut peer = Peer::connect(address);
        let mut sum = |id, len, kind: BlockChecksumTypeProto| {
            let options =
                BlockChecksumOptionsProto { block_checksum_type: Some(kind.into()), stripe_length: None };
            let op = OpBlockChecksumProto {
                header: header(block(id, 7, len), "").base_header,
                block_checksum_options: Some(options),
            };
            peer.op(Op::BlockChecksum, &op);
            peer.answer::<BlockOpResponseProto>().checksum_response.unwrap()
        };
        for kind in [BlockChecksumTypeProto::Md5crc, BlockChecksumTypeProto::CompositeCrc] {
            let (part, whole) = (sum(1, 70_001, kind), sum(2, 70_001, kind));
            assert_eq!(part, whole);
            assert_ne!(sum(1, 100_000, kind).block_checksum, whole.block_checksum);
        }
        let crc = sum(1, 100_000, BlockChecksumTypeProto::CompositeCrc);
        let whole = trellis_proto::checksum::ChecksumType::Crc32C.sum(&data);
        assert_eq!(crc.block_checksum[..], whole.to_be_bytes());
    })
    .await;
    node.stop().await;
}

#[tokio::test]
async fn short_circuit_is_not_supported_and_says_so() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let address = node.datanode.data;
    blocking(move || {
        let mut peer = Peer::connect(address);
        let op = OpRequestShortCircuitAccessProto {
            header: header(block(1, 7, 0), "").base_header,
            max_version: 1,
            ..Default::default()
        };
        peer.op(Op::RequestShortCircuitFds, &op);
        assert_eq!(peer.answer::<BlockOpResponseProto>().status(), Status::ErrorUnsupported);
        let mut peer = Peer::connect(address);
        let op = ShortCircuitShmRequestProto { client_name: "x".to_owned(), trace_info: None };
        peer.op(Op::RequestShortCircuitShm, &op);
        assert_eq!(peer.answer::<ShortCircuitShmResponseProto>().status(), Status::ErrorUnsupported);
    })
    .await;
    node.stop().await;
}

/// What the namenode was told of bad replicas: their blocks.
fn bad(calls: &[ReportBadBlocksRequestProto]) -> Vec<u64> {
    calls.iter().flat_map(|call| &call.blocks).map(|located| located.b.block_id).collect()
}

#[tokio::test]
async fn what_a_reader_finds_wrong_is_looked_at_and_told_once() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let (address, data) = (node.datanode.data, bytes(3000));
    let sent = data.clone();
    blocking(move || {
        for id in 1..=3 {
            Peer::write_block(address, &write_op(id, 7, &[]), &sent);
        }
    })
    .await;
    for id in [1, 3] {
        let file = File::options().write(true).open(node.files(&format!("blk_{id}")).remove(0)).unwrap();
        file.write_all_at(&[!data[700]], 700).unwrap();
    }
    let complain = move |id| {
        let mut peer = Peer::connect(address);
        assert_eq!(peer.read(block(id, 7, 3000), 0, 3000).status(), Status::Success);
        while !peer.take_packet().unwrap().header.last_packet_in_block {}
        peer.message(&ClientReadStatusProto { status: Status::ErrorChecksum.into() });
        // The next answer shows that this was heard.
        assert_eq!(peer.read(block(2, 7, 3000), 0, 3000).status(), Status::Success);
        peer.read_data();
    };
    // The namenode does not take it at first.
    namenode.fail("reportBadBlocks", Fault::Exception(Kind::Io));
    namenode.fail("reportBadBlocks", Fault::Exception(Kind::Standby));
    blocking(move || complain(1)).await;
    namenode.wait("reportBadBlocks", |calls| bad(calls) == [1]).await;
    // Others find it too, and one is wrong about a good one.
    blocking(move || [1, 2, 1, 3].map(complain)).await;
    let told = namenode.wait("reportBadBlocks", |calls| bad(calls).contains(&3)).await;
    assert_eq!(bad(&told), [1, 3]);
    node.stop().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_sent_is_looked_at() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    // More than sockets hold.
    let (address, len) = (node.datanode.data, 48 << 20);
    blocking(move || Peer::write_block(address, &write_op(1, 7, &[]), &vec![1; len])).await;
    let file = node.files("blk_1").remove(0);
    blocking(move || {
        let mut peer = Peer::connect(address);
        assert_eq!(peer.read(block(1, 7, len as u64), 0, len as u64).status(), Status::Success);
        peer.take_packet().unwrap();
        File::options().write(true).open(file).unwrap().set_len(0).unwrap();
        let packets = std::iter::from_fn(|| peer.take_packet().ok());
        assert!(packets.into_iter().all(|packet| !packet.header.last_packet_in_block));
    })
    .await;
    namenode.wait("reportBadBlocks", |calls| bad(calls) == [1]).await;
    node.stop().await;
}

#[tokio::test]
async fn a_reader_that_has_enough_is_no_failure_and_what_it_got_counts() {
    const MUCH: usize = 16 << 20;
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let address = node.datanode.data;
    let got = blocking(move || {
        Peer::write_block(address, &write_op(1, 7, &[]), &bytes(MUCH));
        let mut peer = Peer::connect(address);
        assert_eq!(peer.read(block(1, 7, MUCH as u64), 0, MUCH as u64).status(), Status::Success);
        peer.take_packet().unwrap().data.len()
    });
    let got = got.await;
    let (node, sent) = blocking(move || {
        let begun = std::time::Instant::now();
        while node.metric("trellis_datanode_block_reads_total") < 1.0 {
            assert!(begun.elapsed() < LONG);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(node.metric("trellis_datanode_ops_failed_total"), 0.0);
        let sent = node.metric("trellis_datanode_read_bytes_total");
        (node, sent as usize)
    })
    .await;
    assert!((got..MUCH).contains(&sent), "{sent}");
    node.stop().await;
}

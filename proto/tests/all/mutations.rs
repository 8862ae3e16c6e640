//! Valid streams, damaged in many ways from a fixed seed.

use bytes::{Bytes, BytesMut};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use trellis_proto::common::TokenProto;
use trellis_proto::data_transfer::{Op, put_op, put_packet_head};
use trellis_proto::hdfs::datanode::{
    self, DatanodeRegistrationProto, HeartbeatRequestProto, StorageBlockReportProto,
};
use trellis_proto::hdfs::{self, client_namenode_protocol as client};
use trellis_proto::rpc::CallId;
use trellis_proto::rpc::client::{put_call, put_hello, put_ping};

use crate::fuzz;

const ROUNDS: usize = 20_000;

fn id(call_id: i32) -> CallId {
    CallId { call_id, retry_count: 0, client_id: Bytes::from_static(b"0123456789abcdef") }
}

fn block() -> hdfs::ExtendedBlockProto {
    hdfs::ExtendedBlockProto {
        pool_id: "BP-1-127.0.0.1-1".to_owned(),
        block_id: 1 << 30,
        generation_stamp: 1001,
        num_bytes: Some(6),
    }
}

fn report() -> datanode::BlockReportRequestProto {
    datanode::BlockReportRequestProto {
        registration: registration(),
        block_pool_id: "BP-1-127.0.0.1-1".to_owned(),
        reports: vec![StorageBlockReportProto {
            storage: hdfs::DatanodeStorageProto { storage_uuid: "DS-1".to_owned(), ..Default::default() },
            blocks: vec![1, 0, 1 << 30, 6, 1001, u64::MAX, u64::MAX, u64::MAX],
            number_of_blocks: Some(1),
            blocks_buffers: vec![Bytes::from_static(b"\x82\x80\x80\x80\x08\x06\xe9\x07\x00")],
        }],
        context: Some(datanode::BlockReportContextProto { total_rpcs: 1, id: -7, ..Default::default() }),
    }
}

fn registration() -> DatanodeRegistrationProto {
    DatanodeRegistrationProto { software_version: "3.4.2".to_owned(), ..Default::default() }
}

/// A whole conversation: hello, calls of both protocols with nested and repeated messages, pings.
fn conversation() -> Vec<u8> {
    let mut out = BytesMut::new();
    let client_id = id(0).client_id;
    let create = hdfs::CreateRequestProto {
        src: "/a/é".to_owned(),
        client_name: "c".to_owned(),
        ..Default::default()
    };
    let acl = hdfs::SetAclRequestProto { src: "/a".to_owned(), acl_spec: vec![Default::default(); 3] };
    let add = hdfs::AddBlockRequestProto {
        src: "/a".to_owned(),
        previous: Some(block()),
        exclude_nodes: vec![Default::default(); 2],
        favored_nodes: vec!["dn1".to_owned(), "dn2".to_owned()],
        ..Default::default()
    };
    let heartbeat = HeartbeatRequestProto {
        registration: registration(),
        reports: vec![hdfs::StorageReportProto { capacity: Some(1 << 40), ..Default::default() }; 2],
        ..Default::default()
    };
    put_hello(&mut out, "alice", Some("root"), &client::SERVICE, &client_id).unwrap();
    put_call(&mut out, &client::CREATE, &id(0), Some("CLI"), &create).unwrap();
    put_call(&mut out, &client::SET_ACL, &id(1), None, &acl).unwrap();
    put_ping(&mut out, &client_id).unwrap();
    put_call(&mut out, &client::ADD_BLOCK, &id(2), None, &add).unwrap();
    let service = datanode::datanode_protocol_service::SEND_HEARTBEAT;
    put_call(&mut out, &service, &id(3), None, &heartbeat).unwrap();
    let service = datanode::datanode_protocol_service::BLOCK_REPORT;
    put_call(&mut out, &service, &id(4), None, &report()).unwrap();
    out.to_vec()
}

/// An op and two packets.
fn transfer() -> Vec<u8> {
    let mut out = BytesMut::new();
    let header =
        hdfs::BaseHeaderProto { block: block(), token: Some(TokenProto::default()), ..Default::default() };
    let write = hdfs::OpWriteBlockProto {
        header: hdfs::ClientOperationHeaderProto { base_header: header, client_name: "c".to_owned() },
        targets: vec![Default::default(); 2],
        ..Default::default()
    };
    put_op(&mut out, Op::WriteBlock, &write);
    let packet = hdfs::PacketHeaderProto { data_len: 100, ..Default::default() };
    put_packet_head(&mut out, &packet, 4, 100).unwrap();
    out.extend_from_slice(&[7; 104]);
    out.to_vec()
}

/// One to four small damages.
fn damage(bytes: &mut Vec<u8>, rng: &mut StdRng) {
    for _ in 0..rng.random_range(1..=4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..7) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = rng.random(),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + rng.random_range(1..9)).min(bytes.len()))),
            4 => bytes.insert(at, rng.random()),
            5 => {
                let piece = bytes[at..(at + rng.random_range(1..40)).min(bytes.len())].to_vec();
                let to = rng.random_range(0..=bytes.len());
                drop(bytes.splice(to..to, piece));
            }
            _ => bytes[at] = [0, 0x7f, 0x80, 0xff][rng.random_range(0..4)],
        }
    }
}

#[test]
fn the_undamaged_streams_are_taken_whole() {
    // hello, five calls, a ping
    let stream = conversation();
    for step in [1, 7, 255] {
        assert_eq!(fuzz::server_conn(&[&[step], &stream[..]].concat()), 7);
    }
    fuzz::peers(&transfer());
}

#[test]
fn damaged_streams_neither_panic_nor_hang() {
    let (rng, conversation, transfer) = (&mut StdRng::seed_from_u64(3), conversation(), transfer());
    for _ in 0..ROUNDS {
        let mut bytes = [&[255], &conversation[..]].concat();
        damage(&mut bytes, rng);
        fuzz::server_conn(&bytes);
        let mut bytes = transfer.clone();
        damage(&mut bytes, rng);
        fuzz::peers(&bytes);
    }
}

#[test]
fn damaged_requests_are_refused_or_whole() {
    use prost::Message as _;
    let (rng, report) = (&mut StdRng::seed_from_u64(4), report().encode_to_vec());
    for _ in 0..ROUNDS {
        let mut bytes = report.clone();
        damage(&mut bytes, rng);
        fuzz::requests(bytes.into());
    }
}

#[test]
fn noise_after_a_preamble() {
    let rng = &mut StdRng::seed_from_u64(5);
    for _ in 0..ROUNDS {
        let mut bytes = b"\x40hrpc\x09\x00\x00\0\0\0".to_vec();
        bytes.extend((0..rng.random_range(0..64)).map(|_| rng.random::<u8>()));
        fuzz::server_conn(&bytes);
        fuzz::peers(&bytes[11..]);
    }
}

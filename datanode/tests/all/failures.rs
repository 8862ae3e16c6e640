//! The next datanode of a pipeline fails, at each stage; slow and silent peers; limits.

use std::net::TcpListener;
use std::slice::from_ref;
use std::time::Duration;

use prost::Message;
use trellis_datanode::config::Config;
use trellis_proto::data_transfer::Op;
use trellis_proto::hdfs::{
    BlockOpResponseProto, DatanodeIdProto, OpWriteBlockProto, PacketHeaderProto, PipelineAckProto, Status,
};

use crate::namenode::Namenode;
use crate::peer::{Peer, block, write_op};
use crate::support::{Node, blocking, bytes, config};

const OK: Status = Status::Success;
const BAD: Status = Status::Error;

/// More than sockets hold, and packets of it.
const MUCH: usize = 16 << 20;
const PIECE: usize = 64 << 10;

/// A datanode that the test plays.
struct Played {
    listener: TcpListener,
    id: DatanodeIdProto,
}

impl Played {
    fn start() -> Played {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let xfer_port = u32::from(listener.local_addr().unwrap().port());
        let id = DatanodeIdProto {
            ip_addr: "127.0.0.1".to_owned(),
            host_name: "localhost".to_owned(),
            datanode_uuid: "played".to_owned(),
            xfer_port,
            ..Default::default()
        };
        Played { listener, id }
    }

    /// Takes the next pipeline.
    fn accept(&self) -> Peer {
        let mut peer = Peer::accept(&self.listener);
        let (op, request): (_, OpWriteBlockProto) = peer.take_op();
        assert_eq!((op, request.targets.len()), (Op::WriteBlock, 0));
        peer
    }

    fn accept_ready(&self) -> Peer {
        let mut peer = self.accept();
        peer.message(&BlockOpResponseProto { first_bad_link: Some(String::new()), ..Default::default() });
        peer
    }
}

/// Writes below `node` to a datanode that the test plays, and has it do something.
async fn play<T: Send + 'static>(
    config: Config,
    play: impl FnOnce(std::net::SocketAddr, Played) -> T + Send + 'static,
) -> T {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config).await;
    let (address, played) = (node.datanode.data, Played::start());
    let result = blocking(move || play(address, played)).await;
    node.stop().await;
    result
}

#[tokio::test]
async fn a_datanode_that_is_not_there_is_named() {
    play(config(), |address, played| {
        let name = format!("127.0.0.1:{}", played.id.xfer_port);
        let below = [played.id.clone()];
        drop(played);
        let (mut peer, answer) = Peer::write(address, &write_op(1, 7, &below));
        assert_eq!((answer.status(), answer.first_bad_link()), (BAD, &name[..]));
        assert!(peer.is_closed());
    })
    .await;
}

#[tokio::test]
async fn a_datanode_that_hangs_up_before_it_is_ready_is_named() {
    play(config(), |address, played| {
        let name = format!("127.0.0.1:{}", played.id.xfer_port);
        let mut peer = Peer::connect(address);
        peer.op(Op::WriteBlock, &write_op(1, 7, from_ref(&played.id)));
        drop(played.accept());
        let answer: BlockOpResponseProto = peer.answer();
        assert_eq!((answer.status(), answer.first_bad_link()), (BAD, &name[..]));
    })
    .await;
}

#[tokio::test]
async fn a_refusal_from_further_down_goes_up_as_it_is() {
    play(config(), |address, played| {
        let mut peer = Peer::connect(address);
        peer.op(Op::WriteBlock, &write_op(1, 7, from_ref(&played.id)));
        let refusal = BlockOpResponseProto {
            status: BAD.into(),
            first_bad_link: Some("10.0.0.9:1".to_owned()),
            message: Some("no room".to_owned()),
            ..Default::default()
        };
        played.accept().message(&refusal);
        assert_eq!(peer.answer::<BlockOpResponseProto>(), refusal);
        assert!(peer.is_closed());
    })
    .await;
}

#[tokio::test]
async fn one_that_dies_while_data_flows_is_named_once_and_the_data_stays() {
    play(config(), |address, played| {
        let data = bytes(1500);
        let mut peer = Peer::connect(address);
        peer.op(Op::WriteBlock, &write_op(1, 7, from_ref(&played.id)));
        let mut below = played.accept_ready();
        assert_eq!(peer.answer::<BlockOpResponseProto>().status(), OK);
        peer.packet(0, 0, &data[..512], false);
        assert_eq!(below.take_packet().unwrap().data, data[..512]);
        below.message(&PipelineAckProto { seqno: 0, reply: vec![OK.into()], ..Default::default() });
        assert_eq!(peer.ack(), (0, vec![OK, OK]));
        drop(below);
        assert_eq!(peer.ack(), (-2, vec![OK, BAD]));
        // What the client had on its way is kept, for its next pipeline.
        peer.packet(1, 512, &data[512..], true);
        let mut reader = Peer::connect(address);
        let answer = reader.read(block(1, 7, 0), 0, 1500);
        assert_eq!(answer.status(), OK, "{answer:?}");
        assert_eq!(reader.read_data().1, data);
        drop(peer);
    })
    .await;
}

#[tokio::test]
async fn no_ack_before_all_below_have_acked_and_the_last_one_finishes() {
    play(config(), |address, played| {
        let mut peer = Peer::connect(address);
        peer.op(Op::WriteBlock, &write_op(1, 7, from_ref(&played.id)));
        let mut below = played.accept_ready();
        peer.answer::<BlockOpResponseProto>();
        peer.packet(0, 0, &[1; 100], false);
        peer.packet(1, 100, b"", false);
        below.take_packet().unwrap();
        below.take_packet().unwrap();
        let mut early = Peer::connect(address);
        assert_eq!(early.read(block(1, 7, 0), 0, 100).status(), OK);
        peer.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(peer.try_answer::<PipelineAckProto>().is_err(), "nothing was acked below");
        for seqno in 0..2 {
            below.message(&PipelineAckProto { seqno, reply: vec![OK.into()], ..Default::default() });
        }
        peer.stream.set_read_timeout(Some(crate::namenode::LONG)).unwrap();
        assert_eq!((peer.ack(), peer.ack()), ((0, vec![OK, OK]), (1, vec![OK, OK])));
        assert!(peer.is_closed());
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_after_its_last_packet_gets_its_block_finished() {
    play(config(), |address, played| {
        let mut peer = Peer::connect(address);
        peer.op(Op::WriteBlock, &write_op(1, 7, from_ref(&played.id)));
        let mut below = played.accept_ready();
        peer.answer::<BlockOpResponseProto>();
        peer.packet(0, 0, &[1; 100], false);
        peer.packet(1, 100, b"", false);
        below.take_packet().unwrap();
        below.take_packet().unwrap();
        drop(peer);
        for seqno in 0..2 {
            below.message(&PipelineAckProto { seqno, reply: vec![OK.into()], ..Default::default() });
        }
        assert!(below.is_closed());
        // It can be appended to only when it is finished.
        let mut op = write_op(1, 7, &[]);
        op.stage = 0;
        (op.min_bytes_rcvd, op.latest_generation_stamp) = (100, 8);
        assert_eq!(Peer::write(address, &op).1.status(), OK);
    })
    .await;
}

#[tokio::test]
async fn acks_out_of_order_and_silence_count_as_failures() {
    let quick = Config {
        read_timeout: Duration::from_millis(300),
        timeout_per_node: Duration::from_millis(10),
        ..config()
    };
    play(quick, |address, played| {
        let mut peer = Peer::connect(address);
        peer.op(Op::WriteBlock, &write_op(1, 7, from_ref(&played.id)));
        let mut below = played.accept_ready();
        peer.answer::<BlockOpResponseProto>();
        peer.packet(0, 0, &[1; 100], false);
        below.message(&PipelineAckProto { seqno: 9, reply: vec![OK.into()], ..Default::default() });
        assert_eq!(peer.ack(), (-2, vec![OK, BAD]));

        let mut peer = Peer::connect(address);
        peer.op(Op::WriteBlock, &write_op(2, 7, from_ref(&played.id)));
        let _silent = played.accept_ready();
        peer.answer::<BlockOpResponseProto>();
        peer.packet(0, 0, &[1; 100], false);
        // The client lives, and says so.
        let mut alive = peer.twin();
        let beats = std::thread::spawn(move || {
            for _ in 0..8 {
                std::thread::sleep(Duration::from_millis(100));
                alive.packet(-1, 0, b"", false);
            }
        });
        assert_eq!(peer.ack(), (-2, vec![OK, BAD]));
        beats.join().unwrap();

        // A client that says nothing is left.
        let (mut peer, _) = Peer::write(address, &write_op(3, 7, &[]));
        assert!(peer.is_closed());
    })
    .await;
}

/// Sends more than sockets hold, in a thread of its own, and then its end if the block ends there.
fn send_much(mut peer: Peer, data: Vec<u8>, ends: bool) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for (seqno, piece) in data.chunks(PIECE).enumerate() {
            peer.packet(seqno as i64, (seqno * PIECE) as u64, piece, false);
        }
        if ends {
            peer.packet((MUCH / PIECE) as i64, MUCH as u64, b"", false);
        }
    })
}

#[tokio::test]
async fn one_that_takes_nothing_more_is_named_and_what_it_acked_before_goes_up() {
    let quick = Config {
        read_timeout: Duration::from_secs(1),
        timeout_per_node: Duration::from_millis(10),
        ..config()
    };
    let data = bytes(MUCH);
    play(quick, move |address, played| {
        let mut peer = Peer::connect(address);
        peer.op(Op::WriteBlock, &write_op(1, 7, from_ref(&played.id)));
        let mut below = played.accept_ready();
        peer.answer::<BlockOpResponseProto>();
        let sender = send_much(peer.twin(), data, false);
        for seqno in 0..3 {
            assert_eq!(below.take_packet().unwrap().header.seqno, seqno);
            below.message(&PipelineAckProto { seqno, reply: vec![OK.into()], ..Default::default() });
            assert_eq!(peer.ack(), (seqno, vec![OK, OK]));
        }
        assert_eq!(peer.ack(), (-2, vec![OK, BAD]));
        sender.join().unwrap();
        drop(below);
    })
    .await;
}

#[tokio::test]
async fn a_copy_is_whole_though_the_next_datanode_takes_nothing() {
    let quick = Config {
        read_timeout: Duration::from_secs(1),
        write_timeout: Duration::from_secs(3),
        timeout_per_node: Duration::ZERO,
        ..config()
    };
    let data = bytes(MUCH);
    play(quick, move |address, played| {
        let mut op = write_op(1, 7, from_ref(&played.id));
        op.header.client_name = String::new();
        let mut peer = Peer::connect(address);
        peer.op(Op::WriteBlock, &op);
        let below = played.accept();
        send_much(peer.twin(), data.clone(), true).join().unwrap();
        assert!(peer.is_closed());
        assert!(Peer::read_block(address, block(1, 7, MUCH as u64)) == data);
        drop(below);
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_trickles_is_left() {
    let quick = Config { read_timeout: Duration::from_millis(300), ..config() };
    play(quick, |address, _| {
        let mut peer = Peer::connect(address);
        // An op that never ends: each byte in time, all of them too slow.
        let trickle = [&b"\0\x1c\x50\xff\x7f"[..], &[0; 200]].concat();
        let mut sent = 0;
        for byte in trickle {
            if peer.send(&[byte]).is_err() {
                break;
            }
            sent += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(sent < 200, "it was listened to for ever");
    })
    .await;
}

#[tokio::test]
async fn more_sessions_than_allowed_are_closed_at_once() {
    let few = Config { max_sessions: 2, ..config() };
    play(few, |address, _| {
        let held = [Peer::write(address, &write_op(1, 7, &[])), Peer::write(address, &write_op(2, 7, &[]))];
        let mut third = Peer::connect(address);
        assert!(third.is_closed());
        drop(held);
    })
    .await;
}

#[tokio::test]
async fn more_ipc_connections_than_allowed_are_closed_at_once() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, Config { max_ipc_connections: 2, ..config() }).await;
    let (data, ipc) = (node.datanode.data, node.datanode.ipc);
    blocking(move || {
        let held = [Peer::connect(ipc), Peer::connect(ipc)];
        assert!(Peer::connect(ipc).is_closed());
        drop(held);
        Peer::write_block(data, &write_op(1, 7, &[]), &[1; 10]);
    })
    .await;
    node.stop().await;
}

/// A packet that says that it has so much data, and no sums.
fn announced(data: usize) -> Vec<u8> {
    let header = PacketHeaderProto { data_len: data as i32, ..Default::default() };
    let mut bytes = (data as u32 + 4).to_be_bytes().to_vec();
    bytes.extend((header.encoded_len() as u16).to_be_bytes());
    header.encode(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn packets_have_a_limit_and_so_has_the_memory_of_all() {
    let little = Config { large_packet_bytes: 2 << 20, ..config() };
    play(little, |address, _| {
        for (id, data) in [(1, 16 << 20), (2, 15 << 20), (3, i32::MAX as usize)] {
            let (mut peer, _) = Peer::write(address, &write_op(id, 7, &[]));
            peer.send(&announced(data)).unwrap();
            // Nothing of it need come for it to be refused.
            assert!(peer.is_closed(), "{data}");
        }
        // What one session took, it gives back: there is room for one such packet.
        for id in 4..8 {
            let (mut peer, _) = Peer::write(address, &write_op(id, 7, &[]));
            peer.packet(0, 0, &vec![1; 1_300_000], false);
            peer.packet(1, 1_300_000, b"", false);
            assert_eq!((peer.ack(), peer.ack()), ((0, vec![OK]), (1, vec![OK])));
            assert!(peer.is_closed());
        }
    })
    .await;
    let data = bytes(15 << 20);
    play(config(), move |address, _| {
        let (mut peer, _) = Peer::write(address, &write_op(1, 7, &[]));
        peer.packet(0, 0, &data, false);
        peer.packet(1, data.len() as u64, b"", false);
        assert_eq!((peer.ack(), peer.ack()), ((0, vec![OK]), (1, vec![OK])));
        assert!(
            Peer::read_block(address, block(1, 7, data.len() as u64)) == data,
            "as large as packets may be"
        );
    })
    .await;
}

//! Any bytes into the ports: the datanode goes on serving.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use proptest::prelude::*;
use trellis_proto::data_transfer::{Op, put_op, put_packet_head};
use trellis_proto::hdfs::PacketHeaderProto;

use crate::namenode::Namenode;
use crate::peer::{Peer, block, write_op};
use crate::support::{Node, blocking, config};

/// Sends bytes and hangs up.
fn throw(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    // The other end may have hung up already.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

/// A write that begins well, and what follows it.
fn begun(tail: &[u8], header: Option<(i64, i64, i32, bool)>) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_op(&mut out, Op::WriteBlock, &write_op(1 << 40, 7, &[]));
    if let Some((offset_in_block, seqno, data_len, last_packet_in_block)) = header {
        let header =
            PacketHeaderProto { offset_in_block, seqno, data_len, last_packet_in_block, sync_block: None };
        // Lengths that do not fit are put as far as they do.
        let _ = put_packet_head(&mut out, &header, 4, usize::try_from(data_len).unwrap_or(0));
    }
    out.extend_from_slice(tail);
    out.to_vec()
}

fn cases() -> impl Strategy<Value = (bool, Vec<u8>)> {
    let any_bytes = prop::collection::vec(any::<u8>(), 0..600);
    let headers = prop::option::of((any::<i64>(), any::<i64>(), -1..600i32, any::<bool>()));
    prop_oneof![
        (any::<bool>(), any_bytes.clone()),
        (80u8..91, any_bytes.clone()).prop_map(|(op, rest)| (false, [&[0, 28, op][..], &rest].concat())),
        (any_bytes, headers).prop_map(|(tail, header)| (false, begun(&tail, header))),
    ]
}

#[tokio::test]
async fn any_bytes() {
    let namenode = Namenode::start().await;
    let node = Node::start(&namenode, config()).await;
    let (data, ipc) = (node.datanode.data, node.datanode.ipc);
    let panics = count_panics();
    blocking(move || {
        let mut config = ProptestConfig::with_cases(300);
        config.failure_persistence = None;
        let mut runner = proptest::test_runner::TestRunner::new(config);
        runner
            .run(&cases(), |(to_ipc, bytes)| {
                throw(if to_ipc { ipc } else { data }, &bytes);
                Ok(())
            })
            .unwrap();
        Peer::write_block(data, &write_op(5, 7, &[]), &[1; 10]);
        assert_eq!(Peer::read_block(data, block(5, 7, 10)), [1; 10]);
    })
    .await;
    node.stop().await;
    assert_eq!(panics.load(Ordering::SeqCst), 0, "a panic is said on stderr");
}

/// Counts panics from now on, but for those of tests: in a task or thread of the datanode nobody else would see one.
fn count_panics() -> Arc<AtomicUsize> {
    let (panics, before) = (Arc::new(AtomicUsize::new(0)), std::panic::take_hook());
    let counted = panics.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let in_product =
            panic.location().is_some_and(|at| at.file().contains("src/") && !at.file().contains("tests/"));
        counted.fetch_add(usize::from(in_product), Ordering::SeqCst);
        before(panic);
    }));
    panics
}

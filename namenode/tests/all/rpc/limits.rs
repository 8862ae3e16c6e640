//! What clients can make a server hold, and for how long; closing.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use trellis_metastore::mem::Mem;
use trellis_namenode::rpc::server::Limits;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as client;

use super::{Client, Served, mkdirs, until};

/// Longer than any test: a round trip that never ends.
const NEVER: Duration = Duration::from_secs(3600);

fn defaults() -> hdfs::GetServerDefaultsRequestProto {
    hdfs::GetServerDefaultsRequestProto {}
}

pub async fn a_waiting_write_holds_up_nothing_behind_it() {
    let served = Served::slow(&Mem::new(), NEVER, Limits::default()).await;
    let mut client = served.client().await;
    let write = client.frame(1, client::MKDIRS, &mkdirs("/a"));
    let read = client.frame(2, client::GET_SERVER_DEFAULTS, &defaults());
    client.send(&[write, read].concat()).await;
    assert_eq!(client.answer().await.unwrap().call_id, 2);
    assert!(client.call(3, client::GET_SERVER_DEFAULTS, defaults()).await.is_ok());
}

pub async fn so_many_calls_in_flight_and_no_more() {
    let limits = Limits { max_calls: 4, drain: Duration::ZERO, ..Limits::default() };
    let served = Served::slow(&Mem::new(), NEVER, limits).await;
    let mut client = served.client().await;
    for number in 0..4 {
        let call = client.frame(number, client::MKDIRS, &mkdirs("/a"));
        client.send(&call).await;
    }
    until(|| served.server.in_flight() == 4).await;
    // Answered at once, were it read.
    let call = client.frame(4, client::GET_SERVER_DEFAULTS, &defaults());
    client.send(&call).await;
    // Another connection is served meanwhile, and what it asked comes after what the first one sent.
    let mut other = served.client().await;
    assert!(other.call(0, client::GET_SERVER_DEFAULTS, defaults()).await.is_ok());
    served.server.stop().await;
    assert!(client.answer().await.is_none(), "a call beyond the limit was answered");
}

pub async fn a_client_that_does_not_read_is_closed() {
    let limits =
        Limits { max_output_bytes: 16 << 10, stalled: Duration::from_millis(100), ..Limits::default() };
    let served = Served::over(crate::support::Namenode::fresh().await, limits, None);
    let mut deaf = served.client().await;
    let call = deaf.frame(0, client::GET_STORAGE_POLICIES, &hdfs::GetStoragePoliciesRequestProto {});
    let many = call.repeat(1000);
    let pushing = async { while deaf.stream.write_all(&many).await.is_ok() {} };
    tokio::time::timeout(super::PATIENCE, pushing).await.expect("the server closes it");
    until(|| served.metrics.render().contains("trellis_rpc_connections_timed_out_total 1")).await;
    let mut other = served.client().await;
    assert!(other.call(0, client::GET_SERVER_DEFAULTS, defaults()).await.is_ok());
}

pub async fn an_output_that_is_full_and_then_empty_goes_on() {
    let limits = Limits { max_output_bytes: 1, ..Limits::default() };
    let served = Served::over(crate::support::Namenode::fresh().await, limits, None);
    let mut client = served.client().await;
    let call = client.frame(0, client::GET_SERVER_DEFAULTS, &defaults());
    client.send(&call.repeat(100)).await;
    for _ in 0..100 {
        assert!(client.answer().await.unwrap().outcome.is_ok());
    }
}

pub async fn silence_is_not_for_ever() {
    let short = Duration::from_millis(50);
    let limits = Limits { handshake: short, stalled: short, idle: short, ..Limits::default() };
    let served = Served::over(crate::support::Namenode::fresh().await, limits, None);
    let mut silent = Client::raw(served.server.address()).await;
    assert!(silent.answer().await.is_none());
    let mut idle = served.client().await;
    assert!(idle.answer().await.is_none());
    let mut half = served.client().await;
    half.send(&[0, 0, 1]).await;
    assert!(half.answer().await.is_none());
}

pub async fn too_many_connections() {
    let limits = Limits { max_connections: 2, ..Limits::default() };
    let served = Served::over(crate::support::Namenode::fresh().await, limits, None);
    let (mut one, mut two) = (served.client().await, served.client().await);
    assert!(one.call(0, client::GET_SERVER_DEFAULTS, defaults()).await.is_ok());
    assert!(two.call(0, client::GET_SERVER_DEFAULTS, defaults()).await.is_ok());
    let mut three = Client::raw(served.server.address()).await;
    assert!(three.answer().await.is_none());
    drop(one);
    // Its place is free as soon as the server has seen that it left.
    loop {
        let mut four = Client::raw(served.server.address()).await;
        four = match four.stream.write_all(b"").await {
            Ok(()) => Client::connect(served.server.address(), Some("hdfs"), None).await,
            Err(_) => continue,
        };
        let call = four.frame(0, client::GET_SERVER_DEFAULTS, &defaults());
        if four.stream.write_all(&call).await.is_ok() && four.answer().await.is_some() {
            break;
        }
    }
}

/// A request of `bytes` bytes that is refused once it is read whole.
fn large(client: &Client, bytes: usize) -> Vec<u8> {
    let request =
        hdfs::RenewLeaseRequestProto { client_name: "x".repeat(bytes), namespaces: vec!["ns".into()] };
    client.frame(0, client::RENEW_LEASE, &request).to_vec()
}

pub async fn large_requests_wait_for_memory_and_small_ones_do_not() {
    let limits = Limits { max_frame_bytes: 1 << 20, large_request_bytes: 1 << 20, ..Limits::default() };
    let served = Served::over(crate::support::Namenode::fresh().await, limits, None);
    let (mut holder, mut waiter) = (served.client().await, served.client().await);
    let request = large(&holder, 900 << 10);
    holder.send(&request[..request.len() / 2]).await;
    let mut small = served.client().await;
    assert!(small.call(0, client::GET_SERVER_DEFAULTS, defaults()).await.is_ok());
    // The kernel's buffers do not take it all: the server stopped reading.
    let sending = async {
        waiter.send(&request).await;
        waiter.answer().await
    };
    tokio::pin!(sending);
    assert!(futures::poll!(&mut sending).is_pending());
    for number in 1..50 {
        assert!(small.call(number, client::GET_SERVER_DEFAULTS, defaults()).await.is_ok());
    }
    drop(holder);
    let answer = sending.await.unwrap();
    assert!(answer.outcome.unwrap_err().message.contains("should be null or empty"));
}

pub async fn a_clean_stop_answers_what_is_in_flight() {
    let served = Served::slow(&Mem::new(), Duration::from_millis(50), Limits::default()).await;
    let mut client = served.client().await;
    let call = client.frame(1, client::MKDIRS, &mkdirs("/a"));
    client.send(&call).await;
    until(|| served.server.in_flight() == 1).await;
    let address = served.server.address();
    served.server.stop().await;
    assert!(client.answer().await.unwrap().outcome.is_ok());
    assert!(client.answer().await.is_none());
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

pub async fn an_evicted_namenode_closes_everything() {
    let served = Served::slow(&Mem::new(), NEVER, Limits::default()).await;
    let (mut waiting, mut idle) = (served.client().await, served.client().await);
    let call = waiting.frame(1, client::MKDIRS, &mkdirs("/a"));
    waiting.send(&call).await;
    assert!(idle.call(0, client::GET_SERVER_DEFAULTS, defaults()).await.is_ok());
    until(|| served.server.in_flight() == 1).await;
    served.server.close_all();
    assert!(waiting.answer().await.is_none());
    assert!(idle.answer().await.is_none());
    let address = served.server.address();
    served.server.closed().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

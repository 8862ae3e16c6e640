//! Damaged streams: seeded mutations of sound ones never stop the server, and never make it hold much.

use bytes::BytesMut;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as client;
use trellis_proto::rpc::client::put_hello;

use super::{Client, Served, mkdirs};

const ROUNDS: u64 = 300;

fn sound(client: &Client) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_hello(&mut out, "hdfs", None, &client::SERVICE, &client.id).unwrap();
    out.extend(client.frame(0, client::MKDIRS, &mkdirs("/m")));
    let info = hdfs::GetFileInfoRequestProto { src: "/m".into() };
    out.extend(client.frame(1, client::GET_FILE_INFO, &info));
    let rename = hdfs::RenameRequestProto { src: "/m".into(), dst: "/n".into() };
    out.extend(client.frame(2, client::RENAME, &rename));
    let listing = hdfs::GetListingRequestProto { src: "/".into(), ..Default::default() };
    out.extend(client.frame(3, client::GET_LISTING, &listing));
    out.to_vec()
}

fn damage(bytes: &mut Vec<u8>, random: &mut StdRng) {
    for _ in 0..random.random_range(1..6) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..5) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 => drop(bytes.drain(at..(at + random.random_range(1..20)).min(bytes.len()))),
            3 => bytes.insert(at, random.random()),
            _ => bytes.truncate(at.max(1)),
        }
    }
}

pub async fn damaged_streams_harm_nobody() {
    let served = Served::fresh().await;
    for seed in 0..ROUNDS {
        let mut random = StdRng::seed_from_u64(seed);
        let mut client = Client::raw(served.server.address()).await;
        let mut bytes = sound(&client);
        damage(&mut bytes, &mut random);
        // In pieces, so that the server sees every kind of half request.
        let cut = random.random_range(0..bytes.len());
        // It may have closed the connection by then.
        let _ = client.stream.write_all(&bytes[..cut]).await;
        tokio::task::yield_now().await;
        let _ = client.stream.write_all(&bytes[cut..]).await;
        let _ = client.stream.shutdown().await;
        let mut answers = Vec::new();
        let reading = client.stream.read_to_end(&mut answers);
        let _ =
            tokio::time::timeout(super::PATIENCE, reading).await.expect("the server closes the connection");
    }
    let mut sound = served.client().await;
    assert_eq!(sound.mkdirs(0, "/after").await, Ok(true), "after {ROUNDS} damaged streams");
    super::until(|| served.server.in_flight() == 0).await;
}

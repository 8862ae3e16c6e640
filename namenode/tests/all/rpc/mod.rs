//! The RPC server through real sockets.

pub mod audit;
pub mod calls;
pub mod cluster;
pub mod datanodes;
pub mod limits;
pub mod mutations;
pub mod repeats;
pub mod tables;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use trellis_metastore::delayed::Delayed;
use trellis_metastore::group::GroupConfig;
use trellis_metastore::mem::Mem;
use trellis_metastore::open::Opened;
use trellis_metastore::tx::Versions;
use trellis_metastore::work::Unfenced;
use trellis_namenode::audit::AuditLog;
use trellis_namenode::config::Config;
use trellis_namenode::metrics::Metrics;
use trellis_namenode::rpc::identity::Identity;
use trellis_namenode::rpc::server::{Limits, Server, listen};
use trellis_namenode::rpc::service::Service;
use trellis_proto::exception::RpcError;
use trellis_proto::frame::{MAX_FRAME_BYTES, next_frame};
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as client;
use trellis_proto::methods::Rpc;
use trellis_proto::presence::Checked;
use trellis_proto::rpc::CallId;
use trellis_proto::rpc::client::{Answer, put_call, put_hello};

use crate::support::{Namenode, SUPERUSER};

/// No test waits longer than this for bytes; only a broken server makes it matter.
const PATIENCE: Duration = Duration::from_secs(30);

/// A namenode that is served on a free port.
pub struct Served {
    pub namenode: Namenode,
    pub server: Server,
    pub metrics: Arc<Metrics>,
    pub service: Arc<Service>,
}

impl Served {
    pub async fn fresh() -> Served {
        Served::over(Namenode::fresh().await, Limits::default(), None)
    }

    /// Over rows that may be shared; every round trip to them takes `delay`.
    pub async fn slow(rows: &Mem, delay: Duration, limits: Limits) -> Served {
        Namenode::start(Arc::new(rows.clone()), 1, Config::default()).await;
        let slow = Opened::Other(Arc::new(Delayed::new(rows.clone(), delay)));
        let versions = Versions::of_incarnation(2);
        let namenode = Namenode::unformatted(
            &slow,
            Arc::new(Unfenced),
            versions,
            2,
            Config::default(),
            &GroupConfig::default(),
        );
        Served::over(namenode, limits, None)
    }

    pub fn over(namenode: Namenode, limits: Limits, audit: Option<AuditLog>) -> Served {
        let metrics = Arc::new(Metrics::new());
        let identity = Identity::of_cluster("CID-test");
        let service = Service::new(namenode.engine.clone(), identity, audit, metrics.clone());
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let server = Server::start(listener, service.clone(), limits).unwrap();
        Served { namenode, server, metrics, service }
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.server.address(), Some(SUPERUSER), None).await
    }
}

/// One connection of a client, in the test's own hands.
pub struct Client {
    pub stream: TcpStream,
    pub id: Bytes,
    received: BytesMut,
}

impl Client {
    pub async fn raw(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.unwrap();
        Client { stream, id: Bytes::from_static(b"0123456789abcdef"), received: BytesMut::new() }
    }

    pub async fn connect(address: SocketAddr, user: Option<&str>, real: Option<&str>) -> Client {
        let mut client = Client::raw(address).await;
        let mut hello = BytesMut::new();
        put_hello(&mut hello, user.unwrap_or_default(), real, &client::SERVICE, &client.id).unwrap();
        client.stream.write_all(&hello).await.unwrap();
        client
    }

    pub fn frame<Q: Checked, A>(&self, number: i32, rpc: Rpc<Q, A>, request: &Q) -> BytesMut {
        let mut out = BytesMut::new();
        let id = CallId { call_id: number, retry_count: 0, client_id: self.id.clone() };
        put_call(&mut out, &rpc, &id, Some("CLI"), request).unwrap();
        out
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next answer; `None` when the server closed the connection.
    pub async fn answer(&mut self) -> Option<Answer> {
        loop {
            if let Some(frame) = next_frame(&mut self.received, MAX_FRAME_BYTES).unwrap() {
                return Some(Answer::read(frame).unwrap());
            }
            let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.received));
            match read.await.expect("the server answers or closes") {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub async fn call<Q: Checked, A: Checked>(
        &mut self,
        number: i32,
        rpc: Rpc<Q, A>,
        request: Q,
    ) -> Result<A, RpcError> {
        let frame = self.frame(number, rpc, &request);
        self.send(&frame).await;
        let answer = self.answer().await.expect("an answer");
        assert_eq!(answer.call_id, number);
        answer.decode(&rpc)
    }

    pub async fn mkdirs(&mut self, number: i32, path: &str) -> Result<bool, RpcError> {
        Ok(self.call(number, client::MKDIRS, mkdirs(path)).await?.result)
    }

    pub async fn delete(&mut self, number: i32, path: &str) -> Result<bool, RpcError> {
        let request = hdfs::DeleteRequestProto { src: path.into(), recursive: true };
        Ok(self.call(number, client::DELETE, request).await?.result)
    }
}

pub fn mkdirs(path: &str) -> hdfs::MkdirsRequestProto {
    hdfs::MkdirsRequestProto {
        src: path.into(),
        masked: hdfs::FsPermissionProto { perm: 0o755 },
        create_parent: true,
        unmasked: None,
    }
}

/// Waits until a condition holds.
pub async fn until(mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it comes to hold");
}

/// Encoded length-delimited, as parts of a frame.
pub fn encoded(message: &impl Message) -> Vec<u8> {
    message.encode_length_delimited_to_vec()
}

//! A namenode in this process that does with each call what the test says, and remembers what it saw.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use trellis_client::Client;
use trellis_client::client::Builder;
use trellis_client::config::{ConnectionConfig, RetryPolicy};
use trellis_client::uri::Address;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::hdfs;
use trellis_proto::methods::SERVICES;
use trellis_proto::rpc::{CallId, Event, ServerConn, reply};

/// A call as a namenode saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Counts the connections of this namenode, from 0.
    pub connection: usize,
    pub method: &'static str,
    pub id: CallId,
    pub body: Bytes,
    pub user: String,
    pub caller_context: String,
}

/// What the namenode does with a call.
pub enum Act {
    /// Sends these bytes, now.
    Send(Bytes),
    /// Sends these bytes after a while; other calls go on.
    Later(Duration, Bytes),
    /// No answer ever.
    Nothing,
    /// Sends these bytes, then ends the connection.
    SendAndClose(Bytes),
    /// Ends the connection with a reset.
    Reset,
    /// Sends zeros until the client closes the connection.
    Flood(Bytes),
    /// Hands the id out; the test answers through [`Fake::send`].
    Hold,
}

pub type Script = dyn Fn(usize, &Seen) -> Act + Send + Sync;

/// The namenode; stops serving when dropped.
pub struct Fake {
    pub address: Address,
    pub state: Arc<State>,
    accepting: AbortHandle,
}

#[derive(Default)]
pub struct State {
    pub seen: Mutex<Vec<Seen>>,
    pub pings: AtomicUsize,
    pub connections: AtomicUsize,
    pub closed: AtomicUsize,
    /// By connection.
    writers: Mutex<Vec<mpsc::UnboundedSender<Out>>>,
    tasks: Mutex<Vec<AbortHandle>>,
}

enum Out {
    Bytes(Bytes),
    Close,
    Reset,
    Flood(Bytes),
}

impl Fake {
    pub async fn start(script: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Self {
        Self::start_on(0, script).await
    }

    /// On this port, 0 for any.
    pub async fn start_on(port: u16, script: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let address = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
        let state = Arc::new(State::default());
        let script: Arc<Script> = Arc::new(script);
        let accepting = tokio::spawn(accept(listener, state.clone(), script)).abort_handle();
        Self { address, state, accepting }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    pub fn methods(&self) -> Vec<&'static str> {
        self.seen().iter().map(|call| call.method).collect()
    }

    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Sends bytes on a connection.
    pub fn send(&self, connection: usize, bytes: Bytes) {
        let _ = self.state.writers.lock().unwrap()[connection].send(Out::Bytes(bytes));
    }

    /// As if the process were killed: no new connections, and the old ones end.
    pub fn kill(&self) {
        self.accepting.abort();
        for task in self.state.tasks.lock().unwrap().drain(..) {
            task.abort();
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>, script: Arc<Script>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let connection = state.connections.fetch_add(1, Ordering::SeqCst);
        let (sender, receiver) = mpsc::unbounded_channel();
        state.writers.lock().unwrap().push(sender.clone());
        let task = tokio::spawn(serve(stream, connection, state.clone(), script.clone(), sender, receiver));
        state.tasks.lock().unwrap().push(task.abort_handle());
    }
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    state: Arc<State>,
    script: Arc<Script>,
    sender: mpsc::UnboundedSender<Out>,
    mut out: mpsc::UnboundedReceiver<Out>,
) {
    let mut conn = ServerConn::new(SERVICES, 1 << 20, connection as u64);
    let mut buf = BytesMut::new();
    let mut user = String::new();
    loop {
        tokio::select! {
            read = stream.read_buf(&mut buf) => if !matches!(read, Ok(1..)) {
                break;
            },
            Some(out) = out.recv() => match out {
                Out::Bytes(bytes) => stream.write_all(&bytes).await.unwrap(),
                Out::Close => break,
                Out::Reset => {
                    stream.set_zero_linger().unwrap();
                    break;
                }
                Out::Flood(bytes) => {
                    let _ = stream.write_all(&bytes).await;
                    while stream.write_all(&[0; 4096]).await.is_ok() {}
                    break;
                }
            },
        }
        while let Some(event) = conn.next_event(&mut buf) {
            match event {
                Event::Context(context) => user = context.user.unwrap(),
                Event::Ping => drop(state.pings.fetch_add(1, Ordering::SeqCst)),
                Event::Reply(bytes) | Event::ReplyAndClose(bytes) => {
                    panic!("the client sent nonsense: {bytes:?}")
                }
                Event::Call(call) => {
                    let seen = Seen {
                        connection,
                        method: call.method.name,
                        id: call.id,
                        body: call.body,
                        user: user.clone(),
                        caller_context: String::from_utf8(call.caller_context.to_vec()).unwrap(),
                    };
                    let nth = {
                        let mut all = state.seen.lock().unwrap();
                        all.push(seen.clone());
                        all.len() - 1
                    };
                    act(script(nth, &seen), &sender);
                }
            }
        }
    }
    state.closed.fetch_add(1, Ordering::SeqCst);
}

fn act(act: Act, sender: &mpsc::UnboundedSender<Out>) {
    match act {
        Act::Send(bytes) => drop(sender.send(Out::Bytes(bytes))),
        Act::Nothing | Act::Hold => {}
        Act::Reset => drop(sender.send(Out::Reset)),
        Act::Flood(bytes) => drop(sender.send(Out::Flood(bytes))),
        Act::SendAndClose(bytes) => {
            let _ = sender.send(Out::Bytes(bytes));
            let _ = sender.send(Out::Close);
        }
        Act::Later(wait, bytes) => {
            let sender = sender.clone();
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                let _ = sender.send(Out::Bytes(bytes));
            });
        }
    }
}

/// A whole answer.
pub fn success<M: Message>(seen: &Seen, response: &M) -> Bytes {
    let mut out = BytesMut::new();
    reply::put_success(&mut out, &seen.id, response);
    out.freeze()
}

/// An exception.
pub fn exception(seen: &Seen, kind: Kind, message: &str) -> Bytes {
    let mut out = BytesMut::new();
    reply::put_error(&mut out, &seen.id, &RpcError::new(kind, message));
    out.freeze()
}

/// The status of a file with this id.
pub fn status(name: &str, file_id: u64) -> hdfs::HdfsFileStatusProto {
    hdfs::HdfsFileStatusProto {
        file_type: hdfs::hdfs_file_status_proto::FileType::IsFile.into(),
        path: name.as_bytes().to_vec().into(),
        permission: hdfs::FsPermissionProto { perm: 0o644 },
        owner: "o".into(),
        group: "g".into(),
        file_id: Some(file_id),
        ..Default::default()
    }
}

/// The request, decoded.
pub fn request<M: Message + Default>(seen: &Seen) -> M {
    M::decode(seen.body.clone()).unwrap()
}

/// Answers as a namenode would, as far as these tests need it. The file id of `/N` is N.
pub fn answer(seen: &Seen) -> Bytes {
    match seen.method {
        "mkdirs" => success(seen, &hdfs::MkdirsResponseProto { result: true }),
        "delete" => success(seen, &hdfs::DeleteResponseProto { result: true }),
        "rename" => success(seen, &hdfs::RenameResponseProto { result: true }),
        "complete" => success(seen, &hdfs::CompleteResponseProto { result: true }),
        "renewLease" => success(seen, &hdfs::RenewLeaseResponseProto {}),
        "create" => success(seen, &hdfs::CreateResponseProto { fs: Some(status("", 17)) }),
        "getFileInfo" => {
            let src = request::<hdfs::GetFileInfoRequestProto>(seen).src;
            let fs = Some(status("", src[1..].parse().unwrap()));
            success(seen, &hdfs::GetFileInfoResponseProto { fs })
        }
        "getServerDefaults" => {
            let server_defaults =
                hdfs::FsServerDefaultsProto { block_size: 4096, replication: 2, ..Default::default() };
            success(seen, &hdfs::GetServerDefaultsResponseProto { server_defaults })
        }
        other => panic!("{other} is not scripted"),
    }
}

/// A namenode that answers everything.
pub async fn good() -> Fake {
    Fake::start(|_, seen| Act::Send(answer(seen))).await
}

/// An address where nobody listens.
pub async fn nobody() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Address::new("127.0.0.1", listener.local_addr().unwrap().port())
}

/// Settings for a client that begins with the first namenode and does not wait long between attempts.
pub fn builder(namenodes: &[&Address]) -> Builder {
    let retry = RetryPolicy {
        backoff_base: Duration::from_millis(2),
        backoff_max: Duration::from_millis(10),
        ..RetryPolicy::default()
    };
    Client::builder(namenodes.iter().map(|address| (*address).clone()).collect())
        .random_order(false)
        .user("ann")
        .retry(retry)
}

/// With these connection settings.
pub fn client_with(namenodes: &[&Address], change: impl FnOnce(&mut ConnectionConfig)) -> Client {
    let mut config = ConnectionConfig::default();
    change(&mut config);
    builder(namenodes).connection(config).build().unwrap()
}

pub fn client(namenodes: &[&Address]) -> Client {
    client_with(namenodes, |_| {})
}

/// Waits for a condition; fails when it takes absurdly long.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..4000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what} did not happen");
}

/// Runs a test's future with a runtime of two threads, so that tasks really run at once.
pub fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

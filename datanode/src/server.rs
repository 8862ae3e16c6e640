//! A datanode's life: opens its ports, finds its namenodes, serves until it is told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use trellis_client::uri::Address;
use trellis_proto::hdfs::DatanodeIdProto;
use trellis_proto::hdfs::datanode::DatanodeCommandProto;
use trellis_proto::hdfs::datanode::error_report_request_proto::ErrorCode;

use crate::config::Config;
use crate::http;
use crate::metrics::Metrics;
use crate::namenodes::actor::Actor;
use crate::namenodes::{Namenodes, commands};
use crate::node::Node;
pub use crate::node::Opener;
use crate::rpc;
use crate::shared::{Shared, blocking};
use crate::transfer;

/// Commands that may wait to be obeyed.
const MAX_COMMANDS: usize = 1024;
/// How long the namenodes but the first have to know a new datanode, before it counts as ready without them.
const OTHERS_WAIT: Duration = Duration::from_secs(3);
/// How long a stop waits for all that serves; the data port takes the longest of its own accord.
const END_WAIT: Duration = Duration::from_secs(6);
/// How long it waits for the folders after that.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// How long accepting pauses when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long namenodes are given to hear that all disks failed.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Everything that a datanode is told at its start.
pub struct Options {
    /// All namenodes of one service.
    pub namenodes: Vec<Address>,
    /// Address of the data port; port 0 = any free one.
    pub data: SocketAddr,
    /// Address of the IPC port.
    pub ipc: SocketAddr,
    /// Address of the HTTP port.
    pub http: SocketAddr,
    /// As others reach this datanode, where that is not by the addresses that it listens on.
    pub advertised: Advertised,
    /// Settings.
    pub config: Config,
    /// Opens the store.
    pub open: Opener,
}

/// What namenodes and clients are told instead of what this datanode listens on, e.g. behind a port mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertised {
    /// The host's name; that of this machine if None.
    pub hostname: Option<String>,
    /// The data port's address, which namenodes may replace by the one they see.
    pub data: Option<SocketAddr>,
    /// The IPC port.
    pub ipc_port: Option<u16>,
}

/// One of a datanode's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Data transfer.
    Data,
    /// RPC of clients and other datanodes.
    Ipc,
    /// `/metrics` and `/health`.
    Http,
}

/// Why a datanode could not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A port that cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Which.
        port: Port,
        /// Where.
        address: SocketAddr,
        /// What happened.
        error: io::Error,
    },
    /// None is named.
    #[error("no namenode is named")]
    NoNamenodes,
    /// Each said why.
    #[error("no namenode is left to serve: {0}")]
    NoneLeft(String),
    /// Nothing is left to serve from.
    #[error("all storages failed")]
    NoStorage,
    /// Something that does not happen.
    #[error("{0}")]
    Lost(String),
}

/// A running datanode.
pub struct Datanode {
    /// Where its data port listens.
    pub data: SocketAddr,
    /// Where its IPC port listens.
    pub ipc: SocketAddr,
    /// Where its HTTP port listens.
    pub http: SocketAddr,
    stop: watch::Sender<bool>,
    known: watch::Receiver<usize>,
    namenodes: usize,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Datanode {
    /// Opens the ports and looks for the namenodes; serves once the first has answered. Runs in tasks of the current
    /// runtime and threads of its own.
    pub async fn start(options: Options) -> Result<Datanode, ServeError> {
        if options.namenodes.is_empty() {
            return Err(ServeError::NoNamenodes);
        }
        let (data, data_at) = listen(Port::Data, options.data).await?;
        let (ipc, ipc_at) = listen(Port::Ipc, options.ipc).await?;
        let (http, http_at) = listen(Port::Http, options.http).await?;
        let id = identity(&options.advertised, data_at, ipc_at, http_at);
        let namenodes = options.namenodes.len();
        let (commands, orders) = mpsc::channel(MAX_COMMANDS);
        let (stop, stopped) = watch::channel(false);
        let node = Arc::new(Node {
            namenodes: Arc::new(Namenodes::new(&options.namenodes, id.clone(), &options.config)),
            config: options.config,
            metrics: Arc::new(Metrics::new()),
            commands,
            known: watch::Sender::new(0),
            opened: watch::Sender::new(None),
            failures: watch::Sender::new(0),
            shutdown: watch::Sender::new(false),
            id,
            open: Mutex::new(Some(options.open)),
            closed: Mutex::default(),
            once: OnceCell::new(),
        });
        let known = node.known.subscribe();
        let life = Life { node, data: Some(data), ipc: Some(ipc), orders: Some(orders), stopped };
        let task = tokio::spawn(life.live(http));
        Ok(Datanode { data: data_at, ipc: ipc_at, http: http_at, stop, known, namenodes, task })
    }

    /// Waits until the namenodes know this datanode and its room, those that answer soon and at least one; or it ended.
    pub async fn known(&mut self) -> Result<(), ServeError> {
        let (heard, all) = (&mut self.known, self.namenodes);
        let known = async {
            // It fails only when the datanode has ended, which is seen below.
            if heard.wait_for(|count| *count > 0).await.is_err() {
                std::future::pending().await
            }
            let _ = tokio::time::timeout(OTHERS_WAIT, heard.wait_for(|count| *count >= all)).await;
        };
        tokio::select! {
            () = known => Ok(()),
            ended = &mut self.task => flat(ended),
        }
    }

    /// Waits until it ends: by itself with an error, or without one because it was shut down by RPC.
    pub async fn ended(&mut self) -> Result<(), ServeError> {
        flat((&mut self.task).await)
    }

    /// Cuts sessions off and ends; what they wrote stays for recovery.
    pub async fn stop(self) -> Result<(), ServeError> {
        self.stop.send_replace(true);
        flat(self.task.await)
    }
}

fn flat(ended: Result<Result<(), ServeError>, tokio::task::JoinError>) -> Result<(), ServeError> {
    ended.unwrap_or_else(|panic| Err(ServeError::Lost(panic.to_string())))
}

async fn listen(port: Port, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let error = |error| ServeError::Listen { port, address, error };
    let listener = TcpListener::bind(address).await.map_err(error)?;
    let at = listener.local_addr().map_err(error)?;
    Ok((listener, at))
}

/// The next connection; while none can be accepted, it is tried again and again.
pub(crate) async fn accept(listener: &TcpListener, port: Port) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(?port, %error, "cannot accept a connection; raise the limit of open files if it is that");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// As it registers, but for the uuid.
fn identity(advertised: &Advertised, data: SocketAddr, ipc: SocketAddr, http: SocketAddr) -> DatanodeIdProto {
    let data = advertised.data.unwrap_or(data);
    let own_name = || nix::unistd::gethostname().ok()?.into_string().ok();
    let hostname = advertised.hostname.clone().or_else(own_name);
    DatanodeIdProto {
        ip_addr: data.ip().to_string(),
        host_name: hostname.unwrap_or_else(|| data.ip().to_string()),
        datanode_uuid: String::new(),
        xfer_port: data.port().into(),
        info_port: http.port().into(),
        ipc_port: advertised.ipc_port.unwrap_or(ipc.port()).into(),
        info_secure_port: None,
    }
}

/// Waits until it is true, or nobody can say so any more.
async fn said(flag: &mut watch::Receiver<bool>) {
    let _ = flag.wait_for(|said| *said).await;
}

struct Life {
    node: Arc<Node>,
    data: Option<TcpListener>,
    ipc: Option<TcpListener>,
    orders: Option<mpsc::Receiver<DatanodeCommandProto>>,
    stopped: watch::Receiver<bool>,
}

impl Life {
    async fn live(mut self, http: TcpListener) -> Result<(), ServeError> {
        let (end, ended) = watch::channel(false);
        let mut servers = JoinSet::new();
        servers.spawn(http::serve(http, self.node.clone(), ended.clone()));
        let mut actors = JoinSet::new();
        for index in 0..self.node.namenodes.len() {
            actors.spawn(Actor::new(index, self.node.clone()).run(ended.clone()));
        }
        let outcome = self.serve(&mut servers, &mut actors, &ended).await;
        end.send_replace(true);
        let all = async {
            while actors.join_next().await.is_some() {}
            while servers.join_next().await.is_some() {}
        };
        if tokio::time::timeout(END_WAIT, all).await.is_err() {
            tracing::warn!("what waits for a disk is left behind");
            actors.shutdown().await;
            servers.shutdown().await;
        }
        let closed = self.node.closed.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(self);
        if let Some(mut closed) = closed
            && tokio::time::timeout(STOP_WAIT, closed.recv()).await.is_err()
        {
            tracing::warn!(
                "a disk does not answer, or a slow copy waits: the folders stay locked until this process ends"
            );
        }
        outcome
    }

    /// Runs until it is told to stop, or there is nothing more to do.
    async fn serve(
        &mut self,
        servers: &mut JoinSet<()>,
        actors: &mut JoinSet<Option<String>>,
        ended: &watch::Receiver<bool>,
    ) -> Result<(), ServeError> {
        let (mut opened, mut failures) = (self.node.opened.subscribe(), self.node.failures.subscribe());
        let (mut shutdown, mut stopped) = (self.node.shutdown.subscribe(), self.stopped.clone());
        let mut gone = Vec::new();
        loop {
            tokio::select! {
                () = said(&mut stopped) => return Ok(()),
                () = said(&mut shutdown) => return Ok(()),
                Ok(()) = opened.changed() => {
                    let shared = opened.borrow_and_update().clone();
                    if let Some(shared) = shared {
                        self.start_servers(servers, &shared, ended);
                    }
                }
                Ok(()) = failures.changed() => {
                    failures.borrow_and_update();
                    let all_failed = tokio::select! {
                        all_failed = self.all_failed() => all_failed,
                        () = said(&mut stopped) => false,
                    };
                    if all_failed {
                        return Err(ServeError::NoStorage);
                    }
                }
                Some(actor) = actors.join_next() => {
                    gone.push(actor.unwrap_or_else(|panic| Some(panic.to_string())).unwrap_or_default());
                    if gone.len() == self.node.namenodes.len() {
                        gone.dedup();
                        return Err(ServeError::NoneLeft(gone.join("; ")));
                    }
                }
            }
        }
    }

    /// The store is open: now there is something to serve.
    fn start_servers(
        &mut self,
        servers: &mut JoinSet<()>,
        shared: &Arc<Shared>,
        ended: &watch::Receiver<bool>,
    ) {
        if let Some(data) = self.data.take() {
            servers.spawn(transfer::serve(data, shared.clone(), ended.clone()));
        }
        if let Some(ipc) = self.ipc.take() {
            servers.spawn(rpc::server::serve(ipc, shared.clone(), ended.clone()));
        }
        if let Some(orders) = self.orders.take() {
            servers.spawn(commands::obey(shared.clone(), orders, ended.clone()));
        }
    }

    /// Whether no storage is left; then the namenodes are told.
    async fn all_failed(&self) -> bool {
        let Some(shared) = self.node.opened.borrow().clone() else { return false };
        let storages = blocking(&shared, |shared| shared.store.storages()).await;
        if !storages.is_ok_and(|storages| storages.iter().all(|storage| storage.failed)) {
            return false;
        }
        self.node.namenodes.note(ErrorCode::FatalDiskError, "all storages failed");
        let told = async {
            while self.node.namenodes.outboxes().any(|outbox| outbox.has_notes()) {
                tokio::time::sleep(LAST_WORDS / 100).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, told).await;
        true
    }
}

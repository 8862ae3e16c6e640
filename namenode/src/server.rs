//! A namenode's life: joins, serves, and when it was evicted joins anew.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use trellis_metastore::group::GroupConfig;
use trellis_metastore::lmdb::LmdbConfig;
use trellis_metastore::open::{Opened, StoreUrl};
use trellis_metastore::store::{Store, StoreError};

use crate::audit::AuditLog;
use crate::config::Config;
use crate::engine::Engine;
use crate::engine::backend::Backend;
use crate::http;
use crate::jobs::{datanodes, lease_expiry, reaper, replication, retry_sweep};
use crate::membership::{Addresses, Membership};
use crate::metrics::Metrics;
use crate::ops::format::Format;
use crate::refusal::RpcError;
use crate::rpc::identity::Identity;
use crate::rpc::server::{Limits, Server, listen};
use crate::rpc::service::Service;
use crate::store::{check_servable, init, system_clock};
use crate::user::Users;

/// Everything that a namenode is told at its start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the rows are.
    pub store: StoreUrl,
    /// Address of the RPC port; port 0 = any free one.
    pub rpc: SocketAddr,
    /// Address of the HTTP port; port 0 = any free one.
    pub http: SocketAddr,
    /// Where audit lines go, if anywhere.
    pub audit: Option<PathBuf>,
    /// Settings of operations and housekeeping.
    pub config: Config,
    /// Settings of groups.
    pub group: GroupConfig,
    /// Settings of the embedded store.
    pub lmdb: LmdbConfig,
    /// Limits of the RPC server.
    pub limits: Limits,
}

/// Why a namenode could not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The store.
    #[error("store {url}: {error}")]
    Store {
        /// Which.
        url: StoreUrl,
        /// What happened.
        error: StoreError,
    },
    /// The store is not ready to be served.
    #[error("store {url}: {}", .error.message)]
    NotServable {
        /// Which.
        url: StoreUrl,
        /// What happened.
        error: RpcError,
    },
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
    /// A file, or the process itself.
    #[error("{what}: {error}")]
    Io {
        /// What was opened.
        what: String,
        /// What happened.
        error: io::Error,
    },
}

/// One of a namenode's two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// For clients.
    Rpc,
    /// For `/metrics` and `/health`.
    Http,
}

/// A running namenode.
pub struct Namenode {
    /// Where its RPC port listens.
    pub rpc: SocketAddr,
    /// Where its HTTP port listens.
    pub http: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Namenode {
    /// Opens the store, joins, and serves; returns once clients are answered. Runs in tasks of the current runtime.
    pub async fn start(options: Options) -> Result<Namenode, ServeError> {
        let store_error = |error| ServeError::Store { url: options.store.clone(), error };
        let opened = open(&options).map_err(store_error)?;
        let not_servable = |error| ServeError::NotServable { url: options.store.clone(), error };
        if options.store == StoreUrl::Mem {
            // Nobody else could have made it ready.
            let call = Format {
                cluster_id: "CID-in-memory".into(),
                cluster_id_given: false,
                superuser: Users::of_process(),
                supergroup: options.config.supergroup.clone(),
            };
            init(&opened, call).await.map_err(not_servable)?;
        }
        let cluster_id = check_servable(&opened).await.map_err(not_servable)?;
        let (stop, stopped) = watch::channel(false);
        let (ready, serves) = oneshot::channel();
        let life = Life {
            identity: Identity::of_cluster(&cluster_id),
            metrics: Arc::new(Metrics::new()),
            opened,
            options,
        };
        let task = tokio::spawn(life.live(stopped, ready));
        match serves.await {
            Ok((rpc, http)) => Ok(Namenode { rpc, http, stop, task }),
            Err(_) => match task.await {
                Ok(Err(error)) => Err(error),
                Ok(Ok(())) => Err(lost("the namenode ended before it served")),
                Err(panic) => Err(lost(&panic.to_string())),
            },
        }
    }

    /// Waits until it ends by itself; only an error makes it.
    pub async fn ended(&mut self) -> Result<(), ServeError> {
        (&mut self.task).await.unwrap_or_else(|panic| Err(lost(&panic.to_string())))
    }

    /// Answers what is in flight, leaves the cluster, ends.
    pub async fn stop(self) -> Result<(), ServeError> {
        self.stop.send_replace(true);
        self.task.await.unwrap_or_else(|panic| Err(lost(&panic.to_string())))
    }
}

fn open(options: &Options) -> Result<Opened, StoreError> {
    let (store, lmdb, delay) = (&options.store, options.lmdb.clone(), options.config.store_delay);
    if delay.is_zero() {
        return Opened::open(store, lmdb);
    }
    tracing::warn!(
        ?delay,
        "store_delay is set: every round trip to the store waits so long, for measuring only"
    );
    Opened::open_delayed(store, lmdb, delay)
}

fn lost(why: &str) -> ServeError {
    ServeError::Io { what: "namenode".into(), error: io::Error::other(why.to_owned()) }
}

/// What stays over all lives of one process.
struct Life {
    opened: Opened,
    identity: Identity,
    metrics: Arc<Metrics>,
    options: Options,
}

impl Life {
    async fn live(
        mut self,
        mut stop: watch::Receiver<bool>,
        ready: oneshot::Sender<(SocketAddr, SocketAddr)>,
    ) -> Result<(), ServeError> {
        let mut ready = Some(ready);
        loop {
            let evicted = self.one_life(&mut stop, &mut ready).await?;
            if !evicted {
                return Ok(());
            }
            tracing::warn!("joins anew after an eviction");
        }
    }

    /// From joining to stopping (false) or eviction (true).
    async fn one_life(
        &mut self,
        stop: &mut watch::Receiver<bool>,
        ready: &mut Option<oneshot::Sender<(SocketAddr, SocketAddr)>>,
    ) -> Result<bool, ServeError> {
        let options = &mut self.options;
        let io = |what: String| move |error| ServeError::Io { what, error };
        let taken = |port, address| move |error| ServeError::Listen { port, address, error };
        let rpc = listen(options.rpc).map_err(taken(Port::Rpc, options.rpc))?;
        let http = listen(options.http).map_err(taken(Port::Http, options.http))?;
        // A port that was free stays this namenode's over all its lives.
        options.rpc = rpc.local_addr().map_err(io("RPC port".into()))?;
        options.http = http.local_addr().map_err(io("HTTP port".into()))?;
        let addresses = Addresses { rpc: options.rpc.to_string(), http: options.http.to_string() };

        let url = options.store.clone();
        let store_error = |error| ServeError::Store { url: url.clone(), error };
        let lanes = Backend::write_lanes(&self.opened, &options.group);
        let membership =
            Membership::join(shared_store(&self.opened), lanes, &addresses).await.map_err(store_error)?;
        let versions = membership.versions().clone();
        let backend = Backend::start(&self.opened, membership.clone(), versions, &options.group)
            .map_err(store_error)?;
        let users = Users::new(Users::of_process(), options.config.supergroup.clone());
        let pool = &self.identity.block_pool_id;
        let engine =
            Engine::new(backend, options.config.clone(), users, pool, membership.id(), system_clock());
        let audit = options.audit.as_ref().map(|path| {
            AuditLog::to_file(path, self.metrics.audit_lost.clone()).map_err(io(path.display().to_string()))
        });
        let service =
            Service::new(engine.clone(), self.identity.clone(), audit.transpose()?, self.metrics.clone());

        // Whom it should hear of is known before it serves.
        if let Err(error) = datanodes::round(&engine).await {
            tracing::warn!(%error, "looking at datanodes failed; it is tried again");
        }

        let (end, ended) = watch::channel(false);
        let mut jobs = start_jobs(&engine, &membership, &ended);
        jobs.spawn(http::serve(http, service.clone(), ended.clone()));
        let server = Server::start(rpc, service, options.limits.clone()).map_err(io("RPC server".into()))?;
        tracing::info!(id = membership.id(), rpc = addresses.rpc, http = addresses.http, "serves");
        if let Some(ready) = ready.take() {
            let _ = ready.send((options.rpc, options.http));
        }

        let mut evicted = membership.evicted();
        let was_evicted = tokio::select! {
            _ = evicted.wait_for(|evicted| *evicted) => true,
            _ = stop.wait_for(|stop| *stop) => false,
        };
        if was_evicted {
            server.close_all();
            server.closed().await;
        } else {
            server.stop().await;
        }
        end.send_replace(true);
        while jobs.join_next().await.is_some() {}
        if !was_evicted && let Err(error) = membership.leave().await {
            tracing::warn!(%error, "could not leave the cluster: the others will notice by themselves");
        }
        Ok(was_evicted)
    }
}

/// Heartbeats and housekeeping, until `ended`.
fn start_jobs(
    engine: &Arc<Engine>,
    membership: &Arc<Membership>,
    ended: &watch::Receiver<bool>,
) -> JoinSet<()> {
    let config = engine.config();
    let mut jobs = JoinSet::new();
    jobs.spawn(membership.clone().keep(config.heartbeat, config.member_timeout, ended.clone()));
    jobs.spawn(reaper::run(engine.clone(), ended.clone()));
    jobs.spawn(datanodes::run(engine.clone(), ended.clone()));
    let leads = |membership: Arc<Membership>| Arc::new(move || membership.term());
    jobs.spawn(lease_expiry::run(engine.clone(), leads(membership.clone()), ended.clone()));
    jobs.spawn(replication::run(engine.clone(), leads(membership.clone()), ended.clone()));
    jobs.spawn(retry_sweep::run(engine.clone(), leads(membership.clone()), ended.clone()));
    jobs
}

fn shared_store(opened: &Opened) -> Arc<dyn Store> {
    match opened {
        Opened::Lmdb(lmdb) => Arc::new(lmdb.clone()),
        Opened::Delayed(store) => Arc::new(store.clone()),
        Opened::Other(store) => store.clone(),
    }
}

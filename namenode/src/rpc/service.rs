//! What the namenode answers: calls are looked up in the method tables, run, measured and audited.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::time::Instant;
use trellis_proto::exception::{Log, RpcError};
use trellis_proto::methods::{Method, Service as Protocol};

use super::call::{Caller, Incoming, Outcome};
use super::client_protocol::CLIENT_PROTOCOL;
use super::identity::Identity;
use super::plan::{Entry, Methods};
use super::protocols;
use super::server::Hub;
use crate::audit::{AuditLog, Trail};
use crate::engine::Engine;
use crate::metrics::{self, MethodMeter, Metrics};

/// Every protocol that is served, the busiest first.
pub static TABLES: &[&Methods] = &[
    &CLIENT_PROTOCOL,
    &protocols::DATANODE_PROTOCOL,
    &protocols::NAMENODE_PROTOCOL,
    &protocols::HA_SERVICE_PROTOCOL,
    &protocols::GET_USER_MAPPINGS,
    &protocols::REFRESH_USER_MAPPINGS,
    &protocols::REFRESH_AUTHORIZATION_POLICY,
    &protocols::REFRESH_CALL_QUEUE,
    &protocols::GENERIC_REFRESH,
    &protocols::RECONFIGURATION,
];

/// The protocols of [`TABLES`].
pub(super) static PROTOCOLS: &[&Protocol] = &[
    CLIENT_PROTOCOL.protocol,
    protocols::DATANODE_PROTOCOL.protocol,
    protocols::NAMENODE_PROTOCOL.protocol,
    protocols::HA_SERVICE_PROTOCOL.protocol,
    protocols::GET_USER_MAPPINGS.protocol,
    protocols::REFRESH_USER_MAPPINGS.protocol,
    protocols::REFRESH_AUTHORIZATION_POLICY.protocol,
    protocols::REFRESH_CALL_QUEUE.protocol,
    protocols::GENERIC_REFRESH.protocol,
    protocols::RECONFIGURATION.protocol,
];

/// One method, ready to be called.
struct Route {
    entry: &'static Entry,
    meter: MethodMeter,
}

/// The RPC service of a namenode.
pub struct Service {
    engine: Arc<Engine>,
    identity: Identity,
    audit: Option<AuditLog>,
    metrics: Arc<Metrics>,
    /// Per protocol, in the order of [`PROTOCOLS`], per method in the order of the protocol: its place in `routes`.
    places: Vec<Vec<usize>>,
    routes: Vec<Route>,
    ready: AtomicBool,
    hub: OnceLock<Weak<Hub>>,
}

impl Service {
    /// A service over an engine. `audit`: where audit lines go, if anywhere.
    pub fn new(
        engine: Arc<Engine>,
        identity: Identity,
        audit: Option<AuditLog>,
        metrics: Arc<Metrics>,
    ) -> Arc<Service> {
        let mut routes = Vec::new();
        let mut places = Vec::new();
        for table in TABLES {
            let simple_name = table.protocol.protocol.rsplit('.').next().unwrap_or_default();
            let place = |method: &Method| {
                table.entries.iter().find(|entry| entry.name == method.name).map(|entry| {
                    routes.push(Route { entry, meter: MethodMeter::new(simple_name, entry.name) });
                    routes.len() - 1
                })
            };
            // A test sees to it that every method of every protocol has its line.
            places.push(table.protocol.methods.iter().filter_map(place).collect());
        }
        Arc::new(Service {
            engine,
            identity,
            audit,
            metrics,
            places,
            routes,
            ready: AtomicBool::new(false),
            hub: OnceLock::new(),
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The cluster's names.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The namenode's metrics.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// All metrics, in Prometheus' text format.
    pub fn metrics_page(&self) -> String {
        for (name, help, value) in self.engine.backend().counters().read().entries() {
            self.metrics.set_counter(&metrics::store_counter(name), help, value);
        }
        let dropped = self.audit.as_ref().map_or(0, AuditLog::dropped);
        self.metrics.set_counter(metrics::AUDIT_DROPPED.name, metrics::AUDIT_DROPPED.help, dropped);
        self.engine.datanodes().report(&self.metrics);
        if let Some(hub) = self.hub.get().and_then(Weak::upgrade) {
            hub.report();
        }
        self.metrics.render()
    }

    /// The server that serves it, once there is one: it has numbers of its own.
    pub(super) fn served_by(&self, hub: &Arc<Hub>) {
        let _ = self.hub.set(Arc::downgrade(hub));
    }

    /// Whether a server serves it now.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    pub(super) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// The place of a method in the tables.
    pub(super) fn place(&self, protocol: &'static Protocol, method: &'static Method) -> Option<usize> {
        let of_protocol = PROTOCOLS.iter().position(|p| std::ptr::eq(*p, protocol))?;
        // Methods are elements of one static slice: the distance from its start is the index.
        let start = protocol.methods.as_ptr() as usize;
        let index = (std::ptr::from_ref(method) as usize).checked_sub(start)? / size_of::<Method>();
        self.places.get(of_protocol)?.get(index).copied()
    }

    /// Starts a call.
    pub(super) fn start(call: &mut Incoming<'_>) -> Outcome {
        match call.service.routes.get(call.method) {
            Some(route) => (route.entry.run)(call.service, call, route.entry),
            None => call.refuse(RpcError::new(
                trellis_proto::exception::Kind::RpcNoSuchMethod,
                "the method has no line in the table",
            )),
        }
    }

    /// Counts an answer, and logs one that somebody should look at.
    pub(super) fn note(&self, method: usize, error: Option<&RpcError>, arrived: Instant) {
        let Some(route) = self.routes.get(method) else { return };
        route.meter.note(&self.metrics, error, arrived.elapsed());
        if let Some(error) = error {
            match error.kind.row().log {
                Log::Debug => tracing::debug!(method = route.entry.name, %error, "refused"),
                Log::Info => tracing::info!(method = route.entry.name, %error, "refused"),
                Log::Warn => tracing::warn!(method = route.entry.name, %error, "failed"),
            }
        }
    }

    /// Whether there is an audit log.
    pub(super) fn audits(&self) -> bool {
        self.audit.is_some()
    }

    /// Writes an audit line.
    pub(crate) fn audit(&self, trail: &Trail, caller: &Caller, context: &[u8]) {
        if let Some(log) = &self.audit {
            log.log(trail, caller, context);
        }
    }
}

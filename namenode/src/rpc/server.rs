//! The RPC server: a listener, a task per connection, limits, closing.
//!
//! Memory that clients can make it hold, at most:
//! - per connection: 64 KiB of a request being received, 256 KiB of requests in flight and one more, the output up to
//!   `max_output_bytes` and one answer more, and the answers to at most `max_calls` calls that came later;
//! - for all together: `large_request_bytes` for requests above 64 KiB, each lent its whole length before it is
//!   received, and given back when it is answered.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::bell::Bell;
use super::connection;
use super::service::Service;
use super::threads::Threads;
use crate::metrics::{RPC_IN_FLIGHT, RPC_LARGE_REQUESTS};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
/// How long accepting pauses when the process has no descriptor left.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often a stopping server looks whether all is answered.
const DRAIN_CHECK: Duration = Duration::from_millis(5);

/// The limits of an RPC server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections; more are closed at once, so that their clients ask another namenode.
    pub max_connections: usize,
    /// Calls of one connection that wait for the store; beyond it, nothing is read from it.
    pub max_calls: usize,
    /// The largest request (`ipc.maximum.data.length`).
    pub max_frame_bytes: usize,
    /// Memory for all requests above 64 KiB together; at least `max_frame_bytes`.
    pub large_request_bytes: usize,
    /// Answers of one connection that wait for the client to read them; beyond it, nothing is read from it.
    pub max_output_bytes: usize,
    /// A connection that has not said who it is for so long is closed.
    pub handshake: Duration,
    /// A connection on which half a request, or an unread answer, has not moved for so long is closed.
    pub stalled: Duration,
    /// A connection without calls for so long is closed (stock clients close theirs after 10 s).
    pub idle: Duration,
    /// How long a clean stop waits for calls in flight.
    pub drain: Duration,
    /// Threads that serve connections; 0 = one per core.
    pub rpc_threads: usize,
    /// Users that may act for others, whoever they are (stock: `hadoop.proxyuser.NAME.*`; none by default).
    pub proxy_users: Vec<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_connections: 10_000,
            max_calls: 256,
            max_frame_bytes: trellis_proto::frame::MAX_FRAME_BYTES,
            large_request_bytes: 256 << 20,
            max_output_bytes: 1 << 20,
            handshake: Duration::from_secs(20),
            stalled: Duration::from_secs(60),
            idle: Duration::from_secs(600),
            drain: Duration::from_secs(5),
            rpc_threads: 0,
            proxy_users: Vec::new(),
        }
    }
}

/// What the connections of one server share.
pub(crate) struct Hub {
    pub service: Arc<Service>,
    pub limits: Limits,
    /// Bytes for requests above the free size.
    pub large_requests: Arc<Semaphore>,
    /// No new calls are started.
    pub draining: AtomicBool,
    /// Calls whose answers have not left yet.
    pub in_flight: AtomicI64,
    /// The last connection that came was one too many.
    pub is_full: AtomicBool,
}

impl Hub {
    /// Sets the gauges that are read when somebody asks.
    pub(super) fn report(&self) {
        let metrics = self.service.metrics();
        metrics.set_gauge(RPC_IN_FLIGHT, self.in_flight.load(Ordering::Relaxed) as f64);
        let lent = self.limits.large_request_bytes.saturating_sub(self.large_requests.available_permits());
        metrics.set_gauge(RPC_LARGE_REQUESTS, lent as f64);
    }
}

/// How often what the latency histograms have gathered is taken out of their buffers.
const TIDY_EVERY: Duration = Duration::from_secs(2);

/// What a server is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Serve,
    /// Answer what is in flight, then close.
    Stop,
    /// Close everything now.
    Close,
}

/// A running RPC server.
pub struct Server {
    address: SocketAddr,
    order: watch::Sender<Order>,
    task: JoinHandle<()>,
    hub: Arc<Hub>,
}

/// Opens a listening socket (port 0: any free one). Must be called within a tokio runtime.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

impl Server {
    /// Serves connections until it is told to stop, on threads of its own; accepts in a task of the current runtime.
    pub fn start(listener: TcpListener, service: Arc<Service>, mut limits: Limits) -> io::Result<Server> {
        let address = listener.local_addr()?;
        limits.max_calls = limits.max_calls.max(1);
        limits.max_frame_bytes = limits.max_frame_bytes.min(trellis_proto::frame::MAX_FRAME_BYTES);
        let large = limits.large_request_bytes.max(limits.max_frame_bytes).min(Semaphore::MAX_PERMITS);
        limits.large_request_bytes = large;
        service.set_ready(true);
        let hub = Arc::new(Hub {
            service,
            limits,
            large_requests: Arc::new(Semaphore::new(large)),
            draining: AtomicBool::new(false),
            in_flight: AtomicI64::new(0),
            is_full: AtomicBool::new(false),
        });
        hub.service.served_by(&hub);
        let (order, orders) = watch::channel(Order::Serve);
        let threads = Threads::start(match hub.limits.rpc_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        })?;
        let task = tokio::spawn(accept(listener, hub.clone(), threads, orders));
        Ok(Server { address, order, task, hub })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Calls whose answers have not left yet.
    pub fn in_flight(&self) -> u64 {
        self.hub.in_flight.load(Ordering::Relaxed).max(0) as u64
    }

    /// Closes the listener and every connection at once, without an answer: this namenode was evicted, and whatever
    /// its clients wait for is another's to answer.
    pub fn close_all(&self) {
        self.hub.service.set_ready(false);
        self.order.send_replace(Order::Close);
    }

    /// Stops cleanly: accepts no more, starts no more calls, answers those in flight for a bounded time, closes.
    pub async fn stop(self) {
        self.hub.service.set_ready(false);
        self.order.send_if_modified(|order| {
            let serves = *order == Order::Serve;
            if serves {
                *order = Order::Stop;
            }
            serves
        });
        // It ends by itself; a panic in it was logged by the runtime.
        let _ = self.task.await;
    }

    /// Waits until everything is closed after [`Server::close_all`].
    pub async fn closed(self) {
        let _ = self.task.await;
    }
}

async fn accept(listener: TcpListener, hub: Arc<Hub>, threads: Threads, mut orders: watch::Receiver<Order>) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    let mut tidy = tokio::time::interval(TIDY_EVERY);
    tidy.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    number += 1;
                    if admit(&stream, peer, &hub, connections.len()) {
                        let (event_loop, bell) = threads.next();
                        let task = serve(stream, peer, number, hub.clone(), bell);
                        connections.spawn_on(task, event_loop);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection; raise the limit of open files if it is that");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            _ = tidy.tick() => hub.service.metrics().tidy(),
            // An error means that the server was dropped: close.
            changed = orders.changed() => if changed.is_err() || *orders.borrow() != Order::Serve { break },
        }
        hub.service.metrics().connections.set(connections.len() as f64);
    }
    drop(listener);
    if *orders.borrow() == Order::Stop {
        hub.draining.store(true, Ordering::Relaxed);
        let drained = async {
            while hub.in_flight.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(DRAIN_CHECK).await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(hub.limits.drain, drained) => {}
            _ = orders.changed() => {}
        }
    }
    // Dropping a connection's task closes its socket.
    connections.shutdown().await;
    hub.service.metrics().connections.set(0.0);
}

/// Whether a new connection may stay.
fn admit(stream: &TcpStream, peer: SocketAddr, hub: &Hub, connections: usize) -> bool {
    let metrics = hub.service.metrics();
    metrics.connections_total.increment(1);
    let is_full = connections >= hub.limits.max_connections;
    let was_full = hub.is_full.swap(is_full, Ordering::Relaxed);
    if is_full {
        metrics.connections_refused.increment(1);
        if !was_full {
            tracing::warn!(%peer, limit = hub.limits.max_connections, "too many connections: further ones are closed");
        }
        return false;
    }
    let admitted = stream.set_nodelay(true);
    if let Err(error) = &admitted {
        tracing::debug!(%peer, %error, "a connection was gone before it began");
    }
    admitted.is_ok()
}

/// Serves a connection, on the thread that runs this.
async fn serve(accepted: TcpStream, peer: SocketAddr, number: u64, hub: Arc<Hub>, bell: Arc<Bell>) {
    // The listener's event loop gives it up, this one takes it over.
    match accepted.into_std().and_then(TcpStream::from_std) {
        Ok(stream) => connection::serve(stream, peer, number, hub, bell).await,
        Err(error) => tracing::warn!(%peer, %error, "a connection could not be taken over"),
    }
}

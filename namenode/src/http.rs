//! The HTTP port: `/metrics` for Prometheus, `/health`, `/fsck` for stock's client, `/admin/…` for `trellis admin`.
//!
//! A connection carries one request and lives for a bounded time, and there are few at a time: a client that stops in
//! the middle of a request holds up neither others nor the namenode's stop. An answer in lines may take as long as it
//! goes on and is read. Who asks says by `ugi=` who it is, as RPC's callers do.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures::stream;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::engine::permission::check_superuser;
use crate::fsck::lines::{Deadline, Lines};
use crate::fsck::request::Request;
use crate::fsck::{self, admin};
use crate::rpc::call::Caller;
use crate::rpc::server::ACCEPT_PAUSE;
use crate::rpc::service::Service;
use crate::user::check_name;

/// Open connections; more are closed at once.
const MAX_CONNECTIONS: usize = 64;
/// How long a connection may take from its beginning to its end.
const LONGEST: Duration = Duration::from_secs(10);
/// Answers in lines that go on at a time; more are refused.
const MAX_LINES: usize = 8;
/// Who asks without saying who it is (stock: `hadoop.http.staticuser.user`).
const NOBODY: &str = "dr.who";

/// What a connection is answered with.
#[derive(Clone)]
struct Reached {
    service: Arc<Service>,
    /// The address at its other end, without port.
    machine: Arc<str>,
    deadline: Deadline,
    leaves: Arc<Semaphore>,
}

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, service: Arc<Service>, mut stop: watch::Receiver<bool>) {
    let mut stopped = std::pin::pin!(async {
        let _ = stop.wait_for(|stop| *stop).await;
    });
    let leaves = Arc::new(Semaphore::new(MAX_LINES));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) if connections.len() < MAX_CONNECTIONS => {
                    let (service, leaves) = (service.clone(), leaves.clone());
                    let machine = peer.ip().to_string().into();
                    let deadline = Deadline::after(LONGEST);
                    connections.spawn(answer(stream, Reached { service, machine, deadline, leaves }));
                }
                Ok(_) => tracing::debug!(limit = MAX_CONNECTIONS, "too many HTTP connections: one more was closed"),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an HTTP connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = &mut stopped => break,
        }
    }
    connections.shutdown().await;
}

/// Answers the one request of a connection.
async fn answer(stream: TcpStream, reached: Reached) {
    let deadline = reached.deadline.clone();
    let app = Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/fsck", get(fsck))
        .route("/admin/{what}", get(administration))
        .with_state(reached);
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(%error, "an HTTP connection failed");
        },
        () = deadline.passed() => tracing::debug!("an HTTP connection took too long"),
    }
}

async fn metrics(State(at): State<Reached>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], at.service.metrics_page())
}

async fn health(State(at): State<Reached>) -> impl IntoResponse {
    match at.service.is_ready() {
        true => (StatusCode::OK, "serves\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "does not serve: joining, or evicted\n"),
    }
}

async fn fsck(State(at): State<Reached>, uri: Uri) -> Response {
    let request = Request::read(uri.query().unwrap_or_default());
    match at.caller(&request.user).await {
        Ok(caller) => {
            at.in_lines(|service, lines| async move { fsck::run(&service, caller, request, lines).await })
        }
        Err(refused) => refused.into_response(),
    }
}

/// What `trellis admin` asks: for superusers.
async fn administration(State(at): State<Reached>, Path(what): Path<String>, uri: Uri) -> Response {
    let request = Request::read(uri.query().unwrap_or_default());
    let Some(list) = admin::List::named(&what) else {
        return (StatusCode::NOT_FOUND, format!("there is no list of {what}\n")).into_response();
    };
    let caller = match at.caller(&request.user).await {
        Ok(caller) => caller,
        Err(refused) => return refused.into_response(),
    };
    if let Err(error) = check_superuser(&caller.user, &what) {
        return (StatusCode::FORBIDDEN, format!("{}\n", error.message)).into_response();
    }
    at.in_lines(|service, lines| async move { admin::run(&service, caller, list, lines).await })
}

impl Reached {
    /// Whoever asks under this name, if it may ask now.
    async fn caller(&self, name: &str) -> Result<Caller, (StatusCode, String)> {
        let refused = |code: StatusCode, why: &str| Err((code, format!("{why}\n")));
        if !self.service.is_ready() {
            return refused(StatusCode::SERVICE_UNAVAILABLE, "this namenode does not serve: ask another");
        }
        if let Err(error) = check_name("user", name) {
            return refused(StatusCode::BAD_REQUEST, &error.message);
        }
        let name = if name.is_empty() { NOBODY.to_owned() } else { name.to_owned() };
        let engine = self.service.engine().clone();
        let known = engine.users().known(&name);
        let user = match known {
            Some(user) => user,
            // Asks the operating system.
            None => match tokio::task::spawn_blocking(move || engine.users().get(&name)).await {
                Ok(user) => user,
                Err(error) => return refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            },
        };
        let ugi = format!("{} (auth:SIMPLE)", user.name).into();
        Ok(Caller { user, ugi, machine: self.machine.clone() })
    }

    /// Answers in lines, which `work` writes.
    fn in_lines<W>(&self, work: impl FnOnce(Arc<Service>, Lines) -> W) -> Response
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let Ok(leave) = self.leaves.clone().try_acquire_owned() else {
            let why = "too many such answers go on already: try again, or ask another namenode\n";
            return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
        };
        let (lines, pieces) = Lines::new(self.deadline.clone());
        let work = work(self.service.clone(), lines);
        tokio::spawn(async move {
            work.await;
            drop(leave);
        });
        ([(header::CONTENT_TYPE, "text/plain;charset=utf-8")], body(pieces)).into_response()
    }
}

fn body(pieces: mpsc::Receiver<Bytes>) -> Body {
    Body::from_stream(stream::unfold(pieces, |mut pieces| async {
        let piece = pieces.recv().await?;
        Some((Ok::<_, Infallible>(piece), pieces))
    }))
}

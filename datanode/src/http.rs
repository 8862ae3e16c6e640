//! The HTTP port: `/metrics` for Prometheus, `/health`.
//!
//! A connection carries one request and lives for a bounded time, and there are few at a time.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::node::Node;
use crate::server::{Port, accept};

/// Open connections; more are closed at once.
const MAX_CONNECTIONS: usize = 64;
/// How long a connection may take from its beginning to its end.
const LONGEST: Duration = Duration::from_secs(10);

/// Serves until `stop`.
pub(crate) async fn serve(listener: TcpListener, node: Arc<Node>, mut stop: watch::Receiver<bool>) {
    let mut stopped = std::pin::pin!(async {
        let _ = stop.wait_for(|stop| *stop).await;
    });
    let app = Router::new().route("/metrics", get(metrics)).route("/health", get(health)).with_state(node);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            (stream, _) = accept(&listener, Port::Http) => match connections.len() < MAX_CONNECTIONS {
                true => {
                    connections.spawn(tokio::time::timeout(LONGEST, answer(stream, app.clone())));
                }
                false => tracing::debug!(limit = MAX_CONNECTIONS, "too many HTTP connections: one more was closed"),
            },
            Some(_) = connections.join_next() => {}
            () = &mut stopped => break,
        }
    }
    connections.shutdown().await;
}

/// Answers the one request of a connection.
async fn answer(stream: TcpStream, app: Router) {
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    if let Err(error) = connection.await {
        tracing::debug!(%error, "an HTTP connection failed");
    }
}

async fn metrics(State(node): State<Arc<Node>>) -> impl IntoResponse {
    let page = tokio::task::spawn_blocking(move || node.metrics_page()).await;
    match page {
        Ok(page) => (StatusCode::OK, [(header::CONTENT_TYPE, "text/plain; version=0.0.4")], page),
        Err(error) => {
            let headers = [(header::CONTENT_TYPE, "text/plain")];
            (StatusCode::INTERNAL_SERVER_ERROR, headers, error.to_string())
        }
    }
}

async fn health(State(node): State<Arc<Node>>) -> impl IntoResponse {
    match *node.known.borrow() > 0 {
        true => (StatusCode::OK, "serves\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "does not serve: no namenode has answered yet\n"),
    }
}

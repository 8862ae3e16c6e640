//! The HTTP port: `/metrics` for Prometheus, `/health`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::rpc::service::Service;

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, service: Arc<Service>, mut stop: watch::Receiver<bool>) {
    let app = Router::new().route("/metrics", get(metrics)).route("/health", get(health)).with_state(service);
    let stopped = async move {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    if let Err(error) = axum::serve(listener, app).with_graceful_shutdown(stopped).await {
        tracing::error!(%error, "the HTTP port closed");
    }
}

async fn metrics(State(service): State<Arc<Service>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], service.metrics_page())
}

async fn health(State(service): State<Arc<Service>>) -> impl IntoResponse {
    match service.is_ready() {
        true => (StatusCode::OK, "serves\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "does not serve: joining, or evicted\n"),
    }
}

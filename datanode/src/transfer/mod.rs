//! The data port: ops of clients and other datanodes, each session on a thread of its own.
//!
//! | module | what |
//! |---|---|
//! | [`session`] | a connection from its first op to its last; READ_BLOCK, BLOCK_CHECKSUM |
//! | [`write`] | WRITE_BLOCK, all stages |
//! | [`pipeline`], [`acks`] | a client writes: packets down, acks up |
//! | [`copy_in`], [`copy_out`] | copies between datanodes, and the balancer's moves |
//! | [`intake`], [`outgoing`] | packets on their way to the disk, and from it |
//! | [`mirror`], [`peer`] | the next datanode; a socket with its buffer and time limits |
//! | [`large`] | memory for large packets |
//!
//! A session blocks: on its socket, which has time limits, and on the store. Threads are bounded by `max_sessions`.

pub(crate) mod acks;
pub(crate) mod copy_in;
pub(crate) mod copy_out;
pub(crate) mod fault;
pub(crate) mod intake;
pub(crate) mod large;
pub(crate) mod mirror;
pub(crate) mod outgoing;
pub(crate) mod peer;
pub(crate) mod pipeline;
pub(crate) mod session;
pub(crate) mod sums;
pub(crate) mod throttle;
pub(crate) mod write;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::server::{Port, accept};
use crate::shared::Shared;
use peer::Peer;

/// Sessions need little: their buffers are on the heap.
const STACK_BYTES: usize = 512 << 10;
/// How long a stop waits for sessions after their sockets were closed.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// How often it looks.
const STOP_CHECK: Duration = Duration::from_millis(5);

/// Serves the data port until `stop`; then sessions are cut off, and what they wrote stays for recovery.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut stopped = std::pin::pin!(async {
        let _ = stop.wait_for(|stop| *stop).await;
    });
    loop {
        let (stream, _) = tokio::select! {
            accepted = accept(&listener, Port::Data) => accepted,
            () = &mut stopped => break,
        };
        admit(&shared, stream);
    }
    drop(listener);
    shared.transfers.end();
    let ended = async {
        while shared.sessions.taken() > 0 {
            tokio::time::sleep(STOP_CHECK).await;
        }
    };
    if tokio::time::timeout(STOP_WAIT, ended).await.is_err() {
        tracing::warn!(
            sessions = shared.sessions.taken(),
            "data transfers that wait for a disk are left behind"
        );
    }
}

/// Starts the session of a connection, if there is room.
fn admit(shared: &Arc<Shared>, stream: TcpStream) {
    let Some(slot) = shared.sessions.take() else {
        shared.metrics.sessions_refused.increment(1);
        let limit = shared.config.max_sessions;
        tracing::warn!(
            limit,
            "too many data connections: one more was closed; raise max_sessions if that is usual"
        );
        return;
    };
    let start = || -> std::io::Result<()> {
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        let mut peer = Peer::new(stream, shared.config.write_timeout, shared.large.clone())?;
        peer.close_with(&shared.transfers);
        let shared = shared.clone();
        let session = move || {
            let _held = slot;
            session::serve(&shared, peer);
        };
        thread::Builder::new()
            .name("data-transfer".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(session)
            .map(drop)
    };
    if let Err(error) = start() {
        tracing::warn!(%error, "a data connection could not be served");
    }
}

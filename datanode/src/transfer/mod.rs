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
//!
//! A session blocks: on its socket, which has time limits, and on the store. Threads are bounded by `max_sessions`.

pub(crate) mod acks;
pub(crate) mod copy_in;
pub(crate) mod copy_out;
pub(crate) mod fault;
pub(crate) mod intake;
pub(crate) mod mirror;
pub(crate) mod outgoing;
pub(crate) mod peer;
pub(crate) mod pipeline;
pub(crate) mod session;
pub(crate) mod sums;
pub(crate) mod throttle;
pub(crate) mod write;

use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::shared::{Shared, Sockets};
use peer::Peer;

/// Sessions need little: their buffers are on the heap.
const STACK_BYTES: usize = 512 << 10;
/// How long accepting pauses when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a stop waits for sessions after their sockets were closed.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// How often it looks.
const STOP_CHECK: Duration = Duration::from_millis(5);

/// Serves the data port until `stop`; then sessions are cut off, and what they wrote stays for recovery.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let open = Sockets::default();
    let mut stopped = std::pin::pin!(async {
        let _ = stop.wait_for(|stop| *stop).await;
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stopped => break,
        };
        match accepted.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => admit(&shared, &open, stream),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a data connection; raise the limit of open files if it is that");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    open.close_all();
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
fn admit(shared: &Arc<Shared>, open: &Sockets, stream: TcpStream) {
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
        stream.set_nonblocking(false)?;
        let peer = Peer::new(stream, shared.config.write_timeout, shared.large.clone())?;
        let registration = open.add(peer.handle());
        let shared = shared.clone();
        let session = move || {
            let _held = (slot, registration);
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

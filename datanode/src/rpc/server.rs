//! Connections of the IPC port, a task each. Calls of one connection are answered one after the other: there are few.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use trellis_proto::rpc::{Event, ServerConn};

use super::methods::{Caller, PROTOCOLS, answer};
use crate::server::{Port, accept};
use crate::shared::Shared;

/// The largest request: a block with its datanodes is far below it.
const MAX_REQUEST_BYTES: usize = 1 << 20;
/// A connection that has not said who it is for so long, or is in the middle of a request or answer, is closed.
const STALLED: Duration = Duration::from_secs(20);
/// A connection without calls for so long is closed.
const IDLE: Duration = Duration::from_secs(120);
/// How long a call that asked for the stop has for its answer.
const LAST_ANSWER: Duration = Duration::from_millis(100);

/// Serves until `stop`.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut stopped = std::pin::pin!(async {
        let _ = stop.wait_for(|stop| *stop).await;
    });
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            (stream, peer) = accept(&listener, Port::Ipc) => {
                match connections.len() < shared.config.max_ipc_connections {
                    true => {
                        number += 1;
                        let connection = Connection::new(shared.clone(), number);
                        connections.spawn(connection.run(stream, peer));
                    }
                    false => tracing::info!(%peer, "too many IPC connections: one more was closed"),
                }
            }
            Some(_) = connections.join_next() => {}
            () = &mut stopped => break,
        }
    }
    let answered = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(LAST_ANSWER, answered).await;
    connections.shutdown().await;
}

struct Connection {
    shared: Arc<Shared>,
    protocol: ServerConn,
    caller: Option<Caller>,
    input: BytesMut,
    output: BytesMut,
}

impl Connection {
    fn new(shared: Arc<Shared>, number: u64) -> Connection {
        Connection {
            shared,
            protocol: ServerConn::new(PROTOCOLS, MAX_REQUEST_BYTES, number),
            caller: None,
            input: BytesMut::new(),
            output: BytesMut::new(),
        }
    }

    async fn run(mut self, mut stream: TcpStream, peer: SocketAddr) {
        if let Err(why) = self.serve(&mut stream).await {
            tracing::debug!(%peer, why, "an IPC connection ended");
        }
    }

    async fn serve(&mut self, stream: &mut TcpStream) -> Result<(), String> {
        loop {
            let closing = self.take_events().await;
            let sent = timeout(STALLED, stream.write_all(&self.output)).await;
            sent.map_err(|_| "the answer was not taken")?.map_err(|error| error.to_string())?;
            self.output.clear();
            if closing {
                return Ok(());
            }
            let idle = self.caller.is_some() && self.input.is_empty();
            let wait = if idle { IDLE } else { STALLED };
            let read = timeout(wait, stream.read_buf(&mut self.input)).await;
            match read.map_err(|_| "nothing came")?.map_err(|error| error.to_string())? {
                0 => return Ok(()),
                _ => continue,
            }
        }
    }

    /// Handles what was received; true: the connection is to end.
    async fn take_events(&mut self) -> bool {
        while let Some(event) = self.protocol.next_event(&mut self.input) {
            match event {
                Event::Call(call) => {
                    // The protocol lets no call through before the context.
                    let Some(caller) = &self.caller else { return true };
                    answer(&self.shared, caller, call, &mut self.output).await;
                }
                Event::Context(context) => self.caller = Some(Caller::of(context)),
                Event::Reply(frame) => self.output.extend_from_slice(&frame),
                Event::ReplyAndClose(last_words) => {
                    self.output.extend_from_slice(&last_words);
                    return true;
                }
                Event::Ping => {}
            }
        }
        false
    }
}

//! The task of a connection: connects, writes, reads, and watches the clock.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::task;
use tokio::time::{self, Instant};
use trellis_proto::frame::next_frame;
use trellis_proto::rpc::client::{self, Answer};

use super::{Answers, Dial, End, Shared};
use crate::error::Fault;

/// What a connection's buffers hold without growing.
pub(super) const BUFFER_BYTES: usize = 16 << 10;
/// Buffers that grew beyond this are given back when they are empty.
const KEEP_BYTES: usize = 1 << 20;
/// After a failed write, how long to look for last words from the namenode.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Call id of answers that belong to no call.
const NO_CALL_ID: i32 = -1;

/// Ends the connection also when the task is aborted or its runtime goes away.
struct EndOnDrop(Arc<Shared>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.finish(lost("the client was shut down"));
    }
}

fn lost(why: impl Into<Arc<str>>) -> End {
    End::Fault(Fault::Lost(why.into()))
}

pub(super) fn run(shared: Arc<Shared>, dial: Arc<Dial>) -> impl Future<Output = ()> + Send {
    // From here on, for a runtime that is shut down never runs the task.
    let guard = EndOnDrop(shared);
    async move {
        let shared = &*guard.0;
        let end = match connect(&dial).await {
            Ok(stream) => pump(shared, &dial, stream).await,
            Err(why) => End::Fault(Fault::NotSent(why.into())),
        };
        tracing::debug!(namenode = %dial.address, ?end, "connection closed");
        shared.finish(end);
    }
}

async fn connect(dial: &Dial) -> Result<TcpStream, String> {
    let limit = dial.config.connect_timeout;
    let target = (dial.address.host(), dial.address.port());
    let connecting = async {
        let stream = TcpStream::connect(target).await?;
        stream.set_nodelay(true)?;
        io::Result::Ok(stream)
    };
    match time::timeout(limit, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("connecting took longer than {limit:?}")),
    }
}

async fn pump(shared: &Shared, dial: &Dial, mut stream: TcpStream) -> End {
    let connected_at = Instant::now();
    shared.lock().last_heard = connected_at;
    let (mut reader, mut writer) = stream.split();
    // What was read says best why a connection ended.
    tokio::select! {
        biased;
        end = read(shared, dial, &mut reader) => end,
        end = write(shared, &mut writer) => end,
        end = watch(shared, dial, connected_at) => end,
    }
}

async fn write(shared: &Shared, writer: &mut WriteHalf<'_>) -> End {
    let mut bytes = BytesMut::with_capacity(BUFFER_BYTES);
    loop {
        {
            let mut state = shared.lock();
            mem::swap(&mut state.out, &mut bytes);
            state.taken = state.queued;
        }
        if bytes.is_empty() {
            shared.wake.notified().await;
            // The caller that woke this task is rarely alone: let the others put in theirs, for one write of all.
            if shared.lock().waiting.len() > 1 {
                task::yield_now().await;
            }
            continue;
        }
        if let Err(error) = writer.write_all(&bytes).await {
            time::sleep(LAST_WORDS).await;
            return lost(format!("sending failed: {error}"));
        }
        if bytes.capacity() > KEEP_BYTES {
            bytes = BytesMut::with_capacity(BUFFER_BYTES);
        } else {
            bytes.clear();
        }
    }
}

async fn read(shared: &Shared, dial: &Dial, reader: &mut ReadHalf<'_>) -> End {
    let mut buf = BytesMut::with_capacity(BUFFER_BYTES);
    let mut answers = Answers::default();
    loop {
        if buf.is_empty() && buf.capacity() > KEEP_BYTES {
            buf = BytesMut::new();
        }
        buf.reserve(BUFFER_BYTES);
        match reader.read_buf(&mut buf).await {
            Ok(0) => return lost("the namenode closed the connection"),
            Ok(_) => {}
            Err(error) => return lost(error.to_string()),
        }
        let heard_at = Instant::now();
        let end = take(dial, &mut buf, &mut answers);
        shared.answer(Some(heard_at), &mut answers);
        if let Some(end) = end {
            return end;
        }
    }
}

/// Takes all whole answers off what was received. Some: the connection is to end.
fn take(dial: &Dial, buf: &mut BytesMut, answers: &mut Answers) -> Option<End> {
    loop {
        match next_frame(buf, dial.config.max_response_bytes) {
            Ok(Some(frame)) => {
                if let Some(end) = take_frame(dial, frame, answers) {
                    return Some(end);
                }
            }
            Ok(None) => return None,
            Err(error) => {
                return Some(lost(format!("the namenode sent something that is not Hadoop RPC: {error}")));
            }
        }
    }
}

fn take_frame(dial: &Dial, frame: Bytes, answers: &mut Answers) -> Option<End> {
    let answer = match Answer::read(frame) {
        Ok(answer) => answer,
        Err(error) => return Some(lost(format!("the namenode sent an unreadable answer: {error}"))),
    };
    if !answer.client_id.is_empty() && answer.client_id != dial.identity.client_id {
        return Some(lost("the namenode answered another client's call on this connection"));
    }
    let end = match &answer.outcome {
        // It refused the connection as such: that is everybody's answer.
        Err(error) if answer.call_id == NO_CALL_ID => Some(End::Fault(Fault::Exception(error.clone()))),
        Err(error) if answer.fatal => Some(lost(format!("the namenode closed the connection: {error}"))),
        _ => None,
    };
    answers.come.push((answer.call_id, answer.outcome.map_err(Fault::Exception)));
    end
}

/// Time-outs, pings, and the end of an idle connection.
async fn watch(shared: &Shared, dial: &Dial, connected_at: Instant) -> End {
    let config = &dial.config;
    let shortest = config.call_timeout.min(config.idle_timeout).min(config.ping_interval);
    let step = (shortest / 8).clamp(Duration::from_millis(1), Duration::from_secs(1));
    let mut last_ping = connected_at;
    let mut overdue = Answers::default();
    loop {
        time::sleep(step).await;
        let now = Instant::now();
        let mut state = shared.lock();
        if state.waiting.is_empty() {
            let last_used = state.last_heard.max(state.last_queued);
            if state.out.is_empty() && now.duration_since(last_used) >= config.idle_timeout {
                // Under the lock, so that no call slips in.
                state.ended = Some(End::Idle);
                return End::Idle;
            }
            continue;
        }
        for (call_id, call) in &state.waiting {
            let since = call.queued_at.max(connected_at);
            if now.duration_since(since) >= config.call_timeout {
                if state.last_heard <= since {
                    return lost(format!("nothing came for {:?}", config.call_timeout));
                }
                let why = format!("no answer within {:?}", config.call_timeout);
                overdue.come.push((*call_id, Err(Fault::Lost(why.into()))));
            }
        }
        let silent = now.duration_since(state.last_heard.max(last_ping)) >= config.ping_interval;
        if silent && client::put_ping(&mut state.out, &dial.identity.client_id).is_ok() {
            last_ping = now;
            shared.wake.notify_one();
        }
        drop(state);
        shared.answer(None, &mut overdue);
    }
}

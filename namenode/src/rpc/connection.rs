//! One connection, one task: bytes in, calls, bytes out.
//!
//! Reads that the store answers at once are encoded straight into the output; answers to calls that arrived together
//! leave in one write. Calls that wait for the store answer later through an outbox that this task empties, so a
//! waiting write holds up nothing behind it. Nothing here takes a lock or hands a read to another thread.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use tokio::time::Instant;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::rpc::{Call, Context, Event, ServerConn};

use super::bell::Bell;
use super::call::{Answer, Caller, Incoming, Outcome};
use super::outbox::Outbox;
use super::server::Hub;
use super::service::{PROTOCOLS, Service};

/// Calls in a row before others of this thread get their turn.
const BURST: usize = 64;
/// A request up to this size needs no share of the memory for large ones.
const FREE_REQUEST_BYTES: usize = 64 << 10;
/// Requests in flight on one connection, in bytes; beyond it, nothing is read.
const MAX_PENDING_BYTES: usize = 256 << 10;
/// Room that is made for what is received next.
const READ_BYTES: usize = 8 << 10;
/// Room that is made at a time while a large request is received.
const LARGE_READ_BYTES: usize = 256 << 10;
/// Buffers larger than this are not kept while the connection is idle.
const KEPT_BYTES: usize = 64 << 10;
/// How long the last words of a connection that is being closed may take.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How often a connection looks whether its user's groups have changed (an answer of the OS is kept longer).
const LOOK_UP_EVERY: Duration = Duration::from_secs(1);
/// A large request must be there within so many times of what a stalled one is given: else a client that sends a byte
/// now and then keeps others' large requests waiting.
const LARGE_REQUEST_STALLS: u32 = 4;
/// Who a client is that does not say.
const ANONYMOUS: &str = "dr.who";

/// Where the work on received bytes came to rest.
enum Rest {
    /// More bytes are needed.
    Input,
    /// A limit is reached: answers must leave first.
    Full,
    /// There is more, but others are due.
    Turn,
    /// The client said who it is.
    Introduced(Context),
    /// The OS has to be asked about the user again.
    Unknown,
}

type Share = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

struct Connection {
    hub: Arc<Hub>,
    peer: SocketAddr,
    machine: Arc<str>,
    protocol: ServerConn,
    caller: Option<Caller>,
    input: BytesMut,
    output: BytesMut,
    /// Where later answers wait for this task.
    answers: Arc<Outbox>,
    /// Calls that wait for the store, and the bytes of their requests.
    pending: usize,
    pending_bytes: usize,
    /// Calls answered in the output that has not left yet, of those that waited.
    unsent: usize,
    /// The share of memory that a large request waits for, and the one it has.
    share_wanted: Option<Share>,
    share: Option<OwnedSemaphorePermit>,
    share_since: Instant,
    full: bool,
    closing: bool,
    opened: Instant,
    moved: Instant,
    /// When the user's groups were last looked at.
    looked_up: Instant,
}

/// Serves a connection to its end.
pub(super) async fn serve(
    mut stream: TcpStream,
    peer: SocketAddr,
    number: u64,
    hub: Arc<Hub>,
    bell: Arc<Bell>,
) {
    let now = Instant::now();
    let mut connection = Connection {
        protocol: ServerConn::new(PROTOCOLS, hub.limits.max_frame_bytes, number),
        hub,
        peer,
        machine: peer.ip().to_canonical().to_string().into(),
        caller: None,
        input: BytesMut::new(),
        output: BytesMut::new(),
        answers: Arc::new(Outbox::new(bell)),
        pending: 0,
        pending_bytes: 0,
        unsent: 0,
        share_wanted: None,
        share: None,
        share_since: now,
        full: false,
        closing: false,
        opened: now,
        moved: now,
        looked_up: now,
    };
    connection.run(&mut stream).await;
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.hub.in_flight.fetch_sub((self.pending + self.unsent) as i64, Ordering::Relaxed);
    }
}

impl Connection {
    async fn run(&mut self, stream: &mut TcpStream) {
        let answers = self.answers.clone();
        let (mut reader, writer) = stream.split();
        let limits = &self.hub.limits;
        let tick = limits.handshake.min(limits.stalled).min(limits.idle).max(Duration::from_millis(1));
        let mut timer = std::pin::pin!(tokio::time::sleep(tick));
        loop {
            let rest = self.work();
            while self.output.len() < self.hub.limits.max_output_bytes
                && let Some(answer) = answers.take()
            {
                self.take(answer);
            }
            if self.flush(&writer).is_err() {
                return;
            }
            if self.closing {
                let _ = tokio::time::timeout(LAST_WORDS, self.flush_all(&writer)).await;
                return;
            }
            match rest {
                // What was full may be empty again: nothing else would wake this task.
                Rest::Turn | Rest::Full if self.output.is_empty() && !self.is_full() => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Rest::Introduced(context) => {
                    self.introduce(context).await;
                    continue;
                }
                Rest::Unknown => {
                    self.look_up().await;
                    continue;
                }
                Rest::Full | Rest::Turn => self.full = true,
                Rest::Input => self.full = false,
            }
            self.make_room();
            tokio::select! {
                () = answers.filled(), if self.output.len() < self.hub.limits.max_output_bytes => {}
                read = reader.read_buf(&mut self.input), if self.wants_input() => match read {
                    Ok(0) | Err(_) => return,
                    Ok(_) => self.moved = Instant::now(),
                },
                share = wanted(&mut self.share_wanted) => {
                    self.share_wanted = None;
                    self.share = share.ok();
                    self.share_since = Instant::now();
                }
                _ = writer.writable(), if !self.output.is_empty() => {}
                () = &mut timer => {
                    if self.timed_out() {
                        self.hub.service.metrics().connections_timed_out.increment(1);
                        tracing::debug!(peer = %self.peer, "nothing moved on a connection: closed");
                        return;
                    }
                    timer.as_mut().reset(Instant::now() + tick);
                }
            }
        }
    }

    /// Starts the calls that have arrived.
    fn work(&mut self) -> Rest {
        let arrived = Instant::now();
        if arrived.duration_since(self.looked_up) >= LOOK_UP_EVERY
            && let Some(caller) = &mut self.caller
        {
            let Some(user) = self.hub.service.engine().users().known(&caller.user.name) else {
                return Rest::Unknown;
            };
            caller.user = user;
            self.looked_up = arrived;
        }
        for _ in 0..BURST {
            if self.closing || self.is_full() {
                return Rest::Full;
            }
            match self.protocol.next_event(&mut self.input) {
                None => {
                    self.want_share();
                    return Rest::Input;
                }
                Some(Event::Call(call)) => self.start(call, arrived),
                Some(Event::Context(context)) => return Rest::Introduced(context),
                Some(Event::Reply(frame)) => self.output.extend_from_slice(&frame),
                Some(Event::ReplyAndClose(last_words)) => {
                    self.output.extend_from_slice(&last_words);
                    self.closing = true;
                }
                Some(Event::Ping) => {}
            }
        }
        Rest::Turn
    }

    fn is_full(&self) -> bool {
        let limits = &self.hub.limits;
        self.output.len() >= limits.max_output_bytes
            || self.pending >= limits.max_calls
            || self.pending_bytes >= MAX_PENDING_BYTES
            || self.hub.draining.load(Ordering::Relaxed)
    }

    fn start(&mut self, call: Call, arrived: Instant) {
        let Some(caller) = &self.caller else {
            // The protocol lets no call through before the context.
            self.closing = true;
            return;
        };
        let service = &self.hub.service;
        let request_bytes = call.body.len();
        let mut incoming = Incoming {
            id: call.id,
            caller,
            caller_context: call.caller_context,
            body: call.body,
            arrived,
            method: service.place(call.service, call.method).unwrap_or(usize::MAX),
            service,
            output: &mut self.output,
            answers: &self.answers,
            share: self.share.take(),
        };
        if Service::start(&mut incoming) == Outcome::Queued {
            self.pending += 1;
            self.pending_bytes += request_bytes;
            self.hub.in_flight.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the answer of a call that waited.
    fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Frame { frame, request_bytes } => {
                self.pending = self.pending.saturating_sub(1);
                self.pending_bytes = self.pending_bytes.saturating_sub(request_bytes);
                self.unsent += 1;
                self.output.extend_from_slice(&frame);
            }
            Answer::Lost => {
                self.output.clear();
                self.closing = true;
            }
        }
    }

    /// Finds out who the user is. The OS is asked on a thread that may wait.
    async fn introduce(&mut self, context: Context) {
        let named = |name: Option<String>| name.filter(|name| !name.is_empty());
        let user = named(context.user).unwrap_or_else(|| ANONYMOUS.to_owned());
        let real = named(context.real_user).filter(|real| *real != user);
        if let Some(real) = &real
            && !self.hub.limits.proxy_users.contains(real)
        {
            let why = format!("User: {real} is not allowed to impersonate {user}");
            let last_words = self.protocol.refuse_user(&RpcError::new(Kind::Authorization, why));
            self.output.extend_from_slice(&last_words);
            self.closing = true;
            return;
        }
        let ugi = match &real {
            Some(real) => format!("{user} (auth:PROXY) via {real} (auth:SIMPLE)"),
            None => format!("{user} (auth:SIMPLE)"),
        };
        let engine = self.hub.service.engine().clone();
        match tokio::task::spawn_blocking(move || engine.users().get(&user)).await {
            Ok(user) => {
                self.caller = Some(Caller { user, ugi: ugi.into(), machine: self.machine.clone() });
            }
            Err(_) => self.closing = true,
        }
    }

    /// Asks the OS about the user again, on a thread that may wait.
    async fn look_up(&mut self) {
        self.looked_up = Instant::now();
        let Some(caller) = &mut self.caller else { return };
        let (engine, name) = (self.hub.service.engine().clone(), caller.user.name.clone());
        if let Ok(user) = tokio::task::spawn_blocking(move || engine.users().get(&name)).await {
            caller.user = user;
        }
    }

    /// Sends what the socket takes now.
    fn flush(&mut self, writer: &WriteHalf<'_>) -> std::io::Result<()> {
        while !self.output.is_empty() {
            match writer.try_write(&self.output) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes::Buf::advance(&mut self.output, written);
                    self.moved = Instant::now();
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if self.unsent > 0 {
            self.hub.in_flight.fetch_sub(self.unsent as i64, Ordering::Relaxed);
            self.unsent = 0;
        }
        Ok(())
    }

    async fn flush_all(&mut self, writer: &WriteHalf<'_>) -> std::io::Result<()> {
        while !self.output.is_empty() {
            writer.writable().await?;
            self.flush(writer)?;
        }
        Ok(())
    }

    fn wants_input(&self) -> bool {
        !self.full && self.share_wanted.is_none()
    }

    /// Asks for memory when a large request has begun to arrive.
    fn want_share(&mut self) {
        let Some(announced) = self.announced().filter(|bytes| *bytes > FREE_REQUEST_BYTES) else { return };
        if self.share.is_some() || self.share_wanted.is_some() {
            return;
        }
        let all = self.hub.large_requests.clone();
        match all.clone().try_acquire_many_owned(announced as u32) {
            Ok(share) => {
                self.share = Some(share);
                self.share_since = Instant::now();
            }
            Err(_) => self.share_wanted = Some(Box::pin(all.acquire_many_owned(announced as u32))),
        }
    }

    /// The length of the frame that is being received. The protocol has taken the preamble once more bytes than that
    /// are left over.
    fn announced(&self) -> Option<usize> {
        const PREAMBLE_BYTES: usize = 7;
        let head = self.input.first_chunk::<4>().filter(|_| self.input.len() >= PREAMBLE_BYTES)?;
        Some((u32::from_be_bytes(*head) as usize).min(self.hub.limits.max_frame_bytes))
    }

    /// Sees to it that there is room for what comes next, and that idle connections hold no large buffers.
    fn make_room(&mut self) {
        if self.output.is_empty() && self.output.capacity() > KEPT_BYTES {
            self.output = BytesMut::new();
        }
        if self.input.is_empty() && self.input.capacity() > KEPT_BYTES {
            self.input = BytesMut::new();
        }
        let missing = self.announced().map_or(0, |bytes| (bytes + 4).saturating_sub(self.input.len()));
        let room = missing.clamp(READ_BYTES, LARGE_READ_BYTES);
        if self.wants_input() && self.input.capacity() - self.input.len() < room / 4 {
            self.input.reserve(room);
        }
    }

    fn timed_out(&self) -> bool {
        let limits = &self.hub.limits;
        let quiet = self.moved.elapsed();
        match () {
            () if self.caller.is_none() => self.opened.elapsed() >= limits.handshake,
            () if self.share.is_some()
                && self.share_since.elapsed() >= limits.stalled * LARGE_REQUEST_STALLS =>
            {
                true
            }
            () if !self.output.is_empty() || !self.input.is_empty() => quiet >= limits.stalled,
            () => self.pending == 0 && quiet >= limits.idle,
        }
    }
}

/// Waits for a share of memory, if one is wanted; else for ever.
async fn wanted(share: &mut Option<Share>) -> Result<OwnedSemaphorePermit, AcquireError> {
    match share {
        Some(share) => share.await,
        None => std::future::pending().await,
    }
}

//! One TCP connection to one namenode: pipelined calls, answers in any order.
//!
//! A caller encodes its request straight into the connection's send buffer, notes who waits, and wakes the
//! connection's task ([`pump`]), which sends whatever has gathered in one write. So a busy connection needs few system
//! calls, and a call costs no task, no queue entry and no timer. Connecting is part of the task: the hello lies in
//! front of the first call in the same buffer, hence in the same segment.

mod pump;

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use foldhash::fast::RandomState;
use prost::Message;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use trellis_proto::methods::{Rpc, Service};
use trellis_proto::rpc::{CallId, client};

use crate::config::ConnectionConfig;
use crate::error::Fault;
use crate::uri::Address;

/// A call counts as one more for each of these in its request, so that large requests fill the bound sooner.
const BYTES_PER_PERMIT: usize = 4096;

/// Who a client is, the same on all its connections.
#[derive(Debug)]
pub(crate) struct Identity {
    /// 16 random bytes: half of the retry cache's key.
    pub client_id: Bytes,
    /// The other half.
    next_call_id: AtomicI32,
    pub user: String,
    /// For the namenode's audit log.
    pub caller_context: Option<String>,
}

impl Identity {
    pub fn new(user: String, caller_context: Option<String>) -> Self {
        let client_id = Bytes::copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        Self { client_id, next_call_id: AtomicI32::new(0), user, caller_context }
    }

    /// A call id that this client has not used (in its last 2^31 calls).
    pub fn next_call_id(&self) -> i32 {
        self.next_call_id.fetch_add(1, Ordering::Relaxed) & i32::MAX
    }
}

/// What is needed to connect to one namenode.
#[derive(Debug)]
pub(crate) struct Dial {
    pub address: Address,
    /// Named in the connection context.
    pub service: &'static Service,
    pub identity: Arc<Identity>,
    pub config: ConnectionConfig,
    /// Where connections run; None: where the call comes from that needs one.
    pub runtime: Option<Handle>,
}

/// How a connection ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// It had nothing to do; make a new one.
    Idle,
    Fault(Fault),
}

/// How one attempt failed.
pub(super) enum Refusal {
    /// The connection had ended for lack of work before the call was put in: make a new one.
    Idle,
    Fault(Fault),
}

/// The caller's end; dropped, it ends the connection.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// There is something in `out`.
    wake: Notify,
    /// Room for calls; closed with the connection.
    room: Semaphore,
    /// Set after `state.ended`, to look at without the lock.
    ended: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// Encoded and not yet taken by the writer.
    out: BytesMut,
    /// Calls without an answer, by call id.
    waiting: HashMap<i32, Waiting, RandomState>,
    /// How many calls were ever put into `out`.
    queued: u64,
    /// How many of them the writer has taken: these may have reached the namenode.
    taken: u64,
    /// When something last came in or was put in.
    last_heard: Instant,
    last_queued: Instant,
    ended: Option<End>,
}

#[derive(Debug)]
struct Waiting {
    answer: oneshot::Sender<Result<Bytes, Fault>>,
    /// Position among all calls of this connection, from 1.
    number: u64,
    queued_at: Instant,
    permits: u32,
}

/// Answers that came together, and room for their callers: used again and again.
#[derive(Debug, Default)]
struct Answers {
    /// By call id.
    come: Vec<(i32, Result<Bytes, Fault>)>,
    callers: Vec<Option<Waiting>>,
}

impl Connection {
    /// Starts connecting. Calls may be put in at once.
    pub fn open(dial: Arc<Dial>) -> Result<Self, Fault> {
        let not_sent = |why: &str| Fault::NotSent(why.into());
        let runtime = match &dial.runtime {
            Some(runtime) => runtime.clone(),
            None => Handle::try_current().map_err(|_| not_sent("there is no tokio runtime here"))?,
        };
        let mut out = BytesMut::with_capacity(pump::BUFFER_BYTES);
        let Identity { client_id, user, .. } = &*dial.identity;
        client::put_hello(&mut out, user, None, dial.service, client_id)
            .map_err(|error| Fault::Unusable(error.to_string()))?;
        let now = Instant::now();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                out,
                waiting: HashMap::default(),
                queued: 0,
                taken: 0,
                last_heard: now,
                last_queued: now,
                ended: None,
            }),
            wake: Notify::new(),
            room: Semaphore::new(dial.config.max_in_flight as usize),
            ended: AtomicBool::new(false),
        });
        let task = runtime.spawn(pump::run(shared.clone(), dial)).abort_handle();
        Ok(Self { shared, task })
    }

    pub fn is_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }

    /// Sends a call and waits for its answer, still encoded.
    ///
    /// Dropping the future does not take the call back: it is sent, keeps its place until the answer or its time-out,
    /// and the answer is dropped.
    pub async fn call<Request: Message, Response>(
        &self,
        dial: &Dial,
        rpc: &Rpc<Request, Response>,
        id: &CallId,
        request: &Request,
    ) -> Result<Bytes, Refusal> {
        let wanted = 1 + request.encoded_len() / BYTES_PER_PERMIT;
        let permits = wanted.min(dial.config.max_in_flight as usize) as u32;
        let permit = match self.shared.room.try_acquire_many(permits) {
            Ok(permit) => permit,
            // Once it is closed, the connection has ended.
            Err(_) => match self.shared.room.acquire_many(permits).await {
                Ok(permit) => permit,
                Err(_) => return Err(self.shared.lock().refusal()),
            },
        };
        let (sender, receiver) = oneshot::channel();
        let is_first = {
            let mut state = self.shared.lock();
            if state.ended.is_some() {
                return Err(state.refusal());
            }
            let is_first = state.out.is_empty();
            let context = dial.identity.caller_context.as_deref();
            client::put_call(&mut state.out, rpc, id, context, request)
                .map_err(|error| Refusal::Fault(Fault::Unusable(error.to_string())))?;
            state.queued += 1;
            let now = Instant::now();
            state.last_queued = now;
            let call = Waiting { answer: sender, number: state.queued, queued_at: now, permits };
            permit.forget();
            // The same id again: the first send of this call timed out or was given up, and its answer may still come.
            if let Some(before) = state.waiting.insert(id.call_id, call) {
                self.shared.room.add_permits(before.permits as usize);
            }
            is_first
        };
        // Whoever put something into an empty buffer has woken the writer, or it has not begun yet.
        if is_first {
            self.shared.wake.notify_one();
        }
        match receiver.await {
            Ok(answer) => answer.map_err(Refusal::Fault),
            Err(_) => Err(Refusal::Fault(Fault::Lost("the same call was sent again".into()))),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn refusal(&self) -> Refusal {
        match &self.ended {
            Some(End::Fault(Fault::Lost(why))) => Refusal::Fault(Fault::NotSent(why.clone())),
            Some(End::Fault(fault)) => Refusal::Fault(fault.clone()),
            Some(End::Idle) | None => Refusal::Idle,
        }
    }
}

impl Shared {
    /// Nothing panics under this lock, so what a poisoned one guards is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands answers to their callers. Those that nobody waits for (any more) are dropped.
    fn answer(&self, heard_at: Option<Instant>, answers: &mut Answers) {
        {
            let mut state = self.lock();
            state.last_heard = heard_at.unwrap_or(state.last_heard);
            let waiting = answers.come.iter().map(|(call_id, _)| state.waiting.remove(call_id));
            answers.callers.extend(waiting);
        }
        let permits = answers.callers.iter().flatten().map(|call| call.permits as usize).sum();
        self.room.add_permits(permits);
        for ((_, outcome), call) in answers.come.drain(..).zip(answers.callers.drain(..)) {
            if let Some(call) = call {
                // The caller may be gone.
                let _ = call.answer.send(outcome);
            }
        }
    }

    /// Ends the connection once; every call that waits gets its fault.
    fn finish(&self, end: End) {
        let (calls, taken, end) = {
            let mut state = self.lock();
            let end = state.ended.get_or_insert(end).clone();
            state.out = BytesMut::new();
            (mem::take(&mut state.waiting), state.taken, end)
        };
        self.ended.store(true, Ordering::Release);
        self.room.close();
        for call in calls.into_values() {
            let fault = match &end {
                End::Fault(Fault::Lost(why)) if call.number > taken => Fault::NotSent(why.clone()),
                End::Fault(fault) => fault.clone(),
                End::Idle => Fault::NotSent("the connection was closed".into()),
            };
            let _ = call.answer.send(Err(fault));
        }
    }
}

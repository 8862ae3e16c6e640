//! Runs operations: path walk, permissions, hints, ids, groups, retry cache. Only the engine talks to the store.

pub mod backend;
mod call;
pub mod ctx;
pub mod hints;
mod ids;
pub mod permission;
mod reserved;
pub mod tx;
pub mod walk;
pub mod walked;
pub mod walkjob;
pub mod walks;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use prost::Message;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::Instant;
use trellis_metastore::change::Hold;
use trellis_metastore::schema::{FIRST_FREE_ID, Setting, setting};
use trellis_metastore::store::StoreError;
use trellis_metastore::work::{End, Wake, Work};

use self::backend::Backend;
use self::call::{Codec, Pending, expired, run_once, store_error};
pub use self::call::{Later, Op};
use self::ctx::{CallId, Ctx, IdBlock};
use self::hints::Hints;
use self::ids::Ids;
use crate::config::Config;
use crate::datanodes::Datanodes;
use crate::refusal::{Halt, Kind, Result, RpcError};
use crate::user::{User, Users};

/// Entries of the hint table each way: about 200 bytes each.
const HINTS: usize = 1 << 20;
/// Walks for callers that go on at a time; others wait, no longer than a call may.
const WALKS_AT_ONCE: usize = 16;
/// The setting that holds the first inode id not reserved by any namenode.
pub const NEXT_INODE_ID: &str = "next_inode_id";

/// Milliseconds since the epoch.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The engine of one namenode.
pub struct Engine {
    backend: Backend,
    /// Walks run here: calls end on the embedded store's own thread, too.
    runtime: Handle,
    config: Arc<Config>,
    users: Users,
    block_pool: Arc<str>,
    datanodes: Datanodes,
    /// This namenode's id among all.
    member: u64,
    /// Where each call's [`Ctx::seed`] comes from.
    seeds: AtomicU64,
    hints: Option<Arc<Hints>>,
    ids: Ids,
    refilling: tokio::sync::Mutex<()>,
    clock: Clock,
    /// Identity of calls that come without one (HTTP, jobs): this namenode's incarnation, and a counter.
    own_client: [u8; 16],
    own_calls: AtomicI64,
    /// Rung after something came under the hidden parent.
    detached: Notify,
    walks: Semaphore,
}

impl Engine {
    /// An engine over a backend, on the current tokio runtime; `incarnation` was drawn for this start of the namenode
    /// and is never reused.
    pub fn new(
        backend: Backend,
        config: Config,
        users: Users,
        block_pool: &str,
        incarnation: u64,
        clock: Clock,
    ) -> Arc<Engine> {
        let mut own_client = *b"trellis.........";
        own_client[8..].copy_from_slice(&incarnation.to_be_bytes());
        Arc::new(Engine {
            hints: backend.uses_hints().then(|| Arc::new(Hints::new(HINTS))),
            backend,
            runtime: Handle::current(),
            datanodes: Datanodes::new(incarnation, &config),
            config: Arc::new(config),
            users,
            block_pool: block_pool.into(),
            member: incarnation,
            seeds: AtomicU64::new(incarnation << 32),
            ids: Ids::default(),
            refilling: tokio::sync::Mutex::new(()),
            clock,
            own_client,
            own_calls: AtomicI64::new(0),
            detached: Notify::new(),
            walks: Semaphore::new(WALKS_AT_ONCE),
        })
    }

    /// Settings.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Who is who.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// The datanodes that this namenode hears of.
    pub fn datanodes(&self) -> &Datanodes {
        &self.datanodes
    }

    /// This namenode's member id.
    pub fn member(&self) -> u64 {
        self.member
    }

    /// Where whatever outlives a call runs.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The backend.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Rings whenever an operation of this namenode left something to the reaper.
    pub fn detached(&self) -> &Notify {
        &self.detached
    }

    /// Leave to walk a tree for a caller. Each walk keeps the directories that it has yet to read, so only some go on at
    /// a time, whatever callers ask for.
    pub fn walks(&self) -> &Semaphore {
        &self.walks
    }

    /// Now, ms since the epoch.
    pub fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    /// What a call carries. `call_id`: the caller's, when it has one.
    pub fn ctx(&self, user: Arc<User>, machine: Arc<str>, call_id: Option<CallId>) -> Ctx {
        Ctx {
            user,
            machine,
            now_ms: self.now_ms(),
            call_id,
            ids: IdBlock::default(),
            config: self.config.clone(),
            block_pool: self.block_pool.clone(),
            datanodes: self.datanodes.view(),
            seed: self.seeds.fetch_add(1, Ordering::Relaxed),
            walked: None,
            hints: self.hints.clone(),
            outcome: None,
        }
    }

    /// What this namenode's own jobs carry: the superuser, an identity of its own.
    pub fn own_ctx(&self) -> Ctx {
        let id = CallId { client: self.own_client, call: self.own_calls.fetch_add(1, Ordering::Relaxed) };
        self.ctx(self.users.get(self.users.superuser()), "local".into(), Some(id))
    }

    /// Runs an operation that only reads. Where the backend allows it, at once, in the caller's task: then the answer
    /// is returned. Else `None`, and what `later` makes gets it.
    pub fn read<A: Send + 'static>(
        self: &Arc<Self>,
        ctx: Ctx,
        target: u64,
        mut op: Op<A>,
        later: impl FnOnce() -> Later<A>,
    ) -> Option<std::result::Result<A, RpcError>> {
        let inline = self.backend.read_inline(|rows| run_once(rows, &ctx, &mut op));
        let call = |ctx, op| self.pending(ctx, target, op, later(), None, false);
        match inline {
            None => self.queue(call(ctx, op)),
            Some(Ok(Ok(Ok(answer)))) => return Some(Ok(answer)),
            Some(Ok(Ok(Err(Halt::Refused(error) | Halt::RefusedAfter(error))))) => return Some(Err(error)),
            Some(Ok(Ok(Err(Halt::Needs(job))))) => call::walk_then_again(call(ctx, op), job),
            Some(Ok(Ok(Err(Halt::Stop(stop))) | Err(stop))) => {
                return Some(Err(store_error(&StoreError::Fatal(stop.to_string()))));
            }
            Some(Err(error)) => return Some(Err(store_error(&error))),
        }
        None
    }

    /// Queues an operation that may write; `later` gets the answer once it is durable. With `repeats`, the answer is
    /// kept under the call's identity and given again to its repeats, on every namenode. `ids`: how many new inodes it
    /// may make.
    pub fn write<A: Message + Default + 'static>(
        self: &Arc<Self>,
        mut ctx: Ctx,
        target: u64,
        ids: u64,
        repeats: bool,
        op: Op<A>,
        later: impl FnOnce(std::result::Result<A, RpcError>) -> Wake + Send + 'static,
    ) {
        if repeats && ctx.call_id.is_none() {
            ctx.call_id = self.own_ctx().call_id;
        }
        let codec = repeats.then(Codec::of_message);
        let mut call = self.pending(ctx, target, op, Box::new(later), codec, true);
        match self.ids.draw(ids) {
            Some(block) => {
                call.ctx.ids = block;
                self.queue(call);
            }
            None => {
                let engine = self.clone();
                tokio::spawn(async move {
                    match engine.draw_ids(ids).await {
                        Ok(block) => {
                            call.ctx.ids = block;
                            engine.queue(call);
                        }
                        Err(error) => drop((call.later)(Err(error))),
                    }
                });
            }
        }
    }

    /// [`Engine::read`], awaited.
    pub async fn read_wait<A: Send + 'static>(
        self: &Arc<Self>,
        ctx: Ctx,
        target: u64,
        op: Op<A>,
    ) -> std::result::Result<A, RpcError> {
        let (sender, answer) = oneshot::channel();
        match self.read(ctx, target, op, || Box::new(move |result| told(sender, result))) {
            Some(result) => result,
            None => answer.await.unwrap_or_else(|_| Err(fenced())),
        }
    }

    /// [`Engine::write`], awaited.
    pub async fn write_wait<A: Message + Default + 'static>(
        self: &Arc<Self>,
        ctx: Ctx,
        target: u64,
        ids: u64,
        repeats: bool,
        op: Op<A>,
    ) -> std::result::Result<A, RpcError> {
        let (sender, answer) = oneshot::channel();
        self.write(ctx, target, ids, repeats, op, |result| told(sender, result));
        answer.await.unwrap_or_else(|_| Err(fenced()))
    }

    fn pending<A>(
        self: &Arc<Self>,
        ctx: Ctx,
        target: u64,
        op: Op<A>,
        later: Later<A>,
        codec: Option<Codec<A>>,
        writes: bool,
    ) -> Box<Pending<A>> {
        let deadline = Instant::now() + self.config.call_age;
        let engine = self.clone();
        Box::new(Pending {
            engine,
            ctx,
            op,
            later,
            codec,
            writes,
            target,
            deadline,
            walks: 0,
            last: None,
            detached: false,
        })
    }

    /// Queues a call, or runs it at once where the backend runs reads inline.
    fn queue<A: Send + 'static>(&self, mut call: Box<Pending<A>>) {
        let (target, writes) = (call.target, call.writes);
        if !writes && let Some(ran) = self.backend.read_inline(|rows| call.run(rows)) {
            let end = match ran {
                Ok(Ok(_)) => End::Answered,
                Ok(Err(stop)) => End::Failed(StoreError::Fatal(stop.to_string())),
                Err(error) => End::Failed(error),
            };
            return drop(call.finish(end));
        }
        let refused = match writes {
            true => self.backend.write(target, call),
            false => self.backend.read(target, call),
        };
        if let Err(work) = refused {
            drop(work.finish(End::Expired));
        }
    }

    /// Draws ids, reserving a new range from the store when this one is used up.
    async fn draw_ids(self: &Arc<Self>, count: u64) -> std::result::Result<IdBlock, RpcError> {
        let _one_at_a_time = self.refilling.lock().await;
        for _ in 0..2 {
            if let Some(block) = self.ids.draw(count) {
                return Ok(block);
            }
            let size = self.config.id_range.max(count);
            let reserve: Op<Reserved> = Box::new(move |tx| reserve_ids(tx, size));
            let range = self.write_wait(self.own_ctx(), 0, 0, false, reserve).await?;
            self.ids.refill(IdBlock { first: range.first, count: size });
        }
        Err(expired())
    }
}

/// Ids that were reserved.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Reserved {
    /// The first of them.
    #[prost(uint64, tag = "1")]
    first: u64,
}

/// Moves the store's next free id on by `size`; answers the first of the reserved ones.
fn reserve_ids(tx: &mut tx::Tx<'_, '_>, size: u64) -> Result<Reserved> {
    let key = setting(NEXT_INODE_ID);
    let Some(next) = tx.get(&key, Hold::Held)? else {
        return Err(RpcError::new(Kind::Io, "the store has no id counter; run 'trellis store init'").into());
    };
    let first = next.value.number.max(FIRST_FREE_ID);
    tx.put(&key, &Setting { number: first + size, text: String::new() })?;
    Ok(Reserved { first })
}

/// Tells one who waits in a task of its own.
fn told<R>(waiting: oneshot::Sender<R>, result: R) -> Wake {
    let _ = waiting.send(result);
    Wake::default()
}

fn fenced() -> RpcError {
    RpcError::new(Kind::Standby, "this namenode was taken out of the cluster; ask another")
}

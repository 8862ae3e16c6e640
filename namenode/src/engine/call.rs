//! One call on its way through the engine: run, run again, repeat recognised, walked for, answered.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;
use trellis_metastore::change::Hold;
use trellis_metastore::schema::{RetryCache, RetryEntry, TableKey, retry_entry};
use trellis_metastore::store::StoreError;
use trellis_metastore::tx::{Stop, Tx as RowTx};
use trellis_metastore::work::{End, Ran, Wake, Work};

use super::ctx::Ctx;
use super::tx::Tx;
use super::{Engine, walkjob};
use crate::refusal::{Halt, Kind, Result, RpcError};

/// An operation with its arguments: may be run any number of times.
pub type Op<A> = Box<dyn FnMut(&mut Tx<'_, '_>) -> Result<A> + Send>;

/// Whoever waits for the answer; dropped without a call when the namenode was evicted (its connections close).
pub type Later<A> = Box<dyn FnOnce(std::result::Result<A, RpcError>) -> Wake + Send>;

/// Walk jobs that one call may ask for: a directory may be swapped under it a few times, not for ever.
const MAX_WALKS: u32 = 8;

/// Encodes and decodes an answer for the retry cache.
pub(super) struct Codec<A> {
    pub encode: fn(&A) -> Bytes,
    pub decode: fn(&[u8]) -> std::result::Result<A, prost::DecodeError>,
}

impl<A: Message + Default> Codec<A> {
    pub fn of_message() -> Codec<A> {
        Codec { encode: |answer| answer.encode_to_vec().into(), decode: |bytes| A::decode(bytes) }
    }
}

/// A queued call.
pub(super) struct Pending<A> {
    pub engine: Arc<Engine>,
    pub ctx: Ctx,
    pub op: Op<A>,
    pub later: Later<A>,
    /// Present for operations whose repeats must get the first answer.
    pub codec: Option<Codec<A>>,
    pub writes: bool,
    /// Chooses the lane.
    pub target: u64,
    pub deadline: Instant,
    pub walks: u32,
    pub last: Option<Result<A>>,
    /// Whether the last run moved something under the hidden parent.
    pub detached: bool,
}

/// Runs an operation once; what it came to, but for stops, is a result in itself.
pub(super) fn run_once<A>(
    rows: &mut RowTx<'_>,
    ctx: &Ctx,
    op: &mut dyn FnMut(&mut Tx<'_, '_>) -> Result<A>,
) -> std::result::Result<Result<A>, Stop> {
    run_noting(rows, ctx, op).map(|(result, _)| result)
}

/// The same; also tells whether the run left something to the reaper.
fn run_noting<A>(
    rows: &mut RowTx<'_>,
    ctx: &Ctx,
    op: &mut dyn FnMut(&mut Tx<'_, '_>) -> Result<A>,
) -> std::result::Result<(Result<A>, bool), Stop> {
    let mut tx = Tx::new(rows, ctx);
    match op(&mut tx) {
        Err(Halt::Stop(stop)) => Err(stop),
        result => Ok((result, tx.detached)),
    }
}

impl<A> Pending<A> {
    fn retry_key(&self) -> Option<TableKey<RetryCache>> {
        self.codec.as_ref()?;
        self.ctx.call_id.map(|id| retry_entry(&id.client, id.call))
    }

    /// The answer that an earlier run of the same call left, here or on another namenode.
    fn earlier_answer(
        &self,
        rows: &mut RowTx<'_>,
        key: &TableKey<RetryCache>,
    ) -> std::result::Result<Option<A>, Stop> {
        let (Some(codec), Some(entry)) = (&self.codec, rows.get(key, Hold::Loose)?) else { return Ok(None) };
        let broken =
            |e| Stop::Fault(format!("a kept answer does not decode: {e}; run 'trellis store check'"));
        (codec.decode)(&entry.value.answer).map(Some).map_err(broken)
    }
}

impl<A: Send + 'static> Work for Pending<A> {
    fn run(&mut self, rows: &mut RowTx<'_>) -> std::result::Result<Ran, Stop> {
        self.last = None;
        let key = self.retry_key();
        if let Some(key) = &key {
            rows.want(key);
            match self.earlier_answer(rows, key) {
                Ok(None) => {}
                Ok(Some(answer)) => {
                    self.last = Some(Ok(answer));
                    return Ok(Ran::Refused);
                }
                Err(Stop::Miss) => {
                    // Note what the operation itself will need, so that one fetch brings all.
                    let _ = run_once(rows, &self.ctx, &mut self.op);
                    return Err(Stop::Miss);
                }
                Err(fault) => return Err(fault),
            }
        }
        let (result, detached) = run_noting(rows, &self.ctx, &mut self.op)?;
        self.detached = detached;
        let counts = matches!(result, Ok(_) | Err(Halt::RefusedAfter(_)));
        let ran = if counts && self.writes { Ran::Done } else { Ran::Refused };
        if let (Ok(answer), Some(key), Some(codec)) = (&result, &key, &self.codec) {
            rows.insert(key, &RetryEntry { at_ms: self.ctx.now_ms, answer: (codec.encode)(answer) })?;
        }
        self.last = Some(result);
        Ok(ran)
    }

    fn finish(mut self: Box<Self>, end: End) -> Wake {
        let result = match end {
            End::Answered => match self.last.take() {
                Some(Ok(answer)) => {
                    if self.detached {
                        self.engine.detached.notify_one();
                    }
                    Ok(answer)
                }
                Some(Err(Halt::Refused(error) | Halt::RefusedAfter(error))) => Err(error),
                Some(Err(Halt::Needs(job))) => {
                    walk_then_again(self, job);
                    return Wake::default();
                }
                Some(Err(Halt::Stop(_))) | None => {
                    Err(RpcError::new(Kind::Io, "an operation ended without an answer; please report this"))
                }
            },
            End::Fenced => return Wake::default(),
            End::Expired => Err(expired()),
            End::Failed(error) => Err(store_error(&error)),
        };
        (self.later)(result)
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }
}

/// Makes the unbounded read that the operation asked for, then queues it again.
pub(super) fn walk_then_again<A: Send + 'static>(mut call: Box<Pending<A>>, job: walkjob::WalkJob) {
    call.walks += 1;
    if call.walks > MAX_WALKS {
        return drop((call.later)(Err(expired())));
    }
    call.engine.runtime.clone().spawn(async move {
        let engine = call.engine.clone();
        let Ok(Ok(leave)) = tokio::time::timeout_at(call.deadline, engine.walks().acquire()).await else {
            return drop((call.later)(Err(expired())));
        };
        let walked = super::walks::walk(&engine, &call.ctx, job).await;
        drop(leave);
        match walked {
            Ok(result) => {
                call.ctx.walked = Some(Arc::new(result));
                // The walk took its time; the queue is given its own, or a long walk would never come to an end.
                call.deadline = Instant::now() + call.engine.config.call_age;
                call.engine.clone().queue(call);
            }
            Err(error) => drop((call.later)(Err(error))),
        }
    });
}

/// What a client hears whose call waited too long or kept losing.
pub(super) fn expired() -> RpcError {
    RpcError::new(Kind::Retriable, "the namenode is too busy to answer in time; try again")
}

/// What a client hears when the store failed for good.
pub(super) fn store_error(error: &StoreError) -> RpcError {
    match error {
        StoreError::Full(why) => RpcError::new(
            Kind::Io,
            format!(
                "The metadata store is full: nothing was changed. Free space on it, then try again. ({why})"
            ),
        ),
        error if error.is_retryable() => RpcError::new(Kind::Retriable, format!("{error}; try again")),
        error => RpcError::new(Kind::Io, format!("The metadata store failed: {error}")),
    }
}

//! Calls that are kept until replicas are reported: the answer comes late rather than being "not yet".

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prost::Message;
use tokio::time::{Instant, sleep_until};
use trellis_metastore::schema::parts_of_block;
use trellis_metastore::work::Wake;
use trellis_proto::exception::RpcError;

use super::plan::Patience;
use crate::engine::ctx::Ctx;
use crate::engine::{Engine, Op};

/// How long to wait, after a report was heard of or at first, before looking again: its owner may still be applying it.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause; each is twice the one before it.
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// An operation that may be run by several calls of the engine, one after another.
type Shared<A> = Arc<Mutex<Op<A>>>;

fn run_of<A: 'static>(op: &Shared<A>) -> Op<A> {
    let op = op.clone();
    Box::new(move |tx| (op.lock().unwrap_or_else(PoisonError::into_inner))(tx))
}

/// As [`Engine::write`] with (target, ids, repeats); but while the answer is "not yet" the operation is run again, for up
/// to `report_wait`, whenever replicas are heard of.
pub(super) fn write<A: Message + Default + 'static>(
    engine: &Arc<Engine>,
    ctx: Ctx,
    (target, ids, repeats): (u64, u64, bool),
    op: Op<A>,
    patience: Patience<A>,
    answer: impl FnOnce(Result<A, RpcError>) -> Wake + Send + 'static,
) {
    let op: Shared<A> = Arc::new(Mutex::new(op));
    let (first, own, kept) = (run_of(&op), engine.clone(), ctx.clone());
    engine.write(ctx, target, ids, repeats, first, move |result| {
        if !(patience.not_yet)(&result) {
            return answer(result);
        }
        let runtime = own.runtime().clone();
        runtime.spawn(async move {
            let result = again(&own, kept, (target, ids, repeats), &op, patience).await;
            drop(answer(result));
        });
        Wake::default()
    });
}

async fn again<A: Message + Default + 'static>(
    engine: &Arc<Engine>,
    ctx: Ctx,
    (target, ids, repeats): (u64, u64, bool),
    op: &Shared<A>,
    patience: Patience<A>,
) -> Result<A, RpcError> {
    let deadline = Instant::now() + engine.config().report_wait;
    let bell = engine.datanodes().reported(parts_of_block(patience.block).0);
    let mut pause = FIRST_PAUSE;
    loop {
        let mut rung = std::pin::pin!(bell.notified());
        rung.as_mut().enable();
        let ctx = Ctx { datanodes: engine.datanodes().view(), ..ctx.clone() };
        let result = engine.write_wait(ctx, target, ids, repeats, run_of(op)).await;
        let now = Instant::now();
        if !(patience.not_yet)(&result) || now >= deadline {
            return result;
        }
        tokio::select! {
            () = rung => pause = FIRST_PAUSE,
            () = sleep_until(deadline.min(now + pause)) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}

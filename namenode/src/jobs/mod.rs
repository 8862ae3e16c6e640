//! What a namenode does unasked: bounded batches, each an operation through the engine, with pauses between rounds.
//!
//! - [`reaper`]: frees what was deleted; on every namenode
//! - [`lease_expiry`]: closes files whose writers fell silent; on the leader
//! - [`retry_sweep`]: forgets answers that no repeat will ask for; on the leader

pub mod lease_expiry;
pub mod reaper;
pub mod retry_sweep;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::Table;
use trellis_metastore::tx::Record;

use crate::engine::Engine;
use crate::engine::ctx::Term;
use crate::refusal::RpcError;

/// Rows that a job reads at a time.
const PAGE: u32 = 200;
/// Operations of one job that are under way at once: they share the store's round trips.
const AT_ONCE: usize = 8;

/// Tells the term, while this namenode leads.
pub type Lead = Arc<dyn Fn() -> Option<Term> + Send + Sync>;

/// A row with the third part of its key.
type Row<T> = (Vec<u8>, Record<T>);

/// One page of a partition, strictly past `after`.
async fn page<T: Table + Send + 'static>(
    engine: &Arc<Engine>,
    partition: u64,
    after: Option<&[u8]>,
) -> Result<Vec<Row<T>>, RpcError> {
    let mut scan = Scan::of(T::ID, partition, PAGE);
    if let Some(after) = after {
        scan = scan.after(after);
    }
    let op = move |tx: &mut crate::engine::tx::Tx<'_, '_>| {
        Ok(tx.scan_all::<T>(std::slice::from_ref(&scan))?.pop().unwrap_or_default())
    };
    engine.read_wait(engine.own_ctx(), partition, Box::new(op)).await
}

/// Waits for the next round. False = stop.
async fn pause(every: Duration, stop: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        () = tokio::time::sleep(every) => true,
        _ = stop.wait_for(|stop| *stop) => false,
    }
}

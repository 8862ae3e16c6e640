//! Sweeps the retry cache: one bucket after another, rows older than `retry_kept`, in bounded batches.

use std::sync::Arc;

use tokio::sync::watch;
use trellis_metastore::change::Hold;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::{RetryCache, Table, TableKey, retry_entry, retry_in, retry_partitions};

use super::{Lead, pause};
use crate::engine::Engine;
use crate::engine::tx::Tx;
use crate::refusal::{Result, RpcError};

/// Rows that one transaction looks at.
const ROWS: u32 = 400;

/// What one batch did.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Swept {
    /// Rows removed.
    #[prost(uint64, tag = "1")]
    pub rows: u64,
    /// The last key looked at; none = the bucket is done.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub last: Option<bytes::Bytes>,
}

/// Sweeps one bucket every `retry_sweep` while this namenode leads; until `stop`.
pub async fn run(engine: Arc<Engine>, lead: Lead, mut stop: watch::Receiver<bool>) {
    let mut buckets = retry_partitions().cycle();
    while pause(engine.config().retry_sweep, &mut stop).await {
        if lead().is_none() {
            continue;
        }
        let Some(bucket) = buckets.next() else { return };
        if let Err(error) = sweep(&engine, bucket).await {
            tracing::warn!(%error, "sweeping kept answers failed; it is tried again");
        }
    }
}

/// Sweeps one bucket; answers how many rows went.
pub async fn sweep(engine: &Arc<Engine>, bucket: u64) -> std::result::Result<u64, RpcError> {
    let kept = i64::try_from(engine.config().retry_kept.as_millis()).unwrap_or(i64::MAX);
    let oldest = engine.now_ms().saturating_sub(kept);
    let (mut after, mut rows) = (None, 0);
    loop {
        let from = after.clone();
        let op = Box::new(move |tx: &mut Tx<'_, '_>| sweep_batch(tx, bucket, from.as_ref(), oldest));
        let done: Swept = engine.write_wait(engine.own_ctx(), bucket, 0, false, op).await?;
        rows += done.rows;
        match done.last {
            Some(last) => after = Some(last),
            None => return Ok(rows),
        }
    }
}

fn sweep_batch(tx: &mut Tx<'_, '_>, bucket: u64, after: Option<&bytes::Bytes>, oldest: i64) -> Result<Swept> {
    let mut scan = Scan::of(RetryCache::ID, bucket, ROWS);
    if let Some(after) = after {
        scan = scan.after(after);
    }
    let rows = tx.scan_all::<RetryCache>(&[scan])?.pop().unwrap_or_default();
    let last = rows.last().filter(|_| rows.len() as u32 == ROWS).map(|(key, _)| key.clone().into());
    let old = rows.iter().filter(|(_, row)| row.value.at_ms < oldest);
    let keys: Vec<TableKey<RetryCache>> = old.filter_map(|(key, _)| entry(key)).collect();
    let mut swept = 0;
    for (key, row) in keys.iter().zip(tx.get_all(&keys, Hold::HeldExact)?) {
        if row.is_some_and(|row| row.value.at_ms < oldest) {
            tx.delete(key)?;
            swept += 1;
        }
    }
    Ok(Swept { rows: swept, last })
}

/// The key of a row of the cache: a client id and a call id.
fn entry(key: &[u8]) -> Option<TableKey<RetryCache>> {
    let (client, call) = retry_in(key)?;
    Some(retry_entry(&client, call))
}

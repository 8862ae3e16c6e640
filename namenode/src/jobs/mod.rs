//! What a namenode does unasked: bounded batches, each an operation through the engine, with pauses between rounds.
//!
//! - [`reaper`]: frees what was deleted; on every namenode
//! - [`datanodes`]: who owns which datanode, and what they are to be told; on every namenode
//! - [`lease_expiry`]: closes files whose writers fell silent; on the leader
//! - [`replication`]: as many replicas of every block as its file wants; on the leader
//! - [`retry_sweep`]: forgets answers that no repeat will ask for; on the leader

pub mod datanodes;
pub mod lease_expiry;
pub mod reaper;
pub mod replication;
pub mod retry_sweep;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::Table;
use trellis_metastore::tx::Record;

use crate::engine::ctx::Term;
use crate::engine::{Engine, Op};
use crate::refusal::RpcError;

/// Rows that a job reads at a time of one partition.
const PAGE: u32 = 200;
/// Rows that a job reads at first of all partitions together.
const FIRST_ROWS: u32 = Scan::MAX_ROWS;
/// Operations of one job that are under way at once: they share the store's round trips.
const AT_ONCE: usize = 8;

/// Tells the term, while this namenode leads.
pub type Lead = Arc<dyn Fn() -> Option<Term> + Send + Sync>;

/// A row with the third part of its key.
type Row<T> = (Vec<u8>, Record<T>);

/// A partition of a table, read page by page. What comes into it behind the reader waits for the next round.
struct Bucket<T: Table> {
    partition: u64,
    /// Read, and not handed out yet.
    rows: Vec<Row<T>>,
    /// The key past which to go on; none = it was read to its end.
    after: Option<Vec<u8>>,
}

impl<T: Table + Send + 'static> Bucket<T> {
    /// The next page; none at the end.
    async fn next(&mut self, engine: &Arc<Engine>) -> Result<Option<Vec<Row<T>>>, RpcError> {
        if self.rows.is_empty() {
            let Some(after) = self.after.take() else { return Ok(None) };
            let scan = Scan::of(T::ID, self.partition, PAGE).after(&after);
            self.rows = scan_all(engine, vec![scan]).await?.pop().unwrap_or_default();
            self.after = rest_of(&self.rows, PAGE);
        }
        let rows = std::mem::take(&mut self.rows);
        Ok((!rows.is_empty()).then_some(rows))
    }
}

/// Those of several partitions that hold rows of a table: one read, whatever their number.
async fn buckets<T: Table + Send + 'static>(
    engine: &Arc<Engine>,
    partitions: Range<u64>,
) -> Result<Vec<Bucket<T>>, RpcError> {
    let share = (FIRST_ROWS / (partitions.end - partitions.start) as u32).max(1);
    let scans = partitions.clone().map(|partition| Scan::of(T::ID, partition, share)).collect();
    let pages = scan_all::<T>(engine, scans).await?;
    let bucket =
        |(partition, rows): (u64, Vec<Row<T>>)| Bucket { partition, after: rest_of(&rows, share), rows };
    Ok(partitions.zip(pages).map(bucket).filter(|bucket: &Bucket<T>| !bucket.rows.is_empty()).collect())
}

/// The last key of a page that came back full.
fn rest_of<T: Table>(rows: &[Row<T>], limit: u32) -> Option<Vec<u8>> {
    rows.last().filter(|_| rows.len() >= limit as usize).map(|(key, _)| key.clone())
}

async fn scan_all<T: Table + Send + 'static>(
    engine: &Arc<Engine>,
    scans: Vec<Scan>,
) -> Result<Vec<Vec<Row<T>>>, RpcError> {
    let lane = scans.first().map_or(0, |scan| scan.partition);
    let op: Op<Vec<Vec<Row<T>>>> = Box::new(move |tx| Ok(tx.scan_all::<T>(&scans)?));
    engine.read_wait(engine.own_ctx(), lane, op).await
}

/// Waits for the next round. False = stop.
async fn pause(every: Duration, stop: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        () = tokio::time::sleep(every) => true,
        _ = stop.wait_for(|stop| *stop) => false,
    }
}

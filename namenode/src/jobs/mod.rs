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
use trellis_metastore::tx::{MaybeRow, Record};

use crate::datanodes::counts::add;
use crate::engine::ctx::Term;
use crate::engine::{Engine, Op};
use crate::refusal::{Kind, RpcError};

/// Rows that a job reads at a time of one partition.
const PAGE: u32 = 200;
/// Rows that a job reads at first of all partitions together.
const FIRST_ROWS: u32 = Scan::MAX_ROWS;
/// Operations of one job that are under way at once: they share the store's round trips.
const AT_ONCE: usize = 8;

/// So many items that the store was too busy for, or did not answer, end a round.
const MOST_BUSY: usize = 3;

/// Tells the term, while this namenode leads.
pub type Lead = Arc<dyn Fn() -> Option<Term> + Send + Sync>;

/// A row with the third part of its key.
type Row<T> = (Vec<u8>, Record<T>);

/// Items that a job could not deal with in a round. They are counted, told once a round, and passed by: what is behind one
/// gets its turn.
struct Passed {
    job: &'static str,
    items: usize,
    busy: usize,
    first: Option<String>,
}

impl Passed {
    /// `job`: what is being done, for the log.
    fn new(job: &'static str) -> Passed {
        Passed { job, items: 0, busy: 0, first: None }
    }

    /// Passes an item by. A store that does not answer is no item's fault: then the round ends.
    fn by(&mut self, engine: &Engine, error: RpcError) -> Result<(), RpcError> {
        self.busy += usize::from(error.kind == Kind::Retriable);
        if self.busy >= MOST_BUSY {
            return Err(error);
        }
        self.items += 1;
        add(&engine.datanodes().counts().passed, 1u64);
        self.first.get_or_insert_with(|| error.to_string());
        Ok(())
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if let Some(first) = &self.first {
            tracing::warn!(self.items, first, "passed by in {}", self.job);
        }
    }
}

/// A partition of a table, read page by page. What comes into it behind the reader waits for the next round.
struct Bucket<T: Table> {
    partition: u64,
    /// Read, and not handed out yet.
    rows: Vec<Row<T>>,
    /// The key past which to go on; none = it was read to its end.
    after: Option<Vec<u8>>,
}

/// A page of rows, and the key past which the next one begins; none = it was the last.
type Page<T> = (Vec<Row<T>>, Option<Vec<u8>>);

impl<T: Table + Send + 'static> Bucket<T> {
    /// The next page; none at the end.
    async fn next(&mut self, engine: &Arc<Engine>) -> Result<Option<Vec<Row<T>>>, RpcError> {
        while self.rows.is_empty() {
            let Some(after) = self.after.take() else { return Ok(None) };
            let scan = Scan::of(T::ID, self.partition, PAGE).after(&after);
            (self.rows, self.after) = pages(engine, vec![scan]).await?.pop().unwrap_or_default();
        }
        Ok(Some(std::mem::take(&mut self.rows)))
    }
}

/// Those of several partitions that hold rows of a table: one read, whatever their number.
async fn buckets<T: Table + Send + 'static>(
    engine: &Arc<Engine>,
    partitions: Range<u64>,
) -> Result<Vec<Bucket<T>>, RpcError> {
    let share = (FIRST_ROWS / (partitions.end - partitions.start) as u32).max(1);
    let scans = partitions.clone().map(|partition| Scan::of(T::ID, partition, share)).collect();
    let pages = pages::<T>(engine, scans).await?;
    let bucket = |(partition, (rows, after)): (u64, Page<T>)| Bucket { partition, rows, after };
    let has_more = |bucket: &Bucket<T>| !bucket.rows.is_empty() || bucket.after.is_some();
    Ok(partitions.zip(pages).map(bucket).filter(has_more).collect())
}

/// Makes several scans in one read. A row that does not decode is passed by: `trellis store check` names it too.
async fn pages<T: Table + Send + 'static>(
    engine: &Arc<Engine>,
    scans: Vec<Scan>,
) -> Result<Vec<Page<T>>, RpcError> {
    let lane = scans.first().map_or(0, |scan| scan.partition);
    let limits: Vec<usize> = scans.iter().map(|scan| scan.limit as usize).collect();
    let op: Op<Vec<Vec<MaybeRow<T>>>> = Box::new(move |tx| Ok(tx.scan_each::<T>(&scans)?));
    let found = engine.read_wait(engine.own_ctx(), lane, op).await?;
    let mut passed = Passed::new("reading rows for a job");
    let mut pages = Vec::with_capacity(found.len());
    for (rows, limit) in found.into_iter().zip(limits) {
        let after = rows.last().filter(|_| rows.len() >= limit).map(|(key, _)| key.clone());
        let mut whole = Vec::with_capacity(rows.len());
        for (key, row) in rows {
            match row {
                Ok(row) => whole.push((key, row)),
                Err(stop) => passed.by(engine, RpcError::new(Kind::Io, format!("{stop:?}")))?,
            }
        }
        pages.push((whole, after));
    }
    Ok(pages)
}

/// Waits for the next round. False = stop.
async fn pause(every: Duration, stop: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        () = tokio::time::sleep(every) => true,
        _ = stop.wait_for(|stop| *stop) => false,
    }
}

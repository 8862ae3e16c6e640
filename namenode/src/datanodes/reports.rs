//! How reports go through the engine: in the turn of their datanode, in bounded batches, applied by the owner and kept
//! by everybody else.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;
use trellis_metastore::schema::{Datanode, Ordered, Replica, ReplicaState, parts_of_block};
use trellis_proto::exception::{Kind, RpcError};

use super::counts::add;
use crate::engine::{Engine, Op};
use crate::ops::datanodes::{Claim, ToldStorage, claim, look_up, tell_storages};
use crate::ops::report::{self, AT_ONCE, Applied, Report, Reported, Stored, What, page};

/// Rows of a storage that are compared at a time, each with its block.
const PAGE: u32 = 1000;

/// One replica in a full report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Block id.
    pub block: u64,
    /// Its state, by number.
    pub state: u8,
    /// Generation stamp.
    pub stamp: u64,
    /// Length in bytes.
    pub length: u64,
}

/// What a full report came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Rows that were compared.
    pub rows: u64,
    /// Replicas that were not as their rows.
    pub differing: u64,
    /// The most of them that were held at once.
    pub most: usize,
}

/// The row of a datanode that registered here. A stock DataNode tries again what is refused with any other exception
/// than the one that ends it.
pub fn known(engine: &Engine, uuid: &str) -> Result<Arc<Datanode>, RpcError> {
    let row = engine.datanodes().registry().row(uuid);
    row.ok_or_else(|| {
        let why = format!("datanode {uuid} has not registered here; it is asked to with its next heartbeat");
        RpcError::new(Kind::Io, why)
    })
}

/// Notes what storages a datanode has; answers its row.
pub async fn note_storages(
    engine: &Arc<Engine>,
    uuid: &str,
    told: Vec<ToldStorage>,
    all: bool,
) -> Result<Arc<Datanode>, RpcError> {
    let (of, uuids) = (uuid.to_owned(), told.iter().map(|told| told.uuid.clone()).collect::<Vec<_>>());
    let op: Op<Datanode> = Box::new(move |tx| tell_storages(tx, &of, &told, all));
    let row = engine.write_wait(engine.own_ctx(), 0, 0, false, op).await?;
    if let Some(storage) = uuids.iter().find(|uuid| row.storages.iter().all(|known| known.uuid != **uuid)) {
        tracing::warn!(uuid, storage, "a datanode has too many storages: what is on this one does not count");
    }
    let row = engine.datanodes().registry().adopt(row);
    engine.datanodes().show();
    Ok(row)
}

/// Takes a datanode over, unless another namenode did.
pub async fn take_over(engine: &Arc<Engine>, uuid: &str, call: Claim) -> Result<Arc<Datanode>, RpcError> {
    let of = uuid.to_owned();
    let op: Op<Datanode> = Box::new(move |tx| claim(tx, &of, &call));
    let row = engine.write_wait(engine.own_ctx(), 0, 0, false, op).await?;
    Ok(engine.datanodes().registry().adopt(row))
}

/// An incremental report: applied when this returns, or kept for whoever applies it.
pub async fn incremental(
    engine: &Arc<Engine>,
    uuid: &str,
    replicas: Vec<Reported>,
) -> Result<Applied, RpcError> {
    let turn = engine.datanodes().registry().turn(uuid).unwrap_or_default();
    let _turn = turn.lock().await;
    let inodes: BTreeSet<u64> = replicas.iter().map(|told| parts_of_block(told.block).0).collect();
    let applied = apply_or_keep(engine, uuid, replicas).await;
    // Rung when the rows are there, and elsewhere as soon as it is known that they will be.
    inodes.iter().for_each(|inode| engine.datanodes().reported(*inode).notify_waiters());
    applied
}

async fn apply_or_keep(
    engine: &Arc<Engine>,
    uuid: &str,
    replicas: Vec<Reported>,
) -> Result<Applied, RpcError> {
    let member = engine.member();
    let mut total = Applied::default();
    let row = known(engine, uuid)?;
    if row.owner == member {
        // What was told earlier comes first.
        catch_up(engine, uuid).await?;
        total = apply(engine, &row, &replicas).await?;
        if !total.is_not_owner {
            add(&engine.datanodes().counts().incremental, 1u64);
            return Ok(total);
        }
        let of = uuid.to_owned();
        let row = engine.read_wait(engine.own_ctx(), 0, Box::new(move |tx| look_up(tx, &of))).await?;
        engine.datanodes().registry().adopt(row);
    }
    engine.datanodes().registry().keep(uuid, replicas, Instant::now());
    add(&engine.datanodes().counts().kept, 1u64);
    Ok(Applied { is_not_owner: true, ..total })
}

/// Applies replicas in batches; stops where this namenode turns out not to own the datanode as `row` says.
async fn apply(engine: &Arc<Engine>, row: &Datanode, replicas: &[Reported]) -> Result<Applied, RpcError> {
    let mut total = Applied::default();
    for batch in replicas.chunks(AT_ONCE) {
        let lane = batch.first().map_or(0, |told| parts_of_block(told.block).0);
        let (uuid, member, epoch) = (row.uuid.clone(), engine.member(), row.epoch);
        let call = Report { uuid, member, epoch, replicas: batch.to_vec() };
        let op: Op<Applied> = Box::new(move |tx| report::apply(tx, &call));
        let done = engine.write_wait(engine.own_ctx(), lane, 0, false, op).await?;
        engine.datanodes().counts().applied(&done);
        total.changed += done.changed;
        total.unknown += done.unknown;
        total.condemned += done.condemned;
        if done.is_not_owner {
            total.is_not_owner = true;
            break;
        }
    }
    Ok(total)
}

/// A new owner applies what it kept while another one owned the datanode. True = there is a gap: the datanode is to
/// register anew, which makes it report in full.
pub async fn inherit(engine: &Arc<Engine>, uuid: &str) -> Result<bool, RpcError> {
    let turn = engine.datanodes().registry().turn(uuid).unwrap_or_default();
    let _turn = turn.lock().await;
    catch_up(engine, uuid).await
}

/// The same, of one whose turn it is.
async fn catch_up(engine: &Arc<Engine>, uuid: &str) -> Result<bool, RpcError> {
    let Some(mut inherited) = engine.datanodes().registry().inherit(uuid, Instant::now()) else {
        return Ok(false);
    };
    while let Some(report) = inherited.reports.first() {
        let applied = apply(engine, &inherited.row, report).await;
        if !applied.as_ref().is_ok_and(|applied| !applied.is_not_owner) {
            engine.datanodes().registry().give_back(uuid, inherited, Instant::now());
            return applied.map(|_| false);
        }
        for told in inherited.reports.remove(0) {
            engine.datanodes().reported(parts_of_block(told.block).0).notify_waiters();
        }
    }
    if inherited.has_gap {
        engine.datanodes().registry().must_register(uuid);
    }
    Ok(inherited.has_gap)
}

/// One storage of a full report, whose lease was granted at `granted_ms`. Pages of rows that are as the report says,
/// and as their blocks are, cost a read each, and no write. What differs is applied as soon as there is enough of it for a
/// transaction. Refused when another namenode turns out to own the datanode, which then reports in full again.
pub async fn full(
    engine: &Arc<Engine>,
    uuid: &str,
    storage: u32,
    listed: &[Listed],
    granted_ms: i64,
) -> Result<Compared, RpcError> {
    let turn = engine.datanodes().registry().turn(uuid).unwrap_or_default();
    let _turn = turn.lock().await;
    catch_up(engine, uuid).await?;
    let row = known(engine, uuid)?;
    let mut merge = Merge { storage, listed, next: 0, granted_ms, differing: Vec::new() };
    let (mut compared, mut after) = (Compared::default(), None);
    loop {
        let from = after;
        let op: Op<Vec<Stored>> = Box::new(move |tx| page(tx, storage, from, PAGE));
        let rows = engine.read_wait(engine.own_ctx(), u64::from(storage), op).await?;
        compared.rows += rows.len() as u64;
        after = rows.last().map(|row| row.block).filter(|_| rows.len() == PAGE as usize);
        let mut rows = rows.as_slice();
        loop {
            let is_done = merge.some(&mut rows, after.is_none());
            compared.differing += merge.differing.len() as u64;
            compared.most = compared.most.max(merge.differing.len());
            if apply(engine, &row, &std::mem::take(&mut merge.differing)).await?.is_not_owner {
                let why = format!("{uuid} has another owner by now, or none: it is to report in full again");
                return Err(RpcError::new(Kind::InvalidBlockReportLease, why));
            }
            if is_done {
                break;
            }
        }
        if after.is_none() {
            add(&engine.datanodes().counts().full, 1u64);
            return Ok(compared);
        }
        tokio::task::yield_now().await;
    }
}

/// Walks a sorted report beside sorted rows.
struct Merge<'a> {
    storage: u32,
    listed: &'a [Listed],
    next: usize,
    granted_ms: i64,
    differing: Vec<Reported>,
}

impl Merge<'_> {
    /// Goes on until there is enough for a transaction, past the rows that it is done with; true = past all of them and,
    /// if they were the `last`, past the whole report.
    fn some(&mut self, rows: &mut &[Stored], is_last: bool) -> bool {
        while let Some((Stored { block, replica: row, is_odd }, after)) = rows.split_first() {
            if self.list_before(Some(*block)) {
                return false;
            }
            *rows = after;
            match self.listed.get(self.next).filter(|listed| listed.block == *block) {
                Some(listed) if is_as(row, listed) && !is_odd => self.next += 1,
                Some(listed) => self.list(*listed),
                // A copy that was ordered is not there yet.
                None if row.reported_ms < self.granted_ms && row.ordered() != Ordered::Copy => {
                    self.differing.push(Reported {
                        storage: self.storage,
                        block: *block,
                        stamp: row.stamp,
                        length: row.length,
                        what: What::Missing(self.granted_ms),
                    })
                }
                None => {}
            }
        }
        !is_last || !self.list_before(None)
    }

    /// What is listed and has no row, before a block's or to the end; true = there is enough for a transaction.
    fn list_before(&mut self, block: Option<u64>) -> bool {
        while self.differing.len() < AT_ONCE {
            let listed = self.listed.get(self.next).filter(|listed| block.is_none_or(|id| listed.block < id));
            let Some(listed) = listed else { return false };
            self.list(*listed);
        }
        true
    }

    fn list(&mut self, Listed { block, state, stamp, length }: Listed) {
        self.next += 1;
        let state = ReplicaState::try_from(i32::from(state)).unwrap_or(ReplicaState::Temporary);
        self.differing.push(Reported {
            storage: self.storage,
            block,
            stamp,
            length,
            what: What::Listed(state, self.granted_ms),
        });
    }
}

fn is_as(row: &Replica, listed: &Listed) -> bool {
    (row.stamp, row.length, row.state) == (listed.stamp, listed.length, i32::from(listed.state))
}

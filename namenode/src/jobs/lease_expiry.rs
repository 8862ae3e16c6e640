//! Lease expiry: closes the files of holders that did not renew for longer than the hard limit, and forgets holders
//! that nobody needs any more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, stream};
use tokio::sync::watch;
use trellis_metastore::schema::{
    LeaseHolders, OpenFiles, id_in, lease_holder_partitions, open_file_partitions,
};
use trellis_metastore::tx::Record;

use super::{AT_ONCE, Lead, Passed, buckets, pause};
use crate::engine::Engine;
use crate::engine::ctx::Term;
use crate::engine::tx::Tx;
use crate::ops::lease::{Expire, ForgetHolder, INTERNAL_HOLDER, expire, forget_holder};
use crate::refusal::RpcError;

/// Silent holders of one partition dealt with in one round, or a page more; the rest waits for the next.
const MAX_HOLDERS: usize = 10_000;

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Files closed.
    pub files: u64,
    /// Holders forgotten.
    pub holders: u64,
    /// Files and holders that were passed by.
    pub passed: u64,
}

/// Looks for expired leases every `lease_check` while this namenode leads; until `stop`.
pub async fn run(engine: Arc<Engine>, lead: Lead, mut stop: watch::Receiver<bool>) {
    while pause(engine.config().lease_check, &mut stop).await {
        let Some(term) = lead() else { continue };
        match round(&engine, Some(term)).await {
            Ok(Expired { files: 0, .. }) => {}
            Ok(done) => tracing::info!(done.files, done.holders, "closed files whose leases expired"),
            Err(error) => tracing::warn!(%error, "looking for expired leases failed; it is tried again"),
        }
    }
}

/// One round. `term`: what the leader holds; none = whoever runs it answers for being alone.
pub async fn round(engine: &Arc<Engine>, term: Option<Term>) -> Result<Expired, RpcError> {
    let silent = silent_holders(engine).await?;
    let (mut done, mut passed) = (Expired::default(), Passed::new("closing files of silent writers"));
    if silent.is_empty() {
        return Ok(done);
    }
    let mut busy = HashSet::new();
    for mut bucket in buckets::<OpenFiles>(engine, open_file_partitions()).await? {
        while let Some(rows) = bucket.next(engine).await? {
            let open = rows.into_iter().filter(|(_, row)| silent.contains_key(&row.value.holder));
            let mut closing = stream::iter(open)
                .map(|(key, row)| async move { (close(engine, &key, term).await, row.value.holder) })
                .buffer_unordered(AT_ONCE);
            while let Some((closed, holder)) = closing.next().await {
                match closed {
                    Ok(true) => done.files += 1,
                    Ok(false) => drop(busy.insert(holder)),
                    // A block that waits for its first replica, say. The files behind it do not wait with it.
                    Err(error) => {
                        passed.by(engine, error)?;
                        busy.insert(holder);
                    }
                }
            }
        }
    }
    for call in silent.into_values().filter(|call| !busy.contains(&call.holder)) {
        let op = Box::new(move |tx: &mut Tx<'_, '_>| forget_holder(tx, &call));
        match engine.write_wait(engine.own_ctx(), 0, 0, false, op).await {
            Ok(gone) => done.holders += u64::from(gone.yes),
            Err(error) => passed.by(engine, error)?,
        }
    }
    done.passed = passed.items as u64;
    Ok(done)
}

/// Closes one open file, given by the key of its row, if its holder still is silent.
async fn close(engine: &Arc<Engine>, key: &[u8], term: Option<Term>) -> Result<bool, RpcError> {
    let Some(file_id) = id_in(key) else { return Ok(false) };
    let call = Expire { file_id, term };
    let op = Box::new(move |tx: &mut Tx<'_, '_>| expire(tx, &call));
    Ok(engine.write_wait(engine.own_ctx(), file_id, 1, false, op).await?.yes)
}

/// Holders past the hard limit, as their rows are now.
async fn silent_holders(engine: &Arc<Engine>) -> Result<HashMap<String, ForgetHolder>, RpcError> {
    let now = engine.now_ms();
    let limit = i64::try_from(engine.config().lease_hard.as_millis()).unwrap_or(i64::MAX);
    let is_silent = |row: &Record<LeaseHolders>| {
        row.value.holder == INTERNAL_HOLDER || row.max < now.saturating_sub(limit)
    };
    let mut silent = HashMap::new();
    for mut bucket in buckets::<LeaseHolders>(engine, lease_holder_partitions()).await? {
        let most = silent.len() + MAX_HOLDERS;
        while silent.len() < most
            && let Some(rows) = bucket.next(engine).await?
        {
            let past = rows.into_iter().filter(|(_, row)| is_silent(row));
            silent.extend(past.map(|(_, row)| {
                let holder = row.value.holder;
                let call =
                    ForgetHolder { holder: holder.clone(), version: row.version, max: row.max, add: row.add };
                (holder, call)
            }));
        }
    }
    Ok(silent)
}

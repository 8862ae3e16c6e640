//! Leases — ClientProtocol.renewLease, recoverLease, and their expiry  (Java: LeaseManager, FSNamesystem.recoverLease)
//!
//! A holder has one row with its last renewal, whatever the number of its open files; the inode row is the truth about
//! who writes a file.
//!
//! Held    renewLease, create: the holder's row is merged. Take-over past the soft limit and expiry past the hard one
//!         hold it unchanged, counters included: a renewal that commits in between wins. recoverLease does not ask it.
//! Rows    renewLease: lease_holders 1m. Closing a file: inodes 1w · open_files 1w · blocks 2r. A file whose last block is
//!         unfinished: inodes 1w · blocks 1w · commands 1w · attention 1w · open_files 1w · lease_holders 1m.
//! Cost    renewLease 1 fetch + 1 commit, whatever the number of open files; an unknown holder 1 fetch. recoverLease
//!         warm 1 fetch + 1 commit of an open file whose blocks are complete, 1 fetch of a closed one; to have a block
//!         recovered 2 fetches more.
//! Differs a file that the hard limit took from its writer is looked at again after `block_recovery`, not after another
//!         hard limit. What else: see recovery.

use trellis_metastore::change::Hold;
use trellis_metastore::schema::{BlockState, Inode, LeaseHolder, lease_holder, open_file};

use super::blocks;
use super::recovery::{ClosedFile, Released, release};
use crate::engine::ctx::Term;
use crate::engine::permission::{Demand, WRITE};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Node, Target};
use crate::path::Path;
use crate::refusal::{Halt, Kind, Result, RpcError, refuse};

/// Arguments of [`renew_lease`].
#[derive(Clone, Debug)]
pub struct RenewLease {
    /// The client's name.
    pub holder: String,
    /// Must be empty: these are for routers.
    pub namespaces: Vec<String>,
}

/// Arguments of [`recover_lease`].
#[derive(Clone, Debug)]
pub struct RecoverLease {
    /// The file.
    pub path: Path,
    /// The client that asks.
    pub holder: String,
}

/// Arguments of [`expire`].
#[derive(Clone, Debug)]
pub struct Expire {
    /// An open file.
    pub file_id: u64,
    /// The leader's term, held.
    pub term: Option<Term>,
}

/// Who writes files that expiry took from their writers, until they are closed. It is past every limit: each of its files
/// waits for a recovery, which has a time of its own.
pub const INTERNAL_HOLDER: &str = "HDFS_NameNode";

/// Whether an internal operation did what it was for.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Closed {
    /// It did.
    #[prost(bool, tag = "1")]
    pub yes: bool,
}

/// Arguments of [`forget_holder`]: the row as it was before open files were searched for the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetHolder {
    /// The holder.
    pub holder: String,
    /// The row's version.
    pub version: u64,
    /// Its last renewal.
    pub max: i64,
    /// Its renewals and opens so far.
    pub add: i64,
}

/// Renews the leases of a client on all its files. A client without any is welcome as well.
pub fn renew_lease(tx: &mut Tx<'_, '_>, call: &RenewLease) -> Result<()> {
    if !call.namespaces.is_empty() {
        let why = format!("namespaces([{}]) should be null or empty", call.namespaces.join(", "));
        return refuse(Kind::Io, why);
    }
    let key = lease_holder(&call.holder);
    if tx.get(&key, Hold::Loose)?.is_some() {
        let now = tx.ctx.now_ms;
        tx.merge(&key, now, 1)?;
    }
    Ok(())
}

/// Closes a file whoever writes it. True when it is closed now.
pub fn recover_lease(tx: &mut Tx<'_, '_>, call: &RecoverLease) -> Result<bool> {
    if let Some(id) = tx.hinted_id(&call.path) {
        blocks::want_tail(tx, id, None);
        tx.want(&open_file(id));
        tx.want(&lease_holder(&call.holder));
    }
    let walked = tx.walk_one(Target::new(&call.path, DirOp::Write))?;
    let path = walked.path_of(walked.path.components().len());
    let Some(node) = walked.target().cloned() else {
        return refuse(Kind::FileNotFound, format!("File does not exist: {path}"));
    };
    if node.is_dir() {
        return refuse(Kind::FileNotFound, format!("Path is not a file: {path}"));
    }
    if node.inode.open.is_none() {
        return Ok(true);
    }
    tx.check(&walked, Demand { target: WRITE, ..Demand::default() })?;
    Ok(matches!(release(tx, &path, &node, Some(&call.holder))?, Released::Closed(..)))
}

/// Closes an open file whose holder is past the hard limit; one whose last block has to be recovered first is not closed
/// yet, and nobody else's any more.
pub fn expire(tx: &mut Tx<'_, '_>, call: &Expire) -> Result<Closed> {
    let not = Ok(Closed { yes: false });
    blocks::want_tail(tx, call.file_id, None);
    let Some(open) = tx.get(&open_file(call.file_id), Hold::Loose)? else { return not };
    let holder = open.value.holder;
    if !is_past(tx, &holder, tx.ctx.config.lease_hard.as_millis())? {
        return not;
    }
    // Not attached: deleted, and the reaper's to deal with.
    let Some(walked) = tx.walk_id(call.file_id)? else { return not };
    let Some(node) = walked.target().cloned() else { return not };
    if node.inode.open.as_ref().is_none_or(|writer| writer.holder != holder) {
        return not;
    }
    if let Some(term) = call.term {
        tx.hold_term(term)?;
    }
    let path = walked.path_of(walked.path.components().len());
    let released = release(tx, &path, &node, Some(INTERNAL_HOLDER))?;
    Ok(Closed { yes: matches!(released, Released::Closed(..)) })
}

/// Removes the row of a holder that is past the hard limit and has no open files: the caller searched for them after
/// it had read the row, and whatever the holder opened since has changed it.
pub fn forget_holder(tx: &mut Tx<'_, '_>, call: &ForgetHolder) -> Result<Closed> {
    let key = lease_holder(&call.holder);
    match tx.get(&key, Hold::HeldExact)? {
        Some(row) if (row.version, row.max, row.add) == (call.version, call.max, call.add) => {
            tx.delete(&key)?;
            Ok(Closed { yes: true })
        }
        _ => Ok(Closed { yes: false }),
    }
}

/// What another client's open file came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TakenOver {
    /// Nobody had it open.
    WasClosed,
    /// It was closed.
    Closed(Box<ClosedFile>),
}

/// What another client's open file means to one that wants to write it (stock: `recoverLeaseInternal`). Refuses while
/// its holder's lease is good; past the soft limit the file is closed or, which refuses too, has its last block
/// recovered first.
pub(super) fn take_over(
    tx: &mut Tx<'_, '_>,
    operation: &str,
    path: &str,
    node: &Node,
    holder: &str,
) -> Result<TakenOver> {
    let Some(writer) = node.inode.open.clone() else { return Ok(TakenOver::WasClosed) };
    if writer.holder == holder {
        let why = format!("{holder} is already the current lease holder.");
        return Err(failed(tx, Kind::AlreadyBeingCreated, operation, path, holder, &why).into());
    }
    let (owner, from) = (&writer.holder, &writer.machine);
    if !is_past(tx, owner, tx.ctx.config.lease_soft.as_millis())? {
        let tail = blocks::tail(tx, &node.inode)?;
        let recovered = tail.last().is_some_and(|last| last.state() == BlockState::UnderRecovery);
        let (kind, why) = match recovered {
            true => {
                (Kind::RecoveryInProgress, format!("another recovery is in progress by {owner} on {from}"))
            }
            false => (
                Kind::AlreadyBeingCreated,
                format!("this file lease is currently owned by {owner} on {from}"),
            ),
        };
        return Err(failed(tx, kind, operation, path, holder, &why).into());
    }
    match release(tx, path, node, None)? {
        Released::Closed(file) => Ok(TakenOver::Closed(file)),
        Released::Recovering => recovering(tx, operation, path, holder),
    }
}

/// Refuses because a recovery was begun, which counts.
pub(super) fn recovering<T>(tx: &Tx<'_, '_>, operation: &str, path: &str, holder: &str) -> Result<T> {
    let why = "lease recovery is in progress. Try again later.";
    Err(Halt::RefusedAfter(failed(tx, Kind::RecoveryInProgress, operation, path, holder, why)))
}

fn failed(tx: &Tx<'_, '_>, kind: Kind, operation: &str, path: &str, holder: &str, why: &str) -> RpcError {
    let machine = &tx.ctx.machine;
    RpcError::new(kind, format!("Failed to {operation} {path} for {holder} on {machine} because {why}"))
}

/// A holder opens one more file: its lease starts, or is renewed; the namenode's own is never renewed.
pub(super) fn join_lease(tx: &mut Tx<'_, '_>, holder: &str) -> Result<()> {
    let key = lease_holder(holder);
    let now = tx.ctx.now_ms;
    match tx.get(&key, Hold::Loose)? {
        // Counted, so that nobody forgets it meanwhile.
        Some(_) if holder == INTERNAL_HOLDER => Ok(tx.merge(&key, 0, 1)?),
        Some(_) => Ok(tx.merge(&key, now, 1)?),
        None => Ok(tx.insert_counted(&key, &LeaseHolder { holder: holder.to_owned() }, now, 1)?),
    }
}

/// Ends the writing of a file whose blocks are all complete; answers its row as it is now.
pub(super) fn close_file(tx: &mut Tx<'_, '_>, node: &Node) -> Result<Inode> {
    let key = open_file(node.id());
    // The inode row is the truth; without its companion there is nothing to remove.
    if tx.get(&key, Hold::Loose)?.is_some() {
        tx.delete(&key)?;
    }
    let mut inode = node.inode.clone();
    inode.open = None;
    inode.mtime_ms = tx.ctx.now_ms;
    tx.put(&node.key(), &inode)?;
    Ok(inode)
}

/// A client's lease as messages tell of it.
pub(super) fn describe_lease(tx: &mut Tx<'_, '_>, holder: &str) -> Result<String> {
    Ok(match tx.get(&lease_holder(holder), Hold::Loose)? {
        Some(_) => format!("[Lease.  Holder: {holder}]"),
        None => format!("Holder {holder} does not have any open files."),
    })
}

/// Whether a holder has not renewed for longer than `limit_ms`; its row is held unchanged. One without a row is past
/// every limit, as the namenode itself is.
fn is_past(tx: &mut Tx<'_, '_>, holder: &str, limit_ms: u128) -> Result<bool> {
    if holder == INTERNAL_HOLDER {
        return Ok(true);
    }
    let row = tx.get(&lease_holder(holder), Hold::HeldExact)?;
    let limit = i64::try_from(limit_ms).unwrap_or(i64::MAX);
    Ok(row.is_none_or(|row| tx.ctx.now_ms.saturating_sub(row.max) > limit))
}

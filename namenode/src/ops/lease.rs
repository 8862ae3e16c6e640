//! Leases — ClientProtocol.renewLease, recoverLease, and their expiry  (Java: LeaseManager, FSNamesystem.recoverLease)
//!
//! A holder has one row with its last renewal, whatever the number of its open files; the inode row is the truth about
//! who writes a file.
//!
//! Held    renewLease, create: the holder's row is merged. Take-over past the soft limit and expiry past the hard one
//!         hold it unchanged, counters included: a renewal that commits in between wins. recoverLease does not ask it.
//! Rows    renewLease: lease_holders 1m. Closing a file: inodes 1w · open_files 1w.
//! Cost    renewLease 1 fetch + 1 commit, whatever the number of open files; an unknown holder 1 fetch. recoverLease
//!         warm 2 fetches + 1 commit of an open file, 1 fetch of a closed one.
//! Differs none.

use trellis_metastore::change::Hold;
use trellis_metastore::schema::{LeaseHolder, lease_holder, open_file};

use crate::engine::ctx::Term;
use crate::engine::permission::{Demand, WRITE};
use crate::engine::tx::Tx;
use crate::engine::walk::{Chain, DirOp, Node, Target};
use crate::path::Path;
use crate::refusal::{Kind, Result, refuse};

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
    close_file(tx, &node)?;
    Ok(true)
}

/// Closes an open file whose holder is past the hard limit.
pub fn expire(tx: &mut Tx<'_, '_>, call: &Expire) -> Result<Closed> {
    let not = Ok(Closed { yes: false });
    let Some(open) = tx.get(&open_file(call.file_id), Hold::Loose)? else { return not };
    let holder = open.value.holder;
    if !is_past(tx, &holder, tx.ctx.config.lease_hard.as_millis())? {
        return not;
    }
    // Not attached: deleted, and the reaper's to deal with.
    let Some(walked) = tx.walk_id(call.file_id, Chain::Loose)? else { return not };
    let Some(node) = walked.target().cloned() else { return not };
    if node.inode.open.as_ref().is_none_or(|writer| writer.holder != holder) {
        return not;
    }
    if let Some(term) = call.term {
        tx.hold_term(term)?;
    }
    close_file(tx, &node)?;
    Ok(Closed { yes: true })
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

/// What another client's open file means to one that wants to write it (stock: `recoverLeaseInternal`). Refuses while
/// its holder's lease is good; past the soft limit the file is closed. False when nobody had it open.
pub(super) fn take_over(
    tx: &mut Tx<'_, '_>,
    operation: &str,
    path: &str,
    node: &Node,
    holder: &str,
) -> Result<bool> {
    let Some(writer) = node.inode.open.clone() else { return Ok(false) };
    let machine = tx.ctx.machine.clone();
    let busy = |why: String| {
        let text = format!("Failed to {operation} {path} for {holder} on {machine} because {why}");
        refuse(Kind::AlreadyBeingCreated, text)
    };
    if writer.holder == holder {
        return busy(format!("{holder} is already the current lease holder."));
    }
    if !is_past(tx, &writer.holder, tx.ctx.config.lease_soft.as_millis())? {
        let (owner, from) = (&writer.holder, &writer.machine);
        return busy(format!("this file lease is currently owned by {owner} on {from}"));
    }
    close_file(tx, node)?;
    Ok(true)
}

/// A holder opens one more file: its lease starts, or is renewed.
pub(super) fn join_lease(tx: &mut Tx<'_, '_>, holder: &str) -> Result<()> {
    let key = lease_holder(holder);
    let now = tx.ctx.now_ms;
    match tx.get(&key, Hold::Loose)? {
        Some(_) => Ok(tx.merge(&key, now, 1)?),
        None => Ok(tx.insert_counted(&key, &LeaseHolder { holder: holder.to_owned() }, now, 1)?),
    }
}

/// Ends the writing of a file without blocks.
pub(super) fn close_file(tx: &mut Tx<'_, '_>, node: &Node) -> Result<()> {
    let key = open_file(node.id());
    // The inode row is the truth; without its companion there is nothing to remove.
    if tx.get(&key, Hold::Loose)?.is_some() {
        tx.delete(&key)?;
    }
    let mut inode = node.inode.clone();
    inode.open = None;
    inode.mtime_ms = tx.ctx.now_ms;
    Ok(tx.put(&node.key(), &inode)?)
}

/// A client's lease as messages tell of it.
pub(super) fn describe_lease(tx: &mut Tx<'_, '_>, holder: &str) -> Result<String> {
    Ok(match tx.get(&lease_holder(holder), Hold::Loose)? {
        Some(_) => format!("[Lease.  Holder: {holder}]"),
        None => format!("Holder {holder} does not have any open files."),
    })
}

/// Whether a holder has not renewed for longer than `limit_ms`; its row is held unchanged. One without a row is past
/// every limit.
fn is_past(tx: &mut Tx<'_, '_>, holder: &str, limit_ms: u128) -> Result<bool> {
    let row = tx.get(&lease_holder(holder), Hold::HeldExact)?;
    let limit = i64::try_from(limit_ms).unwrap_or(i64::MAX);
    Ok(row.is_none_or(|row| tx.ctx.now_ms.saturating_sub(row.max) > limit))
}

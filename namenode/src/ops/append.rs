//! append — ClientProtocol.append                                                    (Java: FSDirAppendOp)
//!
//! Held    the file's inode row is written; its last block, too, when that is written on.
//! Rows    inodes 1r a component, 1w · blocks 2r 1w · replicas of the last block r · open_files 1w · lease_holders 1m ·
//!         retry_cache 1w. A file that another has open: as taking its lease over.
//! Cost    warm: 2 fetches + 1 commit.
//! Differs of a file closed lately the storages of its pipeline that have not reported yet are told, too.

use trellis_metastore::schema::{
    Block, BlockState, Inode, OpenFile, Ordered, Writer, lease_holder, open_file,
};

use super::blocks::{self, FileBlock, shown};
use super::lease::{TakenOver, join_lease, take_over};
use super::replicas::{self, Found, Located, Worth, is_complete, storages_of};
use super::status::FileStatus;
use crate::datanodes::view::Liveness;
use crate::engine::permission::{Demand, WRITE};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Node, Target};
use crate::path::Path;
use crate::policy;
use crate::refusal::{Kind, Result, refuse};

/// Arguments of [`append`].
#[derive(Clone, Debug)]
pub struct Append {
    /// The file.
    pub path: Path,
    /// The client's name: it becomes the lease holder.
    pub holder: String,
    /// Whether the data goes into a new block, whatever room the last one has.
    pub new_block: bool,
}

/// What [`append`] answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Appended {
    /// The last block: to be written on, with its replicas; with a new block wanted, only so that the client can name it.
    /// `None` when it is full, or the file has none.
    pub block: Option<Located>,
    /// The file as it is now.
    pub status: FileStatus,
}

/// Opens a file to write more behind its end.
pub fn append(tx: &mut Tx<'_, '_>, call: &Append) -> Result<Appended> {
    tx.want(&lease_holder(&call.holder));
    if let Some(id) = tx.hinted_id(&call.path) {
        blocks::want_tail(tx, id, None);
        tx.want(&open_file(id));
    }
    let walked = tx.walk_one(Target::new(&call.path, DirOp::Write))?;
    let path = walked.path_of(walked.path.components().len());
    if walked.target().is_some_and(Node::is_dir) {
        let why = format!("Cannot append to directory {path}; already exists as a directory.");
        return refuse(Kind::FileAlreadyExists, why);
    }
    tx.check(&walked, Demand { target: WRITE, ..Demand::default() })?;
    let Some(node) = walked.into_target() else {
        let why = format!("Failed to append to non-existent file {path} for client {}", tx.ctx.machine);
        return refuse(Kind::FileNotFound, why);
    };
    if node.inode.policy == policy::LAZY_PERSIST {
        return refuse(Kind::UnsupportedOperation, format!("Cannot append to lazy persist file {path}"));
    }
    let (node, last) = match take_over(tx, "APPEND_FILE", &path, &node, &call.holder)? {
        TakenOver::Closed(file) => (Node { inode: file.inode, ..node }, file.last),
        TakenOver::WasClosed => {
            let last = blocks::tail(tx, &node.inode)?.0.pop();
            (node, last)
        }
    };
    let mut inode = node.inode.clone();
    let block = match last {
        Some(last) => open_last(tx, &mut inode, last, &path, call.new_block)?,
        None => None,
    };
    reopen(tx, &node, &mut inode, &call.holder)?;
    let status = FileStatus::of(tx, Node { inode, ..node }, bytes::Bytes::new())?;
    Ok(Appended { block, status })
}

/// The last block of a closed file, made one that is being written if it has room and no new one is wanted.
fn open_last(
    tx: &mut Tx<'_, '_>,
    inode: &mut Inode,
    mut last: FileBlock,
    path: &str,
    new_block: bool,
) -> Result<Option<Located>> {
    let found = replicas::read(tx, &[last.block.id])?.pop().unwrap_or_default();
    let live = storages_of(&tx.ctx.datanodes, &last.block, &found, Worth::Live);
    check_replicas(tx, &last.block, live.len(), path)?;
    let offset = inode.length.saturating_sub(last.block.length);
    if new_block {
        return Ok(Some(Located { block: last.block, offset, storages: Vec::new(), corrupt: false }));
    }
    if last.block.length >= inode.block_size {
        return Ok(None);
    }
    let storages = holders(tx, inode, &last.block, &found, live);
    write_on(tx, inode, &mut last, storages.clone())?;
    Ok(Some(Located { block: last.block, offset, storages, corrupt: false }))
}

/// The storages that have the last block of a closed file: the `live` ones and, if that is too few of a file closed
/// lately, the others of its pipeline. Their reports may be with a namenode that is held up; a client that was not told of
/// them would have another datanode take part, and what has the block already cannot.
pub(super) fn holders(
    tx: &Tx<'_, '_>,
    inode: &Inode,
    last: &Block,
    found: &[Found],
    live: Vec<u32>,
) -> Vec<u32> {
    let (view, mut storages) = (&tx.ctx.datanodes, live);
    let kept = i64::try_from(tx.ctx.config.kept_reports.as_millis()).unwrap_or(i64::MAX);
    let is_late = tx.ctx.now_ms.saturating_sub(inode.mtime_ms) <= kept;
    for storage in last.expected.iter().copied().filter(|_| is_late) {
        let has_told = found.iter().any(|one| one.storage == storage && !is_before(last, one));
        let node = view.live_datanode(storage);
        let has_other = storages.iter().any(|other| view.live_datanode(*other) == node);
        if storages.len() < inode.replication as usize && node.is_some() && !has_told && !has_other {
            storages.push(storage);
        }
    }
    storages
}

/// Whether what is known of a replica is older than the pipeline that wrote the block.
fn is_before(block: &Block, one: &Found) -> bool {
    match one.replica.ordered() {
        Ordered::Nothing => one.replica.stamp < block.stamp,
        Ordered::Copy => true,
        Ordered::Deletion => false,
    }
}

fn check_replicas(tx: &Tx<'_, '_>, last: &Block, live: usize, path: &str) -> Result<()> {
    if last.state() == BlockState::Committed {
        let why = format!(
            "append: lastBlock={} of src={path} is COMMITTED but not yet COMPLETE.",
            shown(Some(last))
        );
        return refuse(Kind::Retriable, why);
    }
    let datanodes = tx.ctx.datanodes.nodes().iter().filter(|node| node.liveness != Liveness::Dead).count();
    if is_complete(last) && live < datanodes.min(tx.ctx.config.min_replication as usize) {
        let why = format!(
            "append: lastBlock={} of src={path} is not sufficiently replicated yet.",
            shown(Some(last))
        );
        return refuse(Kind::Io, why);
    }
    Ok(())
}

/// Makes the last block of a file one that is being written on these storages; changes the inode, which the caller
/// writes.
pub(super) fn write_on(
    tx: &mut Tx<'_, '_>,
    inode: &mut Inode,
    last: &mut FileBlock,
    storages: Vec<u32>,
) -> Result<()> {
    (last.block.state, last.block.expected) = (BlockState::UnderConstruction as i32, storages);
    inode.unfinished = Some(last.block.length);
    blocks::put(tx, inode.id, last)
}

/// Opens a closed file for a writer, and writes its row.
pub(super) fn reopen(tx: &mut Tx<'_, '_>, node: &Node, inode: &mut Inode, holder: &str) -> Result<()> {
    crate::user::check_name("client", holder)?;
    inode.open = Some(Writer { holder: holder.to_owned(), machine: tx.ctx.machine.to_string() });
    tx.insert(&open_file(node.id()), &OpenFile { holder: holder.to_owned() })?;
    join_lease(tx, holder)?;
    Ok(tx.put(&node.key(), inode)?)
}

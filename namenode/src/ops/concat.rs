//! concat — ClientProtocol.concat                                                    (Java: FSDirConcatOp)
//!
//! The blocks of the sources get new places in the target; their replicas stay where they are, and a row beside them says
//! where each block went.
//!
//! Held    the inode rows of target and sources are written: they guard their blocks. The directory is merged.
//! Rows    inodes 1r a component, 1w each · inode_paths 1w a source · dir_stats 1m · blocks 2w and block_files 1w for
//!         each block that moves · attention 1w · retry_cache 1w.
//! Cost    warm: 3 fetches + 1 commit; 1 fetch more when sources have over 1000 blocks.
//! Differs at most 1000 sources and 4000 of their blocks at once, which are 12 000 rows in one commit; more is refused.

use trellis_metastore::change::Hold;
use trellis_metastore::schema::{Inode, MAX_ORDINAL, attention, inode_path};
use trellis_metastore::tx::Stop;

use super::blocks::{self, FileBlock};
use super::entries::{retire, uncount_child};
use super::replicas::note_attention;
use super::status::file_of;
use crate::engine::permission::{Demand, READ, WRITE};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Node, Target, Walked};
use crate::path::Path;
use crate::refusal::{Halt, Kind, Result, refuse};

/// Sources of one call.
pub const MAX_SOURCES: usize = 1000;
/// Blocks that one call moves.
pub const MAX_BLOCKS: u64 = 4000;

/// Arguments of [`concat`].
#[derive(Clone, Debug)]
pub struct Concat {
    /// The file that gets the blocks.
    pub target: Path,
    /// The files that give them, in this order; they are removed.
    pub sources: Vec<Path>,
}

/// Moves the blocks of files to the end of another.
pub fn concat(tx: &mut Tx<'_, '_>, call: &Concat) -> Result<Inode> {
    if call.target.text().is_empty() {
        return refuse(Kind::IllegalArgument, "Target file name is empty");
    }
    if call.sources.is_empty() {
        return refuse(Kind::IllegalArgument, "No sources given");
    }
    if call.sources.len() > MAX_SOURCES {
        let why = format!("concat: {} sources; at most {MAX_SOURCES} at once", call.sources.len());
        return refuse(Kind::Io, why);
    }
    let target_of = |path| Target::new(path, DirOp::Write).with_path().with_parent_stat();
    for source in &call.sources {
        tx.want_hinted(&target_of(source));
    }
    let target = tx.walk_one(target_of(&call.target))?;
    tx.check_access(&target, target.path.components().len(), WRITE)?;
    let target_inode = file_of(&target, call.target.text())?;
    if target_inode.open.is_some() {
        let why = format!("concat: target file {} is under construction", call.target.text());
        return refuse(Kind::HadoopIllegalArgument, why);
    }
    let Some(node) = target.target().cloned() else {
        return refuse(Kind::FileNotFound, "the target is gone");
    };
    let mut sources: Vec<Node> = Vec::with_capacity(call.sources.len());
    for path in &call.sources {
        sources.push(source(tx, &target, &node, path)?);
    }
    let mut ids: Vec<u64> = sources.iter().map(Node::id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() < sources.len() {
        let why = "concat: at least two of the source files are the same";
        return refuse(Kind::HadoopIllegalArgument, why);
    }
    let inode = take_blocks(tx, &node, &sources)?;
    remove(tx, &target, &sources)?;
    tx.came_to(&inode);
    Ok(inode)
}

/// A source that may be joined to the target (stock: `verifySrcFiles`).
fn source(tx: &mut Tx<'_, '_>, target: &Walked, node: &Node, path: &Path) -> Result<Node> {
    let shown = path.text();
    let walked = tx.walk_one(Target::new(path, DirOp::Write).with_path())?;
    let depth = walked.path.components().len();
    tx.check_access(&walked, depth, READ)?;
    tx.check(&walked, Demand { parent: WRITE, ..Demand::default() })?;
    let inode = file_of(&walked, shown)?;
    let target_path = target.path_of(target.path.components().len());
    let why = if walked.parent().map(Node::id) != target.parent().map(Node::id) {
        format!("Source file {shown} is not in the same directory with the target {target_path}")
    } else if inode.id == node.id() {
        format!("concat: the src file {shown} is the same with the target file {target_path}")
    } else if inode.open.is_some() || inode.block_count == 0 {
        format!("concat: source file {shown} is invalid or empty or underConstruction")
    } else if inode.block_size > node.inode.block_size {
        format!(
            "concat: source file {shown} has preferred block size {} which is greater than the target file's preferred \
             block size {}",
            inode.block_size, node.inode.block_size
        )
    } else {
        return walked.into_target().ok_or(Halt::Stop(Stop::Stale));
    };
    refuse(Kind::HadoopIllegalArgument, why)
}

/// Gives the blocks of the sources to the target; answers its row as it is now.
fn take_blocks(tx: &mut Tx<'_, '_>, node: &Node, sources: &[Node]) -> Result<Inode> {
    let count: u64 = sources.iter().map(|source| u64::from(source.inode.block_count)).sum();
    let mut inode = node.inode.clone();
    if count > MAX_BLOCKS {
        return refuse(
            Kind::Io,
            format!("concat: the sources have {count} blocks; at most {MAX_BLOCKS} at once"),
        );
    }
    if u64::from(inode.next_block) + count > u64::from(MAX_ORDINAL) {
        return refuse(
            Kind::Io,
            "concat: the target has drawn all the block ids that a file can have; copy it.",
        );
    }
    let moving = blocks_of(tx, sources)?;
    let concerns: Vec<_> = sources.iter().map(|source| attention(source.id())).collect();
    for (source, placed) in &moving {
        blocks::want_moves(tx, *source, std::slice::from_ref(placed));
    }
    tx.want(&attention(node.id()));
    let concerned = tx.get_all(&concerns, Hold::Loose)?;
    for (source, placed) in &moving {
        let ordinal = inode.next_block;
        blocks::move_block(tx, (*source, placed), (inode.id, ordinal))?;
        (inode.next_block, inode.block_count) = (ordinal + 1, inode.block_count + 1);
        inode.length = inode.length.saturating_add(placed.block.length);
    }
    // Whoever notes a source meanwhile holds what this removes, but this cannot see its note.
    if count > 0 {
        note_attention(tx, inode.id)?;
    }
    for (key, _) in concerns.iter().zip(concerned).filter(|(_, row)| row.is_some()) {
        tx.delete(key)?;
    }
    inode.mtime_ms = tx.ctx.now_ms;
    tx.get(&node.key(), Hold::Held)?;
    tx.put(&node.key(), &inode)?;
    Ok(inode)
}

/// All blocks of the sources, in order, each with the file that has it.
fn blocks_of(tx: &mut Tx<'_, '_>, sources: &[Node]) -> Result<Vec<(u64, FileBlock)>> {
    let with_blocks = || sources.iter().filter(|source| source.inode.block_count > 0);
    for source in with_blocks() {
        tx.want_scan(&blocks::page_scan(source.id(), None, blocks::PAGE));
    }
    let mut all = Vec::new();
    for source in with_blocks() {
        let found = blocks::all_after(tx, &source.inode, None)?;
        if found.len() != source.inode.block_count as usize {
            return Err(Halt::Stop(Stop::Stale));
        }
        all.extend(found.into_iter().map(|placed| (source.id(), placed)));
    }
    Ok(all)
}

/// Removes the sources, which have no blocks any more.
fn remove(tx: &mut Tx<'_, '_>, target: &Walked, sources: &[Node]) -> Result<()> {
    let Some(parent) = target.parent() else { return Err(Halt::Stop(Stop::Stale)) };
    for source in sources {
        let place = inode_path(source.id());
        if tx.get(&place, Hold::Loose)?.is_none() {
            return Err(Halt::Stop(Stop::Stale));
        }
        retire(tx, source)?;
        tx.delete(&place)?;
        uncount_child(tx, parent)?;
    }
    Ok(())
}

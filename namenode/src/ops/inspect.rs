//! inspect — behind fsck and admin's lists: files with their blocks and what each replica is worth  (Java: NamenodeFsck)
//!
//! Held    nothing: they only read.
//! Rows    per file: inode_paths 1r, inodes 1r, blocks 1r a block, replicas 1r a replica. By block id: blocks 1r, or
//!         block_files 1r + blocks 1r · inode_paths 1r a level, inodes 1r · replicas 1r a replica.
//! Cost    warm: 2 fetches for up to 64 files of 500 blocks together; 2 more for each further 500 blocks of a file.
//! Differs none.

use trellis_metastore::change::Hold;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::{Block, Blocks, Inode, block_file, inode, inode_path};

use super::blocks::{self, FileBlock};
use super::replicas::{self, Worth, is_overtaken, judge};
use crate::engine::tx::Tx;
use crate::path::Path;
use crate::refusal::Result;

/// Blocks of one file that are read at once.
pub const BLOCKS: u32 = 500;

/// A block, and the storages that have a replica, each with what that is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspected {
    /// The block.
    pub block: Block,
    /// Its ordinal in its file.
    pub ordinal: u32,
    /// Storages by number.
    pub replicas: Vec<(u32, Worth)>,
}

impl Inspected {
    /// How many replicas are worth this.
    pub fn count(&self, worth: Worth) -> usize {
        self.replicas.iter().filter(|(_, its)| *its == worth).count()
    }

    /// Whether it has replicas, and all of them are corrupt.
    pub fn is_corrupt(&self) -> bool {
        self.count(Worth::Corrupt) > 0 && self.count(Worth::Live) == 0 && self.count(Worth::Unfinished) == 0
    }
}

/// A file and its blocks, or a page of them.
#[derive(Clone, Debug, PartialEq)]
pub struct InspectedFile {
    /// Its row.
    pub inode: Inode,
    /// Blocks in their order.
    pub blocks: Vec<Inspected>,
    /// Whether there are more.
    pub more: bool,
}

/// Files by their inode ids, each with its first blocks. `None`: there is no such file any more.
pub fn inspect(tx: &mut Tx<'_, '_>, ids: &[u64]) -> Result<Vec<Option<InspectedFile>>> {
    let scan = |id: &u64| blocks::page_scan(*id, None, BLOCKS);
    inspect_from(tx, ids, ids.iter().map(scan).collect())
}

/// The blocks of a file past an ordinal.
pub fn inspect_further(tx: &mut Tx<'_, '_>, id: u64, after: u32) -> Result<Option<InspectedFile>> {
    let scan = blocks::page_scan(id, Some(after), BLOCKS);
    Ok(inspect_from(tx, &[id], vec![scan])?.pop().flatten())
}

fn inspect_from(tx: &mut Tx<'_, '_>, ids: &[u64], scans: Vec<Scan>) -> Result<Vec<Option<InspectedFile>>> {
    scans.iter().for_each(|scan| tx.want_scan(scan));
    let places: Vec<_> = ids.iter().map(|id| inode_path(*id)).collect();
    let places = tx.get_all(&places, Hold::Loose)?;
    let rows: Vec<_> = places.iter().flatten().map(|at| inode(at.value.parent, &at.value.name)).collect();
    rows.iter().for_each(|row| tx.want(row));
    let pages = tx.scan_all::<Blocks>(&scans)?;
    let mut rows = tx.get_all(&rows, Hold::Loose)?.into_iter();
    let files: Vec<Option<Inode>> = places
        .into_iter()
        .zip(ids)
        .map(|(place, id)| {
            let row = place.and_then(|_| rows.next().flatten())?;
            Some(row.value).filter(|inode| inode.id == *id && !inode.is_dir())
        })
        .collect();
    let pages: Vec<_> = pages.into_iter().map(blocks::placed).collect();
    for (file, page) in files.iter().zip(&pages) {
        if file.is_some() {
            replicas::want(tx, &ids_of(page));
        }
    }
    let mut all = Vec::with_capacity(ids.len());
    for (file, page) in files.into_iter().zip(pages) {
        let Some(inode) = file else {
            all.push(None);
            continue;
        };
        let more = page.len() >= BLOCKS as usize;
        let blocks = judged(tx, page)?;
        all.push(Some(InspectedFile { inode, blocks, more }));
    }
    Ok(all)
}

/// A block by its id, with the path and the row of its file. `None`: there is no such block, or its file is detached.
pub fn inspect_block(tx: &mut Tx<'_, '_>, id: u64) -> Result<Option<(Path, Inode, Inspected)>> {
    tx.want(&block_file(id));
    let Some((owner, placed)) = blocks::find(tx, &[id], Hold::Loose, |_, _| {})?.pop().flatten() else {
        return Ok(None);
    };
    let file = tx.inodes_by_id(&[owner])?.pop().flatten();
    let Some((path, inode)) = file else { return Ok(None) };
    let block = judged(tx, vec![placed])?.pop();
    Ok(block.map(|block| (path, inode, block)))
}

fn ids_of(page: &[FileBlock]) -> Vec<u64> {
    page.iter().map(|placed| placed.block.id).collect()
}

fn judged(tx: &mut Tx<'_, '_>, page: Vec<FileBlock>) -> Result<Vec<Inspected>> {
    let found = replicas::read(tx, &ids_of(&page))?;
    let view = &tx.ctx.datanodes;
    let one = |(FileBlock { ordinal, block }, found): (FileBlock, Vec<replicas::Found>)| {
        let current = found.iter().filter(|its| !is_overtaken(view, &found, its));
        let replicas = current.map(|its| (its.storage, judge(view, &block, its.storage, &its.replica)));
        Inspected { replicas: replicas.collect(), block, ordinal }
    };
    Ok(page.into_iter().zip(found).map(one).collect())
}

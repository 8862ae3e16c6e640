//! reap — internal: frees what was deleted, in bounded batches   (Java: the block deletion behind FSNamesystem.delete)
//!
//! Deleted files and detached trees are rows under the hidden parent. A hidden directory lost its guard (dir_stats)
//! when it came here, so nothing can be made or moved in its partition any more; each child that is a directory comes
//! here in the same way before its own first child is touched. What is renamed out before that stays untouched.
//!
//! Held    every row that is removed is unchanged since read; so two reapers, or a reaper and a rename, exclude each
//!         other row by row.
//! Rows    per child: inodes 1w · inode_paths 1w, a directory + dir_stats 1w, one with children + inodes 1w (hidden);
//!         per hidden file: inodes 1w, an open one + open_files 1w, one that needed attention + attention 1w; per block of
//!         it blocks 1w, one that came by concat + block_files 1w; per replica replicas, storage_replicas, commands 1w. At
//!         most about 500 rows a transaction, with 3 replicas of a block.
//! Cost    2 fetches + 1 commit a batch of up to 120 children, or 100 files; with blocks 3 fetches, up to 40 blocks a batch.
//! Differs datanodes are told to delete replicas when the reaper comes to them, which may be a little after the answer.

use trellis_metastore::change::Hold;
use trellis_metastore::key::{Scan, name_bytes};
use trellis_metastore::schema::{
    Blocks, Inodes, Table, TableKey, attention, block, block_file, dir_stat, hidden_inode, inode, inode_path,
    open_file, parts_of_block,
};
use trellis_metastore::tx::Stop;

use super::blocks::{self, FileBlock};
use super::entries::remove_entry;
use super::{orders, replicas};
use crate::engine::tx::Tx;
use crate::engine::walk::Node;
use crate::refusal::{Halt, Result};

/// Children of one directory that one transaction deals with: each costs up to four rows.
pub const CHILDREN: u32 = 120;
/// Hidden files that one transaction removes.
pub const FILES: usize = 100;
/// Blocks that one transaction frees: with three replicas each costs up to eleven rows.
pub const BLOCKS: u32 = 40;

/// What one batch did.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Reaped {
    /// Entries that are gone from where they were.
    #[prost(uint64, tag = "1")]
    pub entries: u64,
    /// Whether the directory still has children, and its row.
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// Removes hidden files, given by their ids, with their blocks and what is known of replicas, whose datanodes are told to
/// delete them. What is gone already or is a directory is left alone; a file with more blocks than a batch takes stays
/// until they are gone.
pub fn reap_files(tx: &mut Tx<'_, '_>, ids: &[u64]) -> Result<Reaped> {
    let keys: Vec<TableKey<Inodes>> = ids.iter().map(|id| hidden_inode(*id)).collect();
    for id in ids {
        tx.want_scan(&blocks::page_scan(*id, None, BLOCKS));
        tx.want(&attention(*id));
    }
    let rows = tx.get_all(&keys, Hold::HeldExact)?;
    let files = keys.into_iter().zip(rows).filter_map(|(key, row)| Some((key, row?.value)));
    let files: Vec<_> = files.filter(|(_, file)| !file.is_dir()).collect();
    let scans: Vec<Scan> = files.iter().map(|(_, file)| blocks::page_scan(file.id, None, BLOCKS)).collect();
    let pages = tx.scan_all::<Blocks>(&scans)?;
    let (mut gone, mut batch, mut left) = (Vec::new(), Vec::new(), BLOCKS as usize);
    for ((key, file), page) in files.iter().zip(pages) {
        let mut page = blocks::placed(page);
        if page.len() < BLOCKS as usize && page.len() <= left {
            gone.push((key, file));
        }
        page.truncate(left);
        left -= page.len();
        batch.extend(page.into_iter().map(|placed| (file.id, placed)));
    }
    free_blocks(tx, &batch)?;
    let open: Vec<_> =
        gone.iter().filter(|(_, file)| file.open.is_some()).map(|(_, file)| open_file(file.id)).collect();
    let concerns: Vec<_> =
        gone.iter().filter(|(_, file)| file.next_block > 0).map(|(_, file)| attention(file.id)).collect();
    delete_present(tx, &open)?;
    delete_present(tx, &concerns)?;
    // Their entries were retired when they came here.
    gone.iter().try_for_each(|(key, _)| tx.delete(key))?;
    Ok(Reaped { entries: gone.len() as u64, more: gone.len() < files.len() })
}

fn delete_present<T: Table>(tx: &mut Tx<'_, '_>, keys: &[TableKey<T>]) -> Result<()> {
    let rows = tx.get_all(keys, Hold::Loose)?;
    for (key, _) in keys.iter().zip(rows).filter(|(_, row)| row.is_some()) {
        tx.delete(key)?;
    }
    Ok(())
}

/// Removes blocks, given with the file that has them, and all that is known of their replicas.
fn free_blocks(tx: &mut Tx<'_, '_>, batch: &[(u64, FileBlock)]) -> Result<()> {
    let ids: Vec<u64> = batch.iter().map(|(_, placed)| placed.block.id).collect();
    let found = replicas::read(tx, &ids)?;
    // A block that has another's name came by concat.
    let moved: Vec<_> = batch
        .iter()
        .filter(|(file, placed)| parts_of_block(placed.block.id).0 != *file)
        .map(|(_, placed)| block_file(placed.block.id))
        .collect();
    let (mut all, mut replicas_of) = (Vec::new(), Vec::new());
    for ((_, placed), found) in batch.iter().zip(&found) {
        let storages = found.iter().map(|found| found.storage).chain(placed.block.expected.iter().copied());
        let mut storages: Vec<u32> = storages.collect();
        storages.sort_unstable();
        storages.dedup();
        orders::want_invalidate(tx, placed.block.id, &storages);
        all.extend(found.iter().map(|found| (placed.block.id, found.storage)));
        replicas_of.push(storages);
    }
    moved.iter().for_each(|key| tx.want(key));
    replicas::remove(tx, &all)?;
    delete_present(tx, &moved)?;
    for (((file, placed), found), storages) in batch.iter().zip(&found).zip(&replicas_of) {
        orders::invalidate(tx, &placed.block, found, storages, true)?;
        let key = block(*file, placed.ordinal);
        if tx.get(&key, Hold::Held)?.is_some() {
            tx.delete(&key)?;
        }
    }
    Ok(())
}

/// Empties a hidden directory by one batch of children; with the last of them its own row goes.
pub fn reap_directory(tx: &mut Tx<'_, '_>, id: u64) -> Result<Reaped> {
    let key = hidden_inode(id);
    tx.want(&key);
    let mut scanned = tx.scan_all::<Inodes>(&[Scan::of(Inodes::ID, id, CHILDREN)])?;
    match tx.get(&key, Hold::HeldExact)? {
        Some(row) if row.value.is_dir() => {}
        _ => return Ok(Reaped::default()),
    }
    let rows = scanned.pop().unwrap_or_default();
    let node = |(rest, row): (Vec<u8>, trellis_metastore::tx::Record<Inodes>)| Node {
        parent: id,
        name: name_bytes(&rest).to_vec().into(),
        inode: row.value,
    };
    let children: Vec<Node> = rows.into_iter().map(node).collect();
    for child in &children {
        tx.want(&inode(id, &child.name));
        tx.want(&inode_path(child.id()));
        if child.is_dir() {
            tx.want(&dir_stat(id, &child.name));
        }
    }
    for child in &children {
        if tx.get(&child.key(), Hold::HeldExact)?.is_none_or(|row| row.value.id != child.id()) {
            return Err(Halt::Stop(Stop::Stale));
        }
        let below = if child.is_dir() { tx.stat_of(child, Hold::HeldExact)?.add } else { 0 };
        remove_entry(tx, child, below)?;
    }
    // A short page was the last: without its guard the directory can only lose children.
    let more = children.len() as u32 == CHILDREN;
    if !more {
        tx.delete(&key)?;
    }
    Ok(Reaped { entries: children.len() as u64, more })
}

//! reap — internal: frees what was deleted, in bounded batches   (Java: the block deletion behind FSNamesystem.delete)
//!
//! Deleted files and detached trees are rows under the hidden parent. A hidden directory lost its guard (dir_stats)
//! when it came here, so nothing can be made or moved in its partition any more; each child that is a directory comes
//! here in the same way before its own first child is touched. What is renamed out before that stays untouched.
//!
//! Held    every row that is removed is unchanged since read; so two reapers, or a reaper and a rename, exclude each
//!         other row by row.
//! Rows    per child: inodes 1w · inode_paths 1w, a directory + dir_stats 1w, one with children + inodes 1w (hidden);
//!         per hidden file: inodes 1w, an open one + open_files 1w. At most 500 rows a transaction.
//! Cost    2 fetches + 1 commit a batch of up to 120 children or 100 files.
//! Differs files with blocks stay under the hidden parent: there is nothing yet that could have made one.

use trellis_metastore::change::Hold;
use trellis_metastore::key::{Scan, name_bytes};
use trellis_metastore::schema::{
    Inodes, Table, TableKey, dir_stat, hidden_inode, inode, inode_path, open_file,
};
use trellis_metastore::tx::Stop;

use super::entries::remove_entry;
use crate::engine::tx::Tx;
use crate::engine::walk::Node;
use crate::refusal::{Halt, Result};

/// Children of one directory that one transaction deals with: each costs up to four rows.
pub const CHILDREN: u32 = 120;
/// Hidden files that one transaction removes.
pub const FILES: usize = 100;

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

/// Removes hidden files, given by their ids; what is gone already or is a directory is left alone.
pub fn reap_files(tx: &mut Tx<'_, '_>, ids: &[u64]) -> Result<Reaped> {
    let keys: Vec<TableKey<Inodes>> = ids.iter().map(|id| hidden_inode(*id)).collect();
    let rows = tx.get_all(&keys, Hold::HeldExact)?;
    let files = keys.into_iter().zip(rows).filter_map(|(key, row)| Some((key, row?.value)));
    let files: Vec<_> = files.filter(|(_, file)| !file.is_dir() && file.block_count == 0).collect();
    let open: Vec<_> =
        files.iter().filter(|(_, file)| file.open.is_some()).map(|(_, file)| open_file(file.id)).collect();
    let open_rows = tx.get_all(&open, Hold::Loose)?;
    for (key, _) in open.iter().zip(open_rows).filter(|(_, row)| row.is_some()) {
        tx.delete(key)?;
    }
    // Their entries were retired when they came here.
    files.iter().try_for_each(|(key, _)| tx.delete(key))?;
    Ok(Reaped { entries: files.len() as u64, more: false })
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

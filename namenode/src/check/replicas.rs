//! Replicas, kept by block and by storage.
//!
//! A replica whose block is gone is a *leftover*. A report of a replica is written without a look at what the reaper or
//! an abandonBlock does beside it, so on stores that do not serialize the two, leftovers come about in a healthy
//! cluster; the storage's next full report removes them. So a leftover is a finding only when no report can: its
//! storage has failed, or the block was never given out.

use std::collections::HashMap;

use trellis_metastore::schema::{
    Block, Inode, Ordered, ReplicaState, Replicas, StorageReplicas, attention, block, block_file, id_in,
    parts_of_block, replica, replica_in, storage_partition, storage_replica,
};
use trellis_metastore::store::{Store, StoreError};

use super::Findings;
use super::datanodes::Storages;
use super::files::{are_attached, inodes_of};
use super::rows::{Found, Walk, read};

fn show(id: u64, storage: u32) -> String {
    format!("replica of block {id} on storage {storage}")
}

/// Walks replicas by block: each stands by storage, too, and has a block.
pub async fn by_block(
    store: &dyn Store,
    next_id: u64,
    storages: &Storages,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut walk = Walk::<Replicas>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        let mut known = Vec::with_capacity(batch.len());
        for found in batch {
            match replica_in(found.key.rest()) {
                Some((id, storage)) if replica(id, storage).key == found.key => {
                    known.push((id, storage, found));
                }
                _ => findings.add(format!("{:?}", found.key), "is not the key of a replica"),
            }
        }
        check_mirror(store, &known, findings).await?;
        for (id, storage, found) in &known {
            if ReplicaState::try_from(found.value.state).is_err() {
                findings.add(show(*id, *storage), format!("unknown state {}", found.value.state));
            }
            if Ordered::try_from(found.value.ordered).is_err() {
                findings.add(show(*id, *storage), format!("unknown order {}", found.value.ordered));
            }
            if storages.of(*storage).is_none() {
                findings.add(show(*id, *storage), "no datanode has this storage");
            }
        }
        check_leftovers(store, next_id, &known, storages, findings).await?;
        check_orders(store, &known, findings).await?;
    }
    Ok(())
}

/// Somebody looks after each file that something is under way for: else nobody would see that it does not come about.
async fn check_orders(
    store: &dyn Store,
    known: &[(u64, u32, Found<Replicas>)],
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let ordered = known.iter().filter(|(_, _, found)| found.value.ordered != Ordered::Nothing as i32);
    let ordered: Vec<(u64, u32)> = ordered.map(|(id, storage, _)| (*id, *storage)).collect();
    let moved: Vec<_> = ordered.iter().map(|(id, _)| block_file(*id)).collect();
    let files: Vec<u64> = read(store, &moved)
        .await?
        .into_iter()
        .zip(&ordered)
        .map(|(row, (id, _))| row.map_or(parts_of_block(*id).0, |(_, to)| to.inode))
        .collect();
    let attached = are_attached(store, &files).await?;
    let concerns: Vec<_> = files.iter().map(|file| attention(*file)).collect();
    let rows = read(store, &concerns).await?.into_iter().zip(attached);
    for ((id, storage), (row, is_attached)) in ordered.into_iter().zip(rows) {
        if row.is_none() && is_attached {
            findings.add(show(id, storage), "something is ordered of it, and nobody looks after its file");
        }
    }
    Ok(())
}

async fn check_mirror(
    store: &dyn Store,
    known: &[(u64, u32, Found<Replicas>)],
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let keys: Vec<_> = known.iter().map(|(id, storage, _)| storage_replica(*storage, *id)).collect();
    for ((id, storage, found), row) in known.iter().zip(read(store, &keys).await?) {
        match row {
            None => findings.add(show(*id, *storage), "is not among the replicas of its storage"),
            Some((_, other)) if other != found.value => {
                let what = format!("by block it is {:?}, by storage {other:?}", found.value);
                findings.add(show(*id, *storage), what);
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Looks for replicas whose block is gone and that nothing can clear.
async fn check_leftovers(
    store: &dyn Store,
    next_id: u64,
    known: &[(u64, u32, Found<Replicas>)],
    storages: &Storages,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut ids: Vec<u64> = known.iter().map(|(id, _, _)| *id).collect();
    ids.dedup();
    let blocks = blocks_of(store, &ids).await?;
    let gone: Vec<u64> =
        ids.into_iter().zip(blocks).filter_map(|(id, block)| block.is_none().then_some(id)).collect();
    let never: HashMap<u64, bool> =
        gone.iter().copied().zip(never_given_out(store, &gone, next_id).await?).collect();
    for (id, storage, _) in known {
        match never.get(id) {
            None => {}
            Some(true) => findings.add(show(*id, *storage), "the block was never given out"),
            Some(false) if storages.of(*storage) == Some(true) => {
                let what = "the block is gone, and the storage has failed: nothing will clear it";
                findings.add(show(*id, *storage), what);
            }
            Some(false) => {}
        }
    }
    Ok(())
}

/// The blocks with these ids, wherever they lie.
async fn blocks_of(store: &dyn Store, ids: &[u64]) -> Result<Vec<Option<Block>>, StoreError> {
    let first: Vec<_> = ids.iter().map(|id| parts_of_block(*id)).map(|(i, n)| block(i, n)).collect();
    let mut all: Vec<Option<Block>> = read(store, &first)
        .await?
        .into_iter()
        .zip(ids)
        .map(|(row, id)| row.map(|(_, block)| block).filter(|block| block.id == *id))
        .collect();
    let absent: Vec<usize> = (0..ids.len()).filter(|place| all[*place].is_none()).collect();
    let moved: Vec<_> = absent.iter().map(|place| block_file(ids[*place])).collect();
    let rows = absent.into_iter().zip(read(store, &moved).await?);
    let moved: Vec<_> = rows.filter_map(|(place, row)| Some((place, row?.1))).collect();
    let there: Vec<_> = moved.iter().map(|(_, file)| block(file.inode, file.ordinal)).collect();
    for ((place, _), row) in moved.iter().zip(read(store, &there).await?) {
        all[*place] = row.map(|(_, block)| block).filter(|block| block.id == ids[*place]);
    }
    Ok(all)
}

/// Whether these ids, which no block has, were never any block's.
async fn never_given_out(store: &dyn Store, ids: &[u64], next_id: u64) -> Result<Vec<bool>, StoreError> {
    let files: Vec<u64> = ids.iter().map(|id| parts_of_block(*id).0).collect();
    let inodes = inodes_of(store, &files).await?;
    let never = |(id, inode): (&u64, Option<Inode>)| {
        let (file, ordinal) = parts_of_block(*id);
        file >= next_id || inode.is_some_and(|inode| ordinal >= inode.next_block)
    };
    Ok(ids.iter().zip(inodes).map(never).collect())
}

/// Walks replicas by storage: each stands by block, too.
pub async fn by_storage(store: &dyn Store, findings: &mut Findings) -> Result<(), StoreError> {
    let mut walk = Walk::<StorageReplicas>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        let mut known = Vec::with_capacity(batch.len());
        for found in batch {
            let storage = found.key.partition().checked_sub(storage_partition(0));
            let storage = storage.and_then(|number| u32::try_from(number).ok());
            match storage.zip(id_in(found.key.rest())) {
                Some((storage, id)) => known.push((id, storage)),
                None => findings.add(format!("{:?}", found.key), "is not the key of a storage's replica"),
            }
        }
        let keys: Vec<_> = known.iter().map(|(id, storage)| replica(*id, *storage)).collect();
        for ((id, storage), row) in known.iter().zip(read(store, &keys).await?) {
            if row.is_none() {
                findings.add(show(*id, *storage), "is not among the replicas of its block");
            }
        }
    }
    Ok(())
}

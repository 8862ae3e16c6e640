//! Whether somebody looks after blocks that have too few replicas, too many or corrupt ones.
//!
//! The job that has replicas copied and removed, and recoveries begun anew, looks at noted files alone: of one that is not
//! noted nobody would ever see to them. Which datanodes live is not among the rows, and replicas of a dead one matter to
//! nobody. So a caller who knows nothing of datanodes is told of too few only, where replicas on whatever storage are taken
//! for ones that count.

use std::collections::BTreeSet;

use trellis_metastore::key::Scan;
use trellis_metastore::schema::{
    Block, BlockState, Blocks, Inode, Ordered, Replica, ReplicaState, Replicas, Table, attention, ordinal_in,
    parts_of_block, replica_in,
};
use trellis_metastore::store::{Store, StoreError};

use super::Findings;
use super::datanodes::Storages;
use super::files::{are_attached, inodes_of};
use super::rows::{Found, PARTITIONS, Walk, read, scan};

/// Replicas of a block that are read at a time.
const REPLICAS: u32 = 32;

/// A block that is complete or being recovered: the inode that has it, its ordinal there.
struct Placed {
    inode: u64,
    ordinal: u32,
    block: Block,
}

/// Walks all blocks: where one is not as its file wants it, the file is noted. `all_live`: all datanodes are known to
/// live.
pub async fn noted(
    store: &dyn Store,
    storages: &Storages,
    all_live: bool,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut walk = Walk::<Blocks>::new();
    // Their versions were looked at before.
    let mut quiet = Findings::default();
    while let Some(batch) = walk.next(store, &mut quiet).await? {
        let all: Vec<Placed> = batch.into_iter().filter_map(placed).collect();
        for blocks in all.chunks(PARTITIONS) {
            let mut owners: Vec<u64> = blocks.iter().map(|placed| placed.inode).collect();
            owners.dedup();
            let keys: Vec<_> = owners.iter().map(|owner| attention(*owner)).collect();
            let rows = owners.iter().zip(read(store, &keys).await?);
            let unnoted: Vec<u64> = rows.filter_map(|(owner, row)| row.is_none().then_some(*owner)).collect();
            let inodes = inodes_of(store, &unnoted).await?;
            let files: Vec<(u64, Inode)> =
                unnoted.into_iter().zip(inodes).filter_map(|(id, inode)| Some((id, inode?))).collect();
            let blocks: Vec<(&Placed, &Inode)> = blocks
                .iter()
                .filter_map(|placed| {
                    let (_, inode) = files.iter().find(|(id, _)| *id == placed.inode)?;
                    Some((placed, inode))
                })
                .collect();
            let replicas = replicas_of(store, &blocks).await?;
            for ((placed, inode), replicas) in blocks.iter().zip(replicas) {
                let Some(what) = trouble(&placed.block, inode, &replicas, storages, all_live) else {
                    continue;
                };
                if are_attached(store, &[placed.inode]).await? == [true] {
                    let place = format!("block {} of inode {}", placed.ordinal, placed.inode);
                    findings.add(place, format!("{what}, and the file is not noted"));
                }
            }
        }
    }
    Ok(())
}

fn placed(found: Found<Blocks>) -> Option<Placed> {
    let ordinal = ordinal_in(found.key.rest())?;
    let is_looked_after =
        [BlockState::Complete as i32, BlockState::UnderRecovery as i32].contains(&found.value.state);
    is_looked_after.then_some(Placed { inode: found.key.partition(), ordinal, block: found.value })
}

/// What is wrong with the replicas of a block, if anything is.
fn trouble(
    block: &Block,
    inode: &Inode,
    replicas: &[(u32, Replica)],
    storages: &Storages,
    all_live: bool,
) -> Option<String> {
    if block.state == BlockState::UnderRecovery as i32 {
        return Some("is being recovered".to_owned());
    }
    // Of what is ordered, another check sees to it that it is noted.
    let is_settled = |replica: &Replica| replica.ordered == Ordered::Nothing as i32;
    let is_good = |replica: &Replica| {
        let is_whole = replica.state == ReplicaState::Finalized as i32 && !replica.corrupt;
        is_whole && is_settled(replica) && (replica.stamp, replica.length) == (block.stamp, block.length)
    };
    let good: Vec<u32> =
        replicas.iter().filter(|(_, replica)| is_good(replica)).map(|(storage, _)| *storage).collect();
    let datanodes: BTreeSet<Option<u32>> =
        good.iter().map(|storage| storages.datanode_of(*storage)).collect();
    let wanted = inode.replication as usize;
    if datanodes.len() < wanted {
        return Some(format!("has {} replicas of {wanted}", datanodes.len()));
    }
    if !all_live || storages.any_failed() {
        return None;
    }
    if datanodes.len() > wanted {
        return Some(format!("has {} replicas, {wanted} are wanted", datanodes.len()));
    }
    let is_bad = |replica: &Replica| {
        let ended = [ReplicaState::Finalized as i32, ReplicaState::WaitingToBeRecovered as i32];
        let is_other = ended.contains(&replica.state) && !is_good(replica);
        is_settled(replica) && (replica.corrupt || replica.stamp < block.stamp || is_other)
    };
    let bad = replicas.iter().find(|(_, replica)| is_bad(replica));
    bad.map(|(storage, replica)| format!("its replica on storage {storage} is not as it is: {replica:?}"))
}

/// The replicas of blocks by their storages, in the order of the blocks.
async fn replicas_of(
    store: &dyn Store,
    blocks: &[(&Placed, &Inode)],
) -> Result<Vec<Vec<(u32, Replica)>>, StoreError> {
    let mut all: Vec<Vec<(u32, Replica)>> = vec![Vec::new(); blocks.len()];
    let first = |(place, (placed, _)): (usize, &(&Placed, &Inode))| {
        let id = placed.block.id;
        (place, Scan::of(Replicas::ID, parts_of_block(id).0, REPLICAS).after(&id.to_be_bytes()))
    };
    let mut open: Vec<(usize, Scan)> = blocks.iter().enumerate().map(first).collect();
    while !open.is_empty() {
        let scans: Vec<Scan> = open.iter().map(|(_, scan)| scan.clone()).collect();
        let mut further = Vec::new();
        for ((place, from), page) in open.into_iter().zip(scan::<Replicas>(store, &scans).await?) {
            let id = blocks[place].0.block.id.to_be_bytes();
            let is_its = |key: &[u8]| key.starts_with(&id);
            for found in page.rows.into_iter().filter(|found| is_its(found.key.rest())) {
                all[place].extend(replica_in(found.key.rest()).map(|(_, storage)| (storage, found.value)));
            }
            if let Some(last) = page.last_key.filter(|last| page.is_full && is_its(last)) {
                further.push((place, from.after(&last)));
            }
        }
        open = further;
    }
    Ok(all)
}

//! statistics — ClientProtocol.getFsStats, getFsReplicatedBlockStats, getDatanodeReport, getDatanodeStorageReport,
//! listCorruptFileBlocks   (Java: FSNamesystem.getStats, datanodeReport, listCorruptFileBlocks)
//!
//! Held    nothing: they only read.
//! Rows    totals: all of attention, commands counted; a page of files: attention, a share of 62r in each of 64 buckets,
//!         per file inode_paths 1r a level, inodes 1r; reports: replicas of each storage counted.
//! Cost    warm: totals 1 fetch, and 1 more for each 4000 files that need attention and for each 64 that miss blocks,
//!         and 1 for the deletions that wait; a page 2 fetches for up to 64 files; reports 1 fetch.
//! Differs the numbers of blocks in trouble are those of the last look at a file's replicas, not of this moment; those
//!         of the highest priority are not told apart: 0; one that is being copied still counts as under-replicated. Of a
//!         storage up to 10 000 blocks are counted, copies on their way to it among them, and as many commands of a
//!         datanode. When a datanode reported in full last, its owner alone knows.

use trellis_metastore::key::Scan;
use trellis_metastore::schema::{
    CommandKind, Commands, Concern, StorageReplicas, Table, command, command_partition, storage_partition,
};

use crate::engine::permission::check_superuser;
use crate::engine::tx::Tx;
use crate::engine::walkjob::{WalkJob, WalkResult};
use crate::path::Path;
use crate::refusal::{Halt, Result};

/// Blocks that are not as they should be, over all files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// With too few live replicas, but some.
    pub under_replicated: u64,
    /// With a corrupt replica.
    pub corrupt: u64,
    /// Without any live replica.
    pub missing: u64,
    /// Of those, the ones whose file has a replication of 1.
    pub missing_of_one: u64,
}

/// What may be wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Too few live replicas, but some.
    UnderReplicated,
    /// No live replica.
    Missing,
    /// A corrupt replica.
    Corrupt,
}

impl Trouble {
    /// How many blocks have it.
    pub fn count(self, concern: &Concern) -> u32 {
        match self {
            Trouble::UnderReplicated => concern.under_replicated,
            Trouble::Missing => concern.missing,
            Trouble::Corrupt => concern.corrupt,
        }
    }
}

/// Blocks that one page of corrupt files tells of (stock: `DEFAULT_MAX_CORRUPT_FILEBLOCKS_RETURNED`).
pub const CORRUPT_FILE_BLOCKS: u64 = 100;

/// Arguments of [`list_concerns`].
#[derive(Clone, Debug, PartialEq)]
pub struct ListConcerns {
    /// What is wrong with the blocks.
    pub trouble: Trouble,
    /// The page starts strictly after this inode id; 0 = the first page.
    pub after: u64,
    /// Only files at or below this path.
    pub under: Path,
    /// The page ends once it tells of so many blocks.
    pub blocks: u64,
}

/// A file that has blocks in trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Troubled {
    /// Inode id.
    pub id: u64,
    /// Path.
    pub path: String,
    /// How many of its blocks, when they were last looked at.
    pub blocks: u32,
}

/// What [`list_concerns`] answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConcernsPage {
    /// In the order of their ids.
    pub files: Vec<Troubled>,
    /// The id that the next page starts after; none = there is no further page.
    pub next: Option<u64>,
}

/// Blocks that are not as they should be, over all files.
pub fn totals(tx: &mut Tx<'_, '_>) -> Result<Totals> {
    match tx.ctx.walked.as_deref() {
        Some(WalkResult::Totals(totals)) => Ok(*totals),
        _ => Err(Halt::Needs(WalkJob::Totals)),
    }
}

/// How many replicas each of these storages has, by their numbers.
pub fn replicas_on(tx: &mut Tx<'_, '_>, storages: &[u32]) -> Result<Vec<u64>> {
    let of =
        |number: &u32| Scan::of(StorageReplicas::ID, storage_partition(*number), Scan::MAX_COUNT).count();
    Ok(tx.count_all(&storages.iter().map(of).collect::<Vec<_>>())?)
}

/// How many replicas datanodes are yet to be told to delete.
pub fn pending_deletions(tx: &mut Tx<'_, '_>) -> Result<u64> {
    let numbers = tx.ctx.datanodes.nodes().iter().map(|node| node.row.number);
    // Deletions come first among the commands to a datanode: all of them less those that come later.
    let scans = numbers.flat_map(|number| {
        let all = Scan::of(Commands::ID, command_partition(number), Scan::MAX_COUNT).count();
        let last = command(number, CommandKind::Invalidate, u64::MAX);
        let others = all.clone().after(last.key.rest());
        [all, others]
    });
    let counts = tx.count_all(&scans.collect::<Vec<_>>())?;
    Ok(counts.chunks(2).map(|pair| pair[0].saturating_sub(*pair.last().unwrap_or(&0))).sum())
}

/// A page of the files that have blocks in trouble; for superusers. `operation`: what stock calls it.
pub fn list_concerns(tx: &mut Tx<'_, '_>, call: &ListConcerns, operation: &str) -> Result<ConcernsPage> {
    check_superuser(&tx.ctx.user, operation)?;
    match tx.ctx.walked.as_deref() {
        Some(WalkResult::Concerns(of, page)) if of == call => Ok(page.clone()),
        _ => Err(Halt::Needs(WalkJob::Concerns(call.clone()))),
    }
}

//! `trellis store check`: reads rows only and says what does not fit together. Shares no code with the operations.
//!
//! The store must be quiet: rows are read in many batches, each of its own age. Memory: a few words per directory and
//! storage.
//!
//! - `rows`: the batches it reads, and how they are read
//! - `tree`: every inode has its place, every directory its counters
//! - `files`: an inode by its id
//! - `leases`: open files and their holders
//! - `blocks`: blocks, the files that they belong to, blocks that moved
//! - `replicas`: replicas by block and by storage
//! - `datanodes`: datanodes, their storages, commands, files that need attention
//! - `redundancy`: blocks that are not as their files want them, and are not noted
//! - `small`: settings, the retry cache
//!
//! A damaged row is a finding like others, and the check goes on past it.

mod blocks;
mod datanodes;
mod files;
mod leases;
mod redundancy;
mod replicas;
mod rows;
mod small;
mod tree;

use std::fmt;

use trellis_metastore::schema::{Members, Settings};
use trellis_metastore::store::{Store, StoreError};

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Where: a row, by table and key in words.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Findings after which the check stops looking: a store in such a state needs a person, not a longer list.
pub const MAX_FINDINGS: usize = 1000;

/// Checks a whole store. Empty = nothing wrong.
pub async fn check(store: &dyn Store) -> Result<Vec<Finding>, StoreError> {
    check_whole(store, false).await
}

/// The same of a store all of whose datanodes are known to live: then it is wrong, too, if a file is not noted that has
/// corrupt replicas, or too many.
pub async fn check_with_all_live(store: &dyn Store) -> Result<Vec<Finding>, StoreError> {
    check_whole(store, true).await
}

async fn check_whole(store: &dyn Store, all_live: bool) -> Result<Vec<Finding>, StoreError> {
    let mut findings = Findings::default();
    let next_id = small::settings(store, &mut findings).await?;
    tree::inodes(store, next_id, &mut findings).await?;
    tree::counters(store, &mut findings).await?;
    tree::paths(store, &mut findings).await?;
    leases::open_files(store, &mut findings).await?;
    leases::holders(store, &mut findings).await?;
    blocks::blocks(store, &mut findings).await?;
    blocks::block_files(store, &mut findings).await?;
    blocks::files(store, &mut findings).await?;
    let storages = datanodes::datanodes(store, &mut findings).await?;
    replicas::by_block(store, next_id, &storages, &mut findings).await?;
    replicas::by_storage(store, &mut findings).await?;
    datanodes::commands(store, &storages, &mut findings).await?;
    datanodes::attentions(store, next_id, &mut findings).await?;
    redundancy::noted(store, &storages, all_live, &mut findings).await?;
    small::retry_cache(store, &mut findings).await?;
    rows::readable::<Settings>(store, &mut findings).await?;
    rows::readable::<Members>(store, &mut findings).await?;
    Ok(findings.list)
}

/// What was found so far.
#[derive(Default)]
struct Findings {
    list: Vec<Finding>,
    versions: rows::Versions,
}

impl Findings {
    fn add(&mut self, place: impl Into<String>, what: impl Into<String>) {
        if self.list.len() < MAX_FINDINGS {
            self.list.push(Finding { place: place.into(), what: what.into() });
        }
    }

    fn is_full(&self) -> bool {
        self.list.len() >= MAX_FINDINGS
    }
}

//! Blocks and the files that they belong to.
//!
//! A block's id is unique over the whole store: it names the place where the block was made; a block that lies in
//! another place (concat) has a row in block_files that leads there, and then nothing may lie in the first place.

use std::collections::HashMap;

use trellis_metastore::key::{Key, Scan};
use trellis_metastore::schema::{
    Block, BlockFiles, BlockState, Blocks, FIRST_FREE_ID, Inode, Inodes, MAX_ORDINAL, Table, block,
    block_file, hidden_partitions, id_in, ordinal_in, parts_of_block,
};
use trellis_metastore::store::{Store, StoreError};

use super::Findings;
use super::files::inodes_of;
use super::rows::{BATCH, Found, PARTITIONS, Walk, read, scan};

fn show(inode: u64, ordinal: u32) -> String {
    format!("block {ordinal} of inode {inode}")
}

/// The inode and the ordinal of a block by its key, if that is in the right form.
fn place_of(key: &Key) -> Option<(u64, u32)> {
    let ordinal = ordinal_in(key.rest())?;
    let is_place = key.partition() >= FIRST_FREE_ID && block(key.partition(), ordinal).key == *key;
    is_place.then_some((key.partition(), ordinal))
}

/// Walks all blocks: each is in its place, agrees with itself, and belongs to a file that knows of blocks.
pub async fn blocks(store: &dyn Store, findings: &mut Findings) -> Result<(), StoreError> {
    let mut walk = Walk::<Blocks>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        let mut placed = Vec::with_capacity(batch.len());
        for found in batch {
            match place_of(&found.key) {
                Some(place) => placed.push((place, found.value)),
                None => findings.add(format!("{:?}", found.key), "is not the key of a block"),
            }
        }
        for ((inode, ordinal), block) in &placed {
            for what in contradictions(block) {
                findings.add(show(*inode, *ordinal), what);
            }
        }
        check_ids(store, &placed, findings).await?;
        let mut owners: Vec<u64> = placed.iter().map(|((inode, _), _)| *inode).collect();
        owners.dedup();
        for (id, owner) in owners.iter().zip(inodes_of(store, &owners).await?) {
            let what = match owner {
                None => "blocks of a file that does not exist",
                Some(owner) if owner.is_dir() => "blocks of a directory",
                Some(owner) if owner.block_count == 0 => "blocks of a file that counts none",
                Some(_) => continue,
            };
            findings.add(format!("inode {id}"), what);
        }
    }
    Ok(())
}

/// What of a block does not agree with the rest of it.
fn contradictions(block: &Block) -> Vec<String> {
    let mut list = Vec::new();
    let Ok(state) = BlockState::try_from(block.state) else {
        return vec![format!("unknown state {}", block.state)];
    };
    if block.last_stamp < block.stamp {
        list.push(format!("has stamp {}, the last one given out is {}", block.stamp, block.last_stamp));
    }
    if (state == BlockState::UnderRecovery) != block.recovery.is_some() {
        list.push(format!("state {state:?} does not go with its recovery: {:?}", block.recovery));
    }
    if let Some(recovery) = &block.recovery
        && !(block.stamp..=block.last_stamp).contains(&recovery.stamp)
    {
        list.push(format!("its recovery has stamp {}, which was not given out for it", recovery.stamp));
    }
    list
}

/// Checks that each block lies where its id says, or where block_files says that it went.
async fn check_ids(
    store: &dyn Store,
    placed: &[((u64, u32), Block)],
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let moved: Vec<_> = placed.iter().filter(|(place, block)| parts_of_block(block.id) != *place).collect();
    let keys: Vec<_> = moved.iter().map(|(_, block)| block_file(block.id)).collect();
    for ((place, block), row) in moved.into_iter().zip(read(store, &keys).await?) {
        match row {
            None => {
                let what = format!("has the id {} of another place and no row in block_files", block.id);
                findings.add(show(place.0, place.1), what);
            }
            Some((_, there)) if (there.inode, there.ordinal) != *place => {
                let there = show(there.inode, there.ordinal);
                let what = format!("has id {}, which block_files leads to {there}", block.id);
                findings.add(show(place.0, place.1), what);
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Walks block_files: each leads to the block, which lies nowhere else.
pub async fn block_files(store: &dyn Store, findings: &mut Findings) -> Result<(), StoreError> {
    let mut walk = Walk::<BlockFiles>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        let mut known = Vec::with_capacity(batch.len());
        for found in batch {
            match id_in(found.key.rest()) {
                Some(id) if block_file(id).key == found.key => known.push((id, found.value)),
                _ => findings.add(format!("{:?}", found.key), "is not the key of a moved block"),
            }
        }
        let there: Vec<_> = known.iter().map(|(_, file)| block(file.inode, file.ordinal)).collect();
        let first: Vec<_> =
            known.iter().map(|(id, _)| parts_of_block(*id)).map(|(i, n)| block(i, n)).collect();
        let (there, first) = (read(store, &there).await?, read(store, &first).await?);
        for (((id, file), there), first) in known.iter().zip(there).zip(first) {
            let place = format!("block_files of {id}");
            if there.is_none_or(|(_, block)| block.id != *id) {
                let there = show(file.inode, file.ordinal);
                findings.add(&place, format!("leads to {there}, which is not it"));
            }
            if parts_of_block(*id) == (file.inode, file.ordinal) {
                findings.add(&place, "leads to where the block was made: it never moved");
            } else if first.is_some_and(|(_, block)| block.id == *id) {
                findings.add(&place, "a block with this id lies in its first place, too");
            }
        }
    }
    Ok(())
}

/// What the blocks of one file come to.
#[derive(Default)]
struct Tally {
    blocks: u32,
    length: u64,
    last: Option<(u32, Block)>,
    /// The first block that others follow although it is not complete.
    early: Option<u32>,
    /// A block that is committed, and followed by the last one: that may be, in a file that is being written.
    committed: Option<u32>,
}

impl Tally {
    fn add(&mut self, ordinal: u32, block: Block) {
        self.blocks = self.blocks.saturating_add(1);
        self.length = self.length.saturating_add(block.length);
        let Some((before, last)) = self.last.replace((ordinal, block)) else { return };
        if let Some(committed) = self.committed.take() {
            self.early.get_or_insert(committed);
        }
        match last.state() {
            BlockState::Complete => {}
            BlockState::Committed => self.committed = Some(before),
            _ => drop(self.early.get_or_insert(before)),
        }
    }
}

/// Walks all files: what each says of its blocks is what they are.
pub async fn files(store: &dyn Store, findings: &mut Findings) -> Result<(), StoreError> {
    let mut walk = Walk::<Inodes>::new();
    // Their versions were looked at before.
    let mut quiet = Findings::default();
    while let Some(batch) = walk.next(store, &mut quiet).await? {
        let has_blocks = |found: &&Found<Inodes>| {
            let Inode { block_count, length, next_block, unfinished, .. } = &found.value;
            *block_count > 0 || *length > 0 || *next_block > 0 || unfinished.is_some()
        };
        let files: Vec<&Found<Inodes>> =
            batch.iter().filter(|found| !found.value.is_dir()).filter(has_blocks).collect();
        for files in files.chunks(PARTITIONS) {
            let mut tallies = tallies(store, files.iter().map(|found| found.value.id)).await?;
            for found in files {
                let tally = tallies.remove(&found.value.id).unwrap_or_default();
                let hidden = hidden_partitions().contains(&found.key.partition());
                check_file(&found.value, hidden, &tally, findings);
            }
        }
    }
    Ok(())
}

/// Reads all blocks of some files, a page of each at a time.
async fn tallies(
    store: &dyn Store,
    files: impl Iterator<Item = u64>,
) -> Result<HashMap<u64, Tally>, StoreError> {
    let mut tallies: HashMap<u64, Tally> = HashMap::new();
    let mut scans: Vec<Scan> = files.map(|id| Scan::of(Blocks::ID, id, BATCH as u32)).collect();
    while !scans.is_empty() {
        let pages = scan::<Blocks>(store, &scans).await?;
        let mut further = Vec::new();
        for (scan, page) in scans.iter().zip(pages) {
            if let Some(last) = page.last_key.filter(|_| page.is_full) {
                further.push(scan.clone().after(&last));
            }
            let tally = tallies.entry(scan.partition).or_default();
            for found in page.rows {
                if let Some((_, ordinal)) = place_of(&found.key) {
                    tally.add(ordinal, found.value);
                }
            }
        }
        scans = further;
    }
    Ok(tallies)
}

/// A hidden file may be half reaped: then it has fewer blocks than it says, and they come to less.
fn check_file(inode: &Inode, hidden: bool, tally: &Tally, findings: &mut Findings) {
    let place = format!("inode {}", inode.id);
    let fits = |said: u64, is: u64| said == is || (hidden && is < said);
    if !fits(inode.block_count.into(), tally.blocks.into()) {
        findings.add(&place, format!("has {} blocks and counts {}", tally.blocks, inode.block_count));
    }
    if !fits(inode.length, tally.length) {
        findings.add(
            &place,
            format!("its blocks come to {} bytes, its length is {}", tally.length, inode.length),
        );
    }
    if inode.next_block > MAX_ORDINAL {
        findings
            .add(&place, format!("its next block, {}, is beyond what ids have room for", inode.next_block));
    }
    let committed = tally.committed.filter(|_| inode.open.is_none() && !hidden);
    if let Some(early) = tally.early.or(committed) {
        findings.add(show(inode.id, early), "is not complete, and others follow it");
    }
    let Some((ordinal, last)) = &tally.last else {
        if inode.unfinished.is_some() && !hidden {
            findings.add(&place, "has an unfinished last block and no blocks");
        }
        return;
    };
    if *ordinal >= inode.next_block {
        findings.add(show(inode.id, *ordinal), format!("the file says that {} comes next", inode.next_block));
    }
    if hidden {
        return;
    }
    let unfinished = (last.state != BlockState::Complete as i32).then_some(last.length);
    if inode.unfinished != unfinished {
        let what = format!("its last block leaves {unfinished:?} unfinished, it says {:?}", inode.unfinished);
        findings.add(&place, what);
    }
    let recovers = last.state == BlockState::UnderRecovery as i32;
    if unfinished.is_some() && inode.open.is_none() && !recovers {
        findings.add(&place, "is closed, and its last block is neither complete nor being recovered");
    }
}

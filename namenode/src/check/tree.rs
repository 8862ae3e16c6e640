//! Inodes, inode_paths, dir_stats: every inode has its place and is reached from the root or hidden, every directory
//! has its counters and they count right.

use std::collections::HashMap;

use trellis_metastore::key::{Key, name_bytes};
use trellis_metastore::schema::{
    DirStats, FIRST_FREE_ID, InodePaths, Inodes, ROOT_ID, ROOT_PARTITION, Table, child_partitions, dir_stat,
    hidden_inode, hidden_partitions, inode, inode_path, root_inode, root_stat,
};
use trellis_metastore::store::{Store, StoreError};

use super::Findings;
use super::rows::{BATCH, Found, Walk, counts, read};

/// Levels after which a chain that has not reached the root is a loop.
pub(super) const MAX_DEPTH: usize = 1000;

/// Whose children a partition holds.
enum Holds {
    Root,
    Children(u64),
    Hidden,
    Nothing,
}

fn holds(partition: u64) -> Holds {
    match partition {
        ROOT_PARTITION => Holds::Root,
        p if child_partitions(ROOT_ID).contains(&p) => Holds::Children(ROOT_ID),
        p if hidden_partitions().contains(&p) => Holds::Hidden,
        p if p >= FIRST_FREE_ID => Holds::Children(p),
        _ => Holds::Nothing,
    }
}

fn name_of(key: &Key) -> Vec<u8> {
    name_bytes(key.rest()).to_vec()
}

fn show(parent: u64, name: &[u8]) -> String {
    format!("inode '{}' in directory {parent}", name.escape_ascii())
}

/// Walks all inodes.
pub async fn inodes(store: &dyn Store, next_id: u64, findings: &mut Findings) -> Result<(), StoreError> {
    let mut reached: HashMap<u64, bool> = HashMap::new();
    let mut walk = Walk::<Inodes>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        let mut placed = Vec::with_capacity(batch.len());
        for found in batch {
            check_kind(&found, next_id, findings);
            match holds(found.key.partition()) {
                Holds::Root => check_root(store, &found, findings).await?,
                Holds::Hidden => check_hidden(store, &found, findings).await?,
                Holds::Nothing => findings.add(format!("{:?}", found.key), "lies in a reserved partition"),
                Holds::Children(parent) => {
                    let name = name_of(&found.key);
                    if inode(parent, &name).key != found.key {
                        findings.add(show(parent, &name), "lies in the wrong bucket of its directory");
                    }
                    placed.push((parent, name, found));
                }
            }
        }
        check_placed(store, &placed, findings).await?;
        let parents: Vec<u64> = placed.iter().map(|(parent, _, _)| *parent).collect();
        reach(store, &parents, &mut reached).await?;
        for (parent, name, _) in placed.iter().filter(|(parent, _, _)| reached.get(parent) != Some(&true)) {
            findings.add(show(*parent, name), "its directory is neither below the root nor hidden");
        }
    }
    Ok(())
}

fn check_kind(found: &Found<Inodes>, next_id: u64, findings: &mut Findings) {
    let (place, id) = (|| format!("inode {} at {:?}", found.value.id, found.key), found.value.id);
    if id != ROOT_ID && !(FIRST_FREE_ID..next_id).contains(&id) {
        findings.add(place(), format!("its id was never given out (the next one is {next_id})"));
    }
    if !(0..=1).contains(&found.value.kind) {
        findings.add(place(), format!("unknown kind {}", found.value.kind));
    }
    if found.value.mode & !0o1777 != 0 {
        findings.add(place(), format!("mode {:o} has bits that are never kept", found.value.mode));
    }
    if found.value.is_dir() && (found.value.open.is_some() || found.value.block_count > 0) {
        findings.add(place(), "a directory that is open or has blocks");
    }
}

async fn check_root(
    store: &dyn Store,
    found: &Found<Inodes>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    if found.key != root_inode().key || found.value.id != ROOT_ID || !found.value.is_dir() {
        findings.add(format!("{:?}", found.key), "is not the root directory, but lies in its place");
        return Ok(());
    }
    match read(store, &[root_stat()]).await?.pop().flatten() {
        None => findings.add("the root directory", "has no counters"),
        Some((row, stat)) => {
            let buckets: Vec<u64> = child_partitions(ROOT_ID).collect();
            let children = counts(store, Inodes::ID, &buckets).await?.iter().sum();
            check_count("the root directory", (ROOT_ID, children), (stat.id, row.add), findings);
        }
    }
    Ok(())
}

async fn check_hidden(
    store: &dyn Store,
    found: &Found<Inodes>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let id = found.value.id;
    let place = format!("hidden inode {id}");
    if hidden_inode(id).key != found.key {
        findings.add(&place, "lies under another id, or in the wrong bucket");
    }
    if read(store, &[inode_path(id)]).await?.pop().flatten().is_some() {
        findings.add(&place, "still has a place in inode_paths");
    }
    Ok(())
}

/// Checks inodes that have a parent and a name: their place, a directory's counters.
async fn check_placed(
    store: &dyn Store,
    placed: &[(u64, Vec<u8>, Found<Inodes>)],
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let paths: Vec<_> = placed.iter().map(|(_, _, found)| inode_path(found.value.id)).collect();
    for ((parent, name, _), path) in placed.iter().zip(read(store, &paths).await?) {
        match path {
            None => findings.add(show(*parent, name), "has no place in inode_paths"),
            Some((_, path)) if path.parent != *parent || path.name.as_ref() != name.as_slice() => {
                let there = show(path.parent, &path.name);
                findings.add(show(*parent, name), format!("stands in inode_paths as {there}"));
            }
            Some(_) => {}
        }
    }
    let directories: Vec<_> = placed.iter().filter(|(_, _, found)| found.value.is_dir()).collect();
    let stats: Vec<_> = directories.iter().map(|(parent, name, _)| dir_stat(*parent, name)).collect();
    let ids: Vec<u64> = directories.iter().map(|(_, _, found)| found.value.id).collect();
    let (stats, children) = (read(store, &stats).await?, counts(store, Inodes::ID, &ids).await?);
    let owned = ids.into_iter().zip(children);
    for (((parent, name, _), stat), owned) in directories.iter().zip(stats).zip(owned) {
        match stat {
            None => findings.add(show(*parent, name), "is a directory without counters"),
            Some((row, stat)) => check_count(&show(*parent, name), owned, (stat.id, row.add), findings),
        }
    }
    Ok(())
}

/// Compares a directory (its id, how many children it has) with what its counters say of both.
fn check_count(place: &str, owned: (u64, i64), said: (u64, i64), findings: &mut Findings) {
    if owned.0 != said.0 {
        findings.add(place, format!("has id {}, its counters are of {}", owned.0, said.0));
    }
    if owned.1 != said.1 {
        findings.add(place, format!("has {} children and counts {}", owned.1, said.1));
    }
}

/// Learns of directories, by id, whether they hang below the root or (at any level) below a hidden directory.
async fn reach(store: &dyn Store, ids: &[u64], reached: &mut HashMap<u64, bool>) -> Result<(), StoreError> {
    reached.insert(ROOT_ID, true);
    // (the directory asked for, where its climb is now)
    let mut climbs: Vec<(u64, u64)> = Vec::new();
    for id in ids {
        if !reached.contains_key(id) && !climbs.iter().any(|(from, _)| from == id) {
            climbs.push((*id, *id));
        }
    }
    for _ in 0..=MAX_DEPTH {
        let mut next = Vec::new();
        for batch in climbs.chunks(BATCH) {
            let paths: Vec<_> = batch.iter().map(|(_, at)| inode_path(*at)).collect();
            let hidden: Vec<_> = batch.iter().map(|(_, at)| hidden_inode(*at)).collect();
            let (paths, hidden) = (read(store, &paths).await?, read(store, &hidden).await?);
            for ((from, _), (path, hidden)) in batch.iter().zip(paths.into_iter().zip(hidden)) {
                match (path, hidden) {
                    (_, Some((_, inode))) => _ = reached.insert(*from, inode.is_dir()),
                    (None, None) => _ = reached.insert(*from, false),
                    (Some((_, path)), None) => match reached.get(&path.parent).copied() {
                        Some(known) => _ = reached.insert(*from, known),
                        None => next.push((*from, path.parent)),
                    },
                }
            }
        }
        climbs = next;
        if climbs.is_empty() {
            return Ok(());
        }
    }
    // Still climbing: a loop.
    reached.extend(climbs.into_iter().map(|(from, _)| (from, false)));
    Ok(())
}

/// Walks all counters: each stands beside its directory.
pub async fn counters(store: &dyn Store, findings: &mut Findings) -> Result<(), StoreError> {
    let mut walk = Walk::<DirStats>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        let key_of = |found: &Found<DirStats>| match holds(found.key.partition()) {
            Holds::Root => Some(root_inode()),
            Holds::Children(parent) => Some(inode(parent, &name_of(&found.key))),
            Holds::Hidden | Holds::Nothing => None,
        };
        let (mut keys, mut known) = (Vec::new(), Vec::new());
        for found in batch {
            match key_of(&found) {
                Some(key) => {
                    keys.push(key);
                    known.push(found);
                }
                None => findings.add(format!("{:?}", found.key), "counters in a reserved partition"),
            }
        }
        for (found, row) in known.iter().zip(read(store, &keys).await?) {
            match row {
                Some((_, inode)) if inode.is_dir() && inode.id == found.value.id => {}
                Some(_) => findings.add(format!("{:?}", found.key), "counters of what is not that directory"),
                None => findings.add(format!("{:?}", found.key), "counters without a directory"),
            }
        }
    }
    Ok(())
}

/// Walks all inode_paths: each leads to the inode.
pub async fn paths(store: &dyn Store, findings: &mut Findings) -> Result<(), StoreError> {
    let mut walk = Walk::<InodePaths>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        let keys: Vec<_> = batch.iter().map(|found| inode(found.value.parent, &found.value.name)).collect();
        for (found, row) in batch.iter().zip(read(store, &keys).await?) {
            let id = found.key.partition();
            if row.is_none_or(|(_, inode)| inode.id != id) {
                let there = show(found.value.parent, &found.value.name);
                findings.add(format!("inode_paths of {id}"), format!("leads to {there}, which is not it"));
            }
        }
    }
    Ok(())
}

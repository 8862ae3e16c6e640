//! Datanodes and their storages, commands to them, files that need attention.

use std::collections::{HashMap, HashSet};

use trellis_metastore::key::Key;
use trellis_metastore::schema::{
    Attention, Commands, Datanode, Datanodes, FIRST_FREE_ID, attention, command, command_in,
    command_partition, datanode, id_in, setting,
};
use trellis_metastore::store::{Store, StoreError};

use super::Findings;
use super::rows::{Walk, read};

/// The setting that counts the numbers of datanodes and storages: the next one.
const NEXT_NUMBER: &str = "next_datanode_number";

/// All datanodes and storages. A few words each.
#[derive(Default)]
pub struct Storages {
    datanodes: HashSet<u32>,
    /// Number of a storage → whether it failed.
    failed: HashMap<u32, bool>,
    /// Number of a storage → that of its datanode.
    owners: HashMap<u32, u32>,
}

impl Storages {
    /// Whether this storage has failed; none: there is no such storage.
    pub fn of(&self, number: u32) -> Option<bool> {
        self.failed.get(&number).copied()
    }

    /// The number of the datanode that has this storage.
    pub fn datanode_of(&self, number: u32) -> Option<u32> {
        self.owners.get(&number).copied()
    }

    /// Whether any storage has failed.
    pub fn any_failed(&self) -> bool {
        self.failed.values().any(|failed| *failed)
    }

    /// Takes a datanode in; a number that another has is a finding.
    fn take(&mut self, row: &Datanode, findings: &mut Findings) {
        let place = format!("datanode {}", row.uuid);
        if !self.datanodes.insert(row.number) || self.failed.contains_key(&row.number) {
            findings.add(&place, format!("its number {} is another's, too", row.number));
        }
        for storage in &row.storages {
            let taken = self.failed.insert(storage.number, storage.failed).is_some();
            self.owners.insert(storage.number, row.number);
            if taken || self.datanodes.contains(&storage.number) {
                let what = format!(
                    "the number {} of its storage {} is another's, too",
                    storage.number, storage.uuid
                );
                findings.add(&place, what);
            }
        }
    }
}

/// Walks all datanodes: each lies under its uuid, and all numbers are different ones that were given out.
pub async fn datanodes(store: &dyn Store, findings: &mut Findings) -> Result<Storages, StoreError> {
    let next = read(store, &[setting(NEXT_NUMBER)]).await?.pop().flatten();
    let next = next.map_or(0, |(_, setting)| setting.number);
    let mut storages = Storages::default();
    let mut walk = Walk::<Datanodes>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        for found in batch {
            if datanode(&found.value.uuid).key != found.key {
                findings
                    .add(format!("{:?}", found.key), format!("is the row of datanode {}", found.value.uuid));
            }
            storages.take(&found.value, findings);
            let numbers = found.value.storages.iter().map(|storage| storage.number);
            for number in numbers.chain([found.value.number]).filter(|number| u64::from(*number) >= next) {
                let what = format!("its number {number} was never given out (the next one is {next})");
                findings.add(format!("datanode {}", found.value.uuid), what);
            }
        }
    }
    Ok(storages)
}

/// Walks all commands: each is to a datanode that there is, and of a kind that there is. The block may be gone: then
/// it is the last that the datanode hears of it.
pub async fn commands(
    store: &dyn Store,
    storages: &Storages,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut walk = Walk::<Commands>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        for found in batch {
            match addressee(&found.key) {
                None => findings.add(format!("{:?}", found.key), "is not the key of a command"),
                Some(number) if !storages.datanodes.contains(&number) => {
                    findings.add(format!("{:?}", found.key), format!("no datanode has the number {number}"));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

/// The number of the datanode that a command is for, if its key is in the right form.
fn addressee(key: &Key) -> Option<u32> {
    let number = u32::try_from(key.partition().checked_sub(command_partition(0))?).ok()?;
    let (kind, id) = command_in(key.rest())?;
    (command(number, kind, id).key == *key).then_some(number)
}

/// Walks the files that need attention: each lies under its id. It may be gone: then the next look takes the row away.
pub async fn attentions(store: &dyn Store, next_id: u64, findings: &mut Findings) -> Result<(), StoreError> {
    let mut walk = Walk::<Attention>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        for found in batch {
            let Some(id) = id_in(found.key.rest()) else {
                findings.add(format!("{:?}", found.key), "is not the key of a file");
                continue;
            };
            if attention(id).key != found.key {
                findings.add(format!("attention to inode {id}"), "lies in the wrong bucket");
            }
            if !(FIRST_FREE_ID..next_id).contains(&id) {
                findings.add(format!("attention to inode {id}"), "its id was never given out");
            }
        }
    }
    Ok(())
}

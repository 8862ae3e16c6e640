//! datanodes — DatanodeProtocol.registerDatanode, storages, and who owns a datanode    (Java: DatanodeManager)
//!
//! A datanode has one row. Its epoch grows with every change of owner, so (datanode, epoch) names one owner for ever,
//! and the owner answers ACTIVE with the epoch as txid: a DataNode obeys nobody who comes with a lower one.
//!
//! Held    the datanode's row is written, and so is the counter that numbers come from when one is drawn.
//! Rows    datanodes 1w, settings 1w for new numbers; nothing when nothing changes. survey: datanodes, members and two
//!         pages of commands for each datanode asked for, read.
//! Cost    1 fetch + 1 commit of a change, the drawing of numbers included; 1 fetch when nothing changed. 1 fetch more to
//!         forget failed storages, when there is no room for another.
//! Differs a datanode keeps its number for ever, and its storages while they have replicas, or there is room: one whose
//!         address another takes has failed storages, where stock forgets it.

use std::collections::HashSet;

use prost::Message;
use trellis_metastore::change::Hold;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::{
    Command, CommandKind, Commands, Datanode, Datanodes, Member, Members, Setting, Storage, StorageReplicas,
    Table, command, command_in, command_partition, datanode, datanodes_partition, members_partition, setting,
    storage_partition,
};

use crate::engine::ctx::Term;
use crate::engine::tx::Tx;
use crate::refusal::{Kind, Result, refuse};

/// The setting that counts datanodes and storages.
pub const NEXT_DATANODE_NUMBER: &str = "next_datanode_number";
/// Storages that one datanode may have; failed ones without replicas make room for others.
pub const MAX_STORAGES: usize = 64;
/// Bytes of a datanode's row, which holds its storages.
const MAX_ROW: usize = 7 << 10;
/// Bytes of a storage in it beside its uuid, at most.
const STORAGE_BYTES: usize = 32;
/// Longest uuid, host name or version of a datanode, in bytes.
const MAX_TEXT: usize = 255;
/// Rows of datanodes, or of members, that are read at once.
pub const PAGE: u32 = 2000;

/// Arguments of [`register`].
#[derive(Clone, Debug)]
pub struct Register {
    /// What it says of itself; number, owner, epoch and storages do not count.
    pub said: Datanode,
    /// The namenode that asks, if it would own it.
    pub claims: Option<Claim>,
}

/// A namenode that would own a datanode.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its member id.
    pub member: u64,
    /// The owner that it would follow, gone or silent; 0 = none. Another than this keeps the datanode.
    pub from: u64,
}

/// A storage as its datanode tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldStorage {
    /// Its uuid.
    pub uuid: String,
    /// A number of `StorageTypeProto`.
    pub kind: i32,
    /// Whether it failed.
    pub failed: bool,
}

/// A datanode comes, or comes back under whatever address: its number and storages are those of its uuid.
pub fn register(tx: &mut Tx<'_, '_>, call: &Register) -> Result<Datanode> {
    let said = &call.said;
    for (what, text) in [("uuid", &said.uuid), ("host name", &said.host), ("version", &said.version)] {
        if text.len() > MAX_TEXT {
            return refuse(Kind::Io, format!("the {what} of a datanode is {} bytes long", text.len()));
        }
    }
    let key = datanode(&said.uuid);
    let counter = setting(NEXT_DATANODE_NUMBER);
    tx.want(&counter);
    tx.want_scan(&all());
    let known = tx.get(&key, Hold::Held)?.map(|row| row.value);
    if known.as_ref().is_none_or(|known| address(known) != address(said)) {
        replace(tx, said)?;
    }
    let mut row = match known {
        Some(Datanode { number, owner, epoch, storages, changes, .. }) => {
            Datanode { number, owner, epoch, storages, changes, ..said.clone() }
        }
        None => {
            let number = draw(tx, 1)?;
            Datanode { number, owner: 0, epoch: 0, storages: Vec::new(), changes: 0, ..said.clone() }
        }
    };
    if let Some(claim) = &call.claims {
        take(&mut row, claim);
    }
    write(tx, row)
}

/// Where a datanode is.
fn address(row: &Datanode) -> (&str, u32) {
    (&row.ip, row.data_port)
}

/// The datanodes among which one that had this address is looked for.
fn all() -> Scan {
    Scan::of(Datanodes::ID, datanodes_partition(), PAGE)
}

/// What was at the address of a datanode before is not there any more: its disks were wiped, or it moved. If it comes
/// again elsewhere, its storages count again.
fn replace(tx: &mut Tx<'_, '_>, said: &Datanode) -> Result<()> {
    let rows = tx.scan_all::<Datanodes>(&[all()])?.pop().unwrap_or_default();
    let others = rows.into_iter().map(|(_, row)| row.value);
    for other in others.filter(|other| other.uuid != said.uuid && address(other) == address(said)) {
        let mut row = look_up(tx, &other.uuid)?;
        row.storages.iter_mut().for_each(|storage| storage.failed = true);
        write(tx, row)?;
    }
    Ok(())
}

/// Takes a datanode over, unless somebody else did; answers its row.
pub fn claim(tx: &mut Tx<'_, '_>, uuid: &str, call: &Claim) -> Result<Datanode> {
    let mut row = look_up(tx, uuid)?;
    take(&mut row, call);
    write(tx, row)
}

/// Leaves a datanode to others, if `member` owns it; answers its row.
pub fn release(tx: &mut Tx<'_, '_>, uuid: &str, member: u64) -> Result<Datanode> {
    let mut row = look_up(tx, uuid)?;
    if row.owner == member {
        row.owner = 0;
        row.epoch += 1;
    }
    write(tx, row)
}

/// Notes what storages a datanode has. `all`: those that it does not tell of failed; else they stay as they are. One for
/// which there is no room is left out of the answer: the datanode has its others all the same.
pub fn tell_storages(tx: &mut Tx<'_, '_>, uuid: &str, told: &[ToldStorage], all: bool) -> Result<Datanode> {
    let counter = setting(NEXT_DATANODE_NUMBER);
    tx.want(&counter);
    let mut row = look_up(tx, uuid)?;
    for storage in &mut row.storages {
        match told.iter().find(|told| told.uuid == storage.uuid) {
            Some(told) => (storage.kind, storage.failed) = (told.kind, told.failed),
            None => storage.failed |= all,
        }
    }
    let known: HashSet<&str> = row.storages.iter().map(|storage| storage.uuid.as_str()).collect();
    let is_new = |told: &&ToldStorage| told.uuid.len() <= MAX_TEXT && !known.contains(told.uuid.as_str());
    let mut seen = HashSet::new();
    let once = told.iter().filter(is_new).filter(|told| seen.insert(told.uuid.as_str()));
    let new: Vec<&ToldStorage> = once.take(MAX_STORAGES).collect();
    let bytes: usize = new.iter().map(|told| told.uuid.len() + STORAGE_BYTES).sum();
    if row.storages.len() + new.len() > MAX_STORAGES || row.encoded_len() + bytes > MAX_ROW {
        forget_empty(tx, &mut row)?;
    }
    let mut room = MAX_ROW.saturating_sub(row.encoded_len());
    let mut fitting = Vec::new();
    for told in new.into_iter().take(MAX_STORAGES.saturating_sub(row.storages.len())) {
        let Some(left) = room.checked_sub(told.uuid.len() + STORAGE_BYTES) else { break };
        room = left;
        fitting.push(told);
    }
    if !fitting.is_empty() {
        let first = draw(tx, fitting.len() as u32)?;
        for (number, ToldStorage { uuid, kind, failed }) in (first..).zip(fitting) {
            let (uuid, kind, failed) = (uuid.clone(), *kind, *failed);
            row.storages.push(Storage { uuid, number, kind, failed, counted_out: false });
        }
    }
    write(tx, row)
}

/// Drops the failed storages that no replica is known of.
fn forget_empty(tx: &mut Tx<'_, '_>, row: &mut Datanode) -> Result<()> {
    let failed = row.storages.iter().filter(|storage| storage.failed).map(|storage| storage.number);
    let failed: Vec<u32> = failed.collect();
    let scan = |number: &u32| Scan::of(StorageReplicas::ID, storage_partition(*number), 1);
    let counts = tx.count_all(&failed.iter().map(scan).collect::<Vec<_>>())?;
    let empty: HashSet<u32> =
        failed.into_iter().zip(counts).filter(|(_, count)| *count == 0).map(|(number, _)| number).collect();
    row.storages.retain(|storage| !empty.contains(&storage.number));
    Ok(())
}

/// Notes that the leader counts what is on these storages of a datanode, or does not; answers its row.
pub fn count_storages(
    tx: &mut Tx<'_, '_>,
    uuid: &str,
    storages: &[u32],
    counts: bool,
    term: Option<Term>,
) -> Result<Datanode> {
    if let Some(term) = term {
        tx.hold_term(term)?;
    }
    let mut row = look_up(tx, uuid)?;
    for storage in row.storages.iter_mut().filter(|storage| storages.contains(&storage.number)) {
        storage.counted_out = !counts;
    }
    write(tx, row)
}

/// The row, if `member` owns the datanode since that `epoch`: held, so that nothing that an old owner began goes through,
/// also when it owns the datanode again.
pub(super) fn owned(tx: &mut Tx<'_, '_>, uuid: &str, member: u64, epoch: u64) -> Result<Option<Datanode>> {
    Ok(Some(look_up(tx, uuid)?).filter(|row| (row.owner, row.epoch) == (member, epoch)))
}

/// What a namenode looks at again and again.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// All datanodes, or a page of them.
    pub datanodes: Vec<Datanode>,
    /// Live namenodes, by id.
    pub members: Vec<u64>,
    /// The commands of each datanode asked for.
    pub commands: Vec<(u32, Vec<GivenCommand>)>,
}

/// A command's row.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenCommand {
    /// What is to be done.
    pub kind: CommandKind,
    /// With which block.
    pub block: u64,
    /// The row's version.
    pub version: u64,
    /// The rest.
    pub command: Command,
}

/// Reads datanodes past the uuid `after`, members, and up to `limit` deletions and as many other commands of each of the
/// datanodes `owned`. Deletions come last: there may be very many, and nobody waits for them.
pub fn survey(tx: &mut Tx<'_, '_>, after: Option<&str>, owned: &[u32], limit: u32) -> Result<Survey> {
    let mut datanodes = all();
    if let Some(after) = after {
        datanodes = datanodes.after(datanode(after).key.rest());
    }
    let members = Scan::of(Members::ID, members_partition(), PAGE);
    let last_deletion = command(0, CommandKind::Invalidate, u64::MAX);
    let of_one = |number: &u32| {
        let first = Scan::of(Commands::ID, command_partition(*number), limit);
        [first.clone().after(last_deletion.key.rest()), first]
    };
    let commands: Vec<Scan> = owned.iter().flat_map(of_one).collect();
    [&datanodes, &members].into_iter().chain(&commands).for_each(|scan| tx.want_scan(scan));
    let datanodes = tx.scan_all::<Datanodes>(&[datanodes])?.pop().unwrap_or_default();
    let members = tx.scan_all::<Members>(&[members])?.pop().unwrap_or_default();
    let commands = tx.scan_all::<Commands>(&commands)?;
    let given = |(key, row): (Vec<u8>, trellis_metastore::tx::Record<Commands>)| {
        let (kind, block) = command_in(&key)?;
        Some(GivenCommand { kind, block, version: row.version, command: row.value })
    };
    let mut pages = commands.into_iter().map(|rows| rows.into_iter().filter_map(given));
    let mut of_one = |number: &u32| -> (u32, Vec<GivenCommand>) {
        let others = pages.next().into_iter().flatten();
        let first = pages.next().into_iter().flatten();
        let deletions = first.filter(|given| given.kind == CommandKind::Invalidate);
        (*number, others.chain(deletions).collect())
    };
    Ok(Survey {
        datanodes: datanodes.into_iter().map(|(_, row)| row.value).collect(),
        // Heartbeat rows have a key of 8 bytes, lane rows a longer one.
        members: members
            .into_iter()
            .filter(|(key, _)| key.len() == 8)
            .map(|(_, row)| {
                let Member { incarnation, .. } = row.value;
                incarnation
            })
            .collect(),
        commands: owned.iter().map(&mut of_one).collect(),
    })
}

/// What [`forget_commands`] came to.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Forgotten {
    /// Rows removed.
    #[prost(uint64, tag = "1")]
    pub commands: u64,
}

/// Removes commands that were delivered; one that was replaced since stays.
pub fn forget_commands(tx: &mut Tx<'_, '_>, delivered: &[(u32, CommandKind, u64, u64)]) -> Result<Forgotten> {
    let key = |(number, kind, block, _): &(u32, CommandKind, u64, u64)| command(*number, *kind, *block);
    let keys: Vec<_> = delivered.iter().map(key).collect();
    let rows = tx.get_all(&keys, Hold::Held)?;
    let mut commands = 0;
    for ((key, row), (.., version)) in keys.iter().zip(rows).zip(delivered) {
        if row.is_some_and(|row| row.version == *version) {
            tx.delete(key)?;
            commands += 1;
        }
    }
    Ok(Forgotten { commands })
}

/// A new owner follows the one that it thinks is gone.
fn take(row: &mut Datanode, claim: &Claim) {
    if row.owner == claim.from || row.owner == 0 {
        row.owner = claim.member;
        row.epoch += 1;
    }
}

/// A registered datanode's row, held.
pub fn look_up(tx: &mut Tx<'_, '_>, uuid: &str) -> Result<Datanode> {
    match tx.get(&datanode(uuid), Hold::Held)? {
        Some(row) => Ok(row.value),
        None => refuse(Kind::Io, format!("datanode {uuid} has not registered")),
    }
}

/// Writes the row of a datanode, if it is another than before; answers it as it is now.
fn write(tx: &mut Tx<'_, '_>, row: Datanode) -> Result<Datanode> {
    let key = datanode(&row.uuid);
    let before = tx.get(&key, Hold::Held)?;
    if before.as_ref().is_some_and(|before| before.value == row) {
        return Ok(row);
    }
    let row = Datanode { changes: row.changes + 1, ..row };
    match before {
        Some(_) => tx.put(&key, &row)?,
        None => tx.insert(&key, &row)?,
    }
    Ok(row)
}

/// Draws numbers; answers the first.
fn draw(tx: &mut Tx<'_, '_>, count: u32) -> Result<u32> {
    let key = setting(NEXT_DATANODE_NUMBER);
    let next = |number| Setting { number, text: String::new() };
    let first = match tx.get(&key, Hold::Held)? {
        Some(row) => {
            tx.put(&key, &next(row.value.number + u64::from(count)))?;
            row.value.number
        }
        None => {
            tx.insert(&key, &next(1 + u64::from(count)))?;
            1
        }
    };
    match u32::try_from(first) {
        Ok(first) if first.checked_add(count).is_some() => Ok(first),
        _ => refuse(Kind::Io, "all numbers of datanodes and storages are used up"),
    }
}

//! What is asked of datanodes: the parts that several operations share. Not an operation itself.

use std::collections::BTreeMap;

use trellis_metastore::change::Hold;
use trellis_metastore::schema::{Block, Blocks, Command, CommandKind, Ordered, Replica, TableKey, command};

use super::replicas::{Found, is_complete, put, want_replica};
use crate::engine::tx::Tx;
use crate::refusal::Result;

/// Gives a command to a datanode, by its number; it replaces an earlier one of its kind about the same block. The
/// datanode's owner delivers it.
pub fn give(
    tx: &mut Tx<'_, '_>,
    datanode: u32,
    kind: CommandKind,
    block_id: u64,
    given: &Command,
) -> Result<()> {
    let key = command(datanode, kind, block_id);
    match tx.get(&key, Hold::Loose)? {
        None => Ok(tx.insert(&key, given)?),
        Some(_) => Ok(tx.put(&key, given)?),
    }
}

/// Asks for the rows that [`invalidate`] will need.
pub fn want_invalidate(tx: &mut Tx<'_, '_>, block_id: u64, storages: &[u32]) {
    let view = tx.ctx.datanodes.clone();
    let there = storages.iter().filter_map(|storage| view.storage(*storage));
    for storage in there.filter(|storage| storage.is_alive()) {
        tx.want(&command(storage.node.row.number, CommandKind::Invalidate, block_id));
    }
}

/// The stamp by which a storage knows its replica: a datanode deletes one only by its exact stamp. A pipeline that writes
/// has the block's, whatever was reported before it was built.
fn stamp_on(block: &Block, found: &[Found], storage: u32) -> u64 {
    let is_written = !is_complete(block) && block.expected.contains(&storage);
    let own = found.iter().find(|found| found.storage == storage && !is_written);
    own.map_or(block.stamp, |found| found.replica.stamp)
}

/// Has the replicas of a block deleted from storages. `found`: what is known of its replicas. `silent`: the file is
/// gone, and nobody needs to hear that they are. Nothing is asked of a storage that failed, or whose datanode is dead or
/// not known: should it come again, it tells in full what it has.
pub fn invalidate(
    tx: &mut Tx<'_, '_>,
    block: &Block,
    found: &[Found],
    storages: &[u32],
    silent: bool,
) -> Result<()> {
    let mut of_datanode: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for storage in storages {
        if let Some(found) = tx.ctx.datanodes.storage(*storage).filter(|storage| storage.is_alive()) {
            of_datanode.entry(found.node.row.number).or_default().push(*storage);
        }
    }
    want_invalidate(tx, block.id, storages);
    for (datanode, storages) in of_datanode {
        // A datanode has one replica of a block: of several stamps that were reported the newest is it.
        let stamp = storages.iter().map(|storage| stamp_on(block, found, *storage)).max();
        let given = Command {
            stamp: stamp.unwrap_or(block.stamp),
            length: block.length,
            storages,
            silent,
            given_ms: tx.ctx.now_ms,
            ..Command::default()
        };
        give(tx, datanode, CommandKind::Invalidate, block.id, &given)?;
    }
    Ok(())
}

/// Has replicas of a complete block deleted. Their rows stay, as those of replicas that nobody counts on, until their
/// datanodes say that it is done. The block's row is written, so that whoever chose among its replicas and writes it, an
/// append or a truncate, has seen this or runs again. The caller sees to it that the file is noted.
pub fn let_go(
    tx: &mut Tx<'_, '_>,
    key: &TableKey<Blocks>,
    block: &Block,
    found: &[Found],
    storages: &[u32],
) -> Result<()> {
    storages.iter().for_each(|storage| want_replica(tx, block.id, *storage));
    want_invalidate(tx, block.id, storages);
    tx.get(key, Hold::Held)?;
    for found in found.iter().filter(|found| storages.contains(&found.storage)) {
        let (ordered, ordered_ms) = (Ordered::Deletion as i32, tx.ctx.now_ms);
        put(tx, block.id, found.storage, &Replica { ordered, ordered_ms, ..found.replica.clone() })?;
    }
    invalidate(tx, block, found, storages, false)?;
    Ok(tx.put(key, block)?)
}

/// Takes back deletions, given as block and replica. Datanodes may have heard of them all the same, and have yet to tell of
/// it.
pub fn take_back(tx: &mut Tx<'_, '_>, leaving: &[(u64, Found)]) -> Result<()> {
    let view = tx.ctx.datanodes.clone();
    leaving.iter().for_each(|(id, found)| want_replica(tx, *id, found.storage));
    let told = |(id, found): &(u64, Found)| {
        Some(command(view.storage(found.storage)?.node.row.number, CommandKind::Invalidate, *id))
    };
    let commands: Vec<_> = leaving.iter().filter_map(told).collect();
    let rows = tx.get_all(&commands, Hold::Loose)?;
    for (id, Found { storage, replica }) in leaving {
        let (ordered, ordered_ms) = (Ordered::Nothing as i32, tx.ctx.now_ms);
        put(tx, *id, *storage, &Replica { ordered, ordered_ms, ..replica.clone() })?;
    }
    for (key, _) in commands.iter().zip(rows).filter(|(_, row)| row.is_some()) {
        tx.delete(key)?;
    }
    Ok(())
}

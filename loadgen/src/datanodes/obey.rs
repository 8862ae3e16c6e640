//! What the active namenode may demand of a simulated datanode: all of it is done in memory.

use std::sync::Arc;

use trellis_proto::hdfs::BlockProto;
use trellis_proto::hdfs::RecoveringBlockProto;
use trellis_proto::hdfs::datanode::block_command_proto::Action;
use trellis_proto::hdfs::datanode::datanode_command_proto::Type;
use trellis_proto::hdfs::datanode::datanode_protocol_service as protocol;
use trellis_proto::hdfs::datanode::{
    BlockCommandProto, CommitBlockSynchronizationRequestProto, DatanodeCommandProto,
};

use super::actor::{Actor, Trouble};
use super::add;
use super::node::{Node, Replica};

/// The length in a deletion that says: the namenode wants to hear no more of it (`BlockCommand.NO_ACK`).
const NO_ACK: u64 = i64::MAX as u64;

/// Obeys a command.
pub(super) async fn obey(actor: &Actor, command: DatanodeCommandProto) -> Result<(), Trouble> {
    match (command.cmd_type(), command) {
        (Type::BlockCommand, DatanodeCommandProto { blk_cmd: Some(command), .. }) => match command.action() {
            Action::Invalidate => delete(actor, &command.blocks),
            Action::Transfer => copy(actor, &command),
            Action::Shutdown => {}
        },
        (Type::BlockRecoveryCommand, DatanodeCommandProto { recovery_cmd: Some(command), .. }) => {
            for block in &command.blocks {
                recover(actor, block).await?;
            }
        }
        // Keys, bandwidths, caches, layouts: there is nothing here that they are for.
        _ => {}
    }
    Ok(())
}

fn delete(actor: &Actor, blocks: &[BlockProto]) {
    let deleted = blocks
        .iter()
        .filter(|block| actor.node.delete(block.block_id, block.gen_stamp, block.num_bytes() == NO_ACK));
    add(&actor.shared.counts.deleted, deleted.count() as u64);
}

/// The datanodes that are to get a copy have it at once; a replica that is not here leads to none, and the namenode asks
/// again.
fn copy(actor: &Actor, command: &BlockCommandProto) {
    for (block, targets) in command.blocks.iter().zip(&command.targets) {
        let held = actor.node.replica(block.block_id).filter(|held| held.stamp == block.gen_stamp);
        let Some(replica) = held else { continue };
        for target in &targets.datanodes {
            if let Some(target) = actor.shared.node(&target.id.datanode_uuid) {
                target.receive(block.block_id, replica, 0);
                add(&actor.shared.counts.copied, 1);
            }
        }
    }
}

/// Makes all replicas of a block whose writer is gone agree on a length, under the recovery's stamp. A block without any
/// is to be forgotten.
async fn recover(actor: &Actor, recovering: &RecoveringBlockProto) -> Result<(), Trouble> {
    let block = &recovering.block.b;
    let asked = recovering.block.locs.iter().filter_map(|node| actor.shared.node(&node.id.datanode_uuid));
    let holders: Vec<(&Arc<Node>, Replica)> =
        asked.filter_map(|node| Some((node, node.replica(block.block_id)?))).collect();
    let shortest = holders.iter().map(|(_, replica)| replica.len).min().unwrap_or(0);
    let cut_to = recovering.truncate_block.as_ref().map(BlockProto::num_bytes);
    let replica = Replica { stamp: recovering.new_gen_stamp, len: cut_to.unwrap_or(shortest).min(shortest) };
    let request = CommitBlockSynchronizationRequestProto {
        block: block.clone(),
        new_gen_stamp: replica.stamp,
        new_length: replica.len,
        close_file: true,
        delete_block: holders.is_empty(),
        new_taragets: holders.iter().map(|(node, _)| node.id.clone()).collect(),
        new_target_storages: holders.iter().map(|(node, _)| node.storage.storage_uuid.clone()).collect(),
    };
    for (node, _) in &holders {
        node.receive(block.block_id, replica, 0);
    }
    actor.call(&protocol::COMMIT_BLOCK_SYNCHRONIZATION, &request).await?;
    add(&actor.shared.counts.recovered, 1);
    Ok(())
}

//! What the active namenode may demand: deletions, copies, recoveries, and a few numbers.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use trellis_proto::hdfs::datanode::block_command_proto::Action;
use trellis_proto::hdfs::datanode::datanode_command_proto::Type;
use trellis_proto::hdfs::datanode::error_report_request_proto::ErrorCode;
use trellis_proto::hdfs::datanode::{BlockCommandProto, DatanodeCommandProto};
use trellis_proto::hdfs::op_write_block_proto::BlockConstructionStage;
use trellis_proto::hdfs::{BlockProto, DatanodeInfoProto};

use crate::recovery::recover;
use crate::shared::{Shared, Slot, blocking};
use crate::store::{Block, Replica, ReplicaState};
use crate::transfer::copy_out::CopyOut;

/// The length in a deletion that says: the namenode wants to hear no more of it (`BlockCommand.NO_ACK`).
const NO_ACK: u64 = i64::MAX as u64;
/// Recoveries at a time.
const MAX_RECOVERIES: usize = 8;

/// Obeys commands, one after the other, until `stop`; copies and recoveries go on beside them.
pub(crate) async fn obey(
    shared: Arc<Shared>,
    mut commands: mpsc::Receiver<DatanodeCommandProto>,
    mut stop: watch::Receiver<bool>,
) {
    let copies = Arc::new(Semaphore::new(shared.config.max_copies.max(1)));
    let recoveries = Arc::new(Semaphore::new(MAX_RECOVERIES));
    let mut tasks = JoinSet::new();
    loop {
        let command = tokio::select! {
            command = commands.recv() => command,
            Some(_) = tasks.join_next() => continue,
            _ = stop.wait_for(|stop| *stop) => None,
        };
        let Some(command) = command else { break };
        shared.metrics.commands.increment(1);
        match (command.cmd_type(), command) {
            (Type::BlockCommand, DatanodeCommandProto { blk_cmd: Some(command), .. }) => {
                match command.action() {
                    Action::Invalidate => delete(&shared, &command).await,
                    Action::Transfer => start_copies(&shared, command, &copies, &mut tasks),
                    Action::Shutdown => {
                        tracing::warn!("a namenode asks for a shutdown, which none does: ignored")
                    }
                }
            }
            (Type::BlockRecoveryCommand, DatanodeCommandProto { recovery_cmd: Some(command), .. }) => {
                for block in command.blocks {
                    let (shared, turn) = (shared.clone(), recoveries.clone());
                    tasks.spawn(async move {
                        let _turn = turn.acquire().await;
                        recover(&shared, block).await;
                    });
                }
            }
            (Type::BalancerBandwidthCommand, DatanodeCommandProto { balancer_cmd: Some(command), .. }) => {
                if command.bandwidth > 0 {
                    tracing::info!(bytes_per_second = command.bandwidth, "the balancer's bandwidth was set");
                    shared.balance.set(command.bandwidth);
                }
            }
            // There is nothing to finalize: this datanode never upgrades its layout.
            (Type::FinalizeCommand, _) => {}
            (kind, _) => {
                shared.metrics.commands_ignored.increment(1);
                tracing::warn!(?kind, "a command that this datanode does not know was dropped");
            }
        }
    }
    tasks.shutdown().await;
}

fn block_of(block: &BlockProto) -> Block {
    Block { id: block.block_id, stamp: block.gen_stamp }
}

async fn delete(shared: &Arc<Shared>, command: &BlockCommandProto) {
    let blocks: Vec<Block> = command.blocks.iter().map(block_of).collect();
    let no_acks = command.blocks.iter().filter(|block| block.num_bytes() == NO_ACK);
    shared.namenodes.quietly(no_acks.map(block_of));
    let deleted = blocking(shared, move |shared| {
        for (block, error) in shared.store.delete(&blocks) {
            shared.namenodes.is_quiet(block);
            tracing::info!(%block, %error, "a replica that the namenode wants deleted was not");
            if let Some(other) = shared.store.replica(block.id).filter(|replica| replica.block != block) {
                tell_of(shared, &other);
            }
        }
    });
    if let Err(error) = deleted.await {
        tracing::error!(%error, "a deletion ended early");
    }
}

/// Tells of a replica whose stamp is not the one that the namenode knows it by.
fn tell_of(shared: &Shared, replica: &Replica) {
    match replica.state {
        ReplicaState::Finalized => shared.namenodes.received(replica, None),
        ReplicaState::Rbw | ReplicaState::Rwr | ReplicaState::Rur => shared.namenodes.receiving(replica),
        ReplicaState::Temporary => {}
    }
}

fn start_copies(
    shared: &Arc<Shared>,
    command: BlockCommandProto,
    turns: &Arc<Semaphore>,
    tasks: &mut JoinSet<()>,
) {
    let mut targets = command.targets.into_iter().map(|targets| targets.datanodes);
    let mut types = command.target_storage_types.into_iter().map(|types| types.storage_types);
    let mut storages = command.target_storage_uuids.into_iter().map(|storages| storages.storage_uuids);
    for block in command.blocks {
        let place = Place {
            targets: targets.next().unwrap_or_default(),
            storage_types: types.next().unwrap_or_default(),
            storage_ids: storages.next().unwrap_or_default(),
        };
        let Some(slot) = shared.copying.take() else {
            tracing::warn!("too many copies wait: more were dropped; the namenode will ask again");
            return;
        };
        let (shared, turns) = (shared.clone(), turns.clone());
        tasks.spawn(async move {
            let _turn = turns.acquire().await;
            if let Err(error) = blocking(&shared, move |shared| copy(shared, &block, place, slot)).await {
                tracing::error!(%error, "a copy ended early");
            }
        });
    }
}

/// Where a copy goes, one datanode passing it on to the next.
struct Place {
    targets: Vec<DatanodeInfoProto>,
    storage_types: Vec<i32>,
    storage_ids: Vec<String>,
}

/// Copies a replica for the namenode, or tells it why not.
fn copy(shared: &Shared, wanted: &BlockProto, place: Place, _slot: Slot) {
    let block = block_of(wanted);
    let held = shared.store.replica(block.id).filter(|replica| replica.block == block);
    let Some(replica) = held.filter(|replica| replica.state == ReplicaState::Finalized) else {
        shared.metrics.copies_failed.increment(1);
        let why = format!("Can't send invalid block {block}: it is not here, or not finished");
        return shared.namenodes.note(ErrorCode::InvalidBlock, &why);
    };
    if replica.len < wanted.num_bytes() {
        shared.metrics.copies_failed.increment(1);
        let (have, expected) = (replica.len, wanted.num_bytes());
        tracing::warn!(%block, have, expected, "a replica is shorter than the namenode knows it: reported as bad");
        return shared.namenodes.bad(&replica);
    }
    let Place { targets, storage_types, storage_ids } = place;
    let (stage, client) = (BlockConstructionStage::PipelineSetupCreate, String::new());
    let len = replica.len;
    let copy = CopyOut { block, len, targets, storage_types, storage_ids, stage, client };
    match copy.send(shared, Some(&shared.copies)) {
        Ok(()) => tracing::info!(%block, "copied"),
        Err(error) => {
            shared.metrics.copies_failed.increment(1);
            tracing::warn!(%block, %error, "a copy for the namenode failed");
        }
    }
}

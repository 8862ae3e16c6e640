//! What a datanode is told to do, as wire messages.

use trellis_metastore::schema::CommandKind;
use trellis_proto::hdfs::datanode::datanode_command_proto::Type;
use trellis_proto::hdfs::datanode::{
    BlockCommandProto, BlockRecoveryCommandProto, DatanodeCommandProto, RegisterCommandProto,
    block_command_proto::Action,
};
use trellis_proto::hdfs::{
    BlockProto, DatanodeInfosProto, ExtendedBlockProto, LocatedBlockProto, RecoveringBlockProto,
    StorageTypesProto, StorageUuidsProto,
};

use super::located;
use crate::datanodes::View;
use crate::ops::datanodes::GivenCommand;

/// A length that stock gives to replicas whose deletion nobody needs to hear of.
const NO_ACK: u64 = i64::MAX as u64;

/// Asks a datanode to register.
pub(super) fn register() -> DatanodeCommandProto {
    DatanodeCommandProto { register_cmd: Some(RegisterCommandProto {}), ..of_type(Type::RegisterCommand) }
}

/// Commands as a heartbeat's answer carries them: one of each kind.
pub(super) fn commands(pool: &str, view: &View, given: &[GivenCommand]) -> Vec<DatanodeCommandProto> {
    let of = |kind| given.iter().filter(move |given| given.kind == kind).peekable();
    let mut all = Vec::new();
    if of(CommandKind::Recover).peek().is_some() {
        let blocks = of(CommandKind::Recover).map(|given| recovering(pool, view, given)).collect();
        let recovery_cmd = Some(BlockRecoveryCommandProto { blocks });
        all.push(DatanodeCommandProto { recovery_cmd, ..of_type(Type::BlockRecoveryCommand) });
    }
    if of(CommandKind::Transfer).peek().is_some() {
        let mut command = empty(pool, Action::Transfer);
        for given in of(CommandKind::Transfer) {
            let targets = targets(view, given);
            command.blocks.push(block(given, given.command.length));
            command.targets.push(DatanodeInfosProto { datanodes: targets.infos });
            command.target_storage_uuids.push(StorageUuidsProto { storage_uuids: targets.uuids });
            command.target_storage_types.push(StorageTypesProto { storage_types: targets.kinds });
        }
        all.push(DatanodeCommandProto { blk_cmd: Some(command), ..of_type(Type::BlockCommand) });
    }
    if of(CommandKind::Invalidate).peek().is_some() {
        let mut command = empty(pool, Action::Invalidate);
        let length = |given: &GivenCommand| if given.command.silent { NO_ACK } else { given.command.length };
        command.blocks = of(CommandKind::Invalidate).map(|given| block(given, length(given))).collect();
        all.push(DatanodeCommandProto { blk_cmd: Some(command), ..of_type(Type::BlockCommand) });
    }
    all
}

fn of_type(kind: Type) -> DatanodeCommandProto {
    DatanodeCommandProto { cmd_type: kind.into(), ..DatanodeCommandProto::default() }
}

fn empty(pool: &str, action: Action) -> BlockCommandProto {
    BlockCommandProto { action: action.into(), block_pool_id: pool.to_owned(), ..Default::default() }
}

fn block(given: &GivenCommand, length: u64) -> BlockProto {
    BlockProto { block_id: given.block, gen_stamp: given.command.stamp, num_bytes: Some(length) }
}

/// Storages that a command names, with their datanodes; those that are not known any more are left out.
#[derive(Default)]
struct Targets {
    infos: Vec<trellis_proto::hdfs::DatanodeInfoProto>,
    uuids: Vec<String>,
    kinds: Vec<i32>,
}

fn targets(view: &View, given: &GivenCommand) -> Targets {
    let mut targets = Targets::default();
    for storage in given.command.storages.iter().filter_map(|number| view.storage(*number)) {
        targets.infos.push(located::datanode(storage.node));
        targets.uuids.push(storage.row().uuid.clone());
        targets.kinds.push(storage.row().kind);
    }
    targets
}

fn recovering(pool: &str, view: &View, given: &GivenCommand) -> RecoveringBlockProto {
    let command = &given.command;
    let Targets { infos, uuids, kinds } = targets(view, given);
    let located = LocatedBlockProto {
        b: ExtendedBlockProto {
            pool_id: pool.to_owned(),
            block_id: given.block,
            generation_stamp: command.old_stamp,
            num_bytes: Some(command.length),
        },
        is_cached: vec![false; infos.len()],
        locs: infos,
        storage_types: kinds,
        storage_i_ds: uuids,
        block_token: located::no_token(),
        ..LocatedBlockProto::default()
    };
    let cut =
        |length| BlockProto { block_id: given.block, gen_stamp: command.stamp, num_bytes: Some(length) };
    RecoveringBlockProto {
        new_gen_stamp: command.stamp,
        block: located,
        truncate_block: command.cut_to.map(cut),
        ..RecoveringBlockProto::default()
    }
}

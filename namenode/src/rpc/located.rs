//! Blocks and datanodes as wire messages. There are no block tokens: those fields are empty.

use trellis_metastore::schema::{Block, Datanode};
use trellis_proto::common::TokenProto;
use trellis_proto::hdfs::{
    DatanodeIdProto, DatanodeInfoProto, ExtendedBlockProto, LocatedBlockProto, LocatedBlocksProto,
};

use crate::datanodes::view::{Liveness, Node, Space};
use crate::engine::ctx::Ctx;
use crate::ops::locations::FileBlocks;
use crate::ops::replicas::Located;

/// The rack of all datanodes.
const RACK: &str = "/default-rack";

/// The blocks of a file.
pub(super) fn blocks(ctx: &Ctx, file: &FileBlocks) -> LocatedBlocksProto {
    LocatedBlocksProto {
        file_length: file.length,
        blocks: file.blocks.iter().map(|located| block(ctx, located)).collect(),
        under_construction: file.under_construction,
        last_block: file.last_block.as_ref().map(|located| block(ctx, located)),
        is_last_block_complete: file.last_block_complete,
        ..LocatedBlocksProto::default()
    }
}

/// A block and where it is. Storages that the call's view does not know are left out.
pub(super) fn block(ctx: &Ctx, located: &Located) -> LocatedBlockProto {
    let view = &ctx.datanodes;
    let storages: Vec<_> = located.storages.iter().filter_map(|number| view.storage(*number)).collect();
    LocatedBlockProto {
        b: extended_block(&ctx.block_pool, &located.block),
        offset: located.offset,
        locs: storages.iter().map(|storage| datanode(storage.node)).collect(),
        corrupt: located.corrupt,
        block_token: no_token(),
        is_cached: vec![false; storages.len()],
        storage_types: storages.iter().map(|storage| storage.row().kind).collect(),
        storage_i_ds: storages.iter().map(|storage| storage.row().uuid.clone()).collect(),
        ..LocatedBlockProto::default()
    }
}

/// A block with its pool.
pub(super) fn extended_block(pool: &str, block: &Block) -> ExtendedBlockProto {
    ExtendedBlockProto {
        pool_id: pool.to_owned(),
        block_id: block.id,
        generation_stamp: block.stamp,
        num_bytes: Some(block.length),
    }
}

/// A datanode and what it says of itself, over all its storages; what a dead one said last, but no transfers, as in stock.
pub(super) fn datanode(node: &Node) -> DatanodeInfoProto {
    let sum = |part: fn(&Space) -> u64| Some(node.space.iter().map(part).fold(0, u64::saturating_add));
    let heard_ms = u64::try_from(node.heard_ms).unwrap_or(0);
    let reported_ms = u64::try_from(node.reported_ms).unwrap_or(0);
    DatanodeInfoProto {
        id: datanode_id(&node.row),
        capacity: sum(|space| space.capacity),
        dfs_used: sum(|space| space.used),
        remaining: sum(|space| space.remaining),
        block_pool_used: sum(|space| space.pool_used),
        non_dfs_used: sum(|space| space.other_used),
        last_update: Some(heard_ms),
        last_update_monotonic: Some(heard_ms),
        last_block_report_time: Some(reported_ms),
        last_block_report_monotonic: Some(reported_ms),
        xceiver_count: Some(if node.liveness == Liveness::Dead { 0 } else { node.load }),
        location: Some(RACK.to_owned()),
        ..DatanodeInfoProto::default()
    }
}

/// How a datanode is reached.
pub(super) fn datanode_id(row: &Datanode) -> DatanodeIdProto {
    DatanodeIdProto {
        ip_addr: row.ip.clone(),
        host_name: row.host.clone(),
        datanode_uuid: row.uuid.clone(),
        xfer_port: row.data_port,
        info_port: row.http_port,
        ipc_port: row.ipc_port,
        info_secure_port: (row.https_port != 0).then_some(row.https_port),
    }
}

/// An empty token.
pub(super) fn no_token() -> TokenProto {
    TokenProto::default()
}

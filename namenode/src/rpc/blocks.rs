//! Writing data: blocks, pipelines, append, truncate, concat: requests to operations.

use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::hdfs;
use trellis_proto::hdfs::AddBlockFlagProto;
use trellis_proto::hdfs::datanode as wire;

use super::plan::{Patience, Planned};
use super::{convert, located};
use crate::ops::add_block::{self, AddBlock, GetAdditionalDatanode};
use crate::ops::append::{self, Append};
use crate::ops::concat::{self, Concat};
use crate::ops::pipeline::{self, UpdateBlockForPipeline, UpdatePipeline};
use crate::ops::recovery::{self, CommitBlockSynchronization};
use crate::ops::truncate::{self, Truncate};
use crate::ops::write::{self, AbandonBlock, BlockName, Complete, Fsync, WrittenFile};
use crate::path::Path;

type Plan<A> = Result<Planned<A>, RpcError>;

/// The bit of `CreateFlagProto` that asks append for a new block.
const NEW_BLOCK: u32 = 32;

fn written(src: &str, file_id: u64, holder: String) -> Result<WrittenFile, RpcError> {
    Ok(WrittenFile { path: Path::parse(src)?, file_id, holder })
}

fn block(block: hdfs::ExtendedBlockProto) -> BlockName {
    let bytes = block.num_bytes();
    BlockName { pool: block.pool_id, id: block.block_id, stamp: block.generation_stamp, bytes }
}

fn uuids(datanodes: Vec<hdfs::DatanodeInfoProto>) -> Vec<String> {
    datanodes.into_iter().map(|datanode| datanode.id.datanode_uuid).collect()
}

/// Answers late rather than false.
pub(super) fn complete(request: hdfs::CompleteRequestProto) -> Plan<hdfs::CompleteResponseProto> {
    let file = written(&request.src, request.file_id(), request.client_name)?;
    let call = Complete { file, last: request.last.map(block) };
    let waits_for = call.last.as_ref().map(|last| last.id);
    let plan = Planned::new(request.src, move |tx| {
        let result = write::complete(tx, &call)?;
        Ok(hdfs::CompleteResponseProto { result })
    });
    Ok(plan.patient(
        waits_for.map(|block| Patience {
            block,
            not_yet: |result: &Result<hdfs::CompleteResponseProto, _>| matches!(result, Ok(answer) if !answer.result),
        }),
    ))
}

/// Waits a while for replicas of the block before `previous`.
pub(super) fn add_block(request: hdfs::AddBlockRequestProto) -> Plan<hdfs::AddBlockResponseProto> {
    let anywhere =
        request.flags.iter().filter_map(|flag| AddBlockFlagProto::try_from(*flag).ok()).any(|flag| {
            matches!(flag, AddBlockFlagProto::NoLocalWrite | AddBlockFlagProto::IgnoreClientLocality)
        });
    let call = AddBlock {
        file: written(&request.src, request.file_id(), request.client_name)?,
        previous: request.previous.map(block),
        excluded: uuids(request.exclude_nodes),
        favored: request.favored_nodes,
        anywhere,
    };
    let waits_for = call.previous.as_ref().map(|previous| previous.id);
    let plan = Planned::new(request.src, move |tx| {
        let block = add_block::add_block(tx, &call)?;
        Ok(hdfs::AddBlockResponseProto { block: located::block(tx.ctx, &block) })
    });
    let plan = plan.noting(|service, answer| {
        let datanodes = service.engine().datanodes();
        datanodes.schedule(answer.block.locs.iter().map(|node| node.id.datanode_uuid.as_str()));
        datanodes.show_soon();
    });
    Ok(plan.patient(waits_for.map(|block| Patience {
        block,
        not_yet: |result| matches!(result, Err(error) if error.kind == Kind::NotReplicatedYet),
    })))
}

pub(super) fn abandon_block(
    request: hdfs::AbandonBlockRequestProto,
) -> Plan<hdfs::AbandonBlockResponseProto> {
    let file = written(&request.src, request.file_id(), request.holder)?;
    let call = AbandonBlock { file, block: block(request.b) };
    let plan = Planned::new(request.src, move |tx| {
        write::abandon_block(tx, &call)?;
        Ok(hdfs::AbandonBlockResponseProto {})
    });
    Ok(plan.making(1))
}

pub(super) fn fsync(request: hdfs::FsyncRequestProto) -> Plan<hdfs::FsyncResponseProto> {
    let last_block_length = request.last_block_length();
    let file = written(&request.src, request.file_id(), request.client)?;
    let call = Fsync { file, last_block_length };
    Ok(Planned::new(request.src, move |tx| {
        write::fsync(tx, &call)?;
        Ok(hdfs::FsyncResponseProto {})
    }))
}

pub(super) fn additional_datanode(
    request: hdfs::GetAdditionalDatanodeRequestProto,
) -> Plan<hdfs::GetAdditionalDatanodeResponseProto> {
    let call = GetAdditionalDatanode {
        file: written(&request.src, request.file_id(), request.client_name)?,
        block: block(request.blk),
        existing: request.existing_storage_uuids,
        excluded: uuids(request.excludes),
        count: request.num_additional_nodes as usize,
    };
    Ok(Planned::new(request.src, move |tx| {
        let block = add_block::get_additional_datanode(tx, &call)?;
        Ok(hdfs::GetAdditionalDatanodeResponseProto { block: located::block(tx.ctx, &block) })
    }))
}

pub(super) fn update_block_for_pipeline(
    request: hdfs::UpdateBlockForPipelineRequestProto,
) -> Plan<hdfs::UpdateBlockForPipelineResponseProto> {
    let call = UpdateBlockForPipeline { block: block(request.block), holder: request.client_name };
    Ok(Planned::of_block(call.block.id, move |tx| {
        let block = pipeline::update_block_for_pipeline(tx, &call)?;
        Ok(hdfs::UpdateBlockForPipelineResponseProto { block: located::block(tx.ctx, &block) })
    }))
}

pub(super) fn update_pipeline(
    request: hdfs::UpdatePipelineRequestProto,
) -> Plan<hdfs::UpdatePipelineResponseProto> {
    let call = UpdatePipeline {
        holder: request.client_name,
        old: block(request.old_block),
        new: block(request.new_block),
        storages: request.storage_i_ds,
    };
    Ok(Planned::of_block(call.old.id, move |tx| {
        pipeline::update_pipeline(tx, &call)?;
        Ok(hdfs::UpdatePipelineResponseProto {})
    }))
}

pub(super) fn append(request: hdfs::AppendRequestProto) -> Plan<hdfs::AppendResponseProto> {
    let new_block = request.flag() & NEW_BLOCK != 0;
    let call = Append { path: Path::parse(&request.src)?, holder: request.client_name, new_block };
    let plan = Planned::new(request.src, move |tx| {
        let appended = append::append(tx, &call)?;
        Ok(hdfs::AppendResponseProto {
            block: appended.block.as_ref().map(|block| located::block(tx.ctx, block)),
            stat: Some(convert::status(appended.status)),
        })
    });
    Ok(plan.making(1))
}

pub(super) fn truncate(request: hdfs::TruncateRequestProto) -> Plan<hdfs::TruncateResponseProto> {
    let length = request.new_length as i64;
    let call = Truncate { path: Path::parse(&request.src)?, length, holder: request.client_name };
    let plan = Planned::new(request.src, move |tx| {
        let result = truncate::truncate(tx, &call)?;
        Ok(hdfs::TruncateResponseProto { result })
    });
    Ok(plan.making(2).showing_inode())
}

/// The audit log shows the sources as Java prints a list.
pub(super) fn concat(request: hdfs::ConcatRequestProto) -> Plan<hdfs::ConcatResponseProto> {
    let sources = request.srcs.iter().map(|path| Path::parse(path)).collect::<Result<Vec<_>, _>>()?;
    if request.trg.is_empty() {
        return Err(RpcError::new(Kind::IllegalArgument, "Target file name is empty"));
    }
    let call = Concat { target: Path::parse(&request.trg)?, sources };
    let plan = Planned::in_lane_of(&request.trg, format!("[{}]", request.srcs.join(", ")), move |tx| {
        concat::concat(tx, &call)?;
        Ok(hdfs::ConcatResponseProto {})
    });
    Ok(plan.to(request.trg).showing_inode())
}

/// What the primary of a recovery came to.
pub(super) fn commit_block_synchronization(
    request: wire::CommitBlockSynchronizationRequestProto,
) -> Plan<wire::CommitBlockSynchronizationResponseProto> {
    let call = CommitBlockSynchronization {
        block: block(request.block),
        stamp: request.new_gen_stamp,
        length: request.new_length,
        close: request.close_file,
        delete: request.delete_block,
        storages: request.new_target_storages,
    };
    let plan = Planned::of_block(call.block.id, move |tx| {
        recovery::commit_block_synchronization(tx, &call)?;
        Ok(wire::CommitBlockSynchronizationResponseProto {})
    });
    Ok(plan.making(1))
}

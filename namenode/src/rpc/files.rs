//! create, complete, blocks, leases, open files: requests to operations.

use trellis_proto::exception::RpcError;
use trellis_proto::hdfs;
use trellis_proto::hdfs::OpenFilesTypeProto;

use super::convert;
use super::plan::Planned;
use crate::audit::Said;
use crate::engine::permission::Rights;
use crate::ops::create::{self, Create, CreateFlags};
use crate::ops::lease::{self, RecoverLease, RenewLease};
use crate::ops::open_files::{ListOpenFiles, OpenFile, list_open_files};
use crate::ops::write::{self, AbandonBlock, AddBlock, BlockName, Complete, Fsync, WrittenFile};
use crate::path::Path;

type Plan<A> = Result<Planned<A>, RpcError>;

pub(super) fn create(request: hdfs::CreateRequestProto) -> Plan<hdfs::CreateResponseProto> {
    let call = Create {
        path: Path::parse_new(&request.src)?,
        mode: request.masked.perm,
        holder: request.client_name,
        flags: CreateFlags::from_bits(request.create_flag),
        create_parent: request.create_parent,
        replication: request.replication,
        block_size: request.block_size,
        ec_policy: request.ec_policy_name.unwrap_or_default(),
        storage_policy: request.storage_policy.unwrap_or_default(),
    };
    let ids = call.ids();
    let plan = Planned::new(request.src, move |tx| {
        let status = create::create(tx, &call)?;
        Ok(hdfs::CreateResponseProto { fs: Some(convert::status(status)) })
    });
    Ok(plan.making(ids as usize).said(|answer| match &answer.fs {
        Some(fs) => {
            let (owner, group) = (fs.owner.clone(), fs.group.clone());
            Said::Made(Rights { owner, group, mode: fs.permission.perm })
        }
        None => Said::Allowed,
    }))
}

fn written(src: &str, file_id: u64, holder: String) -> Result<WrittenFile, RpcError> {
    Ok(WrittenFile { path: Path::parse(src)?, file_id, holder })
}

fn block(block: hdfs::ExtendedBlockProto) -> BlockName {
    let bytes = block.num_bytes();
    BlockName { pool: block.pool_id, id: block.block_id, stamp: block.generation_stamp, bytes }
}

pub(super) fn complete(request: hdfs::CompleteRequestProto) -> Plan<hdfs::CompleteResponseProto> {
    let file = written(&request.src, request.file_id(), request.client_name)?;
    let call = Complete { file, last: request.last.map(block) };
    Ok(Planned::new(request.src, move |tx| {
        let result = write::complete(tx, &call)?;
        Ok(hdfs::CompleteResponseProto { result })
    }))
}

pub(super) fn add_block(request: hdfs::AddBlockRequestProto) -> Plan<hdfs::AddBlockResponseProto> {
    let file = written(&request.src, request.file_id(), request.client_name)?;
    let (previous, excluded) = (request.previous.map(block), request.exclude_nodes.len());
    let call = AddBlock { file, previous, excluded };
    Ok(Planned::new(request.src, move |tx| match write::add_block(tx, &call) {
        Err(error) => Err(error),
        Ok(()) => crate::refusal::refuse(
            crate::refusal::Kind::UnsupportedOperation,
            "This namenode does not serve datanodes yet: a file cannot have blocks.",
        ),
    }))
}

pub(super) fn abandon_block(
    request: hdfs::AbandonBlockRequestProto,
) -> Plan<hdfs::AbandonBlockResponseProto> {
    let file = written(&request.src, request.file_id(), request.holder)?;
    let call = AbandonBlock { file, block: block(request.b) };
    Ok(Planned::new(request.src, move |tx| {
        write::abandon_block(tx, &call)?;
        Ok(hdfs::AbandonBlockResponseProto {})
    }))
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

pub(super) fn renew_lease(request: hdfs::RenewLeaseRequestProto) -> Plan<hdfs::RenewLeaseResponseProto> {
    let call = RenewLease { holder: request.client_name.clone(), namespaces: request.namespaces };
    Ok(Planned::new(request.client_name, move |tx| {
        lease::renew_lease(tx, &call)?;
        Ok(hdfs::RenewLeaseResponseProto {})
    }))
}

pub(super) fn recover_lease(
    request: hdfs::RecoverLeaseRequestProto,
) -> Plan<hdfs::RecoverLeaseResponseProto> {
    let call = RecoverLease { path: Path::parse(&request.src)?, holder: request.client_name };
    Ok(Planned::new(request.src, move |tx| {
        let result = lease::recover_lease(tx, &call)?;
        Ok(hdfs::RecoverLeaseResponseProto { result })
    }))
}

/// Kinds that this version does not know are left out, also of the answer, as stock's reader leaves them out.
pub(super) fn open_files(request: hdfs::ListOpenFilesRequestProto) -> Plan<hdfs::ListOpenFilesResponseProto> {
    let kinds = request.types.iter().filter_map(|kind| OpenFilesTypeProto::try_from(*kind).ok());
    let kinds: Vec<OpenFilesTypeProto> = kinds.collect();
    let path = request.path.unwrap_or_default();
    let call = ListOpenFiles {
        all: kinds.contains(&OpenFilesTypeProto::AllOpenFiles),
        blocking_decommission: kinds.contains(&OpenFilesTypeProto::BlockingDecommission),
        ..ListOpenFiles::new(request.id, &path)?
    };
    let plan = Planned::new(path, move |tx| {
        let page = list_open_files(tx, &call)?;
        let entry = |OpenFile { id, path, holder, machine }| hdfs::OpenFilesBatchResponseProto {
            id: id as i64,
            path,
            client_name: holder,
            client_machine: machine,
        };
        Ok(hdfs::ListOpenFilesResponseProto {
            entries: page.files.into_iter().map(entry).collect(),
            has_more: page.has_more,
            types: kinds.iter().map(|kind| i32::from(*kind)).collect(),
        })
    });
    Ok(plan.said(|_| Said::AllowedWithoutPath))
}

//! create, leases, open files: requests to operations.

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
    let plan = Planned::new(request.src, move |tx| {
        let result = lease::recover_lease(tx, &call)?;
        Ok(hdfs::RecoverLeaseResponseProto { result })
    });
    Ok(plan.making(1))
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

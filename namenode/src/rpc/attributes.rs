//! setPermission, setOwner, setTimes, setReplication: requests to operations.

use trellis_proto::exception::RpcError;
use trellis_proto::hdfs;

use super::plan::Planned;
use crate::audit::Said;
use crate::ops::attributes::{self, SetOwner, SetPermission, SetReplication, SetTimes};
use crate::path::Path;

type Plan<A> = Result<Planned<A>, RpcError>;

pub(super) fn set_permission(
    request: hdfs::SetPermissionRequestProto,
) -> Plan<hdfs::SetPermissionResponseProto> {
    let call = SetPermission { path: Path::parse(&request.src)?, mode: request.permission.perm };
    let plan = Planned::new(request.src, move |tx| {
        attributes::set_permission(tx, &call)?;
        Ok(hdfs::SetPermissionResponseProto {})
    });
    Ok(plan.showing_inode())
}

pub(super) fn set_owner(request: hdfs::SetOwnerRequestProto) -> Plan<hdfs::SetOwnerResponseProto> {
    let call =
        SetOwner { path: Path::parse(&request.src)?, owner: request.username, group: request.groupname };
    let plan = Planned::new(request.src, move |tx| {
        attributes::set_owner(tx, &call)?;
        Ok(hdfs::SetOwnerResponseProto {})
    });
    Ok(plan.showing_inode())
}

/// Times are signed on the client's side: -1 stays as it is.
pub(super) fn set_times(request: hdfs::SetTimesRequestProto) -> Plan<hdfs::SetTimesResponseProto> {
    let (mtime_ms, atime_ms) = (request.mtime as i64, request.atime as i64);
    let call = SetTimes { path: Path::parse(&request.src)?, mtime_ms, atime_ms };
    let plan = Planned::new(request.src, move |tx| {
        attributes::set_times(tx, &call)?;
        Ok(hdfs::SetTimesResponseProto {})
    });
    Ok(plan.showing_inode())
}

pub(super) fn set_replication(
    request: hdfs::SetReplicationRequestProto,
) -> Plan<hdfs::SetReplicationResponseProto> {
    let call = SetReplication { path: Path::parse(&request.src)?, replication: request.replication };
    let plan = Planned::new(request.src, move |tx| {
        let result = attributes::set_replication(tx, &call)?;
        Ok(hdfs::SetReplicationResponseProto { result })
    });
    Ok(plan.said(|answer| if answer.result { Said::Allowed } else { Said::Silent }))
}

//! mkdirs, delete, rename: requests to operations.

use trellis_proto::exception::RpcError;
use trellis_proto::hdfs;

use super::plan::Planned;
use crate::audit::Said;
use crate::ops::delete::{self, Delete};
use crate::ops::mkdirs::{self, Mkdirs};
use crate::ops::rename::{self, Rename, Rename2};
use crate::path::Path;

type Plan<A> = Result<Planned<A>, RpcError>;

/// What an answer of yes or no says in the audit log, for calls whose no leaves no line.
fn said(yes: bool) -> Said {
    if yes { Said::Allowed } else { Said::Silent }
}

pub(super) fn mkdirs(request: hdfs::MkdirsRequestProto) -> Plan<hdfs::MkdirsResponseProto> {
    let path = Path::parse_new(&request.src)?;
    let depth = path.components().len();
    let call = Mkdirs { path, mode: request.masked.perm, create_parent: request.create_parent };
    let plan = Planned::new(request.src, move |tx| {
        let result = mkdirs::mkdirs(tx, &call)?;
        Ok(hdfs::MkdirsResponseProto { result })
    });
    Ok(plan.making(depth).showing_inode())
}

pub(super) fn delete(request: hdfs::DeleteRequestProto) -> Plan<hdfs::DeleteResponseProto> {
    let call = Delete { path: Path::parse(&request.src)?, recursive: request.recursive };
    let plan = Planned::new(request.src, move |tx| {
        let result = delete::delete(tx, &call)?;
        Ok(hdfs::DeleteResponseProto { result })
    });
    let said = |answer: &hdfs::DeleteResponseProto| if answer.result { Said::Allowed } else { Said::Denied };
    Ok(plan.said(said))
}

pub(super) fn rename(request: hdfs::RenameRequestProto) -> Plan<hdfs::RenameResponseProto> {
    let call = Rename { source: Path::parse(&request.src)?, target: Path::parse_new(&request.dst)? };
    let plan = Planned::new(request.src, move |tx| {
        let result = rename::rename(tx, &call)?;
        Ok(hdfs::RenameResponseProto { result })
    });
    Ok(plan.to(request.dst).said(|answer| said(answer.result)).showing_inode())
}

pub(super) fn rename2(request: hdfs::Rename2RequestProto) -> Plan<hdfs::Rename2ResponseProto> {
    let (overwrite, to_trash) = (request.overwrite_dest, request.move_to_trash());
    let (source, target) = (Path::parse(&request.src)?, Path::parse_new(&request.dst)?);
    let call = Rename2 { source, target, overwrite, to_trash };
    let plan = Planned::new(request.src, move |tx| {
        rename::rename2(tx, &call)?;
        Ok(hdfs::Rename2ResponseProto {})
    });
    // As stock prints the option list that its server makes of the two flags.
    let command = match (overwrite, to_trash) {
        (false, false) => "rename (options=[NONE])",
        (true, false) => "rename (options=[OVERWRITE])",
        (false, true) => "rename (options=[TO_TRASH])",
        (true, true) => "rename (options=[OVERWRITE, TO_TRASH])",
    };
    Ok(plan.to(request.dst).command(command).showing_inode())
}

//! What operations answer, as wire messages.

use trellis_metastore::schema::Inode;
use trellis_proto::hdfs;
use trellis_proto::hdfs::hdfs_file_status_proto::FileType;

use super::located;
use crate::engine::ctx::Ctx;
use crate::ops::locations::FileBlocks;
use crate::ops::status::FileStatus;
use crate::refusal::{Kind, Result, refuse};

/// A permission.
pub(super) fn permission(mode: u32) -> hdfs::FsPermissionProto {
    hdfs::FsPermissionProto { perm: mode }
}

/// A status. Replication and block size are 0 for directories, as in stock.
pub(super) fn status(status: FileStatus) -> hdfs::HdfsFileStatusProto {
    let FileStatus { name, inode, mtime_ms, children } = status;
    let file_type = if inode.is_dir() { FileType::IsDir } else { FileType::IsFile };
    hdfs::HdfsFileStatusProto {
        file_type: file_type.into(),
        path: name,
        length: inode.length,
        permission: permission(inode.mode),
        owner: inode.owner,
        group: inode.group,
        modification_time: mtime_ms as u64,
        access_time: inode.atime_ms as u64,
        block_replication: Some(inode.replication),
        blocksize: Some(inode.block_size),
        file_id: Some(inode.id),
        children_num: Some(i32::try_from(children).unwrap_or(i32::MAX)),
        storage_policy: Some(inode.policy),
        flags: Some(0),
        ..Default::default()
    }
}

/// The blocks of a file in a listing.
pub(super) fn blocks_of(ctx: &Ctx, inode: &Inode) -> Result<hdfs::LocatedBlocksProto> {
    if inode.block_count > 0 {
        return refuse(
            Kind::UnsupportedOperation,
            "This namenode does not serve datanodes yet: blocks have no place.",
        );
    }
    let blocks = FileBlocks { under_construction: inode.open.is_some(), ..FileBlocks::default() };
    Ok(located::blocks(ctx, &blocks))
}

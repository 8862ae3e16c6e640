//! What operations answer, as wire messages.

use trellis_proto::hdfs;
use trellis_proto::hdfs::hdfs_file_status_proto::FileType;

use crate::ops::status::FileStatus;

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

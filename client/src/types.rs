//! What the namespace API takes and gives. Times are milliseconds since 1970, sizes are bytes.

use std::time::{Duration, SystemTime};

use trellis_proto::hdfs::{self, hdfs_file_status_proto::FileType};

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link; namenodes refuse to make them by default.
    Symlink,
}

/// All that a namenode says of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStatus {
    /// What it is.
    pub kind: FileKind,
    /// The last component in listings; empty when the status of one path was asked for.
    pub name: String,
    /// 0 for a directory. Without what is still being written to the last block.
    pub length: u64,
    /// Nine permission bits and the sticky bit, 01777.
    pub permission: u16,
    /// User name.
    pub owner: String,
    /// Group name.
    pub group: String,
    /// Last change of the contents, for a directory of its entries.
    pub modification_time_ms: u64,
    /// Last read; 0 for a directory. Namenodes keep it to the hour.
    pub access_time_ms: u64,
    /// Where a link points.
    pub symlink: Option<String>,
    /// 0 for a directory.
    pub replication: u16,
    /// 0 for a directory.
    pub block_size: u64,
    /// Inode id.
    pub file_id: u64,
    /// Entries of a directory, if the namenode says so.
    pub children: Option<u32>,
    /// Id of the storage policy; 0: none set.
    pub storage_policy: u8,
    /// There is more to the permissions than `permission` says.
    pub has_acl: bool,
    /// Inside an encryption zone.
    pub is_encrypted: bool,
    /// Erasure coded.
    pub is_erasure_coded: bool,
    /// A directory of which snapshots may be made.
    pub is_snapshottable: bool,
}

impl FileStatus {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// `modification_time_ms` as a time.
    pub fn modified(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.modification_time_ms)
    }
}

/// Bit of `flags` that a status has set.
fn flag(flags: u32, bit: hdfs::hdfs_file_status_proto::Flags) -> bool {
    flags & bit as u32 != 0
}

/// A name or target; HDFS has no others than UTF-8.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl From<hdfs::HdfsFileStatusProto> for FileStatus {
    fn from(wire: hdfs::HdfsFileStatusProto) -> Self {
        use hdfs::hdfs_file_status_proto::Flags;
        let flags = wire.flags();
        Self {
            kind: match wire.file_type() {
                FileType::IsDir => FileKind::Directory,
                FileType::IsFile => FileKind::File,
                FileType::IsSymlink => FileKind::Symlink,
            },
            // Copied, so that a kept status does not keep the whole answer.
            name: text(&wire.path),
            length: wire.length,
            permission: (wire.permission.perm & 0o1777) as u16,
            modification_time_ms: wire.modification_time,
            access_time_ms: wire.access_time,
            symlink: wire.symlink.as_deref().map(text),
            replication: wire.block_replication() as u16,
            block_size: wire.blocksize(),
            file_id: wire.file_id(),
            children: u32::try_from(wire.children_num()).ok(),
            storage_policy: wire.storage_policy() as u8,
            has_acl: flag(flags, Flags::HasAcl),
            is_encrypted: flag(flags, Flags::HasCrypt),
            is_erasure_coded: flag(flags, Flags::HasEc),
            is_snapshottable: flag(flags, Flags::SnapshotEnabled),
            owner: wire.owner,
            group: wire.group,
        }
    }
}

/// How a file is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateOptions {
    /// Before the umask; 0666 by default.
    pub permission: u16,
    /// Replace a file that is there. Else that is an error.
    pub overwrite: bool,
    /// Make missing directories above it; true by default.
    pub create_parent: bool,
    /// Copies of each block; None: what the namenode suggests.
    pub replication: Option<u16>,
    /// None: what the namenode suggests.
    pub block_size: Option<u64>,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self { permission: 0o666, overwrite: false, create_parent: true, replication: None, block_size: None }
    }
}

/// What `du` and `count` show of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContentSummary {
    /// Bytes in all files.
    pub length: u64,
    /// Files and links.
    pub file_count: u64,
    /// Directories, the top one included.
    pub directory_count: u64,
    /// Limit on names; None: no limit.
    pub quota: Option<u64>,
    /// Bytes with all copies.
    pub space_consumed: u64,
    /// Limit on `space_consumed`; None: no limit.
    pub space_quota: Option<u64>,
}

/// -1 and everything negative: no limit.
fn quota(wire: u64) -> Option<u64> {
    (wire as i64 >= 0).then_some(wire)
}

impl From<hdfs::ContentSummaryProto> for ContentSummary {
    fn from(wire: hdfs::ContentSummaryProto) -> Self {
        Self {
            length: wire.length,
            file_count: wire.file_count,
            directory_count: wire.directory_count,
            quota: quota(wire.quota),
            space_consumed: wire.space_consumed,
            space_quota: quota(wire.space_quota),
        }
    }
}

/// What a directory may use and uses; cheaper than [`ContentSummary`] where a quota is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaUsage {
    /// Names in the tree.
    pub file_and_directory_count: u64,
    /// Limit on names; None: no limit.
    pub quota: Option<u64>,
    /// Bytes with all copies.
    pub space_consumed: u64,
    /// Limit on `space_consumed`; None: no limit.
    pub space_quota: Option<u64>,
}

impl From<hdfs::QuotaUsageProto> for QuotaUsage {
    fn from(wire: hdfs::QuotaUsageProto) -> Self {
        Self {
            file_and_directory_count: wire.file_and_directory_count,
            quota: quota(wire.quota),
            space_consumed: wire.space_consumed,
            space_quota: quota(wire.space_quota),
        }
    }
}

/// A quota that is to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetQuota {
    /// Leave it as it is.
    Keep,
    /// No limit.
    Clear,
    /// Names, or bytes.
    To(u64),
}

impl SetQuota {
    pub(crate) fn on_wire(self) -> u64 {
        match self {
            Self::Keep => i64::MAX as u64,
            Self::Clear => u64::MAX,
            Self::To(limit) => limit,
        }
    }
}

/// The cluster's space and health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FsStats {
    /// Bytes of all live datanodes.
    pub capacity: u64,
    /// Bytes used by blocks.
    pub used: u64,
    /// Bytes free for blocks.
    pub remaining: u64,
    /// Blocks with too few copies.
    pub under_replicated: u64,
    /// Blocks of which all copies are bad.
    pub corrupt_blocks: u64,
    /// Blocks without any copy.
    pub missing_blocks: u64,
    /// Of those, blocks that are meant to have one copy.
    pub missing_one_copy_blocks: u64,
}

impl From<hdfs::GetFsStatsResponseProto> for FsStats {
    fn from(wire: hdfs::GetFsStatsResponseProto) -> Self {
        Self {
            capacity: wire.capacity,
            used: wire.used,
            remaining: wire.remaining,
            under_replicated: wire.under_replicated,
            corrupt_blocks: wire.corrupt_blocks,
            missing_blocks: wire.missing_blocks,
            missing_one_copy_blocks: wire.missing_repl_one_blocks(),
        }
    }
}

/// What the namenode suggests to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerDefaults {
    /// Bytes.
    pub block_size: u64,
    /// Chunk that has its own checksum, bytes.
    pub bytes_per_checksum: u32,
    /// Bytes of a packet on its way to a datanode.
    pub write_packet_size: u32,
    /// Copies of each block.
    pub replication: u16,
    /// Blocks travel encrypted: not supported here.
    pub encrypt_data_transfer: bool,
    /// Minutes after which the trash is emptied; 0: there is no trash.
    pub trash_interval_minutes: u64,
    /// How chunks are checked.
    pub checksum: Checksum,
}

/// Checksum of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// None.
    Null,
    /// CRC32, IEEE polynomial.
    Crc32,
    /// CRC32C, Castagnoli polynomial.
    Crc32c,
}

impl From<hdfs::FsServerDefaultsProto> for ServerDefaults {
    fn from(wire: hdfs::FsServerDefaultsProto) -> Self {
        Self {
            block_size: wire.block_size,
            bytes_per_checksum: wire.bytes_per_checksum,
            write_packet_size: wire.write_packet_size,
            replication: wire.replication as u16,
            encrypt_data_transfer: wire.encrypt_data_transfer(),
            trash_interval_minutes: wire.trash_interval(),
            checksum: match wire.checksum_type() {
                hdfs::ChecksumTypeProto::ChecksumNull => Checksum::Null,
                hdfs::ChecksumTypeProto::ChecksumCrc32 => Checksum::Crc32,
                hdfs::ChecksumTypeProto::ChecksumCrc32c => Checksum::Crc32c,
            },
        }
    }
}

/// What to do about safe mode, in which nothing can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SafeMode {
    /// Only ask.
    Get,
    /// Begin it (superuser).
    Enter,
    /// End it (superuser).
    Leave,
    /// End it although blocks are missing (superuser).
    ForceExit,
}

impl From<SafeMode> for hdfs::SafeModeActionProto {
    fn from(action: SafeMode) -> Self {
        match action {
            SafeMode::Get => Self::SafemodeGet,
            SafeMode::Enter => Self::SafemodeEnter,
            SafeMode::Leave => Self::SafemodeLeave,
            SafeMode::ForceExit => Self::SafemodeForceExit,
        }
    }
}

/// A block as client, namenode and datanode name it to one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Block pool.
    pub pool: String,
    /// Block id.
    pub id: u64,
    /// Counts up with every recovery.
    pub generation_stamp: u64,
    /// Bytes.
    pub length: u64,
}

impl From<&Block> for hdfs::ExtendedBlockProto {
    fn from(block: &Block) -> Self {
        Self {
            pool_id: block.pool.clone(),
            block_id: block.id,
            generation_stamp: block.generation_stamp,
            num_bytes: Some(block.length),
        }
    }
}

impl From<hdfs::ExtendedBlockProto> for Block {
    fn from(wire: hdfs::ExtendedBlockProto) -> Self {
        Self {
            length: wire.num_bytes(),
            id: wire.block_id,
            generation_stamp: wire.generation_stamp,
            pool: wire.pool_id,
        }
    }
}

/// Where a block of a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockLocation {
    /// The block, with the length that it has as far as the namenode knows.
    pub block: Block,
    /// Of its first byte in the file.
    pub offset: u64,
    /// `HOST:PORT` of the datanodes that have it.
    pub datanodes: Vec<String>,
    /// All copies are bad.
    pub corrupt: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_both_ways() {
        assert_eq!([0, 5, u64::MAX].map(quota), [Some(0), Some(5), None]);
        assert_eq!(SetQuota::Clear.on_wire() as i64, -1);
        assert_eq!(SetQuota::Keep.on_wire() as i64, i64::MAX);
    }

    #[test]
    fn absent_fields_read_as_in_hadoop() {
        let wire = hdfs::HdfsFileStatusProto {
            file_type: FileType::IsDir.into(),
            path: b"d"[..].into(),
            permission: hdfs::FsPermissionProto { perm: 0o41755 },
            flags: Some(9),
            ..Default::default()
        };
        let status = FileStatus::from(wire);
        assert_eq!((status.kind, status.permission, status.children), (FileKind::Directory, 0o1755, None));
        assert!(status.has_acl && status.is_snapshottable && !status.is_encrypted);
    }
}

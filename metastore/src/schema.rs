//! THE schema: every table, its placement, its key and its value. Values are `prost` messages, so fields may be added;
//! they are written only once `settings` carries a format number that knows them.
//!
//! Partition numbers below [`FIRST_FREE_ID`] are reserved, one range per use, and never overlap inode ids.

use prost::encoding::{WireType, decode_key, decode_varint};

use crate::key::Key;

/// The format of the rows below. A store with a higher number is refused.
pub const FORMAT: u32 = 1;

/// The root directory's inode id, as in stock HDFS.
pub const ROOT_ID: u64 = 16385;
/// Inode ids above the root's are free for files and directories.
pub const FIRST_FREE_ID: u64 = ROOT_ID + 1;
/// The partition of the root's own row.
pub const ROOT_PARTITION: u64 = 0;
/// The root's children are spread over this many partitions.
pub const ROOT_BUCKETS: u64 = 64;
const ROOT_BUCKET_BASE: u64 = 1;
/// Detached trees and deleted files hang under the hidden parent, spread over this many partitions.
pub const HIDDEN_BUCKETS: u64 = 64;
const HIDDEN_BASE: u64 = 128;
/// Lease holders are spread over this many partitions.
pub const LEASE_BUCKETS: u64 = 64;
const LEASE_HOLDER_BASE: u64 = 256;
const OPEN_FILE_BASE: u64 = 320;
/// So many inode ids in a row share a bucket.
const NEIGHBOURS: u64 = 64;
/// Retry-cache entries are spread over this many partitions.
pub const RETRY_BUCKETS: u64 = 256;
const RETRY_BASE: u64 = 512;
const MEMBERS_PARTITION: u64 = 1024;
const SETTINGS_PARTITION: u64 = 1025;

/// 64-bit FNV-1a: the fixed hash behind every bucket number. Part of the format.
pub fn bucket_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// The bucket of an inode id. Neighbours, which one namenode draws one after another, stay together, so that a group of
/// creates touches one bucket's pages, not sixty-four's. Part of the format.
fn id_bucket(id: u64, buckets: u64) -> u64 {
    id / NEIGHBOURS % buckets
}

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $value:ty, $placement:ident, $merged:ident;)*) => {
        /// Every table, by its number in stored keys.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum TableId { $($(#[$doc])* $name = $id),* }

        impl TableId {
            /// All tables.
            pub const ALL: &[TableId] = &[$(TableId::$name),*];

            /// The table with this number.
            pub fn from_u8(id: u8) -> Option<TableId> {
                match id { $($id => Some(TableId::$name),)* _ => None }
            }

            /// False for a table that stands whole on every shard.
            pub fn is_partitioned(self) -> bool {
                match self { $(TableId::$name => tables!(@placement $placement)),* }
            }

            /// Whether rows are written by `Merge`; such tables are locked after all others.
            pub fn is_merged(self) -> bool {
                match self { $(TableId::$name => tables!(@merged $merged)),* }
            }
        }

        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl Table for $name {
            const ID: TableId = TableId::$name;
            type Value = $value;
        })*
    };
    (@placement Partitioned) => { true };
    (@placement Everywhere) => { false };
    (@merged merged) => { true };
    (@merged plain) => { false };
}

/// A table and the type of its values.
pub trait Table {
    /// Its number.
    const ID: TableId;
    /// What a row holds.
    type Value: prost::Message + Default;
}

tables! {
    /// Files and directories, by (partition of the parent's children, name).
    Inodes = 1, Inode, Partitioned, plain;
    /// Beside each directory's own row: modification time (`max`), number of children (`add`).
    DirStats = 2, DirStat, Partitioned, merged;
    /// inode id → parent and name.
    InodePaths = 3, InodePath, Partitioned, plain;
    /// Blocks of a file, by index.
    Blocks = 4, Block, Partitioned, plain;
    /// Lease holders: last renewal in ms (`max`), renewals and opens so far (`add`).
    LeaseHolders = 8, LeaseHolder, Partitioned, merged;
    /// Every file that is open for writing → its holder.
    OpenFiles = 9, OpenFile, Partitioned, plain;
    /// Answers of calls that must not run twice, by (client id, call id).
    RetryCache = 10, RetryEntry, Partitioned, plain;
    /// Live namenodes: a heartbeat row each and one row per lane.
    Members = 16, Member, Everywhere, plain;
    /// Cluster id, format, id ranges, leader and term.
    Settings = 17, Setting, Everywhere, plain;
}

/// A key of one table.
#[derive(Debug)]
pub struct TableKey<T: Table> {
    /// The untyped key.
    pub key: Key,
    table: std::marker::PhantomData<fn() -> T>,
}

impl<T: Table> Clone for TableKey<T> {
    fn clone(&self) -> Self {
        TableKey { key: self.key.clone(), table: self.table }
    }
}

impl<T: Table> TableKey<T> {
    fn new(partition: u64, key: &[u8]) -> Self {
        TableKey { key: Key::new(partition, T::ID, key), table: std::marker::PhantomData }
    }

    fn of_child(parent: u64, name: &[u8]) -> Self {
        let key = Key::of_name(child_partition(parent, name), T::ID, name);
        TableKey { key, table: std::marker::PhantomData }
    }
}

/// The partition in which the child `name` of the directory `parent` has its rows.
pub fn child_partition(parent: u64, name: &[u8]) -> u64 {
    match parent {
        ROOT_ID => ROOT_BUCKET_BASE + bucket_hash(name) % ROOT_BUCKETS,
        _ => parent,
    }
}

/// All partitions that hold children of the directory `parent`.
pub fn child_partitions(parent: u64) -> std::ops::Range<u64> {
    match parent {
        ROOT_ID => ROOT_BUCKET_BASE..ROOT_BUCKET_BASE + ROOT_BUCKETS,
        _ => parent..parent + 1,
    }
}

/// The hidden partitions.
pub fn hidden_partitions() -> std::ops::Range<u64> {
    HIDDEN_BASE..HIDDEN_BASE + HIDDEN_BUCKETS
}

/// All partitions of lease holders.
pub fn lease_holder_partitions() -> std::ops::Range<u64> {
    LEASE_HOLDER_BASE..LEASE_HOLDER_BASE + LEASE_BUCKETS
}

/// All partitions of open files.
pub fn open_file_partitions() -> std::ops::Range<u64> {
    OPEN_FILE_BASE..OPEN_FILE_BASE + LEASE_BUCKETS
}

/// All partitions of the retry cache.
pub fn retry_partitions() -> std::ops::Range<u64> {
    RETRY_BASE..RETRY_BASE + RETRY_BUCKETS
}

/// The root's own row.
pub fn root_inode() -> TableKey<Inodes> {
    TableKey::new(ROOT_PARTITION, b"")
}

/// The root's counters.
pub fn root_stat() -> TableKey<DirStats> {
    TableKey::new(ROOT_PARTITION, b"")
}

/// The row of the child `name` of the directory `parent`.
pub fn inode(parent: u64, name: &[u8]) -> TableKey<Inodes> {
    TableKey::of_child(parent, name)
}

/// The counters of the directory `name` in the directory `parent`.
pub fn dir_stat(parent: u64, name: &[u8]) -> TableKey<DirStats> {
    TableKey::of_child(parent, name)
}

/// The row of a detached tree or deleted file under the hidden parent.
pub fn hidden_inode(id: u64) -> TableKey<Inodes> {
    TableKey::new(HIDDEN_BASE + id_bucket(id, HIDDEN_BUCKETS), &id.to_be_bytes())
}

/// Where the inode `id` hangs.
pub fn inode_path(id: u64) -> TableKey<InodePaths> {
    TableKey::new(id, b"")
}

/// The block `index` of the file `id`.
pub fn block(id: u64, index: u32) -> TableKey<Blocks> {
    TableKey::new(id, &index.to_be_bytes())
}

/// The row of a lease holder. Holders longer than a key are cut by their hash.
pub fn lease_holder(holder: &str) -> TableKey<LeaseHolders> {
    let partition = LEASE_HOLDER_BASE + bucket_hash(holder.as_bytes()) % LEASE_BUCKETS;
    TableKey::new(partition, &bounded(holder.as_bytes()))
}

/// The row of an open file.
pub fn open_file(id: u64) -> TableKey<OpenFiles> {
    TableKey::new(OPEN_FILE_BASE + id_bucket(id, LEASE_BUCKETS), &id.to_be_bytes())
}

/// The retry-cache row of a call.
pub fn retry_entry(client_id: &[u8; 16], call_id: i64) -> TableKey<RetryCache> {
    let mut key = [0; 24];
    key[..16].copy_from_slice(client_id);
    key[16..].copy_from_slice(&call_id.to_be_bytes());
    TableKey::new(RETRY_BASE + bucket_hash(client_id) % RETRY_BUCKETS, &key)
}

/// A namenode's heartbeat row.
pub fn member(id: u64) -> TableKey<Members> {
    TableKey::new(MEMBERS_PARTITION, &id.to_be_bytes())
}

/// The row that every group of one lane of a namenode holds.
pub fn member_lane(id: u64, lane: u32) -> TableKey<Members> {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&id.to_be_bytes());
    key[8..].copy_from_slice(&lane.to_be_bytes());
    TableKey::new(MEMBERS_PARTITION, &key)
}

/// The partition of all member rows; heartbeat rows have 8-byte keys, lane rows 12-byte keys.
pub fn members_partition() -> u64 {
    MEMBERS_PARTITION
}

/// A setting by name.
pub fn setting(name: &str) -> TableKey<Settings> {
    TableKey::new(SETTINGS_PARTITION, name.as_bytes())
}

/// A byte string as a key part: as it is up to 240 bytes, else its head and two hashes of the whole.
fn bounded(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() <= 240 {
        return bytes.to_vec();
    }
    let mut cut = bytes[..208].to_vec();
    cut.extend_from_slice(&bucket_hash(bytes).to_be_bytes());
    let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
    cut.extend_from_slice(&bucket_hash(&reversed).to_be_bytes());
    cut
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    /// A directory.
    Directory = 0,
    /// A regular file.
    File = 1,
}

/// A file or directory. A directory's modification time and child count live in [`DirStat`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Inode {
    /// Inode id, never reused.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// File or directory.
    #[prost(enumeration = "Kind", tag = "2")]
    pub kind: i32,
    /// Permission bits with the sticky bit, 0o1777.
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    /// Owner's name.
    #[prost(string, tag = "4")]
    pub owner: String,
    /// Group's name.
    #[prost(string, tag = "5")]
    pub group: String,
    /// Modification time of a file, ms since the epoch.
    #[prost(int64, tag = "6")]
    pub mtime_ms: i64,
    /// Access time, ms since the epoch; 0 = never set (directories).
    #[prost(int64, tag = "7")]
    pub atime_ms: i64,
    /// Length of a file in bytes (closed blocks).
    #[prost(uint64, tag = "8")]
    pub length: u64,
    /// Number of blocks.
    #[prost(uint32, tag = "9")]
    pub block_count: u32,
    /// Replication of a file.
    #[prost(uint32, tag = "10")]
    pub replication: u32,
    /// Preferred block size of a file in bytes.
    #[prost(uint64, tag = "11")]
    pub block_size: u64,
    /// Storage policy id; 0 = unset.
    #[prost(uint32, tag = "12")]
    pub policy: u32,
    /// Present while the file is open for writing.
    #[prost(message, optional, tag = "13")]
    pub open: Option<Writer>,
    /// The ordinal of the file's next block; never goes back.
    #[prost(uint32, tag = "14")]
    pub next_block: u32,
}

impl Inode {
    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory as i32
    }
}

/// What somebody who only passes an inode asks of its row: whose it is and who may. Borrowed from where the row lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed<'a> {
    /// See [`Inode::id`].
    pub id: u64,
    /// See [`Inode::kind`].
    pub kind: i32,
    /// See [`Inode::mode`].
    pub mode: u32,
    /// See [`Inode::owner`]; not yet known to be UTF-8.
    pub owner: &'a [u8],
    /// See [`Inode::group`]; the same.
    pub group: &'a [u8],
}

impl<'a> Passed<'a> {
    /// Reads the head of an [`Inode`] value, whose fields are written in the order of their numbers; `None` when it is
    /// broken.
    pub fn read(mut value: &'a [u8]) -> Option<Passed<'a>> {
        let mut passed = Passed::default();
        while !value.is_empty() {
            match decode_key(&mut value).ok()? {
                (1, WireType::Varint) => passed.id = decode_varint(&mut value).ok()?,
                (2, WireType::Varint) => passed.kind = decode_varint(&mut value).ok()? as i32,
                (3, WireType::Varint) => passed.mode = decode_varint(&mut value).ok()? as u32,
                (4, WireType::LengthDelimited) => passed.owner = delimited(&mut value)?,
                (5, WireType::LengthDelimited) => passed.group = delimited(&mut value)?,
                (1..=5, _) => return None,
                _ => break,
            }
        }
        Some(passed)
    }

    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory as i32
    }
}

impl<'a> From<&'a Inode> for Passed<'a> {
    fn from(inode: &'a Inode) -> Self {
        let Inode { id, kind, mode, owner, group, .. } = inode;
        Passed { id: *id, kind: *kind, mode: *mode, owner: owner.as_bytes(), group: group.as_bytes() }
    }
}

fn delimited<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(decode_varint(rest).ok()?).ok()?;
    let (taken, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(taken)
}

/// Who writes an open file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Writer {
    /// The lease holder: the client's name.
    #[prost(string, tag = "1")]
    pub holder: String,
    /// The address from which the client opened it.
    #[prost(string, tag = "2")]
    pub machine: String,
}

/// A directory's counters; `max` = modification time in ms, `add` = children.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DirStat {
    /// The directory's inode id: another than the one walked to means stale rows.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The nearest directory at or above with a quota; 0 = none.
    #[prost(uint64, tag = "2")]
    pub quota_of: u64,
}

/// Where an inode hangs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct InodePath {
    /// Inode id of the parent directory.
    #[prost(uint64, tag = "1")]
    pub parent: u64,
    /// Name in the parent.
    #[prost(bytes = "bytes", tag = "2")]
    pub name: bytes::Bytes,
}

/// A block of a file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Block {
    /// Block id = ordinal << 40 | inode id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Generation stamp.
    #[prost(uint64, tag = "2")]
    pub stamp: u64,
    /// Length in bytes.
    #[prost(uint64, tag = "3")]
    pub length: u64,
}

/// A lease holder; `max` = last renewal in ms.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LeaseHolder {
    /// The client's whole name.
    #[prost(string, tag = "1")]
    pub holder: String,
}

/// An open file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OpenFile {
    /// The client's name.
    #[prost(string, tag = "1")]
    pub holder: String,
}

/// The answer of a call, kept for its repeats.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RetryEntry {
    /// When it was answered, ms since the epoch.
    #[prost(int64, tag = "1")]
    pub at_ms: i64,
    /// The encoded answer.
    #[prost(bytes = "bytes", tag = "2")]
    pub answer: bytes::Bytes,
}

/// A live namenode, or one of its lanes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Member {
    /// Drawn once per start, never reused.
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
    /// Counts heartbeats (heartbeat rows only).
    #[prost(uint64, tag = "2")]
    pub heartbeat: u64,
    /// RPC address as clients reach it.
    #[prost(string, tag = "3")]
    pub rpc: String,
    /// HTTP address.
    #[prost(string, tag = "4")]
    pub http: String,
}

/// A setting: a number, a text, or both.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Setting {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// The text.
    #[prost(string, tag = "2")]
    pub text: String,
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn passed_is_the_head_of_an_inode() {
        let file = Inode {
            id: u64::MAX,
            kind: Kind::File as i32,
            mode: 0o1777,
            owner: "o".repeat(300),
            group: "g".into(),
            mtime_ms: -1,
            open: Some(Writer { holder: "h".into(), machine: "m".into() }),
            next_block: 7,
            ..Inode::default()
        };
        for inode in [Inode::default(), Inode { id: ROOT_ID, mode: 0o755, ..Inode::default() }, file] {
            let value = inode.encode_to_vec();
            assert_eq!(Passed::read(&value), Some(Passed::from(&inode)));
        }
        assert_eq!(Passed::read(b"\x22\x05own"), None);
        assert_eq!(Passed::read(b"\x0a\x01x"), None);
    }

    #[test]
    fn reserved_partitions_do_not_overlap() {
        let ranges = [
            ROOT_PARTITION..ROOT_PARTITION + 1,
            child_partitions(ROOT_ID),
            hidden_partitions(),
            lease_holder_partitions(),
            open_file_partitions(),
            retry_partitions(),
            MEMBERS_PARTITION..MEMBERS_PARTITION + 1,
            SETTINGS_PARTITION..SETTINGS_PARTITION + 1,
        ];
        for pair in ranges.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{pair:?}");
        }
        assert!(ranges.iter().all(|r| r.end <= ROOT_ID));
    }

    #[test]
    fn long_holders_get_bounded_distinct_keys() {
        let (a, b) = (format!("{}a", "x".repeat(900)), format!("{}b", "x".repeat(900)));
        assert!(lease_holder(&a).key.fits() && lease_holder(&a).key != lease_holder(&b).key);
    }
}

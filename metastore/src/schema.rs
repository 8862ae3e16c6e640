//! THE schema: every table, its placement, its key and its value. Values are `prost` messages, so fields may be added;
//! they are written only once `settings` carries a format number that knows them.
//!
//! Partition numbers below [`FIRST_FREE_ID`] are reserved, one range per use, and never overlap inode ids.

mod parts;
mod shown;

use prost::encoding::{WireType, decode_key, decode_varint};

pub use self::parts::{command_in, id_in, lane_in, ordinal_in, replica_in, retry_in};
pub use self::shown::Shown;
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
const DATANODES_PARTITION: u64 = 1026;
/// Files whose replicas somebody must see to are spread over this many partitions.
pub const ATTENTION_BUCKETS: u64 = 64;
const ATTENTION_BASE: u64 = 1088;
/// Inode ids stay below this: a block id carries one in its low bits.
pub const MAX_INODE_ID: u64 = 1 << INODE_BITS;
/// Blocks that one file may ever draw: with the inode id below it, a block id is a positive 64-bit number.
pub const MAX_ORDINAL: u32 = 1 << (63 - INODE_BITS);
const INODE_BITS: u32 = 40;
/// Above every inode id: a partition for each storage, and one for each datanode's commands.
const STORAGE_BASE: u64 = 1 << 62;
const COMMAND_BASE: u64 = 1 << 61;

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
    /// Blocks of a file, by ordinal: in the order in which the file got them.
    Blocks = 4, Block, Partitioned, plain;
    /// Replicas of a block, in the partition of the inode that its id names, by (block id, storage).
    Replicas = 5, Replica, Partitioned, plain;
    /// The same replicas by storage: a block report and a dead disk are one scan.
    StorageReplicas = 6, Replica, Partitioned, plain;
    /// Blocks that moved to another file (concat), in the partition of the inode that the id names.
    BlockFiles = 7, BlockFile, Partitioned, plain;
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
    /// Every datanode that ever registered: its address, storages, owner. Written when one of these changes.
    Datanodes = 18, Datanode, Everywhere, plain;
    /// What a datanode is to be told by its owner, by (kind, block id).
    Commands = 19, Command, Partitioned, plain;
    /// Files of which a block may have too few, too many or corrupt replicas, by inode id: a to-do list.
    Attention = 20, Concern, Partitioned, plain;
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

/// The block with the ordinal `ordinal` of the file `id`.
pub fn block(id: u64, ordinal: u32) -> TableKey<Blocks> {
    TableKey::new(id, &ordinal.to_be_bytes())
}

/// The id of the block that a file draws as its `ordinal`-th: a report finds the file by it, without a lookup.
pub fn block_id(inode: u64, ordinal: u32) -> u64 {
    u64::from(ordinal) << INODE_BITS | inode
}

/// The inode and the ordinal in a block's id. After a concat the block is another file's: see [`BlockFiles`].
pub fn parts_of_block(id: u64) -> (u64, u32) {
    (id & (MAX_INODE_ID - 1), (id >> INODE_BITS) as u32)
}

/// The replica of a block on a storage.
pub fn replica(block_id: u64, storage: u32) -> TableKey<Replicas> {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&block_id.to_be_bytes());
    key[8..].copy_from_slice(&storage.to_be_bytes());
    TableKey::new(parts_of_block(block_id).0, &key)
}

/// The same replica, in its storage's partition.
pub fn storage_replica(storage: u32, block_id: u64) -> TableKey<StorageReplicas> {
    TableKey::new(storage_partition(storage), &block_id.to_be_bytes())
}

/// The partition of a storage's replicas.
pub fn storage_partition(storage: u32) -> u64 {
    STORAGE_BASE + u64::from(storage)
}

/// Where a block went that is no longer in the file its id names.
pub fn block_file(block_id: u64) -> TableKey<BlockFiles> {
    TableKey::new(parts_of_block(block_id).0, &block_id.to_be_bytes())
}

/// A datanode by its uuid.
pub fn datanode(uuid: &str) -> TableKey<Datanodes> {
    TableKey::new(DATANODES_PARTITION, &bounded(uuid.as_bytes()))
}

/// The partition of all datanodes.
pub fn datanodes_partition() -> u64 {
    DATANODES_PARTITION
}

/// A command to a datanode about a block. One of each kind: a later one replaces it.
pub fn command(datanode: u32, kind: CommandKind, block_id: u64) -> TableKey<Commands> {
    let mut key = [0; 9];
    key[0] = kind as u8;
    key[1..].copy_from_slice(&block_id.to_be_bytes());
    TableKey::new(command_partition(datanode), &key)
}

/// The partition of a datanode's commands, by its number.
pub fn command_partition(datanode: u32) -> u64 {
    COMMAND_BASE + u64::from(datanode)
}

/// The row that says that a file's replicas need somebody's attention.
pub fn attention(inode: u64) -> TableKey<Attention> {
    TableKey::new(ATTENTION_BASE + id_bucket(inode, ATTENTION_BUCKETS), &inode.to_be_bytes())
}

/// All partitions of [`Attention`].
pub fn attention_partitions() -> std::ops::Range<u64> {
    ATTENTION_BASE..ATTENTION_BASE + ATTENTION_BUCKETS
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
    /// Length of a file in bytes, with what is known of a last block that is being written.
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
    /// Present while the last block is not complete: how much of `length` is its.
    #[prost(uint64, optional, tag = "15")]
    pub unfinished: Option<u64>,
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

/// How far a block has come (stock: `BlockUCState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum BlockState {
    /// Its length is final, and enough replicas have been reported.
    Complete = 0,
    /// A client writes it.
    UnderConstruction = 1,
    /// A recovery finds out how long it is.
    UnderRecovery = 2,
    /// The client has said its final length; replicas are still to be reported.
    Committed = 3,
}

/// A block of a file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Block {
    /// Block id, see [`block_id`].
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Generation stamp: replicas with a lower one are stale.
    #[prost(uint64, tag = "2")]
    pub stamp: u64,
    /// Length in bytes; while it is being written, what is known of it.
    #[prost(uint64, tag = "3")]
    pub length: u64,
    /// How far it has come.
    #[prost(enumeration = "BlockState", tag = "4")]
    pub state: i32,
    /// The highest stamp given out for it; pipelines and recoveries take the next one. Never below `stamp`.
    #[prost(uint64, tag = "5")]
    pub last_stamp: u64,
    /// The storages of the pipeline that writes it, in order. Once it is complete: those of the pipeline that had not told
    /// of their replicas by then.
    #[prost(uint32, repeated, tag = "6")]
    pub expected: Vec<u32>,
    /// Present while a recovery runs.
    #[prost(message, optional, tag = "7")]
    pub recovery: Option<Recovery>,
}

/// The recovery of a block: one datanode, the primary, is asked to agree with the others on a length.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Recovery {
    /// The stamp that the block will have; an answer with another one comes too late.
    #[prost(uint64, tag = "1")]
    pub stamp: u64,
    /// When it was last asked for, ms since the epoch.
    #[prost(int64, tag = "2")]
    pub started_ms: i64,
    /// The number of the datanode that was asked.
    #[prost(uint32, tag = "3")]
    pub primary: u32,
    /// For a truncate: the length that the block is cut to.
    #[prost(uint64, optional, tag = "4")]
    pub cut_to: Option<u64>,
}

/// What a datanode says of a replica (stock: `ReplicaState`, with its numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ReplicaState {
    /// Whole.
    Finalized = 0,
    /// Being written.
    BeingWritten = 1,
    /// Was being written when its datanode restarted.
    WaitingToBeRecovered = 2,
    /// A recovery works on it.
    UnderRecovery = 3,
    /// Being copied from another datanode.
    Temporary = 4,
}

/// What a datanode was told to do about its replica, and has not said to have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Ordered {
    /// Nothing.
    Nothing = 0,
    /// It is to be deleted: nobody counts on it any more.
    Deletion = 1,
    /// It is to be copied to here: it does not exist yet.
    Copy = 2,
}

/// A replica as its datanode last reported it. Whether it is valid is decided by who reads it beside its block.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Replica {
    /// Generation stamp.
    #[prost(uint64, tag = "1")]
    pub stamp: u64,
    /// Length in bytes.
    #[prost(uint64, tag = "2")]
    pub length: u64,
    /// What state it is in.
    #[prost(enumeration = "ReplicaState", tag = "3")]
    pub state: i32,
    /// Somebody met a checksum error in it.
    #[prost(bool, tag = "4")]
    pub corrupt: bool,
    /// When it was last reported as new or changed, ms since the epoch: a full report that was begun earlier does not
    /// remove it.
    #[prost(int64, tag = "5")]
    pub reported_ms: i64,
    /// What was ordered, if it has not come about yet.
    #[prost(enumeration = "Ordered", tag = "6")]
    pub ordered: i32,
    /// When that was ordered, ms since the epoch. With nothing ordered: when a deletion was taken back, 0 = never.
    #[prost(int64, tag = "7")]
    pub ordered_ms: i64,
}

/// Where a block went that another file took over.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BlockFile {
    /// The inode that has it now.
    #[prost(uint64, tag = "1")]
    pub inode: u64,
    /// Its ordinal there.
    #[prost(uint32, tag = "2")]
    pub ordinal: u32,
}

/// A datanode that registered.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Datanode {
    /// Its own uuid.
    #[prost(string, tag = "1")]
    pub uuid: String,
    /// Its number: drawn once, never reused.
    #[prost(uint32, tag = "2")]
    pub number: u32,
    /// IP address as seen by the namenode that registered it.
    #[prost(string, tag = "3")]
    pub ip: String,
    /// Host name as it says.
    #[prost(string, tag = "4")]
    pub host: String,
    /// Port for data.
    #[prost(uint32, tag = "5")]
    pub data_port: u32,
    /// HTTP port.
    #[prost(uint32, tag = "6")]
    pub http_port: u32,
    /// HTTPS port; 0 = none.
    #[prost(uint32, tag = "7")]
    pub https_port: u32,
    /// Port for RPC.
    #[prost(uint32, tag = "8")]
    pub ipc_port: u32,
    /// Version of its software.
    #[prost(string, tag = "9")]
    pub version: String,
    /// The namenode whose commands it obeys and which applies its reports: its member id; 0 = none.
    #[prost(uint64, tag = "10")]
    pub owner: u64,
    /// Grows whenever the owner changes: the txid with which the owner answers ACTIVE.
    #[prost(uint64, tag = "11")]
    pub epoch: u64,
    /// Its storages.
    #[prost(message, repeated, tag = "12")]
    pub storages: Vec<Storage>,
    /// Grows with every write of the row: of two copies of it the one with more is the later.
    #[prost(uint64, tag = "13")]
    pub changes: u64,
}

/// A storage of a datanode: one of its directories.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Storage {
    /// Its uuid.
    #[prost(string, tag = "1")]
    pub uuid: String,
    /// Its number: drawn once, never reused. From the same counter as datanodes' numbers.
    #[prost(uint32, tag = "2")]
    pub number: u32,
    /// What it is made of: a number of `StorageTypeProto`.
    #[prost(int32, tag = "3")]
    pub kind: i32,
    /// It failed, or is no longer reported: its replicas do not count.
    #[prost(bool, tag = "4")]
    pub failed: bool,
    /// A leader found that its replicas do not count, and none has noted their files since they count again: there may be
    /// copies in their place.
    #[prost(bool, tag = "5")]
    pub counted_out: bool,
}

/// What a datanode can be told about a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum CommandKind {
    /// Delete its replica.
    Invalidate = 1,
    /// Copy its replica to other datanodes.
    Transfer = 2,
    /// Recover the block, as the primary.
    Recover = 3,
}

/// A command to a datanode; its kind and block id are in the key.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Command {
    /// The block's generation stamp; for Recover the new one.
    #[prost(uint64, tag = "1")]
    pub stamp: u64,
    /// The block's length in bytes.
    #[prost(uint64, tag = "2")]
    pub length: u64,
    /// The storages concerned: Invalidate: where it is deleted; Transfer: to where; Recover: which take part.
    #[prost(uint32, repeated, tag = "3")]
    pub storages: Vec<u32>,
    /// Invalidate: the file is gone, nobody needs to hear of it again.
    #[prost(bool, tag = "4")]
    pub silent: bool,
    /// Recover: the block's stamp before.
    #[prost(uint64, tag = "5")]
    pub old_stamp: u64,
    /// Recover, for a truncate: the length that the block is cut to.
    #[prost(uint64, optional, tag = "6")]
    pub cut_to: Option<u64>,
    /// When it was given, ms since the epoch.
    #[prost(int64, tag = "7")]
    pub given_ms: i64,
}

/// Why a file's replicas need attention: as they were found last.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Concern {
    /// Since when, ms since the epoch.
    #[prost(int64, tag = "1")]
    pub since_ms: i64,
    /// Blocks with fewer live replicas than the file wants, but some.
    #[prost(uint32, tag = "2")]
    pub under_replicated: u32,
    /// Blocks without any live valid replica.
    #[prost(uint32, tag = "3")]
    pub missing: u32,
    /// Blocks with a corrupt replica.
    #[prost(uint32, tag = "4")]
    pub corrupt: u32,
    /// Blocks with more replicas than the file wants.
    #[prost(uint32, tag = "5")]
    pub excess: u32,
    /// Blocks that a copy or a deletion of a replica was ordered for, and has not come about.
    #[prost(uint32, tag = "6")]
    pub ordered: u32,
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
    fn keys_both_ways() {
        assert_eq!(id_in(attention(77).key.rest()), Some(77));
        assert_eq!(id_in(storage_replica(3, 1 << 41).key.rest()), Some(1 << 41));
        assert_eq!(ordinal_in(block(20_000, 9).key.rest()), Some(9));
        assert_eq!(replica_in(replica(1 << 41, 3).key.rest()), Some((1 << 41, 3)));
        let key = command(5, CommandKind::Transfer, 1 << 41);
        assert_eq!(command_in(key.key.rest()), Some((CommandKind::Transfer, 1 << 41)));
        assert_eq!(lane_in(member_lane(7, 2).key.rest()), Some((7, 2)));
        assert_eq!(retry_in(retry_entry(&[4; 16], -1).key.rest()), Some(([4; 16], -1)));
        // Keys of other lengths, and a kind that is none.
        for rest in [&[][..], &[0; 7], &[9; 9], &[0; 13], &[0; 25]] {
            assert_eq!((id_in(rest), ordinal_in(rest), replica_in(rest)), (None, None, None));
            assert_eq!((command_in(rest), retry_in(rest)), (None, None));
        }
    }

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
            DATANODES_PARTITION..DATANODES_PARTITION + 1,
            attention_partitions(),
        ];
        for pair in ranges.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{pair:?}");
        }
        assert!(ranges.iter().all(|r| r.end <= ROOT_ID));
        let above = [MAX_INODE_ID, command_partition(0), command_partition(u32::MAX), storage_partition(0)];
        assert!(above.is_sorted_by(|a, b| a < b), "{above:?}");
        assert!(storage_partition(u32::MAX) <= i64::MAX as u64);
    }

    #[test]
    fn a_block_id_is_a_positive_number_that_names_its_file() {
        for (inode, ordinal) in [(FIRST_FREE_ID, 0), (MAX_INODE_ID - 1, MAX_ORDINAL - 1), (ROOT_ID, 1)] {
            let id = block_id(inode, ordinal);
            assert_eq!(parts_of_block(id), (inode, ordinal));
            assert!(id > 0 && id <= i64::MAX as u64);
        }
    }

    #[test]
    fn long_holders_get_bounded_distinct_keys() {
        let (a, b) = (format!("{}a", "x".repeat(900)), format!("{}b", "x".repeat(900)));
        assert!(lease_holder(&a).key.fits() && lease_holder(&a).key != lease_holder(&b).key);
    }
}

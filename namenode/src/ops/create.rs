//! create — ClientProtocol.create                              (Java: FSDirWriteFileOp.startFile)
//!
//! Held    the parent is merged; the name and the new ids must be absent. What it overwrites is deleted as by delete.
//!         A file that another has open: its holder's lease row, unchanged, when the file is closed for good.
//! Rows    inodes 1w · inode_paths 1w · open_files 1w · dir_stats 1m · lease_holders 1m · retry_cache 1w; per parent
//!         made on the way as mkdirs; what it overwrites: as delete.
//! Cost    warm: 1 fetch + 1 commit; onto a name that another has open, without OVERWRITE: 1 fetch more.
//! Differs none.

use trellis_metastore::schema::{Inode, Kind as InodeKind, OpenFile, Writer, lease_holder, open_file};

use super::entries::{count_child, insert_inode, make_directories, remove_entry, uncount_child};
use super::lease::{TakenOver, join_lease, take_over};
use super::mkdirs::IMPLICIT_UWX;
use super::status::FileStatus;
use crate::engine::permission::{Demand, MODE_BITS, WRITE};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Node, Target, Walked};
use crate::path::{INODES, Path, RAW};
use crate::policy;
use crate::refusal::{Halt, Kind, Result, RpcError, refuse};

/// How a file is created: stock's `CreateFlag`. APPEND and NEW_BLOCK mean nothing to `create`, as in stock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateFlags {
    /// The file may be new.
    pub create: bool,
    /// An existing file is replaced.
    pub overwrite: bool,
    /// Its blocks stay in memory for a while.
    pub lazy_persist: bool,
    /// Replicated even where the directory says otherwise.
    pub should_replicate: bool,
}

impl CreateFlags {
    /// From the bits of `CreateFlagProto`; unknown ones are ignored, as in stock.
    pub fn from_bits(bits: u32) -> CreateFlags {
        let has = |bit: u32| bits & bit != 0;
        CreateFlags { create: has(1), overwrite: has(2), lazy_persist: has(16), should_replicate: has(128) }
    }
}

/// Arguments of [`create`].
#[derive(Clone, Debug)]
pub struct Create {
    /// The file.
    pub path: Path,
    /// Its mode, umask applied.
    pub mode: u32,
    /// The client's name: it becomes the lease holder.
    pub holder: String,
    /// How.
    pub flags: CreateFlags,
    /// Whether missing parents are made too.
    pub create_parent: bool,
    /// Replicas of each block.
    pub replication: u32,
    /// Preferred block size in bytes.
    pub block_size: u64,
    /// Name of an erasure coding policy; empty = none was asked for.
    pub ec_policy: String,
    /// Name of a storage policy; empty = none was asked for.
    pub storage_policy: String,
}

impl Create {
    /// How many inode ids the call may use: the file's and those of missing parents.
    pub fn ids(&self) -> u64 {
        match self.create_parent {
            true => self.path.components().len().max(1) as u64,
            false => 1,
        }
    }
}

/// Creates a file and opens it for writing; answers its status.
pub fn create(tx: &mut Tx<'_, '_>, call: &Create) -> Result<FileStatus> {
    call.path.check_length("create")?;
    check_path(&call.path)?;
    if call.flags.should_replicate && !call.ec_policy.is_empty() {
        let why = "SHOULD_REPLICATE flag and ecPolicyName are exclusive parameters. Set both is not allowed!";
        return refuse(Kind::HadoopIllegalArgument, why);
    }
    tx.want(&lease_holder(&call.holder));
    let target = Target::new(&call.path, DirOp::Create).with_parent_stat().with_path();
    let mut walked = tx.walk_one(target)?;
    tx.check(&walked, Demand { ancestor: WRITE, ..Demand::default() })?;
    check_target(tx, &walked, call)?;
    check_numbers(tx, call)?;
    if let Some(old) = walked.target().cloned() {
        if !call.flags.overwrite {
            return refuse_existing(tx, &walked, &old, call);
        }
        let parent = parent_of(&walked)?;
        remove_entry(tx, &old, 0)?;
        uncount_child(tx, &parent)?;
        walked.pop();
    }
    let node = add_file(tx, &mut walked, call)?;
    join_lease(tx, &call.holder)?;
    FileStatus::of(tx, node, bytes::Bytes::new())
}

/// What stock refuses by the text of the path alone.
fn check_path(path: &Path) -> Result<()> {
    let below = path.components().get(1).map(|name| name.as_ref());
    let reserved = path.is_reserved() && !matches!(below, Some(INODES | RAW));
    if reserved || path.check_new().is_err() {
        return refuse(Kind::InvalidPath, format!("Invalid path name {}", path.text()));
    }
    Ok(())
}

/// Whether what stands at the path, or does not, lets the caller create a file there.
fn check_target(tx: &Tx<'_, '_>, walked: &Walked, call: &Create) -> Result<()> {
    let depth = walked.path.components().len();
    match walked.target() {
        Some(node) if node.is_dir() => refuse(
            Kind::FileAlreadyExists,
            format!("{} already exists as a directory", walked.path_of(depth)),
        ),
        Some(_) if call.flags.overwrite => tx.check(walked, Demand { target: WRITE, ..Demand::default() }),
        Some(_) => Ok(()),
        None if !call.create_parent && walked.missing() > 1 => refuse(
            Kind::FileNotFound,
            format!("Parent directory doesn't exist: {}", walked.path_of(depth - 1)),
        ),
        None if !call.flags.create => {
            refuse(Kind::FileNotFound, format!("Can't overwrite non-existent {}", call.path.text()))
        }
        None => Ok(()),
    }
}

/// Block size, replication, policies.
fn check_numbers(tx: &Tx<'_, '_>, call: &Create) -> Result<()> {
    let least = tx.ctx.config.min_block_bytes;
    if call.block_size < least {
        let why = format!(
            "Specified block size {} is less than configured minimum value \
             dfs.namenode.fs-limits.min-block-size={least}",
            call.block_size
        );
        return refuse(Kind::Io, why);
    }
    if !call.ec_policy.is_empty() {
        let why = format!(
            "Policy '{}' does not match any enabled erasure coding policies: []. An erasure coding policy can be \
             enabled by enableErasureCodingPolicy API.",
            call.ec_policy
        );
        return refuse(Kind::HadoopIllegalArgument, why);
    }
    check_replication(tx, call.replication, call.path.text(), Some(&tx.ctx.machine))
}

/// Whether a replication keeps the limits; `client` is for the message.
pub(super) fn check_replication(
    tx: &Tx<'_, '_>,
    replication: u32,
    path: &str,
    client: Option<&str>,
) -> Result<()> {
    let config = &tx.ctx.config;
    let limit = match replication {
        r if r > config.max_replication => format!("exceeds maximum of {}", config.max_replication),
        r if r < config.min_replication => {
            format!("is less than the required minimum of {}", config.min_replication)
        }
        _ => return Ok(()),
    };
    let client = client.map(|name| format!(", clientName={name}")).unwrap_or_default();
    refuse(Kind::Io, format!("Requested replication factor of {replication} {limit} for {path}{client}"))
}

/// A file is there and must not be replaced. One whose writer is past the soft limit is closed all the same.
fn refuse_existing(tx: &mut Tx<'_, '_>, walked: &Walked, old: &Node, call: &Create) -> Result<FileStatus> {
    let path = walked.path_of(walked.path.components().len());
    let why = format!("{path} for client {} already exists", tx.ctx.machine);
    let exists = RpcError::new(Kind::FileAlreadyExists, why);
    match take_over(tx, "CREATE_FILE", &path, old, &call.holder)? {
        TakenOver::Closed(..) => Err(Halt::RefusedAfter(exists)),
        TakenOver::WasClosed => Err(Halt::Refused(exists)),
    }
}

fn parent_of(walked: &Walked) -> Result<Node> {
    match walked.parent() {
        Some(parent) => Ok(parent.clone()),
        None => refuse(Kind::Io, format!("Unable to add {} to namespace", walked.path.text())),
    }
}

/// Makes missing parents, counts the file in its parent, writes its rows.
fn add_file(tx: &mut Tx<'_, '_>, walked: &mut Walked, call: &Create) -> Result<Node> {
    let depth = walked.path.components().len();
    let first_new = walked.present();
    let made = depth.saturating_sub(first_new) as u64;
    if made > 0 {
        // Copied from the nearest ancestor, and passable for their maker.
        let mode = walked.last().inode.mode & 0o777 | IMPLICIT_UWX;
        make_directories(tx, walked, depth - 1, |_| mode, 1)?;
    }
    let parent = parent_of(walked)?;
    let (parent_path, name) = (walked.path_of(depth - 1), walked.path.name());
    super::entries::check_name(tx, &parent, &parent_path, &name)?;
    if made == 0 {
        count_child(tx, &parent, &parent_path)?;
    }
    let policy = match (call.flags.lazy_persist, call.storage_policy.as_str()) {
        (true, _) => policy::LAZY_PERSIST,
        (false, "") => policy::UNSPECIFIED,
        (false, name) => policy::by_name(name)?.id,
    };
    let inode = Inode {
        id: tx.ctx.new_id(made)?,
        kind: InodeKind::File as i32,
        mode: call.mode & MODE_BITS,
        owner: tx.ctx.user.name.clone(),
        group: parent.inode.group.clone(),
        mtime_ms: tx.ctx.now_ms,
        atime_ms: tx.ctx.now_ms,
        replication: call.replication,
        block_size: call.block_size,
        policy,
        open: Some(Writer { holder: call.holder.clone(), machine: tx.ctx.machine.to_string() }),
        ..Inode::default()
    };
    let node = Node { parent: parent.id(), name, inode };
    insert_inode(tx, &node)?;
    tx.insert(&open_file(node.id()), &OpenFile { holder: call.holder.clone() })?;
    Ok(node)
}

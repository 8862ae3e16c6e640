//! THE table of what the stock NameNode (3.4.2) writes after `cmd=`: what replays it, or why it is not replayed.
//!
//! A command is replayed when its line says all that the call needs, or all that matters of it, and when it concerns
//! nothing but the paths that it names.

use crate::mix::{APPEND, CREATE};
use crate::record::Key;

/// A command that is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // They are the table's lines.
pub enum Command {
    Open,
    GetFileInfo,
    ListStatus,
    ContentSummary,
    QuotaUsage,
    IsFileClosed,
    CheckAccess,
    GetAclStatus,
    GetXAttrs,
    ListXAttrs,
    GetEzForPath,
    GetEcPolicy,
    Create,
    Append,
    Truncate,
    Concat,
    Mkdirs,
    Rename,
    RenameOptions,
    Delete,
    SetPermission,
    SetOwner,
    SetTimes,
    SetReplication,
    UnsetStoragePolicy,
    RemoveAcl,
    RemoveDefaultAcl,
}

/// What a line that was allowed says about its path, as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// Nothing for sure: the line looks the same when there is nothing. If there was something, it was of this kind.
    Perhaps(Kind),
    /// It was there; of this kind, if no other line says another.
    Was(Kind),
    /// It was there, and of this kind: namenodes refuse others.
    Is(Kind),
    /// It is there now, and what is above it. Another line says whether it was before.
    Makes(Kind),
    /// It was there and is no more, nor is anything below it.
    Removes,
    /// It was there and has the second path now.
    Moves,
    /// All were there; what the brackets name is no more.
    Joins,
}

/// Of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    File,
    Directory,
}

/// How a command is replayed.
#[derive(Debug)]
pub struct Row {
    /// Which.
    pub command: Command,
    /// By stock's name.
    pub name: &'static str,
    /// The calls that replay it, in order.
    pub calls: &'static [&'static str],
    /// It changes its path; else it only reads it.
    pub changes: bool,
    /// What follows from a line that was allowed.
    pub says: Says,
}

use Kind::{Directory, File};
use Says::{Is, Joins, Makes, Moves, Perhaps, Removes, Was};

/// All that are replayed, in the order of [`Command`]. What a line does not say is this: a listing begins at its start, a
/// file is replaced, what is above it is made, a deletion takes what is below, access is for reading, a file is cut to
/// nothing, times are the line's own, and copies are as many as the namenode suggests.
#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    Row { command: Command::Open,               name: "open",                   calls: &["getBlockLocations"],      changes: false, says: Is(File) },
    Row { command: Command::GetFileInfo,        name: "getfileinfo",            calls: &["getFileInfo"],            changes: false, says: Perhaps(File) },
    Row { command: Command::ListStatus,         name: "listStatus",             calls: &["getListing"],             changes: false, says: Perhaps(Directory) },
    Row { command: Command::ContentSummary,     name: "contentSummary",         calls: &["getContentSummary"],      changes: false, says: Was(Directory) },
    Row { command: Command::QuotaUsage,         name: "quotaUsage",             calls: &["getQuotaUsage"],          changes: false, says: Is(Directory) },
    Row { command: Command::IsFileClosed,       name: "isFileClosed",           calls: &["isFileClosed"],           changes: false, says: Is(File) },
    Row { command: Command::CheckAccess,        name: "checkAccess",            calls: &["checkAccess"],            changes: false, says: Was(File) },
    Row { command: Command::GetAclStatus,       name: "getAclStatus",           calls: &["getAclStatus"],           changes: false, says: Was(File) },
    Row { command: Command::GetXAttrs,          name: "getXAttrs",              calls: &["getXAttrs"],              changes: false, says: Was(File) },
    Row { command: Command::ListXAttrs,         name: "listXAttrs",             calls: &["listXAttrs"],             changes: false, says: Was(File) },
    Row { command: Command::GetEzForPath,       name: "getEZForPath",           calls: &["getEZForPath"],           changes: false, says: Perhaps(File) },
    Row { command: Command::GetEcPolicy,        name: "getErasureCodingPolicy", calls: &["getErasureCodingPolicy"], changes: false, says: Was(File) },
    Row { command: Command::Create,             name: "create",                 calls: CREATE,                     changes: true,  says: Makes(File) },
    Row { command: Command::Append,             name: "append",                 calls: APPEND,                     changes: true,  says: Is(File) },
    Row { command: Command::Truncate,           name: "truncate",               calls: &["truncate"],               changes: true,  says: Is(File) },
    Row { command: Command::Concat,             name: "concat",                 calls: &["concat"],                 changes: true,  says: Joins },
    Row { command: Command::Mkdirs,             name: "mkdirs",                 calls: &["mkdirs"],                 changes: true,  says: Makes(Directory) },
    Row { command: Command::Rename,             name: "rename",                 calls: &["rename"],                 changes: true,  says: Moves },
    Row { command: Command::RenameOptions,      name: "rename (options)",       calls: &["rename2"],                changes: true,  says: Moves },
    Row { command: Command::Delete,             name: "delete",                 calls: &["delete"],                 changes: true,  says: Removes },
    Row { command: Command::SetPermission,      name: "setPermission",          calls: &["setPermission"],          changes: true,  says: Was(File) },
    Row { command: Command::SetOwner,           name: "setOwner",               calls: &["setOwner"],               changes: true,  says: Was(File) },
    Row { command: Command::SetTimes,           name: "setTimes",               calls: &["setTimes"],               changes: true,  says: Was(File) },
    Row { command: Command::SetReplication,     name: "setReplication",         calls: &["setReplication"],         changes: true,  says: Is(File) },
    Row { command: Command::UnsetStoragePolicy, name: "unsetStoragePolicy",     calls: &["unsetStoragePolicy"],     changes: true,  says: Was(File) },
    Row { command: Command::RemoveAcl,          name: "removeAcl",              calls: &["removeAcl"],              changes: true,  says: Was(File) },
    Row { command: Command::RemoveDefaultAcl,   name: "removeDefaultAcl",       calls: &["removeDefaultAcl"],       changes: true,  says: Was(Directory) },
];

/// All others, by why they are not replayed.
pub const SKIPPED: &[(&str, &[&str])] = &[
    (
        "the log does not say what was set",
        &[
            "addCacheDirective",
            "addCachePool",
            "clearQuota",
            "clearSpaceQuota",
            "createEncryptionZone",
            "modifyAclEntries",
            "modifyCacheDirective",
            "modifyCachePool",
            "removeAclEntries",
            "removeCacheDirective",
            "removeCachePool",
            "removeXAttr",
            "satisfyStoragePolicy",
            "setAcl",
            "setErasureCodingPolicy",
            "setQuota",
            "setSpaceQuota",
            "setStoragePolicy",
            "setXAttr",
            "unsetErasureCodingPolicy",
        ],
    ),
    (
        "it concerns the whole cluster",
        &[
            "addErasureCodingPolicies",
            "checkRestoreFailedStorage",
            "datanodeReport",
            "disableErasureCodingPolicy",
            "disableRestoreFailedStorage",
            "enableErasureCodingPolicy",
            "enableRestoreFailedStorage",
            "endCheckpoint",
            "errorReport",
            "finalizeRollingUpgrade",
            "finalizeUpgrade",
            "gcDeletedSnapshot",
            "getBlockKeys",
            "getBlocks",
            "getCurrentEditLogTxid",
            "getDatanodeStorageReport",
            "getECTopologyResultForPolicies",
            "getEditLogManifest",
            "getEditsFromTxid",
            "getErasureCodingCodecs",
            "getErasureCodingPolicies",
            "getMostRecentCheckpointTxId",
            "getNamenodeReconfigurationStatus",
            "getNextSPSPath",
            "getTransactionID",
            "isRollingUpgrade",
            "isUpgradeFinalized",
            "listCacheDirectives",
            "listCachePools",
            "listCorruptFileBlocks",
            "listEncryptionZones",
            "listNamenodeReconfigurableProperties",
            "listOpenFiles",
            "listReencryptionStatus",
            "listSnapshottableDirectory",
            "metaSave",
            "queryRollingUpgrade",
            "reencryptEncryptionZone",
            "refreshCallQueue",
            "refreshNodes",
            "refreshServiceAcl",
            "refreshSuperUserGroupsConfiguration",
            "refreshUserToGroupsMappings",
            "registerSubordinateNamenode",
            "removeErasureCodingPolicy",
            "rollEditLog",
            "safemode_enter",
            "safemode_force_exit",
            "safemode_get",
            "safemode_leave",
            "saveNamespace",
            "setBalancerBandwidth",
            "slowDataNodesReport",
            "startCheckpoint",
            "startNamenodeReconfiguration",
            "startRollingUpgrade",
        ],
    ),
    (
        "snapshots are not replayed",
        &[
            "ListSnapshot",
            "allowSnapshot",
            "computeSnapshotDiff",
            "createSnapshot",
            "deleteSnapshot",
            "disallowSnapshot",
            "renameSnapshot",
        ],
    ),
    ("symbolic links are off in HDFS", &["createSymlink"]),
    (
        "there are no tokens without security",
        &["cancelDelegationToken", "getDelegationToken", "renewDelegationToken"],
    ),
    ("it is no call: fsck goes over HTTP", &["fsck"]),
];

/// Of commands in neither table.
pub const UNKNOWN: &str = "the command is not known";

/// How a command is replayed, which may have options in parentheses.
///
/// # Errors
/// Why it is not.
pub fn find(name: &str, options: &str) -> Result<&'static Row, &'static str> {
    let row = COMMANDS.iter().find(|row| row.name == name).map(|row| match row.command {
        Command::Rename if !options.is_empty() => Command::RenameOptions.row(),
        _ => row,
    });
    let why = || SKIPPED.iter().find(|(_, names)| names.contains(&name)).map_or(UNKNOWN, |(why, _)| *why);
    row.ok_or_else(why)
}

/// What may stand in the parentheses of a rename (Java: Options.Rename).
pub const OPTIONS: [&str; 3] = ["NONE", "OVERWRITE", "TO_TRASH"];

/// Whether a command is in one of the tables.
pub fn is_known(name: &str) -> bool {
    find(name, "") != Err(UNKNOWN)
}

impl Command {
    /// Its line in the table.
    pub fn row(self) -> &'static Row {
        &COMMANDS[self as usize]
    }

    /// Only who owns the path may, or the superuser.
    pub fn is_for_owners(self) -> bool {
        matches!(
            self,
            Command::SetPermission | Command::SetOwner | Command::RemoveAcl | Command::RemoveDefaultAcl
        )
    }
}

impl Key for Command {
    fn name(self) -> &'static str {
        self.row().name
    }

    fn calls(self) -> &'static [&'static str] {
        self.row().calls
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.command == other.command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_stands_at_its_place() {
        for (index, row) in COMMANDS.iter().enumerate() {
            assert_eq!(row.command as usize, index);
            for call in row.calls {
                let methods = trellis_proto::hdfs::client_namenode_protocol::SERVICE.methods;
                assert!(methods.iter().any(|method| method.name == *call), "{call}");
            }
        }
    }

    #[test]
    fn every_name_stands_in_one_table_once() {
        let skipped = SKIPPED.iter().flat_map(|(_, names)| names.iter().copied());
        let mut names: Vec<&str> = COMMANDS.iter().map(|row| row.name).chain(skipped).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert_eq!(find("setAcl", "").map(|row| row.name), Err("the log does not say what was set"));
        assert_eq!(find("rename", "NONE").map(|row| row.calls), Ok(&["rename2"][..]));
        assert!(is_known("fsck") && !is_known("sleep"));
    }
}

//! format — trellis store init                                 (Java: NameNode.format)
//!
//! Held    the settings and the root must be absent: all are written in one commit, or none.
//! Rows    settings 3w · inodes 1w · dir_stats 1w.
//! Cost    1 fetch + 1 commit.
//! Differs none.

use trellis_metastore::change::Hold;
use trellis_metastore::schema::{
    DirStat, FIRST_FREE_ID, FORMAT, Inode, Kind as InodeKind, ROOT_ID, Setting, root_inode, root_stat,
    setting,
};

use crate::engine::NEXT_INODE_ID;
use crate::engine::tx::Tx;
use crate::refusal::{Kind, Result, refuse};
use crate::user::check_name;

/// The setting that holds the cluster id.
pub const CLUSTER_ID: &str = "cluster_id";
/// The setting that holds the format number of the rows.
pub const FORMAT_NUMBER: &str = "format";

/// Arguments of [`format`].
#[derive(Clone, Debug)]
pub struct Format {
    /// The cluster id to write; an existing store must have the same, if one was asked for.
    pub cluster_id: String,
    /// Whether `cluster_id` was asked for, rather than drawn.
    pub cluster_id_given: bool,
    /// Owner of the root directory.
    pub superuser: String,
    /// Group of the root directory.
    pub supergroup: String,
}

/// Makes an empty namespace. Answers the store's cluster id, `number` = 1 when it was made now, 0 when it was there.
pub fn format(tx: &mut Tx<'_, '_>, call: &Format) -> Result<Setting> {
    check_name("cluster", &call.cluster_id)?;
    check_name("group", &call.supergroup)?;
    let id_key = setting(CLUSTER_ID);
    let keys = [id_key.clone(), setting(FORMAT_NUMBER), setting(NEXT_INODE_ID)];
    tx.want(&root_inode());
    tx.want(&root_stat());
    let found = tx.get_all(&keys, Hold::Loose)?;
    let root = tx.get(&root_inode(), Hold::Loose)?;
    tx.get(&root_stat(), Hold::Loose)?;
    if let Some(existing) = &found[0] {
        if call.cluster_id_given && existing.value.text != call.cluster_id {
            let why = format!(
                "the store belongs to cluster {}, not {}: nothing was changed; give the right id, or another store",
                existing.value.text, call.cluster_id
            );
            return refuse(Kind::Io, why);
        }
        if root.is_none() || found.iter().any(Option::is_none) {
            return refuse(
                Kind::Io,
                "the store is only partly formatted: nothing was changed; run 'trellis store check'",
            );
        }
        return Ok(Setting { number: 0, text: existing.value.text.clone() });
    }
    tx.insert(&id_key, &Setting { number: 0, text: call.cluster_id.clone() })?;
    tx.insert(&keys[1], &Setting { number: u64::from(FORMAT), text: String::new() })?;
    tx.insert(&keys[2], &Setting { number: FIRST_FREE_ID, text: String::new() })?;
    let inode = Inode {
        id: ROOT_ID,
        kind: InodeKind::Directory as i32,
        mode: 0o755,
        owner: call.superuser.clone(),
        group: call.supergroup.clone(),
        ..Inode::default()
    };
    tx.insert(&root_inode(), &inode)?;
    tx.insert_counted(&root_stat(), &DirStat { id: ROOT_ID, quota_of: 0 }, tx.ctx.now_ms, 0)?;
    Ok(Setting { number: 1, text: call.cluster_id.clone() })
}

//! What clients see of an inode.

use bytes::Bytes;
use trellis_metastore::change::Hold;
use trellis_metastore::schema::Inode;

use crate::engine::tx::Tx;
use crate::engine::walk::Node;
use crate::refusal::Result;

/// A file or directory as clients see it.
#[derive(Clone, Debug, PartialEq)]
pub struct FileStatus {
    /// The name in its directory; empty for the path that was asked for itself.
    pub name: Bytes,
    /// The row.
    pub inode: Inode,
    /// Modification time, ms since the epoch; a directory's comes from its counters.
    pub mtime_ms: i64,
    /// Children of a directory; 0 for a file.
    pub children: i64,
}

impl FileStatus {
    /// The status of a resolved inode; reads a directory's counters.
    pub fn of(tx: &mut Tx<'_, '_>, node: &Node, name: Bytes) -> Result<FileStatus> {
        let (mtime_ms, children) = match node.is_dir() {
            true => {
                let stat = tx.stat_of(node, Hold::Loose)?;
                (stat.max, stat.add)
            }
            false => (node.inode.mtime_ms, 0),
        };
        Ok(FileStatus { name, inode: node.inode.clone(), mtime_ms, children })
    }
}

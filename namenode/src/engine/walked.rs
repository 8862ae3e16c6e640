//! What a path was resolved to.

use bytes::Bytes;
use smallvec::SmallVec;
use trellis_metastore::schema::{
    DirStats, Inode, Inodes, ROOT_ID, TableKey, dir_stat, inode, root_inode, root_stat,
};

use crate::path::Path;

/// Ids of the first inodes of a path, the root's first.
pub(super) type Ids = SmallVec<[u64; 16]>;

/// An inode on a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The parent's id; 0 for the root.
    pub parent: u64,
    /// The name in the parent; empty for the root.
    pub name: Bytes,
    /// The row.
    pub inode: Inode,
}

impl Node {
    /// Inode id.
    pub fn id(&self) -> u64 {
        self.inode.id
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.inode.is_dir()
    }

    /// Whether it is the root.
    pub fn is_root(&self) -> bool {
        self.inode.id == ROOT_ID
    }

    /// The key of its inode row.
    pub fn key(&self) -> TableKey<Inodes> {
        if self.is_root() { root_inode() } else { inode(self.parent, &self.name) }
    }

    /// The key of its counters.
    pub fn stat_key(&self) -> TableKey<DirStats> {
        if self.is_root() { root_stat() } else { dir_stat(self.parent, &self.name) }
    }
}

/// A resolved path. Its inodes are counted from the root, which is number 0; the path's n-th component names number n.
#[derive(Clone, Debug)]
pub struct Walked {
    /// The path from the root (a path by inode id is resolved to this).
    pub path: Path,
    /// The ids of the first inodes: directories that the caller may search, of which nothing else was needed.
    passed: Ids,
    /// The others that exist: at least one.
    nodes: Vec<Node>,
}

impl Walked {
    /// Past the directories `passed`, which the caller may search, `nodes` exist: at least one.
    pub(super) fn new(path: Path, passed: Ids, nodes: Vec<Node>) -> Walked {
        Walked { path, passed, nodes }
    }

    /// How many inodes exist: at least the root, at most one more than the path has components.
    pub fn present(&self) -> usize {
        self.passed.len() + self.nodes.len()
    }

    /// An inode that exists, unless it was but passed.
    pub fn node(&self, number: usize) -> Option<&Node> {
        self.nodes.get(number.checked_sub(self.passed.len())?)
    }

    /// Those that exist and were not but passed, with their numbers.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        (self.passed.len()..).zip(&self.nodes)
    }

    /// The keys of all inode rows that exist.
    pub(super) fn keys(&self) -> Vec<TableKey<Inodes>> {
        let below = self.passed.iter().zip(self.path.components()).map(|(id, name)| inode(*id, name));
        let passed = std::iter::once(root_inode()).chain(below).take(self.passed.len());
        passed.chain(self.nodes.iter().map(Node::key)).collect()
    }

    /// The inode of the last component, if it exists.
    pub fn target(&self) -> Option<&Node> {
        self.node(self.path.components().len())
    }

    /// The same, taken out.
    pub fn into_target(mut self) -> Option<Node> {
        match self.missing() {
            0 => self.nodes.pop(),
            _ => None,
        }
    }

    /// The directory that holds (or would hold) the last component, if it exists. None for the root.
    pub fn parent(&self) -> Option<&Node> {
        self.node(self.path.components().len().checked_sub(1)?)
    }

    /// The last inode that exists.
    pub fn last(&self) -> &Node {
        &self.nodes[self.nodes.len() - 1]
    }

    /// Goes on by a directory that was made.
    pub fn push(&mut self, node: Node) {
        self.nodes.push(node);
    }

    /// Forgets the last component, whose inode was removed.
    pub fn pop(&mut self) {
        self.nodes.pop();
    }

    /// How many components do not exist.
    pub fn missing(&self) -> usize {
        self.path.components().len() + 1 - self.present()
    }

    /// The text of the path of the inode of this number.
    pub fn path_of(&self, number: usize) -> String {
        self.path.prefix(number)
    }
}

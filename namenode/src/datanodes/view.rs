//! Datanodes at one moment: an immutable picture that a call keeps over all its runs.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use trellis_metastore::schema::Datanode;

/// Whether a datanode can be used (stock: live, stale, dead).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Heard of lately.
    Live,
    /// Silent for a while: asked last, given nothing new. So is one that this namenode, which started lately, has not
    /// heard of yet (`heard_ms` 0).
    Stale,
    /// Silent for so long that its replicas do not count.
    Dead,
}

/// What a storage says of itself, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub capacity: u64,
    /// Taken by HDFS.
    pub used: u64,
    /// Free for HDFS.
    pub remaining: u64,
    /// Taken by this block pool.
    pub pool_used: u64,
    /// Taken by others.
    pub other_used: u64,
}

/// A datanode: its row, and what its heartbeats say.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its row.
    pub row: Arc<Datanode>,
    /// Whether it can be used.
    pub liveness: Liveness,
    /// Space of each of the row's storages, in their order; zero for one that was not heard of.
    pub space: Vec<Space>,
    /// Transfers that it serves.
    pub load: u32,
    /// Copies of its replicas that it sends, or is about to.
    pub copies: u32,
    /// Replicas that this namenode gave it lately: its space may not tell of them yet.
    pub scheduled: u32,
    /// Last heartbeat, ms since the epoch by this namenode's clock; 0 = none.
    pub heard_ms: i64,
    /// Last full block report, the same.
    pub reported_ms: i64,
}

/// All datanodes.
#[derive(Clone, Debug, Default)]
pub struct View {
    nodes: Vec<Node>,
    /// This namenode started lately, and has not heard of most storages yet.
    is_early: bool,
    /// Number of a storage → (place in `nodes`, place in the row's storages).
    storages: HashMap<u32, (usize, usize)>,
    /// The same by the hash of its uuid, in the order of the hashes: requests name many.
    storage_uuids: Vec<(u64, usize, usize)>,
    /// The hash of a datanode's uuid, and its place.
    node_uuids: Vec<(u64, usize)>,
}

/// A storage of a view.
#[derive(Clone, Copy, Debug)]
pub struct Storage<'a> {
    /// Its datanode.
    pub node: &'a Node,
    /// Its place among the datanode's storages.
    pub place: usize,
}

impl<'a> Storage<'a> {
    /// Its row.
    pub fn row(&self) -> &'a trellis_metastore::schema::Storage {
        &self.node.row.storages[self.place]
    }

    /// Its space.
    pub fn space(&self) -> Space {
        self.node.space.get(self.place).copied().unwrap_or_default()
    }

    /// Whether replicas on it count.
    pub fn is_alive(&self) -> bool {
        self.node.liveness != Liveness::Dead && !self.row().failed
    }
}

impl View {
    /// A view of these datanodes.
    pub fn new(nodes: Vec<Node>) -> View {
        let (mut storages, mut storage_uuids) = (HashMap::new(), Vec::new());
        for (n, node) in nodes.iter().enumerate() {
            for (s, storage) in node.row.storages.iter().enumerate() {
                storages.insert(storage.number, (n, s));
                storage_uuids.push((hash(&storage.uuid), n, s));
            }
        }
        storage_uuids.sort_unstable();
        let mut node_uuids: Vec<(u64, usize)> =
            nodes.iter().enumerate().map(|(n, node)| (hash(&node.row.uuid), n)).collect();
        node_uuids.sort_unstable();
        View { nodes, is_early: false, storages, storage_uuids, node_uuids }
    }

    /// The same, of a namenode that has not heard of most storages yet.
    pub fn early(self, is_early: bool) -> View {
        View { is_early, ..self }
    }

    /// Whether this namenode started so lately that others know better where replicas are.
    pub fn is_early(&self) -> bool {
        self.is_early
    }

    /// All datanodes, dead ones too.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The storage with this number, if its datanode's row is known here.
    pub fn storage(&self, number: u32) -> Option<Storage<'_>> {
        let (node, place) = *self.storages.get(&number)?;
        Some(Storage { node: self.nodes.get(node)?, place })
    }

    /// The number of the datanode of a storage on which replicas count.
    pub fn live_datanode(&self, storage: u32) -> Option<u32> {
        let storage = self.storage(storage).filter(Storage::is_alive)?;
        Some(storage.node.row.number)
    }

    /// The storage with this uuid.
    pub fn storage_by_uuid(&self, uuid: &str) -> Option<Storage<'_>> {
        let hash = hash(uuid);
        let first = self.storage_uuids.partition_point(|(of, ..)| *of < hash);
        let same = self.storage_uuids[first..].iter().take_while(|(of, ..)| *of == hash);
        let mut same = same.map(|(_, node, place)| Storage { node: &self.nodes[*node], place: *place });
        same.find(|storage| storage.row().uuid == uuid)
    }

    /// The datanode with this uuid.
    pub fn node(&self, uuid: &str) -> Option<&Node> {
        let hash = hash(uuid);
        let first = self.node_uuids.partition_point(|(of, _)| *of < hash);
        let mut same = self.node_uuids[first..].iter().take_while(|(of, _)| *of == hash);
        same.find_map(|(_, node)| self.nodes.get(*node).filter(|node| node.row.uuid == uuid))
    }
}

fn hash(uuid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uuid.hash(&mut hasher);
    hasher.finish()
}

//! Where the replicas of a block go: never two on one datanode; the writer's own datanode first, then at random, the
//! less loaded and the emptier preferred. All datanodes are on one rack, `/default-rack`.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::view::{Liveness, Node, Storage, View};

/// Transfers of a datanode beyond this many times the average make it too busy (stock:
/// `dfs.namenode.redundancy.considerLoad.factor`).
const BUSY_FACTOR: f64 = 2.0;

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// So many replicas more.
    pub count: usize,
    /// Room that each needs, in bytes.
    pub bytes: u64,
    /// The writer's address.
    pub machine: &'a str,
    /// Uuids of datanodes that must not be chosen.
    pub excluded: &'a [String],
    /// Storages that have the block already: their datanodes are not chosen.
    pub taken: &'a [u32],
    /// `host:port` or address of datanodes that are preferred.
    pub favored: &'a [String],
}

/// Storages by number, in the order of the pipeline; and why other datanodes were not chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// At most as many as were wanted.
    pub storages: Vec<u32>,
    /// (datanode, reason), of all that were looked at and not taken.
    pub refusals: Vec<(String, &'static str)>,
}

/// Chooses storages. The same view, seed and wish give the same choice.
pub fn choose(view: &View, seed: u64, wanted: &Wanted<'_>) -> Placed {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut placed = Placed::default();
    let taken: Vec<u32> =
        wanted.taken.iter().filter_map(|number| Some(view.storage(*number)?.node.row.number)).collect();
    let live = view.nodes().iter().filter(|node| node.liveness == Liveness::Live);
    let (sum, nodes) = live.fold((0u64, 0u64), |(sum, nodes), node| (sum + u64::from(node.load), nodes + 1));
    let busy = BUSY_FACTOR * sum as f64 / nodes.max(1) as f64;
    let mut candidates = Vec::new();
    for node in view.nodes() {
        match look(node, wanted, &taken, busy) {
            Ok(storage) => {
                candidates.push((rank(node, wanted), random.random::<f64>() * weight(storage), storage))
            }
            Err(why) => placed.refusals.push((name(node), why)),
        }
    }
    candidates.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    placed.storages =
        candidates.iter().take(wanted.count).map(|(_, _, storage)| storage.row().number).collect();
    placed
}

/// A datanode in messages.
fn name(node: &Node) -> String {
    format!("{}:{}", node.row.ip, node.row.data_port)
}

/// The storage of a datanode with the most room, or why there is none.
fn look<'a>(
    node: &'a Node,
    wanted: &Wanted<'_>,
    taken: &[u32],
    busy: f64,
) -> Result<Storage<'a>, &'static str> {
    if node.liveness != Liveness::Live {
        return Err(if node.liveness == Liveness::Stale { "it is stale" } else { "it is dead" });
    }
    if wanted.excluded.contains(&node.row.uuid) {
        return Err("it is excluded by the client");
    }
    if taken.contains(&node.row.number) {
        return Err("it has the block");
    }
    let storages = (0..node.row.storages.len()).map(|place| Storage { node, place });
    let storage =
        storages.filter(|storage| storage.is_alive()).max_by_key(|storage| storage.space().remaining);
    let Some(storage) = storage else { return Err("it has no storage that works") };
    if storage.space().remaining < wanted.bytes {
        return Err("it has not enough room");
    }
    if busy > 0.0 && f64::from(node.load) > busy {
        return Err("it is too busy");
    }
    Ok(storage)
}

/// The writer's own and favored ones first.
fn rank(node: &Node, wanted: &Wanted<'_>) -> u8 {
    let (address, host) = (name(node), format!("{}:{}", node.row.host, node.row.data_port));
    let is_favored = |favored: &String| [&address, &host, &node.row.ip, &node.row.host].contains(&favored);
    match () {
        () if wanted.favored.iter().any(is_favored) => 0,
        () if node.row.ip == wanted.machine || node.row.host == wanted.machine => 1,
        () => 2,
    }
}

/// The share of a storage that is free.
fn weight(storage: Storage<'_>) -> f64 {
    let space = storage.space();
    (space.remaining as f64 / space.capacity.max(1) as f64).max(0.01)
}

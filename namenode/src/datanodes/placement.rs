//! Where the replicas of a block go: never two on one datanode; the writer's own datanode first, then at random, the
//! less loaded and the emptier preferred. A datanode that is much busier than others is taken when there are no others:
//! a replica less is worse than a slow one. All datanodes are on one rack, `/default-rack`.
//!
//! A datanode's space is that of its last heartbeat, less what this namenode gave it and is not there yet (stock:
//! `blocksScheduled`). What other namenodes gave it is not known here before its next heartbeat: several can together give
//! it more than it has room for, which it refuses, and the client asks for another.

use std::collections::HashSet;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::view::{Liveness, Node, Storage, View};

/// Transfers of a datanode beyond this many times the average make it busy (stock:
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

/// What a request names, however much that is, for looking it up once for each datanode.
struct Named<'a> {
    /// Numbers of datanodes.
    taken: HashSet<u32>,
    excluded: HashSet<&'a str>,
    favored: HashSet<&'a str>,
}

/// Chooses storages. The same view, seed and wish give the same choice.
pub fn choose(view: &View, seed: u64, wanted: &Wanted<'_>) -> Placed {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut placed = Placed::default();
    let has = |number: &u32| Some(view.storage(*number)?.node.row.number);
    let named = Named {
        taken: wanted.taken.iter().filter_map(has).collect(),
        excluded: wanted.excluded.iter().map(String::as_str).collect(),
        favored: wanted.favored.iter().map(String::as_str).collect(),
    };
    let live = view.nodes().iter().filter(|node| node.liveness == Liveness::Live);
    let (sum, nodes) = live.fold((0u64, 0u64), |(sum, nodes), node| (sum + u64::from(node.load), nodes + 1));
    let most = BUSY_FACTOR * sum as f64 / nodes.max(1) as f64;
    let mut candidates = Vec::new();
    for node in view.nodes() {
        match look(node, wanted, &named) {
            Ok(storage) => {
                let is_busy = most > 0.0 && f64::from(node.load) > most;
                candidates.push((
                    (is_busy, rank(node, wanted, &named)),
                    random.random::<f64>() * weight(storage),
                    storage,
                ))
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
fn look<'a>(node: &'a Node, wanted: &Wanted<'_>, named: &Named<'_>) -> Result<Storage<'a>, &'static str> {
    if node.liveness != Liveness::Live {
        return Err(if node.liveness == Liveness::Stale { "it is stale" } else { "it is dead" });
    }
    if named.excluded.contains(node.row.uuid.as_str()) {
        return Err("it is excluded by the client");
    }
    if named.taken.contains(&node.row.number) {
        return Err("it has the block");
    }
    let storages = (0..node.row.storages.len()).map(|place| Storage { node, place });
    let storage =
        storages.filter(|storage| storage.is_alive()).max_by_key(|storage| storage.space().remaining);
    let Some(storage) = storage else { return Err("it has no storage that works") };
    match room(node, wanted.bytes) >= wanted.bytes {
        true => Ok(storage),
        false => Err("it has not enough room"),
    }
}

/// The room for replicas of `bytes` that a datanode has, over all of its storages that can take one.
fn room(node: &Node, bytes: u64) -> u64 {
    let storages = (0..node.row.storages.len()).map(|place| Storage { node, place });
    let remaining = storages.filter(|storage| storage.is_alive()).map(|storage| storage.space().remaining);
    let room = remaining.filter(|remaining| *remaining >= bytes).fold(0, u64::saturating_add);
    room.saturating_sub(bytes.saturating_mul(node.scheduled.into()))
}

/// The writer's own and favored ones first.
fn rank(node: &Node, wanted: &Wanted<'_>, named: &Named<'_>) -> u8 {
    let is_favored = || {
        let (address, host) = (name(node), format!("{}:{}", node.row.host, node.row.data_port));
        let names = [&address, &host, &node.row.ip, &node.row.host];
        names.into_iter().any(|name| named.favored.contains(name.as_str()))
    };
    match () {
        () if !named.favored.is_empty() && is_favored() => 0,
        () if node.row.ip == wanted.machine || node.row.host == wanted.machine => 1,
        () => 2,
    }
}

/// The share of a storage that is free.
fn weight(storage: Storage<'_>) -> f64 {
    let space = storage.space();
    (space.remaining as f64 / space.capacity.max(1) as f64).max(0.01)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;
    use trellis_metastore::schema::{self, Datanode};

    use super::*;
    use crate::datanodes::view::Space;

    /// A datanode: liveness, load, (whether it failed, room) of each storage. Its number is 10 · (place + 1).
    type Seed = (u8, u32, Vec<(bool, u64)>);

    /// The same view once a datanode was given so many replicas.
    fn scheduled(view: &View, place: usize, scheduled: u32) -> View {
        let mut nodes = view.nodes().to_vec();
        nodes[place].scheduled = scheduled;
        View::new(nodes)
    }

    fn view(nodes: &[Seed]) -> View {
        let node = |(i, (liveness, load, storages)): (usize, &Seed)| {
            let number = 10 * (i as u32 + 1);
            let storage = |(s, (failed, _)): (usize, &(bool, u64))| schema::Storage {
                uuid: format!("s{number}-{s}"),
                number: number + 1 + s as u32,
                failed: *failed,
                ..schema::Storage::default()
            };
            let space = |(_, remaining): &(bool, u64)| Space {
                capacity: 1000,
                remaining: *remaining,
                ..Space::default()
            };
            Node {
                row: Arc::new(Datanode {
                    uuid: format!("u{number}"),
                    number,
                    ip: format!("10.0.0.{i}"),
                    data_port: 9866,
                    storages: storages.iter().enumerate().map(storage).collect(),
                    ..Datanode::default()
                }),
                liveness: [Liveness::Live, Liveness::Stale, Liveness::Dead][usize::from(*liveness)],
                space: storages.iter().map(space).collect(),
                load: *load,
                copies: 0,
                scheduled: 0,
                heard_ms: 1,
                reported_ms: 0,
            }
        };
        View::new(nodes.iter().enumerate().map(node).collect())
    }

    fn nodes() -> impl Strategy<Value = Vec<Seed>> {
        let storages = prop::collection::vec((any::<bool>(), 0u64..1000), 0..4);
        prop::collection::vec((0u8..3, 0u32..20, storages), 0..8)
    }

    proptest! {
        #[test]
        fn what_is_chosen(
            nodes in nodes(), seed: u64, count in 0usize..5, bytes in 0u64..1000,
            excluded in prop::collection::vec(1u32..9, 0..3), taken in prop::collection::vec(1u32..9, 0..3),
        ) {
            let view = view(&nodes);
            let excluded: Vec<String> = excluded.iter().map(|i| format!("u{}", i * 10)).collect();
            let taken: Vec<u32> = taken.iter().map(|i| i * 10 + 1).collect();
            let wanted = Wanted { count, bytes, excluded: &excluded, taken: &taken, ..Wanted::default() };
            let placed = choose(&view, seed, &wanted);
            prop_assert_eq!(&placed, &choose(&view, seed, &wanted));
            prop_assert!(placed.storages.len() <= count);
            let mut datanodes = BTreeSet::new();
            for number in &placed.storages {
                let storage = view.storage(*number).unwrap();
                prop_assert!(datanodes.insert(storage.node.row.number), "two on one datanode");
                prop_assert!(storage.node.liveness == Liveness::Live && !storage.row().failed);
                prop_assert!(storage.space().remaining >= bytes && !excluded.contains(&storage.node.row.uuid));
                let has = taken.iter().filter_map(|taken| view.storage(*taken));
                prop_assert!(has.into_iter().all(|taken| taken.node.row.number != storage.node.row.number));
            }
            // Whoever was not refused and not taken was not needed.
            let able = nodes.len() - placed.refusals.len();
            prop_assert_eq!(placed.storages.len(), able.min(count));
        }
    }

    #[test]
    fn who_comes_first() {
        let idle = (0, 0, vec![(false, 500)]);
        let view = view(&[idle.clone(), idle.clone(), idle.clone(), (0, 50, vec![(false, 500)])]);
        for seed in 0..50 {
            let near = Wanted { count: 4, machine: "10.0.0.1", ..Wanted::default() };
            let placed = choose(&view, seed, &near).storages;
            assert_eq!((placed[0], placed[3]), (21, 41), "its own first, the busy one last");
            let favored = ["10.0.0.2:9866".to_owned()];
            let placed = choose(&view, seed, &Wanted { favored: &favored, ..near }).storages;
            assert_eq!(placed[..2], [31, 21]);
        }
        let few = Wanted { count: 1, bytes: 501, ..Wanted::default() };
        let refused = choose(&view, 1, &few).refusals;
        assert_eq!(refused[0], ("10.0.0.0:9866".to_owned(), "it has not enough room"));
    }

    /// What was given since the last heartbeat takes its room: a datanode is given what it can take, and no more.
    #[test]
    fn what_was_given_takes_room() {
        let one = view(&[(0, 0, vec![(false, 500)])]);
        let two = view(&[(0, 0, vec![(false, 250), (false, 250)])]);
        let small = view(&[(0, 0, vec![(false, 99), (false, 99), (false, 99), (false, 500)])]);
        for (view, bytes, most) in
            [(&one, 100, 5), (&one, 501, 0), (&two, 100, 5), (&small, 100, 5), (&one, 0, 99)]
        {
            let wanted = Wanted { count: 1, bytes, ..Wanted::default() };
            let fits = |given: &u32| !choose(&scheduled(view, 0, *given), 1, &wanted).storages.is_empty();
            assert_eq!((0..99).take_while(fits).count(), most, "{bytes} bytes");
        }
        // Others, with as little room, take what it cannot.
        let both = view(&[(0, 0, vec![(false, 500)]), (0, 0, vec![(false, 100)])]);
        let wanted = Wanted { count: 1, bytes: 100, machine: "10.0.0.0", ..Wanted::default() };
        assert_eq!(choose(&scheduled(&both, 0, 4), 1, &wanted).storages, [11]);
        assert_eq!(choose(&scheduled(&both, 0, 5), 1, &wanted).storages, [21]);
    }
}

//! Several namenodes in one process, over a store that goes wrong, on a virtual clock: they wait, die and freeze
//! anywhere; clients go from one to the next with the same call. Then every call was done exactly once and answered as a
//! tree of its own would answer, and the store check finds nothing.
//!
//! - `client`: clients that make, move and delete
//! - `blocks`: clients that write files, and what must be left of these
//! - `writer`, `changes`: such a client
//! - `farm`: the datanodes that they write to

mod blocks;
mod changes;
mod client;
mod farm;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use trellis_metastore::faulty::{Blow, Faults};
use trellis_metastore::group::GroupConfig;
use trellis_metastore::open::Opened;
use trellis_metastore::sim::{self, Plan, Seat, World};
use trellis_namenode::config::Config;
use trellis_namenode::engine::Engine;
use trellis_namenode::engine::backend::Backend;
use trellis_namenode::jobs::{datanodes, lease_expiry, reaper, replication};
use trellis_namenode::membership::{Addresses, Membership};
use trellis_namenode::user::Users;

pub use self::blocks::{an_owner_dies_or_freezes, writers_over_a_rough_store};
use self::client::{Client, Tree, meddle};
use crate::calls::{assert_sound, root};
use crate::reap::reap_all;
use crate::support::{Namenode, START_MS, SUPERUSER, rounds};

/// How old a call may get in a namenode; a client that hears nothing for longer goes to the next.
const CALL_AGE: Duration = Duration::from_secs(1);
pub const PATIENCE: Duration = Duration::from_secs(2);
/// A namenode that stands still for so long is evicted.
const SILENCE: Duration = Duration::from_secs(4);

/// A namenode in its process, with its background work.
pub struct Node {
    pub engine: Arc<Engine>,
    membership: Arc<Membership>,
    seat: Seat,
    stop: watch::Sender<bool>,
}

impl Node {
    /// Joins, again and again until the store lets it.
    async fn start(seat: &Seat, config: Config) -> Node {
        let addresses = Addresses { rpc: format!("nn{}:1", seat.number), http: String::new() };
        let lanes = Backend::write_lanes(&Opened::Other(seat.store()), &seat.config);
        let membership = loop {
            match Membership::join(seat.store(), lanes, &addresses).await {
                Ok(membership) => break membership,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        };
        let (id, versions) = (membership.id(), membership.versions().clone());
        let opened = Opened::Other(seat.store());
        let backend = Backend::start(&opened, membership.clone(), versions, &seat.config).unwrap();
        let config = Config { call_age: CALL_AGE, reap_every: Duration::from_secs(1), ..config };
        let users = Users::new(SUPERUSER.into(), config.supergroup.clone());
        let born = Instant::now();
        let clock = Arc::new(move || START_MS + born.elapsed().as_millis() as i64);
        let engine = Engine::new(backend, config, users, crate::support::BLOCK_POOL, id, clock);
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(membership.clone().keep(SILENCE / 8, SILENCE, stopped.clone()));
        tokio::spawn(reaper::run(engine.clone(), stopped));
        Node { engine, membership, seat: seat.clone(), stop }
    }

    /// The jobs of a namenode that has datanodes.
    fn keep_datanodes(&self) {
        let lead = || {
            let membership = self.membership.clone();
            Arc::new(move || membership.term())
        };
        let (engine, stopped) = (&self.engine, || self.stop.subscribe());
        tokio::spawn(datanodes::run(engine.clone(), stopped()));
        tokio::spawn(lease_expiry::run(engine.clone(), lead(), stopped()));
        tokio::spawn(replication::run(engine.clone(), lead(), stopped()));
    }
}

/// Namenodes, each in a seat of its own. One that dies while it joins never comes; the others do.
async fn start_all(world: &World, count: usize, config: &Config) -> Arc<Vec<Node>> {
    let mut started = Vec::new();
    for _ in 0..count {
        let (seat, config) = (world.seat(), config.clone());
        started.push(tokio::spawn(async move { Node::start(&seat, config).await }));
    }
    let mut nodes = Vec::new();
    for node in started {
        if let Ok(node) = tokio::time::timeout(Duration::from_secs(30), node).await {
            nodes.push(node.unwrap());
        }
    }
    assert!(!nodes.is_empty());
    Arc::new(nodes)
}

/// Runs clients over namenodes to their end; then everything must fit together.
async fn play(world: Arc<World>, nodes: usize, clients: u8, calls: i64) {
    let first = Namenode::start(world.store(), 1000, Config::default()).await;
    root(&first).mk("/shared").await.unwrap();
    let nodes = start_all(&world, nodes, &Config::default()).await;
    let meddlers: Vec<_> =
        (0..2).map(|n| tokio::spawn(meddle(world.clone(), nodes.clone(), 100 + n, calls))).collect();
    let clients: Vec<_> = (0..clients)
        .map(|number| {
            let mut client = Client::new(world.clone(), nodes.clone(), number);
            tokio::spawn(async move {
                client.work(calls).await;
                client
            })
        })
        .collect();
    let mut trees: Vec<(String, Tree)> = Vec::new();
    for client in clients {
        let client = client.await.unwrap();
        trees.push((client.home.clone(), client.tree));
    }
    for meddler in meddlers {
        meddler.await.unwrap();
    }
    world.settle().await;
    // Longer than a call or a frozen namenode may last.
    sleep(SILENCE * 3).await;
    for node in nodes.iter() {
        node.stop.send_replace(true);
    }
    sleep(SILENCE).await;
    let last = Namenode::start(world.store(), 1001, Config::default()).await;
    for (home, tree) in &trees {
        tree.assert_is(root(&last), home).await;
    }
    assert_sound(&last).await;
    reap_all(&last).await;
    assert_sound(&last).await;
    for (home, tree) in &trees {
        tree.assert_is(root(&last), home).await;
    }
}

fn plan(seed: u64, faults: Faults) -> Plan {
    let config = GroupConfig { max_operations: 8, ..GroupConfig::default() };
    Plan { seed, faults, config, lock_wait: (0.1, Duration::from_millis(20)), ..Plan::default() }
}

/// A store that answers late, never, wrongly; nobody dies.
pub fn a_rough_store() {
    for seed in 0..rounds(20, 300) {
        let plan = plan(seed, Faults::rough());
        sim::sweep(&plan, 0, 0, &[], |world| play(world, 3, 4, 12));
    }
}

/// One of two namenodes dies, or freezes for less or longer than others wait for it, at any of its store calls.
pub fn a_namenode_dies_or_freezes() {
    let blows = [Blow::Die, Blow::Freeze(SILENCE / 2), Blow::Freeze(SILENCE * 2)];
    let points = rounds(8, usize::MAX);
    let runs = sim::sweep(&plan(1, Faults::waits()), 0, points, &blows, |world| play(world, 2, 3, 5));
    assert!(runs > 20, "{runs}");
}

/// The same over a store that goes wrong besides.
pub fn a_namenode_dies_over_a_rough_store() {
    let points = rounds(8, 200);
    let runs = sim::sweep(&plan(2, Faults::rough()), 0, points, &[Blow::Die], |world| play(world, 3, 3, 6));
    assert!(runs > 8, "{runs}");
}

//! Random small operations from several namenodes at once, over one store that goes wrong: every history is
//! serialisable for the rows that were held or written, and nothing that was answered is lost or undone.

mod check;
mod ops;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use libtest_mimic::Trial;
use tokio::time::{Instant, sleep};
use trellis_metastore::faulty::{Blow, Faults};
use trellis_metastore::group::{GroupConfig, Lanes};
use trellis_metastore::sim::{self, Plan, World};
use trellis_metastore::work::{End, Unfenced};

use self::check::check;
use self::ops::{Answer, Book, Op, snapshot, write};

pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(format!("histories::{name}"), move || {
            test();
            Ok(())
        })
    };
    vec![
        trial("several_namenodes_are_serialisable", several_namenodes_are_serialisable),
        trial("one_lane_shows_everything_in_order", one_lane_shows_everything_in_order),
        trial("a_namenode_that_dies_or_freezes_anywhere_breaks_nothing", dying_anywhere_breaks_nothing),
        trial("one_seed_is_one_history", one_seed_is_one_history),
    ]
}

/// Clients and their calls.
#[derive(Clone, Copy)]
struct Load {
    nodes: usize,
    clients: u64,
    calls: u64,
    /// A client that got no answer in this time goes to the next node.
    patience: Duration,
}

/// What a client was told, between which lengths of the journal.
pub struct Ack {
    pub op: u64,
    pub answer: Answer,
    /// When the call was made first, when the attempt began that was answered, when the answer came.
    pub issued: usize,
    pub attempt: usize,
    pub answered: usize,
}

/// Runs all clients to their end, waits until nothing can happen any more.
async fn play(world: Arc<World>, load: Load) -> Arc<Book> {
    let book = Arc::new(Book::default());
    ops::seed(&world).await;
    let nodes: Arc<Vec<Lanes>> =
        Arc::new((0..load.nodes).map(|_| world.seat().lanes(Arc::new(Unfenced))).collect());
    let clients: Vec<_> = (0..load.clients)
        .map(|client| tokio::spawn(be_client(world.clone(), nodes.clone(), book.clone(), load, client)))
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    world.settle().await;
    // Calls that their clients gave up may still be queued somewhere.
    sleep(Duration::from_secs(30)).await;
    book
}

async fn be_client(world: Arc<World>, nodes: Arc<Vec<Lanes>>, book: Arc<Book>, load: Load, client: u64) {
    for call in 0..load.calls {
        sleep(Duration::from_micros(world.random(5000))).await;
        let first = world.random(nodes.len() as u64) as usize;
        if world.random(8) == 0 {
            look(&world, &nodes[first], &book, load.patience).await;
            continue;
        }
        book.issued.fetch_add(1, Ordering::SeqCst);
        let op = Arc::new(Op::draw(client * 1000 + call, &world));
        let lane = world.random(16);
        let issued = world.mem().journal_len();
        let attempt = Arc::new(AtomicUsize::new(issued));
        let answer = sim::failover(nodes.len(), first, load.patience, 30, |node| {
            attempt.store(world.mem().journal_len(), Ordering::SeqCst);
            let (nodes, run) = (nodes.clone(), write(op.clone(), book.clone()));
            async move {
                let (work, ended) = sim::work(Instant::now() + load.patience * 2, run);
                if nodes[node].write(lane, work).is_err() {
                    sleep(Duration::from_millis(10)).await;
                    return None;
                }
                match ended.await {
                    Ok((End::Answered, answer)) => answer,
                    Ok((End::Failed(error), _)) => panic!("{error}"),
                    _ => None,
                }
            }
        })
        .await;
        let (attempt, answered) = (attempt.load(Ordering::SeqCst), world.mem().journal_len());
        if let Some(answer) = answer {
            book.acks.lock().unwrap().push(Ack { op: op.id, answer, issued, attempt, answered });
        }
    }
}

/// Reads everything at once in a read lane.
async fn look(world: &World, node: &Lanes, book: &Book, patience: Duration) {
    let issued = world.mem().journal_len();
    let (work, ended) = sim::work(Instant::now() + patience, snapshot);
    if node.read(0, work).is_ok()
        && let Ok(Ok((End::Answered, Some(seen)))) = tokio::time::timeout(patience, ended).await
    {
        book.looks.lock().unwrap().push((issued, world.mem().journal_len(), seen));
    }
}

fn small_groups(write_lanes: usize) -> GroupConfig {
    GroupConfig { write_lanes, max_operations: 8, max_rows: 60, ..GroupConfig::default() }
}

fn several_namenodes_are_serialisable() {
    let mut seen = check::Seen::default();
    for seed in 0..200 {
        let faults = if seed % 4 == 0 { Faults::waits() } else { Faults::rough() };
        let lock_wait = if seed % 2 == 0 { (0.0, Duration::ZERO) } else { (0.3, Duration::from_millis(30)) };
        let plan = Plan { seed, faults, lock_wait, config: small_groups(2), ..Plan::default() };
        let load = Load { nodes: 3, clients: 9, calls: 8, patience: Duration::from_secs(2) };
        sim::run(async {
            let world = Arc::new(World::new(&plan));
            let book = play(world.clone(), load).await;
            seen.add(check(&format!("seed {seed}"), &world, &book, false));
        });
    }
    // The histories must be worth checking.
    assert!(seen.committed > 5000 && seen.refused > 500 && seen.looks > 500, "{seen:?}");
    assert!(seen.shared > 500 && seen.earlier > 50 && seen.conflicts > 500 && seen.locked > 10, "{seen:?}");
}

fn one_lane_shows_everything_in_order() {
    let mut seen = check::Seen::default();
    for seed in 0..100 {
        let faults = Faults { lands_later: 0.0, ..Faults::rough() };
        let plan = Plan { seed, faults, config: small_groups(1), ..Plan::default() };
        let load = Load { nodes: 1, clients: 12, calls: 6, patience: Duration::from_secs(60) };
        sim::run(async {
            let world = Arc::new(World::new(&plan));
            let book = play(world.clone(), load).await;
            seen.add(check(&format!("seed {seed}"), &world, &book, true));
        });
    }
    assert!(seen.committed > 2000 && seen.shared > 300 && seen.refused > 300, "{seen:?}");
}

fn dying_anywhere_breaks_nothing() {
    let plan = Plan { seed: 7, faults: Faults::waits(), config: small_groups(2), ..Plan::default() };
    let load = Load { nodes: 2, clients: 4, calls: 3, patience: Duration::from_secs(1) };
    // Longer than a client's patience, longer than the store keeps locks, longer than a call may wait.
    let blows = [Blow::Die, Blow::Freeze(Duration::from_millis(1500)), Blow::Freeze(Duration::from_secs(5))];
    let runs = sim::sweep(&plan, 0, usize::MAX, &blows, async |world| {
        let book = play(world.clone(), load).await;
        check("sweep", &world, &book, false);
        let issued = book.issued.load(Ordering::SeqCst);
        assert_eq!(book.acks.lock().unwrap().len(), issued, "a call got no answer");
    });
    assert!(runs > 60, "{runs}");
}

fn one_seed_is_one_history() {
    for seed in 0..5 {
        let plan = Plan { seed, faults: Faults::rough(), config: small_groups(2), ..Plan::default() };
        let load = Load { nodes: 3, clients: 9, calls: 8, patience: Duration::from_secs(2) };
        let history = || {
            sim::run(async {
                let world = Arc::new(World::new(&plan));
                play(world.clone(), load).await;
                world.mem().journal()
            })
        };
        let first = history();
        assert!(first.len() > 10);
        assert_eq!(first, history(), "seed {seed}");
    }
}

//! Writers of data, and whatever they depend on, killed or frozen: what was acknowledged is there, byte for byte.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::server::{IMPATIENT, Server, Shape, target_is_stock};
use e2e::talk::Talk;
use e2e::workers::Workers;
use e2e::{long, rounds, wait};
use nix::sys::signal::Signal;

const BLOCK: u64 = 1 << 18;
const LENGTH: u64 = 10 * BLOCK - 7;
const WRITING: Duration = Duration::from_secs(2);
/// Acknowledged operations of the mixed load between two kills.
const BETWEEN_KILLS: u64 = 25;
/// What the long form takes: a minute, in which no time-out but stock's own ends a wait.
const FROZEN_LONG: Duration = Duration::from_mins(1);
const FROZEN_SHORT: Duration = Duration::from_secs(10);

/// A fixed sequence of numbers, so that every run kills the same at the same moments.
fn draw(round: u64) -> u64 {
    (round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Part of the time of writing: the moment of a kill.
fn moment(round: u64) -> Duration {
    WRITING.mul_f64((draw(round) >> 40) as f64 / (1u64 << 24) as f64)
}

/// Writes a file, does something to the cluster at a moment of the writing, reads it, and waits for all its replicas.
fn write_through(
    files: &mut Talk,
    path: &str,
    replication: usize,
    at: Duration,
    harm: impl FnOnce() -> Result<()>,
) -> Result<()> {
    files.ask_right(&format!("write {path} {LENGTH} {BLOCK} {replication} {}", WRITING.as_millis()))?;
    sleep(at);
    harm()?;
    files.hear_right().with_context(|| format!("writing {path}"))?;
    let length = files.ask_right(&format!("check {path}"))?;
    ensure!(length == LENGTH.to_string(), "{path} has {length} bytes, not {LENGTH}");
    let wanted = replication.to_string();
    wait("all its replicas are there", || Ok(files.ask_right(&format!("replicas {path}"))? == wanted))
}

/// A file of 10 blocks is whole although one of its datanodes is killed while it is written, at any moment.
pub fn datanode_killed() -> Result<Vec<String>> {
    let rounds = if long() { 20 } else { 3 };
    let mut server = Server::start(1, 3)?;
    let mut files = Talk::start(server.client(&IMPATIENT)?.command(&["probe", "Files"]))?;
    for round in 0..rounds {
        let path = format!("/killed/{round}");
        write_through(&mut files, &path, 3, moment(round), || server.kill_datanode(round as usize % 3))
            .with_context(|| format!("round {round}"))?;
    }
    for round in 0..rounds {
        let length = files.ask_right(&format!("check /killed/{round}"))?;
        ensure!(length == LENGTH.to_string(), "/killed/{round} has {length} bytes after all kills");
    }
    files.end()?;
    server.stop_and_check()?;
    Ok(vec![format!("{rounds} datanodes killed")])
}

/// The same with a datanode that is frozen for longer than its peers wait, and thaws.
pub fn datanode_frozen() -> Result<Vec<String>> {
    let (frozen, settings) =
        if long() { (FROZEN_LONG, &IMPATIENT[..1]) } else { (FROZEN_SHORT, &IMPATIENT[..]) };
    let server = Server::start(1, 3)?;
    let mut files = Talk::start(server.client(settings)?.command(&["probe", "Files"]))?;
    write_through(&mut files, "/frozen", 3, WRITING / 2, || {
        server.signal_datanode(1, Signal::SIGSTOP)?;
        sleep(frozen);
        server.signal_datanode(1, Signal::SIGCONT)
    })?;
    files.end()?;
    server.stop_and_check()?;
    Ok(Vec::new())
}

/// A writer does not notice that the namenode it talks to is killed: another goes on, or the same when it is back.
pub fn namenode_killed() -> Result<Vec<String>> {
    let rounds = if long() { 20 } else { 3 };
    let mut server = Server::start(3, 3)?;
    let in_order = [&IMPATIENT[..], &["dfs.client.failover.random.order=false"]].concat();
    let mut files = Talk::start(server.spread_client(&in_order)?.command(&["probe", "Files"]))?;
    for round in 0..rounds {
        let path = format!("/failover/{round}");
        write_through(&mut files, &path, 3, moment(round), || server.kill_namenode(0))
            .with_context(|| format!("round {round}"))?;
    }
    files.end()?;
    server.stop_and_check()?;
    Ok(vec![format!("{rounds} namenodes killed")])
}

/// Writers killed after hflush: another client recovers the lease and reads all that was flushed.
pub fn writer_killed() -> Result<Vec<String>> {
    let rounds = if long() { 100 } else { 5 };
    let server = Server::start(1, 3)?;
    let mut writers = Talk::start(server.hadoop().command(&["probe", "Flushed"]))?;
    for round in 0..rounds {
        writers.ask_right("round").with_context(|| format!("round {round}"))?;
    }
    writers.end()?;
    server.stop_and_check()?;
    Ok(vec![format!("{rounds} writers killed")])
}

/// Anything is killed under a mixed load of writers and readers; in the end nothing is missing anywhere.
pub fn anything(namenodes: usize) -> Result<Vec<String>> {
    let rounds = rounds(4);
    let mut server = Server::of(&Shape { settings: vec!["lease_soft=5s"], ..Shape::new(namenodes, 3) })?;
    let patient = ["dfs.client.failover.max.attempts=200", "dfs.client.failover.sleep.max.millis=1000"];
    let hadoop = server.spread_client(&[&IMPATIENT[..], &patient].concat())?;
    let mut workers = Workers::start(&hadoop, "Load", &[])?;
    let mut done = 0;
    for round in 0..rounds {
        done = workers.wait_for(done + BETWEEN_KILLS).with_context(|| format!("in round {round}"))?;
        sleep(Duration::from_millis(draw(round) >> 56)); // up to a quarter of a second into whatever the workers do
        let victim = (draw(round) >> 32) as usize % (namenodes + 3);
        match victim.checked_sub(namenodes) {
            Some(datanode) => server.kill_datanode(datanode),
            None => server.kill_namenode(victim),
        }
        .with_context(|| format!("in round {round}"))?;
        if round % 4 == 3 {
            workers.check().with_context(|| format!("in round {round}"))?;
        }
    }
    workers.wait_for(done + BETWEEN_KILLS)?;
    let said = workers.end()?;
    server.wait_until_healthy()?;
    server.stop_and_check()?;
    let kind = if target_is_stock() { "stock" } else { "trellis" };
    Ok(vec![format!("{kind}: {rounds} kills, {said}")])
}

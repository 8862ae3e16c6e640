//! Namenodes killed under load: nothing that was acknowledged is lost, nothing is done twice.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::rounds;
use e2e::server::{Server, target_is_stock};
use e2e::workers::Workers;

/// Acknowledged operations between two kills, so that there is something to lose.
const BETWEEN_KILLS: u64 = 60;
/// A check lists everything through every namenode: not after each kill.
const CHECK_EVERY: u64 = 4;

/// `E2E_ROUNDS` kills (default 8; the stock NameNode, slow to start, 2) of a random namenode, the rows checked at the end.
pub fn crash(namenodes: usize) -> Result<Vec<String>> {
    let rounds = rounds(if target_is_stock() { 2 } else { 8 });
    let mut server = Server::start(namenodes, 0)?;
    let mut writers = Workers::start(server.hadoop(), "Crash", &server.urls())?;
    let mut done = 0;
    for round in 0..rounds {
        done = writers.wait_for(done + BETWEEN_KILLS)?;
        if round % CHECK_EVERY == CHECK_EVERY - 1 {
            writers.check()?;
        }
        let draw = (round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15); // a fixed sequence: the same kills in every run
        sleep(Duration::from_millis(draw >> 56)); // up to a quarter of a second into whatever the writers do
        server
            .kill_namenode((draw >> 32) as usize % namenodes)
            .with_context(|| format!("in round {round}"))?;
    }
    writers.wait_for(done + BETWEEN_KILLS)?;
    let said = writers.end()?;
    server.stop_and_check()?;
    Ok(vec![format!("{rounds} kills, {said}")])
}

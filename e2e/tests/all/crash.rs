//! Namenodes killed under load: nothing that was acknowledged is lost, nothing is done twice.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use e2e::server::{Server, target_is_stock};

/// Acknowledged operations between two kills, so that there is something to lose.
const BETWEEN_KILLS: u64 = 60;
/// A check lists everything through every namenode: not after each kill.
const CHECK_EVERY: u64 = 4;
/// How long the writers may take to get that far.
const LIMIT: Duration = Duration::from_secs(180);

/// `E2E_ROUNDS` kills (default 8; the stock NameNode, slow to start, 2) of a random namenode, the rows checked at the end.
pub fn crash(namenodes: usize) -> Result<Vec<String>> {
    let wanted = std::env::var("E2E_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds: u64 = wanted.unwrap_or(if target_is_stock() { 2 } else { 8 });
    let mut server = Server::start(namenodes, false)?;
    let mut writers = Writers::start(&server)?;
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

/// The writers of `Crash.java`, asked now and then what is there.
struct Writers {
    process: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Writers {
    fn start(server: &Server) -> Result<Writers> {
        let mut command = server.hadoop().command(&["probe", "Crash", "7"]);
        let mut process = command
            .args(server.urls())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the writers")?;
        let commands = process.stdin.take();
        let answers = process.stdout.take().ok_or_else(|| anyhow!("the writers have no stdout"))?;
        Ok(Writers { process, commands, answers: BufReader::new(answers) })
    }

    /// Compares the tree with what was acknowledged; the answer says how much that is.
    fn check(&mut self) -> Result<String> {
        self.ask("check")
    }

    fn ask(&mut self, what: &str) -> Result<String> {
        let commands = self.commands.as_mut().ok_or_else(|| anyhow!("the writers have ended"))?;
        let asked = writeln!(commands, "{what}").and_then(|()| commands.flush());
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(line.starts_with("right: "), "the writers say: {line}(asked: {asked:?})");
        Ok(line.trim_end().trim_start_matches("right: ").to_owned())
    }

    fn wait_for(&mut self, acknowledged: u64) -> Result<u64> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let said = self.ask("count")?;
            let count = said.split(' ').next().and_then(|word| word.strip_prefix("acknowledged="));
            let count: u64 = count
                .and_then(|digits| digits.parse().ok())
                .with_context(|| format!("no count in: {said}"))?;
            if count >= acknowledged {
                return Ok(count);
            }
            if Instant::now() > deadline {
                bail!("the writers hardly get on: {said}, not {acknowledged}");
            }
            sleep(Duration::from_millis(20));
        }
    }

    fn end(&mut self) -> Result<String> {
        let said = self.check()?;
        drop(self.commands.take()); // the end of stdin ends them
        let status = self.process.wait()?;
        ensure!(status.success(), "the writers ended with {status}");
        Ok(said)
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

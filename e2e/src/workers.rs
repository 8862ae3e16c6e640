//! Workers that go on while anything is killed, and know what must be there: `Crash.java`, `Load.java`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::hadoop::Hadoop;
use crate::talk::Talk;

/// How long the workers may take to get on.
const LIMIT: Duration = Duration::from_secs(180);
const SEED: &str = "7";

/// Workers in a JVM of their own, asked now and then what is there.
pub struct Workers(Talk);

impl Workers {
    /// Starts the recorder of that name with a seed and more arguments.
    pub fn start(hadoop: &Hadoop, name: &str, arguments: &[String]) -> Result<Workers> {
        let mut command = hadoop.command(&["probe", name, SEED]);
        command.args(arguments);
        Ok(Workers(Talk::start(command)?))
    }

    /// Compares what is there with what was acknowledged; the answer says how much that is.
    pub fn check(&mut self) -> Result<String> {
        self.0.ask_right("check")
    }

    /// Waits until so many operations were acknowledged; the answer is how many were.
    pub fn wait_for(&mut self, acknowledged: u64) -> Result<u64> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let said = self.0.ask_right("count")?;
            let count = said.split(' ').next().and_then(|word| word.strip_prefix("acknowledged="));
            let count: u64 = count
                .and_then(|digits| digits.parse().ok())
                .with_context(|| format!("no count in: {said}"))?;
            if count >= acknowledged {
                return Ok(count);
            }
            if Instant::now() > deadline {
                bail!("the workers hardly get on: {said}, not {acknowledged}");
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Checks a last time and ends them.
    pub fn end(mut self) -> Result<String> {
        let said = self.check()?;
        self.0.end()?;
        Ok(said)
    }
}

//! A recorder that stays: asked a line on its stdin, it answers a line on its stdout.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::spawn;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_mins(10);

/// Such a program. Dropped, it is killed.
pub struct Talk {
    child: Child,
    questions: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Talk {
    /// Starts it.
    pub fn start(mut command: Command) -> Result<Talk> {
        let mut child = command
            .env("HADOOP_ROOT_LOGGER", "ERROR,console") // clients log every server that was killed
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        let questions = child.stdin.take();
        let stdout = child.stdout.take().ok_or_else(|| anyhow!("{command:?} has no stdout"))?;
        let (sender, answers) = channel();
        spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Talk { child, questions, answers })
    }

    /// Says a line and leaves the answer for later.
    pub fn tell(&mut self, line: &str) -> Result<()> {
        let questions = self.questions.as_mut().ok_or_else(|| anyhow!("its stdin is closed"))?;
        writeln!(questions, "{line}")
            .and_then(|()| questions.flush())
            .with_context(|| format!("saying {line}"))
    }

    /// The next line that it says.
    pub fn hear(&mut self) -> Result<String> {
        self.answers.recv_timeout(LIMIT).map_err(|why| anyhow!("no answer within {LIMIT:?}: {why}"))
    }

    /// Says a line and waits for its answer.
    pub fn ask(&mut self, line: &str) -> Result<String> {
        self.tell(line)?;
        self.hear().with_context(|| format!("after {line}"))
    }

    /// Waits for an answer that starts with `right`, and gives the rest of it.
    pub fn hear_right(&mut self) -> Result<String> {
        let said = self.hear()?;
        match said.strip_prefix("right") {
            Some(rest) => Ok(rest.trim_start_matches([':', ' ']).to_owned()),
            None => bail!("it says: {said}"),
        }
    }

    /// Asks for what is to be answered with `right`.
    pub fn ask_right(&mut self, line: &str) -> Result<String> {
        self.tell(line)?;
        self.hear_right().with_context(|| format!("after {line}"))
    }

    /// Closes its stdin, which ends it, and waits.
    pub fn end(mut self) -> Result<()> {
        drop(self.questions.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

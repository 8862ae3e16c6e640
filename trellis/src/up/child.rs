//! One namenode as a child process.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::sync::watch;

use super::Plan;
use super::data_dir::Addresses;
use super::node::Stop;
use crate::namenode::READY;

/// How long a namenode may take to stop before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A running namenode.
pub struct Child {
    process: tokio::process::Child,
    stdout: BufReader<ChildStdout>,
    /// Its pid.
    pub pid: u32,
}

impl Child {
    /// Starts namenode `index`. Must be called in the thread that lives as long as this process: the kernel ends the
    /// child when the thread that made it ends.
    pub fn start(plan: &Plan, index: usize, (rpc, http): (u16, u16)) -> Result<Child> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let path = plan.data.log(index);
        let log = File::options().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("cannot open {}", path.display()))?;
        let mut command = Command::new(program);
        command
            .arg("namenode")
            .args(["--store", &plan.store.to_string()])
            .args(["--rpc", &format!("127.0.0.1:{rpc}")])
            .args(["--http", &format!("127.0.0.1:{http}")])
            .args(["--parent-pid", &std::process::id().to_string()])
            .arg("--audit-log")
            .arg(plan.data.audit_log(index));
        if plan.is_alone() {
            command.arg("--alone");
        }
        if let Some(file) = &plan.sources.config {
            command.arg("--config").arg(file);
        }
        for setting in &plan.sources.set {
            command.args(["--set", setting]);
        }
        // A process group of its own: Ctrl-C reaches `up` alone, which then ends its children in order.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).process_group(0).kill_on_drop(true);
        let mut process = command.spawn().context("cannot start a namenode")?;
        let (Some(pid), Some(stdout)) = (process.id(), process.stdout.take()) else {
            bail!("cannot start a namenode: it has no process");
        };
        Ok(Child { process, stdout: BufReader::new(stdout), pid })
    }

    /// Waits until it serves; none when it closes its output before.
    pub async fn ready(&mut self) -> Result<Option<Addresses>> {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).await.context("cannot read what a namenode says")? != 0 {
            if let Some(rest) = line.trim_end().strip_prefix(READY) {
                return parse(rest).map(Some).with_context(|| format!("cannot understand {line:?}"));
            }
            line.clear();
        }
        Ok(None)
    }

    /// Waits until it has ended; says how.
    pub async fn ended(&mut self) -> String {
        match self.process.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => format!("cannot wait for it: {error}"),
        }
    }

    /// Ends it: kindly first, by force after a while or when asked to.
    pub async fn end(&mut self, stop: &mut watch::Receiver<Stop>) {
        if self.process.id().is_none() {
            return; // it has ended and was waited for: the number may be another's now
        }
        let _ = kill(Pid::from_raw(self.pid.cast_signed()), Signal::SIGTERM);
        let at_once = stop.wait_for(|stop| *stop == Stop::AtOnce);
        tokio::select! {
            _ = self.process.wait() => return,
            _ = tokio::time::sleep(GRACE) => {}
            _ = at_once => {}
        }
        let _ = self.process.kill().await;
    }
}

/// `hdfs://HOST:PORT http://HOST:PORT`
fn parse(rest: &str) -> Result<Addresses> {
    let mut words = rest.split_whitespace();
    let mut address = |scheme: &str| -> Result<_> {
        let word =
            words.next().and_then(|word| word.strip_prefix(scheme)).context("an address is missing")?;
        Ok(word.parse()?)
    };
    Ok(Addresses { rpc: address("hdfs://")?, http: address("http://")? })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_ready_line_holds_both_addresses() {
        let addresses = parse(" hdfs://127.0.0.1:8020 http://127.0.0.1:9870").unwrap();
        assert_eq!((addresses.rpc.port(), addresses.http.port()), (8020, 9870));
        assert!(parse("hdfs://127.0.0.1:8020").is_err() && parse("").is_err());
    }
}

//! One server as a child process.

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
use super::data_dir::{Addresses, Kind, Member};
use super::node::Stop;
use crate::{datanode, namenode};

/// How long a server may take to stop before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A running server.
pub struct Child {
    member: Member,
    process: tokio::process::Child,
    stdout: BufReader<ChildStdout>,
    /// Its pid.
    pub pid: u32,
}

impl Child {
    /// Starts a server on these ports, as many as it has. A datanode is told its `namenodes`. Must be called in the
    /// thread that lives as long as this process: the kernel ends the child when the thread that made it ends.
    pub fn start(plan: &Plan, member: Member, ports: &[u16], namenodes: &str) -> Result<Child> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let path = plan.data.log(member);
        let log = File::options().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("cannot open {}", path.display()))?;
        let mut command = Command::new(program);
        command.arg(member.kind.name()).args(["--parent-pid", &std::process::id().to_string()]);
        let options: &[&str] = match member.kind {
            Kind::Namenode => {
                command
                    .args(["--store", &plan.store.to_string()])
                    .args(["--default-replication", &plan.replication().to_string()])
                    .arg("--audit-log")
                    .arg(plan.data.audit_log(member.index));
                if plan.is_alone {
                    command.arg("--alone");
                }
                &["--rpc", "--http"]
            }
            Kind::Datanode => {
                command.args(["--namenode", namenodes, "--hostname", "127.0.0.1", "--data"]);
                command.arg(plan.data.blocks(member.index));
                &["--address", "--ipc", "--http"]
            }
        };
        for (option, port) in options.iter().zip(ports) {
            command.args([*option, &format!("127.0.0.1:{port}")]);
        }
        if let Some(file) = &plan.sources.config {
            command.arg("--config").arg(file);
        }
        for setting in plan.settings_of(member.kind) {
            command.args(["--set", setting]);
        }
        // A process group of its own: Ctrl-C reaches `up` alone, which then ends its children in order.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).process_group(0).kill_on_drop(true);
        let mut process = command.spawn().with_context(|| format!("cannot start {member}"))?;
        let (Some(pid), Some(stdout)) = (process.id(), process.stdout.take()) else {
            bail!("cannot start {member}: it has no process");
        };
        Ok(Child { member, process, stdout: BufReader::new(stdout), pid })
    }

    /// Waits until it serves; none when it closes its output before.
    pub async fn ready(&mut self) -> Result<Option<Addresses>> {
        let ready = match self.member.kind {
            Kind::Namenode => namenode::READY,
            Kind::Datanode => datanode::READY,
        };
        let mut line = String::new();
        while self.stdout.read_line(&mut line).await.context("cannot read what a server says")? != 0 {
            if let Some(rest) = line.trim_end().strip_prefix(ready) {
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

    /// Whether it has ended already.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.try_wait().context("cannot look after a server")?.is_some())
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

/// `SCHEME://HOST:PORT`, two or three times.
fn parse(rest: &str) -> Result<Addresses> {
    let address = |word: &str| -> Result<_> {
        let (_, address) = word.split_once("://").context("an address has no scheme")?;
        Ok(address.parse()?)
    };
    let all: Vec<_> = rest.split_whitespace().map(address).collect::<Result<_>>()?;
    Addresses::of(&all).context("an address is missing")
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_ready_line_holds_all_addresses() {
        let ports = |line| parse(line).unwrap().all().map(|address| address.port()).collect::<Vec<_>>();
        assert_eq!(ports(" hdfs://127.0.0.1:8020 http://127.0.0.1:9870"), [8020, 9870]);
        assert_eq!(ports("data://127.0.0.1:1 ipc://127.0.0.1:2 http://127.0.0.1:3"), [1, 2, 3]);
        assert!(parse("hdfs://127.0.0.1:8020").is_err() && parse("").is_err());
    }
}

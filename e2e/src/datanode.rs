//! Our datanodes under the namenode of somebody else.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::cluster::binary;
use crate::hadoop::tail;

/// How long one may take to register.
const LIMIT: Duration = Duration::from_secs(60);
const READY: &str = "trellis datanode ready: ";

/// A running `trellis datanode`; killed when dropped.
pub struct Datanode {
    process: Child,
    folder: PathBuf,
}

impl Datanode {
    /// Starts one that keeps its blocks in `folder`, and waits until the namenode knows it.
    pub fn start(namenode: &str, folder: &Path) -> Result<Datanode> {
        let log = folder.with_extension("log");
        let any = "127.0.0.1:0";
        let mut process = Command::new(binary()?)
            .args(["datanode", "--namenode", namenode, "--hostname", "localhost"])
            .args(["--address", any, "--ipc", any, "--http", any, "--set", "heartbeat=1s", "--data"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(&log)?)
            .spawn()
            .context("starting trellis datanode")?;
        let stdout = process.stdout.take().ok_or_else(|| anyhow!("trellis datanode has no stdout"))?;
        let datanode = Datanode { process, folder: folder.to_owned() };
        let (sender, lines) = channel();
        spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)))
        });
        match lines.recv_timeout(LIMIT) {
            Ok(line) if line.starts_with(READY) => Ok(datanode),
            _ => {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("trellis datanode did not register; its log ends:\n{}", tail(&said, 30))
            }
        }
    }

    /// Where its blocks are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Datanode {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

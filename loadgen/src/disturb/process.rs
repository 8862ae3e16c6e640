//! A process that is signalled, named by its pid or by a file that holds it.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Error, Result};
use crate::servers::cpu;

/// Longer files hold something else.
const MAX_FILE_BYTES: u64 = 64;

/// Who is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// The process of this number.
    Pid(u32),
    /// Whichever has its number in this file at the time.
    File(PathBuf),
}

impl FromStr for Who {
    type Err = String;

    fn from_str(text: &str) -> Result<Who, String> {
        match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => pid(text).map(Who::Pid),
            false => Ok(Who::File(text.into())),
        }
    }
}

/// A pid that is neither everybody's, nor init's, nor this process's own.
fn pid(text: &str) -> Result<u32, String> {
    let pid: u32 =
        text.parse().ok().filter(|pid| i32::try_from(*pid).is_ok()).ok_or(format!("{text} is no pid"))?;
    match pid <= 1 || pid == std::process::id() {
        true => Err(format!("{pid} is no process of a server")),
        false => Ok(pid),
    }
}

impl Who {
    /// The process, as it is now.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(&self) -> Result<Process> {
        match self {
            Who::Pid(pid) => Process::of(*pid),
            Who::File(path) => Process::of(read(path)?),
        }
    }
}

fn read(path: &Path) -> Result<u32> {
    let what = || format!("reading a pid from {}", path.display());
    if fs::metadata(path).map_err(Error::io(what()))?.len() > MAX_FILE_BYTES {
        return Err(Error::Unreadable(format!("{} is too long for a file with a pid", path.display())));
    }
    let text = fs::read_to_string(path).map_err(Error::io(what()))?;
    pid(text.trim()).map_err(|why| Error::Unreadable(format!("{}: {why}", path.display())))
}

/// One process for good, also when another gets its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    began: u64,
}

impl Process {
    fn of(pid: u32) -> Result<Process> {
        Ok(Process { pid, began: cpu::began(pid)? })
    }

    /// Sends it a signal; None: only looks whether that is allowed.
    ///
    /// # Errors
    /// When it has ended, or is somebody else's.
    pub fn signal(self, signal: impl Into<Option<Signal>>) -> Result<()> {
        let gone = || Error::Unreadable(format!("process {} has ended", self.pid));
        if cpu::began(self.pid).map_err(|_| gone())? != self.began {
            return Err(gone());
        }
        kill(Pid::from_raw(self.pid.cast_signed()), signal).map_err(|error| match error {
            Errno::ESRCH => gone(),
            error => Error::Unreadable(format!("process {} cannot be signalled: {error}", self.pid)),
        })
    }

    /// The process whose number has come into the file in place of this one's, and when it did.
    pub fn successor(self, who: &Who) -> Option<(Process, SystemTime)> {
        let Who::File(path) = who else { return None };
        let now = who.find().ok().filter(|now| *now != self)?;
        Some((now, fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_found_by_number_and_by_file() {
        let dir = std::env::temp_dir().join(format!("trellis-who-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("made");
        let file = dir.join("pid");
        let mut child = Command::new("sleep").arg("600").spawn().expect("started");
        fs::write(&file, format!("{}\n", child.id())).expect("written");
        let (by_number, by_file) = (Who::Pid(child.id()), Who::File(file.clone()));
        let process = by_number.find().expect("it runs");
        assert_eq!(by_file.find().expect("it runs"), process);
        assert!(process.signal(None).is_ok() && process.successor(&by_file).is_none());
        process.signal(Signal::SIGKILL).expect("ours");
        child.wait().expect("it ended");
        assert!(process.signal(None).expect_err("gone").to_string().contains("has ended"));
        let mut next = Command::new("sleep").arg("600").spawn().expect("started");
        fs::write(&file, next.id().to_string()).expect("written");
        assert_eq!(process.successor(&by_file).map(|(next, _)| next.pid), Some(next.id()));
        next.kill().expect("ours");
        next.wait().expect("it ended");
        for (text, why) in
            [("", "is no pid"), ("0", "no process of a server"), ("-1", "is no pid"), ("x", "is no pid")]
        {
            fs::write(&file, text).expect("written");
            let error = by_file.find().expect_err(text).to_string();
            assert!(error.contains(why), "{error}");
        }
        fs::write(&file, [b'1'; 100]).expect("written");
        assert!(by_file.find().expect_err("long").to_string().contains("too long"));
        fs::remove_dir_all(&dir).expect("it is there");
        assert!(by_file.find().expect_err("gone").to_string().contains("reading a pid from"));
    }
}

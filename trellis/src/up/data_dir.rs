//! The data directory of `trellis up`.
//!
//! ```text
//! DATA/run/up.lock           locked while `up` runs; holds its pid
//! DATA/run/namenode-I.pid    the pid of a live namenode; datanode-I.pid of a datanode, and so on
//! DATA/run/namenode-I.addr   its RPC address and its HTTP address, a line each, once it serves
//! DATA/run/datanode-I.addr   its addresses for data, IPC and HTTP
//! DATA/logs/namenode-I.log   what it said; appended to at every start
//! DATA/logs/audit-I.log      a namenode's audit log, in HDFS's format
//! DATA/store                 the store, unless --store names another
//! DATA/datanode-I            the blocks of datanode I
//! ```

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long a server of an `up` that was killed may take to end.
const LEFTOVERS_END: Duration = Duration::from_secs(10);
/// The files under `run` that each server has.
const ENDINGS: [&str; 2] = ["addr", "pid"];
/// How much of a log's end is shown.
const LOG_END: u64 = 4096;

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `trellis namenode`
    Namenode,
    /// `trellis datanode`
    Datanode,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Namenode, Kind::Datanode];

    /// The command that runs it, and the first part of the names of its files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Namenode => "namenode",
            Kind::Datanode => "datanode",
        }
    }
}

/// One server of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// What it is.
    pub kind: Kind,
    /// Which of its kind, from 0.
    pub index: usize,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.index)
    }
}

impl Member {
    fn file(self, ending: &str) -> String {
        format!("{}-{}.{ending}", self.kind.name(), self.index)
    }
}

/// Where a server listens: first where it serves, last its HTTP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// RPC of a namenode, data transfer of a datanode.
    pub main: SocketAddr,
    /// RPC of a datanode.
    pub ipc: Option<SocketAddr>,
    /// HTTP.
    pub http: SocketAddr,
}

impl Addresses {
    /// Of two or three, in their order.
    pub fn of(all: &[SocketAddr]) -> Option<Addresses> {
        match *all {
            [main, http] => Some(Addresses { main, ipc: None, http }),
            [main, ipc, http] => Some(Addresses { main, ipc: Some(ipc), http }),
            _ => None,
        }
    }

    /// All of them, in their order.
    pub fn all(&self) -> impl Iterator<Item = SocketAddr> {
        [Some(self.main), self.ipc, Some(self.http)].into_iter().flatten()
    }
}

/// The data directory, locked for this `up`.
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Makes what is missing and locks the directory: only one `up` may use it.
    pub fn open(path: &Path) -> Result<DataDir> {
        for dir in [path.join("run"), path.join("logs")] {
            fs::create_dir_all(&dir).with_context(|| {
                format!("cannot make {}; give a directory with --data that may be written", dir.display())
            })?;
        }
        let path = path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
        let lock = lock(&path)?;
        let data = DataDir { path, _lock: lock };
        data.clear_leftovers()?;
        Ok(data)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the store is, unless another was named.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Where logs are.
    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// What a server says.
    pub fn log(&self, member: Member) -> PathBuf {
        self.logs().join(member.file("log"))
    }

    /// The audit log of namenode `index`.
    pub fn audit_log(&self, index: usize) -> PathBuf {
        self.logs().join(format!("audit-{index}.log"))
    }

    /// The blocks of datanode `index`.
    pub fn blocks(&self, index: usize) -> PathBuf {
        self.path.join(format!("datanode-{index}"))
    }

    /// Notes a server's process.
    pub fn write_pid(&self, member: Member, pid: u32) -> Result<()> {
        self.write(&member.file("pid"), &format!("{pid}\n"))
    }

    /// Notes where a server listens.
    pub fn write_addresses(&self, member: Member, addresses: &Addresses) -> Result<()> {
        let lines: String = addresses.all().map(|address| format!("{address}\n")).collect();
        self.write(&member.file("addr"), &lines)
    }

    /// Forgets a server's process, so that nobody signals a later one of the same number.
    pub fn forget(&self, member: Member) {
        for ending in ENDINGS {
            let _ = fs::remove_file(self.path.join("run").join(member.file(ending)));
        }
    }

    /// Replaces a file under `run` as a whole.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let (path, fresh) =
            (self.path.join("run").join(name), self.path.join("run").join(format!("{name}.new")));
        fs::write(&fresh, text)
            .and_then(|()| fs::rename(&fresh, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// What an `up` that was killed has left: pid files. Its servers end with it; one that is just ending is waited for,
    /// since it may still have its ports.
    fn clear_leftovers(&self) -> Result<()> {
        for (member, ending) in run_files(&self.path)? {
            let path = self.path.join("run").join(member.file(ending));
            if ending == "pid" {
                let pid = fs::read_to_string(&path).unwrap_or_default();
                wait_for_end(pid.trim(), member)?;
            }
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }
}

fn lock(path: &Path) -> Result<File> {
    let name = path.join("run/up.lock");
    let mut file = File::options()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .open(&name)
        .with_context(|| format!("cannot open {}", name.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            bail!(
                "{} is in use by another 'trellis up' (pid {}): stop that one, or give another directory with --data",
                path.display(),
                pid.trim()
            );
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", name.display()));
        }
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .with_context(|| format!("cannot write {}", name.display()))?;
    Ok(file)
}

/// Files under `run` that belong to servers: whose, and "pid" or "addr".
fn run_files(data: &Path) -> Result<Vec<(Member, &'static str)>> {
    let run = data.join("run");
    let mut found = Vec::new();
    for entry in fs::read_dir(&run).with_context(|| format!("cannot read {}", run.display()))? {
        let name = entry?.file_name();
        let Some((kind, rest)) = name.to_str().and_then(|name| name.split_once('-')) else { continue };
        let Some(kind) = Kind::ALL.into_iter().find(|known| known.name() == kind) else { continue };
        let Some((index, ending)) = rest.split_once('.') else { continue };
        let ending = ENDINGS.into_iter().find(|known| *known == ending);
        if let (Ok(index), Some(ending)) = (index.parse(), ending) {
            found.push((Member { kind, index }, ending));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn wait_for_end(pid: &str, member: Member) -> Result<()> {
    let deadline = Instant::now() + LEFTOVERS_END;
    while is_child_of_up(pid, member.kind) {
        if Instant::now() > deadline {
            bail!(
                "{member} of an earlier 'trellis up' still runs (pid {pid}), though that has ended: end it with \
                 'kill -9 {pid}', then start again"
            );
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Whether the process lives and is such a server that an `up` has started, not another with the same number.
fn is_child_of_up(pid: &str, kind: Kind) -> bool {
    if pid.is_empty() || !pid.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
    words.contains(&kind.name().as_bytes()) && words.contains(&b"--parent-pid".as_slice())
}

/// The live namenodes of the `up` that runs on this directory: their numbers, in order, and addresses.
pub fn live(data: &Path) -> Result<Vec<(usize, Addresses)>> {
    let mut all = Vec::new();
    for (member, ending) in run_files(data)? {
        let path = data.join("run").join(member.file(ending));
        let pid = fs::read_to_string(path.with_extension("pid")).unwrap_or_default();
        if member.kind == Kind::Namenode && ending == "addr" && is_child_of_up(pid.trim(), member.kind) {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let lines: Option<Vec<SocketAddr>> = text.lines().map(|line| line.parse().ok()).collect();
            match lines.and_then(|lines| Addresses::of(&lines)) {
                Some(addresses) => all.push((member.index, addresses)),
                None => bail!("{} does not hold two addresses", path.display()),
            }
        }
    }
    Ok(all)
}

/// The end of a log, for an error message.
pub fn log_end(path: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(LOG_END);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(LOG_END).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    };
    match read() {
        Ok(text) => {
            let lines: Vec<&str> = text.lines().collect();
            format!("{} ends:\n{}", path.display(), lines[lines.len().saturating_sub(8)..].join("\n"))
        }
        Err(error) => format!("and its log {} cannot be read: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_up_is_refused_and_names_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(dir.path()).unwrap();
        let refused = DataDir::open(dir.path()).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        drop(first);
        DataDir::open(dir.path()).unwrap();
    }

    #[test]
    fn stale_pid_files_are_removed_even_if_the_number_is_another_process_now() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("run")).unwrap();
        fs::write(dir.path().join("run/namenode-0.pid"), format!("{}\n", std::process::id())).unwrap();
        fs::write(dir.path().join("run/namenode-1.pid"), "rubbish").unwrap();
        fs::write(dir.path().join("run/datanode-7.pid"), "1\n").unwrap();
        fs::write(dir.path().join("run/namenode-0.addr"), "127.0.0.1:1\n127.0.0.1:2\n").unwrap();
        assert_eq!(live(dir.path()).unwrap(), []);
        DataDir::open(dir.path()).unwrap();
        assert_eq!(run_files(dir.path()).unwrap(), []);
    }
}

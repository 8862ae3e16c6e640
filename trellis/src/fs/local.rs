//! Files of this machine: read and written by threads of their own, so that disks and sockets work at once.

use std::fs::{self, File, FileTimes};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow};
use bytes::{Bytes, BytesMut};
use nix::unistd::{Gid, Group, Uid, User};
use tokio::sync::{mpsc, oneshot};
use trellis_client::types::FileStatus;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;
/// Pieces between a thread and the client: a few MiB.
const QUEUE: usize = 8;
/// Permission bits of a file.
const MODE: u32 = 0o1777;

/// The path that an argument names: plain, or as a URI.
pub fn path(argument: &str) -> PathBuf {
    let plain = argument.strip_prefix("file://").or_else(|| argument.strip_prefix("file:"));
    PathBuf::from(plain.unwrap_or(argument))
}

/// What happened to a local path.
pub fn failed(path: &Path, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::NotFound => anyhow!("`{}': No such file or directory", path.display()),
        _ => anyhow!("`{}': {error}", path.display()),
    }
}

/// A file, or stdin, read ahead.
pub struct Reader(mpsc::Receiver<io::Result<Bytes>>);

impl Reader {
    /// None: stdin.
    pub fn open(path: Option<&Path>) -> Result<Reader> {
        let input: Box<dyn Read + Send> = match path {
            Some(path) => Box::new(File::open(path).map_err(|error| failed(path, &error))?),
            None => Box::new(io::stdin()),
        };
        let (sender, receiver) = mpsc::channel(QUEUE);
        thread::Builder::new().name("reader".into()).spawn(move || read_all(input, &sender))?;
        Ok(Reader(receiver))
    }

    /// The next bytes; None at the end.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        self.0.recv().await.transpose()
    }
}

fn read_all(mut input: Box<dyn Read + Send>, sender: &mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let mut buffer = BytesMut::zeroed(READ_BYTES);
        let read = match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => {
                buffer.truncate(len);
                Ok(buffer.freeze())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = read.is_err();
        if sender.blocking_send(read).is_err() || failed {
            return;
        }
    }
}

/// A file that is written behind.
pub struct Writer {
    pieces: mpsc::Sender<Bytes>,
    done: oneshot::Receiver<io::Result<()>>,
}

impl Writer {
    /// Makes the file anew.
    pub fn create(path: &Path) -> Result<Writer> {
        let mut file = File::create(path).map_err(|error| failed(path, &error))?;
        let (pieces, mut receiver) = mpsc::channel::<Bytes>(QUEUE);
        let (sender, done) = oneshot::channel();
        thread::Builder::new().name("writer".into()).spawn(move || {
            let mut result = Ok(());
            while result.is_ok()
                && let Some(piece) = receiver.blocking_recv()
            {
                result = file.write_all(&piece);
            }
            // Whoever waits for it may have given up.
            let _ = sender.send(result);
        })?;
        Ok(Writer { pieces, done })
    }

    /// Takes the next bytes. Its failure is told by [`Writer::finish`]; false: there is no use in more.
    pub async fn write(&self, bytes: Bytes) -> bool {
        self.pieces.send(bytes).await.is_ok()
    }

    /// Waits until all is written.
    pub async fn finish(self) -> Result<()> {
        drop(self.pieces);
        Ok(self.done.await.context("the thread that writes has ended")??)
    }
}

/// What is preserved of a local file: mode, owner, group, and both times in milliseconds.
pub struct Attributes {
    pub mode: u16,
    pub owner: String,
    pub group: String,
    pub mtime_ms: u64,
    pub atime_ms: u64,
}

impl Attributes {
    /// Of a local file; ids without names stand for themselves.
    pub fn of(path: &Path) -> Result<Attributes> {
        let metadata = fs::metadata(path).map_err(|error| failed(path, &error))?;
        let (uid, gid) = (metadata.uid(), metadata.gid());
        let owner = User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
        let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten().map(|group| group.name);
        Ok(Attributes {
            mode: (metadata.mode() & MODE) as u16,
            owner: owner.unwrap_or_else(|| uid.to_string()),
            group: group.unwrap_or_else(|| gid.to_string()),
            mtime_ms: ms(metadata.modified()),
            atime_ms: ms(metadata.accessed()),
        })
    }
}

fn ms(time: io::Result<SystemTime>) -> u64 {
    let since = time.ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Gives a local file the mode, times, owner and group that a remote one has.
pub fn preserve(path: &Path, status: &FileStatus) -> Result<()> {
    let at = |ms: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
    let uid = User::from_name(&status.owner)?.map(|user| user.uid.as_raw());
    let gid = Group::from_name(&status.group)?.map(|group| group.gid.as_raw());
    let set = || -> io::Result<()> {
        // Opened before its mode may forbid that.
        let file = File::open(path)?;
        let modified = at(status.modification_time_ms);
        let accessed = if status.is_dir() { modified } else { at(status.access_time_ms) };
        file.set_times(FileTimes::new().set_modified(modified).set_accessed(accessed))?;
        chown(path, uid, gid)?;
        file.set_permissions(fs::Permissions::from_mode(status.permission.into()))
    };
    set().map_err(|error| failed(path, &error))
}

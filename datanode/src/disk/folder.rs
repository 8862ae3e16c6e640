//! A `--data` folder before and while it is served: its lock, whose it is, and how a new one is laid out.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use uuid::Uuid;

use super::names::LAYOUT_VERSION;
use super::version::Version;
use crate::store::{Pool, Result, StoreError};

/// A locked folder. The lock goes with it.
pub struct Folder {
    path: PathBuf,
    version: Option<Version>,
    _lock: File,
}

impl Folder {
    /// Makes the folder if need be, locks it, and reads whose it is.
    pub fn open(path: &Path) -> Result<Folder> {
        let io = |what, source| StoreError::Io { what, path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|e| io("making the folder", e))?;
        let path = fs::canonicalize(path).map_err(|e| io("looking up", e))?;
        let lock = lock(&path)?;
        let file = path.join("current/VERSION");
        let version = Version::read(&file).map_err(|e| io("reading current/VERSION of", e))?;
        let folder = Folder { path, version, _lock: lock };
        folder.check_layout()?;
        Ok(folder)
    }

    /// The folder, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `datanodeUuid`, if the folder was used before.
    pub fn datanode_uuid(&self) -> Option<&str> {
        self.version.as_ref()?.get("datanodeUuid")
    }

    /// Makes the folder one of this cluster and pool if it is new, and refuses it if it is of another. Answers its
    /// storage's uuid.
    pub fn attach(&mut self, datanode_uuid: &str, pool: &Pool) -> Result<String> {
        if !pool.id.starts_with("BP-") || !is_plain(&pool.id) || !is_plain(&pool.cluster_id) {
            return Err(
                self.refused(&format!("{:?} of {:?} is no block pool's id", pool.id, pool.cluster_id))
            );
        }
        let is_new = self.version.is_none();
        let version = match self.version.take() {
            Some(version) => version,
            None => Version::new([
                ("storageID", format!("DS-{}", Uuid::new_v4())),
                ("clusterID", pool.cluster_id.clone()),
                ("cTime", "0".to_owned()),
                ("datanodeUuid", datanode_uuid.to_owned()),
                ("storageType", "DATA_NODE".to_owned()),
                ("layoutVersion", LAYOUT_VERSION.to_string()),
            ]),
        };
        self.expect(&version, "clusterID", &pool.cluster_id)?;
        self.expect(&version, "datanodeUuid", datanode_uuid)?;
        let storage = version.get("storageID").filter(|id| is_plain(id));
        let storage = storage.ok_or_else(|| self.refused("its VERSION has no storageID"))?.to_owned();
        // Before the pool: without it a folder that is not empty is not known to be ours.
        if is_new {
            let file = self.path.join("current/VERSION");
            let written = fs::create_dir_all(self.path.join("current")).and_then(|()| version.write(&file));
            written.map_err(|source| StoreError::Io { what: "writing", path: file, source })?;
        }
        self.attach_pool(pool)?;
        self.version = Some(version);
        Ok(storage)
    }

    fn attach_pool(&self, pool: &Pool) -> Result<()> {
        let current = self.path.join("current");
        for entry in entries(&current)? {
            let name = entry.to_string_lossy();
            if name.starts_with("BP-") && *name != *pool.id {
                let reason = format!("it has the block pool {name}; the namenode's is {}", pool.id);
                return Err(self.refused(&reason));
            }
        }
        let dir = current.join(&pool.id);
        let file = dir.join("current/VERSION");
        let io = |source| StoreError::Io { what: "preparing", path: dir.clone(), source };
        if dir.join("previous").exists() {
            return Err(self.refused("an upgrade of it is not finalized: do that with what began it"));
        }
        let found = Version::read(&file).map_err(io)?;
        let is_new = found.is_none();
        let version = match found {
            Some(version) => version,
            None if !entries(&dir.join("current/finalized"))?.is_empty() => {
                return Err(self.refused(&format!("{} has blocks but no current/VERSION", dir.display())));
            }
            None => Version::new([
                ("namespaceID", pool.namespace_id.to_string()),
                ("blockpoolID", pool.id.clone()),
                ("cTime", pool.ctime.to_string()),
                ("layoutVersion", LAYOUT_VERSION.to_string()),
            ]),
        };
        self.expect(&version, "blockpoolID", &pool.id)?;
        self.expect(&version, "namespaceID", &pool.namespace_id.to_string())?;
        self.expect(&version, "cTime", &pool.ctime.to_string())?;
        self.expect(&version, "layoutVersion", &LAYOUT_VERSION.to_string())?;
        for folder in ["tmp", "current/finalized", "current/rbw"] {
            fs::create_dir_all(dir.join(folder)).map_err(io)?;
        }
        if is_new {
            version.write(&file).map_err(io)?;
            for synced in [&dir, &current, &self.path] {
                File::open(synced).and_then(|dir| dir.sync_all()).map_err(io)?;
            }
        }
        // What a stock DataNode remembers over a restart: it is not true any more.
        for memory in ["replicas", "dfsUsed"] {
            match fs::remove_file(dir.join("current").join(memory)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Refuses what another version, or an upgrade that was broken off, left.
    fn check_layout(&self) -> Result<()> {
        if let Some(version) = &self.version {
            self.expect(version, "storageType", "DATA_NODE")?;
            self.expect(version, "layoutVersion", &LAYOUT_VERSION.to_string())?;
        } else if !self.is_begun()? {
            return Err(self.refused("its folder current has no VERSION but is not empty"));
        }
        for left in ["previous", "previous.tmp", "removed.tmp", "finalized.tmp"] {
            if self.path.join(left).exists() {
                let reason = format!("{left} is there: an upgrade of it is not finalized");
                return Err(self.refused(&reason));
            }
        }
        Ok(())
    }

    /// Whether there is nothing but what a first start that broke off may leave: no block.
    fn is_begun(&self) -> Result<bool> {
        let current = self.path.join("current");
        for entry in entries(&current)? {
            let name = entry.to_string_lossy();
            if name == "VERSION.tmp" {
                continue;
            }
            if !name.starts_with("BP-") || !is_empty_pool(&current.join(&entry))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn expect(&self, version: &Version, key: &str, expected: &str) -> Result<()> {
        match version.get(key) {
            Some(found) if found == expected => Ok(()),
            found => {
                Err(self.refused(&format!("its {key} is {}, not {expected}", found.unwrap_or("missing"))))
            }
        }
    }

    fn refused(&self, reason: &str) -> StoreError {
        StoreError::Folder { path: self.path.clone(), reason: reason.to_owned() }
    }
}

/// Letters, digits and the signs that ids have: a file's name, and one line of a VERSION file.
fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.len() <= 255 && id.bytes().all(|b| b.is_ascii_graphic() && b != b'/')
}

/// Whether a pool's folder is laid out as a new one and has no files of replicas.
fn is_empty_pool(dir: &Path) -> Result<bool> {
    let only = |dir: &Path, known: &[&str]| -> Result<bool> {
        Ok(entries(dir)?.iter().all(|name| known.iter().any(|known| name == known)))
    };
    Ok(only(dir, &["current", "tmp"])?
        && only(&dir.join("current"), &["VERSION", "VERSION.tmp", "finalized", "rbw"])?
        && ["tmp", "current/finalized", "current/rbw"]
            .iter()
            .try_fold(true, |all, folder| Ok(all && only(&dir.join(folder), &[])?))?)
}

/// Names in a folder; none if there is no such folder.
fn entries(dir: &Path) -> Result<Vec<std::ffi::OsString>> {
    let io = |source| StoreError::Io { what: "listing", path: dir.to_owned(), source };
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(io(error)),
        Ok(found) => found.map(|entry| entry.map(|e| e.file_name())).collect::<io::Result<_>>().map_err(io),
    }
}

/// Locks `in_use.lock` as Java's `FileChannel.tryLock` does, so that ours and stock's exclude each other; the lock
/// belongs to the open file, so that two stores in one process do too.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("in_use.lock");
    let io = |source| StoreError::Io { what: "locking", path: path.clone(), source };
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?;
    let whole = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole)) {
        Ok(_) => {}
        Err(Errno::EAGAIN | Errno::EACCES) => {
            let owner = fs::read_to_string(&path).unwrap_or_default();
            let reason = format!("it is in use by another datanode ({})", owner.trim());
            return Err(StoreError::Folder { path: folder.to_owned(), reason });
        }
        Err(error) => return Err(io(error.into())),
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}@localhost", std::process::id())).map_err(io)?;
    Ok(file)
}

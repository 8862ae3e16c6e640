//! Opening an environment: what may be wrong with a directory, said clearly.

use std::fs::File;
use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, MdbError, WithTls};
use nix::sys::statfs::{FsType, statfs};

use super::claim::{Claim, Refused, lock_within};
use super::log::{self, Log, ReadError};
use super::room::Room;
use super::turnstile::Turnstile;
use super::{Core, Form, LmdbConfig, MAX_READERS, apply};
use crate::counters::Counters;
use crate::key::Key;
use crate::store::StoreError;

/// File systems whose locks or maps are not shared coherently, by `f_type` of statfs(2).
const NETWORK_FILE_SYSTEMS: &[(i64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x4750_4653, "GPFS"),
    (0x1980_3fe3, "BeeGFS"),
];

/// Locked by whoever opens the environment, while it does, and by no transaction: so nobody waits here for a writer.
const LOCK_FILE: &str = "open.lock";

/// Opens the environment in `dir`, frees the reader slots of dead processes, and puts a log that a dead one left into
/// the tree.
pub(super) fn open(dir: &Path, config: LmdbConfig) -> Result<Core, StoreError> {
    check_dir(dir)?;
    let claim = match config.form {
        Form::Plain => Claim::shared(dir, config.open_wait).map(Some),
        Form::Log => Claim::alone(dir, config.open_wait).map(Some),
        Form::Behind => Ok(None),
    };
    let claim = claim.map_err(|why| refused(dir, why))?;
    let file = File::options().read(true).write(true).create(true).truncate(false).open(dir.join(LOCK_FILE));
    let file = file.map_err(|error| denied(dir, error))?;
    // One process at a time creates files and reader tables.
    if lock_within(config.open_wait, || file.try_lock()).map_err(|error| denied(dir, error))?.is_none() {
        return Err(StoreError::Unavailable(format!(
            "lmdb:{}: another process has been opening it for {:?}; if it is stopped, continue or end it",
            dir.display(),
            config.open_wait
        )));
    }
    let opened = open_env(dir, &config);
    drop(file);
    let env = opened.map_err(|error| StoreError::Fatal(why_not(dir, &config, &error)))?;
    let foreign = |error| StoreError::Fatal(why_not(dir, &config, &error));
    let room = Room::of(dir, &env).map_err(|error| denied(dir, error))?;
    room.check(&env, dir)?;
    let db = open_tree(&env).map_err(foreign)?;
    env.clear_stale_readers().map_err(foreign)?;
    let core = Core {
        env,
        db,
        room,
        dir: dir.to_path_buf(),
        config,
        counters: Counters::default(),
        turnstile: None,
        log: None,
        claim,
    };
    check_ours(&core)?;
    ready(core)
}

/// Prepares an opened environment for writes in its form.
fn ready(mut core: Core) -> Result<Core, StoreError> {
    let Some(claim) = &core.claim else { return Ok(core) };
    let dir = &core.dir;
    // What is in new files, and their names, must survive a power loss too.
    core.env.force_sync().map_err(|error| StoreError::Fatal(why_not(dir, &core.config, &error)))?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| denied(dir, error))?;
    while log::exists(dir).map_err(|error| denied(dir, error))? {
        replay(&core)?;
        if core.config.form == Form::Plain {
            claim.share(dir, core.config.open_wait).map_err(|why| refused(dir, why))?;
        }
    }
    if core.config.form == Form::Log {
        let log = Log::create(dir, core.config.log_bytes).map_err(|error| denied(dir, error))?;
        core.log = Some(log);
    } else {
        core.turnstile = Some(Turnstile::of(dir).map_err(|error| denied(dir, error))?);
    }
    Ok(core)
}

/// Puts what a dead process left in its log into the tree, and removes the log.
fn replay(core: &Core) -> Result<(), StoreError> {
    let failed = |error| match error {
        ReadError::Io(error) => core.error(error.into()),
        ReadError::Damaged(why) => StoreError::Fatal(format!(
            "lmdb:{}: its log is damaged: {why}; restore the whole directory from a backup, or move log.0 and log.1 away \
             to go on without the last operations",
            core.dir.display()
        )),
    };
    let layer = log::read(&core.dir).map_err(failed)?;
    if !layer.is_empty() {
        let rows = layer.len();
        apply::merge(core, &layer)?;
        tracing::info!(rows, dir = %core.dir.display(), "put the rows of a log that was left behind into the tree");
    }
    log::remove(&core.dir).map_err(failed)
}

fn denied(dir: &Path, error: std::io::Error) -> StoreError {
    StoreError::Fatal(format!("lmdb:{}: cannot write here: {error}; check owner and mount", dir.display()))
}

fn refused(dir: &Path, why: Refused) -> StoreError {
    let name = dir.display();
    match why {
        Refused::Owned { pid } => StoreError::Unavailable(format!(
            "lmdb:{name}: process {pid} has it alone, with a log in front of it; stop that one first, or, for several \
             namenodes on one store, start all of them without --alone"
        )),
        Refused::Shared => StoreError::Unavailable(format!(
            "lmdb:{name}: other processes have it open, so it cannot be had alone; stop them, or start without --alone"
        )),
        Refused::Io(error) => denied(dir, error),
    }
}

fn check_dir(dir: &Path) -> Result<(), StoreError> {
    let name = dir.display();
    let meta = std::fs::metadata(dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            StoreError::Fatal(format!("lmdb:{name}: no such directory; create it, or check the path"))
        }
        _ => StoreError::Fatal(format!("lmdb:{name}: {error}")),
    })?;
    if !meta.is_dir() {
        return Err(StoreError::Fatal(format!(
            "lmdb:{name}: not a directory; give the directory of the store"
        )));
    }
    let kind = statfs(dir).map_err(|error| StoreError::Fatal(format!("lmdb:{name}: {error}")))?;
    match network_file_system(kind.filesystem_type()) {
        Some(kind) => Err(StoreError::Fatal(format!(
            "lmdb:{name}: lies on a network file system ({kind}), which does not keep its locks and maps coherent; use \
             a local disk, or a mysql: or postgres: store"
        ))),
        None => Ok(()),
    }
}

#[allow(clippy::unnecessary_cast)] // the type differs between C libraries
fn network_file_system(kind: FsType) -> Option<&'static str> {
    let magic = kind.0 as i64 & 0xffff_ffff;
    NETWORK_FILE_SYSTEMS.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name)
}

/// The one place with `unsafe`: the file is mapped, so it must not be changed but by the engine, nor opened twice by
/// one process. Nothing else here writes to it (but zeros past its end: [`super::room`]), `heed` refuses a second
/// opening, and network file systems are refused above. No flags: the defaults are the durable ones.
#[allow(unsafe_code)]
fn open_env(dir: &Path, config: &LmdbConfig) -> heed::Result<Env<WithTls>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(config.map_bytes).max_readers(MAX_READERS);
    // SAFETY: see above.
    unsafe { options.open(dir) }
}

/// The unnamed tree: a named one would add a dirty page to every commit.
fn open_tree(env: &Env<WithTls>) -> heed::Result<Database<'static, Bytes, Bytes>> {
    let txn = env.read_txn()?;
    let opened = env.open_databases_and_commit(txn, |opener, txn| {
        opener.open_database::<Bytes, Bytes>(txn, None).map(CommitOrAbort::<_, ()>::Commit)
    })?;
    match opened {
        CommitOrAbort::Commit(Some(db)) => Ok(db),
        _ => Err(heed::Error::Mdb(MdbError::NotFound)),
    }
}

/// Another program's environment is refused by its first and last keys.
fn check_ours(core: &Core) -> Result<(), StoreError> {
    let txn = core.env.read_txn().map_err(|error| core.error(error))?;
    let first = core.db.first(&txn).map_err(|error| core.error(error))?;
    let last = core.db.last(&txn).map_err(|error| core.error(error))?;
    match first.into_iter().chain(last).find(|(key, _)| Key::from_bytes(key).is_none()) {
        None => Ok(()),
        Some((key, _)) => Err(StoreError::Fatal(format!(
            "lmdb:{}: its data.mdb holds other than rows of this store, or of a newer version (key {}); give another \
             directory",
            core.dir.display(),
            key.escape_ascii()
        ))),
    }
}

fn why_not(dir: &Path, config: &LmdbConfig, error: &heed::Error) -> String {
    let dir = dir.display();
    match error {
        heed::Error::EnvAlreadyOpened => {
            format!("lmdb:{dir}: this process has it open already; share that one")
        }
        heed::Error::Mdb(MdbError::Invalid) => {
            format!(
                "lmdb:{dir}: data.mdb is not a file of this engine, or damaged; restore it, or give another directory"
            )
        }
        heed::Error::Mdb(MdbError::VersionMismatch) => {
            format!("lmdb:{dir}: data.mdb or lock.mdb was written by another version of the engine")
        }
        heed::Error::Io(error) if error.kind() == std::io::ErrorKind::OutOfMemory => {
            format!(
                "lmdb:{dir}: cannot map {} bytes; raise 'ulimit -v' or use a smaller map",
                config.map_bytes
            )
        }
        error => format!("lmdb:{dir}: cannot open: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        assert_eq!(network_file_system(nix::sys::statfs::NFS_SUPER_MAGIC), Some("NFS"));
        assert_eq!(network_file_system(nix::sys::statfs::SMB_SUPER_MAGIC), Some("SMB"));
        assert_eq!(network_file_system(nix::sys::statfs::FUSE_SUPER_MAGIC), Some("FUSE"));
        // CIFS's number fills 32 bits, which some C libraries sign-extend.
        assert_eq!(network_file_system(FsType(0xff53_4d42_u32 as i32 as _)), Some("CIFS"));
        assert_eq!(network_file_system(nix::sys::statfs::EXT4_SUPER_MAGIC), None);
        assert_eq!(network_file_system(nix::sys::statfs::TMPFS_MAGIC), None);
    }
}

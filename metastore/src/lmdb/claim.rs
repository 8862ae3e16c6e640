//! Who may have a directory open: one process with a log, or any number without.
//!
//! Each keeps a file locked as long as it lives: one with a log for itself, others together. A log that nobody owns was
//! left by a process that was killed; whoever comes next puts it into the tree before anything else.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::log;

const FILE: &str = "form.lock";
/// How often a lock that another holds is tried.
const LOCK_RETRY: Duration = Duration::from_millis(2);

/// A place among those that have the directory open; given up when dropped.
pub(super) struct Claim(File);

/// Why there is no place.
#[derive(Debug)]
pub(super) enum Refused {
    /// This process has it alone; empty = it did not say which.
    Owned {
        pid: String,
    },
    /// Others have it open, without a log.
    Shared,
    Io(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Io(error)
    }
}

impl Claim {
    /// Claims a directory for one process alone.
    pub fn alone(dir: &Path, wait: Duration) -> Result<Claim, Refused> {
        let claim = Claim(open(dir)?);
        if lock_within(wait, || claim.0.try_lock())?.is_none() {
            let pid = claim.owner()?;
            return Err(if pid.is_empty() { Refused::Shared } else { Refused::Owned { pid } });
        }
        claim.tell_owner()?;
        Ok(claim)
    }

    /// Claims a directory together with others; alone if there is a log to put into the tree first.
    pub fn shared(dir: &Path, wait: Duration) -> Result<Claim, Refused> {
        let claim = Claim(open(dir)?);
        claim.share(dir, wait)?;
        Ok(claim)
    }

    /// Claims it together with others once its log is gone, as [`Claim::shared`] does: nothing is held for a moment, in
    /// which one that has it alone may come, and be killed.
    pub fn share(&self, dir: &Path, wait: Duration) -> Result<(), Refused> {
        let lock = || {
            let has_log = log::exists(dir).map_err(TryLockError::Error)?;
            if has_log {
                self.0.try_lock()?
            } else {
                self.0.try_lock_shared()?
            }
            // Whoever had it alone until now may have left a log, or removed it.
            match log::exists(dir).map_err(TryLockError::Error)? == has_log {
                true => Ok(has_log),
                false => Err(TryLockError::WouldBlock),
            }
        };
        match lock_within(wait, lock)? {
            Some(true) => Ok(self.tell_owner()?),
            Some(false) => Ok(self.0.set_len(0)?),
            None => Err(Refused::Owned { pid: self.owner()? }),
        }
    }

    fn tell_owner(&self) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.write_all_at(std::process::id().to_string().as_bytes(), 0)
    }

    fn owner(&self) -> io::Result<String> {
        let mut text = [0; 20];
        let length = self.0.read_at(&mut text, 0)?;
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }
}

fn open(dir: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(dir.join(FILE))
}

/// Tries a lock until it is held, for so long. `None` = another held it all the time.
pub(super) fn lock_within<T>(
    wait: Duration,
    lock: impl Fn() -> Result<T, TryLockError>,
) -> io::Result<Option<T>> {
    let begun = Instant::now();
    loop {
        match lock() {
            Ok(held) => return Ok(Some(held)),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= wait => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Whether another may share the directory now.
    fn is_shared(dir: &Path) -> bool {
        Claim::shared(dir, Duration::ZERO).is_ok()
    }

    #[test]
    fn who_waited_for_a_log_that_is_gone_shares() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, log) = (dir.path(), dir.path().join("log.0"));
        // Its owner closes it.
        let owner = Claim::alone(dir, LONG).unwrap();
        std::fs::write(&log, "").unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Claim::shared(dir, LONG).unwrap());
            std::thread::sleep(20 * LOCK_RETRY);
            std::fs::remove_file(&log).unwrap();
            drop(owner);
            let _claim = waiting.join().unwrap();
            assert!(is_shared(dir));
        });
        // Another has put it into the tree.
        std::fs::write(&log, "").unwrap();
        let first = Claim::shared(dir, LONG).unwrap();
        assert!(!is_shared(dir), "the log is in the first one's hands");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Claim::shared(dir, LONG).unwrap());
            std::thread::sleep(20 * LOCK_RETRY);
            std::fs::remove_file(&log).unwrap();
            first.share(dir, LONG).unwrap();
            let _claim = waiting.join().unwrap();
            assert!(is_shared(dir));
        });
    }

    #[test]
    fn a_log_that_came_before_the_lock_was_shared_is_held_alone() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let first = Claim::shared(dir, LONG).unwrap();
        std::fs::write(dir.join("log.0"), "").unwrap();
        first.share(dir, LONG).unwrap();
        assert!(!is_shared(dir));
        let why = Claim::alone(dir, Duration::ZERO).err();
        assert!(
            matches!(&why, Some(Refused::Owned { pid }) if *pid == std::process::id().to_string()),
            "{why:?}"
        );
    }
}

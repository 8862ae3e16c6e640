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
        if !lock_within(wait, || claim.0.try_lock())? {
            let pid = claim.owner()?;
            return Err(if pid.is_empty() { Refused::Shared } else { Refused::Owned { pid } });
        }
        claim.0.set_len(0)?;
        claim.0.write_all_at(std::process::id().to_string().as_bytes(), 0)?;
        Ok(claim)
    }

    /// Claims a directory together with others; alone if there is a log to put into the tree first.
    pub fn shared(dir: &Path, wait: Duration) -> Result<Claim, Refused> {
        let begun = Instant::now();
        loop {
            if log::exists(dir)? {
                return Claim::alone(dir, wait.saturating_sub(begun.elapsed()));
            }
            let claim = Claim(open(dir)?);
            if !lock_within(wait.saturating_sub(begun.elapsed()), || claim.0.try_lock_shared())? {
                return Err(Refused::Owned { pid: claim.owner()? });
            }
            // An owner may have come and have been killed meanwhile.
            if !log::exists(dir)? {
                claim.0.set_len(0)?;
                return Ok(claim);
            }
        }
    }

    /// Lets others in, if the claim kept them out.
    pub fn share(&self, wait: Duration) -> Result<(), Refused> {
        self.0.set_len(0)?;
        match lock_within(wait, || self.0.try_lock_shared())? {
            true => Ok(()),
            false => Err(Refused::Owned { pid: self.owner()? }),
        }
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

/// Tries a lock until it is held, for so long. False = another held it all the time.
pub(super) fn lock_within(wait: Duration, lock: impl Fn() -> Result<(), TryLockError>) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        match lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= wait => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

//! What it takes to read a trace twice: files that can be, of which no more is read than there was at first, and lines that
//! are the same again.

use std::fs;
use std::path::{Path, PathBuf};

use super::reader::STDIN;
use crate::error::{Error, Result};

/// Lines between two comparisons.
const EVERY: u64 = 1 << 10;

/// A file of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name.
    pub path: PathBuf,
    /// No more of it is read: what somebody appends meanwhile is not there.
    pub length: u64,
}

impl Source {
    /// Whatever can be read once.
    pub fn once(path: &Path) -> Source {
        Source { path: path.to_owned(), length: u64::MAX }
    }

    /// A file that can be read again. Nothing is opened.
    ///
    /// # Errors
    /// There is none, or it is a pipe, a device or a directory.
    pub fn again(path: &Path) -> Result<Source> {
        if path.as_os_str() == STDIN {
            return Err(Error::refused(
                "a trace is read twice, so that standard input cannot be replayed: give a file",
            ));
        }
        let there = fs::metadata(path).map_err(Error::io(format!("opening {}", path.display())))?;
        if !there.is_file() {
            return Err(Error::refused(format!(
                "a trace is read twice, and {} is no regular file: give one",
                path.display()
            )));
        }
        Ok(Source { path: path.to_owned(), length: there.len() })
    }
}

/// The lines of a first reading, to be compared with those of a second.
#[derive(Debug, Default)]
pub struct Seen {
    /// How many.
    pub lines: u64,
    /// What the reader's digest was, from time to time.
    digests: Vec<u64>,
    /// After the last line.
    last: u64,
}

impl Seen {
    /// The next line was read.
    pub fn note(&mut self, digest: u64) {
        (self.lines, self.last) = (self.lines + 1, digest);
        if self.lines.is_multiple_of(EVERY) {
            self.digests.push(digest);
        }
    }

    /// Compares a line of the second reading, by its number. Not each is: a change is noticed a few lines later.
    ///
    /// # Errors
    /// It is another trace.
    pub fn compare(&self, line: u64, digest: u64) -> Result<()> {
        let wanted = match line.is_multiple_of(EVERY) {
            _ if line == self.lines => Some(self.last),
            true => usize::try_from(line / EVERY - 1).ok().and_then(|at| self.digests.get(at).copied()),
            false => return Ok(()),
        };
        match wanted == Some(digest) {
            true => Ok(()),
            false => Err(self.changed(format!("up to line {line}"))),
        }
    }

    /// The error when the second reading ends after so many lines.
    pub fn cut_after(&self, lines: u64) -> Error {
        self.changed(format!("after line {lines}"))
    }

    fn changed(&self, place: String) -> Error {
        Error::Unreadable(format!(
            "the trace was changed while it was replayed: {place} of {} it is not what it was when it was first read. \
             Nothing is reported; replay a copy",
            self.lines
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_twice_is_refused() {
        let dir = std::env::temp_dir();
        for path in [Path::new("-"), Path::new("/dev/zero"), &dir] {
            let error = Source::again(path).expect_err("no file").to_string();
            assert!(error.contains("read twice"), "{error}");
        }
        let error = Source::again(Path::new("/nowhere/x.log")).expect_err("none").to_string();
        assert!(error.starts_with("opening /nowhere/x.log"), "{error}");
    }

    #[test]
    fn other_lines_are_noticed() {
        let lines = 2 * EVERY + 5;
        let mut seen = Seen::default();
        (1..=lines).for_each(|line| seen.note(line * 3));
        assert!((1..=lines).all(|line| seen.compare(line, line * 3).is_ok()));
        for line in [EVERY, 2 * EVERY, lines] {
            let error = seen.compare(line, 1).expect_err("another").to_string();
            assert!(error.contains(&format!("up to line {line} of {lines}")), "{error}");
        }
    }
}

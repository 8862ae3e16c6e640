//! Where a replay takes place: every path of a trace is moved below a base directory.
//!
//! Below the base lie [`Place::root`], the trace's `/`, and [`Place::closed`], which nobody but its owner may enter: lines
//! that were refused are sent there, by a user who may not, so that they are refused whatever they ask for.

use std::borrow::Cow;

/// HDFS's limits on a path.
const MAX_PATH_CHARS: usize = 8000;
const MAX_DEPTH: usize = 1000;

/// The directories of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The trace's `/`.
    pub root: String,
    /// Where lines that were refused are sent.
    pub closed: String,
}

impl Place {
    /// Names of the directories in a base.
    pub const NAMES: [&str; 2] = ["trace", "closed"];

    /// Below a base, which does not end with a slash.
    pub fn below(base: &str) -> Place {
        let [root, closed] = Place::NAMES.map(|name| format!("{base}/{name}"));
        Place { root, closed }
    }

    /// Where a path of the trace lies, for those who may or for those who may not. The path is a plain one that fits.
    pub fn of(&self, path: &str, allowed: bool) -> String {
        let below = if allowed { &self.root } else { &self.closed };
        format!("{below}{}", path.trim_end_matches('/'))
    }

    /// Whether a path of the trace is short enough below the base.
    pub fn fits(&self, path: &str) -> bool {
        let longest = self.root.len().max(self.closed.len()) + path.len();
        longest <= MAX_PATH_CHARS && self.root.matches('/').count() + path.matches('/').count() <= MAX_DEPTH
    }
}

/// A path as it is without repeated slashes.
///
/// # Errors
/// Why it is none that can be replayed.
pub fn plain(path: &str) -> Result<Cow<'_, str>, &'static str> {
    if !path.starts_with('/') {
        return Err("it names no absolute path");
    }
    let mut names = path.split('/').skip(1);
    if names.clone().any(|name| matches!(name, "." | "..")) {
        return Err("it names no absolute path");
    }
    if names.clone().next() == Some(".reserved") {
        return Err("the path begins with /.reserved");
    }
    if names.clone().any(|name| name == ".snapshot") {
        return Err("snapshots are not replayed");
    }
    if path == "/" || names.all(|name| !name.is_empty()) {
        return Ok(Cow::Borrowed(path));
    }
    let names = path.split('/').filter(|name| !name.is_empty());
    let plain: String = names.flat_map(|name| ["/", name]).collect();
    Ok(if plain.is_empty() { Cow::Borrowed("/") } else { Cow::Owned(plain) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_moved_below_the_base() {
        let place = Place::below("/replay");
        for (path, moved) in [
            ("/", "/replay/trace"),
            ("/a/b", "/replay/trace/a/b"),
            ("//a///b/", "/replay/trace/a/b"),
            ("///", "/replay/trace"),
            ("/tab\there", "/replay/trace/tab\there"),
        ] {
            let path = plain(path).expect(path);
            assert!(place.fits(&path));
            assert_eq!(place.of(&path, true), moved);
        }
        assert_eq!(place.of("/a", false), "/replay/closed/a");
    }

    #[test]
    fn nothing_leads_out_of_it() {
        for path in ["", "a", "/../x", "/a/..", "/./x", "/.reserved/.inodes/7", "/a/.snapshot/s", "{id: 3}"] {
            assert!(plain(path).is_err(), "{path}");
        }
        let place = Place::below("/replay");
        for path in [format!("/{}", "x".repeat(MAX_PATH_CHARS)), "/x".repeat(MAX_DEPTH)] {
            assert!(!place.fits(&path));
        }
    }
}

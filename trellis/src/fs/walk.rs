//! A tree, entry by entry, each directory before its entries. Memory: a page of a listing for each level.

use anyhow::Result;
use trellis_client::fs::Listing;
use trellis_client::types::FileStatus;
use trellis_client::{Client, Error};

use super::shell::{Shell, told};

/// Deeper trees are refused, as stock refuses to make them; on this machine, most likely a link leads back up.
const MAX_DEPTH: usize = 1000;

/// What is done with a tree, here or in the file system: with each entry, and with a directory once more after all that
/// is below it.
pub trait Visit {
    /// Where it is, and what has to be known of it.
    type Entry;
    /// What is left of a directory.
    type Entries;

    /// Does what is to be done with an entry; gives the entries of a directory.
    async fn enter(&self, shell: &mut Shell, entry: &Self::Entry) -> Result<Option<Self::Entries>>;

    /// The next entry of a directory. After an error it goes on; whoever cannot go on says None then.
    async fn next(&self, dir: &Self::Entry, entries: &mut Self::Entries) -> Option<Result<Self::Entry>>;

    /// All that is below a directory is done.
    async fn leave(&self, shell: &Shell, dir: &Self::Entry) -> Result<()>;

    /// An entry as it is named to people.
    fn shown(&self, entry: &Self::Entry) -> String;
}

/// Does it with an entry and all that is below. Failures are told, and the rest goes on.
pub async fn visit<V: Visit>(visit: &V, shell: &mut Shell, verb: &str, entry: V::Entry) {
    let mut levels: Vec<(V::Entries, V::Entry)> = Vec::new();
    let mut next = Some(entry);
    loop {
        if let Some(entry) = next.take() {
            match visit.enter(shell, &entry).await {
                Ok(Some(entries)) if levels.len() < MAX_DEPTH => levels.push((entries, entry)),
                Ok(Some(_)) => shell.fail(verb, format_args!("`{}': too deep", visit.shown(&entry))),
                Ok(None) => {}
                Err(error) => shell.fail(verb, format_args!("{error:#}")),
            }
        }
        let Some((entries, dir)) = levels.last_mut() else { return };
        match visit.next(dir, entries).await {
            Some(entry) => next = shell.note_value(verb, entry),
            None => {
                let done = visit.leave(shell, dir).await;
                shell.note(verb, done);
                levels.pop();
            }
        }
    }
}

/// The entries of a directory of the file system, up to the first error.
pub struct Entries(Option<Listing>);

impl Entries {
    /// All of them.
    pub fn of(client: &Client, path: &str) -> Entries {
        Entries(Some(client.get_listing(path)))
    }

    /// The next one.
    pub async fn next(&mut self) -> Option<Result<FileStatus>> {
        match self.0.as_mut()?.next().await {
            Ok(entry) => entry.map(Ok),
            Err(error) => {
                self.0 = None;
                Some(Err(told(error)))
            }
        }
    }
}

/// A walk under way.
pub struct Walk {
    client: Client,
    levels: Vec<(String, Listing)>,
    below: Option<String>,
}

impl Walk {
    /// All that is below a directory; the directory itself does not come.
    pub fn below(client: &Client, path: &str) -> Walk {
        Walk { client: client.clone(), levels: Vec::new(), below: Some(path.to_owned()) }
    }

    /// The next entry. After an error the directory that it concerns is left out and the walk goes on.
    pub async fn next(&mut self) -> Option<Result<(String, FileStatus), Error>> {
        if let Some(path) = self.below.take()
            && self.levels.len() < MAX_DEPTH
        {
            let listing = self.client.get_listing(&path);
            self.levels.push((path, listing));
        }
        while let Some((dir, listing)) = self.levels.last_mut() {
            match listing.next().await {
                Ok(Some(entry)) => {
                    let path = child(dir, &entry.name);
                    self.below = entry.is_dir().then(|| path.clone());
                    return Some(Ok((path, entry)));
                }
                Ok(None) => drop(self.levels.pop()),
                Err(error) => {
                    self.levels.pop();
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// A path one level down.
pub fn child(dir: &str, name: &str) -> String {
    format!("{}/{name}", dir.trim_end_matches('/'))
}

/// The directory that a path is in; none for the root.
pub fn parent(path: &str) -> Option<&str> {
    match path.rfind('/') {
        Some(0) if path.len() > 1 => Some("/"),
        Some(at) if at > 0 => Some(&path[..at]),
        _ => None,
    }
}

/// The last name of a path; empty for the root.
pub fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_apart_and_together() {
        assert_eq!((child("/", "a"), child("/a", "b")), ("/a".to_owned(), "/a/b".to_owned()));
        assert_eq!((parent("/a/b"), parent("/a"), parent("/")), (Some("/a"), Some("/"), None));
        assert_eq!((name("/a/b"), name("/")), ("b", ""));
    }
}

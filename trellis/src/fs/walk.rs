//! A tree, entry by entry, each directory before its entries. Memory: a page of a listing for each level.

use trellis_client::fs::Listing;
use trellis_client::types::FileStatus;
use trellis_client::{Client, Error};

/// Deeper trees are refused, as stock refuses to make them.
const MAX_DEPTH: usize = 1000;

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

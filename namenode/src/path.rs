//! Paths as clients send them.

use std::sync::Arc;

use bytes::Bytes;
use trellis_proto::exception::{Kind, RpcError};

/// The longest path in characters (stock: `MAX_PATH_LENGTH`).
pub const MAX_PATH_CHARS: usize = 8000;
/// The deepest path in components (stock: `MAX_PATH_DEPTH`).
pub const MAX_PATH_DEPTH: usize = 1000;
/// The name under the root that is reserved for paths by inode id.
pub const RESERVED: &[u8] = b".reserved";
/// Below [`RESERVED`]: paths that start at an inode id.
pub const INODES: &[u8] = b".inodes";
/// Below [`RESERVED`]: the raw view of the root.
pub const RAW: &[u8] = b"raw";
/// The name that every directory reserves for its snapshots.
pub const SNAPSHOT: &[u8] = b".snapshot";

/// An absolute path: its text as the client sent it, and its components. The root has none. Clones share both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    text: Arc<str>,
    components: Arc<[Bytes]>,
}

impl Path {
    /// Splits an absolute path; empty components (`//`, a slash at the end) vanish. Names are not judged here: see
    /// [`Path::check_new`].
    pub fn parse(text: &str) -> Result<Path, RpcError> {
        if !text.starts_with('/') {
            let why = format!("Absolute path required, but got '{text}'");
            return Err(RpcError::new(Kind::Assertion, why));
        }
        let whole = Bytes::copy_from_slice(text.as_bytes());
        let components = text
            .split('/')
            .filter(|name| !name.is_empty())
            .map(|name| whole.slice_ref(name_in(&whole, text, name)));
        Ok(Path { components: components.collect(), text: text.into() })
    }

    /// The same for the path of a directory to make, which stock reads in another way first.
    pub fn parse_new(text: &str) -> Result<Path, RpcError> {
        match text.bytes().next() {
            Some(b'/') => Path::parse(text),
            Some(_) => {
                let why = format!("Invalid path name Invalid file name: {text}");
                Err(RpcError::new(Kind::InvalidPath, why))
            }
            None => Err(RpcError::new(Kind::IllegalArgument, "Can not create a Path from an empty string")),
        }
    }

    /// The text as it was sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The components; none for the root.
    pub fn components(&self) -> &[Bytes] {
        &self.components
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.components.is_empty()
    }

    /// The last component; empty for the root.
    pub fn name(&self) -> Bytes {
        self.components.last().cloned().unwrap_or_default()
    }

    /// The text of the first `n` components: `/`, `/a`, `/a/b`, …
    pub fn prefix(&self, n: usize) -> String {
        join(&self.components[..n.min(self.components.len())])
    }

    /// The text as it was sent, up to the end of the `n`-th component.
    pub fn text_to(&self, n: usize) -> &str {
        (n..self.components.len()).fold(self.text.trim_end_matches('/'), |text, _| {
            text.rfind('/').map_or("", |end| text[..end].trim_end_matches('/'))
        })
    }

    /// A path by its components.
    pub fn from_components(components: Vec<Bytes>) -> Path {
        Path { text: join(&components).into(), components: components.into() }
    }

    /// This path with one more component.
    pub fn child(&self, name: &Bytes) -> Path {
        let mut components = self.components.to_vec();
        components.push(name.clone());
        Path::from_components(components)
    }

    /// Whether the path is `/.reserved` or below it.
    pub fn is_reserved(&self) -> bool {
        self.components.first().is_some_and(|name| name.as_ref() == RESERVED)
    }

    /// Whether the path is exactly `/.reserved`.
    pub fn is_exactly_reserved(&self) -> bool {
        self.is_reserved() && self.components.len() == 1
    }

    /// Whether `other` is this path or lies below it.
    pub fn contains(&self, other: &Path) -> bool {
        other.components.starts_with(&self.components)
    }

    /// Whether new names may be made under this text (stock: `DFSUtil.isValidName`): no `.` or `..`, no `:`, no empty
    /// component inside.
    pub fn check_new(&self) -> Result<(), RpcError> {
        let inner = self.text[1..].strip_suffix('/').unwrap_or(&self.text[1..]);
        let bad = |name: &str| name == "." || name == ".." || name.contains(':') || name.is_empty();
        if !inner.is_empty() && inner.split('/').any(bad) {
            let why = format!("Invalid path name Invalid file name: {}", self.text);
            return Err(RpcError::new(Kind::InvalidPath, why));
        }
        Ok(())
    }

    /// Whether the whole path keeps stock's limits (8000 characters, 1000 levels); `operation` is for the message.
    pub fn check_length(&self, operation: &str) -> Result<(), RpcError> {
        // Java's characters: UTF-16 units, never more than there are bytes.
        let too_long = self.text.len() > MAX_PATH_CHARS && self.text.encode_utf16().count() > MAX_PATH_CHARS;
        if too_long || self.components.len() > MAX_PATH_DEPTH {
            let limits = format!("Limit {MAX_PATH_CHARS} characters, {MAX_PATH_DEPTH} levels.");
            return Err(RpcError::new(Kind::Io, format!("{operation}: Pathname too long.  {limits}")));
        }
        Ok(())
    }
}

/// Components joined to a text.
pub fn join(components: &[Bytes]) -> String {
    if components.is_empty() {
        return "/".to_owned();
    }
    let mut text = String::with_capacity(components.iter().map(|name| 1 + name.len()).sum());
    for name in components {
        text.push('/');
        match std::str::from_utf8(name) {
            Ok(name) => text.push_str(name),
            Err(_) => text.push_str(&String::from_utf8_lossy(name)),
        }
    }
    text
}

/// The slice of `whole` that holds `name`, a part of `text`.
fn name_in<'b>(whole: &'b Bytes, text: &str, name: &str) -> &'b [u8] {
    let start = name.as_ptr() as usize - text.as_ptr() as usize;
    &whole[start..start + name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    #[test]
    fn the_text_up_to_a_component_is_as_it_was_sent() {
        let odd = path("//a/b//c/");
        assert_eq!([0, 1, 2, 3].map(|n| odd.text_to(n)), ["", "//a", "//a/b", "//a/b//c"]);
        assert_eq!(path("/").text_to(0), "");
    }

    #[test]
    fn splits_and_joins() {
        assert!(path("/").is_root());
        assert_eq!(path("/a//b/").components(), [&b"a"[..], b"b"]);
        assert_eq!(path("/a/b").prefix(1), "/a");
        assert_eq!(path("/a/b").prefix(0), "/");
        assert!(path("/a").contains(&path("/a/b")) && !path("/a").contains(&path("/ab")));
        assert_eq!(Path::parse("e").unwrap_err().kind, Kind::Assertion);
        assert_eq!(Path::parse_new("e").unwrap_err().kind, Kind::InvalidPath);
        assert_eq!(Path::parse_new("").unwrap_err().kind, Kind::IllegalArgument);
    }

    #[test]
    fn new_names() {
        for good in ["/", "/a", "/a/", "/sp ace", "/a%20b", "/*", "/back\\slash", "/new\nline", "/.snapshot"]
        {
            assert!(path(good).check_new().is_ok(), "{good:?}");
        }
        for bad in ["/t//b", "/t/./b", "/t/../b", "/t/a:b", "/.", "/.."] {
            assert_eq!(path(bad).check_new().unwrap_err().kind, Kind::InvalidPath, "{bad:?}");
        }
    }

    #[test]
    fn limits() {
        assert!(path(&"/a".repeat(1000)).check_length("mkdirs").is_ok());
        assert_eq!(path(&"/a".repeat(1001)).check_length("mkdirs").unwrap_err().kind, Kind::Io);
        assert_eq!(
            path(&format!("/{}", "a".repeat(8000))).check_length("mkdirs").unwrap_err().kind,
            Kind::Io
        );
    }
}

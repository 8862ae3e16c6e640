//! `VERSION` files: Java properties, written so that a crash leaves the old file or the new one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The largest file that is read.
const MAX_BYTES: u64 = 64 << 10;

/// The keys and values of a `VERSION` file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version(BTreeMap<String, String>);

impl Version {
    /// One with these entries.
    pub fn new<const N: usize>(entries: [(&str, String); N]) -> Self {
        Version(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Reads a file; None if there is none.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
            Ok(found) if found.len() > MAX_BYTES => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large for a VERSION file"));
            }
            Ok(_) => {}
        }
        let text = fs::read_to_string(path)?;
        Ok(Some(Version(text.lines().filter_map(entry).collect())))
    }

    /// Puts the file in place, durably.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = String::new();
        for (key, value) in &self.0 {
            text.push_str(&format!("{key}={}\n", escaped(value)));
        }
        let dir = path.parent().unwrap_or(Path::new("."));
        let new = path.with_extension("tmp");
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(dir)?.sync_all()
    }
}

/// `key=value` of a line; None for comments and what is no entry.
fn entry(line: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    if line.starts_with(['#', '!']) {
        return None;
    }
    let (key, value) = line.split_once('=')?;
    let mut plain = String::new();
    let mut escaped = false;
    for c in value.trim_start().chars() {
        escaped = !escaped && c == '\\';
        if !escaped {
            plain.push(c);
        }
    }
    Some((key.trim_end().to_owned(), plain))
}

/// As Java writes a value: ids are printable ASCII, so there is nothing else to escape.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '=' | ':' | '#' | '!' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stock_datanodes_file_is_read_and_ours_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("VERSION");
        assert_eq!(Version::read(&path).unwrap(), None);
        fs::write(
            &path,
            "#Tue Dec 01 15:27:44 UTC 2026\nstorageType=DATA_NODE\nclusterID=CID-a\\:b\ncTime=0\nx\n",
        )
        .unwrap();
        let stock = Version::read(&path).unwrap().unwrap();
        assert_eq!(
            (stock.get("clusterID"), stock.get("cTime"), stock.get("x")),
            (Some("CID-a:b"), Some("0"), None)
        );
        stock.write(&path).unwrap();
        assert_eq!(Version::read(&path).unwrap(), Some(stock));
        let odd = Version::new([("a", "\\=:#! x\\".to_owned())]);
        odd.write(&path).unwrap();
        assert_eq!(Version::read(&path).unwrap(), Some(odd));
        fs::write(&path, vec![b'a'; MAX_BYTES as usize + 1]).unwrap();
        assert!(Version::read(&path).is_err());
    }
}

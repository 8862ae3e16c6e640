//! Files that are there whole or not at all.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file whole, or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".tmp");
    let written = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path));
    written.map_err(Error::io(format!("writing {}", path.display())))
}

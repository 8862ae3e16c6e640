//! Block files on a datanode's disk.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// All block files (not the checksum files beside them) somewhere below a folder, in the order of their names.
pub fn blocks(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_id = |id: &str| id.bytes().all(|byte| byte.is_ascii_digit());
    files(folder, |name| name.strip_prefix("blk_").is_some_and(is_id))
}

/// Has the scanner begin anew: removes the files in which it keeps what it has looked at.
pub fn forget_scans(folder: &Path) -> Result<()> {
    for path in files(folder, |name| name.contains("scanner.cursor"))? {
        fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

/// The files of some names, somewhere below a folder.
fn files(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(gone) if gone.kind() == ErrorKind::NotFound => continue, // a datanode clears up
            entries => entries.with_context(|| format!("reading {}", folder.display()))?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if wanted(&entry.file_name().to_string_lossy()) {
                all.push(entry.path());
            }
        }
    }
    all.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    Ok(all)
}

/// Changes one bit in the middle of a file.
pub fn flip(path: &Path) -> Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let middle = file.metadata()?.len() / 2;
    let mut byte = [0];
    file.seek(SeekFrom::Start(middle))?;
    ensure!(file.read(&mut byte)? == 1, "{} is empty", path.display());
    file.seek(SeekFrom::Start(middle))?;
    file.write_all(&[byte[0] ^ 1])?;
    Ok(())
}

/// Removes everything in a folder; the folder stays.
pub fn wipe(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

//! Where files are written: whole or not at all. What is there and is no file, such as a device or a pipe, is written into
//! as it is.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// No longer chain of symbolic links is followed.
const MAX_LINKS: usize = 40;
/// Of a file that anybody may read whom the umask lets, and of one with a secret.
const USUAL_MODE: u32 = 0o666;
const PRIVATE_MODE: u32 = 0o600;

/// A file that is being written. Dropped before [`Output::keep`], it leaves nothing behind.
pub struct Output {
    path: PathBuf,
    to: To,
}

enum To {
    /// No file that could be written beside.
    AsItIs(File),
    /// Beside the file that it becomes.
    Beside { file: NamedTempFile, becomes: PathBuf, replaces: bool },
}

impl Output {
    /// Takes the place of a file that is there.
    pub fn replacing(path: &Path) -> Result<Output> {
        Output::open(path, true)
    }

    /// Becomes a new file.
    ///
    /// # Errors
    /// There is a file of this name: it may be the one that is read.
    pub fn new(path: &Path) -> Result<Output> {
        Output::open(path, false)
    }

    /// Becomes a new file that only its owner can read; nothing else will do.
    pub fn private(path: &Path) -> Result<Output> {
        match fs::symlink_metadata(path) {
            Ok(_) => Err(is_there(path)),
            Err(_) => Output::beside(path, path.to_owned(), false, PRIVATE_MODE),
        }
    }

    fn open(path: &Path, replaces: bool) -> Result<Output> {
        let file = match fs::metadata(path) {
            Ok(found) => match own(&found) {
                Some(standard) => Ok(standard),
                None if found.is_file() => return Output::file(path, replaces),
                // A directory says so.
                None => OpenOptions::new().write(true).open(path),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => return Output::file(path, replaces),
            Err(error) => Err(error),
        };
        let to = To::AsItIs(file.map_err(writing(path))?);
        Ok(Output { path: path.to_owned(), to })
    }

    fn file(path: &Path, replaces: bool) -> Result<Output> {
        if !replaces && fs::symlink_metadata(path).is_ok() {
            return Err(is_there(path));
        }
        Output::beside(path, leads_to(path).map_err(writing(path))?, replaces, USUAL_MODE)
    }

    fn beside(path: &Path, becomes: PathBuf, replaces: bool, mode: u32) -> Result<Output> {
        let mut beside = tempfile::Builder::new();
        beside.prefix(".trellis-").suffix(".tmp").permissions(Permissions::from_mode(mode));
        let file = beside.tempfile_in(folder(&becomes)).map_err(writing(path))?;
        Ok(Output { path: path.to_owned(), to: To::Beside { file, becomes, replaces } })
    }

    /// What there is of it until it is kept, if it is a file: for who ends before.
    pub fn unfinished(&self) -> Option<&Path> {
        match &self.to {
            To::AsItIs(_) => None,
            To::Beside { file, .. } => Some(file.path()),
        }
    }

    /// It is whole.
    ///
    /// # Errors
    /// Some of it cannot be written after all, or meanwhile there is a file where this should be a new one.
    pub fn keep(self) -> Result<()> {
        let Output { path, to } = self;
        let To::Beside { file, becomes, replaces } = to else { return Ok(()) };
        // Some file systems tell only now that they are full.
        let synced = file.as_file().sync_all();
        synced.map_err(writing(&path))?;
        match replaces {
            true => file.persist(&becomes),
            false => file.persist_noclobber(&becomes),
        }
        .map(drop)
        .map_err(|failed| match failed.error.kind() {
            ErrorKind::AlreadyExists if !replaces => is_there(&path),
            _ => writing(&path)(failed.error),
        })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::AsItIs(file) => file.write(bytes),
            // Without the name beside, which nobody knows.
            To::Beside { file, .. } => file.as_file_mut().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether what is written there is written into what is there, as it is: no file, or this process's own output.
pub fn is_as_it_is(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_dir() && (!found.is_file() || own(&found).is_some()))
}

/// Whether what is written there goes to standard output.
pub fn is_stdout(path: &Path) -> bool {
    let out = opened(io::stdout().as_fd());
    let same = |found: Metadata| out.is_some_and(|(_, out)| id(&out) == id(&found));
    fs::metadata(path).is_ok_and(same)
}

/// Standard output or standard error, if this is it: opened once more, a file would be written from its beginning.
pub(crate) fn own(found: &Metadata) -> Option<File> {
    let (out, err) = (io::stdout(), io::stderr());
    let standard = [out.as_fd(), err.as_fd()].into_iter().filter_map(opened);
    standard.filter(|(_, standard)| id(standard) == id(found)).map(|(file, _)| file).next()
}

/// What is behind a descriptor.
pub(crate) fn opened(fd: BorrowedFd<'_>) -> Option<(File, Metadata)> {
    let file = File::from(fd.try_clone_to_owned().ok()?);
    let metadata = file.metadata().ok()?;
    Some((file, metadata))
}

/// The same for all names of a file.
pub(crate) fn id(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// What is meant by the name of a file, which need not be there: where symbolic links lead.
pub(crate) fn leads_to(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(link) => path = folder(&path).join(link),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// The folder that a file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file is not written over another.
pub(crate) fn is_there(path: &Path) -> Error {
    let path = path.display();
    Error::refused(format!("{path} is there already: give another name, or remove it first"))
}

/// The error of a file that cannot be written.
pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> Error {
    Error::io(format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use tempfile::TempDir;

    use super::*;
    use std::os::unix::fs::FileTypeExt as _;

    fn names(dir: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(dir.path()).expect("it is there");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("readable").file_name();
        let mut names: Vec<_> = entries.map(|entry| name(entry).into_string().expect("ours")).collect();
        names.sort();
        names
    }

    fn written(mut output: Output, text: &str) -> Result<()> {
        output.write_all(text.as_bytes()).expect("written");
        output.keep()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("file");
        let mut output = Output::new(&file).expect("a new one");
        output.write_all(b"half").expect("written");
        let unfinished = output.unfinished().expect("a file").to_owned();
        assert_eq!(fs::read_to_string(&unfinished).expect("it is there"), "half");
        assert!(!file.exists());
        drop(output);
        assert!(names(&dir).is_empty(), "{:?}", names(&dir));
        written(Output::new(&file).expect("a new one"), "whole").expect("kept");
        assert_eq!(names(&dir), ["file"]);
        // As any other file that this process makes.
        let usual = dir.path().join("usual");
        fs::write(&usual, "").expect("written");
        assert_eq!(mode(&file), mode(&usual));
    }

    #[test]
    fn a_new_file_replaces_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        let late = Output::new(&file).expect("a new one");
        fs::write(&file, "theirs").expect("written");
        symlink("nowhere", &link).expect("made");
        let refused = [
            written(late, "ours").expect_err("it came meanwhile"),
            Output::new(&file).err().expect("it is there"),
            Output::private(&file).err().expect("it is there"),
            Output::new(&link).err().expect("a link is there"),
        ];
        for error in refused {
            assert!(error.to_string().contains("is there already: give another name"), "{error}");
        }
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "theirs");
        assert_eq!(names(&dir), ["file", "link"]);
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("a")).expect("made");
        for (link, to) in [("link", "a/file"), ("linked", "link"), ("dangling", "a/new")] {
            symlink(to, dir.path().join(link)).expect("made");
        }
        for (name, file) in [("link", "a/file"), ("linked", "a/file"), ("dangling", "a/new")] {
            let link = dir.path().join(name);
            written(Output::replacing(&link).expect("written beside"), name).expect("kept");
            assert!(fs::read_link(&link).is_ok(), "{name}");
            assert_eq!(fs::read_to_string(dir.path().join(file)).expect("it is there"), name);
        }
        symlink("round", dir.path().join("round")).expect("made");
        assert!(Output::replacing(&dir.path().join("round")).is_err());
    }

    #[test]
    fn what_is_no_file_is_written_into() {
        let dir = tempfile::tempdir().expect("a folder");
        let [fifo, link] = ["fifo", "link"].map(|name| dir.path().join(name));
        mkfifo(&fifo, Mode::S_IRWXU).expect("made");
        symlink("fifo", &link).expect("made");
        for path in [&fifo, &link] {
            for open in [Output::replacing, Output::new] {
                assert!(is_as_it_is(path) && !is_stdout(path));
                let text = std::thread::scope(|scope| {
                    let reader = scope.spawn(|| fs::read_to_string(&fifo).expect("readable"));
                    let output = open(path).expect("there is a reader");
                    assert_eq!(output.unfinished(), None);
                    written(output, "text").expect("kept");
                    reader.join().expect("it ended")
                });
                assert_eq!(text, "text");
                assert!(fs::metadata(&fifo).expect("it is there").file_type().is_fifo());
            }
        }
        assert_eq!(names(&dir), ["fifo", "link"]);
        // A secret goes into a file.
        assert!(Output::private(&fifo).is_err());
        let refused = Output::replacing(dir.path()).err().expect("a folder").to_string();
        assert!(refused.contains(&dir.path().display().to_string()), "{refused}");
    }

    #[test]
    fn a_secret_is_its_owners() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("secret");
        written(Output::private(&file).expect("a new one"), "secret").expect("kept");
        assert_eq!(mode(&file), PRIVATE_MODE);
    }
}

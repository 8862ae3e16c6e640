//! Which files a command reads and writes: looked at before it does anything, so that no output takes the place of an input,
//! and no work is lost for want of a place to leave it.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

use crate::error::{Error, Result};
use crate::output::{folder, id, is_as_it_is, is_there, leads_to, opened, own};
use crate::trace::reader::STDIN;

/// All that a command reads and writes, with the options that name it.
#[derive(Debug, Default)]
pub struct Paths {
    reads: Vec<Named>,
    writes: Vec<(Named, To)>,
}

/// A path, and the option that names it.
type Named = (&'static str, PathBuf);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    /// Takes the place of a file.
    Replace,
    /// A new file.
    New,
    /// A new file, or standard output.
    Trace,
}

/// The same for all names of a file, whether it is there or not: its device and inode; or its folder's, and its name.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    id: (u64, u64),
    name: Option<OsString>,
}

impl Paths {
    /// The command reads these.
    pub fn reads<P: AsRef<Path>>(mut self, what: &'static str, paths: impl IntoIterator<Item = P>) -> Paths {
        self.reads.extend(paths.into_iter().map(|path| (what, path.as_ref().to_owned())));
        self
    }

    /// It writes this; a file that is there is replaced.
    pub fn replaces(self, what: &'static str, path: &Path) -> Paths {
        self.writes(what, path, To::Replace)
    }

    /// It makes this.
    pub fn makes(self, what: &'static str, path: &Path) -> Paths {
        self.writes(what, path, To::New)
    }

    /// It makes this, or writes a trace to standard output.
    pub fn makes_trace(self, what: &'static str, path: &Path) -> Paths {
        self.writes(what, path, To::Trace)
    }

    fn writes(mut self, what: &'static str, path: &Path, to: To) -> Paths {
        self.writes.push(((what, path.to_owned()), to));
        self
    }

    /// Refuses what would be found out only after the work.
    ///
    /// # Errors
    /// An output cannot be written, is an input, or is another output.
    pub fn check(&self) -> Result<()> {
        let inputs: Vec<_> = self.reads.iter().map(|(what, path)| (*what, input(path))).collect();
        let mut outputs: Vec<(&str, Identity)> = Vec::new();
        for ((what, path), to) in &self.writes {
            let Some(identity) = output(what, path, *to)? else { continue };
            let same =
                |why: String| Error::refused(format!("{}: {why}; give another name", said(what, path)));
            let is_it = |(_, input): &&(&str, Option<Identity>)| input.as_ref() == Some(&identity);
            if let Some((input, _)) = inputs.iter().find(is_it) {
                return Err(same(format!("that is what {input} reads")));
            }
            if let Some((other, _)) = outputs.iter().find(|(_, other)| *other == identity) {
                return Err(same(format!("that is where {other} goes")));
            }
            if is_taken(path, *to) {
                return Err(is_there(path));
            }
            outputs.push((what, identity));
        }
        Ok(())
    }
}

fn said(what: &str, path: &Path) -> String {
    format!("{what} {}", path.display())
}

/// What an input is; None: whoever reads it says what is wrong, or it is not harmed by being written to.
fn input(path: &Path) -> Option<Identity> {
    match path.as_os_str() == STDIN {
        true => standard(io::stdin().as_fd()),
        false => fs::metadata(path).ok().and_then(|found| there(&found)),
    }
}

fn standard(fd: BorrowedFd<'_>) -> Option<Identity> {
    opened(fd).and_then(|(_, found)| there(&found))
}

/// Terminals and the like are read and written at once.
fn there(found: &Metadata) -> Option<Identity> {
    (!found.file_type().is_char_device()).then(|| Identity { id: id(found), name: None })
}

/// What an output is, if it can be written.
fn output(what: &str, path: &Path, to: To) -> Result<Option<Identity>> {
    if to == To::Trace && path.as_os_str() == STDIN {
        return Ok(standard(io::stdout().as_fd()));
    }
    let refused = |why: &str| Err(Error::refused(format!("{}: {why}", said(what, path))));
    let is_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    match fs::metadata(path) {
        _ if path.as_os_str().is_empty() => refused("give a name"),
        Ok(found) if found.is_dir() => refused("that is a folder; name a file"),
        _ if is_folder => refused("that is a folder's name; name a file"),
        Ok(found) if own(&found).is_some() => Ok(there(&found)),
        Ok(found) if found.file_type().is_socket() => refused("that is a socket; name a file"),
        Ok(found) if !found.is_file() => {
            let can = eaccess(path, AccessFlags::W_OK);
            can.map_err(|error| Error::io(said(what, path))(error.into()))?;
            Ok(there(&found))
        }
        Ok(found) => beside(path).map(|_| there(&found)).map_err(Error::io(said(what, path))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            beside(path).map(Some).map_err(Error::io(said(what, path)))
        }
        Err(error) => Err(Error::io(said(what, path))(error)),
    }
}

/// Whether there is something where a new file is to be.
fn is_taken(path: &Path, to: To) -> bool {
    let is_any = fs::symlink_metadata(path).is_ok();
    match to {
        To::Replace => false,
        To::New => is_any,
        To::Trace => is_any && path.as_os_str() != STDIN && !is_as_it_is(path),
    }
}

/// Sees that a file can be made where this one goes, by one without a name.
fn beside(path: &Path) -> io::Result<Identity> {
    let path = leads_to(path)?;
    let folder = folder(&path);
    let found = fs::metadata(folder)?;
    tempfile::tempfile_in(folder)?;
    Ok(Identity { id: id(&found), name: path.file_name().map(OsString::from) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use nix::sys::stat::Mode;
    use nix::unistd::{geteuid, mkfifo};

    use super::*;

    fn refusal(paths: Paths) -> String {
        paths.check().expect_err("refused").to_string()
    }

    #[test]
    fn an_output_is_no_input_and_no_other_output() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("in"), "in").expect("written");
        fs::create_dir(at("a")).expect("made");
        symlink("in", at("link")).expect("made");
        symlink("new", at("dangling")).expect("made");
        fs::hard_link(at("in"), at("hard")).expect("made");
        mkfifo(&at("fifo"), Mode::S_IRWXU).expect("made");
        for (input, name) in [
            ("in", "in"),
            ("in", "a/../in"),
            ("in", "link"),
            ("link", "in"),
            ("in", "hard"),
            ("fifo", "fifo"),
        ] {
            let why = refusal(
                Paths::default().reads("--check", [at("other"), at(input)]).replaces("--report", &at(name)),
            );
            assert!(
                why.starts_with("--report ") && why.contains("that is what --check reads"),
                "{name}: {why}"
            );
        }
        for (one, other) in
            [("in", "link"), ("new", "a/../new"), ("new", "dangling"), ("in", "hard"), ("fifo", "fifo")]
        {
            let why = refusal(Paths::default().replaces("--report", &at(one)).replaces("--html", &at(other)));
            assert!(
                why.starts_with("--html ") && why.contains("that is where --report goes"),
                "{other}: {why}"
            );
        }
        let new = Paths::default().reads("FILE", [at("in")]).makes_trace("--out", &at("link"));
        assert!(refusal(new).contains("that is what FILE reads"), "and not that it may be removed");
        let all = Paths::default().reads("FILE", [at("in")]);
        all.replaces("--report", &at("new")).replaces("--html", &at("a/new")).check().expect("all others");
        assert!(!at("new").exists());
    }

    #[test]
    fn what_cannot_be_written_is_told_and_nothing_is_left() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "").expect("written");
        symlink("nowhere", at("link")).expect("made");
        let slash = PathBuf::from(format!("{}/", at("new").display()));
        let long = at(&"x".repeat(256));
        for (path, why) in [
            (dir.path(), "that is a folder"),
            (&slash, "that is a folder"),
            (Path::new(""), "give a name"),
            (&at("nowhere/x"), "No such file"),
            (&at("file/x"), "Not a directory"),
            (&long, "too long"),
            (Path::new("/proc/x"), "/proc/x: "),
        ] {
            let refused = refusal(Paths::default().replaces("--report", path));
            assert!(refused.starts_with("--report ") && refused.contains(why), "{why}: {refused}");
        }
        for path in ["file", "link"].map(at) {
            for paths in
                [Paths::default().makes("--new-key", &path), Paths::default().makes_trace("--out", &path)]
            {
                assert!(refusal(paths).contains("is there already: give another name, or remove it"));
            }
        }
        fs::create_dir(at("closed")).expect("made");
        fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o500)).expect("ours");
        // The superuser may write anywhere.
        let closed = Paths::default().replaces("--report", &at("closed/x")).check();
        assert_eq!(closed.is_ok(), geteuid().is_root());
        let left = |folder: &Path| fs::read_dir(folder).expect("it is there").count();
        assert_eq!((left(dir.path()), left(&at("closed"))), (3, 0));
    }
}

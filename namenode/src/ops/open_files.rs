//! listOpenFiles — ClientProtocol.listOpenFiles  (Java: FSNamesystem.listOpenFiles, LeaseManager.getUnderConstructionFiles)
//!
//! Held    nothing: it only reads.
//! Rows    open_files: a share of 62r in each of 64 buckets, for each 64 × 62 open files · per open file looked at:
//!         inode_paths 1r a level, inodes 1r.
//! Cost    warm: 2 fetches for up to 64 open files, and one more for every further 64; one more for each 4000 rows of
//!         open_files, fewer where they crowd in few buckets. Files outside the path asked for are looked at too.
//! Differs each batch is a snapshot of its own: a file that is opened or closed meanwhile may be told of or not.

use crate::engine::permission::check_superuser;
use crate::engine::tx::Tx;
use crate::engine::walkjob::{WalkJob, WalkResult};
use crate::path::Path;
use crate::refusal::{Halt, Kind, Result, RpcError, refuse};

/// Arguments of [`list_open_files`].
#[derive(Clone, Debug, PartialEq)]
pub struct ListOpenFiles {
    /// The page starts strictly after this inode id; 0 = the first page.
    pub after: u64,
    /// Files open for writing are asked for.
    pub all: bool,
    /// Of those, the ones that keep a datanode from being decommissioned. Means nothing beside `all`, as in stock.
    pub blocking_decommission: bool,
    /// Only files at or below this path.
    pub under: Path,
}

/// A file that is open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Inode id.
    pub id: u64,
    /// Path.
    pub path: String,
    /// The lease holder: the client's name.
    pub holder: String,
    /// The address from which the client opened it.
    pub machine: String,
}

/// What [`list_open_files`] answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenFilesPage {
    /// In the order of their ids.
    pub files: Vec<OpenFile>,
    /// Whether there are open files with larger ids, be they below the path or not.
    pub has_more: bool,
}

impl ListOpenFiles {
    /// `after`, `path`: as the client sent them. `.` and `..` are taken out of the path.
    pub fn new(after: i64, path: &str) -> std::result::Result<ListOpenFiles, RpcError> {
        let mut components = Vec::new();
        for name in Path::parse(path)?.components() {
            match name.as_ref() {
                b"." => {}
                b".." => drop(components.pop()),
                _ => components.push(name.clone()),
            }
        }
        let (after, under) = (u64::try_from(after).unwrap_or(0), Path::from_components(components));
        Ok(ListOpenFiles { after, all: true, blocking_decommission: false, under })
    }
}

/// A page of all files that are open for writing; for superusers.
pub fn list_open_files(tx: &mut Tx<'_, '_>, call: &ListOpenFiles) -> Result<OpenFilesPage> {
    check_superuser(&tx.ctx.user, "listOpenFiles")?;
    match tx.ctx.walked.as_deref() {
        _ if !call.all && call.blocking_decommission => Ok(OpenFilesPage::default()),
        _ if !call.all => refuse(Kind::IllegalArgument, "Unknown OpenFileType: []"),
        Some(WalkResult::OpenFiles(of, page)) if of == call => Ok(page.clone()),
        _ => Err(Halt::Needs(WalkJob::OpenFiles(call.clone()))),
    }
}

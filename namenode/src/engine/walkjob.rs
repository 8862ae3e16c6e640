//! Walk jobs: reading without a bound, in bounded batches, each its own snapshot, outside every transaction.

use super::walk::Node;
use crate::ops::open_files::{ListOpenFiles, OpenFilesPage};
use crate::ops::statistics::{ConcernsPage, ListConcerns, Totals};

/// An unbounded read that an operation needs before it can go on.
#[derive(Clone, Debug, PartialEq)]
pub enum WalkJob {
    /// Whether the caller may delete everything below a directory (stock: `checkSubAccess` with `ALL`, empty
    /// directories ignored, sticky directories honoured).
    SubAccess {
        /// The directory.
        directory: Box<Node>,
        /// Its path, for messages.
        path: String,
    },
    /// Counts below a directory (stock: `getContentSummary`; needs read and execute all the way).
    Summary {
        /// The directory.
        directory: Box<Node>,
        /// Its path, for messages.
        path: String,
        /// Whether the entries of sticky directories must be the caller's, as for a deletion.
        sticky: bool,
    },
    /// A page of the files that are open for writing.
    OpenFiles(ListOpenFiles),
    /// Blocks that are not as they should be, over all files.
    Totals,
    /// A page of the files that have such blocks.
    Concerns(ListConcerns),
}

/// What a walk job came to, for the operation that asked.
#[derive(Clone, Debug, PartialEq)]
pub enum WalkResult {
    /// The caller may delete everything below this directory.
    SubAccess {
        /// Its inode id.
        directory: u64,
    },
    /// Counts below a directory.
    Summary {
        /// Its inode id.
        directory: u64,
        /// The rule for sticky directories that was asked for.
        sticky: bool,
        /// The counts.
        counts: Summary,
    },
    /// A page of open files, and which one.
    OpenFiles(ListOpenFiles, OpenFilesPage),
    /// Blocks that are not as they should be.
    Totals(Totals),
    /// A page of the files that have such blocks, and which one.
    Concerns(ListConcerns, ConcernsPage),
}

/// Totals below (and including) a directory, or of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes in files.
    pub length: u64,
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes times replication.
    pub space: u64,
}

impl Summary {
    /// Both together.
    pub fn plus(self, other: Summary) -> Summary {
        Summary {
            length: self.length.saturating_add(other.length),
            files: self.files + other.files,
            directories: self.directories + other.directories,
            space: self.space.saturating_add(other.space),
        }
    }
}

//! Walk jobs: reading without a bound, in bounded batches, each its own snapshot, outside every transaction.

use super::walk::Node;

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
}

impl WalkJob {
    /// Whether this is the permission walk of a directory.
    pub fn is_access_to(&self, id: u64) -> bool {
        matches!(self, WalkJob::SubAccess { directory, .. } if directory.id() == id)
    }

    /// Whether this counts a directory, under the same rule for sticky directories.
    pub fn is_summary_of(&self, id: u64, by_sticky: bool) -> bool {
        matches!(self, WalkJob::Summary { directory, sticky, .. } if directory.id() == id && *sticky == by_sticky)
    }
}

/// What a walk job found, for the operation that asked.
#[derive(Clone, Debug, PartialEq)]
pub struct WalkResult {
    /// What was walked.
    pub job: WalkJob,
    /// Counts, for [`WalkJob::Summary`].
    pub summary: Summary,
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

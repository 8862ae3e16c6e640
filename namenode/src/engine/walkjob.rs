//! Walk jobs: reading without a bound, in bounded batches, each its own snapshot, outside every transaction.

/// An unbounded read that an operation needs before it can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkJob {
    /// Whether the caller may delete everything below a directory (stock: `checkSubAccess` with `ALL`, empty
    /// directories ignored, sticky directories honoured).
    SubAccess {
        /// The directory.
        root: u64,
        /// Its path, for messages.
        path: String,
    },
    /// Counts below a directory (stock: `getContentSummary`; needs read and execute all the way).
    Summary {
        /// The directory.
        root: u64,
        /// Its path, for messages.
        path: String,
    },
}

/// What a walk job found, for the operation that asked.
#[derive(Clone, Debug, PartialEq, Eq)]
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

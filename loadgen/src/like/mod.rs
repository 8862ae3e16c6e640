//! A namespace like another one, from the statistics of an fsimage.
//!
//! - [`table`]: reads the image's table, line by line
//! - [`counts`]: what is counted meanwhile
//! - [`layout`]: which directories and files a namespace with these statistics has
//!
//! Each level of the image has its numbers of directories and files, which are kept in proportion. How unevenly they are
//! spread over the directories above them, how long names are and how long files: each is drawn from the image's own
//! distribution, as a pure function of the seed and the number of the file or directory.

pub mod counts;
pub mod layout;
pub mod table;

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use self::layout::Layout;
use crate::distribution::Distribution;

/// The statistics of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Directories, and files in them, at each depth; the root alone is at the first.
    pub levels: Vec<Level>,
    /// Files of a directory.
    pub files_per_dir: Distribution,
    /// Directories of a directory.
    pub dirs_per_dir: Distribution,
    /// Bytes of a file's name.
    pub file_names: Distribution,
    /// Bytes of a directory's name.
    pub dir_names: Distribution,
}

/// One depth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Directories there.
    pub dirs: u64,
    /// Files in them.
    pub files: u64,
}

/// An image's statistics, for so many files.
#[derive(Debug, Clone)]
pub struct Like {
    /// The statistics.
    pub image: Arc<Image>,
    files: u32,
    seed: u64,
    /// Made when it is needed first.
    layout: Arc<OnceLock<Layout>>,
}

impl PartialEq for Like {
    fn eq(&self, other: &Self) -> bool {
        (&self.image, self.files, self.seed) == (&other.image, other.files, other.seed)
    }
}

impl Eq for Like {}

impl Like {
    /// A namespace of so many files; others with another seed.
    pub fn new(image: Arc<Image>, files: u32, seed: u64) -> Like {
        Like { image, files, seed, layout: Arc::default() }
    }

    /// Whether it is for so many files and this seed.
    pub fn is_for(&self, files: u32, seed: u64) -> bool {
        (self.files, self.seed) == (files, seed)
    }

    /// Its directories and files.
    pub fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| Layout::new(&self.image, self.files, self.seed))
    }
}

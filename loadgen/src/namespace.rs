//! A namespace as a pure function: which directories and files a spec has, and what they are called.
//!
//! Directories are numbered; each has the files `number × files_per_dir …`. They form trees of `depth` levels, one tree
//! beside the other below the base, each tree numbered level by level; unless it is to be [`like`](crate::like) an image,
//! which says where directories and files are. What they are called is in [`names`](crate::names).

use std::fmt;
use std::iter;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::contents::Contents;
use crate::error::{Error, Result};
use crate::like::layout::{MAX_DIRS, levels};
use crate::like::{Image, Level, Like};

/// Names are at least this long: longer numbers than fit into it do not occur.
pub const MIN_NAME_LENGTH: u32 = 24;
/// HDFS's usual limit on a name.
pub const MAX_NAME_LENGTH: u32 = 255;
/// HDFS's limit on a path.
const MAX_PATH_LENGTH: u64 = 8000;
/// Of the directory whose name is the spec.
const MARKER: &str = "spec";
/// Tells the random numbers of sizes from others.
const SIZES: u64 = 0x7369_7a65;

/// A namespace. Its default is Spotify's, as the HopsFS authors describe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Record", into = "Record")]
pub struct Spec {
    /// Files in all.
    pub files: u32,
    /// Directories between the base and the deepest files.
    pub depth: u32,
    /// Files of a directory; the last one may have fewer.
    pub files_per_dir: u32,
    /// Directories of a directory, above the lowest level.
    pub dirs_per_dir: u32,
    /// Of all names, bytes.
    pub name_length: u32,
    /// Names with another seed are other names.
    pub seed: u64,
    /// What its files hold.
    pub contents: Contents,
    /// The shape of another namespace; then depth, files and directories of a directory and length of names say but what
    /// that has at most, or on average.
    pub like: Option<Like>,
}

/// A spec as it is kept.
#[derive(Serialize, Deserialize)]
struct Record {
    files: u32,
    depth: u32,
    files_per_dir: u32,
    dirs_per_dir: u32,
    name_length: u32,
    seed: u64,
    #[serde(default)]
    contents: Contents,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    like: Option<Image>,
}

impl From<Record> for Spec {
    fn from(record: Record) -> Spec {
        let Record { files, depth, files_per_dir, dirs_per_dir, name_length, seed, contents, like } = record;
        let like = like.map(|image| Like::new(Arc::new(image), files, seed));
        Spec { files, depth, files_per_dir, dirs_per_dir, name_length, seed, contents, like }
    }
}

impl From<Spec> for Record {
    fn from(spec: Spec) -> Record {
        let Spec { files, depth, files_per_dir, dirs_per_dir, name_length, seed, contents, like } = spec;
        let like = like.map(|like| Arc::unwrap_or_clone(like.image));
        Record { files, depth, files_per_dir, dirs_per_dir, name_length, seed, contents, like }
    }
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            files: 100_000,
            depth: 7,
            files_per_dir: 16,
            dirs_per_dir: 2,
            name_length: 34,
            seed: 1,
            contents: Contents::default(),
            like: None,
        }
    }
}

impl Spec {
    /// A namespace like an image, of so many files.
    pub fn like(image: Image, files: u32, seed: u64, contents: Contents) -> Spec {
        let mean = |sum: fn(&Level) -> u64, of: fn(&Level) -> u64| {
            let total = |part: fn(&Level) -> u64| image.levels.iter().map(part).sum::<u64>();
            total(sum).div_ceil(total(of).max(1)).min(u32::MAX.into()) as u32
        };
        Spec {
            files,
            depth: image.levels.len() as u32,
            files_per_dir: mean(|level| level.files, |level| level.dirs),
            dirs_per_dir: mean(|level| level.dirs, |level| level.dirs),
            name_length: image.file_names.most().max(image.dir_names.most()).min(u32::MAX.into()) as u32,
            seed,
            contents,
            like: Some(Like::new(Arc::new(image), files, seed)),
        }
    }

    /// Says what is wrong with it.
    pub fn check(&self, base: &str) -> Result<()> {
        self.contents.check()?;
        if let Some(like) = &self.like {
            return self.check_like(like, base);
        }
        let Spec { files, depth, files_per_dir, dirs_per_dir, name_length, .. } = *self;
        if [files, depth, files_per_dir, dirs_per_dir].contains(&0) {
            return Err(Error::refused(
                "a namespace has at least one file, level, file and directory per directory",
            ));
        }
        if !(MIN_NAME_LENGTH..=MAX_NAME_LENGTH).contains(&name_length) {
            let range = format!("{MIN_NAME_LENGTH} to {MAX_NAME_LENGTH}");
            return Err(Error::refused(format!("names of {name_length} characters: give {range}")));
        }
        if base.len() as u64 + (u64::from(depth) + 1) * u64::from(name_length + 1) > MAX_PATH_LENGTH {
            return Err(Error::refused(format!(
                "paths would be longer than {MAX_PATH_LENGTH} characters: make names shorter or the depth less"
            )));
        }
        Ok(())
    }

    fn check_like(&self, like: &Like, base: &str) -> Result<()> {
        let refused = |what: String| Err(Error::refused(what));
        if self.files == 0 || !like.is_for(self.files, self.seed) {
            return refused(
                "a namespace has at least one file, and the layout of its image is for all of them".into(),
            );
        }
        let dirs =
            levels(&like.image, self.files).iter().fold(0u64, |sum, level| sum.saturating_add(level.dirs));
        if dirs > MAX_DIRS {
            return refused(format!(
                "{dirs} directories: at most {MAX_DIRS} can be made; give fewer --files"
            ));
        }
        // A name is at least as long as its numbers need; the parent of a directory has a lower number.
        let longest_file = like.image.file_names.most().clamp(MIN_NAME_LENGTH.into(), MAX_NAME_LENGTH.into());
        let mut lengths: Vec<u32> = Vec::with_capacity(dirs as usize);
        for dir in 0..self.dirs() {
            let above =
                self.parent(dir).and_then(|parent| lengths.get(parent as usize).copied()).unwrap_or(0);
            lengths.push(above + 1 + self.dir_name(dir).len() as u32);
        }
        let longest = u64::from(lengths.into_iter().max().unwrap_or(0));
        match base.len() as u64 + longest + 1 + longest_file > MAX_PATH_LENGTH {
            true => refused(format!(
                "paths would be longer than {MAX_PATH_LENGTH} characters, as with another --seed they may not be"
            )),
            false => Ok(()),
        }
    }

    /// Whether six numbers say all about it.
    pub fn is_plain(&self) -> bool {
        self.contents == Contents::default() && self.like.is_none()
    }

    /// How long a file is, bytes.
    pub fn size_of(&self, file: u32) -> u64 {
        self.contents.sizes.at(mixed(self.seed ^ mixed(u64::from(file) ^ SIZES)))
    }

    /// Directories in all.
    pub fn dirs(&self) -> u32 {
        if let Some(like) = &self.like {
            return like.layout().dirs();
        }
        self.files.div_ceil(self.files_per_dir)
    }

    /// Directories of a whole tree.
    fn dirs_per_tree(&self) -> u64 {
        let (mut level, mut all) = (1u64, 0u64);
        for _ in 0..self.depth {
            all = all.saturating_add(level);
            level = level.saturating_mul(self.dirs_per_dir.into());
        }
        all
    }

    /// The directory of a file.
    pub fn dir_of(&self, file: u32) -> u32 {
        match &self.like {
            Some(like) => like.layout().dir_of(file),
            None => file / self.files_per_dir,
        }
    }

    /// The files of a directory.
    pub fn files_of(&self, dir: u32) -> std::ops::Range<u32> {
        if let Some(like) = &self.like {
            return like.layout().files_of(dir);
        }
        let begin = dir.saturating_mul(self.files_per_dir).min(self.files);
        begin..begin.saturating_add(self.files_per_dir).min(self.files)
    }

    /// The directory above another.
    pub fn parent(&self, dir: u32) -> Option<u32> {
        match &self.like {
            Some(like) => like.layout().parent(dir),
            None => self.parent_in(self.dirs_per_tree(), dir),
        }
    }

    /// A directory and those above it, from the lowest to the highest.
    pub fn chain(&self, dir: u32) -> Vec<u32> {
        let tree = self.dirs_per_tree();
        let mut chain = Vec::with_capacity(self.depth as usize);
        let above = |dir: &u32| match &self.like {
            Some(like) => like.layout().parent(*dir),
            None => self.parent_in(tree, *dir),
        };
        chain.extend(iter::successors(Some(dir), above));
        chain
    }

    /// In a namespace of trees of so many directories.
    fn parent_in(&self, tree: u64, dir: u32) -> Option<u32> {
        let (first, place) = (u64::from(dir) / tree * tree, u64::from(dir) % tree);
        // Both are at most `dir`.
        (place > 0).then(|| (first + (place - 1) / u64::from(self.dirs_per_dir)) as u32)
    }
}

/// SplitMix64's output function (Steele, Lea, Flood 2014).
pub fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number that depends on a text alone.
pub fn hashed(text: &str) -> u64 {
    text.bytes().fold(text.len() as u64, |state, byte| mixed(state.wrapping_add(u64::from(byte) + 1)))
}

/// The six numbers, as the name of an empty directory in the base, from where a run reads them.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec { files, depth, files_per_dir, dirs_per_dir, name_length, seed, .. } = self;
        write!(f, "{MARKER}-{files}-{depth}-{files_per_dir}-{dirs_per_dir}-{name_length}-{seed}")
    }
}

impl FromStr for Spec {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let mut parts =
            name.strip_prefix(MARKER).and_then(|rest| rest.strip_prefix('-')).ok_or(())?.split('-');
        let mut part = || parts.next().ok_or(());
        fn number<N: FromStr>(text: &str) -> Result<N, ()> {
            text.parse().map_err(drop)
        }
        let spec = Spec {
            files: number(part()?)?,
            depth: number(part()?)?,
            files_per_dir: number(part()?)?,
            dirs_per_dir: number(part()?)?,
            name_length: number(part()?)?,
            seed: number(part()?)?,
            ..Spec::default()
        };
        parts.next().is_none().then_some(spec).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_have_their_shape() {
        let spec = Spec { files: 127 * 16 + 1, ..Spec::default() };
        assert_eq!((spec.dirs(), spec.dirs_per_tree()), (128, 127));
        let depth = |dir: u32| spec.dir_path("/b", dir).matches('/').count() - 1;
        assert_eq!([0, 1, 2, 3, 63, 126, 127].map(depth), [1, 2, 2, 3, 7, 7, 1]);
        // Two below each, and each below one that exists.
        for dir in 0..127 {
            let below = (0..127).filter(|other| spec.parent(*other) == Some(dir)).count();
            assert_eq!(below, if dir < 63 { 2 } else { 0 });
        }
        assert_eq!((spec.files_of(127), spec.files_of(0)), (2032..2033, 0..16));
    }

    #[test]
    fn the_marker_tells_the_spec() {
        let spec = Spec { files: 7, seed: u64::MAX, ..Spec::default() };
        assert_eq!(spec.to_string().parse(), Ok(spec));
        for wrong in ["spec", "spec-1-2-3-4-5", "spec-1-2-3-4-5-6-7", "spec-x-2-3-4-5-6", "other-1-2-3-4-5-6"]
        {
            assert!(wrong.parse::<Spec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_built_is_refused() {
        let good = Spec::default();
        assert!(good.check("/load").is_ok());
        for wrong in [
            Spec { files: 0, ..good.clone() },
            Spec { dirs_per_dir: 0, ..good.clone() },
            Spec { name_length: 23, ..good.clone() },
            Spec { name_length: 256, ..good.clone() },
            Spec { depth: 230, ..good.clone() },
        ] {
            assert!(wrong.check("/load").is_err(), "{wrong:?}");
        }
    }
}

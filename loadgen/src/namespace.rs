//! A namespace as a pure function: which directories and files a spec has, and what they are called.
//!
//! Directories are numbered; each has the files `number × files_per_dir …`. They form trees of `depth` levels, one tree
//! beside the other below the base, each tree numbered level by level. Names carry the numbers, so that a listing tells
//! which files are there and under which of their names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::contents::Contents;
use crate::error::{Error, Result};

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
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// A namespace. Its default is Spotify's, as the HopsFS authors describe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(default)]
    pub contents: Contents,
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
        }
    }
}

impl Spec {
    /// Says what is wrong with it.
    pub fn check(&self, base: &str) -> Result<()> {
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

    /// Whether six numbers say all about it.
    pub fn is_plain(&self) -> bool {
        self.contents == Contents::default()
    }

    /// How long a file is, bytes.
    pub fn size_of(&self, file: u32) -> u64 {
        self.contents.sizes.at(mixed(self.seed ^ mixed(u64::from(file) ^ SIZES)))
    }

    /// Directories in all.
    pub fn dirs(&self) -> u32 {
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
        file / self.files_per_dir
    }

    /// The files of a directory.
    pub fn files_of(&self, dir: u32) -> std::ops::Range<u32> {
        let begin = dir.saturating_mul(self.files_per_dir).min(self.files);
        begin..begin.saturating_add(self.files_per_dir).min(self.files)
    }

    fn parent(&self, dir: u32) -> Option<u32> {
        let tree = self.dirs_per_tree();
        let (first, place) = (u64::from(dir) / tree * tree, u64::from(dir) % tree);
        // Both are at most `dir`.
        (place > 0).then(|| (first + (place - 1) / u64::from(self.dirs_per_dir)) as u32)
    }

    /// A directory's path.
    pub fn dir_path(&self, base: &str, dir: u32) -> String {
        let mut chain = vec![dir];
        let mut above = self.parent(dir);
        while let Some(dir) = above {
            chain.push(dir);
            above = self.parent(dir);
        }
        let mut path = base.trim_end_matches('/').to_owned();
        for dir in chain.into_iter().rev() {
            path.push('/');
            path.push_str(&self.filled(format!("d-{}-", Base36(dir.into())), u64::from(dir) << 32));
        }
        path
    }

    /// A file's path. Every rename of a load run gives it the name of the next generation.
    pub fn file_path(&self, base: &str, file: u32, generation: u32) -> String {
        let mut path = self.dir_path(base, self.dir_of(file));
        let head = format!("f-{}-{}-", Base36(file.into()), Base36(generation.into()));
        path.push('/');
        path.push_str(&self.filled(head, u64::from(file) << 32 | u64::from(generation)));
        path
    }

    /// The path of what a run adds to a directory: the `count`-th that its client `client` makes; `run` tells runs apart.
    pub fn new_path(&self, base: &str, dir: u32, run: u32, client: u32, count: u32) -> String {
        let mut path = self.dir_path(base, dir);
        let head = format!("n-{}-{}-{}-", Base36(run.into()), Base36(client.into()), Base36(count.into()));
        path.push('/');
        path.push_str(&self.filled(head, u64::from(run) << 32 | u64::from(client ^ count)));
        path
    }

    /// Which file of the spec, and in which generation, has this name, if one has.
    pub fn parse_file_name(&self, name: &str) -> Option<(u32, u32)> {
        let mut parts = name.strip_prefix("f-")?.split('-');
        let mut number = || u32::from_str_radix(parts.next()?, 36).ok();
        let (file, generation) = (number()?, number()?);
        (file < self.files).then_some((file, generation))
    }

    /// `head`, filled up to the length of names with letters that depend on the seed and `salt` alone.
    fn filled(&self, head: String, salt: u64) -> String {
        let mut name = head;
        let mut state = self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ salt;
        let mut letters = 0;
        while name.len() < self.name_length as usize {
            if letters < 36 {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                letters = mixed(state);
            }
            name.push(char::from(DIGITS[(letters % 36) as usize]));
            letters /= 36;
        }
        name
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

struct Base36(u64);

impl fmt::Display for Base36 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Base36(mut rest) = *self;
        let mut digits = Vec::with_capacity(13);
        loop {
            digits.push(char::from(DIGITS[(rest % 36) as usize]));
            rest /= 36;
            if rest == 0 {
                break;
            }
        }
        digits.into_iter().rev().try_for_each(|digit| f.write_str(digit.encode_utf8(&mut [0; 4])))
    }
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
            contents: Contents::default(),
        };
        parts.next().is_none().then_some(spec).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_a_pure_function_of_spec_and_seed() {
        let spec = Spec { files: 5000, ..Spec::default() };
        let paths: Vec<_> = (0..spec.files).map(|file| spec.file_path("/load", file, 0)).collect();
        assert_eq!(paths, (0..spec.files).map(|file| spec.file_path("/load", file, 0)).collect::<Vec<_>>());
        assert_eq!(paths.iter().collect::<HashSet<_>>().len(), 5000);
        // The first file of a larger namespace is the same, that of another seed is not.
        assert_eq!(Spec { files: 9, ..spec.clone() }.file_path("/load", 8, 0), paths[8]);
        assert_ne!(Spec { seed: 2, ..spec.clone() }.file_path("/load", 8, 0), paths[8]);
        for path in &paths {
            let names: Vec<_> = path.strip_prefix("/load/").expect("below the base").split('/').collect();
            assert!(names.len() <= 8 && names.iter().all(|name| name.len() == 34), "{path}");
        }
    }

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
    fn listings_tell_which_file_it_is() {
        let spec = Spec::default();
        let name = |file, generation| {
            let path = spec.file_path("/load", file, generation);
            path.rsplit('/').next().expect("a name").to_owned()
        };
        for (file, generation) in [(0, 0), (99_999, 7), (36, u32::MAX)] {
            assert_eq!(spec.parse_file_name(&name(file, generation)), Some((file, generation)));
        }
        for other in ["f-", "f-zz", "d-1-x", "n-1-2-3-x", "f-255s-0-x" /* 100 000 */, "f-ü-0-"] {
            assert_eq!(spec.parse_file_name(other), None, "{other}");
        }
        let new = spec.new_path("/load", 3, u32::MAX, 9999, u32::MAX);
        assert_eq!(new.rsplit('/').next().map(str::len), Some(34));
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

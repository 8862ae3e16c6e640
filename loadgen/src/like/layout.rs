//! Which directories and files a namespace has whose statistics are those of an image.

use super::{Image, Level};
use crate::distribution::Distribution;
use crate::namespace::mixed;

/// Tell the random numbers of one thing from those of another.
const FILES: u64 = 0x66_69_6c_65;
const DIRS: u64 = 0x64_69_72;
/// Stands for "no directory".
const NONE: u32 = u32::MAX;
/// Directories, at most.
pub const MAX_DIRS: u64 = 1 << 28;

/// Directories by number, level by level, each with the files from its first on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    parents: Vec<u32>,
    /// One more than there are directories.
    first_files: Vec<u32>,
}

/// How many directories and files each level has, of so many files in all.
pub fn levels(image: &Image, files: u32) -> Vec<Level> {
    let all: u64 = image.levels.iter().map(|level| level.files).sum();
    let (files, all) = (u128::from(files), u128::from(all.max(1)));
    let scaled = |count: u64| u64::try_from(u128::from(count) * files / all).unwrap_or(u64::MAX);
    let mut before = 0u64;
    let mut scaled_levels: Vec<Level> = Vec::with_capacity(image.levels.len());
    for (depth, level) in image.levels.iter().enumerate() {
        let after = before + level.files;
        let dirs = if depth == 0 { 1 } else { scaled(level.dirs) };
        scaled_levels.push(Level { dirs, files: scaled(after) - scaled(before) });
        before = after;
    }
    // Whatever is there needs a directory, and that one another above it.
    let mut is_needed = false;
    for level in scaled_levels.iter_mut().rev() {
        is_needed |= level.files > 0 || level.dirs > 0;
        level.dirs = level.dirs.max(u64::from(is_needed));
    }
    scaled_levels.retain(|level| level.dirs > 0);
    scaled_levels
}

/// Gives each of `parts`, in turn, its share of `count`; in the end there is nothing left.
struct Shares {
    count: u64,
    sum: u128,
    weights: Vec<u64>,
}

impl Shares {
    /// Weights are drawn from a distribution; when all are 0, all are the same.
    fn drawn(count: u64, parts: std::ops::Range<u64>, distribution: &Distribution, salt: u64) -> Shares {
        let mut weights: Vec<u64> = parts.map(|part| distribution.at(mixed(salt ^ mixed(part)))).collect();
        if weights.iter().all(|weight| *weight == 0) {
            weights.fill(1);
        }
        let sum = weights.iter().map(|weight| u128::from(*weight)).sum();
        Shares { count, sum, weights }
    }

    /// How many each gets.
    fn each(&self) -> impl Iterator<Item = u64> {
        let mut before = 0u128;
        let place = |sum: u128| (sum.saturating_mul(self.count.into()) / self.sum.max(1)) as u64;
        self.weights.iter().map(move |weight| {
            let start = place(before);
            before += u128::from(*weight);
            place(before) - start
        })
    }
}

impl Layout {
    /// For so many files. The same for the same arguments, on every machine.
    pub fn new(image: &Image, files: u32, seed: u64) -> Layout {
        let levels = levels(image, files);
        let mut layout = Layout { parents: vec![NONE], first_files: vec![0] };
        let mut first = 0u64;
        for (depth, level) in levels.iter().enumerate() {
            let dirs = first..first + level.dirs;
            let in_each = Shares::drawn(level.files, dirs.clone(), &image.files_per_dir, seed ^ mixed(FILES));
            for count in in_each.each() {
                let last = layout.first_files.last().copied().unwrap_or(0);
                // All together there are `files`.
                layout.first_files.push(last + count as u32);
            }
            let below = levels.get(depth + 1).map_or(0, |level| level.dirs);
            let in_each = Shares::drawn(below, dirs.clone(), &image.dirs_per_dir, seed ^ mixed(DIRS));
            for (parent, count) in dirs.zip(in_each.each()) {
                layout.parents.extend(std::iter::repeat_n(parent as u32, count as usize));
            }
            first += level.dirs;
        }
        layout
    }

    /// Directories in all.
    pub fn dirs(&self) -> u32 {
        self.parents.len() as u32
    }

    /// The directory above another.
    pub fn parent(&self, dir: u32) -> Option<u32> {
        self.parents.get(dir as usize).copied().filter(|parent| *parent != NONE)
    }

    /// The directory of a file.
    pub fn dir_of(&self, file: u32) -> u32 {
        (self.first_files.partition_point(|first| *first <= file) as u32).saturating_sub(1)
    }

    /// The files of a directory.
    pub fn files_of(&self, dir: u32) -> std::ops::Range<u32> {
        let first = |dir: usize| self.first_files.get(dir).or(self.first_files.last()).copied().unwrap_or(0);
        first(dir as usize)..first(dir as usize + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        let of = |text: &str| text.parse::<Distribution>().expect(text);
        let level = |dirs, files| Level { dirs, files };
        Image {
            levels: vec![level(1, 0), level(10, 1000), level(400, 2000), level(2000, 30_000)],
            files_per_dir: of("0:50,1-10:40,100-200:10"),
            dirs_per_dir: of("0:70,1-20:30"),
            file_names: of("20"),
            dir_names: of("10"),
        }
    }

    #[test]
    fn every_file_has_one_directory_that_hangs_in_the_tree() {
        for files in [1, 2, 100, 33_000, 100_000] {
            let layout = Layout::new(&image(), files, 7);
            let mut next = 0;
            for dir in 0..layout.dirs() {
                let range = layout.files_of(dir);
                assert_eq!(range.start, next);
                next = range.end;
                assert!(range.clone().all(|file| layout.dir_of(file) == dir));
                assert!(layout.parent(dir).map_or(dir == 0, |parent| parent < dir), "{dir}");
            }
            assert_eq!(next, files);
            assert_eq!(layout, Layout::new(&image(), files, 7));
        }
        assert_ne!(Layout::new(&image(), 33_000, 7), Layout::new(&image(), 33_000, 8));
    }

    #[test]
    fn levels_keep_their_proportions() {
        let level = |dirs, files| Level { dirs, files };
        assert_eq!(levels(&image(), 33_000), image().levels);
        assert_eq!(levels(&image(), 330), [level(1, 0), level(1, 10), level(4, 20), level(20, 300)]);
        // One file needs the directories above it, whatever their share.
        assert_eq!(levels(&image(), 1), [level(1, 0), level(1, 0), level(1, 0), level(1, 1)]);
    }

    #[test]
    fn directories_are_as_uneven_as_in_the_image() {
        let layout = Layout::new(&image(), 33_000, 7);
        let counts: Vec<u32> = (0..layout.dirs()).map(|dir| layout.files_of(dir).len() as u32).collect();
        let share = |part: usize| part as f64 / counts.len() as f64;
        let empty = share(counts.iter().filter(|count| **count == 0).count());
        assert!((0.45..0.56).contains(&empty), "{empty}");
        let large = share(counts.iter().filter(|count| **count > 50).count());
        assert!((0.07..0.13).contains(&large), "{large}");
        let leaves = (0..layout.dirs() - 2000)
            .filter(|dir| (0..layout.dirs()).all(|other| layout.parent(other) != Some(*dir)));
        assert!((250..330).contains(&leaves.count()));
    }

    #[test]
    fn an_image_without_anything_has_a_root() {
        let empty = Image { levels: Vec::new(), ..image() };
        let layout = Layout::new(&empty, 0, 1);
        assert_eq!((layout.dirs(), layout.files_of(0), layout.parent(0)), (1, 0..0, None));
    }
}

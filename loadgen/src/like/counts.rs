//! What is counted of an image, in bounded memory.

use std::collections::{BTreeMap, HashMap};

use crate::distribution::Distribution;
use crate::like::{Image, Level};
use crate::namespace::mixed;

/// Levels that are told apart; what lies deeper counts as of the last one.
const MAX_LEVELS: usize = 200;
/// Directories whose entries are counted. Of larger images it is a sample: those whose hash ends with so many zeros that
/// no more than these are left.
const MAX_SAMPLE: usize = 1 << 20;
/// Different values of which the commonest is looked for; further ones do not count.
const MAX_VALUES: usize = 10_000;
/// Numbers below this stand for themselves in a histogram; above it each doubling has as many bins as [`BINS`] says.
const EXACT: u64 = 64;
/// Bins of a doubling.
const BINS: u64 = 4;

/// How often numbers occur.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram(BTreeMap<(u64, u64), u64>);

impl Histogram {
    /// Counts a number.
    pub fn add(&mut self, number: u64) {
        *self.0.entry(bin(number)).or_default() += 1;
    }

    /// As a distribution; that of `empty` alone if nothing was counted.
    pub fn distribution(&self, empty: u64) -> Distribution {
        let ranges = self.0.iter().map(|((from, to), count)| (*from, *to, *count));
        Distribution::of(ranges).unwrap_or_else(|| Distribution::fixed(empty))
    }
}

/// The first and the last number that are counted with this one.
fn bin(number: u64) -> (u64, u64) {
    if number < EXACT {
        return (number, number);
    }
    let doubling = 1u64 << number.ilog2();
    let width = doubling / BINS;
    let from = number - number % width;
    (from, from + (width - 1))
}

/// Values and how often they occur.
#[derive(Debug, Default)]
struct Values(HashMap<u64, u64>);

impl Values {
    fn add(&mut self, value: u64) {
        if self.0.len() < MAX_VALUES || self.0.contains_key(&value) {
            *self.0.entry(value).or_default() += 1;
        }
    }

    fn commonest(&self) -> Option<u64> {
        self.0.iter().max_by_key(|(value, count)| (**count, **value)).map(|(value, _)| *value)
    }
}

/// Entries of a directory.
#[derive(Debug, Clone, Copy, Default)]
struct Entries {
    files: u64,
    dirs: u64,
}

/// What was counted so far.
#[derive(Debug)]
pub struct Counts {
    levels: Vec<Level>,
    /// By the hash of its path.
    sample: HashMap<u64, Entries>,
    max_sample: usize,
    /// Hashes of the sample have none of these bits.
    mask: u64,
    file_names: Histogram,
    dir_names: Histogram,
    sizes: Histogram,
    block_sizes: Values,
    replications: Values,
}

/// A file, as the table has it.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// Bytes.
    pub size: u64,
    /// Bytes.
    pub block_size: u64,
    /// Replicas of its blocks.
    pub replication: u64,
}

/// A path's directory and name; None: it is the root.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = path.iter().rposition(|byte| *byte == b'/')?;
    let (parent, name) = (&path[..end], &path[end + 1..]);
    (!name.is_empty()).then_some((parent, name))
}

/// How far below the root a directory is; the root is the empty path.
fn depth(dir: &[u8]) -> usize {
    dir.iter().filter(|byte| **byte == b'/').count().min(MAX_LEVELS - 1)
}

impl Default for Counts {
    fn default() -> Self {
        Counts::with_sample(MAX_SAMPLE)
    }
}

impl Counts {
    /// With the entries of so many directories at most.
    fn with_sample(max_sample: usize) -> Counts {
        Counts {
            levels: Vec::new(),
            sample: HashMap::new(),
            max_sample,
            mask: 0,
            file_names: Histogram::default(),
            dir_names: Histogram::default(),
            sizes: Histogram::default(),
            block_sizes: Values::default(),
            replications: Values::default(),
        }
    }

    /// Counts a file.
    pub fn file(&mut self, file: &File<'_>) {
        let Some((parent, name)) = split(file.path) else { return };
        self.level(depth(parent)).files += 1;
        self.entries(parent, |entries| entries.files += 1);
        self.file_names.add(name.len() as u64);
        self.sizes.add(file.size);
        self.block_sizes.add(file.block_size);
        self.replications.add(file.replication);
    }

    /// Counts a directory.
    pub fn dir(&mut self, path: &[u8]) {
        match split(path) {
            Some((parent, name)) => {
                self.level(depth(path)).dirs += 1;
                self.entries(parent, |entries| entries.dirs += 1);
                self.entries(path, |_| {});
                self.dir_names.add(name.len() as u64);
            }
            None => {
                self.level(0).dirs += 1;
                self.entries(b"", |_| {});
            }
        }
    }

    fn level(&mut self, depth: usize) -> &mut Level {
        if self.levels.len() <= depth {
            self.levels.resize(depth + 1, Level::default());
        }
        &mut self.levels[depth]
    }

    fn entries(&mut self, dir: &[u8], note: impl FnOnce(&mut Entries)) {
        let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, dir);
        let hash = mixed(checksum ^ dir.len() as u64);
        if hash & self.mask != 0 {
            return;
        }
        note(self.sample.entry(hash).or_default());
        if self.sample.len() > self.max_sample {
            self.mask = self.mask << 1 | 1;
            let mask = self.mask;
            self.sample.retain(|hash, _| hash & mask == 0);
        }
    }

    /// Files so far.
    pub fn files(&self) -> u64 {
        self.levels.iter().map(|level| level.files).sum()
    }

    /// Directories so far.
    pub fn dirs(&self) -> u64 {
        self.levels.iter().map(|level| level.dirs).sum()
    }

    /// How long files are, bytes.
    pub fn sizes(&self) -> Distribution {
        self.sizes.distribution(0)
    }

    /// What most files have.
    pub fn block_size(&self) -> Option<u64> {
        self.block_sizes.commonest().filter(|bytes| *bytes > 0)
    }

    /// What most files have.
    pub fn replication(&self) -> Option<u16> {
        let copies = self.replications.commonest().and_then(|copies| u16::try_from(copies).ok());
        copies.filter(|copies| *copies > 0)
    }

    /// All that the shape of a namespace comes from.
    pub fn image(&self) -> Image {
        let mut files_per_dir = Histogram::default();
        let mut dirs_per_dir = Histogram::default();
        for entries in self.sample.values() {
            files_per_dir.add(entries.files);
            dirs_per_dir.add(entries.dirs);
        }
        Image {
            levels: self.levels.clone(),
            files_per_dir: files_per_dir.distribution(1),
            dirs_per_dir: dirs_per_dir.distribution(1),
            file_names: self.file_names.distribution(1),
            dir_names: self.dir_names.distribution(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_narrow_and_hold_every_number() {
        for number in (0..5000).chain([u64::MAX - 1, u64::MAX, 1 << 40, (1 << 40) - 1]) {
            let (from, to) = bin(number);
            assert!(from <= number && number <= to, "{number}");
            assert!(to - from <= number / BINS, "{number}: {from}-{to}");
        }
        let mut histogram = Histogram::default();
        assert_eq!(histogram.distribution(7), Distribution::fixed(7));
        [3, 3, 100, 103].into_iter().for_each(|number| histogram.add(number));
        assert_eq!(histogram.distribution(0).to_string(), "3:2,96-111:2");
    }

    #[test]
    fn a_sample_stays_bounded_and_keeps_the_shares() {
        let most = 8192;
        let mut counts = Counts::with_sample(most);
        // A third of the directories has two files, the others have none.
        for number in 0..10 * most {
            let path = format!("/d{number}");
            counts.dir(path.as_bytes());
            if number % 3 == 0 {
                for name in ["a", "b"] {
                    let path = format!("{path}/{name}");
                    let file = File { path: path.as_bytes(), size: 0, block_size: 1, replication: 3 };
                    counts.file(&file);
                }
            }
        }
        assert!(counts.sample.len() <= most && counts.sample.len() > most / 4);
        let two = counts.sample.values().filter(|entries| entries.files == 2).count();
        let share = two as f64 / counts.sample.len() as f64;
        assert!((share - 1.0 / 3.0).abs() < 0.03, "{share}");
    }

    #[test]
    fn deep_directories_count_as_of_the_last_level() {
        let mut counts = Counts::default();
        counts.dir("/x".repeat(MAX_LEVELS + 50).as_bytes());
        assert_eq!((counts.levels.len(), counts.dirs()), (MAX_LEVELS, 1));
    }
}

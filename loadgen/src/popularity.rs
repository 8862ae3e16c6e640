//! Which files are liked more than others, and which directories.

use std::ops::Range;

use rand::RngExt;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Zipf};

use crate::config::{Hot, Popularity};
use crate::namespace::Spec;

/// Draws files of a namespace.
#[derive(Debug)]
pub struct Spread {
    /// Share of the draws in the first of two parts of the directories; without it there is one part only.
    hot_share: Option<f64>,
    parts: Vec<Part>,
}

/// A range of directories, in an order of their own, among whose files is drawn.
#[derive(Debug)]
struct Part {
    first_dir: u64,
    /// Files of a directory, and of the whole part; where directories differ: the files up to and with each.
    files_per_dir: u64,
    files: u64,
    ends: Vec<u64>,
    /// When files are liked by their age: the directories by number, the highest first.
    youngest_first: Vec<u32>,
    zipf: Option<Zipf<f64>>,
}

impl Spread {
    /// Over all files of a namespace.
    pub fn new(spec: &Spec, popularity: Popularity, hot: Option<Hot>) -> Spread {
        let dirs = u64::from(spec.dirs());
        let part = |range| Part::new(spec, range, popularity);
        let mut spread = match hot {
            Some(hot) if dirs > 1 => {
                let hot_dirs = (dirs as f64 * hot.directories_percent / 100.0).ceil() as u64;
                let hot_dirs = hot_dirs.clamp(1, dirs - 1);
                let parts = vec![part(0..hot_dirs), part(hot_dirs..dirs)];
                Spread { hot_share: Some(hot.operations_percent / 100.0), parts }
            }
            _ => Spread { hot_share: None, parts: vec![part(0..dirs)] },
        };
        // Where directories differ, a few may have no files.
        spread.parts.retain(|part| part.files > 0);
        spread
    }

    /// A file, whether it is there or not.
    pub fn draw(&self, spec: &Spec, rng: &mut StdRng) -> u32 {
        let part = match self.hot_share {
            Some(share) if rng.random::<f64>() >= share => self.parts.last(),
            _ => self.parts.first(),
        };
        // There is at least one part.
        let Some(part) = part else { return 0 };
        let (dir, place) = part.find(part.draw(rng));
        if let Some(dir) = part.youngest_first.get(dir as usize) {
            return spec.files_of(*dir).end.saturating_sub(place as u32 + 1);
        }
        let files = spec.files_of(scattered(part.first_dir + dir, spec.dirs().into()) as u32);
        // The last directory may have fewer.
        files.start + place as u32 % (files.end - files.start).max(1)
    }
}

impl Part {
    /// Of these directories, by their places in an order in which it does not depend on their depth which are hot.
    fn new(spec: &Spec, dirs: Range<u64>, popularity: Popularity) -> Part {
        let files_per_dir = u64::from(spec.files_per_dir);
        let mut numbers = dirs.clone().map(|dir| scattered(dir, spec.dirs().into()) as u32);
        let ends = |numbers: &mut dyn Iterator<Item = u32>| {
            let counts = numbers.map(|dir| spec.files_of(dir).len() as u64);
            let sums = counts.scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            });
            sums.collect()
        };
        let (youngest_first, ends) = match popularity {
            Popularity::Age(_) => {
                let mut youngest_first: Vec<u32> = numbers.collect();
                youngest_first.sort_unstable_by(|one, other| other.cmp(one));
                let ends = ends(&mut youngest_first.iter().copied());
                (youngest_first, ends)
            }
            _ if spec.like.is_some() => (Vec::new(), ends(&mut numbers)),
            _ => (Vec::new(), Vec::new()),
        };
        let files = ends.last().copied().unwrap_or((dirs.end - dirs.start) * files_per_dir);
        let zipf = match popularity {
            Popularity::Uniform => None,
            // Refused for nothing that a configuration can hold.
            Popularity::Zipf(s) | Popularity::Age(s) => Zipf::new(files as f64, s).ok(),
        };
        Part { first_dir: dirs.start, files_per_dir, files, ends, youngest_first, zipf }
    }

    /// The place of a file's directory among those of the part, and that of the file in it.
    fn find(&self, place: u64) -> (u64, u64) {
        if self.ends.is_empty() {
            return (place / self.files_per_dir, place % self.files_per_dir);
        }
        let dir = self.ends.partition_point(|end| *end <= place);
        let before = dir.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        (dir as u64, place - before)
    }

    /// The place of a file among those of the part.
    fn draw(&self, rng: &mut StdRng) -> u64 {
        match &self.zipf {
            None => rng.random_range(0..self.files),
            // From 1, as whole numbers.
            Some(zipf) => match (zipf.sample(rng) as u64 - 1, self.youngest_first.is_empty()) {
                (rank, false) => rank,
                // What is liked most should not lie in one directory.
                (rank, true) => scattered(rank, self.files),
            },
        }
    }
}

/// One of `0..count`, another for each `index` of `0..count`.
pub fn scattered(index: u64, count: u64) -> u64 {
    // A prime; it shares a factor with `count` only when it divides it.
    const FACTOR: u128 = 2_305_843_009_213_693_951;
    (u128::from(index) * FACTOR % u128::from(count)) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use rand::SeedableRng;

    use super::*;
    use crate::contents::Contents;
    use crate::like::{Image, Level};

    /// How often each of so many draws hit the same, from the most to the least.
    fn counts(draws: u32, mut draw: impl FnMut(&mut StdRng) -> u32) -> Vec<u32> {
        let mut rng = StdRng::seed_from_u64(1);
        let mut hits = HashMap::new();
        (0..draws).for_each(|_| *hits.entry(draw(&mut rng)).or_insert(0) += 1);
        let mut counts: Vec<u32> = hits.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn hot_directories_get_their_share() {
        let hot = Hot { operations_percent: 80.0, directories_percent: 20.0 };
        let spec = Spec { files: 16 * 100, ..Spec::default() };
        let spread = Spread::new(&spec, Popularity::Uniform, Some(hot));
        let counts = counts(100_000, |rng| spec.dir_of(spread.draw(&spec, rng)));
        let top: u32 = counts[..20].iter().sum();
        assert!(counts.len() == 100 && (79_000..81_000).contains(&top), "{top}");
    }

    #[test]
    fn zipf_likes_some_files_more_and_leaves_none_out() {
        let spec = Spec { files: 160, ..Spec::default() };
        let spread = Spread::new(&spec, Popularity::Zipf(1.0), None);
        let counts = counts(200_000, |rng| spread.draw(&spec, rng));
        let ratio = f64::from(counts[0]) / f64::from(counts[9]);
        assert!(counts.len() == 160 && (9.0..11.0).contains(&ratio), "{ratio}");
    }

    /// The part of the draws in each tenth of these files, the youngest first, and what it is to be.
    fn deciles(spread: &Spread, spec: &Spec, files: &[u32], s: f64) -> Vec<(f64, f64)> {
        const DRAWS: u32 = 200_000;
        let mut rng = StdRng::seed_from_u64(1);
        let mut hits = vec![0u32; spec.files as usize];
        (0..DRAWS).for_each(|_| hits[spread.draw(spec, &mut rng) as usize] += 1);
        let mut youngest_first = files.to_vec();
        youngest_first.sort_unstable_by_key(|file| std::cmp::Reverse(*file));
        let drawn: u32 = files.iter().map(|file| hits[*file as usize]).sum();
        let weights: Vec<f64> = (1..=files.len()).map(|rank| (rank as f64).powf(-s)).collect();
        let tenth = files.len().div_ceil(10);
        let shares = youngest_first.chunks(tenth).zip(weights.chunks(tenth)).map(|(files, weight)| {
            let hits: u32 = files.iter().map(|file| hits[*file as usize]).sum();
            let weight: f64 = weight.iter().sum();
            (f64::from(hits) / f64::from(drawn), weight / weights.iter().sum::<f64>())
        });
        shares.collect()
    }

    /// Two levels of directories with so many files in all, that differ.
    fn like(levels: [Level; 2], files_per_dir: &str) -> Spec {
        let one = || "1".parse().expect("a number");
        let files = levels.iter().map(|level| level.files as u32).sum();
        let image = Image {
            levels: levels.into(),
            files_per_dir: files_per_dir.parse().expect("numbers"),
            dirs_per_dir: one(),
            file_names: one(),
            dir_names: one(),
        };
        Spec::like(image, files, 1, Contents::default())
    }

    fn uneven() -> Spec {
        like([Level { dirs: 1, files: 3 }, Level { dirs: 60, files: 997 }], "0:20,1:19,30:21")
    }

    #[test]
    fn the_younger_a_file_the_more_it_is_liked() {
        // The last directory has fewer files.
        for spec in [Spec { files: 1003, ..Spec::default() }, uneven()] {
            let all: Vec<u32> = (0..spec.files).collect();
            for s in [0.0, 0.5, 1.0, 2.0] {
                let shares = deciles(&Spread::new(&spec, Popularity::Age(s), None), &spec, &all, s);
                assert_eq!(shares.len(), 10);
                assert!(shares.iter().all(|(is, wanted)| (is - wanted).abs() < 0.005), "{s}: {shares:?}");
            }
        }
    }

    #[test]
    fn hot_directories_and_the_others_each_have_their_young_files() {
        for spec in [Spec { files: 1003, ..Spec::default() }, uneven()] {
            let hot = Hot { operations_percent: 70.0, directories_percent: 30.0 };
            let spread = Spread::new(&spec, Popularity::Age(1.0), Some(hot));
            let mut rng = StdRng::seed_from_u64(1);
            let mut in_hot = 0;
            let parts: Vec<Vec<u32>> = spread
                .parts
                .iter()
                .map(|part| part.youngest_first.iter().flat_map(|dir| spec.files_of(*dir)).collect())
                .collect();
            let [hot_files, others] = &parts[..] else { panic!("{parts:?}") };
            assert_eq!(hot_files.len() + others.len(), spec.files as usize);
            let is_hot: HashSet<u32> = hot_files.iter().copied().collect();
            (0..100_000).for_each(|_| in_hot += u32::from(is_hot.contains(&spread.draw(&spec, &mut rng))));
            assert!((69_000..71_000).contains(&in_hot), "{in_hot}");
            for files in [hot_files, others] {
                let shares = deciles(&spread, &spec, files, 1.0);
                assert!(shares.iter().all(|(is, wanted)| (is - wanted).abs() < 0.01), "{shares:?}");
            }
        }
    }

    #[test]
    fn the_last_directory_may_have_fewer_files() {
        let spec = Spec { files: 17, ..Spec::default() };
        let spread = Spread::new(&spec, Popularity::Uniform, None);
        assert_eq!(counts(10_000, |rng| spread.draw(&spec, rng)).len(), 17);
    }

    #[test]
    fn files_of_uneven_directories_are_liked_the_same() {
        let levels = [Level { dirs: 1, files: 0 }, Level { dirs: 40, files: 200 }];
        let spec = like(levels, "0:20,1:19,180:1");
        for hot in [None, Some(Hot { operations_percent: 50.0, directories_percent: 50.0 })] {
            let spread = Spread::new(&spec, Popularity::Uniform, hot);
            let counts = counts(200_000, |rng| spread.draw(&spec, rng));
            assert_eq!(counts.len(), 200, "none is left out");
            if hot.is_none() {
                assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
            }
        }
    }

    #[test]
    fn scattering_loses_nothing() {
        for count in [1, 2, 100, 127, 4096] {
            assert_eq!(
                (0..count).map(|index| scattered(index, count)).collect::<HashSet<_>>().len() as u64,
                count
            );
        }
    }
}

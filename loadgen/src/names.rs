//! What the directories and files of a namespace are called. Names carry their numbers, so that a listing tells which files
//! are there and under which of their names.

use std::fmt;

use crate::distribution::Distribution;
use crate::like::Image;
use crate::namespace::{MAX_NAME_LENGTH, Spec, mixed};

/// Tells the random numbers of lengths of names from others.
const LENGTHS: u64 = 0x6c65_6e67;
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

impl Spec {
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
            path.push_str(&self.dir_name(dir));
        }
        path
    }

    /// What a directory is called.
    pub fn dir_name(&self, dir: u32) -> String {
        let salt = u64::from(dir) << 32;
        self.filled(
            format!("d-{}-", Base36(dir.into())),
            salt,
            self.name_length(salt, |image| &image.dir_names),
        )
    }

    /// How long a name is to be.
    fn name_length(&self, salt: u64, names: fn(&Image) -> &Distribution) -> usize {
        match &self.like {
            Some(like) => names(&like.image)
                .at(mixed(self.seed ^ mixed(salt ^ LENGTHS)))
                .min(MAX_NAME_LENGTH.into()) as usize,
            None => self.name_length as usize,
        }
    }

    /// A file's path. Every rename of a load run gives it the name of the next generation.
    pub fn file_path(&self, base: &str, file: u32, generation: u32) -> String {
        let mut path = self.dir_path(base, self.dir_of(file));
        let head = format!("f-{}-{}-", Base36(file.into()), Base36(generation.into()));
        path.push('/');
        // Whatever a file is called, its name is of one length.
        let length = self.name_length(u64::from(file) << 32, |image| &image.file_names);
        path.push_str(&self.filled(head, u64::from(file) << 32 | u64::from(generation), length));
        path
    }

    /// The path of what a run adds to a directory: the `count`-th that its client `client` makes; `run` tells runs apart.
    pub fn new_path(&self, base: &str, dir: u32, run: u32, client: u32, count: u32) -> String {
        let mut path = self.dir_path(base, dir);
        let head = format!("n-{}-{}-{}-", Base36(run.into()), Base36(client.into()), Base36(count.into()));
        let salt = u64::from(run) << 32 | u64::from(client ^ count);
        path.push('/');
        path.push_str(&self.filled(head, salt, self.name_length(salt, |image| &image.file_names)));
        path
    }

    /// Which file of the spec, and in which generation, has this name, if one has.
    pub fn parse_file_name(&self, name: &str) -> Option<(u32, u32)> {
        let mut parts = name.strip_prefix("f-")?.split('-');
        let mut number = || u32::from_str_radix(parts.next()?, 36).ok();
        let (file, generation) = (number()?, number()?);
        (file < self.files).then_some((file, generation))
    }

    /// `head`, filled up to a length with letters that depend on the seed and `salt` alone.
    fn filled(&self, head: String, salt: u64, length: usize) -> String {
        let mut name = head;
        let mut state = self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ salt;
        let mut letters = 0;
        while name.len() < length {
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::contents::Contents;
    use crate::like::Level;

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
    fn a_namespace_may_be_like_an_image() {
        let names = "2:1,8-60:3".parse::<Distribution>().expect("lengths");
        let image = Image {
            levels: vec![
                Level { dirs: 1, files: 5 },
                Level { dirs: 30, files: 300 },
                Level { dirs: 60, files: 600 },
            ],
            files_per_dir: "0-30".parse().expect("numbers"),
            dirs_per_dir: "0:1,1-5:1".parse().expect("numbers"),
            file_names: names.clone(),
            dir_names: names,
        };
        let spec = Spec::like(image, 2000, 3, Contents::default());
        spec.check("/load").expect("sound");
        assert!(!spec.is_plain());
        let json = serde_json::to_string(&spec).expect("JSON");
        let again: Spec = serde_json::from_str(&json).expect("ours");
        assert_eq!(again, spec);
        let paths = |spec: &Spec| -> HashSet<String> {
            (0..spec.files).map(|file| spec.file_path("/load", file, 1)).collect()
        };
        let all = paths(&spec);
        assert!(all.len() == 2000 && all == paths(&again));
        assert_eq!(all.iter().map(|path| path.matches('/').count()).max(), Some(5));
        let mut lengths = HashSet::new();
        for path in &all {
            let name = path.rsplit('/').next().expect("a name");
            let (file, generation) = spec.parse_file_name(name).expect("ours");
            assert_eq!((generation, &spec.file_path("/load", file, 1)), (1, path));
            lengths.insert(name.len());
        }
        assert!(lengths.len() > 30 && lengths.iter().all(|length| (6..=60).contains(length)), "{lengths:?}");
        // The layout is for these files and this seed.
        assert!(Spec { files: 1999, ..spec.clone() }.check("/load").is_err());
        assert!(Spec { seed: 4, ..spec }.check("/load").is_err());
    }
}

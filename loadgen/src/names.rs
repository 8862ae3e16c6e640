//! What the directories and files of a namespace are called. Names carry their numbers, so that a listing tells which files
//! are there and under which of their names.

use crate::distribution::Distribution;
use crate::like::Image;
use crate::namespace::{MAX_NAME_LENGTH, Spec, mixed};

/// Tells the random numbers of lengths of names from others.
const LENGTHS: u64 = 0x6c65_6e67;
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// Numbers below it have two digits.
const SQUARE: u32 = 36 * 36;
/// The two digits of each, the last one first.
const PAIRS: [[u8; 2]; SQUARE as usize] = pairs();
/// So many digits come from one random number: all but the first, or fewer when it is small.
const TAKEN: usize = 12;
/// Numbers from here on are large enough.
const LARGE: u64 = 36u64.pow(TAKEN as u32);
/// Of a `u32`.
const MOST_DIGITS: usize = 7;
/// Room for names that are longer than this is made when they are.
const USUAL_NAME_LENGTH: u32 = 64;

impl Spec {
    /// A directory's path.
    pub fn dir_path(&self, base: &str, dir: u32) -> String {
        text(self.below(base, dir))
    }

    /// What a directory is called.
    pub fn dir_name(&self, dir: u32) -> String {
        let mut name = Vec::new();
        self.put_dir_name(&mut name, dir);
        text(name)
    }

    /// A file's path. Every rename of a load run gives it the name of the next generation.
    pub fn file_path(&self, base: &str, file: u32, generation: u32) -> String {
        let mut path = self.below(base, self.dir_of(file));
        path.push(b'/');
        // Whatever a file is called, its name is of one length.
        let length = self.name_length(u64::from(file) << 32, |image| &image.file_names);
        let salt = u64::from(file) << 32 | u64::from(generation);
        self.put_name(&mut path, b'f', &[file, generation], salt, length);
        text(path)
    }

    /// The path of what a run adds to a directory: the `count`-th that its client `client` makes; `run` tells runs apart.
    pub fn new_path(&self, base: &str, dir: u32, run: u32, client: u32, count: u32) -> String {
        let mut path = self.below(base, dir);
        path.push(b'/');
        let salt = u64::from(run) << 32 | u64::from(client ^ count);
        let length = self.name_length(salt, |image| &image.file_names);
        self.put_name(&mut path, b'n', &[run, client, count], salt, length);
        text(path)
    }

    /// Which file of the spec, and in which generation, has this name, if one has.
    pub fn parse_file_name(&self, name: &str) -> Option<(u32, u32)> {
        let mut parts = name.strip_prefix("f-")?.split('-');
        let mut number = || u32::from_str_radix(parts.next()?, 36).ok();
        let (file, generation) = (number()?, number()?);
        (file < self.files).then_some((file, generation))
    }

    /// A directory's path, with room for one more name.
    fn below(&self, base: &str, dir: u32) -> Vec<u8> {
        let base = base.trim_end_matches('/');
        let chain = self.chain(dir);
        let each = self.name_length.min(USUAL_NAME_LENGTH) as usize + 1;
        let mut path = Vec::with_capacity(base.len() + (chain.len() + 1) * each + TAKEN);
        path.extend_from_slice(base.as_bytes());
        for dir in chain.into_iter().rev() {
            path.push(b'/');
            self.put_dir_name(&mut path, dir);
        }
        path
    }

    fn put_dir_name(&self, out: &mut Vec<u8>, dir: u32) {
        let salt = u64::from(dir) << 32;
        self.put_name(out, b'd', &[dir], salt, self.name_length(salt, |image| &image.dir_names));
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

    /// Appends the kind of a name and its numbers, filled up to a length with letters that depend on the seed and `salt`
    /// alone.
    fn put_name(&self, out: &mut Vec<u8>, kind: u8, numbers: &[u32], salt: u64, length: usize) {
        let end = out.len() + length;
        out.extend_from_slice(&[kind, b'-']);
        for number in numbers {
            put_base36(out, *number);
            out.push(b'-');
        }
        let filled_to = end.max(out.len());
        let mut state = self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ salt;
        while out.len() < end {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let letters = mixed(state);
            out.extend_from_slice(&last_digits(letters));
            out.truncate(out.len() - (TAKEN - taken(letters)));
        }
        out.truncate(filled_to);
    }
}

/// Names and what they are joined with are ASCII, and a base is text.
fn text(path: Vec<u8>) -> String {
    String::from_utf8(path).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

const fn pairs() -> [[u8; 2]; SQUARE as usize] {
    let mut pairs = [[0; 2]; SQUARE as usize];
    let mut number = 0;
    while number < pairs.len() {
        pairs[number] = [DIGITS[number % 36], DIGITS[number / 36]];
        number += 1;
    }
    pairs
}

/// How many digits come from a random number.
fn taken(number: u64) -> usize {
    match number {
        LARGE.. => TAKEN,
        _ => number.checked_ilog(36).unwrap_or(0).max(1) as usize,
    }
}

/// The last digits of a number, the very last one first.
fn last_digits(number: u64) -> [u8; TAKEN] {
    const HALF: u64 = 36u64.pow(TAKEN as u32 / 2);
    let mut digits = [0; TAKEN];
    // Two halves, which the processor can work on at the same time.
    let halves = [number % HALF, number / HALF % HALF];
    for (digits, half) in digits.chunks_exact_mut(TAKEN / 2).zip(halves) {
        let half = half as u32;
        let pairs = [half, half / SQUARE, half / (SQUARE * SQUARE)].map(|rest| rest % SQUARE);
        for (digits, pair) in digits.chunks_exact_mut(2).zip(pairs) {
            digits.copy_from_slice(&PAIRS[pair as usize]);
        }
    }
    digits
}

fn put_base36(out: &mut Vec<u8>, number: u32) {
    let mut digits = [0; MOST_DIGITS];
    let mut rest = number;
    let mut first = MOST_DIGITS;
    loop {
        first -= 1;
        digits[first] = DIGITS[(rest % 36) as usize];
        rest /= 36;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::contents::Contents;
    use crate::like::Level;
    use crate::namespace::hashed;

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

    fn image() -> Image {
        let names = "2:1,8-60:3".parse::<Distribution>().expect("lengths");
        Image {
            levels: vec![
                Level { dirs: 1, files: 5 },
                Level { dirs: 30, files: 300 },
                Level { dirs: 60, files: 600 },
            ],
            files_per_dir: "0-30".parse().expect("numbers"),
            dirs_per_dir: "0:1,1-5:1".parse().expect("numbers"),
            file_names: names.clone(),
            dir_names: names,
        }
    }

    /// Namespaces that were built with one version of this program are run with another.
    #[test]
    fn names_never_change() {
        let plain = Spec::default();
        assert_eq!(
            plain.dir_path("/load/", 4),
            "/load/d-0-w35kif6s9elxo5zersvxiw03l3my7z/d-1-l7pvew5fqwaglb2a6fd1iu5t19291k/d-4-94tdizkma2t31mmqys8vnfkhbwoswo"
        );
        assert_eq!(
            plain.file_path("/load", 99_999, 7),
            "/load/d-4sv-517zkl4f7sana5bnbdmh3fvcuuex/d-4sx-ygypfb8ahmodj5zckug3d98k4h0a/d-4t0-jpssq8kknlisboz0r52n6k7he4zc/d-4t7-erlvwyi96ps65tex1asdjzr5bbt6/d-4tl-d9h123jqxuwd8tsotu27ush7v8te/f-255r-7-dgec0ejueojcvt8f08qh9eubq"
        );
        assert_eq!(
            plain.new_path("/load", 0, u32::MAX, 0, 35),
            "/load/d-0-w35kif6s9elxo5zersvxiw03l3my7z/n-1z141z3-0-z-58neqry8og18rpiq8308"
        );
        let all = |spec: &Spec| {
            let dirs = (0..spec.dirs()).map(|dir| spec.dir_path("/b", dir));
            let files = (0..spec.files).map(|file| spec.file_path("/b", file, mixed(file.into()) as u32));
            let new = (0..1000).map(|n: u32| {
                let random = mixed(n.into());
                spec.new_path("", n % spec.dirs(), random as u32, n, (random >> 40) as u32)
            });
            dirs.chain(files).chain(new).fold(0, |sum, path| mixed(sum ^ hashed(&path)))
        };
        let shaped =
            |seed, name_length, depth| Spec { files: 20_000, seed, name_length, depth, ..Spec::default() };
        let specs = [
            shaped(1, 34, 7),
            shaped(u64::MAX, 24, 1),
            shaped(77, 255, 3),
            Spec::like(image(), 2000, 3, Contents::default()),
        ];
        assert_eq!(
            specs.each_ref().map(all),
            [10981118492377928150, 9567201760107468880, 6128050469406929260, 1114287481734904398]
        );
    }

    #[test]
    fn a_namespace_may_be_like_an_image() {
        let spec = Spec::like(image(), 2000, 3, Contents::default());
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

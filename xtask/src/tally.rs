//! How many tests passed, read from the lines that test programs end with.

/// Counts of tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// Ignored: not run.
    pub skipped: u64,
    /// The names of those; a test that needs something says so in its name.
    pub ignored: Vec<String>,
}

impl Tally {
    /// Adds what a line says, if it is one of a test that is not run (`test NAME ... ignored`) or the last line of a test
    /// program: `test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.04s`.
    pub fn read(&mut self, line: &str) {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ignored")) {
            self.ignored.push(name.0.trim().to_owned());
        }
        let Some(rest) = line.strip_prefix("test result: ") else { return };
        let counts = rest.split_once(". ").map_or(rest, |(_, counts)| counts);
        for part in counts.split(';') {
            let mut words = part.split_whitespace();
            let number = words.next().and_then(|word| word.parse::<u64>().ok());
            match (number, words.next()) {
                (Some(number), Some("passed")) => self.passed += number,
                (Some(number), Some("failed")) => self.failed += number,
                (Some(number), Some("ignored")) => self.skipped += number,
                _ => {}
            }
        }
    }

    /// Sums up.
    pub fn add(&mut self, other: &Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.ignored.extend_from_slice(&other.ignored);
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn reads_the_last_lines_of_test_programs() {
        let mut tally = Tally::default();
        tally.read("running 3 tests");
        tally.read("test disk::full (needs strace) ... ignored");
        tally.read(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.04s",
        );
        tally.read(
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s",
        );
        assert_eq!(
            tally,
            Tally {
                passed: 13,
                failed: 2,
                skipped: 1,
                ignored: vec!["disk::full (needs strace)".to_owned()]
            }
        );
    }
}

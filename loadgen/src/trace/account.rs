//! What became of a trace's lines: every one is in exactly one of the counts.

use std::collections::BTreeMap;

use super::steps::Verdict;
use crate::report::ErrorKind;

/// Counts of lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// All.
    pub lines: u64,
    /// That were replayed.
    pub replayed: u64,
    /// That were not, by why.
    pub skipped: BTreeMap<&'static str, u64>,
    /// That cannot be read, by why, each with the first of them.
    pub broken: BTreeMap<&'static str, (u64, String)>,
}

impl Account {
    /// Counts a line.
    pub fn note(&mut self, verdict: &Verdict) {
        self.lines += 1;
        match verdict {
            Verdict::Step(_) => self.replayed += 1,
            Verdict::Skipped(why) => *self.skipped.entry(why).or_default() += 1,
            Verdict::Broken(why, text) => {
                self.broken.entry(why).or_insert_with(|| (0, text.clone())).0 += 1;
            }
        }
    }

    /// The line that was counted last is not replayed after all.
    pub fn skip_instead(&mut self, why: &'static str) {
        self.replayed -= 1;
        *self.skipped.entry(why).or_default() += 1;
    }

    /// Why lines are not replayed, with how many and the first that cannot be read.
    pub fn reasons(&self) -> String {
        let broken =
            self.broken.iter().map(|(why, (count, first))| format!("{count}: {why} (first {first})"));
        let skipped = self.skipped.iter().map(|(why, count)| format!("{count}: {why}"));
        broken.chain(skipped).collect::<Vec<_>>().join("; ")
    }

    /// Broken lines as a report has them.
    pub fn broken_kinds(&self) -> Vec<ErrorKind> {
        let kind = |(why, (count, example)): (&&str, &(u64, String))| ErrorKind {
            kind: (*why).to_owned(),
            count: *count,
            example: example.clone(),
        };
        self.broken.iter().map(kind).collect()
    }
}

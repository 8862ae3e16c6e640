//! THE tables of operations and of workloads.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use trellis_proto::exception::Kind;

use crate::arrivals::Arrivals;
use crate::config::Hot;
use crate::record::Key;

/// What a client does to a file or a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Asks where a file's blocks are.
    Open,
    /// The status of a file.
    StatFile,
    /// The status of a directory.
    StatDir,
    /// The first page of a directory.
    ListDir,
    /// A listing of a file: itself.
    ListFile,
    /// Makes a file.
    Create,
    /// Gives a file another name in its directory.
    Rename,
    /// Deletes a file.
    Delete,
    /// Sets the owner of a directory, to whom it is.
    ChownDir,
    /// Sets the replication of a file.
    SetReplication,
    /// Sets the mode of a file.
    ChmodFile,
    /// Sets the mode of a directory.
    ChmodDir,
    /// Makes a directory.
    Mkdir,
    /// Opens a file to append, and closes it.
    Append,
}

/// What an operation is.
#[derive(Debug)]
pub struct OpRow {
    /// Which.
    pub op: Op,
    /// In reports.
    pub name: &'static str,
    /// The calls that it consists of, in order; some more than once, or not at all.
    pub calls: &'static [&'static str],
    /// Exceptions that another client's operations can bring about.
    pub expected: &'static [Kind],
}

/// No operation has more calls.
pub const MAX_CALLS: usize = 4;

const GONE: &[Kind] = &[Kind::FileNotFound];
const WRITES: &[Kind] = &[
    Kind::FileNotFound,
    Kind::FileAlreadyExists,
    Kind::AlreadyBeingCreated,
    Kind::RecoveryInProgress,
    Kind::LeaseExpired,
];

/// addBlock for each block; complete until the last one was heard of.
pub(crate) const CREATE: &[&str] = &["create", "addBlock", "complete"];
/// The second and the third for a last block in which there is room.
pub(crate) const APPEND: &[&str] = &["append", "updateBlockForPipeline", "updatePipeline", "complete"];

/// All operations, in the order of [`Op`].
#[rustfmt::skip]
pub const OPS: &[OpRow] = &[
    OpRow { op: Op::Open,           name: "open",            calls: &["getBlockLocations"],  expected: GONE },
    OpRow { op: Op::StatFile,       name: "stat_file",       calls: &["getFileInfo"],        expected: GONE },
    OpRow { op: Op::StatDir,        name: "stat_dir",        calls: &["getFileInfo"],        expected: GONE },
    OpRow { op: Op::ListDir,        name: "list_dir",        calls: &["getListing"],         expected: GONE },
    OpRow { op: Op::ListFile,       name: "list_file",       calls: &["getListing"],         expected: GONE },
    OpRow { op: Op::Create,         name: "create",          calls: CREATE,                  expected: WRITES },
    OpRow { op: Op::Rename,         name: "rename",          calls: &["rename2"],            expected: WRITES },
    OpRow { op: Op::Delete,         name: "delete",          calls: &["delete"],             expected: GONE },
    OpRow { op: Op::ChownDir,       name: "chown_dir",       calls: &["setOwner"],           expected: GONE },
    OpRow { op: Op::SetReplication, name: "set_replication", calls: &["setReplication"],     expected: GONE },
    OpRow { op: Op::ChmodFile,      name: "chmod_file",      calls: &["setPermission"],      expected: GONE },
    OpRow { op: Op::ChmodDir,       name: "chmod_dir",       calls: &["setPermission"],      expected: GONE },
    OpRow { op: Op::Mkdir,          name: "mkdir",           calls: &["mkdirs"],             expected: WRITES },
    OpRow { op: Op::Append,         name: "append",          calls: APPEND,                  expected: WRITES },
];

impl Op {
    /// Its line in the table.
    pub fn row(self) -> &'static OpRow {
        &OPS[self as usize]
    }
}

impl Key for Op {
    fn name(self) -> &'static str {
        self.row().name
    }

    fn calls(self) -> &'static [&'static str] {
        self.row().calls
    }
}

/// Operations with their shares, which sum to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix(Vec<(Op, f64)>);

impl Mix {
    fn of(shares: &[(Op, f64)]) -> Mix {
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        Mix(shares.iter().map(|(op, share)| (*op, share / sum)).collect())
    }

    /// The same with another share of creates, in percent; all others are scaled down, or up, in proportion.
    fn with_creates(self, percent: f64) -> Mix {
        let others: f64 = self.0.iter().filter(|(op, _)| *op != Op::Create).map(|(_, share)| share).sum();
        let creates = percent / 100.0;
        let scaled = |(op, share): (Op, f64)| match op {
            Op::Create => (op, creates),
            _ => (op, share / others * (1.0 - creates)),
        };
        Mix(self.0.into_iter().map(scaled).collect())
    }

    /// Operations and shares.
    pub fn shares(&self) -> &[(Op, f64)] {
        &self.0
    }

    /// The one operation, if there is but one.
    pub fn single(&self) -> Option<Op> {
        match self.0[..] {
            [(op, _)] => Some(op),
            _ => None,
        }
    }

    /// The operation at `point` of the line from 0 to 1 on which each has its share.
    pub fn at(&self, point: f64) -> Op {
        let mut end = 0.0;
        let found = self.0.iter().find(|(_, share)| {
            end += share;
            point < end
        });
        // Sums of shares may end a little below 1. A mix is never empty.
        found.or(self.0.last()).map_or(Op::Open, |(op, _)| *op)
    }
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Workload(&'static WorkloadRow);

#[derive(Debug, PartialEq)]
struct WorkloadRow {
    name: &'static str,
    /// Percent, as published.
    shares: &'static [(Op, f64)],
    /// The published workload draws its rate anew every 15 s.
    has_bursty_rate: bool,
    hot: Option<Hot>,
    /// Creates come in runs in one directory: (length, share of the runs).
    create_runs: &'static [(u32, f64)],
}

// No two rows have one name.
impl Eq for WorkloadRow {}

const fn single(name: &'static str, shares: &'static [(Op, f64)]) -> WorkloadRow {
    WorkloadRow { name, shares, has_bursty_rate: false, hot: None, create_runs: &[] }
}

/// All workloads: Spotify's as the HopsFS authors run it, that of λFS's driver, Pangu's; single operations, with
/// NNThroughputBenchmark's names where it has them. Those that reports call otherwise can be asked for by both names.
#[rustfmt::skip]
static WORKLOADS: &[WorkloadRow] = &[
    WorkloadRow {
        name: "spotify",
        shares: &[
            (Op::Open, 68.73), (Op::StatFile, 13.04), (Op::StatDir, 3.96), (Op::ListDir, 8.52), (Op::ListFile, 0.49),
            (Op::Create, 2.70), (Op::Rename, 1.30), (Op::Delete, 0.75), (Op::ChownDir, 0.32), (Op::SetReplication, 0.14),
            (Op::ChmodFile, 0.02), (Op::ChmodDir, 0.01), (Op::Mkdir, 0.02),
        ],
        has_bursty_rate: false,
        hot: None,
        create_runs: &[],
    },
    WorkloadRow {
        name: "lambda",
        shares: &[
            (Op::Open, 71.84), (Op::StatFile, 13.54), (Op::StatDir, 3.77), (Op::ListDir, 8.17), (Op::ListFile, 0.68),
            (Op::Create, 1.09), (Op::Rename, 0.55), (Op::Delete, 0.34), (Op::Mkdir, 0.02),
        ],
        has_bursty_rate: true,
        hot: None,
        create_runs: &[],
    },
    WorkloadRow {
        name: "pangu",
        shares: &[
            (Op::Open, 52.6), (Op::StatFile, 12.4), (Op::Create, 9.58), (Op::Delete, 11.9), (Op::Rename, 9.3),
            (Op::ListDir, 3.9), (Op::StatDir, 0.2), (Op::ChmodFile, 0.1),
        ],
        has_bursty_rate: false,
        hot: Some(Hot { operations_percent: 80.0, directories_percent: 20.0 }),
        create_runs: &[(50, 0.9), (1000, 0.1)],
    },
    single("create",     &[(Op::Create, 100.0)]),
    single("mkdirs",     &[(Op::Mkdir, 100.0)]),
    single("open",       &[(Op::Open, 100.0)]),
    single("fileStatus", &[(Op::StatFile, 100.0)]),
    single("rename",     &[(Op::Rename, 100.0)]),
    single("delete",     &[(Op::Delete, 100.0)]),
    single("append",     &[(Op::Append, 100.0)]),
    // Those that NNThroughputBenchmark does not have, under their own names.
    single("stat_dir",        &[(Op::StatDir, 100.0)]),
    single("list_dir",        &[(Op::ListDir, 100.0)]),
    single("list_file",       &[(Op::ListFile, 100.0)]),
    single("chown_dir",       &[(Op::ChownDir, 100.0)]),
    single("set_replication", &[(Op::SetReplication, 100.0)]),
    single("chmod_file",      &[(Op::ChmodFile, 100.0)]),
    single("chmod_dir",       &[(Op::ChmodDir, 100.0)]),
];

/// Of reports of replays: its operations are those of a trace.
static REPLAY: WorkloadRow = single("replay", &[]);

impl Workload {
    /// The names of all that can be run.
    pub fn names() -> impl Iterator<Item = &'static str> {
        WORKLOADS.iter().map(|row| row.name)
    }

    /// That of a report of a replay.
    pub fn replay() -> Workload {
        Workload(&REPLAY)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Its operations, with another share of creates if one is given.
    ///
    /// # Errors
    /// What is wrong with that share.
    pub fn mix(self, create_percent: Option<f64>) -> Result<Mix, &'static str> {
        let mix = Mix::of(self.0.shares);
        match create_percent {
            _ if self.0.shares.is_empty() => Err("a trace is replayed by 'trellis load replay'"),
            None => Ok(mix),
            Some(_) if mix.single().is_some() => Err("--create-share is for mixes"),
            Some(percent) if (0.0..100.0).contains(&percent) => Ok(mix.with_creates(percent)),
            Some(_) => Err("--create-share is a percentage below 100"),
        }
    }

    /// How many creates it has of its own, in percent; None: it is no mix.
    pub fn create_percent(self) -> Option<f64> {
        let mix = Mix::of(self.0.shares);
        let (_, share) = mix.shares().iter().find(|(op, _)| *op == Op::Create && mix.single().is_none())?;
        // Sums of decimals are a little off: 2.7 is to be 2.7.
        Some((share * 1e11).round() / 1e9)
    }

    /// How its operations follow one another in an open loop when nothing is said: as published.
    pub fn usual_arrivals(self) -> Arrivals {
        if self.0.has_bursty_rate { Arrivals::Pareto } else { Arrivals::Poisson }
    }

    /// The part of its operations that goes to a part of the directories.
    pub fn hot(self) -> Option<Hot> {
        self.0.hot
    }

    /// How long runs of creates in one directory are, with their shares; without them each create goes its own way.
    pub fn create_runs(self) -> &'static [(u32, f64)] {
        self.0.create_runs
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        // A single operation is also known by its name in reports.
        let is_meant =
            |row: &&WorkloadRow| row.name == name || matches!(row.shares, [(op, _)] if op.row().name == name);
        let found = WORKLOADS.iter().chain([&REPLAY]).find(is_meant).map(Workload);
        found.ok_or_else(|| format!("there are {}", Workload::names().collect::<Vec<_>>().join(", ")))
    }
}

impl From<Workload> for String {
    fn from(workload: Workload) -> String {
        workload.name().to_owned()
    }
}

impl TryFrom<String> for Workload {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(name: &str, creates: Option<f64>) -> Mix {
        name.parse::<Workload>().expect(name).mix(creates).expect(name)
    }

    fn share(mix: &Mix, wanted: Op) -> f64 {
        mix.shares().iter().find(|(op, _)| *op == wanted).map_or(0.0, |(_, share)| *share)
    }

    #[test]
    fn every_row_stands_at_its_place() {
        for (index, row) in OPS.iter().enumerate() {
            assert_eq!(row.op as usize, index);
            assert!((1..=MAX_CALLS).contains(&row.calls.len()));
            for call in row.calls {
                let methods = trellis_proto::hdfs::client_namenode_protocol::SERVICE.methods;
                assert!(methods.iter().any(|method| method.name == *call), "{call}");
            }
        }
    }

    #[test]
    fn each_operation_can_be_done_alone() {
        for row in OPS {
            let alone = |workload: &&WorkloadRow| matches!(workload.shares, [(op, _)] if *op == row.op);
            assert_eq!(WORKLOADS.iter().filter(alone).count(), 1, "{}", row.name);
            // As reports call it.
            assert_eq!(mix(row.name, None).single(), Some(row.op));
        }
        for row in WORKLOADS {
            assert_eq!(row.name.parse::<Workload>().map(Workload::name), Ok(row.name));
        }
    }

    #[test]
    fn published_shares_sum_to_a_hundred() {
        for row in WORKLOADS {
            let sum: f64 = row.shares.iter().map(|(_, share)| share).sum();
            // Pangu's are rounded: 99.98.
            assert!((sum - 100.0).abs() < 0.021, "{}: {sum}", row.name);
            let sum: f64 = mix(row.name, None).shares().iter().map(|(_, share)| share).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{}: {sum}", row.name);
        }
    }

    #[test]
    fn more_creates_scale_the_others_down_in_proportion() {
        let (usual, more) = (mix("spotify", None), mix("spotify", Some(20.0)));
        assert!((share(&more, Op::Create) - 0.2).abs() < 1e-9);
        for (op, before) in usual.shares().iter().filter(|(op, _)| *op != Op::Create) {
            assert!((share(&more, *op) / before - 0.8 / 0.973).abs() < 1e-9, "{op:?}");
        }
        assert!("replay".parse::<Workload>().expect("one").mix(None).is_err());
        let single = "open".parse::<Workload>().expect("one").mix(Some(5.0));
        assert!(single.is_err() && "spotify".parse::<Workload>().expect("one").mix(Some(100.0)).is_err());
    }

    #[test]
    fn draws_follow_the_shares() {
        let mix = mix("spotify", None);
        let draws = (0..100_000).map(|i| mix.at(f64::from(i) / 100_000.0));
        let opens = draws.filter(|op| *op == Op::Open).count();
        assert!((68_729..=68_731).contains(&opens), "{opens}");
        assert_eq!(mix.at(1.0), Op::Mkdir);
    }
}

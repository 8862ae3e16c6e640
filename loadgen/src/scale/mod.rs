//! The same mix on more and more namenodes over one store: what each further one adds.
//!
//! - [`Config`]: what is asked for; which runs that makes
//! - [`report`]: `scale.json`, described in docs/LOAD.md
//! - [`level`]: all runs of one number of namenodes together
//! - [`show`]: as a table
//!
//! Starting and ending namenodes is the caller's.

pub mod level;
pub mod report;
pub mod show;

use serde::{Deserialize, Serialize};

use crate::config::{self, Popularity};
use crate::error::{Error, Result};
use crate::mix::Workload;
use crate::namespace::Spec;

/// Most namenodes that are started.
pub const MAX_NAMENODES: u32 = 64;
/// Most rounds.
const MAX_ROUNDS: u32 = 1000;
/// Most different numbers of namenodes.
const MAX_LEVELS: usize = 64;

/// What is asked for: embedded whole in `scale.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Numbers of namenodes, in the order of the first round.
    pub namenodes: Vec<u32>,
    /// How often all of them are run, every other time backwards: what changes with time meets all of them.
    pub rounds: u32,
    /// Clients of each namenode, each with a connection of its own.
    pub clients_per_namenode: u32,
    /// How much longer every round trip to the store is made to take.
    pub store_delay_us: u64,
    /// Other settings of the namenodes, NAME=VALUE.
    pub settings: Vec<String>,
    /// Where the namespace lies.
    pub base: String,
    /// What it is.
    pub spec: Spec,
    /// What is done.
    pub workload: Workload,
    /// Percent of creates in place of the workload's own.
    pub create_share: Option<f64>,
    /// Which files are liked more than others.
    pub popularity: Popularity,
    /// Of the first round; each further round has the next number.
    pub seed: u64,
    /// How long to run before anything is measured.
    pub warm_up_s: f64,
    /// How long operations begin.
    pub duration_s: f64,
}

impl Config {
    /// Says what makes no sense.
    pub fn check(&self) -> Result<()> {
        if self.namenodes.is_empty() || self.namenodes.len() > MAX_LEVELS {
            return Err(Error::refused(format!("--namenodes: give one number, or up to {MAX_LEVELS}")));
        }
        for (index, count) in self.namenodes.iter().enumerate() {
            if !(1..=MAX_NAMENODES).contains(count) || self.namenodes[..index].contains(count) {
                return Err(Error::refused(format!(
                    "--namenodes: each number once, from 1 to {MAX_NAMENODES}; {count} is not"
                )));
            }
        }
        if !(1..=MAX_ROUNDS).contains(&self.rounds) {
            return Err(Error::refused(format!("--rounds is from 1 to {MAX_ROUNDS}")));
        }
        self.spec.check(&self.base)?;
        self.run("", Vec::new(), self.largest(), 0).check().map(drop)
    }

    /// The largest number of namenodes.
    pub fn largest(&self) -> u32 {
        self.namenodes.iter().copied().max().unwrap_or_default()
    }

    /// The runs in their order: (round, namenodes).
    pub fn order(&self) -> Vec<(u32, u32)> {
        let round = |round: u32| {
            let mut counts = self.namenodes.clone();
            if round % 2 == 1 {
                counts.reverse();
            }
            counts.into_iter().map(move |count| (round, count))
        };
        (0..self.rounds).flat_map(round).collect()
    }

    /// A run of a round on so many namenodes: where they listen, and where their counters are read.
    pub fn run(&self, target: &str, metrics: Vec<String>, namenodes: u32, round: u32) -> config::Config {
        let clients = self.clients_per_namenode.saturating_mul(namenodes);
        config::Config {
            create_share: self.create_share,
            clients,
            connections: clients,
            popularity: self.popularity,
            seed: self.seed.wrapping_add(round.into()),
            warm_up_s: self.warm_up_s,
            duration_s: self.duration_s,
            // What an operation costs alone is the same on any number of namenodes: `cost_samples` stays 0.
            metrics,
            ..config::Config::new(target, &self.base, self.workload)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One that makes sense.
    pub fn config() -> Config {
        Config {
            namenodes: vec![1, 2, 4],
            rounds: 3,
            clients_per_namenode: 6,
            store_delay_us: 2000,
            settings: vec!["heartbeat=1s".into()],
            base: "/load".into(),
            spec: Spec::default(),
            workload: "spotify".parse().expect("one"),
            create_share: None,
            popularity: Popularity::Uniform,
            seed: u64::MAX,
            warm_up_s: 1.0,
            duration_s: 5.0,
        }
    }

    #[test]
    fn every_other_round_runs_backwards() {
        let order: Vec<u32> = config().order().iter().map(|(_, count)| *count).collect();
        assert_eq!(order, [1, 2, 4, 4, 2, 1, 1, 2, 4]);
        assert_eq!(config().order()[3], (1, 4));
    }

    #[test]
    fn clients_of_a_namenode_stay_as_many() {
        let run = config().run("hdfs://h:1", vec!["h:2".into()], 4, 1);
        assert_eq!((run.clients, run.connections, run.seed), (24, 24, 0));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(config().check().is_ok());
        let wrong: &[fn(&mut Config)] = &[
            |c| c.namenodes = vec![],
            |c| c.namenodes = vec![1, 2, 1],
            |c| c.namenodes = vec![0],
            |c| c.namenodes = vec![MAX_NAMENODES + 1],
            |c| c.rounds = 0,
            |c| c.clients_per_namenode = 0,
            |c| c.clients_per_namenode = u32::MAX,
            |c| c.duration_s = 0.0,
            |c| c.create_share = Some(200.0),
            |c| c.spec.files = 0,
        ];
        for (index, change) in wrong.iter().enumerate() {
            let mut config = config();
            change(&mut config);
            assert!(config.check().is_err(), "{index}");
        }
    }
}

//! What the load generator itself can offer: the usual loop against a namenode that answers constants. A rate that was
//! measured says something of a server only if this one is far above it.
//!
//! - [`constant`]: that namenode

pub mod constant;

use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, Pick};
use crate::distribution::Distribution;
use crate::drive::{self, Control, Phase, Worker};
use crate::error::{Error, Result};
use crate::files::{Data, NewFile};
use crate::namespace::Spec;
use crate::pick::{Picker, Picks};
use crate::servers::cpu;
use crate::stop::Stop;
use crate::target::Target;
use crate::tree::Tree;

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub struct Offered {
    /// Operations a second.
    pub ops_per_s: f64,
    /// CPU time of this program for each of them, µs.
    pub cpu_us_per_op: f64,
}

/// Drives a namenode that answers constants with a workload, as a closed loop. Nothing is surveyed: all files are there.
///
/// # Errors
/// When an operation was not a success: then something else than such a namenode answers.
pub async fn run(config: &Config, spec: &Spec) -> Result<Offered> {
    let config = &config.clone().effective();
    let mix = config.check()?;
    if config.pick != Pick::Popular {
        return Err(Error::refused("a self-test picks files by popularity"));
    }
    let tree = Tree::absent(&config.base, spec.clone());
    (0..spec.files).for_each(|file| tree.set_generation(file, 0));
    let clients = Target::parse(&config.target)?.clients(config.connections)?;
    let picks = Arc::new(Picks::new(config, mix, tree, rand::random()));
    let new_file =
        NewFile { replication: 1, block_size: 128 << 20, sizes: Distribution::fixed(0), data: Data::None };
    let workers = clients.iter().cycle().zip(0..config.clients).map(|(client, index)| Worker {
        client: client.clone(),
        picker: Picker::new(picks.clone(), index),
        new_file: new_file.clone(),
    });
    let phase = |name, length_s| Phase {
        name,
        length: Duration::from_secs_f64(length_s),
        open: None,
        seed: config.seed,
    };
    let now = || Control::new(&Stop::default());
    let (workers, _) = drive::run(workers.collect(), phase("warming up", config.warm_up_s), now()).await?;
    let before = cpu::own_seconds();
    let (_, outcome) = drive::run(workers, phase("measuring", config.duration_s), now()).await?;
    let cpu_s = cpu::own_seconds() - before;
    let count: u64 = outcome.recorder.ops().map(|(_, record)| record.success).sum();
    if count == 0 || count != outcome.recorder.count() {
        let errors = outcome.recorder.errors.iter().next();
        let example = errors.map_or("some were refused", |(_, (_, text))| text);
        return Err(Error::Unreadable(format!("not all operations were a success: {example}")));
    }
    Ok(Offered {
        ops_per_s: count as f64 / outcome.elapsed.as_secs_f64(),
        cpu_us_per_op: cpu_s * 1e6 / count as f64,
    })
}

//! A run from its configuration to its report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::arrivals::Arrivals;
use crate::build::{datanodes, new_file};
use crate::config::Config;
use crate::contents::{Blocks, Contents};
use crate::drive::{self, Phase, Worker};
use crate::error::{Error, Result};
use crate::mix::{Mix, Op};
use crate::namespace::{Spec, mixed};
use crate::ops::perform;
use crate::pick::{Picker, Picks};
use crate::report::{Namespace, Report, SCHEMA};
use crate::servers::{Growth, Servers, cpu};
use crate::summary::{self, Measured};
use crate::target::{Counted, Target};
use crate::tree::{spec_in, survey};

/// Directories that are looked at at once before a run.
const SURVEY_WORKERS: u32 = 64;

/// What an operation costs the store when it runs alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Exchanges.
    pub round_trips: f64,
    /// Rows read and written.
    pub rows: f64,
}

impl Cost {
    /// Of each of so many operations; None without any, or when the servers do not count.
    pub fn of(growth: &Growth, operations: u64) -> Option<Cost> {
        let each = |sum: f64| sum / operations as f64;
        let counted = operations > 0 && !growth.store.is_empty();
        counted.then(|| Cost { round_trips: each(growth.store("round_trips")), rows: each(growth.rows()) })
    }
}

/// Makes a run.
pub async fn run(config: &Config) -> Result<Report> {
    let mix = config.check()?;
    let target = Target::parse(&config.target)?;
    let servers = Servers { metrics: config.metrics.clone(), pids: config.server_pids.clone() };
    // What cannot be read should be said before anything is done.
    servers.read().await?;
    let begun_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let Some(first) = target.clients(1)?.pop() else { return Err(Error::refused("no namenodes")) };
    let spec = spec_in(&first, &config.base).await?;
    let contents = contents(config, &mix, &spec)?;
    // Writers of real data make calls of their own.
    let clients = target.clone().counting(contents.blocks == Blocks::Real).clients(config.connections)?;
    let datanodes = datanodes(&target, &config.base, &spec, &contents).await?;
    let new_file = new_file(&first, &contents, datanodes.clone()).await?;
    let tree = survey(&clients, &config.base, spec, datanodes.clone(), SURVEY_WORKERS).await?.tree;
    if let Some(datanodes) = &datanodes {
        datanodes.report().await?;
    }
    let namespace = Namespace { spec: tree.spec.clone(), files_present: tree.present() };
    if namespace.files_present == 0 {
        return Err(Error::refused(format!(
            "no files are left in {}: 'trellis load build' makes them",
            config.base
        )));
    }
    let run = rand::random();
    let picks = Arc::new(Picks::new(config, mix.clone(), tree, run));
    let workers = clients.iter().cycle().zip(0..config.clients).map(|(client, index)| Worker {
        client: client.clone(),
        picker: Picker::new(picks.clone(), index),
        new_file: new_file.clone(),
    });
    let mut workers: Vec<Worker> = workers.collect();

    let costs = match workers.first_mut() {
        Some(worker) if mix.single().is_none() => alone(worker, &mix, &servers, config.cost_samples).await?,
        _ => BTreeMap::new(),
    };
    if config.warm_up_s > 0.0 {
        (workers, _) = drive::run(workers, phase(config, "warming up", config.warm_up_s, 1)).await?;
    }
    new_file.rest().await;
    let counts = || Counted::of(&clients);
    let (before, cpu_before, counts_before) = (servers.read_at_rest().await?, cpu::own_seconds(), counts());
    let (_, outcome) = drive::run(workers, phase(config, "measuring", config.duration_s, 0)).await?;
    new_file.rest().await;
    let (client_cpu_s, counts_after) = (cpu::own_seconds() - cpu_before, counts());
    let after = servers.read_at_rest().await?;
    let measured = Measured {
        config,
        mix: &mix,
        outcome: &outcome,
        growth: if servers.is_empty() { None } else { Some(after.since(&before)) },
        costs: &costs,
        contents: &contents,
        client_cpu_s,
        failovers: counts_after.failovers - counts_before.failovers,
        resends: counts_after.resends - counts_before.resends,
        answers: (contents.blocks == Blocks::Real).then(|| counts_after.answers_since(&counts_before)),
    };
    if let Some(datanodes) = &datanodes {
        datanodes.settle().await;
    }
    let mut notes = summary::notes(&measured);
    notes.extend(datanodes.as_ref().and_then(|datanodes| datanodes.end()));
    if namespace.files_present < namespace.spec.files {
        let missing = namespace.spec.files - namespace.files_present;
        notes.push(format!(
            "{missing} files of the namespace were missing: 'trellis load build' makes them anew"
        ));
    }
    Ok(Report {
        schema: SCHEMA,
        build: summary::build_id(),
        begun_at_ms: begun_at.as_millis() as u64,
        run,
        config: config.clone(),
        namespace,
        metadata_only: contents.blocks != Blocks::Real,
        contents: Some(contents.clone()),
        simulated_datanodes: datanodes.as_ref().map(|datanodes| datanodes.work()),
        total: summary::total(&measured),
        open_loop: summary::open_loop(&measured),
        operations: summary::operations(&measured),
        calls: summary::calls(&measured),
        store: measured
            .growth
            .as_ref()
            .and_then(|growth| growth.as_ref().ok())
            .map(|growth| growth.store.clone())
            .unwrap_or_default(),
        errors: summary::errors(&outcome),
        notes,
    })
}

/// What files hold in a run on this namespace.
fn contents(config: &Config, mix: &Mix, spec: &Spec) -> Result<Contents> {
    let contents = config.contents.over(&spec.contents)?;
    let (there, wanted) = (spec.contents.blocks, contents.blocks);
    let appends = mix.shares().iter().any(|(op, _)| *op == Op::Append);
    if appends && wanted == Blocks::None && there != wanted {
        return Err(Error::refused(
            "a file with blocks can only be appended to with its datanodes: leave out --blocks none",
        ));
    }
    match there == Blocks::None || wanted == Blocks::None || there == wanted {
        true => Ok(contents),
        false => Err(Error::refused(format!(
            "the namespace has {there} blocks: --blocks {wanted} needs one that was built with them, in another --base"
        ))),
    }
}

fn phase(config: &Config, name: &'static str, length_s: f64, number: u64) -> Phase {
    let usual = if config.workload.has_bursty_rate() { Arrivals::Pareto } else { Arrivals::Poisson };
    Phase {
        name,
        length: Duration::from_secs_f64(length_s),
        open: config.rate.map(|rate| (rate, config.arrivals.unwrap_or(usual))),
        seed: mixed(config.seed ^ number << 32),
    }
}

/// Does each operation of a mix a few times, with nothing else going on, to see what it costs the store.
async fn alone(
    worker: &mut Worker,
    mix: &Mix,
    servers: &Servers,
    samples: u32,
) -> Result<BTreeMap<Op, Cost>> {
    let mut costs = BTreeMap::new();
    if servers.metrics.is_empty() {
        return Ok(costs);
    }
    for (op, _) in mix.shares() {
        let before = servers.read().await?;
        let mut done = 0;
        for _ in 0..samples {
            let Some((task, effect)) = worker.picker.of(*op) else { break };
            let ended = perform(&worker.client, &task, &worker.new_file).await;
            worker.note(effect, &ended);
            done += 1;
        }
        worker.new_file.rest().await;
        let growth = servers.read().await?.since(&before)?;
        costs.extend(Cost::of(&growth, done).map(|cost| (*op, cost)));
    }
    Ok(costs)
}

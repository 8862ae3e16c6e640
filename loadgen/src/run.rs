//! A run from its configuration to its report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::build::{datanodes, new_file};
use crate::config::Config;
use crate::contents::{Asked, Blocks, Contents};
use crate::disturb;
use crate::disturb::conduct::{Conducted, Plan};
use crate::disturb::work::Inside;
use crate::drive::{self, Control, Outcome, Phase, Worker};
use crate::episodes::EpisodeRecords;
use crate::error::{Error, Result};
use crate::mix::{Mix, Op};
use crate::namespace::{Spec, mixed};
use crate::ops::perform;
use crate::pick::{Picker, Picks};
use crate::report::{Namespace, Report, SCHEMA};
use crate::servers::{Growth, Servers};
use crate::stop::Stop;
use crate::summary::{self, Measured};
use crate::target::Target;
use crate::tree::{Survey, spec_in, survey};
use crate::watch::Watch;

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
    run_until(config, &Stop::default()).await
}

/// Makes a run that may be ended before its time, and then reports what was measured until then.
///
/// # Errors
/// [`Error::Ended`] when that is nothing yet.
pub async fn run_until(config: &Config, stop: &Stop) -> Result<Report> {
    let mut config = config.clone().effective();
    let mix = config.check()?;
    let plan = Plan::new(&config.disturb)?;
    let target = Target::parse(&config.target)?;
    let servers = Servers { metrics: config.metrics.clone(), pids: config.server_pids.clone() };
    // What cannot be read should be said before anything is done.
    servers.read().await?;
    let begun_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let Some(first) = target.clients(1)?.pop() else { return Err(Error::refused("no namenodes")) };
    let spec = spec_in(&first, &config.base).await?;
    let contents = contents(&config, &mix, &spec)?;
    disturb::check_blocks(&config.disturb, contents.blocks)?;
    // Writers of real data make calls of their own.
    let clients = target.clone().counting(contents.blocks == Blocks::Real).clients(config.connections)?;
    let datanodes = datanodes(&target, &config.base, &spec, &contents).await?;
    let new_file = new_file(&first, &contents, datanodes.clone()).await?;
    let contents = new_file.told(contents);
    config.contents = Asked::from(&contents);
    let config = &config;
    let Survey { tree, dirs } =
        survey(&clients, &config.base, spec, datanodes.clone(), SURVEY_WORKERS).await?;
    let missing = dirs.values().filter(|look| !look.is_there).count();
    if missing > 0 {
        // What is done in them would be refused, and count as if other clients had been quicker.
        return Err(Error::refused(format!(
            "{missing} of {} directories of the namespace in {} are missing: 'trellis load build' makes them",
            tree.spec.dirs(),
            config.base
        )));
    }
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
        let warm_up = phase(config, "warming up", config.warm_up_s, 1);
        (workers, _) = drive::run(workers, warm_up, Control::new(stop)).await?;
    }
    new_file.rest().await;
    let watch = Watch::begin(servers, clients.clone()).await?;
    if stop.is_asked() {
        return Err(Error::Ended);
    }
    let inside = Inside { clients, picks, datanodes: datanodes.clone() };
    let (outcome, conducted) = measure(config, workers, plan, inside, stop).await?;
    new_file.rest().await;
    let measured = Measured {
        config,
        shares: mix.shares(),
        outcome: &outcome,
        offered_s: config.rate.map(|_| outcome.stopped_at.map_or(config.duration_s, |at| at.as_secs_f64())),
        watched: watch.end().await,
        costs: &costs,
        conducted: Some(&conducted),
        contents: &contents,
    };
    let mut notes = summary::notes(&measured);
    if let Some(datanodes) = &datanodes {
        if !datanodes.settle().await {
            notes.push(
                "not every namenode heard in time of all replicas of simulated datanodes: until these are back, \
                 blocks may be short of replicas"
                    .to_owned(),
            );
        }
        let failed = |why| format!("calls of simulated datanodes failed, the last one with: {why}");
        notes.extend(datanodes.failure().map(failed));
        notes.extend(datanodes.end());
    }
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
        namespace: Some(namespace),
        metadata_only: contents.blocks != Blocks::Real,
        contents: Some(contents.clone()),
        simulated_datanodes: datanodes.as_ref().map(|datanodes| datanodes.work()),
        total: summary::total(&measured),
        open_loop: summary::open_loop(&measured),
        replay: None,
        operations: summary::operations(&measured),
        calls: summary::calls(&measured),
        cached: summary::counted(&measured).is_cached(),
        store: summary::store(&measured),
        errors: summary::errors(&outcome),
        ended_early: summary::ended_early(&outcome),
        episodes: summary::episodes(&measured),
        disturbances: conducted.disturbances,
        notes,
    })
}

/// The measured time, with what is done to the servers in it.
async fn measure(
    config: &Config,
    workers: Vec<Worker>,
    plan: Plan,
    inside: Inside,
    stop: &Stop,
) -> Result<(Outcome, Conducted)> {
    let (mut control, over) = (Control::new(stop), Stop::default());
    if !config.disturb.is_empty() {
        let late_after = Duration::from_secs_f64(config.late_after_s);
        control.episodes = Some(EpisodeRecords::new(plan.marks.clone(), late_after));
    }
    let conducted = tokio::spawn(plan.conduct(control.started, inside, over.clone(), stop.clone()));
    let driven = drive::run(workers, phase(config, "measuring", config.duration_s, 0), control).await;
    over.ask();
    let failed = |error| Error::Unreadable(format!("what is done to the servers failed: {error}"));
    let conducted = conducted.await.map_err(failed)?;
    driven.map(|(_, outcome)| (outcome, conducted))
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
    Phase {
        name,
        length: Duration::from_secs_f64(length_s),
        open: config.rate.zip(config.arrivals),
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

//! A replay from its configuration to its report.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::commands::Command;
use super::place::Place;
use super::play::{Pace, Played, Players, play};
use super::prepare::{Plan, Prepared, is_closed, prepare, take};
use super::steps::{Filter, Steps};
use crate::build::new_file;
use crate::config::{Config, ReplayConfig};
use crate::contents::{Asked, Contents};
use crate::error::{Error, Result};
use crate::report::{Replay, Report, SCHEMA};
use crate::servers::Servers;
use crate::stop::Stop;
use crate::summary::{self, Measured};
use crate::target::Target;
use crate::watch::Watch;

/// The fastest and the slowest multiple of a trace's pace.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1e6;
/// May not enter the closed directory; no other name matters.
const STRANGER: &str = "trellis-load-stranger";

impl ReplayConfig {
    fn filter(&self) -> Result<Filter> {
        let ms = |seconds: f64| (seconds * 1000.0).round() as u64;
        let filter = Filter {
            limit: self.limit.unwrap_or(u64::MAX),
            from_ms: ms(self.from_s),
            until_ms: self.until_s.map_or(u64::MAX, ms),
        };
        if self.files.is_empty() {
            return Err(Error::refused("there is no file to replay"));
        }
        if self.files.iter().any(|file| file.as_os_str() == super::reader::STDIN) {
            return Err(Error::refused(
                "a trace is read twice, so that standard input cannot be replayed: give a file",
            ));
        }
        if filter.from_ms >= filter.until_ms {
            return Err(Error::refused("--from must be before --until"));
        }
        if self.speed.is_some_and(|speed| !SPEEDS.contains(&speed)) {
            return Err(Error::refused(format!(
                "--speed is max, or from {} to {}",
                SPEEDS.start(),
                SPEEDS.end()
            )));
        }
        Ok(filter)
    }
}

/// Replays a trace, or as much of it as there is time for until somebody ends it; the report is of that then.
///
/// # Errors
/// [`Error::Ended`] when nothing was replayed yet.
pub async fn replay(config: &Config, stop: &Stop) -> Result<Report> {
    config.check_common()?;
    let Some(options) = &config.replay else { return Err(Error::refused("there is no file to replay")) };
    let filter = options.filter()?;
    let target = Target::parse(&config.target)?;
    let servers = Servers { metrics: config.metrics.clone(), pids: config.server_pids.clone() };
    // What cannot be read should be said before anything is done.
    servers.read().await?;
    let begun_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let place = Place::below(&config.base);
    let plan = {
        let (files, place, as_logged) = (options.files.clone(), place.clone(), options.as_logged);
        let read = tokio::task::spawn_blocking(move || Plan::read(&files, &place, filter, as_logged));
        read.await.map_err(|error| Error::Unreadable(format!("reading the trace failed: {error}")))??
    };
    let players = players(&target, config, options, &plan)?;
    let Some(first) = players.own.first() else { return Err(Error::refused("no connections")) };
    let new_file = new_file(first, &Contents::default(), None).await?;
    let contents = new_file.told(Contents::default());
    let config = &Config { contents: Asked::from(&contents), ..config.clone() };
    take(first, &config.base, &place, options.fresh, options.as_logged).await?;
    let refuses = is_closed(&players.stranger, &place).await?;
    let (plan, prepared) = prepare(&players.own, &place, plan, options.as_logged).await?;

    let pace = Pace { speed: options.speed, at_once: config.clients, new_file, refuses };
    let summed = Summed::of(&plan);
    let watch = Watch::begin(servers, players.all()).await?;
    let steps = Steps::new(&options.files, place.clone(), filter);
    if stop.is_asked() {
        return Err(Error::Ended);
    }
    let played = play(steps, plan, place, players, pace, stop.clone()).await?;
    let measured = Measured {
        config,
        shares: &summed.shares,
        outcome: &played.outcome,
        offered_s: options.speed.map(|_| played.last.as_secs_f64()).filter(|seconds| *seconds > 0.0),
        watched: watch.end().await,
        costs: &BTreeMap::new(),
        conducted: None,
        contents: &contents,
    };
    let open_loop = summary::open_loop(&measured);
    let (was_to_begin, began) = played.last_begun;
    let rate_error = open_loop
        .as_ref()
        .filter(|_| !began.is_zero())
        .map(|_| (was_to_begin.as_secs_f64() / began.as_secs_f64() - 1.0) * 100.0);
    Ok(Report {
        schema: SCHEMA,
        build: summary::build_id(),
        begun_at_ms: begun_at.as_millis() as u64,
        run: 0,
        config: config.clone(),
        namespace: None,
        metadata_only: true,
        contents: Some(contents.clone()),
        simulated_datanodes: None,
        total: summary::total(&measured),
        open_loop,
        replay: Some(section(&played, &summed, prepared, rate_error)),
        operations: summary::operations(&measured),
        calls: summary::calls(&measured),
        cached: summary::counted(&measured).is_cached(),
        store: summary::store(&measured),
        errors: summary::errors(&played.outcome),
        ended_early: summary::ended_early(&played.outcome),
        disturbances: Vec::new(),
        episodes: Vec::new(),
        notes: summed.notes(summary::notes(&measured), &played),
    })
}

fn players(target: &Target, config: &Config, options: &ReplayConfig, plan: &Plan) -> Result<Players> {
    let own =
        (0..config.connections as usize).map(|index| target.client_of(index, None)).collect::<Result<_>>()?;
    let names = if options.as_logged { plan.user_names() } else { Vec::new() };
    let users = names.into_iter().enumerate().map(|(index, name)| target.client_of(index, Some(name)));
    Ok(Players { own, users: users.collect::<Result<_>>()?, stranger: target.client_of(0, Some(STRANGER))? })
}

/// What a report says of a plan.
struct Summed {
    shares: Vec<(Command, f64)>,
    trace_s: f64,
    unexplained: u64,
}

impl Summed {
    fn of(plan: &Plan) -> Summed {
        let all: u64 = plan.commands.values().sum();
        Summed {
            shares: plan
                .commands
                .iter()
                .map(|(command, count)| (*command, *count as f64 / all as f64))
                .collect(),
            trace_s: plan.last_ms as f64 / 1000.0,
            unexplained: plan.model.unexplained,
        }
    }

    fn notes(&self, mut notes: Vec<String>, played: &Played) -> Vec<String> {
        if self.shares.iter().any(|(command, _)| *command == Command::Concat) {
            notes.push(
                "files are empty, and namenodes refuse to concat such: these lines end as errors".to_owned(),
            );
        }
        if self.unexplained > 0 {
            notes.push(format!(
                "{} lines name what the trace itself had moved or removed, or never made: they may end as errors",
                self.unexplained
            ));
        }
        if played.account.skipped.contains_key(super::play::NOT_CHECKED) {
            notes.push(
                "the target checks no permissions, so that nothing could be refused as in the trace"
                    .to_owned(),
            );
        }
        notes
    }
}

fn section(played: &Played, summed: &Summed, prepared: Prepared, rate_error_percent: Option<f64>) -> Replay {
    let account = &played.account;
    Replay {
        lines: account.lines,
        replayed: account.replayed,
        skipped: account.skipped.iter().map(|(why, count)| ((*why).to_owned(), *count)).collect(),
        broken: account.broken_kinds(),
        trace_s: summed.trace_s,
        prepared_dirs: prepared.dirs,
        prepared_files: prepared.files,
        prepared_s: prepared.took_s,
        unexplained: summed.unexplained,
        waited: played.waited,
        rate_error_percent,
        in_another_second: played.in_another_second,
    }
}

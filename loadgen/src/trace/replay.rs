//! A replay from its configuration to its report.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::commands::Command;
use super::place::Place;
use super::play::{Pace, Played, Players, play};
use super::prepare::{Plan, Prepared, is_closed, prepare, take};
use super::steps::{Filter, Steps};
use super::twice::Source;
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
    let files: Vec<Source> = options.files.iter().map(|file| Source::again(file)).collect::<Result<_>>()?;
    let target = Target::parse(&config.target)?;
    let servers = Servers { metrics: config.metrics.clone(), pids: config.server_pids.clone() };
    let begun_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let place = Place::below(&config.base);
    let ready = tokio::select! {
        biased;
        // What is under way is dropped, and with it ended.
        () = stop.asked() => return Err(Error::Ended),
        ready = get_ready(config, options, Trace { files, filter, place: &place, stop }, &target, servers) => ready?,
    };
    let Ready { steps, plan, players, pace, prepared, watch } = ready;
    let summed = Summed::of(&plan);
    let contents = pace.new_file.told(Contents::default());
    let config = &Config { contents: Asked::from(&contents), ..config.clone() };
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

/// What is replayed, and where.
struct Trace<'a> {
    files: Vec<Source>,
    filter: Filter,
    place: &'a Place,
    stop: &'a Stop,
}

/// All is there for the first line.
struct Ready {
    steps: Steps,
    plan: Plan,
    players: Players,
    pace: Pace,
    prepared: Prepared,
    watch: Watch,
}

async fn get_ready(
    config: &Config,
    options: &ReplayConfig,
    trace: Trace<'_>,
    target: &Target,
    servers: Servers,
) -> Result<Ready> {
    let Trace { files, filter, place, stop } = trace;
    // What cannot be read should be said before anything is done.
    servers.read().await?;
    let plan = {
        let (files, place, as_logged, stop) = (files.clone(), place.clone(), options.as_logged, stop.clone());
        let read = tokio::task::spawn_blocking(move || Plan::read(&files, &place, filter, as_logged, &stop));
        read.await.map_err(|error| Error::Unreadable(format!("reading the trace failed: {error}")))??
    };
    let players = players(target, config, options, &plan)?;
    let Some(first) = players.own.first() else { return Err(Error::refused("no connections")) };
    let new_file = new_file(first, &Contents::default(), None).await?;
    take(first, &config.base, place, options.fresh, options.as_logged).await?;
    let refuses = is_closed(&players.stranger, place).await?;
    let (plan, prepared) = prepare(&players.own, place, plan, options.as_logged).await?;
    let pace = Pace { speed: options.speed, at_once: config.clients, new_file, refuses };
    let watch = Watch::begin(servers, players.all()).await?;
    Ok(Ready { steps: Steps::new(&files, place.clone(), filter), plan, players, pace, prepared, watch })
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tokio::net::TcpListener;

    use super::*;
    use crate::files::{Data, NewFile};
    use crate::mix::Workload;
    use crate::trace::steps::tests::line;

    fn config(target: String, file: PathBuf) -> Config {
        Config {
            clients: 1,
            connections: 1,
            duration_s: 0.0,
            replay: Some(ReplayConfig::new(vec![file])),
            ..Config::new(target, "/replay", Workload::replay())
        }
    }

    /// The namenode answers nothing, so that preparing would not end by itself.
    #[tokio::test]
    async fn preparing_ends_when_it_is_asked_to() {
        let path = std::env::temp_dir().join(format!("trellis-replay-{}-ended", std::process::id()));
        std::fs::write(&path, line(0, "open", "/a", "null")).expect("written");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its own");
        let (config, stop) = (config(format!("hdfs://{address}"), path.clone()), Stop::default());
        let silent = async {
            let connection = listener.accept().await.expect("the replay comes");
            stop.ask();
            connection
        };
        let (replayed, _connection) = tokio::join!(replay(&config, &stop), silent);
        std::fs::remove_file(&path).expect("it is there");
        assert!(matches!(replayed, Err(Error::Ended)), "{replayed:?}");
    }

    /// Nothing is begun, so that nobody need be there.
    #[tokio::test]
    async fn a_trace_that_was_changed_since_it_was_read_is_an_error() {
        let path = std::env::temp_dir().join(format!("trellis-replay-{}-changed", std::process::id()));
        let target = Target::parse("hdfs://127.0.0.1:1").expect("one");
        let config = config("hdfs://127.0.0.1:1".to_owned(), path.clone());
        let options = config.replay.as_ref().expect("ours");
        let (filter, place) = (options.filter().expect("all"), Place::below("/replay"));
        let first = line(0, "open", "/a", "null");
        for second in [String::new(), line(0, "open", "/b", "null")] {
            std::fs::write(&path, &first).expect("written");
            let files = [Source::again(&path).expect("a file")];
            let plan = Plan::read(&files, &place, filter, false, &Stop::default()).expect("a trace");
            std::fs::write(&path, second).expect("written");
            let steps = Steps::new(&files, place.clone(), filter);
            let players = players(&target, &config, options, &plan).expect("they connect later");
            let Contents { sizes, .. } = Contents::default();
            let new_file = NewFile { replication: 1, block_size: 1, sizes, data: Data::None };
            let pace = Pace { speed: None, at_once: 1, new_file, refuses: true };
            let played = play(steps, plan, place.clone(), players, pace, Stop::default()).await;
            let error = played.expect_err("it was changed").to_string();
            assert!(error.contains("the trace was changed while it was replayed"), "{error}");
        }
        std::fs::remove_file(&path).expect("it is there");
    }
}

//! 64 creators against one namenode on the embedded store: how many operations share a durable commit, what it costs
//! that all create in one directory, and how long changing that directory takes meanwhile. Ends with 1 if a bound does
//! not hold. Run with `--release`.
//!
//! A creator is a client with a connection of its own that calls `create` again and again, one call at a time, as a user
//! whose permissions are checked. The files stay open: nothing but `create` is measured.

use std::fmt::Write as _;
use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::bench::{PAIRS, median};
use e2e::cluster::{Cluster, Options};
use tokio::runtime::Runtime;
use tokio::time::sleep;
use trellis_client::Client;
use trellis_client::types::CreateOptions;
use trellis_client::uri::Address;
use trellis_loadgen::servers::metrics::Metrics;
use trellis_proto::exception::Kind;

const CREATORS: usize = 64;
const TOP: &str = "/grouping";
/// Before the first run, so that connections and caches are there.
const WARM_UP: Duration = Duration::from_secs(1);
/// How often the hot directory is changed in each way.
const CHANGES: usize = 20;
/// Between two changes, so that creators are back at work.
const BETWEEN_CHANGES: Duration = Duration::from_millis(100);

/// The bounds.
const LEAST_PER_COMMIT: f64 = 16.0;
const LEAST_RATIO: f64 = 0.6;
const LONGEST_CHANGE: Duration = Duration::from_secs(2);

fn main() -> Result<ExitCode> {
    let seconds = std::env::args().nth(1).unwrap_or_else(|| "5".to_owned());
    let length = Duration::try_from_secs_f64(seconds.parse().context("how many seconds?")?)?;
    let bench = Bench::start()?;
    bench.run("warm-one", 1, WARM_UP)?;
    bench.run("warm-spread", CREATORS, WARM_UP)?;
    let (mut one, mut spread) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        // Every other pair the other way round, so that neither side always meets the larger store.
        for side in [pair % 2, (pair + 1) % 2] {
            match side {
                0 => one.push(bench.run(&format!("one-{pair}"), 1, length)?),
                _ => spread.push(bench.run(&format!("spread-{pair}"), CREATORS, length)?),
            }
        }
    }
    let hot = format!("{TOP}/hot");
    bench.make_directory(&hot)?;
    let chmods = bench.chmods(&hot)?;
    let renames = bench.renames(&hot)?;
    let (page, holds) = report(length, &one, &spread, &chmods, &renames);
    print!("{page}");
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A cluster of one namenode and its clients.
struct Bench {
    runtime: Runtime,
    superuser: Client,
    creators: Vec<Client>,
    cluster: Cluster,
}

impl Bench {
    fn start() -> Result<Bench> {
        let cluster = Cluster::start(&Options::default())?;
        let client = || Client::builder(vec![Address::new("127.0.0.1", cluster.ports()[0])]).umask(0);
        let superuser = client().build()?;
        let creators = (0..CREATORS).map(|_| client().user("creator").build()).collect::<Result<_, _>>()?;
        let bench = Bench { runtime: Runtime::new()?, superuser, creators, cluster };
        bench.make_directory(TOP)?;
        Ok(bench)
    }

    /// A new directory in which everybody may create.
    fn make_directory(&self, path: &str) -> Result<()> {
        ensure!(self.runtime.block_on(self.superuser.mkdirs(path, 0o777, true))?, "{path} cannot be made");
        Ok(())
    }

    /// Creates for `length`, in so many new directories.
    fn run(&self, name: &str, directories: usize, length: Duration) -> Result<Run> {
        let directories: Vec<String> = (0..directories).map(|i| format!("{TOP}/{name}-{i}")).collect();
        directories.iter().try_for_each(|path| self.make_directory(path))?;
        let http = self.cluster.http_address(0)?;
        let before = Metrics::read(&http)?;
        let ((), load) = self.under_load(&directories, "f", async { sleep(length).await })?;
        let after = Metrics::read(&http)?;
        let operations = after.since(&before, "trellis_store_grouped_operations_total")?;
        let commits = after.since(&before, "trellis_store_commits_total")?;
        ensure!(commits > 0.0, "nothing was committed; {:?}", load.failure);
        Ok(Run { load, operations, commits })
    }

    /// Changes the hot directory's permission, between two that let everybody create.
    fn chmods(&self, hot: &str) -> Result<Changes> {
        let work = async {
            let mut times = Vec::new();
            for i in 0..CHANGES {
                sleep(BETWEEN_CHANGES).await;
                let mode = if i % 2 == 0 { 0o1777 } else { 0o777 };
                times.push(timed(self.superuser.set_permission(hot, mode)).await?);
            }
            anyhow::Ok(times)
        };
        let (times, load) = self.under_load(&[hot.to_owned()], "chmod", work)?;
        Ok(Changes { times: times?, load })
    }

    /// Renames the hot directory and back at once: meanwhile its creators find it gone.
    fn renames(&self, hot: &str) -> Result<Changes> {
        let away = format!("{TOP}/away");
        let work = async {
            let mut times = Vec::new();
            for _ in 0..CHANGES {
                sleep(BETWEEN_CHANGES).await;
                times.push(timed(self.superuser.rename2(hot, &away, false)).await?);
                times.push(timed(self.superuser.rename2(&away, hot, false)).await?);
            }
            anyhow::Ok(times)
        };
        let (times, load) = self.under_load(&[hot.to_owned()], "rename", work)?;
        Ok(Changes { times: times?, load })
    }

    /// Does `work` while all creators create files named after `prefix`, spread over the directories; then they stop.
    fn under_load<T>(
        &self,
        directories: &[String],
        prefix: &'static str,
        work: impl Future<Output = T>,
    ) -> Result<(T, Load)> {
        let stop = Arc::new(AtomicBool::new(false));
        self.runtime.block_on(async {
            let begun = Instant::now();
            let tasks: Vec<_> = (self.creators.iter().zip(directories.iter().cycle()).enumerate())
                .map(|(i, (client, directory))| {
                    let path = format!("{directory}/{prefix}-{i}");
                    tokio::spawn(create_until(client.clone(), path, stop.clone()))
                })
                .collect();
            let done = work.await;
            stop.store(true, Ordering::Relaxed);
            let mut load = Load::default();
            for task in tasks {
                load.add(task.await.context("a creator panicked")?);
            }
            load.seconds = begun.elapsed().as_secs_f64();
            Ok((done, load))
        })
    }
}

/// Creates `PATH-0`, `PATH-1` and so on, until told to stop.
async fn create_until(client: Client, path: String, stop: Arc<AtomicBool>) -> Load {
    // A directory that was renamed away must not be made again.
    let options = CreateOptions { create_parent: false, ..CreateOptions::default() };
    let mut load = Load::default();
    for number in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match client.create(&format!("{path}-{number}"), &options).await {
            Ok(_) => load.created += 1,
            Err(error) if error.kind() == Some(Kind::FileNotFound) => load.not_found += 1,
            Err(error) => {
                load.failed += 1;
                load.failure.get_or_insert_with(|| error.to_string());
            }
        }
    }
    load
}

async fn timed(call: impl Future<Output = trellis_client::Result<()>>) -> Result<Duration> {
    let begun = Instant::now();
    call.await?;
    Ok(begun.elapsed())
}

/// What creators did.
#[derive(Default)]
struct Load {
    created: u64,
    /// Their directory was not there: right while it is renamed away, wrong otherwise.
    not_found: u64,
    failed: u64,
    /// One of those that failed.
    failure: Option<String>,
    seconds: f64,
}

impl Load {
    fn add(&mut self, other: Load) {
        self.created += other.created;
        self.not_found += other.not_found;
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
    }

    fn rate(&self) -> f64 {
        self.created as f64 / self.seconds
    }
}

/// Creators alone, and what the store counted meanwhile.
struct Run {
    load: Load,
    operations: f64,
    commits: f64,
}

impl Run {
    fn per_commit(&self) -> f64 {
        self.operations / self.commits
    }
}

/// Changes of a directory in which everybody creates.
struct Changes {
    times: Vec<Duration>,
    load: Load,
}

impl Changes {
    fn longest(&self) -> Duration {
        self.times.iter().max().copied().unwrap_or_default()
    }
}

/// A figure and its bound.
struct Measure {
    what: &'static str,
    bound: String,
    figure: String,
    holds: bool,
}

/// The page, and whether all bounds hold.
fn report(
    length: Duration,
    one: &[Run],
    spread: &[Run],
    chmods: &Changes,
    renames: &Changes,
) -> (String, bool) {
    let mut page = format!(
        "{CREATORS} creators, {} s a run, {PAIRS} pairs\n\n\
         | pair | one directory, creates/s | {CREATORS} directories, creates/s | ratio | one directory, operations/commit \
         | {CREATORS} directories, operations/commit |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
        length.as_secs_f64()
    );
    for (pair, (one, spread)) in one.iter().zip(spread).enumerate() {
        let (a, b) = (one.load.rate(), spread.load.rate());
        let (a_commit, b_commit) = (one.per_commit(), spread.per_commit());
        let _ = writeln!(
            page,
            "| {} | {a:.0} | {b:.0} | {:.2} | {a_commit:.1} | {b_commit:.1} |",
            pair + 1,
            a / b
        );
    }
    let mean = |runs: &[Run]| {
        let sum = |figure: fn(&Run) -> f64| runs.iter().map(figure).sum::<f64>();
        sum(|run| run.operations) / sum(|run| run.commits)
    };
    let rate = |runs: &[Run]| median(runs.iter().map(|run| run.load.rate()));
    let ratio = median(one.iter().zip(spread).map(|(one, spread)| one.load.rate() / spread.load.rate()));
    let _ = writeln!(
        page,
        "| median; mean of operations/commit | {:.0} | {:.0} | {ratio:.2} | {:.1} | {:.1} |\n\n\
         | change of the hot directory | times | median ms | longest ms | creates/s meanwhile | creates that found it \
         renamed away |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |",
        rate(one),
        rate(spread),
        mean(one),
        mean(spread)
    );
    for (name, changes) in [("chmod", chmods), ("rename", renames)] {
        let ms = |time: &Duration| time.as_secs_f64() * 1000.0;
        let _ = writeln!(
            page,
            "| {name} | {} | {:.1} | {:.1} | {:.0} | {} |",
            changes.times.len(),
            median(changes.times.iter().map(ms)),
            ms(&changes.longest()),
            changes.load.rate(),
            changes.load.not_found
        );
    }
    let loads = || one.iter().chain(spread).map(|run| &run.load).chain([&chmods.load, &renames.load]);
    // Only the renamed directory may be missed.
    let missed: u64 = loads().map(|load| load.not_found).sum::<u64>() - renames.load.not_found;
    let failed = loads().map(|load| load.failed).sum::<u64>() + missed;
    let measures = [
        per_commit("operations per durable commit, one directory", mean(one)),
        per_commit("operations per durable commit, 64 directories", mean(spread)),
        Measure {
            what: "one directory against 64, median ratio",
            bound: format!("at least {LEAST_RATIO}"),
            figure: format!("{ratio:.2}"),
            holds: ratio >= LEAST_RATIO,
        },
        change("longest chmod of the hot directory", chmods),
        change("longest rename of the hot directory", renames),
        Measure {
            what: "creates that failed",
            bound: "none".to_owned(),
            figure: format!("{failed} of {}", failed + loads().map(|load| load.created).sum::<u64>()),
            holds: failed == 0,
        },
    ];
    page.push_str("\n| measure | bound | figure | holds |\n| --- | ---: | ---: | --- |\n");
    for Measure { what, bound, figure, holds } in &measures {
        let _ = writeln!(page, "| {what} | {bound} | {figure} | {} |", if *holds { "yes" } else { "NO" });
    }
    if let Some(failure) = loads().find_map(|load| load.failure.as_ref()) {
        let _ = writeln!(page, "\nA create that failed: {failure}");
    }
    (page, measures.iter().all(|measure| measure.holds))
}

fn per_commit(what: &'static str, mean: f64) -> Measure {
    Measure {
        what,
        bound: format!("at least {LEAST_PER_COMMIT}"),
        figure: format!("{mean:.1}"),
        holds: mean >= LEAST_PER_COMMIT,
    }
}

fn change(what: &'static str, changes: &Changes) -> Measure {
    Measure {
        what,
        bound: format!("less than {} s", LONGEST_CHANGE.as_secs()),
        figure: format!("{:.3} s", changes.longest().as_secs_f64()),
        holds: changes.longest() < LONGEST_CHANGE,
    }
}

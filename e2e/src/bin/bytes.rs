//! The stock client's reads and writes through the stock NameNode and DataNode and through Trellis, in turn: time, and CPU
//! time of the servers. Run with `--release`. With `E2E_TARGET=stock` both are stock, which shows what
//! the ratios are worth. usage: bytes [MEGABYTES [BLOCKS]]

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result};
use e2e::bench::{PAIRS, median};
use e2e::server::{Server, Shape};
use e2e::talk::Talk;
use trellis_loadgen::servers::cpu::seconds_at_rest;
use trellis_loadgen::servers::metrics::Metrics;

const KINDS: [&str; 2] = ["stock", "trellis"];
const BLOCK: &str = "dfs.blocksize=134217728";
/// As `sync_on_close` of our datanode, which is on by default.
const SYNC: &str = "dfs.datanode.synconclose=true";
const SMALL_FILES: usize = 2000;
const SMALL_BYTES: usize = 4096;
const SMALL_THREADS: usize = 16;
const GROUPED_THREADS: usize = 64;

/// The bounds.
const LEAST_SPEED: f64 = 1.0;
const MOST_CPU: f64 = 0.7;
const LEAST_SMALL: f64 = 1.3;
const MOST_COMMITS: f64 = 6.0;

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual: &str| arguments.next().unwrap_or_else(|| usual.to_owned()).parse::<usize>();
    let (megabytes, blocks) = (number("1024")?, number("100000")?);
    let mut sides = [Side::start(KINDS[0], megabytes)?, Side::start(KINDS[1], megabytes)?];
    for side in &mut sides {
        side.warm_up()?;
    }
    let mut runs: [Vec<Run>; 2] = [Vec::new(), Vec::new()];
    for pair in 0..PAIRS {
        // every other pair the other way round
        for side in [pair % 2, (pair + 1) % 2] {
            let run = sides[side].run(pair)?;
            eprintln!("{}: {run:.2?}", KINDS[side]);
            runs[side].push(run);
        }
    }
    drop(sides);
    let reports =
        [report(Server::stock(&Shape::new(1, 0))?, blocks)?, report(Server::of(&Shape::new(1, 0))?, blocks)?];
    let (page, holds) = page(megabytes, blocks, &runs, &reports);
    print!("{page}");
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Seconds of a part, and CPU seconds of the datanode and the namenode meanwhile.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    seconds: f64,
    datanode: f64,
    namenode: f64,
}

/// One round of a side.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    put: Part,
    get: Part,
    small: Part,
    /// Store transactions for 10 files of one block, with many writers; stock has no store.
    commits_per_10: f64,
}

/// A namenode, a datanode, and the client's JVM, which stays warm.
struct Side {
    megabytes: usize,
    client: Talk,
    server: Server,
}

impl Side {
    fn start(kind: &str, megabytes: usize) -> Result<Side> {
        let shape = Shape { stock_settings: vec![SYNC], ..Shape::new(1, 1) };
        let server = if kind == KINDS[0] { Server::stock(&shape)? } else { Server::of(&shape)? };
        let client = Talk::start(server.client(&[BLOCK])?.command(&["probe", "BytesBench"]))?;
        Ok(Side { megabytes, client, server })
    }

    fn warm_up(&mut self) -> Result<()> {
        for round in 0..2 {
            self.client.ask_right("put /warm 256")?;
            self.client.ask_right("get /warm")?;
            self.client.ask_right("delete /warm")?;
            self.small(&format!("warm-{round}"), SMALL_THREADS)?;
        }
        Ok(())
    }

    fn small(&mut self, dir: &str, threads: usize) -> Result<Part> {
        self.timed(&format!("small /{dir} {threads} {SMALL_FILES} {SMALL_BYTES}"))
    }

    fn timed(&mut self, command: &str) -> Result<Part> {
        let pids = [self.server.datanode_pid(0)?, self.server.namenode_pid(0)?];
        let before = [seconds_at_rest(pids[0])?, seconds_at_rest(pids[1])?];
        let seconds = self.client.ask_right(command)?.parse().context("no seconds")?;
        let after = [seconds_at_rest(pids[0])?, seconds_at_rest(pids[1])?];
        Ok(Part { seconds, datanode: after[0] - before[0], namenode: after[1] - before[1] })
    }

    fn run(&mut self, pair: usize) -> Result<Run> {
        let put = self.timed(&format!("put /big {}", self.megabytes))?;
        let get = self.timed("get /big")?;
        self.client.ask_right("delete /big")?;
        let small = self.small(&format!("small-{pair}"), SMALL_THREADS)?;
        let before = metrics(&self.server)?;
        self.small(&format!("grouped-{pair}"), GROUPED_THREADS)?;
        let commits_per_10 = match (before, metrics(&self.server)?) {
            (Some(before), Some(after)) => {
                after.since(&before, "trellis_store_commits_total")? * 10.0 / SMALL_FILES as f64
            }
            _ => 0.0,
        };
        Ok(Run { put, get, small, commits_per_10 })
    }
}

/// What the first namenode counts, if it is ours.
fn metrics(server: &Server) -> Result<Option<Metrics>> {
    let Some(cluster) = server.cluster() else { return Ok(None) };
    Ok(Some(Metrics::read(&cluster.http_address(0)?)?))
}

/// A full report of blocks that have not changed.
struct Report {
    seconds: f64,
    cpu: f64,
    rows_read: f64,
    rows_written: f64,
}

fn report(server: Server, blocks: usize) -> Result<Report> {
    let command = server.hadoop().command(&["probe", "FakeDatanode", &blocks.to_string()]);
    let mut datanode = Talk::start(command)?;
    datanode.hear_right().context("making the files")?;
    datanode.ask_right("report")?; // the first may still change something
    let pid = server.namenode_pid(0)?;
    let (before, cpu) = (metrics(&server)?, seconds_at_rest(pid)?);
    let seconds = datanode.ask_right("report")?.parse().context("no seconds")?;
    let (cpu, after) = (seconds_at_rest(pid)? - cpu, metrics(&server)?);
    let rows = |name: &str| match (&before, &after) {
        (Some(before), Some(after)) => after.since(before, name),
        _ => Ok(0.0),
    };
    Ok(Report {
        seconds,
        cpu,
        rows_read: rows("trellis_store_rows_read_total")?,
        rows_written: rows("trellis_store_rows_written_total")?,
    })
}

/// The page, and whether all bounds hold.
fn page(megabytes: usize, blocks: usize, runs: &[Vec<Run>; 2], reports: &[Report; 2]) -> (String, bool) {
    let gigabytes = megabytes as f64 / 1024.0;
    let middle = |side: usize, figure: &dyn Fn(&Run) -> f64| median(runs[side].iter().map(figure));
    let mut page = format!(
        "{megabytes} MB in blocks of 128 MB; {SMALL_FILES} files of {SMALL_BYTES} bytes by {SMALL_THREADS} threads; both \
         datanodes sync on close; {PAIRS} pairs, medians\n\n\
         | | stock | trellis | trellis against stock |\n| --- | ---: | ---: | ---: |\n"
    );
    let mut row = |what: &str, figure: &dyn Fn(&Run) -> f64, unit: &str, faster_is_less: bool| {
        let (stock, trellis) = (middle(0, figure), middle(1, figure));
        let ratio = if faster_is_less { stock / trellis } else { trellis / stock };
        let _ = writeln!(page, "| {what} | {stock:.2} {unit} | {trellis:.2} {unit} | {ratio:.2} |");
        ratio
    };
    let put = row("put, speed", &|run| run.put.seconds, "s", true);
    let get = row("get, speed", &|run| run.get.seconds, "s", true);
    let cpu = [
        row("put, datanode's CPU per GB", &|run| run.put.datanode / gigabytes, "s", false),
        row("get, datanode's CPU per GB", &|run| run.get.datanode / gigabytes, "s", false),
    ];
    let small = row("small files, rate", &|run| SMALL_FILES as f64 / run.small.seconds, "files/s", false);
    let per_file = 1000.0 / SMALL_FILES as f64;
    row("small files, datanode's CPU a file", &|run| run.small.datanode * per_file, "ms", false);
    row("small files, namenode's CPU a file", &|run| run.small.namenode * per_file, "ms", false);
    let [stock, trellis] = reports;
    let _ = writeln!(
        page,
        "| full report of {blocks} unchanged blocks, answered after | {:.2} s | {:.2} s | {:.2} |\n\
         | the same, namenode's CPU | {:.2} s | {:.2} s | {:.2} |\n\
         | the same, rows of the store read and written | – | {:.0} and {:.0} | |\n",
        stock.seconds,
        trellis.seconds,
        trellis.seconds / stock.seconds,
        stock.cpu,
        trellis.cpu,
        trellis.cpu / stock.cpu,
        trellis.rows_read,
        trellis.rows_written
    );
    let commits = middle(1, &|run| run.commits_per_10);
    let worst_cpu = cpu[0].max(cpu[1]);
    let measures = [
        ("put, speed against stock", format!("at least {LEAST_SPEED}"), put, put >= LEAST_SPEED),
        ("get, speed against stock", format!("at least {LEAST_SPEED}"), get, get >= LEAST_SPEED),
        (
            "datanode's CPU per GB against stock, put and get",
            format!("at most {MOST_CPU}"),
            worst_cpu,
            worst_cpu <= MOST_CPU,
        ),
        ("small files, rate against stock", format!("at least {LEAST_SMALL}"), small, small >= LEAST_SMALL),
        (
            "commits for 10 files of one block, 64 writers",
            format!("at most {MOST_COMMITS}"),
            commits,
            commits <= MOST_COMMITS,
        ),
    ];
    page.push_str("| measure | bound | figure | holds |\n| --- | ---: | ---: | --- |\n");
    for (what, bound, figure, holds) in &measures {
        let _ = writeln!(page, "| {what} | {bound} | {figure:.2} | {} |", if *holds { "yes" } else { "NO" });
    }
    (page, measures.iter().all(|(.., holds)| *holds))
}

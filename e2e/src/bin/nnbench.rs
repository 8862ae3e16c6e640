//! The stock NNThroughputBenchmark over RPC against the stock NameNode and against Trellis, in turn: operations per second
//! and CPU time of the server per operation. Run with `--release`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use e2e::bench::{PAIRS, median};
use e2e::server::{Server, Shape};

const OPERATIONS: [&str; 6] = ["fileStatus", "open", "create", "mkdirs", "rename", "delete"];
const THREADS: &str = "16";
/// Runs before one counts as warm although the last two still differ.
const WARM_UP_LIMIT: usize = 8;
/// Two runs that differ by less are warm.
const WARM: f64 = 0.10;

fn main() -> Result<()> {
    let number = std::env::args().nth(1).unwrap_or_else(|| "10000".to_owned());
    let mut sides = [
        Side::start("stock", Server::stock(&Shape::new(1, 0))?, &number)?,
        Side::start("trellis", Server::trellis(&Shape::new(1, 0))?, &number)?,
    ];
    println!("{number} operations of each kind, {THREADS} threads, {PAIRS} pairs, medians\n");
    println!(
        "| operation | stock ops/s | trellis ops/s | ratio | stock µs/op | trellis µs/op | ops per CPU s, ratio | whole \
         run, ratio |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for operation in OPERATIONS {
        let mut runs: BTreeMap<&str, Vec<Run>> = BTreeMap::new();
        for side in &mut sides {
            side.warm_up(operation)?;
        }
        for _ in 0..PAIRS {
            for side in &mut sides {
                runs.entry(side.name).or_default().push(side.run(operation)?);
            }
        }
        let [stock, trellis] =
            ["stock", "trellis"].map(|name| medians(&runs.remove(name).unwrap_or_default()));
        println!(
            "| {operation} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} | {:.2} | {:.2} |",
            stock.rate,
            trellis.rate,
            trellis.rate / stock.rate,
            stock.cpu_us,
            trellis.cpu_us,
            stock.cpu_us / trellis.cpu_us,
            stock.whole_us / trellis.whole_us
        );
    }
    Ok(())
}

/// One run of one operation.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Operations per second.
    rate: f64,
    /// Server's CPU microseconds per operation.
    cpu_us: f64,
    /// The same with what prepares the operations and removes the last run's files, in the background too.
    whole_us: f64,
}

/// The median of each figure by itself.
fn medians(runs: &[Run]) -> Run {
    let middle = |figure: fn(&Run) -> f64| median(runs.iter().map(figure));
    Run {
        rate: middle(|run| run.rate),
        cpu_us: middle(|run| run.cpu_us),
        whole_us: middle(|run| run.whole_us),
    }
}

/// A server and the benchmark's JVM, which stays, so that it is warm as well.
struct Side {
    name: &'static str,
    benchmark: Child,
    operations: ChildStdin,
    figures: BufReader<ChildStdout>,
    _server: Server,
}

impl Side {
    fn start(name: &'static str, server: Server, number: &str) -> Result<Side> {
        let pid = server.namenode_pid(0)?.to_string();
        let mut command = server.hadoop().command(&["probe", "NnBench", &pid, THREADS, number]);
        let mut benchmark =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting NnBench")?;
        let operations = benchmark.stdin.take().ok_or_else(|| anyhow!("NnBench has no stdin"))?;
        let figures = benchmark.stdout.take().ok_or_else(|| anyhow!("NnBench has no stdout"))?;
        Ok(Side { name, benchmark, operations, figures: BufReader::new(figures), _server: server })
    }

    fn run(&mut self, operation: &str) -> Result<Run> {
        writeln!(self.operations, "{operation}")?;
        self.operations.flush()?;
        let mut line = String::new();
        self.figures.read_line(&mut line)?;
        let columns: Vec<&str> = line.trim_end().split('\t').collect();
        let [_, exit, rate, cpu_us, whole_us] = columns[..] else {
            bail!("{}: {operation}: no figures: {line:?}", self.name);
        };
        ensure!(exit == "0", "{}: {operation} ended with {exit}", self.name);
        Ok(Run { rate: rate.parse()?, cpu_us: cpu_us.parse()?, whole_us: whole_us.parse()? })
    }

    fn warm_up(&mut self, operation: &str) -> Result<()> {
        let mut last = self.run(operation)?;
        for _ in 1..WARM_UP_LIMIT {
            let run = self.run(operation)?;
            if (run.rate - last.rate).abs() < WARM * last.rate {
                return Ok(());
            }
            last = run;
        }
        eprintln!("{}: {operation}: runs still differ after {WARM_UP_LIMIT}", self.name);
        Ok(())
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.benchmark.kill();
        let _ = self.benchmark.wait();
    }
}

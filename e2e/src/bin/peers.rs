//! The stock NameNode and Trellis under the same load from the same driver, in turn: each operation alone and mixes, then
//! latencies unloaded and at half of what stock can do. Run with `--release`. Arguments: seconds of a run, files.

use anyhow::{Context, Result, ensure};
use e2e::bench::{PAIRS, Spread, median};
use e2e::server::{Server, Shape};
use tokio::runtime::Runtime;
use trellis_loadgen::build::build;
use trellis_loadgen::config::{Config, Pick};
use trellis_loadgen::namespace::Spec;
use trellis_loadgen::report::Report;
use trellis_loadgen::run::run;
use trellis_loadgen::target::Target;

const BASE: &str = "/load";
const CLIENTS: u32 = 64;
const CONNECTIONS: u32 = 16;
/// Before anything is measured: so long it takes until a JVM has compiled what is called often.
const FIRST_WARM_UP_S: f64 = 30.0;
const WARM_UP_S: f64 = 2.0;

/// A workload, and how many times as many operations as stock Trellis is to do in a second of the server's CPU time.
struct Load {
    workload: &'static str,
    creates: Option<f64>,
    goal: f64,
}

const fn load(workload: &'static str, goal: f64) -> Load {
    Load { workload, creates: None, goal }
}

/// Spotify's mix, as it is and with more creates.
const MIXES: [Load; 2] = [load("spotify", 3.0), Load { workload: "spotify", creates: Some(20.0), goal: 2.5 }];
/// They leave the namespace as it is.
const READS: [Load; 5] = [
    load("open", 3.0),
    load("fileStatus", 3.0),
    load("stat_dir", 3.0),
    load("list_dir", 3.0),
    load("list_file", 3.0),
];
/// The last ones change the namespace the most.
const WRITES: [Load; 9] = [
    load("set_replication", 2.0),
    load("chmod_file", 2.0),
    load("chmod_dir", 2.0),
    load("chown_dir", 2.0),
    load("append", 2.0),
    load("rename", 2.0),
    load("mkdirs", 2.0),
    load("create", 2.0),
    load("delete", 2.0),
];

fn main() -> Result<()> {
    let [seconds, files] = arguments()?;
    let shape =
        Shape { stock_settings: vec!["dfs.namenode.handler.count=10"], audited: true, ..Shape::new(1, 0) };
    let mut bench = Bench {
        runtime: tokio::runtime::Builder::new_multi_thread().enable_all().build()?,
        sides: [Side::of("stock", Server::stock(&shape)?)?, Side::of("trellis", Server::trellis(&shape)?)?],
        spec: Spec { files, ..Spec::default() },
        seconds: f64::from(seconds),
    };
    bench.prepare()?;
    println!(
        "{files} files; {CLIENTS} clients with {CONNECTIONS} connections; runs of {seconds} s, {PAIRS} pairs, medians (lowest to \
         highest of the pairs)\n"
    );
    println!(
        "| load | stock ops/s | trellis ops/s | ratio | stock µs/op | trellis µs/op | ops per CPU s, ratio | goal | reached |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |");
    READS.iter().try_for_each(|load| bench.capacity(load).map(drop))?;
    let most = MIXES.iter().map(|load| bench.capacity(load)).collect::<Result<Vec<f64>>>()?;
    WRITES.iter().try_for_each(|load| bench.capacity(load).map(drop))?;
    bench.latencies(&most)
}

fn arguments() -> Result<[u32; 2]> {
    let given: Vec<u32> = std::env::args()
        .skip(1)
        .map(|argument| argument.parse().with_context(|| format!("{argument} is no number")))
        .collect::<Result<_>>()?;
    given.try_into().ok().context("say how many seconds a run takes, and how many files there are")
}

/// One of the two that are compared.
struct Side {
    name: &'static str,
    url: String,
    pid: u32,
    _server: Server,
}

impl Side {
    fn of(name: &'static str, server: Server) -> Result<Side> {
        Ok(Side { name, url: server.urls().remove(0), pid: server.namenode_pid(0)?, _server: server })
    }
}

/// How a load is driven.
#[derive(Clone, Copy)]
struct Drive {
    clients: u32,
    /// Operations a second, of an open loop.
    rate: Option<f64>,
    warm_up_s: f64,
}

const CLOSED: Drive = Drive { clients: CLIENTS, rate: None, warm_up_s: WARM_UP_S };

struct Bench {
    runtime: Runtime,
    sides: [Side; 2],
    spec: Spec,
    seconds: f64,
}

impl Bench {
    /// Makes the namespaces, and runs both servers warm.
    fn prepare(&mut self) -> Result<()> {
        for side in &self.sides {
            self.build(side)?;
            self.run(side, &MIXES[0], Drive { warm_up_s: FIRST_WARM_UP_S, ..CLOSED })?;
        }
        Ok(())
    }

    /// Makes what is missing of a namespace.
    fn build(&self, side: &Side) -> Result<()> {
        self.runtime
            .block_on(build(&Target::parse(&side.url)?, BASE, &self.spec, CLIENTS))
            .map(drop)
            .with_context(|| format!("building the namespace of {}", side.name))
    }

    fn run(&self, side: &Side, load: &Load, drive: Drive) -> Result<Report> {
        let workload = load.workload.parse().map_err(anyhow::Error::msg)?;
        let config = Config {
            create_share: load.creates,
            clients: drive.clients,
            connections: CONNECTIONS.min(drive.clients),
            rate: drive.rate,
            pick: if load.workload == "delete" { Pick::Once } else { Pick::Popular },
            // What is deleted while warming up is not there to be deleted later.
            warm_up_s: if load.workload == "delete" { 0.0 } else { drive.warm_up_s },
            duration_s: self.seconds,
            server_pids: vec![side.pid],
            ..Config::new(&side.url, BASE, workload)
        };
        let report = self
            .runtime
            .block_on(run(&config))
            .with_context(|| format!("{}: {}", side.name, load.workload))?;
        ensure!(report.total.errors == 0, "{}: {}: {:?}", side.name, load.workload, report.errors);
        ensure!(report.total.count > 0, "{}: {}: nothing succeeded", side.name, load.workload);
        Ok(report)
    }

    /// What both can do, a line of the table. Stock's operations a second.
    fn capacity(&self, load: &Load) -> Result<f64> {
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            let mut pair = Vec::new();
            for side in &self.sides {
                let total = self.run(side, load, CLOSED)?.total;
                pair.push([total.ops_per_s, total.server_cpu_us_per_op.context("no CPU time")?]);
                if load.workload == "delete" {
                    self.build(side)?;
                }
            }
            pairs.push(pair);
        }
        let figure = |side: usize, which: usize| median(pairs.iter().map(|pair| pair[side][which]));
        let rate = Spread::of(pairs.iter().map(|pair| pair[1][0] / pair[0][0]));
        let per_cpu = Spread::of(pairs.iter().map(|pair| pair[0][1] / pair[1][1]));
        println!(
            "| {} | {:.0} | {:.0} | {rate} | {:.1} | {:.1} | {per_cpu} | {} | {} |",
            load.name(),
            figure(0, 0),
            figure(1, 0),
            figure(0, 1),
            figure(1, 1),
            load.goal,
            yes_or_no(per_cpu.median >= load.goal)
        );
        Ok(figure(0, 0))
    }

    /// Latencies of the mixes, of which stock can do so many a second.
    fn latencies(&self, most: &[f64]) -> Result<()> {
        println!(
            "\n| load | offered | stock p50 µs | trellis p50 µs | stock p99 µs | trellis p99 µs | p99 no worse |"
        );
        println!("| --- | --- | ---: | ---: | ---: | ---: | --- |");
        let mut by_operation = String::new();
        for (load, most) in MIXES.iter().zip(most) {
            let rate = (most / 2.0).round();
            let alone = Drive { clients: 1, ..CLOSED };
            let half = Drive { rate: Some(rate), ..CLOSED };
            self.latency(load, "one client", alone)?;
            let pairs = self.latency(load, &format!("{rate:.0}/s, half of stock's most"), half)?;
            by_operation += &operations(load, &pairs);
        }
        println!("\nAt half of stock's most, by operation:\n");
        println!("| load | operation | stock p50 µs | trellis p50 µs | stock p99 µs | trellis p99 µs |");
        println!("| --- | --- | ---: | ---: | ---: | ---: |\n{}", by_operation.trim_end());
        Ok(())
    }

    fn latency(&self, load: &Load, offered: &str, drive: Drive) -> Result<Vec<[Report; 2]>> {
        let [stock, trellis] = &self.sides;
        let pair = |_| Ok([self.run(stock, load, drive)?, self.run(trellis, load, drive)?]);
        let pairs = (0..PAIRS).map(pair).collect::<Result<Vec<_>>>()?;
        let p50 = |side: usize| median(pairs.iter().map(|pair| pair[side].total.p50_us));
        let p99 = |side: usize| median(pairs.iter().map(|pair| pair[side].total.p99_us));
        println!(
            "| {} | {offered} | {:.0} | {:.0} | {:.0} | {:.0} | {} |",
            load.name(),
            p50(0),
            p50(1),
            p99(0),
            p99(1),
            yes_or_no(p99(1) <= p99(0))
        );
        Ok(pairs)
    }
}

/// Latencies by operation, a line each.
fn operations(load: &Load, pairs: &[[Report; 2]]) -> String {
    let Some([first, _]) = pairs.first() else { return String::new() };
    let line = |name: &String| {
        let of = |side: usize, which: fn(&trellis_loadgen::report::Operation) -> f64| {
            median(pairs.iter().filter_map(|pair| pair[side].operations.get(name)).map(which))
        };
        format!(
            "| {} | {name} | {:.0} | {:.0} | {:.0} | {:.0} |\n",
            load.name(),
            of(0, |operation| operation.p50_us),
            of(1, |operation| operation.p50_us),
            of(0, |operation| operation.p99_us),
            of(1, |operation| operation.p99_us)
        )
    };
    first.operations.keys().map(line).collect()
}

impl Load {
    fn name(&self) -> String {
        match self.creates {
            Some(percent) => format!("{}, {percent} % creates", self.workload),
            None => self.workload.to_owned(),
        }
    }
}

fn yes_or_no(holds: bool) -> &'static str {
    if holds { "yes" } else { "no" }
}

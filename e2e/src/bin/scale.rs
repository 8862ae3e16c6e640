//! One to eight namenodes on one embedded store that is far away: how near to linear that is; and the capacity model, held
//! against runs that it was not calibrated on, then asked about clusters that nobody has at hand. Ends with 1 if a bound does
//! not hold. Run with `--release`. Arguments: seconds of a run, files.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::bench::PAIRS;
use e2e::cluster::binary;
use trellis_loadgen::model::check::{Check, worst};
use trellis_loadgen::model::report::Model;
use trellis_loadgen::scale::level::Level;
use trellis_loadgen::scale::report::Scale;
use trellis_loadgen::spread::Spread;

/// The bounds.
const LEAST_OF_LINEAR: f64 = 0.95;
const MOST_BUSY_PERCENT: f64 = 70.0;
const MOST_ERROR_PERCENT: f64 = 15.0;
/// The row of the model's table that is looked into: the size that HopsFS's authors published.
const PUBLISHED: (u32, u32) = (60, 12);

/// Runs of `trellis load scale`.
struct Series {
    name: &'static str,
    namenodes: &'static str,
    clients_per_namenode: &'static str,
    store_delay: &'static str,
    rounds: usize,
}

/// So few clients that the machine is not what bounds eight namenodes.
const FAR: Series = Series {
    name: "far",
    namenodes: "1,2,4,8",
    clients_per_namenode: "2",
    store_delay: "2ms",
    rounds: PAIRS,
};
/// Other numbers of clients, other delays: the model has not seen them.
const OTHERS: [Series; 2] = [
    Series { name: "more-clients", namenodes: "1,2", clients_per_namenode: "8", rounds: PAIRS, ..FAR },
    Series { name: "farther", namenodes: "1,4", clients_per_namenode: "6", store_delay: "5ms", ..FAR },
];
/// As busy as a namenode gets: what an operation demands then is what larger clusters are asked about.
const BUSY: Series =
    Series { name: "busy", namenodes: "1", clients_per_namenode: "32", store_delay: "0ms", rounds: PAIRS };

fn main() -> Result<ExitCode> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, files] =
        given.try_into().ok().context("say how many seconds a run takes, and how many files there are")?;
    let bench = Bench { folder: tempfile::tempdir().context("making a folder")?, seconds, files };
    let far = bench.measure(&FAR)?;
    let others: Vec<PathBuf> = OTHERS.iter().map(|series| bench.measure(series)).collect::<Result<_>>()?;
    let busy = bench.measure(&BUSY)?;
    let scale = Scale::read(&far)?;
    println!(
        "{} files, Spotify's mix; {} clients of each namenode, store delay {}; runs of {} s after 2 s of warm-up, {PAIRS} \
         rounds, medians (lowest to highest)\n",
        bench.files, FAR.clients_per_namenode, FAR.store_delay, bench.seconds
    );
    print!("{}", levels(&scale.levels));
    let checked: Vec<&Path> = std::iter::once(&far).chain(&others).map(PathBuf::as_path).collect();
    let model = bench.model(&far, &checked)?;
    println!("\nThe model, calibrated on the runs with one namenode above, and what was measured:\n");
    print!("{}", checks(&model.checks));
    let clusters = bench.model(&busy, &[])?;
    println!(
        "\nThe model, calibrated on a busy namenode ({} clients, no delay): predicted, not measured:\n",
        BUSY.clients_per_namenode
    );
    print!("{}", grid(&clusters));
    let (page, holds) = measures(&scale, &model);
    print!("{page}");
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Bench {
    folder: tempfile::TempDir,
    seconds: String,
    files: String,
}

impl Bench {
    /// Makes the runs; the file that says what came of them.
    fn measure(&self, series: &Series) -> Result<PathBuf> {
        let report = self.folder.path().join(format!("{}.json", series.name));
        let mut command = Command::new(binary()?);
        command.args(["load", "scale", "--namenodes", series.namenodes]);
        command.args(["--clients-per-namenode", series.clients_per_namenode]);
        command.args(["--store-delay", series.store_delay, "--rounds", &series.rounds.to_string()]);
        command.args(["--files", &self.files, "--warm-up", "2s"]);
        command.args(["--duration", &format!("{}s", self.seconds), "--report"]).arg(&report);
        finish(command, series.name)?;
        Ok(report)
    }

    /// Runs in the folder, so that what it takes for granted tells of files by their names alone.
    fn model(&self, calibrate: &Path, check: &[&Path]) -> Result<Model> {
        let report = self.folder.path().join("model.json");
        let name = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_owned();
        let mut command = Command::new(binary()?);
        command.current_dir(self.folder.path()).args(["load", "model", "--report"]).arg(&report);
        command.arg("--calibrate").arg(name(calibrate));
        for path in check {
            command.arg("--check").arg(name(path));
        }
        finish(command, "model")?;
        Ok(Model::read(&report)?)
    }
}

/// What it prints is for people; the figures are in its file.
fn finish(mut command: Command, name: &str) -> Result<()> {
    let status = command.stdout(Stdio::null()).status().with_context(|| format!("starting {name}"))?;
    ensure!(status.success(), "{name} ended with {status}");
    Ok(())
}

fn levels(levels: &[Level]) -> String {
    let mut text = String::from(
        "| namenodes | clients | ops/s | of linear | machine busy % | server µs/op | client µs/op | trips/op | rows/op | commits/op | a trip waits µs |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for level in levels {
        let cells = [
            level.namenodes.to_string(),
            level.clients.to_string(),
            level.ops_per_s.text(0),
            known(level.of_linear, 3),
            known(level.machine_busy_percent, 1),
            known(level.server_cpu_us_per_op, 0),
            level.client_cpu_us_per_op.text(0),
            known(level.store_round_trips_per_op, 2),
            known(level.rows_per_op, 1),
            known(level.commits_per_op, 3),
            known(level.delay_us, 0),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

fn known(figure: Option<Spread>, digits: usize) -> String {
    figure.map_or("–".to_owned(), |spread| spread.text(digits))
}

fn checks(checks: &[Check]) -> String {
    let mut text = String::from(
        "| namenodes | clients | store delay | measured ops/s | predicted ops/s | error | |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    for check in checks {
        let cells = [
            check.namenodes.to_string(),
            check.clients.to_string(),
            format!("{} ms", check.store_delay_us as f64 / 1000.0),
            check.measured_ops_per_s.text(0),
            format!("{:.0}", check.predicted_ops_per_s),
            format!("{:+.1} %", check.error_percent),
            if check.is_calibration { "calibrated on" } else { "" }.to_owned(),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

/// Predicted rates in thousands, and what others have published.
fn grid(model: &Model) -> String {
    let question = &model.question;
    let columns: Vec<String> = question.store_nodes.iter().map(|nodes| format!("{nodes} nodes")).collect();
    let mut text =
        format!("| namenodes | {} |\n| ---: |{}\n", columns.join(" | "), " ---: |".repeat(columns.len()));
    for namenodes in &question.namenodes {
        let cells = model.clusters.iter().filter(|cluster| cluster.namenodes == *namenodes);
        let cells: Vec<String> =
            cells.map(|cluster| format!("{:.0} k", cluster.predicted.ops_per_s / 1000.0)).collect();
        text += &format!("| {namenodes} | {} |\n", cells.join(" | "));
    }
    let size = |cluster: &&trellis_loadgen::model::report::Cluster| {
        (cluster.namenodes, cluster.store_nodes) == PUBLISHED
    };
    if let Some(cluster) = model.clusters.iter().find(size) {
        let busy =
            cluster.predicted.stations.iter().filter_map(|stay| {
                stay.utilisation.map(|part| format!("{} {:.0} %", stay.name, part * 100.0))
            });
        text += &format!(
            "\nWith {} namenodes and {} nodes: {:.0} k ops/s predicted, busy: {}.",
            cluster.namenodes,
            cluster.store_nodes,
            cluster.predicted.ops_per_s / 1000.0,
            busy.collect::<Vec<_>>().join(", ")
        );
    }
    for published in &model.published {
        text += &format!(
            " Published of {}: {:.0} k ops/s ({}).",
            published.system,
            published.ops_per_s / 1000.0,
            published.source
        );
    }
    text += "\n\nAssumed:\n\n";
    for assumption in &model.assumptions {
        text += &format!("- {assumption}\n");
    }
    text
}

/// The bounds, and whether all hold.
fn measures(scale: &Scale, model: &Model) -> (String, bool) {
    let most = scale.levels.last();
    let linear = most.and_then(|level| level.of_linear).map(|spread| spread.median);
    let busy = most.and_then(|level| level.machine_busy_percent).map(|spread| spread.median);
    let error = worst(&model.checks);
    let errors: u64 = scale.levels.iter().map(|level| level.errors).sum();
    let figure = |figure: Option<f64>, digits: usize, unit: &str| {
        figure.map_or("not known".to_owned(), |figure| format!("{figure:.digits$}{unit}"))
    };
    let rows = [
        (
            "1 to 8 namenodes, of linear",
            format!("at least {LEAST_OF_LINEAR}"),
            figure(linear, 3, ""),
            linear.is_some_and(|linear| linear >= LEAST_OF_LINEAR),
        ),
        (
            "machine busy with 8",
            format!("at most {MOST_BUSY_PERCENT} %"),
            figure(busy, 1, " %"),
            busy.is_some_and(|busy| busy <= MOST_BUSY_PERCENT),
        ),
        (
            "the model's largest error, for runs that it was not calibrated on",
            format!("at most {MOST_ERROR_PERCENT} %"),
            figure(error, 1, " %"),
            error.is_some_and(|error| error <= MOST_ERROR_PERCENT),
        ),
        ("operations that failed", "none".to_owned(), errors.to_string(), errors == 0),
    ];
    let mut page = String::from("\n| measure | bound | figure | holds |\n| --- | ---: | ---: | --- |\n");
    for (what, bound, figure, holds) in &rows {
        page += &format!("| {what} | {bound} | {figure} | {} |\n", if *holds { "yes" } else { "no" });
    }
    (page, rows.iter().all(|(.., holds)| *holds))
}

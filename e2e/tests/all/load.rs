//! The load generator against either kind of namenode: the same operations end in the same ways.

use anyhow::{Result, ensure};
use e2e::server::Server;
use trellis_loadgen::build::build;
use trellis_loadgen::config::{Config, Pick, Popularity, usual_late_after_s};
use trellis_loadgen::mix::Workload;
use trellis_loadgen::namespace::Spec;
use trellis_loadgen::report::Report;
use trellis_loadgen::run::run;
use trellis_loadgen::target::Target;

const BASE: &str = "/load";
const FILES: u32 = 300;
const WORKERS: u32 = 8;

/// Every workload runs without an error; two clients that rename the same files share the successes; a second build makes
/// what was deleted.
pub fn workloads() -> Result<Vec<String>> {
    let server = Server::start(1, 0)?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(drive(&server))
}

async fn drive(server: &Server) -> Result<Vec<String>> {
    let url = server.urls().remove(0);
    let (target, spec) = (Target::parse(&url)?, Spec { files: FILES, ..Spec::default() });
    let built = build(&target, BASE, &spec, WORKERS).await?;
    ensure!(!built.resumed && built.files_made == u64::from(FILES), "{built:?}");
    let usual = Config {
        target: url,
        base: BASE.to_owned(),
        workload: workload("rename")?,
        create_share: None,
        clients: 2,
        connections: 2,
        rate: None,
        arrivals: None,
        popularity: Popularity::Uniform,
        hot: None,
        pick: Pick::All,
        seed: 1,
        warm_up_s: 0.0,
        duration_s: 600.0,
        cost_samples: 0,
        metrics: Vec::new(),
        server_pids: vec![server.namenode_pid(0)?],
        disturb: Vec::new(),
        late_after_s: usual_late_after_s(),
    };
    let renamed = run(&usual).await?;
    let counts = [renamed.total.count, renamed.total.refused, renamed.total.errors];
    ensure!(counts == [u64::from(FILES), u64::from(FILES), 0], "{counts:?} {:?}", renamed.errors);
    let mut notes = Vec::new();
    // What deletes comes last: it may leave nothing for the others.
    let (deleting, others): (Vec<_>, Vec<_>) = Workload::names().partition(|name| *name == "delete");
    for name in [others, deleting].concat() {
        let pick = if name == "delete" { Pick::Once } else { Pick::Popular };
        let config = Config { workload: workload(name)?, pick, duration_s: 0.5, ..usual.clone() };
        notes.push(sound(name, &run(&config).await?)?);
    }
    let again = build(&target, BASE, &spec, WORKERS).await?;
    ensure!(again.resumed && again.files_made > 0, "{again:?}");
    let whole = build(&target, BASE, &spec, WORKERS).await?;
    ensure!(whole.files_found == u64::from(FILES), "{whole:?}");
    Ok(notes)
}

fn workload(name: &str) -> Result<Workload> {
    name.parse().map_err(anyhow::Error::msg)
}

fn sound(name: &str, report: &Report) -> Result<String> {
    let total = &report.total;
    ensure!(total.count > 0 && total.errors == 0, "{name}: {total:?} {:?}", report.errors);
    Ok(format!("{name}: {} done, {} refused", total.count, total.refused))
}

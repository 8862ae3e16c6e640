//! The load generator against either kind of namenode: the same operations end in the same ways.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::hadoop::stdout_of;
use e2e::server::Server;
use e2e::stock::Stock;
use tokio::runtime::{Builder, Runtime};
use trellis_client::Client;
use trellis_client::types::CreateOptions;
use trellis_client::uri::Uri;
use trellis_loadgen::build::{build, datanodes};
use trellis_loadgen::config::{Config, Pick, ReplayConfig};
use trellis_loadgen::contents::{Asked, Blocks, Contents};
use trellis_loadgen::like::layout::levels;
use trellis_loadgen::like::table::{Table, read_file};
use trellis_loadgen::mix::Workload;
use trellis_loadgen::namespace::Spec;
use trellis_loadgen::report::Report;
use trellis_loadgen::run::run;
use trellis_loadgen::stop::Stop;
use trellis_loadgen::target::Target;
use trellis_loadgen::trace::replay::replay;
use trellis_loadgen::tree::survey;

const BASE: &str = "/load";
const LIKE: &str = "/like";
const FILES: u32 = 300;
const WORKERS: u32 = 8;
/// How long a namenode may take to come back.
const RESTART_LIMIT: Duration = Duration::from_secs(120);

/// Every workload runs without an error; two clients that rename the same files share the successes; a second build makes
/// what was deleted.
pub fn workloads() -> Result<Vec<String>> {
    let server = Server::start(1, 0)?;
    runtime()?.block_on(drive(&server))
}

/// The same with blocks on simulated datanodes, which a later command brings back, also to a namenode that was restarted:
/// then no block lacks a replica, and each is where readers are told.
pub fn blocks() -> Result<Vec<String>> {
    let mut server = Server::start(1, 0)?;
    let runtime = runtime()?;
    let asked = Asked {
        blocks: Some(Blocks::Simulated),
        sizes: Some("0:1,1k-40k:9".parse().map_err(anyhow::Error::msg)?),
        block_size: Some(16 << 10),
        replication: Some(3),
        datanodes: Some(5),
    };
    let spec = Spec { files: FILES, contents: asked.over(&Contents::default())?, ..Spec::default() };
    let notes = runtime.block_on(drive_blocks(&server, &spec))?;
    server.kill_namenode(0)?;
    runtime.block_on(found_again(&server, &spec))?;
    Ok(notes)
}

/// A namespace like that of a stock NameNode's image has the numbers of that: as a second image shows.
pub fn like() -> Result<Vec<String>> {
    let stock = Stock::start(0, &[])?;
    let (target, runtime) = (Target::parse(&format!("hdfs://{}", stock.address()))?, runtime()?);
    let asked = Asked {
        blocks: Some(Blocks::Simulated),
        sizes: Some("0:1,1k-1m:3".parse().map_err(anyhow::Error::msg)?),
        block_size: Some(1 << 20),
        replication: Some(2),
        datanodes: Some(2),
    };
    let contents = asked.over(&Contents::default())?;
    let spec = Spec { files: FILES, depth: 3, files_per_dir: 7, contents, ..Spec::default() };
    runtime.block_on(build(&target, BASE, &spec, WORKERS))?;
    let Table { counts, skipped, .. } = image_of(&stock)?;
    ensure!(
        counts.files() == u64::from(FILES) && skipped == 0,
        "{} files, {skipped} skipped",
        counts.files()
    );
    ensure!(counts.block_size() == Some(1 << 20) && counts.replication() == Some(2), "{counts:?}");
    let empty = (0..FILES).filter(|file| spec.size_of(*file) == 0).count();
    ensure!(counts.sizes().to_string().starts_with(&format!("0:{empty},")), "{empty}: {}", counts.sizes());

    let alike = Spec::like(counts.image(), 2 * FILES, 1, Contents::default());
    alike.check(LIKE)?;
    runtime.block_on(build(&target, LIKE, &alike, WORKERS))?;
    stdout_of("rm", &stock.client()?.command(&["dfs", "-rm", "-r", "-skipTrash", BASE]).output()?)?;
    let again = image_of(&stock)?.counts.image();
    // The base, and in it the root of the image that it is like.
    let scaled = levels(&counts.image(), 2 * FILES);
    for (depth, level) in scaled.iter().enumerate() {
        let found = again.levels.get(depth + 2).copied().unwrap_or_default();
        ensure!(
            found.files == level.files && found.dirs >= level.dirs,
            "{depth}: {:?} {scaled:?}",
            again.levels
        );
    }
    Ok(vec![format!("{scaled:?}")])
}

/// What the image of a stock NameNode says, as it is now.
fn image_of(stock: &Stock) -> Result<Table> {
    let dir = tempfile::tempdir()?;
    let [image, table] = ["image", "table"].map(|name| dir.path().join(name));
    stock.save_image(&image)?;
    let mut oiv = stock.client()?.command(&["oiv", "-p", "Delimited", "-i"]);
    stdout_of("oiv", &oiv.arg(&image).arg("-o").arg(&table).output()?)?;
    Ok(read_file(&table)?)
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

/// A short run of each workload.
async fn each_workload(usual: &Config) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    // What deletes comes last: it may leave nothing for the others.
    let (deleting, others): (Vec<_>, Vec<_>) = Workload::names().partition(|name| *name == "delete");
    for name in [others, deleting].concat() {
        let pick = if name == "delete" { Pick::Once } else { Pick::Popular };
        let config = Config { workload: workload(name)?, pick, duration_s: 0.5, ..usual.clone() };
        notes.push(sound(name, &run(&config).await?)?);
    }
    Ok(notes)
}

async fn drive(server: &Server) -> Result<Vec<String>> {
    let usual = usual(&server.urls().remove(0), server.namenode_pid(0)?)?;
    let (target, spec) = (Target::parse(&usual.target)?, Spec { files: FILES, ..Spec::default() });
    let built = build(&target, BASE, &spec, WORKERS).await?;
    ensure!(!built.resumed && built.files_made == u64::from(FILES), "{built:?}");
    let renamed = run(&usual).await?;
    let counts = [renamed.total.count, renamed.total.refused, renamed.total.errors];
    ensure!(counts == [u64::from(FILES), u64::from(FILES), 0], "{counts:?} {:?}", renamed.errors);
    let notes = each_workload(&usual).await?;
    let again = build(&target, BASE, &spec, WORKERS).await?;
    ensure!(again.resumed && again.files_made > 0, "{again:?}");
    let whole = build(&target, BASE, &spec, WORKERS).await?;
    ensure!(whole.files_found == u64::from(FILES), "{whole:?}");
    Ok(notes)
}

fn usual(url: &str, namenode_pid: u32) -> Result<Config> {
    Ok(Config {
        clients: 2,
        connections: 2,
        pick: Pick::All,
        duration_s: 600.0,
        server_pids: vec![namenode_pid],
        ..Config::new(url, BASE, workload("rename")?)
    })
}

/// What the stock NameNode writes in its audit log can be read to the last line, and replays without an error.
pub fn replay_of_stock() -> Result<Vec<String>> {
    let (stock, server) = (Stock::start_audited(0, &[])?, Server::start(1, 0)?);
    runtime()?.block_on(replay_log(&stock, &server))
}

async fn replay_log(stock: &Stock, server: &Server) -> Result<Vec<String>> {
    let url = format!("hdfs://{}", stock.address());
    let spec = Spec { files: FILES, ..Spec::default() };
    build(&Target::parse(&url)?, BASE, &spec, WORKERS).await?;
    // One client: what two do at once may be logged in another order than it happened.
    let mix = Config {
        workload: workload("spotify")?,
        create_share: Some(20.0),
        clients: 1,
        connections: 1,
        pick: Pick::Popular,
        duration_s: 2.0,
        ..usual(&url, stock.namenode_pid())?
    };
    let done = run(&mix).await?;
    odd_calls(&url).await?;
    let log = stock.audit_log()?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("hdfs-audit.log");
    std::fs::write(&path, &log)?;
    let config = Config {
        base: "/replay".to_owned(),
        workload: Workload::replay(),
        clients: 16,
        connections: 4,
        replay: Some(ReplayConfig::new(vec![path])),
        ..usual(&server.urls().remove(0), server.namenode_pid(0)?)?
    };
    let report = replay(&config, &Stop::default()).await?;
    let section = report.replay.as_ref().context("the report has no section of the replay")?;
    let lines = log.lines().count() as u64;
    ensure!(lines > done.total.count && section.lines == lines, "{lines} lines: {section:?}");
    ensure!(section.broken.is_empty() && section.unexplained == 0, "{section:?}");
    let [ended, skipped] = [report.total.count + report.total.refused, section.skipped_lines()];
    ensure!(report.total.errors == 0 && ended + skipped == lines, "{:?} {:?}", report.total, report.errors);
    ensure!(report.total.refused == 3 && skipped > 0, "{:?} {section:?}", report.total);
    Ok(vec![format!("{lines} lines: {ended} replayed, {skipped} skipped")])
}

/// Calls whose lines are out of the ordinary.
async fn odd_calls(url: &str) -> Result<()> {
    let client = |user: &str| {
        Client::builder(Uri::parse(url)?.namenodes).user(user).build().map_err(anyhow::Error::from)
    };
    let (owner, other) = (client(&trellis_client::user::default_user())?, client("somebody")?);
    let options = CreateOptions::default();
    owner.mkdirs("/odd", 0o700, true).await?;
    for name in ["tab\there", "line\nend", "ü𝄞", "\"quoted\" \\", "a=b, [c]", "plain"] {
        owner.create_empty(&format!("/odd/{name}"), &options).await?;
    }
    owner.rename("/odd/plain", "/odd/moved").await?;
    owner.create_empty("/odd/plain", &options).await?;
    owner.rename2("/odd/moved", "/odd/plain", true).await?;
    owner.mkdirs("/odd/dir", 0o755, false).await?;
    owner.rename("/odd/plain", "/odd/dir").await?;
    owner.truncate("/odd/dir/plain", 0).await?;
    owner.set_times("/odd/dir/plain", Some(1), Some(2)).await?;
    owner.check_access("/odd/dir/plain", 4).await?;
    owner.is_file_closed("/odd/dir/plain").await?;
    owner.get_content_summary("/odd").await?;
    owner.get_quota_usage("/odd").await?;
    owner.get_file_info("/odd/nothing").await?;
    owner.list_page("/odd/nothing", Vec::new()).await?;
    ensure!(!owner.delete("/odd/nothing", true).await?);
    ensure!(
        other.get_file_info("/odd/dir/plain").await.is_err() && other.delete("/odd/dir", true).await.is_err()
    );
    // Skipped: it concerns the whole cluster.
    owner.list_open_files("/", 0).await?;
    owner.delete("/odd/dir", true).await?;
    Ok(())
}

async fn drive_blocks(server: &Server, spec: &Spec) -> Result<Vec<String>> {
    let usual = usual(&server.urls().remove(0), server.namenode_pid(0)?)?;
    let target = Target::parse(&usual.target)?;
    let built = build(&target, BASE, spec, WORKERS).await?;
    let blocks: u64 = (0..FILES).map(|file| spec.size_of(file).div_ceil(16 << 10)).sum();
    ensure!(built.datanodes.is_some_and(|work| work.replicas == 3 * blocks), "{built:?}");
    let notes = each_workload(&usual).await?;
    let again = build(&target, BASE, spec, WORKERS).await?;
    ensure!(again.resumed && again.files_made > 0 && again.files_mended == 0, "{again:?}");
    Ok(notes)
}

/// After a restart of the namenode.
async fn found_again(server: &Server, spec: &Spec) -> Result<()> {
    let target = Target::parse(&server.urls().remove(0))?;
    let clients = target.clients(WORKERS)?;
    let until = Instant::now() + RESTART_LIMIT;
    while clients[0].get_file_info("/").await.is_err() {
        ensure!(Instant::now() < until, "the namenode does not come back");
    }
    let datanodes = datanodes(&target, BASE, spec, &spec.contents).await?;
    let there = survey(&clients, BASE, spec.clone(), datanodes.clone(), WORKERS).await?;
    ensure!(there.tree.present() == FILES && there.dirs.is_empty(), "{:?}", there.dirs);
    datanodes.as_ref().context("there are datanodes")?.report().await?;
    server.wait_until_healthy()?;
    for file in 0..FILES {
        let path = spec.file_path(BASE, file, there.tree.generation(file));
        let status = clients[0].get_file_info(&path).await?.context("it is there")?;
        let blocks = clients[0].get_block_locations(&path).await?;
        let length: u64 = blocks.iter().map(|block| block.block.length).sum();
        ensure!(length == spec.size_of(file) && length == status.length, "{path}: {length} bytes");
        let copies = usize::from(status.replication);
        ensure!(blocks.iter().all(|block| block.datanodes.len() == copies), "{path}: {blocks:?}");
    }
    Ok(())
}

fn workload(name: &str) -> Result<Workload> {
    name.parse().map_err(anyhow::Error::msg)
}

fn sound(name: &str, report: &Report) -> Result<String> {
    let total = &report.total;
    ensure!(total.count > 0 && total.errors == 0, "{name}: {total:?} {:?}", report.errors);
    Ok(format!("{name}: {} done, {} refused", total.count, total.refused))
}

//! Our own client: the namespace API against a real namenode, and calls that must be done once while namenodes die.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use e2e::cluster::{Cluster, Options};
use e2e::server::{Server, Shape, target_is_stock};
use nix::sys::signal::Signal;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use trellis_client::Client;
use trellis_client::config::{ConnectionConfig, RetryPolicy};
use trellis_client::fs::access;
use trellis_client::types::{CreateOptions, FileKind, SafeMode, SetQuota};
use trellis_client::uri::{Address, Uri};
use trellis_client::user::default_user;
use trellis_proto::exception::Kind;

/// More than two pages.
const LISTED_FILES: usize = 2100;
const WRITERS: usize = 24;
/// Operations between two kills, so that there is something to lose.
const BETWEEN_KILLS: u64 = 300;
/// Well over the member time-out that is set.
const FROZEN: Duration = Duration::from_secs(3);
/// How long the writers may take to get that far.
const LIMIT: Duration = Duration::from_secs(180);

/// Two copies of blocks as small as every namenode takes them.
fn options() -> CreateOptions {
    CreateOptions { block_size: Some(1 << 20), replication: Some(2), ..CreateOptions::default() }
}

fn addresses(server: &Server) -> Result<Vec<Address>> {
    let parse = |url: &String| Ok(Uri::parse(url)?.namenodes);
    Ok(server.urls().iter().map(parse).collect::<Result<Vec<_>>>()?.concat())
}

/// Runs a test against a new cluster, in a folder of its own.
fn with_client<F>(namenodes: usize, test: impl FnOnce(Client, String) -> F) -> Result<Vec<String>>
where
    F: Future<Output = Result<()>>,
{
    let server = Server::start(namenodes, 0)?;
    let client = Client::builder(addresses(&server)?).build()?;
    Runtime::new()?.block_on(async {
        ensure!(client.mkdirs("/client", 0o777, true).await?, "mkdirs");
        test(client, "/client".to_owned()).await
    })?;
    server.stop_and_check()?;
    Ok(Vec::new())
}

/// The kind of exception that a call must end with.
fn refused<T: std::fmt::Debug>(result: trellis_client::Result<T>, kind: Kind) -> Result<()> {
    match result {
        Err(error) if error.kind() == Some(kind) => Ok(()),
        other => Err(anyhow!("{} was expected, not {other:?}", kind.simple_name())),
    }
}

/// Directories, names, attributes, quotas.
pub fn namespace(namenodes: usize) -> Result<Vec<String>> {
    with_client(namenodes, |client, dir| async move {
        let path = |name: &str| format!("{dir}/{name}");
        let made = client.create_empty(&path("f"), &options()).await?;

        let status = client.get_file_info(&path("f")).await?.context("the file is not there")?;
        ensure!((status.kind, status.length, status.permission) == (FileKind::File, 0, 0o644), "{status:?}");
        ensure!((status.block_size, status.replication) == (1 << 20, 2), "{status:?}");
        ensure!(status.file_id == made.file_id && status.owner == default_user(), "{status:?}");
        ensure!(status.name.is_empty(), "{status:?}");
        ensure!(client.is_file_closed(&path("f")).await?, "the file is open");
        ensure!(client.get_file_info(&path("nothing")).await?.is_none(), "nothing is something");

        client.set_permission(&path("f"), 0o600).await?;
        client.set_owner(&path("f"), Some("ann"), None).await?;
        client.set_times(&path("f"), Some(123_000), None).await?;
        ensure!(client.set_replication(&path("f"), 3).await?, "setReplication");
        let status = client.get_file_info(&path("f")).await?.context("the file is gone")?;
        ensure!((status.permission, &status.owner[..]) == (0o600, "ann"), "{status:?}");
        ensure!((status.modification_time_ms, status.replication) == (123_000, 3), "{status:?}");

        ensure!(client.rename(&path("f"), &path("g")).await?, "rename");
        ensure!(!client.rename(&path("f"), &path("h")).await?, "rename of nothing");
        refused(client.rename2(&path("f"), &path("h"), false).await, Kind::FileNotFound)?;
        ensure!(client.mkdirs(&path("a/b"), 0o777, true).await?, "mkdirs");
        refused(client.delete(&path("a"), false).await, Kind::PathIsNotEmptyDirectory)?;
        refused(client.mkdirs(&path("g/x"), 0o777, true).await, Kind::ParentNotDirectory)?;

        let summary = client.get_content_summary(&dir).await?;
        ensure!((summary.file_count, summary.directory_count, summary.quota) == (1, 3, None), "{summary:?}");
        ensure!(client.delete(&dir, true).await?, "delete");
        ensure!(!client.delete(&dir, true).await?, "delete of nothing");
        Ok(())
    })
}

/// Quotas on names.
pub fn quotas() -> Result<Vec<String>> {
    with_client(1, |client, dir| async move {
        client.set_quota(&dir, SetQuota::To(2), SetQuota::Keep).await?;
        ensure!(client.mkdirs(&format!("{dir}/a"), 0o777, false).await?, "mkdirs");
        let usage = client.get_quota_usage(&dir).await?;
        ensure!(
            (usage.file_and_directory_count, usage.quota, usage.space_quota) == (2, Some(2), None),
            "{usage:?}"
        );
        refused(client.mkdirs(&format!("{dir}/b"), 0o777, false).await, Kind::NsQuotaExceeded)?;
        client.set_quota(&dir, SetQuota::Clear, SetQuota::Keep).await?;
        ensure!(client.mkdirs(&format!("{dir}/b"), 0o777, false).await?, "mkdirs");
        Ok(())
    })
}

/// A directory of several pages, filled by calls that are all under way at once.
pub fn listing() -> Result<Vec<String>> {
    with_client(1, |client, dir| async move {
        let making: Vec<_> = (0..LISTED_FILES)
            .map(|i| {
                let (client, path) = (client.clone(), format!("{dir}/f{i:05}"));
                tokio::spawn(async move { client.create_empty(&path, &options()).await.map(drop) })
            })
            .collect();
        for made in making {
            made.await??;
        }
        let mut listing = client.get_listing(&dir);
        for i in 0..LISTED_FILES {
            let entry = listing.next().await?.context("the listing ends too early")?;
            ensure!(entry.name == format!("f{i:05}"), "{entry:?} at {i}");
        }
        ensure!(listing.next().await?.is_none(), "the listing does not end");
        let children = client.get_file_info(&dir).await?.and_then(|status| status.children);
        ensure!(children == Some(LISTED_FILES as u32), "{children:?} children");
        let own = client.get_listing(&format!("{dir}/f00000")).next().await?;
        ensure!(own.is_some_and(|entry| entry.name.is_empty()), "a file is its own entry, without a name");
        Ok(())
    })
}

/// Open files, access of strangers, the cluster's own figures.
pub fn leases_and_access() -> Result<Vec<String>> {
    with_client(1, |client, dir| async move {
        let path = format!("{dir}/f");
        let mut file = client.create(&path, &options()).await?;
        ensure!(!client.is_file_closed(&path).await?, "the file is closed");
        client.renew_lease().await?;
        let addresses = client.namenodes().iter().map(|namenode| namenode.address().clone()).collect();
        let stranger = Client::builder(addresses).user("stranger").build()?;
        refused(stranger.create(&path, &options()).await, Kind::AccessControl)?;
        file.close().await?;
        ensure!(
            client.is_file_closed(&path).await? && client.recover_lease(&path).await?,
            "the file is open"
        );

        stranger.check_access(&path, access::READ).await?;
        refused(stranger.check_access(&path, access::WRITE).await, Kind::AccessControl)?;
        ensure!(!client.set_safe_mode(SafeMode::Get).await?, "safe mode");
        ensure!(client.get_server_defaults().await?.block_size > 0, "no block size");
        client.get_fs_stats().await?;
        Ok(())
    })
}

/// Namenodes die while many callers make, rename and delete: every call is answered, done once, and its answer is that
/// of its first run: a create that is repeated does not find its own file, a rename is not told that there is nothing.
pub fn done_once(namenodes: usize) -> Result<Vec<String>> {
    let rounds = rounds(if target_is_stock() { 2 } else { 8 });
    let mut server = Server::start(namenodes, 0)?;
    let load = Load::start(&addresses(&server)?, ConnectionConfig::default())?;
    let mut sofar = 0;
    for round in 0..rounds {
        sofar = load.wait_for(sofar + BETWEEN_KILLS)?;
        server.kill_namenode(round as usize % namenodes).with_context(|| format!("in round {round}"))?;
    }
    load.wait_for(sofar + BETWEEN_KILLS)?;
    let said = load.finish()?;
    server.stop_and_check()?;
    Ok(vec![format!("{rounds} kills, {said}")])
}

/// The same with namenodes that stand still until the others have evicted them, and then go on: what they still have to
/// do was done by others.
pub fn frozen() -> Result<Vec<String>> {
    let rounds = rounds(4);
    let settings = ["--set", "member_timeout=1s", "--set", "heartbeat=200ms"].map(str::to_owned).to_vec();
    let mut cluster = Cluster::start(&Options { namenodes: 3, arguments: settings, ..Options::default() })?;
    let addresses: Vec<_> = cluster.ports().iter().map(|port| Address::new("127.0.0.1", *port)).collect();
    let impatient = ConnectionConfig { call_timeout: Duration::from_secs(1), ..ConnectionConfig::default() };
    let load = Load::start(&addresses, impatient)?;
    let mut sofar = 0;
    for round in 0..rounds {
        sofar = load.wait_for(sofar + BETWEEN_KILLS)?;
        let index = round as usize % addresses.len();
        cluster.signal_namenode(index, Signal::SIGSTOP)?;
        // One that is stopped while it writes to the embedded store holds up all the others as well, till it goes on.
        sleep(FROZEN);
        cluster.signal_namenode(index, Signal::SIGCONT)?;
    }
    load.wait_for(sofar + BETWEEN_KILLS)?;
    let said = load.finish()?;
    cluster.stop()?;
    cluster.check_store()?;
    Ok(vec![format!("{rounds} freezes, {said}")])
}

/// One namenode after the other is held up, and with it what its datanodes report: files are written, appended to and
/// read through the others all the same.
pub fn frozen_owner() -> Result<Vec<String>> {
    let server = Server::trellis(&Shape::new(3, 3))?;
    let cluster = server.cluster().context("the cluster is not ours")?;
    let runtime = Runtime::new()?;
    let addresses = addresses(&server)?;
    for index in 0..addresses.len() {
        let mut others = addresses.clone();
        others.remove(index);
        let client = Client::builder(others).build()?;
        cluster.signal_namenode(index, Signal::SIGSTOP)?;
        let done = std::thread::scope(|scope| {
            // One that is stopped while it writes to the embedded store holds up all the others as well, till it goes on.
            let thaws = scope.spawn(|| {
                sleep(FROZEN);
                cluster.signal_namenode(index, Signal::SIGCONT)
            });
            let grown = runtime.block_on(grow_files(&client, &format!("/frozen-{index}")));
            thaws.join().map_err(|_| anyhow!("the thread that goes on panicked")).and(grown)
        });
        done.with_context(|| format!("while namenode {index} was stopped"))?;
    }
    server.stop_and_check()?;
    Ok(Vec::new())
}

/// Small files on all datanodes, appended to as soon as they are closed.
async fn grow_files(client: &Client, dir: &str) -> Result<()> {
    client.mkdirs(dir, 0o777, true).await?;
    let options = CreateOptions { replication: Some(3), ..options() };
    for i in 0..3 {
        let path = format!("{dir}/{i}");
        let mut file = client.create(&path, &options).await?;
        file.write(b"five\n").await?;
        file.close().await?;
        for lines in [2, 3] {
            let mut file = client.append(&path, false).await?;
            file.write(b"five\n").await?;
            file.close().await?;
            let read = client.open(&path).await?.read_at(0, 100).await?;
            ensure!(read == b"five\n".repeat(lines), "{path} has {read:?}");
        }
    }
    Ok(())
}

fn rounds(usual: u64) -> u64 {
    std::env::var("E2E_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

/// Callers that know what must be there.
struct Load {
    runtime: Runtime,
    clients: Vec<Client>,
    writers: Vec<JoinHandle<Result<BTreeSet<String>>>>,
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Load {
    fn start(addresses: &[Address], config: ConnectionConfig) -> Result<Load> {
        let runtime = Runtime::new()?;
        let (done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        // One client for each namenode to begin with, so that there are callers wherever one dies.
        let clients = (0..addresses.len())
            .map(|first| {
                let mut addresses = addresses.to_vec();
                addresses.rotate_left(first);
                // Whom each new start finds waiting longest is a matter of luck: a call may need many.
                let retry = RetryPolicy { max_failovers: 1000, ..RetryPolicy::default() };
                Ok(Client::builder(addresses)
                    .random_order(false)
                    .connection(config.clone())
                    .retry(retry)
                    .build()?)
            })
            .collect::<Result<Vec<_>>>()?;
        let writers = (0..WRITERS)
            .map(|i| {
                let client = clients[i % clients.len()].clone();
                runtime.spawn(write(client, format!("/w{i}"), done.clone(), stop.clone()))
            })
            .collect();
        Ok(Load { runtime, clients, writers, done, stop })
    }

    /// Waits until so many operations are done, or a writer has failed; how many are done.
    fn wait_for(&self, count: u64) -> Result<u64> {
        let deadline = Instant::now() + LIMIT;
        while self.done.load(Ordering::Relaxed) < count
            && !self.writers.iter().any(|writer| writer.is_finished())
        {
            ensure!(Instant::now() < deadline, "the writers do not get on");
            sleep(Duration::from_millis(5));
        }
        Ok(self.done.load(Ordering::Relaxed))
    }

    /// Ends the writers and compares what is there with what they know.
    fn finish(self) -> Result<String> {
        let Load { runtime, clients, writers, done, stop } = self;
        stop.store(true, Ordering::Relaxed);
        let resends = || clients.iter().map(|client| client.counts().resends).sum::<u64>();
        runtime.block_on(async {
            for (i, writer) in writers.into_iter().enumerate() {
                let expected = writer.await?.with_context(|| format!("writer {i}"))?;
                let mut listing = clients[0].get_listing(&format!("/w{i}"));
                let mut found = BTreeSet::new();
                while let Some(entry) = listing.next().await? {
                    found.insert(entry.name);
                }
                ensure!(found == expected, "/w{i} has {found:?}, not {expected:?}");
            }
            Ok(())
        })?;
        ensure!(resends() > 0, "no call was interrupted, so that nothing was tested");
        Ok(format!("{} operations, {} sent again", done.load(Ordering::Relaxed), resends()))
    }
}

/// Makes, renames and deletes until told to stop; gives the names that must be there then.
async fn write(
    client: Client,
    dir: String,
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    ensure!(client.mkdirs(&dir, 0o777, true).await?, "mkdirs {dir}");
    let mut i = 0;
    while !stop.load(Ordering::Relaxed) {
        let (from, to) = (format!("{dir}/a{i}"), format!("{dir}/b{i}"));
        client.create_empty(&from, &options()).await?;
        ensure!(client.rename(&from, &to).await?, "the namenode says that there is no {from}");
        match i % 3 {
            0 => ensure!(client.delete(&to, false).await?, "the namenode says that there is no {to}"),
            1 => {
                client.rename2(&to, &from, false).await?;
                names.insert(format!("a{i}"));
            }
            _ => drop(names.insert(format!("b{i}"))),
        }
        done.fetch_add(3, Ordering::Relaxed);
        i += 1;
    }
    Ok(names)
}

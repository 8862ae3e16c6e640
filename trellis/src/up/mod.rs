//! `trellis up`: a whole cluster in the foreground.
//!
//! - [`data_dir`]: the data directory: its lock, pid files, address files, logs
//! - [`child`]: one server as a child process
//! - [`node`]: keeps one server going: start, death, restart, stop
//! - [`fleet`]: namenodes for a command that goes on meanwhile

pub mod child;
pub mod data_dir;
pub mod fleet;
mod node;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use trellis_metastore::open::StoreUrl;
use trellis_namenode::store::Initialised;

use self::data_dir::{Addresses, DataDir, Kind, Member};
use self::node::{Event, Node, Stop};
use crate::config::{File, Sources};
use crate::one_thread;
use crate::output::{complain, say};
use crate::signals::Signals;
use crate::store::init::init;

/// Most namenodes that one `up` starts.
pub const MAX_NAMENODES: u16 = 64;
/// Most datanodes that one `up` starts.
const MAX_DATANODES: u16 = 64;
/// Ports of a datanode: data, IPC, HTTP.
const DATANODE_PORTS: usize = 3;
/// Replicas of a file, if there are so many datanodes.
const REPLICATION: u16 = 3;
/// What a setting of the datanodes begins with after `--set`.
const OF_DATANODES: &str = "datanode.";
/// Namenode i listens this many ports further than namenode i − 1.
const PORT_STEP: u16 = 10;

const EXAMPLE: &str = "\
Examples:
  trellis up
  trellis up --data /srv/trellis --namenodes 3 --datanodes 3 --restart
  trellis up --set lease_soft=30s --set datanode.heartbeat=1s
  trellis up --rpc-port 0 --http-port 0          any free ports; they are printed";

/// Options of `trellis up`.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Where everything is kept [default: ./trellis-data]
    #[arg(long, value_name = "DIR", env = "TRELLIS_DATA")]
    data: Option<PathBuf>,
    /// The store [default: lmdb:DATA/store]
    #[arg(long, value_name = "URL", env = "TRELLIS_STORE")]
    store: Option<StoreUrl>,
    /// How many namenodes serve the one store [default: 1]
    #[arg(long, value_name = "N", env = "TRELLIS_NAMENODES")]
    namenodes: Option<u64>,
    /// How many datanodes keep files' data; 0 = names and empty files only [default: 1]
    #[arg(long, value_name = "N", env = "TRELLIS_DATANODES")]
    datanodes: Option<u64>,
    /// RPC port of the first namenode, the next ones 10 further each; 0 = any free port [default: 8020]
    #[arg(long, value_name = "PORT", env = "TRELLIS_RPC_PORT")]
    rpc_port: Option<u16>,
    /// HTTP port of the first namenode, the next ones 10 further each; 0 = any free port [default: 9870]
    #[arg(long, value_name = "PORT", env = "TRELLIS_HTTP_PORT")]
    http_port: Option<u16>,
    /// Starts a dead namenode or datanode again
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    sources: Sources,
}

/// What was decided from flags, environment and file.
pub struct Plan {
    /// The store.
    pub store: StoreUrl,
    /// Start dead servers again?
    pub restart: bool,
    /// Where the children's settings come from.
    pub sources: Sources,
    /// The data directory, locked.
    pub data: DataDir,
    /// RPC and HTTP port of each namenode; 0 = any.
    pub ports: Vec<(u16, u16)>,
    /// How many datanodes.
    pub datanodes: u16,
    /// Whether the only namenode has the store for itself.
    pub is_alone: bool,
}

impl Plan {
    fn of(args: Args, file: File) -> Result<Plan> {
        let datanodes = args.datanodes.or(file.up.datanodes).unwrap_or(1);
        let datanodes = u16::try_from(datanodes)
            .ok()
            .filter(|datanodes| *datanodes <= MAX_DATANODES)
            .with_context(|| format!("--datanodes {datanodes}: give a number from 0 to {MAX_DATANODES}"))?;
        let namenodes = args.namenodes.or(file.up.namenodes).unwrap_or(1);
        let namenodes = u16::try_from(namenodes)
            .ok()
            .filter(|namenodes| (1..=MAX_NAMENODES).contains(namenodes))
            .with_context(|| format!("--namenodes {namenodes}: give a number from 1 to {MAX_NAMENODES}"))?;
        let rpc = ports("--rpc-port", args.rpc_port.or(file.up.rpc_port).unwrap_or(8020), namenodes)?;
        let http = ports("--http-port", args.http_port.or(file.up.http_port).unwrap_or(9870), namenodes)?;
        if let Some(port) = rpc.iter().find(|port| **port != 0 && http.contains(port)) {
            bail!(
                "port {port} would be both an RPC and an HTTP port: give --rpc-port and --http-port other numbers"
            );
        }
        let data = args.data.or(file.up.data).unwrap_or_else(|| "trellis-data".into());
        let data = DataDir::open(&data)?;
        check_free("--rpc-port", &rpc)?;
        check_free("--http-port", &http)?;
        let of_file = file.up.store.map(|url| url.parse()).transpose().map_err(|why: String| anyhow!(why))?;
        let store = args.store.or(of_file).unwrap_or_else(|| StoreUrl::Lmdb(data.store()));
        if store == StoreUrl::Mem && namenodes > 1 {
            bail!("mem: lives inside one namenode and cannot be shared by {namenodes}; use lmdb:DIR");
        }
        let restart = args.restart || file.up.restart.unwrap_or(false);
        let mut sources = args.sources;
        sources.config = sources.config.map(std::path::absolute).transpose()?;
        let ports = rpc.into_iter().zip(http).collect();
        let is_alone = matches!(store, StoreUrl::Lmdb(_)) && namenodes == 1;
        Ok(Plan { store, restart, sources, data, ports, datanodes, is_alone })
    }

    /// The ports that a server is to listen on; 0 = any.
    pub fn ports_of(&self, member: Member) -> Vec<u16> {
        match member.kind {
            Kind::Namenode => {
                self.ports.get(member.index).map(|(rpc, http)| vec![*rpc, *http]).unwrap_or_default()
            }
            Kind::Datanode => vec![0; DATANODE_PORTS],
        }
    }

    /// Replicas of files whose clients do not say; a setting has precedence.
    pub fn replication(&self) -> u16 {
        match self.datanodes {
            0 => REPLICATION,
            datanodes => datanodes.min(REPLICATION),
        }
    }

    /// What `--set` gives for servers of a kind.
    pub fn settings_of(&self, kind: Kind) -> impl Iterator<Item = &str> {
        settings_of(&self.sources, kind)
    }
}

fn settings_of(sources: &Sources, kind: Kind) -> impl Iterator<Item = &str> {
    sources.set.iter().filter_map(move |setting| match (setting.strip_prefix(OF_DATANODES), kind) {
        (of_datanodes, Kind::Datanode) => of_datanodes,
        (None, Kind::Namenode) => Some(setting),
        (Some(_), Kind::Namenode) => None,
    })
}

fn ports(option: &str, first: u16, count: u16) -> Result<Vec<u16>> {
    if first == 0 {
        return Ok(vec![0; usize::from(count)]);
    }
    let all: Option<Vec<u16>> = (0..count).map(|i| first.checked_add(PORT_STEP * i)).collect();
    all.with_context(|| {
        format!("{option} {first} leaves no room for {count} namenodes, {PORT_STEP} ports apart")
    })
}

/// Refuses ports that somebody listens on: a namenode's own complaint would know nothing of the option.
fn check_free(option: &str, ports: &[u16]) -> Result<()> {
    for (index, port) in ports.iter().enumerate().filter(|(_, port)| **port != 0) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
        TcpListener::bind(address).with_context(|| {
            format!(
                "cannot listen on {address} for namenode {index}; stop what does, or give another {option} than {}",
                ports[0]
            )
        })?;
    }
    Ok(())
}

/// Runs the cluster until it is told to stop or its last namenode is dead.
pub fn run(args: Args) -> Result<ExitCode> {
    let file = args.sources.file()?;
    // Wrong settings are told before anything is made.
    let of = |kind| Sources {
        set: settings_of(&args.sources, kind).map(str::to_owned).collect(),
        config: args.sources.config.clone(),
    };
    let config = of(Kind::Namenode).namenode()?.config;
    of(Kind::Datanode).datanode().context("settings of datanodes (--set datanode.NAME=VALUE)")?;
    let plan = Arc::new(Plan::of(args, file)?);
    say(format_args!("data in {}", plan.data.path().display()));
    if plan.store == StoreUrl::Mem {
        say("store mem:, empty at every start");
    } else {
        // Its runtime ends here and closes the store with it: only namenodes have it open.
        let Initialised { cluster_id, made } = one_thread()?.block_on(init(&plan.store, None, &config))?;
        let what = if made { "made an empty namespace" } else { "serving the names that are there" };
        say(format_args!("store {}: {what}, cluster {cluster_id}", plan.store));
    }
    // One thread, this one: children are made by it, and the kernel ends them when it ends.
    one_thread()?.block_on(async {
        let mut signals = Signals::listen()?;
        Cluster::start(plan).run(&mut signals).await
    })
}

/// The running servers. Datanodes start once all namenodes serve, whose addresses they need.
struct Cluster {
    plan: Arc<Plan>,
    namenodes: JoinSet<()>,
    datanodes: JoinSet<()>,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    stop: watch::Sender<Stop>,
    /// Of the namenodes.
    addresses: Vec<Option<Addresses>>,
    /// Datanodes that served once.
    datanodes_ready: BTreeSet<usize>,
    announced: bool,
}

impl Cluster {
    fn start(plan: Arc<Plan>) -> Cluster {
        let (sender, events) = mpsc::channel(16);
        let mut cluster = Cluster {
            addresses: vec![None; plan.ports.len()],
            plan,
            namenodes: JoinSet::new(),
            datanodes: JoinSet::new(),
            sender,
            events,
            stop: watch::Sender::new(Stop::No),
            datanodes_ready: BTreeSet::new(),
            announced: false,
        };
        for index in 0..cluster.plan.ports.len() {
            let node = cluster.node(Kind::Namenode, index, &Arc::from(""));
            cluster.namenodes.spawn(node.tend());
        }
        cluster
    }

    fn node(&self, kind: Kind, index: usize, namenodes: &Arc<str>) -> Node {
        let member = Member { kind, index };
        let (events, stop) = (self.sender.clone(), self.stop.subscribe());
        Node::new(self.plan.clone(), member, namenodes.clone(), events, stop)
    }

    async fn run(mut self, signals: &mut Signals) -> Result<ExitCode> {
        loop {
            tokio::select! {
                biased; // a death is reported before it is found that nobody is left
                () = signals.next() => {
                    say("stopping");
                    self.end(signals).await;
                    say("stopped");
                    return Ok(ExitCode::SUCCESS);
                }
                Some(event) = self.events.recv() => {
                    if let Err(error) = self.heard(event) {
                        self.end(signals).await;
                        return Err(error);
                    }
                }
                ended = self.namenodes.join_next() => if ended.is_none() {
                    self.end(signals).await;
                    let logs = self.plan.data.logs();
                    bail!("the last namenode is dead; look into {}, or start with --restart", logs.display());
                }
            }
        }
    }

    /// Reports what happened; an error ends the cluster.
    fn heard(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Ready { member, pid, addresses } => {
                let scheme = if member.kind == Kind::Namenode { "hdfs" } else { "data" };
                let Addresses { main, http, .. } = &addresses;
                let log = self.plan.data.log(member);
                say(format_args!(
                    "{member}: pid {pid}, {scheme}://{main}, http://{http}, log {}",
                    log.display()
                ));
                match member.kind {
                    Kind::Namenode => self.addresses[member.index] = Some(addresses),
                    Kind::Datanode => {
                        self.datanodes_ready.insert(member.index);
                    }
                }
                self.go_on();
                Ok(())
            }
            Event::Died { member, how, was_ready, again_in } => {
                let log = self.plan.data.log(member);
                if !was_ready && !self.announced {
                    bail!("{member} did not start ({how}); {}", data_dir::log_end(&log));
                }
                let then = match again_in {
                    Some(wait) => format!("starting it again in {} ms", wait.as_millis()),
                    None => "with --restart it would be started again".to_owned(),
                };
                complain(format_args!("{member} is dead ({how}), log {}: {then}", log.display()));
                Ok(())
            }
            Event::Fault { member, error } => Err(error.context(member.to_string())),
        }
    }

    /// Once all namenodes serve, starts the datanodes; once these serve, says that the cluster is ready.
    fn go_on(&mut self) {
        let Some(all) = self.addresses.iter().cloned().collect::<Option<Vec<_>>>() else { return };
        let rpc: Vec<String> = all.iter().map(|a| a.main.to_string()).collect();
        if self.datanodes.is_empty() && self.datanodes_ready.is_empty() {
            let namenodes: Arc<str> = rpc.join(",").into();
            for index in 0..usize::from(self.plan.datanodes) {
                let node = self.node(Kind::Datanode, index, &namenodes);
                self.datanodes.spawn(node.tend());
            }
        }
        if self.datanodes_ready.len() < usize::from(self.plan.datanodes)
            || std::mem::replace(&mut self.announced, true)
        {
            return;
        }
        say(format_args!("trellis ready: hdfs://{}", rpc.join(",")));
        self.advise(&rpc, &all);
    }

    /// Says what to try.
    fn advise(&self, rpc: &[String], all: &[Addresses]) {
        let me = std::env::args().next().unwrap_or_else(|| "trellis".to_owned());
        let data = self.plan.data.path().display();
        let list = rpc.join(",");
        say("\nTry next, in another terminal:");
        say(format_args!("  {me} fs --fs hdfs://{list} mkdir -p /tmp/first"));
        if self.plan.datanodes > 0 {
            say(format_args!("  {me} fs --fs hdfs://{list} put README.md /tmp/first"));
        }
        say(format_args!("  {me} fs --fs hdfs://{list} ls -R /"));
        say(format_args!("  hdfs dfs -fs hdfs://{} -ls -R /        with the stock Hadoop client", rpc[0]));
        say(format_args!("  {me} admin client-config --data {data} --write conf"));
        say("  HADOOP_CONF_DIR=conf hdfs dfs -ls /        over all live namenodes");
        say(format_args!("  curl http://{}/metrics", all[0].http));
        match self.plan.store {
            StoreUrl::Mem => say("Ctrl-C stops the cluster; the names go with it."),
            StoreUrl::Lmdb(_) => say("Ctrl-C stops the cluster; the files stay."),
        }
    }

    /// Ends all servers: kindly, and at once when asked a second time.
    async fn end(&mut self, signals: &mut Signals) {
        self.stop.send_replace(Stop::Kindly);
        loop {
            if self.namenodes.is_empty() && self.datanodes.is_empty() {
                return;
            }
            tokio::select! {
                Some(_) = self.namenodes.join_next() => {}
                Some(_) = self.datanodes.join_next() => {}
                Some(_) = self.events.recv() => {}
                () = signals.next() => { self.stop.send_replace(Stop::AtOnce); }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{check_free, ports};

    #[test]
    fn ports_are_ten_apart_and_never_wrap() {
        assert_eq!(ports("--rpc-port", 8020, 3).unwrap(), [8020, 8030, 8040]);
        assert_eq!(ports("--rpc-port", 0, 2).unwrap(), [0, 0]);
        assert!(ports("--rpc-port", 65_530, 2).is_err());
    }

    #[test]
    fn a_port_in_use_is_told_with_its_option() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let why = format!("{:#}", check_free("--http-port", &[0, address.port()]).unwrap_err());
        let want = format!("cannot listen on {address} for namenode 1");
        assert!(why.starts_with(&want) && why.contains("--http-port") && why.contains("in use"), "{why}");
        drop(taken);
        check_free("--http-port", &[address.port()]).unwrap();
    }
}

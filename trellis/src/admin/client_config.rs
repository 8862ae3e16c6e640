//! `trellis admin client-config`: how stock clients find all namenodes.
//!
//! One nameservice names them all. Each client shuffles the list once, stays with its first namenode, and goes on to
//! the next when that fails: all namenodes serve every call, so none of them is "standby".

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::timeout;

use crate::fs;
use crate::output::{complain, print};
use crate::up::data_dir::live;

const PROVIDER: &str = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider";
/// How often a client goes on to the next namenode before it gives up (stock: 15).
const FAILOVERS_PER_NAMENODE: usize = 5;

/// How long a namenode may take to say what files it makes.
const ASK: Duration = Duration::from_secs(2);

const EXAMPLE: &str = "\
Examples:
  trellis admin client-config --data trellis-data > hdfs-site.xml
  trellis admin client-config --namenode 10.0.0.1:8020,10.0.0.2:8020 --write conf
  HADOOP_CONF_DIR=conf hdfs dfs -ls /";

/// Options of `trellis admin client-config`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// RPC addresses of the namenodes, instead of asking the data directory
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    namenode: Vec<String>,
    /// Their HTTP addresses, in the same order, for hdfs fsck
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', requires = "namenode")]
    http: Vec<String>,
    /// The data directory of a running `trellis up`
    #[arg(long, value_name = "DIR", env = "TRELLIS_DATA", default_value = "trellis-data")]
    data: PathBuf,
    /// What clients call the cluster: hdfs://NAME
    #[arg(long, value_name = "NAME", default_value = "trellis")]
    name: String,
    /// Writes core-site.xml and hdfs-site.xml into this directory instead of printing
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    let namenodes = namenodes(&args)?;
    if args.name.is_empty() || !args.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        bail!("--name {:?}: give letters, digits and '-' only", args.name);
    }
    let (core, mut hdfs) = (core_site(&args.name), hdfs_site(&args.name, &namenodes));
    match replication(&namenodes).await {
        Some(replication) => hdfs.push(("dfs.replication".to_owned(), replication.to_string())),
        None => complain("no namenode answered: dfs.replication is left to the clients, whose default is 3"),
    }
    let Some(dir) = &args.write else {
        print(site(&[core, hdfs].concat()).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (name, properties) in [("core-site.xml", core), ("hdfs-site.xml", hdfs)] {
        write(&dir.join(name), &site(&properties))?;
    }
    complain(format_args!(
        "wrote core-site.xml and hdfs-site.xml; use them with HADOOP_CONF_DIR={}",
        dir.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Replicas that namenodes suggest. Stock clients do not ask, and want three, whatever datanodes there are.
async fn replication(namenodes: &[Namenode]) -> Option<u16> {
    let addresses: Vec<&str> = namenodes.iter().map(|namenode| namenode.rpc.as_str()).collect();
    let client = fs::client(Some(&format!("hdfs://{}", addresses.join(",")))).ok()?;
    Some(timeout(ASK, client.get_server_defaults()).await.ok()?.ok()?.replication)
}

/// Where a namenode is.
struct Namenode {
    rpc: String,
    http: Option<String>,
}

fn namenodes(args: &Args) -> Result<Vec<Namenode>> {
    if args.namenode.is_empty() {
        let live = live(&args.data)?;
        if live.is_empty() {
            bail!(
                "no namenode of a 'trellis up' runs on {}: start one, or name the namenodes with --namenode HOST:PORT,…",
                args.data.display()
            );
        }
        let found = live.into_iter().map(|(_, addresses)| Namenode {
            rpc: addresses.main.to_string(),
            http: Some(addresses.http.to_string()),
        });
        return Ok(found.collect());
    }
    if !args.http.is_empty() && args.http.len() != args.namenode.len() {
        bail!("--http: give one address for each of --namenode, or none");
    }
    for (option, addresses) in [("--namenode", &args.namenode), ("--http", &args.http)] {
        if let Some(address) = addresses.iter().find(|address| !is_address(address)) {
            bail!("{option} {address}: give HOST:PORT");
        }
    }
    let given = args.namenode.iter().enumerate();
    Ok(given.map(|(at, rpc)| Namenode { rpc: rpc.clone(), http: args.http.get(at).cloned() }).collect())
}

fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let plain = host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_[]:".contains(&b));
    !host.is_empty() && plain && port.parse::<u16>().is_ok_and(|port| port > 0)
}

type Properties = Vec<(String, String)>;

fn core_site(name: &str) -> Properties {
    vec![("fs.defaultFS".to_owned(), format!("hdfs://{name}"))]
}

fn hdfs_site(name: &str, namenodes: &[Namenode]) -> Properties {
    let ids: Vec<String> = (0..namenodes.len()).map(|index| format!("nn{index}")).collect();
    let mut all = vec![
        ("dfs.nameservices".to_owned(), name.to_owned()),
        (format!("dfs.ha.namenodes.{name}"), ids.join(",")),
        (format!("dfs.client.failover.proxy.provider.{name}"), PROVIDER.to_owned()),
        (format!("dfs.client.failover.random.order.{name}"), "true".to_owned()),
        (
            "dfs.client.failover.max.attempts".to_owned(),
            (FAILOVERS_PER_NAMENODE * namenodes.len()).max(15).to_string(),
        ),
    ];
    for (id, namenode) in ids.iter().zip(namenodes) {
        all.push((format!("dfs.namenode.rpc-address.{name}.{id}"), namenode.rpc.clone()));
        let http = namenode.http.iter();
        all.extend(http.map(|http| (format!("dfs.namenode.http-address.{name}.{id}"), http.clone())));
    }
    all
}

/// A configuration file. Names and values were checked to hold nothing that XML would need escaped.
fn site(properties: &[(String, String)]) -> String {
    let mut text = "<?xml version=\"1.0\"?>\n<configuration>\n".to_owned();
    for (name, value) in properties {
        let _ = writeln!(text, "  <property><name>{name}</name><value>{value}</value></property>");
    }
    text + "</configuration>\n"
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(namenode: &[&str]) -> Args {
        let namenode = namenode.iter().map(|s| (*s).to_owned()).collect();
        Args { namenode, http: Vec::new(), data: "nowhere".into(), name: "t".into(), write: None }
    }

    #[test]
    fn every_namenode_is_named_once() {
        let given = Args { http: vec!["a:3".into(), "b:4".into()], ..args(&["a:1", "b:2"]) };
        let nodes = namenodes(&given).unwrap();
        let text = site(&hdfs_site("t", &nodes));
        for part in [
            "<value>nn0,nn1</value>",
            "rpc-address.t.nn0</name><value>a:1<",
            "rpc-address.t.nn1</name><value>b:2<",
            "http-address.t.nn1</name><value>b:4<",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in ["a", "a:0", ":1", "a:b", "<x>:1"] {
            assert!(namenodes(&args(&[bad])).is_err(), "{bad}");
            let given = Args { http: vec![bad.to_owned()], ..args(&["a:1"]) };
            assert!(namenodes(&given).is_err(), "{bad}");
        }
        let given = Args { http: vec!["a:1".to_owned()], ..args(&["a:1", "b:2"]) };
        assert!(namenodes(&given).is_err(), "one HTTP address for two");
    }
}

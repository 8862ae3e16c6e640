//! `trellis admin client-config`: how stock clients find all namenodes.
//!
//! One nameservice names them all. Each client shuffles the list once, stays with its first namenode, and goes on to
//! the next when that fails: all namenodes serve every call, so none of them is "standby".

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::output::{complain, print};
use crate::up::data_dir::live;

const PROVIDER: &str = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider";
/// How often a client goes on to the next namenode before it gives up (stock: 15).
const FAILOVERS_PER_NAMENODE: usize = 5;

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
pub fn run(args: Args) -> Result<ExitCode> {
    let namenodes = namenodes(&args)?;
    if args.name.is_empty() || !args.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        bail!("--name {:?}: give letters, digits and '-' only", args.name);
    }
    let (core, hdfs) = (core_site(&args.name), hdfs_site(&args.name, &namenodes));
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

fn namenodes(args: &Args) -> Result<Vec<String>> {
    if args.namenode.is_empty() {
        let live = live(&args.data)?;
        if live.is_empty() {
            bail!(
                "no namenode of a 'trellis up' runs on {}: start one, or name the namenodes with --namenode HOST:PORT,…",
                args.data.display()
            );
        }
        return Ok(live.iter().map(|(_, addresses)| addresses.main.to_string()).collect());
    }
    for address in &args.namenode {
        let parts = address.rsplit_once(':');
        let port = parts.and_then(|(_, port)| port.parse::<u16>().ok());
        let host = parts.map_or("", |(host, _)| host);
        let plain = host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_[]:".contains(&b));
        if host.is_empty() || !plain || port.is_none_or(|port| port == 0) {
            bail!("--namenode {address}: give HOST:PORT");
        }
    }
    Ok(args.namenode.clone())
}

type Properties = Vec<(String, String)>;

fn core_site(name: &str) -> Properties {
    vec![("fs.defaultFS".to_owned(), format!("hdfs://{name}"))]
}

fn hdfs_site(name: &str, namenodes: &[String]) -> Properties {
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
    for (id, address) in ids.iter().zip(namenodes) {
        all.push((format!("dfs.namenode.rpc-address.{name}.{id}"), address.clone()));
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
        Args { namenode, data: "nowhere".into(), name: "t".into(), write: None }
    }

    #[test]
    fn every_namenode_is_named_once() {
        let nodes = namenodes(&args(&["a:1", "b:2"])).unwrap();
        let text = site(&hdfs_site("t", &nodes));
        for part in [
            "<value>nn0,nn1</value>",
            "rpc-address.t.nn0</name><value>a:1<",
            "rpc-address.t.nn1</name><value>b:2<",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in ["a", "a:0", ":1", "a:b", "<x>:1"] {
            assert!(namenodes(&args(&[bad])).is_err(), "{bad}");
        }
    }
}

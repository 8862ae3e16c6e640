//! The stock programs of `hadoop/harness`: commands, recorders, and whether this machine can run them at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// The `e2e/hadoop` folder.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("hadoop")
}

/// What keeps the Java tests from running here, if anything does.
pub fn missing_java() -> Option<String> {
    missing(&[("bash", "--version"), ("java", "-version"), ("javac", "-version"), ("mvn", "-version")])
}

/// What keeps the Python probes from running here, if anything does.
pub fn missing_python() -> Option<String> {
    missing(&[("python3", "--version")])
}

fn missing(programs: &[(&str, &str)]) -> Option<String> {
    let absent: Vec<&str> = programs
        .iter()
        .filter(|(program, flag)| {
            let run = Command::new(program).arg(flag).stdout(Stdio::null()).stderr(Stdio::null()).status();
            !run.is_ok_and(|status| status.success())
        })
        .map(|(program, _)| *program)
        .collect();
    if absent.is_empty() { None } else { Some(format!("no {} on this machine", absent.join(", "))) }
}

/// A client configuration and the programs that use it.
pub struct Hadoop {
    conf: PathBuf,
}

impl Hadoop {
    /// Writes a configuration below `dir` (with `mkconf`) whose default file system is that namenode's. `settings`
    /// (name=value) go to hdfs-site.xml. The HTTP port matters only to the stock NameNode.
    pub fn configure(dir: &Path, rpc_port: u16, http_port: u16, settings: &[&str]) -> Result<Hadoop> {
        let made = Command::new(folder().join("harness/mkconf"))
            .arg(dir)
            .args([rpc_port.to_string(), http_port.to_string()])
            .args(settings)
            .output()
            .context("running mkconf")?;
        let conf = PathBuf::from(stdout_of("mkconf", &made)?.trim());
        Ok(Hadoop { conf })
    }

    /// The programs with a configuration that exists.
    pub fn with_conf(conf: &Path) -> Hadoop {
        Hadoop { conf: conf.to_owned() }
    }

    /// The folder with core-site.xml and hdfs-site.xml.
    pub fn conf(&self) -> &Path {
        &self.conf
    }

    /// `hdfs ARGS` with this configuration, not yet started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(folder().join("harness/hdfs"));
        command
            .args(args)
            .env("HADOOP_CONF_DIR", &self.conf)
            .env_remove("HADOOP_USER_NAME")
            .stdin(Stdio::null());
        command
    }

    /// Runs a recorder (`hdfs probe NAME ARGS`), fed with a file if one is given, and returns what it printed.
    pub fn probe(&self, name: &str, args: &[String], input: Option<&Path>) -> Result<String> {
        let mut command = self.command(&["probe", name]);
        command.args(args);
        if let Some(path) = input {
            command.stdin(fs::File::open(path).with_context(|| format!("opening {}", path.display()))?);
        }
        let output = command.output().with_context(|| format!("running hdfs probe {name}"))?;
        stdout_of(name, &output)
    }
}

/// name=value settings of one nameservice of all these namenodes, which is then the default file system as well.
pub fn nameservice(addresses: &[String]) -> Vec<String> {
    let ids: Vec<String> = (0..addresses.len()).map(|index| format!("n{index}")).collect();
    let mut all = vec![
        "fs.defaultFS=hdfs://ns".to_owned(),
        "dfs.nameservices=ns".to_owned(),
        format!("dfs.ha.namenodes.ns={}", ids.join(",")),
        "dfs.client.failover.proxy.provider.ns=\
         org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
            .to_owned(),
    ];
    let one = |(id, address)| format!("dfs.namenode.rpc-address.ns.{id}={address}");
    all.extend(ids.iter().zip(addresses).map(one));
    all
}

/// What a program printed; an error with the end of its stderr when it failed.
pub fn stdout_of(name: &str, output: &Output) -> Result<String> {
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8_lossy(&output.stdout);
        bail!("{name} ended with {}:\n{}\n{}", output.status, tail(&stdout, 20), tail(&stderr, 40));
    }
    String::from_utf8(output.stdout.clone())
        .with_context(|| format!("{name} printed something that is not UTF-8"))
}

/// The last `lines` lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

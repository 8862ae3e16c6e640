//! What clients of several namenodes do not notice: the death of one, and a stop and start of all.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::cluster::{Cluster, Options};
use e2e::hadoop::{Hadoop, folder};
use e2e::server::client_config;
use nix::sys::signal::Signal;

/// What comes after this in the recorded transcript asks each namenode by itself under high availability.
const ADMINISTRATION: &str = "# Administration";
const END_OF_PART: &str = "# end of part";

/// The stock shell, configured by `trellis admin client-config` for three namenodes, of which two die on the way: every
/// command still does and prints what it did against the stock NameNode.
pub fn failover() -> Result<Vec<String>> {
    let cluster = Cluster::start(&Options { namenodes: 3, ..Options::default() })?;
    let conf = tempfile::tempdir()?;
    client_config(cluster.data(), conf.path(), &["dfs.replication=1"])?;
    let recorded = fs::read_to_string(folder().join("wire/shell.txt"))?;
    let (expected, _) =
        recorded.split_once(ADMINISTRATION).ok_or_else(|| anyhow!("shell.txt has changed"))?;
    let lines: Vec<&str> = expected.lines().collect();
    let mut shell = Hadoop::with_conf(conf.path())
        .command(&["probe", "Shells"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null()) // what the client logs about namenodes that died
        .spawn()
        .context("starting the shell")?;
    let mut stdin = shell.stdin.take().ok_or_else(|| anyhow!("the shell has no stdin"))?;
    let mut stdout =
        BufReader::new(shell.stdout.take().ok_or_else(|| anyhow!("the shell has no stdout"))?).lines();
    let mut actual = String::new();
    let third = lines.len() / 3;
    for (index, part) in
        [&lines[..third], &lines[third..2 * third], &lines[2 * third..]].into_iter().enumerate()
    {
        if index > 0 {
            cluster.signal_namenode(index - 1, Signal::SIGKILL)?;
        }
        writeln!(stdin, "{}\n{END_OF_PART}", part.join("\n"))?; // a comment is printed when it is its turn
        loop {
            let line = stdout.next().ok_or_else(|| anyhow!("the shell ended after:\n{actual}"))??;
            if line == END_OF_PART {
                break;
            }
            actual.push_str(&line);
            actual.push('\n');
        }
    }
    drop(stdin);
    ensure!(shell.wait()?.success(), "the shell failed");
    let differs = expected.trim_end().lines().zip(actual.trim_end().lines()).find(|(want, got)| want != got);
    if let Some((want, got)) = differs {
        return Err(anyhow!("expected: {want}\n     got: {got}\nin:\n{actual}"));
    }
    ensure!(actual.trim_end() == expected.trim_end(), "the transcript ends early or late:\n{actual}");
    Ok(Vec::new())
}

/// A cluster stopped and started again, with more namenodes, serves the same names.
pub fn same_names_after_restart() -> Result<Vec<String>> {
    let data = tempfile::tempdir()?;
    let started = |namenodes| {
        Cluster::start(&Options { namenodes, data: Some(data.path().join("data")), ..Options::default() })
    };
    let run = |cluster: &Cluster, commands: &str| -> Result<String> {
        let folder = tempfile::tempdir()?;
        let port = cluster.ports().last().copied().unwrap_or_default();
        let hadoop = Hadoop::configure(folder.path(), port, 0, &[])?;
        let input = folder.path().join("commands");
        fs::write(&input, commands)?;
        hadoop.probe("Shells", &[], Some(&input))
    };
    let show = "dfs -ls -R /\ndfs -count -q /\n";
    let make = "dfs -mkdir -p /a/b/c /a/d\ndfs -touchz /a/b/f /a/g\ndfs -setrep 3 /a/g\ndfs -chown -R alice:bin /a/b\ndfs -chmod 1770 /a/d\ndfs -mv /a/g /a/d\n";
    let mut cluster = started(1)?;
    let made = run(&cluster, make)?;
    ensure!(!made.contains('!'), "the names were not made:\n{made}");
    let before = run(&cluster, show)?;
    ensure!(before.contains("/a/d/g"), "the names are not there:\n{before}");
    cluster.stop()?;
    cluster.check_store()?;
    let mut again = started(2)?;
    let after = run(&again, show)?;
    ensure!(before == after, "before:\n{before}\nafter:\n{after}");
    again.stop()?;
    Ok(Vec::new())
}

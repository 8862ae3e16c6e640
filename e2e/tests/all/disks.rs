//! Datanodes that lose what they had, or move: replicas come back, readers see nothing of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::disk::{blocks, flip, forget_scans, wipe};
use e2e::server::{IMPATIENT, Server};
use e2e::stock::{Datanode, wait_for_datanodes};
use e2e::talk::Talk;
use e2e::wait;
use nix::sys::signal::Signal;

const BLOCK: u64 = 1 << 16;
const LENGTH: u64 = 5 * BLOCK - 7;

fn files(server: &Server) -> Result<Talk> {
    Talk::start(server.client(&IMPATIENT)?.command(&["probe", "Files"]))
}

fn write(files: &mut Talk, path: &str, replication: usize) -> Result<()> {
    files.ask_right(&format!("write {path} {LENGTH} {BLOCK} {replication} 0"))?;
    files.hear_right()?;
    Ok(())
}

fn check(files: &mut Talk, path: &str) -> Result<()> {
    let length = files.ask_right(&format!("check {path}"))?;
    ensure!(length == LENGTH.to_string(), "{path} has {length} bytes, not {LENGTH}");
    Ok(())
}

/// Changes a datanode's disk while it cannot see it, and starts it again.
fn behind_its_back(
    server: &mut Server,
    datanode: usize,
    harm: impl FnOnce(PathBuf) -> Result<()>,
) -> Result<()> {
    server.signal_datanode(datanode, Signal::SIGSTOP)?;
    harm(server.datanode_data(datanode)?)?;
    server.kill_datanode(datanode)
}

/// A datanode whose disk was wiped is filled again.
pub fn wiped() -> Result<Vec<String>> {
    let mut server = Server::start(1, 3)?;
    let mut files = files(&server)?;
    write(&mut files, "/wiped", 3)?;
    wait("three replicas on disk", || Ok(blocks(&server.datanode_data(0)?)?.len() == 5))?;
    behind_its_back(&mut server, 0, |folder| wipe(&folder))?;
    check(&mut files, "/wiped")?;
    wait("the wiped disk is full again", || Ok(blocks(&server.datanode_data(0)?)?.len() == 5))?;
    check(&mut files, "/wiped")?;
    files.end()?;
    server.wait_until_healthy()?;
    server.stop_and_check()?;
    Ok(Vec::new())
}

/// Case D3: a replica that is lost while its datanode is down is not listed after the next report, and is made again.
pub fn replica_lost_while_down() -> Result<Vec<String>> {
    let mut server = Server::start(1, 2)?;
    let mut files = files(&server)?;
    write(&mut files, "/lost", 2)?;
    wait("both replicas on disk", || Ok(blocks(&server.datanode_data(0)?)?.len() == 5))?;
    behind_its_back(&mut server, 0, |folder| {
        let lost = blocks(&folder)?.into_iter().next().context("the datanode has no block")?;
        std::fs::remove_file(lost)?;
        Ok(())
    })?;
    check(&mut files, "/lost")?;
    wait("the lost replica is made again", || {
        check(&mut files, "/lost")?; // no read ever fails
        Ok(blocks(&server.datanode_data(0)?)?.len() == 5)
    })?;
    wait("both replicas are listed", || Ok(files.ask_right("replicas /lost")? == "2"))?;
    files.end()?;
    server.stop_and_check()?;
    Ok(Vec::new())
}

/// A bit that flipped on disk is found by readers, who read elsewhere and tell; the replica is made again.
pub fn flipped_found_by_reader() -> Result<Vec<String>> {
    let server = Server::start(1, 3)?;
    let mut files = files(&server)?;
    write(&mut files, "/flipped", 2)?;
    let damaged = damage(&server)?;
    wait("readers find the flipped bit and it is mended", || {
        check(&mut files, "/flipped")?;
        is_mended(&server, &damaged, &mut files)
    })?;
    files.end()?;
    server.stop_and_check()?;
    Ok(Vec::new())
}

/// A bit that flipped on disk is found by the datanode's scanner although nobody reads.
pub fn flipped_found_by_scanner() -> Result<Vec<String>> {
    let mut server = Server::start(1, 3)?;
    let mut files = files(&server)?;
    write(&mut files, "/flipped", 2)?;
    let mut damaged = PathBuf::new();
    let holder = (0..3)
        .find(|index| {
            server.datanode_data(*index).and_then(|folder| blocks(&folder)).is_ok_and(|all| !all.is_empty())
        })
        .context("nobody holds a block")?;
    behind_its_back(&mut server, holder, |folder| {
        damaged = blocks(&folder)?.into_iter().next().context("no block")?;
        forget_scans(&folder)?;
        flip(&damaged)
    })?;
    wait("the scanner finds the flipped bit and it is mended", || is_mended(&server, &damaged, &mut files))?;
    check(&mut files, "/flipped")?;
    files.end()?;
    server.stop_and_check()?;
    Ok(Vec::new())
}

/// Flips a bit of one replica of the first block.
fn damage(server: &Server) -> Result<PathBuf> {
    let mut all = Vec::new();
    for index in 0..3 {
        all.extend(blocks(&server.datanode_data(index)?)?);
    }
    all.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    let damaged = all.into_iter().next().context("nobody holds a block")?;
    flip(&damaged)?;
    Ok(damaged)
}

/// Whether all replicas of that block that are on disk are the same again, and there are two.
fn is_mended(server: &Server, damaged: &Path, files: &mut Talk) -> Result<bool> {
    let mut replicas = Vec::new();
    for index in 0..3 {
        for path in blocks(&server.datanode_data(index)?)? {
            if path.file_name() == damaged.file_name() {
                // it may be removed at this moment
                replicas.push(std::fs::read(&path).unwrap_or_default());
            }
        }
    }
    let equal = replicas.len() == 2 && replicas[0] == replicas[1];
    Ok(equal && files.ask_right("replicas /flipped")? == "2")
}

/// Case D1: a datanode is known by its address and its name; one that comes back elsewhere is the same one.
pub fn moved() -> Result<Vec<String>> {
    let server = Server::start(1, 1)?;
    let dir = tempfile::tempdir()?;
    let ports = server.ports()?;
    let settings = ["dfs.datanode.hostname=localhost"];
    let mut datanode = Datanode::start(dir.path(), "DataNode of a name", &ports[..1], &settings)?;
    wait_for_datanodes(server.hadoop(), 2).with_context(|| datanode.log_tail())?;
    let by_name = ["dfs.client.use.datanode.hostname=true"];
    let mut files =
        Talk::start(server.client(&[&IMPATIENT[..], &by_name].concat())?.command(&["probe", "Files"]))?;
    write(&mut files, "/moved", 2)?;
    check(&mut files, "/moved")?;
    let report = || -> Result<(usize, Vec<String>)> {
        let output = server.hadoop().command(&["dfsadmin", "-report"]).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let names: Vec<String> =
            said.lines().filter(|line| line.starts_with("Name: ")).map(ToOwned::to_owned).collect();
        Ok((said.lines().filter(|line| *line == "Hostname: localhost").count(), names))
    };
    let (named, before) = report()?;
    ensure!(named == 1 && before.len() == 2, "the report names {before:?}");
    datanode.restart()?; // on other ports
    wait("it is back, under its new address only", || {
        let (named, after) = report()?;
        ensure!(after.len() <= 2, "one datanode is listed twice: {after:?}");
        Ok(named == 1 && after.iter().any(|name| !before.contains(name)))
    })?;
    check(&mut files, "/moved")?;
    wait("its replicas are listed", || Ok(files.ask_right("replicas /moved")? == "2"))?;
    files.end()?;
    drop(datanode);
    server.stop_and_check()?;
    Ok(Vec::new())
}

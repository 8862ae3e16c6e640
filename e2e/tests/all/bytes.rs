//! Files with data: the stock client puts, gets and changes them.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::hadoop::{Hadoop, folder, stdout_of};
use e2e::long;
use e2e::recording::{matches_recorded, transcript};
use e2e::server::{PATIENT_CLOSE, Server};
use e2e::stock::{Datanode, wait_for_datanodes};
use e2e::table::Columns;

const MB: u64 = 1 << 20;

/// Bytes that differ from place to place and from run to run of a seed, the same in every test.
fn fill(path: &Path, length: u64, seed: u64) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for at in (0..length).step_by(8) {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        let bytes = word.to_le_bytes();
        file.write_all(&bytes[..(length - at).min(8) as usize])?;
    }
    file.flush().context("writing a local file")
}

fn equal(a: &Path, b: &Path) -> Result<bool> {
    if fs::metadata(a)?.len() != fs::metadata(b)?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (BufReader::new(File::open(a)?), BufReader::new(File::open(b)?));
    let (mut left, mut right) = (vec![0; MB as usize], vec![0; MB as usize]);
    loop {
        let count = a.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        b.read_exact(&mut right[..count])?;
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

/// Shell commands, run in one JVM, in a folder of local files; the answer is their transcript.
fn shell(hadoop: &Hadoop, work: &Path, urls: &[String], commands: &str) -> Result<String> {
    let input = work.join(".commands");
    fs::write(&input, commands)?;
    let mut command = hadoop.command(&["probe", "Shells"]);
    command.args(urls).current_dir(work).stdin(File::open(&input)?);
    let output = command.output().context("running the shell")?;
    stdout_of("Shells", &output)
}

/// What the stock shell does with small files, command by command, and its exit codes.
pub fn commands(namenodes: usize) -> Result<Vec<String>> {
    let server = Server::start(namenodes, 3)?;
    let work = tempfile::tempdir()?;
    fill(&work.path().join("small"), 3000, 1)?;
    fill(&work.path().join("block"), 4096, 2)?;
    fs::write(work.path().join("five"), "five\n")?;
    fs::write(work.path().join("moved"), "moved away\n")?;
    let lines: String = (1..=40).map(|number| format!("line {number} {}\n", "-".repeat(60))).collect();
    fs::write(work.path().join("lines"), lines)?;
    let recorded = fs::read_to_string(folder().join("wire/shell-data.txt"))?;
    let hadoop = server.client(&[PATIENT_CLOSE])?;
    let actual = shell(&hadoop, work.path(), &server.urls(), &recorded)?;
    let notes = matches_recorded("shell-data.txt", &actual, transcript, Columns { key: 1, compared: 2 })?;
    for (original, copy) in [("small", "got"), ("lines", "got-lines"), ("small", "got-d/small2")] {
        ensure!(equal(&work.path().join(original), &work.path().join(copy))?, "{copy} is not {original}");
    }
    let concatenated = fs::read(work.path().join("got-t1"))?;
    let block = fs::read(work.path().join("block"))?;
    ensure!(concatenated == [&block[..], &block[..], b"five\n"].concat(), "concat gave other bytes");
    server.stop_and_check()?;
    Ok(notes)
}

/// A file of many blocks, through clients that are spread over the namenodes: every copy of it has its bytes.
pub fn many_blocks(namenodes: usize) -> Result<Vec<String>> {
    let (size, block) = if long() { (300 * MB, 16 * MB) } else { (40 * MB, 4 * MB) };
    let server = Server::start(namenodes, 3)?;
    let hadoop = server.spread_client(&[&format!("dfs.blocksize={block}")])?;
    let work = tempfile::tempdir()?;
    let (whole, more) = (work.path().join("whole"), work.path().join("more"));
    fill(&whole, size, 3)?;
    fill(&more, MB + 1, 4)?;
    let cut = size - block - 7;
    let said = shell(
        &hadoop,
        work.path(),
        &[],
        &format!(
            "dfs -mkdir /m\ndfs -put whole /m/f\ndfs -get /m/f got\ndfs -cp /m/f /m/copy\ndfs -checksum /m/f\n\
             dfs -checksum /m/copy\ndfs -appendToFile more /m/f\ndfs -get /m/f appended\n\
             dfs -truncate -w {cut} /m/copy\ndfs -get /m/copy cut\ndfs -appendToFile more /m/copy\n\
             dfs -get /m/copy mended\ndfs -getmerge /m merged\n"
        ),
    )?;
    let failed: Vec<&str> = said.lines().filter(|line| line.starts_with("= ") && *line != "= 0").collect();
    ensure!(failed.is_empty(), "a command failed:\n{said}");
    let sums: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("CRC32C"))
        .filter_map(|line| line.split('\t').next_back())
        .collect();
    ensure!(sums.len() == 2 && sums[0] == sums[1], "a copy has another checksum:\n{said}");
    let (whole, more) = (fs::read(whole)?, fs::read(more)?);
    let mended = [&whole[..cut as usize], &more].concat();
    let appended = [&whole[..], &more].concat();
    for (name, want) in [
        ("got", &whole),
        ("appended", &appended),
        ("cut", &whole[..cut as usize].to_vec()),
        ("mended", &mended),
        ("merged", &[&mended[..], &appended].concat()),
    ] {
        ensure!(fs::read(work.path().join(name))? == *want, "{name} has other bytes than it should");
    }
    server.stop_and_check()?;
    Ok(Vec::new())
}

/// Reads and writes of blocks by hand.
pub fn data_transfer() -> Result<Vec<String>> {
    let server = Server::start(1, 1)?;
    let work = tempfile::tempdir()?;
    fs::write(work.path().join("zeros"), vec![0; 3000])?;
    let said =
        shell(server.hadoop(), work.path(), &[], "dfs -D dfs.blocksize=1048576 -put zeros /dtprobe\n")?;
    ensure!(said.contains("= 0"), "put failed:\n{said}");
    let output = Command::new(folder().join("harness/dtprobe.py"))
        .args([server.ports()?[0].to_string(), "/dtprobe".to_owned()])
        .output()
        .context("running dtprobe.py")?;
    let said = stdout_of("dtprobe.py", &output)?;
    matches_recorded(
        "dtprobe.txt",
        &said,
        |text| format!("exchange\n{text}"),
        Columns { key: 1, compared: 1 },
    )
}

/// A DataNode of the stock kind serves put and get beside another datanode.
pub fn stock_datanode(namenodes: usize) -> Result<Vec<String>> {
    let server = Server::start(namenodes, 1)?;
    let dir = tempfile::tempdir()?;
    let mut ports = server.ports()?;
    ports.dedup(); // the stock NameNode is alone under its many names
    let datanode = Datanode::start(dir.path(), "DataNode beside", &ports, &[])?;
    let hadoop = server.spread_client(&["dfs.blocksize=1048576", "dfs.replication=2"])?;
    wait_for_datanodes(server.hadoop(), 2).with_context(|| datanode.log_tail())?;
    let work = tempfile::tempdir()?;
    let whole = work.path().join("whole");
    fill(&whole, 5 * MB + 1, 5)?;
    let said = shell(
        &hadoop,
        work.path(),
        &[],
        "dfs -put whole /beside\ndfs -get /beside got\ndfs -appendToFile whole /beside\ndfs -get /beside twice\n\
         dfs -truncate -w 5242881 /beside\ndfs -get /beside again\ndfs -setrep -w 1 /beside\ndfs -setrep -w 2 /beside\n",
    )?;
    let failed = said.lines().any(|line| line.starts_with("= ") && line != "= 0");
    ensure!(!failed, "a command failed:\n{said}\n{}", datanode.log_tail());
    ensure!(equal(&whole, &work.path().join("got"))?, "other bytes came back");
    ensure!(equal(&whole, &work.path().join("again"))?, "other bytes came back after append and truncate");
    let whole = fs::read(&whole)?;
    ensure!(fs::read(work.path().join("twice"))? == [&whole[..], &whole].concat(), "append gave other bytes");
    ensure!(!e2e::disk::blocks(&datanode.data())?.is_empty(), "the stock DataNode holds no block");
    drop(datanode);
    server.stop_and_check()?;
    Ok(Vec::new())
}

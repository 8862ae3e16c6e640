//! Our datanodes in a stock cluster: the stock NameNode leads, the stock client writes and reads, a stock DataNode
//! stands in the same pipelines.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::datanode::Datanode;
use e2e::hadoop::{Hadoop, folder, stdout_of};
use e2e::stock::Stock;

/// No step takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// A stock NameNode, stock DataNodes and ours.
struct Mixed {
    stock: Stock,
    hadoop: Hadoop,
    ours: Vec<Datanode>,
    dir: tempfile::TempDir,
}

impl Mixed {
    fn start(stock: usize, ours: usize) -> Result<Mixed> {
        // A datanode that is gone counts as dead after 12 s, not ten minutes.
        let settings = [
            "dfs.namenode.replication.work.multiplier.per.iteration=20",
            "dfs.namenode.heartbeat.recheck-interval=1000",
        ];
        let stock = Stock::start(stock, &settings)?;
        let hadoop = stock.client()?;
        let mut mixed = Mixed { stock, hadoop, ours: Vec::new(), dir: tempfile::tempdir()? };
        for index in 0..ours {
            let folder = mixed.dir.path().join(format!("ours-{index}"));
            mixed.ours.push(Datanode::start(&mixed.stock.address(), &folder)?);
        }
        Ok(mixed)
    }

    fn dfs(&self, args: &[&str]) -> Result<String> {
        let output = self.hadoop.command(&[&["dfs"], args].concat()).output()?;
        stdout_of(&format!("dfs {}", args.join(" ")), &output)
    }

    /// A file of bytes without a pattern.
    fn file(&self, name: &str, len: usize) -> Result<String> {
        let path = self.dir.path().join(name);
        let mut state = len as u64 | 1;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        })
        .take(len)
        .collect();
        fs::write(&path, bytes)?;
        Ok(path.display().to_string())
    }

    /// Gets a file and compares it.
    fn check(&self, path: &str, want: &[u8]) -> Result<()> {
        let got = self.dir.path().join("got");
        let _ = fs::remove_file(&got); // of the check before
        self.dfs(&["-get", path, &got.display().to_string()])?;
        ensure!(fs::read(&got)? == want, "{path} has other bytes");
        Ok(())
    }
}

fn read(path: &str) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {path}"))
}

/// put, get, checksum, append, truncate and setrep with every block on a stock DataNode and three of ours.
pub fn mixed_pipelines() -> Result<Vec<String>> {
    let mixed = Mixed::start(1, 3)?;
    let (big, small) = (mixed.file("big", 20_000_001)?, mixed.file("small", 700)?);
    let four = ["-D", "dfs.replication=4", "-D", "dfs.blocksize=4194304"];
    for name in ["/a", "/b", "/c"] {
        // The order of a pipeline is drawn anew for each block.
        mixed.dfs(&[&four[..], &["-put", &big, name]].concat())?;
        mixed.check(name, &read(&big)?)?;
    }
    let sum = |name| mixed.dfs(&["-checksum", name]).map(|said| said.split('\t').nth(2).map(str::to_owned));
    ensure!(sum("/a")? == sum("/b")?, "checksums differ");
    mixed.dfs(&[&four[..], &["-put", &small, "/d"]].concat())?;
    mixed.dfs(&["-appendToFile", &big, "/d"])?;
    let whole = [read(&small)?, read(&big)?].concat();
    mixed.check("/d", &whole)?;
    mixed.dfs(&["-truncate", "-w", "1000001", "/d"])?;
    mixed.check("/d", &whole[..1_000_001])?;
    mixed.dfs(&["-setrep", "-w", "1", "/a"])?;
    mixed.dfs(&["-setrep", "-w", "4", "/a"])?;
    mixed.check("/a", &read(&big)?)?;
    mixed.dfs(&["-rm", "-skipTrash", "/a", "/b", "/c", "/d"])?;
    let begun = Instant::now();
    while mixed.ours.iter().any(|ours| has_blocks(ours.folder())) {
        ensure!(begun.elapsed() < LIMIT, "deleted blocks stay");
        sleep(Duration::from_millis(200));
    }
    Ok(Vec::new())
}

/// What the data-transfer probe got from a stock DataNode it gets from ours.
pub fn probe() -> Result<Vec<String>> {
    let mixed = Mixed::start(0, 1)?;
    let zeros = mixed.dir.path().join("zeros");
    fs::write(&zeros, [0; 3000])?;
    let put = ["-D", "dfs.blocksize=1048576", "-D", "dfs.replication=1", "-put"];
    mixed.dfs(&[&put[..], &[&zeros.display().to_string(), "/dtprobe"]].concat())?;
    let port = mixed.stock.address();
    let port = port.rsplit(':').next().unwrap_or_default();
    let mut probe = Command::new(folder().join("harness/dtprobe.py"));
    let said = stdout_of("dtprobe.py", &probe.args([port, "/dtprobe"]).output()?)?;
    let recorded = fs::read_to_string(folder().join("wire/dtprobe.txt"))?;
    ensure!(said == recorded, "the probe got\n{said}\ninstead of\n{recorded}");
    Ok(Vec::new())
}

/// A datanode of ours dies while the stock client writes; it comes back; a wiped one is filled again.
pub fn deaths() -> Result<Vec<String>> {
    let mut mixed = Mixed::start(0, 3)?;
    let big = mixed.file("big", 60_000_000)?;
    let put = ["-D", "dfs.replication=3", "-D", "dfs.blocksize=8388608", "-put"];
    for round in 0..3 {
        let name = format!("/round-{round}");
        let mut writer = mixed.hadoop.command(&[&["dfs"], &put[..], &[&big, &name]].concat()).spawn()?;
        let victim = &mut mixed.ours[round];
        let begun = Instant::now();
        while !is_writing(victim.folder()) {
            ensure!(
                begun.elapsed() < LIMIT && writer.try_wait()?.is_none(),
                "nothing was seen being written"
            );
            sleep(Duration::from_millis(2));
        }
        victim.kill()?;
        let folder = victim.folder().to_owned();
        ensure!(writer.wait()?.success(), "the stock client gave up");
        mixed.ours[round] = Datanode::start(&mixed.stock.address(), &folder)?;
        mixed.check(&name, &read(&big)?)?;
    }
    // A pipeline that lost two leaves one replica: no disk may go before it was copied.
    mixed.dfs(&["-setrep", "-w", "3", "/round-0", "/round-1", "/round-2"])?;
    let wiped = mixed.ours[0].folder().to_owned();
    mixed.ours[0].kill()?;
    fs::remove_dir_all(&wiped)?;
    mixed.ours[0] = Datanode::start(&mixed.stock.address(), &wiped)?;
    let begun = Instant::now();
    while !has_blocks(&wiped) {
        ensure!(begun.elapsed() < LIMIT, "nothing is copied to the wiped one");
        sleep(Duration::from_millis(200));
    }
    let whole = read(&big)?;
    for round in 0..3 {
        mixed.check(&format!("/round-{round}"), &whole)?;
    }
    Ok(Vec::new())
}

/// Whether files of blocks lie below a folder.
fn has_blocks(folder: &Path) -> bool {
    any_below(folder, &|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("blk_")))
}

/// Whether a replica is being written.
fn is_writing(folder: &Path) -> bool {
    any_below(folder, &|path| path.parent().is_some_and(|dir| dir.ends_with("rbw")) && path.is_file())
}

fn any_below(folder: &Path, is_it: &dyn Fn(&Path) -> bool) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        is_it(&path) || path.is_dir() && any_below(&path, is_it)
    })
}

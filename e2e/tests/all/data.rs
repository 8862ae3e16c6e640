//! Our own client writes and reads files: against the stock NameNode and DataNodes, beside the stock client, while
//! DataNodes die and disks lie.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::disk;
use e2e::hadoop::{Hadoop, stdout_of};
use e2e::stock::{Stock, signal};
use nix::sys::signal::Signal;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};
use trellis_client::types::CreateOptions;
use trellis_client::uri::Uri;
use trellis_client::{Client, FileWriter};

const MIB: usize = 1 << 20;
/// No step takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Small blocks, three copies.
fn options() -> CreateOptions {
    CreateOptions { block_size: Some(4 << 20), replication: Some(3), ..CreateOptions::default() }
}

/// Bytes without a pattern, the same for the same length and seed.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut out = vec![0; len];
    for word in out.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
    out
}

/// Runs a test against a stock cluster of three DataNodes.
fn with_stock<F>(test: impl FnOnce(Client, Stock, PathBuf) -> F) -> Result<Vec<String>>
where
    F: Future<Output = Result<()>>,
{
    let stock = Stock::start(3, &[])?;
    let dir = tempfile::tempdir()?;
    let client = client(&stock)?;
    let test = test(client, stock, dir.path().to_owned());
    Runtime::new()?.block_on(async { timeout(LIMIT, test).await }).context("it hangs")??;
    Ok(Vec::new())
}

fn client(stock: &Stock) -> Result<Client> {
    Ok(Client::builder(Uri::parse(&stock.address())?.namenodes).build()?)
}

async fn write(client: &Client, path: &str, data: &[u8]) -> Result<()> {
    let mut file = client.create(path, &options()).await?;
    file.write(data).await?;
    file.close().await?;
    Ok(())
}

async fn read(client: &Client, path: &str) -> Result<Vec<u8>> {
    let mut stream = client.open(path).await?.stream_all();
    let mut all = Vec::new();
    while let Some(bytes) = stream.next().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

/// Fails with where they differ, not with megabytes of text.
fn same(what: &str, got: &[u8], want: &[u8]) -> Result<()> {
    ensure!(got.len() == want.len(), "{what}: {} bytes, {} expected", got.len(), want.len());
    let differ = got.iter().zip(want).position(|(got, want)| got != want);
    ensure!(differ.is_none(), "{what}: differs at byte {differ:?}");
    Ok(())
}

fn stock_dfs(hadoop: &Hadoop, args: &[&str]) -> Result<String> {
    stdout_of("hdfs dfs", &hadoop.command(&[&["dfs"], args].concat()).output()?)
}

/// What we write the stock client reads, and the other way round; both say the same checksum.
pub fn both_ways() -> Result<Vec<String>> {
    with_stock(|client, stock, dir| async move {
        let hadoop = stock.client()?;
        let data = bytes(40 * MIB + 777, 1);
        write(&client, "/ours", &data).await?;
        same("ours", &read(&client, "/ours").await?, &data)?;
        let file = client.open("/ours").await?;
        for (offset, len) in
            [(0, 1), (511, 2), (4 * MIB - 1, 2), (3 * MIB, 9 * MIB), (40 * MIB, MIB), (50 * MIB, 1)]
        {
            let want = &data[offset.min(data.len())..(offset + len).min(data.len())];
            same(&format!("{len} bytes from {offset}"), &file.read_at(offset as u64, len).await?, want)?;
        }

        let copy = dir.join("copy");
        stock_dfs(&hadoop, &["-get", "/ours", &copy.to_string_lossy()])?;
        same("ours, read by stock", &fs::read(&copy)?, &data)?;
        let copy = copy.to_string_lossy().into_owned();
        stock_dfs(&hadoop, &["-D", "dfs.blocksize=4194304", "-put", &copy, "/theirs"])?;
        same("theirs", &read(&client, "/theirs").await?, &data)?;
        for len in [0, 1, 512, 4 * MIB] {
            write(&client, &format!("/n{len}"), &data[..len]).await?;
        }
        let paths = ["/ours", "/theirs", "/n0", "/n1", "/n512", "/n4194304"];
        let theirs = stock_dfs(&hadoop, &[&["-checksum"], &paths[..]].concat())?;
        for (path, line) in paths.iter().zip(theirs.lines()) {
            let ours = format!("{path}\t{}", client.get_file_checksum(path).await?);
            ensure!(ours == line, "ours {ours:?}, stock's {line:?}");
        }
        Ok(())
    })
}

/// Appends at every kind of border, flushes that others see, cuts and concatenations.
pub fn open_files() -> Result<Vec<String>> {
    with_stock(|client, stock, _| async move {
        let other = self::client(&stock)?;
        let data = bytes(9 * MIB, 2);
        let mut file = client.create("/f", &options()).await?;
        let mut at = 0;
        // Short of a chunk, a chunk's end, across a block's end.
        for upto in [100, 512, 700, 70_000, 4 * MIB, 4 * MIB + 1, 6 * MIB] {
            file.write(&data[at..upto]).await?;
            at = upto;
            if upto % 2 == 0 {
                file.hflush().await?
            } else {
                file.hsync(true).await?
            }
            ensure!(file.position() == upto as u64, "position {} after {upto}", file.position());
            same(&format!("flushed at {upto}"), &read(&other, "/f").await?, &data[..upto])?;
        }
        let status = other.get_file_info("/f").await?.context("/f is gone")?;
        ensure!(!other.is_file_closed("/f").await?, "closed: {status:?}");
        file.close().await?;
        file.close().await?;
        ensure!(file.write(b"x").await.is_err(), "a closed file was written");
        ensure!(other.is_file_closed("/f").await?, "open");
        // Appends that begin in a chunk, at its end, at a block's end; one that adds nothing.
        for upto in [6 * MIB + 1, 6 * MIB + 512, 8 * MIB, 8 * MIB, 9 * MIB] {
            let mut file = client.append("/f", false).await?;
            ensure!(file.position() == at as u64, "appends at {}, not at {at}", file.position());
            file.write(&data[at..upto.min(at + 3)]).await?;
            file.hflush().await?;
            file.write(&data[upto.min(at + 3)..upto]).await?;
            file.close().await?;
            at = upto;
            same(&format!("appended to {upto}"), &read(&other, "/f").await?, &data[..upto])?;
        }
        let mut file = client.append("/f", true).await?;
        file.write(b"tail").await?;
        file.close().await?;
        same("a new block", &read(&other, "/f").await?, &[&data[..], b"tail"].concat())?;

        if !client.truncate("/f", 5 * MIB as u64 + 9).await? {
            while !client.is_file_closed("/f").await? {
                sleep(Duration::from_millis(100)).await;
            }
        }
        same("cut", &read(&other, "/f").await?, &data[..5 * MIB + 9])?;
        write(&client, "/g", &data[..10]).await?;
        client.concat("/f", &["/g"]).await?;
        same("put together", &read(&other, "/f").await?, &[&data[..5 * MIB + 9], &data[..10]].concat())?;
        abandoned(&client, &other).await
    })
}

/// Who stops without closing: another takes the lease and finds what was flushed.
async fn abandoned(client: &Client, other: &Client) -> Result<()> {
    let mut file = client.create("/left", &options()).await?;
    file.write(b"flushed").await?;
    file.hflush().await?;
    drop(file);
    while !other.recover_lease("/left").await? {
        sleep(Duration::from_millis(200)).await;
    }
    same("left", &read(other, "/left").await?, b"flushed")
}

/// DataNodes die in the middle of a block, between two, and while the file is read.
pub fn datanode_dies() -> Result<Vec<String>> {
    with_stock(|client, stock, _| async move {
        let data = bytes(24 * MIB, 3);
        let mut file = client.create("/f", &options()).await?;
        file.write(&data[..6 * MIB]).await?;
        signal(stock.datanode(0)?.pid(), Signal::SIGKILL)?;
        finish(&mut file, &data[6 * MIB..]).await?;
        same("one of three dead", &read(&client, "/f").await?, &data)?;

        // A file is closed as soon as one copy of each block is known.
        while client.get_block_locations("/f").await?.iter().any(|block| block.datanodes.len() < 2) {
            sleep(Duration::from_millis(100)).await;
        }
        let reader = client.open("/f").await?;
        let mut stream = reader.stream_all();
        let first = stream.next().await?.context("it is empty")?;
        signal(stock.datanode(1)?.pid(), Signal::SIGKILL)?;
        let mut all = first.to_vec();
        while let Some(bytes) = stream.next().await? {
            all.extend_from_slice(&bytes);
        }
        same("two of three dead", &all, &data)?;
        write(&client, "/g", &data[..MIB]).await?;
        same("written with one left", &read(&client, "/g").await?, &data[..MIB])
    })
}

async fn finish(file: &mut FileWriter, data: &[u8]) -> Result<()> {
    for piece in data.chunks(100_000) {
        file.write(piece).await?;
    }
    Ok(file.close().await?)
}

/// A byte that changed on a disk: it is never given out, it is read elsewhere, and the namenode hears of it.
pub fn flipped_byte() -> Result<Vec<String>> {
    with_stock(|client, stock, _| async move {
        let data = bytes(5 * MIB, 4);
        write(&client, "/f", &data).await?;
        for index in 0..2 {
            flip(&stock.datanode(index)?.data())?;
        }
        same("two of three copies bad", &read(&client, "/f").await?, &data)?;
        // The third copy is the source of the next ones, so this also shows that both were reported.
        for _ in 0..100 {
            if client.get_fs_stats().await?.under_replicated == 0 {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    })
}

/// Changes a bit of the largest block below a folder.
fn flip(folder: &Path) -> Result<()> {
    let length = |path: &PathBuf| path.metadata().map(|metadata| metadata.len()).unwrap_or_default();
    let largest = disk::blocks(folder)?.into_iter().max_by_key(length).context("there is no block")?;
    disk::flip(&largest)
}

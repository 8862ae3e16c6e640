//! hdfs-native, a client that others wrote in Rust, against the cluster.

use anyhow::{Result, ensure};
use bytes::Bytes;
use e2e::server::Server;
use hdfs_native::{Client, ClientBuilder, WriteOptions};
use tokio::runtime::Runtime;

const BLOCK: u64 = 1 << 20;
/// Three blocks and a bit.
const LENGTH: usize = (3 << 20) + 11;

/// Writes, reads, appends, lists, renames and deletes.
pub fn hdfs_native(namenodes: usize) -> Result<Vec<String>> {
    let server = Server::start(namenodes, 3)?;
    let conf = server.spread_client(&[])?;
    let client = ClientBuilder::new().with_config_dir(conf.conf().to_string_lossy()).build()?;
    Runtime::new()?.block_on(all(&client))?;
    server.stop_and_check()?;
    Ok(Vec::new())
}

async fn all(client: &Client) -> Result<()> {
    let whole: Vec<u8> = (0..LENGTH).map(|at| (at * 31 / 7) as u8).collect();
    let options = WriteOptions::default().block_size(BLOCK).replication(2).permission(0o640);
    client.mkdirs("/peer/empty", 0o755, true).await?;
    let mut writer = client.create("/peer/f", &options).await?;
    writer.write_bytes(Bytes::from(whole.clone())).await?;
    writer.close().await?;
    ensure!(client.create("/peer/f", &options).await.is_err(), "create over a file without overwrite");

    let mut reader = client.read("/peer/f").await?;
    ensure!(reader.file_length() == LENGTH, "it is {} long", reader.file_length());
    ensure!(reader.read_bytes(LENGTH).await? == whole, "read gave other bytes");
    let (from, count) = (BLOCK as usize - 100, 200);
    ensure!(
        reader.read_range(from, count).await? == whole[from..from + count],
        "a range over two blocks has other bytes"
    );

    let more = vec![7; BLOCK as usize];
    let mut writer = client.append("/peer/f").await?;
    writer.write_bytes(Bytes::from(more.clone())).await?;
    writer.hsync().await?;
    writer.close().await?;
    let all = [whole, more].concat();
    ensure!(client.read("/peer/f").await?.read_bytes(all.len()).await? == all, "append gave other bytes");

    let status = client.get_file_info("/peer/f").await?;
    ensure!(
        (status.length, status.replication, status.blocksize, status.permission)
            == (all.len(), Some(2), Some(BLOCK), 0o640),
        "its status is {status:?}"
    );
    client.rename("/peer/f", "/peer/g", false).await?;
    let mut names: Vec<String> =
        client.list_status("/peer", true).await?.into_iter().map(|status| status.path).collect();
    names.sort();
    ensure!(names == ["/peer/empty", "/peer/g"], "the listing is {names:?}");
    let sum = client.get_content_summary("/peer").await?;
    ensure!((sum.length, sum.file_count, sum.directory_count) == (all.len() as u64, 1, 2), "content summary");
    ensure!(client.set_replication("/peer/g", 3).await?, "set_replication");
    ensure!(client.delete("/peer/g", false).await?, "delete");
    ensure!(client.read("/peer/g").await.is_err(), "what was deleted can be read");
    ensure!(client.delete("/peer", true).await?, "delete of the directory");
    ensure!(client.get_file_info("/peer").await.is_err(), "the directory is still there");
    Ok(())
}

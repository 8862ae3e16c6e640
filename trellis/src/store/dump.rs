//! `trellis store dump`: every row, decoded, as a line of JSON.
//!
//! Rows are read in batches, each its own snapshot, so memory stays bounded and a running cluster is not held up; a
//! dump of a store that is being written shows rows of different ages.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use prost::Message;
use serde_json::{Value, json};
use trellis_metastore::change::Row;
use trellis_metastore::key::{Key, Scan, name_bytes};
use trellis_metastore::open::StoreUrl;
use trellis_metastore::schema::{
    Block, BlockFile, Command, Concern, Datanode, DirStat, Inode, InodePath, LeaseHolder, Member, OpenFile,
    Replica, RetryEntry, Setting, TableId, hidden_partitions,
};
use trellis_metastore::store::{Scanned, Store};

use crate::output::is_closed_pipe;

/// Partitions asked for at a time.
const PARTITIONS: usize = 256;
/// Rows read at a time.
const ROWS: u32 = 1000;

const EXAMPLE: &str = "\
Examples:
  trellis store dump --store lmdb:trellis-data/store
  trellis store dump --store lmdb:trellis-data/store --table Inodes | head

Partitions below 16386 are reserved; one above holds the children of the directory with that id.";

/// Options of `trellis store dump`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The store: lmdb:DIR
    #[arg(long, value_name = "URL", env = "TRELLIS_STORE")]
    store: StoreUrl,
    /// Only this table, such as Inodes
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    let tables = tables(args.table.as_deref())?;
    let opened = super::open(&args.store)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for table in tables {
        match dump_table(opened.store(), table, &mut out).await.and_then(|()| Ok(out.flush()?)) {
            Ok(()) => {}
            Err(error) if error.downcast_ref().is_some_and(is_closed_pipe) => break,
            Err(error) => return Err(error.context(format!("the dump of {} is not whole", args.store))),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn tables(name: Option<&str>) -> Result<Vec<TableId>> {
    let all = TableId::ALL.to_vec();
    let Some(name) = name else { return Ok(all) };
    match all.iter().find(|table| format!("{table:?}").eq_ignore_ascii_case(name)) {
        Some(table) => Ok(vec![*table]),
        None => bail!("there is no table {name:?}; there are {all:?}"),
    }
}

async fn dump_table(store: &dyn Store, table: TableId, out: &mut impl Write) -> Result<()> {
    let mut after = None;
    loop {
        let partitions = store.partitions(table, after, PARTITIONS).await?;
        for partition in &partitions {
            dump_partition(store, table, *partition, out).await?;
        }
        after = partitions.last().copied();
        if after.is_none() {
            return Ok(());
        }
    }
}

async fn dump_partition(
    store: &dyn Store,
    table: TableId,
    partition: u64,
    out: &mut impl Write,
) -> Result<()> {
    let mut scan = Scan::of(table, partition, ROWS);
    loop {
        let fetched = store.fetch(&[], std::slice::from_ref(&scan)).await?;
        let Some(Scanned::Rows(rows)) = fetched.scans.into_iter().next() else { return Ok(()) };
        for (key, row) in &rows {
            writeln!(out, "{}", line(key, row))?;
        }
        match rows.last() {
            Some((key, _)) => scan = scan.after(key.rest()),
            None => return Ok(()),
        }
    }
}

/// One row as JSON.
fn line(key: &Key, row: &Row) -> Value {
    json!({
        "table": format!("{:?}", key.table()),
        "partition": key.partition(),
        "key": key_value(key),
        "version": row.version,
        "max": row.max,
        "add": row.add,
        "value": value(key.table(), &row.value).unwrap_or_else(|| json!({ "undecodable": hex(&row.value) })),
    })
}

fn key_value(key: &Key) -> Value {
    let rest = key.rest();
    match key.table() {
        TableId::Inodes | TableId::DirStats if !hidden_partitions().contains(&key.partition()) => {
            text(&name_bytes(rest))
        }
        TableId::LeaseHolders | TableId::Settings => text(rest),
        _ => match rest.try_into().map(u64::from_be_bytes) {
            Ok(id) => json!(id),
            Err(_) => json!(hex(rest)),
        },
    }
}

fn value(table: TableId, bytes: &[u8]) -> Option<Value> {
    Some(match table {
        TableId::Inodes => inode(&Inode::decode(bytes).ok()?),
        TableId::DirStats => {
            let v = DirStat::decode(bytes).ok()?;
            json!({ "id": v.id, "quota_of": v.quota_of })
        }
        TableId::InodePaths => {
            let v = InodePath::decode(bytes).ok()?;
            json!({ "parent": v.parent, "name": text(&v.name) })
        }
        TableId::Blocks => {
            let v = Block::decode(bytes).ok()?;
            json!({ "id": v.id, "stamp": v.stamp, "length": v.length })
        }
        TableId::Replicas | TableId::StorageReplicas => replica(&Replica::decode(bytes).ok()?),
        TableId::BlockFiles => {
            let v = BlockFile::decode(bytes).ok()?;
            json!({ "inode": v.inode, "ordinal": v.ordinal })
        }
        TableId::LeaseHolders => json!({ "holder": LeaseHolder::decode(bytes).ok()?.holder }),
        TableId::OpenFiles => json!({ "holder": OpenFile::decode(bytes).ok()?.holder }),
        TableId::RetryCache => {
            let v = RetryEntry::decode(bytes).ok()?;
            json!({ "at_ms": v.at_ms, "answer": hex(&v.answer) })
        }
        TableId::Members => {
            let v = Member::decode(bytes).ok()?;
            json!({ "incarnation": v.incarnation, "heartbeat": v.heartbeat, "rpc": v.rpc, "http": v.http })
        }
        TableId::Settings => {
            let v = Setting::decode(bytes).ok()?;
            json!({ "number": v.number, "text": v.text })
        }
        TableId::Datanodes => datanode(&Datanode::decode(bytes).ok()?),
        TableId::Commands => {
            let v = Command::decode(bytes).ok()?;
            json!({ "stamp": v.stamp, "length": v.length, "storages": v.storages, "silent": v.silent,
                "old_stamp": v.old_stamp, "cut_to": v.cut_to, "given_ms": v.given_ms })
        }
        TableId::Attention => {
            let v = Concern::decode(bytes).ok()?;
            json!({ "since_ms": v.since_ms, "under_replicated": v.under_replicated, "missing": v.missing,
                "corrupt": v.corrupt, "excess": v.excess })
        }
    })
}

fn inode(v: &Inode) -> Value {
    let open = v.open.as_ref().map(|w| json!({ "holder": w.holder, "machine": w.machine }));
    json!({
        "id": v.id,
        "kind": if v.is_dir() { "directory" } else { "file" },
        "mode": format!("{:o}", v.mode),
        "owner": v.owner,
        "group": v.group,
        "mtime_ms": v.mtime_ms,
        "atime_ms": v.atime_ms,
        "length": v.length,
        "block_count": v.block_count,
        "replication": v.replication,
        "block_size": v.block_size,
        "policy": v.policy,
        "open": open,
        "next_block": v.next_block,
    })
}

fn replica(v: &Replica) -> Value {
    json!({
        "stamp": v.stamp,
        "length": v.length,
        "state": format!("{:?}", v.state()),
        "corrupt": v.corrupt,
        "reported_ms": v.reported_ms,
    })
}

fn datanode(v: &Datanode) -> Value {
    let storages: Vec<Value> = v
        .storages
        .iter()
        .map(|s| json!({ "uuid": s.uuid, "number": s.number, "kind": s.kind, "failed": s.failed }))
        .collect();
    json!({
        "uuid": v.uuid,
        "number": v.number,
        "ip": v.ip,
        "host": v.host,
        "data_port": v.data_port,
        "http_port": v.http_port,
        "https_port": v.https_port,
        "ipc_port": v.ipc_port,
        "version": v.version,
        "owner": v.owner,
        "epoch": v.epoch,
        "storages": storages,
    })
}

/// Bytes that are a text as they are, others in hex.
fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": hex(bytes) }),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use trellis_metastore::schema;

    use super::*;

    #[test]
    fn names_are_shown_as_they_were_given() {
        let value = DirStat { id: 7, quota_of: 0 }.encode_to_vec();
        let row = Row { version: 5, max: 1, add: 2, value: value.into() };
        let shown = line(&schema::dir_stat(20_000, "é".as_bytes()).key, &row);
        assert_eq!(
            (&shown["key"], &shown["value"]["id"], &shown["add"]),
            (&json!("é"), &json!(7), &json!(2))
        );
        let odd = line(&schema::dir_stat(20_000, b"\xff").key, &row);
        assert_eq!(odd["key"]["hex"], json!("ff"));
    }

    #[test]
    fn a_value_that_cannot_be_decoded_is_shown_in_hex() {
        let row = Row { value: vec![0xff, 0xff].into(), ..Row::default() };
        assert_eq!(line(&schema::setting("format").key, &row)["value"]["undecodable"], json!("ffff"));
    }
}

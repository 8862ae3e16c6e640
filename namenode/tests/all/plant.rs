//! Large trees, made cheaply: rows written straight into the store, a few thousand at a time.

use trellis_metastore::change::{Change, Check, Effect, Hold, Row};
use trellis_metastore::key::Key;
use trellis_metastore::mem::Mem;
use trellis_metastore::schema::{
    DirStat, Inode, InodePath, Kind, ROOT_ID, TableId, dir_stat, inode, inode_path, root_stat,
};
use trellis_metastore::store::Store;
use trellis_namenode::ops::status::FileStatus;

use crate::actor::{Actor, Text};
use crate::support::Namenode;

/// Entries made by one operation.
const AT_ONCE: usize = 2000;

/// Makes `count` entries of a kind in a directory, `name(i)` each, and answers their ids. They are owned as it is.
pub async fn plant(
    nn: &Namenode,
    directory: &str,
    kind: Kind,
    count: usize,
    name: impl Fn(usize) -> String,
) -> Vec<u64> {
    let above = Actor::superuser(nn).status(directory).await.unwrap().unwrap();
    let place = place_of(nn, above.inode.id).await;
    let mut made = Vec::new();
    let names: Vec<String> = (0..count).map(name).collect();
    for names in names.chunks(AT_ONCE) {
        let (names, above, place) = (names.to_vec(), above.clone(), place.clone());
        let mut ctx = nn.engine.own_ctx();
        ctx.call_id = None;
        let ids = names.len() as u64;
        let op = move |tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>| {
            let stat = match &place {
                None => root_stat(),
                Some(place) => dir_stat(place.parent, &place.name),
            };
            tx.get(&stat, Hold::Loose)?;
            for (i, name) in names.iter().enumerate() {
                let id = tx.ctx.new_id(i as u64)?;
                plant_one(tx, &above, kind, id, name)?;
            }
            tx.merge(&stat, tx.ctx.now_ms, names.len() as i64)?;
            Ok(Text { text: tx.ctx.new_id(0)?.to_string() })
        };
        let first: u64 =
            nn.engine.write_wait(ctx, 0, ids, false, Box::new(op)).await.unwrap().text.parse().unwrap();
        made.extend(first..first + ids);
    }
    made
}

fn plant_one(
    tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>,
    above: &FileStatus,
    kind: Kind,
    id: u64,
    name: &str,
) -> trellis_namenode::refusal::Result<()> {
    let row = Inode {
        id,
        kind: kind as i32,
        mode: if kind == Kind::Directory { 0o755 } else { 0o644 },
        owner: above.inode.owner.clone(),
        group: above.inode.group.clone(),
        ..Inode::default()
    };
    let name = bytes::Bytes::copy_from_slice(name.as_bytes());
    let parent = above.inode.id;
    tx.insert(&inode(parent, &name), &row)?;
    if kind == Kind::Directory {
        let stat = DirStat { id, quota_of: 0 };
        tx.insert_counted(&dir_stat(parent, &name), &stat, tx.ctx.now_ms, 0)?;
    }
    Ok(tx.insert(&inode_path(id), &InodePath { parent, name })?)
}

async fn place_of(nn: &Namenode, id: u64) -> Option<InodePath> {
    if id == ROOT_ID {
        return None;
    }
    let found = nn.read("hdfs", move |tx| Ok(tx.get(&inode_path(id), Hold::Loose)?)).await.unwrap();
    Some(found.unwrap().value)
}

/// A store in memory with a copy of rows: far cheaper than to build a tree again. Kept answers stay behind.
pub async fn copy_of(rows: &[(Key, Row)]) -> Mem {
    let insert = |(key, row): &(Key, Row)| Change {
        key: key.clone(),
        check: Check::Absent,
        effect: Effect::Insert(row.clone()),
    };
    let mut changes: Vec<Change> =
        rows.iter().filter(|(key, _)| key.table() != TableId::RetryCache).map(insert).collect();
    changes.sort_by(|a, b| a.key.lock_order().cmp(&b.key.lock_order()));
    let store = Mem::new();
    store.commit(&changes).await.unwrap();
    store
}

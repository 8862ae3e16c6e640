//! Files with blocks and datanodes, made through rows: what operations, reports and recoveries leave.

use std::sync::Arc;

use trellis_metastore::change::Hold;
use trellis_metastore::schema::{
    Block, BlockState, Datanode, Inode, Replica, Setting, Storage, block, block_id, datanode, hidden_inode,
    inode, inode_path, replica, setting, storage_replica,
};
use trellis_namenode::datanodes::View;
use trellis_namenode::datanodes::view::{Liveness, Node, Space};
use trellis_namenode::engine::tx::Tx;
use trellis_namenode::refusal::Result;

use crate::actor::{Actor, Text};
use crate::support::Namenode;

/// The first stamp of every block.
pub const STAMP: u64 = 1001;
/// Space of every datanode's one storage.
pub const SPACE: Space = Space { capacity: 1000, used: 100, remaining: 700, pool_used: 100, other_used: 200 };

/// A complete block.
pub fn complete(inode: u64, ordinal: u32, length: u64) -> Block {
    Block {
        id: block_id(inode, ordinal),
        stamp: STAMP,
        length,
        state: BlockState::Complete as i32,
        last_stamp: STAMP,
        ..Block::default()
    }
}

/// A whole replica of a block.
pub fn whole(block: &Block) -> Replica {
    Replica { stamp: block.stamp, length: block.length, ..Replica::default() }
}

/// A datanode with one storage: numbers 2n + 1 and 2n + 2.
pub fn datanode_row(n: u32) -> Datanode {
    Datanode {
        uuid: format!("node-{n}"),
        number: 2 * n + 1,
        ip: format!("10.0.0.{n}"),
        host: format!("host{n}"),
        data_port: 9866,
        http_port: 9864,
        ipc_port: 9867,
        version: "3.4.2".into(),
        storages: vec![Storage {
            uuid: format!("DS-{n}"),
            number: storage_number(n),
            kind: 1,
            ..Storage::default()
        }],
        ..Datanode::default()
    }
}

/// The number of the storage of datanode `n`.
pub fn storage_number(n: u32) -> u32 {
    2 * n + 2
}

/// Runs a piece of an operation that writes.
pub async fn change(nn: &Namenode, mut op: impl FnMut(&mut Tx<'_, '_>) -> Result<()> + Send + 'static) {
    let mut ctx = nn.engine.own_ctx();
    ctx.call_id = None;
    let op = move |tx: &mut Tx<'_, '_>| op(tx).map(|()| Text::default());
    nn.engine.write_wait(ctx, 0, 0, false, Box::new(op)).await.unwrap();
}

/// Inserts the rows of datanodes 0 to `count`, and has the namenode see them with this liveness.
pub async fn datanodes(nn: &Namenode, liveness: &'static [Liveness]) {
    let count = liveness.len() as u32;
    change(nn, move |tx| {
        for n in 0..count {
            let row = datanode_row(n);
            tx.insert(&datanode(&row.uuid), &row)?;
        }
        let next = Setting { number: u64::from(2 * count + 1), text: String::new() };
        Ok(tx.insert(&setting("next_datanode_number"), &next)?)
    })
    .await;
    let node = |(n, liveness): (usize, &Liveness)| Node {
        row: Arc::new(datanode_row(n as u32)),
        liveness: *liveness,
        space: vec![SPACE],
        load: 2,
        copies: 0,
        scheduled: 0,
        heard_ms: nn.engine.now_ms(),
        reported_ms: nn.engine.now_ms(),
    };
    nn.engine.datanodes().set_view(View::new(liveness.iter().enumerate().map(node).collect()));
}

/// Gives a file that was just made its blocks, each with replicas on storages.
pub async fn give(nn: &Namenode, path: &str, blocks: Vec<(Block, Vec<(u32, Replica)>)>) -> Inode {
    let file = Actor::superuser(nn).status(path).await.unwrap().unwrap().inode;
    let id = file.id;
    change(nn, move |tx| {
        let place = tx.get(&inode_path(id), Hold::Held)?.unwrap().value;
        let key = inode(place.parent, &place.name);
        let mut file = tx.get(&key, Hold::Held)?.unwrap().value;
        for (n, (new, replicas)) in blocks.iter().enumerate() {
            tx.insert(&block(id, n as u32), new)?;
            file.length += new.length;
            for (storage, its) in replicas {
                tx.insert(&replica(new.id, *storage), its)?;
                tx.insert(&storage_replica(*storage, new.id), its)?;
            }
        }
        let last = &blocks.last().unwrap().0;
        file.unfinished = (last.state != BlockState::Complete as i32).then_some(last.length);
        file.block_count = blocks.len() as u32;
        file.next_block = blocks.len() as u32;
        Ok(tx.put(&key, &file)?)
    })
    .await;
    Actor::superuser(nn).status(path).await.unwrap().unwrap().inode
}

/// Moves a file under the hidden parent with all of its blocks but the first `reaped`, as a reaper that is not done.
pub async fn hide(nn: &Namenode, id: u64, reaped: u32) {
    change(nn, move |tx| {
        let at = tx.get(&inode_path(id), Hold::Held)?.unwrap().value;
        let key = inode(at.parent, &at.name);
        let file = tx.get(&key, Hold::Held)?.unwrap().value;
        tx.delete(&key)?;
        tx.delete(&inode_path(id))?;
        tx.insert(&hidden_inode(id), &file)?;
        for n in 0..reaped {
            tx.get(&block(id, n), Hold::Held)?;
            tx.delete(&block(id, n))?;
        }
        Ok(())
    })
    .await;
}

//! Files with blocks: a small cluster whose datanodes are rows and a view, and the calls of those who write to it.

use std::sync::Arc;

use trellis_metastore::change::Hold;
use trellis_metastore::key::Scan;
use trellis_metastore::schema::{
    Attention, Block, Blocks, Command, CommandKind, Commands, Concern, Datanode, Replica, ReplicaState,
    Setting, Storage, Table, attention, command, command_partition, datanode, setting,
};
use trellis_namenode::datanodes::View;
use trellis_namenode::datanodes::view::{Liveness, Node, Space};
use trellis_namenode::engine::tx::Tx;
use trellis_namenode::ops::add_block::{AddBlock, GetAdditionalDatanode, add_block, get_additional_datanode};
use trellis_namenode::ops::append::{Append, append};
use trellis_namenode::ops::concat::{Concat, concat};
use trellis_namenode::ops::locations::{FileBlocks, GetBlockLocations, get_block_locations};
use trellis_namenode::ops::pipeline::{
    UpdateBlockForPipeline, UpdatePipeline, update_block_for_pipeline, update_pipeline,
};
use trellis_namenode::ops::recovery::{CommitBlockSynchronization, commit_block_synchronization};
use trellis_namenode::ops::replicas::{self, Located};
use trellis_namenode::ops::truncate::{Truncate, truncate};
use trellis_namenode::ops::write::{
    AbandonBlock, BlockName, Complete, Fsync, abandon_block, complete, fsync,
};

use crate::actor::Text;
use crate::calls::{Answered, As, new_file, written};
use crate::support::{Answer, BLOCK_POOL, Namenode, path};

/// Bytes of a block in these tests.
pub const BLOCK: u64 = 4096;

/// Number of the storage of the `i`-th datanode.
pub fn storage(i: u32) -> u32 {
    100 + i
}

/// Uuid of that storage.
pub fn uuid(i: u32) -> String {
    format!("DS-{i}")
}

/// The row of the `i`-th datanode.
pub fn row(i: u32) -> Datanode {
    Datanode {
        uuid: format!("DN-{i}"),
        number: 10 + i,
        ip: format!("10.0.0.{i}"),
        host: format!("dn{i}"),
        data_port: 9866,
        ipc_port: 9867,
        http_port: 9864,
        storages: vec![Storage { uuid: uuid(i), number: storage(i), kind: 1, ..Storage::default() }],
        ..Datanode::default()
    }
}

/// Shows a namenode datanodes with these states, numbered from 0.
pub fn show(nn: &Namenode, states: &[Liveness]) {
    let node = |(i, liveness): (usize, &Liveness)| Node {
        row: Arc::new(row(i as u32)),
        liveness: *liveness,
        space: vec![Space { capacity: 1 << 40, remaining: 1 << 39, ..Space::default() }],
        load: 0,
        copies: 0,
        scheduled: 0,
        heard_ms: 1,
        reported_ms: 1,
    };
    nn.engine.datanodes().set_view(View::new(states.iter().enumerate().map(node).collect()));
}

/// A fresh namenode with three datanodes.
pub async fn cluster() -> Namenode {
    let nn = Namenode::fresh().await;
    give_datanodes(&nn).await;
    nn
}

/// Three datanodes for a namenode.
pub async fn give_datanodes(nn: &Namenode) {
    nn.write("hdfs", |tx| {
        for i in 0..3 {
            tx.insert(&datanode(&row(i).uuid), &row(i))?;
        }
        let next = Setting { number: 1000, ..Setting::default() };
        tx.insert(&setting("next_datanode_number"), &next)?;
        Ok(Answer { yes: true })
    })
    .await
    .unwrap();
    show(nn, &[Liveness::Live; 3]);
}

/// A call for the next block.
pub fn next_block(text: &str, id: u64, holder: &str, previous: Option<BlockName>) -> AddBlock {
    AddBlock {
        file: written(text, id, holder),
        previous,
        excluded: Vec::new(),
        favored: Vec::new(),
        anywhere: false,
    }
}

/// A block as a client names it that wrote so many bytes.
pub fn named(block: &Block, bytes: u64) -> BlockName {
    BlockName { pool: BLOCK_POOL.into(), id: block.id, stamp: block.stamp, bytes }
}

/// A located block as a text: index of its datanodes, sorted.
pub fn places(located: &Located) -> Vec<u32> {
    let mut places: Vec<u32> = located.storages.iter().map(|number| number - 100).collect();
    places.sort_unstable();
    places
}

#[derive(Clone, PartialEq, prost::Message)]
struct Row {
    #[prost(message, optional, tag = "1")]
    block: Option<Block>,
    #[prost(uint64, tag = "2")]
    offset: u64,
    #[prost(uint32, repeated, tag = "3")]
    storages: Vec<u32>,
}

fn row_of(located: Located) -> Row {
    Row { block: Some(located.block), offset: located.offset, storages: located.storages }
}

fn located_of(row: Row) -> Located {
    Located { block: row.block.unwrap(), offset: row.offset, storages: row.storages, corrupt: false }
}

impl As<'_> {
    /// Creates a file of small blocks with three replicas, and leaves it open.
    pub async fn begin(self, text: &str, holder: &str) -> u64 {
        let mut call = new_file(text, holder, 1);
        call.block_size = BLOCK;
        self.create_as(call).await.unwrap().id
    }

    pub async fn add_block(
        self,
        text: &str,
        id: u64,
        holder: &str,
        previous: Option<BlockName>,
    ) -> Answered<Located> {
        let call = next_block(text, id, holder, previous);
        Ok(located_of(self.nn.write(self.user, move |tx| add_block(tx, &call).map(row_of)).await?))
    }

    pub async fn close(self, text: &str, id: u64, holder: &str, last: Option<BlockName>) -> Answered<bool> {
        let call = Complete { file: written(text, id, holder), last };
        self.nn.yes(self.user, move |tx| complete(tx, &call)).await
    }

    pub async fn abandon(self, text: &str, id: u64, holder: &str, block: BlockName) -> Answered<()> {
        let call = AbandonBlock { file: written(text, id, holder), block };
        self.run(move |tx| abandon_block(tx, &call)).await
    }

    pub async fn sync(self, text: &str, id: u64, holder: &str, length: i64) -> Answered<()> {
        let call = Fsync { file: written(text, id, holder), last_block_length: length };
        self.run(move |tx| fsync(tx, &call)).await
    }

    /// Tells of replicas of a block, as their datanodes would.
    pub async fn report(self, block: &Block, length: u64, state: ReplicaState, on: &[u32]) {
        let (id, on) = (block.id, on.to_vec());
        let replica = Replica { stamp: block.stamp, length, state: state as i32, ..Replica::default() };
        self.run(move |tx| {
            for i in &on {
                replicas::put(tx, id, storage(*i), &replica)?;
            }
            Ok(())
        })
        .await
        .unwrap();
    }

    /// A closed file with blocks of these lengths, three replicas each; answers its id.
    pub async fn write_file(self, text: &str, lengths: &[u64]) -> u64 {
        let id = self.begin(text, "writer").await;
        self.write_and_close(text, id, lengths).await;
        id
    }

    /// Writes blocks of these lengths to a file that "writer" has begun, and closes it.
    pub async fn write_and_close(self, text: &str, id: u64, lengths: &[u64]) {
        let mut last = None;
        for length in lengths {
            let block = self.add_block(text, id, "writer", last).await.unwrap().block;
            self.report(&block, *length, ReplicaState::Finalized, &[0, 1, 2]).await;
            last = Some(named(&block, *length));
        }
        assert_eq!(self.close(text, id, "writer", last).await, Ok(true));
    }

    pub async fn append(self, text: &str, holder: &str, new_block: bool) -> Answered<Option<Located>> {
        #[derive(Clone, PartialEq, prost::Message)]
        struct Said {
            #[prost(message, optional, tag = "1")]
            row: Option<Row>,
        }
        let call = Append { path: path(text), holder: holder.into(), new_block };
        let op = move |tx: &mut Tx<'_, '_>| {
            append(tx, &call).map(|appended| Said { row: appended.block.map(row_of) })
        };
        Ok(self.nn.write(self.user, op).await?.row.map(located_of))
    }

    pub async fn truncate(self, text: &str, length: i64, holder: &str) -> Answered<bool> {
        let call = Truncate { path: path(text), length, holder: holder.into() };
        self.nn.yes(self.user, move |tx| truncate(tx, &call)).await
    }

    pub async fn concat(self, target: &str, sources: &[&str]) -> Answered<()> {
        let sources = sources.iter().map(|source| path(source)).collect();
        let call = Concat { target: path(target), sources };
        self.run(move |tx| concat(tx, &call).map(drop)).await
    }

    pub async fn next_stamp(self, block: BlockName, holder: &str) -> Answered<u64> {
        let call = UpdateBlockForPipeline { block, holder: holder.into() };
        let op = move |tx: &mut Tx<'_, '_>| {
            let located = update_block_for_pipeline(tx, &call)?;
            Ok(Text { text: located.block.stamp.to_string() })
        };
        Ok(self.nn.write(self.user, op).await?.text.parse().unwrap())
    }

    /// One more datanode for a pipeline of these storages; answers those of all.
    pub async fn more_datanodes(
        self,
        (text, id, holder): (&str, u64, &str),
        block: BlockName,
        existing: &[&str],
    ) -> Answered<Vec<u32>> {
        let existing = existing.iter().map(|uuid| (*uuid).to_owned()).collect();
        let file = written(text, id, holder);
        let call = GetAdditionalDatanode { file, block, existing, excluded: Vec::new(), count: 1 };
        Ok(self.nn.read(self.user, move |tx| get_additional_datanode(tx, &call)).await?.storages)
    }

    pub async fn new_pipeline(
        self,
        old: BlockName,
        new: BlockName,
        holder: &str,
        on: &[u32],
    ) -> Answered<()> {
        let storages = on.iter().map(|i| uuid(*i)).collect();
        let call = UpdatePipeline { holder: holder.into(), old, new, storages };
        self.run(move |tx| update_pipeline(tx, &call)).await
    }

    /// A primary's answer that closes the file.
    pub async fn recovered(
        self,
        block: BlockName,
        stamp: u64,
        length: u64,
        delete: bool,
        on: &[u32],
    ) -> Answered<()> {
        let storages = on.iter().map(|i| uuid(*i)).collect();
        let call = CommitBlockSynchronization { block, stamp, length, close: true, delete, storages };
        self.run(move |tx| commit_block_synchronization(tx, &call)).await
    }

    pub async fn locations(self, text: &str, offset: i64, length: i64) -> Answered<FileBlocks> {
        let call = GetBlockLocations { path: path(text), offset, length };
        Ok(self.nn.read(self.user, move |tx| get_block_locations(tx, &call)).await?.blocks)
    }

    /// The blocks of a file, in order.
    pub async fn blocks(self, id: u64) -> Vec<Block> {
        rows::<Blocks>(self.nn, id).await
    }

    /// What a datanode is to be told, of one kind about one block.
    pub async fn told(self, i: u32, kind: CommandKind, block: u64) -> Option<Command> {
        let key = command(10 + i, kind, block);
        self.nn.read(self.user, move |tx| Ok(tx.get(&key, Hold::Loose)?)).await.unwrap().map(|row| row.value)
    }

    /// All that a datanode is to be told.
    pub async fn commands(self, i: u32) -> Vec<Command> {
        rows::<Commands>(self.nn, command_partition(10 + i)).await
    }

    pub async fn concern(self, id: u64) -> Option<Concern> {
        let key = attention(id);
        let row = self.nn.read(self.user, move |tx| Ok(tx.get::<Attention>(&key, Hold::Loose)?)).await;
        row.unwrap().map(|row| row.value)
    }
}

/// The rows of a table in one partition.
pub async fn rows<T>(nn: &Namenode, partition: u64) -> Vec<T::Value>
where
    T: Table + Send + 'static,
    T::Value: Send,
{
    try_rows::<T>(nn, partition).await.unwrap()
}

/// The same, of a namenode that may be gone.
pub async fn try_rows<T>(nn: &Namenode, partition: u64) -> Answered<Vec<T::Value>>
where
    T: Table + Send + 'static,
    T::Value: Send,
{
    let scan = Scan::of(T::ID, partition, Scan::MAX_ROWS);
    let op = move |tx: &mut Tx<'_, '_>| Ok(tx.scan_all::<T>(std::slice::from_ref(&scan))?);
    let rows = nn.read("hdfs", op).await?.pop().unwrap();
    Ok(rows.into_iter().map(|(_, row)| row.value).collect())
}

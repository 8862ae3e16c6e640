//! Making and appending files, with whatever blocks they are to have: call by call, as a client of HDFS makes them.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use trellis_client::types::{Block, CreateOptions};
use trellis_client::{Client, Error};
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as rpc;

use crate::contents::Contents;
use crate::datanodes::{Datanodes, Stranger};
use crate::distribution::Distribution;
use crate::mix::MAX_CALLS;

/// Between the first two times that a file is closed, as stock's clients (`dfs.client.block.write.locateFollowingBlock`);
/// each further wait is twice the one before.
const FIRST_WAIT: Duration = Duration::from_millis(400);
/// So often more a file is tried to be closed.
const MORE_TRIES: u32 = 5;
/// Real data goes to the writer in such pieces.
static PIECE: [u8; 64 << 10] = [0; 64 << 10];

/// What new files are like.
#[derive(Debug, Clone)]
pub struct NewFile {
    /// Copies of each block.
    pub replication: u16,
    /// Bytes.
    pub block_size: u64,
    /// How long they are, bytes.
    pub sizes: Distribution,
    /// Where their blocks go.
    pub data: Data,
}

/// Where blocks go.
#[derive(Debug, Clone)]
pub enum Data {
    /// There are none.
    None,
    /// To simulated datanodes.
    Simulated(Arc<Datanodes>),
    /// To real ones.
    Real,
}

/// What was answered so far of the calls of an operation, by their place in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answers {
    /// How often each call was answered without an exception.
    pub counts: [u32; MAX_CALLS],
    /// The call that is, or was last, under way.
    pub at: usize,
}

/// Why a file was not made, or not appended to.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] Error),
    /// Its block went elsewhere.
    #[error(transparent)]
    Stranger(#[from] Stranger),
    /// The namenode does not close it.
    #[error("{0} was not closed: the namenode has not heard of its last block from any datanode")]
    Open(String),
    /// An answer that does not fit what was to come of it.
    #[error("{example}")]
    Differs {
        /// In which way.
        kind: &'static str,
        /// What was asked.
        example: String,
    },
}

impl Answers {
    /// Of an operation whose first call was answered so many times.
    pub fn of_first(count: u32) -> Answers {
        let mut answers = Answers::default();
        answers.counts[0] = count;
        answers
    }

    /// Waits for a call, the one at this place.
    async fn of<T>(
        &mut self,
        at: usize,
        call: Pin<&mut impl Future<Output = Result<T, Error>>>,
    ) -> Result<T, Error> {
        self.at = at;
        let answer = call.await;
        self.note(at, &answer);
        answer
    }

    /// Notes what came of a call.
    pub(crate) fn note<T>(&mut self, at: usize, answer: &Result<T, Error>) {
        if answer.as_ref().err().is_none_or(is_local)
            && let Some(count) = self.counts.get_mut(at)
        {
            *count += 1;
        }
    }
}

/// One that the client raises itself stands for an answer without contents.
pub(crate) fn is_local(error: &Error) -> bool {
    error.exception().is_some() && error.attempts() == 0
}

/// Places in the row of `create`.
mod in_create {
    pub const CREATE: usize = 0;
    pub const ADD_BLOCK: usize = 1;
    pub const COMPLETE: usize = 2;
}

/// Places in the row of `append`.
mod in_append {
    pub const APPEND: usize = 0;
    pub const UPDATE_BLOCK: usize = 1;
    pub const UPDATE_PIPELINE: usize = 2;
    pub const COMPLETE: usize = 3;
}

impl NewFile {
    /// How it is asked for.
    pub fn options(&self) -> CreateOptions {
        CreateOptions {
            replication: Some(self.replication),
            block_size: Some(self.block_size),
            create_parent: false,
            ..CreateOptions::default()
        }
    }

    /// What files hold, with what the namenode suggested.
    pub fn told(&self, contents: Contents) -> Contents {
        Contents { block_size: Some(self.block_size), replication: Some(self.replication), ..contents }
    }

    /// Waits until namenodes know what became of the blocks that were made so far.
    pub async fn rest(&self) {
        if let Data::Simulated(datanodes) = &self.data {
            datanodes.rest().await;
        }
    }

    /// Makes a file of `size` bytes, with [`NewFile::options`] or some like them. What not every file needs is on the heap:
    /// the future is a part of each client's task, and many tasks fit into a cache only when they are small.
    pub async fn create(
        &self,
        client: &Client,
        path: &str,
        size: u64,
        options: &CreateOptions,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        if let Data::Real = self.data {
            return Box::pin(write(client, path, options, size)).await;
        }
        let file_id = answers.of(in_create::CREATE, pin!(client.create_only(path, options))).await?.file_id;
        let file = Written { client, path, file_id };
        let last = match &self.data {
            Data::Simulated(datanodes) if size > 0 => {
                let blocks = file.add_blocks(datanodes, size, self.block_size, answers);
                Some(Box::pin(blocks).await?)
            }
            _ => None,
        };
        file.close(last.as_ref(), in_create::COMPLETE, answers).await
    }

    /// Opens a file to append, and closes it without more data. Its last block, if there is room in it, is taken up all
    /// the same, as stock's clients do it: it gets another stamp.
    pub async fn append(&self, client: &Client, path: &str, answers: &mut Answers) -> Result<(), Failure> {
        if let Data::Real = self.data {
            return Ok(client.append(path, false).await?.close().await?);
        }
        // Without the library's writer, which would also renew a lease.
        let request = hdfs::AppendRequestProto {
            src: path.to_owned(),
            client_name: client.name().to_owned(),
            flag: Some(hdfs::CreateFlagProto::Append as u32),
        };
        let answer = answers.of(in_append::APPEND, pin!(client.call(&rpc::APPEND, &request))).await?;
        // 0 stands for "whichever file has this path".
        let file_id = answer.stat.map_or(0, |status| status.file_id());
        let file = Written { client, path, file_id };
        let last = match (answer.block, &self.data) {
            // There is room in it.
            (Some(block), Data::Simulated(datanodes)) if !block.locs.is_empty() => {
                Some(file.take_up(block, datanodes, answers).await?)
            }
            (block, _) => block.map(|block| Block::from(block.b)),
        };
        file.close(last.as_ref(), in_append::COMPLETE, answers).await
    }
}

/// Real data, by the library's own writer.
async fn write(client: &Client, path: &str, options: &CreateOptions, size: u64) -> Result<(), Failure> {
    let mut writer = client.create(path, options).await?;
    let mut left = size;
    while left > 0 {
        let some = usize::try_from(left).map_or(PIECE.len(), |left| left.min(PIECE.len()));
        writer.write(&PIECE[..some]).await?;
        left -= some as u64;
    }
    Ok(writer.close().await?)
}

/// A file that is open for writing.
struct Written<'a> {
    client: &'a Client,
    path: &'a str,
    file_id: u64,
}

impl Written<'_> {
    /// Gives it blocks for `size` bytes, more than none, each whole on its datanodes at once; the last one.
    async fn add_blocks(
        &self,
        datanodes: &Datanodes,
        size: u64,
        block_size: u64,
        answers: &mut Answers,
    ) -> Result<Block, Failure> {
        let mut previous: Option<Block> = None;
        let mut left = size;
        loop {
            let request = hdfs::AddBlockRequestProto {
                src: self.path.to_owned(),
                client_name: self.client.name().to_owned(),
                previous: previous.as_ref().map(hdfs::ExtendedBlockProto::from),
                file_id: Some(self.file_id),
                ..Default::default()
            };
            let call = self.client.call(&rpc::ADD_BLOCK, &request);
            let located = answers.of(in_create::ADD_BLOCK, pin!(call)).await?.block;
            let length = left.min(block_size.max(1));
            datanodes.told(datanodes.receive(&located, length)?).await;
            let block = Block { length, ..Block::from(located.b) };
            left -= length;
            if left == 0 {
                return Ok(block);
            }
            previous = Some(block);
        }
    }

    /// Gives the block of an append a new stamp, on its datanodes and on the namenode.
    async fn take_up(
        &self,
        located: hdfs::LocatedBlockProto,
        datanodes: &Datanodes,
        answers: &mut Answers,
    ) -> Result<Block, Failure> {
        let client_name = self.client.name().to_owned();
        let request = hdfs::UpdateBlockForPipelineRequestProto {
            block: located.b.clone(),
            client_name: client_name.clone(),
        };
        let call = self.client.call(&rpc::UPDATE_BLOCK_FOR_PIPELINE, &request);
        let renewed = answers.of(in_append::UPDATE_BLOCK, pin!(call)).await?.block.b;
        let new = hdfs::ExtendedBlockProto { num_bytes: located.b.num_bytes, ..renewed };
        let request = hdfs::UpdatePipelineRequestProto {
            client_name,
            old_block: located.b.clone(),
            new_block: new.clone(),
            new_nodes: located.locs.iter().map(|node| node.id.clone()).collect(),
            storage_i_ds: located.storage_i_ds.clone(),
        };
        let call = self.client.call(&rpc::UPDATE_PIPELINE, &request);
        answers.of(in_append::UPDATE_PIPELINE, pin!(call)).await?;
        let block = Block::from(new.clone());
        let located = hdfs::LocatedBlockProto { b: new, ..located };
        datanodes.told(datanodes.receive(&located, block.length)?).await;
        Ok(block)
    }

    /// Closes it. Asks again while the namenode has not heard of the last block.
    async fn close(&self, last: Option<&Block>, at: usize, answers: &mut Answers) -> Result<(), Failure> {
        let mut wait = FIRST_WAIT;
        for tries in 0..=MORE_TRIES {
            let call = self.client.complete(self.path, self.file_id, last);
            if answers.of(at, pin!(call)).await? {
                return Ok(());
            }
            if last.is_none() {
                break;
            }
            if tries < MORE_TRIES {
                sleep(wait).await;
                wait *= 2;
            }
        }
        Err(Failure::Open(self.path.to_owned()))
    }
}

impl Failure {
    /// What kind of failure it is, in reports.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Call(error) => error.exception().map_or("no answer", |exception| exception.kind.class()),
            Failure::Stranger(_) => "another datanode",
            Failure::Open(_) => "not closed",
            Failure::Differs { kind, .. } => kind,
        }
    }

    /// Whether a server answered with an exception.
    pub fn is_by_exception(&self) -> bool {
        matches!(self, Failure::Call(error) if error.exception().is_some() && error.attempts() > 0)
    }
}

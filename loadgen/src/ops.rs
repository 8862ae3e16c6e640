//! Operations: each a few calls on paths, and how it ended.

use trellis_client::types::CreateOptions;
use trellis_client::{Client, Error};
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as rpc;

use crate::mix::Op;

/// An operation and what it is done to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// What.
    pub op: Op,
    /// To which path.
    pub path: String,
    /// The second path of a rename.
    pub to: Option<String>,
    /// What varies: modes and replications are set to one thing and another.
    pub variation: u32,
}

/// How an operation ended.
#[derive(Debug)]
pub struct Done {
    /// How many of its calls were answered without an exception, in the order of its row.
    pub answered: usize,
    /// What came of it.
    pub end: End,
}

/// What came of an operation.
#[derive(Debug)]
pub enum End {
    /// It did what it is for.
    Success,
    /// An answer that a correct namenode gives when another client was quicker: `false`, nothing there, or an expected
    /// exception.
    Refused {
        /// An exception said so.
        by_exception: bool,
    },
    /// Anything else.
    Error(Error),
    /// An answer that does not fit what was to come of it: an error, too.
    Differs {
        /// In which way.
        kind: &'static str,
        /// What was asked.
        example: String,
    },
}

/// What new files are like: the namenode's own suggestion, asked for once.
#[derive(Debug, Clone, Copy)]
pub struct NewFile {
    /// Copies of each block.
    pub replication: u16,
    /// Bytes.
    pub block_size: u64,
}

/// Carries an operation out.
pub async fn perform(client: &Client, task: &Task, new_file: NewFile) -> Done {
    let path = task.path.as_str();
    match task.op {
        Op::Open => one(task.op, client.get_block_locations(path).await.map(|_| true)),
        Op::StatFile | Op::StatDir => {
            one(task.op, client.get_file_info(path).await.map(|status| status.is_some()))
        }
        Op::ListDir | Op::ListFile => {
            one(task.op, client.list_page(path, Vec::new()).await.map(|page| page.is_some()))
        }
        Op::Create => create(client, path, new_file).await,
        Op::Rename => {
            let to = task.to.as_deref().unwrap_or(path);
            one(task.op, client.rename2(path, to, false).await.map(|()| true))
        }
        Op::Delete => one(task.op, client.delete(path, false).await),
        Op::ChownDir => one(task.op, client.set_owner(path, Some(client.user()), None).await.map(|()| true)),
        Op::SetReplication => {
            one(task.op, client.set_replication(path, 1 + (task.variation % 3) as u16).await)
        }
        Op::ChmodFile => one(task.op, chmod(client, path, [0o644, 0o640], task.variation).await),
        Op::ChmodDir => one(task.op, chmod(client, path, [0o755, 0o750], task.variation).await),
        Op::Mkdir => one(task.op, client.mkdirs(path, 0o755, false).await),
        Op::Append => append(client, path).await,
    }
}

async fn chmod(client: &Client, path: &str, modes: [u16; 2], variation: u32) -> Result<bool, Error> {
    client.set_permission(path, modes[(variation % 2) as usize]).await.map(|()| true)
}

async fn create(client: &Client, path: &str, new_file: NewFile) -> Done {
    let options = CreateOptions {
        replication: Some(new_file.replication),
        block_size: Some(new_file.block_size),
        create_parent: false,
        ..CreateOptions::default()
    };
    // An error tells by its method which of the two calls failed.
    match client.create_empty(path, &options).await {
        Ok(_) => Done { answered: 2, end: End::Success },
        Err(error) => failed(Op::Create, usize::from(error.method() == rpc::COMPLETE.name), error),
    }
}

async fn append(client: &Client, path: &str) -> Done {
    match append_and_close(client, path).await {
        Ok(true) => Done { answered: 2, end: End::Success },
        Ok(false) => Done { answered: 2, end: End::Refused { by_exception: false } },
        Err((answered, error)) => failed(Op::Append, answered, error),
    }
}

/// Without the library's writer, which would also renew a lease. False: the file is not closed.
///
/// # Errors
/// After so many calls that were answered.
pub(crate) async fn append_and_close(client: &Client, path: &str) -> Result<bool, (usize, Error)> {
    let request = hdfs::AppendRequestProto {
        src: path.to_owned(),
        client_name: client.name().to_owned(),
        flag: Some(hdfs::CreateFlagProto::Append as u32),
    };
    let answer = client.call(&rpc::APPEND, &request).await.map_err(|error| (0, error))?;
    // Files of a run are empty, so there is no last block; 0 stands for "whichever file has this path".
    let file_id = answer.stat.map_or(0, |status| status.file_id());
    client.complete(path, file_id, None).await.map_err(|error| (1, error))
}

/// An operation of one call.
fn one(op: Op, answer: Result<bool, Error>) -> Done {
    match answer {
        Ok(true) => Done { answered: 1, end: End::Success },
        Ok(false) => Done { answered: 1, end: End::Refused { by_exception: false } },
        Err(error) => failed(op, 0, error),
    }
}

/// An operation of which a call failed, after `answered` that did not.
fn failed(op: Op, answered: usize, error: Error) -> Done {
    let expected = |kind: Kind| op.row().expected.contains(&kind);
    // One that the client raises itself stands for an answer without contents.
    let is_local = error.exception().is_some() && error.attempts() == 0;
    let answered = answered + usize::from(is_local);
    let end = match error.kind().is_some_and(expected) {
        true => End::Refused { by_exception: !is_local },
        false => End::Error(error),
    };
    Done { answered, end }
}

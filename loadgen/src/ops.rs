//! Operations: each a few calls on paths, and how it ended.

use trellis_client::{Client, Error};

use crate::files::{Answers, Failure, NewFile, is_local};
use crate::mix::Op;
use crate::namespace::mixed;

/// An operation and what it is done to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// What.
    pub op: Op,
    /// To which path.
    pub path: String,
    /// The second path of a rename.
    pub to: Option<String>,
    /// What varies: modes and replications are set to one thing and another, files have one size or another.
    pub variation: u32,
}

/// How an operation ended.
#[derive(Debug)]
pub struct Done {
    /// Its calls that were answered without an exception.
    pub answers: Answers,
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
    Error(Failure),
}

/// Carries an operation out.
pub async fn perform(client: &Client, task: &Task, new_file: &NewFile) -> Done {
    let path = task.path.as_str();
    match task.op {
        Op::Open => one(task.op, client.get_block_locations(path).await.map(|_| true)),
        Op::StatFile | Op::StatDir => {
            one(task.op, client.get_file_info(path).await.map(|status| status.is_some()))
        }
        Op::ListDir | Op::ListFile => {
            one(task.op, client.list_page(path, Vec::new()).await.map(|page| page.is_some()))
        }
        Op::Create => create(client, task, new_file).await,
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
        // It is many times as large as the others.
        Op::Append => Box::pin(append(client, path, new_file)).await,
    }
}

async fn chmod(client: &Client, path: &str, modes: [u16; 2], variation: u32) -> Result<bool, Error> {
    client.set_permission(path, modes[(variation % 2) as usize]).await.map(|()| true)
}

async fn create(client: &Client, task: &Task, new_file: &NewFile) -> Done {
    let mut answers = Answers::default();
    let size = new_file.sizes.at(mixed(task.variation.into()));
    let made = new_file.create(client, &task.path, size, &new_file.options(), &mut answers).await;
    done(Op::Create, made, answers)
}

async fn append(client: &Client, path: &str, new_file: &NewFile) -> Done {
    let mut answers = Answers::default();
    let appended = new_file.append(client, path, &mut answers).await;
    done(Op::Append, appended, answers)
}

/// An operation of one call.
fn one(op: Op, answer: Result<bool, Error>) -> Done {
    match answer {
        Ok(true) => Done { answers: Answers::of_first(1), end: End::Success },
        Ok(false) => Done { answers: Answers::of_first(1), end: End::Refused { by_exception: false } },
        // One that the client raises itself stands for an answer without contents.
        Err(error) => {
            let is_local = is_local(&error);
            done(op, Err(error.into()), Answers::of_first(is_local.into()))
        }
    }
}

/// An operation that ended so, after these answers.
fn done(op: Op, ended: Result<(), Failure>, answers: Answers) -> Done {
    let is_expected = |error: &Error| error.kind().is_some_and(|kind| op.row().expected.contains(&kind));
    let end = match ended {
        Ok(()) => End::Success,
        Err(Failure::Call(error)) if is_expected(&error) => End::Refused { by_exception: !is_local(&error) },
        Err(failure) => End::Error(failure),
    };
    Done { answers, end }
}

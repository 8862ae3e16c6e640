//! The calls that replay a line, and what came of them beside what the trace says.

use prost::Message;
use trellis_client::fs::access;
use trellis_client::types::CreateOptions;
use trellis_client::{Client, Error};
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as rpc;
use trellis_proto::methods::Rpc;
use trellis_proto::presence::Checked;

use super::commands::Command;
use crate::files::{Answers, Failure, NewFile, is_local};
use crate::ops::{Done, End};

/// Where the trace does not tell a mode.
const FILE_MODE: u16 = 0o644;
const DIR_MODE: u16 = 0o755;
/// Kinds of errors that are no exceptions.
const ANSWERED_FALSE: &str = "answered false";
const NOT_REFUSED: &str = "not refused";
/// How those are refused who may not: some calls look at what is there before they look at who asks.
const REFUSALS: [Kind; 2] = [Kind::AccessControl, Kind::FileNotFound];

/// A line as it is replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// What.
    pub command: Command,
    /// The trace says that it was allowed.
    pub allowed: bool,
    /// On the target.
    pub path: String,
    /// The new path of a rename.
    pub to: Option<String>,
    /// The sources of a concat.
    pub sources: Vec<String>,
    /// A rename replaces what is there.
    pub overwrite: bool,
    /// What mode is to come of it.
    pub mode: Option<u16>,
    /// Owner and group that a line sets; None: the client's user.
    pub owner: Option<(String, String)>,
    /// Of files whose times are set, ms since 1970.
    pub clock_ms: u64,
}

/// Replays a line.
pub async fn perform(client: &Client, task: &Task, new_file: &NewFile) -> Done {
    let mut answers = Answers::default();
    let ended = act(client, task, new_file, &mut answers).await;
    Done { answers, end: end(task, ended) }
}

/// What came of it, beside what the trace says.
fn end(task: &Task, ended: Result<bool, Failure>) -> End {
    let example = || format!("{} {}", task.command.row().name, task.path);
    let differs = |kind| End::Error(Failure::Differs { kind, example: example() });
    let is_refusal = |error: &Error| error.kind().is_some_and(|kind| REFUSALS.contains(&kind));
    match (task.allowed, ended) {
        (true, Ok(true)) => End::Success,
        (true, Ok(false)) => differs(ANSWERED_FALSE),
        (false, Ok(true)) => differs(NOT_REFUSED),
        (false, Ok(false)) => End::Refused { by_exception: false },
        (false, Err(Failure::Call(error))) if is_refusal(&error) => {
            End::Refused { by_exception: !is_local(&error) }
        }
        (_, Err(failure)) => End::Error(failure),
    }
}

/// False: the namenode says that it was not done.
async fn act(
    client: &Client,
    task: &Task,
    new_file: &NewFile,
    answers: &mut Answers,
) -> Result<bool, Failure> {
    let (path, to) = (task.path.as_str(), task.to.as_deref().unwrap_or(&task.path));
    let src = path.to_owned();
    let mode = |usual| task.mode.unwrap_or(usual);
    let ended = match task.command {
        Command::Open => client.get_block_locations(path).await.map(answered),
        // That there is nothing is an answer: the trace does not tell whether there was.
        Command::GetFileInfo => client.get_file_info(path).await.map(answered),
        Command::ListStatus => client.list_page(path, Vec::new()).await.map(answered),
        Command::ContentSummary => client.get_content_summary(path).await.map(answered),
        Command::QuotaUsage => client.get_quota_usage(path).await.map(answered),
        Command::IsFileClosed => client.is_file_closed(path).await.map(answered),
        Command::CheckAccess => client.check_access(path, access::READ).await.map(answered),
        Command::GetAclStatus => {
            ask(client, &rpc::GET_ACL_STATUS, hdfs::GetAclStatusRequestProto { src }).await
        }
        Command::GetXAttrs => {
            ask(client, &rpc::GET_X_ATTRS, hdfs::GetXAttrsRequestProto { src, x_attrs: Vec::new() }).await
        }
        Command::ListXAttrs => ask(client, &rpc::LIST_X_ATTRS, hdfs::ListXAttrsRequestProto { src }).await,
        Command::GetEzForPath => {
            ask(client, &rpc::GET_EZ_FOR_PATH, hdfs::GetEzForPathRequestProto { src }).await
        }
        Command::GetEcPolicy => {
            ask(client, &rpc::GET_ERASURE_CODING_POLICY, hdfs::GetErasureCodingPolicyRequestProto { src })
                .await
        }
        Command::Create => {
            let (permission, overwrite, create_parent) = (mode(FILE_MODE), true, true);
            let options = CreateOptions { permission, overwrite, create_parent, ..new_file.options() };
            return new_file.create(client, path, 0, &options, answers).await.map(answered);
        }
        Command::Append => return new_file.append(client, path, answers).await.map(answered),
        Command::Truncate => client.truncate(path, 0).await,
        Command::Concat => {
            let sources: Vec<&str> = task.sources.iter().map(String::as_str).collect();
            client.concat(path, &sources).await.map(answered)
        }
        Command::Mkdirs => client.mkdirs(path, mode(DIR_MODE), true).await,
        Command::Rename => client.rename(path, to).await,
        Command::RenameOptions => client.rename2(path, to, task.overwrite).await.map(answered),
        Command::Delete => client.delete(path, true).await,
        Command::SetPermission => client.set_permission(path, mode(DIR_MODE)).await.map(answered),
        Command::SetOwner => {
            let (owner, group) = match &task.owner {
                Some((owner, group)) => (owner.as_str(), Some(group.as_str())),
                None => (client.user(), None),
            };
            client.set_owner(path, Some(owner), group).await.map(answered)
        }
        Command::SetTimes => {
            client.set_times(path, Some(task.clock_ms), Some(task.clock_ms)).await.map(answered)
        }
        Command::SetReplication => client.set_replication(path, new_file.replication).await,
        Command::UnsetStoragePolicy => {
            ask(client, &rpc::UNSET_STORAGE_POLICY, hdfs::UnsetStoragePolicyRequestProto { src }).await
        }
        Command::RemoveAcl => ask(client, &rpc::REMOVE_ACL, hdfs::RemoveAclRequestProto { src }).await,
        Command::RemoveDefaultAcl => {
            ask(client, &rpc::REMOVE_DEFAULT_ACL, hdfs::RemoveDefaultAclRequestProto { src }).await
        }
    };
    answers.note(0, &ended);
    ended.map_err(Failure::from)
}

/// Whatever the answer was.
fn answered<T>(_: T) -> bool {
    true
}

/// A call that the client library has no function for.
async fn ask<Request: Message, Response: Checked>(
    client: &Client,
    rpc: &Rpc<Request, Response>,
    request: Request,
) -> Result<bool, Error> {
    client.call(rpc, &request).await.map(answered)
}

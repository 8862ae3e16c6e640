//! The calls of clients, as tests make them: one user, one namenode.

use trellis_metastore::schema::Inode;
use trellis_namenode::check::{check, check_with_all_live};
use trellis_namenode::engine::walk::{DirOp, Target};
use trellis_namenode::ops::attributes::{
    SetOwner, SetPermission, SetReplication, SetTimes, set_owner, set_permission, set_replication, set_times,
};
use trellis_namenode::ops::create::{Create, CreateFlags, create};
use trellis_namenode::ops::delete::{Delete, delete};
use trellis_namenode::ops::lease::{RecoverLease, RenewLease, recover_lease, renew_lease};
use trellis_namenode::ops::mkdirs::{Mkdirs, mkdirs};
use trellis_namenode::ops::rename::{Rename, Rename2, rename, rename2};
use trellis_namenode::ops::status::FileStatus;
use trellis_namenode::ops::write::{Complete, WrittenFile, complete};
use trellis_proto::exception::RpcError;

use crate::support::{Answer, Namenode, SUPERUSER, path};

/// What a call answers.
pub type Answered<T> = Result<T, RpcError>;

/// A user at a namenode.
#[derive(Clone, Copy)]
pub struct As<'n> {
    pub nn: &'n Namenode,
    pub user: &'n str,
}

/// The superuser at a namenode.
pub fn root(nn: &Namenode) -> As<'_> {
    As { nn, user: SUPERUSER }
}

/// A call of create with usual numbers.
pub fn new_file(text: &str, holder: &str, bits: u32) -> Create {
    Create {
        path: path(text),
        mode: 0o644,
        holder: holder.to_owned(),
        flags: CreateFlags::from_bits(bits),
        create_parent: true,
        replication: 3,
        block_size: 1 << 20,
        ec_policy: String::new(),
        storage_policy: String::new(),
    }
}

impl As<'_> {
    pub async fn mkdirs(self, text: &str, mode: u32, create_parent: bool) -> Answered<bool> {
        let call = Mkdirs { path: path(text), mode, create_parent };
        self.nn.yes(self.user, move |tx| mkdirs(tx, &call)).await
    }

    pub async fn mk(self, text: &str) -> Answered<bool> {
        self.mkdirs(text, 0o755, true).await
    }

    pub async fn rm(self, text: &str, recursive: bool) -> Answered<bool> {
        let call = Delete { path: path(text), recursive };
        self.nn.yes(self.user, move |tx| delete(tx, &call)).await
    }

    pub async fn mv(self, source: &str, target: &str) -> Answered<bool> {
        let call = Rename { source: path(source), target: path(target) };
        self.nn.yes(self.user, move |tx| rename(tx, &call)).await
    }

    pub async fn mv2(self, source: &str, target: &str, overwrite: bool) -> Answered<()> {
        let call = Rename2 { source: path(source), target: path(target), overwrite, to_trash: false };
        self.nn.yes(self.user, move |tx| rename2(tx, &call).map(|()| true)).await.map(drop)
    }

    pub async fn create_as(self, call: Create) -> Answered<Inode> {
        self.nn.write(self.user, move |tx| create(tx, &call).map(|status| status.inode)).await
    }

    /// Creates a file (CREATE), leaving it open.
    pub async fn open(self, text: &str, holder: &str) -> Answered<Inode> {
        self.create_as(new_file(text, holder, 1)).await
    }

    /// Creates an empty file.
    pub async fn touch(self, text: &str) -> Answered<Inode> {
        let file = self.open(text, "toucher").await?;
        assert!(self.complete(text, file.id, "toucher").await?);
        Ok(file)
    }

    pub async fn complete(self, text: &str, file_id: u64, holder: &str) -> Answered<bool> {
        let call = Complete { file: written(text, file_id, holder), last: None };
        self.nn.yes(self.user, move |tx| complete(tx, &call)).await
    }

    pub async fn chmod(self, text: &str, mode: u32) -> Answered<Inode> {
        let call = SetPermission { path: path(text), mode };
        self.nn.write(self.user, move |tx| set_permission(tx, &call)).await
    }

    pub async fn chown(self, text: &str, owner: Option<&str>, group: Option<&str>) -> Answered<Inode> {
        let call = SetOwner { path: path(text), owner: owner.map(Into::into), group: group.map(Into::into) };
        self.nn.write(self.user, move |tx| set_owner(tx, &call)).await
    }

    pub async fn utimes(self, text: &str, mtime_ms: i64, atime_ms: i64) -> Answered<Inode> {
        let call = SetTimes { path: path(text), mtime_ms, atime_ms };
        self.nn.write(self.user, move |tx| set_times(tx, &call)).await
    }

    pub async fn setrep(self, text: &str, replication: u32) -> Answered<bool> {
        let call = SetReplication { path: path(text), replication };
        self.nn.yes(self.user, move |tx| set_replication(tx, &call)).await
    }

    pub async fn renew(self, holder: &str) -> Answered<()> {
        let call = RenewLease { holder: holder.to_owned(), namespaces: Vec::new() };
        self.nn.yes(self.user, move |tx| renew_lease(tx, &call).map(|()| true)).await.map(drop)
    }

    pub async fn recover(self, text: &str, holder: &str) -> Answered<bool> {
        let call = RecoverLease { path: path(text), holder: holder.to_owned() };
        self.nn.yes(self.user, move |tx| recover_lease(tx, &call)).await
    }

    /// The status of a path; none when there is nothing.
    pub async fn stat(self, text: &str) -> Answered<Option<FileStatus>> {
        let target = path(text);
        let op = move |tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>| {
            let walked = tx.walk_one(Target::new(&target, DirOp::Read).with_stat())?;
            let node = walked.target().cloned();
            node.map(|node| FileStatus::of(tx, node, bytes::Bytes::new())).transpose()
        };
        let user = self.nn.engine.users().get(self.user);
        let ctx = self.nn.engine.ctx(user, "127.0.0.1".into(), None);
        self.nn.engine.read_wait(ctx, 0, Box::new(op)).await
    }

    /// The status of what must be at a path.
    pub async fn must(self, text: &str) -> FileStatus {
        self.stat(text).await.unwrap().unwrap_or_else(|| panic!("{text} is gone"))
    }

    /// Runs an operation that answers nothing.
    pub async fn run(
        self,
        mut op: impl FnMut(&mut trellis_namenode::engine::tx::Tx<'_, '_>) -> trellis_namenode::refusal::Result<()>
        + Send
        + 'static,
    ) -> Answered<()> {
        self.nn.write(self.user, move |tx| op(tx).map(|()| Answer { yes: true })).await.map(drop)
    }
}

/// The file that a writer speaks of.
pub fn written(text: &str, file_id: u64, holder: &str) -> WrittenFile {
    WrittenFile { path: path(text), file_id, holder: holder.to_owned() }
}

/// The rows of a quiet namenode must fit together.
pub async fn assert_sound(nn: &Namenode) {
    let findings = check(nn.engine.backend().store()).await.unwrap();
    let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{}", list.join("\n"));
}

/// The same where all datanodes live: every file with corrupt replicas, or too many, is noted, too.
pub async fn assert_sound_and_noted(nn: &Namenode) {
    let findings = check_with_all_live(nn.engine.backend().store()).await.unwrap();
    let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{}", list.join("\n"));
}

/// The first line of a refusal, with its class.
pub fn refusal<T: std::fmt::Debug>(answer: Answered<T>) -> String {
    let error = answer.expect_err("refused");
    format!("{}: {}", error.kind.simple_name(), error.message)
}

//! A user of a namenode: every operation with the arguments that a client sends, answers as the recordings write them.

use bytes::Bytes;
use prost::Message;
use trellis_metastore::schema::Inode;
use trellis_namenode::engine::Op;
use trellis_namenode::engine::tx::Tx;
use trellis_namenode::ops::attributes::{
    SetOwner, SetPermission, SetReplication, SetTimes, set_owner, set_permission, set_replication, set_times,
};
use trellis_namenode::ops::create::{Create, CreateFlags, create};
use trellis_namenode::ops::delete::{Delete, delete};
use trellis_namenode::ops::inspect::{InspectedFile, inspect};
use trellis_namenode::ops::lease::{RecoverLease, RenewLease, recover_lease, renew_lease};
use trellis_namenode::ops::list::{
    BatchCursor, BatchedListing, GetBatchedListing, GetListing, Listing, Shown,
};
use trellis_namenode::ops::list::{get_batched_listing, get_listing, show_listing};
use trellis_namenode::ops::locations::{GetBlockLocations, Opened, get_block_locations, touch_access_time};
use trellis_namenode::ops::mkdirs::{Mkdirs, mkdirs};
use trellis_namenode::ops::open_files::{ListOpenFiles, OpenFilesPage, list_open_files};
use trellis_namenode::ops::rename::{Rename, Rename2, rename, rename2};
use trellis_namenode::ops::statistics::{ConcernsPage, ListConcerns, Totals, Trouble, list_concerns, totals};
use trellis_namenode::ops::status::{self, CheckAccess, FileStatus};
use trellis_namenode::ops::summary::{get_content_summary, get_quota_usage};
use trellis_namenode::ops::write::{AbandonBlock, BlockName, Complete, Fsync, WrittenFile};
use trellis_namenode::ops::write::{abandon_block, complete, fsync};
use trellis_namenode::path::Path;
use trellis_namenode::refusal;
use trellis_namenode::rpc::client_protocol::CLIENT_PROTOCOL;
use trellis_namenode::rpc::plan::Does;
use trellis_proto::exception::RpcError;

use crate::support::{Namenode, SUPERUSER};

/// What an operation answered.
pub type Said<T> = Result<T, RpcError>;

/// The block size of all files in the recordings.
pub const BLOCK: u64 = 1 << 20;

/// An answer as a text, in a message (the retry cache keeps messages).
#[derive(Clone, PartialEq, Message)]
pub struct Text {
    #[prost(string, tag = "1")]
    pub text: String,
}

/// A user and the namenode that it asks.
#[derive(Clone)]
pub struct Actor {
    pub nn: Namenode,
    pub user: String,
}

impl Actor {
    pub fn new(nn: &Namenode, user: &str) -> Actor {
        Actor { nn: nn.clone(), user: user.to_owned() }
    }

    pub fn superuser(nn: &Namenode) -> Actor {
        Actor::new(nn, SUPERUSER)
    }

    /// Runs an operation that writes; its answer as a text. Whether the answer is kept for repeats, the table of
    /// methods says.
    async fn change(
        &self,
        method: &str,
        mut op: impl FnMut(&mut Tx<'_, '_>) -> refusal::Result<String> + Send + 'static,
    ) -> Said<String> {
        let entry = CLIENT_PROTOCOL.entries.iter().find(|entry| entry.name == method);
        let keeps = entry.is_some_and(|entry| matches!(entry.does, Does::WriteOnce | Does::WriteKept));
        let ctx = self.nn.engine.ctx(self.nn.engine.users().get(&self.user), "127.0.0.1".into(), None);
        let op: Op<Text> = Box::new(move |tx| op(tx).map(|text| Text { text }));
        Ok(self.nn.engine.write_wait(ctx, 0, 1001, keeps, op).await?.text)
    }

    async fn read<A: Send + 'static>(
        &self,
        op: impl FnMut(&mut Tx<'_, '_>) -> refusal::Result<A> + Send + 'static,
    ) -> Said<A> {
        self.nn.read(&self.user, op).await
    }

    pub async fn mkdirs(&self, text: &str, mode: u32, create_parent: bool) -> Said<String> {
        let call = Mkdirs { path: Path::parse_new(text)?, mode, create_parent };
        self.change("mkdirs", move |tx| mkdirs(tx, &call).map(|yes| yes.to_string())).await
    }

    pub async fn delete(&self, text: &str, recursive: bool) -> Said<String> {
        let call = Delete { path: Path::parse(text)?, recursive };
        self.change("delete", move |tx| delete(tx, &call).map(|yes| yes.to_string())).await
    }

    pub async fn rename(&self, source: &str, target: &str) -> Said<String> {
        let call = Rename { source: Path::parse(source)?, target: Path::parse(target)? };
        self.change("rename", move |tx| rename(tx, &call).map(|yes| yes.to_string())).await
    }

    pub async fn rename2(&self, source: &str, target: &str, overwrite: bool, to_trash: bool) -> Said<String> {
        let (source, target) = (Path::parse(source)?, Path::parse(target)?);
        let call = Rename2 { source, target, overwrite, to_trash };
        self.change("rename2", move |tx| rename2(tx, &call).map(|()| String::new())).await
    }

    pub async fn set_permission(&self, text: &str, mode: u32) -> Said<String> {
        let call = SetPermission { path: Path::parse(text)?, mode };
        self.change("setPermission", move |tx| set_permission(tx, &call).map(|_| String::new())).await
    }

    pub async fn set_owner(&self, text: &str, owner: Option<&str>, group: Option<&str>) -> Said<String> {
        let (owner, group) = (owner.map(str::to_owned), group.map(str::to_owned));
        let call = SetOwner { path: Path::parse(text)?, owner, group };
        self.change("setOwner", move |tx| set_owner(tx, &call).map(|_| String::new())).await
    }

    pub async fn set_times(&self, text: &str, mtime_ms: i64, atime_ms: i64) -> Said<String> {
        let call = SetTimes { path: Path::parse(text)?, mtime_ms, atime_ms };
        self.change("setTimes", move |tx| set_times(tx, &call).map(|_| String::new())).await
    }

    pub async fn set_replication(&self, text: &str, replication: u32) -> Said<String> {
        let call = SetReplication { path: Path::parse(text)?, replication };
        self.change("setReplication", move |tx| set_replication(tx, &call).map(|yes| yes.to_string())).await
    }

    /// Creates a file; `call` may change what a client sends by default.
    pub async fn create(&self, text: &str, holder: &str, change: impl FnOnce(&mut Create)) -> Said<String> {
        let mut call = Create {
            path: Path::parse(text)?,
            mode: 0o644,
            holder: holder.to_owned(),
            flags: CreateFlags { create: true, ..CreateFlags::default() },
            create_parent: true,
            replication: 1,
            block_size: BLOCK,
            ec_policy: String::new(),
            storage_policy: String::new(),
        };
        change(&mut call);
        self.change("create", move |tx| create(tx, &call).map(|status| shown(Some(&status)))).await
    }

    pub async fn complete(&self, text: &str, holder: &str) -> Said<String> {
        self.complete_id(text, 0, holder).await
    }

    /// With the inode id, as clients do.
    pub async fn complete_id(&self, text: &str, file_id: u64, holder: &str) -> Said<String> {
        let call = Complete { file: WrittenFile { file_id, ..written(text, holder)? }, last: None };
        self.change("complete", move |tx| complete(tx, &call).map(|yes| yes.to_string())).await
    }

    pub async fn fsync(&self, text: &str, holder: &str) -> Said<String> {
        let call = Fsync { file: written(text, holder)?, last_block_length: -1 };
        self.change("fsync", move |tx| fsync(tx, &call).map(|()| String::new())).await
    }

    pub async fn abandon_block(&self, text: &str, holder: &str) -> Said<String> {
        let block = BlockName { pool: crate::support::BLOCK_POOL.into(), id: 1, stamp: 1, bytes: 0 };
        let call = AbandonBlock { file: written(text, holder)?, block };
        self.change("abandonBlock", move |tx| abandon_block(tx, &call).map(|()| String::new())).await
    }

    pub async fn renew_lease(&self, holder: &str) -> Said<String> {
        let call = RenewLease { holder: holder.to_owned(), namespaces: Vec::new() };
        self.change("renewLease", move |tx| renew_lease(tx, &call).map(|()| String::new())).await
    }

    pub async fn recover_lease(&self, text: &str, holder: &str) -> Said<String> {
        let call = RecoverLease { path: Path::parse(text)?, holder: holder.to_owned() };
        self.change("recoverLease", move |tx| recover_lease(tx, &call).map(|yes| yes.to_string())).await
    }

    pub async fn status(&self, text: &str) -> Said<Option<FileStatus>> {
        let path = Path::parse(text)?;
        self.read(move |tx| status::get_file_info(tx, &path)).await
    }

    pub async fn located_status(&self, text: &str) -> Said<Option<FileStatus>> {
        let path = Path::parse(text)?;
        let op = move |tx: &mut Tx<'_, '_>| status::get_located_file_info(tx, &path);
        Ok(self.read(op).await?.map(|located| located.status))
    }

    pub async fn is_file_closed(&self, text: &str) -> Said<String> {
        let path = Path::parse(text)?;
        self.read(move |tx| status::is_file_closed(tx, &path).map(|yes| yes.to_string())).await
    }

    pub async fn preferred_block_size(&self, text: &str) -> Said<String> {
        let path = Path::parse(text)?;
        self.read(move |tx| status::get_preferred_block_size(tx, &path).map(|size| size.to_string())).await
    }

    pub async fn check_access(&self, text: &str, access: u32) -> Said<String> {
        let call = CheckAccess { path: Path::parse(text)?, access };
        self.read(move |tx| status::check_access(tx, &call).map(|()| String::new())).await
    }

    pub async fn link_target(&self, text: &str) -> Said<String> {
        let path = Path::parse(text)?;
        self.read(move |tx| status::get_link_target(tx, &path).map(|_| String::new())).await
    }

    pub async fn enclosing_root(&self, text: &str) -> Said<String> {
        let path = Path::parse(text)?;
        self.read(move |tx| status::get_enclosing_root(tx, &path).map(|root| root.prefix(0))).await
    }

    /// Opens a file for reading; moves its access time when that is due, as a namenode does before it answers.
    pub async fn open(&self, text: &str) -> Said<Opened> {
        let call = GetBlockLocations { path: Path::parse(text)?, offset: 0, length: 10 };
        let opened = self.read(move |tx| get_block_locations(tx, &call)).await?;
        if let Some(id) = opened.access_time_due {
            self.change("the access time", move |tx| touch_access_time(tx, id).map(|yes| yes.to_string()))
                .await?;
        }
        Ok(opened)
    }

    /// A page, which must be the same when it is but shown.
    pub async fn listing(&self, text: &str, after: impl AsRef<[u8]>) -> Said<Option<Listing>> {
        let start_after = Bytes::copy_from_slice(after.as_ref());
        let call = GetListing { path: Path::parse(text)?, start_after, with_blocks: false };
        let show = |listing: &Listing| Bytes::from(format!("{listing:?}"));
        let (listing, shown) = self
            .read(move |tx| {
                let shown = show_listing(tx, &call, |entries, remaining| {
                    let entries = entries.statuses();
                    entries.map_or(Bytes::new(), |entries| show(&Listing { entries, remaining }))
                })?;
                Ok((get_listing(tx, &call)?, shown))
            })
            .await?;
        match (&listing, shown) {
            (None, None) => {}
            (Some(listing), Some(Shown::Page(page))) => assert_eq!(page, show(listing)),
            (Some(listing), Some(Shown::Listing(other))) => assert_eq!(other, *listing),
            (listing, shown) => panic!("{listing:?}, shown as {shown:?}"),
        }
        Ok(listing)
    }

    pub async fn batched(&self, paths: &[&str], cursor: Option<BatchCursor>) -> Said<BatchedListing> {
        let paths = paths.iter().map(|text| Path::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let call = GetBatchedListing { paths, cursor, with_blocks: false };
        self.read(move |tx| get_batched_listing(tx, &call)).await
    }

    pub async fn content_summary(&self, text: &str) -> Said<String> {
        let path = Path::parse(text)?;
        let sum = self.read(move |tx| get_content_summary(tx, &path)).await?;
        let (dirs, files) = (sum.directories, sum.files);
        Ok(format!("dirs={dirs} files={files} length={} space={}", sum.length, sum.space))
    }

    pub async fn quota_usage(&self, text: &str) -> Said<String> {
        let path = Path::parse(text)?;
        let usage = self.read(move |tx| get_quota_usage(tx, &path)).await?;
        Ok(format!("names={} quota={} space={}", usage.names, usage.quota, usage.space))
    }

    pub async fn totals(&self) -> Said<Totals> {
        self.read(totals).await
    }

    pub async fn inspect(&self, id: u64) -> Said<Vec<Option<InspectedFile>>> {
        self.read(move |tx| inspect(tx, &[id])).await
    }

    pub async fn concerns(&self) -> Said<ConcernsPage> {
        let (trouble, under) = (Trouble::Missing, Path::parse("/").unwrap());
        let call = ListConcerns { trouble, after: 0, under, blocks: 100 };
        self.read(move |tx| list_concerns(tx, &call, "listCorruptFileBlocks")).await
    }

    pub async fn open_files(&self, after: i64, under: &str) -> Said<OpenFilesPage> {
        let call = ListOpenFiles::new(after, under)?;
        self.read(move |tx| list_open_files(tx, &call)).await
    }

    /// A directory with exactly this mode and owner; parents as they come.
    pub async fn give_dir(&self, text: &str, mode: u32, owner: &str, group: &str) {
        self.mkdirs(text, 0o755, true).await.unwrap();
        self.give(text, mode, owner, group).await;
    }

    /// A closed file with exactly this mode and owner.
    pub async fn give_file(&self, text: &str, mode: u32, owner: &str, group: &str) {
        self.file(text).await;
        self.give(text, mode, owner, group).await;
    }

    /// Gives mode and owner.
    pub async fn give(&self, text: &str, mode: u32, owner: &str, group: &str) {
        self.set_permission(text, mode).await.unwrap();
        self.set_owner(text, Some(owner), Some(group)).await.unwrap();
    }

    /// A closed, empty file.
    pub async fn file(&self, text: &str) {
        self.create(text, "maker", |_| {}).await.unwrap();
        self.complete(text, "maker").await.unwrap();
    }
}

fn written(text: &str, holder: &str) -> Said<WrittenFile> {
    Ok(WrittenFile { path: Path::parse(text)?, file_id: 0, holder: holder.to_owned() })
}

/// A status as the recordings write it.
pub fn shown(status: Option<&FileStatus>) -> String {
    let Some(status) = status else { return "absent".into() };
    let Inode { mode, owner, group, replication, block_size, length, .. } = &status.inode;
    match status.inode.is_dir() {
        true => format!("d {mode:04o} {owner}:{group} children={}", status.children),
        false => format!("f {mode:04o} {owner}:{group} repl={replication} bs={block_size} len={length}"),
    }
}

/// Names as Java prints a list.
pub fn names(entries: &[FileStatus]) -> String {
    let names: Vec<_> =
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
    format!("[{}]", names.join(", "))
}

/// One line without tabs, long repetitions cut, the superuser's name masked, as the recordings write texts.
pub fn clean(text: &str) -> String {
    let first = text.split('\n').next().unwrap_or_default();
    cut_repetitions(first).replace(&format!(":{SUPERUSER}:"), ":super:")
}

/// Cuts 30 or more repetitions of one or two characters to one and `..`.
fn cut_repetitions(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut i) = (String::new(), 0);
    'next: while i < chars.len() {
        for unit in [2, 1] {
            let repeats =
                chars[i..].chunks(unit).take_while(|chunk| *chunk == &chars[i..(i + unit).min(chars.len())]);
            let count = repeats.count();
            if i + unit <= chars.len() && count >= 30 {
                out.extend(&chars[i..i + unit]);
                out.push_str("..");
                i += unit * count;
                continue 'next;
            }
        }
        out.push(chars[i]);
        i += 1;
    }
    out
}

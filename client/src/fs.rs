//! The namespace: directories, names, attributes. Files' contents are in [`crate::file`].
//!
//! Paths are absolute. Methods are named as in ClientProtocol and answer as its Java methods do: where those say
//! `false` instead of throwing (`delete`, `rename`), so do these.

use std::vec;

use bytes::Bytes;
use prost::Message;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as rpc;
use trellis_proto::methods::Rpc;
use trellis_proto::presence::Checked;

use crate::client::Client;
use crate::error::{Error, Fault, Result};
use crate::types::{ContentSummary, FileStatus, FsStats, QuotaUsage, SafeMode, SetQuota};

/// All permission bits that HDFS knows.
const MODE_BITS: u16 = 0o1777;

/// Access that [`Client::check_access`] asks for: the sum of these.
pub mod access {
    /// Look things up in a directory.
    pub const EXECUTE: u8 = 1;
    /// Change.
    pub const WRITE: u8 = 2;
    /// Read.
    pub const READ: u8 = 4;
}

/// One page of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingPage {
    /// In stock's order: by name, bytes compared as signed numbers.
    pub entries: Vec<FileStatus>,
    /// How many come after these.
    pub remaining: u32,
    /// Where the next page begins.
    cursor: Bytes,
}

/// A directory's entries, fetched page by page; see [`Client::get_listing`].
#[derive(Debug)]
pub struct Listing {
    client: Client,
    path: String,
    page: vec::IntoIter<FileStatus>,
    /// Where the next page begins; None: there is none.
    cursor: Option<Bytes>,
}

impl Listing {
    /// The next entry, None after the last.
    pub async fn next(&mut self) -> Result<Option<FileStatus>> {
        loop {
            if let Some(entry) = self.page.next() {
                return Ok(Some(entry));
            }
            match self.next_page().await? {
                Some(entries) => self.page = entries.into_iter(),
                None => return Ok(None),
            }
        }
    }

    /// The next page whole (1000 entries as a rule), or what [`Listing::next`] left of the current one.
    pub async fn next_page(&mut self) -> Result<Option<Vec<FileStatus>>> {
        if self.page.len() > 0 {
            return Ok(Some(std::mem::take(&mut self.page).collect()));
        }
        let Some(cursor) = self.cursor.take() else { return Ok(None) };
        let Some(page) = self.client.list_page(&self.path, cursor).await? else {
            let text = format!("File {} does not exist.", self.path);
            return Err(Error::local("getListing", &self.path, Kind::FileNotFound, text));
        };
        // An empty page would make no progress, whatever the namenode says of further entries.
        if page.remaining > 0 && !page.entries.is_empty() {
            self.cursor = Some(page.cursor);
        }
        Ok(Some(page.entries).filter(|entries| !entries.is_empty()))
    }

    /// Whether a page came that was not the last.
    pub fn has_more(&self) -> bool {
        self.cursor.is_some()
    }
}

impl Client {
    /// [`Client::call`] with the path in the error.
    pub(crate) async fn call_on<Request: Message, Response: Checked>(
        &self,
        path: &str,
        rpc: &Rpc<Request, Response>,
        request: &Request,
    ) -> Result<Response> {
        self.call(rpc, request).await.map_err(|error| error.on(path))
    }

    /// A mode with the umask taken off, as both forms go to the namenode: it uses the other one where the parent has a
    /// default ACL.
    pub(crate) fn masked(&self, permission: u16) -> (hdfs::FsPermissionProto, hdfs::FsPermissionProto) {
        let mode = permission & MODE_BITS;
        let perm = |mode: u16| hdfs::FsPermissionProto { perm: mode.into() };
        (perm(mode & !self.0.umask), perm(mode))
    }

    /// Makes a directory, and those above it if `create_parent`. True also if it is there already. The umask is taken
    /// off `permission`; 0777 is usual.
    pub async fn mkdirs(&self, path: &str, permission: u16, create_parent: bool) -> Result<bool> {
        let (masked, unmasked) = self.masked(permission);
        let request =
            hdfs::MkdirsRequestProto { src: path.into(), masked, create_parent, unmasked: Some(unmasked) };
        Ok(self.call_on(path, &rpc::MKDIRS, &request).await?.result)
    }

    /// The status of a path; None: there is nothing.
    pub async fn get_file_info(&self, path: &str) -> Result<Option<FileStatus>> {
        let request = hdfs::GetFileInfoRequestProto { src: path.into() };
        Ok(self.call_on(path, &rpc::GET_FILE_INFO, &request).await?.fs.map(FileStatus::from))
    }

    /// The entries of a directory; a file is its own single entry, with an empty name. Nothing is fetched before the
    /// first entry is asked for; a path that does not exist is an error then.
    pub fn get_listing(&self, path: &str) -> Listing {
        Listing {
            client: self.clone(),
            path: path.to_owned(),
            page: Vec::new().into_iter(),
            cursor: Some(Bytes::new()),
        }
    }

    /// One page of a directory, after the entry named `start_after` (empty: from the start); None: there is nothing.
    pub async fn list_page(&self, path: &str, start_after: impl Into<Bytes>) -> Result<Option<ListingPage>> {
        let request = hdfs::GetListingRequestProto {
            src: path.into(),
            start_after: start_after.into(),
            need_location: false,
        };
        let response = self.call_on(path, &rpc::GET_LISTING, &request).await?;
        Ok(response.dir_list.map(|page| ListingPage {
            remaining: page.remaining_entries,
            // As it came: a name in text form might differ from it.
            cursor: page.partial_listing.last().map(|last| last.path.clone()).unwrap_or_default(),
            entries: page.partial_listing.into_iter().map(FileStatus::from).collect(),
        }))
    }

    /// Deletes a path; false: there is nothing, or it is `/`. A directory with entries needs `recursive`.
    pub async fn delete(&self, path: &str, recursive: bool) -> Result<bool> {
        let request = hdfs::DeleteRequestProto { src: path.into(), recursive };
        Ok(self.call_on(path, &rpc::DELETE, &request).await?.result)
    }

    /// The shell's `mv`: into `to` if that is a directory; false instead of most errors.
    pub async fn rename(&self, from: &str, to: &str) -> Result<bool> {
        let request = hdfs::RenameRequestProto { src: from.into(), dst: to.into() };
        Ok(self.call_on(from, &rpc::RENAME, &request).await?.result)
    }

    /// rename(2)'s way: `to` is the new name itself. What is there is replaced if `overwrite`, else an error.
    pub async fn rename2(&self, from: &str, to: &str, overwrite: bool) -> Result<()> {
        let request = hdfs::Rename2RequestProto {
            src: from.into(),
            dst: to.into(),
            overwrite_dest: overwrite,
            move_to_trash: Some(false),
        };
        self.call_on(from, &rpc::RENAME2, &request).await.map(drop)
    }

    /// Sets the nine permission bits and the sticky bit; the umask does not matter here.
    pub async fn set_permission(&self, path: &str, permission: u16) -> Result<()> {
        let permission = hdfs::FsPermissionProto { perm: (permission & MODE_BITS).into() };
        let request = hdfs::SetPermissionRequestProto { src: path.into(), permission };
        self.call_on(path, &rpc::SET_PERMISSION, &request).await.map(drop)
    }

    /// Sets owner, group or both; None leaves one as it is.
    pub async fn set_owner(&self, path: &str, owner: Option<&str>, group: Option<&str>) -> Result<()> {
        let request = hdfs::SetOwnerRequestProto {
            src: path.into(),
            username: owner.map(str::to_owned),
            groupname: group.map(str::to_owned),
        };
        self.call_on(path, &rpc::SET_OWNER, &request).await.map(drop)
    }

    /// Sets modification and access time, milliseconds since 1970; None leaves one as it is.
    pub async fn set_times(&self, path: &str, mtime_ms: Option<u64>, atime_ms: Option<u64>) -> Result<()> {
        let request = hdfs::SetTimesRequestProto {
            src: path.into(),
            mtime: mtime_ms.unwrap_or(u64::MAX),
            atime: atime_ms.unwrap_or(u64::MAX),
        };
        self.call_on(path, &rpc::SET_TIMES, &request).await.map(drop)
    }

    /// Sets the number of copies of a file's blocks; false: there is nothing, or it is a directory.
    pub async fn set_replication(&self, path: &str, replication: u16) -> Result<bool> {
        let request = hdfs::SetReplicationRequestProto { src: path.into(), replication: replication.into() };
        Ok(self.call_on(path, &rpc::SET_REPLICATION, &request).await?.result)
    }

    /// Counts a whole tree.
    pub async fn get_content_summary(&self, path: &str) -> Result<ContentSummary> {
        let request = hdfs::GetContentSummaryRequestProto { path: path.into() };
        Ok(self.call_on(path, &rpc::GET_CONTENT_SUMMARY, &request).await?.summary.into())
    }

    /// The quotas of a directory, and what is used of them.
    pub async fn get_quota_usage(&self, path: &str) -> Result<QuotaUsage> {
        let request = hdfs::GetQuotaUsageRequestProto { path: path.into() };
        Ok(self.call_on(path, &rpc::GET_QUOTA_USAGE, &request).await?.usage.into())
    }

    /// Sets the limits of a directory on names and on bytes (superuser).
    pub async fn set_quota(&self, path: &str, names: SetQuota, space: SetQuota) -> Result<()> {
        let request = hdfs::SetQuotaRequestProto {
            path: path.into(),
            namespace_quota: names.on_wire(),
            storagespace_quota: space.on_wire(),
            storage_type: None,
        };
        self.call_on(path, &rpc::SET_QUOTA, &request).await.map(drop)
    }

    /// Fails with AccessControlException unless the user has the access, a sum of [`access`]'s constants.
    pub async fn check_access(&self, path: &str, access: u8) -> Result<()> {
        let Ok(mode) = hdfs::acl_entry_proto::FsActionProto::try_from(i32::from(access)) else {
            let fault = Fault::Unusable(format!("access {access} is not a sum of 1, 2 and 4"));
            return Err(Error::new("checkAccess", String::new(), 0, fault).on(path));
        };
        let request = hdfs::CheckAccessRequestProto { path: path.into(), mode: mode.into() };
        self.call_on(path, &rpc::CHECK_ACCESS, &request).await.map(drop)
    }

    /// Appends the sources' blocks to `target` and removes the sources.
    pub async fn concat(&self, target: &str, sources: &[&str]) -> Result<()> {
        let srcs = sources.iter().map(|path| (*path).to_owned()).collect();
        let request = hdfs::ConcatRequestProto { trg: target.into(), srcs };
        self.call_on(target, &rpc::CONCAT, &request).await.map(drop)
    }

    /// Space and health of the cluster.
    pub async fn get_fs_stats(&self) -> Result<FsStats> {
        Ok(self.call(&rpc::GET_FS_STATS, &hdfs::GetFsStatusRequestProto {}).await?.into())
    }

    /// Asks about safe mode or changes it; whether it is on afterwards. Asks one namenode.
    pub async fn set_safe_mode(&self, action: SafeMode) -> Result<bool> {
        let action = hdfs::SafeModeActionProto::from(action);
        let request = hdfs::SetSafeModeRequestProto { action: action.into(), checked: Some(false) };
        Ok(self.call(&rpc::SET_SAFE_MODE, &request).await?.result)
    }
}

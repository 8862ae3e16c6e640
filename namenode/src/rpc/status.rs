//! Status, listings, locations, summaries: requests to operations that only read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use prost::Message;
use trellis_metastore::schema::{Inode, bucket_hash};
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::hdfs;

use super::listing::{self, Encoded};
use super::plan::Planned;
use super::{convert, fixed, located};
use crate::audit::Said;
use crate::engine::permission::READ;
use crate::engine::tx::Tx;
use crate::ops::list::{self, BatchCursor, BatchedListing, GetBatchedListing, GetListing, Shown};
use crate::ops::locations::{self, GetBlockLocations};
use crate::ops::status::{self, CheckAccess, FileStatus};
use crate::ops::summary;
use crate::path::Path;
use crate::policy;
use crate::refusal::{Result as OpResult, refuse};

type Plan<A> = Result<Planned<A>, RpcError>;

pub(super) fn file_info(request: hdfs::GetFileInfoRequestProto) -> Plan<hdfs::GetFileInfoResponseProto> {
    let path = Path::parse(&request.src)?;
    Ok(Planned::new(request.src, move |tx| {
        let fs = status::get_file_info(tx, &path)?.map(convert::status);
        Ok(hdfs::GetFileInfoResponseProto { fs })
    }))
}

pub(super) fn file_link_info(
    request: hdfs::GetFileLinkInfoRequestProto,
) -> Plan<hdfs::GetFileLinkInfoResponseProto> {
    let path = Path::parse(&request.src)?;
    Ok(Planned::new(request.src, move |tx| {
        let fs = status::get_file_info(tx, &path)?.map(convert::status);
        Ok(hdfs::GetFileLinkInfoResponseProto { fs })
    }))
}

/// A client that wants block tokens is about to read: stock logs that as `open`.
pub(super) fn located_file_info(
    request: hdfs::GetLocatedFileInfoRequestProto,
) -> Plan<hdfs::GetLocatedFileInfoResponseProto> {
    let command = if request.need_block_token() { "open" } else { "getfileinfo" };
    let src = request.src.unwrap_or_default();
    let path = Path::parse(&src)?;
    let plan = Planned::new(src, move |tx| {
        let found = status::get_located_file_info(tx, &path)?;
        let fs = match found {
            None => None,
            Some(found) => {
                let locations = found.blocks.as_ref().map(|blocks| Box::new(located::blocks(tx.ctx, blocks)));
                Some(hdfs::HdfsFileStatusProto { locations, ..convert::status(found.status) })
            }
        };
        Ok(hdfs::GetLocatedFileInfoResponseProto { fs })
    });
    Ok(plan.command(command))
}

pub(super) fn block_locations(
    request: hdfs::GetBlockLocationsRequestProto,
) -> Plan<hdfs::GetBlockLocationsResponseProto> {
    let (offset, length) = (request.offset as i64, request.length as i64);
    let call = GetBlockLocations { path: Path::parse(&request.src)?, offset, length };
    let due = Arc::new(AtomicU64::new(0));
    let noted = due.clone();
    let plan = Planned::new(request.src, move |tx| {
        let opened = locations::get_block_locations(tx, &call)?;
        noted.store(opened.access_time_due.unwrap_or(0), Ordering::Relaxed);
        Ok(hdfs::GetBlockLocationsResponseProto { locations: Some(located::blocks(tx.ctx, &opened.blocks)) })
    });
    Ok(plan.access_time_due(due))
}

pub(super) fn listing(request: hdfs::GetListingRequestProto) -> Plan<Encoded> {
    let need_location = request.need_location;
    let call = GetListing {
        path: Path::parse(&request.src)?,
        start_after: request.start_after,
        with_blocks: need_location,
    };
    Ok(Planned::new(request.src, move |tx| {
        let remaining = |entries| u32::try_from(entries).unwrap_or(i32::MAX as u32);
        let shown = match need_location {
            true => list::get_listing(tx, &call)?.map(Shown::Listing),
            false => {
                list::show_listing(tx, &call, |entries, after| listing::page(entries, remaining(after)))?
            }
        };
        let listing = match shown {
            None => return Ok(Encoded::default()),
            Some(Shown::Page(page)) => return Ok(page.into()),
            Some(Shown::Listing(listing)) => listing,
        };
        let remaining_entries = remaining(listing.remaining);
        let partial_listing = entries(tx, listing.entries, need_location)?;
        Ok(hdfs::DirectoryListingProto { partial_listing, remaining_entries }.into())
    }))
}

/// Entries of a listing, with the blocks of the files among them if those are wanted.
fn entries(
    tx: &mut Tx<'_, '_>,
    entries: Vec<FileStatus>,
    need_location: bool,
) -> OpResult<Vec<hdfs::HdfsFileStatusProto>> {
    let has_blocks = |entry: &FileStatus| need_location && !entry.inode.is_dir();
    let files: Vec<&Inode> =
        entries.iter().filter(|entry| has_blocks(entry)).map(|entry| &entry.inode).collect();
    let mut blocks = locations::locate_all(tx, &files)?.into_iter();
    let entry = |entry: FileStatus| {
        let blocks = if has_blocks(&entry) { blocks.next() } else { None };
        let locations = blocks.map(|blocks| Box::new(located::blocks(tx.ctx, &blocks)));
        hdfs::HdfsFileStatusProto { locations, ..convert::status(entry) }
    };
    Ok(entries.into_iter().map(entry).collect())
}

/// The place to go on from is opaque to clients; it is bound to the paths that it was made for.
pub(super) fn batched_listing(
    request: hdfs::GetBatchedListingRequestProto,
) -> Plan<hdfs::GetBatchedListingResponseProto> {
    let checksum = Bytes::copy_from_slice(&bucket_hash(request.paths.join("\n").as_bytes()).to_be_bytes());
    let cursor = match request.start_after.is_empty() {
        true => None,
        false => {
            let key: hdfs::BatchedListingKeyProto =
                trellis_proto::presence::decode_request(request.start_after)?;
            if key.checksum != checksum {
                let why = "the place to go on from belongs to another list of paths: start the listing anew";
                return Err(RpcError::new(Kind::IllegalArgument, why));
            }
            Some(BatchCursor { index: key.path_index as usize, start_after: key.start_after })
        }
    };
    let need_location = request.need_location;
    let paths = request.paths.iter().map(|path| Path::parse(path)).collect::<Result<Vec<_>, _>>()?;
    let call = GetBatchedListing { paths, cursor, with_blocks: need_location };
    Ok(Planned::new(request.paths.into_iter().next().unwrap_or_default(), move |tx| {
        let BatchedListing { listings, next } = list::get_batched_listing(tx, &call)?;
        let listing = |(index, listing): (usize, Result<Vec<FileStatus>, RpcError>)| {
            batched(tx, index, listing, need_location)
        };
        let start_after = next.as_ref().map(|cursor| {
            let path_index = cursor.index as u32;
            let start_after = cursor.start_after.clone();
            let key = hdfs::BatchedListingKeyProto { checksum: checksum.clone(), path_index, start_after };
            Bytes::from(key.encode_to_vec())
        });
        Ok(hdfs::GetBatchedListingResponseProto {
            listings: listings.into_iter().map(listing).collect::<OpResult<_>>()?,
            has_more: next.is_some(),
            start_after: start_after.unwrap_or_default(),
        })
    }))
}

fn batched(
    tx: &mut Tx<'_, '_>,
    index: usize,
    listing: Result<Vec<FileStatus>, RpcError>,
    need_location: bool,
) -> OpResult<hdfs::BatchedDirectoryListingProto> {
    let parent_idx = index as u32;
    Ok(match listing {
        Ok(found) => {
            let partial_listing = entries(tx, found, need_location)?;
            hdfs::BatchedDirectoryListingProto { partial_listing, parent_idx, exception: None }
        }
        Err(error) => {
            let class_name = error.kind.class().to_owned();
            let exception = hdfs::RemoteExceptionProto { class_name, message: Some(error.message) };
            hdfs::BatchedDirectoryListingProto {
                exception: Some(exception),
                parent_idx,
                ..Default::default()
            }
        }
    })
}

pub(super) fn is_file_closed(
    request: hdfs::IsFileClosedRequestProto,
) -> Plan<hdfs::IsFileClosedResponseProto> {
    let path = Path::parse(&request.src)?;
    let plan = Planned::new(request.src, move |tx| {
        let result = status::is_file_closed(tx, &path)?;
        Ok(hdfs::IsFileClosedResponseProto { result })
    });
    Ok(plan.said(|answer| if answer.result { Said::Allowed } else { Said::Silent }))
}

pub(super) fn preferred_block_size(
    request: hdfs::GetPreferredBlockSizeRequestProto,
) -> Plan<hdfs::GetPreferredBlockSizeResponseProto> {
    let path = Path::parse(&request.filename)?;
    Ok(Planned::new(request.filename, move |tx| {
        let bsize = status::get_preferred_block_size(tx, &path)?;
        Ok(hdfs::GetPreferredBlockSizeResponseProto { bsize })
    }))
}

pub(super) fn check_access(request: hdfs::CheckAccessRequestProto) -> Plan<hdfs::CheckAccessResponseProto> {
    // The numbers of FsAction are its bits.
    let call = CheckAccess { path: Path::parse(&request.path)?, access: request.mode() as u32 };
    Ok(Planned::new(request.path, move |tx| {
        status::check_access(tx, &call)?;
        Ok(hdfs::CheckAccessResponseProto {})
    }))
}

pub(super) fn link_target(
    request: hdfs::GetLinkTargetRequestProto,
) -> Plan<hdfs::GetLinkTargetResponseProto> {
    let path = Path::parse(&request.path)?;
    Ok(Planned::new(request.path, move |tx| {
        let target = status::get_link_target(tx, &path)?;
        let target_path = Some(String::from_utf8_lossy(&target).into_owned());
        Ok(hdfs::GetLinkTargetResponseProto { target_path })
    }))
}

pub(super) fn enclosing_root(
    request: hdfs::GetEnclosingRootRequestProto,
) -> Plan<hdfs::GetEnclosingRootResponseProto> {
    let src = request.filename.unwrap_or_default();
    let path = Path::parse(&src)?;
    Ok(Planned::new(src, move |tx| {
        let root = status::get_enclosing_root(tx, &path)?;
        Ok(hdfs::GetEnclosingRootResponseProto { enclosing_root_path: Some(root.text().to_owned()) })
    }))
}

pub(super) fn encryption_zone(
    request: hdfs::GetEzForPathRequestProto,
) -> Plan<hdfs::GetEzForPathResponseProto> {
    let path = Path::parse(&request.src)?;
    let plan = Planned::new(request.src, move |tx| {
        status::get_ez_for_path(tx, &path)?;
        Ok(hdfs::GetEzForPathResponseProto { zone: None })
    });
    Ok(plan.showing_inode())
}

pub(super) fn ec_policy(
    request: hdfs::GetErasureCodingPolicyRequestProto,
) -> Plan<hdfs::GetErasureCodingPolicyResponseProto> {
    let call = CheckAccess { path: Path::parse(&request.src)?, access: READ };
    Ok(Planned::new(request.src, move |tx| {
        status::check_access(tx, &call)?;
        Ok(hdfs::GetErasureCodingPolicyResponseProto { ec_policy: None })
    }))
}

pub(super) fn storage_policy(
    request: hdfs::GetStoragePolicyRequestProto,
) -> Plan<hdfs::GetStoragePolicyResponseProto> {
    let path = Path::parse(&request.path)?;
    Ok(Planned::new(request.path, move |tx| {
        let found = existing(tx, &path, "File/Directory does not exist:")?;
        let id = match found.inode.policy {
            policy::UNSPECIFIED => fixed::DEFAULT_POLICY,
            id => id,
        };
        match fixed::POLICIES.iter().find(|(own, ..)| *own == id) {
            Some(found) => {
                Ok(hdfs::GetStoragePolicyResponseProto { storage_policy: fixed::policy_message(found) })
            }
            None => refuse(Kind::Io, format!("{} has the unknown storage policy {id}", path.text())),
        }
    }))
}

/// Owner, group and mode; there are no further entries.
pub(super) fn acl_status(request: hdfs::GetAclStatusRequestProto) -> Plan<hdfs::GetAclStatusResponseProto> {
    let path = Path::parse(&request.src)?;
    Ok(Planned::new(request.src, move |tx| {
        let inode = existing(tx, &path, "cannot find")?.inode;
        let result = hdfs::AclStatusProto {
            sticky: inode.mode & crate::engine::permission::STICKY != 0,
            permission: Some(convert::permission(inode.mode)),
            owner: inode.owner,
            group: inode.group,
            entries: Vec::new(),
        };
        Ok(hdfs::GetAclStatusResponseProto { result })
    }))
}

/// Nothing has extended attributes; asking for some by name finds none.
pub(super) fn xattrs(request: hdfs::GetXAttrsRequestProto) -> Plan<hdfs::GetXAttrsResponseProto> {
    let named = !request.x_attrs.is_empty();
    let call = CheckAccess { path: Path::parse(&request.src)?, access: READ };
    Ok(Planned::new(request.src, move |tx| {
        existing(tx, &call.path, "cannot find")?;
        status::check_access(tx, &call)?;
        if named {
            return refuse(Kind::XAttrNotFound, "At least one of the attributes provided was not found.");
        }
        Ok(hdfs::GetXAttrsResponseProto { x_attrs: Vec::new() })
    }))
}

pub(super) fn xattr_names(request: hdfs::ListXAttrsRequestProto) -> Plan<hdfs::ListXAttrsResponseProto> {
    let path = Path::parse(&request.src)?;
    Ok(Planned::new(request.src, move |tx| {
        existing(tx, &path, "cannot find")?;
        Ok(hdfs::ListXAttrsResponseProto { x_attrs: Vec::new() })
    }))
}

/// The status of what must exist; `why_not` starts the message when it does not.
fn existing(tx: &mut Tx<'_, '_>, path: &Path, why_not: &str) -> OpResult<FileStatus> {
    match status::get_file_info(tx, path)? {
        Some(found) => Ok(found),
        None => refuse(Kind::FileNotFound, format!("{why_not} {}", path.text())),
    }
}

/// There are no quotas: limits are -1.
pub(super) fn content_summary(
    request: hdfs::GetContentSummaryRequestProto,
) -> Plan<hdfs::GetContentSummaryResponseProto> {
    let path = Path::parse(&request.path)?;
    Ok(Planned::new(request.path, move |tx| {
        let sum = summary::get_content_summary(tx, &path)?;
        let ec_policy = if sum.directories == 0 { "Replicated" } else { "" };
        let summary = hdfs::ContentSummaryProto {
            length: sum.length,
            file_count: sum.files,
            directory_count: sum.directories,
            quota: u64::MAX,
            space_consumed: sum.space,
            space_quota: u64::MAX,
            type_quota_infos: None,
            snapshot_length: Some(0),
            snapshot_file_count: Some(0),
            snapshot_directory_count: Some(0),
            snapshot_space_consumed: Some(0),
            erasure_coding_policy: Some(ec_policy.to_owned()),
        };
        Ok(hdfs::GetContentSummaryResponseProto { summary })
    }))
}

pub(super) fn quota_usage(
    request: hdfs::GetQuotaUsageRequestProto,
) -> Plan<hdfs::GetQuotaUsageResponseProto> {
    let path = Path::parse(&request.path)?;
    Ok(Planned::new(request.path, move |tx| {
        let found = summary::get_quota_usage(tx, &path)?;
        let usage = hdfs::QuotaUsageProto {
            file_and_directory_count: found.names,
            quota: found.quota as u64,
            space_consumed: found.space,
            space_quota: found.space_quota as u64,
            type_quota_infos: None,
        };
        Ok(hdfs::GetQuotaUsageResponseProto { usage })
    }))
}

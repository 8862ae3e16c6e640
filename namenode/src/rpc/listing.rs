//! Pages of getListing, encoded as they are read: of all frequent answers they are the largest.

use bytes::{BufMut, Bytes};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, int32, uint32, uint64};
use trellis_metastore::key::name_bytes;
use trellis_proto::hdfs;
use trellis_proto::hdfs::hdfs_file_status_proto::FileType;

use super::plan::Answers;
use crate::ops::listed::{Entries, Entry};

/// A [`hdfs::GetListingResponseProto`] whose page is encoded already.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Encoded {
    #[prost(bytes = "bytes", optional, tag = "1")]
    dir_list: Option<Bytes>,
}

impl Answers<hdfs::GetListingResponseProto> for Encoded {}

impl From<hdfs::DirectoryListingProto> for Encoded {
    fn from(page: hdfs::DirectoryListingProto) -> Self {
        Bytes::from(page.encode_to_vec()).into()
    }
}

/// What an entry takes, about.
const ENTRY_BYTES: usize = 128;

impl From<Bytes> for Encoded {
    fn from(page: Bytes) -> Self {
        Encoded { dir_list: Some(page) }
    }
}

/// A page of a directory: a [`hdfs::DirectoryListingProto`], encoded.
pub(super) fn page(entries: &Entries, remaining: u32) -> Bytes {
    let mut page = Vec::with_capacity(entries.len() * ENTRY_BYTES);
    let mut encoded = Vec::with_capacity(ENTRY_BYTES);
    for entry in entries.iter() {
        encoded.clear();
        put_entry(&entry, &mut encoded);
        delimited(1, &encoded, &mut page);
    }
    uint32::encode(2, &remaining, &mut page);
    page.into()
}

/// As [`super::convert::status`] of the same entry is encoded.
fn put_entry(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let Entry { key, inode, mtime_ms, children } = entry;
    let file_type = if inode.is_dir() { FileType::IsDir } else { FileType::IsFile };
    int32::encode(1, &file_type.into(), out);
    delimited(2, &name_bytes(key), out);
    uint64::encode(3, &inode.length, out);
    let mut permission = [0u8; 16];
    let mut rest = &mut permission[..];
    uint32::encode(1, &inode.mode, &mut rest);
    let room = rest.remaining_mut();
    delimited(4, &permission[..permission.len() - room], out);
    delimited(5, inode.owner, out);
    delimited(6, inode.group, out);
    uint64::encode(7, &(*mtime_ms as u64), out);
    uint64::encode(8, &(inode.atime_ms as u64), out);
    uint32::encode(10, &inode.replication, out);
    uint64::encode(11, &inode.block_size, out);
    uint64::encode(13, &inode.id, out);
    int32::encode(14, &i32::try_from(*children).unwrap_or(i32::MAX), out);
    uint32::encode(16, &inode.policy, out);
    uint32::encode(18, &0, out);
}

fn delimited(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use trellis_metastore::schema::{Inode, Kind, Shown};

    use super::super::convert::status;
    use super::*;
    use crate::ops::status::FileStatus;

    #[test]
    fn an_entry_is_encoded_as_its_status_is() {
        let file = Inode {
            id: u64::MAX,
            kind: Kind::File as i32,
            mode: 0o1777,
            owner: "ö".repeat(100),
            group: "g".into(),
            atime_ms: i64::MAX,
            length: 1 << 60,
            block_count: 3,
            replication: 2,
            block_size: 128 << 20,
            policy: 7,
            ..Inode::default()
        };
        let directory = Inode { id: 1, mode: 0o755, owner: "o".into(), ..Inode::default() };
        for (inode, children) in
            [(&file, 0), (&directory, 3), (&directory, i64::MAX), (&Inode::default(), -1)]
        {
            for name in ["", "a", "\u{10ffff}\u{7f}", &"n".repeat(255)] {
                let whole = FileStatus {
                    name: Bytes::copy_from_slice(name.as_bytes()),
                    inode: inode.clone(),
                    mtime_ms: -1,
                    children,
                };
                let key = name_bytes(name.as_bytes());
                let entry =
                    Entry { key: &key, inode: Shown::from(inode).map(str::as_bytes), mtime_ms: -1, children };
                let mut encoded = Vec::new();
                put_entry(&entry, &mut encoded);
                assert_eq!(encoded, status(whole).encode_to_vec(), "{name:?} {inode:?}");
            }
        }
    }

    #[test]
    fn a_page_is_what_the_protocol_says() {
        let empty = Encoded::from(page(&Entries::default(), 7));
        let listing = hdfs::DirectoryListingProto { partial_listing: Vec::new(), remaining_entries: 7 };
        let answer = hdfs::GetListingResponseProto { dir_list: Some(listing.clone()) };
        assert_eq!(empty.encode_to_vec(), answer.encode_to_vec());
        assert_eq!(Encoded::from(listing), empty);
        let nothing = hdfs::GetListingResponseProto { dir_list: None };
        assert_eq!(Encoded::default().encode_to_vec(), nothing.encode_to_vec());
    }
}

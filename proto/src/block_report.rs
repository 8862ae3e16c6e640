//! A full report's list of the replicas of one storage, in Hadoop's buffer encoding.

use bytes::{Bytes, BytesMut};
use prost::encoding::encode_varint;

use crate::hdfs::DatanodeStorageProto;
use crate::hdfs::datanode::StorageBlockReportProto;

/// A report's buffers are at most so long.
const BUFFER_BYTES: usize = 64 << 10;
/// The longest record: four varints.
const RECORD_BYTES: usize = 40;

/// A replica as a full report lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Block id.
    pub id: u64,
    /// Bytes.
    pub len: u64,
    /// Generation stamp.
    pub stamp: u64,
    /// Number of its state: 0 finalized, 1 being written, …
    pub state: u64,
}

/// The list, as far as it goes.
#[derive(Debug, Default)]
pub struct ReplicaList {
    full: Vec<Bytes>,
    last: BytesMut,
    replicas: u64,
}

impl ReplicaList {
    /// Adds a replica.
    pub fn put(&mut self, replica: Listed) {
        if self.last.len() + RECORD_BYTES > BUFFER_BYTES {
            self.full.push(self.last.split().freeze());
        }
        let id = replica.id as i64;
        encode_varint(((id << 1) ^ (id >> 63)) as u64, &mut self.last);
        encode_varint(replica.len, &mut self.last);
        encode_varint(replica.stamp, &mut self.last);
        encode_varint(replica.state, &mut self.last);
        self.replicas += 1;
    }

    /// How many replicas it has.
    pub fn len(&self) -> u64 {
        self.replicas
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.replicas == 0
    }

    /// As the report of this storage.
    pub fn into_proto(mut self, storage: DatanodeStorageProto) -> StorageBlockReportProto {
        if !self.last.is_empty() {
            self.full.push(self.last.freeze());
        }
        StorageBlockReportProto {
            storage,
            blocks: Vec::new(),
            number_of_blocks: Some(self.replicas),
            blocks_buffers: self.full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_as_a_stock_datanode_writes_them() {
        let mut list = ReplicaList::default();
        list.put(Listed { id: 1_073_741_825, len: 6, stamp: 1001, state: 0 });
        list.put(Listed { id: -2i64 as u64, len: 6, stamp: 1001, state: 1 });
        let report = list.into_proto(DatanodeStorageProto::default());
        assert_eq!(report.number_of_blocks, Some(2));
        assert_eq!(report.blocks_buffers, [&b"\x82\x80\x80\x80\x08\x06\xe9\x07\x00\x03\x06\xe9\x07\x01"[..]]);
    }

    #[test]
    fn buffers_are_bounded() {
        let mut list = ReplicaList::default();
        for id in 0..20_000 {
            list.put(Listed { id: id << 40, len: id, stamp: id, state: 0 });
        }
        assert_eq!((list.len(), list.is_empty()), (20_000, false));
        let report = list.into_proto(DatanodeStorageProto::default());
        assert!(report.blocks_buffers.len() > 2);
        assert!(report.blocks_buffers.iter().all(|buffer| buffer.len() <= BUFFER_BYTES));
    }
}

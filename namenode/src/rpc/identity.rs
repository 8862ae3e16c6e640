//! What a cluster calls itself: the same on all its namenodes, and for ever.

use trellis_metastore::schema::bucket_hash;
use trellis_proto::hdfs::nnha_status_heartbeat_proto::State;
use trellis_proto::hdfs::{NamespaceInfoProto, StorageInfoProto};

/// The version that stock clients and DataNodes are told.
pub const SOFTWARE_VERSION: &str = "3.4.2";
/// The layout version that is announced (not compared by anyone).
const LAYOUT_VERSION: i32 = -67;
/// Announces that block reports may come as byte buffers.
const BUFFERED_REPORTS: u64 = 1;

/// Names and numbers of a cluster, all made from its cluster id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// As it was given or drawn when the store was initialised.
    pub cluster_id: String,
    /// Positive, 31 bits.
    pub namespace_id: u32,
    /// In the form that DataNodes look for in paths: `BP-number-address-number`.
    pub block_pool_id: String,
}

impl Identity {
    /// The identity of a cluster.
    pub fn of_cluster(cluster_id: &str) -> Identity {
        let hash = bucket_hash(cluster_id.as_bytes());
        let namespace_id = (hash as u32 & 0x7fff_ffff).max(1);
        let block_pool_id = format!("BP-{namespace_id}-127.0.0.1-{}", hash >> 32);
        Identity { cluster_id: cluster_id.to_owned(), namespace_id, block_pool_id }
    }

    /// What `versionRequest` answers.
    pub fn namespace_info(&self, state: State) -> NamespaceInfoProto {
        NamespaceInfoProto {
            build_version: concat!("trellis-", env!("CARGO_PKG_VERSION")).to_owned(),
            unused: 0,
            block_pool_id: self.block_pool_id.clone(),
            storage_info: StorageInfoProto {
                layout_version: LAYOUT_VERSION as u32,
                namespce_id: self.namespace_id,
                cluster_id: self.cluster_id.clone(),
                c_time: 0,
            },
            software_version: SOFTWARE_VERSION.to_owned(),
            capabilities: Some(BUFFERED_REPORTS),
            state: Some(state.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_changes() {
        let identity = Identity::of_cluster("CID-test");
        assert_eq!(identity, Identity::of_cluster("CID-test"));
        assert_eq!(
            identity.block_pool_id,
            format!("BP-{}-127.0.0.1-{}", identity.namespace_id, bucket_hash(b"CID-test") >> 32)
        );
        assert_eq!(bucket_hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_ne!(identity, Identity::of_cluster("CID-test2"));
    }
}

//! Who this datanode is to its namenodes, and what it demands of them.

use trellis_proto::hdfs::datanode::DatanodeRegistrationProto;
use trellis_proto::hdfs::{DatanodeIdProto, NamespaceInfoProto, StorageInfoProto};
use trellis_proto::registration::{self, is_recent};

use crate::store::Pool;

/// Why a namenode cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Too old, or of another kind.
    #[error("its version {0:?} is not supported: Hadoop 2.7 or later, or Trellis, is needed")]
    Version(String),
    /// Another cluster or block pool than the one that is kept here.
    #[error(
        "it is of {theirs:?}, but this datanode keeps {ours:?}: give it another --data, or the right --namenode"
    )]
    OtherPool {
        /// The namenode's.
        theirs: Box<Pool>,
        /// What is kept here.
        ours: Box<Pool>,
    },
}

/// The block pool of a namenode, if this datanode can serve it.
pub(crate) fn pool_of(info: &NamespaceInfoProto) -> Result<Pool, Unfit> {
    if !is_recent(info) {
        return Err(Unfit::Version(info.software_version.clone()));
    }
    Ok(Pool {
        id: info.block_pool_id.clone(),
        cluster_id: info.storage_info.cluster_id.clone(),
        namespace_id: info.storage_info.namespce_id,
        ctime: info.storage_info.c_time,
    })
}

/// Checks that a namenode is of the pool that is kept here.
pub(crate) fn check_pool(theirs: &Pool, ours: &Pool) -> Result<(), Unfit> {
    match theirs == ours {
        true => Ok(()),
        false => Err(Unfit::OtherPool { theirs: Box::new(theirs.clone()), ours: Box::new(ours.clone()) }),
    }
}

/// What this datanode registers with.
pub(crate) fn registration(id: DatanodeIdProto, pool: &Pool) -> DatanodeRegistrationProto {
    let cluster = StorageInfoProto {
        namespce_id: pool.namespace_id,
        cluster_id: pool.cluster_id.clone(),
        c_time: pool.ctime,
        ..Default::default()
    };
    registration::registration(id, cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_pools() {
        let mut info = NamespaceInfoProto {
            software_version: "3.5.0-x".to_owned(),
            capabilities: Some(3),
            block_pool_id: "BP-1".to_owned(),
            ..Default::default()
        };
        let pool = pool_of(&info).unwrap();
        assert_eq!(check_pool(&pool, &pool), Ok(()));
        assert!(check_pool(&pool, &Pool { ctime: 5, ..pool.clone() }).is_err());
        info.capabilities = None;
        assert_eq!(pool_of(&info), Err(Unfit::Version(info.software_version)));
    }
}

//! Who this datanode is to its namenodes, and what it demands of them.

use std::sync::Arc;

use trellis_proto::hdfs::datanode::DatanodeRegistrationProto;
use trellis_proto::hdfs::datanode_storage_proto::StorageState;
use trellis_proto::hdfs::{
    BlockKeyProto, DatanodeIdProto, DatanodeStorageProto, ExportedBlockKeysProto, NamespaceInfoProto,
    StorageInfoProto,
};

use crate::disk::LAYOUT_VERSION;
use crate::store::{Pool, StorageType};

/// The version that namenodes are told, whose protocols this datanode speaks.
pub(crate) const SOFTWARE_VERSION: &str = "3.4.2";
/// `NamespaceInfoProto.capabilities`: full reports may come as buffers.
const BUFFERED_REPORTS: u64 = 1;
/// Hadoop 1 spoke otherwise.
const OLDEST_MAJOR: u32 = 2;

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
    let major = info.software_version.split(['.', '-']).next().and_then(|part| part.parse::<u32>().ok());
    let recent = major.is_some_and(|major| major >= OLDEST_MAJOR);
    if !recent || info.capabilities() & BUFFERED_REPORTS == 0 {
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
    DatanodeRegistrationProto {
        datanode_id: id,
        storage_info: StorageInfoProto {
            layout_version: LAYOUT_VERSION as u32,
            namespce_id: pool.namespace_id,
            cluster_id: pool.cluster_id.clone(),
            c_time: pool.ctime,
        },
        keys: ExportedBlockKeysProto {
            is_block_token_enabled: false,
            key_update_interval: 0,
            token_life_time: 0,
            current_key: BlockKeyProto::default(),
            all_keys: Vec::new(),
        },
        software_version: SOFTWARE_VERSION.to_owned(),
    }
}

/// A storage, as reports name it.
pub(crate) fn storage_proto(uuid: &Arc<str>, storage_type: StorageType) -> DatanodeStorageProto {
    DatanodeStorageProto {
        storage_uuid: uuid.to_string(),
        state: Some(StorageState::Normal.into()),
        storage_type: Some(storage_type.into()),
    }
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
        assert!(pool_of(&info).is_err());
        info.capabilities = Some(1);
        for version in ["hops-1", "", "1.2.1"] {
            info.software_version = version.to_owned();
            assert_eq!(pool_of(&info), Err(Unfit::Version(version.to_owned())));
        }
    }
}

//! What a datanode registers with.

use crate::hdfs::datanode::DatanodeRegistrationProto;
use crate::hdfs::datanode_storage_proto::StorageState;
use crate::hdfs::{
    BlockKeyProto, DatanodeIdProto, DatanodeStorageProto, ExportedBlockKeysProto, NamespaceInfoProto,
    StorageInfoProto, StorageTypeProto,
};

/// The version that namenodes are told, whose protocols our datanodes speak.
pub const SOFTWARE_VERSION: &str = "3.4.2";
/// Of a datanode's folders, as stock's of that version.
pub const LAYOUT_VERSION: i32 = -57;
/// `NamespaceInfoProto.capabilities`: full reports may come as buffers.
const BUFFERED_REPORTS: u64 = 1;
/// Hadoop 1 spoke otherwise.
const OLDEST_MAJOR: u32 = 2;

/// Whether a namenode speaks as our datanodes do: Hadoop 2.7 or later.
pub fn is_recent(info: &NamespaceInfoProto) -> bool {
    let major = info.software_version.split(['.', '-']).next().and_then(|part| part.parse::<u32>().ok());
    major.is_some_and(|major| major >= OLDEST_MAJOR) && info.capabilities() & BUFFERED_REPORTS != 0
}

/// A datanode's registration with a namenode of this cluster; the layout is our datanodes'.
pub fn registration(id: DatanodeIdProto, cluster: StorageInfoProto) -> DatanodeRegistrationProto {
    DatanodeRegistrationProto {
        datanode_id: id,
        storage_info: StorageInfoProto { layout_version: LAYOUT_VERSION as u32, ..cluster },
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

/// A storage that works, as reports name it.
pub fn storage_proto(uuid: &str, storage_type: StorageTypeProto) -> DatanodeStorageProto {
    DatanodeStorageProto {
        storage_uuid: uuid.to_owned(),
        state: Some(StorageState::Normal.into()),
        storage_type: Some(storage_type.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_namenodes_are_told() {
        let of = |version: &str, capabilities| NamespaceInfoProto {
            software_version: version.to_owned(),
            capabilities,
            ..Default::default()
        };
        assert!(is_recent(&of("3.5.0-x", Some(3))) && is_recent(&of("2.7.0", Some(1))));
        assert!(!is_recent(&of("3.5.0", None)) && !is_recent(&of("3.5.0", Some(2))));
        assert!(["hops-1", "", "1.2.1"].iter().all(|version| !is_recent(&of(version, Some(1)))));
    }
}

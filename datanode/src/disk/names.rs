//! Names of a block pool's files and folders. Layout version -57.
//!
//! ```text
//! DATA/in_use.lock
//! DATA/current/VERSION
//! DATA/current/BP-…/tmp/blk_ID, blk_ID_STAMP.meta                                TEMPORARY
//! DATA/current/BP-…/current/VERSION
//! DATA/current/BP-…/current/rbw/blk_ID, blk_ID_STAMP.meta                        RBW, RWR
//! DATA/current/BP-…/current/finalized/subdirN/subdirM/blk_ID, blk_ID_STAMP.meta  FINALIZED
//! ```

use std::ffi::OsStr;
use std::path::PathBuf;

/// Version of this layout (`DataNodeLayoutVersion.BLOCKID_BASED_LAYOUT_32_by_32`).
pub use trellis_proto::registration::LAYOUT_VERSION;

use crate::store::Block;

/// Folders at each of the two levels below `finalized`.
pub const SUBDIRS: u64 = 32;

/// What a file's name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// The data of the block with this id.
    Data(u64),
    /// The checksums of this block.
    Meta(Block),
}

/// The meaning of a name; None if it is not written exactly as [`data`] and [`meta`] write it.
pub fn parse(name: &OsStr) -> Option<Name> {
    let name = name.to_str()?;
    let rest = name.strip_prefix("blk_")?;
    let (found, canonical) = match rest.strip_suffix(".meta") {
        None => {
            let id = rest.parse::<i64>().ok()? as u64;
            (Name::Data(id), data(id))
        }
        Some(rest) => {
            let (id, stamp) = rest.split_once('_')?;
            let block = Block { id: id.parse::<i64>().ok()? as u64, stamp: stamp.parse().ok()? };
            (Name::Meta(block), meta(block))
        }
    };
    (canonical == name).then_some(found)
}

/// Name of a block's data file.
pub fn data(id: u64) -> String {
    format!("blk_{}", id as i64)
}

/// Name of a block's file of checksums.
pub fn meta(block: Block) -> String {
    format!("{block}.meta")
}

/// Where below `finalized` a block's files are.
pub fn subdir(id: u64) -> PathBuf {
    let part = |shift: u32| format!("subdir{}", (id >> shift) & (SUBDIRS - 1));
    PathBuf::from(part(16)).join(part(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for block in [Block { id: 1_073_741_825, stamp: 1001 }, Block { id: (-16i64) as u64, stamp: 0 }] {
            assert_eq!(parse(OsStr::new(&data(block.id))), Some(Name::Data(block.id)));
            assert_eq!(parse(OsStr::new(&meta(block))), Some(Name::Meta(block)));
        }
        assert_eq!(meta(Block { id: (-16i64) as u64, stamp: 7 }), "blk_-16_7.meta");
        for other in [
            "",
            "blk_",
            "blk_1.meta",
            "blk_01",
            "blk_+1",
            "blk_1_02.meta",
            "blk_1_-2.meta",
            "blk_1_2.meta.meta",
            "blk_99999999999999999999",
            "blk_1.unlinked",
            "VERSION",
            "blk_1_2",
            "blk_1_2_3.meta",
        ] {
            assert_eq!(parse(OsStr::new(other)), None, "{other}");
        }
    }

    #[test]
    fn folders_come_from_the_id() {
        assert_eq!(subdir(1_073_741_825), PathBuf::from("subdir0/subdir0"));
        assert_eq!(subdir(0x1f_ff00), PathBuf::from("subdir31/subdir31"));
        assert_eq!(subdir(0x20_2100), PathBuf::from("subdir0/subdir1"));
    }
}

//! What stands in keys, from the bytes past partition and table: each function is the other way of one that makes keys.
//! `None`: that many bytes are no such key.

use super::CommandKind;

fn halves<const A: usize, const B: usize>(rest: &[u8]) -> Option<([u8; A], [u8; B])> {
    let (first, second) = rest.split_at_checked(A)?;
    Some((first.try_into().ok()?, second.try_into().ok()?))
}

/// The number that is a whole key: the id of an inode ([`hidden_inode`](super::hidden_inode),
/// [`open_file`](super::open_file), [`attention`](super::attention)), of a block
/// ([`storage_replica`](super::storage_replica), [`block_file`](super::block_file)) or of a namenode
/// ([`member`](super::member)).
pub fn id_in(rest: &[u8]) -> Option<u64> {
    rest.try_into().map(u64::from_be_bytes).ok()
}

/// The ordinal of a [`block`](super::block).
pub fn ordinal_in(rest: &[u8]) -> Option<u32> {
    rest.try_into().map(u32::from_be_bytes).ok()
}

/// Block id and storage of a [`replica`](super::replica).
pub fn replica_in(rest: &[u8]) -> Option<(u64, u32)> {
    let (block_id, storage) = halves(rest)?;
    Some((u64::from_be_bytes(block_id), u32::from_be_bytes(storage)))
}

/// Kind and block id of a [`command`](super::command).
pub fn command_in(rest: &[u8]) -> Option<(CommandKind, u64)> {
    let ([kind], block_id) = halves(rest)?;
    Some((CommandKind::try_from(i32::from(kind)).ok()?, u64::from_be_bytes(block_id)))
}

/// Namenode and lane of a [`member_lane`](super::member_lane).
pub fn lane_in(rest: &[u8]) -> Option<(u64, u32)> {
    replica_in(rest)
}

/// Client id and call id of a [`retry_entry`](super::retry_entry).
pub fn retry_in(rest: &[u8]) -> Option<([u8; 16], i64)> {
    let (client, call) = halves(rest)?;
    Some((client, i64::from_be_bytes(call)))
}

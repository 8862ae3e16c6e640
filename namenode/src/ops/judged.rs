//! The replicas of one block by what they are worth, and which of them may go: what the replication job decides by. Not an
//! operation itself.

use std::collections::BTreeSet;

use trellis_metastore::schema::{Block, Ordered, bucket_hash};

use super::replicas::{Found, Worth, judge, storages_of};
use crate::datanodes::View;
use crate::datanodes::view::Liveness;

/// The replicas of a block, by what they are worth now.
pub(super) struct Judged {
    /// Storages with a live replica, each on a datanode of its own, those on live datanodes first.
    pub live: Vec<u32>,
    /// How many of these datanodes are live, not stale.
    pub sure: usize,
    /// Live ones beside another on the same datanode.
    pub doubled: Vec<u32>,
    pub corrupt: Vec<u32>,
    /// A copy is on its way there.
    pub coming: Vec<u32>,
    /// A copy was ordered so long ago, or of such a generation, that it does not count on.
    pub lost: Vec<u32>,
    /// They are to be deleted.
    pub leaving: Vec<u32>,
}

impl Judged {
    /// `since`: what was ordered earlier, ms since the epoch, is not waited for.
    pub fn of(view: &View, block: &Block, found: &[Found], since: i64) -> Judged {
        let mut all: Vec<(bool, u32, u32)> = storages_of(view, block, found, Worth::Live)
            .into_iter()
            .filter_map(|storage| {
                let node = view.storage(storage)?.node;
                Some((node.liveness != Liveness::Live, node.row.number, storage))
            })
            .collect();
        all.sort_unstable();
        let (mut live, mut doubled, mut sure, mut seen) = (Vec::new(), Vec::new(), 0, BTreeSet::new());
        for (is_stale, datanode, storage) in all {
            if seen.insert(datanode) {
                live.push(storage);
                sure += usize::from(!is_stale);
            } else {
                doubled.push(storage);
            }
        }
        let corrupt = storages_of(view, block, found, Worth::Corrupt);
        let leaving = storages_of(view, block, found, Worth::Leaving);
        let is_coming = |found: &Found| {
            judge(view, block, found.storage, &found.replica) == Worth::Coming
                && found.replica.stamp == block.stamp
                && found.replica.ordered_ms >= since
        };
        let ordered = found.iter().filter(|found| found.replica.ordered() == Ordered::Copy);
        let (coming, lost): (Vec<&Found>, Vec<&Found>) = ordered.partition(|found| is_coming(found));
        let storages = |found: Vec<&Found>| found.into_iter().map(|found| found.storage).collect();
        let (coming, lost) = (storages(coming), storages(lost));
        Judged { live, sure, doubled, corrupt, coming, lost, leaving }
    }
}

/// The replicas that may go: never so many that fewer than `wanted` are left on datanodes that are heard of.
/// `stuck`: it has too few, and no datanode can take a copy.
pub(super) fn removable(view: &View, block: &Block, wanted: usize, judged: &Judged, stuck: bool) -> Vec<u32> {
    let mut going = Vec::new();
    if judged.sure >= wanted || (stuck && judged.sure > 0) {
        going.extend(&judged.corrupt);
    }
    if judged.sure < wanted {
        return going;
    }
    going.extend(&judged.doubled);
    // Stale ones first, then those with the least room, in per cent; of equal ones any, another for each block.
    let mut beyond: Vec<u32> = judged.live.clone();
    beyond.sort_by_cached_key(|storage| {
        let room = view.storage(*storage).map_or(0, |storage| match storage.node.liveness {
            Liveness::Live => 1 + storage.space().remaining / (storage.space().capacity / 100).max(1),
            _ => 0,
        });
        (room, bucket_hash(&[block.id.to_be_bytes(), u64::from(*storage).to_be_bytes()].concat()))
    });
    going.extend(beyond.into_iter().take(judged.live.len() - wanted));
    going
}

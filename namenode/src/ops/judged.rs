//! The replicas of one block by what they are worth, and which of them may go: what the replication job decides by. Not an
//! operation itself.
//!
//! A deletion that was taken back may have come about all the same, and its datanode tells of it soon. Until then such a
//! replica counts for readers and for copies, but nothing else is deleted because of it, and it is the first to go.

use trellis_metastore::schema::{Block, Ordered, Replica, bucket_hash};

use super::replicas::{Found, Worth, is_overtaken, judge};
use crate::datanodes::View;
use crate::datanodes::view::Liveness;

/// The replicas of a block, by what they are worth now: at most one of each datanode.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// Storages with a live replica, the sure ones first.
    pub live: Vec<u32>,
    /// How many of these are on datanodes that are heard of, and were not to be deleted lately.
    pub sure: usize,
    pub corrupt: Vec<u32>,
    /// A copy is on its way there.
    pub coming: Vec<u32>,
    /// They are to be deleted.
    pub leaving: Vec<u32>,
    /// They were to be deleted, and are judged anew: that was not done in time, or too few are left without them.
    pub kept: Vec<u32>,
    /// Their rows say nothing any more: a copy that does not come about, a replica that its datanode has elsewhere now, or
    /// one on a storage that failed and that nobody misses.
    pub void: Vec<u32>,
}

impl Judged {
    /// `since`: what was ordered earlier, ms since the epoch, is not waited for.
    pub fn of(view: &View, block: &Block, found: &[Found], wanted: usize, since: i64) -> Judged {
        let mut judged = Judged::default();
        let (mut live, mut leaving) = (Vec::new(), Vec::new());
        for one in found {
            let is_in_time = one.replica.ordered_ms >= since;
            match judge(view, block, one.storage, &one.replica) {
                _ if is_overtaken(view, found, one) => judged.void.push(one.storage),
                Worth::Coming if is_in_time && one.replica.stamp == block.stamp => {
                    judged.coming.push(one.storage);
                }
                _ if one.replica.ordered() == Ordered::Copy => judged.void.push(one.storage),
                Worth::Live => live.push(one),
                Worth::Corrupt => judged.corrupt.push(one.storage),
                Worth::Leaving => leaving.push((is_in_time, one)),
                Worth::Coming | Worth::Unfinished | Worth::Gone => {}
            }
        }
        // Those that are told already are asked for last.
        leaving.sort_by_key(|(is_in_time, _)| *is_in_time);
        for (is_in_time, one) in leaving {
            let bare = Replica { ordered: Ordered::Nothing as i32, ..one.replica.clone() };
            match judge(view, block, one.storage, &bare) {
                Worth::Live if !is_in_time || live.len() < wanted => live.push(one),
                Worth::Corrupt if !is_in_time || live.is_empty() => judged.corrupt.push(one.storage),
                _ if is_in_time => {
                    judged.leaving.push(one.storage);
                    continue;
                }
                _ => {}
            }
            judged.kept.push(one.storage);
        }
        let is_sure = |one: &&Found| {
            let node = view.storage(one.storage).map(|storage| storage.node);
            let was_kept = one.replica.ordered() != Ordered::Nothing || one.replica.ordered_ms >= since;
            node.is_some_and(|node| node.liveness == Liveness::Live) && !was_kept
        };
        live.sort_by_key(|one| (!is_sure(one), one.storage));
        judged.sure = live.iter().filter(|one| is_sure(one)).count();
        judged.live = live.into_iter().map(|one| one.storage).collect();
        if judged.sure >= wanted {
            let failed = found.iter().filter(|one| {
                let storage = view.storage(one.storage);
                storage.is_some_and(|storage| storage.row().failed)
                    && one.replica.ordered() == Ordered::Nothing
            });
            judged.void.extend(failed.map(|one| one.storage));
        }
        judged
    }

    /// Those of the live ones that are surely there.
    pub fn sure(&self) -> &[u32] {
        &self.live[..self.sure]
    }
}

/// The replicas that may go: never so many that fewer than `wanted` are left that are sure.
/// `stuck`: it has too few, and no datanode can take a copy.
pub(super) fn removable(view: &View, block: &Block, wanted: usize, judged: &Judged, stuck: bool) -> Vec<u32> {
    let mut going = Vec::new();
    if judged.sure >= wanted || (stuck && judged.sure > 0) {
        going.extend(&judged.corrupt);
    }
    if judged.sure < wanted {
        return going;
    }
    // Unsure ones first, then those with the least room, in per cent; of equal ones any, another for each block.
    let mut beyond: Vec<u32> = judged.live.clone();
    beyond.sort_by_cached_key(|storage| {
        let room = view
            .storage(*storage)
            .filter(|_| judged.sure().contains(storage))
            .map_or(0, |storage| 1 + storage.space().remaining / (storage.space().capacity / 100).max(1));
        (room, bucket_hash(&[block.id.to_be_bytes(), u64::from(*storage).to_be_bytes()].concat()))
    });
    going.extend(beyond.into_iter().take(judged.live.len() - wanted));
    going
}

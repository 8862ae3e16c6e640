//! What one namenode is still to be told: changes of replicas, bad blocks, errors. Bounded, and nothing is lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use trellis_proto::hdfs::BlockProto;
use trellis_proto::hdfs::LocatedBlockProto;
use trellis_proto::hdfs::datanode::ReceivedDeletedBlockInfoProto;
use trellis_proto::hdfs::datanode::received_deleted_block_info_proto::BlockStatus;

use crate::store::{Block, Replica};

/// Changes that wait, at most; beyond that a full report takes their place.
const MAX_CHANGES: usize = 1 << 20;
/// Changes that one call carries, at most.
const MAX_CHANGES_PER_CALL: usize = 10_000;
/// Bad blocks and errors that wait, at most; the oldest give way: a scanner finds bad blocks again.
const MAX_NOTES: usize = 1000;

/// A change of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) block: Block,
    pub(crate) len: u64,
    pub(crate) status: BlockStatus,
    /// Uuid of the datanode whose replica this one replaces.
    pub(crate) delete_hint: Option<String>,
}

impl Change {
    /// A change of a replica as it is now.
    pub(crate) fn of(replica: &Replica, status: BlockStatus, delete_hint: Option<&str>) -> Change {
        let delete_hint = delete_hint.filter(|hint| !hint.is_empty()).map(str::to_owned);
        Change { block: replica.block, len: replica.len, status, delete_hint }
    }

    /// As it is reported.
    pub(crate) fn to_proto(&self) -> ReceivedDeletedBlockInfoProto {
        let Block { id: block_id, stamp: gen_stamp } = self.block;
        ReceivedDeletedBlockInfoProto {
            block: BlockProto { block_id, gen_stamp, num_bytes: Some(self.len) },
            delete_hint: self.delete_hint.clone(),
            status: self.status.into(),
        }
    }
}

/// Changes of one call: by storage, then block.
pub(crate) type Changes = BTreeMap<(Arc<str>, u64), Change>;

/// `ErrorReportRequestProto`: code and text.
pub(crate) type Note = (u32, String);

#[derive(Debug, Default)]
struct Waiting {
    /// The newest of each replica.
    changes: Changes,
    /// How many of them are not deletions, which may wait for the next heartbeat.
    urgent: usize,
    bad: VecDeque<LocatedBlockProto>,
    notes: VecDeque<Note>,
    /// A full report is wanted before its time.
    full_report: Option<Wanted>,
    /// Changes are to go at once, deletions too.
    flush: bool,
}

/// How a full report is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    /// When the namenode has time for it.
    Soon,
    /// Now, asked or not.
    Now,
}

/// What waits for one namenode.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

impl Outbox {
    /// Notes a change of a replica of a storage.
    pub(crate) fn change(&self, storage: &Arc<str>, change: Change) {
        let urgent = change.status != BlockStatus::Deleted;
        self.lock().put(storage.clone(), change);
        if urgent {
            self.wake.notify_one();
        }
    }

    /// Notes a bad block, unless it waits already: every reader may find it.
    pub(crate) fn bad(&self, block: LocatedBlockProto) {
        let mut waiting = self.lock();
        if !waiting.bad.contains(&block) {
            push(&mut waiting.bad, block);
        }
        drop(waiting);
        self.wake.notify_one();
    }

    /// Notes an error.
    pub(crate) fn note(&self, note: Note) {
        push(&mut self.lock().notes, note);
        self.wake.notify_one();
    }

    /// Wants a full report.
    pub(crate) fn want_full_report(&self, wanted: Wanted) {
        let mut waiting = self.lock();
        waiting.full_report = waiting.full_report.max(Some(wanted));
        drop(waiting);
        self.wake.notify_one();
    }

    /// How a full report was wanted since this was last asked.
    pub(crate) fn take_full_report(&self) -> Option<Wanted> {
        self.lock().full_report.take()
    }

    /// Wants all changes to go at once.
    pub(crate) fn flush(&self) {
        self.lock().flush = true;
        self.wake.notify_one();
    }

    /// Whether changes wait that are to go at once.
    pub(crate) fn is_urgent(&self) -> bool {
        let waiting = self.lock();
        waiting.urgent > 0 || waiting.flush && !waiting.changes.is_empty()
    }

    /// Changes that wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().changes.len()
    }

    /// Waits until something comes that is to go at once.
    pub(crate) async fn filled(&self) {
        self.wake.notified().await;
    }

    /// Takes changes for one call.
    pub(crate) fn take_changes(&self) -> Changes {
        let mut waiting = self.lock();
        let rest = match waiting.changes.keys().nth(MAX_CHANGES_PER_CALL).cloned() {
            Some(next) => waiting.changes.split_off(&next),
            None => Changes::new(),
        };
        let taken = std::mem::replace(&mut waiting.changes, rest);
        waiting.flush &= !waiting.changes.is_empty();
        waiting.recount();
        taken
    }

    /// Puts changes back that could not be told, but for those that newer ones have replaced.
    pub(crate) fn put_back(&self, changes: Changes) {
        let mut waiting = self.lock();
        for (key, change) in changes {
            waiting.changes.entry(key).or_insert(change);
        }
        waiting.recount();
        waiting.bound();
    }

    /// Takes the oldest bad block.
    pub(crate) fn take_bad(&self) -> Option<LocatedBlockProto> {
        self.lock().bad.pop_front()
    }

    /// Whether errors wait.
    pub(crate) fn has_notes(&self) -> bool {
        !self.lock().notes.is_empty()
    }

    /// Takes the oldest error.
    pub(crate) fn take_note(&self) -> Option<Note> {
        self.lock().notes.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn put(&mut self, storage: Arc<str>, change: Change) {
        let waiting = self.changes.get(&(storage.clone(), change.block.id));
        let is_late =
            |newer: &Change| change.status == BlockStatus::Deleted && newer.block.stamp > change.block.stamp;
        if waiting.is_some_and(is_late) {
            return;
        }
        let urgent = usize::from(change.status != BlockStatus::Deleted);
        let before = self.changes.insert((storage, change.block.id), change);
        let was_urgent = usize::from(before.is_some_and(|before| before.status != BlockStatus::Deleted));
        self.urgent = self.urgent + urgent - was_urgent;
        self.bound();
    }

    fn recount(&mut self) {
        self.urgent = self.changes.values().filter(|change| change.status != BlockStatus::Deleted).count();
    }

    /// Too many: a full report says it all.
    fn bound(&mut self) {
        if self.changes.len() > MAX_CHANGES {
            self.changes.clear();
            self.urgent = 0;
            self.full_report = self.full_report.max(Some(Wanted::Soon));
        }
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() >= MAX_NOTES {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(id: u64, status: BlockStatus) -> Change {
        Change { block: Block { id, stamp: 1 }, len: 5, status, delete_hint: None }
    }

    #[test]
    fn the_newest_change_of_a_replica_counts() {
        let (outbox, disk) = (Outbox::default(), Arc::<str>::from("DS-1"));
        outbox.change(&disk, change(1, BlockStatus::Receiving));
        outbox.change(&disk, change(1, BlockStatus::Received));
        outbox.change(&Arc::from("DS-2"), change(1, BlockStatus::Deleted));
        assert!(outbox.is_urgent());
        let taken = outbox.take_changes();
        assert_eq!(taken.len(), 2);
        assert!(!outbox.is_urgent());

        // While they were on their way, the replica went.
        outbox.change(&disk, change(1, BlockStatus::Deleted));
        outbox.put_back(taken);
        let again = outbox.take_changes();
        assert_eq!(again[&(disk, 1)].status, BlockStatus::Deleted);
        assert_eq!((again.len(), outbox.len()), (2, 0));
    }

    #[test]
    fn a_late_deletion_does_not_take_back_a_newer_replica() {
        let (outbox, disk) = (Outbox::default(), Arc::<str>::from("DS-1"));
        let mut newer = change(1, BlockStatus::Received);
        newer.block.stamp = 2;
        outbox.change(&disk, newer.clone());
        outbox.change(&disk, change(1, BlockStatus::Deleted));
        let taken = outbox.take_changes();
        assert_eq!(taken[&(disk.clone(), 1)], newer);
        // One of its own does.
        outbox.change(&disk, newer.clone());
        outbox.change(&disk, Change { status: BlockStatus::Deleted, ..newer });
        assert_eq!(outbox.take_changes()[&(disk, 1)].status, BlockStatus::Deleted);
    }

    #[test]
    fn deletions_wait_for_the_heartbeat() {
        let (outbox, disk) = (Outbox::default(), Arc::<str>::from("DS-1"));
        outbox.change(&disk, change(1, BlockStatus::Received));
        outbox.change(&disk, change(1, BlockStatus::Deleted));
        assert!(!outbox.is_urgent());
        outbox.flush();
        assert!(outbox.is_urgent());
        assert_eq!(outbox.take_changes().len(), 1);
        assert!(!outbox.is_urgent());
        outbox.put_back(Changes::from([((disk, 2), change(2, BlockStatus::Receiving))]));
        assert!(outbox.is_urgent());
    }

    #[test]
    fn a_bad_block_waits_once() {
        let outbox = Outbox::default();
        let bad = |offset| LocatedBlockProto { offset, ..Default::default() };
        for offset in [1, 2, 1] {
            outbox.bad(bad(offset));
        }
        let first = outbox.take_bad().unwrap();
        outbox.bad(bad(2));
        // It could not be told.
        outbox.bad(first);
        assert_eq!([outbox.take_bad(), outbox.take_bad()], [Some(bad(2)), Some(bad(1))]);
        assert_eq!(outbox.take_bad(), None);
        for offset in 0..2 * MAX_NOTES as u64 {
            outbox.bad(bad(offset));
        }
        assert_eq!(outbox.lock().bad.len(), MAX_NOTES);
    }

    #[test]
    fn calls_are_bounded_and_too_many_changes_become_a_full_report() {
        let (outbox, disk) = (Outbox::default(), Arc::<str>::from("DS-1"));
        for id in 0..MAX_CHANGES as u64 {
            outbox.change(&disk, change(id, BlockStatus::Deleted));
        }
        assert_eq!(outbox.take_changes().len(), MAX_CHANGES_PER_CALL);
        for id in 0..MAX_CHANGES_PER_CALL as u64 {
            outbox.change(&disk, change(id, BlockStatus::Received));
        }
        assert_eq!(outbox.take_full_report(), None);
        outbox.change(&disk, change(u64::MAX, BlockStatus::Received));
        assert_eq!((outbox.len(), outbox.is_urgent()), (0, false));
        outbox.want_full_report(Wanted::Now);
        assert_eq!(outbox.take_full_report(), Some(Wanted::Now));
    }
}

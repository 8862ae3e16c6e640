//! What one namenode is still to be told by one datanode: changes of replicas, in the order in which they happened.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use trellis_proto::hdfs::datanode::ReceivedDeletedBlockInfoProto;

use super::round::Round;

/// Changes that wait, at most; beyond that a full report takes their place.
const MAX_CHANGES: usize = 1 << 20;
/// Changes that one call carries, at most.
const MAX_CHANGES_PER_CALL: usize = 10_000;

/// Changes for one namenode.
#[derive(Debug)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    wake: Notify,
    /// How many changes were told so far, or given up for a full report.
    told: watch::Sender<u64>,
    /// How many heartbeats were answered.
    beats: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Waiting {
    changes: VecDeque<ReceivedDeletedBlockInfoProto>,
    /// How many there have ever been.
    queued: u64,
    /// Some are to go at once; others may wait for the next heartbeat.
    is_urgent: bool,
    /// Changes were given up: only a full report can tell them.
    has_gap: bool,
    /// A heartbeat is wanted before its time.
    wants_beat: bool,
    /// A full report is wanted that nobody asked for.
    rounds: Vec<Arc<Round>>,
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox {
            waiting: Mutex::default(),
            wake: Notify::new(),
            told: watch::Sender::new(0),
            beats: watch::Sender::new(0),
        }
    }
}

impl Outbox {
    /// Notes a change. Its number: it was told when so many were.
    pub(super) fn put(&self, change: ReceivedDeletedBlockInfoProto, is_urgent: bool) -> u64 {
        let mut waiting = self.lock();
        waiting.changes.push_back(change);
        waiting.queued += 1;
        waiting.is_urgent |= is_urgent;
        let number = waiting.queued;
        if waiting.changes.len() > MAX_CHANGES {
            self.give_up(&mut waiting);
        }
        drop(waiting);
        if is_urgent {
            self.wake.notify_one();
        }
        number
    }

    /// Forgets what waits, since a full report will say it.
    pub(super) fn supersede(&self) {
        let mut waiting = self.lock();
        self.give_up(&mut waiting);
        waiting.has_gap = false;
    }

    fn give_up(&self, waiting: &mut Waiting) {
        waiting.changes.clear();
        (waiting.is_urgent, waiting.has_gap) = (false, true);
        self.told.send_replace(waiting.queued);
    }

    /// The oldest changes, for one call.
    pub(super) fn take(&self) -> Vec<ReceivedDeletedBlockInfoProto> {
        let mut waiting = self.lock();
        let count = waiting.changes.len().min(MAX_CHANGES_PER_CALL);
        let taken = waiting.changes.drain(..count).collect();
        waiting.is_urgent &= !waiting.changes.is_empty();
        taken
    }

    /// The call with all that was taken was answered.
    pub(super) fn told(&self) {
        let waiting = self.lock();
        self.told.send_replace(waiting.queued - waiting.changes.len() as u64);
    }

    /// The call failed: they are to be told again, before all others.
    pub(super) fn put_back(&self, changes: Vec<ReceivedDeletedBlockInfoProto>) {
        let mut waiting = self.lock();
        changes.into_iter().rev().for_each(|change| waiting.changes.push_front(change));
        waiting.is_urgent = true;
    }

    /// Whether changes wait that are to go at once.
    pub(super) fn is_urgent(&self) -> bool {
        self.lock().is_urgent
    }

    /// Whether changes were given up.
    pub(super) fn has_gap(&self) -> bool {
        self.lock().has_gap
    }

    /// Lets whoever waits in [`Outbox::woken`] look again.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until there is something to do.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Waits until so many changes were told.
    pub(super) async fn wait_for(&self, number: u64) {
        // The sender is this outbox itself.
        let _ = self.told.subscribe().wait_for(|told| *told >= number).await;
    }

    /// Has all that waits told at once, and waits until it was.
    pub(super) async fn flush(&self) {
        let queued = {
            let mut waiting = self.lock();
            waiting.is_urgent = !waiting.changes.is_empty();
            waiting.queued
        };
        self.wake();
        self.wait_for(queued).await;
    }

    /// Has a heartbeat sent at once, and waits until it was answered.
    pub(super) async fn beat(&self) {
        let mut beats = self.beats.subscribe();
        let before = *beats.borrow_and_update();
        self.lock().wants_beat = true;
        self.wake();
        // The sender is this outbox itself.
        let _ = beats.wait_for(|beats| *beats > before).await;
    }

    /// Whether a heartbeat was wanted since this was last asked.
    pub(super) fn take_wanted_beat(&self) -> bool {
        std::mem::take(&mut self.lock().wants_beat)
    }

    /// Has a full report sent at once, for these rounds.
    pub(super) fn want_reports(&self, rounds: impl IntoIterator<Item = Arc<Round>>) {
        self.lock().rounds.extend(rounds);
        self.wake();
    }

    /// The rounds for which a full report was wanted since this was last asked.
    pub(super) fn take_rounds(&self) -> Vec<Arc<Round>> {
        std::mem::take(&mut self.lock().rounds)
    }

    /// A heartbeat was answered.
    pub(super) fn beaten(&self) {
        self.beats.send_modify(|beats| *beats += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::future::FutureExt;

    use super::*;

    fn change(id: u64) -> ReceivedDeletedBlockInfoProto {
        let mut change = ReceivedDeletedBlockInfoProto::default();
        change.block.block_id = id;
        change
    }

    fn ids(changes: &[ReceivedDeletedBlockInfoProto]) -> Vec<u64> {
        changes.iter().map(|change| change.block.block_id).collect()
    }

    #[tokio::test]
    async fn changes_go_in_order_and_failed_ones_again() {
        let outbox = Outbox::default();
        assert_eq!([1, 2].map(|id| outbox.put(change(id), false)), [1, 2]);
        assert!(!outbox.is_urgent());
        assert_eq!(outbox.put(change(3), true), 3);
        let taken = outbox.take();
        assert_eq!((ids(&taken), outbox.is_urgent()), (vec![1, 2, 3], false));
        outbox.put(change(4), false);
        outbox.put_back(taken);
        let again = outbox.take();
        assert_eq!(ids(&again), [1, 2, 3, 4]);
        assert!(outbox.wait_for(1).now_or_never().is_none());
        outbox.told();
        outbox.wait_for(4).await;
    }

    #[tokio::test]
    async fn calls_are_bounded_and_too_many_changes_become_a_full_report() {
        let outbox = Outbox::default();
        (0..MAX_CHANGES as u64).for_each(|id| _ = outbox.put(change(id), true));
        assert_eq!(outbox.take().len(), MAX_CHANGES_PER_CALL);
        outbox.told();
        assert!(outbox.wait_for(MAX_CHANGES_PER_CALL as u64 + 1).now_or_never().is_none());
        assert!(outbox.is_urgent() && !outbox.has_gap());
        let mut last = 0;
        (0..=MAX_CHANGES_PER_CALL as u64).for_each(|id| last = outbox.put(change(id), true));
        assert!(outbox.has_gap() && outbox.take().is_empty());
        // Nobody waits for ever.
        outbox.wait_for(last).await;
        outbox.supersede();
        assert!(!outbox.has_gap());
    }
}

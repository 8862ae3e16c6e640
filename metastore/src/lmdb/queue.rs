//! The writer's queue: many threads put operations in, one takes whatever is there. Whoever waits for a number of them
//! is woken once, when they are there.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::work::Work;

/// A bounded queue of operations.
pub(super) struct Queue {
    state: Mutex<State>,
    enough: Condvar,
    room: usize,
}

#[derive(Default)]
struct State {
    works: VecDeque<Box<dyn Work>>,
    /// The writer sleeps until so many are there; 0 = it does not.
    awaited: usize,
    closed: bool,
}

impl Queue {
    /// An empty queue with room for `room` operations, at least one.
    pub fn new(room: usize) -> Queue {
        Queue { state: Mutex::default(), enough: Condvar::new(), room: room.max(1) }
    }

    /// Puts an operation at the end; gives it back when there is no room, or nobody takes any more.
    pub fn push(&self, work: Box<dyn Work>) -> Result<(), Box<dyn Work>> {
        let mut state = self.state();
        if state.closed || state.works.len() >= self.room {
            return Err(work);
        }
        state.works.push_back(work);
        if state.awaited > 0 && state.works.len() >= state.awaited {
            state.awaited = 0;
            drop(state);
            self.enough.notify_one();
        }
        Ok(())
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.state().works.len()
    }

    /// Takes up to `most` from the front into `group`.
    pub fn take(&self, group: &mut VecDeque<Box<dyn Work>>, most: usize) {
        let mut state = self.state();
        let count = most.min(state.works.len());
        group.extend(state.works.drain(..count));
    }

    /// Waits until one is there. False = the queue is closed and empty.
    pub fn wait(&self) -> bool {
        let mut state = self.state();
        while state.works.is_empty() && !state.closed {
            state.awaited = 1;
            state = self.enough.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.awaited = 0;
        !state.works.is_empty()
    }

    /// Waits until `count` are there, or no longer than `at_most`.
    pub fn wait_for(&self, count: usize, at_most: Duration) {
        let mut state = self.state();
        state.awaited = count;
        let few = |state: &mut State| state.works.len() < count && !state.closed;
        let waited = self.enough.wait_timeout_while(state, at_most, few);
        waited.unwrap_or_else(PoisonError::into_inner).0.awaited = 0;
    }

    /// Refuses operations from now on; what is queued stays.
    pub fn close(&self) {
        self.state().closed = true;
        self.enough.notify_one();
    }

    /// Refuses operations from now on and drops those that are queued: the writer has ended.
    pub fn abandon(&self) {
        self.close();
        let works = std::mem::take(&mut self.state().works);
        drop(works);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use tokio::time::Instant as Deadline;

    use super::*;
    use crate::tx::{Stop, Tx};
    use crate::work::{End, Ran, Wake};

    struct Nothing;

    impl Work for Nothing {
        fn run(&mut self, _: &mut Tx<'_>) -> Result<Ran, Stop> {
            Ok(Ran::Done)
        }
        fn finish(self: Box<Self>, _: End) -> Wake {
            Wake::default()
        }
        fn deadline(&self) -> Deadline {
            Deadline::now()
        }
    }

    fn push(queue: &Queue) -> bool {
        queue.push(Box::new(Nothing)).is_ok()
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_queued_when_closed() {
        let queue = Queue::new(2);
        assert!(push(&queue) && push(&queue) && !push(&queue));
        queue.close();
        assert!(queue.wait(), "what is queued is still taken");
        let mut group = VecDeque::new();
        queue.take(&mut group, 1);
        assert_eq!((group.len(), queue.len()), (1, 1));
        assert!(!push(&queue), "closed");
        queue.take(&mut group, usize::MAX);
        assert!(!queue.wait(), "closed and empty");
    }

    #[test]
    fn who_waits_for_several_wakes_when_they_are_there() {
        let queue = Arc::new(Queue::new(8));
        let putting = std::thread::spawn({
            let queue = queue.clone();
            move || (0..3).all(|_| push(&queue))
        });
        queue.wait_for(3, Duration::from_secs(60));
        assert_eq!(queue.len(), 3);
        assert!(putting.join().unwrap());
        let begun = Instant::now();
        queue.wait_for(4, Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20), "one that does not come is waited for in vain");
        queue.wait_for(3, Duration::from_secs(60));
    }

    #[test]
    fn an_abandoned_queue_drops_what_waits() {
        let queue = Queue::new(8);
        assert!(push(&queue));
        queue.abandon();
        assert!(!queue.wait() && !push(&queue));
    }
}

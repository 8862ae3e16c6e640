//! How other threads wake tasks of an event loop: once for any number of them.
//!
//! Each time that another thread wakes a task, its event loop is interrupted by a system call. The writer answers calls of
//! many connections at once, so it leaves their tasks here, and wakes one task that wakes these from inside.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use futures::task::AtomicWaker;
use trellis_metastore::work::Wake;

/// Of one event loop.
#[derive(Default)]
pub(super) struct Bell {
    waiting: Mutex<Vec<Waker>>,
    listener: AtomicWaker,
}

impl Bell {
    /// Leaves a task to be woken, which it is once what this returns is dropped: the first one that is left wakes all.
    pub fn leave(&self, task: Waker) -> Wake {
        let mut waiting = self.waiting();
        waiting.push(task);
        if waiting.len() > 1 {
            return Wake::default();
        }
        drop(waiting);
        Wake::of(self.listener.take())
    }

    /// Wakes tasks as they are left, for ever. Only one task may, of the event loop that runs them.
    pub async fn listen(&self) {
        let mut tasks = Vec::new();
        poll_fn(|listener| {
            self.listener.register(listener.waker());
            std::mem::swap(&mut *self.waiting(), &mut tasks);
            tasks.drain(..).for_each(Waker::wake);
            Poll::Pending
        })
        .await
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Context;

    use futures::FutureExt;
    use futures::task::{ArcWake, waker};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl ArcWake for Woken {
        fn wake_by_ref(woken: &Arc<Self>) {
            woken.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn many_tasks_are_woken_by_one_wake_of_their_loop() {
        let (bell, listener) = (Bell::default(), Arc::new(Woken::default()));
        let tasks: Vec<Arc<Woken>> = (0..5).map(|_| Arc::default()).collect();
        let mut listening = Box::pin(bell.listen());
        let waker_of_loop = waker(listener.clone());
        let mut run = || assert!(listening.poll_unpin(&mut Context::from_waker(&waker_of_loop)).is_pending());
        let woken = || tasks.iter().map(|task| task.0.load(Ordering::Relaxed)).sum::<usize>();
        run();
        for round in 1..=3 {
            let wakes: Vec<Wake> = tasks.iter().map(|task| bell.leave(waker(task.clone()))).collect();
            assert_eq!(listener.0.load(Ordering::Relaxed), round - 1, "nobody is woken before all are there");
            drop(wakes);
            assert_eq!((listener.0.load(Ordering::Relaxed), woken()), (round, 5 * (round - 1)));
            run();
            assert_eq!(woken(), 5 * round);
        }
        // One that the loop found by itself, when it ran for another, leaves nothing behind.
        let wake = bell.leave(waker(tasks[0].clone()));
        run();
        let next = bell.leave(waker(tasks[1].clone()));
        drop(next);
        assert_eq!(listener.0.load(Ordering::Relaxed), 4);
        drop(wake);
        run();
        assert_eq!(woken(), 17);
    }
}

//! Answers that came later and wait for their connection's task. There are never more than calls in flight.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures::task::AtomicWaker;
use trellis_metastore::work::Wake;

use super::bell::Bell;
use super::call::Answer;

/// One connection's answers.
pub(super) struct Outbox {
    answers: Mutex<VecDeque<Answer>>,
    connection: AtomicWaker,
    /// Of the event loop that the connection is on.
    bell: Arc<Bell>,
}

impl Outbox {
    /// An empty one.
    pub fn new(bell: Arc<Bell>) -> Outbox {
        Outbox { answers: Mutex::default(), connection: AtomicWaker::new(), bell }
    }

    /// Puts an answer in. The connection learns of it when what this returns is dropped.
    pub fn put(&self, answer: Answer) -> Wake {
        self.answers().push_back(answer);
        self.connection.take().map_or_else(Wake::default, |connection| self.bell.leave(connection))
    }

    /// Takes the oldest answer.
    pub fn take(&self) -> Option<Answer> {
        self.answers().pop_front()
    }

    /// Waits until there is one. Only the connection's task may.
    pub async fn filled(&self) {
        poll_fn(|task| {
            self.connection.register(task.waker());
            if self.answers().is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    fn answers(&self) -> MutexGuard<'_, VecDeque<Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! How long operations are waited for: until somebody says that it was long enough.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Says to many tasks at once that they have waited long enough.
#[derive(Debug, Default)]
pub(crate) struct GivenUp {
    is_said: AtomicBool,
    said: Notify,
}

/// Of one task. What it costs to wait for one thing after the other is a look at a flag each time, where a timer or a channel
/// would be asked anew.
#[derive(Debug)]
pub(crate) struct Patience<'a> {
    given_up: &'a GivenUp,
    said: Pin<Box<Notified<'a>>>,
    /// Who is woken when it is said.
    woken: Option<Waker>,
}

impl GivenUp {
    /// From now on nothing is waited for.
    pub(crate) fn say(&self) {
        self.is_said.store(true, Ordering::Release);
        self.said.notify_waiters();
    }

    pub(crate) fn patience(&self) -> Patience<'_> {
        Patience { given_up: self, said: Box::pin(self.said.notified()), woken: None }
    }
}

impl Patience<'_> {
    /// Waits for something. None: it has not ended, and is not waited for any more.
    pub(crate) async fn wait_for<T>(
        &mut self,
        mut something: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        poll_fn(|context| {
            if let Poll::Ready(ended) = something.as_mut().poll(context) {
                return Poll::Ready(Some(ended));
            }
            let waker = context.waker();
            if !self.woken.as_ref().is_some_and(|woken| woken.will_wake(waker)) {
                self.woken = Some(waker.clone());
                // When it is ready, the flag says so.
                let _ = self.said.as_mut().poll(context);
            }
            match self.given_up.is_said.load(Ordering::Acquire) {
                true => Poll::Ready(None),
                false => Poll::Pending,
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn all_stop_waiting_when_it_is_said() {
        let given_up = Arc::new(GivenUp::default());
        let waiting = [0, 1].map(|_| {
            let given_up = given_up.clone();
            tokio::spawn(async move {
                let mut patience = given_up.patience();
                let first = patience.wait_for(pin!(ready(1))).await;
                let second = patience.wait_for(pin!(tokio::task::yield_now())).await;
                (first, second, patience.wait_for(pin!(pending::<()>())).await)
            })
        });
        // Once on its way, once not even begun.
        tokio::task::yield_now().await;
        given_up.say();
        for task in waiting {
            assert_eq!(task.await.expect("ended"), (Some(1), Some(()), None));
        }
        // What has ended all the same is not lost.
        assert_eq!(given_up.patience().wait_for(pin!(ready(2))).await, Some(2));
    }
}

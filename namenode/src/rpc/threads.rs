//! Threads that serve connections. Each runs an event loop of its own, and a connection stays on its thread: a call that
//! arrives wakes one thread, not one to fetch it from the kernel and another to run it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::bell::Bell;

/// A thread's event loop; it ends when this is dropped.
struct EventLoop {
    handle: Handle,
    bell: Arc<Bell>,
    _stop: oneshot::Sender<()>,
}

/// Threads per event loop that may wait for the OS (the look-up of a user's groups).
const WAITING_THREADS: usize = 16;

/// The threads; they end when this is dropped, and with them what they still serve.
pub(super) struct Threads {
    loops: Vec<EventLoop>,
    next: AtomicUsize,
}

impl Threads {
    /// Starts threads, at least one.
    pub fn start(count: usize) -> io::Result<Threads> {
        let loops = (0..count.max(1)).map(|_| event_loop()).collect::<io::Result<_>>()?;
        Ok(Threads { loops, next: AtomicUsize::new(0) })
    }

    /// The event loop whose turn it is to take a connection, and how its tasks are woken.
    pub fn next(&self) -> (&Handle, Arc<Bell>) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let EventLoop { handle, bell, .. } = &self.loops[turn % self.loops.len()];
        (handle, bell.clone())
    }
}

fn event_loop() -> io::Result<EventLoop> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(WAITING_THREADS)
        .thread_name("rpc-waiting")
        .build()?;
    let handle = runtime.handle().clone();
    let bell = Arc::new(Bell::default());
    handle.spawn({
        let bell = bell.clone();
        async move { bell.listen().await }
    });
    let (stop, stopped) = oneshot::channel::<()>();
    std::thread::Builder::new().name("rpc".into()).spawn(move || {
        // An error means that the threads' owner is gone: the only way that this ends.
        let _ = runtime.block_on(stopped);
        // Whoever waits for the OS is not waited for.
        runtime.shutdown_background();
    })?;
    Ok(EventLoop { handle, bell, _stop: stop })
}

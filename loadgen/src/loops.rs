//! Threads that carry operations out. Each runs an event loop of its own, in which clients lie together with their
//! connections: an answer wakes tasks of the thread that reads it, and what they ask next leaves in one write.

use std::future::pending;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use trellis_client::Client;

use crate::error::{Error, Result};

/// Those that were started.
static STARTED: Mutex<Vec<Handle>> = Mutex::new(Vec::new());

/// The event loop of a connection, by its number. There are as many as processors; each is started when it is first needed,
/// and lasts as long as this process.
pub fn event_loop(connection: usize) -> Result<Handle> {
    let count = thread::available_parallelism().map_or(1, usize::from);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(there) = started.get(connection % count) {
            return Ok(there.clone());
        }
        started.push(start().map_err(Error::io("starting a thread for clients"))?);
    }
}

fn start() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name("clients".into()).spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle)
}

/// Starts a task of a client where its connections are.
pub fn spawn<T: Send + 'static>(
    tasks: &mut JoinSet<T>,
    client: &Client,
    task: impl Future<Output = T> + Send + 'static,
) {
    match client.runtime() {
        Some(runtime) => tasks.spawn_on(task, runtime),
        None => tasks.spawn(task),
    };
}

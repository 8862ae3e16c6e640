//! The thread that serves commits and locks of the [`Store`](crate::store::Store) calls, one after another, and frees
//! the reader slots of dead processes. Namenodes write through [`Writer`](super::Writer) instead.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::oneshot;

use super::transaction::Transaction;
use super::{Core, apply};
use crate::change::{Change, Row};
use crate::key::Key;
use crate::store::StoreError;

type Reply<R> = oneshot::Sender<Result<R, StoreError>>;

/// What the thread is asked for.
enum Job {
    Commit(Vec<Change>, Reply<()>),
    Lock(Vec<Key>, Reply<Granted>),
}

/// The end of a lock: changes to make.
pub(super) struct Finish(pub Vec<Change>, pub Reply<()>);

/// A lock that was granted: the rows, and where to send its end; dropping that ends it without changes.
pub(super) struct Granted {
    pub rows: Vec<Option<Row>>,
    pub finish: SyncSender<Finish>,
}

/// The thread and its queue.
pub(super) struct Service {
    core: Arc<Core>,
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    pub fn start(core: Arc<Core>) -> Result<Service, StoreError> {
        let (jobs, queue) = sync_channel(core.config.queue.max(1));
        let server = Server { core: core.clone() };
        let thread = std::thread::Builder::new()
            .name("lmdb-store".into())
            .spawn(move || server.serve(&queue))
            .map_err(|error| core.error(error.into()))?;
        Ok(Service { core, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Makes all changes or none.
    pub async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Commit(changes, reply))?;
        answer.await.unwrap_or_else(|_| Err(StoreError::MaybeCommitted("its thread ended".into())))
    }

    /// Takes the write lock and reads rows under it.
    pub async fn lock(&self, keys: Vec<Key>) -> Result<Granted, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Lock(keys, reply))?;
        answer.await.unwrap_or_else(|_| Err(StoreError::Unavailable("its thread ended".into())))
    }

    fn send(&self, job: Job) -> Result<(), StoreError> {
        let sent = match &self.jobs {
            Some(jobs) => jobs.try_send(job),
            None => Err(TrySendError::Disconnected(job)),
        };
        let dir = self.core.dir.display();
        sent.map_err(|refused| match refused {
            TrySendError::Full(_) => StoreError::Unavailable(format!("{dir}: too many commits are waiting")),
            TrySendError::Disconnected(_) => StoreError::Unavailable(format!("{dir}: it is closing")),
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Server {
    core: Arc<Core>,
}

impl Server {
    fn serve(&self, queue: &Receiver<Job>) {
        let every = self.core.config.stale_reader_check;
        let mut checked = Instant::now();
        loop {
            match queue.recv_timeout(every.saturating_sub(checked.elapsed())) {
                Ok(job) => self.run(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if checked.elapsed() >= every {
                self.clear_stale_readers();
                checked = Instant::now();
            }
        }
    }

    fn clear_stale_readers(&self) {
        match self.core.env.clear_stale_readers() {
            Ok(0) => {}
            Ok(slots) => {
                tracing::info!(slots, dir = %self.core.dir.display(), "freed reader slots of dead processes")
            }
            Err(error) => tracing::warn!(%error, "could not look for reader slots of dead processes"),
        }
    }

    /// A reply that nobody waits for any more is dropped; what was committed stays committed.
    fn run(&self, job: Job) {
        match job {
            Job::Commit(changes, reply) => {
                let _ = reply.send(self.commit(&changes));
            }
            Job::Lock(keys, reply) => self.lock(&keys, reply),
        }
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        let transaction = Transaction::begin(&self.core)?;
        apply::check_and_commit(&self.core, transaction, changes)
    }

    /// Holds the write lock until its owner commits, gives up, or takes too long.
    fn lock(&self, keys: &[Key], reply: Reply<Granted>) {
        let transaction = match Transaction::begin(&self.core) {
            Ok(transaction) => transaction,
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
        };
        let rows = match self.copy(keys, &transaction) {
            Ok(rows) => rows,
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
        };
        let (finish, end) = sync_channel(1);
        if reply.send(Ok(Granted { rows, finish })).is_err() {
            return;
        }
        if let Ok(Finish(changes, reply)) = end.recv_timeout(self.core.config.lock_hold) {
            let _ = reply.send(apply::check_and_commit(&self.core, transaction, &changes));
        }
    }

    fn copy(&self, keys: &[Key], transaction: &Transaction<'_>) -> Result<Vec<Option<Row>>, StoreError> {
        let mut view = transaction.rows();
        let rows = keys.iter().map(|key| view.copy(key)).collect();
        view.count(&self.core.counters);
        rows
    }
}

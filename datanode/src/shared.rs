//! What all sessions, servers and actors of a datanode share.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinError;
use trellis_proto::hdfs::{DatanodeIdProto, ExtendedBlockProto};

use crate::config::Config;
use crate::metrics::Metrics;
use crate::namenodes::Namenodes;
use crate::store::{Block, BlockStore};
use crate::transfer::fault::Fault;
use crate::transfer::large::LargePackets;
use crate::transfer::throttle::Throttle;

/// A datanode that knows its block pool.
pub(crate) struct Shared {
    /// Settings.
    pub(crate) config: Config,
    /// The replicas.
    pub(crate) store: Arc<dyn BlockStore>,
    /// Where reports go.
    pub(crate) namenodes: Arc<Namenodes>,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// This datanode, as it registers.
    pub(crate) id: DatanodeIdProto,
    /// Memory for large packets.
    pub(crate) large: Arc<LargePackets>,
    /// Speed of copies for the namenode.
    pub(crate) copies: Throttle,
    /// Speed of moves for the balancer.
    pub(crate) balance: Throttle,
    /// Moves for the balancer at a time.
    pub(crate) moves: Slots,
    /// Data-transfer sessions.
    pub(crate) sessions: Slots,
    /// Copies for the namenode that wait or run.
    pub(crate) copying: Slots,
    /// Data connections, those to other datanodes too.
    pub(crate) transfers: Sockets,
    /// Clients that write.
    pub(crate) writers: Sockets,
    /// Told when somebody who may wants this datanode to stop.
    pub(crate) shutdown: watch::Sender<bool>,
    /// When the store was opened.
    pub(crate) started: Instant,
    /// Closed when all else is dropped, so that whoever stops a datanode knows when its folders are free: the last field
    /// is dropped last.
    pub(crate) _alive: mpsc::Sender<()>,
}

impl Shared {
    /// A block that a peer names, if it is of this pool.
    pub(crate) fn block(&self, block: &ExtendedBlockProto) -> Result<Block, Fault> {
        let pool = &self.store.pool().id;
        match block.pool_id == *pool {
            true => Ok(Block { id: block.block_id, stamp: block.generation_stamp }),
            false => {
                Err(Fault::Refused(format!("block pool {} is not served here, but {pool}", block.pool_id)))
            }
        }
    }

    /// A block as peers name it.
    pub(crate) fn extended(&self, block: Block, len: u64) -> ExtendedBlockProto {
        extended(&self.store.pool().id, block, len)
    }
}

/// A block of a pool as peers name it.
pub(crate) fn extended(pool: &str, block: Block, len: u64) -> ExtendedBlockProto {
    ExtendedBlockProto {
        pool_id: pool.to_owned(),
        block_id: block.id,
        generation_stamp: block.stamp,
        num_bytes: Some(len),
    }
}

/// Does what may wait for a disk, off the runtime's threads. An error: it panicked, or the runtime ends.
pub(crate) async fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> T + Send + 'static,
) -> Result<T, JoinError> {
    let shared = shared.clone();
    tokio::task::spawn_blocking(move || work(&shared)).await
}

/// Places for work at a time; clones are the same places.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    taken: Arc<AtomicUsize>,
    limit: usize,
}

/// One of [`Slots`], given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot(Arc<AtomicUsize>);

impl Slots {
    /// So many.
    pub(crate) fn new(limit: usize) -> Slots {
        Slots { taken: Arc::default(), limit }
    }

    /// One of them, if one is free.
    pub(crate) fn take(&self) -> Option<Slot> {
        let free = |taken: usize| (taken < self.limit).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        Some(Slot(self.taken.clone()))
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sockets that can be closed from elsewhere.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sockets(Arc<Mutex<Registered>>);

#[derive(Debug, Default)]
struct Registered {
    next: u64,
    open: HashMap<u64, Weak<TcpStream>>,
    /// No more are wanted.
    ended: bool,
}

/// A socket's place in [`Sockets`], given up when dropped.
#[derive(Debug)]
pub(crate) struct Registration(Sockets, u64);

impl Sockets {
    /// Adds a socket; after [`Sockets::end`] it is closed at once.
    pub(crate) fn add(&self, stream: Weak<TcpStream>) -> Registration {
        let mut all = self.lock();
        if all.ended {
            close(&stream);
        }
        let number = all.next;
        all.next += 1;
        all.open.insert(number, stream);
        Registration(self.clone(), number)
    }

    /// Ends both directions of all of them; whoever waits on one wakes.
    pub(crate) fn close_all(&self) {
        self.lock().open.values().for_each(close);
    }

    /// Closes all of them, and all that are still added.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.close_all();
    }

    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn close(stream: &Weak<TcpStream>) {
    if let Some(stream) = stream.upgrade() {
        let _ = stream.shutdown(Shutdown::Both); // it may be closed already
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.lock().open.remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_socket_that_is_added_after_the_end_is_closed_too() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let (sockets, before, after) = (Sockets::default(), connect(), connect());
        let _before = sockets.add(Arc::downgrade(&before));
        sockets.end();
        let _after = sockets.add(Arc::downgrade(&after));
        for stream in [before, after] {
            assert_eq!((&*stream).read(&mut [0]).unwrap(), 0);
        }
    }
}

//! A writer and its datanodes, whose namenode dies at any of its store calls: they go on with another one, and every block
//! that was acknowledged is there in the end, with its replicas.

use tokio::time::timeout;
use trellis_metastore::faulty::Blow;
use trellis_metastore::schema::{Block, CommandKind};
use trellis_metastore::sim::{self, Plan};
use trellis_namenode::jobs::reaper;
use trellis_namenode::ops::write::BlockName;

use crate::block_seeds::{PATIENCE, replicas, tell_all, tell_in_full, with_datanodes};
use crate::calls::{Answered, assert_sound, root};
use crate::files::{BLOCK, named};
use crate::reap::reap_all;
use crate::seeds::{Cluster, failover};
use crate::support::{Namenode, rounds};

/// A writer that goes from a dead namenode to the next with each call.
struct Writer<'c> {
    c: &'c Cluster,
    calls: i64,
}

impl Writer<'_> {
    /// Sends a call under one identity.
    async fn once<T, F>(&mut self, ask: impl Fn(Namenode) -> F) -> Answered<T>
    where
        T: std::fmt::Debug,
        F: Future<Output = Answered<T>>,
    {
        self.calls += 1;
        failover([&self.c.one, &self.c.two], self.calls, ask).await
    }

    /// Sends a call that may be run again: it has no identity.
    async fn again<T, F>(&mut self, ask: impl Fn(Namenode) -> F) -> Answered<T>
    where
        T: std::fmt::Debug,
        F: Future<Output = Answered<T>>,
    {
        self.once(|nn| ask(nn.anonymous())).await
    }

    async fn begin(&mut self, text: &str) -> u64 {
        let made = self.once(|nn| async move { Ok(root(&nn).begin(text, "c1").await) }).await;
        made.unwrap()
    }

    /// The next block, which the datanodes then have.
    async fn block(&mut self, text: &str, id: u64, previous: Option<BlockName>, length: u64) -> BlockName {
        let block = self.open_block(text, id, previous).await;
        tell_all(self.c, &block, length).await;
        named(&block, length)
    }

    async fn open_block(&mut self, text: &str, id: u64, previous: Option<BlockName>) -> Block {
        let ask = |nn: Namenode| {
            let previous = previous.clone();
            async move { root(&nn).add_block(text, id, "c1", previous).await }
        };
        self.again(ask).await.unwrap().block
    }

    async fn close(&mut self, text: &str, id: u64, last: BlockName) {
        let ask = |nn: Namenode| {
            let last = last.clone();
            async move { root(&nn).close(text, id, "c1", Some(last)).await }
        };
        assert_eq!(self.once(ask).await, Ok(true));
    }

    /// A pipeline with a new stamp; the datanodes have so much under it.
    async fn mend(&mut self, block: &Block, length: u64) -> BlockName {
        let old = named(block, block.length);
        let ask = |nn: Namenode| {
            let old = old.clone();
            async move { root(&nn).next_stamp(old, "c1").await }
        };
        let stamp = self.again(ask).await.unwrap();
        let new = Block { stamp, ..block.clone() };
        let ask = |nn: Namenode| {
            let (old, new) = (old.clone(), named(&new, old.bytes));
            async move { root(&nn).new_pipeline(old, new, "c1", &[0, 1, 2]).await }
        };
        self.once(ask).await.unwrap();
        tell_all(self.c, &new, length).await;
        named(&new, length)
    }

    async fn append(&mut self, text: &str) -> Block {
        let ask = |nn: Namenode| async move { root(&nn).append(text, "c1", false).await };
        self.once(ask).await.unwrap().unwrap().block
    }
}

/// At each of them once; in the short form at some, evenly spread.
pub fn a_writer_s_namenode_dies_at_every_store_call() {
    let points = rounds(15, usize::MAX);
    let runs = sim::sweep(&Plan::default(), 0, points, &[Blow::Die], |world| async move {
        let c = Cluster::of(world).await;
        with_datanodes(&c).await;
        root(&c.calm).mk("/a").await.unwrap();
        let mut w = Writer { c: &c, calls: 0 };
        // Two blocks, of which the second gets a new pipeline; then it is appended to.
        let f = w.begin("/a/f").await;
        let first = w.block("/a/f", f, None, BLOCK).await;
        let second = w.open_block("/a/f", f, Some(first.clone())).await;
        w.again(|nn| async move { root(&nn).sync("/a/f", f, "c1", 5).await }).await.unwrap();
        let second = w.mend(&Block { length: 5, ..second }, 100).await;
        w.close("/a/f", f, second).await;
        let last = w.append("/a/f").await;
        assert_eq!(last.length, 100);
        let last = w.mend(&last, 150).await;
        w.close("/a/f", f, last.clone()).await;
        // Another is joined to it, and cut off again in its middle.
        let g = w.begin("/a/g").await;
        let middle = w.block("/a/g", g, None, BLOCK).await;
        let end = w.block("/a/g", g, Some(middle.clone()), 9).await;
        w.close("/a/g", g, end.clone()).await;
        w.once(|nn| async move { root(&nn).concat("/a/f", &["/a/g"]).await }).await.unwrap();
        let length = (2 * BLOCK + 150) as i64;
        let cut = w.once(|nn| async move { root(&nn).truncate("/a/f", length, "c1").await }).await;
        assert_eq!(cut, Ok(true));
        // A writer is lost, and its block recovered; another file is given up.
        let h = w.begin("/a/h").await;
        let open = w.open_block("/a/h", h, None).await;
        let recovered = w.once(|nn| async move { root(&nn).recover("/a/h", "c2").await }).await;
        assert_eq!(recovered, Ok(false));
        let stamp = root(&c.calm).blocks(h).await.remove(0).recovery.unwrap().stamp;
        let name = named(&open, 0);
        let ask = |nn: Namenode| {
            let name = name.clone();
            async move { root(&nn).recovered(name, stamp, 3, false, &[0, 1, 2]).await }
        };
        w.again(ask).await.unwrap();
        let closed = w.again(|nn| async move { root(&nn).recover("/a/h", "c2").await }).await;
        assert_eq!(closed, Ok(true));
        let x = w.begin("/a/x").await;
        let lost = w.block("/a/x", x, None, 8).await;
        assert_eq!(w.once(|nn| async move { root(&nn).rm("/a/x", false).await }).await, Ok(true));
        let (_stop, stopped) = tokio::sync::watch::channel(false);
        let reaping = async { while reaper::round(&c.one.engine, &stopped).await.is_ok_and(|n| n > 0) {} };
        let _ = timeout(PATIENCE, reaping).await;
        c.settle().await;
        look_at_what_is_left(&c, [&first, &last, &middle], (&open, stamp), [&end, &lost]).await;
    });
    assert!(runs > 20, "{runs}");
}

/// The blocks whose calls were answered are there with their replicas, and nothing else.
async fn look_at_what_is_left(
    c: &Cluster,
    of_file: [&BlockName; 3],
    (recovered, stamp): (&Block, u64),
    gone: [&BlockName; 2],
) {
    let su = root(&c.calm);
    let mut all: Vec<(u64, u64, u64)> =
        of_file.map(|name| (name.id, name.stamp, name.bytes)).into_iter().collect();
    let found = su.locations("/a/f", 0, i64::MAX).await.unwrap().blocks;
    let blocks: Vec<_> = found.iter().map(|at| (at.block.id, at.block.stamp, at.block.length)).collect();
    assert_eq!(blocks, all);
    assert!(found.iter().all(|at| at.storages.len() == 3), "{found:?}");
    let found = su.locations("/a/h", 0, i64::MAX).await.unwrap().blocks.remove(0);
    assert_eq!((found.block.id, found.block.length, found.storages.len()), (recovered.id, 3, 3));
    assert_eq!(su.must("/a").await.children, 2);
    all.push((recovered.id, stamp, 3));
    for name in gone {
        assert!(su.told(0, CommandKind::Invalidate, name.id).await.is_some());
    }
    tell_in_full(&c.calm, &all).await;
    assert_eq!(replicas(&c.calm).await, 3 * all.len());
    reap_all(&c.calm).await;
    assert_sound(&c.calm).await;
}

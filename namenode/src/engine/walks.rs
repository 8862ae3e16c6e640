//! The walk jobs: in bounded batches, each batch one read of its own.
//!
//! Trees are walked depth first. A batch takes up to [`BATCH`] directories from the top of the stack and reads at most
//! [`ROWS`] rows of them; of a larger directory the rest is read next, in pages. So what waits is bounded by the depth of
//! the tree, not its width: beyond [`MANY_WAITING`] directories the batches shrink to one directory and few rows, and the
//! stack grows no more than by that for each level of depth.

use std::sync::Arc;

use bytes::Bytes;
use trellis_metastore::key::{Scan, name_bytes};
use trellis_metastore::schema::{Inode, Table, child_partitions};
use trellis_metastore::tx::Record;

use super::Engine;
use super::call::Op;
use super::ctx::Ctx;
use super::walk::Node;
use super::walkjob::{WalkJob, WalkResult};
use crate::path::Path;
use crate::refusal::RpcError;

mod access;
mod buckets;
mod concerns;
mod open_files;
mod summary;

/// Directories in one batch.
pub const BATCH: usize = 64;
/// Rows that one batch reads at most, besides one for each directory.
pub const ROWS: u32 = Scan::MAX_ROWS;
/// Large directories of which one batch reads a further page each.
const PAGES: usize = 4;
/// Directories waiting beyond which batches shrink.
const MANY_WAITING: usize = 200_000;
/// Rows of a batch that has shrunk.
const FEW_ROWS: u32 = 64;

/// Makes a walk job for a caller.
pub(super) async fn walk(engine: &Arc<Engine>, ctx: &Ctx, job: WalkJob) -> Result<WalkResult, RpcError> {
    let walk = Walk { engine, ctx: Ctx { walked: None, call_id: None, ..ctx.clone() } };
    Ok(match job {
        WalkJob::SubAccess { directory, path } => {
            access::walk(&walk, Place::top(&directory, &path)).await?;
            WalkResult::SubAccess { directory: directory.id() }
        }
        WalkJob::Summary { directory, path, sticky } => {
            let counts = summary::walk(&walk, Place::top(&directory, &path), sticky).await?;
            WalkResult::Summary { directory: directory.id(), sticky, counts }
        }
        WalkJob::OpenFiles(call) => {
            let page = open_files::walk(&walk, &call).await?;
            WalkResult::OpenFiles(call, page)
        }
        WalkJob::Totals => WalkResult::Totals(concerns::totals(&walk).await?),
        WalkJob::Concerns(call) => {
            let page = concerns::page(&walk, &call).await?;
            WalkResult::Concerns(call, page)
        }
    })
}

/// A walk under way.
struct Walk<'e> {
    engine: &'e Arc<Engine>,
    ctx: Ctx,
}

impl Walk<'_> {
    /// Makes one batch's read, and lets others run.
    async fn read<A: Send + 'static>(&self, lane: u64, op: Op<A>) -> Result<A, RpcError> {
        let answer = self.engine.read_wait(self.ctx.clone(), lane, op).await;
        tokio::task::yield_now().await;
        answer
    }
}

/// A directory in the walked tree, and the way to it.
struct Place {
    above: Option<Arc<Place>>,
    /// Its name; of the top its whole path.
    name: Bytes,
    inode: Inode,
}

impl Place {
    fn top(directory: &Node, path: &str) -> Arc<Place> {
        Arc::new(Place { above: None, name: path.to_owned().into(), inode: directory.inode.clone() })
    }

    fn below(self: &Arc<Place>, name: Bytes, inode: Inode) -> Arc<Place> {
        Arc::new(Place { above: Some(self.clone()), name, inode })
    }

    /// The path of an entry; of the directory itself without one.
    fn path(&self, entry: Option<&[u8]>) -> String {
        let mut names: Vec<Bytes> = entry.map(Bytes::copy_from_slice).into_iter().collect();
        let mut at = self;
        while let Some(above) = &at.above {
            names.push(at.name.clone());
            at = above;
        }
        let top = String::from_utf8_lossy(&at.name).into_owned();
        if names.is_empty() {
            return top;
        }
        names.reverse();
        let below = Path::from_components(names);
        if top == "/" { below.text().to_owned() } else { top + below.text() }
    }

    /// The directory where the walk began.
    fn first(&self) -> &Place {
        let mut at = self;
        while let Some(above) = &at.above {
            at = above;
        }
        at
    }
}

/// Part of a directory's entries to read: one partition, from a cursor on.
#[derive(Clone)]
struct Part {
    place: Arc<Place>,
    partition: u64,
    after: Option<Vec<u8>>,
}

impl Part {
    /// All of a directory.
    fn all(place: &Arc<Place>) -> impl Iterator<Item = Part> {
        child_partitions(place.inode.id).map(|partition| Part {
            place: place.clone(),
            partition,
            after: None,
        })
    }

    fn scan<T: Table>(&self, limit: u32) -> Scan {
        let scan = Scan::of(T::ID, self.partition, limit);
        match &self.after {
            Some(after) => scan.after(after),
            None => scan,
        }
    }

    /// What is left after a page of at most `limit` rows.
    fn rest<T: Table>(&self, page: &Page<T>, limit: u32) -> Option<Part> {
        let last = page.last().filter(|_| page.len() >= limit as usize)?;
        Some(Part { after: Some(last.0.clone()), ..self.clone() })
    }
}

/// Rows of a scan: third part of the key, row.
type Page<T> = Vec<(Vec<u8>, Record<T>)>;

/// Something on a stack that one batch takes several of.
trait Step {
    /// Steps of the same kind go into one batch.
    fn kind(&self) -> u8;
    /// Whether this goes on with a directory that filled its share of an earlier batch.
    fn is_further(&self) -> bool;
}

/// The next batch from the top of the stack, and the rows that each of its steps may read.
fn take<S: Step>(stack: &mut Vec<S>) -> Option<(Vec<S>, u32)> {
    let top = stack.last()?;
    let (kind, further) = (top.kind(), top.is_further());
    let (most, rows) = match stack.len() > MANY_WAITING {
        true => (1, FEW_ROWS),
        false if further => (PAGES, ROWS),
        false => (BATCH, ROWS),
    };
    let same = |step: &&S| step.kind() == kind && step.is_further() == further;
    let count = stack.iter().rev().take(most).take_while(same).count();
    let batch = stack.split_off(stack.len() - count);
    let share = (rows / count as u32).max(1);
    Some((batch, share))
}

fn name_of(key: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&name_bytes(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake(u8, bool);

    impl Step for Fake {
        fn kind(&self) -> u8 {
            self.0
        }
        fn is_further(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn batches_are_bounded_and_of_one_kind() {
        let mut stack: Vec<Fake> = (0..100).map(|_| Fake(1, false)).collect();
        stack.push(Fake(1, true));
        stack.extend((0..70).map(|_| Fake(2, false)));
        let sizes: Vec<(usize, u32)> =
            std::iter::from_fn(|| take(&mut stack).map(|(batch, rows)| (batch.len(), rows))).collect();
        assert_eq!(sizes, [(64, 62), (6, 666), (1, 4000), (64, 62), (36, 111)]);
    }

    #[test]
    fn a_stack_that_is_long_grows_no_more() {
        let mut stack: Vec<Fake> = (0..MANY_WAITING + 2).map(|_| Fake(1, false)).collect();
        assert_eq!(take(&mut stack).map(|(batch, rows)| (batch.len(), rows)), Some((1, FEW_ROWS)));
    }
}

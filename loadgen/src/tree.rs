//! A namespace on a file system: what of it is there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::task::JoinSet;
use trellis_client::Client;
use trellis_proto::hdfs::client_namenode_protocol as rpc;
use trellis_proto::hdfs::hdfs_file_status_proto::FileType;
use trellis_proto::hdfs::{GetListingRequestProto, LocatedBlocksProto};

use crate::datanodes::Datanodes;
use crate::error::{Error, Result};
use crate::loops;
use crate::marker::{self, Found};
use crate::namespace::Spec;
use crate::progress::Progress;

/// The generation of a file that is not there.
pub const ABSENT: u32 = u32::MAX;

/// A namespace and, of each file, the generation of its name, or [`ABSENT`]. Shared by all clients of a run, which note
/// here what they did.
#[derive(Debug)]
pub struct Tree {
    /// Where it begins.
    pub base: String,
    /// What it has.
    pub spec: Spec,
    generations: Vec<AtomicU32>,
}

impl Tree {
    /// A namespace of which nothing is there yet.
    pub fn absent(base: &str, spec: Spec) -> Tree {
        let generations = (0..spec.files).map(|_| AtomicU32::new(ABSENT)).collect();
        Tree { base: base.to_owned(), spec, generations }
    }

    /// The generation of a file's name; [`ABSENT`] also for a file that the spec does not have.
    pub fn generation(&self, file: u32) -> u32 {
        self.generations.get(file as usize).map_or(ABSENT, |generation| generation.load(Ordering::Relaxed))
    }

    /// Notes a generation.
    pub fn set_generation(&self, file: u32, generation: u32) {
        if let Some(known) = self.generations.get(file as usize) {
            known.store(generation, Ordering::Relaxed);
        }
    }

    /// How many files are there.
    pub fn present(&self) -> u32 {
        self.generations.iter().filter(|generation| generation.load(Ordering::Relaxed) != ABSENT).count()
            as u32
    }

    /// Looks which files of a directory are there, and which of them are not as long as they are to be. Simulated
    /// datanodes hear what they hold: of the blocks of all files in it.
    pub async fn look(&self, client: &Client, dir: u32, datanodes: Option<&Datanodes>) -> Result<Look> {
        let path = self.spec.dir_path(&self.base, dir);
        let (mut after, mut unfinished) = (Bytes::new(), Vec::new());
        loop {
            let request = GetListingRequestProto {
                src: path.clone(),
                start_after: after,
                need_location: datanodes.is_some(),
            };
            let page = client.call(&rpc::GET_LISTING, &request).await?.dir_list;
            let Some(page) = page else { return Ok(Look { is_there: false, unfinished }) };
            for entry in page.partial_listing.iter().filter(|entry| entry.file_type() == FileType::IsFile) {
                if let (Some(datanodes), Some(blocks)) = (datanodes, &entry.locations) {
                    hear(datanodes, blocks, entry.block_replication());
                }
                let known = str::from_utf8(&entry.path).ok().and_then(|name| self.spec.parse_file_name(name));
                let Some((file, generation)) = known else { continue };
                self.set_generation(file, generation);
                if entry.length != self.spec.size_of(file) {
                    unfinished.push((file, generation));
                }
            }
            match page.partial_listing.last() {
                Some(last) if page.remaining_entries > 0 => after = last.path.clone(),
                _ => return Ok(Look { is_there: true, unfinished }),
            }
        }
    }
}

/// What there is of a directory.
#[derive(Debug, Default)]
pub struct Look {
    /// The directory itself.
    pub is_there: bool,
    /// Files that have another length than they are to have, with their generation: whoever made them was ended.
    pub unfinished: Vec<(u32, u32)>,
}

/// Simulated datanodes hear of a file's blocks. Of one that was being written, nobody knows how much there is.
fn hear(datanodes: &Datanodes, blocks: &LocatedBlocksProto, replication: u32) {
    let last = blocks.last_block.iter().filter(|last| blocks.blocks.iter().all(|block| block.b != last.b));
    for block in blocks.blocks.iter().chain(last).filter(|block| block.b.num_bytes() > 0) {
        datanodes.hold(block, replication);
    }
}

/// The spec of the namespace in `base`.
pub async fn spec_in(client: &Client, base: &str) -> Result<Spec> {
    match marker::read(client, base).await? {
        Found::Spec(spec) => {
            spec.check(base)?;
            Ok(*spec)
        }
        Found::Nothing => Err(Error::refused(format!(
            "there is no namespace in {base}: make one with 'trellis load build'"
        ))),
        Found::Begun(_) => Err(Error::refused(format!(
            "the build of the namespace in {base} was ended early: run 'trellis load build' again, with the same options"
        ))),
    }
}

/// The namespace of this spec in `base`, looked at by listing all its directories, `workers` at once.
pub async fn survey(
    clients: &[Client],
    base: &str,
    spec: Spec,
    datanodes: Option<Arc<Datanodes>>,
    workers: u32,
) -> Result<Survey> {
    let tree = Arc::new(Tree::absent(base, spec));
    let dirs: Arc<Mutex<BTreeMap<u32, Look>>> = Arc::default();
    let progress =
        Progress::new("looking at the namespace", tree.spec.dirs().into(), "directories, {per_sec}, {eta}");
    each(clients, tree.spec.dirs(), workers, &progress, {
        let (tree, dirs) = (tree.clone(), dirs.clone());
        move |client, dir| {
            let (tree, dirs, datanodes) = (tree.clone(), dirs.clone(), datanodes.clone());
            async move {
                let look = tree.look(&client, dir, datanodes.as_deref()).await?;
                if !look.is_there || !look.unfinished.is_empty() {
                    dirs.lock().unwrap_or_else(PoisonError::into_inner).insert(dir, look);
                }
                Ok(())
            }
        }
    })
    .await?;
    // All workers have ended, so nobody else holds it.
    let tree = Arc::try_unwrap(tree).map_err(|_| Error::refused("a worker of the survey has not ended"))?;
    let dirs = std::mem::take(&mut *dirs.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Survey { tree, dirs })
}

/// What a survey found.
#[derive(Debug)]
pub struct Survey {
    /// Which files are there.
    pub tree: Tree,
    /// Directories that are not there, or in which files are unfinished.
    pub dirs: BTreeMap<u32, Look>,
}

/// Does something with every number below `count`, in order, `workers` at once. Ends with the first error.
pub async fn each<F: Future<Output = Result<()>> + Send + 'static>(
    clients: &[Client],
    count: u32,
    workers: u32,
    progress: &Progress,
    act: impl Fn(Client, u32) -> F + Clone + Send + 'static,
) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks: JoinSet<Result<()>> = JoinSet::new();
    for client in clients.iter().cycle().take(workers.min(count) as usize) {
        let (own, act, next, progress) = (client.clone(), act.clone(), next.clone(), progress.clone());
        let task = async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count.into() {
                    return Ok(());
                }
                act(own.clone(), number as u32).await?;
                progress.add(1);
            }
        };
        loops::spawn(&mut tasks, client, task);
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| Error::Unreadable(format!("a worker failed: {error}")))??;
    }
    Ok(())
}

//! A namespace on a file system: what of it is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use tokio::task::JoinSet;
use trellis_client::Client;

use crate::error::{Error, Result};
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

    /// Looks which files of a directory are there; whether the directory is.
    pub async fn look(&self, client: &Client, dir: u32) -> Result<bool> {
        let path = self.spec.dir_path(&self.base, dir);
        let mut after = Bytes::new();
        loop {
            let Some(page) = client.list_page(&path, after).await? else { return Ok(false) };
            let names = page.entries.iter().filter(|entry| !entry.is_dir());
            for (file, generation) in names.filter_map(|entry| self.spec.parse_file_name(&entry.name)) {
                self.set_generation(file, generation);
            }
            match page.entries.last() {
                Some(last) if page.remaining > 0 => after = Bytes::copy_from_slice(last.name.as_bytes()),
                _ => return Ok(true),
            }
        }
    }
}

/// Reads the spec of the namespace that lies in `base`; None: `base` is empty or absent. Something else in it is an error.
pub async fn find_spec(client: &Client, base: &str) -> Result<Option<Spec>> {
    let Some(status) = client.get_file_info(base).await? else { return Ok(None) };
    if !status.is_dir() {
        return Err(Error::refused(format!("{base} is a file: give another --base")));
    }
    let (mut listing, mut found, mut others) = (client.get_listing(base), Vec::new(), 0);
    while let Some(entry) = listing.next().await? {
        match entry.name.parse::<Spec>() {
            Ok(spec) => found.push(spec),
            Err(()) => others += 1,
        }
    }
    match (found.pop(), found.len(), others) {
        (Some(spec), 0, _) => Ok(Some(spec)),
        (None, _, 0) => Ok(None),
        (None, ..) => Err(Error::refused(format!("{base} holds something else: give another --base"))),
        (Some(_), ..) => {
            Err(Error::refused(format!("{base} holds several namespaces: delete it, or give another --base")))
        }
    }
}

/// The namespace in `base`, looked at by listing all its directories.
pub async fn survey(clients: &[Client], base: &str, workers: u32) -> Result<Tree> {
    let Some(first) = clients.first() else { return Err(Error::refused("no clients")) };
    let Some(spec) = find_spec(first, base).await? else {
        return Err(Error::refused(format!(
            "there is no namespace in {base}: make one with 'trellis load build'"
        )));
    };
    spec.check(base)?;
    let tree = Arc::new(Tree::absent(base, spec));
    let progress =
        Progress::new("looking at the namespace", tree.spec.dirs().into(), "directories, {per_sec}, {eta}");
    each(clients, tree.spec.dirs(), workers, &progress, {
        let tree = tree.clone();
        move |client, dir| {
            let tree = tree.clone();
            async move { tree.look(&client, dir).await.map(drop) }
        }
    })
    .await?;
    // All workers have ended, so nobody else holds it.
    Arc::try_unwrap(tree).map_err(|_| Error::refused("a worker of the survey has not ended"))
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
        let (client, act, next, progress) = (client.clone(), act.clone(), next.clone(), progress.clone());
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count.into() {
                    return Ok(());
                }
                act(client.clone(), number as u32).await?;
                progress.add(1);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| Error::Unreadable(format!("a worker failed: {error}")))??;
    }
    Ok(())
}

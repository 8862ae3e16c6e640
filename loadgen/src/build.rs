//! Makes a namespace, or what is missing of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use trellis_client::Client;
use trellis_client::types::CreateOptions;

use crate::contents::{Blocks, Contents};
use crate::datanodes::{Datanodes, Work};
use crate::error::{Error, Result};
use crate::files::{Answers, Data, NewFile};
use crate::marker::{self, Found};
use crate::namespace::Spec;
use crate::progress::Progress;
use crate::target::Target;
use crate::tree::{ABSENT, Look, Survey, Tree, each, survey};

/// Of directories.
const DIR_MODE: u16 = 0o755;

/// What a build did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built {
    /// Part of it was there before.
    pub resumed: bool,
    /// Files that were there before.
    pub files_found: u64,
    /// Files that were made.
    pub files_made: u64,
    /// Of those, files that were there without all of their data.
    pub files_mended: u64,
    /// Directories in all.
    pub dirs: u32,
    /// How long it took.
    pub took: Duration,
    /// What simulated datanodes did.
    pub datanodes: Option<Work>,
}

/// Builds a namespace in `base` with `workers` at once. What is there already, also under the name that a run gave it, is
/// left as it is.
pub async fn build(target: &Target, base: &str, spec: &Spec, workers: u32) -> Result<Built> {
    check_base(base)?;
    spec.check(base)?;
    let began = Instant::now();
    let clients = target.clients(workers.max(1))?;
    let Some(first) = clients.first() else { return Err(Error::refused("no workers")) };
    let resumed = is_there(first, base, spec).await?;
    marker::write(first, base, spec).await?;
    let datanodes = datanodes(target, base, spec, &spec.contents).await?;
    let Survey { tree, dirs } = match resumed {
        true => survey(&clients, base, spec.clone(), datanodes.clone(), workers.max(1)).await?,
        false => Survey { tree: Tree::absent(base, spec.clone()), dirs: BTreeMap::new() },
    };
    if let Some(datanodes) = &datanodes {
        datanodes.report().await?;
    }
    let work = Arc::new(Missing {
        tree,
        dirs,
        resumed,
        new_file: new_file(first, &spec.contents, datanodes.clone()).await?,
        made: AtomicU64::new(0),
        mended: AtomicU64::new(0),
    });
    let progress = Progress::new(
        if resumed { "going on" } else { "building" },
        spec.dirs().into(),
        "directories, {per_sec}, {eta}",
    );
    each(&clients, spec.dirs(), workers.max(1), &progress, {
        let work = work.clone();
        move |client, dir| {
            let work = work.clone();
            async move { work.complete(&client, dir).await }
        }
    })
    .await?;
    if let Some(datanodes) = &datanodes
        && !datanodes.settle().await
    {
        return Err(Error::refused(
            "the files were made, but not every namenode heard in time of all their replicas: build it once more, \
             with the same options, and the simulated datanodes report again",
        ));
    }
    let (files_made, files_mended) = (work.made.load(Ordering::Relaxed), work.mended.load(Ordering::Relaxed));
    Ok(Built {
        resumed,
        files_found: u64::from(spec.files) - (files_made - files_mended),
        files_made,
        files_mended,
        dirs: spec.dirs(),
        took: began.elapsed(),
        datanodes: datanodes.map(|datanodes| datanodes.work()),
    })
}

/// Whether a part of the namespace is there. Another one is an error.
async fn is_there(client: &Client, base: &str, spec: &Spec) -> Result<bool> {
    let there = match marker::read(client, base).await? {
        Found::Nothing => return Ok(false),
        Found::Spec(there) if *there == *spec => return Ok(true),
        Found::Begun(name) if marker::is_of(&name, spec) => return Ok(true),
        Found::Spec(there) => format!("{there}, {}", there.contents),
        Found::Begun(name) => name,
    };
    Err(Error::refused(format!(
        "{base} holds another namespace ({there}; this one is {spec}, {}): give its spec, another --base, or delete it",
        spec.contents
    )))
}

/// The datanodes of a namespace, if it has simulated ones.
pub async fn datanodes(
    target: &Target,
    base: &str,
    spec: &Spec,
    contents: &Contents,
) -> Result<Option<Arc<Datanodes>>> {
    Ok(match contents.blocks {
        Blocks::Simulated => {
            Some(Arc::new(Datanodes::start(target, base, spec.seed, contents.datanodes).await?))
        }
        Blocks::None | Blocks::Real => None,
    })
}

/// What new files are like, with what the namenode suggests.
pub async fn new_file(
    client: &Client,
    contents: &Contents,
    datanodes: Option<Arc<Datanodes>>,
) -> Result<NewFile> {
    let defaults = client.get_server_defaults().await?;
    let replication = contents.replication.unwrap_or(defaults.replication);
    if datanodes.is_some() && u32::from(replication) > contents.datanodes {
        return Err(Error::refused(format!(
            "files have {replication} replicas, which need as many datanodes: give more --datanodes, or --replication"
        )));
    }
    let data = match (contents.blocks, datanodes) {
        (Blocks::Real, _) => Data::Real,
        (_, Some(datanodes)) => Data::Simulated(datanodes),
        (_, None) => Data::None,
    };
    let block_size = contents.block_size.unwrap_or(defaults.block_size);
    Ok(NewFile { replication, block_size, sizes: contents.sizes.clone(), data })
}

/// A namespace of which something is missing.
struct Missing {
    tree: Tree,
    /// Directories that are not there, or in which files are unfinished.
    dirs: BTreeMap<u32, Look>,
    /// Those that are not in `dirs` are there.
    resumed: bool,
    new_file: NewFile,
    made: AtomicU64,
    mended: AtomicU64,
}

impl Missing {
    /// Makes what a directory lacks.
    async fn complete(&self, client: &Client, dir: u32) -> Result<()> {
        let Missing { tree, .. } = self;
        let look = self.dirs.get(&dir);
        if !self.resumed || look.is_some_and(|look| !look.is_there) {
            client.mkdirs(&tree.spec.dir_path(&tree.base, dir), DIR_MODE, true).await?;
        }
        for file in tree.spec.files_of(dir).filter(|file| tree.generation(*file) == ABSENT) {
            self.make(client, file, 0, false).await?;
        }
        for (file, generation) in look.map_or(&[][..], |look| &look.unfinished) {
            self.make(client, *file, *generation, true).await?;
            self.mended.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn make(&self, client: &Client, file: u32, generation: u32, overwrite: bool) -> Result<()> {
        let Tree { spec, base, .. } = &self.tree;
        let path = spec.file_path(base, file, generation);
        let (size, mut answers) = (spec.size_of(file), Answers::default());
        let options = CreateOptions { overwrite, ..self.new_file.options() };
        self.new_file.create(client, &path, size, &options, &mut answers).await?;
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A base is an absolute path that is not the root.
pub fn check_base(base: &str) -> Result<()> {
    let names = base.strip_prefix('/').map(|rest| rest.split('/'));
    match names.is_some_and(|mut names| names.all(|name| !["", ".", ".."].contains(&name))) {
        true => Ok(()),
        false => {
            Err(Error::refused(format!("--base {base}: give an absolute path below the root, such as /load")))
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_base_is_a_directory_of_its_own() {
        let is_good = |base: &str| super::check_base(base).is_ok();
        assert!(is_good("/load") && is_good("/user/ann/load"));
        assert!(!["", "/", "load", "/load/", "//x", "/a/../b"].into_iter().any(is_good));
    }
}

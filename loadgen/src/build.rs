//! Makes a namespace, or what is missing of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use trellis_client::Client;
use trellis_client::types::CreateOptions;

use crate::error::{Error, Result};
use crate::namespace::Spec;
use crate::progress::Progress;
use crate::target::Target;
use crate::tree::{ABSENT, Tree, each, find_spec};

/// Of directories and of files.
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
    /// Directories in all.
    pub dirs: u32,
    /// How long it took.
    pub took: Duration,
}

/// Builds a namespace in `base` with `workers` at once. What is there already, also under the name that a run gave it, is
/// left as it is.
pub async fn build(target: &Target, base: &str, spec: &Spec, workers: u32) -> Result<Built> {
    check_base(base)?;
    spec.check(base)?;
    let began = Instant::now();
    let clients = target.clients(workers.max(1))?;
    let Some(first) = clients.first() else { return Err(Error::refused("no workers")) };
    let resumed = match find_spec(first, base).await? {
        Some(there) if there == *spec => true,
        Some(there) => {
            return Err(Error::refused(format!(
                "{base} holds another namespace ({there}, this one is {spec}): give its spec, another --base, or delete it"
            )));
        }
        None => false,
    };
    if !resumed {
        first.mkdirs(&format!("{base}/{spec}"), DIR_MODE, true).await?;
    }
    let defaults = first.get_server_defaults().await?;
    let options = CreateOptions {
        replication: Some(defaults.replication),
        block_size: Some(defaults.block_size),
        ..CreateOptions::default()
    };
    let tree = Arc::new(Tree::absent(base, spec.clone()));
    let made = Arc::new(AtomicU64::new(0));
    let progress = Progress::new(
        if resumed { "going on" } else { "building" },
        spec.dirs().into(),
        "directories, {per_sec}, {eta}",
    );
    each(&clients, spec.dirs(), workers.max(1), &progress, {
        let (tree, made) = (tree.clone(), made.clone());
        move |client, dir| {
            let (tree, made, options) = (tree.clone(), made.clone(), options.clone());
            async move {
                let count = complete_dir(&client, &tree, dir, resumed, &options).await?;
                made.fetch_add(count, Ordering::Relaxed);
                Ok(())
            }
        }
    })
    .await?;
    let files_made = made.load(Ordering::Relaxed);
    let files_found = u64::from(spec.files) - files_made;
    Ok(Built { resumed, files_found, files_made, dirs: spec.dirs(), took: began.elapsed() })
}

/// Makes what a directory lacks; how many files that were.
async fn complete_dir(
    client: &Client,
    tree: &Tree,
    dir: u32,
    look: bool,
    options: &CreateOptions,
) -> Result<u64> {
    let is_there = look && tree.look(client, dir).await?;
    if !is_there {
        client.mkdirs(&tree.spec.dir_path(&tree.base, dir), DIR_MODE, true).await?;
    }
    let missing = tree.spec.files_of(dir).filter(|file| tree.generation(*file) == ABSENT);
    let mut made = 0;
    for file in missing {
        client.create_empty(&tree.spec.file_path(&tree.base, file, 0), options).await?;
        made += 1;
    }
    Ok(made)
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

//! put and its kin, appendToFile: from this machine into the file system.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail};
use trellis_client::types::FileStatus;

use super::local::{self, Attributes, Reader};
use super::make::has_parent;
use super::place::Place;
use super::shell::{Shell, told};
use super::transfer::{How, Meter, Source, pour, store};
use super::walk::{Visit, child, visit};

/// What a source named like this means.
const STDIN: &str = "-";

/// Copies files and folders of this machine.
#[derive(clap::Args)]
#[command(
    after_help = "Examples, of put (copyFromLocal is the same; moveFromLocal deletes what it copied):\n  trellis fs put -f \
                  part-0 part-1 /user/ann/in\n  date | trellis fs put - /user/ann/now"
)]
pub struct Put {
    /// Over files that exist
    #[arg(short = 'f')]
    overwrite: bool,
    /// With times, owner, group and permission bits
    #[arg(short = 'p')]
    preserve: bool,
    /// One copy of each block
    #[arg(short = 'l')]
    one_copy: bool,
    /// Under the final name at once; else that of a file is NAME._COPYING_ until it is whole
    #[arg(short = 'd')]
    direct: bool,
    /// Taken for the stock shell's sake: files are copied one after another
    #[arg(short = 't', value_name = "THREADS", hide = true)]
    _threads: Option<u32>,
    #[arg(short = 'q', value_name = "SIZE", hide = true)]
    _queue: Option<u32>,
    /// Local paths, or - for stdin, and last where to
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub paths: Vec<String>,
}

impl Put {
    /// `remove`: moves instead of copying.
    pub async fn run(mut self, shell: &mut Shell, verb: &'static str, remove: bool) {
        let Some(target) = self.paths.pop().map(|path| shell.place(&path)) else { return };
        let job = Job {
            how: How {
                overwrite: self.overwrite,
                direct: self.direct,
                one_copy: self.one_copy,
                ..How::default()
            },
            preserve: self.preserve,
            remove,
        };
        let info = shell.client.get_file_info(&target.path).await;
        let Some(info) = shell.check(verb, info) else { return };
        if self.paths == [STDIN] {
            let done = stdin(shell, &target, job.how).await;
            return shell.note(verb, done);
        }
        if !destination(shell, verb, &target, info.as_ref(), self.paths.len(), self.overwrite).await {
            return;
        }
        let into = info.is_some_and(|status| status.is_dir());
        for path in &self.paths {
            let from = local::path(path);
            let to = match (into, from.file_name()) {
                (true, Some(name)) => below(&target, name),
                _ => Ok(target.clone()),
            };
            match to {
                Ok(to) => visit(&job, shell, verb, (from, to)).await,
                Err(error) => shell.fail(verb, error),
            }
        }
    }
}

/// The place of an entry in a directory.
fn below(to: &Place, name: &OsStr) -> Result<Place> {
    match name.to_str() {
        Some(name) => Ok(to.at(child(&to.path, name))),
        None => bail!("`{}': the name is not UTF-8, and HDFS has no others", name.display()),
    }
}

async fn stdin(shell: &mut Shell, target: &Place, how: How) -> Result<()> {
    store(shell, Source::Local(Reader::open(None)?), None, target, how).await
}

/// Whether things can be copied there: into a directory, or one of them to a new name.
pub async fn destination(
    shell: &mut Shell,
    verb: &str,
    target: &Place,
    info: Option<&FileStatus>,
    sources: usize,
    overwrite: bool,
) -> bool {
    match info {
        Some(status) if status.is_dir() => return true,
        Some(_) if sources > 1 => {
            shell.fail(verb, format_args!("`{}': Is not a directory", target.shown()));
        }
        Some(_) if !overwrite => shell.fail(verb, format_args!("`{}': File exists", target.shown())),
        Some(_) => return true,
        None if sources > 1 => shell.fail(verb, target.missing()),
        None => return has_parent(shell, verb, target).await,
    }
    false
}

/// How things are copied.
struct Job {
    how: How,
    preserve: bool,
    remove: bool,
}

impl Visit for Job {
    type Entry = (PathBuf, Place);
    type Entries = fs::ReadDir;

    /// Copies a file; makes a directory for a folder, and gives its entries.
    async fn enter(&self, shell: &mut Shell, entry: &Self::Entry) -> Result<Option<fs::ReadDir>> {
        let (from, to) = entry;
        let metadata = fs::metadata(from).map_err(|error| local::failed(from, &error))?;
        if !metadata.is_dir() {
            let reader = Source::Local(Reader::open(Some(from))?);
            store(shell, reader, Some(metadata.len()), to, self.how).await?;
            self.leave(shell, entry).await?;
            return Ok(None);
        }
        let entries = fs::read_dir(from).map_err(|error| local::failed(from, &error))?;
        make_directory(shell, to).await?;
        Ok(Some(entries))
    }

    async fn next(&self, (from, to): &Self::Entry, entries: &mut fs::ReadDir) -> Option<Result<Self::Entry>> {
        let entry = entries.next()?.map_err(|error| local::failed(from, &error));
        Some(entry.and_then(|entry| Ok((entry.path(), below(to, &entry.file_name())?))))
    }

    /// What is left to do when something was copied.
    async fn leave(&self, shell: &Shell, (from, to): &Self::Entry) -> Result<()> {
        if self.preserve {
            let attributes = Attributes::of(from)?;
            let (client, path) = (&shell.client, to.path.as_str());
            client
                .set_times(path, Some(attributes.mtime_ms), Some(attributes.atime_ms))
                .await
                .map_err(told)?;
            let (owner, group) = (Some(attributes.owner.as_str()), Some(attributes.group.as_str()));
            client.set_owner(path, owner, group).await.map_err(told)?;
            client.set_permission(path, attributes.mode).await.map_err(told)?;
        }
        if self.remove {
            let removed = if from.is_dir() { fs::remove_dir(from) } else { fs::remove_file(from) };
            removed.map_err(|error| local::failed(from, &error))?;
        }
        Ok(())
    }

    fn shown(&self, (from, _): &Self::Entry) -> String {
        from.display().to_string()
    }
}

/// Makes a directory if it is not there.
pub async fn make_directory(shell: &Shell, to: &Place) -> Result<()> {
    match shell.client.get_file_info(&to.path).await.map_err(told)? {
        Some(status) if status.is_dir() => Ok(()),
        Some(_) => bail!("`{}': Is not a directory", to.shown()),
        None => shell.client.mkdirs(&to.path, 0o777, true).await.map(drop).map_err(told),
    }
}

/// Appends files of this machine, or stdin, to a file, which is made if it is missing.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  trellis fs appendToFile today.log /user/ann/log\n  date | trellis fs appendToFile - /user/ann/log"
)]
pub struct AppendToFile {
    /// In a new block
    #[arg(short = 'n')]
    new_block: bool,
    /// Local paths, or - for stdin alone, and last the file
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub paths: Vec<String>,
}

impl AppendToFile {
    pub async fn run(mut self, shell: &mut Shell) {
        let Some(target) = self.paths.pop().map(|path| shell.place(&path)) else { return };
        let done = self.append(shell, &target).await;
        shell.note("appendToFile", done);
    }

    async fn append(&self, shell: &Shell, target: &Place) -> Result<()> {
        if self.paths.len() > 1 && self.paths.iter().any(|path| path == STDIN) {
            bail!("stdin (-) must be the sole input argument when present");
        }
        let sources: Vec<_> =
            self.paths.iter().map(|path| (path != STDIN).then(|| local::path(path))).collect();
        for path in sources.iter().flatten() {
            if fs::metadata(path).map_err(|error| local::failed(path, &error))?.is_dir() {
                bail!("`{}': Is a directory", path.display());
            }
        }
        let info = shell.client.get_file_info(&target.path).await.map_err(told)?;
        let mut file = match info {
            Some(status) if status.is_dir() => bail!("`{}': Is a directory", target.shown()),
            Some(_) => shell.client.append(&target.path, self.new_block).await.map_err(told)?,
            None => shell.client.create(&target.path, &shell.create_options()).await.map_err(told)?,
        };
        let meter = Meter::new(&target.shown(), None);
        for path in sources {
            pour(&mut Source::Local(Reader::open(path.as_deref())?), &mut file, &meter).await?;
        }
        file.close().await.map_err(told)
    }
}

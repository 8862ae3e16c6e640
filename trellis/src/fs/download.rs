//! get and its kin, getmerge: from the file system to this machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use bytes::Bytes;
use trellis_client::types::FileStatus;

use super::local::{self, Writer};
use super::shell::{Found, Shell, told};
use super::transfer::{How, Meter, fetch, open};
use super::walk::{Entries, Visit, child, name, visit};

/// Copies files and directories to this machine.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs get '/user/ann/out/part-*' results")]
pub struct Get {
    /// Over files that exist
    #[arg(short = 'f')]
    overwrite: bool,
    /// With times, owner, group and permission bits
    #[arg(short = 'p')]
    preserve: bool,
    /// Does not compare data with its checksums; also -ignoreCrc
    #[arg(long = "ignore-crc")]
    ignore_crc: bool,
    /// Refused: files of checksums are not written; also -crc
    #[arg(long, hide = true)]
    crc: bool,
    /// Under the final name at once; else that of a file is NAME._COPYING_ until it is whole
    #[arg(short = 'd')]
    direct: bool,
    /// Taken for the stock shell's sake: files are copied one after another
    #[arg(short = 't', value_name = "THREADS", hide = true)]
    _threads: Option<u32>,
    #[arg(short = 'q', value_name = "SIZE", hide = true)]
    _queue: Option<u32>,
    /// Paths or patterns, and last where to; here, if that is left out
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
}

impl Get {
    /// The paths in the file system.
    pub fn sources(&self) -> &[String] {
        self.paths.split_last().filter(|(_, rest)| !rest.is_empty()).map_or(&self.paths, |(_, rest)| rest)
    }

    pub async fn run(self, shell: &mut Shell, verb: &'static str) {
        if self.crc {
            return shell.fail(
                verb,
                "files of checksums (-crc) are not supported; checksums are compared while reading",
            );
        }
        let target = match &self.paths[..] {
            [_, .., last] => local::path(last),
            _ => PathBuf::from("."),
        };
        let how = How {
            overwrite: self.overwrite,
            direct: self.direct,
            unverified: self.ignore_crc,
            ..How::default()
        };
        let found = shell.find(verb, self.sources()).await;
        let sources = self.sources().len().max(found.len());
        if found.is_empty() {
            return;
        }
        if let Err(error) = destination(&target, sources, self.overwrite) {
            return shell.fail(verb, format_args!("{error:#}"));
        }
        let (into, job) = (target.is_dir(), Job { how, preserve: self.preserve });
        for Found { place, status } in found {
            let to = match (into, name(&place.path)) {
                (false, _) | (_, "") => target.clone(),
                (true, name) => target.join(name),
            };
            visit(&job, shell, verb, (place.path, status, to)).await;
        }
    }
}

/// How things are copied.
struct Job {
    how: How,
    preserve: bool,
}

impl Visit for Job {
    type Entry = (String, FileStatus, PathBuf);
    type Entries = Entries;

    /// Copies a file, or makes a folder for a directory.
    async fn enter(&self, shell: &mut Shell, entry: &Self::Entry) -> Result<Option<Entries>> {
        let (from, status, to) = entry;
        if !status.is_dir() {
            fetch(shell, from, status, to, self.how).await?;
            self.leave(shell, entry).await?;
            return Ok(None);
        }
        match fs::metadata(to) {
            Ok(there) if there.is_dir() => {}
            Ok(_) => bail!("`{}': Is not a directory", to.display()),
            Err(_) => fs::create_dir(to).map_err(|error| local::failed(to, &error))?,
        }
        Ok(Some(Entries::of(&shell.client, from)))
    }

    async fn next(&self, (from, _, to): &Self::Entry, entries: &mut Entries) -> Option<Result<Self::Entry>> {
        let entry = entries.next().await?;
        Some(entry.map(|entry| (child(from, &entry.name), entry.clone(), to.join(&entry.name))))
    }

    async fn leave(&self, _: &Shell, (_, status, to): &Self::Entry) -> Result<()> {
        if self.preserve { local::preserve(to, status) } else { Ok(()) }
    }

    fn shown(&self, (from, ..): &Self::Entry) -> String {
        from.clone()
    }
}

/// Whether things can be copied to a local path: into a folder, or one of them to a new name.
fn destination(target: &Path, sources: usize, overwrite: bool) -> Result<()> {
    let shown = target.display();
    match fs::metadata(target) {
        Ok(there) if there.is_dir() => Ok(()),
        Ok(_) if sources > 1 => Err(anyhow!("`{shown}': Is not a directory")),
        Ok(there) if !overwrite && there.is_file() => Err(anyhow!("`{shown}': File exists")),
        Ok(_) => Ok(()),
        Err(_) if sources > 1 => Err(anyhow!("`{shown}': No such file or directory")),
        Err(_) => match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
                Err(anyhow!("`{}': No such file or directory", parent.display()))
            }
            _ => Ok(()),
        },
    }
}

/// Writes files, and those in directories, one after another into a local file.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs getmerge -nl /user/ann/out results.txt")]
pub struct Getmerge {
    /// A line feed after each file; also -nl
    #[arg(long = "nl")]
    line_feed: bool,
    /// None after an empty file; also -skip-empty-file
    #[arg(long = "skip-empty-file")]
    skip_empty: bool,
    /// Paths or patterns, and last the local file
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub paths: Vec<String>,
}

impl Getmerge {
    pub async fn run(self, shell: &mut Shell) {
        let Some((target, paths)) = self.paths.split_last() else { return };
        let target = local::path(target);
        if target.is_dir() {
            return shell.fail("getmerge", format_args!("`{}': Is a directory", target.display()));
        }
        let found = shell.find("getmerge", paths).await;
        if shell.has_failed() {
            return;
        }
        let done = self.merge(shell, found, &target).await;
        shell.note("getmerge", done);
    }

    async fn merge(&self, shell: &mut Shell, found: Vec<Found>, target: &Path) -> Result<()> {
        let writer = Writer::create(target)?;
        let meter = Meter::new(&target.display().to_string(), None);
        for Found { place, status } in found {
            if !status.is_dir() {
                self.add(shell, &place.path, status.length, &writer, &meter).await?;
                continue;
            }
            let mut listing = shell.client.get_listing(&place.path);
            while let Some(entry) = listing.next().await.map_err(told)? {
                // As in stock, directories in it are left out.
                if !entry.is_dir() {
                    let path = child(&place.path, &entry.name);
                    self.add(shell, &path, entry.length, &writer, &meter).await?;
                }
            }
        }
        writer.finish().await
    }

    async fn add(&self, shell: &Shell, path: &str, len: u64, writer: &Writer, meter: &Meter) -> Result<()> {
        if len > 0 {
            let mut stream = open(shell, path, How::default()).await?.stream_all();
            while let Some(bytes) = stream.next().await.map_err(told)? {
                meter.add(&bytes);
                if !writer.write(bytes).await {
                    return Ok(());
                }
            }
        }
        if self.line_feed && (len > 0 || !self.skip_empty) {
            writer.write(Bytes::from_static(b"\n")).await;
        }
        Ok(())
    }
}

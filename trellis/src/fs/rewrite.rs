//! cp, truncate, concat: inside the file system.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::sleep;
use trellis_client::types::FileStatus;

use super::place::Place;
use super::shell::{Found, Shell, told};
use super::transfer::{How, Source, open, store};
use super::upload::{destination, make_directory};
use super::walk::{Entries, Visit, child, name, visit};

/// How often a file that is being cut is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// What -p preserves without saying what.
const PRESERVED: &str = "top";

/// Copies files and directories inside the file system.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs cp -f /user/ann/in/part-0 /user/ann/kept")]
pub struct Cp {
    /// Over files that exist
    #[arg(short = 'f')]
    overwrite: bool,
    /// With times (t), owner and group (o), permission bits (p); all of these unless some are named; also -p[top]
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = PRESERVED)]
    preserve: Option<String>,
    /// Under the final name at once; else that of a file is NAME._COPYING_ until it is whole
    #[arg(short = 'd')]
    direct: bool,
    /// Taken for the stock shell's sake: files are copied one after another
    #[arg(short = 't', value_name = "THREADS", hide = true)]
    _threads: Option<u32>,
    #[arg(short = 'q', value_name = "SIZE", hide = true)]
    _queue: Option<u32>,
    /// Paths or patterns, and last where to
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub paths: Vec<String>,
}

impl Cp {
    pub async fn run(mut self, shell: &mut Shell) {
        let Some(target) = self.paths.pop().map(|path| shell.place(&path)) else { return };
        if let Some(what) = self.preserve.as_ref().filter(|what| !what.chars().all(|c| PRESERVED.contains(c)))
        {
            return shell.fail("cp", format_args!("-p{what}: only t, o and p can be preserved"));
        }
        let found = shell.find("cp", &self.paths).await;
        let info = shell.client.get_file_info(&target.path).await;
        let Some(info) = shell.check("cp", info) else { return };
        if found.is_empty()
            || !destination(
                shell,
                "cp",
                &target,
                info.as_ref(),
                self.paths.len().max(found.len()),
                self.overwrite,
            )
            .await
        {
            return;
        }
        let into = info.is_some_and(|status| status.is_dir());
        for Found { place, status } in found {
            let to = match (into, name(&place.path)) {
                (false, _) | (_, "") => target.clone(),
                (true, name) => target.at(child(&target.path, name)),
            };
            let below = to.path.strip_prefix(place.path.trim_end_matches('/'));
            match below {
                Some("") => {
                    let (from, to) = (place.shown(), to.shown());
                    shell.fail("cp", format_args!("`{from}' and `{to}' are the same file"));
                }
                Some(rest) if rest.starts_with('/') && status.is_dir() => {
                    let (from, to) = (place.shown(), to.shown());
                    shell.fail("cp", format_args!("`{from}' to `{to}': is a subdirectory of itself"));
                }
                _ => visit(&self, shell, "cp", (place, status, to)).await,
            }
        }
    }

    async fn preserve(&self, shell: &Shell, from: &FileStatus, to: &Place) -> Result<()> {
        let (client, path) = (&shell.client, to.path.as_str());
        let wants = |what| self.preserve.as_ref().is_some_and(|wanted| wanted.contains(what));
        if wants('t') {
            let atime = (!from.is_dir()).then_some(from.access_time_ms);
            client.set_times(path, Some(from.modification_time_ms), atime).await.map_err(told)?;
        }
        if wants('o') {
            client.set_owner(path, Some(&from.owner), Some(&from.group)).await.map_err(told)?;
        }
        if wants('p') {
            client.set_permission(path, from.permission).await.map_err(told)?;
        }
        Ok(())
    }
}

impl Visit for Cp {
    type Entry = (Place, FileStatus, Place);
    type Entries = Entries;

    /// Copies a file, or makes a directory.
    async fn enter(&self, shell: &mut Shell, entry: &Self::Entry) -> Result<Option<Entries>> {
        let (from, status, to) = entry;
        if status.is_dir() {
            make_directory(shell, to).await?;
            return Ok(Some(Entries::of(&shell.client, &from.path)));
        }
        let how = How { overwrite: self.overwrite, direct: self.direct, ..How::default() };
        let stream = open(shell, &from.path, how).await?.stream_all();
        store(shell, Source::Remote(Box::new(stream)), Some(status.length), to, how).await?;
        self.leave(shell, entry).await?;
        Ok(None)
    }

    async fn next(&self, (from, _, to): &Self::Entry, entries: &mut Entries) -> Option<Result<Self::Entry>> {
        let entry = entries.next().await?;
        let path = |place: &Place, name: &str| place.at(child(&place.path, name));
        Some(entry.map(|entry| (path(from, &entry.name), entry.clone(), path(to, &entry.name))))
    }

    async fn leave(&self, shell: &Shell, (_, status, to): &Self::Entry) -> Result<()> {
        self.preserve(shell, status, to).await
    }

    fn shown(&self, (from, ..): &Self::Entry) -> String {
        from.shown()
    }
}

/// Cuts files.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs truncate -w 1024 /user/ann/log")]
pub struct Truncate {
    /// Waits until the last block is cut
    #[arg(short = 'w')]
    wait: bool,
    /// Bytes that stay
    length: u64,
    /// Paths or patterns
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Truncate {
    pub async fn run(self, shell: &mut Shell) {
        let mut cut = Vec::new();
        for found in shell.find("truncate", &self.paths).await {
            let done = self.one(shell, &found).await;
            if let Some(false) = shell.note_value("truncate", done) {
                cut.push(found);
            }
        }
        for Found { place, .. } in cut {
            shell.say(format_args!("Waiting for {} ...", place.shown()));
            shell.flush();
            loop {
                let closed = shell.client.is_file_closed(&place.path).await;
                match shell.check("truncate", closed) {
                    Some(false) => sleep(LOOK_AGAIN).await,
                    Some(true) => {
                        shell.say(format_args!("Truncated {} to length: {}", place.shown(), self.length));
                        break;
                    }
                    None => break,
                }
            }
        }
    }

    /// False: to be waited for.
    async fn one(&self, shell: &mut Shell, found: &Found) -> Result<bool> {
        let (shown, length) = (found.place.shown(), self.length);
        if found.status.is_dir() {
            bail!("`{shown}': Is a directory");
        }
        if length > found.status.length {
            bail!(
                "Cannot truncate to a larger file size. Current size: {}, truncate size: {length}.",
                found.status.length
            );
        }
        if shell.client.truncate(&found.place.path, length).await.map_err(told)? {
            shell.say(format_args!("Truncated {shown} to length: {length}"));
        } else if self.wait {
            return Ok(false);
        } else {
            shell.say(format_args!(
                "Truncating {shown} to length: {length}. Wait for block recovery to complete before further updating \
                 this file."
            ));
        }
        Ok(true)
    }
}

/// Puts the blocks of files after those of the first one; the others are gone then.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs concat /user/ann/all /user/ann/part-0 /user/ann/part-1")]
pub struct Concat {
    /// The file that grows, and those that are added
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub paths: Vec<String>,
}

impl Concat {
    pub async fn run(self, shell: &mut Shell) {
        let places: Vec<Place> = self.paths.iter().map(|path| shell.place(path)).collect();
        let Some((target, sources)) = places.split_first() else { return };
        let sources: Vec<&str> = sources.iter().map(|place| place.path.as_str()).collect();
        let done = shell.client.concat(&target.path, &sources).await;
        shell.check("concat", done);
    }
}

//! One file from somewhere to somewhere. What is written has the name NAME._COPYING_ until it is whole.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use bytes::Bytes;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use trellis_client::types::{CreateOptions, FileStatus};
use trellis_client::{FileReader, FileStream, FileWriter};

use super::local::{self, Reader, Writer};
use super::place::Place;
use super::shell::{Shell, told};

/// Smaller files are copied too quickly to be watched.
const WATCHED_BYTES: u64 = 64 << 20;
const COPYING: &str = "._COPYING_";

/// How files are copied.
#[derive(Debug, Clone, Copy, Default)]
pub struct How {
    /// Over what is there.
    pub overwrite: bool,
    /// Under the final name at once.
    pub direct: bool,
    /// With one copy of each block.
    pub one_copy: bool,
    /// Chunks are not compared with their checksums.
    pub unverified: bool,
}

/// A file that is not whole yet: deleted when the copy fails or is interrupted.
pub enum Unfinished {
    Remote(String),
    Local(PathBuf),
}

impl Unfinished {
    /// As well as it goes: the failure that led here is what is told.
    pub async fn delete(self, client: &trellis_client::Client) {
        match self {
            Unfinished::Remote(path) => drop(client.delete(&path, false).await),
            Unfinished::Local(path) => drop(fs::remove_file(path)),
        }
    }
}

/// Where bytes come from.
pub enum Source {
    Local(Reader),
    Remote(Box<FileStream>),
}

impl Source {
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        match self {
            Source::Local(reader) => Ok(reader.next().await?),
            Source::Remote(stream) => stream.next().await.map_err(told),
        }
    }
}

/// How far a copy is, on a terminal.
pub struct Meter(ProgressBar);

impl Meter {
    /// `len`: bytes, if known.
    pub fn new(name: &str, len: Option<u64>) -> Meter {
        if !io::stderr().is_terminal() || len.is_some_and(|len| len < WATCHED_BYTES) {
            return Meter(ProgressBar::hidden());
        }
        let bar = match len {
            Some(len) => ProgressBar::new(len),
            None => ProgressBar::no_length(),
        };
        let template = match len {
            Some(_) => "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            None => "{msg} {spinner} {bytes} {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(4));
        bar.set_message(name.to_owned());
        bar.enable_steady_tick(Duration::from_secs(1));
        Meter(bar)
    }

    pub fn add(&self, bytes: &Bytes) {
        self.0.inc(bytes.len() as u64);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Opens a remote file.
pub async fn open(shell: &Shell, path: &str, how: How) -> Result<FileReader> {
    let open = match how.unverified {
        true => shell.client.open_unverified(path).await,
        false => shell.client.open(path).await,
    };
    open.map_err(told)
}

/// Writes all bytes of a source.
pub async fn pour(source: &mut Source, into: &mut FileWriter, meter: &Meter) -> Result<()> {
    while let Some(bytes) = source.next().await? {
        into.write(&bytes).await.map_err(told)?;
        meter.add(&bytes);
    }
    Ok(())
}

/// Stores a source under a remote path.
pub async fn store(
    shell: &mut Shell,
    mut source: Source,
    len: Option<u64>,
    to: &Place,
    how: How,
) -> Result<()> {
    match shell.client.get_file_info(&to.path).await.map_err(told)? {
        Some(status) if status.is_dir() => bail!("`{}': Is a directory", to.shown()),
        Some(_) if !how.overwrite => bail!("`{}': File exists", to.shown()),
        _ => {}
    }
    let path = if how.direct { to.path.clone() } else { format!("{}{COPYING}", to.path) };
    let options = CreateOptions {
        overwrite: !how.direct || how.overwrite,
        replication: if how.one_copy { Some(1) } else { shell.replication },
        block_size: shell.block_size,
        ..CreateOptions::default()
    };
    let client = shell.client.clone();
    let copy = async {
        let unfinished = || Some(Unfinished::Remote(path.clone()));
        // The file itself must not be deleted before it is ours.
        shell.unfinished = unfinished().filter(|_| !how.direct);
        let mut file = client.create(&path, &options).await.map_err(told)?;
        shell.unfinished = unfinished();
        let meter = Meter::new(&to.shown(), len);
        pour(&mut source, &mut file, &meter).await?;
        file.close().await.map_err(told)?;
        if !how.direct {
            client.rename2(&path, &to.path, how.overwrite).await.map_err(told)?;
        }
        Ok(())
    };
    let copied = copy.await;
    finish(shell, copied).await
}

/// Fetches a remote file to a local path.
pub async fn fetch(shell: &mut Shell, from: &str, status: &FileStatus, to: &Path, how: How) -> Result<()> {
    match fs::metadata(to) {
        Ok(there) if there.is_dir() => bail!("`{}': Is a directory", to.display()),
        Ok(there) if there.is_file() && !how.overwrite => bail!("`{}': File exists", to.display()),
        _ => {}
    }
    // A device has no other name that its data could wait under.
    let direct = how.direct || fs::metadata(to).is_ok_and(|there| !there.is_file());
    let mut path = to.as_os_str().to_owned();
    if !direct {
        path.push(COPYING);
    }
    let path = PathBuf::from(path);
    let copy = async {
        let mut stream = open(shell, from, how).await?.stream_all();
        let writer = Writer::create(&path)?;
        if !direct || to.is_file() {
            shell.unfinished = Some(Unfinished::Local(path.clone()));
        }
        let meter = Meter::new(&to.display().to_string(), Some(status.length));
        while let Some(bytes) = stream.next().await.map_err(told)? {
            meter.add(&bytes);
            if !writer.write(bytes).await {
                break;
            }
        }
        writer.finish().await.map_err(|error| anyhow!("`{}': {error}", to.display()))?;
        if !direct {
            fs::rename(&path, to).map_err(|error| local::failed(to, &error))?;
        }
        Ok(())
    };
    let copied = copy.await;
    finish(shell, copied).await
}

/// Nothing is unfinished any more; what a failed copy left is deleted.
async fn finish(shell: &mut Shell, copied: Result<()>) -> Result<()> {
    let unfinished = shell.unfinished.take();
    if let (Err(_), Some(unfinished)) = (&copied, unfinished) {
        unfinished.delete(&shell.client).await;
    }
    copied
}

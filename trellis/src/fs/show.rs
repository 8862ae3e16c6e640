//! cat, head, tail, text, checksum.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, bail};
use flate2::write::MultiGzDecoder;
use tokio::time::sleep;

use super::shell::{Found, Shell, told};
use super::transfer::{How, open};

/// What head and tail show.
const PIECE_BYTES: u64 = 1024;
/// What is unpacked at once: it may become a thousand times as much.
const PACKED_BYTES: usize = 4 << 10;
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Files of Java objects begin so.
const SEQUENCE_FILE: &[u8] = b"SEQ";
const AVRO: &[u8] = b"Obj";

/// Prints files.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs cat '/user/ann/out/part-*'")]
pub struct Cat {
    /// Does not compare data with its checksums; also -ignoreCrc
    #[arg(long = "ignore-crc")]
    ignore_crc: bool,
    /// Paths or patterns
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Cat {
    pub async fn run(self, shell: &mut Shell) {
        let how = How { unverified: self.ignore_crc, ..How::default() };
        for found in shell.find("cat", &self.paths).await {
            let done = print(shell, &found, 0, u64::MAX, how).await;
            shell.note("cat", done);
        }
    }
}

/// Prints the bytes of a file from `start` to `end`.
async fn print(shell: &mut Shell, found: &Found, start: u64, end: u64, how: How) -> Result<u64> {
    no_directory(found)?;
    let mut stream = open(shell, &found.place.path, how).await?.stream(start, end);
    while let Some(bytes) = stream.next().await.map_err(told)? {
        shell.write(&bytes);
    }
    shell.flush();
    Ok(stream.position())
}

fn no_directory(found: &Found) -> Result<()> {
    if found.status.is_dir() {
        bail!("`{}': Is a directory", found.place.shown());
    }
    Ok(())
}

/// Prints the first 1024 bytes of a file.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs head /user/ann/log")]
pub struct Head {
    /// Path or pattern
    pub path: String,
}

impl Head {
    pub async fn run(self, shell: &mut Shell) {
        for found in shell.find("head", std::slice::from_ref(&self.path)).await {
            let done = print(shell, &found, 0, PIECE_BYTES, How::default()).await;
            shell.note("head", done);
        }
    }
}

/// Prints the last 1024 bytes of a file.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs tail -f /user/ann/log")]
pub struct Tail {
    /// Goes on with what is written to it, until interrupted
    #[arg(short = 'f')]
    follow: bool,
    /// With -f: looks for more after this many seconds
    #[arg(short = 's', value_name = "SECONDS", default_value_t = 5)]
    seconds: u64,
    /// Path or pattern
    pub path: String,
}

impl Tail {
    pub async fn run(self, shell: &mut Shell) {
        for found in shell.find("tail", std::slice::from_ref(&self.path)).await {
            let done = self.one(shell, &found).await;
            shell.note("tail", done);
        }
    }

    async fn one(&self, shell: &mut Shell, found: &Found) -> Result<()> {
        no_directory(found)?;
        // Of a file that is being written this is more than its status says.
        let len = open(shell, &found.place.path, How::default()).await?.len();
        let mut at = print(shell, found, len.saturating_sub(PIECE_BYTES), u64::MAX, How::default()).await?;
        if !self.follow {
            return Ok(());
        }
        loop {
            sleep(Duration::from_secs(self.seconds)).await;
            at = print(shell, found, at, u64::MAX, How::default()).await?;
        }
    }
}

/// Prints files as text: one that is packed with gzip is unpacked.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs text /user/ann/log.gz")]
pub struct Text {
    /// Does not compare data with its checksums; also -ignoreCrc
    #[arg(long = "ignore-crc")]
    ignore_crc: bool,
    /// Paths or patterns
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Text {
    pub async fn run(self, shell: &mut Shell) {
        let how = How { unverified: self.ignore_crc, ..How::default() };
        for found in shell.find("text", &self.paths).await {
            let done = text(shell, &found, how).await;
            shell.note("text", done);
        }
    }
}

async fn text(shell: &mut Shell, found: &Found, how: How) -> Result<()> {
    no_directory(found)?;
    let (path, shown) = (&found.place.path, found.place.shown());
    let file = open(shell, path, how).await?;
    let head = file.read_at(0, SEQUENCE_FILE.len()).await.map_err(told)?;
    let packed_as =
        [".bz2", ".deflate", ".lz4", ".snappy", ".zst"].into_iter().find(|end| path.ends_with(end));
    if head == SEQUENCE_FILE || head == AVRO || packed_as.is_some() {
        bail!("`{shown}': only plain text and gzip can be shown; cat gives the bytes as they are");
    }
    let mut stream = file.stream_all();
    if !head.starts_with(&GZIP) {
        while let Some(bytes) = stream.next().await.map_err(told)? {
            shell.write(&bytes);
        }
        return Ok(());
    }
    let mut unpacked = MultiGzDecoder::new(Vec::new());
    while let Some(bytes) = stream.next().await.map_err(told)? {
        for piece in bytes.chunks(PACKED_BYTES) {
            unpacked.write_all(piece)?;
            shell.write(unpacked.get_ref());
            unpacked.get_mut().clear();
        }
    }
    unpacked.try_finish()?;
    shell.write(unpacked.get_ref());
    Ok(())
}

/// Prints checksums of files: equal for equal bytes in blocks of equal size.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs checksum /user/ann/in/part-0")]
pub struct Checksum {
    /// With block sizes
    #[arg(short = 'v')]
    verbose: bool,
    /// Paths or patterns
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Checksum {
    pub async fn run(self, shell: &mut Shell) {
        for found in shell.find("checksum", &self.paths).await {
            let shown = found.place.shown();
            if found.status.is_dir() {
                shell.fail("checksum", format_args!("`{shown}': Is a directory"));
                continue;
            }
            let sum = shell.client.get_file_checksum(&found.place.path).await;
            let Some(sum) = shell.check("checksum", sum) else { continue };
            match self.verbose {
                true => shell.say(format_args!("{shown}\t{sum}\tBlockSize={}", found.status.block_size)),
                false => shell.say(format_args!("{shown}\t{sum}")),
            }
        }
    }
}

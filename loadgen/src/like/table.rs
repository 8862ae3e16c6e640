//! The table of an fsimage, as `hdfs oiv -p Delimited` writes it: a head line, then a line for each file and directory,
//! with tabs between.

use std::fs::File as Disk;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::error::{Error, Result};
use crate::like::counts::{Counts, File};
use crate::progress::Progress;

/// The longest line: a path of 8000 bytes and names of users.
const MAX_LINE: u64 = 64 << 10;
/// After so many bytes the progress bar moves.
const STEP: u64 = 1 << 20;

/// What a table says.
#[derive(Debug, Default)]
pub struct Table {
    /// What was counted.
    pub counts: Counts,
    /// Lines that say nothing of a file or directory: links, and what cannot be read.
    pub skipped: u64,
    /// The first of those that cannot be read, with its number.
    pub unreadable: Option<(u64, String)>,
}

/// Where a table has what.
#[derive(Debug, Clone, Copy)]
struct Columns {
    count: usize,
    replication: usize,
    block_size: usize,
    size: usize,
    permission: usize,
}

/// Reads a table from a file.
pub fn read_file(path: &Path) -> Result<Table> {
    let what = || format!("reading {}", path.display());
    let file = Disk::open(path).map_err(Error::io(what()))?;
    let length = file.metadata().map_err(Error::io(what()))?.len();
    let progress = Progress::new("reading the image's table", length.div_ceil(STEP), "MiB, {eta}");
    let mut table = Table::default();
    let read = table.read(BufReader::with_capacity(STEP as usize, file), &progress);
    read.map_err(|error| match error {
        ReadError::Io(error) => Error::io(what())(error),
        ReadError::Head(head) => Error::Unreadable(format!(
            "{} is no table of an fsimage: write one with 'hdfs oiv -p Delimited -i FSIMAGE -o FILE' (its first line \
             is {head:?})",
            path.display()
        )),
    })?;
    match table.counts.files() {
        0 => Err(Error::Unreadable(format!("{} has no files in it{}", path.display(), table.complaint()))),
        _ => Ok(table),
    }
}

#[derive(Debug)]
enum ReadError {
    Io(std::io::Error),
    Head(String),
}

impl From<std::io::Error> for ReadError {
    fn from(error: std::io::Error) -> Self {
        ReadError::Io(error)
    }
}

impl Columns {
    fn of(head: &[u8]) -> Option<Columns> {
        let head = str::from_utf8(head).ok()?;
        let names: Vec<&str> = head.split('\t').collect();
        let place = |name: &str| names.iter().position(|known| *known == name);
        (*names.first()? == "Path").then_some(())?;
        Some(Columns {
            count: names.len(),
            replication: place("Replication")?,
            block_size: place("PreferredBlockSize")?,
            size: place("FileSize")?,
            permission: place("Permission")?,
        })
    }
}

impl Table {
    /// What cannot be read of it, to be added to a message; empty if there is nothing.
    pub fn complaint(&self) -> String {
        let first = self.unreadable.as_ref();
        first.map(|(line, why)| format!(" (line {line}: {why})")).unwrap_or_default()
    }

    fn read(&mut self, mut lines: impl BufRead, progress: &Progress) -> std::result::Result<(), ReadError> {
        let mut line = Vec::new();
        let mut columns = None;
        let (mut number, mut bytes, mut shown) = (0, 0u64, 0);
        loop {
            line.clear();
            let length = (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
            if length == 0 {
                return if columns.is_some() { Ok(()) } else { Err(ReadError::Head(String::new())) };
            }
            (number, bytes) = (number + 1, bytes + length);
            if bytes / STEP > shown {
                progress.add(bytes / STEP - shown);
                shown = bytes / STEP;
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            match columns {
                None => {
                    let head = || String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned();
                    columns = Some(Columns::of(text).ok_or_else(|| ReadError::Head(head()))?);
                }
                Some(columns) => self.line(text, columns, number),
            }
        }
    }

    fn line(&mut self, line: &[u8], columns: Columns, number: u64) {
        match self.count(line, columns) {
            Ok(true) => {}
            Ok(false) => self.skipped += 1,
            Err(why) => {
                self.skipped += 1;
                self.unreadable.get_or_insert((number, why));
            }
        }
    }

    /// Counts a line; whether it is of a file or directory.
    fn count(&mut self, line: &[u8], columns: Columns) -> std::result::Result<bool, String> {
        // A path may have tabs in it: it is whatever is left of the other columns.
        let mut parts: Vec<&[u8]> = line.rsplitn(columns.count, |byte| *byte == b'\t').collect();
        parts.reverse();
        if parts.len() != columns.count {
            return Err(format!("{} columns of {}", parts.len(), columns.count));
        }
        let part = |place: usize| parts.get(place).copied().unwrap_or_default();
        let path = unquoted(part(0));
        // Not below the root: an inode that only a snapshot has.
        if !path.starts_with(b"/") {
            return Ok(false);
        }
        let number = |place: usize, what: &str| {
            let text = str::from_utf8(part(place)).ok().and_then(|text| text.parse::<u64>().ok());
            text.ok_or_else(|| format!("its {what} is no number"))
        };
        match part(columns.permission).first() {
            Some(b'd') => self.counts.dir(path),
            Some(b'-') => self.counts.file(&File {
                path,
                size: number(columns.size, "size")?,
                block_size: number(columns.block_size, "block size")?,
                replication: number(columns.replication, "replication")?,
            }),
            Some(b'l') => return Ok(false),
            _ => return Err("its permission begins with neither d, - nor l".to_owned()),
        }
        Ok(true)
    }
}

/// A path with line ends in it stands in quotation marks.
fn unquoted(path: &[u8]) -> &[u8] {
    let inner = path.strip_prefix(b"\"").and_then(|path| path.strip_suffix(b"\""));
    inner.filter(|path| path.starts_with(b"/")).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::like::Level;

    /// As a stock NameNode's image of 3.4.2 gives it: a small namespace of the load generator, and odd names.
    const RECORDED: &[u8] = include_bytes!("recorded.tsv");

    fn read(text: &[u8]) -> std::result::Result<Table, ReadError> {
        let mut table = Table::default();
        table.read(text, &Progress::new("", 1, ""))?;
        Ok(table)
    }

    #[test]
    fn a_recorded_table_is_read() {
        let table = read(RECORDED).expect("a table");
        assert_eq!((table.skipped, &table.unreadable), (0, &None));
        let counts = &table.counts;
        // 50 files of the namespace, and four others.
        assert_eq!((counts.files(), counts.dirs()), (54, 20));
        let image = counts.image();
        let level = |dirs, files| Level { dirs, files };
        assert_eq!(image.levels[..3], [level(1, 1), level(2, 2), level(3, 1)]);
        assert_eq!(image.levels.iter().map(|level| level.files).sum::<u64>(), 54);
        assert_eq!((counts.block_size(), counts.replication()), (Some(1 << 20), Some(2)));
        assert!(counts.sizes().most() >= 1024 && counts.sizes().most() < 320 << 10, "{}", counts.sizes());
        assert_eq!(image.file_names.most(), 34, "{}", image.file_names);
    }

    #[test]
    fn other_files_are_no_tables() {
        for text in [&b""[..], b"Path,Replication\n", b"x\ty\n", b"\xff\xfe\n", &[b'x'; 100_000]] {
            assert!(matches!(read(text), Err(ReadError::Head(_))));
        }
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let head = RECORDED.split(|byte| *byte == b'\n').next().expect("a head");
        let with = |line: &str| read(&[head, b"\n", line.as_bytes(), b"\n"].concat()).expect("a table");
        let file = |size: &str, mode: &str| format!("/f\t1\t-\t-\t1048576\t0\t{size}\t0\t0\t{mode}\tu\tg");
        assert_eq!(with(&file("5", "-rw-r--r--")).counts.files(), 1);
        for (line, why) in [
            ("/f\t1\t2".to_owned(), "3 columns of 12"),
            (file("-5", "-rw-r--r--"), "its size is no number"),
            (file("5", "?"), "its permission"),
        ] {
            let table = with(&line);
            assert!(table.skipped == 1 && table.complaint().contains(why), "{line}: {}", table.complaint());
        }
        // Links, and what lies outside of the tree, are no mistakes.
        for line in [file("0", "lrwxrwxrwx"), file("0", "-rw-r--r--").replacen('/', "(detached)/", 1)] {
            let table = with(&line);
            assert_eq!((table.skipped, table.complaint().as_str()), (1, ""), "{line}");
        }
    }
}

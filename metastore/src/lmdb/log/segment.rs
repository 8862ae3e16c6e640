//! The log on disk: two files that take turns.
//!
//! A file begins with a head: magic (8 bytes), number of its first record (u64), CRC-32C of both (u32). Records follow
//! without gaps: CRC-32C of all that follows (u32), length of the body (u32), number (u64), body. Numbers go up by one
//! from record to record and from file to file. A body is what one group wrote, row by row ([`entry`](super::entry)); of
//! several states of a row the last one stands. All numbers are little-endian.
//!
//! Once everything in a file is in the tree its head is wiped, and then the file is written again from its beginning;
//! what an earlier turn left behind the new records has smaller numbers and is not read. Rows are written whole, so it
//! does no harm to replay what is in the tree already, as long as all that came after it is replayed too.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc_fast::{CrcAlgorithm, checksum};

use super::super::row;
use super::super::zeros::write_zeros;
use super::entry::Entry;
use super::layer::Layer;
use crate::key::Key;

const NAMES: [&str; 2] = ["log.0", "log.1"];
const MAGIC: &[u8; 8] = b"TRELLOG1";
const HEAD_BYTES: usize = 20;
const RECORD_HEAD_BYTES: usize = 16;
/// A file grows by zeros, this many at a time: a record that finds its place there needs no metadata written.
const STEP: u64 = 1 << 20;
/// A longer file was not written by us.
const MAX_FILE_BYTES: u64 = 1 << 32;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What stands there cannot be: a torn end is no damage.
    #[error("{0}")]
    Damaged(String),
}

/// Whether a directory holds a log.
pub fn exists(dir: &Path) -> io::Result<bool> {
    Ok(dir.join(NAMES[0]).try_exists()? || dir.join(NAMES[1]).try_exists()?)
}

/// Reads all whole records, in the order in which they were written, as one layer.
pub fn read(dir: &Path) -> Result<Layer, ReadError> {
    let mut layer = Layer::default();
    let mut next = None;
    for file in by_age(dir)? {
        if next.is_some_and(|next| next != file.first) {
            let why = format!("its first record is {}, after record {}", file.first, next.unwrap_or(0) - 1);
            return Err(damaged(&file.path, &why));
        }
        next = Some(file.replay(&mut layer)?);
    }
    Ok(layer)
}

/// Removes a log. The older file goes first, for good: the younger one alone may be replayed, the older one may not.
pub fn remove(dir: &Path) -> Result<(), ReadError> {
    let whole = by_age(dir)?.into_iter().map(|file| file.path);
    for path in whole.chain(NAMES.map(|name| dir.join(name))) {
        match std::fs::remove_file(path) {
            Ok(()) => File::open(dir)?.sync_all()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The files that were begun, older first. One whose head is not whole holds no record.
fn by_age(dir: &Path) -> Result<Vec<Written>, ReadError> {
    let mut files = Vec::new();
    for name in NAMES {
        let path = dir.join(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        if file.metadata()?.len() > MAX_FILE_BYTES {
            return Err(damaged(&path, "it is too long"));
        }
        let mut head = Vec::with_capacity(HEAD_BYTES);
        (&file).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
        if let Some(first) = read_head(&head) {
            files.push(Written { path, file, first });
        }
    }
    files.sort_by_key(|file| file.first);
    Ok(files)
}

/// A file, read up to the end of its head.
struct Written {
    path: PathBuf,
    file: File,
    first: u64,
}

impl Written {
    /// Puts the rows of all whole records into a layer and returns the number of the record that is not there any more.
    fn replay(mut self, layer: &mut Layer) -> Result<u64, ReadError> {
        let mut records = Vec::new();
        self.file.read_to_end(&mut records)?;
        let (mut number, mut rest) = (self.first, &records[..]);
        loop {
            let Some((body, after)) = read_record(rest, number) else {
                return match claimed_end(rest).and_then(|after| read_record(after, number + 1)) {
                    None => Ok(number),
                    Some(_) => Err(damaged(&self.path, &format!("record {number} is not as it was written"))),
                };
            };
            read_body(body, layer)
                .ok_or_else(|| damaged(&self.path, &format!("record {number} holds no rows")))?;
            (number, rest) = (number + 1, after);
        }
    }
}

fn damaged(path: &Path, why: &str) -> ReadError {
    ReadError::Damaged(format!("{}: {why}", path.display()))
}

/// The two files as one process writes them.
pub struct Segments {
    /// The one that is written comes first.
    files: [Arc<File>; 2],
    /// Where its next record goes; 0 = nothing is in it yet.
    end: u64,
    /// The next record's number.
    next: u64,
    buffer: Vec<u8>,
}

impl Segments {
    /// Makes an empty log, whose files survive a power loss. There must be none.
    pub fn create(dir: &Path) -> io::Result<Segments> {
        let create = |name| File::options().write(true).create_new(true).open(dir.join(name)).map(Arc::new);
        let files = [create(NAMES[0])?, create(NAMES[1])?];
        File::open(dir)?.sync_all()?;
        Ok(Segments { files, end: 0, next: 1, buffer: Vec::new() })
    }

    /// Bytes in the current file.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Writes a layer's rows as one record, which counts only once [`Segments::sync`] has returned. After an error it is
    /// as if nothing had been written.
    pub fn append(&mut self, layer: &Layer) -> io::Result<()> {
        self.buffer.clear();
        if self.end == 0 {
            write_head(self.next, &mut self.buffer);
        }
        write_record(self.next, layer, &mut self.buffer)?;
        let end = self.end + self.buffer.len() as u64;
        let file = &self.files[0];
        let length = file.metadata()?.len();
        if length < end {
            let zeros = (end - length).next_multiple_of(STEP);
            write_zeros(file, length, zeros)?;
        }
        file.write_all_at(&self.buffer, self.end)?;
        (self.end, self.next) = (end, self.next + 1);
        Ok(())
    }

    /// Returns once all records are on disk.
    pub fn sync(&self) -> io::Result<()> {
        self.files[0].sync_data()
    }

    /// Goes on in the other file, which must have been wiped, and gives the one that is left.
    pub fn turn(&mut self) -> Left {
        self.files.swap(0, 1);
        self.end = 0;
        Left(self.files[1].clone())
    }
}

/// A file that is not written any more, and whose records are on their way into the tree.
pub struct Left(pub(super) Arc<File>);

impl Left {
    /// Makes its records count no more, for good: they are in the tree.
    pub fn wipe(&self) -> io::Result<()> {
        self.0.write_all_at(&[0; HEAD_BYTES], 0)?;
        self.0.sync_data()
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn write_head(first: u64, buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(MAGIC);
    buffer.extend_from_slice(&first.to_le_bytes());
    buffer.extend_from_slice(&crc32c(buffer).to_le_bytes());
}

fn read_head(bytes: &[u8]) -> Option<u64> {
    let (head, rest) = bytes.split_at_checked(16)?;
    let whole = head.starts_with(MAGIC) && u32_at_front(rest)?.0 == crc32c(head);
    whole.then_some(u64_at_front(&head[8..])?.0)
}

fn write_record(number: u64, layer: &Layer, buffer: &mut Vec<u8>) -> io::Result<()> {
    let begin = buffer.len();
    buffer.extend_from_slice(&[0; 8]);
    buffer.extend_from_slice(&number.to_le_bytes());
    layer.pieces().for_each(|rows| buffer.extend_from_slice(rows));
    let too_long = |_| io::Error::other("a group wrote more than 4 GiB");
    let length = u32::try_from(buffer.len() - begin - RECORD_HEAD_BYTES).map_err(too_long)?;
    buffer[begin + 4..begin + 8].copy_from_slice(&length.to_le_bytes());
    let crc = crc32c(&buffer[begin + 4..]);
    buffer[begin..begin + 4].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// The body of the record at the front and what follows it; `None` = no whole record of this number is there.
fn read_record(bytes: &[u8], number: u64) -> Option<(&[u8], &[u8])> {
    let after = claimed_end(bytes)?;
    let (record, _) = bytes.split_at(bytes.len() - after.len());
    let (crc, checked) = u32_at_front(record)?;
    let whole = u64_at_front(&checked[4..])?.0 == number && crc32c(checked) == crc;
    whole.then_some((&record[RECORD_HEAD_BYTES..], after))
}

/// What follows the record at the front, if its length is to be believed.
fn claimed_end(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_at_checked(RECORD_HEAD_BYTES)?;
    let (length, _) = u32_at_front(&head[4..])?;
    rest.get(length as usize..)
}

/// Puts all rows of a record's body into a layer; `None` = they are not as we write them.
fn read_body(body: &[u8], layer: &mut Layer) -> Option<()> {
    let mut rest = body;
    while !rest.is_empty() {
        let entry;
        (entry, rest) = Entry::read(rest)?;
        Key::from_bytes(entry.key)?;
        entry.row.is_none_or(|row| row::decode(row).is_some()).then_some(())?;
    }
    layer.put_all(body);
    Some(())
}

fn u32_at_front(bytes: &[u8]) -> Option<(u32, &[u8])> {
    bytes.split_first_chunk().map(|(number, rest)| (u32::from_le_bytes(*number), rest))
}

fn u64_at_front(bytes: &[u8]) -> Option<(u64, &[u8])> {
    bytes.split_first_chunk().map(|(number, rest)| (u64::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::KeyHash;
    use super::*;
    use crate::change::Row;
    use crate::schema::setting;

    fn key(name: &str) -> Key {
        setting(name).key
    }

    fn row(version: u64) -> Row {
        Row { version, max: -1, add: 2, value: Bytes::from_static(b"value") }
    }

    fn layer(name: &str, row: Option<Row>) -> Layer {
        let mut layer = Layer::default();
        layer.put(&key(name), row.as_ref());
        layer
    }

    fn append(segments: &mut Segments, name: &str, version: u64) {
        segments.append(&layer(name, Some(row(version)))).unwrap();
        segments.sync().unwrap();
    }

    /// The version under a name in what is read; none = there is nothing.
    fn version(dir: &Path, name: &str) -> Option<u64> {
        let layer = read(dir).unwrap();
        let stored = layer.get(&key(name), KeyHash::of(&key(name))).flatten()?;
        row::decode(stored).map(|row| row.version)
    }

    fn file(dir: &Path, index: usize) -> PathBuf {
        dir.join(NAMES[index])
    }

    #[test]
    fn the_format_is_fixed() {
        let dir = tempfile::tempdir().unwrap();
        let mut segments = Segments::create(dir.path()).unwrap();
        segments.append(&layer("a", Some(row(3)))).unwrap();
        segments.append(&layer("a", None)).unwrap();
        let mut expected = b"TRELLOG1".to_vec();
        expected.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend(0x88ef_f221_u32.to_le_bytes());
        let written = std::fs::read(file(dir.path(), 0)).unwrap();
        assert_eq!(written.len() as u64, STEP);
        let key = key("a");
        let mut first = vec![key.as_bytes().len() as u8, 0, 29, 0, 0, 0];
        first.extend(key.as_bytes());
        first.extend([3, 0, 0, 0, 0, 0, 0, 0]);
        first.extend([0xff; 8]);
        first.extend([2, 0, 0, 0, 0, 0, 0, 0]);
        first.extend(b"value");
        let mut second = vec![key.as_bytes().len() as u8, 0, 0xff, 0xff, 0xff, 0xff];
        second.extend(key.as_bytes());
        for (number, body) in [(1u8, first), (2, second)] {
            let mut checked = (body.len() as u32).to_le_bytes().to_vec();
            checked.extend([number, 0, 0, 0, 0, 0, 0, 0]);
            checked.extend(body);
            expected.extend(crc32c(&checked).to_le_bytes());
            expected.extend(checked);
        }
        assert_eq!(written[..expected.len()], expected);
        assert!(written[expected.len()..].iter().all(|byte| *byte == 0));
        assert_eq!(crc32c(b"123456789"), 0xe306_9283, "the check value of CRC-32C");
    }

    #[test]
    fn records_of_both_files_are_read_in_the_order_of_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(!exists(dir).unwrap());
        let mut segments = Segments::create(dir).unwrap();
        assert!(exists(dir).unwrap() && read(dir).unwrap().is_empty());
        append(&mut segments, "a", 1);
        append(&mut segments, "b", 2);
        let left = segments.turn();
        append(&mut segments, "a", 3);
        assert_eq!((version(dir, "a"), version(dir, "b")), (Some(3), Some(2)));
        left.wipe().unwrap();
        assert_eq!((version(dir, "a"), version(dir, "b")), (Some(3), None));
        // Back in the first file, over what its first turn left there.
        segments.turn();
        append(&mut segments, "a", 4);
        assert_eq!(version(dir, "a"), Some(4));
        remove(dir).unwrap();
        assert!(!exists(dir).unwrap());
        remove(dir).unwrap();
    }

    #[test]
    fn a_torn_end_is_no_damage_and_anything_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut segments = Segments::create(dir).unwrap();
        let ends = [("a", 1), ("b", 2), ("a", 3)].map(|(name, version)| {
            append(&mut segments, name, version);
            segments.bytes() as usize
        });
        let whole = std::fs::read(file(dir, 0)).unwrap();
        let write = |bytes: &[u8]| std::fs::write(file(dir, 0), bytes).unwrap();
        for end in 0..=ends[2] {
            let mut torn = whole.clone();
            torn[end..].fill(0);
            for torn in [&torn[..], &torn[..end]] {
                write(torn);
                let expected = [ends[2], ends[0]].into_iter().zip([3, 1]).find(|(whole, _)| end >= *whole);
                assert_eq!(version(dir, "a"), expected.map(|(_, version)| version), "torn at {end}");
                assert_eq!(version(dir, "b").is_some(), end >= ends[1], "torn at {end}");
            }
        }
        // Any other byte in the middle, while the record behind it is whole; but for its length, which then is not known.
        for at in
            (HEAD_BYTES..ends[1]).filter(|at| !(4..8).contains(&((at - HEAD_BYTES) % (ends[1] - ends[0]))))
        {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            write(&damaged);
            assert!(
                matches!(read(dir), Err(ReadError::Damaged(why)) if why.contains("not as it was")),
                "at {at}"
            );
        }
        write(&whole);
        let mut other = whole.clone();
        other.clear();
        write_head(9, &mut other);
        std::fs::write(file(dir, 1), &other).unwrap();
        assert!(
            matches!(read(dir), Err(ReadError::Damaged(why)) if why.contains("first record is 9, after record 3"))
        );
    }

    #[test]
    fn what_is_not_there_or_makes_no_sense_is_no_panic() {
        let mut record = Vec::new();
        write_record(1, &layer("a", Some(row(1))), &mut record).unwrap();
        let body = read_record(&record, 1).unwrap().0.to_vec();
        for end in 0..body.len() {
            assert!(read_body(&body[..end], &mut Layer::default()).is_none() || end == 0, "{end}");
        }
        for length in [0, 1, u32::MAX - 1] {
            let mut body = body.clone();
            body[2..6].copy_from_slice(&length.to_le_bytes());
            assert!(read_body(&body, &mut Layer::default()).is_none(), "{length}");
        }
        let mut long = record.clone();
        long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(read_record(&long, 1).is_none() && read_record(&record, 2).is_none());
    }
}

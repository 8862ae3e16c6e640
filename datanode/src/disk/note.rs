//! Notes beside a replica's sums: how much of it was made durable, where that ends within a chunk, and the sum of that part
//! of the chunk.
//!
//! The next packet overwrites that sum where it is. If the power fails then, the disk may have the new sum without its data,
//! which vouches for nothing of the chunk. A note does. Notes are an extended attribute of the meta file, of which stock
//! HDFS knows nothing: per note `u64` length of the replica, `u32` sum, the longest first. They say what bytes were there,
//! not what bytes are: a replica may have been changed since, by a stock DataNode too. So one counts only where the bytes
//! have that sum.
//!
//! A note is written before its bytes are made durable, so that one commit of the file system's journal takes both. Until
//! then the one before it holds; and the one before that, if this process ended within the sync of that one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use trellis_proto::checksum::{Checksum, ChecksumType};

/// Name of the attribute.
const NAME: &str = "user.trellis.durable";
const LEN_BYTES: usize = 8;
const NOTE_BYTES: usize = LEN_BYTES + 4;
/// Notes that a file has at most.
const NOTES_MAX: usize = 3;

/// A note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// Bytes of the replica.
    pub len: u64,
    /// The sum of its last chunk, which is partial.
    pub last_sum: u32,
}

impl Note {
    /// The note of a replica of `len` bytes; none if it ends with a whole chunk, the sum of which stays.
    pub fn of(checksum: Checksum, len: u64, last_sum: u32) -> Option<Note> {
        (is_partial(checksum, len)).then_some(Note { len, last_sum })
    }

    /// The notes of a meta file, whatever they are worth.
    pub fn all(meta: &File) -> io::Result<Vec<Note>> {
        let mut bytes = [0; NOTE_BYTES * NOTES_MAX];
        match fgetxattr(meta, NAME, &mut bytes[..]) {
            Ok(len) if len.is_multiple_of(NOTE_BYTES) => {
                let note = |bytes: &[u8; NOTE_BYTES]| {
                    let [l0, l1, l2, l3, l4, l5, l6, l7, s0, s1, s2, s3] = *bytes;
                    let len = u64::from_be_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
                    Note { len, last_sum: u32::from_be_bytes([s0, s1, s2, s3]) }
                };
                Ok(bytes[..len].as_chunks().0.iter().map(note).collect())
            }
            // None of ours.
            Ok(_) | Err(Errno::NODATA | Errno::RANGE | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds it to those of less.
    pub fn add(self, meta: &File) -> io::Result<()> {
        let mut notes = Note::all(meta)?;
        if notes.first() == Some(&self) {
            return Ok(());
        }
        notes.retain(|note| note.len < self.len);
        notes.truncate(NOTES_MAX - 1);
        notes.insert(0, self);
        write(meta, &notes)
    }

    /// Removes those of more than `len` bytes: what a replica was cut to may be followed by others.
    pub fn cut(meta: &File, len: u64) -> io::Result<()> {
        let mut notes = Note::all(meta)?;
        let before = notes.len();
        notes.retain(|note| note.len <= len);
        if notes.len() == before { Ok(()) } else { write(meta, &notes) }
    }

    /// Whether the replica's bytes, of which there are `data_len`, are those that it was noted for.
    pub fn is_true(self, data: &File, data_len: u64, checksum: Checksum) -> io::Result<bool> {
        if self.len > data_len || !is_partial(checksum, self.len) {
            return Ok(false);
        }
        let start = checksum.chunk_start(self.len);
        let mut chunk = vec![0; (self.len - start) as usize];
        data.read_exact_at(&mut chunk, start)?;
        Ok(checksum.kind().sum(&chunk) == self.last_sum)
    }
}

fn write(meta: &File, notes: &[Note]) -> io::Result<()> {
    if notes.is_empty() {
        return Ok(fremovexattr(meta, NAME)?);
    }
    let mut bytes = Vec::with_capacity(notes.len() * NOTE_BYTES);
    for note in notes {
        bytes.extend_from_slice(&note.len.to_be_bytes());
        bytes.extend_from_slice(&note.last_sum.to_be_bytes());
    }
    Ok(fsetxattr(meta, NAME, &bytes, XattrFlags::empty())?)
}

fn is_partial(checksum: Checksum, len: u64) -> bool {
    checksum.kind() != ChecksumType::Null && checksum.chunk_start(len) != len
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(meta: &File) -> Vec<u64> {
        Note::all(meta).unwrap().iter().map(|note| note.len).collect()
    }

    #[test]
    fn the_last_notes_are_kept_until_the_replica_is_cut() {
        let meta = tempfile::tempfile().unwrap();
        assert_eq!(lens(&meta), []);
        let note = |len, sum| Note::of(Checksum::DEFAULT, len, sum).unwrap();
        for _ in 0..2 {
            note(700, 0x8123_4567).add(&meta).unwrap();
        }
        assert_eq!(Note::all(&meta).unwrap(), [note(700, 0x8123_4567)]);
        for len in [900, 1300, 5000] {
            note(len, 1).add(&meta).unwrap();
        }
        assert_eq!(lens(&meta), [5000, 1300, 900]);
        // Other bytes since.
        note(1300, 2).add(&meta).unwrap();
        assert_eq!(Note::all(&meta).unwrap(), [note(1300, 2), note(900, 1)]);
        Note::cut(&meta, 1300).unwrap();
        assert_eq!(lens(&meta), [1300, 900]);
        Note::cut(&meta, 1299).unwrap();
        assert_eq!(lens(&meta), [900]);
        Note::cut(&meta, 0).unwrap();
        Note::cut(&meta, 0).unwrap();
        assert_eq!(lens(&meta), []);
        assert_eq!(Note::of(Checksum::DEFAULT, 1024, 0), None);
        assert_eq!(Note::of(Checksum::new(ChecksumType::Null, 512).unwrap(), 700, 0), None);
    }

    #[test]
    fn what_is_no_note_is_none() {
        let meta = tempfile::tempfile().unwrap();
        for bytes in [&b""[..], &[1; NOTE_BYTES - 1], &[1; NOTE_BYTES * NOTES_MAX + 1]] {
            fsetxattr(&meta, NAME, bytes, XattrFlags::empty()).unwrap();
            assert_eq!(lens(&meta), [], "{bytes:?}");
        }
        // A file system without such attributes.
        let none = File::open("/proc/self/comm").unwrap();
        assert_eq!(lens(&none), []);
        Note::cut(&none, 0).unwrap();
    }
}

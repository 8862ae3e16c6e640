//! Room in a file, made by writing zeros: unlike room that is but reserved, it takes what is written there later without
//! any change of the file's own metadata.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Zeros are written so many at a time. A file system may keep what one write brought as one piece of its cache (Linux: a
/// large folio), and goes through all blocks of the piece whenever one of them is written again: with pieces of 1 to 4 MiB,
/// that took a fifth of a merge's CPU time.
const PAGE: usize = 4096;

/// Writes `count` zeros from byte `from` on. After an error some of them may be there.
pub(super) fn write_zeros(file: &File, from: u64, count: u64) -> io::Result<()> {
    let (mut at, end) = (from, from + count);
    while at < end {
        // To the end of a page: after an error they may begin in the middle of one.
        let bytes = (PAGE as u64 - at % PAGE as u64).min(end - at);
        file.write_all_at(&[0; PAGE][..bytes as usize], at)?;
        at += bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn zeros_follow_what_is_there() {
        for (length, count) in [(0, 0), (0, 1), (0, 4096), (5, 4091), (5, 9000), (4096, 10_000)] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&vec![7; length]).unwrap();
            write_zeros(file.as_file(), length as u64, count).unwrap();
            let mut expected = vec![7; length];
            expected.resize(length + count as usize, 0);
            assert!(std::fs::read(file.path()).unwrap() == expected, "{count} after {length}");
        }
    }
}

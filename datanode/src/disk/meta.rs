//! A replica's `.meta` file: `u16` 1, `u8` checksum type, `u32` bytes per checksum, and the sums of all chunks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use trellis_proto::checksum::{Checksum, ChecksumType, CompositeCrc};

use super::note::Note;

/// Bytes before the first sum.
pub const HEADER_BYTES: u64 = 7;
const VERSION: u16 = 1;
/// Bytes read at a time when a file is searched for its last good chunk.
const WINDOW_BYTES: u64 = 1 << 20;
/// The longest chunk of which a good part is looked for.
const PARTS_OF_BYTES: usize = 64 << 10;

/// The header of a new file.
pub fn header(checksum: Checksum) -> [u8; HEADER_BYTES as usize] {
    let [v0, v1] = VERSION.to_be_bytes();
    let [b0, b1, b2, b3] = checksum.bytes_per_checksum().to_be_bytes();
    [v0, v1, checksum.kind() as u8, b0, b1, b2, b3]
}

/// Reads a header. `InvalidData` if it is none.
pub fn read_header(meta: &File) -> io::Result<Checksum> {
    let mut bytes = [0; HEADER_BYTES as usize];
    meta.read_exact_at(&mut bytes, 0)?;
    let [v0, v1, kind, b0, b1, b2, b3] = bytes;
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let version = u16::from_be_bytes([v0, v1]);
    if version != VERSION {
        return Err(invalid(format!("version {version} of the meta file")));
    }
    let kind = ChecksumType::from_code(kind).ok_or_else(|| invalid(format!("checksum type {kind}")))?;
    Checksum::new(kind, u32::from_be_bytes([b0, b1, b2, b3])).map_err(|e| invalid(e.to_string()))
}

/// Bytes of the meta file of `len` bytes of data.
pub fn file_len(checksum: Checksum, len: u64) -> u64 {
    sum_offset(checksum, len.next_multiple_of(checksum.bytes_per_checksum().into()))
}

/// Where in the file the sum of the chunk that begins at `offset` is.
pub fn sum_offset(checksum: Checksum, offset: u64) -> u64 {
    HEADER_BYTES + offset / u64::from(checksum.bytes_per_checksum()) * checksum.sum_bytes() as u64
}

/// The sum of a partial last chunk, checked against its data; 0 if the last chunk is whole. `InvalidData` if it is
/// wrong.
pub fn last_sum(data: &File, meta: &File, checksum: Checksum, len: u64) -> io::Result<u32> {
    let start = checksum.chunk_start(len);
    if start == len || checksum.kind() == ChecksumType::Null {
        return Ok(0);
    }
    let mut chunk = vec![0; (len - start) as usize];
    data.read_exact_at(&mut chunk, start)?;
    let mut sum = [0; 4];
    meta.read_exact_at(&mut sum, sum_offset(checksum, start))?;
    checksum.verify(&chunk, &sum).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
    Ok(u32::from_be_bytes(sum))
}

/// Cuts both files from `len` to `new_len` bytes of data and returns [`last_sum`]. The chunk that is cut is verified
/// before: a fault in it must not get a good sum. `known`: the sum of a partial last chunk, where the one on disk may be
/// another.
pub fn cut(
    data: &File,
    meta: &File,
    checksum: Checksum,
    (len, known): (u64, Option<u32>),
    new_len: u64,
) -> io::Result<u32> {
    let start = checksum.chunk_start(new_len);
    let whole = (start + u64::from(checksum.bytes_per_checksum())).min(len);
    let mut last = 0;
    if start < new_len && checksum.kind() != ChecksumType::Null {
        let mut chunk = vec![0; (whole - start) as usize];
        data.read_exact_at(&mut chunk, start)?;
        let mut sum = [0; 4];
        match known.filter(|_| whole == len && checksum.chunk_start(len) != len) {
            Some(known) => sum = known.to_be_bytes(),
            None => meta.read_exact_at(&mut sum, sum_offset(checksum, start))?,
        }
        last = checksum.kind().sum(&chunk[..(new_len - start) as usize]);
        // A crash within the same cut left the new sum beside the old data: that is proof as good.
        if last.to_be_bytes() != sum {
            let verified = checksum.verify(&chunk, &sum);
            verified.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
        }
    }
    Note::cut(meta, new_len)?;
    end_at(data, meta, checksum, new_len, last)?;
    Ok(last)
}

/// Ends both files after `len` bytes of data, the last chunk of which, if it is partial, has this sum. After a crash
/// between any two steps [`good_end`] is at least `len`, and the cut can be made again.
pub fn end_at(data: &File, meta: &File, checksum: Checksum, len: u64, last: u32) -> io::Result<()> {
    ENDING.iter().try_for_each(|step| step(data, meta, checksum, len, last))
}

type Step = fn(&File, &File, Checksum, u64, u32) -> io::Result<()>;

/// The sums of later chunks go first: with them there, a chunk with the sum of its first part would be one in the
/// middle, where no part is looked for. The data goes last, once the sum is durable: what no sum covers is found after a
/// crash, or a loss of power, and missing data is not.
const ENDING: [Step; 4] = [
    |_, meta, checksum, len, _| meta.set_len(file_len(checksum, len)),
    |_, meta, checksum, len, last| {
        let start = checksum.chunk_start(len);
        match start < len && checksum.kind() != ChecksumType::Null {
            true => meta.write_all_at(&last.to_be_bytes(), sum_offset(checksum, start)),
            false => Ok(()),
        }
    },
    |_, meta, _, _, _| meta.sync_data(),
    |data, _, _, len, _| data.set_len(len),
];

/// How many bytes of a replica that was being written are good after a crash, and the sum of the last chunk of them: up to
/// the end of the last chunk whose sum is right, or of what was noted as durable, if that is more. As stock HDFS, it does not look further ahead of that one: a fault in there is for readers to find, who
/// have other replicas; to cut there would shorten those too.
pub fn good_end(data: &File, meta: &File, checksum: Checksum) -> io::Result<(u64, u32)> {
    let data_len = data.metadata()?.len();
    if checksum.kind() == ChecksumType::Null {
        return Ok((data_len, 0));
    }
    let sums = meta.metadata()?.len().saturating_sub(HEADER_BYTES) / checksum.sum_bytes() as u64;
    let (len, last_sum) = summed_end(data, meta, checksum, data_len, sums)?;
    // Of the chunks before it there must be sums.
    let is_more = |note: &Note| len < note.len && checksum.chunks(checksum.chunk_start(note.len)) <= sums;
    for note in Note::all(meta)?.into_iter().filter(is_more) {
        if note.is_true(data, data_len, checksum)? {
            return Ok((note.len, note.last_sum));
        }
    }
    Ok((len, last_sum))
}

/// The end of the last chunk whose sum is right, and that sum, in `data_len` bytes with so many sums.
fn summed_end(
    data: &File,
    meta: &File,
    checksum: Checksum,
    data_len: u64,
    sums: u64,
) -> io::Result<(u64, u32)> {
    let chunk_bytes = u64::from(checksum.bytes_per_checksum());
    let window = (WINDOW_BYTES / chunk_bytes).max(1);
    let last = checksum.chunks(data_len).min(sums);
    let mut end = last;
    let (mut bytes, mut sum_bytes) = (Vec::new(), Vec::new());
    while end > 0 {
        let first = end.saturating_sub(window);
        let (from, to) = (first * chunk_bytes, (end * chunk_bytes).min(data_len));
        bytes.resize((to - from) as usize, 0);
        data.read_exact_at(&mut bytes, from)?;
        sum_bytes.resize((end - first) as usize * checksum.sum_bytes(), 0);
        meta.read_exact_at(&mut sum_bytes, sum_offset(checksum, from))?;
        let chunks = bytes.chunks(chunk_bytes as usize).zip(sum_bytes.as_chunks::<4>().0);
        for (index, (chunk, sum)) in chunks.enumerate().rev() {
            let parts = first + index as u64 + 1 == last && chunk.len() <= PARTS_OF_BYTES;
            let sum = u32::from_be_bytes(*sum);
            let good = good_part(checksum.kind(), chunk, sum, parts);
            if good > 0 {
                return Ok((from + index as u64 * chunk_bytes + good as u64, sum));
            }
        }
        end = first;
    }
    Ok((0, 0))
}

/// How much of a chunk, from its start on, the sum is right for: all of it or nothing; or, if `parts` are looked for, as
/// much as was there before the data of a last packet was written and its sum was not.
fn good_part(kind: ChecksumType, chunk: &[u8], sum: u32, parts: bool) -> usize {
    if kind.sum(chunk) == sum {
        return chunk.len();
    }
    if !parts {
        return 0;
    }
    let mut so_far = CompositeCrc::new(kind);
    let mut found = 0;
    for (index, byte) in chunk.iter().enumerate() {
        so_far.update(kind.sum(&[*byte]), 1);
        if so_far.finish() == sum {
            found = index + 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(data: &[u8], checksum: Checksum) -> (File, File) {
        let (d, m) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        d.write_all_at(data, 0).unwrap();
        let mut bytes = header(checksum).to_vec();
        checksum.compute(data, &mut bytes);
        m.write_all_at(&bytes, 0).unwrap();
        assert_eq!(m.metadata().unwrap().len(), file_len(checksum, data.len() as u64));
        (d, m)
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    /// The sum of the last chunk, whole or not.
    fn last_sum_of(data: &[u8]) -> u32 {
        Checksum::DEFAULT.kind().sum(data.chunks(512).next_back().unwrap_or_default())
    }

    #[test]
    fn a_header_as_a_stock_datanode_writes_it() {
        assert_eq!(header(Checksum::DEFAULT), [0, 1, 2, 0, 0, 2, 0]);
        let (_, meta) = files(b"", Checksum::DEFAULT);
        assert_eq!(read_header(&meta).unwrap(), Checksum::DEFAULT);
        for (at, byte) in [(1, 2), (2, 9), (3, 0xff), (5, 0)] {
            let (_, meta) = files(b"", Checksum::DEFAULT);
            meta.write_all_at(&[byte], at).unwrap();
            assert_eq!(read_header(&meta).unwrap_err().kind(), io::ErrorKind::InvalidData, "byte {at}");
        }
        meta.set_len(6).unwrap();
        assert_eq!(read_header(&meta).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_cut_leaves_a_right_sum_and_never_blesses_a_fault() {
        let whole = bytes(1300);
        for to in [0, 1, 511, 512, 600, 1024, 1299, 1300] {
            let (data, meta) = files(&whole, Checksum::DEFAULT);
            let sum = cut(&data, &meta, Checksum::DEFAULT, (1300, None), to).unwrap();
            assert_eq!(last_sum(&data, &meta, Checksum::DEFAULT, to).unwrap(), sum, "to {to}");
            assert_eq!(meta.metadata().unwrap().len(), file_len(Checksum::DEFAULT, to));
        }
        let (data, meta) = files(&whole, Checksum::DEFAULT);
        data.write_all_at(&[!whole[700]], 700).unwrap();
        let error = cut(&data, &meta, Checksum::DEFAULT, (1300, None), 600).unwrap_err();
        assert_eq!((error.kind(), data.metadata().unwrap().len()), (io::ErrorKind::InvalidData, 1300));
    }

    #[test]
    fn a_crash_within_a_cut_takes_no_byte_of_what_stays() {
        let whole = bytes(1300);
        for to in [0, 1, 511, 512, 600, 1024, 1299, 1300] {
            for steps in 0..=ENDING.len() {
                let (data, meta) = files(&whole, Checksum::DEFAULT);
                let last = Checksum::DEFAULT.kind().sum(&whole[to - to % 512..to]);
                for step in &ENDING[..steps] {
                    step(&data, &meta, Checksum::DEFAULT, to as u64, last).unwrap();
                }
                let (good, sum) = good_end(&data, &meta, Checksum::DEFAULT).unwrap();
                assert_eq!(sum, last_sum_of(&whole[..good as usize]));
                let good = good as usize;
                assert!((to..=1300).contains(&good), "cut to {to}, {steps} steps: {good} are good");
                // Nor is there a wrong sum before the end.
                let mut sums = vec![0; Checksum::DEFAULT.sums_len(good)];
                meta.read_exact_at(&mut sums, HEADER_BYTES).unwrap();
                Checksum::DEFAULT.verify(&whole[..good], &sums).unwrap();
                // A finished replica is as long as its data, whatever its sums: it is cut again.
                let len = data.metadata().unwrap().len();
                let sum = match len > to as u64 {
                    true => cut(&data, &meta, Checksum::DEFAULT, (len, None), to as u64),
                    false => last_sum(&data, &meta, Checksum::DEFAULT, len),
                };
                assert_eq!(sum.unwrap(), if to % 512 == 0 { 0 } else { last }, "cut to {to}, {steps} steps");
            }
        }
    }

    #[test]
    fn what_is_good_after_a_crash() {
        let whole = bytes(1300);
        let good = |change: &dyn Fn(&File, &File)| {
            let (data, meta) = files(&whole, Checksum::DEFAULT);
            change(&data, &meta);
            good_end(&data, &meta, Checksum::DEFAULT).unwrap().0
        };
        assert_eq!(good(&|_, _| ()), 1300);
        assert_eq!(good(&|data, _| data.set_len(1200).unwrap()), 1024, "data of the last chunk is missing");
        assert_eq!(good(&|_, meta| meta.set_len(7 + 8).unwrap()), 1024, "the last sum is missing");
        assert_eq!(good(&|_, meta| meta.set_len(7 + 5).unwrap()), 512, "half a sum");
        assert_eq!(good(&|_, meta| meta.set_len(3).unwrap()), 0);
        assert_eq!(good(&|data, _| data.set_len(0).unwrap()), 0);
        assert_eq!(good(&|data, _| data.write_all_at(&whole, 1300).unwrap()), 1300, "data without sums");
        assert_eq!(good(&|data, _| data.write_all_at(&whole, 1100).unwrap()), 1024, "another packet's data");
        assert_eq!(good(&|data, _| data.write_all_at(&[0; 788], 512).unwrap()), 512, "a tail of zeros");
        assert_eq!(good(&|data, _| data.write_all_at(&[!whole[3]], 3).unwrap()), 1300, "not its business");
    }

    #[test]
    fn what_was_noted_is_good_as_long_as_its_bytes_are_there() {
        let whole = bytes(1300);
        // The sums on disk are those of 1300 bytes; this was noted before.
        let good = |noted: Note, change: &dyn Fn(&File, &File)| {
            let (data, meta) = files(&whole, Checksum::DEFAULT);
            noted.add(&meta).unwrap();
            change(&data, &meta);
            let (good, sum) = good_end(&data, &meta, Checksum::DEFAULT).unwrap();
            end_at(&data, &meta, Checksum::DEFAULT, good, sum).unwrap();
            assert_eq!(good_end(&data, &meta, Checksum::DEFAULT).unwrap(), (good, sum), "it was put right");
            good
        };
        let note = |len: usize| {
            let sum = Checksum::DEFAULT.kind().sum(&whole[len - len % 512..len]);
            Note { len: len as u64, last_sum: sum }
        };
        assert_eq!(good(note(1200), &|_, _| ()), 1300, "there is more by now");
        assert_eq!(
            good(note(1200), &|data, _| data.set_len(1200).unwrap()),
            1200,
            "without the last packet's data"
        );
        assert_eq!(good(note(1200), &|data, _| data.set_len(1250).unwrap()), 1200);
        assert_eq!(good(note(1200), &|data, _| data.write_all_at(&[0; 100], 1200).unwrap()), 1200);
        assert_eq!(good(note(700), &|data, _| data.set_len(700).unwrap()), 700, "chunks later");
        assert_eq!(
            good(note(700), &|data, _| data.write_all_at(&[0; 600], 700).unwrap()),
            700,
            "chunks of zeros later"
        );
        assert_eq!(good(note(200), &|data, _| data.set_len(200).unwrap()), 200, "in the first chunk");
        let before_it = |data: &File, meta: &File| {
            Note { len: 1250, last_sum: 7 }.add(meta).unwrap();
            data.set_len(1280).unwrap();
        };
        assert_eq!(good(note(1200), &before_it), 1200, "the last note came without its data");
        // It vouches for exactly its bytes.
        assert_eq!(good(note(1200), &|data, _| data.set_len(1199).unwrap()), 1024);
        let torn = |data: &File, _: &File| data.write_all_at(&[!whole[1100]], 1100).unwrap();
        assert_eq!(good(note(1200), &torn), 1024);
        assert_eq!(good(Note { last_sum: 7, ..note(1200) }, &|data, _| data.set_len(1200).unwrap()), 1024);
        assert_eq!(good(Note { len: 1100, ..note(1200) }, &|data, _| data.set_len(1200).unwrap()), 1024);
        for len in [0, 1024, u64::MAX] {
            assert_eq!(
                good(Note { len, last_sum: 0 }, &|data, _| data.set_len(1200).unwrap()),
                1024,
                "{len}"
            );
        }
        // Nor for chunks whose sums are gone.
        assert_eq!(good(note(1200), &|_, meta| meta.set_len(7 + 8).unwrap()), 1200, "only its own");
        assert_eq!(good(note(1200), &|_, meta| meta.set_len(7 + 4).unwrap()), 512);
    }

    #[test]
    fn a_cut_takes_away_what_was_noted_of_more() {
        let whole = bytes(1300);
        for (to, stays) in [(1300, true), (1200, true), (1199, false), (512, false)] {
            let (data, meta) = files(&whole, Checksum::DEFAULT);
            Note { len: 1200, last_sum: 1 }.add(&meta).unwrap();
            cut(&data, &meta, Checksum::DEFAULT, (1300, None), to).unwrap();
            assert_eq!(!Note::all(&meta).unwrap().is_empty(), stays, "cut to {to}");
        }
    }

    #[test]
    fn a_cut_believes_the_sum_that_is_known() {
        let whole = bytes(1300);
        for (to, first) in [(1300, 0), (1100, 0), (1024, 0), (600, 0), (1300, 1)] {
            let (data, meta) = files(&whole, Checksum::DEFAULT);
            let known = last_sum_of(&whole).wrapping_add(first);
            // What a write that failed left.
            meta.write_all_at(&[1; 8], sum_offset(Checksum::DEFAULT, 1024)).unwrap();
            data.write_all_at(&[1; 300], 1300).unwrap();
            let cut = cut(&data, &meta, Checksum::DEFAULT, (1300, Some(known)), to);
            if first != 0 {
                assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::InvalidData);
                continue;
            }
            assert_eq!(last_sum(&data, &meta, Checksum::DEFAULT, to).unwrap(), cut.unwrap(), "to {to}");
            assert_eq!(data.metadata().unwrap().len(), to);
        }
    }
}

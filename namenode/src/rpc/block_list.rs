//! The replicas of one storage in a full report: either form in which a DataNode sends them.

use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::hdfs::datanode::StorageBlockReportProto;

use crate::datanodes::reports::Listed;

/// Replicas of one storage that one report may have; a DataNode with more sends a report for each storage.
const MAX_REPLICAS: usize = 8 << 20;
/// Bytes of the shortest replica in the buffered form.
const LEAST_BYTES: usize = 4;
/// `ReplicaState` numbers end here.
const STATES: u64 = 5;

/// The replicas of a report in the order of block ids, each once.
pub(super) fn replicas(report: &StorageBlockReportProto) -> Result<Vec<Listed>, RpcError> {
    let mut listed = match report.number_of_blocks {
        Some(count) => buffered(count, &report.blocks_buffers)?,
        None => longs(&report.blocks)?,
    };
    listed.sort_unstable();
    // Of one that is there twice, the state that says more comes first.
    listed.dedup_by_key(|listed| listed.block);
    Ok(listed)
}

fn malformed(why: impl std::fmt::Display) -> RpcError {
    RpcError::new(Kind::Io, format!("a block report that is malformed: {why}"))
}

fn listed(block: i64, length: u64, stamp: u64, state: u64) -> Result<Listed, RpcError> {
    let block = u64::try_from(block).map_err(|_| malformed(format_args!("block id {block}")))?;
    if state >= STATES {
        return Err(malformed(format_args!("state {state} of block {block}")));
    }
    Ok(Listed { block, state: state as u8, stamp, length })
}

/// One stream of varints, cut anywhere: id (zigzag), length, stamp, state of each.
fn buffered(count: u64, buffers: &[impl AsRef<[u8]>]) -> Result<Vec<Listed>, RpcError> {
    let bytes: usize = buffers.iter().map(|buffer| buffer.as_ref().len()).sum();
    let count = usize::try_from(count).ok().filter(|count| *count <= MAX_REPLICAS.min(bytes / LEAST_BYTES));
    let Some(count) = count else {
        return Err(malformed(format_args!(
            "{bytes} bytes do not hold so many blocks, or there are too many"
        )));
    };
    let mut stream = Stream { bytes: buffers.iter().flat_map(|buffer| buffer.as_ref().iter().copied()) };
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let id = stream.varint()?;
        let block = (id >> 1) as i64 ^ -((id & 1) as i64);
        let length = stream.varint()? & ((1 << 48) - 1);
        let stamp = stream.varint()?;
        all.push(listed(block, length, stamp, stream.varint()? & 0xf)?);
    }
    match stream.bytes.next() {
        None => Ok(all),
        Some(_) => Err(malformed(format_args!("bytes are left after {count} blocks"))),
    }
}

struct Stream<I> {
    bytes: I,
}

impl<I: Iterator<Item = u8>> Stream<I> {
    fn varint(&mut self) -> Result<u64, RpcError> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.bytes.next().ok_or_else(|| malformed("it ends within a block"))?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(malformed("a number has more than 64 bits"))
    }
}

/// The old form: how many are whole, how many are not; three numbers for each that is whole, a triple of -1, four for
/// each that is not.
fn longs(numbers: &[u64]) -> Result<Vec<Listed>, RpcError> {
    let Some((head, rest)) = numbers.split_first_chunk::<2>() else {
        return if numbers.is_empty() { Ok(Vec::new()) } else { Err(malformed("one number alone")) };
    };
    let room = |count: u64, each: usize| usize::try_from(count).ok()?.checked_mul(each);
    let whole = room(head[0], 3).and_then(|end| rest.split_at_checked(end));
    let Some((whole, rest)) = whole else { return Err(malformed("fewer whole blocks than it says")) };
    let others = match rest.split_first_chunk::<3>() {
        Some(([u64::MAX, u64::MAX, u64::MAX], others)) => others,
        None if rest.is_empty() && head[1] == 0 => rest,
        _ => return Err(malformed("no mark after its whole blocks")),
    };
    if room(head[1], 4) != Some(others.len()) {
        return Err(malformed("another number of unfinished blocks than it says"));
    }
    let whole = whole.chunks_exact(3).map(|block| listed(block[0] as i64, block[1], block[2], 0));
    let others = others.chunks_exact(4).map(|block| listed(block[0] as i64, block[1], block[2], block[3]));
    whole.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Listed = Listed { block: 1_073_741_825, state: 0, stamp: 1001, length: 6 };

    fn report(count: u64, buffers: &[&[u8]]) -> StorageBlockReportProto {
        StorageBlockReportProto {
            number_of_blocks: Some(count),
            blocks_buffers: buffers.iter().map(|buffer| buffer.to_vec().into()).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn buffers_as_stock_sends_them() {
        let bytes = [0x82, 0x80, 0x80, 0x80, 0x08, 0x06, 0xe9, 0x07, 0x00];
        for cut in 0..=bytes.len() {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(replicas(&report(1, &[a, b])).unwrap(), [WHOLE]);
        }
        let twice = [&bytes[..8], &[1], &bytes].concat();
        assert_eq!(replicas(&report(2, &[&twice])).unwrap(), [WHOLE]);
        assert_eq!(replicas(&report(0, &[])).unwrap(), []);
    }

    #[test]
    fn longs_as_stock_sends_them() {
        let of = |blocks: Vec<u64>| replicas(&StorageBlockReportProto { blocks, ..Default::default() });
        let mark = u64::MAX;
        let both = vec![1, 1, WHOLE.block, 6, 1001, mark, mark, mark, 7, 2, 1002, 1];
        let other = Listed { block: 7, state: 1, stamp: 1002, length: 2 };
        assert_eq!(of(both.clone()).unwrap(), [other, WHOLE]);
        assert_eq!(of(vec![0, 0, mark, mark, mark]).unwrap(), []);
        assert_eq!(of(vec![]).unwrap(), []);
        (1..both.len()).for_each(|cut| assert!(of(both[..cut].to_vec()).is_err(), "{cut}"));
        assert!(of(vec![mark, mark]).is_err());
    }

    #[test]
    fn malformed_buffers_are_refused() {
        for (count, bytes) in [
            (1, &[0x82, 0x80][..]),
            (1, &[2, 6, 1, 0, 0]),
            (2, &[2, 6, 1, 0]),
            (u64::MAX, &[2, 6, 1, 0]),
            (1, &[1, 6, 1, 0]),
            (1, &[2, 6, 1, 9]),
            (1, &[0xff; 40]),
        ] {
            let error = replicas(&report(count, &[bytes])).unwrap_err();
            assert!(error.message.contains("malformed"), "{error}");
        }
    }
}

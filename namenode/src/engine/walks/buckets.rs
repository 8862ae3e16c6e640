//! Tables that are spread over buckets by inode id, read in the order of the ids.

use std::ops::Range;

use trellis_metastore::key::Scan;
use trellis_metastore::schema::{Table, id_in};

use super::{BATCH, Page, ROWS, Walk};
use crate::engine::call::Op;
use crate::refusal::RpcError;

/// The next rows past an id, as many as one read of all buckets tells for certain, and whether there may be more. The
/// keys must be the ids, big-endian.
pub(super) async fn rows_after<T: Table + 'static>(
    walk: &Walk<'_>,
    buckets: Range<u64>,
    after: u64,
) -> Result<(Vec<(u64, T::Value)>, bool), RpcError> {
    let (share, first) = (ROWS / BATCH as u32, buckets.start);
    let after = after.to_be_bytes();
    let scans: Vec<Scan> = buckets.map(|bucket| Scan::of(T::ID, bucket, share).after(&after)).collect();
    let op: Op<Vec<Page<T>>> = Box::new(move |tx| Ok(tx.scan_all(&scans)?));
    let pages = walk.read(first, op).await?;
    // A bucket that came back full may have more past its last row.
    let full = pages.iter().filter(|page| page.len() >= share as usize);
    let end = full.filter_map(|page| page.last()).map(|(key, _)| key.clone()).min();
    let mut rows: Vec<(u64, T::Value)> = pages
        .into_iter()
        .flatten()
        .filter(|(key, _)| end.as_ref().is_none_or(|end| key <= end))
        .filter_map(|(key, row)| Some((id_in(&key)?, row.value)))
        .collect();
    rows.sort_unstable_by_key(|(id, _)| *id);
    Ok((rows, end.is_some()))
}

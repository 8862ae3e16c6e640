//! Files that need attention: pages of them in the order of their inode ids, and their numbers over all.

use std::collections::HashMap;

use trellis_metastore::key::Scan;
use trellis_metastore::schema::{Attention, Concern, Table, attention_partitions, id_in};

use super::buckets::rows_after;
use super::{BATCH, Page, ROWS, Walk};
use crate::engine::call::Op;
use crate::ops::statistics::{ConcernsPage, ListConcerns, Totals, Troubled};
use crate::refusal::RpcError;

/// Adds up all files.
pub(super) async fn totals(walk: &Walk<'_>) -> Result<Totals, RpcError> {
    let mut totals = Totals::default();
    let limit = ROWS / BATCH as u32;
    let mut scans: Vec<Scan> =
        attention_partitions().map(|partition| Scan::of(Attention::ID, partition, limit)).collect();
    while !scans.is_empty() {
        let asked = scans.clone();
        let op: Op<Vec<Page<Attention>>> = Box::new(move |tx| Ok(tx.scan_all(&asked)?));
        let pages = walk.read(attention_partitions().start, op).await?;
        let mut further = Vec::new();
        let mut missing: HashMap<u64, u64> = HashMap::new();
        for (scan, page) in scans.iter().zip(pages) {
            if let Some((last, _)) = page.last().filter(|_| page.len() >= scan.limit as usize) {
                further.push(Scan { limit: ROWS / scans.len() as u32, ..scan.clone() }.after(last));
            }
            for (key, row) in page {
                let Concern { under_replicated, missing: lost, corrupt, .. } = row.value;
                totals.under_replicated += u64::from(under_replicated);
                totals.missing += u64::from(lost);
                totals.corrupt += u64::from(corrupt);
                if let (Some(id), true) = (id_in(&key), lost > 0) {
                    missing.insert(id, lost.into());
                }
            }
        }
        totals.missing_of_one += missing_of_one(walk, &missing).await?;
        scans = further;
    }
    Ok(totals)
}

/// Of missing blocks, by file, those of files with a replication of 1.
async fn missing_of_one(walk: &Walk<'_>, missing: &HashMap<u64, u64>) -> Result<u64, RpcError> {
    let ids: Vec<u64> = missing.keys().copied().collect();
    let mut sum = 0;
    for batch in ids.chunks(BATCH) {
        let batch = batch.to_vec();
        let op: Op<Vec<u64>> = Box::new(move |tx| {
            let found = tx.inodes_by_id(&batch)?.into_iter().flatten();
            Ok(found.filter(|(_, inode)| inode.replication == 1).map(|(_, inode)| inode.id).collect())
        });
        let of_one = walk.read(attention_partitions().start, op).await?;
        sum += of_one.iter().filter_map(|id| missing.get(id)).sum::<u64>();
    }
    Ok(sum)
}

/// A page of files that have blocks in trouble.
pub(super) async fn page(walk: &Walk<'_>, call: &ListConcerns) -> Result<ConcernsPage, RpcError> {
    let mut page = ConcernsPage::default();
    let (mut after, mut blocks) = (call.after, 0);
    loop {
        let (rows, more) = rows_after::<Attention>(walk, attention_partitions(), after).await?;
        let troubled: Vec<(u64, u32)> = rows
            .iter()
            .map(|(id, concern)| (*id, call.trouble.count(concern)))
            .filter(|(_, count)| *count > 0)
            .collect();
        for batch in troubled.chunks(BATCH) {
            let ids: Vec<u64> = batch.iter().map(|(id, _)| *id).collect();
            let lane = ids.first().copied().unwrap_or_default();
            let op: Op<_> = Box::new(move |tx| tx.inodes_by_id(&ids));
            let found: Vec<_> = walk.read(lane, op).await?;
            for ((id, count), found) in batch.iter().zip(found) {
                if blocks >= call.blocks {
                    page.next = Some(after);
                    return Ok(page);
                }
                after = *id;
                let Some((path, _)) = found.filter(|(path, _)| call.under.contains(path)) else { continue };
                blocks += u64::from(*count);
                page.files.push(Troubled { id: *id, path: path.text().to_owned(), blocks: *count });
            }
        }
        match rows.last() {
            Some((last, _)) if more => after = *last,
            _ => return Ok(page),
        }
    }
}

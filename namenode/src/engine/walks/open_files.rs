//! Pages of the files that are open for writing, in the order of their inode ids.

use trellis_metastore::key::Scan;
use trellis_metastore::schema::{Inode, OpenFiles, Table, Writer, open_file, open_file_partitions};

use super::{BATCH, Page, ROWS, Walk};
use crate::engine::call::Op;
use crate::ops::open_files::{ListOpenFiles, OpenFile, OpenFilesPage};
use crate::path::Path;
use crate::refusal::RpcError;

pub(super) async fn walk(walk: &Walk<'_>, call: &ListOpenFiles) -> Result<OpenFilesPage, RpcError> {
    let most = walk.ctx.config.open_files_page;
    let mut page = OpenFilesPage::default();
    let mut after = call.after;
    loop {
        let (ids, more) = open_after(walk, after).await?;
        for batch in ids.chunks(BATCH) {
            for (path, file) in look_at(walk, batch).await?.into_iter().flatten() {
                if page.files.len() >= most {
                    page.has_more = true;
                    return Ok(page);
                }
                if call.under.contains(&path) {
                    page.files.push(file);
                }
            }
        }
        match ids.last() {
            Some(last) if more => after = *last,
            _ => return Ok(page),
        }
    }
}

/// The next open files past an id, as many as one read of all buckets tells for certain, and whether there may be more.
async fn open_after(walk: &Walk<'_>, after: u64) -> Result<(Vec<u64>, bool), RpcError> {
    let share = ROWS / BATCH as u32;
    let after = open_file(after).key.rest().to_vec();
    let scan = |partition| Scan::of(OpenFiles::ID, partition, share).after(&after);
    let scans: Vec<Scan> = open_file_partitions().map(scan).collect();
    let op: Op<Vec<Page<OpenFiles>>> = Box::new(move |tx| Ok(tx.scan_all(&scans)?));
    let pages = walk.read(open_file_partitions().start, op).await?;
    // A bucket that came back full may have more past its last row.
    let full = pages.iter().filter(|page| page.len() >= share as usize);
    let end = full.filter_map(|page| page.last()).map(|(key, _)| key.clone()).min();
    let keys = pages.into_iter().flatten().map(|(key, _)| key);
    let mut ids: Vec<u64> = keys
        .filter(|key| end.as_ref().is_none_or(|end| key <= end))
        .filter_map(|key| Some(u64::from_be_bytes(key.try_into().ok()?)))
        .collect();
    ids.sort_unstable();
    Ok((ids, end.is_some()))
}

/// One batch: those of the files that are attached, and open.
async fn look_at(walk: &Walk<'_>, ids: &[u64]) -> Result<Vec<Option<(Path, OpenFile)>>, RpcError> {
    let (lane, ids) = (ids.first().copied().unwrap_or_default(), ids.to_vec());
    let op: Op<Vec<Option<(Path, OpenFile)>>> = Box::new(move |tx| {
        let found = tx.inodes_by_id(&ids)?.into_iter();
        Ok(found.map(|found| found.and_then(|(path, inode)| opened(path, inode))).collect())
    });
    walk.read(lane, op).await
}

fn opened(path: Path, inode: Inode) -> Option<(Path, OpenFile)> {
    let Writer { holder, machine } = inode.open?;
    let file = OpenFile { id: inode.id, path: path.text().to_owned(), holder, machine };
    Some((path, file))
}

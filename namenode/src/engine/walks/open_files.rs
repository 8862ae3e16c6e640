//! Pages of the files that are open for writing, in the order of their inode ids.

use trellis_metastore::schema::{Inode, OpenFiles, Writer, open_file_partitions};

use super::buckets::rows_after;
use super::{BATCH, Walk};
use crate::engine::call::Op;
use crate::ops::open_files::{ListOpenFiles, OpenFile, OpenFilesPage};
use crate::path::Path;
use crate::refusal::RpcError;

pub(super) async fn walk(walk: &Walk<'_>, call: &ListOpenFiles) -> Result<OpenFilesPage, RpcError> {
    let most = walk.ctx.config.open_files_page;
    let mut page = OpenFilesPage::default();
    let mut after = call.after;
    loop {
        let (rows, more) = rows_after::<OpenFiles>(walk, open_file_partitions(), after).await?;
        let ids: Vec<u64> = rows.into_iter().map(|(id, _)| id).collect();
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

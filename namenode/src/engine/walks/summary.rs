//! Counts below a directory (Java: ContentSummaryComputationContext).

use std::sync::Arc;

use trellis_metastore::schema::Inodes;

use super::access::check_sticky;
use super::{Page, Part, Place, Step, Walk, name_of, take};
use crate::engine::call::Op;
use crate::engine::permission::{EXECUTE, READ, denied, may};
use crate::engine::walkjob::Summary;
use crate::ops::summary::of_file;
use crate::refusal::{Kind, RpcError};

impl Step for Part {
    fn kind(&self) -> u8 {
        0
    }

    fn is_further(&self) -> bool {
        self.after.is_some()
    }
}

pub(super) async fn walk(walk: &Walk<'_>, top: Arc<Place>, sticky: bool) -> Result<Summary, RpcError> {
    check(walk, &top)?;
    let mut sum = Summary { directories: 1, ..Summary::default() };
    let mut stack: Vec<Part> = Part::all(&top).collect();
    while let Some((batch, share)) = take(&mut stack) {
        let scans: Vec<_> = batch.iter().map(|part| part.scan::<Inodes>(share)).collect();
        let op: Op<Vec<Page<Inodes>>> = Box::new(move |tx| Ok(tx.scan_all(&scans)?));
        let pages = walk.read(batch[0].partition, op).await?;
        for (part, page) in batch.into_iter().zip(pages) {
            stack.extend(part.rest(&page, share));
            for (key, row) in page {
                if sticky {
                    check_sticky(walk, &part.place, &key, &row.value)?;
                }
                if !row.value.is_dir() {
                    sum = sum.plus(of_file(&row.value));
                    continue;
                }
                let place = part.place.below(name_of(&key), row.value);
                check(walk, &place)?;
                sum.directories += 1;
                stack.extend(Part::all(&place));
            }
        }
    }
    Ok(sum)
}

fn check(walk: &Walk<'_>, place: &Place) -> Result<(), RpcError> {
    let user = &walk.ctx.user;
    if may(user, &place.inode, READ | EXECUTE) {
        return Ok(());
    }
    let why = denied(user, &place.path(None), &place.inode, READ | EXECUTE);
    Err(RpcError::new(Kind::AccessControl, why))
}

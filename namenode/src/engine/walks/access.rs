//! Whether a caller may delete everything below a directory (Java: FSPermissionChecker.checkSubAccess).
//!
//! Reads only the directories that are not empty: their counters say so, beside their parents' children.

use std::sync::Arc;

use bytes::Bytes;
use trellis_metastore::change::Hold;
use trellis_metastore::schema::{DirStats, Inode, Inodes, inode};
use trellis_metastore::tx::Record;

use super::{Page, Part, Place, Step, Walk, name_of, take};
use crate::engine::call::Op;
use crate::engine::permission::{ALL, STICKY, denied, denied_by_sticky, may, sticky_forbids};
use crate::refusal::{Kind, RpcError};

/// What is left to do.
enum Todo {
    /// A directory with children: look at its row, and for directories in it.
    Look { above: Arc<Place>, name: Bytes, id: u64 },
    /// Look for further directories in one.
    Subdirectories(Part),
    /// Look whose the entries of a sticky directory are.
    Entries(Part),
}

impl Step for Todo {
    fn kind(&self) -> u8 {
        match self {
            Todo::Look { .. } => 0,
            Todo::Subdirectories(_) => 1,
            Todo::Entries(_) => 2,
        }
    }

    fn is_further(&self) -> bool {
        match self {
            Todo::Look { .. } => false,
            Todo::Subdirectories(part) | Todo::Entries(part) => part.after.is_some(),
        }
    }
}

/// Rows of directories, and the counters in each.
type Looked = (Vec<Option<Record<Inodes>>>, Vec<Page<DirStats>>);

pub(super) async fn walk(walk: &Walk<'_>, top: Arc<Place>) -> Result<(), RpcError> {
    let mut stack = Vec::new();
    enter(walk, &top, &mut stack)?;
    stack.extend(Part::all(&top).map(Todo::Subdirectories));
    while let Some((batch, share)) = take(&mut stack) {
        let (mut looks, mut parts, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        for todo in batch {
            match todo {
                Todo::Look { above, name, id } => looks.push((above, name, id)),
                Todo::Subdirectories(part) => parts.push(part),
                Todo::Entries(part) => entries.push(part),
            }
        }
        if !looks.is_empty() {
            look(walk, looks, share, &mut stack).await?;
        }
        if !parts.is_empty() {
            subdirectories(walk, parts, share, &mut stack).await?;
        }
        if !entries.is_empty() {
            check_entries(walk, entries, share, &mut stack).await?;
        }
    }
    Ok(())
}

/// Checks a directory's own row; a sticky one of another's has its entries looked at.
fn enter(walk: &Walk<'_>, place: &Arc<Place>, stack: &mut Vec<Todo>) -> Result<(), RpcError> {
    let user = &walk.ctx.user;
    if !may(user, &place.inode, ALL) {
        let why = denied(user, &place.path(None), &place.inode, ALL);
        return Err(RpcError::new(Kind::AccessControl, why));
    }
    if place.inode.mode & STICKY != 0 && !user.superuser && user.name != place.inode.owner {
        stack.extend(Part::all(place).map(Todo::Entries));
    }
    Ok(())
}

/// One batch of directories: their rows and their subdirectories, in one read.
async fn look(
    walk: &Walk<'_>,
    looks: Vec<(Arc<Place>, Bytes, u64)>,
    share: u32,
    stack: &mut Vec<Todo>,
) -> Result<(), RpcError> {
    let keys: Vec<_> = looks.iter().map(|(above, name, _)| inode(above.inode.id, name)).collect();
    let blank = |(above, name, id): &(Arc<Place>, Bytes, u64)| {
        let part = Part { place: above.clone(), partition: *id, after: None };
        (above.clone(), name.clone(), *id, part)
    };
    let looks: Vec<_> = looks.iter().map(blank).collect();
    let scans: Vec<_> = looks.iter().map(|(.., part)| part.scan::<DirStats>(share)).collect();
    let op: Op<Looked> = Box::new(move |tx| {
        scans.iter().for_each(|scan| tx.want_scan(scan));
        Ok((tx.get_all(&keys, Hold::Loose)?, tx.scan_all::<DirStats>(&scans)?))
    });
    let (rows, pages) = walk.read(looks[0].2, op).await?;
    for (((above, name, id, part), row), page) in looks.into_iter().zip(rows).zip(pages) {
        // One that is no longer there was moved away, or deleted.
        let Some(row) = row.filter(|row| row.value.id == id) else { continue };
        let place = above.below(name, row.value);
        enter(walk, &place, stack)?;
        go_on(Part { place, ..part }, &page, share, stack);
    }
    Ok(())
}

/// One batch of further pages.
async fn subdirectories(
    walk: &Walk<'_>,
    parts: Vec<Part>,
    share: u32,
    stack: &mut Vec<Todo>,
) -> Result<(), RpcError> {
    let scans: Vec<_> = parts.iter().map(|part| part.scan::<DirStats>(share)).collect();
    let op: Op<Vec<Page<DirStats>>> = Box::new(move |tx| Ok(tx.scan_all::<DirStats>(&scans)?));
    let pages = walk.read(parts[0].partition, op).await?;
    for (part, page) in parts.into_iter().zip(pages) {
        go_on(part, &page, share, stack);
    }
    Ok(())
}

/// Notes the rest of a directory, and above it the directories of this page that are not empty.
fn go_on(part: Part, page: &Page<DirStats>, share: u32, stack: &mut Vec<Todo>) {
    stack.extend(part.rest(page, share).map(Todo::Subdirectories));
    let full = page.iter().filter(|(_, stat)| stat.add > 0);
    stack.extend(full.map(|(key, stat)| Todo::Look {
        above: part.place.clone(),
        name: name_of(key),
        id: stat.value.id,
    }));
}

/// One batch of entries of sticky directories: all must be the caller's.
async fn check_entries(
    walk: &Walk<'_>,
    parts: Vec<Part>,
    share: u32,
    stack: &mut Vec<Todo>,
) -> Result<(), RpcError> {
    let scans: Vec<_> = parts.iter().map(|part| part.scan::<Inodes>(share)).collect();
    let op: Op<Vec<Page<Inodes>>> = Box::new(move |tx| Ok(tx.scan_all::<Inodes>(&scans)?));
    let pages = walk.read(parts[0].partition, op).await?;
    for (part, page) in parts.into_iter().zip(pages) {
        for (key, row) in &page {
            check_sticky(walk, &part.place, key, &row.value)?;
        }
        stack.extend(part.rest(&page, share).map(Todo::Entries));
    }
    Ok(())
}

/// Refuses another's entry in another's sticky directory. Stock shows the rights of the directory where the walk began
/// in place of the sticky one's.
pub(super) fn check_sticky(
    walk: &Walk<'_>,
    place: &Place,
    key: &[u8],
    inode: &Inode,
) -> Result<(), RpcError> {
    let user = &walk.ctx.user;
    if !sticky_forbids(user, &place.inode, inode) {
        return Ok(());
    }
    let (path, parent) = (place.path(Some(&name_of(key))), place.path(None));
    let why = denied_by_sticky(user, &path, inode, &parent, &place.first().inode);
    Err(RpcError::new(Kind::AccessControl, why))
}

//! Open files and lease holders.

use trellis_metastore::schema::{Inodes, LeaseHolders, OpenFiles, id_in, lease_holder, open_file};
use trellis_metastore::store::{Store, StoreError};

use super::Findings;
use super::files::inodes_of;
use super::rows::{Walk, read};

/// Walks open_files: each belongs to a file that is open by that holder, whose lease is known; and walks all files:
/// each that is open stands in open_files.
pub async fn open_files(store: &dyn Store, findings: &mut Findings) -> Result<(), StoreError> {
    let mut walk = Walk::<OpenFiles>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        for found in batch {
            let Some(id) = id_in(found.key.rest()) else {
                findings.add(format!("{:?}", found.key), "is not the key of an open file");
                continue;
            };
            if open_file(id).key != found.key {
                findings.add(format!("open file {id}"), "lies in the wrong bucket");
            }
            let holder = &found.value.holder;
            match inodes_of(store, &[id]).await?.pop().flatten().and_then(|inode| inode.open) {
                Some(writer) if writer.holder == *holder => {}
                Some(writer) => {
                    let what = format!("is held by '{holder}', the file by '{}'", writer.holder);
                    findings.add(format!("open file {id}"), what);
                }
                None => findings.add(format!("open file {id}"), "there is no such file, or it is closed"),
            }
            if read(store, &[lease_holder(holder)]).await?.pop().flatten().is_none() {
                findings.add(format!("open file {id}"), format!("its holder '{holder}' has no lease"));
            }
        }
    }
    let mut walk = Walk::<Inodes>::new();
    // Their versions were looked at before.
    let mut quiet = Findings::default();
    while let Some(batch) = walk.next(store, &mut quiet).await? {
        let open: Vec<_> = batch.iter().filter(|found| found.value.open.is_some()).collect();
        let keys: Vec<_> = open.iter().map(|found| open_file(found.value.id)).collect();
        for (found, row) in open.iter().zip(read(store, &keys).await?) {
            if row.is_none() {
                findings.add(format!("inode {}", found.value.id), "is open and not in open_files");
            }
        }
    }
    Ok(())
}

/// Walks lease holders: each lies under its own name.
pub async fn holders(store: &dyn Store, findings: &mut Findings) -> Result<(), StoreError> {
    let mut walk = Walk::<LeaseHolders>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        for found in batch {
            if lease_holder(&found.value.holder).key != found.key {
                findings.add(format!("{:?}", found.key), format!("is the row of '{}'", found.value.holder));
            }
        }
    }
    Ok(())
}

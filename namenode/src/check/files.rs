//! Inodes by their ids, wherever they hang.

use trellis_metastore::schema::{Inode, hidden_inode, inode, inode_path};
use trellis_metastore::store::{Store, StoreError};

use super::rows::read;

/// The inodes with these ids, attached or hidden.
pub async fn inodes_of(store: &dyn Store, ids: &[u64]) -> Result<Vec<Option<Inode>>, StoreError> {
    let hidden = read(store, &ids.iter().map(|id| hidden_inode(*id)).collect::<Vec<_>>()).await?;
    let paths = read(store, &ids.iter().map(|id| inode_path(*id)).collect::<Vec<_>>()).await?;
    let mut all: Vec<Option<Inode>> = hidden.into_iter().map(|row| row.map(|(_, inode)| inode)).collect();
    let hangs = |(place, path): (usize, Option<_>)| path.map(|(_, path)| (place, path));
    let hanging: Vec<_> = paths.into_iter().enumerate().filter_map(hangs).collect();
    let keys: Vec<_> = hanging.iter().map(|(_, path)| inode(path.parent, &path.name)).collect();
    for ((place, _), row) in hanging.iter().zip(read(store, &keys).await?) {
        if let (Some(found), None) = (row.filter(|(_, inode)| inode.id == ids[*place]), &all[*place]) {
            all[*place] = Some(found.1);
        }
    }
    Ok(all)
}

//! Inodes by their ids, wherever they hang.

use trellis_metastore::schema::{Inode, ROOT_ID, hidden_inode, inode, inode_path};
use trellis_metastore::store::{Store, StoreError};

use super::rows::read;
use super::tree::MAX_DEPTH;

/// Whether the inodes with these ids hang, over whatever directories, below the root.
pub async fn are_attached(store: &dyn Store, ids: &[u64]) -> Result<Vec<bool>, StoreError> {
    let mut above: Vec<Option<u64>> = ids.iter().copied().map(Some).collect();
    for _ in 0..MAX_DEPTH {
        let is_below = |id: &Option<u64>| id.is_some_and(|id| id != ROOT_ID);
        let places: Vec<usize> = (0..above.len()).filter(|place| is_below(&above[*place])).collect();
        if places.is_empty() {
            break;
        }
        let keys: Vec<_> = places.iter().filter_map(|place| above[*place]).map(inode_path).collect();
        for (place, row) in places.into_iter().zip(read(store, &keys).await?) {
            above[place] = row.map(|(_, path)| path.parent);
        }
    }
    Ok(above.into_iter().map(|id| id == Some(ROOT_ID)).collect())
}

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

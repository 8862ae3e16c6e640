//! What this namenode believes: (parent id, name) → id, and back. Only *prefetches*: a walk asks for all rows that the
//! hints suggest in one fetch, then follows the rows themselves. A wrong hint costs a trip and is never believed.

use bytes::Bytes;
use quick_cache::sync::Cache;

/// The hint table of one namenode.
pub struct Hints {
    down: Cache<(u64, Bytes), u64>,
    up: Cache<u64, (u64, Bytes)>,
}

impl std::fmt::Debug for Hints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hints({} down, {} up)", self.down.len(), self.up.len())
    }
}

impl Hints {
    /// A table of at most `capacity` entries each way.
    pub fn new(capacity: usize) -> Hints {
        Hints { down: Cache::new(capacity), up: Cache::new(capacity) }
    }

    /// The id of a child, as last seen.
    pub fn child(&self, parent: u64, name: &Bytes) -> Option<u64> {
        self.down.get(&(parent, name.clone()))
    }

    /// Where an inode hung when it was last seen.
    pub fn parent(&self, id: u64) -> Option<(u64, Bytes)> {
        self.up.get(&id)
    }

    /// An inode was seen.
    pub fn saw(&self, parent: u64, name: &Bytes, id: u64) {
        if self.child(parent, name) != Some(id) {
            self.down.insert((parent, name.clone()), id);
            self.up.insert(id, (parent, name.clone()));
        }
    }

    /// A name was seen to be free.
    pub fn gone(&self, parent: u64, name: &Bytes) {
        if let Some((_, id)) = self.down.remove(&(parent, name.clone())) {
            self.up.remove(&id);
        }
    }
}

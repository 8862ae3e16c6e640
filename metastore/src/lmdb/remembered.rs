//! Rows of directories that a thread remembers, for a store with a log: every path leads through some, and looking for
//! them in the tree is most of a walk.
//!
//! Each thread has its own, so nobody waits. What is remembered is exactly what the tree holds as of one of its
//! transactions. With a log in front, the tree changes by merges only; a thread that begins a snapshot of a later
//! transaction first forgets what the merges up to it wrote. If not all of them are known any more it forgets everything.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quick_cache::unsync::Cache;

use super::row;
use crate::key::Key;
use crate::schema::{Passed, TableId};

/// Directories that a thread remembers: about 250 bytes each.
const MOST_ROWS: usize = 1 << 15;
/// Rows that one snapshot adds.
const MOST_FRESH: usize = 256;
/// Merges of which the keys are known: those of some seconds.
const MOST_MERGES: usize = 16;

static STORES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static REMEMBERED: RefCell<Option<Box<Rows>>> = const { RefCell::new(None) };
}

/// What the last merges wrote, for all threads.
pub(super) struct Merges {
    /// Tells this store from others that a thread may read.
    store: u64,
    last: Mutex<VecDeque<Merge>>,
}

/// A merge: the tree's transaction, and the inode rows that it wrote.
struct Merge {
    transaction: usize,
    keys: Arc<[Key]>,
}

impl Merges {
    /// None yet.
    pub fn new() -> Merges {
        Merges { store: STORES.fetch_add(1, Ordering::Relaxed), last: Mutex::default() }
    }

    /// To be said before the transaction commits: who sees it must find its keys here. One that fails is said again.
    pub fn announce<'k>(&self, transaction: usize, keys: impl Iterator<Item = &'k Key>) {
        let keys = keys.filter(|key| key.table() == TableId::Inodes).cloned().collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|merge| merge.transaction != transaction);
        last.push_back(Merge { transaction, keys });
        if last.len() > MOST_MERGES {
            last.pop_front();
        }
    }

    /// What this thread remembers, as of a transaction of the tree. Until it is dropped the thread has no other.
    pub fn remembered(&self, transaction: usize) -> Remembered {
        let rows = REMEMBERED.with(RefCell::take).filter(|rows| rows.store == self.store);
        let mut rows = rows.unwrap_or_else(|| {
            let rows = Cache::new(MOST_ROWS);
            Box::new(Rows { store: self.store, transaction, rows, fresh: RefCell::default() })
        });
        rows.settle();
        if rows.transaction != transaction {
            self.forget(&mut rows, transaction);
        }
        Remembered(Some(rows))
    }

    fn forget(&self, rows: &mut Rows, transaction: usize) {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let since =
            last.iter().filter(|merge| (rows.transaction + 1..=transaction).contains(&merge.transaction));
        if since.clone().count() == transaction.saturating_sub(rows.transaction).max(1) {
            since.flat_map(|merge| merge.keys.iter()).for_each(|key| drop(rows.rows.remove(key)));
        } else {
            rows.rows.clear();
        }
        rows.transaction = transaction;
    }
}

/// What a thread remembers, while it reads one snapshot.
pub(super) struct Remembered(Option<Box<Rows>>);

struct Rows {
    store: u64,
    /// The tree's, of which all rows here are.
    transaction: usize,
    rows: Cache<Key, Box<[u8]>>,
    /// Read in the snapshot of the moment, remembered from the next one on.
    fresh: RefCell<Vec<(Key, Box<[u8]>)>>,
}

impl Rows {
    fn settle(&mut self) {
        for (key, stored) in self.fresh.take() {
            self.rows.insert(key, stored);
        }
    }
}

impl Remembered {
    /// A row as the tree stores it, if it is remembered.
    pub fn get(&self, key: &Key) -> Option<&[u8]> {
        let rows = self.0.as_ref().filter(|_| key.table() == TableId::Inodes)?;
        rows.rows.get(key).map(AsRef::as_ref)
    }

    /// Remembers a row that the tree has in this snapshot, if it is a directory's: others are many, and seldom asked for.
    pub fn note(&self, key: &Key, stored: &[u8]) {
        let is_directory = || {
            let inode = row::decode(stored).and_then(|row| Passed::read(row.value));
            inode.is_some_and(|inode| inode.is_dir())
        };
        let Some(rows) = self.0.as_ref().filter(|_| key.table() == TableId::Inodes && is_directory()) else {
            return;
        };
        let mut fresh = rows.fresh.borrow_mut();
        if fresh.len() < MOST_FRESH {
            fresh.push((key.clone(), stored.into()));
        }
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        let rows = self.0.take();
        // A thread that ends has nothing to remember it by.
        let _ = REMEMBERED.try_with(|kept| kept.replace(rows));
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::change::Row;
    use crate::schema::{Inode, Kind, TableKey, dir_stat, inode};

    fn stored(kind: Kind) -> Vec<u8> {
        let value = Inode { id: 7, kind: kind as i32, ..Inode::default() }.encode_to_vec();
        let mut stored = Vec::new();
        row::encode(&Row { value: value.into(), ..Row::default() }, &mut stored);
        stored
    }

    fn remember(merges: &Merges, transaction: usize, names: &[&str]) {
        let remembered = merges.remembered(transaction);
        names.iter().for_each(|name| remembered.note(&key(name), &stored(Kind::Directory)));
    }

    fn key(name: &str) -> Key {
        inode(5, name.as_bytes()).key
    }

    fn known(merges: &Merges, transaction: usize, names: &[&str]) -> Vec<bool> {
        let remembered = merges.remembered(transaction);
        names.iter().map(|name| remembered.get(&key(name)).is_some()).collect()
    }

    #[test]
    fn what_a_merge_wrote_is_forgotten_and_nothing_else() {
        let merges = Merges::new();
        remember(&merges, 3, &["a", "b", "c"]);
        // Said again after a failure, with more in it.
        merges.announce(4, [key("a")].iter());
        merges.announce(4, [key("a"), key("b")].iter());
        assert_eq!(known(&merges, 3, &["a", "b", "c"]), [true, true, true]);
        assert_eq!(known(&merges, 4, &["a", "b", "c"]), [false, false, true]);
        merges.announce(5, [].iter());
        merges.announce(6, [key("c")].iter());
        assert_eq!(known(&merges, 6, &["c"]), [false]);
    }

    #[test]
    fn a_change_of_the_tree_of_which_nothing_is_known_makes_all_forgotten() {
        let merges = Merges::new();
        remember(&merges, 3, &["a"]);
        merges.announce(5, [].iter());
        assert_eq!(known(&merges, 5, &["a"]), [false]);
        remember(&merges, 5, &["a"]);
        // An older snapshot is not of what is remembered.
        assert_eq!(known(&merges, 4, &["a"]), [false]);
        remember(&merges, 4, &["a"]);
        (5..=5 + MOST_MERGES).for_each(|transaction| merges.announce(transaction, [].iter()));
        assert_eq!(known(&merges, 5 + MOST_MERGES, &["a"]), [false]);
    }

    #[test]
    fn only_directories_of_this_store_are_remembered() {
        let (merges, others) = (Merges::new(), Merges::new());
        let other_table: TableKey<_> = dir_stat(5, b"a");
        {
            let remembered = merges.remembered(1);
            remembered.note(&key("file"), &stored(Kind::File));
            remembered.note(&other_table.key, &stored(Kind::Directory));
            remembered.note(&key("short"), b"not a row");
            remembered.note(&key("a"), &stored(Kind::Directory));
            // While one is used, the thread has no other.
            assert_eq!(known(&merges, 1, &["a"]), [false]);
        }
        assert_eq!(known(&merges, 1, &["file", "short", "a"]), [false, false, true]);
        assert_eq!(known(&others, 1, &["a"]), [false]);
    }
}

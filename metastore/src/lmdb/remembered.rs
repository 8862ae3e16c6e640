//! What a thread remembers of the tree, for a store with a log: rows of directories, and numbers that follow from such
//! rows. Every path leads through some directories, and looking for them in the tree is most of a walk.
//!
//! Each thread remembers for itself, so nobody waits. What is remembered is exactly what the tree holds as of one of its
//! transactions. With a log in front, the tree changes by merges only; a thread that begins a snapshot of a later
//! transaction first forgets what the merges up to it wrote. If not all of them are known any more it forgets everything.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quick_cache::unsync::Cache;

use super::log::KeyHash;
use super::row;
use crate::key::Key;
use crate::schema::{Passed, TableId};

/// Rows that a thread remembers: about 250 bytes each.
const MOST_ROWS: usize = 1 << 15;
/// Numbers that a thread remembers, by their names: about 500 bytes each for a path of some depth.
const MOST_NAMES: usize = 1 << 14;
/// Rows, and names, that one snapshot adds.
const MOST_FRESH: usize = 256;
/// Merges of which the keys are known: those of some seconds.
const MOST_MERGES: usize = 16;

static STORES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static REMEMBERED: RefCell<Option<Box<Memory>>> = const { RefCell::new(None) };
}

/// What the last merges wrote, for all threads.
pub(super) struct Merges {
    /// Tells this store from others that a thread may read.
    store: u64,
    last: Mutex<VecDeque<Arc<Merge>>>,
}

/// A merge: the tree's transaction, and which rows it wrote that may be remembered.
struct Merge {
    transaction: usize,
    keys: Vec<Key>,
    hashes: HashSet<KeyHash, foldhash::fast::RandomState>,
}

impl Merges {
    /// None yet.
    pub fn new() -> Merges {
        Merges { store: STORES.fetch_add(1, Ordering::Relaxed), last: Mutex::default() }
    }

    /// To be said before the transaction commits: who sees it must find its keys here. One that fails is said again.
    pub fn announce<'k>(&self, transaction: usize, keys: impl Iterator<Item = &'k Key>) {
        let keys: Vec<Key> = keys.filter(|key| may_be_remembered(key)).cloned().collect();
        let hashes = keys.iter().map(KeyHash::of).collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|merge| merge.transaction != transaction);
        last.push_back(Arc::new(Merge { transaction, keys, hashes }));
        if last.len() > MOST_MERGES {
            last.pop_front();
        }
    }

    /// What this thread remembers, as of a transaction of the tree. Until it is dropped the thread has no other.
    pub fn remembered(&self, transaction: usize) -> Remembered {
        let memory = REMEMBERED.with(RefCell::take).filter(|memory| memory.store == self.store);
        let mut memory = memory.unwrap_or_else(|| Box::new(Memory::empty(self.store, transaction)));
        memory.settle();
        if memory.transaction != transaction {
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let since = memory.transaction + 1..=transaction;
            let since: Vec<_> =
                last.iter().filter(|merge| since.contains(&merge.transaction)).cloned().collect();
            drop(last);
            memory.move_on(transaction, since);
        }
        Remembered(Some(memory))
    }
}

/// Whether merges tell of changes of this row.
pub(super) fn may_be_remembered(key: &Key) -> bool {
    matches!(key.table(), TableId::Inodes | TableId::DirStats)
}

/// What a thread remembers.
struct Memory {
    store: u64,
    /// The tree's, as of which all is.
    transaction: usize,
    rows: Cache<Key, Box<[u8]>>,
    names: Cache<Box<[u8]>, Noted>,
    /// The last merges up to that transaction, without a gap.
    merges: VecDeque<Arc<Merge>>,
    /// Of the snapshot of the moment, remembered from the next one on.
    fresh_rows: RefCell<Vec<(Key, Box<[u8]>)>>,
    fresh_names: RefCell<Vec<(Box<[u8]>, Noted)>>,
}

/// Numbers that follow from rows.
struct Noted {
    /// As of which this is known to hold.
    transaction: Cell<usize>,
    rows: Box<[KeyHash]>,
    numbers: Box<[u64]>,
}

impl Memory {
    fn empty(store: u64, transaction: usize) -> Memory {
        Memory {
            store,
            transaction,
            rows: Cache::new(MOST_ROWS),
            names: Cache::new(MOST_NAMES),
            merges: VecDeque::new(),
            fresh_rows: RefCell::default(),
            fresh_names: RefCell::default(),
        }
    }

    fn settle(&mut self) {
        for (key, stored) in self.fresh_rows.take() {
            self.rows.insert(key, stored);
        }
        for (name, noted) in self.fresh_names.take() {
            self.names.insert(name, noted);
        }
    }

    /// Becomes what the tree holds as of a later transaction, by the merges that are known since.
    fn move_on(&mut self, transaction: usize, since: Vec<Arc<Merge>>) {
        // Of an earlier one, which is not so later, nothing is known.
        if since.len() != transaction.saturating_sub(self.transaction).max(1) {
            *self = Memory::empty(self.store, transaction);
            return;
        }
        for merge in since {
            merge.keys.iter().for_each(|key| drop(self.rows.remove(key)));
            self.merges.push_back(merge);
        }
        let surplus = self.merges.len().saturating_sub(MOST_MERGES);
        self.merges.drain(..surplus);
        self.transaction = transaction;
    }

    /// Whether no merge since has changed what numbers follow from.
    fn still_holds(&self, noted: &Noted) -> bool {
        let known_at = noted.transaction.get();
        if known_at == self.transaction {
            return true;
        }
        let since = self.merges.iter().rev().take_while(|merge| merge.transaction > known_at);
        let (mut count, mut unchanged) = (0, true);
        for merge in since {
            count += 1;
            unchanged &= !noted.rows.iter().any(|row| merge.hashes.contains(row));
        }
        let holds = unchanged && count == self.transaction - known_at;
        if holds {
            noted.transaction.set(self.transaction);
        }
        holds
    }
}

/// What a thread remembers, while it reads one snapshot.
pub(super) struct Remembered(Option<Box<Memory>>);

impl Remembered {
    /// A row as the tree stores it, if it is remembered.
    pub fn get(&self, key: &Key) -> Option<&[u8]> {
        let memory = self.0.as_ref().filter(|_| may_be_remembered(key))?;
        memory.rows.get(key).map(AsRef::as_ref)
    }

    /// Remembers a row that the tree has in this snapshot, if it is a directory's: others are many, and seldom asked for.
    pub fn keep(&self, key: &Key, stored: &[u8]) {
        let is_directory = match key.table() {
            TableId::DirStats => true,
            TableId::Inodes => {
                let inode = row::decode(stored).and_then(|row| Passed::read(row.value));
                inode.is_some_and(|inode| inode.is_dir())
            }
            _ => false,
        };
        let Some(memory) = self.0.as_ref().filter(|_| is_directory) else { return };
        let mut fresh = memory.fresh_rows.borrow_mut();
        if fresh.len() < MOST_FRESH {
            fresh.push((key.clone(), stored.into()));
        }
    }

    /// Numbers that were noted under a name, if the rows that they follow from are still the same in the tree, and none of
    /// them `is_newer` elsewhere.
    pub fn recall(&self, name: &[u8], is_newer: impl Fn(KeyHash) -> bool) -> Option<&[u64]> {
        let memory = self.0.as_ref()?;
        let noted = memory.names.get(name).filter(|noted| memory.still_holds(noted))?;
        if noted.rows.iter().any(|row| is_newer(*row)) { None } else { Some(&noted.numbers) }
    }

    /// Notes numbers that follow from rows of the tree in this snapshot, all of which [`may_be_remembered`]: others change
    /// unnoticed.
    pub fn note(&self, name: &[u8], rows: &[KeyHash], numbers: &[u64]) {
        let Some(memory) = &self.0 else { return };
        let mut fresh = memory.fresh_names.borrow_mut();
        if fresh.len() < MOST_FRESH {
            let transaction = Cell::new(memory.transaction);
            fresh.push((name.into(), Noted { transaction, rows: rows.into(), numbers: numbers.into() }));
        }
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        let memory = self.0.take();
        // A thread that ends has nothing to remember it by.
        let _ = REMEMBERED.try_with(|kept| kept.replace(memory));
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::change::Row;
    use crate::schema::{Inode, Kind, TableKey, inode, inode_path};

    fn stored(kind: Kind) -> Vec<u8> {
        let value = Inode { id: 7, kind: kind as i32, ..Inode::default() }.encode_to_vec();
        let mut stored = Vec::new();
        row::encode(&Row { value: value.into(), ..Row::default() }, &mut stored);
        stored
    }

    fn remember(merges: &Merges, transaction: usize, names: &[&str]) {
        let remembered = merges.remembered(transaction);
        names.iter().for_each(|name| remembered.keep(&key(name), &stored(Kind::Directory)));
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
    fn numbers_are_recalled_until_a_row_that_they_follow_from_changes() {
        let merges = Merges::new();
        let hash = |name: &str| KeyHash::of(&key(name));
        let recall = |transaction, newer: &str| {
            let remembered = merges.remembered(transaction);
            let newer = hash(newer);
            remembered.recall(b"name", |row| row == newer).map(<[u64]>::to_vec)
        };
        merges.remembered(3).note(b"name", &[hash("a"), hash("b")], &[1, 2]);
        assert_eq!(recall(3, "c"), Some(vec![1, 2]));
        assert_eq!(recall(3, "b"), None);
        (4..50).for_each(|transaction| {
            merges.announce(transaction, [key("c")].iter());
            assert_eq!(recall(transaction, "c"), Some(vec![1, 2]), "{transaction}");
        });
        merges.announce(50, [key("b")].iter());
        assert_eq!(recall(50, "c"), None);
        merges.remembered(50).note(b"name", &[hash("a")], &[3]);
        // Merges that nobody recalled anything after.
        for transaction in 51..52 + MOST_MERGES {
            merges.announce(transaction, [key("c")].iter());
            drop(merges.remembered(transaction));
        }
        assert_eq!(recall(51 + MOST_MERGES, "c"), None);
    }

    #[test]
    fn only_directories_of_this_store_are_remembered() {
        let (merges, others) = (Merges::new(), Merges::new());
        let path: TableKey<_> = inode_path(5);
        {
            let remembered = merges.remembered(1);
            remembered.keep(&key("file"), &stored(Kind::File));
            remembered.keep(&path.key, &stored(Kind::Directory));
            remembered.keep(&key("short"), b"not a row");
            remembered.keep(&key("a"), &stored(Kind::Directory));
            // While one is used, the thread has no other.
            assert_eq!(known(&merges, 1, &["a"]), [false]);
        }
        assert_eq!(known(&merges, 1, &["file", "short", "a"]), [false, false, true]);
        assert_eq!(known(&others, 1, &["a"]), [false]);
    }
}

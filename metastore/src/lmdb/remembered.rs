//! What threads remember of the tree, for a store with a log: rows of directories, numbers that follow from such rows,
//! and pages that show a whole directory. Every path leads through some directories, and looking for them in the tree is
//! most of a walk; and directories are listed more often than they change.
//!
//! Each thread remembers rows and numbers for itself, so nobody waits; pages are large, and are all threads'. What is
//! remembered is exactly what the tree held as of one of its transactions. With a log in front, the tree changes by merges
//! only; what a merge wrote after it was remembered holds no more, nor does what so many merges came after that not all of
//! them are known.

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use quick_cache::unsync::Cache;
use quick_cache::{Weighter, sync};
use smallvec::SmallVec;

use super::log::KeyHash;
use super::row;
use crate::key::Key;
use crate::schema::{Passed, TableId};

/// Rows that a thread remembers: about 300 bytes each.
const MOST_ROWS: usize = 1 << 15;
/// Numbers that a thread remembers, by their names: about 500 bytes each for a path of some depth.
const MOST_NAMES: usize = 1 << 14;
/// Bytes of all pages.
const MOST_PAGE_BYTES: u64 = 32 << 20;
/// Pages of some entries that these are, about.
const SOME_PAGES: usize = 1 << 14;
/// What a page takes besides its bytes, about.
const PAGE_BYTES: u64 = 200;
/// Rows, and names, that one snapshot adds.
const MOST_FRESH: usize = 256;
/// Commits of merges of which it is known what they wrote: those of some seconds.
const MOST_MERGES: usize = 64;

static STORES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static REMEMBERED: RefCell<Option<Box<Memory>>> = const { RefCell::new(None) };
}

/// What the last merges wrote, for all threads.
pub(super) struct Merges {
    /// Tells this store from others that a thread may read.
    store: u64,
    last: Mutex<VecDeque<Arc<Merge>>>,
    pages: Arc<Pages>,
}

/// A commit of a merge: the tree's transaction, and the hashes of the rows it wrote that may be remembered, and of their
/// partitions.
struct Merge {
    transaction: usize,
    hashes: HashSet<KeyHash, foldhash::fast::RandomState>,
}

impl Merges {
    /// None yet.
    pub fn new() -> Merges {
        let store = STORES.fetch_add(1, Ordering::Relaxed);
        let pages = Arc::new(Pages::with_weighter(SOME_PAGES, MOST_PAGE_BYTES, PageWeight));
        Merges { store, last: Mutex::default(), pages }
    }

    /// To be said before the transaction commits: who sees it must find its keys here. One that fails is said again.
    pub fn announce(&self, transaction: usize, keys: impl IntoIterator<Item = Key>) {
        let keys = keys.into_iter().filter(may_be_remembered);
        let hashes =
            keys.flat_map(|key| [KeyHash::of(&key), KeyHash::of_partition(key.partition())]).collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|merge| merge.transaction != transaction);
        last.push_back(Arc::new(Merge { transaction, hashes }));
        if last.len() > MOST_MERGES {
            last.pop_front();
        }
    }

    /// What this thread remembers, as of a transaction of the tree. Until it is dropped the thread has no other.
    pub fn remembered(&self, transaction: usize) -> Remembered {
        let memory = REMEMBERED.with(RefCell::take).filter(|memory| memory.store == self.store);
        let empty = || Box::new(Memory::empty(self.store, self.pages.clone(), transaction));
        let mut memory = memory.unwrap_or_else(empty);
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

/// The tables of whose changes merges tell.
pub(super) const REMEMBERED_TABLES: [TableId; 2] = [TableId::Inodes, TableId::DirStats];

/// Whether merges tell of changes of this row.
pub(super) fn may_be_remembered(key: &Key) -> bool {
    REMEMBERED_TABLES.contains(&key.table())
}

/// What a thread remembers.
struct Memory {
    store: u64,
    /// The tree's, as of which all is.
    transaction: usize,
    rows: Cache<Key, Noted<Box<[u8]>>>,
    names: Cache<Box<[u8]>, Noted<Box<[u64]>>>,
    pages: Arc<Pages>,
    /// The last merges up to that transaction, without a gap.
    merges: VecDeque<Arc<Merge>>,
    /// Of the snapshot of the moment, remembered from the next one on.
    fresh_rows: Fresh<Key, [u8]>,
    fresh_names: Fresh<Box<[u8]>, [u64]>,
}

type Fresh<K, T> = RefCell<Vec<(K, Noted<Box<T>>)>>;

/// What follows from some rows, or from all those of a partition that may be remembered: their hashes.
struct Noted<T> {
    /// As of which this is known to hold.
    transaction: AtomicUsize,
    rows: SmallVec<[KeyHash; 1]>,
    what: T,
}

/// Pages, by their partition and how many entries they have room for.
type Pages = sync::Cache<PageKey, Arc<Noted<Bytes>>, PageWeight>;
type PageKey = (u64, u32);

#[derive(Clone)]
struct PageWeight;

impl Weighter<PageKey, Arc<Noted<Bytes>>> for PageWeight {
    fn weight(&self, _: &PageKey, page: &Arc<Noted<Bytes>>) -> u64 {
        PAGE_BYTES + page.what.len() as u64
    }
}

impl Memory {
    fn empty(store: u64, pages: Arc<Pages>, transaction: usize) -> Memory {
        Memory {
            store,
            transaction,
            rows: Cache::new(MOST_ROWS),
            names: Cache::new(MOST_NAMES),
            pages,
            merges: VecDeque::new(),
            fresh_rows: RefCell::default(),
            fresh_names: RefCell::default(),
        }
    }

    fn settle(&mut self) {
        for (key, noted) in self.fresh_rows.take() {
            self.rows.insert(key, noted);
        }
        for (name, noted) in self.fresh_names.take() {
            self.names.insert(name, noted);
        }
    }

    /// Becomes what the tree holds as of a later transaction, by the merges that are known since.
    fn move_on(&mut self, transaction: usize, since: Vec<Arc<Merge>>) {
        // Of an earlier one, which is not so later, nothing is known.
        if since.len() != transaction.saturating_sub(self.transaction).max(1) {
            *self = Memory::empty(self.store, self.pages.clone(), transaction);
            return;
        }
        self.merges.extend(since);
        let surplus = self.merges.len().saturating_sub(MOST_MERGES);
        self.merges.drain(..surplus);
        self.transaction = transaction;
    }

    fn noted<T>(&self, rows: &[KeyHash], what: T) -> Noted<T> {
        Noted { transaction: AtomicUsize::new(self.transaction), rows: rows.into(), what }
    }

    /// Whether no merge since has changed what this follows from. What others know of a later transaction is not for
    /// this one.
    fn still_holds<T>(&self, noted: &Noted<T>) -> bool {
        let known_at = noted.transaction.load(Ordering::Relaxed);
        if known_at >= self.transaction {
            return known_at == self.transaction;
        }
        let since = self.merges.iter().rev().take_while(|merge| merge.transaction > known_at);
        let (mut count, mut unchanged) = (0, true);
        for merge in since {
            count += 1;
            unchanged &= !noted.rows.iter().any(|row| merge.hashes.contains(row));
        }
        let holds = unchanged && count == self.transaction - known_at;
        if holds {
            noted.transaction.store(self.transaction, Ordering::Relaxed);
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
        memory.rows.get(key).filter(|noted| memory.still_holds(noted)).map(|noted| &noted.what[..])
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
            fresh.push((key.clone(), memory.noted(&[KeyHash::of(key)], stored.into())));
        }
    }

    /// Numbers that were noted under a name, if the rows that they follow from are still the same in the tree, and none of
    /// them `is_newer` elsewhere.
    pub fn recall(&self, name: &[u8], is_newer: impl Fn(KeyHash) -> bool) -> Option<&[u64]> {
        let memory = self.0.as_ref()?;
        let noted = memory.names.get(name).filter(|noted| memory.still_holds(noted))?;
        if noted.rows.iter().any(|row| is_newer(*row)) { None } else { Some(&noted.what) }
    }

    /// Notes numbers that follow from rows of the tree in this snapshot, all of which [`may_be_remembered`]: others change
    /// unnoticed.
    pub fn note(&self, name: &[u8], rows: &[KeyHash], numbers: &[u64]) {
        let Some(memory) = &self.0 else { return };
        let mut fresh = memory.fresh_names.borrow_mut();
        if fresh.len() < MOST_FRESH {
            fresh.push((name.into(), memory.noted(rows, numbers.into())));
        }
    }

    /// A page that was noted, if the rows of its partition are still the same in the tree; whether they are the same
    /// elsewhere is for the caller to see.
    pub fn recall_page(&self, partition: u64, room: u32) -> Option<Bytes> {
        let memory = self.0.as_ref()?;
        let noted = memory.pages.get(&(partition, room))?;
        memory.still_holds(&noted).then(|| noted.what.clone())
    }

    /// Notes a page that follows from the rows of a partition that [`may_be_remembered`], all of which are in the tree.
    pub fn note_page(&self, partition: u64, room: u32, page: &Bytes) {
        if let Some(memory) = &self.0 {
            let page = memory.noted(&[KeyHash::of_partition(partition)], page.clone());
            memory.pages.insert((partition, room), Arc::new(page));
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
    use crate::schema::{Inode, Kind, TableKey, dir_stat, inode, inode_path};

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
        merges.announce(4, [key("a")]);
        merges.announce(4, [key("a"), key("b")]);
        assert_eq!(known(&merges, 3, &["a", "b", "c"]), [true, true, true]);
        assert_eq!(known(&merges, 4, &["a", "b", "c"]), [false, false, true]);
        merges.announce(5, []);
        merges.announce(6, [key("c")]);
        assert_eq!(known(&merges, 6, &["c"]), [false]);
    }

    #[test]
    fn a_change_of_the_tree_of_which_nothing_is_known_makes_all_forgotten() {
        let merges = Merges::new();
        remember(&merges, 3, &["a"]);
        merges.announce(5, []);
        assert_eq!(known(&merges, 5, &["a"]), [false]);
        remember(&merges, 5, &["a"]);
        // An older snapshot is not of what is remembered.
        assert_eq!(known(&merges, 4, &["a"]), [false]);
        remember(&merges, 4, &["a"]);
        (5..=5 + MOST_MERGES).for_each(|transaction| merges.announce(transaction, []));
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
            merges.announce(transaction, [key("c")]);
            assert_eq!(recall(transaction, "c"), Some(vec![1, 2]), "{transaction}");
        });
        merges.announce(50, [key("b")]);
        assert_eq!(recall(50, "c"), None);
        merges.remembered(50).note(b"name", &[hash("a")], &[3]);
        // Merges that nobody recalled anything after.
        for transaction in 51..52 + MOST_MERGES {
            merges.announce(transaction, [key("c")]);
            drop(merges.remembered(transaction));
        }
        assert_eq!(recall(51 + MOST_MERGES, "c"), None);
    }

    #[test]
    fn a_page_is_recalled_until_a_row_of_its_partition_changes() {
        let merges = Merges::new();
        let recall = |transaction, room| merges.remembered(transaction).recall_page(5, room);
        merges.remembered(3).note_page(5, 100, &Bytes::from_static(b"page"));
        assert_eq!((recall(3, 100), recall(3, 99)), (Some(Bytes::from_static(b"page")), None));
        merges.announce(4, [inode(6, b"a").key, inode_path(5).key]);
        assert!(recall(4, 100).is_some());
        for (transaction, row) in [(5, key("a")), (6, dir_stat(5, b"b").key)] {
            merges.remembered(transaction - 1).note_page(5, 100, &Bytes::new());
            merges.announce(transaction, [row]);
            assert!(recall(transaction - 1, 100).is_some() && recall(transaction, 100).is_none());
        }
    }

    #[test]
    fn a_page_is_all_threads_and_not_for_older_snapshots() {
        let merges = Merges::new();
        std::thread::scope(|scope| {
            scope.spawn(|| merges.remembered(7).note_page(5, 100, &Bytes::new()));
        });
        merges.announce(8, [inode(6, b"a").key]);
        let recall = |transaction| merges.remembered(transaction).recall_page(5, 100).is_some();
        assert!(!recall(6) && recall(7) && recall(8));
        // It is known to hold at 8 now, which says nothing of 7 to those who do not know what was merged then.
        assert!(!recall(7));
    }

    #[test]
    fn pages_take_no_more_than_their_room() {
        let merges = Merges::new();
        let page = Bytes::from(vec![0; MOST_PAGE_BYTES as usize / 2000]);
        (0..4000).for_each(|partition| merges.remembered(1).note_page(partition, 1, &page));
        let kept = (0..4000).filter(|partition| merges.remembered(1).recall_page(*partition, 1).is_some());
        assert!((1000..2000).contains(&kept.count()));
        assert!(merges.pages.weight() <= MOST_PAGE_BYTES);
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

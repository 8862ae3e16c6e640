//! list — ClientProtocol.getListing, getBatchedListing        (Java: FSDirStatAndListingOp, FSNamesystem)
//!
//! Held    nothing: they only read.
//! Rows    inodes 1r a component and an entry · dir_stats 2r, and 1r a directory among the entries. Two scans of the
//!         same partition (the root: of each of its buckets), and a count on every page but the first.
//! Cost    warm: 1 fetch a page. The root + 1 when its entries crowd in few buckets. getBatchedListing: + 1 for each
//!         path with more entries than the page has for each of them. lmdb with a log: no rows where it remembers the page.
//! Differs the entries that remain are exact up to 10 000 (below the root up to 156 in each bucket) on later pages;
//!         beyond, fewer are told than there are. The first page's are always exact.

use bytes::Bytes;
use trellis_metastore::change::Hold;
use trellis_metastore::key::{MAX_KEY_BYTES, Scan, name_bytes};
use trellis_metastore::schema::{DirStats, Inodes, ROOT_ID, Table, child_partitions};

use super::listed::{Entries, Entry};
use super::status::FileStatus;
use crate::engine::permission::{EXECUTE, READ, may};
use crate::engine::tx::Tx;
use crate::engine::walk::{DirOp, Node, Target, Walked};
use crate::path::{INODES, Path, RAW, SNAPSHOT};
use crate::refusal::{Halt, Kind, Result, RpcError, refuse};

/// Paths of one batched listing (`dfs.batched.ls.limit`).
pub const MAX_BATCHED_PATHS: usize = 100;
/// The mode of what `/.reserved` lists.
const RESERVED_ENTRY_MODE: u32 = 0o770;
/// What each of the root's many buckets is first asked for: this part of a page.
const ROOT_SHARE: u32 = 16;

/// Arguments of [`get_listing`].
#[derive(Clone, Debug)]
pub struct GetListing {
    /// The directory, or a file.
    pub path: Path,
    /// The page starts strictly after this name, which need not exist; empty = the first page. May be a path by inode
    /// id (`/.reserved/.inodes/ID`), which stands for that inode's name.
    pub start_after: Bytes,
    /// Whether the caller will ask for the blocks of what is listed ([`super::locations::locate_all`]): then a page ends,
    /// as in stock, with the entry whose replicas make it full.
    pub with_blocks: bool,
}

/// A page of a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// In stock's order: names compare as signed bytes.
    pub entries: Vec<FileStatus>,
    /// How many entries come after these; 0 = this was the last page.
    pub remaining: u64,
}

/// The same for those who only show it.
#[derive(Debug)]
pub enum Shown {
    /// A page of a directory, as it is shown.
    Page(Bytes),
    /// Anything else.
    Listing(Listing),
}

/// Lists a directory, a page at a time; a file is its own only entry, without a name. `None` when there is nothing.
pub fn get_listing(tx: &mut Tx<'_, '_>, call: &GetListing) -> Result<Option<Listing>> {
    let page = Page::of(tx, call.with_blocks);
    want_listing(tx, &call.path, &call.start_after, page.entries);
    list(tx, &call.path, &call.start_after, page.entries, page)
}

/// The same, without blocks, for those who show entries of a directory, and how many come after these, always in the
/// same way: a page that shows all that is in its directory is made once, until something in there changes.
pub fn show_listing(
    tx: &mut Tx<'_, '_>,
    call: &GetListing,
    show: impl FnOnce(&Entries, u64) -> Bytes,
) -> Result<Option<Shown>> {
    let page = Page::of(tx, false);
    want_listing(tx, &call.path, &call.start_after, page.entries);
    let (directory, after) = match find(tx, &call.path, &call.start_after)? {
        None => return Ok(None),
        Some(Found::Directory(directory, after)) => (directory, after),
        Some(Found::Other(listing)) => return Ok(Some(Shown::Listing(listing))),
    };
    // The children of the root are in many partitions.
    let id = Some(directory.id()).filter(|id| *id != ROOT_ID && after.is_empty());
    if let Some(shown) = id.and_then(|id| tx.recall_page(id, page.entries)) {
        return Ok(Some(Shown::Page(shown)));
    }
    let (entries, remaining) = list_directory(tx, &directory, &after, page.entries, page)?;
    let shown = show(&entries, remaining);
    if let Some(id) = id.filter(|_| entries.len() < page.entries as usize) {
        tx.note_page(id, page.entries, &shown);
    }
    Ok(Some(Shown::Page(shown)))
}

/// How much a page takes.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// Entries.
    entries: u32,
    /// Whether the replicas of a file count, each as an entry.
    weighed: bool,
}

impl Page {
    fn of(tx: &Tx<'_, '_>, weighed: bool) -> Page {
        Page { entries: tx.ctx.config.listing_page.clamp(1, Scan::MAX_ROWS), weighed }
    }

    /// How much an entry takes of a page.
    fn weight(self, block_count: u32, replication: u32) -> u64 {
        let replicas = u64::from(block_count) * u64::from(replication);
        if self.weighed { replicas.max(1) } else { 1 }
    }

    /// Cuts a page after the entry that makes it full; answers how many entries were left out.
    fn cut(self, entries: &mut Entries) -> u64 {
        let (mut weight, before) = (0, entries.len());
        if !self.weighed && before <= self.entries as usize {
            return 0;
        }
        let full = entries.iter().position(|Entry { inode, .. }| {
            weight += self.weight(inode.block_count, inode.replication);
            weight >= u64::from(self.entries)
        });
        entries.truncate(full.map_or(before, |full| full + 1));
        (before - entries.len()) as u64
    }
}

/// Arguments of [`get_batched_listing`].
#[derive(Clone, Debug)]
pub struct GetBatchedListing {
    /// What to list, in this order.
    pub paths: Vec<Path>,
    /// Where the last answer said to go on.
    pub cursor: Option<BatchCursor>,
    /// See [`GetListing::with_blocks`].
    pub with_blocks: bool,
}

/// Where a batched listing goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchCursor {
    /// Which of the paths.
    pub index: usize,
    /// The last name that was listed in it; empty = it is done.
    pub start_after: Bytes,
}

/// What [`get_batched_listing`] answers.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchedListing {
    /// For each path listed, by its place in the call: entries, or why there are none.
    pub listings: Vec<(usize, std::result::Result<Vec<FileStatus>, RpcError>)>,
    /// Present when there is more.
    pub next: Option<BatchCursor>,
}

/// Lists several paths, until a page is full.
pub fn get_batched_listing(tx: &mut Tx<'_, '_>, call: &GetBatchedListing) -> Result<BatchedListing> {
    let count = call.paths.len();
    if count > MAX_BATCHED_PATHS {
        let why = format!("Too many source paths ({count} > {MAX_BATCHED_PATHS})");
        return refuse(Kind::IllegalArgument, why);
    }
    let page = Page::of(tx, call.with_blocks);
    let share = (page.entries / count.max(1) as u32).max(1);
    let (first, mut after) = match &call.cursor {
        None => (0, Bytes::new()),
        Some(cursor) if cursor.start_after.is_empty() => (cursor.index.saturating_add(1), Bytes::new()),
        Some(cursor) => (cursor.index, cursor.start_after.clone()),
    };
    for (i, path) in call.paths.iter().enumerate().skip(first) {
        let from = if i == first { &after[..] } else { &[] };
        want_listing(tx, path, from, share);
    }
    let (mut listings, mut listed) = (Vec::new(), 0);
    for (i, path) in call.paths.iter().enumerate().skip(first) {
        let listing = match list(tx, path, &std::mem::take(&mut after), share, page) {
            Ok(Some(listing)) => Ok(listing),
            Ok(None) => {
                Err(RpcError::new(Kind::FileNotFound, format!("Path {} does not exist", path.text())))
            }
            Err(Halt::Refused(error)) => Err(error),
            Err(halt) => return Err(halt),
        };
        let entries = listing.as_ref().map_or(&[][..], |listing| &listing.entries);
        let weight =
            |FileStatus { inode, .. }: &FileStatus| page.weight(inode.block_count, inode.replication);
        listed += entries.iter().map(weight).sum::<u64>();
        let more = i + 1 < count || listing.as_ref().is_ok_and(|listing| listing.remaining > 0);
        let last = listing.as_ref().ok().and_then(|listing| listing.entries.last());
        let next =
            BatchCursor { index: i, start_after: last.map(|entry| entry.name.clone()).unwrap_or_default() };
        listings.push((i, listing.map(|listing| listing.entries)));
        if listed >= u64::from(page.entries) {
            return Ok(BatchedListing { listings, next: more.then_some(next) });
        }
    }
    Ok(BatchedListing { listings, next: None })
}

/// Asks for all that a listing will need, as far as the hints know.
fn want_listing(tx: &mut Tx<'_, '_>, path: &Path, after: &[u8], first_cap: u32) {
    tx.want_hinted(&Target::new(path, DirOp::Read).with_stat());
    let Some(id) = tx.hinted_id(path) else { return };
    for scan in Scans::of(id, after, first_cap).all() {
        tx.want_scan(&scan);
    }
}

/// What there is to list.
enum Found {
    /// A directory, and the name after which its page starts.
    Directory(Box<Node>, Bytes),
    Other(Listing),
}

/// Finds what a path names, if the caller may list it.
fn find(tx: &mut Tx<'_, '_>, path: &Path, after: &Bytes) -> Result<Option<Found>> {
    if !after.starts_with(b"/")
        && let Some(node) = tx.pass_to(path, 0)?
    {
        if !node.is_dir() {
            return alone(tx, node).map(Some);
        }
        if may(&tx.ctx.user, &node.inode, READ | EXECUTE) {
            return Ok(Some(Found::Directory(Box::new(node), after.clone())));
        }
    }
    let walked = tx.walk_one(Target::new(path, DirOp::Read).with_stat())?;
    let after = match &after[..] {
        start @ [b'/', ..] => name_of_start(tx, start)?,
        _ => after.clone(),
    };
    let depth = walked.path.components().len();
    if walked.target().is_some_and(Node::is_dir) {
        tx.check_access(&walked, depth, READ | EXECUTE)?;
    }
    if path.is_exactly_reserved() {
        return Ok(Some(Found::Other(reserved(tx))));
    }
    if walked.path.components().last().is_some_and(|name| name.as_ref() == SNAPSHOT) {
        return refuse_snapshots(&walked);
    }
    let Some(node) = walked.target() else { return Ok(None) };
    if !node.is_dir() {
        return alone(tx, node.clone()).map(Some);
    }
    Ok(Some(Found::Directory(Box::new(node.clone()), after)))
}

/// A file, which is its own only entry.
fn alone(tx: &mut Tx<'_, '_>, file: Node) -> Result<Found> {
    let entries = vec![FileStatus::of(tx, file, Bytes::new())?];
    Ok(Found::Other(Listing { entries, remaining: 0 }))
}

/// Lists one path. Each partition is first asked for at most `first_cap` entries.
fn list(
    tx: &mut Tx<'_, '_>,
    path: &Path,
    after: &Bytes,
    first_cap: u32,
    page: Page,
) -> Result<Option<Listing>> {
    Ok(match find(tx, path, after)? {
        None => None,
        Some(Found::Directory(directory, after)) => {
            let (entries, remaining) = list_directory(tx, &directory, &after, first_cap, page)?;
            Some(Listing { entries: entries.statuses()?, remaining })
        }
        Some(Found::Other(listing)) => Some(listing),
    })
}

/// The name that a start given as a path stands for.
fn name_of_start(tx: &mut Tx<'_, '_>, start: &[u8]) -> Result<Bytes> {
    let text = String::from_utf8_lossy(start).into_owned();
    let path = Path::parse(&text)?;
    if !path.is_reserved() || path.components().len() < 2 {
        return Ok(Bytes::copy_from_slice(start));
    }
    match tx.walk_unchecked(Target::new(&path, DirOp::Read)) {
        Ok(walked) => Ok(walked.path.name()),
        Err(Halt::Refused(_)) => refuse(Kind::StartAfterNotFound, format!("Can't find startAfter {text}")),
        Err(halt) => Err(halt),
    }
}

fn reserved(tx: &Tx<'_, '_>) -> Listing {
    let group = &tx.ctx.config.supergroup;
    let entry = |name| FileStatus::unreal(name, RESERVED_ENTRY_MODE, group.clone(), 0);
    Listing { entries: vec![entry(INODES), entry(RAW)], remaining: 0 }
}

/// No directory has snapshots.
fn refuse_snapshots<T>(walked: &Walked) -> Result<T> {
    let above = walked.path_of(walked.path.components().len() - 1);
    match walked.parent() {
        None => refuse(Kind::FileNotFound, format!("Directory does not exist: {above}")),
        Some(_) => refuse(Kind::Snapshot, format!("Directory is not a snapshottable directory: {above}")),
    }
}

/// The scans of one page, one of each kind in every partition of the directory's children.
struct Scans {
    entries: Vec<Scan>,
    stats: Vec<Scan>,
    /// Entries past the cursor; none on the first page, whose directory knows its children.
    counts: Vec<Scan>,
}

impl Scans {
    fn of(directory: u64, after: &[u8], cap: u32) -> Scans {
        let partitions: Vec<u64> = child_partitions(directory).collect();
        let spread = partitions.len() as u32;
        let cap = if spread > 1 { (cap / ROOT_SHARE).max(1) } else { cap };
        // No name is as long as a key: what is cut off a longer cursor decides nothing.
        let after = (!after.is_empty()).then(|| name_bytes(&after[..after.len().min(MAX_KEY_BYTES)]));
        let scans = |table, limit| -> Vec<Scan> {
            let scan = |partition: &u64| match &after {
                Some(after) => Scan::of(table, *partition, limit).after(after),
                None => Scan::of(table, *partition, limit),
            };
            partitions.iter().map(scan).collect()
        };
        let counts = match after.is_some() {
            true => scans(Inodes::ID, Scan::MAX_COUNT / spread).into_iter().map(Scan::count).collect(),
            false => Vec::new(),
        };
        Scans { entries: scans(Inodes::ID, cap), stats: scans(DirStats::ID, cap), counts }
    }

    fn all(&self) -> impl Iterator<Item = Scan> {
        let Scans { entries, stats, counts } = self;
        entries.iter().chain(stats).chain(counts).cloned().collect::<Vec<_>>().into_iter()
    }
}

/// Entries of a directory, and how many come after these.
fn list_directory(
    tx: &mut Tx<'_, '_>,
    directory: &Node,
    after: &[u8],
    first_cap: u32,
    limits: Page,
) -> Result<(Entries, u64)> {
    let page = limits.entries;
    let mut scans = Scans::of(directory.id(), after, first_cap);
    scans.all().for_each(|scan| tx.want_scan(&scan));
    let (mut entries, mut counts) = Entries::scan(tx, &scans.entries)?;
    if !is_enough(&scans.entries, &entries, &counts, page) {
        for (i, found) in counts.iter().enumerate() {
            if *found >= scans.entries[i].limit as usize {
                scans.entries[i].limit = page;
                scans.stats[i].limit = page;
            }
        }
        scans.all().for_each(|scan| tx.want_scan(&scan));
        (entries, counts) = Entries::scan(tx, &scans.entries)?;
    }
    let end = known_end(&scans.entries, &entries, &counts).map(<[u8]>::to_vec);
    entries.keep(end.as_deref(), page as usize);
    entries.find_counters(tx, &scans.stats)?;
    let past_cursor = match scans.counts.is_empty() {
        // It was the last page: nothing is counted.
        _ if entries.len() < page as usize => 0,
        true => u64::try_from(tx.stat_of(directory, Hold::Loose)?.add).unwrap_or_default(),
        false => tx.count_all(&scans.counts)?.iter().sum(),
    };
    let past_page = past_cursor.saturating_sub(entries.len() as u64);
    let remaining = limits.cut(&mut entries).saturating_add(past_page);
    Ok((entries, remaining))
}

/// The last key up to which all entries are at hand; `None` = all of them are. Scans that came back full may have more.
fn known_end<'e>(scans: &[Scan], entries: &'e Entries, counts: &[usize]) -> Option<&'e [u8]> {
    let ends = counts.iter().scan(0, |end, count| {
        *end += count;
        Some(*end)
    });
    let full = scans.iter().zip(counts).zip(ends).filter(|((scan, count), _)| **count >= scan.limit as usize);
    full.filter_map(|(_, end)| entries.key(end.checked_sub(1)?)).min()
}

/// Whether a page can be made of these entries.
fn is_enough(scans: &[Scan], entries: &Entries, counts: &[usize], page: u32) -> bool {
    let Some(end) = known_end(scans, entries, counts) else { return true };
    entries.keys().filter(|key| *key <= end).count() >= page as usize
}

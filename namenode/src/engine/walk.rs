//! Path resolution: follows real rows from the root, prefetching what the hints suggest, and checks the way.
//!
//! An operation takes effect, for ancestors that it read `Loose`, when they were read. A directory that is deleted, or
//! moved to another parent, is walked in the same way and then held whole ([`Tx::hold_chain`]): every inode row up to the root
//! must be unchanged at commit.

use bytes::Bytes;
use smallvec::SmallVec;
use trellis_metastore::change::Hold;
use trellis_metastore::key::Key;
use trellis_metastore::schema::{
    self, DirStats, Passed, ROOT_ID, dir_stat, inode, inode_path, root_inode, root_stat,
};
use trellis_metastore::tx::{Record, Stop};

use super::permission::{EXECUTE, may};
use super::tx::Tx;
use super::walked::Ids;
pub use super::walked::{Node, Walked};
use crate::path::Path;
use crate::refusal::{Halt, Kind, Result, RpcError};

/// The mode of a directory that everybody may search.
const SEARCH_BY_ALL: u32 = 0o111;

/// Why a path is resolved (stock: `DirOp`); decides what a file in the middle of it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirOp {
    /// To read: a file in the middle is an AccessControlException, as in stock.
    Read,
    /// To change something that exists: the same.
    Write,
    /// To make something: new names are judged, and a file in the middle is a ParentNotDirectoryException.
    Create,
}

/// Which rows beside the chain the operation will read, so that the same fetch brings them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Also {
    /// `dir_stats` of the last component.
    pub stat: bool,
    /// `dir_stats` of its parent.
    pub parent_stat: bool,
    /// `inode_paths` of the last component.
    pub path: bool,
}

/// One path to resolve.
#[derive(Clone, Copy, Debug)]
pub struct Target<'p> {
    /// The path.
    pub path: &'p Path,
    /// Why.
    pub op: DirOp,
    /// What else.
    pub also: Also,
}

impl<'p> Target<'p> {
    /// A path, nothing else prefetched.
    pub fn new(path: &'p Path, op: DirOp) -> Self {
        Target { path, op, also: Also::default() }
    }

    /// Also prefetches the counters of the last component.
    pub fn with_stat(mut self) -> Self {
        self.also.stat = true;
        self
    }

    /// Also prefetches the counters of the parent.
    pub fn with_parent_stat(mut self) -> Self {
        self.also.parent_stat = true;
        self
    }

    /// Also prefetches the `inode_paths` row of the last component.
    pub fn with_path(mut self) -> Self {
        self.also.path = true;
        self
    }

    /// Whether what shall be made there may have such names.
    fn check_new(&self) -> Result<()> {
        match self.op {
            DirOp::Create => Ok(self.path.check_new()?),
            DirOp::Read | DirOp::Write => Ok(()),
        }
    }
}

/// What [`Tx::pass`] found.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // Made once a call and taken apart at once: a box would cost more.
pub enum Way {
    /// All directories on it let the caller through, as far as they exist; the inode at its end, if there is one.
    Open(Option<Node>),
    /// Something is in it, or may be: [`Tx::walk`] says what.
    Closed,
}

impl Tx<'_, '_> {
    /// Resolves paths and checks that the caller may walk them: every component but the last must be a directory
    /// that the caller may search, as far as components exist. All misses are noted before it stops.
    pub fn walk(&mut self, targets: &[Target<'_>]) -> Result<Vec<Walked>> {
        if let [only] = targets {
            only.check_new()?;
        }
        for target in targets {
            self.want_hinted(target);
        }
        let resolved: Vec<Result<Walked>> = targets.iter().map(|target| self.resolve(target)).collect();
        if resolved.iter().any(|result| matches!(result, Err(Halt::Stop(Stop::Miss)))) {
            return Err(Stop::Miss.into());
        }
        let mut all = Vec::with_capacity(targets.len());
        for (target, result) in targets.iter().zip(resolved) {
            target.check_new()?;
            let walked = result?;
            self.check_way(&walked, target.op)?;
            all.push(walked);
        }
        Ok(all)
    }

    /// Resolves one path without asking whether the caller may search the directories on it: [`Tx::check_way`] does.
    /// They must be directories all the same.
    pub fn walk_unchecked(&mut self, target: Target<'_>) -> Result<Walked> {
        self.want_hinted(&target);
        let walked = self.resolve(&target)?;
        self.check_directories(&walked, target.op, 0)?;
        Ok(walked)
    }

    /// Resolves one path.
    pub fn walk_one(&mut self, target: Target<'_>) -> Result<Walked> {
        self.walk(&[target])?.pop().ok_or_else(|| Stop::Fault("a walk lost its path".into()).into())
    }

    /// Resolves two paths, in one trip.
    pub fn walk_two(&mut self, first: Target<'_>, second: Target<'_>) -> Result<(Walked, Walked)> {
        let mut all = self.walk(&[first, second])?;
        match (all.pop(), all.pop()) {
            (Some(second), Some(first)) => Ok((first, second)),
            _ => Err(Stop::Fault("a walk lost its paths".into()).into()),
        }
    }

    /// Holds every inode row of a chain that was walked.
    pub fn hold_chain(&mut self, walked: &Walked) -> Result<()> {
        walked.keys().iter().try_for_each(|key| self.get(key, Hold::Held).map(drop))?;
        Ok(())
    }

    /// The counters of a directory on a path. Absent or another directory's: the rows are of different ages, and the
    /// operation runs again over fresh ones.
    pub fn stat_of(&mut self, node: &Node, hold: Hold) -> Result<Record<DirStats>> {
        match self.get(&node.stat_key(), hold)? {
            Some(stat) if stat.value.id == node.id() => Ok(stat),
            _ => Err(Stop::Stale.into()),
        }
    }

    /// Follows real rows down a path, as far as it exists.
    pub(super) fn follow(&mut self, path: Path) -> Result<Walked> {
        match self.follow_past(&path)? {
            Some((passed, nodes)) => Ok(Walked::new(path, passed, nodes)),
            None => self.follow_all(path),
        }
    }

    /// The usual case: all but the last component exist, and the directories above the last two are looked at, not
    /// decoded, and let the caller through. `None`: it is not so, or rows may not be at hand.
    fn follow_past(&mut self, path: &Path) -> Result<Option<(Ids, Vec<Node>)>> {
        let [above @ .., last] = path.components() else { return Ok(None) };
        let (passed, key, parent) = match above {
            [] => (Ids::new(), root_inode(), 0),
            [.., name] => match self.look_down(path, above.len() - 1)? {
                Some((ids, id)) => (ids, inode(id, name), id),
                None => return Ok(None),
            },
        };
        if self.ctx.hints.is_some() || self.is_too_long(last) {
            return Ok(None);
        }
        let Some(row) = self.get(&key, Hold::Loose)?.filter(|row| row.value.is_dir()) else {
            return Ok(None);
        };
        let name = above.last().cloned().unwrap_or_default();
        let parent = Node { parent, name, inode: row.value };
        let target = self.get(&inode(parent.id(), last), Hold::Loose)?;
        let target = target.map(|row| Node { parent: parent.id(), name: last.clone(), inode: row.value });
        Ok(Some((passed, std::iter::once(parent).chain(target).collect())))
    }

    /// The ids of the root and the first `n` components, and the last of them again: directories that let the caller
    /// through. They are looked at, not decoded, and recalled where everybody may pass: a walk takes several times as long.
    /// `None`: it is not so, or rows may not be at hand.
    fn look_down(&mut self, path: &Path, n: usize) -> Result<Option<(Ids, u64)>> {
        // Where a row may not be at hand, a walk notes all that will be needed.
        if self.ctx.hints.is_some() || path.is_reserved() {
            return Ok(None);
        }
        let text = path.text_to(n).as_bytes();
        if let Some(ids @ [.., last]) = self.rows.recall(text) {
            return Ok(Some((Ids::from_slice(ids), *last)));
        }
        let (mut ids, mut keys) = (Ids::new(), SmallVec::<[Key; 8]>::new());
        let (mut key, mut is_open_to_all) = (root_inode(), true);
        let mut names = path.components()[..n].iter();
        loop {
            let open = |row: &Passed<'_>| row.is_dir() && may(&self.ctx.user, *row, EXECUTE);
            let looked =
                self.rows.look(&key, |row| Passed::read(row).filter(open).map(|row| (row.id, row.mode)))?;
            let Some(Some((id, mode))) = looked else { return Ok(None) };
            is_open_to_all &= mode & SEARCH_BY_ALL == SEARCH_BY_ALL;
            ids.push(id);
            keys.push(key.key);
            match names.next() {
                Some(name) if self.is_too_long(name) => return Ok(None),
                Some(name) => key = inode(id, name),
                None => {
                    if is_open_to_all && n > 0 {
                        self.rows.note(text, &keys, &ids);
                    }
                    return Ok(Some((ids, id)));
                }
            }
        }
    }

    fn is_too_long(&self, name: &[u8]) -> bool {
        name.len() > self.ctx.config.max_component_bytes
    }

    /// Reads the inodes of all components that exist.
    fn follow_all(&mut self, path: Path) -> Result<Walked> {
        let Some(root) = self.get(&root_inode(), Hold::Loose)? else {
            return Err(
                Stop::Fault("the store has no root directory; run 'trellis store init'".into()).into()
            );
        };
        let mut nodes = Vec::with_capacity(path.components().len() + 1);
        nodes.push(Node { parent: 0, name: Bytes::new(), inode: root.value });
        for name in path.components() {
            let parent = &nodes[nodes.len() - 1];
            if !parent.is_dir() || name.len() > self.ctx.config.max_component_bytes {
                break;
            }
            let parent = parent.id();
            match self.get(&schema::inode(parent, name), Hold::Loose)? {
                Some(row) => {
                    if let Some(hints) = &self.ctx.hints {
                        hints.saw(parent, name, row.value.id);
                    }
                    nodes.push(Node { parent, name: name.clone(), inode: row.value });
                }
                None => {
                    if let Some(hints) = &self.ctx.hints {
                        hints.gone(parent, name);
                    }
                    break;
                }
            }
        }
        Ok(Walked::new(path, Ids::new(), nodes))
    }

    /// Finds the inode of the last component alone, for operations that only read.
    pub fn pass(&mut self, path: &Path) -> Result<Way> {
        let [.., name] = path.components() else { return Ok(Way::Closed) };
        let Some((_, parent)) = self.look_down(path, path.components().len() - 1)? else {
            return Ok(Way::Closed);
        };
        if self.is_too_long(name) {
            return Ok(Way::Open(None));
        }
        let row = self.get(&inode(parent, name), Hold::Loose)?;
        Ok(Way::Open(row.map(|row| Node { parent, name: name.clone(), inode: row.value })))
    }

    /// The inode at the end of a path, when all is as it is most of the time: it is there, the directories on the way let
    /// the caller through, and it grants `access` itself. `None`: a walk says what is there.
    pub fn pass_to(&mut self, path: &Path, access: u32) -> Result<Option<Node>> {
        Ok(match self.pass(path)? {
            Way::Open(node) => node.filter(|node| may(&self.ctx.user, &node.inode, access)),
            Way::Closed => None,
        })
    }

    /// Asks for every row that the hints suggest for a path.
    pub(crate) fn want_hinted(&mut self, target: &Target<'_>) {
        let Some(hints) = self.ctx.hints.clone() else { return };
        self.want(&root_inode());
        let Some(path) = self.hinted_path(target.path) else { return };
        let components = path.components();
        if components.is_empty() && target.also.stat {
            self.want(&root_stat());
        }
        let (mut grandparent, mut parent) = (None::<(u64, Bytes)>, ROOT_ID);
        for (i, name) in components.iter().enumerate() {
            if name.len() > self.ctx.config.max_component_bytes {
                return;
            }
            self.want(&inode(parent, name));
            let last = i + 1 == components.len();
            if last && target.also.parent_stat {
                self.want(&grandparent.as_ref().map_or_else(root_stat, |(id, own)| dir_stat(*id, own)));
            }
            if last && target.also.stat {
                self.want(&dir_stat(parent, name));
            }
            let Some(id) = hints.child(parent, name) else {
                // The first component that may not exist: what is made here is counted in the last known directory.
                if target.also.parent_stat && !last {
                    self.want(&grandparent.as_ref().map_or_else(root_stat, |(id, own)| dir_stat(*id, own)));
                }
                return;
            };
            if last && target.also.path {
                self.want(&inode_path(id));
            }
            grandparent = Some((parent, name.clone()));
            parent = id;
        }
    }

    /// Checks that every component but the last is a directory that the caller may search, as far as they exist.
    pub fn check_way(&self, walked: &Walked, op: DirOp) -> Result<()> {
        self.check_directories(walked, op, EXECUTE)
    }

    fn check_directories(&self, walked: &Walked, op: DirOp, access: u32) -> Result<()> {
        // What was passed is a directory, and lets the caller through.
        let inner = walked.path.components().len();
        for (i, node) in walked.nodes().take_while(|(i, _)| *i < inner) {
            if !node.is_dir() {
                let kind = if op == DirOp::Create { Kind::ParentNotDirectory } else { Kind::AccessControl };
                return Err(RpcError::new(kind, format!("{} (is not a directory)", walked.path_of(i))).into());
            }
            self.check_access(walked, i, access)?;
        }
        Ok(())
    }
}

//! Paths that do not start at the root's children: `/.reserved/.inodes/ID/…` and `/.reserved/raw/…`; and inode ids.

use bytes::Bytes;
use trellis_metastore::change::Hold;
use trellis_metastore::schema::{Inode, ROOT_ID, inode, inode_path};
use trellis_metastore::tx::Stop;

use super::tx::Tx;
use super::walk::{DirOp, Target, Walked};
use crate::path::{INODES, MAX_PATH_DEPTH, Path, RAW, RESERVED};
use crate::refusal::{Halt, Kind, Result, refuse};

/// What a path means (stock: `FSDirectory.resolveComponents`).
enum Meaning<'p> {
    /// The path is what it says.
    Plain,
    /// These components from the root, seen raw.
    Raw(&'p [Bytes]),
    /// An inode by its id, and components below it.
    ById(&'p Bytes, &'p [Bytes]),
}

fn meaning(components: &[Bytes]) -> Meaning<'_> {
    match components {
        [first, second, id, below @ ..] if first == RESERVED && second == INODES => Meaning::ById(id, below),
        // Nothing is called `/.reserved/raw/.reserved`, but it does not mean `/.reserved` either.
        [first, second, third] if first == RESERVED && second == RAW && third == RESERVED => Meaning::Plain,
        [first, second, below @ ..] if first == RESERVED && second == RAW => Meaning::Raw(below),
        _ => Meaning::Plain,
    }
}

fn parse_id(id: &Bytes) -> Option<u64> {
    std::str::from_utf8(id).ok()?.parse().ok()
}

/// The components of what lies `below` an inode at `base`. One `..` leads to the inode's parent, whatever follows it
/// (stock: look-ups for NFS).
fn go_on(mut base: Vec<Bytes>, below: &[Bytes]) -> Path {
    match below.first() {
        Some(up) if up.as_ref() == b".." => drop(base.pop()),
        _ => base.extend_from_slice(below),
    }
    Path::from_components(base)
}

impl Tx<'_, '_> {
    /// Resolves a path to inodes, as far as they exist. No permission is checked but that to change things by the raw
    /// view, which is the superuser's.
    pub(super) fn resolve(&mut self, target: &Target<'_>) -> Result<Walked> {
        match meaning(target.path.components()) {
            Meaning::Plain => self.follow(target.path.clone()),
            Meaning::Raw(below) => {
                if target.op != DirOp::Read && !self.ctx.user.superuser {
                    let user = &self.ctx.user.name;
                    let why = format!("Access denied for user {user}. Superuser privilege is required");
                    return refuse(Kind::AccessControl, why);
                }
                self.follow(Path::from_components(below.to_vec()))
            }
            Meaning::ById(id, below) => {
                let text = target.path.prefix(target.path.components().len());
                let Some(id) = parse_id(id) else {
                    return refuse(Kind::FileNotFound, format!("Invalid inode path: {text}"));
                };
                let Some(base) = self.climb(id)? else {
                    let why = format!("File for given inode path does not exist: {text}");
                    return refuse(Kind::FileNotFound, why);
                };
                self.follow(go_on(base, below))
            }
        }
    }

    /// Resolves an inode id: climbs to the root by `inode_paths`, then follows the rows down. `None` when the id is
    /// unknown or its tree is detached. No permission is checked.
    pub fn walk_id(&mut self, id: u64) -> Result<Option<Walked>> {
        if let Some(hinted) = self.hinted_climb(id).map(Path::from_components) {
            self.want_hinted(&Target::new(&hinted, DirOp::Read));
        }
        let Some(components) = self.climb(id)? else { return Ok(None) };
        let path = Path::from_components(components);
        let walked = self.follow(path)?;
        Ok(walked.target().is_some_and(|node| node.id() == id).then_some(walked))
    }

    /// Resolves the file of a call by inode id: by the path that the client sent (a hint like any other) or, when that
    /// does not end in this id, by `inode_paths`. `None` when the id is unknown or its tree is detached. No permission
    /// is checked.
    pub fn walk_file(&mut self, path: &Path, id: u64) -> Result<Option<Walked>> {
        self.want_hinted(&Target::new(path, DirOp::Read));
        if !path.is_reserved() {
            let walked = self.follow(path.clone())?;
            if walked.target().is_some_and(|node| node.id() == id) {
                return Ok(Some(walked));
            }
        }
        self.walk_id(id)
    }

    /// Inodes by their ids, each with its path, in one trip as far as the hints know them. `None` for an id that is
    /// unknown or whose tree is detached. No permission is checked.
    pub fn inodes_by_id(&mut self, ids: &[u64]) -> Result<Vec<Option<(Path, Inode)>>> {
        for id in ids {
            self.hinted_climb(*id);
            if let Some((parent, name)) = self.ctx.hints.as_ref().and_then(|hints| hints.parent(*id)) {
                self.want(&inode(parent, &name));
            }
        }
        let found: Vec<Result<_>> = ids.iter().map(|id| self.inode_by_id(*id)).collect();
        if found.iter().any(|found| matches!(found, Err(Halt::Stop(Stop::Miss)))) {
            return Err(Stop::Miss.into());
        }
        found.into_iter().collect()
    }

    fn inode_by_id(&mut self, id: u64) -> Result<Option<(Path, Inode)>> {
        let Some(place) = self.get(&inode_path(id), Hold::Loose)? else { return Ok(None) };
        let key = inode(place.value.parent, &place.value.name);
        self.want(&key);
        let Some(components) = self.climb(id)? else { return Ok(None) };
        let row = self.get(&key, Hold::Loose)?.filter(|row| row.value.id == id);
        Ok(row.map(|row| (Path::from_components(components), row.value)))
    }

    /// The components of the path of an inode, by `inode_paths`.
    fn climb(&mut self, id: u64) -> Result<Option<Vec<Bytes>>> {
        self.hinted_climb(id);
        let (mut names, mut at) = (Vec::new(), id);
        while at != ROOT_ID {
            let Some(row) = self.get(&inode_path(at), Hold::Loose)? else { return Ok(None) };
            if names.len() > MAX_PATH_DEPTH {
                let why =
                    format!("inode {id} lies deeper than {MAX_PATH_DEPTH} levels; run 'trellis store check'");
                return Err(Stop::Fault(why).into());
            }
            names.push(row.value.name);
            at = row.value.parent;
        }
        names.reverse();
        Ok(Some(names))
    }

    /// Asks for the `inode_paths` rows from an inode up, as far as the hints know; the components if they reach the
    /// root.
    fn hinted_climb(&mut self, id: u64) -> Option<Vec<Bytes>> {
        let hints = self.ctx.hints.clone()?;
        let (mut names, mut at) = (Vec::new(), id);
        while at != ROOT_ID {
            self.want(&inode_path(at));
            let (parent, name) = hints.parent(at)?;
            if names.len() > MAX_PATH_DEPTH {
                return None;
            }
            names.push(name);
            at = parent;
        }
        names.reverse();
        Some(names)
    }

    /// The path from the root that the hints suggest for a path, if they do.
    pub(super) fn hinted_path(&mut self, path: &Path) -> Option<Path> {
        match meaning(path.components()) {
            Meaning::Plain => Some(path.clone()),
            Meaning::Raw(below) => Some(Path::from_components(below.to_vec())),
            Meaning::ById(id, below) => Some(go_on(self.hinted_climb(parse_id(id)?)?, below)),
        }
    }

    /// The inode id that the hints suggest for a path.
    pub(crate) fn hinted_id(&mut self, path: &Path) -> Option<u64> {
        let hints = self.ctx.hints.clone()?;
        let path = self.hinted_path(path)?;
        path.components().iter().try_fold(ROOT_ID, |parent, name| hints.child(parent, name))
    }
}

//! What must have been there when a trace began, so that its lines do again what they did.
//!
//! The trace is gone through in order with a namespace of which nothing is known at first. A line that was allowed shows
//! what was there before it; what no line before it made must have been there at the beginning. Two trees: what was there
//! at the start, and what is there now, whose nodes say from where in the first they come: a file that is opened below a
//! directory that was renamed was there under the old name.

use std::collections::HashMap;

use super::commands::{Command, Kind, Says};
use super::steps::Step;
use crate::error::{Error, Result};

/// No larger namespace is gone through: it would take some gigabytes.
const MAX_OBJECTS: usize = 20_000_000;
/// In place of a node: what was there is no more.
const GONE: u32 = u32::MAX;
/// Of a node that was not there at the start.
const MADE: u32 = u32::MAX;
const ROOT: u32 = 0;

/// What is known of a trace's namespace.
#[derive(Debug)]
pub struct Model {
    ids: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
    /// Node by directory and name.
    entries: HashMap<(u32, u32), u32>,
    now: Vec<Now>,
    start: Vec<Start>,
    /// Lines that name what the trace itself had moved or removed, or never made.
    pub unexplained: u64,
    /// Lines that made directories above their path again, with the depth of the highest one, by line.
    pub made_above: Vec<(u64, usize)>,
}

/// What is there now.
#[derive(Debug, Clone, Copy)]
struct Now {
    /// In the other tree, or [`MADE`].
    start: u32,
    is_dir: bool,
}

/// What may have been there at the start.
#[derive(Debug, Clone, Copy)]
struct Start {
    parent: u32,
    name: u32,
    /// Who owns it, if a line says so; else who names it first.
    user: u32,
    is: Is,
    kind: Option<Guess>,
}

/// What an object is.
#[derive(Debug, Clone, Copy)]
struct Guess {
    kind: Kind,
    is_sure: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    /// Nothing says so.
    Unknown,
    /// Somebody asked for it, and nothing says that it was not there.
    Perhaps,
    /// It was there.
    There,
    /// It was not.
    Absent,
}

/// What must be there at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// In the trace.
    pub path: String,
    /// What it is.
    pub kind: Kind,
    /// Number of the user who owns it, if the trace says so; else of who names it first.
    pub user: u32,
}

impl Guess {
    fn sure(kind: Kind) -> Guess {
        Guess { kind, is_sure: true }
    }
}

impl Start {
    fn is_dir(&self) -> bool {
        self.kind.is_some_and(|guess| guess.kind == Kind::Directory)
    }
}

impl Default for Model {
    fn default() -> Model {
        let root =
            Start { parent: ROOT, name: 0, user: 0, is: Is::There, kind: Some(Guess::sure(Kind::Directory)) };
        Model {
            ids: HashMap::new(),
            names: Vec::new(),
            entries: HashMap::new(),
            now: vec![Now { start: ROOT, is_dir: true }],
            start: vec![root],
            unexplained: 0,
            made_above: Vec::new(),
        }
    }
}

impl Model {
    /// Notes what a line says; `user` is the number of its user, `owner` of who it says owns the path.
    ///
    /// # Errors
    /// There are too many paths.
    pub fn note(&mut self, step: &Step, user: u32, owner: Option<u32>) -> Result<()> {
        if self.now.len().max(self.start.len()) > MAX_OBJECTS {
            return Err(Error::refused(format!(
                "the trace names more than {MAX_OBJECTS} paths: replay a part of it with --limit, or with --from and --until"
            )));
        }
        // What was refused says nothing.
        if !step.allowed {
            return Ok(());
        }
        let path = step.path.as_str();
        let is_explained = match step.command.row().says {
            Says::Perhaps(kind) => {
                self.perhaps(path, kind, user);
                true
            }
            Says::Was(kind) => self.was_of(path, Guess { kind, is_sure: false }, user, owner),
            Says::Is(kind) => self.was_of(path, Guess::sure(kind), user, owner),
            Says::Makes(kind) => {
                if let Some(depth) = self.makes(path, kind, user) {
                    self.made_above.push((step.line, depth));
                }
                true
            }
            Says::Removes => self.removes(path, Guess { kind: Kind::File, is_sure: false }, user),
            Says::Moves => self.moves(step, user),
            Says::Joins => {
                let file = Guess::sure(Kind::File);
                let target = self.was(path, file, user).is_some();
                step.sources.iter().fold(target, |all, source| self.removes(source, file, user) && all)
            }
        };
        self.unexplained += u64::from(!is_explained);
        Ok(())
    }

    fn id(&mut self, name: &str) -> u32 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.names.len() as u32;
        self.ids.insert(name.into(), id);
        self.names.push(name.into());
        id
    }

    fn put(&mut self, dir: u32, name: u32, node: Now) -> u32 {
        let id = self.now.len() as u32;
        self.now.push(node);
        self.entries.insert((dir, name), id);
        id
    }

    /// The node of a name in a directory; one that may have been there at the start is noted. None: it is not there.
    fn child(&mut self, dir: u32, name: u32, user: u32) -> Option<u32> {
        if let Some(id) = self.entries.get(&(dir, name)) {
            return Some(*id).filter(|id| *id != GONE);
        }
        let parent = self.now[dir as usize].start;
        if parent == MADE {
            return None;
        }
        let start = self.start.len() as u32;
        self.start.push(Start { parent, name, user, is: Is::Unknown, kind: None });
        Some(self.put(dir, name, Now { start, is_dir: false }))
    }

    /// Goes down a path as far as it is there: the last node, and the names that are left.
    fn walk<'p>(&mut self, path: &'p str, user: u32) -> (u32, Vec<&'p str>) {
        let (mut node, mut names) = (ROOT, path.split('/').filter(|name| !name.is_empty()));
        while let Some(name) = names.next() {
            let id = self.id(name);
            match self.child(node, id, user) {
                Some(child) => node = child,
                None => return (node, std::iter::once(name).chain(names).collect()),
            }
        }
        (node, Vec::new())
    }

    fn find(&mut self, path: &str, user: u32) -> Option<u32> {
        let (node, left) = self.walk(path, user);
        left.is_empty().then_some(node)
    }

    /// Notes that a node was there at the start, if that is where it comes from, and so was what is above it.
    fn prove(&mut self, node: u32, guess: Guess) {
        let at = self.now[node as usize].start;
        if at == MADE {
            return;
        }
        let start = &mut self.start[at as usize];
        if start.kind.is_none_or(|known| guess.is_sure && !known.is_sure) {
            start.kind = Some(guess);
        }
        let (mut at, mut was_there) = (at, std::mem::replace(&mut start.is, Is::There) == Is::There);
        // What something that was there lies in was there, and is a directory whatever else was thought of it.
        while !was_there {
            at = self.start[at as usize].parent;
            let above = &mut self.start[at as usize];
            above.kind = Some(Guess::sure(Kind::Directory));
            was_there = std::mem::replace(&mut above.is, Is::There) == Is::There;
        }
    }

    fn perhaps(&mut self, path: &str, kind: Kind, user: u32) {
        let Some(node) = self.find(path, user) else { return };
        let at = self.now[node as usize].start;
        if at == MADE {
            return;
        }
        let start = &mut self.start[at as usize];
        start.kind.get_or_insert(Guess { kind, is_sure: false });
        if start.is == Is::Unknown {
            start.is = Is::Perhaps;
        }
    }

    fn was(&mut self, path: &str, guess: Guess, user: u32) -> Option<u32> {
        let node = self.find(path, user)?;
        self.prove(node, guess);
        Some(node)
    }

    fn was_of(&mut self, path: &str, guess: Guess, user: u32, owner: Option<u32>) -> bool {
        let Some(node) = self.was(path, guess, user) else { return false };
        let start = self.start.get_mut(self.now[node as usize].start as usize);
        if let (Some(start), Some(owner)) = (start, owner) {
            start.user = owner;
        }
        true
    }

    /// The directory of a path and its name in it, once the directory is known to be there; None: it is not.
    fn parent(&mut self, path: &str, user: u32) -> Option<(u32, u32)> {
        let (above, name) = path.rsplit_once('/')?;
        let dir = self.was(above, Guess::sure(Kind::Directory), user)?;
        Some((dir, self.id(name)))
    }

    /// Whether what stands under a name was there for sure; if that is not known, it was not.
    fn stays(&mut self, dir: u32, name: u32) -> Option<u32> {
        let node = *self.entries.get(&(dir, name)).filter(|id| **id != GONE)?;
        let at = self.now[node as usize].start;
        if at == MADE {
            return Some(node);
        }
        let start = &mut self.start[at as usize];
        if start.is != Is::There {
            start.is = Is::Absent;
            return None;
        }
        Some(node)
    }

    /// Makes a path. The depth of the highest directory above it that is made, too, if there is one.
    fn makes(&mut self, path: &str, kind: Kind, user: u32) -> Option<usize> {
        let (above, name) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty())?;
        let (mut dir, left) = self.walk(above, user);
        self.prove(dir, Guess::sure(Kind::Directory));
        let depth = above.split('/').filter(|name| !name.is_empty()).count();
        let made_above = (!left.is_empty()).then(|| depth + 1 - left.len());
        for name in left {
            let id = self.id(name);
            dir = self.put(dir, id, Now { start: MADE, is_dir: true });
        }
        let id = self.id(name);
        let is_dir = kind == Kind::Directory;
        match self.stays(dir, id) {
            // A directory that is there stays as it is, a file is replaced.
            Some(_) if is_dir => {}
            _ => drop(self.put(dir, id, Now { start: MADE, is_dir })),
        }
        made_above
    }

    fn removes(&mut self, path: &str, guess: Guess, user: u32) -> bool {
        let Some((dir, name)) = self.parent(path, user) else { return false };
        let Some(node) = self.child(dir, name, user) else { return false };
        self.prove(node, guess);
        self.entries.insert((dir, name), GONE);
        true
    }

    fn moves(&mut self, step: &Step, user: u32) -> bool {
        let (from, to) = (step.path.as_str(), step.to.as_deref().unwrap_or(&step.path));
        let Some((dir, name)) = self.parent(from, user) else { return false };
        let Some(node) = self.child(dir, name, user) else { return false };
        self.prove(node, Guess { kind: Kind::File, is_sure: false });
        if to == from || to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
            return to == from;
        }
        let Some((mut to_dir, mut to_name)) = self.parent(to, user) else { return false };
        if let Some(there) = self.stays(to_dir, to_name) {
            match step.command {
                // As the shell's mv: into it.
                Command::Rename if self.is_dir(there) => (to_dir, to_name) = (there, name),
                Command::RenameOptions if step.overwrite => {}
                _ => return false,
            }
        }
        self.entries.insert((dir, name), GONE);
        self.entries.insert((to_dir, to_name), node);
        true
    }

    fn is_dir(&self, node: u32) -> bool {
        let Now { start, is_dir } = self.now[node as usize];
        is_dir || self.start.get(start as usize).is_some_and(Start::is_dir)
    }

    /// The objects that must be there at the start, by number, once all lines are noted: directories level by level, then
    /// the files. Without the root.
    pub fn levels(&mut self) -> Vec<Vec<u32>> {
        let count = self.start.len();
        // What was absent had nothing in it. Parents come before what is in them.
        let (mut is_absent, mut depth) = (vec![false; count], vec![0; count]);
        for (at, start) in self.start.iter().enumerate().skip(1) {
            is_absent[at] = start.is == Is::Absent || is_absent[start.parent as usize];
            depth[at] = depth[start.parent as usize] + 1;
        }
        let (mut is_needed, mut has_any) = (vec![false; count], vec![false; count]);
        for (at, start) in self.start.iter().enumerate().skip(1).rev() {
            is_needed[at] = !is_absent[at] && (has_any[at] || start.is != Is::Unknown);
            has_any[start.parent as usize] |= is_needed[at];
        }
        let deepest = depth.iter().copied().max().unwrap_or_default();
        let mut levels = vec![Vec::new(); deepest + 1];
        for (at, start) in self.start.iter_mut().enumerate().skip(1).filter(|(at, _)| is_needed[*at]) {
            if has_any[at] {
                start.kind = Some(Guess::sure(Kind::Directory));
            }
            levels[if start.is_dir() { depth[at] - 1 } else { deepest }].push(at as u32);
        }
        levels.retain(|level| !level.is_empty());
        levels
    }

    /// One of them.
    pub fn object(&self, at: u32) -> Object {
        let Start { kind, user, .. } = self.start[at as usize];
        Object { path: self.path(at as usize), kind: kind.map_or(Kind::File, |guess| guess.kind), user }
    }
    fn path(&self, mut at: usize) -> String {
        let mut names = Vec::new();
        while at != ROOT as usize {
            names.push(&*self.names[self.start[at].name as usize]);
            at = self.start[at].parent as usize;
        }
        names.into_iter().rev().flat_map(|name| ["/", name]).collect()
    }
}

#[cfg(test)]
mod tests;

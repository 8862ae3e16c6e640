//! Random sequences of calls against a small model tree, which knows stock's rules and shares no code with the
//! operations: every answer must agree (the value, or the kind of the exception), and so must the trees in the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config as ProptestConfig, TestRunner};
use trellis_metastore::faulty::Faults;
use trellis_metastore::mem::Mem;
use trellis_metastore::sim::{self, Plan, World};
use trellis_namenode::config::Config;
use trellis_proto::exception::Kind;

use crate::calls::{As, assert_sound, new_file, root};
use crate::reap::reap_all;
use crate::support::{FRESH_STORE, Namenode, SUPERUSER, rounds};

/// Calls of a sequence, at most.
const CALLS: usize = 50;
/// Names that paths are made of.
const NAMES: u8 = 3;
/// The longest wait for a lock.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// A call, by the parts of its paths.
#[derive(Clone, Debug)]
enum Call {
    Mkdirs { path: Vec<u8>, mode: u32, parents: bool },
    Create { path: Vec<u8>, mode: u32, holder: u8, bits: u32, parents: bool },
    Complete { path: Vec<u8>, holder: u8 },
    Delete { path: Vec<u8>, recursive: bool },
    Rename { source: Vec<u8>, target: Vec<u8> },
    Rename2 { source: Vec<u8>, target: Vec<u8>, overwrite: bool },
    Chmod { path: Vec<u8>, mode: u32 },
    Chown { path: Vec<u8>, owner: u8 },
    Setrep { path: Vec<u8>, replication: u32 },
    Stat { path: Vec<u8> },
}

const USERS: [&str; 3] = [SUPERUSER, "alice", "bob"];

fn text(path: &[u8]) -> String {
    match path.is_empty() {
        true => "/".to_owned(),
        false => path.iter().map(|name| format!("/{}", char::from(b'a' + name))).collect(),
    }
}

fn holder(number: u8) -> String {
    format!("c{number}")
}

/// What a call came to.
type Answer = Result<String, Kind>;

#[derive(Clone, Debug, PartialEq)]
struct Node {
    mode: u32,
    owner: &'static str,
    /// `Some` = a directory.
    children: Option<BTreeMap<u8, Node>>,
    open: Option<String>,
    replication: u32,
}

impl Node {
    fn directory(mode: u32, owner: &'static str) -> Node {
        Node { mode, owner, children: Some(BTreeMap::new()), open: None, replication: 0 }
    }

    fn is_dir(&self) -> bool {
        self.children.is_some()
    }

    fn count(&self) -> usize {
        self.children.as_ref().map_or(0, BTreeMap::len)
    }

    fn lets(&self, user: &str, bits: u32) -> bool {
        let shift = if user == self.owner { 6 } else { 0 };
        user == SUPERUSER || (self.mode >> shift) & bits == bits
    }

    fn guards(&self, user: &str, child: &Node) -> bool {
        self.mode & 0o1000 != 0 && user != SUPERUSER && user != self.owner && user != child.owner
    }

    /// Whether everything below may be deleted by a user.
    fn all_below(&self, user: &str) -> bool {
        let Some(children) = self.children.as_ref().filter(|children| !children.is_empty()) else {
            return true;
        };
        self.lets(user, 7)
            && children.values().all(|child| !self.guards(user, child) && child.all_below(user))
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Tree {
    root: Node,
}

impl Tree {
    fn new() -> Tree {
        Tree { root: Node::directory(0o755, SUPERUSER) }
    }

    fn get(&self, path: &[u8]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, name| node.children.as_ref()?.get(name))
    }

    fn get_mut(&mut self, path: &[u8]) -> Option<&mut Node> {
        path.iter().try_fold(&mut self.root, |node, name| node.children.as_mut()?.get_mut(name))
    }

    fn children_of(&mut self, path: &[u8]) -> &mut BTreeMap<u8, Node> {
        self.get_mut(path).unwrap().children.as_mut().unwrap()
    }

    /// The deepest proper ancestor that exists.
    fn ancestor(&self, path: &[u8]) -> Option<&Node> {
        (0..path.len()).rev().find_map(|n| self.get(&path[..n]))
    }

    fn traverse(&self, user: &str, path: &[u8], makes: bool) -> Result<(), Kind> {
        for n in 0..path.len() {
            let Some(node) = self.get(&path[..n]) else { break };
            if !node.is_dir() {
                return Err(if makes { Kind::ParentNotDirectory } else { Kind::AccessControl });
            }
            if !node.lets(user, 1) {
                return Err(Kind::AccessControl);
            }
        }
        Ok(())
    }

    /// What delete and rename ask of the parent.
    fn may_remove(&self, user: &str, path: &[u8]) -> Result<(), Kind> {
        let Some(parent) = path.split_last().and_then(|(_, parent)| self.get(parent)) else { return Ok(()) };
        let sticky = self.get(path).is_some_and(|node| parent.guards(user, node));
        if sticky || !parent.lets(user, 2) { Err(Kind::AccessControl) } else { Ok(()) }
    }

    fn may_add(&self, user: &str, path: &[u8]) -> Result<(), Kind> {
        let refused = self.ancestor(path).is_some_and(|node| !node.lets(user, 2));
        if refused { Err(Kind::AccessControl) } else { Ok(()) }
    }

    fn make_parents(&mut self, path: &[u8], mode: u32, owner: &'static str) {
        for n in 1..path.len() {
            if self.get(&path[..n]).is_none() {
                self.children_of(&path[..n - 1]).insert(path[n - 1], Node::directory(mode, owner));
            }
        }
    }

    fn apply(&mut self, user: &'static str, call: &Call) -> Answer {
        match call {
            Call::Mkdirs { path, mode, parents } => self.mkdirs(user, path, *mode, *parents),
            Call::Create { path, mode, holder: by, bits, parents } => {
                self.create(user, path, *mode, &holder(*by), *bits, *parents)
            }
            Call::Complete { path, holder: by } => self.complete(user, path, &holder(*by)),
            Call::Delete { path, recursive } => self.delete(user, path, *recursive),
            Call::Rename { source, target } => self.rename(user, source, target),
            Call::Rename2 { source, target, overwrite } => self.rename2(user, source, target, *overwrite),
            Call::Chmod { path, mode } => self.own(user, path).map(|node| {
                node.mode = mode & 0o1777;
                String::new()
            }),
            Call::Chown { path, owner } => {
                let owner = USERS[usize::from(*owner)];
                let node = self.own(user, path)?;
                if user != SUPERUSER && owner != user {
                    return Err(Kind::AccessControl);
                }
                node.owner = owner;
                Ok(String::new())
            }
            Call::Setrep { path, replication } => {
                if *replication == 0 {
                    return Err(Kind::Io);
                }
                self.traverse(user, path, false)?;
                match self.get_mut(path) {
                    Some(node) if !node.lets(user, 2) => Err(Kind::AccessControl),
                    Some(node) if !node.is_dir() => {
                        node.replication = *replication;
                        Ok("true".into())
                    }
                    _ => Ok("false".into()),
                }
            }
            Call::Stat { path } => {
                self.traverse(user, path, false)?;
                Ok(self.get(path).map(show).unwrap_or_default())
            }
        }
    }

    fn own(&mut self, user: &str, path: &[u8]) -> Result<&mut Node, Kind> {
        self.traverse(user, path, false)?;
        match self.get_mut(path) {
            None => Err(Kind::FileNotFound),
            Some(node) if user != SUPERUSER && node.owner != user => Err(Kind::AccessControl),
            Some(node) => Ok(node),
        }
    }

    fn mkdirs(&mut self, user: &'static str, path: &[u8], mode: u32, parents: bool) -> Answer {
        self.traverse(user, path, true)?;
        match self.get(path) {
            Some(node) if node.is_dir() => return Ok("true".into()),
            Some(_) => return Err(Kind::FileAlreadyExists),
            None => {}
        }
        self.may_add(user, path)?;
        let (name, parent) = path.split_last().unwrap();
        if !parents && self.get(parent).is_none() {
            return Err(Kind::FileNotFound);
        }
        self.make_parents(path, mode & 0o777 | 0o300, user);
        self.children_of(parent).insert(*name, Node::directory(mode & 0o1777, user));
        Ok("true".into())
    }

    fn create(
        &mut self,
        user: &'static str,
        path: &[u8],
        mode: u32,
        by: &str,
        bits: u32,
        parents: bool,
    ) -> Answer {
        self.traverse(user, path, true)?;
        self.may_add(user, path)?;
        match self.get(path) {
            Some(node) if node.is_dir() => return Err(Kind::FileAlreadyExists),
            Some(node) if bits & 2 != 0 && !node.lets(user, 2) => return Err(Kind::AccessControl),
            Some(node) if bits & 2 == 0 => {
                let open = node.open.is_some();
                return Err(if open { Kind::AlreadyBeingCreated } else { Kind::FileAlreadyExists });
            }
            Some(_) => {}
            None => {
                if !parents && self.get(&path[..path.len() - 1]).is_none() {
                    return Err(Kind::FileNotFound);
                }
                if bits & 1 == 0 {
                    return Err(Kind::FileNotFound);
                }
            }
        }
        let above = self.ancestor(path).unwrap().mode & 0o777 | 0o300;
        self.make_parents(path, above, user);
        let (name, parent) = path.split_last().unwrap();
        let file = Node {
            mode: mode & 0o1777,
            owner: user,
            children: None,
            open: Some(by.to_owned()),
            replication: 3,
        };
        let shown = show(&file);
        self.children_of(parent).insert(*name, file);
        Ok(shown)
    }

    fn complete(&mut self, user: &str, path: &[u8], by: &str) -> Answer {
        self.traverse(user, path, false)?;
        match self.get_mut(path) {
            None => Err(Kind::FileNotFound),
            Some(node) if node.is_dir() => Err(Kind::LeaseExpired),
            Some(node) if node.open.as_ref().is_some_and(|open| open != by) => Err(Kind::LeaseExpired),
            Some(node) => {
                node.open = None;
                Ok("true".into())
            }
        }
    }

    fn delete(&mut self, user: &str, path: &[u8], recursive: bool) -> Answer {
        self.traverse(user, path, false)?;
        self.may_remove(user, path)?;
        let Some(node) = self.get(path) else { return Ok("false".into()) };
        if !node.all_below(user) {
            return Err(Kind::AccessControl);
        }
        if node.count() > 0 && !recursive {
            return Err(Kind::PathIsNotEmptyDirectory);
        }
        let Some((name, parent)) = path.split_last() else { return Ok("false".into()) };
        self.children_of(parent).remove(name);
        Ok("true".into())
    }

    fn move_node(&mut self, source: &[u8], target: &[u8]) {
        let (name, parent) = source.split_last().unwrap();
        let node = self.children_of(parent).remove(name).unwrap();
        let (name, parent) = target.split_last().unwrap();
        self.children_of(parent).insert(*name, node);
    }

    fn rename(&mut self, user: &str, source: &[u8], target: &[u8]) -> Answer {
        self.traverse(user, source, false)?;
        self.traverse(user, target, true)?;
        self.may_remove(user, source)?;
        let mut target = target.to_vec();
        if let Some(name) = source.last()
            && self.get(&target).is_some_and(Node::is_dir)
        {
            target.push(*name);
            self.traverse(user, &target, false)?;
        }
        self.may_add(user, &target)?;
        let parent_is_there = !target.is_empty() && self.get(&target[..target.len() - 1]).is_some();
        let answer = match () {
            () if source.is_empty() || self.get(source).is_none() => false,
            () if source == target => true,
            () if target.starts_with(source) || self.get(&target).is_some() || !parent_is_there => false,
            () => {
                self.move_node(source, &target);
                true
            }
        };
        Ok(answer.to_string())
    }

    fn rename2(&mut self, user: &str, source: &[u8], target: &[u8], overwrite: bool) -> Answer {
        self.traverse(user, source, false)?;
        self.traverse(user, target, true)?;
        self.may_remove(user, source)?;
        self.may_add(user, target)?;
        let Some(moved) = self.get(source) else { return Err(Kind::FileNotFound) };
        match self.get(target) {
            _ if source.is_empty() => return Err(Kind::Io),
            _ if source == target => return Err(Kind::FileAlreadyExists),
            _ if target.starts_with(source) || target.is_empty() => return Err(Kind::Io),
            Some(there) if there.is_dir() != moved.is_dir() => return Err(Kind::Io),
            Some(_) if !overwrite => return Err(Kind::FileAlreadyExists),
            Some(there) if there.count() > 0 => return Err(Kind::Io),
            None if self.get(&target[..target.len() - 1]).is_none() => return Err(Kind::FileNotFound),
            _ => {}
        }
        self.move_node(source, target);
        Ok(String::new())
    }
}

/// A node as both sides show it.
fn show(node: &Node) -> String {
    let kind = if node.is_dir() { 'd' } else { 'f' };
    let (mode, owner, count) = (node.mode, node.owner, node.count());
    format!("{kind} {mode:o} {owner} {count} {:?} {}", node.open, node.replication)
}

/// The same call, at a namenode.
async fn ask(at: As<'_>, call: &Call) -> Answer {
    let said = |yes: bool| yes.to_string();
    let quiet = |_| String::new();
    let answer = match call {
        Call::Mkdirs { path, mode, parents } => at.mkdirs(&text(path), *mode, *parents).await.map(said),
        Call::Create { path, mode, holder: by, bits, parents } => {
            let mut call = new_file(&text(path), &holder(*by), *bits);
            (call.mode, call.create_parent) = (*mode, *parents);
            at.create_as(call).await.map(|inode| shown(&inode, 0))
        }
        Call::Complete { path, holder: by } => at.complete(&text(path), 0, &holder(*by)).await.map(said),
        Call::Delete { path, recursive } => at.rm(&text(path), *recursive).await.map(said),
        Call::Rename { source, target } => at.mv(&text(source), &text(target)).await.map(said),
        Call::Rename2 { source, target, overwrite } => {
            at.mv2(&text(source), &text(target), *overwrite).await.map(|()| String::new())
        }
        Call::Chmod { path, mode } => at.chmod(&text(path), *mode).await.map(quiet),
        Call::Chown { path, owner } => {
            at.chown(&text(path), Some(USERS[usize::from(*owner)]), None).await.map(quiet)
        }
        Call::Setrep { path, replication } => at.setrep(&text(path), *replication).await.map(said),
        Call::Stat { path } => at
            .stat(&text(path))
            .await
            .map(|status| status.map(|status| shown(&status.inode, status.children)).unwrap_or_default()),
    };
    answer.map_err(|error| error.kind)
}

fn shown(inode: &trellis_metastore::schema::Inode, children: i64) -> String {
    let kind = if inode.is_dir() { 'd' } else { 'f' };
    let open = inode.open.as_ref().map(|writer| &writer.holder);
    format!("{kind} {:o} {} {children} {open:?} {}", inode.mode, inode.owner, inode.replication)
}

/// Whether the namenode has the model's tree: every node is there, with as many children.
async fn assert_same(nn: &Namenode, tree: &Tree) {
    let mut queue = vec![Vec::new()];
    while let Some(path) = queue.pop() {
        let node = tree.get(&path).unwrap();
        let there = root(nn).must(&text(&path)).await;
        assert_eq!(shown(&there.inode, there.children), show(node), "{}", text(&path));
        queue.extend(node.children.iter().flatten().map(|(name, _)| [path.clone(), vec![*name]].concat()));
    }
}

/// Every path of the model's tree with what is there.
fn listed(tree: &Tree) -> BTreeMap<Vec<u8>, String> {
    let (mut all, mut queue) = (BTreeMap::new(), vec![(Vec::new(), &tree.root)]);
    while let Some((path, node)) = queue.pop() {
        all.insert(path.clone(), show(node));
        let below = node.children.iter().flatten();
        queue.extend(below.map(|(name, child)| ([path.clone(), vec![*name]].concat(), child)));
    }
    all
}

/// The same of a namenode's tree.
async fn found(nn: &Namenode) -> BTreeMap<Vec<u8>, String> {
    let (mut all, mut queue) = (BTreeMap::new(), vec![Vec::new()]);
    while let Some(path) = queue.pop() {
        let Some(status) = root(nn).stat(&text(&path)).await.unwrap() else { continue };
        all.insert(path.clone(), shown(&status.inode, status.children));
        if status.inode.is_dir() {
            queue.extend((0..NAMES).map(|name| [path.clone(), vec![name]].concat()));
        }
    }
    all
}

/// All orders of `n` things.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(n - 1);
    let put = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, n - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..n).map(move |at| put(order, at))).collect()
}

/// A few calls at once, at two namenodes: answers and tree are those of one after another, in some order.
pub fn calls_at_once_are_some_order() {
    let few = proptest::collection::vec((Just(0usize), a_call()), 4);
    let run = runner(rounds(150, 5000)).run(&(any::<u64>(), calls(15), few), |(seed, before, at_once)| {
        let plan = Plan { seed, faults: Faults::waits(), lock_wait: (0.3, PAUSE), ..Plan::default() };
        sim::run(async {
            let world = World::new(&plan);
            let calm = Namenode::start(world.store(), 1000, Config::default()).await;
            let nodes = [Namenode::seated(&world.seat()), Namenode::seated(&world.seat())];
            let mut tree = Tree::new();
            for (_, call) in &before {
                assert_eq!(ask(root(&calm), call).await, tree.apply(SUPERUSER, call), "{call:?}");
            }
            let asked = at_once.iter().enumerate().map(|(i, (_, call))| ask(root(&nodes[i % 2]), call));
            let answers = futures::future::join_all(asked).await;
            world.settle().await;
            let left = found(&calm).await;
            let fits = |order: &Vec<usize>| {
                let mut tree = tree.clone();
                let same = order.iter().all(|i| tree.apply(SUPERUSER, &at_once[*i].1) == answers[*i]);
                same && listed(&tree) == left
            };
            assert!(
                orders(at_once.len()).iter().any(fits),
                "in no order: {at_once:?} after {before:?} answered {answers:?} and left {left:?}"
            );
            assert_sound(&calm).await;
        });
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}

fn a_path() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        1 => Just(Vec::new()),
        12 => proptest::collection::vec(0..NAMES - 1, 1..3),
        12 => proptest::collection::vec(0..NAMES, 1..5),
    ]
}

fn a_mode() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => Just(0o755),
        4 => Just(0o777),
        2 => Just(0o1777),
        1 => Just(0o700),
        1 => 0u32..0o10000,
    ]
}

fn a_call() -> impl Strategy<Value = Call> {
    let path = a_path;
    prop_oneof![
        5 => (path(), a_mode(), any::<bool>())
            .prop_map(|(path, mode, parents)| Call::Mkdirs { path, mode, parents }),
        6 => (path(), a_mode(), 0u8..2, 1u32..4, any::<bool>())
            .prop_map(|(path, mode, holder, bits, parents)| Call::Create { path, mode, holder, bits, parents }),
        5 => (path(), 0u8..2).prop_map(|(path, holder)| Call::Complete { path, holder }),
        3 => (path(), any::<bool>()).prop_map(|(path, recursive)| Call::Delete { path, recursive }),
        4 => (path(), path()).prop_map(|(source, target)| Call::Rename { source, target }),
        6 => (path(), path(), any::<bool>())
            .prop_map(|(source, target, overwrite)| Call::Rename2 { source, target, overwrite }),
        3 => (path(), a_mode()).prop_map(|(path, mode)| Call::Chmod { path, mode }),
        2 => (path(), 0u8..3).prop_map(|(path, owner)| Call::Chown { path, owner }),
        1 => (path(), 0u32..3).prop_map(|(path, replication)| Call::Setrep { path, replication }),
        2 => path().prop_map(|path| Call::Stat { path }),
    ]
}

fn calls(n: usize) -> impl Strategy<Value = Vec<(usize, Call)>> {
    let user = prop_oneof![3 => Just(0usize), 2 => Just(1), 1 => Just(2)];
    proptest::collection::vec((user, a_call()), 1..n)
}

pub fn runner(cases: u32) -> TestRunner {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    )
}

pub fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

/// The kind of a call, for counting.
fn kind_of(call: &Call) -> String {
    let text = format!("{call:?}");
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// How often a kind of call was taken (true) and refused (false).
type Seen = std::cell::RefCell<BTreeMap<(String, bool), usize>>;

/// One client after another.
pub fn sequences_agree_with_the_model() {
    let seen = Seen::default();
    sequences(rounds(200, 5000), "mem", &seen);
    // Each kind of call was taken and refused often enough for the comparison to mean something.
    let seen = seen.into_inner();
    assert_eq!(seen.len(), 20, "{seen:?}");
    assert!(seen.values().all(|count| *count >= 10), "{seen:?}");
}

/// The same over the embedded store.
pub fn sequences_agree_over_lmdb() {
    sequences(rounds(40, 1000), "lmdb", &Seen::default());
}

/// The same over the embedded store with a log.
pub fn sequences_agree_over_a_log() {
    sequences(rounds(40, 1000), "lmdb-log", &Seen::default());
}

fn sequences(cases: u32, store: &'static str, seen: &Seen) {
    FRESH_STORE.set(store);
    let run = runner(cases).run(&calls(CALLS), |calls| {
        block_on(async {
            let nn = Namenode::fresh().await;
            // Everybody may do something in the root.
            let mut tree = Tree::new();
            tree.root.mode = 0o777;
            root(&nn).chmod("/", 0o777).await.unwrap();
            for (i, (user, call)) in calls.iter().enumerate() {
                let user = USERS[*user];
                let expected = tree.apply(user, call);
                let answer = ask(As { nn: &nn, user }, call).await;
                assert_eq!(answer, expected, "call {i}, {user}: {call:?}");
                *seen.borrow_mut().entry((kind_of(call), answer.is_ok())).or_default() += 1;
            }
            assert_same(&nn, &tree).await;
            assert_sound(&nn).await;
            reap_all(&nn).await;
            assert_sound(&nn).await;
        });
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}

/// Several clients at once, at two namenodes, with a reaper each: whatever order they took, the rows fit together.
pub fn crowds_leave_sound_rows() {
    let crowd = proptest::collection::vec(calls(30), 6);
    let run = runner(rounds(25, 1000)).run(&crowd, |clients| {
        block_on(async {
            let store = Arc::new(Mem::new());
            let one = Namenode::start(store.clone(), 1, Config::default()).await;
            let two = Namenode::start(store, 2, Config::default()).await;
            root(&one).chmod("/", 0o777).await.unwrap();
            let mut tasks = tokio::task::JoinSet::new();
            for (i, calls) in clients.into_iter().enumerate() {
                let nn = if i % 2 == 0 { one.clone() } else { two.clone() };
                tasks.spawn(async move {
                    for (user, call) in calls {
                        let answer = ask(As { nn: &nn, user: USERS[user] }, &call).await;
                        let odd = [Kind::Retriable, Kind::IllegalState, Kind::Standby];
                        assert!(
                            !answer.as_ref().is_err_and(|kind| odd.contains(kind)),
                            "{call:?}: {answer:?}"
                        );
                    }
                });
            }
            for nn in [one.clone(), two.clone()] {
                tasks.spawn(async move { reap_all(&nn).await });
            }
            while let Some(done) = tasks.join_next().await {
                done.unwrap();
            }
            assert_sound(&one).await;
            reap_all(&one).await;
            assert_sound(&two).await;
        });
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}

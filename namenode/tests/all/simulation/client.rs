//! Clients: one works in a directory of its own and knows what must be there; others meddle in a shared one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::time::sleep;
use trellis_metastore::sim::{self, World};
use trellis_namenode::engine::Op;
use trellis_namenode::engine::ctx::CallId;
use trellis_namenode::engine::tx::Tx;
use trellis_namenode::ops::create::create;
use trellis_namenode::ops::delete::{Delete, delete};
use trellis_namenode::ops::mkdirs::{Mkdirs, mkdirs};
use trellis_namenode::ops::rename::{Rename, Rename2, rename, rename2};
use trellis_namenode::ops::write::{Complete, complete};
use trellis_namenode::refusal;
use trellis_proto::exception::{Kind, RpcError};

use super::{Node, PATIENCE};
use crate::calls::{As, new_file, written};
use crate::support::{Answer, SUPERUSER, path};

/// Sends one call, with one identity, to one namenode after another until one answers.
async fn call<A, F, O>(world: &World, nodes: &Arc<Vec<Node>>, id: CallId, op: F) -> Result<A, RpcError>
where
    A: Message + Default + 'static,
    F: Fn() -> O,
    O: FnMut(&mut Tx<'_, '_>) -> refusal::Result<A> + Send + 'static,
{
    let (first, target) = (world.random(nodes.len() as u64) as usize, world.random(8));
    let answer = sim::failover(nodes.len(), first, PATIENCE, 60, |node| {
        let (nodes, op) = (nodes.clone(), Box::new(op()) as Op<A>);
        async move {
            let engine = &nodes[node].engine;
            let ctx = engine.ctx(engine.users().get(SUPERUSER), "127.0.0.1".into(), Some(id));
            match engine.write_wait(ctx, target, 8, true, op).await {
                Err(error) if matches!(error.kind, Kind::Retriable | Kind::Standby) => {
                    sleep(Duration::from_millis(50)).await;
                    None
                }
                answer => Some(answer),
            }
        }
    })
    .await;
    answer.expect("no namenode answers")
}

async fn yes<F, O>(world: &World, nodes: &Arc<Vec<Node>>, id: CallId, op: F) -> Result<bool, RpcError>
where
    F: Fn() -> O,
    O: FnMut(&mut Tx<'_, '_>) -> refusal::Result<bool> + Send + 'static,
{
    let op = || {
        let mut op = op();
        move |tx: &mut Tx<'_, '_>| op(tx).map(|yes| Answer { yes })
    };
    call(world, nodes, id, op).await.map(|answer| answer.yes)
}

/// What must be in a directory: paths below it, each a directory (0) or a file by its id.
#[derive(Default)]
pub struct Tree(BTreeMap<String, u64>);

const NAMES: [&str; 3] = ["a", "b", "c"];

/// All paths of one or two names.
fn paths() -> impl Iterator<Item = String> {
    let deep = NAMES.iter().flat_map(|a| NAMES.iter().map(move |b| format!("{a}/{b}")));
    NAMES.iter().map(|a| (*a).to_owned()).chain(deep)
}

fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

impl Tree {
    fn is_dir(&self, path: Option<&str>) -> bool {
        path.is_none_or(|path| self.0.get(path) == Some(&0))
    }

    /// Whether the way to a path leads through a file: then stock refuses the search.
    fn is_barred(&self, path: &str) -> bool {
        parent(path).is_some_and(|parent| self.0.get(parent).is_some_and(|id| *id != 0))
    }

    fn below<'p>(path: &'p str) -> impl Fn(&str) -> bool + 'p {
        move |other| other == path || other.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
    }

    fn remove(&mut self, path: &str) -> bool {
        let (below, before) = (Tree::below(path), self.0.len());
        self.0.retain(|other, _| !below(other));
        self.0.len() < before
    }

    fn rename(&mut self, source: &str, target: &str) {
        let below = Tree::below(source);
        let moved: Vec<(String, u64)> = self
            .0
            .iter()
            .filter(|(p, _)| below(p))
            .map(|(p, id)| (format!("{target}{}", &p[source.len()..]), *id))
            .collect();
        self.remove(source);
        self.0.extend(moved);
    }

    /// Compares every possible path.
    pub async fn assert_is(&self, at: As<'_>, home: &str) {
        for path in paths() {
            let is = match (at.stat(&format!("{home}/{path}")).await, self.is_barred(&path)) {
                (Err(_), true) => None,
                (said, _) => said.unwrap(),
            };
            let is = is.map(|status| if status.inode.is_dir() { 0 } else { status.inode.id });
            assert_eq!(is.as_ref(), self.0.get(&path), "{home}/{path}; all: {:?}", self.0);
        }
    }
}

/// A client with a directory of its own: every answer must be what the tree in its memory says.
pub struct Client {
    world: Arc<World>,
    nodes: Arc<Vec<Node>>,
    number: u8,
    calls: i64,
    pub home: String,
    pub tree: Tree,
}

impl Client {
    pub fn new(world: Arc<World>, nodes: Arc<Vec<Node>>, number: u8) -> Client {
        Client { world, nodes, number, calls: 0, home: format!("/home{number}"), tree: Tree::default() }
    }

    fn id(&mut self) -> CallId {
        self.calls += 1;
        CallId { client: [self.number; 16], call: self.calls }
    }

    fn full(&self, below: &str) -> String {
        format!("{}/{below}", self.home)
    }

    fn any(&self) -> String {
        paths().nth(self.world.random(12) as usize).unwrap()
    }

    pub async fn work(&mut self, calls: i64) {
        let home = self.home.clone();
        assert_eq!(self.mkdirs(&home).await, Ok(true));
        for _ in 0..calls {
            sleep(Duration::from_micros(self.world.random(30_000))).await;
            match self.world.random(10) {
                0..3 => self.make_directory().await,
                3..6 => self.make_file().await,
                6..8 => self.remove().await,
                _ => self.move_it().await,
            }
        }
    }

    async fn mkdirs(&mut self, full: &str) -> Result<bool, RpcError> {
        let call = Mkdirs { path: path(full), mode: 0o755, create_parent: true };
        let id = self.id();
        yes(&self.world, &self.nodes, id, || {
            let call = call.clone();
            move |tx| mkdirs(tx, &call)
        })
        .await
    }

    async fn make_directory(&mut self) {
        let below = self.any();
        let said = self.mkdirs(&self.full(&below)).await;
        let way = [parent(&below), Some(below.as_str())];
        if way.iter().flatten().any(|p| self.tree.0.get(*p).is_some_and(|id| *id != 0)) {
            assert!(said.is_err(), "mkdirs {below} over a file: {said:?}");
            return;
        }
        assert_eq!(said, Ok(true), "mkdirs {below}");
        self.tree.0.extend(way.iter().flatten().map(|p| ((*p).to_owned(), 0)));
    }

    async fn make_file(&mut self) {
        let below = self.any();
        let full = self.full(&below);
        let overwrite = self.world.random(2) == 0;
        let mut new = new_file(&full, "writer", if overwrite { 3 } else { 1 });
        new.create_parent = false;
        let id = self.id();
        let said = call(&self.world, &self.nodes, id, || {
            let new = new.clone();
            move |tx| create(tx, &new).map(|status| status.inode)
        })
        .await;
        let there = self.tree.0.get(&below);
        if !self.tree.is_dir(parent(&below)) || there == Some(&0) || there.is_some() && !overwrite {
            assert!(said.is_err(), "create {below} (overwrite: {overwrite}): {said:?}");
            return;
        }
        let inode = said.unwrap_or_else(|error| panic!("create {below}: {error:?}"));
        self.tree.0.insert(below, inode.id);
        let done = Complete { file: written(&full, inode.id, "writer"), last: None };
        let id = self.id();
        let said = yes(&self.world, &self.nodes, id, || {
            let done = done.clone();
            move |tx| complete(tx, &done)
        });
        assert_eq!(said.await, Ok(true), "complete {full}");
    }

    async fn remove(&mut self) {
        let below = self.any();
        let call = Delete { path: path(&self.full(&below)), recursive: true };
        let id = self.id();
        let said = yes(&self.world, &self.nodes, id, || {
            let call = call.clone();
            move |tx| delete(tx, &call)
        });
        match (said.await, self.tree.is_barred(&below)) {
            (Err(_), true) => {}
            (said, _) => assert_eq!(said, Ok(self.tree.remove(&below)), "delete {below}"),
        }
    }

    /// Renames to where nothing is, within directories that are there.
    async fn move_it(&mut self) {
        let (source, target) = (self.any(), self.any());
        let free = !self.tree.0.contains_key(&target) && self.tree.is_dir(parent(&target));
        if !free || Tree::below(&source)(&target) {
            return;
        }
        let call = Rename { source: path(&self.full(&source)), target: path(&self.full(&target)) };
        let id = self.id();
        let said = yes(&self.world, &self.nodes, id, || {
            let call = call.clone();
            move |tx| rename(tx, &call)
        });
        match (said.await, self.tree.is_barred(&source)) {
            (Err(_), true) => {}
            (said, _) => {
                assert_eq!(said, Ok(self.tree.0.contains_key(&source)), "rename {source} to {target}")
            }
        }
        self.tree.rename(&source, &target);
    }
}

/// Makes, moves and deletes in a directory that others use as well; whatever is answered, the rows must fit together.
pub async fn meddle(world: Arc<World>, nodes: Arc<Vec<Node>>, number: u8, calls: i64) {
    for n in 0..calls {
        sleep(Duration::from_micros(world.random(20_000))).await;
        let any = || path(&format!("/shared/{}", paths().nth(world.random(12) as usize).unwrap()));
        let (one, other, kind) = (any(), any(), world.random(10));
        let id = CallId { client: [number; 16], call: n };
        let said = yes(&world, &nodes, id, || {
            let (one, other) = (one.clone(), other.clone());
            move |tx: &mut Tx<'_, '_>| match kind {
                0..2 => create(tx, &new_file(one.text(), "meddler", 3)).map(|_| true),
                2..4 => mkdirs(tx, &Mkdirs { path: one.clone(), mode: 0o755, create_parent: true }),
                4..6 => rename(tx, &Rename { source: one.clone(), target: other.clone() }),
                6..8 => {
                    let (source, target) = (one.clone(), other.clone());
                    let call = Rename2 { source, target, overwrite: true, to_trash: false };
                    rename2(tx, &call).map(|()| true)
                }
                _ => delete(tx, &Delete { path: one.clone(), recursive: true }),
            }
        });
        let broken = |error: &RpcError| error.to_string().contains("store check");
        assert!(!said.await.is_err_and(|error| broken(&error)));
    }
}

//! mkdirs, delete, rename on literal trees.

use trellis_namenode::ops::delete::{Delete, delete};
use trellis_namenode::ops::mkdirs::{Mkdirs, mkdirs};
use trellis_namenode::ops::rename::{Rename, rename};
use trellis_proto::exception::{Kind, RpcError};

use crate::support::{Namenode, SUPERUSER, path};

async fn mk(nn: &Namenode, text: &str) -> Result<bool, RpcError> {
    let call = Mkdirs { path: path(text), mode: 0o755, create_parent: true };
    nn.yes(SUPERUSER, move |tx| mkdirs(tx, &call)).await
}

async fn rm(nn: &Namenode, text: &str, recursive: bool) -> Result<bool, RpcError> {
    let call = Delete { path: path(text), recursive };
    nn.yes(SUPERUSER, move |tx| delete(tx, &call)).await
}

async fn mv(nn: &Namenode, source: &str, target: &str) -> Result<bool, RpcError> {
    let call = Rename { source: path(source), target: path(target) };
    nn.yes(SUPERUSER, move |tx| rename(tx, &call)).await
}

pub async fn directories_come_move_and_go() {
    let nn = Namenode::fresh().await;
    assert_eq!(mk(&nn, "/a/b/c").await, Ok(true));
    assert_eq!(mk(&nn, "/a/b/c").await, Ok(true));
    assert_eq!(mv(&nn, "/a/b", "/z").await, Ok(true));
    assert_eq!(mv(&nn, "/a/b", "/y").await, Ok(false));
    assert_eq!(mv(&nn, "/z", "/a").await, Ok(true));
    assert_eq!(mv(&nn, "/a", "/a/z/c/d").await, Ok(false));
    assert_eq!(rm(&nn, "/a/z", false).await.unwrap_err().kind, Kind::PathIsNotEmptyDirectory);
    assert_eq!(rm(&nn, "/a/z", true).await, Ok(true));
    assert_eq!(rm(&nn, "/a", false).await, Ok(true));
    assert_eq!(rm(&nn, "/a", false).await, Ok(false));
    assert_eq!(rm(&nn, "/", true).await, Ok(false));
}

pub async fn a_directory_costs_one_fetch_and_one_commit() {
    let nn = Namenode::fresh().await;
    mk(&nn, "/1/2/3/4/5/6").await.unwrap();
    let before = nn.engine.backend().counters().read();
    mk(&nn, "/1/2/3/4/5/6/7").await.unwrap();
    let spent = nn.engine.backend().counters().read().since(&before);
    assert_eq!((spent.fetches, spent.commits, spent.round_trips), (1, 1, 2));
}

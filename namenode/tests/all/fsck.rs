//! `GET /fsck` and the lists of `trellis admin`: the lines that a stock NameNode says of the same tree.

use std::sync::Arc;

use trellis_metastore::schema::{Block, BlockState, Concern, Kind, Replica, attention, block_id};
use trellis_namenode::config::Config;
use trellis_namenode::datanodes::view::Liveness;
use trellis_namenode::fsck::lines::{Deadline, Lines};
use trellis_namenode::fsck::request::Request;
use trellis_namenode::fsck::{admin, run};
use trellis_namenode::metrics::Metrics;
use trellis_namenode::rpc::call::Caller;
use trellis_namenode::rpc::identity::Identity;
use trellis_namenode::rpc::service::Service;

use crate::blocks::{change, complete, datanodes, give, storage_number, whole};
use crate::calls::root;
use crate::plant::plant;
use crate::support::{Namenode, SUPERUSER};

/// What stock said, masked as the README beside it says.
fn recorded(name: &str) -> String {
    let file = format!("{}/tests/recorded/fsck/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn service(nn: &Namenode) -> Arc<Service> {
    let identity = Identity::of_cluster("CID-test");
    Service::new(nn.engine.clone(), identity, None, Arc::new(Metrics::new()))
}

fn caller(nn: &Namenode, user: &str) -> Caller {
    let ugi = format!("{user} (auth:SIMPLE)").into();
    Caller { user: nn.engine.users().get(user), ugi, machine: "127.0.0.1".into() }
}

/// All that one asker is told.
async fn asked(nn: &Namenode, user: &str, query: &str) -> String {
    let (lines, pieces) = Lines::new(Deadline::after(std::time::Duration::from_secs(60)));
    let (service, caller) = (service(nn), caller(nn, user));
    let request = Request::read(query);
    let ((), text) = tokio::join!(run(&service, caller, request, lines), all(pieces));
    text
}

async fn all(mut pieces: tokio::sync::mpsc::Receiver<bytes::Bytes>) -> String {
    let mut text = Vec::new();
    while let Some(piece) = pieces.recv().await {
        text.extend_from_slice(&piece);
    }
    String::from_utf8(text).unwrap()
}

/// The same with what differs between clusters masked.
async fn masked(nn: &Namenode, query: &str) -> String {
    let text = asked(nn, SUPERUSER, query).await;
    let pool = Identity::of_cluster("CID-test").block_pool_id;
    let text = text.replace(&pool, "BP").replace("10.0.0.0:9866", "ADDRESS").replace("DS-0", "DS");
    let text = text.replace("host0/default-rack", "127.0.0.1/default-rack");
    let line = |line: &str| {
        let mut line = line.to_owned();
        while let Some(at) = line.find("blk_") {
            let end = line[at + 4..].find(|c: char| !c.is_ascii_digit() && c != '_');
            line.replace_range(at..end.map_or(line.len(), |end| at + 4 + end), "blk");
        }
        if let (Some(at), Some(end)) = (line.find(" at "), line.find(" UTC ")) {
            line.replace_range(at + 4..end + 9, "DATE");
        }
        if let (Some(at), Some(end)) = (line.find("DATE in "), line.find(" milliseconds")) {
            line.replace_range(at + 8..end, "N");
        }
        match line.strip_prefix("Cookie:\t") {
            Some(_) => "Cookie:\tN".to_owned(),
            None => line,
        }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

async fn assert_said(nn: &Namenode, query: &str, recording: &str) {
    let said = masked(nn, &format!("ugi={SUPERUSER}&{query}")).await;
    assert_eq!(said, recorded(recording), "{query} is not as in {recording}.txt");
}

/// A file with blocks of these lengths, each with one replica on the one datanode.
async fn file(nn: &Namenode, path: &str, replication: u32, lengths: &[u64], replica: fn(&Block) -> Replica) {
    let su = root(nn);
    let id = su.touch(path).await.unwrap().id;
    su.setrep(path, replication).await.unwrap();
    let blocks = lengths.iter().enumerate().map(|(n, length)| {
        let block = complete(id, n as u32, *length);
        let its = replica(&block);
        (block, vec![(storage_number(0), its)])
    });
    if !lengths.is_empty() {
        give(nn, path, blocks.collect()).await;
    }
}

fn bad(block: &Block) -> Replica {
    Replica { corrupt: true, ..whole(block) }
}

/// The tree of the recordings.
async fn tree(liveness: &'static [Liveness], ten: fn(&Block) -> Replica) -> Namenode {
    let nn = Namenode::fresh_with(Config { replication: 1, ..Config::default() }).await;
    datanodes(&nn, liveness).await;
    root(&nn).mkdirs("/empty", 0o755, true).await.unwrap();
    file(&nn, "/d/none", 1, &[], whole).await;
    file(&nn, "/d/six", 1, &[4096, 1904], whole).await;
    file(&nn, "/d/sub/ten", 1, &[10], ten).await;
    file(&nn, "/d/under", 3, &[10], whole).await;
    nn
}

pub async fn a_healthy_tree() {
    let nn = tree(&[Liveness::Live], whole).await;
    for (query, recording) in [
        ("path=%2F", "all"),
        ("path=%2F&includeSnapshots=1", "all"),
        ("files=1&path=%2Fd", "files"),
        ("files=1&blocks=1&path=%2Fd", "blocks"),
        ("files=1&blocks=1&locations=1&path=%2Fd", "locations"),
        ("files=1&blocks=1&racks=1&path=%2Fd", "racks"),
        ("files=1&blocks=1&replicadetails=1&path=%2Fd", "replicaDetails"),
        ("files=1&blocks=1&maintenance=1&path=%2Fd", "maint"),
        ("files=1&blocks=1&path=%2Fd%2Fsix", "file"),
        ("path=%2Fnope", "nope"),
    ] {
        assert_said(&nn, query, recording).await;
    }
}

pub async fn a_corrupt_block_and_an_open_file() {
    let nn = tree(&[Liveness::Live], bad).await;
    let su = root(&nn);
    let id = su.open("/d/open._COPYING_", "c1").await.unwrap().id;
    su.setrep("/d/open._COPYING_", 1).await.unwrap();
    let state = BlockState::UnderConstruction as i32;
    let written = Block { state, expected: vec![storage_number(0)], ..complete(id, 0, 0) };
    give(&nn, "/d/open._COPYING_", vec![(written, vec![])]).await;
    let ten = su.must("/d/sub/ten").await.inode.id;
    change(&nn, move |tx| {
        let concern = Concern { missing: 1, corrupt: 1, ..Concern::default() };
        Ok(tx.insert(&attention(ten), &concern)?)
    })
    .await;
    let block = block_id(ten, 0);
    for (query, recording) in [
        ("path=%2F", "corrupt-all"),
        ("files=1&blocks=1&locations=1&path=%2Fd", "corrupt-all-below-d"),
        ("files=1&blocks=1&replicadetails=1&path=%2Fd%2Fsub", "corrupt-details"),
        ("files=1&blocks=1&openforwrite=1&path=%2Fd", "corrupt-open"),
        ("openforwrite=1&path=%2Fd", "corrupt-openonly"),
        ("listcorruptfileblocks=1&path=%2F", "lcfb"),
        (&format!("listcorruptfileblocks=1&path=%2F&startblockafter={ten}"), "lcfb1"),
        (&format!("path=%2F&blockId=blk_77+nix+blk_{block}"), "by-id"),
    ] {
        assert_said(&nn, query, recording).await;
    }
    let refused = asked(&nn, "ann", "listcorruptfileblocks=1").await;
    assert!(refused.contains("\nAccess denied for user ann. Superuser privilege is required"), "{refused}");
}

pub async fn all_is_missing() {
    let nn = tree(&[Liveness::Dead], whole).await;
    file(&nn, "/d/open", 1, &[200_000], whole).await;
    assert_said(&nn, "files=1&blocks=1&locations=1&path=%2Fd", "missing-all").await;
}

pub async fn who_may_not_look_and_what_is_not_served() {
    let nn = tree(&[Liveness::Live], whole).await;
    let su = root(&nn);
    su.mkdirs("/locked", 0o755, true).await.unwrap();
    su.chmod("/locked", 0o700).await.unwrap();
    for (user, query, why) in [
        ("bob", "path=/locked", "Permission denied: user=bob, access=READ_EXECUTE, inode=\"/locked\""),
        (SUPERUSER, "path=/&move=1", "This namenode's fsck does not know -move."),
        (SUPERUSER, "path=nope", "Absolute path required"),
    ] {
        let text = asked(&nn, user, query).await;
        let path = Request::read(query).path;
        assert!(text.contains(why), "{query}: {text}");
        assert!(text.ends_with(&format!("\n\n\nFsck on path '{path}' FAILED")), "{query}: {text}");
    }
    su.chmod("/d/six", 0o600).await.unwrap();
    let text = asked(&nn, "bob", "path=/d").await;
    assert!(text.contains("access=READ, inode=\"/d/six\""), "{text}");
}

/// Large directories and files are read in pages, and everything is told of once, in order.
pub async fn large_trees() {
    let nn = Namenode::fresh().await;
    datanodes(&nn, &[Liveness::Live]).await;
    root(&nn).mkdirs("/a", 0o755, true).await.unwrap();
    plant(&nn, "/a", Kind::File, 2500, |n| format!("f{n:04}")).await;
    file(&nn, "/b", 1, &[3; 1200], whole).await;
    let text = asked(&nn, SUPERUSER, "path=/&files=1&blocks=1").await;
    let named: Vec<&str> = text.lines().filter(|line| line.starts_with("/a/f")).collect();
    assert_eq!(named.len(), 2500);
    assert!(named.is_sorted());
    assert_eq!(text.lines().filter(|line| line.ends_with(" len=3 Live_repl=1")).count(), 1200);
    assert!(text.contains("\n1199. ") && text.contains(" Total blocks (validated):\t1200 "), "{text}");
}

/// The lists of `trellis admin`.
pub async fn lists_of_administrators() {
    let nn = tree(&[Liveness::Live, Liveness::Dead], bad).await;
    let su = root(&nn);
    let (ten, under) = (su.must("/d/sub/ten").await.inode.id, su.must("/d/under").await.inode.id);
    change(&nn, move |tx| {
        tx.insert(&attention(ten), &Concern { missing: 1, corrupt: 1, ..Concern::default() })?;
        Ok(tx.insert(&attention(under), &Concern { under_replicated: 1, ..Concern::default() })?)
    })
    .await;
    for (name, want) in [
        ("missing", ["10 B\t0 of 1 replicas live, 1 corrupt\t/d/sub/ten", "1 blocks"]),
        ("corrupt", ["10 B\t0 of 1 replicas live, 1 corrupt\t/d/sub/ten", "1 blocks"]),
        ("under-replicated", ["10 B\t1 of 3 replicas live, 0 corrupt\t/d/under", "1 blocks"]),
        ("datanodes", ["10.0.0.1:9866 (host1) node-1: dead, no owner", "2 datanodes"]),
    ] {
        let (lines, pieces) = Lines::new(Deadline::after(std::time::Duration::from_secs(60)));
        let list = admin::List::named(name).unwrap();
        let (service, caller) = (service(&nn), caller(&nn, SUPERUSER));
        let ((), text) = tokio::join!(admin::run(&service, caller, list, lines), all(pieces));
        assert!(want.iter().all(|words| text.contains(words)), "{name}: {text}");
    }
    assert_eq!(admin::List::named("nothing"), None);
}

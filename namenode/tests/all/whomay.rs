//! Who may do what: every operation as superuser, owner, member of the group and stranger, over the trees of the
//! recording (`e2e/hadoop/harness/WhoMay.java`); answers equal those of the stock namenode.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_metastore::change::Row;
use trellis_metastore::key::Key;
use trellis_metastore::mem::Mem;
use trellis_namenode::config::Config;
use trellis_namenode::ops::list::Listing;
use trellis_proto::exception::RpcError;

use crate::actor::{Actor, Said, clean, names, shown};
use crate::plant::copy_of;
use crate::support::{Namenode, SUPERUSER};

const RECORDED: &str = include_str!("../../../e2e/hadoop/wire/whomay.tsv");
const OWNER: &str = "daemon";
const GROUP: &str = "nogroup";
const ROLES: [(&str, &str); 4] =
    [("super", SUPERUSER), ("owner", OWNER), ("member", "nobody"), ("stranger", "alice")];

/// First words of operations on files with data: real processes are asked, which have datanodes.
const WITH_DATA: [&str; 6] =
    ["append", "truncate", "concat", "addBlock", "getAdditionalDatanode", "updateBlockForPipeline"];

/// One tree of the recording: its operations in their order, and the answer of each by role.
#[derive(Default)]
struct Tree {
    operations: Vec<String>,
    expected: BTreeMap<(String, String), (String, String, String)>,
}

/// Trees in the order of the recording. Calls on no path are the server's own.
fn recorded() -> Vec<(String, Tree)> {
    let mut trees: Vec<(String, Tree)> = Vec::new();
    for line in RECORDED.lines().skip(1) {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        let (tree, operation, roles) = (next(), next(), next());
        let answer = (next(), next(), next());
        let verb = operation.split(' ').next().unwrap_or_default();
        if tree == "global" || WITH_DATA.contains(&verb) {
            continue;
        }
        if trees.last().is_none_or(|(last, _)| *last != tree) {
            trees.push((tree, Tree::default()));
        }
        let (_, tree) = trees.last_mut().unwrap();
        if !tree.operations.contains(&operation) {
            tree.operations.push(operation.clone());
        }
        for role in roles.split(',') {
            tree.expected.insert((operation.clone(), role.to_owned()), answer.clone());
        }
    }
    trees
}

/// Compares every row; tells all differences at once.
pub async fn answers_equal_the_recorded_ones() {
    let mut differences = Vec::new();
    let (mut compared, mut rows) = (0, 0);
    for (name, tree) in recorded() {
        rows += tree.expected.len();
        let base = format!("/who-{name}");
        let rows = built(&name, &base).await;
        let mut fresh = None;
        for (role, user) in ROLES {
            for operation in &tree.operations {
                let key = (operation.clone(), role.to_owned());
                let Some(expected) = tree.expected.get(&key) else { continue };
                let nn = match fresh.take() {
                    Some(nn) => nn,
                    None => {
                        Namenode::start(
                            Arc::new(copy_of(&rows).await),
                            compared as u64 + 2,
                            Config::default(),
                        )
                        .await
                    }
                };
                let root = Actor::superuser(&nn);
                let (answer, changed) = answer(&root, &Actor::new(&nn, user), &base, operation).await;
                if !(changed && answer.is_ok()) {
                    fresh = Some(nn);
                }
                compared += 1;
                let said = said(answer, user, &base);
                if said != leases_left_out(expected.clone()) {
                    differences.push(format!("{name}: {operation} as {role}: {said:?}, stock {expected:?}"));
                }
            }
        }
    }
    assert!(compared == rows && rows > 4000, "{compared} of {rows} rows compared");
    assert!(differences.is_empty(), "{} of {rows}:\n{}", differences.len(), differences.join("\n"));
}

/// The rows of a tree that was built.
async fn built(name: &str, base: &str) -> Vec<(Key, Row)> {
    let store = Mem::new();
    let nn = Namenode::start(Arc::new(store.clone()), 1, Config::default()).await;
    build(&Actor::superuser(&nn), name, base).await;
    store.rows()
}

/// Without what stock says of the lease of a holder who is not the writer: it knows the number of its open files.
fn leases_left_out((class, value, line): (String, String, String)) -> (String, String, String) {
    let line = match line.split_once(" (inode 0) ") {
        Some((before, _)) if line.starts_with("Client (=h-") => before.to_owned(),
        _ => line,
    };
    (class, value, line)
}

/// Class, value, first line, with names masked as in the recording.
fn said(answer: Said<String>, user: &str, base: &str) -> (String, String, String) {
    let mask = |text: &str| clean(text).replace(base, "");
    match answer {
        Ok(value) => ("OK".into(), mask(&value.replace(&format!(" {SUPERUSER}:"), " super:")), String::new()),
        Err(RpcError { kind, message }) => {
            let line = mask(&message)
                .replace(&format!("user={user}"), "user=U")
                .replace(&format!("for user {user}"), "for user U")
                .replace(&format!("User {user} "), "User U ");
            // The recorder's superuser was root.
            leases_left_out((kind.class().into(), String::new(), line.replace("h-hdfs", "h-root")))
        }
    }
}

/// Runs an operation by the name that it has in the recording; after a change the superuser looks at a path. True: it
/// may have changed something.
async fn answer(root: &Actor, actor: &Actor, base: &str, operation: &str) -> (Said<String>, bool) {
    let (verb, path) = match operation {
        "setOwner of / by name it has" | "setPermission of / it has" => (operation, "/"),
        _ => operation.rsplit_once(' ').unwrap(),
    };
    let s = match path {
        "/" | "/who-may-new" => path.to_owned(),
        _ => format!("{base}{path}"),
    };
    if let Some(read) = read(actor, base, verb, &s).await {
        return (read, false);
    }
    let (value, after) = change(actor, base, verb, &s).await;
    let value = match (value, after) {
        (Ok(value), Some(after)) => {
            let now = root.status(&after).await.unwrap();
            let times = now.as_ref().filter(|_| verb == "setTimes");
            let times =
                times.map(|now| format!(" {} {}", now.mtime_ms, now.inode.atime_ms)).unwrap_or_default();
            Ok(format!("{value} => {}{times}", shown(now.as_ref())))
        }
        (value, _) => value,
    };
    (value, true)
}

async fn read(actor: &Actor, base: &str, verb: &str, s: &str) -> Option<Said<String>> {
    let listed = |page: Option<Listing>| match page {
        None => "absent".to_owned(),
        Some(page) => format!("{} remaining={}", names(&page.entries), page.remaining),
    };
    Some(match verb {
        "getFileInfo" | "getFileLinkInfo" => actor.status(s).await.map(|status| shown(status.as_ref())),
        "getLocatedFileInfo" => actor.located_status(s).await.map(|status| shown(status.as_ref())),
        "getBlockLocations" => actor.open(s).await.map(|opened| {
            let blocks = opened.blocks;
            let (length, open) = (blocks.length, blocks.under_construction);
            format!("length={length} open={open} blocks={}", blocks.blocks.len())
        }),
        "isFileClosed" => actor.is_file_closed(s).await,
        "getListing" | "getListing located" => actor.listing(s, "").await.map(listed),
        "getBatchedListing" => batched(actor, &[&format!("{base}/out"), s]).await,
        "getContentSummary" => actor.content_summary(s).await,
        "getQuotaUsage" => actor.quota_usage(s).await,
        "getPreferredBlockSize" => actor.preferred_block_size(s).await,
        "checkAccess NONE" => actor.check_access(s, 0).await,
        "checkAccess READ" => actor.check_access(s, 4).await,
        "checkAccess WRITE" => actor.check_access(s, 2).await,
        "checkAccess EXECUTE" => actor.check_access(s, 1).await,
        "checkAccess ALL" => actor.check_access(s, 7).await,
        _ => return None,
    })
}

async fn batched(actor: &Actor, paths: &[&str]) -> Said<String> {
    let answer = actor.batched(paths, None).await?;
    let one = |(index, listing): &(usize, Said<Vec<_>>)| match listing {
        Ok(entries) => format!("{index}:{}", names(entries)),
        Err(error) => format!("{index}:{}", error.kind.class()),
    };
    let all: Vec<String> = answer.listings.iter().map(one).collect();
    Ok(format!("[{}] more={}", all.join(", "), answer.next.is_some()))
}

/// The answer, and the path that the superuser then looks at.
async fn change(actor: &Actor, base: &str, verb: &str, s: &str) -> (Said<String>, Option<String>) {
    let (out, there, mate) = (format!("{base}/out/x"), format!("{base}/out/there"), format!("{s}.new"));
    let holder = format!("h-{}", actor.user);
    let (words, at): (Vec<&str>, String) = (verb.split(' ').collect(), s.to_owned());
    let below = |name: &str| format!("{s}/{name}");
    let (said, after) = match (verb, words[0]) {
        ("delete recursive", _) => (actor.delete(s, true).await, (s != "/").then_some(at)),
        ("delete", _) => (actor.delete(s, false).await, Some(at)),
        ("rename out", _) => (actor.rename(s, &out).await, Some(out)),
        ("rename beside", _) => (actor.rename(s, &mate).await, Some(mate)),
        ("rename into full dir", _) => {
            let full = format!("{base}/out/full");
            (actor.rename(s, &full).await, Some(full))
        }
        ("rename onto file", _) => (actor.rename(s, &there).await, Some(there)),
        ("rename into", _) => (actor.rename(&there, s).await, Some(below("there"))),
        ("rename2 out", _) => (actor.rename2(s, &out, false, false).await, Some(out)),
        ("rename2 overwriting a file", _) => (actor.rename2(s, &there, true, false).await, Some(there)),
        ("rename2 overwriting it", _) => (actor.rename2(&there, s, true, false).await, Some(at)),
        ("rename2 to trash", _) => (actor.rename2(s, &out, false, true).await, Some(out)),
        ("rename2 into", _) => (actor.rename2(&there, &below("new"), false, false).await, Some(below("new"))),
        ("setOwner of / by name it has", _) => (actor.set_owner("/", None, Some("supergroup")).await, None),
        ("setPermission of / it has", _) => (actor.set_permission("/", 0o755).await, None),
        (_, "setPermission") => {
            (actor.set_permission(s, u32::from_str_radix(words[1], 8).unwrap()).await, Some(at))
        }
        (_, "setOwner") => {
            let name = |i: usize| Some(words[i]).filter(|name| *name != "null");
            (actor.set_owner(s, name(1), name(2)).await, Some(at))
        }
        ("setTimes", _) => (actor.set_times(s, 1000, 2000).await, Some(at)),
        ("setReplication", _) => (actor.set_replication(s, 2).await, Some(at)),
        ("create", _) => (actor.create(s, &holder, |_| {}).await, Some(at)),
        ("create overwriting", _) => {
            (actor.create(s, &holder, |call| call.flags.overwrite = true).await, Some(at))
        }
        ("create in", _) => (actor.create(&below("new"), &holder, |_| {}).await, Some(below("new"))),
        ("create deep in", _) => (actor.create(&below("a/new"), &holder, |_| {}).await, Some(below("a"))),
        ("mkdirs", _) => (actor.mkdirs(s, 0o755, true).await, Some(at)),
        ("mkdirs in", _) => (actor.mkdirs(&below("new"), 0o755, false).await, Some(below("new"))),
        ("mkdirs two in", _) => (actor.mkdirs(&below("new/er"), 0o755, true).await, Some(below("new/er"))),
        ("recoverLease", _) => (actor.recover_lease(s, &holder).await, Some(at)),
        ("complete as its holder", _) => (actor.complete(s, "writer").await, Some(at)),
        ("complete as another", _) => (actor.complete(s, &holder).await, Some(at)),
        ("fsync as its holder", _) => (actor.fsync(s, "writer").await, Some(at)),
        ("abandonBlock as its holder", _) => (actor.abandon_block(s, "writer").await, Some(at)),
        ("abandonBlock as another", _) => (actor.abandon_block(s, &holder).await, Some(at)),
        ("renewLease", _) => (actor.renew_lease("writer").await, Some(at)),
        _ => panic!("the recording has an operation that is not known here: {verb}"),
    };
    (said, after)
}

/// Builds the tree of a name, as the recorder does.
async fn build(root: &Actor, name: &str, base: &str) {
    if name == "root" {
        root.delete("/who-may-new", true).await.unwrap();
    }
    let at = |path: &str| format!("{base}{path}");
    root.mkdirs(base, 0o755, true).await.unwrap();
    root.give_dir(&at("/out"), 0o777, OWNER, GROUP).await;
    root.give_file(&at("/out/there"), 0o644, OWNER, GROUP).await;
    root.give_dir(&at("/out/full/k"), 0o777, OWNER, GROUP).await;
    match name.split_once('-') {
        Some(("dir", mode)) => {
            root.give_dir(&at("/d/s"), 0o755, OWNER, GROUP).await;
            root.give_file(&at("/d/f"), 0o644, OWNER, GROUP).await;
            root.give_file(&at("/d/s/k"), 0o644, OWNER, GROUP).await;
            root.give_dir(&at("/d/e"), 0o755, OWNER, GROUP).await;
            root.give(&at("/d"), u32::from_str_radix(mode, 8).unwrap(), OWNER, GROUP).await;
        }
        Some(("file", mode)) => {
            root.give_dir(&at("/d"), 0o777, OWNER, GROUP).await;
            root.give_file(&at("/d/f"), u32::from_str_radix(mode, 8).unwrap(), OWNER, GROUP).await;
        }
        Some(("sticky", whose)) => {
            root.give_dir(&at("/d"), 0o777, OWNER, GROUP).await;
            root.give_file(&at("/d/of-member"), 0o666, "nobody", GROUP).await;
            root.give_dir(&at("/d/of-stranger/k"), 0o777, "alice", "bin").await;
            root.give(&at("/d/of-stranger"), 0o777, "alice", "bin").await;
            root.give_file(&at("/d/of-super"), 0o644, SUPERUSER, "supergroup").await;
            let owner = if whose == "own" { OWNER } else { SUPERUSER };
            root.give(&at("/d"), 0o1777, owner, GROUP).await;
        }
        _ if name == "open" => {
            root.give_dir(&at("/d"), 0o755, OWNER, GROUP).await;
            root.create(&at("/d/f"), "writer", |_| {}).await.unwrap();
            root.set_owner(&at("/d/f"), Some(OWNER), Some(GROUP)).await.unwrap();
        }
        _ if name == "root" => {}
        _ => build_inside(root, name, &at("/d")).await,
    }
}

/// A directory `d/s` of the owner with something special inside.
async fn build_inside(root: &Actor, name: &str, d: &str) {
    let at = |path: &str| format!("{d}/s{path}");
    root.give_dir(&at(""), 0o755, OWNER, GROUP).await;
    root.give_file(&at("/f"), 0o644, OWNER, GROUP).await;
    match name {
        "foreign-full" => {
            root.give_dir(&at("/locked/k"), 0o755, SUPERUSER, "supergroup").await;
            root.give(&at("/locked"), 0o700, SUPERUSER, "supergroup").await;
        }
        "foreign-empty" => root.give_dir(&at("/locked"), 0o700, SUPERUSER, "supergroup").await,
        "foreign-open" => {
            root.give_dir(&at("/open/k"), 0o755, SUPERUSER, "supergroup").await;
            root.give(&at("/open"), 0o777, SUPERUSER, "supergroup").await;
        }
        "own-readonly" => {
            root.give_dir(&at("/ro/k"), 0o755, OWNER, GROUP).await;
            root.give(&at("/ro"), 0o555, OWNER, GROUP).await;
        }
        "own-readonly-empty" => root.give_dir(&at("/ro"), 0, OWNER, GROUP).await,
        "foreign-sticky" => {
            root.give_dir(&at("/st"), 0o777, SUPERUSER, "supergroup").await;
            root.give_file(&at("/st/k"), 0o666, "alice", GROUP).await;
            root.give(&at("/st"), 0o1777, SUPERUSER, "supergroup").await;
        }
        "foreign-deep" => {
            root.give_dir(&at("/a/b/c/k"), 0o755, OWNER, GROUP).await;
            root.give(&at("/a/b/c"), 0o755, SUPERUSER, "supergroup").await;
        }
        _ => panic!("the recording has a tree that is not known here: {name}"),
    }
    root.give(d, 0o777, OWNER, GROUP).await;
}

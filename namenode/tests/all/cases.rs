//! Cases from the field, step by step as `e2e/hadoop/harness/CaseProbe.java` takes them; answers equal those recorded
//! from the stock namenode.

use std::fmt::Display;
use std::time::Duration;

use trellis_namenode::ops::list::Listing;
use trellis_proto::exception::RpcError;

use crate::actor::{Actor, BLOCK, Said, clean, names, shown};
use crate::support::{Namenode, SUPERUSER, pass_time};

const RECORDED: &str = include_str!("../../../e2e/hadoop/wire/cases.tsv");

/// One case under way: its rows in their order, and the users of it.
struct Case {
    rows: Vec<[&'static str; 4]>,
    at: usize,
    differences: Vec<String>,
    root: Actor,
    alice: Actor,
    bob: Actor,
}

impl Case {
    async fn start(name: &str) -> Case {
        let fields = |line: &'static str| {
            let mut fields = line.split('\t').skip(1);
            std::array::from_fn(|_| fields.next().unwrap_or_default())
        };
        let rows =
            RECORDED.lines().filter(|line| line.split('\t').next() == Some(name)).map(fields).collect();
        let nn = Namenode::fresh().await;
        let root = Actor::superuser(&nn);
        root.mkdirs("/t", 0o755, true).await.unwrap();
        let (alice, bob) = (Actor::new(&nn, "alice"), Actor::new(&nn, "bob"));
        Case { rows, at: 0, differences: Vec::new(), root, alice, bob }
    }

    /// The next step: its answer must be the recorded one.
    fn row(&mut self, step: &str, answer: Said<impl Display>) {
        let Some([recorded, result, value, line]) = self.rows.get(self.at) else {
            panic!("{step}: the recording has no such step");
        };
        assert_eq!(step, *recorded, "the recording has another step here");
        self.at += 1;
        let said = match answer {
            Ok(value) => ["OK".into(), clean(&value.to_string()).replace(&mask(), " super:"), String::new()],
            Err(RpcError { kind, message }) => [kind.class().into(), String::new(), clean(&message)],
        };
        if said != [*result, *value, *line] {
            self.differences.push(format!("{step}: {said:?}, stock {:?}", [result, value, line]));
        }
    }

    /// A step that is about the client, not the namenode.
    fn skip(&mut self, step: &str) {
        assert_eq!(step, self.rows[self.at][0]);
        self.at += 1;
    }

    fn end(self) {
        assert_eq!(self.at, self.rows.len(), "the recording goes on");
        assert!(self.differences.is_empty(), "{}", self.differences.join("\n"));
    }

    async fn mkdir(&self, paths: &[&str]) {
        for path in paths {
            self.root.mkdirs(path, 0o755, true).await.unwrap();
        }
    }

    async fn stat(&self, path: &str) -> Said<String> {
        self.root.status(path).await.map(|status| shown(status.as_ref()))
    }

    async fn names(&self, path: &str) -> Said<String> {
        let page = self.root.listing(path, "").await?;
        Ok(page.map_or("absent".into(), |page| names(&page.entries)))
    }

    async fn page(&self, path: &str, after: &str) -> Said<String> {
        Ok(page(self.root.listing(path, after).await?))
    }

    /// Mode and owner of each path.
    async fn modes(&self, paths: &[&str]) -> Said<String> {
        let mut all = Vec::new();
        for path in paths {
            let inode = self.root.status(path).await?.unwrap().inode;
            let owner = if inode.owner == SUPERUSER { "super" } else { &inode.owner };
            all.push(format!("{:04o} {owner}:{}", inode.mode, inode.group));
        }
        Ok(all.join(", "))
    }
}

fn mask() -> String {
    format!(" {SUPERUSER}:")
}

fn page(listing: Option<Listing>) -> String {
    let Some(Listing { entries, remaining }) = listing else { return "absent".into() };
    let name = |i: usize| String::from_utf8_lossy(&entries[i].name).into_owned();
    let ends =
        if entries.is_empty() { String::new() } else { format!(" {}..{}", name(0), name(entries.len() - 1)) };
    format!("{}{ends} remaining={remaining}", entries.len())
}

/// The recording shows only the name that is empty in an answer to create.
fn local_name(answer: Said<String>) -> Said<String> {
    answer.map(|_| String::new())
}

pub async fn a1_a_file_where_a_directory_is_meant() {
    let mut case = Case::start("A1").await;
    let root = case.root.clone();
    root.file("/t/f").await;
    case.mkdir(&["/t/d"]).await;
    case.row("mkdirs under a file", root.mkdirs("/t/f/x", 0o755, true).await);
    case.row("mkdirs over a file", root.mkdirs("/t/f", 0o755, true).await);
    case.row("create under a file", root.create("/t/f/y", "case", |_| {}).await);
    case.row(
        "create over a directory",
        root.create("/t/d", "case", |call| call.flags.overwrite = true).await,
    );
    case.row("getFileInfo under a file", case.stat("/t/f/z").await);
    case.row("getListing under a file", case.page("/t/f/z", "").await);
    case.row("delete under a file", root.delete("/t/f/z", true).await);
    case.row("getContentSummary under a file", root.content_summary("/t/f/z").await);
    case.row("mkdirs of an existing directory", root.mkdirs("/t/d", 0o755, true).await);
    case.row("mkdirs without parent", root.mkdirs("/t/no/x", 0o755, false).await);
    case.row("mkdirs without createParent of an existing directory", root.mkdirs("/t/d", 0o755, false).await);
    case.row("mkdirs without createParent over a file", root.mkdirs("/t/f", 0o755, false).await);
    case.row(
        "create without createParent",
        root.create("/t/no/f", "case", |call| call.create_parent = false).await,
    );
    let overwrite_only = root.create("/t/new", "case", |call| {
        (call.create_parent, call.flags.create, call.flags.overwrite) = (false, false, true);
    });
    case.row("create without CREATE", overwrite_only.await);
    case.row("afterwards", case.names("/t").await);
    case.end();
}

pub async fn a2_names_and_limits() {
    let mut case = Case::start("A2").await;
    let root = case.root.clone();
    for (what, path) in &limits() {
        let made = match root.mkdirs(path, 0o755, true).await {
            Ok(yes) => case.stat(path).await.map(|status| format!("{yes} => {status}")),
            refused => refused,
        };
        case.row(&format!("mkdirs {what}"), made);
        if path.len() > 1000 {
            root.delete("/t/x", true).await.unwrap();
        }
    }
    for (what, path) in limits().iter().filter(|(_, path)| path.encode_utf16().count() < 1000) {
        case.row(&format!("getFileInfo {what}"), case.stat(path).await);
        case.row(&format!("delete {what}"), root.delete(path, true).await);
    }
    root.file("/t/f").await;
    let long = format!("/t/{}", "n".repeat(256));
    case.row("create 256 bytes", local_name(root.create(&long, "case", |_| {}).await));
    case.row("rename to 256 bytes", root.rename("/t/f", &long).await);
    case.row("rename2 to 256 bytes", root.rename2("/t/f", &long, false, false).await);
    for n in [0, 1, 512, 513, 600] {
        let made = root.create(&format!("/t/r{n}"), "case", |call| call.replication = n).await;
        case.row(&format!("create with replication {n}"), made);
    }
    for n in [0, 512, 1023, 1024, 1025, 1537, 1 << 40] {
        let made = root.create(&format!("/t/b{n}"), "case", |call| call.block_size = n).await;
        case.row(&format!("create with block size {n}"), made);
    }
    case.skip("block size 1537 through the client");
    root.create("/t/c1537", "case", |call| call.block_size = 1537).await.unwrap();
    case.row("afterwards", case.names("/t").await);
    reserved_paths(&mut case).await;
    case.end();
}

/// What case A2 makes, reads and deletes.
fn limits() -> Vec<(String, String)> {
    let deep = format!("/t{}", "/x".repeat(999));
    let long = format!("/t{}/{}", format!("/{}", "b".repeat(198)).repeat(40), "b".repeat(37));
    [
        ("255 bytes", format!("/t/{}", "a".repeat(255))),
        ("256 bytes", format!("/t/{}", "a".repeat(256))),
        ("255 bytes of 3-byte characters", format!("/t/{}", "€".repeat(85))),
        ("258 bytes of 3-byte characters", format!("/t/{}", "€".repeat(86))),
        ("depth 1000", deep.clone()),
        ("depth 1001", deep + "/x"),
        ("8000 characters", long.clone()),
        ("8001 characters", long + "b"),
        ("empty component", "/t//b".into()),
        ("dot", "/t/./b".into()),
        ("dot dot", "/t/../b".into()),
        ("colon", "/t/a:b".into()),
        ("relative", "t/rel".into()),
        ("nothing", String::new()),
        ("trailing slash", "/t/a/".into()),
        ("space", "/t/sp ace".into()),
        ("percent", "/t/a%20b".into()),
        ("plus", "/t/a+b".into()),
        ("star", "/t/*".into()),
        ("backslash", "/t/back\\slash".into()),
        ("newline", "/t/new\nline".into()),
        ("dots in a name", "/t/...".into()),
        ("snapshot directory", "/t/.snapshot".into()),
        ("below a snapshot directory", "/t/.snapshot/x".into()),
        ("reserved", "/.reserved/x".into()),
        ("reserved itself", "/.reserved".into()),
        ("reserved elsewhere", "/t/.reserved".into()),
    ]
    .map(|(what, path)| (what.to_owned(), path))
    .into()
}

async fn reserved_paths(case: &mut Case) {
    let root = case.root.clone();
    for path in [
        "/.reserved",
        "/.reserved/.inodes",
        "/.reserved/raw",
        "/.reserved/.inodes/16385",
        "/.reserved/.inodes/16385/t/f",
        "/.reserved/.inodes/99999999",
        "/.reserved/raw/t/f",
    ] {
        let found = root.status(path).await.map(|status| if status.is_some() { "found" } else { "absent" });
        case.row(&format!("getFileInfo {path}"), found);
        let listed = match path.contains("16385") || path == "/.reserved/raw" {
            true => root.listing(path, "").await.map(|page| page.is_some().to_string()),
            false => case.names(path).await,
        };
        case.row(&format!("getListing {path}"), listed);
    }
    let t = root.status("/t").await.unwrap().unwrap().inode.id;
    let above = root.status(&format!("/.reserved/.inodes/{t}/..")).await;
    case.row("getFileInfo of the parent of /t by id", above.map(|status| status.unwrap().inode.id));
    case.row("getFileInfo of a child by id", case.stat(&format!("/.reserved/.inodes/{t}/f")).await);
    case.row("delete /.reserved", root.delete("/.reserved", true).await);
    case.row("rename to reserved", root.rename("/t/f", "/.reserved/f").await);
    case.row("delete / not recursive", root.delete("/", false).await);
}

/// What of `/t/d`, its `sub`, `/t/other` and the file `f` was modified when.
async fn modified(root: &Actor) -> Vec<(&'static str, i64)> {
    let mut all = Vec::new();
    for (what, paths) in [
        ("d", &["/t/d"][..]),
        ("sub", &["/t/d/sub"]),
        ("other", &["/t/other"]),
        ("f", &["/t/d/f", "/t/other/f"]),
    ] {
        for path in paths {
            if let Some(status) = root.status(path).await.unwrap() {
                all.push((what, status.mtime_ms));
                break;
            }
        }
    }
    all
}

/// A step that may move modification times.
macro_rules! moved {
    ($case:ident, $step:literal, $call:expr) => {{
        let before = modified(&$case.root).await;
        pass_time(Duration::from_millis(3));
        let _ = $call;
        let after = modified(&$case.root).await;
        let moved: Vec<&str> =
            before.iter().zip(&after).filter(|(old, new)| old != new).map(|((what, _), _)| *what).collect();
        $case.row($step, Ok(format!("moved=[{}]", moved.join(", "))));
    }};
}

pub async fn a6_times() {
    let mut case = Case::start("A6").await;
    let root = case.root.clone();
    case.mkdir(&["/t/d/sub", "/t/other"]).await;
    root.file("/t/d/f").await;
    root.file("/t/d/gone").await;
    moved!(case, "create a child", root.file("/t/d/new").await);
    moved!(case, "delete a child", root.delete("/t/d/gone", false).await.unwrap());
    moved!(case, "rename a child in place", root.rename("/t/d/new", "/t/d/newer").await.unwrap());
    moved!(case, "mkdirs a child", case.mkdir(&["/t/d/dir"]).await);
    moved!(
        case,
        "rename2 a child onto another",
        root.rename2("/t/d/newer", "/t/d/f", true, false).await.unwrap()
    );
    moved!(case, "setPermission of the file", root.set_permission("/t/d/f", 0o755).await.unwrap());
    moved!(case, "setOwner of the file", root.set_owner("/t/d/f", Some("alice"), Some("bin")).await.unwrap());
    moved!(case, "setReplication of the file", root.set_replication("/t/d/f", 2).await.unwrap());
    moved!(case, "setPermission of the directory", root.set_permission("/t/d", 0o755).await.unwrap());
    moved!(case, "create in a grandchild", root.file("/t/d/sub/g").await);
    moved!(case, "delete in a grandchild", root.delete("/t/d/sub/g", false).await.unwrap());
    moved!(case, "rename the file away", root.rename("/t/d/f", "/t/other/f").await.unwrap());
    moved!(case, "rename the file back", root.rename("/t/other/f", "/t/d/f").await.unwrap());
    moved!(case, "rename refused", root.rename("/t/d/f", "/t/nosuch/f").await.unwrap());
    moved!(case, "mkdirs existing", case.mkdir(&["/t/d/dir"]).await);
    moved!(case, "create over the file", {
        root.create("/t/d/f", "case", |call| call.flags.overwrite = true).await.unwrap();
        pass_time(Duration::from_millis(3));
    });
    moved!(case, "complete the file", root.complete("/t/d/f", "case").await.unwrap());
    reads_and_set_times(&mut case).await;
    case.row("setReplication of a directory", root.set_replication("/t/d", 2).await);
    case.row("setReplication of a missing path", root.set_replication("/t/nosuch", 2).await);
    case.row("setReplication 0", root.set_replication("/t/d/f", 0).await);
    case.row("setReplication same", root.set_replication("/t/d/f", 1).await);
    let set = root.set_replication("/t/d/f", 3).await.unwrap();
    case.row("setReplication 3", case.stat("/t/d/f").await.map(|status| format!("{set} => {status}")));
    case.end();
}

async fn reads_and_set_times(case: &mut Case) {
    let root = case.root.clone();
    // Longer than access times may lag: the clock of the recording is some decades further on.
    pass_time(Duration::from_secs(10 * 3600));
    let (before, _) = times(&root, "/t/d/f").await;
    root.set_times("/t/d/f", -1, 5000).await.unwrap();
    let (mtime, atime) = times(&root, "/t/d/f").await;
    let same = |yes| if yes { "same" } else { "moved" };
    case.row("setTimes, access time only", Ok(format!("mtime {} atime {atime}", same(mtime == before))));
    root.open("/t/d/f").await.unwrap();
    let (_, read) = times(&root, "/t/d/f").await;
    case.row("first read", Ok(format!("atime {}", same(read == 5000))));
    pass_time(Duration::from_millis(3));
    root.open("/t/d/f").await.unwrap();
    case.row("second read", Ok(format!("atime {}", same(times(&root, "/t/d/f").await.1 == read))));
    case.row("access time of a directory", Ok(times(&root, "/t/d").await.1));
    root.set_times("/t/d", 7000, 6000).await.unwrap();
    let (mtime, atime) = times(&root, "/t/d").await;
    case.row("setTimes of a directory", Ok(format!("{mtime} {atime}")));
    root.set_times("/t/d/f", 7000, -1).await.unwrap();
    case.row("setTimes backwards of a file", Ok(times(&root, "/t/d/f").await.0));
    root.set_times("/t/d/f", -1, -1).await.unwrap();
    case.row("setTimes of both -1", Ok(times(&root, "/t/d/f").await.0));
    root.file("/t/d/last").await;
    case.row("a child after setTimes moves the directory again", Ok(times(&root, "/t/d").await.0 > 7000));
}

/// Modification and access time.
async fn times(root: &Actor, path: &str) -> (i64, i64) {
    let status = root.status(path).await.unwrap().unwrap();
    (status.mtime_ms, status.inode.atime_ms)
}

pub async fn l1_pages() {
    let mut case = Case::start("L1").await;
    let root = case.root.clone();
    for i in 0..2050 {
        root.mkdirs(&format!("/t/big/d{i:04}"), 0o755, true).await.unwrap();
    }
    case.row("page 1", case.page("/t/big", "").await);
    case.row("delete the cursor's entry", root.delete("/t/big/d0999", false).await);
    case.mkdir(&["/t/big/d0999x", "/t/big/a-before"]).await;
    case.row("page 2", case.page("/t/big", "d0999").await);
    case.row("page 3", case.page("/t/big", "d1998").await);
    case.row("after a name that never was", case.page("/t/big", "d2048zzz").await);
    case.row("after the end", case.page("/t/big", "zzz").await);
    case.row("before the beginning", case.page("/t/big", "A").await);
    case.row("children", root.status("/t/big").await.map(|status| status.unwrap().children));
    case.row("delete all between two pages", root.delete("/t/big", true).await);
    case.row("next page of what is gone", case.page("/t/big", "d0999").await);
    root.file("/t/f").await;
    case.row("a file", case.page("/t/f", "").await);
    case.row("a file after its own name", case.page("/t/f", "f").await);
    case.row("a missing path", case.page("/t/missing", "").await);
    for name in ["Z", "a", "é", "€", "~", "!", "😀", "a0", "A"] {
        case.mkdir(&[&format!("/t/order/{name}")]).await;
    }
    case.row("order of names", case.names("/t/order").await);
    case.row("after a name in the middle of that order", case.page("/t/order", "€").await);
    case.end();
}

pub async fn p3_recursive_delete() {
    let mut case = Case::start("P3").await;
    let (root, alice, bob) = (case.root.clone(), case.alice.clone(), case.bob.clone());
    case.mkdir(&["/t/u/del/m/n", "/t/u/del/locked", "/t/u/into/sub"]).await;
    for i in 0..5 {
        root.file(&format!("/t/u/del/f{i}")).await;
    }
    root.file("/t/u/del/locked/f").await;
    root.set_permission("/t/u/del/locked", 0o700).await.unwrap();
    for path in ["/t/u", "/t/u/del", "/t/u/del/m", "/t/u/del/m/n", "/t/u/into", "/t/u/into/sub"] {
        root.set_owner(path, Some("alice"), None).await.unwrap();
    }
    case.row("alice deletes the tree", alice.delete("/t/u/del", true).await);
    case.row("what is left", case.names("/t/u/del").await);
    case.row("alice's content summary", alice.content_summary("/t/u/del").await);
    case.row("alice moves it to the trash", alice.rename2("/t/u/del", "/t/u/trash", false, true).await);
    case.row("alice renames it", alice.rename("/t/u/del", "/t/u/moved").await);
    case.row(
        "alice renames it over a full directory",
        alice.rename2("/t/u/moved", "/t/u/into", true, false).await,
    );
    case.row("alice renames it back", alice.rename("/t/u/moved", "/t/u/del").await);
    root.delete("/t/u/del/locked/f", false).await.unwrap();
    case.row("alice deletes m", alice.delete("/t/u/del/m", true).await);
    case.row("bob deletes the tree", bob.delete("/t/u/del", true).await);
    case.row("alice deletes the tree with an empty foreign directory", alice.delete("/t/u/del", true).await);
    case.row("what is left", case.names("/t/u").await);
    case.end();
}

pub async fn p5_modes() {
    let mut case = Case::start("P5").await;
    let (root, alice, bob) = (case.root.clone(), case.alice.clone(), case.bob.clone());
    case.mkdir(&["/t/p1750", "/t/p1777"]).await;
    root.give("/t/p1750", 0o1750, "alice", "bin").await;
    root.set_permission("/t/p1777", 0o1777).await.unwrap();
    assert_eq!(root.status("/t").await.unwrap().unwrap().inode.mode, 0o755);
    alice.create("/t/p1750/a/b/f", "case", |call| call.mode = 0o666 & !0o022).await.unwrap();
    let made = ["/t/p1750/a", "/t/p1750/a/b", "/t/p1750/a/b/f"];
    case.row("01750, create a/b/f", case.modes(&made).await);
    alice.mkdirs("/t/p1750/c/d", 0o755, true).await.unwrap();
    case.row("01750, mkdirs c/d", case.modes(&["/t/p1750/c", "/t/p1750/c/d"]).await);
    bob.create("/t/p1777/a/f", "case", |call| call.mode = 0o666 & !0o027).await.unwrap();
    case.row("01777, create a/f with umask 027", case.modes(&["/t/p1777/a", "/t/p1777/a/f"]).await);
    bob.mkdirs("/t/p1777/x/y", 0, true).await.unwrap();
    case.row("01777, mkdirs x/y with umask 777", case.modes(&["/t/p1777/x", "/t/p1777/x/y"]).await);
    for (path, mode, step) in [
        ("/t/p1777/g", 0o755, "create with 0777 and umask 022"),
        ("/t/p1777/h", 0o777, "create with 0777 and no umask"),
        ("/t/p1777/i", 0o1777, "create with 01777"),
    ] {
        bob.create(path, "case", |call| call.mode = mode).await.unwrap();
        case.row(step, case.modes(&[path]).await);
    }
    bob.mkdirs("/t/p1777/sticky", 0o1777, false).await.unwrap();
    case.row("mkdirs with 01777", case.modes(&["/t/p1777/sticky"]).await);
    bob.mkdirs("/t/p1777/m/n", 0o700, true).await.unwrap();
    case.row("mkdirs m/n with 0700", case.modes(&["/t/p1777/m", "/t/p1777/m/n"]).await);
    for mode in [0o4755, 0o2755, 0o1644, 0o7777] {
        for (path, what) in [("/t/p1777/g", "file"), ("/t/p1777/sticky", "directory")] {
            root.set_permission(path, mode).await.unwrap();
            case.row(&format!("setPermission {mode:o} on a {what}"), case.modes(&[path]).await);
        }
    }
    case.mkdir(&["/t/p1750/of-super"]).await;
    case.row("new inode of the superuser", case.modes(&["/t/p1750/of-super"]).await);
    assert_eq!(root.status("/t/p1777/g").await.unwrap().unwrap().inode.block_size, BLOCK);
    case.end();
}

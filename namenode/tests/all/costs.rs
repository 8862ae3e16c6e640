//! What each operation costs, counted in the store: warm, at depth 7. The table is `docs/COSTS.md`; the head of each
//! file in `src/ops/` is held to it. `TRELLIS_WRITE_DOCS=1` writes the page anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use trellis_metastore::counters::Reading;
use trellis_metastore::schema::{Block, Kind, ReplicaState};
use trellis_namenode::config::Config;
use trellis_namenode::engine::Op;
use trellis_namenode::ops::reap::{Reaped, reap_directory, reap_files};
use trellis_namenode::ops::report::What;
use trellis_namenode::ops::write::BlockName;

use crate::actor::{Actor, Said};
use crate::calls;
use crate::files::{BLOCK, give_datanodes, named};
use crate::plant::plant;
use crate::redundancy;
use crate::reports;
use crate::support::{FRESH_STORE, Namenode, pass_time};

/// One measured operation.
#[derive(Debug)]
struct Line {
    /// The file in `src/ops/`, without `.rs`.
    file: &'static str,
    operation: &'static str,
    when: &'static str,
    spent: Reading,
}

#[derive(Default)]
struct Table(Vec<Line>);

impl Table {
    fn add<T: std::fmt::Debug>(
        &mut self,
        (file, operation, when): (&'static str, &'static str, &'static str),
        (said, spent): (Said<T>, Reading),
    ) {
        said.unwrap_or_else(|error| panic!("{operation}, {when}: {error:?}"));
        self.0.push(Line { file, operation, when, spent });
    }
}

/// The directory in which everything is measured: what is in it lies at depth 7.
const DEEP: &str = "/1/2/3/4/5/6";

fn at(name: &str) -> String {
    format!("{DEEP}/{name}")
}

async fn measure() -> Vec<Line> {
    let nn = Namenode::fresh_with(Config {
        retry_sweep: std::time::Duration::from_secs(9999),
        ..Config::default()
    })
    .await;
    let mut table = Table::default();
    let formatted = nn.engine.backend().counters().read();
    table.add(("format", "store init", "an empty store"), (Ok(()), formatted));
    let root = Actor::superuser(&nn);
    root.mkdirs(DEEP, 0o755, true).await.unwrap();
    root.give(DEEP, 0o777, "alice", "bin").await;
    reads(&nn, &root, &mut table).await;
    listings(&nn, &root, &mut table).await;
    new_names(&nn, &root, &mut table).await;
    removals(&nn, &root, &mut table).await;
    moves(&nn, &root, &mut table).await;
    attributes(&nn, &root, &mut table).await;
    data(&nn, &mut table).await;
    leases(&nn, &root, &mut table).await;
    datanodes(&nn, &mut table).await;
    replication(&mut table).await;
    table.0
}

async fn reads(nn: &Namenode, root: &Actor, table: &mut Table) {
    let (d, f) = (at("d"), at("f"));
    root.mkdirs(&d, 0o755, true).await.unwrap();
    root.file(&f).await;
    table.add(("status", "getFileInfo", "a file"), nn.spent(root.status(&f)).await);
    table.add(("status", "getFileInfo", "a directory"), nn.spent(root.status(&d)).await);
    table.add(("status", "getFileInfo", "nothing there"), nn.spent(root.status(&at("none"))).await);
    table.add(("status", "getLocatedFileInfo", "a file"), nn.spent(root.located_status(&f)).await);
    table.add(("status", "isFileClosed", ""), nn.spent(root.is_file_closed(&f)).await);
    table.add(("status", "getPreferredBlockSize", ""), nn.spent(root.preferred_block_size(&f)).await);
    table.add(("status", "checkAccess", ""), nn.spent(root.check_access(&f, 4)).await);
    table.add(("status", "getEnclosingRoot", ""), nn.spent(root.enclosing_root(&f)).await);
    table.add(("locations", "getBlockLocations", "an empty file"), nn.spent(root.open(&f)).await);
    pass_time(std::time::Duration::from_secs(2 * 3600));
    table.add(("locations", "getBlockLocations", "the access time is due"), nn.spent(root.open(&f)).await);
    table.add(("summary", "getContentSummary", "a file"), nn.spent(root.content_summary(&f)).await);
    table.add(
        ("summary", "getContentSummary", "a directory with 2 in it"),
        nn.spent(root.content_summary(DEEP)).await,
    );
    table.add(
        ("summary", "getQuotaUsage", "a directory with 2 in it"),
        nn.spent(root.quota_usage(DEEP)).await,
    );
    table
        .add(("statistics", "getFsStats", "nothing in trouble, no datanodes"), nn.spent(root.totals()).await);
    table.add(("statistics", "listCorruptFileBlocks", "none"), nn.spent(root.concerns()).await);
    let id = root.status(&f).await.unwrap().unwrap().inode.id;
    table.add(("inspect", "fsck", "the blocks of an empty file"), nn.spent(root.inspect(id)).await);
    let by_id = format!("/.reserved/.inodes/{id}");
    table.add(("status", "getFileInfo", "a file by its id"), nn.spent(root.status(&by_id)).await);
}

async fn listings(nn: &Namenode, root: &Actor, table: &mut Table) {
    let large = at("large");
    root.mkdirs(&large, 0o755, true).await.unwrap();
    plant(nn, &large, Kind::File, 1200, |i| format!("f{i:04}")).await;
    plant(nn, &large, Kind::Directory, 100, |i| format!("d{i:04}")).await;
    root.status(&large).await.unwrap();
    table.add(
        ("list", "getListing", "the first page of 1300 entries"),
        nn.spent(root.listing(&large, "")).await,
    );
    table.add(("list", "getListing", "the second page"), nn.spent(root.listing(&large, "f0899")).await);
    table.add(("list", "getListing", "of the root"), nn.spent(root.listing("/", "")).await);
    let paths = [at("d"), large.clone()];
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let small = [paths[0], paths[0]];
    table.add(
        ("list", "getBatchedListing", "two small directories"),
        nn.spent(root.batched(&small, None)).await,
    );
    table.add(
        ("list", "getBatchedListing", "a small and a large one"),
        nn.spent(root.batched(&paths, None)).await,
    );
}

async fn new_names(nn: &Namenode, root: &Actor, table: &mut Table) {
    table.add(("mkdirs", "mkdirs", "one directory"), nn.spent(root.mkdirs(&at("new"), 0o755, true)).await);
    let three = at("a/b/c");
    table.add(("mkdirs", "mkdirs", "three directories"), nn.spent(root.mkdirs(&three, 0o755, true)).await);
    table.add(("mkdirs", "mkdirs", "it exists"), nn.spent(root.mkdirs(&at("new"), 0o755, true)).await);
    let file = at("written");
    table.add(("create", "create", "a new file"), nn.spent(root.create(&file, "client", |_| {})).await);
    let id = root.status(&file).await.unwrap().unwrap().inode.id;
    table.add(("write", "complete", "an empty file"), nn.spent(root.complete_id(&file, id, "client")).await);
    let over = root.create(&file, "client", |call| call.flags.overwrite = true);
    table.add(("create", "create", "over a closed file"), nn.spent(over).await);
    table.add(("write", "fsync", ""), nn.spent(root.fsync(&file, "client")).await);
    table.add(("write", "abandonBlock", ""), nn.spent(root.abandon_block(&file, "client")).await);
}

/// Files with blocks, three replicas each.
async fn data(nn: &Namenode, table: &mut Table) {
    give_datanodes(nn).await;
    let (su, f) = (calls::root(nn), at("data"));
    let id = su.begin(&f, "client").await;
    let added = nn.spent(su.add_block(&f, id, "client", None)).await;
    let first = added.0.as_ref().unwrap().block.clone();
    table.add(("add_block", "addBlock", "the first"), added);
    su.report(&first, BLOCK, ReplicaState::Finalized, &[0, 1, 2]).await;
    let added = nn.spent(su.add_block(&f, id, "client", Some(named(&first, BLOCK)))).await;
    let second = added.0.as_ref().unwrap().block.clone();
    table.add(("add_block", "addBlock", "a further one; the last one's replicas are reported"), added);
    table.add(("write", "fsync", "the last block grew"), nn.spent(su.sync(&f, id, "client", 7)).await);
    let stamped = nn.spent(su.next_stamp(named(&second, 7), "client")).await;
    table.add(("pipeline", "updateBlockForPipeline", ""), stamped);
    let new = BlockName { stamp: 1002, ..named(&second, 7) };
    let mended = nn.spent(su.new_pipeline(named(&second, 7), new.clone(), "client", &[0, 1, 2])).await;
    table.add(("pipeline", "updatePipeline", ""), mended);
    let waits = nn.spent(su.close(&f, id, "client", Some(new.clone()))).await;
    table.add(("write", "complete", "replicas are still to be reported"), waits);
    su.report(&Block { stamp: 1002, ..second }, 7, ReplicaState::Finalized, &[0, 1, 2]).await;
    let closed = nn.spent(su.close(&f, id, "client", Some(new))).await;
    table.add(("write", "complete", "a file of 2 blocks"), closed);
    let opened = nn.spent(su.locations(&f, 0, 10 * BLOCK as i64)).await;
    table.add(("locations", "getBlockLocations", "a file of 2 blocks"), opened);
    let root = Actor::superuser(nn);
    table
        .add(("status", "getLocatedFileInfo", "a file of 2 blocks"), nn.spent(root.located_status(&f)).await);
    table.add(
        ("attributes", "setReplication", "of a file of 2 blocks"),
        nn.spent(root.set_replication(&f, 2)).await,
    );
    root.set_replication(&f, 3).await.unwrap();
    let appended = nn.spent(su.append(&f, "client", false)).await;
    let last = appended.0.as_ref().unwrap().clone().unwrap().block;
    table.add(("append", "append", "to the last block"), appended);
    let abandoned = nn.spent(su.abandon(&f, id, "client", named(&last, 7))).await;
    table.add(("write", "abandonBlock", "the last block"), abandoned);
    assert!(su.close(&f, id, "client", Some(named(&first, BLOCK))).await.unwrap());
    cuts(nn, table).await;
}

async fn cuts(nn: &Namenode, table: &mut Table) {
    let (su, f, g) = (calls::root(nn), at("cut"), at("joined"));
    let id = su.write_file(&f, &[BLOCK, BLOCK, BLOCK]).await;
    let cut = nn.spent(su.truncate(&f, 2 * BLOCK as i64, "client")).await;
    table.add(("truncate", "truncate", "between two of 3 blocks"), cut);
    let cut = nn.spent(su.truncate(&f, BLOCK as i64 + 1, "client")).await;
    table.add(("truncate", "truncate", "inside a block"), cut);
    let block = su.blocks(id).await.pop().unwrap();
    let done = nn.spent(su.recovered(named(&block, BLOCK), 1002, 1, false, &[0, 1, 2])).await;
    table.add(("recovery", "commitBlockSynchronization", "it closes the file"), done);
    su.write_file(&g, &[BLOCK]).await;
    table.add(("concat", "concat", "one file of 2 blocks"), nn.spent(su.concat(&g, &[&f])).await);
    let id = su.begin(&f, "gone").await;
    let block = su.add_block(&f, id, "gone", None).await.unwrap().block;
    su.sync(&f, id, "gone", 1).await.unwrap();
    let recovers = nn.spent(su.recover(&f, "client")).await;
    table.add(("recovery", "recoverLease", "a file whose last block is unfinished"), recovers);
    su.recovered(named(&block, 1), 1002, 1, false, &[0, 1, 2]).await.unwrap();
    su.rm(&f, false).await.unwrap();
    let op: Op<Reaped> = Box::new(move |tx| reap_files(tx, &[id]));
    let reaped = nn.spent(nn.engine.write_wait(nn.engine.own_ctx(), id, 0, false, op)).await;
    table.add(("reap", "the reaper", "a file of 1 block"), reaped);
}

async fn removals(nn: &Namenode, root: &Actor, table: &mut Table) {
    let alice = Actor::new(nn, "alice");
    let (file, empty, full, own) = (at("gone"), at("empty"), at("full"), at("own"));
    root.file(&file).await;
    table.add(("delete", "delete", "a file"), nn.spent(root.delete(&file, false)).await);
    root.mkdirs(&empty, 0o755, true).await.unwrap();
    table.add(("delete", "delete", "an empty directory"), nn.spent(root.delete(&empty, false)).await);
    root.mkdirs(&format!("{full}/k"), 0o755, true).await.unwrap();
    table.add(
        ("delete", "delete", "a full directory, by the superuser"),
        nn.spent(root.delete(&full, true)).await,
    );
    root.give_dir(&own, 0o755, "alice", "bin").await;
    plant(nn, &own, Kind::File, 100, |i| format!("f{i}")).await;
    let id = root.status(&own).await.unwrap().unwrap().inode.id;
    table.add(
        ("delete", "delete", "a directory of files, by its owner"),
        nn.spent(alice.delete(&own, true)).await,
    );
    // As the job runs it: without an identity to keep.
    let op: Op<Reaped> = Box::new(move |tx| reap_directory(tx, id));
    let reaped = nn.spent(nn.engine.write_wait(nn.engine.own_ctx(), id, 0, false, op)).await;
    table.add(("reap", "the reaper", "a batch of 100 files"), reaped);
}

async fn moves(nn: &Namenode, root: &Actor, table: &mut Table) {
    let other = at("other");
    root.mkdirs(&other, 0o755, true).await.unwrap();
    for name in ["m1", "m2", "m3", "m4"] {
        root.file(&at(name)).await;
    }
    root.mkdirs(&at("full/k"), 0o755, true).await.unwrap();
    let away = |name: &str| format!("{other}/{name}");
    table.add(
        ("rename", "rename", "a file, in its directory"),
        nn.spent(root.rename(&at("m1"), &at("m5"))).await,
    );
    table.add(("rename", "rename", "a file, elsewhere"), nn.spent(root.rename(&at("m5"), &away("m5"))).await);
    let (from, to) = (at("m2"), at("m3"));
    let onto = root.rename2(&from, &to, true, false);
    table.add(("rename", "rename2", "a file onto another"), nn.spent(onto).await);
    table.add(
        ("rename", "rename", "a full directory, in its directory"),
        nn.spent(root.rename(&at("full"), &at("f2"))).await,
    );
    table.add(
        ("rename", "rename", "a full directory, elsewhere"),
        nn.spent(root.rename(&at("f2"), &away("f2"))).await,
    );
    table
        .add(("rename", "rename", "a file into a directory"), nn.spent(root.rename(&at("m4"), &other)).await);
}

async fn attributes(nn: &Namenode, root: &Actor, table: &mut Table) {
    let (d, f) = (at("d"), at("f"));
    let file = "attributes";
    table.add((file, "setPermission", ""), nn.spent(root.set_permission(&f, 0o600)).await);
    table.add((file, "setOwner", ""), nn.spent(root.set_owner(&f, Some("alice"), None)).await);
    table.add((file, "setTimes", "a file"), nn.spent(root.set_times(&f, 1, 2)).await);
    table.add((file, "setTimes", "a directory"), nn.spent(root.set_times(&d, 1, 2)).await);
    table.add((file, "setReplication", ""), nn.spent(root.set_replication(&f, 2)).await);
}

async fn leases(nn: &Namenode, root: &Actor, table: &mut Table) {
    root.create(&at("held"), "holder", |_| {}).await.unwrap();
    let open = nn.spent(root.open_files(0, "/")).await;
    table.add(("open_files", "listOpenFiles", "one open file"), open);
    table.add(("lease", "renewLease", ""), nn.spent(root.renew_lease("holder")).await);
    table.add(
        ("lease", "recoverLease", "an open file"),
        nn.spent(root.recover_lease(&at("held"), "other")).await,
    );
    table.add(
        ("lease", "recoverLease", "a closed file"),
        nn.spent(root.recover_lease(&at("held"), "other")).await,
    );
}

async fn datanodes(nn: &Namenode, table: &mut Table) {
    table.add(("datanodes", "registerDatanode", "a new one"), nn.spent(reports::register(nn, "u1")).await);
    let again = nn.spent(reports::register(nn, "u1")).await;
    table.add(("datanodes", "registerDatanode", "as before"), again);
    reports::storages(nn, "u1", &["s1"]).await.unwrap();
    reports::plant(nn, 0..12).await;
    let tell = |ordinals: std::ops::Range<u32>| {
        let told = ordinals.map(|ordinal| reports::told(ordinal, reports::STORAGE, What::Received(None)));
        reports::apply(nn, "u1", told.collect())
    };
    table.add(("report", "blockReceivedAndDeleted", "one replica"), nn.spent(tell(0..1)).await);
    table.add(("report", "blockReceivedAndDeleted", "10 replicas"), nn.spent(tell(1..11)).await);
    table.add(("report", "blockReceivedAndDeleted", "10 told before"), nn.spent(tell(1..11)).await);
    table.add(
        ("report", "blockReceivedAndDeleted", "of a block that is unknown"),
        nn.spent(tell(99..100)).await,
    );
}

async fn replication(table: &mut Table) {
    let (copied, well) = redundancy::costs().await;
    table.add(("redundancy", "the replication job", "a file of 10 blocks with too few replicas"), copied);
    table.add(("redundancy", "the replication job", "a file that is well"), well);
}

const HEAD: &str = "# What operations cost

Generated by the tests of `trellis-namenode` (`TRELLIS_WRITE_DOCS=1 cargo test -p trellis-namenode --test all costs`);
they fail when a number here is not what the store counts.

One call alone, warm (the namenode has seen the path before), on a path of depth 7. A *fetch* is one exchange that
reads, a *commit* one that writes; keys are looked up, rows come back from look-ups and scans. A call whose repeats get
the first answer (COMPAT.md says which) also looks up and writes its row of the retry cache, which is counted here. Calls
that wait together share fetches and commits, so on a busy namenode each pays a fraction. On the embedded store a
snapshot is one trip, and so is a share in a write transaction.

| operation | case | fetches | commits | keys | rows read | rows written | trips, embedded |
|---|---|---:|---:|---:|---:|---:|---:|
";

fn page(mem: &[Line], lmdb: &[Line]) -> String {
    let mut page = HEAD.to_owned();
    for (line, embedded) in mem.iter().zip(lmdb) {
        let Line { operation, when, spent, .. } = line;
        assert_eq!((operation, when), (&embedded.operation, &embedded.when));
        let Reading { fetches, commits, keys, rows_read, rows_written, .. } = spent;
        let trips = embedded.spent.round_trips;
        writeln!(
            page,
            "| {operation} | {when} | {fetches} | {commits} | {keys} | {rows_read} | {rows_written} | {trips} |"
        )
        .unwrap();
    }
    page
}

fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

pub async fn the_page_says_what_the_store_counts() {
    let mem = measure().await;
    FRESH_STORE.set("lmdb");
    let lmdb = measure().await;
    FRESH_STORE.set("lmdb-log");
    for (plain, log) in lmdb.iter().zip(&measure().await) {
        // When rows are merged is a matter of time, and then threads remember ways that need not be read.
        let Reading { keys, rows_read, transaction_us, .. } = plain.spent;
        let spent = Reading { merges: 0, merged_rows: 0, keys, rows_read, transaction_us, ..log.spent };
        assert_eq!((plain.operation, plain.spent), (log.operation, spent), "a log changes no other cost");
        assert!(log.spent.keys <= keys && log.spent.rows_read <= rows_read, "{plain:?} {log:?}");
    }
    for line in &mem {
        assert_eq!(line.spent.round_trips, line.spent.fetches + line.spent.commits, "{line:?}");
    }
    let (page, file) = (page(&mem, &lmdb), repository("docs/COSTS.md"));
    if std::env::var_os("TRELLIS_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let differences: Vec<_> =
        page.lines().filter(|line| !written.lines().any(|other| other == *line)).collect();
    assert!(written == page, "docs/COSTS.md is old; new lines:\n{}", differences.join("\n"));
    heads_agree(&mem);
}

/// The head of each file of operations says what its first operation in the table costs.
fn heads_agree(mem: &[Line]) {
    let mut first: BTreeMap<&str, &Line> = BTreeMap::new();
    for line in mem {
        first.entry(line.file).or_insert(line);
    }
    let mut seen = 0;
    for entry in std::fs::read_dir(repository("namenode/src/ops")).unwrap() {
        let file = entry.unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        let Some(cost) = cost_of(&text) else { continue };
        let name = file.file_stem().unwrap().to_str().unwrap();
        let line = first.get(name).unwrap_or_else(|| panic!("no operation of ops/{name}.rs is measured"));
        let counted = (line.spent.fetches, line.spent.commits);
        assert_eq!(said(&cost), Some(counted), "head of ops/{name}.rs: {cost}; counted: {line:?}");
        seen += 1;
    }
    assert_eq!(seen, first.len());
}

/// The text behind `Cost` in a file's head.
fn cost_of(text: &str) -> Option<String> {
    let head = text.lines().map_while(|line| line.strip_prefix("//!"));
    let from_cost: Vec<&str> = head.skip_while(|line| !line.starts_with(" Cost ")).collect();
    let (first, rest) = from_cost.split_first()?;
    let wrapped = rest.iter().take_while(|line| line.starts_with("         "));
    Some([first].into_iter().chain(wrapped).map(|line| line.trim()).collect::<Vec<_>>().join(" "))
}

/// The first `N fetch` or `N fetch + M commit` of a text.
fn said(cost: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> =
        cost.split([' ', ';', ',', '.', ':', ')']).filter(|word| !word.is_empty()).collect();
    let place = words.iter().position(|word| word.starts_with("fetch"))?;
    let fetches = words.get(place.checked_sub(1)?)?.parse().ok()?;
    let commits = match words.get(place + 1..place + 4) {
        Some(["+", n, commit]) if commit.starts_with("commit") => n.parse().ok()?,
        _ => 0,
    };
    Some((fetches, commits))
}

//! Listings page by page: order, cursors, and how many entries remain.

use trellis_metastore::schema::Kind;
use trellis_namenode::config::Config;
use trellis_namenode::ops::list::{BatchCursor, GetListing, get_listing};
use trellis_proto::exception::Kind as Class;

use crate::actor::Actor;
use crate::plant::plant;
use crate::support::{Namenode, path};

const NAMES: &[&str] = &["Z", "a", "é", "€", "~", "!", "😀", "a0", "A", "aa"];

/// Stock's order: names compare as signed bytes.
fn in_stock_order(mut names: Vec<String>) -> Vec<String> {
    names.sort_by_key(|name| name.bytes().map(|byte| byte as i8).collect::<Vec<_>>());
    names
}

async fn with_page(listing_page: u32) -> Namenode {
    Namenode::fresh_with(Config { listing_page, ..Config::default() }).await
}

/// Every page of a directory; what remains must be exact on each.
async fn all_pages(actor: &Actor, directory: &str, page: usize, total: usize) -> Vec<String> {
    let (mut names, mut after): (Vec<String>, Vec<u8>) = (Vec::new(), Vec::new());
    loop {
        let listing = actor.listing(directory, &after).await.unwrap().unwrap();
        assert!(listing.entries.len() <= page);
        names.extend(listing.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()));
        assert_eq!(listing.remaining as usize, total - names.len(), "after {names:?}");
        if listing.remaining == 0 {
            return names;
        }
        after = listing.entries.last().unwrap().name.to_vec();
    }
}

pub async fn small_pages_join_up() {
    for page in [1, 2, 3, 1000] {
        let nn = with_page(page).await;
        let root = Actor::superuser(&nn);
        for (i, name) in NAMES.iter().enumerate() {
            match i % 2 {
                0 => root.mkdirs(&format!("/d/{name}/k"), 0o755, true).await.map(drop).unwrap(),
                _ => root.file(&format!("/d/{name}")).await,
            }
        }
        let names = all_pages(&root, "/d", page as usize, NAMES.len()).await;
        assert_eq!(names, in_stock_order(NAMES.iter().map(ToString::to_string).collect()));
        let listing = root.listing("/d", "€").await.unwrap().unwrap();
        assert!(listing.entries.iter().all(|entry| entry.children == i64::from(entry.inode.is_dir())));
    }
}

/// The root's children lie in many partitions: pages are merged, and crowded partitions asked again.
pub async fn pages_of_the_root() {
    for page in [1, 2, 3, 20, 100, 1000] {
        let nn = with_page(page).await;
        plant(&nn, "/", Kind::Directory, 150, |i| format!("d{i}")).await;
        plant(&nn, "/", Kind::File, 50, |i| format!("f{i}")).await;
        let all = (0..150).map(|i| format!("d{i}")).chain((0..50).map(|i| format!("f{i}")));
        let names = all_pages(&Actor::superuser(&nn), "/", page as usize, 200).await;
        assert_eq!(names, in_stock_order(all.collect()));
    }
}

/// Past 10 000 entries a later page tells fewer than there are, but never that it was the last.
pub async fn what_remains_of_a_large_directory() {
    let nn = Namenode::fresh().await;
    let root = Actor::superuser(&nn);
    root.mkdirs("/d", 0o755, true).await.unwrap();
    plant(&nn, "/d", Kind::File, 12_500, |i| format!("f{i:05}")).await;
    let remaining = async |after: &str| root.listing("/d", after).await.unwrap().unwrap().remaining;
    assert_eq!(remaining("").await, 11_500);
    assert_eq!(remaining("f00999").await, 9_000);
    assert_eq!(remaining("f02499").await, 9_000);
    assert_eq!(remaining("f02500").await, 8_999);
    assert_eq!(remaining("f11499").await, 0);
}

pub async fn starts_refusals_and_ids() {
    let nn = Namenode::fresh().await;
    let (root, bob) = (Actor::superuser(&nn), Actor::new(&nn, "bob"));
    root.mkdirs("/d/a", 0o755, true).await.unwrap();
    root.mkdirs("/d/b", 0o755, true).await.unwrap();
    let id = root.status("/d/a").await.unwrap().unwrap().inode.id;
    let after_id = root.listing("/d", format!("/.reserved/.inodes/{id}")).await.unwrap().unwrap();
    assert_eq!(after_id.entries.len(), 1);
    let gone = root.listing("/d", "/.reserved/.inodes/99999999").await.unwrap_err();
    assert_eq!(
        (gone.kind, gone.message.as_str()),
        (Class::StartAfterNotFound, "Can't find startAfter /.reserved/.inodes/99999999")
    );
    assert_eq!(root.listing("/d", "x".repeat(5000)).await.unwrap().unwrap().entries.len(), 0);
    assert_eq!(root.listing("/d/.snapshot", "").await.unwrap_err().kind, Class::Snapshot);
    assert_eq!(root.listing("/no/.snapshot", "").await.unwrap_err().kind, Class::FileNotFound);
    root.set_permission("/d", 0o711).await.unwrap();
    assert_eq!(bob.listing("/d", "").await.unwrap_err().kind, Class::AccessControl);
    assert_eq!(bob.listing("/d/a", "").await.unwrap().unwrap().entries.len(), 0);
    let links = root.link_target("/d").await.unwrap_err();
    assert_eq!(links.message, "Path /d is not a symbolic link");
    assert_eq!(root.link_target("/no").await.unwrap_err().kind, Class::FileNotFound);
    assert_eq!(bob.enclosing_root("/d/a").await, Ok("/".to_owned()));
}

/// Several paths, paged over all of them, an exception for each that refuses.
pub async fn batched() {
    for page in [1, 2, 3, 5, 1000] {
        let nn = with_page(page).await;
        let (root, bob) = (Actor::superuser(&nn), Actor::new(&nn, "bob"));
        for name in ["a/1", "a/2", "a/3", "closed/x", "b", "c/4", "c/5"] {
            root.mkdirs(&format!("/d/{name}"), 0o755, true).await.unwrap();
        }
        root.file("/d/f").await;
        root.set_permission("/d/closed", 0o700).await.unwrap();
        let paths = ["/d/a", "/d/closed", "/d/b", "/d/f", "/d/nothing", "/d/c"];
        let (mut seen, mut refused) = (Vec::new(), Vec::new());
        let mut cursor: Option<BatchCursor> = None;
        loop {
            let answer = bob.batched(&paths, cursor).await.unwrap();
            for (index, listing) in answer.listings {
                match listing {
                    Ok(entries) => seen.extend(
                        entries.iter().map(|e| (index, String::from_utf8_lossy(&e.name).into_owned())),
                    ),
                    Err(error) => refused.push((index, error.kind)),
                }
            }
            cursor = answer.next;
            if cursor.is_none() {
                break;
            }
        }
        let expected = [(0, "1"), (0, "2"), (0, "3"), (3, ""), (5, "4"), (5, "5")];
        assert_eq!(seen, expected.map(|(index, name)| (index, name.to_owned())), "page of {page}");
        assert_eq!(refused, [(1, Class::AccessControl), (4, Class::FileNotFound)], "page of {page}");
    }
    let nn = Namenode::fresh().await;
    let many = vec!["/"; 101];
    let error = Actor::superuser(&nn).batched(&many, None).await.unwrap_err();
    assert_eq!(error.message, "Too many source paths (101 > 100)");
}

/// A page of a directory costs one fetch; so does one of the root, whose two scans in each partition go together.
pub async fn a_page_costs_one_fetch() {
    let nn = Namenode::fresh().await;
    let root = Actor::superuser(&nn);
    root.mkdirs("/1/2/3/4/5/6/7", 0o755, true).await.unwrap();
    plant(&nn, "/1/2/3/4/5/6/7", Kind::Directory, 1500, |i| format!("d{i}")).await;
    for (directory, after) in [("/1/2/3/4/5/6/7", ""), ("/1/2/3/4/5/6/7", "d3"), ("/", ""), ("/", "0")] {
        root.status(directory).await.unwrap();
        let (_, spent) = nn.spent(root.listing(directory, after)).await;
        assert_eq!((spent.fetches, spent.round_trips), (1, 1), "{directory} after {after:?}");
    }
    let call =
        GetListing { path: path("/1/2/3/4/5/6/7"), start_after: bytes::Bytes::new(), with_blocks: false };
    let (page, spent) = nn.spent(nn.read("hdfs", move |tx| get_listing(tx, &call))).await;
    assert_eq!(page.unwrap().unwrap().remaining, 500);
    assert!(spent.rows_read <= 2 * 1000 + 20);
}

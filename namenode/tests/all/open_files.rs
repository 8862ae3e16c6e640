//! The list of open files: pages, what is in them, who may ask, what they cost.

use trellis_metastore::schema::{
    Inode, InodePath, Kind, OpenFile as OpenFileRow, Writer, inode, inode_path, open_file,
};
use trellis_namenode::config::Config;
use trellis_namenode::ops::open_files::{ListOpenFiles, OpenFilesPage, list_open_files};
use trellis_proto::exception::RpcError;

use crate::actor::Text;
use crate::calls::{As, assert_sound, refusal, root};
use crate::support::{Namenode, SUPERUSER};

async fn page(nn: &Namenode, user: &str, after: u64, under: &str) -> Result<OpenFilesPage, RpcError> {
    let call = ListOpenFiles::new(after as i64, under)?;
    nn.read(user, move |tx| list_open_files(tx, &call)).await
}

/// All pages below a path: the paths, and how many on each page.
async fn all(nn: &Namenode, under: &str) -> (Vec<String>, Vec<usize>) {
    let (mut paths, mut pages, mut after) = (Vec::new(), Vec::new(), 0);
    loop {
        let OpenFilesPage { files, has_more } = page(nn, SUPERUSER, after, under).await.unwrap();
        assert!(files.is_sorted_by_key(|file| file.id) && files.iter().all(|file| file.id > after));
        pages.push(files.len());
        after = files.last().map_or(after, |file| file.id);
        paths.extend(files.into_iter().map(|file| file.path));
        if !has_more {
            return (paths, pages);
        }
    }
}

pub async fn pages_and_paths() {
    let nn = Namenode::fresh_with(Config { open_files_page: 3, ..Config::default() }).await;
    let su = root(&nn);
    assert_eq!(all(&nn, "/").await, (vec![], vec![0]));
    for (i, path) in ["/a/1", "/b/2", "/a/d/3", "/ab", "/a/5", "/b/6", "/b/7"].into_iter().enumerate() {
        su.open(path, &format!("c{i}")).await.unwrap();
    }
    su.touch("/a/closed").await.unwrap();
    let paths = |list: &[&str]| list.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
    let every = paths(&["/a/1", "/b/2", "/a/d/3", "/ab", "/a/5", "/b/6", "/b/7"]);
    assert_eq!(all(&nn, "/").await, (every, vec![3, 3, 1]));
    // Open files past the last one of a page count as more, be they below the path or not.
    assert_eq!(all(&nn, "/a").await, (paths(&["/a/1", "/a/d/3", "/a/5"]), vec![3, 0]));
    assert_eq!(all(&nn, "//a/./x/../d/").await, (paths(&["/a/d/3"]), vec![1]));
    assert_eq!(all(&nn, "/ab").await, (paths(&["/ab"]), vec![1]));
    assert_eq!(all(&nn, "/none").await, (vec![], vec![0]));

    let first = page(&nn, SUPERUSER, 0, "/").await.unwrap().files.swap_remove(0);
    assert_eq!((first.id, first.holder.as_str()), (su.must("/a/1").await.inode.id, "c0"));
    assert_eq!(first.machine, "127.0.0.1");
    // Renamed, closed, deleted, below a deleted directory that is not freed yet.
    assert_eq!(su.mv("/b", "/a/moved").await, Ok(true));
    assert_eq!(su.recover("/ab", "other").await, Ok(true));
    assert_eq!(su.rm("/a/5", false).await, Ok(true));
    assert_eq!(su.rm("/a/d", true).await, Ok(true));
    let left = paths(&["/a/1", "/a/moved/2", "/a/moved/6", "/a/moved/7"]);
    assert_eq!(all(&nn, "/").await, (left, vec![3, 1]));
    assert_eq!(su.rm("/a/moved/7", false).await, Ok(true));
    // What is deleted is not "more".
    assert_eq!(all(&nn, "/").await.1, vec![3]);
    assert_sound(&nn).await;
}

pub async fn who_may_ask_for_what() {
    let nn = Namenode::fresh().await;
    root(&nn).open("/f", "c").await.unwrap();
    let bob = As { nn: &nn, user: "bob" };
    assert_eq!(
        refusal(page(&nn, bob.user, 0, "/").await),
        "AccessControlException: Access denied for user bob. Superuser privilege is required for operation \
         listOpenFiles"
    );
    assert_eq!(
        refusal(page(&nn, SUPERUSER, 0, "f").await),
        "AssertionError: Absolute path required, but got 'f'"
    );
    let kinds = async |all, blocking_decommission| {
        let call = ListOpenFiles { all, blocking_decommission, ..ListOpenFiles::new(-1, "/").unwrap() };
        nn.read(SUPERUSER, move |tx| list_open_files(tx, &call)).await
    };
    assert_eq!(kinds(true, true).await.unwrap().files.len(), 1);
    assert_eq!(kinds(false, true).await, Ok(OpenFilesPage::default()));
    assert_eq!(refusal(kinds(false, false).await), "IllegalArgumentException: Unknown OpenFileType: []");
}

/// Open files that crowd in one bucket come in the order of their ids with those of the others.
pub async fn a_crowded_bucket() {
    const CROWD: u64 = 150;
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    su.mk("/d").await.unwrap();
    let parent = su.must("/d").await.inode.id;
    let first = 1 << 30;
    let ids: Vec<u64> = (0..CROWD).flat_map(|i| [first + 64 * i, first + 64 * i + 1 + i % 5]).collect();
    let planted = ids.clone();
    let plant = move |tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>| {
        for id in &planted {
            let open = Some(Writer { holder: "c".into(), machine: "m".into() });
            let row = Inode { id: *id, kind: Kind::File as i32, open, ..Inode::default() };
            let name = bytes::Bytes::from(format!("f{id}"));
            tx.insert(&inode(parent, &name), &row)?;
            tx.insert(&inode_path(*id), &InodePath { parent, name })?;
            tx.insert(&open_file(*id), &OpenFileRow { holder: "c".into() })?;
        }
        Ok(Text::default())
    };
    nn.write(SUPERUSER, plant).await.unwrap();
    let expected: Vec<String> = ids.iter().map(|id| format!("/d/f{id}")).collect();
    assert_eq!(all(&nn, "/").await, (expected, vec![ids.len()]));
    assert_eq!(page(&nn, SUPERUSER, ids[ids.len() - 1], "/").await, Ok(OpenFilesPage::default()));
}

//! Which folders are served, and which are refused.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use trellis_datanode::disk::{DiskStore, Folders, VolumeDir};
use trellis_datanode::store::{BlockStore, Pool, Result, StorageType};

use super::{Fixture, pool, quiet, volume};

fn open(dirs: &[&Path], pool: Pool) -> Result<DiskStore> {
    let dirs: Vec<VolumeDir> = dirs.iter().map(|dir| volume(dir)).collect();
    Folders::open(&dirs)?.attach(pool, quiet(), Box::new(|_| ()))
}

fn refusal(dirs: &[&Path], pool: Pool) -> String {
    open(dirs, pool).err().expect("it is refused").to_string()
}

#[test]
fn a_new_folder_is_laid_out_as_stock_does() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a/b");
    let folders = Folders::open(&[VolumeDir { path: path.clone(), storage_type: StorageType::Ssd }]).unwrap();
    let uuid = folders.datanode_uuid().to_owned();
    let store = folders.attach(pool(), quiet(), Box::new(|_| ())).unwrap();
    let storage = store.storages()[0].clone();
    assert_eq!((store.datanode_uuid(), storage.storage_type), (&*uuid, StorageType::Ssd));
    assert!(storage.capacity > 0 && storage.remaining <= storage.capacity && !storage.failed);
    let text = fs::read_to_string(path.join("current/VERSION")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort();
    let expected = [
        "cTime=0",
        "clusterID=CID-test",
        &format!("datanodeUuid={uuid}"),
        "layoutVersion=-57",
        &format!("storageID={}", storage.storage),
        "storageType=DATA_NODE",
    ];
    assert_eq!(lines, expected);
    let pool_dir = path.join("current").join(pool().id);
    let text = fs::read_to_string(pool_dir.join("current/VERSION")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort();
    assert_eq!(lines, ["blockpoolID=BP-1-127.0.0.1-2", "cTime=9", "layoutVersion=-57", "namespaceID=7"]);
    for folder in ["tmp", "current/finalized", "current/rbw"] {
        assert!(pool_dir.join(folder).is_dir(), "{folder}");
    }
    drop(store);
    let again = Folders::open(&[volume(&path)]).unwrap();
    assert_eq!(again.datanode_uuid(), uuid);
}

#[test]
fn folders_of_others_are_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path();
    drop(open(&[path], pool()).unwrap());
    let other = |change: fn(&mut Pool)| {
        let mut other = pool();
        change(&mut other);
        refusal(&[path], other)
    };
    assert!(
        other(|pool| pool.cluster_id = "CID-other".into()).contains("clusterID is CID-test, not CID-other")
    );
    assert!(other(|pool| pool.id = "BP-9".into()).contains("has the block pool BP-1-127.0.0.1-2"));
    assert!(other(|pool| pool.namespace_id = 8).contains("namespaceID is 7, not 8"));
    assert!(other(|pool| pool.ctime = 10).contains("cTime is 9, not 10"));
    for id in ["BP-../x", "BP-a/b", "x", "BP-a b", "BP-\n"] {
        let fresh = TempDir::new().unwrap();
        let error = refusal(&[fresh.path()], Pool { id: id.into(), ..pool() });
        assert!(error.contains("is no block pool's id"), "{error}");
    }
    drop(open(&[path], pool()).unwrap());
}

#[test]
fn folders_in_another_layout_or_state_are_refused() {
    let change = |file: &str, from: &str, to: &str| {
        let dir = TempDir::new().unwrap();
        drop(open(&[dir.path()], pool()).unwrap());
        let file = dir.path().join("current").join(file);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from));
        fs::write(&file, text.replace(from, to)).unwrap();
        refusal(&[dir.path()], pool())
    };
    let pool_version = format!("{}/current/VERSION", pool().id);
    assert!(change("VERSION", "-57", "-58").contains("layoutVersion is -58, not -57"));
    assert!(change("VERSION", "DATA_NODE", "NAME_NODE").contains("storageType is NAME_NODE"));
    assert!(change("VERSION", "storageID", "x").contains("no storageID"));
    assert!(change(&pool_version, "-57", "-56").contains("layoutVersion is -56"));
    assert!(change(&pool_version, "cTime=9", "").contains("cTime is missing"));

    let with = |left: &str| {
        let dir = TempDir::new().unwrap();
        drop(open(&[dir.path()], pool()).unwrap());
        fs::create_dir_all(dir.path().join(left)).unwrap();
        refusal(&[dir.path()], pool())
    };
    assert!(with("previous").contains("not finalized"));
    assert!(with(&format!("current/{}/previous", pool().id)).contains("not finalized"));

    let dir = TempDir::new().unwrap();
    fs::create_dir_all(dir.path().join("current/something")).unwrap();
    assert!(refusal(&[dir.path()], pool()).contains("no VERSION but is not empty"));

    let mut fixture = Fixture::new(1);
    fixture.finalized(1, 1, b"abc");
    fs::remove_file(fixture.path("current/VERSION")).unwrap();
    let dirs = fixture.take_dirs();
    assert!(refusal(&[dirs[0].path()], pool()).contains("has blocks but no current/VERSION"));
}

#[test]
fn a_first_start_that_broke_off_is_gone_on_with() {
    let pool_dir = format!("current/{}", pool().id);
    for made in [
        &["current/VERSION.tmp"][..],
        // As older starts laid it out: the pool first.
        &[&format!("{pool_dir}/tmp/"), &format!("{pool_dir}/current/VERSION.tmp")],
        &[
            "current/VERSION.tmp",
            &format!("{pool_dir}/tmp/"),
            &format!("{pool_dir}/current/finalized/"),
            &format!("{pool_dir}/current/rbw/"),
        ],
    ] {
        let dir = TempDir::new().unwrap();
        for name in made {
            let path = dir.path().join(name);
            if name.ends_with('/') {
                fs::create_dir_all(path).unwrap();
            } else {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, b"storage").unwrap();
            }
        }
        drop(open(&[dir.path()], pool()).unwrap());
        assert!(dir.path().join("current/VERSION").is_file());
    }
    // Whatever is missing of the pool is made when its folder is known.
    for missing in ["current/VERSION", "tmp", "current", ""] {
        let dir = TempDir::new().unwrap();
        drop(open(&[dir.path()], pool()).unwrap());
        let path = dir.path().join(&pool_dir).join(missing);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        drop(open(&[dir.path()], pool()).unwrap());
    }

    let mut fixture = Fixture::new(1);
    fixture.finalized(1, 1, b"abc");
    let dirs = fixture.take_dirs();
    fs::remove_file(dirs[0].path().join("current/VERSION")).unwrap();
    assert!(refusal(&[dirs[0].path()], pool()).contains("no VERSION but is not empty"), "there is a block");
}

#[test]
fn a_folder_has_one_datanode() {
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = open(&[one.path()], pool()).unwrap();
    let error = refusal(&[one.path()], pool());
    assert!(error.contains(&format!("in use by another datanode ({}@", std::process::id())), "{error}");
    assert!(refusal(&[two.path(), two.path()], pool()).contains("in use"));
    drop(open(&[two.path()], pool()).unwrap());
    drop(store);
    assert!(refusal(&[one.path(), two.path()], pool()).contains("another folder of"));
    let three = TempDir::new().unwrap();
    drop(open(&[one.path(), three.path()], pool()).unwrap());
    // A copy of a folder is not a second storage.
    let text = fs::read_to_string(one.path().join("current/VERSION")).unwrap();
    fs::write(three.path().join("current/VERSION"), text).unwrap();
    assert!(refusal(&[one.path(), three.path()], pool()).contains("one is a copy"));
}

#[test]
fn what_a_stock_datanode_remembers_is_forgotten() {
    let mut fixture = Fixture::new(1);
    fixture.restart_after(|fixture| {
        fs::write(fixture.path("current/replicas"), b"x").unwrap();
        fs::write(fixture.path("current/dfsUsed"), b"1 2").unwrap();
    });
    assert!(!fixture.path("current/replicas").exists() && !fixture.path("current/dfsUsed").exists());
}

//! The store check finds what is damaged.

use std::sync::Arc;

use trellis_metastore::change::{Change, Check, Effect, Hold};
use trellis_metastore::faulty::{Faults, Faulty};
use trellis_metastore::group::transact;
use trellis_metastore::key::Key;
use trellis_metastore::mem::Mem;
use trellis_metastore::schema::{
    DirStat, InodePath, ROOT_ID, Table, TableKey, dir_stat, inode, inode_path, lease_holder, open_file,
    root_stat, setting,
};
use trellis_metastore::tx::{Stop, Tx, Versions};
use trellis_namenode::check::check;
use trellis_namenode::config::Config;

use crate::calls::{assert_sound, root};
use crate::support::Namenode;

type Harm = Box<dyn Fn(&mut Tx<'_>) -> Result<(), Stop>>;

/// A damaged row: its key, how it is damaged, words of what must be found.
pub type Damage = (Key, Harm, &'static str);

/// A row that is gone.
pub fn lost<T: Table + 'static>(key: TableKey<T>, words: &'static str) -> Damage {
    let harm = move |tx: &mut Tx<'_>, key: &TableKey<T>| {
        tx.get(key, Hold::Loose)?;
        tx.delete(key)
    };
    (key.key.clone(), Box::new(move |tx| harm(tx, &key)), words)
}

/// A row that is there, or is not, and says this instead.
pub fn wrong<T: Table + 'static>(key: TableKey<T>, value: T::Value, add: i64, words: &'static str) -> Damage {
    let harm = move |tx: &mut Tx<'_>, key: &TableKey<T>, value: &T::Value| match tx.get(key, Hold::Loose)? {
        Some(_) => tx.put_counted(key, value, 0, add),
        None => tx.insert_counted(key, value, 0, add),
    };
    (key.key.clone(), Box::new(move |tx| harm(tx, &key, &value)), words)
}

pub async fn damage_is_found() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    let open = su.open("/d/e/open", "c1").await.unwrap();
    let file = su.touch("/d/f").await.unwrap();
    let d = su.must("/d").await.inode;
    let e = su.must("/d/e").await.inode;
    assert_sound(&nn).await;
    let damages: Vec<Damage> = vec![
        lost(inode_path(file.id), "has no place in inode_paths"),
        lost(dir_stat(d.id, b"e"), "is a directory without counters"),
        lost(inode(d.id, b"e"), "counters without a directory"),
        lost(inode(d.id, b"f"), "which is not it"),
        lost(open_file(open.id), "is open and not in open_files"),
        lost(lease_holder("c1"), "has no lease"),
        lost(inode_path(d.id), "neither below the root nor hidden"),
        lost(setting("cluster_id"), "is missing"),
        wrong(
            inode_path(e.id),
            InodePath { parent: e.id, name: "e".into() },
            0,
            "neither below the root nor hidden",
        ),
        wrong(root_stat(), DirStat { id: ROOT_ID, quota_of: 0 }, 9, "has 1 children and counts 9"),
        wrong(dir_stat(d.id, b"e"), DirStat { id: 77, quota_of: 0 }, 1, "its counters are of 77"),
    ];
    assert_found(&nn, &damages).await;
}

/// Does each damage by itself: it is found, and once it is mended nothing is.
pub async fn assert_found(nn: &Namenode, damages: &[Damage]) {
    let store = nn.engine.backend().store();
    let versions = Versions::of_incarnation(99);
    for (key, harm, words) in damages {
        let before = store.fetch(std::slice::from_ref(key), &[]).await.unwrap().rows.pop().unwrap();
        transact(store, &versions, |tx| harm(tx)).await.unwrap();
        let found = check(store).await.unwrap();
        assert!(found.iter().any(|finding| finding.to_string().contains(words)), "{words}: {found:?}");
        let back = Change {
            key: key.clone(),
            check: Check::Nothing,
            effect: before.map_or(Effect::Delete, Effect::Put),
        };
        store.commit(&[back]).await.unwrap();
        assert_sound(nn).await;
    }
}

pub async fn every_damaged_row_is_found() {
    let store = Mem::new();
    let nn = Namenode::start(Arc::new(store.clone()), 1, Config::default()).await;
    let su = root(&nn);
    for name in ["/d/a", "/d/b", "/d/c", "/d/f", "/e/g"] {
        su.touch(name).await.unwrap();
    }
    assert_sound(&nn).await;
    let (d, e) = (su.must("/d").await.inode, su.must("/e").await.inode);
    // Neighbours, the first and the last of a directory, and rows that are only ever read by their keys.
    let keys = vec![
        inode(d.id, b"a").key,
        inode(d.id, b"b").key,
        inode(d.id, b"f").key,
        inode(e.id, b"g").key,
        inode_path(d.id).key,
        setting("cluster_id").key,
        root_stat().key,
    ];
    let damaged = Faulty::new(Arc::new(store), Faults::default(), 0);
    damaged.damage(&keys);
    let found = check(&damaged).await.unwrap();
    let mut told: Vec<&str> =
        found.iter().filter(|finding| finding.what.contains("damaged")).map(|f| f.place.as_str()).collect();
    let mut want: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
    told.sort_unstable();
    want.sort_unstable();
    assert_eq!(told, want, "{found:?}");
}

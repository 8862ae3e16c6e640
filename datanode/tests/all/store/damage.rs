//! What a start finds after crashes, and files that are no replicas.

use std::fs;
use std::os::unix::fs::symlink;

use trellis_datanode::disk::Folders;
use trellis_datanode::store::{Block, BlockStore, Event, ReplicaState, StoreError, Target};
use trellis_proto::checksum::Checksum;

use super::{Fixture, bytes, pool, quiet, read, report, volume, write};

const DATA: &str = "current/finalized/subdir0/subdir0/blk_1";
const META: &str = "current/finalized/subdir0/subdir0/blk_1_5.meta";

#[test]
fn torn_files_of_a_replica_that_was_written() {
    let data = bytes(1300, 1);
    let after = |change: &dyn Fn(&Fixture)| {
        let mut fixture = Fixture::new(1);
        let mut writer = fixture.create(1, 5);
        write(&mut *writer, 0, &data);
        drop(writer);
        fixture.restart_after(change);
        let shown = report(fixture.store());
        if let Some((_, _, len, ReplicaState::Rwr)) = shown.first() {
            assert_eq!(read(fixture.store(), 1), data[..*len as usize]);
            assert!(fixture.store().append(Block { id: 1, stamp: 5 }, 6, *len).is_err());
            fixture.store().init_recovery(Block { id: 1, stamp: 5 }, 7).unwrap();
            fixture.store().update_recovery(Block { id: 1, stamp: 5 }, 7, 0, *len).unwrap();
            assert_eq!(read(fixture.store(), 1), data[..*len as usize]);
        }
        shown.first().map(|(_, _, len, _)| *len)
    };
    let cut = |file: &'static str, len| {
        move |fixture: &Fixture| {
            fs::File::options().write(true).open(fixture.path(file)).unwrap().set_len(len).unwrap()
        }
    };
    let (rbw, meta) = ("current/rbw/blk_1", "current/rbw/blk_1_5.meta");
    assert_eq!(after(&|_| ()), Some(1300));
    assert_eq!(after(&cut(rbw, 1100)), Some(1024));
    assert_eq!(after(&cut(rbw, 0)), Some(0));
    assert_eq!(after(&cut(meta, 16)), Some(1024));
    assert_eq!(after(&cut(meta, 7)), Some(0));
    assert_eq!(after(&cut(meta, 6)), None, "nothing vouches for a byte of it");
    assert_eq!(after(&|fixture| fs::remove_file(fixture.path(meta)).unwrap()), None);
    assert_eq!(after(&|fixture| fs::remove_file(fixture.path(rbw)).unwrap()), None);
    // Data of a packet was written and its sums were not.
    let more = bytes(1500, 1);
    assert_eq!(after(&|fixture| fs::write(fixture.path(rbw), &more).unwrap()), Some(1300));
    assert_eq!(
        after(&|fixture| fs::write(fixture.path(meta), [0, 1, 9, 0, 0, 2, 0, 1, 2, 3, 4]).unwrap()),
        None
    );
}

#[test]
fn moves_that_a_crash_broke_off() {
    let data = bytes(700, 2);
    // While a replica is finalized: the meta file moves first.
    let mut fixture = Fixture::new(1);
    drop({
        let mut writer = fixture.create(1, 5);
        write(&mut *writer, 0, &data);
        writer
    });
    fixture.restart_after(|fixture| {
        fs::create_dir_all(fixture.path("current/finalized/subdir0/subdir0")).unwrap();
        fs::rename(fixture.path("current/rbw/blk_1_5.meta"), fixture.path(META)).unwrap();
    });
    assert_eq!(report(fixture.store()), [(1, 5, 700, ReplicaState::Rwr)]);
    assert_eq!(read(fixture.store(), 1), data);

    // While it is opened for an append.
    let mut fixture = Fixture::new(1);
    fixture.finalized(1, 5, &data);
    fixture.restart_after(|fixture| {
        fs::rename(fixture.path(META), fixture.path("current/rbw/blk_1_6.meta")).unwrap();
    });
    assert_eq!(report(fixture.store()), [(1, 6, 700, ReplicaState::Finalized)]);
    assert_eq!(read(fixture.store(), 1), data);

    // While it is deleted: the data goes first.
    fixture.restart_after(|fixture| fs::remove_file(fixture.path(DATA)).unwrap());
    assert_eq!(report(fixture.store()), []);
    assert!(!fixture.path("current/finalized/subdir0/subdir0/blk_1_6.meta").exists());
}

#[test]
fn files_that_are_no_replicas_are_left_alone() {
    let mut fixture = Fixture::new(1);
    let data = bytes(700, 3);
    fixture.finalized(1, 5, &data);
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("precious");
    fs::write(&target, b"precious").unwrap();
    let folder = "current/finalized/subdir0/subdir0";
    fixture.restart_after(|fixture| {
        for name in ["blk_x", "blk_02", "blk_3.meta", "README", "blk_4_", "blk_70000", "blk_8"] {
            fs::write(fixture.path(&format!("{folder}/{name}")), b"abc").unwrap();
        }
        fs::write(fixture.path(&format!("{folder}/blk_70000_1.meta")), b"abc").unwrap();
        symlink(&target, fixture.path(&format!("{folder}/blk_9"))).unwrap();
        fs::copy(fixture.path(META), fixture.path(&format!("{folder}/blk_9_1.meta"))).unwrap();
        fs::create_dir(fixture.path(&format!("{folder}/blk_10"))).unwrap();
        symlink(&target, fixture.path("tmp/blk_11")).unwrap();
        fs::create_dir_all(fixture.path("tmp/subdir0/x")).unwrap();
        symlink(&target, fixture.path("current/rbw/blk_12")).unwrap();
        fs::write(fixture.path("current/finalized/stray"), b"abc").unwrap();
    });
    assert_eq!(report(fixture.store()), [(1, 5, 700, ReplicaState::Finalized)]);
    for name in ["blk_x", "blk_02", "README", "blk_70000", "blk_8", "blk_9"] {
        assert!(fixture.path(&format!("{folder}/{name}")).exists(), "{name}");
    }
    assert_eq!(fs::read_dir(fixture.path("tmp")).unwrap().count(), 0);
    // A new replica does not write through a link that lies where its file belongs.
    let create = fixture.store().create_rbw(
        Block { id: 12, stamp: 1 },
        &Default::default(),
        trellis_proto::checksum::Checksum::DEFAULT,
    );
    drop(create);
    assert_eq!(fs::read(&target).unwrap(), b"precious");
}

#[test]
fn a_volume_that_cannot_be_read_at_a_start_fails_alone() {
    let mut fixture = Fixture::new(2);
    let storages: Vec<_> = fixture.store().storages().into_iter().map(|s| s.storage).collect();
    let mut replicas: Vec<_> = (1..=2).map(|id| fixture.finalized(id, 5, b"abc")).collect();
    let on = |index: usize| Target { storage: Some(storages[index].to_string()), ..Target::default() };
    for (id, index) in [(3, 0), (4, 1)] {
        let made = fixture.store().create_rbw(Block { id, stamp: 5 }, &on(index), Checksum::DEFAULT);
        replicas.push(made.unwrap().finish().unwrap());
    }
    fixture.restart_after(|fixture| {
        // As a bad sector in a folder.
        let folder = fixture.path("current/finalized/subdir0/subdir0");
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, b"").unwrap();
    });
    let left = replicas.iter().filter(|replica| replica.storage == storages[1]);
    let left: Vec<_> = left.map(|r| (r.block.id, 5, r.len, ReplicaState::Finalized)).collect();
    assert!(!left.is_empty());
    assert_eq!(report(fixture.store()), left);
    let failed: Vec<bool> = fixture.store().storages().iter().map(|storage| storage.failed).collect();
    assert_eq!(failed, [true, false]);
    let events = fixture.take_events();
    assert!(
        matches!(&events[..], [Event::VolumeFailed { storage, .. }] if *storage == storages[0]),
        "{events:?}"
    );

    // None is left.
    let mut alone = Fixture::new(1);
    alone.finalized(1, 5, b"abc");
    let folder = alone.path("current/finalized/subdir0/subdir0");
    let dirs = alone.take_dirs();
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, b"").unwrap();
    let opened = Folders::open(&[volume(dirs[0].path())]).unwrap().attach(pool(), quiet(), Box::new(|_| ()));
    assert!(opened.err().unwrap().to_string().contains("looking for replicas in"));
}

#[test]
fn of_two_replicas_of_a_block_the_newer_stays() {
    let mut fixture = Fixture::new(2);
    let data = bytes(700, 4);
    let first = fixture.finalized(1, 5, &data);
    fixture.finalized(2, 5, &data);
    let index = fixture.store().storages().iter().position(|s| s.storage == first.storage).unwrap();
    fixture.restart_after(|fixture| {
        let dir = |index: usize, name: &str| {
            fixture.dirs[index].path().join("current").join(super::pool().id).join(name)
        };
        fs::create_dir_all(dir(1 - index, "current/finalized/subdir0/subdir0")).unwrap();
        fs::copy(dir(index, DATA), dir(1 - index, DATA)).unwrap();
        fs::copy(dir(index, META), dir(1 - index, &META.replace("_5", "_6"))).unwrap();
    });
    assert_eq!(
        report(fixture.store()),
        [(1, 6, 700, ReplicaState::Finalized), (2, 5, 700, ReplicaState::Finalized)]
    );
    assert_ne!(fixture.store().replica(1).unwrap().storage, first.storage);
    let left = fixture.dirs[index].path().join("current").join(super::pool().id).join(DATA);
    assert!(!left.exists());
    let used: u64 = fixture.store().storages().iter().map(|s| s.used).sum();
    assert_eq!(used, 2 * (700 + 7 + 8));
}

#[test]
fn readers_tell_of_files_that_are_gone_or_too_short() {
    let fixture = Fixture::new(1);
    let store = fixture.store();
    let replica = fixture.finalized(1, 5, &bytes(1300, 5));
    let cut = |name: &str, len| {
        fs::File::options().write(true).open(fixture.path(name)).unwrap().set_len(len).unwrap()
    };
    let block = replica.block;
    cut(META, 10);
    assert!(matches!(store.read(block), Err(StoreError::Corrupt { .. })));
    cut(DATA, 1299);
    assert!(matches!(store.read(block), Err(StoreError::Corrupt { .. })));
    assert_eq!(fixture.take_events(), [Event::Corrupt(replica.clone()), Event::Corrupt(replica.clone())]);
    assert!(matches!(store.append(block, 6, 1300), Err(StoreError::Corrupt { .. })));
    assert_eq!(store.replica(1), Some(replica.clone()));
    fixture.take_events();
    fs::remove_file(fixture.path(DATA)).unwrap();
    assert!(matches!(store.read(block), Err(StoreError::NotFound(_))));
    assert_eq!((fixture.take_events(), store.replica(1)), (vec![Event::Missing(replica)], None));
    assert_eq!(store.storages()[0].used, 0);
}

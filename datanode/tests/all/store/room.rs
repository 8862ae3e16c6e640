//! Full and failing disks; which volume a replica gets.

use std::fs;
use std::process::Command;

use tempfile::TempDir;
use trellis_datanode::disk::{DiskStore, Folders, Settings};
use trellis_datanode::store::{Block, BlockStore, Event, ReplicaWriter, StorageType, StoreError, Target};
use trellis_proto::checksum::Checksum;

use super::{Fixture, bytes, pool, quiet, read, volume, write};

fn target(expected_len: u64) -> Target {
    Target { expected_len, ..Target::default() }
}

#[test]
fn promises_are_kept_until_they_are_used() {
    let fixture = Fixture::new(1);
    let store = fixture.store();
    let capacity = store.storages()[0].capacity;
    let remaining = || store.storages()[0].remaining;
    let create = |id, len| store.create_rbw(Block { id, stamp: 1 }, &target(len), Checksum::DEFAULT);
    assert!(matches!(create(1, capacity), Err(StoreError::OutOfSpace { .. })));
    assert!(matches!(create(1, u64::MAX), Err(StoreError::OutOfSpace { .. })));
    assert_eq!(store.replica(1), None);
    // So much that other users of the disk do not matter.
    let half = remaining() / 2;
    let mut writer = create(1, half).unwrap();
    assert!(remaining() < half + half / 2);
    assert!(matches!(create(2, half + half / 2), Err(StoreError::OutOfSpace { .. })));
    write(&mut *writer, 0, b"abc");
    writer.finish().unwrap();
    assert!(remaining() > half + half / 2);
    drop(create(2, half).unwrap());
    assert!(remaining() > half + half / 2, "nobody writes it any more");
}

#[test]
fn the_reserve_is_for_others() {
    let all = Fixture::new(1);
    let reserve_bytes = all.store().storages()[0].capacity - 1;
    let fixture = Fixture::with(1, Settings { reserve_bytes, ..quiet() });
    let storage = fixture.store().storages()[0].clone();
    assert_eq!((storage.capacity, storage.remaining), (1, 0));
    let made = fixture.store().create_rbw(Block { id: 1, stamp: 1 }, &target(0), Checksum::DEFAULT);
    assert!(matches!(made, Err(StoreError::OutOfSpace { .. })));
}

#[test]
fn a_replica_goes_where_it_was_asked_for_or_where_there_is_room() {
    let fixture = Fixture::new(3);
    let store = fixture.store();
    let storages = store.storages();
    let create = |id, target: &Target| store.create_rbw(Block { id, stamp: 1 }, target, Checksum::DEFAULT);
    for (id, storage) in storages.iter().enumerate() {
        let target = Target { storage: Some(storage.storage.to_string()), ..target(10) };
        assert_eq!(create(id as u64, &target).unwrap().replica().storage, storage.storage);
    }
    let ssd = Target { storage_type: Some(StorageType::Ssd), ..target(10) };
    assert!(matches!(create(9, &ssd), Err(StoreError::OutOfSpace { .. })));
    // Each promise makes another volume the one with most room.
    let big = target(storages[0].remaining / 10);
    let made: Vec<_> = (10..13).map(|id| create(id, &big).unwrap()).collect();
    let mut used: Vec<_> = made.iter().map(|writer| writer.replica().storage).collect();
    used.sort();
    used.dedup();
    assert_eq!(used.len(), 3);
}

#[test]
fn a_failed_volume_is_seen_when_nobody_uses_it() {
    let fixture = Fixture::new(2);
    fs::remove_dir_all(fixture.dirs[1].path().join("current")).unwrap();
    let failed: Vec<bool> = fixture.store().storages().iter().map(|storage| storage.failed).collect();
    assert_eq!(failed, [false, true]);
    assert!(matches!(fixture.take_events()[..], [Event::VolumeFailed { .. }]));
}

#[test]
fn a_failed_volume_takes_its_replicas_along() {
    let fixture = Fixture::new(2);
    let store = fixture.store();
    let storages = store.storages();
    let on = |index: usize| Target { storage: Some(storages[index].storage.to_string()), ..target(10) };
    let mut writers: Vec<Box<dyn ReplicaWriter>> = Vec::new();
    for (id, index) in [(1, 0), (2, 1), (3, 0), (4, 1)] {
        let mut writer = store.create_rbw(Block { id, stamp: 1 }, &on(index), Checksum::DEFAULT).unwrap();
        write(&mut *writer, 0, b"abc");
        match id {
            1 | 2 => drop(writer.finish().unwrap()),
            _ => writers.push(writer),
        }
    }
    // As if its disk had been pulled out.
    fs::rename(fixture.dirs[0].path().join("current"), fixture.dirs[0].path().join("gone")).unwrap();
    let made = store.create_rbw(Block { id: 5, stamp: 1 }, &on(0), Checksum::DEFAULT).unwrap();
    assert_eq!(made.replica().storage, storages[1].storage, "another volume takes it");
    let events = fixture.take_events();
    assert!(
        matches!(&events[..], [Event::VolumeFailed { storage, .. }] if *storage == storages[0].storage),
        "{events:?}"
    );
    let after = store.storages();
    assert_eq!((after[0].failed, after[0].remaining, after[1].failed), (true, 0, false));
    assert_eq!(after[0].capacity, storages[0].capacity, "what was lost");
    assert_eq!(store.replica_count(&storages[0].storage), 0);
    assert_eq!(super::report(store).iter().map(|r| r.0).collect::<Vec<_>>(), [2, 4, 5]);
    assert!(matches!(store.read(Block { id: 1, stamp: 1 }), Err(StoreError::NotFound(_))));
    let [mut failed, mut well] = <[_; 2]>::try_from(writers).ok().unwrap();
    assert!(matches!(failed.write(3, None, b"x"), Err(StoreError::VolumeFailed(_))));
    assert!(matches!(failed.finish(), Err(StoreError::VolumeFailed(_))));
    well.write(3, None, b"def").unwrap();
    well.finish().unwrap();
    assert_eq!(read(store, 4), b"abcdef");
    fs::rename(fixture.dirs[0].path().join("gone"), fixture.dirs[0].path().join("current")).unwrap();
}

/// Runs a test of this file alone in a process of its own, for what it does to the process would disturb others. False
/// where that is this process.
fn ran_alone(name: &str) -> bool {
    const ALONE: &str = "TRELLIS_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let name = format!("store::room::{name}");
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", &name]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    true
}

#[test]
fn a_lack_of_descriptors_is_no_disk_s_fault() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if ran_alone("a_lack_of_descriptors_is_no_disk_s_fault") {
        return;
    }
    let fixture = Fixture::new(1);
    let store = fixture.store();
    let replica = fixture.finalized(1, 1, b"abc");
    let mut open = store.read(replica.block).unwrap();
    let hard = getrlimit(Resource::RLIMIT_NOFILE).unwrap().1;
    setrlimit(Resource::RLIMIT_NOFILE, 64, hard).unwrap();
    let taken: Vec<fs::File> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
    let lacks = |error: StoreError| {
        assert!(
            matches!(&error, StoreError::Io { source, .. } if source.raw_os_error() == Some(24)),
            "{error}"
        );
    };
    lacks(store.read(replica.block).map(drop).unwrap_err());
    lacks(store.append(replica.block, 2, 3).map(drop).unwrap_err());
    lacks(store.create_rbw(Block { id: 2, stamp: 1 }, &target(9), Checksum::DEFAULT).map(drop).unwrap_err());
    store.scan();
    open.read(0, &mut [0; 3]).unwrap();
    drop(taken);
    assert_eq!((fixture.take_events(), store.storages()[0].failed), (vec![], false));
    assert_eq!(read(store, 1), b"abc");
}

#[test]
fn many_probes_at_once_fail_no_volume() {
    let fixture = Fixture::new(1);
    let store = fixture.store();
    for id in 0..200 {
        fixture.finalized(id, 1, b"abc");
        fs::remove_file(fixture.path(&format!("current/finalized/subdir0/subdir0/blk_{id}"))).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for id in (thread..200).step_by(8) {
                    let read = store.read(Block { id, stamp: 1 }).map(drop);
                    assert!(matches!(read, Err(StoreError::NotFound(_))), "{read:?}");
                }
            });
        }
    });
    let events = fixture.take_events();
    assert!(events.len() == 200 && events.iter().all(|event| matches!(event, Event::Missing(_))));
    assert!(!store.storages()[0].failed);
}

/// A file system of one MiB; None where this process may not mount, which is no excuse where `CI` is true.
struct Small(TempDir);

impl Small {
    fn mount() -> Option<Small> {
        let dir = TempDir::new().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(dir.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        assert!(
            mounted || std::env::var("CI").as_deref() != Ok("true"),
            "a small file system must be mounted"
        );
        mounted.then_some(Small(dir))
    }

    fn store(&self) -> DiskStore {
        let folders = Folders::open(&[volume(self.0.path())]).unwrap();
        folders.attach(pool(), quiet(), Box::new(|_| ())).unwrap()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // What stays mounted goes with the machine.
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_a_clean_error() {
    let Some(small) = Small::mount() else {
        eprintln!("skipped: this process may not mount a small file system");
        return;
    };
    let store = small.store();
    let create = |id, len| store.create_rbw(Block { id, stamp: 1 }, &target(len), Checksum::DEFAULT);
    assert!(matches!(create(1, 2 << 20), Err(StoreError::OutOfSpace { .. })));
    // The writer said too little; nothing of it was acked: it goes.
    let fill = |writer: &mut dyn ReplicaWriter| loop {
        let packet = bytes(65_536, 1);
        if let Err(error) = writer.write(writer.len(), None, &packet) {
            return error;
        }
    };
    let mut writer = create(1, 10).unwrap();
    let error = fill(&mut *writer);
    assert!(matches!(&error, StoreError::Io { source, .. } if source.raw_os_error() == Some(28)), "{error}");
    assert!(store.storages()[0].remaining < 65_536 + 4096 && !store.storages()[0].failed);
    drop(writer);
    assert_eq!(store.replica(1), None);
    assert_eq!(store.storages()[0].used, 0);
    assert!(store.storages()[0].remaining > 900_000);
    // Something of this one was acked: it stays as long as its last whole packet, and can be read and recovered.
    let mut writer = create(2, 10).unwrap();
    write(&mut *writer, 0, b"abc");
    writer.acked().advance(3);
    fill(&mut *writer);
    let len = writer.len();
    drop(writer);
    assert_eq!(read(&store, 2).len() as u64, len);
    assert_eq!(store.recover_rbw(Block { id: 2, stamp: 1 }, 2, 3, len).unwrap().len(), 3);
    assert_eq!(read(&store, 2), b"abc");
    drop(store);
    assert_eq!(small.store().replica(2).unwrap().len, 3);
}

//! The scanner.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::time::Duration;

use trellis_datanode::disk::{Folders, Settings};
use trellis_datanode::store::{Block, BlockStore, Event};

use super::{Fixture, bytes, pool, quiet, volume, write};

const DATA: &str = "current/finalized/subdir0/subdir0/blk_";

fn flip(fixture: &Fixture, file: &str, at: u64) {
    let file = File::options().read(true).write(true).open(fixture.path(file)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

#[test]
fn a_flipped_byte_is_found() {
    let fixture = Fixture::new(2);
    let mut replicas = Vec::new();
    for id in 1..=5 {
        let target = trellis_datanode::store::Target {
            storage: Some(fixture.store().storages()[0].storage.to_string()),
            ..Default::default()
        };
        let checksum = trellis_proto::checksum::Checksum::DEFAULT;
        let mut writer = fixture.store().create_rbw(Block { id, stamp: 7 }, &target, checksum).unwrap();
        write(&mut *writer, 0, &bytes(600_000, id as u32));
        replicas.push(writer.finish().unwrap());
    }
    fixture.store().scan();
    assert_eq!(fixture.take_events(), []);
    flip(&fixture, &format!("{DATA}2"), 599_999);
    flip(&fixture, &format!("{DATA}3_7.meta"), 7 + 400);
    flip(&fixture, &format!("{DATA}4_7.meta"), 2);
    fixture.store().scan();
    let found = fixture.take_events();
    let corrupt = |index: usize| Event::Corrupt(replicas[index].clone());
    assert_eq!(found, [corrupt(1), corrupt(2), corrupt(3)]);
    assert_eq!(super::report(fixture.store()).len(), 5, "it is the namenode that has them deleted");
}

#[test]
fn files_that_went_or_are_too_short_are_found() {
    let fixture = Fixture::new(1);
    let replicas: Vec<_> = (1..=3).map(|id| fixture.finalized(id, 7, &bytes(1000, 1))).collect();
    fs::remove_file(fixture.path(&format!("{DATA}1"))).unwrap();
    let two = File::options().write(true).open(fixture.path(&format!("{DATA}2"))).unwrap();
    two.set_len(999).unwrap();
    fixture.store().scan();
    let events = fixture.take_events();
    assert_eq!(events, [Event::Missing(replicas[0].clone()), Event::Corrupt(replicas[1].clone())]);
    assert_eq!(fixture.store().replica(1), None);
}

#[test]
fn replicas_that_are_written_are_not_its_business() {
    let fixture = Fixture::new(1);
    fixture.finalized(1, 1, &bytes(1000, 1));
    let mut writer = fixture.store().append(Block { id: 1, stamp: 1 }, 2, 1000).unwrap();
    write(&mut *writer, 512, &bytes(1000, 1)[512..]);
    flip(&fixture, "current/rbw/blk_1", 3);
    fixture.store().scan();
    assert_eq!(fixture.take_events(), []);
}

#[test]
fn it_runs_by_itself_and_looks_at_suspects_at_once() {
    for scan_bytes_per_second in [0, 1 << 30] {
        let mut fixture = Fixture::new(1);
        let replica = fixture.finalized(1, 1, &bytes(1000, 1));
        flip(&fixture, &format!("{DATA}1"), 3);
        let dirs = fixture.take_dirs();
        let (sender, events) = mpsc::channel();
        let settings = Settings { scan_bytes_per_second, ..quiet() };
        let folders = Folders::open(&[volume(dirs[0].path())]).unwrap();
        let sink = Box::new(move |event| drop(sender.send(event)));
        let store = folders.attach(pool(), settings, sink).unwrap();
        if scan_bytes_per_second == 0 {
            store.suspect(1);
            store.suspect(99);
        }
        assert_eq!(events.recv_timeout(Duration::from_secs(60)), Ok(Event::Corrupt(replica)));
    }
}

#[test]
fn a_suspect_does_not_wait_for_the_end_of_a_slow_replica_and_is_told_of_once() {
    let mut fixture = Fixture::new(1);
    fixture.finalized(1, 1, &bytes(1_000_000, 1));
    let bad = [2, 3].map(|id| fixture.finalized(id, 1, &bytes(1000, 1)));
    for id in [2, 3] {
        flip(&fixture, &format!("{DATA}{id}"), 3);
    }
    let dirs = fixture.take_dirs();
    let (sender, events) = mpsc::channel();
    // The first piece of block 1 takes days.
    let settings = Settings { scan_bytes_per_second: 1, ..quiet() };
    let sink = Box::new(move |event| drop(sender.send(event)));
    let store = Folders::open(&[volume(dirs[0].path())]).unwrap().attach(pool(), settings, sink).unwrap();
    let next = || events.recv_timeout(Duration::from_secs(60)).unwrap();
    store.suspect(2);
    assert_eq!(next(), Event::Corrupt(bad[0].clone()));
    for id in [2, 2, 3] {
        store.suspect(id);
    }
    assert_eq!(next(), Event::Corrupt(bad[1].clone()));
    drop(store);
    assert!(events.recv().is_err(), "nothing more was told");
}

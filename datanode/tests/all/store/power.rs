//! A power loss while a block is written: the disk may have a packet's sums without its data.

use std::fs::File;
use std::os::unix::fs::FileExt;

use trellis_datanode::disk::Settings;
use trellis_datanode::store::{Block, BlockStore, ReplicaState, ReplicaWriter};

use super::{Fixture, bytes, quiet, read, report};

const DATA: &str = "current/rbw/blk_1";

fn block(stamp: u64) -> Block {
    Block { id: 1, stamp }
}

/// What the disk has of the data from the durable byte on: nothing, or its length only.
const LOSSES: [fn(&File, u64, u64); 3] = [
    |data, durable, _| data.set_len(durable).unwrap(),
    |data, durable, _| {
        data.set_len(durable).unwrap();
        data.set_len(durable + 30).unwrap();
    },
    |data, durable, len| {
        data.set_len(durable).unwrap();
        data.set_len(len).unwrap();
    },
];

/// Ends the store while a replica with this stamp is written, loses its data from `durable` on but no sum, and starts
/// again: the durable bytes must be there, whatever goes on with them.
fn survives(mut fixture: Fixture, stamp: u64, all: &[u8], durable: u64, loss: fn(&File, u64, u64)) {
    fixture.restart_after(|fixture| {
        let data = File::options().write(true).open(fixture.path(DATA)).unwrap();
        loss(&data, durable, all.len() as u64);
    });
    let good = &all[..durable as usize];
    for _ in 0..2 {
        assert_eq!(report(fixture.store()), [(1, stamp, durable, ReplicaState::Rwr)]);
        assert_eq!(read(fixture.store(), 1), good);
        fixture.restart();
    }
    let store = fixture.store();
    store.init_recovery(block(stamp), 9).unwrap();
    store.update_recovery(block(stamp), 9, 0, durable).unwrap();
    let mut writer = store.append(block(9), 10, durable).unwrap();
    writer.write(durable, None, b"more").unwrap();
    writer.finish().unwrap();
    assert_eq!(read(fixture.store(), 1), [good, b"more"].concat());
    assert!(fixture.take_events().is_empty());
}

/// One in which this many bytes were flushed to disk one after another, and then all that there are were written.
fn flushed(sync_on_close: bool, all: &[u8], durable: &[usize]) -> Fixture {
    let fixture = Fixture::with(1, Settings { sync_on_close, ..quiet() });
    let mut writer = fixture.create(1, 5);
    let mut at = 0;
    for len in durable {
        writer.write(at, None, &all[at as usize..*len]).unwrap();
        writer.sync().unwrap();
        at = *len as u64;
    }
    go_on(&mut *writer, all, at);
    fixture
}

fn go_on(writer: &mut dyn ReplicaWriter, all: &[u8], from: u64) {
    writer.write(from, None, &all[from as usize..]).unwrap();
    writer.acked().advance(all.len() as u64);
}

#[test]
fn what_was_flushed_to_disk() {
    for loss in LOSSES {
        for len in [800, 1024, 1300, 5000] {
            survives(flushed(true, &bytes(len, 1), &[700]), 5, &bytes(len, 1), 700, loss);
        }
        survives(flushed(false, &bytes(1000, 1), &[600, 700, 900]), 5, &bytes(1000, 1), 900, loss);
        survives(flushed(true, &bytes(3000, 1), &[700, 1024, 1300]), 5, &bytes(3000, 1), 1300, loss);
        survives(flushed(true, &bytes(3000, 1), &[700, 1024]), 5, &bytes(3000, 1), 1024, loss);
    }
}

#[test]
fn what_was_closed() {
    let all = bytes(2000, 2);
    for loss in LOSSES {
        for sync_on_close in [true, false] {
            let fixture = Fixture::with(1, Settings { sync_on_close, ..quiet() });
            fixture.finalized(1, 5, &all[..700]);
            go_on(&mut *fixture.store().append(block(5), 6, 700).unwrap(), &all, 700);
            survives(fixture, 6, &all, 700, loss);
        }
        // By a recovery: of its pipeline, and of the block.
        let fixture = flushed(true, &all[..700], &[100]);
        fixture.store().recover_close(block(5), 6, 700).unwrap();
        go_on(&mut *fixture.store().append(block(6), 7, 700).unwrap(), &all, 700);
        survives(fixture, 7, &all, 700, loss);
        for len in [600, 700] {
            let fixture = flushed(true, &all[..700], &[650]);
            fixture.store().init_recovery(block(5), 6).unwrap();
            fixture.store().update_recovery(block(5), 6, 0, len).unwrap();
            go_on(&mut *fixture.store().append(block(6), 7, len).unwrap(), &all, len);
            survives(fixture, 7, &all, len, loss);
        }
    }
}

/// An append does not note as durable what its close did not make durable, in the place of what was flushed to disk.
#[test]
fn what_was_flushed_to_disk_before_an_append() {
    let all = bytes(2000, 4);
    let mut fixture = flushed(false, &all[..700], &[600]);
    fixture.store().recover_close(block(5), 6, 700).unwrap();
    go_on(&mut *fixture.store().append(block(6), 7, 700).unwrap(), &all, 700);
    fixture.restart_after(|fixture| {
        File::options().write(true).open(fixture.path(DATA)).unwrap().set_len(600).unwrap()
    });
    assert_eq!(report(fixture.store()), [(1, 7, 600, ReplicaState::Rwr)]);
    assert_eq!(read(fixture.store(), 1), all[..600]);
}

/// A note that another program made stale counts only for exactly the bytes that it was made for.
#[test]
fn what_is_not_as_it_was_noted() {
    for (at, good) in [(700, 700), (600, 512), (100, 700)] {
        let all = bytes(3000, 3);
        let mut fixture = flushed(true, &all, &[700]);
        fixture.restart_after(|fixture| {
            let data = File::options().write(true).open(fixture.path(DATA)).unwrap();
            data.set_len(700).unwrap();
            data.write_all_at(&[!all[at]], at as u64).unwrap();
        });
        assert_eq!(report(fixture.store()), [(1, 5, good, ReplicaState::Rwr)], "byte {at} is another");
    }
    // It was cut, and other bytes are there.
    let all = [bytes(600, 3), vec![0; 100]].concat();
    let fixture = flushed(false, &all, &[700]);
    fixture.store().init_recovery(block(5), 6).unwrap();
    fixture.store().update_recovery(block(5), 6, 0, 600).unwrap();
    go_on(&mut *fixture.store().append(block(6), 7, 600).unwrap(), &[&all[..600], b"other"].concat(), 600);
    survives(fixture, 7, &[&all[..600], &[1; 400]].concat(), 600, LOSSES[2]);
}

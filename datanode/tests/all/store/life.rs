//! A replica's states, one call after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use trellis_datanode::disk::Settings;
use trellis_datanode::store::{Block, BlockStore, Event, ReplicaState, StoreError, Target};
use trellis_proto::checksum::{Checksum, ChecksumType};

use super::{Fixture, bytes, quiet, read, report, write};

const ID: u64 = 1_073_741_825;

fn block(stamp: u64) -> Block {
    Block { id: ID, stamp }
}

#[test]
fn a_block_is_written_read_and_kept() {
    let mut fixture = Fixture::with(1, Settings::default());
    let data = bytes(200_000, 1);
    let mut writer = fixture.create(ID, 1001);
    for (index, packet) in data.chunks(65_024).enumerate() {
        write(&mut *writer, index as u64 * 65_024, packet);
    }
    assert_eq!((writer.len(), writer.replica().state), (200_000, ReplicaState::Rbw));
    assert_eq!(fixture.store().visible_len(block(1001)).unwrap(), Some(0));
    writer.acked().advance(130_048);
    assert_eq!(fixture.store().visible_len(block(1001)).unwrap(), Some(130_048));
    writer.sync().unwrap();
    let replica = writer.finish().unwrap();
    assert_eq!((replica.block, replica.len, replica.state), (block(1001), 200_000, ReplicaState::Finalized));
    assert_eq!(read(fixture.store(), ID), data);
    fixture.restart();
    assert_eq!(fixture.store().replica(ID), Some(replica));
    assert_eq!(read(fixture.store(), ID), data);
    assert!(fixture.path("current/finalized/subdir0/subdir0/blk_1073741825_1001.meta").is_file());
    assert_eq!(fixture.take_events(), []);
}

#[test]
fn ranges_of_a_replica() {
    let fixture = Fixture::new(1);
    let data = bytes(3_000_000, 2);
    fixture.finalized(ID, 1, &data);
    let mut reader = fixture.store().read(block(1)).unwrap();
    for (offset, len) in
        [(0, 1), (512, 65_536), (2_999_808, 192), (1_048_576, 1_048_576), (2_900_480, 99_520)]
    {
        let mut found = vec![0; len];
        let mut sums = vec![0; Checksum::DEFAULT.sums_len(len)];
        reader.read(offset, &mut found).unwrap();
        reader.read_sums(offset, &mut sums).unwrap();
        assert_eq!(found, data[offset as usize..offset as usize + len]);
        if len > 1 {
            Checksum::DEFAULT.verify(&found, &sums).unwrap();
        }
    }
    let outside = |offset, len, sums| {
        let mut reader = fixture.store().read(block(1)).unwrap();
        let read = reader.read(offset, &mut vec![0; len]).is_err();
        (read, reader.read_sums(offset, &mut vec![0; sums]).is_err())
    };
    assert_eq!(outside(3_000_000, 0, 0), (false, true), "not a chunk's start");
    assert_eq!(outside(2_999_808, 193, 8), (true, true));
    assert_eq!(outside(u64::MAX, 2, 4), (true, true));
    assert_eq!(outside(0, 0, 3), (false, true));
}

#[test]
fn packets_that_come_again_and_packets_that_do_not_fit() {
    let fixture = Fixture::new(1);
    let data = bytes(2000, 3);
    let mut writer = fixture.create(ID, 1);
    write(&mut *writer, 0, &data[..700]);
    // After a flush stock clients send the partial chunk again.
    write(&mut *writer, 512, &data[512..1100]);
    // After a recovery they send what was not acked again.
    write(&mut *writer, 0, &data[..700]);
    write(&mut *writer, 1024, &data[1024..1300]);
    // And an append fills up the last chunk with a packet of its own.
    write(&mut *writer, 1300, &data[1300..1536]);
    assert!(matches!(writer.write(1537, None, b"x"), Err(StoreError::Request { .. })), "a gap");
    assert!(
        matches!(writer.write(1536, Some(&[1; 4]), &[0; 513]), Err(StoreError::Request { .. })),
        "sums are missing"
    );
    writer.write(1536, None, &data[1536..1600]).unwrap();
    assert!(
        matches!(writer.write(1600, Some(&[1; 4]), &[0; 500]), Err(StoreError::Request { .. })),
        "it begins in the middle of a chunk and goes beyond it"
    );
    writer.write(1500, None, &data[1500..]).unwrap();
    writer.finish().unwrap();
    assert_eq!(read(fixture.store(), ID), data);
}

#[test]
fn other_checksums() {
    for (kind, size) in [(ChecksumType::Null, 512), (ChecksumType::Crc32, 100), (ChecksumType::Crc32C, 1)] {
        let mut fixture = Fixture::new(1);
        let checksum = Checksum::new(kind, size).unwrap();
        let data = bytes(777, 4);
        let mut writer = fixture.store().create_rbw(block(1), &Target::default(), checksum).unwrap();
        write(&mut *writer, 0, &data[..300]);
        writer.write(250, None, &data[250..]).unwrap();
        writer.finish().unwrap();
        assert_eq!(read(fixture.store(), ID), data);
        fixture.restart();
        assert_eq!(fixture.store().read(block(1)).unwrap().checksum(), checksum);
        let mut writer = fixture.store().append(block(1), 2, 777).unwrap();
        writer.write(777, None, &data).unwrap();
        drop(writer);
        fixture.restart();
        assert_eq!(report(fixture.store()), [(ID, 2, 1554, ReplicaState::Rwr)]);
        assert_eq!(read(fixture.store(), ID)[777..], data);
    }
}

#[test]
fn readers_of_a_replica_that_grows() {
    let fixture = Fixture::new(1);
    let data = bytes(3000, 5);
    fixture.finalized(ID, 1, &data[..700]);
    let check = |reader: &mut dyn trellis_datanode::store::ReplicaReader, len: usize| {
        let (mut found, mut sums) = (vec![0; len], vec![0; Checksum::DEFAULT.sums_len(len)]);
        reader.read(0, &mut found).unwrap();
        reader.read_sums(0, &mut sums).unwrap();
        Checksum::DEFAULT.verify(&found, &sums).unwrap();
        assert_eq!((found, reader.replica().len), (data[..len].to_vec(), len as u64));
    };
    let mut before = fixture.store().read(block(1)).unwrap();
    let mut writer = fixture.store().append(block(1), 2, 700).unwrap();
    let mut opened = fixture.store().read(block(1)).unwrap();
    write(&mut *writer, 512, &data[512..1000]);
    let mut later = fixture.store().read(block(2)).unwrap();
    assert_eq!(later.replica().state, ReplicaState::Rbw);
    write(&mut *writer, 512, &data[512..]);
    for (reader, len) in [(&mut before, 700), (&mut opened, 700), (&mut later, 1000)] {
        check(&mut **reader, len);
    }
    writer.finish().unwrap();
    assert!(fixture.store().delete(&[block(2)]).is_empty());
    fixture.store().wait_for_deletions();
    check(&mut *before, 700);
    check(&mut *later, 1000);
    assert!(matches!(fixture.store().read(block(2)), Err(StoreError::NotFound(_))));
}

#[test]
fn what_is_not_to_be_created_or_appended_to() {
    let fixture = Fixture::new(1);
    let target = Target::default();
    let create = |stamp| fixture.store().create_rbw(block(stamp), &target, Checksum::DEFAULT).map(drop);
    fixture.finalized(ID, 5, b"abc");
    for stamp in [4, 5, 6] {
        assert!(matches!(
            create(stamp),
            Err(StoreError::AlreadyExists { state: ReplicaState::Finalized, .. })
        ));
    }
    let append = |at, new, len| fixture.store().append(block(at), new, len).map(drop);
    for (at, new, len) in [(4, 6, 3), (4, 4, 3), (5, 4, 3), (5, 6, 2), (5, 5, 2), (6, 7, 3), (6, 6, 3)] {
        assert!(matches!(append(at, new, len), Err(StoreError::Unfit { .. })), "{at} {new} {len}");
    }
    append(5, 6, 3).unwrap();
    assert!(matches!(append(6, 7, 3), Err(StoreError::Unfit { .. })), "it is RBW");
    assert!(matches!(create(6), Err(StoreError::AlreadyExists { state: ReplicaState::Rbw, .. })));
    assert!(matches!(create(7), Err(StoreError::AlreadyExists { state: ReplicaState::Rbw, .. })));
    let copy = |stamp, expected_len| {
        let target = Target { expected_len, ..Target::default() };
        fixture.store().create_temporary(block(stamp), &target, Checksum::DEFAULT)
    };
    assert!(matches!(copy(6, 3), Err(StoreError::AlreadyExists { state: ReplicaState::Rbw, .. })));
    assert!(matches!(copy(7, u64::MAX), Err(StoreError::OutOfSpace { .. })));
    assert_eq!(
        report(fixture.store()),
        [(ID, 6, 3, ReplicaState::Rbw)],
        "it is the append of a closed block"
    );
    assert_eq!(read(fixture.store(), ID), b"abc");
    drop(copy(7, 3).unwrap());
    assert_eq!(report(fixture.store()), [], "the copy would have replaced it");
}

#[test]
fn stamps_that_stay_the_same() {
    let mut fixture = Fixture::new(1);
    let data = bytes(3000, 12);
    fixture.finalized(ID, 5, &data[..700]);
    let mut before = fixture.store().read(block(5)).unwrap();
    let mut old = fixture.store().append(block(5), 5, 700).unwrap();
    assert_eq!((old.replica().block, old.replica().state), (block(5), ReplicaState::Rbw));
    assert_eq!(fixture.store().visible_len(block(5)).unwrap(), Some(700));
    write(&mut *old, 512, &data[512..2000]);
    let mut longer = fixture.store().read(block(5)).unwrap();
    // Its pipeline breaks: another writer goes on, and what was not acked is cut off.
    assert!(fixture.store().recover_append(block(5), 5, 2000).is_err(), "not all of it is acked");
    let cut = fixture.store().recover_rbw(block(5), 5, 700, 2000).unwrap();
    assert!(
        matches!(longer.read(1500, &mut [0; 500]), Err(StoreError::Unfit { .. })),
        "it is no disk's fault"
    );
    drop(cut);
    let mut writer = fixture.store().recover_append(block(5), 5, 700).unwrap();
    write(&mut *writer, 700, &data[700..1024]);
    write(&mut *writer, 1024, &data[1024..]);
    writer.acked().advance(3000);
    assert_eq!(fixture.store().recover_close(block(5), 5, 3000).unwrap().state, ReplicaState::Finalized);
    assert!(matches!(writer.finish(), Err(StoreError::Stopped(_))));
    assert_eq!(fixture.store().recover_close(block(5), 5, 3000).unwrap().len, 3000, "it was closed already");
    let mut found = vec![0; 700];
    before.read(0, &mut found).unwrap();
    let mut sums = [0; 8];
    before.read_sums(0, &mut sums).unwrap();
    Checksum::DEFAULT.verify(&found, &sums).unwrap();
    drop((before, longer, old));
    fixture.restart();
    assert_eq!(report(fixture.store()), [(ID, 5, 3000, ReplicaState::Finalized)]);
    assert_eq!((read(fixture.store(), ID), fixture.take_events()), (data, vec![]));
}

#[test]
fn a_recovery_of_a_pipeline_stops_the_writer_and_cuts_what_was_not_acked() {
    let fixture = Fixture::new(1);
    let data = bytes(5000, 6);
    let mut old = fixture.create(ID, 1);
    write(&mut *old, 0, &data[..2000]);
    old.acked().advance(1500);
    let told = Arc::new(AtomicBool::new(false));
    let flag = told.clone();
    old.on_stop(Box::new(move || flag.store(true, Ordering::SeqCst)));
    let recover = |stamp, new, min, max| fixture.store().recover_rbw(block(stamp), new, min, max);
    assert!(recover(2, 3, 0, 5000).is_err(), "its stamp is older");
    assert!(recover(0, 0, 0, 5000).is_err(), "its stamp is newer");
    assert!(!told.load(Ordering::SeqCst));
    assert!(recover(1, 2, 1501, 5000).is_err(), "too little is acked");
    assert!(told.load(Ordering::SeqCst));
    assert!(recover(1, 2, 0, 1999).is_err(), "too much was received");
    let mut new = recover(1, 2, 1000, 2000).unwrap();
    assert_eq!((new.len(), new.replica().block), (1500, block(2)));
    assert!(matches!(old.write(2000, None, b"x"), Err(StoreError::Stopped(_))));
    assert!(matches!(old.sync(), Err(StoreError::Stopped(_))));
    // An ack of the old pipeline comes late.
    old.acked().advance(2000);
    assert_eq!(fixture.store().visible_len(block(2)).unwrap(), Some(1500));
    write(&mut *new, 1024, &data[1024..]);
    assert!(matches!(old.finish(), Err(StoreError::Stopped(_))));
    new.finish().unwrap();
    assert_eq!(read(fixture.store(), ID), data);
    assert!(fixture.store().recover_rbw(block(2), 3, 0, 5000).is_err(), "it is FINALIZED");
}

#[test]
fn recoveries_of_appends_and_closes() {
    let fixture = Fixture::new(1);
    let store = fixture.store();
    fixture.finalized(ID, 1, &bytes(700, 7));
    // The append never got here, or its answer was lost.
    drop(store.recover_append(block(1), 2, 700).unwrap());
    let mut writer = store.recover_append(block(1), 3, 700).unwrap();
    write(&mut *writer, 512, &bytes(700, 7)[512..]);
    writer.write(700, None, b"more").unwrap();
    assert!(store.recover_append(block(3), 4, 704).is_err(), "not all of it is acked");
    assert!(store.recover_close(block(3), 4, 704).is_err());
    // Its writer was stopped all the same.
    assert!(matches!(writer.write(704, None, b"x"), Err(StoreError::Stopped(_))));
    let writer = store.recover_rbw(block(3), 5, 700, 704).unwrap();
    assert_eq!(writer.len(), 700);
    let replica = store.recover_close(block(3), 6, 700).unwrap();
    assert_eq!((replica.block, replica.state), (block(6), ReplicaState::Finalized));
    assert!(matches!(writer.finish(), Err(StoreError::Stopped(_))));
    assert_eq!(store.recover_close(block(6), 7, 700).unwrap().block, block(7));
    assert!(store.recover_close(block(6), 8, 701).is_err());
    assert_eq!(read(store, ID), bytes(700, 7));
}

#[test]
fn copies_from_other_datanodes() {
    let mut fixture = Fixture::new(1);
    let data = bytes(1000, 8);
    let temporary = |fixture: &Fixture, stamp| {
        fixture.store().create_temporary(block(stamp), &Target::default(), Checksum::DEFAULT)
    };
    let mut writer = temporary(&fixture, 3).unwrap();
    write(&mut *writer, 0, &data);
    assert_eq!(report(fixture.store()), [], "nobody hears of it");
    assert!(fixture.store().read(block(3)).is_err());
    assert_eq!(fixture.store().visible_len(block(3)).unwrap(), None);
    assert_eq!(fixture.store().init_recovery(block(3), 9).unwrap(), None);
    assert!(matches!(temporary(&fixture, 3), Err(StoreError::AlreadyExists { .. })));
    drop(writer);
    assert_eq!(fixture.store().replica(ID), None, "it goes with its writer");

    let mut old = temporary(&fixture, 3).unwrap();
    let mut writer = temporary(&fixture, 4).unwrap();
    assert!(matches!(old.write(0, None, b"x"), Err(StoreError::Stopped(_))));
    drop(old);
    write(&mut *writer, 0, &data);
    writer.finish().unwrap();
    assert_eq!(report(fixture.store()), [(ID, 4, 1000, ReplicaState::Finalized)]);
    fixture.store().delete(&[block(4)]);

    let mut writer = temporary(&fixture, 5).unwrap();
    write(&mut *writer, 0, &data);
    assert_eq!(writer.into_rbw(900).unwrap().state, ReplicaState::Rbw);
    assert_eq!(fixture.store().visible_len(block(5)).unwrap(), Some(900));
    let mut writer = fixture.store().recover_rbw(block(5), 6, 900, 1000).unwrap();
    write(&mut *writer, 900, &data[900..]);
    drop(writer);
    fixture.restart();
    assert_eq!(report(fixture.store()), [(ID, 6, 1000, ReplicaState::Rwr)]);
    assert_eq!(read(fixture.store(), ID), data);
}

#[test]
fn recovery_of_a_block() {
    let fixture = Fixture::new(1);
    let store = fixture.store();
    assert_eq!(store.init_recovery(block(1), 2).unwrap(), None);
    let data = bytes(1000, 9);
    let mut writer = fixture.create(ID, 5);
    write(&mut *writer, 0, &data);
    writer.acked().advance(600);
    assert!(store.init_recovery(block(6), 9).is_err(), "the replica is older than the block");
    assert!(store.init_recovery(block(5), 5).is_err(), "the recovery is older than the replica");
    let info = store.init_recovery(block(4), 9).unwrap().unwrap();
    assert_eq!((info.block, info.len, info.state), (block(5), 1000, ReplicaState::Rbw));
    assert!(matches!(writer.write(1000, None, b"x"), Err(StoreError::Stopped(_))));
    assert_eq!(store.replica(ID).unwrap().state, ReplicaState::Rur);
    assert_eq!(report(store), [(ID, 5, 1000, ReplicaState::Rbw)]);
    assert_eq!((store.visible_len(block(5)).unwrap(), read(store, ID)), (Some(600), data.clone()));
    assert!(matches!(store.visible_len(block(6)), Err(StoreError::Unfit { .. })), "it is older");
    assert!(matches!(
        store.init_recovery(block(5), 9),
        Err(StoreError::RecoveryInProgress { recovery_id: 9, .. })
    ));
    assert!(store.init_recovery(block(5), 10).unwrap().is_some());
    assert!(store.update_recovery(block(5), 9, 0, 700).is_err(), "a newer recovery has it");
    assert!(store.update_recovery(block(5), 10, 0, 1001).is_err());
    let done = store.update_recovery(block(5), 10, ID, 700).unwrap();
    assert_eq!((done.block, done.len, done.state), (block(10), 700, ReplicaState::Finalized));
    assert_eq!(store.update_recovery(block(5), 10, 0, 700).unwrap(), done, "the answer was lost");
    assert_eq!(read(store, ID), data[..700]);

    // A truncate: of a FINALIZED one, in place and as a copy.
    store.init_recovery(block(10), 11).unwrap();
    store.update_recovery(block(10), 11, 0, 600).unwrap();
    store.init_recovery(block(11), 12).unwrap();
    let copy = store.update_recovery(block(11), 12, 99, 300).unwrap();
    assert_eq!((copy.block, copy.len), (Block { id: 99, stamp: 12 }, 300));
    assert_eq!((read(store, ID), read(store, 99)), (data[..600].to_vec(), data[..300].to_vec()));
    assert_eq!(
        report(store),
        [(99, 12, 300, ReplicaState::Finalized), (ID, 11, 600, ReplicaState::Finalized)]
    );
    assert_eq!(fixture.take_events(), []);
}

#[test]
fn a_deletion_is_not_told_once_the_block_is_back() {
    // One deletion in a while, so that the second waits.
    let settings = Settings { deletions_per_second: 1, ..quiet() };
    for back in [ReplicaState::Finalized, ReplicaState::Rbw, ReplicaState::Temporary] {
        let fixture = Fixture::with(1, settings.clone());
        let store = fixture.store();
        let (other, first) = (fixture.finalized(7, 1, b"abc"), fixture.finalized(ID, 5, b"abc"));
        assert!(store.delete(&[other.block, first.block]).is_empty());
        let temporary = back == ReplicaState::Temporary;
        let made = match temporary {
            true => store.create_temporary(block(5), &Target::default(), Checksum::DEFAULT),
            false => store.create_rbw(block(6), &Target::default(), Checksum::DEFAULT),
        };
        let mut writer = made.unwrap();
        write(&mut *writer, 0, b"abcdef");
        let left = if back == ReplicaState::Finalized {
            drop(writer.finish().unwrap());
            None
        } else {
            Some(writer)
        };
        store.wait_for_deletions();
        let told = fixture.take_events();
        assert_eq!(told.contains(&Event::Deleted(first)), temporary, "{back:?}: {told:?}");
        if let Some(writer) = left {
            writer.finish().unwrap();
        }
        assert_eq!(read(store, ID), b"abcdef");
        assert_eq!(store.storages()[0].used, 6 + 7 + 4);
    }
}

#[test]
fn deletion() {
    let mut fixture = Fixture::new(1);
    let store = fixture.store();
    let replica = fixture.finalized(ID, 5, &bytes(1000, 10));
    let used = store.storages()[0].used;
    assert_eq!(used, 1000 + 7 + 8);
    let mut written = fixture.create(7, 1);
    write(&mut *written, 0, &bytes(100, 11));
    let other = Block { id: 8, stamp: 1 };
    let refused = store.delete(&[block(4), other, block(5), Block { id: 7, stamp: 1 }]);
    assert!(
        matches!(&refused[..], [(a, StoreError::Unfit { .. }), (b, StoreError::NotFound(_))] if (*a, *b) == (block(4), other))
    );
    assert_eq!(report(store), []);
    assert!(matches!(written.write(100, None, b"x"), Err(StoreError::Stopped(_))));
    drop(written);
    store.wait_for_deletions();
    let events = fixture.take_events();
    assert!(events.contains(&Event::Deleted(replica)) && events.len() == 2, "{events:?}");
    assert_eq!((store.storages()[0].used, store.storages()[0].failed), (0, false));
    fixture.restart();
    assert_eq!(report(fixture.store()), []);
}

//! What is made durable, and when: exact counts, since each costs a turn of the disk, and a missing one loses data.

use std::sync::{Arc, Mutex};

use trellis_datanode::disk::{DiskStore, Folders, Settings, SyncCounts};
use trellis_datanode::server::Datanode;
use trellis_datanode::store::{Block, BlockStore, Event, ReplicaState, StoreError, Target};
use trellis_proto::checksum::Checksum;
use trellis_proto::hdfs::Status;
use trellis_proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;

use super::{Fixture, bytes, quiet, volume, write};
use crate::namenode::Namenode;
use crate::peer::{Peer, write_op};
use crate::support::{blocking, config, options};

fn counts(data: u64, meta: u64, dirs: u64) -> SyncCounts {
    SyncCounts { data, meta, dirs }
}

/// What one step syncs.
struct Steps {
    fixture: Fixture,
    before: SyncCounts,
}

impl Steps {
    /// After one block, whose folder exists then.
    fn after_the_first_block(sync_on_close: bool) -> Steps {
        let fixture = Fixture::with(1, Settings { sync_on_close, ..quiet() });
        fixture.finalized(1, 1, b"abc");
        let before = fixture.store().syncs();
        Steps { fixture, before }
    }

    fn store(&self) -> &DiskStore {
        self.fixture.store()
    }

    /// Since this was last asked: data files, files of sums, folders.
    fn done(&mut self) -> (u64, u64, u64) {
        let now = self.fixture.store().syncs();
        let SyncCounts { data, meta, dirs } = now - std::mem::replace(&mut self.before, now);
        (data, meta, dirs)
    }
}

fn block(stamp: u64) -> Block {
    Block { id: 2, stamp }
}

#[test]
fn a_block_that_is_closed() {
    let fixture = Fixture::with(1, Settings { sync_on_close: true, ..quiet() });
    assert_eq!(fixture.store().syncs(), counts(0, 0, 0));
    fixture.finalized(1, 1, b"abc");
    assert_eq!(
        fixture.store().syncs(),
        counts(1, 1, 4),
        "rbw, its own folder, and the two above that are new"
    );
    fixture.finalized(0x100, 1, b"abc");
    assert_eq!(fixture.store().syncs(), counts(2, 2, 8), "subdir0/subdir1, subdir0 and finalized again");

    let mut steps = Steps::after_the_first_block(true);
    let mut writer = steps.fixture.create(2, 1);
    // What hflush does is an ack.
    write(&mut *writer, 0, b"abc");
    writer.acked().advance(3);
    assert_eq!(steps.done(), (0, 0, 0));
    drop(writer.finish().unwrap());
    assert_eq!(steps.done(), (1, 1, 2), "rbw and its own folder");
    // A copy from another datanode.
    let mut writer = steps
        .store()
        .create_temporary(Block { id: 3, stamp: 1 }, &Target::default(), Checksum::DEFAULT)
        .unwrap();
    write(&mut *writer, 0, b"abc");
    writer.finish().unwrap();
    assert_eq!(steps.done(), (1, 1, 2));
}

#[test]
fn a_block_that_is_flushed_to_disk() {
    for (sync_on_close, closing) in [(true, (0, 0, 2)), (false, (0, 0, 0))] {
        let mut steps = Steps::after_the_first_block(sync_on_close);
        let mut writer = steps.fixture.create(2, 1);
        write(&mut *writer, 0, b"abc");
        writer.sync().unwrap();
        assert_eq!(steps.done(), (1, 1, 1), "its names too");
        writer.sync().unwrap();
        assert_eq!(steps.done(), (0, 0, 0), "nothing is new");
        writer.write(3, None, b"def").unwrap();
        writer.sync().unwrap();
        assert_eq!(steps.done(), (1, 1, 0));
        writer.finish().unwrap();
        assert_eq!(steps.done(), closing, "all bytes are durable already");
    }
}

#[test]
fn a_block_that_is_appended_to() {
    let mut steps = Steps::after_the_first_block(true);
    steps.fixture.finalized(2, 1, b"abc");
    steps.done();
    let mut writer = steps.store().append(block(1), 2, 3).unwrap();
    assert_eq!(steps.done(), (0, 0, 2), "the new stamp is told to clients");
    writer.write(3, None, b"def").unwrap();
    writer.sync().unwrap();
    assert_eq!(steps.done(), (1, 1, 0), "its names are durable already");
    writer.write(6, None, b"ghi").unwrap();
    writer.finish().unwrap();
    assert_eq!(steps.done(), (1, 1, 2));
}

#[test]
fn recoveries() {
    let mut steps = Steps::after_the_first_block(true);
    let mut writer = steps.fixture.create(2, 1);
    write(&mut *writer, 0, &bytes(1000, 1));
    writer.acked().advance(600);
    let writer = steps.store().recover_rbw(block(1), 2, 0, 1000).unwrap();
    assert_eq!((writer.len(), steps.done()), (600, (0, 0, 1)));
    drop(writer);
    assert_eq!(steps.store().recover_close(block(2), 3, 600).unwrap().state, ReplicaState::Finalized);
    assert_eq!(steps.done(), (1, 1, 2));
    steps.store().recover_close(block(3), 4, 600).unwrap();
    assert_eq!(steps.done(), (0, 0, 1), "its stamp");
    drop(steps.store().recover_append(block(4), 5, 600).unwrap());
    assert_eq!(steps.done(), (0, 0, 2));
    steps.store().init_recovery(block(5), 6).unwrap();
    assert_eq!(steps.done(), (0, 0, 0));
    steps.store().update_recovery(block(5), 6, 0, 500).unwrap();
    assert_eq!(steps.done(), (1, 1, 2));

    let mut writer =
        steps.store().create_temporary(Block { id: 3, stamp: 1 }, &Target::default(), Checksum::DEFAULT);
    write(&mut **writer.as_mut().unwrap(), 0, b"abc");
    writer.unwrap().into_rbw(3).unwrap();
    assert_eq!(steps.done(), (1, 1, 2), "what it is a copy of may have been flushed to disk");
}

#[test]
fn without_sync_on_close() {
    let mut steps = Steps::after_the_first_block(false);
    steps.fixture.finalized(2, 1, b"abc");
    let mut writer = steps.store().append(block(1), 2, 3).unwrap();
    writer.write(3, None, b"def").unwrap();
    writer.acked().advance(6);
    steps.store().recover_close(block(2), 3, 6).unwrap();
    assert!(matches!(writer.sync(), Err(StoreError::Stopped(_))));
    steps.store().init_recovery(block(3), 4).unwrap();
    steps.store().update_recovery(block(3), 4, 0, 2).unwrap();
    assert_eq!(steps.done(), (0, 0, 0));
}

/// A datanode whose store the test sees too.
async fn start(namenode: &Namenode, settings: Settings) -> (Datanode, Arc<DiskStore>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let opened = Arc::new(Mutex::new(None));
    let mut config = config();
    config.expected_block = 0;
    let mut options = options(dir.path(), vec![namenode.address.clone()], config);
    let (path, keep) = (dir.path().to_owned(), opened.clone());
    options.open = Box::new(move |pool, events: Box<dyn Fn(Event) + Send + Sync>| {
        let store = Arc::new(Folders::open(&[volume(&path)])?.attach(pool, settings, events)?);
        *keep.lock().unwrap() = Some(store.clone());
        Ok(store as Arc<dyn BlockStore>)
    });
    let mut datanode = Datanode::start(options).await.unwrap();
    datanode.known().await.unwrap();
    let store = opened.lock().unwrap().take().unwrap();
    (datanode, store, dir)
}

#[tokio::test]
async fn all_of_it_before_the_ack() {
    let namenode = Namenode::start().await;
    let (datanode, store, _dir) = start(&namenode, quiet_and_durable()).await;
    let (address, syncs) = (datanode.data, store.clone());
    blocking(move || {
        Peer::write_block(address, &write_op(1, 7, &[]), b"abc");
        let mut before = syncs.syncs();
        let mut since = || {
            let now = syncs.syncs();
            now - std::mem::replace(&mut before, now)
        };
        let (mut peer, _) = Peer::write(address, &write_op(2, 7, &[]));
        let mut step = |seqno, offset, data: &[u8], sync| {
            peer.packet(seqno, offset, data, sync);
            assert_eq!(peer.ack(), (seqno, vec![Status::Success]));
            since()
        };
        assert_eq!(step(0, 0, b"abc", false), counts(0, 0, 0), "hflush");
        assert_eq!(step(1, 0, b"abcdef", true), counts(1, 1, 1), "hsync");
        assert_eq!(step(2, 6, b"ghi", false), counts(0, 0, 0));
        assert_eq!(step(3, 9, b"", false), counts(1, 1, 2), "the end");

        let mut op = write_op(2, 7, &[]);
        op.stage = Stage::PipelineSetupAppend.into();
        (op.min_bytes_rcvd, op.latest_generation_stamp) = (9, 8);
        let (mut peer, _) = Peer::write(address, &op);
        assert_eq!(since(), counts(0, 0, 2), "append");
        peer.packet(0, 9, b"jkl", false);
        // SYNC_BLOCK: what the end syncs is not synced twice.
        peer.packet(1, 12, b"", true);
        assert_eq!((peer.ack().0, peer.ack().0), (0, 1));
        assert_eq!(since(), counts(1, 1, 2));
    })
    .await;
    drop(store);
    datanode.stop().await.unwrap();
}

fn quiet_and_durable() -> Settings {
    Settings { sync_on_close: true, ..quiet() }
}

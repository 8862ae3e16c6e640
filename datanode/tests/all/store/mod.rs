//! The store on disk.

mod damage;
mod folders;
mod life;
mod model;
mod power;
mod races;
mod room;
mod scan;
mod stock;
mod syncs;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use trellis_datanode::disk::{DiskStore, Folders, Settings, VolumeDir};
use trellis_datanode::store::{
    Block, BlockStore, Event, Pool, Replica, ReplicaState, ReplicaWriter, Result, StorageType, Target,
};
use trellis_proto::checksum::Checksum;

/// A store over temporary folders, and what it told.
pub struct Fixture {
    pub dirs: Vec<TempDir>,
    pub events: Arc<Mutex<Vec<Event>>>,
    pub settings: Settings,
    store: Option<DiskStore>,
}

pub fn pool() -> Pool {
    Pool { id: "BP-1-127.0.0.1-2".to_owned(), cluster_id: "CID-test".to_owned(), namespace_id: 7, ctime: 9 }
}

/// Nothing happens in the background but deletions.
pub fn quiet() -> Settings {
    Settings {
        sync_on_close: false,
        reserve_bytes: 0,
        deletions_per_second: 0,
        scan_bytes_per_second: 0,
        names_period: Duration::from_secs(3600),
        ..Settings::default()
    }
}

pub fn volume(path: &Path) -> VolumeDir {
    VolumeDir { path: path.to_owned(), storage_type: StorageType::Disk }
}

impl Fixture {
    pub fn new(volumes: usize) -> Fixture {
        Fixture::with(volumes, quiet())
    }

    pub fn with(volumes: usize, settings: Settings) -> Fixture {
        let dirs = (0..volumes).map(|_| TempDir::new().unwrap()).collect();
        let mut fixture = Fixture { dirs, events: Arc::default(), settings, store: None };
        fixture.start().unwrap();
        fixture
    }

    pub fn store(&self) -> &DiskStore {
        self.store.as_ref().unwrap()
    }

    /// Drops the store as it is and starts another over the same folders.
    pub fn restart(&mut self) {
        self.store = None;
        self.start().unwrap();
    }

    /// Drops the store, changes its folders, and starts another.
    pub fn restart_after(&mut self, change: impl FnOnce(&Fixture)) {
        self.store = None;
        change(self);
        self.start().unwrap();
    }

    /// Ends the store and leaves its folders.
    pub fn take_dirs(&mut self) -> Vec<TempDir> {
        self.store = None;
        std::mem::take(&mut self.dirs)
    }

    fn start(&mut self) -> Result<()> {
        let dirs: Vec<VolumeDir> = self.dirs.iter().map(|dir| volume(dir.path())).collect();
        let events = self.events.clone();
        let sink = Box::new(move |event| events.lock().unwrap().push(event));
        self.store = Some(Folders::open(&dirs)?.attach(pool(), self.settings.clone(), sink)?);
        Ok(())
    }

    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }

    /// `current/BP-…/NAME` of the first volume.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dirs[0].path().join("current").join(pool().id).join(name)
    }

    pub fn create(&self, id: u64, stamp: u64) -> Box<dyn ReplicaWriter> {
        let target = Target { expected_len: 4096, ..Target::default() };
        self.store().create_rbw(Block { id, stamp }, &target, Checksum::DEFAULT).unwrap()
    }

    /// A FINALIZED replica with these bytes.
    pub fn finalized(&self, id: u64, stamp: u64, bytes: &[u8]) -> Replica {
        let mut writer = self.create(id, stamp);
        write(&mut *writer, 0, bytes);
        writer.finish().unwrap()
    }
}

/// Bytes without a pattern.
pub fn bytes(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32).map(|i| ((i ^ seed.rotate_left(16)).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Writes a packet with its sums.
pub fn write(writer: &mut dyn ReplicaWriter, offset: u64, data: &[u8]) {
    let mut sums = Vec::new();
    writer.checksum().compute(data, &mut sums);
    writer.write(offset, Some(&sums), data).unwrap();
}

/// All bytes of a replica, each chunk of which has the right sum.
pub fn read(store: &dyn BlockStore, id: u64) -> Vec<u8> {
    let mut reader = store.read(Block { id, stamp: 0 }).unwrap();
    let mut data = vec![0; reader.replica().len as usize];
    let mut sums = vec![0; reader.checksum().sums_len(data.len())];
    reader.read(0, &mut data).unwrap();
    reader.read_sums(0, &mut sums).unwrap();
    reader.checksum().verify(&data, &sums).unwrap();
    data
}

/// What a full report shows, by id.
pub fn report(store: &DiskStore) -> Vec<(u64, u64, u64, ReplicaState)> {
    let mut shown = Vec::new();
    for storage in store.storages() {
        store.report(&storage.storage, &mut |r| shown.push((r.block.id, r.block.stamp, r.len, r.state)));
    }
    shown.sort();
    shown
}

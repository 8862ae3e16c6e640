//! [`BlockStore`] on folders that a stock HDFS DataNode can serve too.
//!
//! | file | what |
//! |---|---|
//! | `names`, `version`, `meta` | the layout: names of files, VERSION files, files of checksums |
//! | `folder`, `volume`, `room` | a `--data` folder: lock and owner; whether its disk works; how much room it has |
//! | `map`, `pipeline` | the replicas in memory; those that are being written |
//! | `core` | what all share, and the order of locks |
//! | `create`, `finish`, `recovery`, `delete` | what changes a replica's state |
//! | `writer`, `reader` | its bytes |
//! | `sync`, `note` | what makes bytes and names durable; what is noted of bytes that are |
//! | `load`, `scanner` | what a start finds; what the disk loses later |
//! | `suspects` | replicas that somebody else found wrong |

mod core;
mod create;
mod delete;
mod finish;
mod folder;
mod load;
mod map;
mod meta;
mod names;
mod note;
mod pipeline;
mod reader;
mod recovery;
mod room;
mod scanner;
mod suspects;
mod sync;
mod version;
mod volume;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use trellis_proto::checksum::Checksum;
use uuid::Uuid;

use self::core::{Core, unfit};
use folder::Folder;
use map::Slot;
use reader::Reader;
use volume::Volume;

pub use names::LAYOUT_VERSION;
pub use sync::SyncCounts;

use crate::store::{
    Block, BlockStore, EventSink, Pool, RecoveryInfo, Replica, ReplicaReader, ReplicaState, ReplicaWriter,
    Result, StorageReport, StorageType, StoreError, Target,
};

/// One `--data` folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeDir {
    /// The folder; made if it is not there.
    pub path: PathBuf,
    /// What its disk is.
    pub storage_type: StorageType,
}

/// How a store works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// A block's data, sums and names are durable before it counts as finalized.
    pub sync_on_close: bool,
    /// Bytes of each volume that replicas never get.
    pub reserve_bytes: u64,
    /// Replicas whose files are deleted in a second, at most; 0 = no limit.
    pub deletions_per_second: u32,
    /// Bytes that the scanner reads in a second from each volume; 0 = only what is suspected, and at full speed.
    pub scan_bytes_per_second: u64,
    /// How long the scanner takes, at least, from one reading of a replica to the next.
    pub scan_period: Duration,
    /// How often the names on disk are compared with the replicas in memory.
    pub names_period: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sync_on_close: true,
            reserve_bytes: 0,
            deletions_per_second: 2000,
            scan_bytes_per_second: 1 << 20,
            scan_period: Duration::from_secs(3 * 7 * 24 * 3600),
            names_period: Duration::from_secs(6 * 3600),
        }
    }
}

/// The folders of a datanode, locked, before it knows its namenode.
pub struct Folders {
    folders: Vec<(Folder, StorageType)>,
    datanode_uuid: String,
}

impl Folders {
    /// Opens and locks folders. Refuses what is of another layout, or in use, and folders of different datanodes.
    pub fn open(dirs: &[VolumeDir]) -> Result<Folders> {
        let mut folders = Vec::new();
        let mut uuid: Option<String> = None;
        for dir in dirs {
            let folder = Folder::open(&dir.path)?;
            match (folder.datanode_uuid(), &uuid) {
                (Some(found), Some(known)) if found != known => {
                    let reason = format!("it is of datanode {found}, another folder of {known}");
                    return Err(StoreError::Folder { path: dir.path.clone(), reason });
                }
                (Some(found), None) => uuid = Some(found.to_owned()),
                _ => {}
            }
            folders.push((folder, dir.storage_type));
        }
        if folders.is_empty() || folders.len() > usize::from(u16::MAX) {
            let reason = "at least one folder is needed, and not too many".to_owned();
            return Err(StoreError::Folder { path: PathBuf::new(), reason });
        }
        Ok(Folders { folders, datanode_uuid: uuid.unwrap_or_else(|| Uuid::new_v4().to_string()) })
    }

    /// This datanode's uuid; drawn anew while all folders are.
    pub fn datanode_uuid(&self) -> &str {
        &self.datanode_uuid
    }

    /// Makes new folders this pool's, refuses those of another, and reads which replicas there are: all volumes at once,
    /// each on a thread of its own. One that cannot be read fails, not the start, unless none is left.
    pub fn attach(self, pool: Pool, settings: Settings, events: EventSink) -> Result<DiskStore> {
        DiskStore::start(self.core(pool, settings, events)?)
    }

    /// The store but for its threads.
    fn core(self, pool: Pool, settings: Settings, events: EventSink) -> Result<Arc<Core>> {
        let mut volumes: Vec<Arc<Volume>> = Vec::new();
        for (index, (mut folder, storage_type)) in self.folders.into_iter().enumerate() {
            let storage = folder.attach(&self.datanode_uuid, &pool)?;
            if volumes.iter().any(|other| *other.storage == *storage) {
                let reason = format!("another folder is storage {storage} too: one is a copy");
                return Err(StoreError::Folder { path: folder.path().to_owned(), reason });
            }
            let reserve = settings.reserve_bytes;
            volumes.push(Arc::new(Volume::new(index as u16, folder, &pool, &storage, storage_type, reserve)));
        }
        let found = std::thread::scope(|scope| {
            let loads: Vec<_> =
                volumes.iter().map(|volume| scope.spawn(move || load::load(volume))).collect();
            loads
                .into_iter()
                .map(|load| load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        let found: Vec<Result<Vec<_>>> = found;
        let mut failed = Vec::new();
        let found = found.into_iter().zip(0..).map(|(found, index)| {
            found.unwrap_or_else(|error| {
                failed.push((index, error));
                Vec::new()
            })
        });
        let found = found.collect();
        let (map, stuck) = load::merge(&volumes, found);
        failed.extend(stuck);
        let core = Arc::new(Core::new(pool, self.datanode_uuid, settings, volumes, map, events));
        for (index, error) in &failed {
            core.fail_volume(&core.volumes[usize::from(*index)], error.to_string());
        }
        // One that is left serves; without any there is nothing to start.
        match failed.into_iter().next() {
            Some((_, error)) if core.volumes.iter().all(|volume| volume.failure().is_some()) => Err(error),
            _ => Ok(core),
        }
    }
}

/// The store. Its threads end with it.
pub struct DiskStore {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl DiskStore {
    fn start(core: Arc<Core>) -> Result<DiskStore> {
        let mut store = DiskStore { core: core.clone(), threads: Vec::new() };
        let deleting = core.clone();
        store.spawn("dn-delete", move || deleting.run_deletions())?;
        for volume in core.volumes.clone() {
            let core = core.clone();
            store.spawn("dn-scan", move || core.run_scanner(&volume))?;
        }
        Ok(store)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = spawned.map_err(|source| StoreError::Io {
            what: "starting a thread for",
            path: PathBuf::from(name),
            source,
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Compares all names on disk with the replicas in memory and reads all replicas, now; events tell what is wrong.
    pub fn scan(&self) {
        for volume in &self.core.volumes {
            self.core.scan_all(volume);
        }
    }

    /// How often replicas' files and folders were made durable since the start.
    pub fn syncs(&self) -> SyncCounts {
        self.core.volumes.iter().map(|volume| volume.syncs.counts()).sum()
    }

    /// Waits until all files of deleted replicas are gone.
    pub fn wait_for_deletions(&self) {
        self.core.deletions.settle();
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        self.core.deletions.close();
        self.core.scanning.iter().for_each(|scanning| scanning.close());
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl BlockStore for DiskStore {
    fn pool(&self) -> &Pool {
        &self.core.pool
    }

    fn datanode_uuid(&self) -> &str {
        &self.core.datanode_uuid
    }

    fn replica(&self, block_id: u64) -> Option<Replica> {
        let slot = self.core.map().get(block_id).cloned()?;
        Some(self.core.shown(block_id, &slot))
    }

    fn create_rbw(
        &self,
        block: Block,
        target: &Target,
        checksum: Checksum,
    ) -> Result<Box<dyn ReplicaWriter>> {
        Ok(Box::new(self.core.create(block, target, checksum, false)?))
    }

    fn create_temporary(
        &self,
        block: Block,
        target: &Target,
        checksum: Checksum,
    ) -> Result<Box<dyn ReplicaWriter>> {
        Ok(Box::new(self.core.create(block, target, checksum, true)?))
    }

    fn append(&self, block: Block, new_stamp: u64, len: u64) -> Result<Box<dyn ReplicaWriter>> {
        Ok(Box::new(self.core.append(block, new_stamp, len)?))
    }

    fn recover_append(&self, block: Block, new_stamp: u64, len: u64) -> Result<Box<dyn ReplicaWriter>> {
        Ok(Box::new(self.core.recover_append(block, new_stamp, len)?))
    }

    fn recover_rbw(
        &self,
        block: Block,
        new_stamp: u64,
        min_len: u64,
        max_len: u64,
    ) -> Result<Box<dyn ReplicaWriter>> {
        Ok(Box::new(self.core.recover_rbw(block, new_stamp, min_len, max_len)?))
    }

    fn recover_close(&self, block: Block, new_stamp: u64, len: u64) -> Result<Replica> {
        self.core.recover_close(block, new_stamp, len)
    }

    fn read(&self, block: Block) -> Result<Box<dyn ReplicaReader>> {
        Ok(Box::new(Reader::open(&self.core, block)?))
    }

    fn visible_len(&self, block: Block) -> Result<Option<u64>> {
        let slot = self.core.slot(block)?;
        let (stamp, len) = slot.stamp_and_len();
        if stamp < block.stamp {
            return Err(unfit(block.id, &slot, format!("its stamp is older than {}", block.stamp)));
        }
        Ok(match slot {
            Slot::InPipeline(pipeline) if pipeline.temporary => None,
            Slot::InPipeline(pipeline) => Some(pipeline.io().acked.get().min(pipeline.len())),
            Slot::Recovering(recovering) if recovering.was == ReplicaState::Rwr => None,
            Slot::Recovering(recovering) => Some(recovering.acked.get().min(len)),
            Slot::Resting(replica) => (!replica.unfinished).then_some(len),
        })
    }

    fn delete(&self, blocks: &[Block]) -> Vec<(Block, StoreError)> {
        blocks.iter().filter_map(|block| Some((*block, self.core.delete(*block).err()?))).collect()
    }

    fn init_recovery(&self, block: Block, recovery_id: u64) -> Result<Option<RecoveryInfo>> {
        self.core.init_recovery(block, recovery_id)
    }

    fn update_recovery(
        &self,
        block: Block,
        recovery_id: u64,
        new_block_id: u64,
        len: u64,
    ) -> Result<Replica> {
        self.core.update_recovery(block, recovery_id, new_block_id, len)
    }

    fn report(&self, storage: &str, each: &mut dyn FnMut(&Replica)) {
        let Some(volume) = self.core.volumes.iter().find(|volume| *volume.storage == *storage) else {
            return;
        };
        let of_volume = |slot: &Slot| slot.volume() == volume.index && slot.is_shown();
        for (id, slot) in self.core.map().iter().filter(|(_, slot)| of_volume(slot)) {
            let mut replica = self.core.shown(id, slot);
            if let Slot::Recovering(recovering) = slot {
                replica.state = recovering.was;
            }
            each(&replica);
        }
    }

    fn replica_count(&self, storage: &str) -> u64 {
        let volume = self.core.volumes.iter().find(|volume| *volume.storage == *storage);
        volume.map_or(0, |volume| self.core.map().shown(volume.index))
    }

    fn storages(&self) -> Vec<StorageReport> {
        let report = |volume: &Arc<Volume>| {
            let space = self.core.space(volume);
            volume.report(space.unwrap_or_else(|| volume.room.last()))
        };
        self.core.volumes.iter().map(report).collect()
    }

    fn suspect(&self, block_id: u64) {
        let volume = self.core.map().get(block_id).map(Slot::volume);
        if let Some(volume) = volume {
            self.core.scanning[usize::from(volume)].suspect(block_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::core::lock;
    use super::*;
    use crate::store::Event;

    /// A store of one folder, without threads, and what it tells.
    pub fn core(dir: &Path) -> (Arc<Core>, Arc<Mutex<Vec<Event>>>) {
        let folder = VolumeDir { path: dir.to_owned(), storage_type: StorageType::Disk };
        let id = "BP-1-127.0.0.1-2".to_owned();
        let pool = Pool { id, cluster_id: "CID-test".to_owned(), namespace_id: 7, ctime: 9 };
        let settings = Settings { scan_bytes_per_second: u64::MAX, ..Settings::default() };
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = events.clone();
        let sink = Box::new(move |event| lock(&told).push(event));
        let core = Folders::open(&[folder]).unwrap().core(pool, settings, sink).unwrap();
        (core, events)
    }
}

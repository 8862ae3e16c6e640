//! The scanner of a volume: reads all replicas, slowly, and compares names on disk with the replicas in memory, so that
//! the namenode hears of what the disk lost before all other replicas are lost too.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::core::{Core, lock};
use super::names::{self, Name, SUBDIRS};
use super::reader::Reader;
use super::version::Version;
use super::volume::{Place, Volume};
use crate::store::{Block, ReplicaReader, ReplicaState, StoreError};

/// Folders of finalized replicas: what the scanner does one after another.
const FOLDERS: u64 = SUBDIRS * SUBDIRS;
/// Bytes that are read at a time.
const READ_BYTES: u64 = 256 << 10;
/// Suspects that may wait.
const SUSPECTS_MAX: usize = 10_000;
/// Where a volume's scanner stands, in its pool's folder.
const CURSOR: &str = "trellis-scanner.cursor";
/// How often that is written.
const CURSOR_PERIOD: Duration = Duration::from_secs(60);
/// The shortest time between two looks for what is due.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// What a volume's scanner is told from outside.
#[derive(Default)]
pub struct Scanning {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    suspects: BTreeSet<u64>,
    closed: bool,
}

impl Scanning {
    /// Adds a block that somebody found wrong; not if too many wait, for the scanner comes by anyway.
    pub fn suspect(&self, block_id: u64) {
        let mut state = lock(&self.state);
        if state.suspects.len() < SUSPECTS_MAX {
            state.suspects.insert(block_id);
        }
        self.changed.notify_all();
    }

    /// Ends the scanner.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    fn closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Waits for a while, or until closed or, if `suspects` count, until there are some. False once closed.
    fn sleep(&self, time: Duration, suspects: bool) -> bool {
        let idle = |state: &mut State| !state.closed && (!suspects || state.suspects.is_empty());
        let waited = self.changed.wait_timeout_while(lock(&self.state), time, idle);
        !waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }
}

/// How far a volume's scanner is.
struct Cursor {
    /// The next folder to read.
    folder: u64,
    /// When this round began, ms since the epoch.
    round_ms: u64,
    /// When the names were compared last, or it began to run.
    names: Instant,
    /// When it was written last.
    written: Instant,
}

impl Core {
    /// Scans a volume until the store is closed.
    pub fn run_scanner(self: Arc<Self>, volume: &Volume) {
        let scanning = &self.scanning[usize::from(volume.index)];
        let mut cursor = read_cursor(volume);
        while !scanning.closed() && volume.failure().is_none() {
            let pause = self.scan_step(volume, &mut cursor);
            if !scanning.sleep(pause, true) {
                return;
            }
            let suspects = std::mem::take(&mut lock(&scanning.state).suspects);
            for id in suspects {
                self.verify_finalized(id);
            }
        }
    }

    /// Does what is due and says how long nothing else is.
    fn scan_step(self: &Arc<Self>, volume: &Volume, cursor: &mut Cursor) -> Duration {
        let names_period = self.settings.names_period.max(SHORTEST_PAUSE);
        if cursor.names.elapsed() >= names_period {
            cursor.names = Instant::now();
            self.scan_names(volume);
        }
        let names_left = names_period.saturating_sub(cursor.names.elapsed());
        if self.settings.scan_bytes_per_second == 0 {
            return names_left;
        }
        if cursor.folder >= FOLDERS {
            let round = Duration::from_millis(now_ms().saturating_sub(cursor.round_ms));
            let left = self.settings.scan_period.max(SHORTEST_PAUSE).saturating_sub(round);
            if !left.is_zero() {
                return left.min(names_left);
            }
            (cursor.folder, cursor.round_ms) = (0, now_ms());
        }
        self.scan_folder(volume, cursor.folder);
        cursor.folder += 1;
        if cursor.folder == FOLDERS || cursor.written.elapsed() >= CURSOR_PERIOD {
            write_cursor(volume, cursor);
        }
        Duration::ZERO
    }

    /// Compares all names of a volume and reads all its replicas.
    pub fn scan_all(self: &Arc<Self>, volume: &Volume) {
        self.scan_names(volume);
        for folder in 0..FOLDERS {
            self.scan_folder(volume, folder);
        }
    }

    fn verify_finalized(self: &Arc<Self>, block_id: u64) {
        let slot = self.map().get(block_id).cloned();
        if let Some(slot) = slot.filter(|slot| slot.state() == ReplicaState::Finalized) {
            self.verify(Block { id: block_id, stamp: slot.stamp_and_len().0 });
        }
    }

    /// Reads all finalized replicas of one folder.
    fn scan_folder(self: &Arc<Self>, volume: &Volume, folder: u64) {
        for id in self.names_in(volume, like(folder)) {
            if self.scanning[usize::from(volume.index)].closed() || volume.failure().is_some() {
                return;
            }
            if self.map().get(id).is_some_and(|slot| slot.volume() == volume.index) {
                self.verify_finalized(id);
            }
        }
    }

    /// Reads a replica and its sums, and tells of what is wrong.
    fn verify(self: &Arc<Self>, block: Block) {
        // Whoever opens or reads it tells of what cannot be.
        let verified = Reader::open(self, block).and_then(|mut reader| self.verify_all(&mut reader));
        if let Err(error) = verified {
            tracing::debug!(%block, %error, "the scanner could not read a replica");
        }
    }

    fn verify_all(&self, reader: &mut Reader) -> Result<(), StoreError> {
        let checksum = reader.checksum();
        let len = reader.replica().len;
        let scanning = &self.scanning[usize::from(reader.volume_index())];
        let step = checksum.chunk_start(READ_BYTES).max(checksum.bytes_per_checksum().into());
        let (mut data, mut sums) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < len && !scanning.closed() {
            data.resize(step.min(len - at) as usize, 0);
            sums.resize(checksum.sums_len(data.len()), 0);
            reader.read(at, &mut data)?;
            reader.read_sums(at, &mut sums)?;
            if let Err(error) = checksum.verify(&data, &sums) {
                return Err(reader.mismatch(&format!("from byte {at} on: {error}")));
            }
            at += data.len() as u64;
            if let Some(rate) = NonZeroU64::new(self.settings.scan_bytes_per_second) {
                scanning.sleep(Duration::from_secs_f64(data.len() as f64 / rate.get() as f64), false);
            }
        }
        Ok(())
    }

    /// Compares the names of a volume's finalized files with the replicas in memory.
    fn scan_names(&self, volume: &Volume) {
        for n in 0..SUBDIRS {
            // One part of the replicas at a time: neither is the map locked for long nor much copied.
            let mut replicas = self.map().finalized(volume.index, |id| folder_of(id) / SUBDIRS == n);
            replicas.sort_unstable_by_key(|(block, _)| folder_of(block.id));
            for together in replicas.chunk_by(|(a, _), (b, _)| folder_of(a.id) == folder_of(b.id)) {
                if self.scanning[usize::from(volume.index)].closed() || volume.failure().is_some() {
                    return;
                }
                let Some((first, _)) = together.first() else { continue };
                let names = self.names_in(volume, first.id);
                for (block, len) in together.iter().filter(|(block, _)| !names.contains(&block.id)) {
                    self.look_again(volume, *block, *len);
                }
            }
        }
    }

    /// A replica whose file was not there when its folder was listed: it may have been deleted, appended to or made
    /// since.
    fn look_again(&self, volume: &Volume, block: Block, len: u64) {
        let _turn = self.turn(block.id);
        let Some(slot) = self.map().get(block.id).cloned() else { return };
        if slot.state() != ReplicaState::Finalized || slot.stamp_and_len() != (block.stamp, len) {
            return;
        }
        let replica = self.shown(block.id, &slot);
        match fs::symlink_metadata(volume.data(Place::Finalized, block.id)) {
            Ok(found) if found.is_file() => {}
            Ok(_) => drop(self.corrupt(replica, "its file is no regular file")),
            Err(error) => drop(self.unopened(volume, replica, error)),
        }
    }

    /// Ids of the data files in the folder where this block belongs; none if it cannot be listed.
    fn names_in(&self, volume: &Volume, block_id: u64) -> BTreeSet<u64> {
        let dir = volume.dir(Place::Finalized, block_id);
        names_in(&dir).unwrap_or_else(|error| {
            let error = self.read_error(volume, "listing", &dir, error);
            tracing::warn!(%error, "a folder of replicas could not be listed");
            BTreeSet::new()
        })
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn read_cursor(volume: &Volume) -> Cursor {
    let file = Version::read(&volume.pool_dir().join(CURSOR)).ok().flatten().unwrap_or_default();
    let number = |key| file.get(key).and_then(|text| text.parse().ok());
    let (names, written) = (Instant::now(), Instant::now());
    Cursor {
        folder: number("folder").unwrap_or(0),
        round_ms: number("roundMs").unwrap_or_else(now_ms),
        names,
        written,
    }
}

fn write_cursor(volume: &Volume, cursor: &mut Cursor) {
    let file =
        Version::new([("folder", cursor.folder.to_string()), ("roundMs", cursor.round_ms.to_string())]);
    cursor.written = Instant::now();
    if let Err(error) = file.write(&volume.pool_dir().join(CURSOR)) {
        tracing::warn!(volume = %volume.path().display(), %error, "the scanner's place is not kept");
    }
}

/// Number of the folder where a block's files belong.
fn folder_of(id: u64) -> u64 {
    ((id >> 16) % SUBDIRS) * SUBDIRS + (id >> 8) % SUBDIRS
}

/// An id whose files belong into the folder of this number.
fn like(folder: u64) -> u64 {
    (folder / SUBDIRS) << 16 | (folder % SUBDIRS) << 8
}

fn names_in(dir: &Path) -> io::Result<BTreeSet<u64>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        other => other?,
    };
    let mut ids = BTreeSet::new();
    for entry in entries {
        if let Some(Name::Data(id)) = names::parse(&entry?.file_name()) {
            ids.insert(id);
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_ids() {
        for folder in 0..FOLDERS {
            assert_eq!(folder_of(like(folder)), folder);
            assert_eq!(names::subdir(like(folder) | 0xf_f000_00ff), names::subdir(like(folder)));
        }
    }
}

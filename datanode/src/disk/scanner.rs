//! The scanner of a volume: reads all replicas, slowly, and compares names on disk with the replicas in memory, so that
//! the namenode hears of what the disk lost before all other replicas are lost too.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::core::Core;
use super::names::{self, Name, SUBDIRS};
use super::reader::Reader;
use super::version::Version;
use super::volume::{Place, Volume};
use crate::store::{Block, ReplicaReader, ReplicaState, StoreError};

/// Folders of finalized replicas: what the scanner does one after another.
const FOLDERS: u64 = SUBDIRS * SUBDIRS;
/// Bytes that are read at a time.
const READ_BYTES: u64 = 256 << 10;
/// Where a volume's scanner stands, in its pool's folder.
const CURSOR: &str = "trellis-scanner.cursor";
/// How often that is written.
const CURSOR_PERIOD: Duration = Duration::from_secs(60);
/// The shortest time between two looks for what is due.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// A round that found no replica is no round: the next one begins so soon.
const EMPTY_PAUSE: Duration = Duration::from_secs(60);

/// How fast a replica is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// As fast as the settings allow, and suspects come first.
    Slow,
    /// As fast as the disk.
    Full,
}

/// How far a volume's scanner is.
struct Cursor {
    /// The next folder to read.
    folder: u64,
    /// When this round began, ms since the epoch.
    round_ms: u64,
    /// Replicas that this round has read.
    replicas: u64,
    /// No round begins before.
    pause: Instant,
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
            if !scanning.sleep(pause) {
                return;
            }
            self.verify_suspects(volume.index);
        }
    }

    /// Looks at all suspects, at full speed: a reader waits for another replica to take the place of each.
    fn verify_suspects(self: &Arc<Self>, volume: u16) {
        let scanning = &self.scanning[usize::from(volume)];
        while let Some(id) = scanning.next_suspect() {
            if self.verify_finalized(id, Pace::Full) {
                scanning.looked_at(id);
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
        if cursor.folder >= FOLDERS && cursor.replicas > 0 {
            let round = Duration::from_millis(now_ms().saturating_sub(cursor.round_ms));
            let left = self.settings.scan_period.max(SHORTEST_PAUSE).saturating_sub(round);
            if !left.is_zero() {
                return left.min(names_left);
            }
        }
        let left = cursor.pause.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return left.min(names_left);
        }
        if cursor.folder >= FOLDERS {
            (cursor.folder, cursor.round_ms, cursor.replicas) = (0, now_ms(), 0);
        }
        cursor.replicas += self.scan_folder(volume, cursor.folder, Pace::Slow);
        cursor.folder += 1;
        if cursor.folder == FOLDERS && cursor.replicas == 0 {
            cursor.pause = Instant::now() + EMPTY_PAUSE;
        }
        let due = cursor.folder == FOLDERS || cursor.written.elapsed() >= CURSOR_PERIOD;
        if due && cursor.replicas > 0 {
            write_cursor(volume, cursor);
        }
        Duration::ZERO
    }

    /// Compares all names of a volume and reads all its replicas.
    pub fn scan_all(self: &Arc<Self>, volume: &Volume) {
        self.scan_names(volume);
        for folder in 0..FOLDERS {
            self.scan_folder(volume, folder, Pace::Full);
        }
    }

    /// Whether the replica is FINALIZED and could be read to its end, or to its fault.
    fn verify_finalized(self: &Arc<Self>, block_id: u64, pace: Pace) -> bool {
        let slot = self.map().get(block_id).cloned();
        let Some(slot) = slot.filter(|slot| slot.state() == ReplicaState::Finalized) else { return false };
        let block = Block { id: block_id, stamp: slot.stamp_and_len().0 };
        // Whoever opens or reads it tells of what cannot be.
        let verified = Reader::open(self, block).and_then(|mut reader| self.verify_all(&mut reader, pace));
        if let Err(error) = &verified {
            tracing::debug!(%block, %error, "the scanner could not read a replica");
        }
        if let Err(StoreError::Corrupt { .. }) = verified {
            // It was told of: readers need not find it again.
            self.scanning[usize::from(slot.volume())].looked_at(block_id);
        }
        matches!(verified, Ok(true) | Err(StoreError::Corrupt { .. }))
    }

    /// Reads all finalized replicas of one folder; answers how many.
    fn scan_folder(self: &Arc<Self>, volume: &Volume, folder: u64, pace: Pace) -> u64 {
        let mut replicas = 0;
        for id in self.names_in(volume, like(folder)) {
            if self.scanning[usize::from(volume.index)].closed() || volume.failure().is_some() {
                break;
            }
            self.verify_suspects(volume.index);
            if self.map().get(id).is_some_and(|slot| slot.volume() == volume.index) {
                self.verify_finalized(id, pace);
                replicas += 1;
            }
        }
        replicas
    }

    /// Reads a replica and its sums, and tells of what is wrong. False: the scanner is to end.
    fn verify_all(self: &Arc<Self>, reader: &mut Reader, pace: Pace) -> Result<bool, StoreError> {
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
            if pace == Pace::Slow
                && let Some(rate) = NonZeroU64::new(self.settings.scan_bytes_per_second)
            {
                scanning.sleep(Duration::from_secs_f64(data.len() as f64 / rate.get() as f64));
                self.verify_suspects(reader.volume_index());
            }
        }
        Ok(at >= len)
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
            Err(error) => drop(self.unopened(volume, (replica, Place::Finalized), error)),
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
    let now = Instant::now();
    Cursor {
        folder: number("folder").unwrap_or(0),
        round_ms: number("roundMs").unwrap_or_else(now_ms),
        replicas: number("replicas").unwrap_or(0),
        pause: now,
        names: now,
        written: now,
    }
}

fn write_cursor(volume: &Volume, cursor: &mut Cursor) {
    let file = Version::new([
        ("folder", cursor.folder.to_string()),
        ("roundMs", cursor.round_ms.to_string()),
        ("replicas", cursor.replicas.to_string()),
    ]);
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
    use std::os::unix::fs::FileExt;

    use trellis_proto::checksum::Checksum;

    use super::super::core::lock;
    use super::super::tests::core;
    use super::*;
    use crate::store::{Event, ReplicaWriter, Target};

    /// Takes steps until there is a pause.
    fn round(core: &Arc<Core>, volume: &Volume, cursor: &mut Cursor) -> Duration {
        let pauses = (0..=FOLDERS).map(|_| core.scan_step(volume, cursor));
        pauses.into_iter().find(|pause| !pause.is_zero()).expect("a round ends")
    }

    #[test]
    fn a_round_that_found_nothing_is_no_round() {
        let dir = tempfile::tempdir().unwrap();
        let (core, events) = core(dir.path());
        let volume = core.volumes[0].clone();
        let mut cursor = read_cursor(&volume);
        for _ in 0..2 {
            let pause = round(&core, &volume, &mut cursor);
            assert!(pause <= EMPTY_PAUSE, "{pause:?}");
            assert!(!core.scan_step(&volume, &mut cursor).is_zero(), "it woke for a suspect");
            cursor.pause = Instant::now();
        }

        let block = Block { id: 1, stamp: 7 };
        let mut writer = core.create(block, &Target::default(), Checksum::DEFAULT, false).unwrap();
        writer.write(0, None, &[1; 1000]).unwrap();
        let replica = Box::new(writer).finish().unwrap();
        let file = fs::File::options().write(true).open(volume.data(Place::Finalized, 1)).unwrap();
        file.write_all_at(&[2], 700).unwrap();
        let pause = round(&core, &volume, &mut cursor);
        assert!(pause > EMPTY_PAUSE, "{pause:?}: it found one, so the next round is due in a period");
        assert_eq!(*lock(&events), [Event::Corrupt(replica.clone())]);
        // A start goes on where the one before it was.
        let mut again = read_cursor(&volume);
        assert!(core.scan_step(&volume, &mut again) > EMPTY_PAUSE);
        assert_eq!(lock(&events).len(), 1);
        // A period later.
        cursor.round_ms = 0;
        assert!(core.scan_step(&volume, &mut cursor).is_zero());
        assert_eq!(*lock(&events), [Event::Corrupt(replica.clone()), Event::Corrupt(replica)]);
    }

    #[test]
    fn folders_and_ids() {
        for folder in 0..FOLDERS {
            assert_eq!(folder_of(like(folder)), folder);
            assert_eq!(names::subdir(like(folder) | 0xf_f000_00ff), names::subdir(like(folder)));
        }
    }
}

//! What a start finds on a volume. Names and lengths are not trusted: whatever is no replica is left alone, with a
//! warning, but for leftovers of what a crash broke off.

use std::collections::HashMap;
use std::fs::{self, DirEntry, File};
use std::io;
use std::path::Path;

use super::create::open;
use super::map::{ReplicaMap, Resting, Slot};
use super::meta;
use super::names::{self, Name, SUBDIRS};
use super::volume::{Place, Volume, is_contradiction, is_damage};
use crate::store::{Block, Result, StoreError};

/// The replicas of a volume.
pub fn load(volume: &Volume) -> Result<Vec<(u64, Resting)>> {
    let found = Load { volume, found: Vec::new() }.run();
    found.map_err(|(path, source)| StoreError::Io { what: "looking for replicas in", path, source })
}

type Found<T> = std::result::Result<T, (std::path::PathBuf, io::Error)>;

struct Load<'a> {
    volume: &'a Volume,
    found: Vec<(u64, Resting)>,
}

/// The replicas' files of one folder.
#[derive(Default)]
struct Files {
    /// Length by block id.
    data: HashMap<u64, u64>,
    /// Highest stamp by block id.
    meta: HashMap<u64, u64>,
}

impl Load<'_> {
    fn run(mut self) -> Found<Vec<(u64, Resting)>> {
        self.clear_tmp()?;
        let rbw_dir = self.volume.dir(Place::Rbw, 0);
        let mut rbw = files(&rbw_dir, |_| true)?;
        for n in 0..SUBDIRS {
            let dir = self.volume.dir(Place::Finalized, n << 16);
            if !dir.parent().is_some_and(Path::is_dir) {
                continue;
            }
            for m in 0..SUBDIRS {
                self.finalized(n << 16 | m << 8, &mut rbw)?;
            }
        }
        for (id, _) in rbw.data {
            match rbw.meta.remove(&id) {
                Some(stamp) => self.unfinished(Block { id, stamp })?,
                None => {
                    tracing::warn!(block = %names::data(id), dir = %rbw_dir.display(), "data without checksums is removed");
                    remove(&self.volume.data(Place::Rbw, id))?;
                }
            }
        }
        for (id, stamp) in rbw.meta {
            remove(&self.volume.meta(Place::Rbw, Block { id, stamp }))?;
        }
        Ok(self.found)
    }

    /// What was being copied will be copied again.
    fn clear_tmp(&self) -> Found<()> {
        let tmp = self.volume.dir(Place::Tmp, 0);
        for entry in entries(&tmp)? {
            let path = entry.path();
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed = if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(|e| (path, e))?;
        }
        Ok(())
    }

    /// The replicas of the folder where a block with this id belongs.
    fn finalized(&mut self, like: u64, rbw: &mut Files) -> Found<()> {
        let dir = self.volume.dir(Place::Finalized, like);
        let mut here = files(&dir, |id| names::subdir(id) == names::subdir(like))?;
        for (id, len) in here.data {
            let stamp = match (here.meta.remove(&id), rbw.meta.get(&id)) {
                (Some(stamp), _) => stamp,
                // An append was broken off between its two renames.
                (None, Some(&stamp)) if !rbw.data.contains_key(&id) => {
                    rbw.meta.remove(&id);
                    let block = Block { id, stamp };
                    rename(&self.volume.meta(Place::Rbw, block), &self.volume.meta(Place::Finalized, block))?;
                    stamp
                }
                _ => {
                    tracing::warn!(block = %names::data(id), dir = %dir.display(), "data without checksums is ignored");
                    continue;
                }
            };
            self.found.push((id, Resting { stamp, len, volume: self.volume.index, unfinished: false }));
        }
        for (id, stamp) in here.meta {
            let block = Block { id, stamp };
            let path = self.volume.meta(Place::Finalized, block);
            if rbw.data.contains_key(&id) && !rbw.meta.contains_key(&id) {
                // To finalize it was broken off between the two renames.
                rename(&path, &self.volume.meta(Place::Rbw, block))?;
                rbw.meta.insert(id, stamp);
            } else {
                tracing::warn!(path = %path.display(), "checksums without data are removed");
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// A replica that was being written: as much of it as its sums vouch for.
    fn unfinished(&mut self, block: Block) -> Found<()> {
        let (data_path, meta_path) =
            (self.volume.data(Place::Rbw, block.id), self.volume.meta(Place::Rbw, block));
        let opened = |path: &Path| {
            open(path, File::options().read(true).write(true)).map_err(|e| (path.to_owned(), e))
        };
        let (data, meta_file) = (opened(&data_path)?, opened(&meta_path)?);
        let length = meta::read_header(&meta_file)
            .and_then(|checksum| Ok((checksum, meta::good_end(&data, &meta_file, checksum)?)));
        let (checksum, (len, last_sum)) = match length {
            Ok(found) => found,
            Err(error) => match Fate::of(&error) {
                Fate::Removed => {
                    tracing::warn!(path = %meta_path.display(), %error, "a replica without good checksums is removed");
                    remove(&data_path)?;
                    return remove(&meta_path);
                }
                Fate::Left => {
                    tracing::warn!(path = %data_path.display(), %error, "a replica that cannot be read is left alone");
                    return Ok(());
                }
                Fate::Stops => return Err((data_path, error)),
            },
        };
        let cut = meta::end_at(&data, &meta_file, checksum, len, last_sum);
        cut.map_err(|e| (data_path, e))?;
        self.found.push((
            block.id,
            Resting { stamp: block.stamp, len, volume: self.volume.index, unfinished: true },
        ));
        Ok(())
    }
}

/// What becomes of a replica that was being written and that cannot be read: its bytes may have been flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Nothing vouches for a byte of it.
    Removed,
    /// It has a bad sector: another start may have more luck, and it is no reason not to serve the others.
    Left,
    /// It is not its fault.
    Stops,
}

impl Fate {
    fn of(error: &io::Error) -> Fate {
        if is_contradiction(error) {
            Fate::Removed
        } else if is_damage(error) {
            Fate::Left
        } else {
            Fate::Stops
        }
    }
}

fn entries(dir: &Path) -> Found<Vec<DirEntry>> {
    let listed = fs::read_dir(dir).and_then(|entries| entries.collect());
    match listed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|e| (dir.to_owned(), e)),
    }
}

/// The replicas' files in a folder; `belongs` says which ids may be there.
fn files(dir: &Path, belongs: impl Fn(u64) -> bool) -> Found<Files> {
    let mut files = Files::default();
    for entry in entries(dir)? {
        let regular = entry.file_type().is_ok_and(|kind| kind.is_file());
        match names::parse(&entry.file_name()) {
            Some(Name::Data(id)) if regular && belongs(id) => {
                let len = entry.metadata().map_err(|e| (entry.path(), e))?.len();
                files.data.insert(id, len);
            }
            Some(Name::Meta(block)) if regular && belongs(block.id) => {
                let stamp = files.meta.entry(block.id).or_insert(block.stamp);
                if *stamp != block.stamp {
                    tracing::warn!(path = %entry.path().display(), "a block has two files of checksums: the newer counts");
                    *stamp = block.stamp.max(*stamp);
                }
            }
            _ => tracing::warn!(path = %entry.path().display(), "no replica's file, or not here: ignored"),
        }
    }
    Ok(files)
}

fn rename(from: &Path, to: &Path) -> Found<()> {
    fs::rename(from, to).map_err(|e| (from.to_owned(), e))
}

fn remove(path: &Path) -> Found<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err((path.to_owned(), error)),
        _ => Ok(()),
    }
}

/// Puts what volumes hold into one map. Of two replicas of one block the one with the higher stamp is kept, then the
/// longer one, then the finalized one; the other is removed. Answers too which volumes did not let that happen.
pub fn merge(
    volumes: &[std::sync::Arc<Volume>],
    found: Vec<Vec<(u64, Resting)>>,
) -> (ReplicaMap, Vec<(u16, StoreError)>) {
    let mut failed = Vec::new();
    let mut map = ReplicaMap::with_capacity(found.iter().map(Vec::len).sum());
    for (id, replica) in found.into_iter().flatten() {
        let mut lost = None;
        if let Err(Slot::Resting(other)) = map.add(id, Slot::Resting(replica)) {
            let rank = |r: &Resting| (r.stamp, r.len, !r.unfinished);
            lost = Some(if rank(&replica) > rank(&other) { other } else { replica });
            if lost == Some(other) {
                map.put(id, Slot::Resting(replica));
            }
        }
        let Some(lost) = lost else { continue };
        let volume = &volumes[usize::from(lost.volume)];
        let block = Block { id, stamp: lost.stamp };
        let place = Slot::Resting(lost).place();
        tracing::warn!(%block, volume = %volume.path().display(), "another replica of the block is here: removed");
        for path in [volume.data(place, id), volume.meta(place, block)] {
            if let Err((path, source)) = remove(&path) {
                failed.push((lost.volume, StoreError::Io { what: "removing", path, source }));
            }
        }
    }
    for (_, slot) in map.iter() {
        volumes[usize::from(slot.volume())].count(0, slot.stamp_and_len().1);
    }
    (map, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nothing_vouches_for_is_removed() {
        let fate = |code| Fate::of(&io::Error::from_raw_os_error(code));
        assert_eq!([fate(nix::libc::EIO), fate(nix::libc::EUCLEAN)], [Fate::Left; 2]);
        for code in
            [nix::libc::EMFILE, nix::libc::ENOMEM, nix::libc::EACCES, nix::libc::EROFS, nix::libc::EINTR]
        {
            assert_eq!(fate(code), Fate::Stops);
        }
        for kind in [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof] {
            assert_eq!(Fate::of(&kind.into()), Fate::Removed);
        }
    }
}

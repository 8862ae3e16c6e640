//! The model: what the namenode must know and answer.

use std::collections::{BTreeMap, BTreeSet};

use trellis_metastore::schema::{BlockState, Ordered};
use trellis_proto::exception::Kind;

use crate::files::BLOCK;

/// Past it another may take a file over.
pub const SOFT_MS: i64 = 60_000;
/// After it a recovery is begun anew.
pub const AGAIN_MS: i64 = 30_000;

/// A block, as the namenode must know it.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub id: u64,
    pub stamp: u64,
    pub last_stamp: u64,
    pub length: u64,
    /// What its writer brings to the datanodes: what they have while the block is being written.
    pub written: u64,
    pub state: BlockState,
    /// Stamp and beginning of a recovery.
    pub recovery: Option<(u64, i64)>,
    /// Whether that has a primary.
    pub is_asked: bool,
    pub cut_to: Option<u64>,
    pub has_pipeline: bool,
}

impl Part {
    pub fn is_complete(&self) -> bool {
        self.state == BlockState::Complete
    }

    /// Stamp and length of a whole replica.
    pub fn whole(&self) -> (u64, u64) {
        let is_written = matches!(self.state, BlockState::UnderConstruction | BlockState::UnderRecovery);
        (self.stamp, if is_written { self.written } else { self.length })
    }
}

#[derive(Clone, Debug)]
pub struct File {
    pub id: u64,
    pub replication: usize,
    pub parts: Vec<Part>,
    pub next: u64,
    pub open: Option<u8>,
}

impl File {
    pub fn new(id: u64, by: u8) -> File {
        File { id, replication: 3, parts: Vec::new(), next: 0, open: Some(by) }
    }

    pub fn length(&self) -> u64 {
        self.parts.iter().map(|part| part.length).sum()
    }
}

/// What an answer comes to.
pub type Answer = Result<String, Kind>;
/// Replicas: stamp and length by datanode and block.
pub type Replicas = BTreeMap<(u32, u64), (u64, u64)>;

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub files: BTreeMap<u8, File>,
    /// What datanodes have.
    pub disks: Replicas,
    /// What the namenode was told.
    pub known: Replicas,
    /// Which of these are known to have bad bytes.
    pub bad: BTreeSet<(u32, u64)>,
    /// Which are to be deleted, and which are yet to be copied there.
    pub ordered: BTreeMap<(u32, u64), Ordered>,
    /// Blocks that no file has any more and that were not freed.
    pub hidden: BTreeSet<u64>,
    pub renewed: BTreeMap<u8, i64>,
    pub now_ms: i64,
}

impl Model {
    /// Whether a datanode is known to have a good, whole replica.
    pub fn is_good(&self, on: u32, part: &Part) -> bool {
        let place = (on, part.id);
        self.known.get(&place) == Some(&(part.stamp, part.length))
            && !self.bad.contains(&place)
            && !self.ordered.contains_key(&place)
    }

    pub fn live(&self, part: &Part) -> usize {
        (0..3).filter(|on| self.is_good(*on, part)).count()
    }

    /// The block with this id, and the file that has it.
    pub fn part(&self, id: u64) -> Option<(&File, &Part)> {
        let mut all = self.files.values().flat_map(|file| file.parts.iter().map(move |part| (file, part)));
        all.find(|(_, part)| part.id == id)
    }

    /// Completes the block `back` from the end, if it is committed and a replica is known.
    pub fn settle(&self, file: &mut File, back: usize) -> bool {
        let Some(i) = file.parts.len().checked_sub(back) else { return true };
        if file.parts[i].state == BlockState::Committed && self.live(&file.parts[i]) > 0 {
            file.parts[i].state = BlockState::Complete;
        }
        file.parts[i].is_complete()
    }

    pub fn written(&self, file: u8, by: u8) -> Result<File, Kind> {
        let file = self.files.get(&file).ok_or(Kind::FileNotFound)?;
        match file.open {
            Some(writer) if writer == by => Ok(file.clone()),
            _ => Err(Kind::LeaseExpired),
        }
    }

    pub fn commit(&self, file: &mut File, bytes: u64) -> Result<(), Kind> {
        let Some(last) = file.parts.last_mut() else { return Ok(()) };
        match last.state {
            BlockState::Complete => return Ok(()),
            BlockState::UnderRecovery => return Err(Kind::Io),
            BlockState::Committed => {}
            BlockState::UnderConstruction if bytes < last.length || bytes > BLOCK.max(last.length) => {
                return Err(Kind::Io);
            }
            BlockState::UnderConstruction => (last.length, last.state) = (bytes, BlockState::Committed),
        }
        self.settle(file, 1);
        Ok(())
    }

    pub fn hide(&mut self, file: &File) {
        self.hidden.extend(file.parts.iter().map(|part| part.id));
    }

    pub fn drop_last(&mut self, file: &mut File) {
        self.hidden.extend(file.parts.pop().map(|part| part.id));
    }

    /// `said`: the length of the last block, as its writer says; `bytes`: what it writes to the new one.
    pub fn add_block(&mut self, name: u8, by: u8, (said, bytes): (u64, u64), again: bool) -> Answer {
        let mut file = self.written(name, by)?;
        let count = file.parts.len();
        if again && count > 0 {
            let last = &file.parts[count - 1];
            if !(count == 1 && last.is_complete() && last.length >= BLOCK) {
                let is_new = last.length == 0 && !last.is_complete();
                return if is_new { Ok(last.id.to_string()) } else { Err(Kind::Io) };
            }
        }
        if !self.settle(&mut file, 2) {
            return Err(Kind::NotReplicatedYet);
        }
        if !(again && count > 0) {
            self.commit(&mut file, said)?;
        }
        let id = file.next << 40 | file.id;
        file.next += 1;
        file.parts.push(Part {
            id,
            stamp: 1001,
            last_stamp: 1001,
            length: 0,
            written: bytes,
            state: BlockState::UnderConstruction,
            recovery: None,
            is_asked: false,
            cut_to: None,
            has_pipeline: true,
        });
        self.files.insert(name, file);
        Ok(id.to_string())
    }

    pub fn complete(&mut self, name: u8, by: u8, bytes: u64) -> Answer {
        if self.files.get(&name).is_some_and(|file| file.open.is_none()) {
            return Ok("true".into());
        }
        let mut file = self.written(name, by)?;
        if !self.settle(&mut file, 2) {
            return Ok("false".into());
        }
        self.commit(&mut file, bytes)?;
        let done = file.parts.last().is_none_or(Part::is_complete);
        if done {
            file.open = None;
        }
        self.files.insert(name, file);
        Ok(done.to_string())
    }

    /// Has a file taken from its writer; true = it is closed.
    pub fn release(&mut self, name: u8, holder: Option<u8>) -> Result<bool, Kind> {
        let mut file = self.files[&name].clone();
        let before = self.settle(&mut file, 2);
        let state = file.parts.last().map(|last| last.state);
        match state {
            None => {}
            Some(BlockState::Complete | BlockState::Committed) if before && self.settle(&mut file, 1) => {}
            Some(BlockState::Complete | BlockState::Committed) => return Err(Kind::AlreadyBeingCreated),
            Some(_) => {
                let last = file.parts.last_mut().unwrap();
                let is_told = (0..3).any(|on| self.known.contains_key(&(on, last.id)));
                if last.has_pipeline || is_told || last.length > 0 || !before {
                    self.begin(last);
                    file.open = holder.or(file.open);
                    self.renewed.insert(file.open.unwrap(), self.now_ms);
                    self.files.insert(name, file);
                    return Ok(false);
                }
                self.drop_last(&mut file);
            }
        }
        file.open = None;
        self.files.insert(name, file);
        Ok(true)
    }

    /// Begins a recovery, or begins it anew where nobody works on it and somebody can.
    fn begin(&self, last: &mut Part) {
        let can = self.has_participants(last);
        let goes_on = |from| self.now_ms < from + AGAIN_MS && last.is_asked || !last.is_asked && !can;
        if last.recovery.is_none_or(|(_, from)| !goes_on(from)) {
            last.is_asked = can;
            last.last_stamp += 1;
            last.recovery = Some((last.last_stamp, self.now_ms));
            last.state = BlockState::UnderRecovery;
        }
    }

    /// The leader looks after recoveries; answers how many it began anew.
    pub fn begin_anew(&mut self) -> usize {
        let mut begun = 0;
        for name in self.files.keys().copied().collect::<Vec<_>>() {
            let mut file = self.files[&name].clone();
            if let Some(last) = file.parts.last_mut().filter(|last| last.recovery.is_some()) {
                let before = last.last_stamp;
                self.begin(last);
                begun += usize::from(last.last_stamp > before);
            }
            self.files.insert(name, file);
        }
        begun
    }

    pub fn has_participants(&self, part: &Part) -> bool {
        let told = |on| {
            let place = (on, part.id);
            !self.bad.contains(&place)
                && !self.ordered.contains_key(&place)
                && self.known.get(&place).is_some_and(|(stamp, _)| *stamp >= part.stamp)
        };
        part.has_pipeline || (0..3).any(told)
    }

    /// What another's open file means to one that wants to write it; true = it was closed just now.
    pub fn take_over(&mut self, name: u8, by: u8) -> Result<bool, Kind> {
        let file = self.files.get(&name).ok_or(Kind::FileNotFound)?;
        let Some(writer) = file.open else { return Ok(false) };
        if writer == by {
            return Err(Kind::AlreadyBeingCreated);
        }
        if self.now_ms - self.renewed[&writer] <= SOFT_MS {
            let recovers = file.parts.last().is_some_and(|last| last.state == BlockState::UnderRecovery);
            return Err(if recovers { Kind::RecoveryInProgress } else { Kind::AlreadyBeingCreated });
        }
        if self.release(name, None)? { Ok(true) } else { Err(Kind::RecoveryInProgress) }
    }

    pub fn append(&mut self, name: u8, by: u8, new_block: bool, more: u64) -> Answer {
        let before = self.clone();
        self.take_over(name, by)?;
        let mut file = self.files[&name].clone();
        let live = file.parts.last().map(|last| self.live(last));
        let mut given = String::new();
        if let (Some(last), Some(live)) = (file.parts.last_mut(), live) {
            if live == 0 {
                *self = before;
                return Err(Kind::Io);
            }
            if new_block || last.length < BLOCK {
                given = last.id.to_string();
            }
            if !new_block && last.length < BLOCK {
                (last.state, last.has_pipeline) = (BlockState::UnderConstruction, true);
                last.written = BLOCK.min(last.length + more);
            }
        }
        file.open = Some(by);
        self.files.insert(name, file);
        self.renewed.insert(by, self.now_ms);
        Ok(given)
    }

    pub fn truncate(&mut self, name: u8, by: u8, length: i64) -> Answer {
        let length = u64::try_from(length).map_err(|_| Kind::HadoopIllegalArgument)?;
        let file = self.files.get(&name).ok_or(Kind::FileNotFound)?;
        if let (Some(_), Some(last)) = (file.open, file.parts.last())
            && last.cut_to.is_some_and(|to| file.length() - last.length + to == length)
        {
            return Ok("false".into());
        }
        if self.take_over(name, by)? {
            return Err(Kind::RecoveryInProgress);
        }
        let mut file = self.files[&name].clone();
        if length > file.length() {
            return Err(Kind::HadoopIllegalArgument);
        }
        if length == file.length() {
            return Ok("true".into());
        }
        while file.parts.last().is_some_and(|last| file.length() - last.length >= length) {
            self.drop_last(&mut file);
        }
        let over = file.length() - length;
        if over > 0 {
            let (live, now_ms) = (self.live(file.parts.last().unwrap()), self.now_ms);
            let last = file.parts.last_mut().unwrap();
            (last.last_stamp, last.written) = (last.last_stamp + 1, last.length);
            (last.state, last.has_pipeline) = (BlockState::UnderRecovery, live > 0);
            last.is_asked = live > 0;
            (last.recovery, last.cut_to) = (Some((last.last_stamp, now_ms)), Some(last.length - over));
            file.open = Some(by);
            self.renewed.insert(by, self.now_ms);
        }
        self.files.insert(name, file);
        Ok((over == 0).to_string())
    }

    pub fn concat(&mut self, name: u8, source: u8) -> Answer {
        let mut file = self.files.get(&name).ok_or(Kind::FileNotFound)?.clone();
        if file.open.is_some() {
            return Err(Kind::HadoopIllegalArgument);
        }
        let other = self.files.get(&source).ok_or(Kind::FileNotFound)?;
        if source == name || other.open.is_some() || other.parts.is_empty() {
            return Err(Kind::HadoopIllegalArgument);
        }
        let moved = self.files.remove(&source).unwrap().parts;
        file.next += moved.len() as u64;
        file.parts.extend(moved);
        self.files.insert(name, file);
        Ok(String::new())
    }

    pub fn synced(&mut self, name: u8, bytes: u64, delete: bool, on: u8, late: bool) -> Answer {
        let mut file = self.files[&name].clone();
        let last = file.parts.last().unwrap().clone();
        if file.open.is_none() || last.is_complete() {
            return Ok(String::new());
        }
        let Some((stamp, _)) = last.recovery.filter(|_| !late) else { return Err(Kind::Io) };
        if delete && last.length > 0 {
            return Err(Kind::Io);
        }
        let before = self.settle(&mut file, 2);
        match delete {
            true => self.drop_last(&mut file),
            false => {
                if on == 0 {
                    return Err(Kind::Io);
                }
                for i in of_mask(on) {
                    self.bad.remove(&(i, last.id));
                    self.ordered.remove(&(i, last.id));
                    self.known.insert((i, last.id), (stamp, bytes));
                    self.disks.insert((i, last.id), (stamp, bytes));
                }
                let part = file.parts.last_mut().unwrap();
                (part.stamp, part.length, part.state) = (stamp, bytes, BlockState::Complete);
                (part.recovery, part.cut_to, part.has_pipeline) = (None, None, false);
            }
        }
        if before {
            file.open = None;
        }
        self.files.insert(name, file);
        Ok(String::new())
    }

    pub fn mend(&mut self, name: u8, by: u8, bytes: u64, on: u8) -> Answer {
        let mut file = self.files[&name].clone();
        let open = file.open;
        let part = file.parts.last_mut().unwrap();
        if part.state != BlockState::UnderConstruction {
            return Err(Kind::Io);
        }
        if open != Some(by) {
            return Err(Kind::LeaseExpired);
        }
        part.last_stamp += 1;
        let stamp = part.last_stamp;
        let done = match bytes >= part.length && bytes <= BLOCK.max(part.length) {
            true => {
                (part.stamp, part.length, part.has_pipeline) = (stamp, bytes, on != 0);
                part.written = part.written.max(bytes);
                Ok(stamp.to_string())
            }
            false => Err(Kind::Io),
        };
        self.files.insert(name, file);
        done
    }

    /// A report that the namenode applies.
    pub fn told(&mut self, on: u32, id: u64, replica: Option<(u64, u64)>) {
        let is_there = self.hidden.contains(&id) || self.part(id).is_some();
        let place = (on, id);
        let ordered = self.ordered.get(&place).copied();
        match replica.filter(|_| is_there) {
            Some(replica) => {
                let old = self.known.insert(place, replica);
                let is_same = old.is_some_and(|old| old.0 == replica.0);
                // Bytes are as bad as they were until they are others, and so is what is to be deleted to be so.
                if !is_same {
                    self.bad.remove(&place);
                }
                if !is_same || ordered == Some(Ordered::Copy) {
                    self.ordered.remove(&place);
                }
            }
            // A copy is waited for, whatever is told of earlier ones.
            None if is_there && ordered == Some(Ordered::Copy) => {}
            None => self.forget(on, id),
        }
    }

    /// The namenode knows nothing of a replica any more.
    pub fn forget(&mut self, on: u32, id: u64) {
        self.known.remove(&(on, id));
        self.bad.remove(&(on, id));
        self.ordered.remove(&(on, id));
    }

    /// The namenode knows what datanodes have, and waits for nothing but copies beside.
    pub fn assert_all_told(&self) {
        let is_there = |place: &(u32, u64)| self.ordered.get(place) != Some(&Ordered::Copy);
        let known: Replicas =
            self.known.iter().filter(|(place, _)| is_there(place)).map(|(place, r)| (*place, *r)).collect();
        let disks = self.disks.iter().filter(|(place, _)| is_there(place));
        assert_eq!(known, disks.map(|(place, replica)| (*place, *replica)).collect::<Replicas>());
    }

    pub fn reap(&mut self) {
        let gone = std::mem::take(&mut self.hidden);
        self.known.retain(|(_, id), _| !gone.contains(id));
        self.bad.retain(|(_, id)| !gone.contains(id));
        self.ordered.retain(|(_, id), _| !gone.contains(id));
    }
}

pub fn of_mask(mask: u8) -> impl Iterator<Item = u32> {
    (0..3).filter(move |i| mask >> i & 1 == 1)
}

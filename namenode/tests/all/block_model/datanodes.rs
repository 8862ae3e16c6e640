//! What datanodes, the leader's look at replicas, the reaper and time do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trellis_metastore::key::Scan;
use trellis_metastore::schema::{
    Command, CommandKind, Commands, Ordered, Replica, StorageReplicas, Table, command_partition,
    storage_partition,
};
use trellis_namenode::datanodes::reports::{Listed, full};
use trellis_namenode::engine::tx::Tx;
use trellis_namenode::ops::datanodes::forget_commands;
use trellis_namenode::ops::report::{self, Applied, Bad, Report, Reported, What};

use super::model::{AGAIN_MS, File, Part, Replicas as Known, SOFT_MS, of_mask};
use super::pair::Pair;
use super::{Step, Told, When};
use crate::calls::root;
use crate::files::{row, storage};
use crate::reap::reap_all;
use crate::reports::own;
use crate::support::{SUPERUSER, pass_time};

/// The namenode that owned a datanode before.
const OLD_OWNER: u64 = 77;
/// The pause before a look: what was noted is old enough then.
const LOOK_MS: i64 = 5_000;
/// Looks after which all must be well.
const LOOKS: usize = 12;

/// A datanode and a block id.
type Place = (u32, u64);

/// A command to a datanode.
struct Given {
    on: u32,
    kind: CommandKind,
    block: u64,
    version: u64,
    command: Command,
}

impl Pair {
    async fn report(&self, on: u32, block: u64, what: What, (stamp, length): (u64, u64)) -> Applied {
        let replicas = vec![Reported { storage: storage(on), block, stamp, length, what }];
        let uuid = row(on).uuid;
        let epoch = self.nn.engine.datanodes().registry().row(&uuid).map_or(0, |row| row.epoch);
        let call = Report { uuid, member: self.nn.engine.member(), epoch, replicas };
        own(&self.nn, Box::new(move |tx| report::apply(tx, &call))).await.unwrap()
    }

    /// A report that comes now, at both sides.
    async fn deliver(&mut self, on: u32, id: u64, what: What, replica: (u64, u64)) {
        if what != What::Deleted {
            let known = self.model.part(id).map(|(file, part)| {
                let more = part.is_complete() && !self.model.is_good(on, part);
                (replica.0 < part.stamp, more && self.model.live(part) >= file.replication)
            });
            match known {
                None => self.note("Tell", "of a deleted block"),
                Some((true, _)) => self.note("Tell", "of an outdated replica"),
                Some((_, true)) => self.note("Tell", "one too many"),
                _ => {}
            }
        }
        let newer = |known: &(u64, u64)| what == What::Deleted && replica.0 < known.0;
        if !self.model.known.get(&(on, id)).is_some_and(newer) {
            self.model.told(on, id, Some(replica).filter(|_| what != What::Deleted));
        }
        assert!(!self.report(on, id, what, replica).await.is_not_owner);
    }

    /// A step that is nobody's call.
    pub(super) async fn around(&mut self, step: &Step) {
        match step {
            Step::Tell { file, on, back, what, when } => {
                for on in of_mask(*on) {
                    self.tell_of(*file, on, *back, *what, *when).await;
                }
            }
            Step::Deliver => {
                for (on, id, what, replica) in std::mem::take(&mut self.late) {
                    self.deliver(on, id, what, replica).await;
                }
            }
            Step::Bad { file, on, back } => self.bad(*file, *on, *back).await,
            Step::Full { on } => self.full(*on).await,
            Step::Reap => {
                reap_all(&self.nn).await;
                self.model.reap();
            }
            Step::Wait { long } => self.wait(if *long { SOFT_MS + 1 } else { AGAIN_MS / 2 }),
            Step::Look => _ = self.look().await,
            Step::Carry { when, forget } => _ = self.carry(*when, *forget).await,
            _ => panic!("{step:?} is a call"),
        }
    }

    fn wait(&mut self, by_ms: i64) {
        pass_time(Duration::from_millis(by_ms as u64));
        self.model.now_ms += by_ms;
    }

    fn part(&self, file: u8, back: usize) -> Option<Part> {
        let parts = &self.model.files.get(&file)?.parts;
        Some(parts[parts.len().checked_sub(back + 1)?].clone())
    }

    async fn tell_of(&mut self, file: u8, on: u32, back: usize, what: Told, when: When) {
        let Some(part) = self.part(file, back) else { return };
        let (id, whole) = (part.id, part.whole());
        let (what, replica) = match what {
            Told::Whole => (What::Received(None), whole),
            Told::Short => (What::Received(None), (whole.0, whole.1 / 2)),
            Told::Older => (What::Received(None), (whole.0 - 1, whole.1)),
            Told::Gone => (What::Deleted, whole),
        };
        match what {
            What::Deleted => drop(self.model.disks.remove(&(on, id))),
            _ => drop(self.model.disks.insert((on, id), replica)),
        }
        self.tell(on, id, what, replica, when).await;
    }

    async fn tell(&mut self, on: u32, id: u64, what: What, replica: (u64, u64), when: When) {
        match when {
            When::Now => self.deliver(on, id, what, replica).await,
            When::Twice => {
                self.deliver(on, id, what.clone(), replica).await;
                self.deliver(on, id, what, replica).await;
            }
            When::Late => self.late.push((on, id, what, replica)),
            When::Lost => {}
            When::ToOldOwner => {
                let member = self.nn.engine.member();
                self.claim(on, member, OLD_OWNER).await;
                assert!(self.report(on, id, what, replica).await.is_not_owner);
                self.claim(on, OLD_OWNER, member).await;
            }
        }
    }

    /// Somebody says that replicas are bad; those that the namenode knows of are, then.
    async fn bad(&mut self, file: u8, on: u8, back: usize) {
        let Some(part) = self.part(file, back) else { return };
        let is_known =
            |on: &u32| self.model.known.get(&(*on, part.id)).is_some_and(|(s, _)| *s == part.stamp);
        let places = of_mask(on).filter(is_known).map(|on| (on, part.id));
        let is_there = |place: &Place| self.model.ordered.get(place) != Some(&Ordered::Copy);
        let places: Vec<Place> = places.filter(is_there).collect();
        let bad = |on| Bad { block: part.id, stamp: part.stamp, storage: storage(on) };
        let bad: Vec<Bad> = of_mask(on).map(bad).collect();
        own(&self.nn, Box::new(move |tx| report::condemn(tx, &bad))).await.unwrap();
        self.model.bad.extend(places);
    }

    /// A datanode tells of all that it has; what no file has it deletes.
    async fn full(&mut self, on: u32) {
        let of = |all: &Known| -> Vec<(u64, (u64, u64))> {
            all.range((on, 0)..(on + 1, 0)).map(|((_, id), replica)| (*id, *replica)).collect()
        };
        let listed: Vec<Listed> = of(&self.model.disks)
            .into_iter()
            .map(|(block, (stamp, length))| Listed { block, state: 0, stamp, length })
            .collect();
        // Rows that were written this very millisecond count as older than the report.
        let granted_ms = self.nn.engine.now_ms() + 1;
        full(&self.nn.engine, &row(on).uuid, storage(on), &listed, granted_ms).await.unwrap();
        let (disk, known) = (of(&self.model.disks), of(&self.model.known));
        for (id, replica) in &disk {
            self.model.told(on, *id, Some(*replica));
            if !self.model.known.contains_key(&(on, *id)) {
                self.model.disks.remove(&(on, *id));
            }
        }
        for (id, _) in known.iter().filter(|(id, _)| !disk.iter().any(|(other, _)| other == id)) {
            self.model.told(on, *id, None);
        }
    }

    /// The leader looks after replicas; answers whether it did something. Which it has deleted, and where to it has
    /// others copied, is its own choice, within what may be.
    async fn look(&mut self) -> bool {
        self.wait(LOOK_MS);
        let done = self.job.round(&self.nn.engine, None).await.unwrap();
        if done.copies > 0 {
            self.note("Look", "copied");
        }
        if self.model.begin_anew() > 0 {
            self.note("Look", "recovery begun anew");
        }
        let now = self.replicas().await;
        let places: BTreeSet<Place> = now.keys().chain(self.model.known.keys()).copied().collect();
        let before = self.model.ordered.clone();
        let was = |place: &Place| before.get(place).copied().unwrap_or(Ordered::Nothing);
        let going: Vec<Place> = places
            .iter()
            .filter(|place| was(place) == Ordered::Nothing)
            .filter(|place| now.get(place).is_some_and(|row| row.ordered() == Ordered::Deletion))
            .copied()
            .collect();
        assert_eq!(done.removed, going.len() as u64);
        for (on, id) in &going {
            let (file, part) = self.model.part(*id).expect("only blocks of files are looked at");
            self.may_go(*on, (file, part), &going);
            let what = if self.model.is_good(*on, part) { "excess removed" } else { "corrupt removed" };
            self.note("Look", what);
        }
        for place in places {
            let (known, row) = (self.model.known.get(&place).copied(), now.get(&place));
            match (known, row) {
                // A copy that was waited for in vain, or was of an older generation, is ordered anew.
                (Some(_), Some(row)) if was(&place) == Ordered::Copy && row.ordered() == Ordered::Copy => {
                    self.model.known.insert(place, (row.stamp, row.length));
                }
                (Some(known), Some(row)) => assert_eq!(known, (row.stamp, row.length), "{place:?}"),
                // A copy that did not come is waited for no longer.
                (Some(_), None) => {
                    assert_eq!(self.model.ordered.get(&place), Some(&Ordered::Copy), "{place:?} is gone");
                    self.model.forget(place.0, place.1);
                }
                (None, Some(row)) => {
                    assert_eq!(row.ordered(), Ordered::Copy, "{place:?} came from nowhere");
                    self.model.known.insert(place, (row.stamp, row.length));
                }
                (None, None) => {}
            }
            match row.map(Replica::ordered) {
                None | Some(Ordered::Nothing) => drop(self.model.ordered.remove(&place)),
                Some(ordered) => drop(self.model.ordered.insert(place, ordered)),
            }
        }
        done.copies + done.removed > 0 || self.model.ordered != before
    }

    /// Enough good replicas are left. A bad one may go earlier, where no datanode has room for another; never the last.
    fn may_go(&self, on: u32, (file, part): (&File, &Part), going: &[Place]) {
        assert!(part.is_complete(), "{part:?}");
        let left =
            (0..3).filter(|on| self.model.is_good(*on, part) && !going.contains(&(*on, part.id))).count();
        let wanted = if self.model.is_good(on, part) { file.replication } else { 1 };
        assert!(left >= wanted, "{left} of {} are left of {part:?}", file.replication);
    }

    /// Replicas as their rows say.
    async fn replicas(&self) -> BTreeMap<Place, Replica> {
        let read = |tx: &mut Tx<'_, '_>| {
            let scans: Vec<Scan> = (0..3)
                .map(|on| Scan::of(StorageReplicas::ID, storage_partition(storage(on)), Scan::MAX_ROWS))
                .collect();
            Ok(tx.scan_all::<StorageReplicas>(&scans)?)
        };
        let mut all = BTreeMap::new();
        for (on, rows) in (0..3).zip(self.nn.read(SUPERUSER, read).await.unwrap()) {
            let id = |key: Vec<u8>| u64::from_be_bytes(key.try_into().unwrap());
            all.extend(rows.into_iter().map(|(key, row)| ((on, id(key)), row.value)));
        }
        all
    }

    /// What datanodes are to delete and to copy.
    async fn given(&self) -> Vec<Given> {
        let read = |tx: &mut Tx<'_, '_>| {
            let scans: Vec<Scan> = (0..3)
                .map(|on| Scan::of(Commands::ID, command_partition(row(on).number), Scan::MAX_ROWS))
                .collect();
            Ok(tx.scan_all::<Commands>(&scans)?)
        };
        let mut all = Vec::new();
        for (on, rows) in (0..3).zip(self.nn.read(SUPERUSER, read).await.unwrap()) {
            for (key, row) in rows {
                let kind = CommandKind::try_from(i32::from(key[0])).unwrap();
                let block = u64::from_be_bytes(key[1..].try_into().unwrap());
                if kind != CommandKind::Recover {
                    all.push(Given { on, kind, block, version: row.version, command: row.value });
                }
            }
        }
        all
    }

    /// Datanodes are given their commands, and carry them out unless they `forget` them. Answers how many there were.
    async fn carry(&mut self, when: When, forget: bool) -> usize {
        let given = self.given().await;
        let rows: Vec<_> = given
            .iter()
            .map(|given| (row(given.on).number, given.kind, given.block, given.version))
            .collect();
        own(&self.nn, Box::new(move |tx| forget_commands(tx, &rows))).await.unwrap();
        for Given { on, kind, block, command, .. } in given.iter().filter(|_| !forget) {
            let had = self.model.disks.get(&(*on, *block)).copied();
            // A datanode knows a replica by its exact stamp, and says so when it is to delete it by another.
            let Some(replica) = had.filter(|(stamp, _)| *stamp == command.stamp) else {
                if let (CommandKind::Invalidate, Some(had)) = (kind, had) {
                    self.note("Carry", "known by another stamp");
                    self.tell(*on, *block, What::Received(None), had, when).await;
                }
                continue;
            };
            if *kind == CommandKind::Invalidate {
                let is_old = self.model.part(*block).is_some_and(|(_, part)| replica.0 < part.stamp);
                self.note("Carry", if is_old { "outdated deleted" } else { "deleted" });
                self.model.disks.remove(&(*on, *block));
                if !command.silent {
                    self.tell(*on, *block, What::Deleted, replica, when).await;
                }
                continue;
            }
            for to in command.storages.iter().map(|number| number - storage(0)) {
                if self.model.disks.contains_key(&(to, *block)) || replica.1 != command.length {
                    continue;
                }
                self.note("Carry", "copied");
                self.model.disks.insert((to, *block), replica);
                self.tell(to, *block, What::Received(None), replica, when).await;
            }
        }
        given.len()
    }

    /// Everything that was lost is told, everything that was deleted is freed, and the leader looks until nothing is left
    /// to do. Then each block has as many replicas as its file wants, unless there is none to copy.
    pub async fn converge(&mut self) {
        self.around(&Step::Reap).await;
        for on in 0..3 {
            self.full(on).await;
        }
        self.model.assert_all_told();
        for _ in 0..LOOKS {
            // What was lost is ordered again.
            self.wait(self.nn.engine.config().replication_pending.as_millis() as i64);
            let looked = self.look().await;
            if self.carry(When::Now, false).await == 0 && !looked {
                break;
            }
        }
        self.compare().await;
        self.model.assert_all_told();
        for file in self.model.files.values() {
            let complete = || file.parts.iter().filter(|part| part.is_complete());
            let missing = complete().filter(|part| self.model.live(part) == 0).count();
            for part in complete().filter(|part| self.model.live(part) > 0) {
                let known = (0..3).filter(|on| self.model.known.contains_key(&(*on, part.id))).count();
                assert_eq!((self.model.live(part), known), (file.replication, file.replication), "{part:?}");
            }
            let concern = root(&self.nn).concern(file.id).await;
            assert_eq!(concern.map_or(0, |concern| concern.missing), missing as u32, "{file:?}");
        }
    }
}

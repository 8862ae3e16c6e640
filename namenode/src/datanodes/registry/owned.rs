//! Whose a datanode is, and what its owner does for it: applies reports, grants leases, hands out commands.

use std::time::Duration;

use tokio::time::Instant;

use super::{Inherited, Known, Lease, Registry};
use crate::datanodes::view::Liveness;
use crate::ops::datanodes::{Claim, GivenCommand};
use crate::ops::report::Reported;

/// A datanode that nobody owns is taken even by one who has its share of them, after this long.
const CLAIM_PATIENCE: Duration = Duration::from_secs(5);

impl Registry {
    /// Whether this namenode should take a datanode over: nobody owns it, or its owner is gone. Each namenode takes its
    /// share of them at once, and what is left after a while.
    pub fn wants(&mut self, uuid: &str, now: Instant) -> Option<Claim> {
        let owner = self.nodes.get(uuid).map_or(0, |known| known.row.owner);
        let is_free = owner == 0 || !self.members.contains(&owner);
        let (owned, share) = self.share(now);
        let member = self.member;
        let free_since = match self.nodes.get_mut(uuid) {
            Some(known) if is_free => *known.free_since.get_or_insert(now),
            Some(known) => {
                known.free_since = None;
                return None;
            }
            None => now,
        };
        let waited = now.saturating_duration_since(free_since) >= CLAIM_PATIENCE;
        if waited && let Some(known) = self.nodes.get_mut(uuid) {
            known.is_left_over = true;
        }
        (owned < share || waited).then_some(Claim { member, from: owner })
    }

    /// How many datanodes that live this namenode owns, and how many are its share.
    fn share(&self, now: Instant) -> (usize, usize) {
        let live = self.nodes.values().filter(|known| known.liveness(&self.timing, now) == Liveness::Live);
        let (all, owned) = live.fold((0, 0), |(all, owned), known| {
            (all + 1, owned + usize::from(known.row.owner == self.member))
        });
        (owned, all.max(1usize).div_ceil(self.members.len().max(1)))
    }

    /// Datanodes that this namenode should leave to others: those it has not heard for a while, and those that are
    /// more than its share, but for those that nobody else took.
    pub fn to_release(&self, now: Instant) -> Vec<String> {
        let owned = |known: &&Known| known.row.owner == self.member;
        let (live, silent): (Vec<&Known>, Vec<&Known>) = self
            .nodes
            .values()
            .filter(owned)
            .partition(|known| known.liveness(&self.timing, now) == Liveness::Live);
        let (_, share) = self.share(now);
        let mut live: Vec<&Known> = live.into_iter().filter(|known| !known.is_left_over).collect();
        live.sort_by_key(|known| known.row.number);
        let beyond = live.into_iter().skip(share);
        silent.into_iter().chain(beyond).map(|known| known.row.uuid.clone()).collect()
    }

    /// The datanodes that this namenode owns and hears: their numbers.
    pub fn owned(&self) -> Vec<u32> {
        let owned = self.nodes.values().filter(|known| known.row.owner == self.member && known.is_registered);
        owned.map(|known| known.row.number).collect()
    }

    /// Keeps a report that another namenode is to apply.
    pub fn keep(&mut self, uuid: &str, report: Vec<Reported>, now: Instant) {
        let timing = self.timing;
        if let Some(known) = self.nodes.get_mut(uuid) {
            let age = known.kept_for(&timing);
            known.kept.put(report, now, age);
        }
    }

    /// What is to be made up for by this namenode, if it owns the datanode since lately; given once for each epoch.
    pub fn inherit(&mut self, uuid: &str, now: Instant) -> Option<Inherited> {
        let (member, timing) = (self.member, self.timing);
        let known = self.nodes.get_mut(uuid)?;
        if known.row.owner != member || known.applied_epoch == known.row.epoch {
            return None;
        }
        known.applied_epoch = known.row.epoch;
        let age = known.kept_for(&timing);
        let (reports, lost) = known.kept.take(now, age);
        // One that has not reported in full since it registered here will do so by itself.
        Some(Inherited { row: known.row.clone(), reports, has_gap: lost && known.reported_ms != 0 })
    }

    /// What was inherited could not be applied: it will be given again.
    pub fn give_back(&mut self, uuid: &str, inherited: Inherited, now: Instant) {
        let timing = self.timing;
        if let Some(known) = self.nodes.get_mut(uuid) {
            known.applied_epoch = 0;
            let age = known.kept_for(&timing);
            inherited.reports.into_iter().for_each(|report| known.kept.put(report, now, age));
            if inherited.has_gap {
                known.kept.note_gap(now);
            }
        }
    }

    /// Grants a lease for a full report; `None` = not now. `id`: a number that was never used.
    pub fn grant(&mut self, uuid: &str, id: u64, now: Instant, now_ms: i64) -> Option<Lease> {
        let timing = self.timing;
        let running = |known: &&Known| known.lease.is_some_and(|lease| lease.expires > now);
        let others = self.nodes.values().filter(running).filter(|known| known.row.uuid != uuid).count();
        let known = self.nodes.get_mut(uuid)?;
        if others >= timing.leases {
            return None;
        }
        let lease = Lease { id: id.max(1), granted_ms: now_ms, expires: now + timing.lease };
        known.lease = Some(lease);
        Some(lease)
    }

    /// The lease of a full report, if it is good.
    pub fn lease(&self, uuid: &str, id: u64, now: Instant) -> Option<Lease> {
        let lease = self.nodes.get(uuid)?.lease?;
        (lease.id == id && lease.expires > now).then_some(lease)
    }

    /// A full report was applied whole.
    pub fn reported(&mut self, uuid: &str, now_ms: i64) {
        if let Some(known) = self.nodes.get_mut(uuid) {
            known.lease = None;
            known.reported_ms = now_ms;
        }
    }

    /// Takes the commands of a datanode as they were read; those that were handed out already are not given again.
    pub fn set_commands(&mut self, number: u32, mut commands: Vec<GivenCommand>) {
        if let Some(known) = self.nodes.values_mut().find(|known| known.row.number == number) {
            commands.retain(|given| known.delivered.iter().all(|done| !is_same_row(done, given)));
            known.commands = commands.into();
        }
    }

    /// Commands to hand out: at most `limit`.
    pub fn hand_out(&mut self, uuid: &str, limit: usize) -> Vec<GivenCommand> {
        let Some(known) = self.nodes.get_mut(uuid) else { return Vec::new() };
        let given: Vec<GivenCommand> = known.commands.drain(..limit.min(known.commands.len())).collect();
        known.delivered.extend(given.iter().cloned());
        given
    }

    /// Commands that were handed out and whose rows are to be removed: (datanode, command).
    pub fn delivered(&self) -> Vec<(u32, GivenCommand)> {
        let of_one = |known: &Known| {
            let number = known.row.number;
            known.delivered.iter().map(|given| (number, given.clone())).collect::<Vec<_>>()
        };
        self.nodes.values().flat_map(of_one).collect()
    }

    /// The rows of these commands are gone.
    pub fn forget(&mut self, gone: &[(u32, GivenCommand)]) {
        for known in self.nodes.values_mut().filter(|known| !known.delivered.is_empty()) {
            let number = known.row.number;
            let is_gone =
                |done: &GivenCommand| gone.iter().any(|(n, g)| *n == number && is_same_row(g, done));
            known.delivered.retain(|done| !is_gone(done));
        }
    }
}

fn is_same_row(a: &GivenCommand, b: &GivenCommand) -> bool {
    (a.kind, a.block, a.version) == (b.kind, b.block, b.version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::datanodes::registry::{Beat, Timing};
    use crate::datanodes::view::Space;
    use crate::ops::datanodes::ToldStorage;
    use trellis_metastore::schema::Datanode;

    const ME: u64 = 1;
    const OTHER: u64 = 2;
    const SECOND: Duration = Duration::from_secs(1);

    fn row(number: u32, owner: u64, epoch: u64) -> Datanode {
        Datanode { uuid: format!("u{number}"), number, owner, epoch, ..Datanode::default() }
    }

    /// A namenode that hears four datanodes which nobody owns, beside another that does not.
    fn four(now: Instant) -> Registry {
        let mut registry = Registry::new(ME, Timing::of(&Config::default()));
        (1..=4).for_each(|number| drop(registry.registered(row(number, 0, 1), now, 1)));
        registry.looked(vec![ME, OTHER], now);
        registry
    }

    /// Every datanode beats; those that are wanted become this one's.
    fn beat(registry: &mut Registry, now: Instant) {
        for number in 1..=4 {
            let known = registry.row(&format!("u{number}")).unwrap();
            registry.hear(&known, &Beat::default(), now, 1).unwrap();
            if registry.wants(&known.uuid, now).is_some() {
                registry.adopt(row(number, ME, known.epoch + 1));
            }
        }
    }

    #[test]
    fn what_nobody_else_takes_stays() {
        let start = Instant::now();
        let mut registry = four(start);
        beat(&mut registry, start);
        assert_eq!(registry.owned().len(), 2, "its share");
        let mut now = start;
        for _ in 0..30 {
            now += SECOND;
            beat(&mut registry, now);
            registry.looked(vec![ME, OTHER], now);
            assert_eq!(registry.to_release(now), Vec::<String>::new());
        }
        assert_eq!(registry.owned().len(), 4, "and what the other did not take");
        // The namenodes are others: they may hear it.
        registry.looked(vec![ME, OTHER + 1], now);
        assert_eq!(registry.to_release(now), ["u3", "u4"]);
    }

    #[test]
    fn who_told_its_room_can_be_given_replicas() {
        let now = Instant::now();
        let mut registry = four(now);
        let (row, told) =
            (registry.row("u1").unwrap(), ToldStorage { uuid: "s".into(), kind: 1, failed: false });
        let beat = Beat { storages: vec![(told, Space::default())], ..Beat::default() };
        let mut is_first = |beat: &Beat| registry.hear(&row, beat, now, 1).unwrap().is_first;
        assert_eq!([&Beat::default(), &beat, &beat].map(&mut is_first), [true, true, false]);
    }

    #[test]
    fn what_was_told_while_nobody_owned_is_not_lost() {
        let start = Instant::now();
        let mut registry = four(start);
        let outage = 300 * SECOND;
        registry.adopt(row(1, OTHER, 2));
        registry.looked(vec![ME, OTHER], start);
        registry.keep("u1", vec![], start + SECOND);
        // The store was away: when it is back the owner is gone.
        registry.looked(vec![ME], start + outage);
        registry.adopt(row(1, ME, 3));
        registry.looked(vec![ME], start + outage);
        let mut inherited = registry.inherit("u1", start + outage).unwrap();
        assert_eq!((inherited.reports.len(), inherited.row.epoch), (1, 3));
        assert!(registry.inherit("u1", start + outage).is_none(), "once");
        // What came of it is given again if it could not be applied.
        inherited.has_gap = true;
        registry.give_back("u1", inherited, start + outage);
        registry.reported("u1", 1);
        let again = registry.inherit("u1", start + outage).unwrap();
        assert_eq!((again.reports.len(), again.has_gap), (1, true));
    }
}

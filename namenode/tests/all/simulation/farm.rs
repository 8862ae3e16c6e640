//! Datanodes of a simulated world: what is on their disks, and how each speaks with every namenode. As real ones they
//! send each namenode all that they report, in order, until it is acknowledged; obey only whom they saw own them last;
//! carry out commands a while later; and when they restart, forget all but their disks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use trellis_metastore::schema::{Command, CommandKind, Datanode, ReplicaState};
use trellis_metastore::sim::World;
use trellis_namenode::datanodes::heartbeats::{heartbeat, register};
use trellis_namenode::datanodes::registry::Beat;
use trellis_namenode::datanodes::reports::{Listed, full, incremental};
use trellis_namenode::datanodes::view::Space;
use trellis_namenode::ops::datanodes::{GivenCommand, ToldStorage};
use trellis_namenode::ops::report::{Reported, What};
use trellis_proto::exception::RpcError;

use super::{Node, PATIENCE};
use crate::calls::root;
use crate::files::named;
use crate::support::Namenode;

/// Datanodes.
pub const DATANODES: usize = 4;
/// Between two heartbeats, half as much more at most.
const BEAT: Duration = Duration::from_millis(500);
/// How long a datanode takes to carry a command out, at most.
const WORK: Duration = Duration::from_secs(2);
/// Commands in one answer.
const COMMANDS: usize = 100;

/// A replica on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub stamp: u64,
    pub length: u64,
    pub is_whole: bool,
}

/// One datanode.
#[derive(Default)]
struct State {
    disk: BTreeMap<u64, Kept>,
    /// What each namenode has not acknowledged yet, by number.
    unsent: Vec<Vec<Reported>>,
    is_registered: Vec<bool>,
    /// Whether a namenode is to be told all.
    owes_all: Vec<bool>,
    /// The highest epoch that was seen: whose commands count.
    epoch: u64,
    /// Restarts so far: what was begun before the last one is forgotten.
    lives: u64,
    silent_until: Option<Instant>,
    /// The number of its storage, once a namenode gave it one.
    storage: Option<u32>,
}

/// All datanodes.
pub struct Farm {
    pub world: Arc<World>,
    pub nodes: Arc<Vec<Node>>,
    states: Vec<Mutex<State>>,
    /// Blocks that were acknowledged to their writers, with stamp and length: never to be lost.
    promised: Mutex<BTreeMap<u64, (u64, u64)>>,
    is_over: AtomicBool,
}

fn said(dn: usize) -> Datanode {
    let (uuid, host) = (format!("DN-{dn}"), format!("dn{dn}"));
    Datanode { uuid, ip: format!("10.0.0.{dn}"), host, data_port: 9866, ..Datanode::default() }
}

impl Farm {
    pub fn start(world: Arc<World>, nodes: Arc<Vec<Node>>) -> Arc<Farm> {
        let state = || {
            let (unsent, is_registered) = (vec![Vec::new(); nodes.len()], vec![false; nodes.len()]);
            let owes_all = vec![true; nodes.len()];
            Mutex::new(State { unsent, is_registered, owes_all, ..State::default() })
        };
        let states = (0..DATANODES).map(|_| state()).collect();
        let (promised, is_over) = (Mutex::default(), AtomicBool::new(false));
        let farm = Arc::new(Farm { world, nodes, states, promised, is_over });
        for dn in 0..DATANODES {
            for nn in 0..farm.nodes.len() {
                tokio::spawn(farm.clone().speak(dn, nn));
            }
        }
        farm
    }

    pub fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn state(&self, dn: usize) -> MutexGuard<'_, State> {
        self.states[dn].lock().unwrap()
    }

    /// The datanode that has a storage.
    pub fn of_storage(&self, number: u32) -> usize {
        (0..DATANODES).find(|dn| self.state(*dn).storage == Some(number)).expect("a storage that was told of")
    }

    pub fn is_silent(&self, dn: usize) -> bool {
        self.state(dn).silent_until.is_some_and(|until| Instant::now() < until)
    }

    pub fn fall_silent(&self, dn: usize, during: Duration) {
        self.state(dn).silent_until = Some(Instant::now() + during);
    }

    /// Loses all that it did not send and was told to do; its disk stays.
    pub fn restart(&self, dn: usize) {
        let mut state = self.state(dn);
        state.lives += 1;
        state.epoch = 0;
        state.unsent.iter_mut().for_each(Vec::clear);
        state.is_registered.fill(false);
        state.owes_all.fill(true);
    }

    /// Whether every datanode has its storage's number.
    pub fn is_known(&self) -> bool {
        (0..DATANODES).all(|dn| self.state(dn).storage.is_some())
    }

    /// What is on each disk of a block.
    pub fn kept(&self, block: u64) -> Vec<Option<Kept>> {
        (0..DATANODES).map(|dn| self.state(dn).disk.get(&block).copied()).collect()
    }

    /// From now on so much of a block must never be lost.
    pub fn promise(&self, block: u64, stamp: u64, length: u64) {
        self.promised.lock().unwrap().insert(block, (stamp, length));
        self.look_at(block);
    }

    /// Its writer changes or gives up a block.
    pub fn forget(&self, block: u64) {
        self.promised.lock().unwrap().remove(&block);
    }

    fn look_at(&self, block: u64) {
        let Some((stamp, length)) = self.promised.lock().unwrap().get(&block).copied() else { return };
        let kept = self.kept(block);
        let is_there = |kept: &Kept| kept.stamp >= stamp && kept.length >= length && kept.is_whole;
        assert!(kept.iter().flatten().any(is_there), "{length} bytes of block {block}: {kept:?} are left");
    }

    /// A datanode has this of a block now, and tells all namenodes.
    pub fn put(&self, dn: usize, block: u64, kept: Kept) {
        let mut state = self.state(dn);
        let before = state.disk.insert(block, kept);
        if before == Some(kept) {
            return;
        }
        let what = if kept.is_whole { What::Received(None) } else { What::Receiving };
        state.report(block, kept, what);
    }

    fn delete(&self, dn: usize, block: u64, stamp: u64) {
        let mut state = self.state(dn);
        // A datanode knows a replica by its exact stamp.
        let Some(kept) = state.disk.get(&block).copied() else { return };
        if kept.stamp != stamp {
            let what = if kept.is_whole { What::Received(None) } else { What::Receiving };
            return state.report(block, kept, what);
        }
        state.disk.remove(&block);
        state.report(block, kept, What::Deleted);
        drop(state);
        self.look_at(block);
    }

    /// One datanode's talk with one namenode, for ever.
    async fn speak(self: Arc<Self>, dn: usize, nn: usize) {
        while !self.is_over.load(Ordering::Relaxed) {
            sleep(BEAT + BEAT.mul_f64(self.world.random(50) as f64 / 100.0)).await;
            if !self.is_silent(dn) && !self.nodes[nn].seat.faulty.is_dead() {
                // What is not answered is said again.
                let _ = timeout(PATIENCE, self.turn(dn, nn)).await;
            }
        }
    }

    async fn turn(self: &Arc<Self>, dn: usize, nn: usize) -> Result<(), RpcError> {
        let (engine, said) = (&self.nodes[nn].engine, said(dn));
        let lives = self.state(dn).lives;
        let is_same = |state: &State| state.lives == lives;
        if !self.state(dn).is_registered[nn] {
            register(engine, said.clone()).await?;
            let mut state = self.state(dn);
            if is_same(&state) {
                (state.is_registered[nn], state.owes_all[nn]) = (true, true);
            }
        }
        let space = Space { capacity: 1 << 40, remaining: 1 << 39, ..Space::default() };
        let told = ToldStorage { uuid: format!("DS-{dn}"), kind: 1, failed: false };
        let beat = Beat { storages: vec![(told, space)], ..Beat::default() };
        let lease = self.state(dn).owes_all[nn].then(|| 1 + self.world.random(u64::MAX - 1));
        let answered = heartbeat(engine, &said, &beat, lease, COMMANDS).await?;
        if answered.must_register {
            self.state(dn).is_registered[nn] = false;
            return Ok(());
        }
        let row = engine.datanodes().registry().row(&said.uuid);
        let Some(storage) = row.and_then(|row| Some(row.storages.first()?.number)) else { return Ok(()) };
        {
            let mut state = self.state(dn);
            if !is_same(&state) {
                return Ok(());
            }
            state.storage = Some(storage);
            state.epoch = state.epoch.max(answered.epoch.unwrap_or(0));
            if answered.epoch == Some(state.epoch) {
                answered
                    .commands
                    .into_iter()
                    .for_each(|given| drop(tokio::spawn(self.clone().obey(dn, given))));
            }
        }
        self.tell(dn, nn, storage).await?;
        if let Some(lease) = answered.lease {
            self.tell_all(dn, nn, storage, lease.granted_ms).await?;
        }
        Ok(())
    }

    /// What came and went since this namenode was told last.
    async fn tell(&self, dn: usize, nn: usize, storage: u32) -> Result<(), RpcError> {
        let (lives, mut unsent) = {
            let state = self.state(dn);
            (state.lives, state.unsent[nn].clone())
        };
        if unsent.is_empty() {
            return Ok(());
        }
        unsent.iter_mut().for_each(|told| told.storage = storage);
        let count = unsent.len();
        incremental(&self.nodes[nn].engine, &said(dn).uuid, unsent).await?;
        // Now and then the answer is lost, and all of it is sent again.
        let mut state = self.state(dn);
        if state.lives == lives && self.world.random(10) > 0 {
            state.unsent[nn].drain(..count);
        }
        Ok(())
    }

    async fn tell_all(&self, dn: usize, nn: usize, storage: u32, granted_ms: i64) -> Result<(), RpcError> {
        let (lives, listed) = {
            let state = self.state(dn);
            let listed = |(block, kept): (&u64, &Kept)| Listed {
                block: *block,
                state: if kept.is_whole { ReplicaState::Finalized } else { ReplicaState::BeingWritten } as u8,
                stamp: kept.stamp,
                length: kept.length,
            };
            (state.lives, state.disk.iter().map(listed).collect::<Vec<_>>())
        };
        let engine = &self.nodes[nn].engine;
        full(engine, &said(dn).uuid, storage, &listed, granted_ms).await?;
        engine.datanodes().registry().reported(&said(dn).uuid, engine.now_ms());
        let mut state = self.state(dn);
        if state.lives == lives {
            state.owes_all[nn] = false;
        }
        Ok(())
    }

    /// Carries a command out, a while later.
    async fn obey(self: Arc<Self>, dn: usize, given: GivenCommand) {
        let lives = self.state(dn).lives;
        sleep(WORK.mul_f64(self.world.random(100) as f64 / 100.0)).await;
        if self.state(dn).lives != lives || self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let (block, command) = (given.block, given.command);
        match given.kind {
            CommandKind::Invalidate => self.delete(dn, block, command.stamp),
            CommandKind::Transfer => {
                let kept = self.state(dn).disk.get(&block).copied();
                let source = Kept { stamp: command.stamp, length: command.length, is_whole: true };
                if kept != Some(source) {
                    return;
                }
                for to in command.storages.iter().map(|number| self.of_storage(*number)) {
                    if !self.is_silent(to) && self.kept(block)[to].is_none() {
                        self.put(to, block, source);
                    }
                }
            }
            CommandKind::Recover => self.recover(block, &command).await,
        }
    }

    /// As the primary: agrees with the others on a length, and tells a namenode.
    async fn recover(&self, block: u64, command: &Command) {
        let known = command.storages.iter().map(|number| self.of_storage(*number));
        let asked: Vec<usize> = known.filter(|dn| !self.is_silent(*dn)).collect();
        let kept = self.kept(block);
        if asked.is_empty()
            || asked.iter().any(|dn| kept[*dn].is_some_and(|kept| kept.stamp >= command.stamp))
        {
            return;
        }
        let has =
            |dn: &usize| kept[*dn].filter(|kept| kept.stamp >= command.old_stamp).map(|kept| (*dn, kept));
        let mut take_part: Vec<(usize, Kept)> = asked.iter().filter_map(has).collect();
        let whole = take_part.iter().filter(|(_, kept)| kept.is_whole).map(|(_, kept)| kept.length).max();
        if whole.is_some() {
            take_part.retain(|(_, kept)| kept.is_whole);
        }
        let least = take_part.iter().map(|(_, kept)| kept.length).min().unwrap_or(0);
        let length = command.cut_to.or(whole).unwrap_or(least);
        take_part.retain(|(_, kept)| kept.length >= length);
        let stamp = command.stamp;
        // Now and then the primary dies when some of them have ended it.
        let ends = match self.world.random(6) {
            0 => self.world.random(1 + take_part.len() as u64) as usize,
            _ => take_part.len(),
        };
        for (dn, _) in &take_part[..ends] {
            self.put(*dn, block, Kept { stamp, length, is_whole: true });
        }
        if ends < take_part.len() {
            return;
        }
        let uuids: Vec<u32> = take_part.iter().map(|(dn, _)| *dn as u32).collect();
        let delete = take_part.is_empty() || (length == 0 && command.cut_to.is_none());
        let of =
            trellis_metastore::schema::Block { id: block, stamp: command.old_stamp, ..Default::default() };
        for node in self.nodes.iter().filter(|node| !node.seat.faulty.is_dead()) {
            let nn = Namenode::of(node.engine.clone(), None);
            let said = root(&nn).recovered(named(&of, 0), stamp, length, delete, &uuids);
            // A refusal ends it: it came too late.
            if let Ok(Ok(()) | Err(RpcError { kind: trellis_proto::exception::Kind::Io, .. })) =
                timeout(PATIENCE, said).await
            {
                return;
            }
        }
    }
}

impl State {
    fn report(&mut self, block: u64, kept: Kept, what: What) {
        let told = Reported { storage: 0, block, stamp: kept.stamp, length: kept.length, what };
        self.unsent.iter_mut().for_each(|unsent| unsent.push(told.clone()));
    }
}

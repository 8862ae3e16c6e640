//! Random calls against a small model of what a replica is.

use std::collections::BTreeMap;

use proptest::prelude::*;
use trellis_datanode::store::{Block, BlockStore, ReplicaState, ReplicaWriter, Target};
use trellis_proto::checksum::{Checksum, ChecksumType};

use super::{Fixture, bytes, read, report};

const IDS: u64 = 3;

/// How a packet comes.
#[derive(Debug, Clone, Copy)]
enum Packet {
    /// From the start of a chunk on, with sums.
    Aligned,
    /// From the last byte on, within a chunk, with its sum.
    Tail,
    /// Cut in any way, from so many bytes before the end on, without sums.
    Free(u64),
}

/// Which stamp a client asks for.
#[derive(Debug, Clone, Copy)]
enum Stamp {
    New,
    /// The one that the replica has.
    Same,
}

#[derive(Debug, Clone)]
enum Call {
    Create { temporary: bool },
    Write(Packet, usize),
    Ack(u64),
    Sync,
    Finish,
    IntoRbw,
    DropWriter,
    Append(Stamp),
    RecoverAppend(Stamp),
    RecoverRbw(Stamp),
    RecoverClose(Stamp),
    InitRecovery,
    UpdateRecovery(u64),
    CopyRecovery(u64),
    Delete,
    Restart,
}

/// What a replica should be.
struct Model {
    stamp: u64,
    state: ReplicaState,
    bytes: Vec<u8>,
    acked: u64,
    recovery: Option<(u64, ReplicaState)>,
    writer: Option<Box<dyn ReplicaWriter>>,
}

struct World {
    fixture: Fixture,
    models: BTreeMap<u64, Model>,
    checksum: Checksum,
    stamp: u64,
    next_id: u64,
}

impl World {
    fn new(volumes: usize) -> World {
        World {
            fixture: Fixture::new(volumes),
            models: BTreeMap::new(),
            checksum: Checksum::new(ChecksumType::Crc32C, 16).unwrap(),
            stamp: 100,
            next_id: 1000,
        }
    }

    fn run(&mut self, id: u64, call: &Call) {
        self.stamp += 1;
        let stamp = self.stamp;
        match call {
            Call::Create { temporary } => self.create(id, *temporary),
            Call::Restart => self.restart(),
            Call::Delete => {
                let model = self.models.remove(&id);
                let block = Block { id, stamp: model.as_ref().map_or(0, |m| m.stamp) };
                assert_eq!(self.fixture.store().delete(&[block]).is_empty(), model.is_some());
            }
            Call::InitRecovery => self.init_recovery(id),
            Call::UpdateRecovery(cut) => self.update_recovery(id, *cut, None),
            Call::CopyRecovery(cut) => {
                self.next_id += 1;
                self.update_recovery(id, *cut, Some(self.next_id));
            }
            Call::Append(stamp) | Call::RecoverAppend(stamp) | Call::RecoverRbw(stamp) => {
                self.reopen(id, call, *stamp);
            }
            Call::RecoverClose(wanted) => {
                let Some(model) = self.models.get_mut(&id) else { return };
                let block = Block { id, stamp: model.stamp };
                let stamp = wanted.of(model, stamp);
                let closed = self.fixture.store().recover_close(block, stamp, model.bytes.len() as u64);
                let fits = model.state == ReplicaState::Finalized
                    || model.state == ReplicaState::Rbw && model.acked == model.bytes.len() as u64;
                assert_eq!(closed.is_ok(), fits, "{closed:?}");
                if fits {
                    (model.stamp, model.state, model.writer) = (stamp, ReplicaState::Finalized, None);
                } else if model.state == ReplicaState::Rbw {
                    stopped(model);
                }
            }
            _ => self.write(id, call),
        }
    }

    fn create(&mut self, id: u64, temporary: bool) {
        let (block, target) = (Block { id, stamp: self.stamp }, Target::default());
        let store = self.fixture.store();
        let made = match temporary {
            true => store.create_temporary(block, &target, self.checksum),
            false => store.create_rbw(block, &target, self.checksum),
        };
        let in_pipeline =
            |m: &Model| temporary && matches!(m.state, ReplicaState::Rbw | ReplicaState::Temporary);
        assert_eq!(made.is_ok(), self.models.get(&id).is_none_or(in_pipeline));
        let Ok(writer) = made else { return };
        let state = if temporary { ReplicaState::Temporary } else { ReplicaState::Rbw };
        if let Some(mut old) = self.models.remove(&id) {
            stopped(&mut old);
        }
        let model = Model {
            stamp: self.stamp,
            state,
            bytes: Vec::new(),
            acked: 0,
            recovery: None,
            writer: Some(writer),
        };
        self.models.insert(id, model);
    }

    /// What a writer does.
    fn write(&mut self, id: u64, call: &Call) {
        let Some(model) = self.models.get_mut(&id) else { return };
        let Some(mut writer) = model.writer.take() else { return };
        let len = model.bytes.len() as u64;
        match call {
            Call::Write(packet, more) => {
                let start = match packet {
                    Packet::Aligned => len - len % 16,
                    Packet::Tail => len,
                    Packet::Free(back) => len.saturating_sub(*back),
                };
                let more =
                    if matches!(packet, Packet::Tail) { (*more).min(16 - len as usize % 16) } else { *more };
                let mut data = model.bytes[start as usize..].to_vec();
                data.extend(bytes(more, self.stamp as u32));
                let mut sums = Vec::new();
                self.checksum.compute(&data, &mut sums);
                let sums = (!matches!(packet, Packet::Free(_))).then_some(&sums[..]);
                writer.write(start, sums, &data).unwrap();
                model.bytes.truncate(start as usize);
                model.bytes.extend(data);
            }
            Call::Ack(back) => {
                model.acked = model.acked.max(len.saturating_sub(*back));
                writer.acked().advance(model.acked);
            }
            Call::Sync => writer.sync().unwrap(),
            Call::Finish => {
                writer.finish().unwrap();
                (model.state, model.acked) = (ReplicaState::Finalized, len);
                return;
            }
            Call::IntoRbw => {
                let temporary = model.state == ReplicaState::Temporary;
                assert_eq!(writer.into_rbw(len).is_ok(), temporary);
                if temporary {
                    (model.state, model.acked) = (ReplicaState::Rbw, len);
                }
                return;
            }
            Call::DropWriter => {
                drop(writer);
                if model.state == ReplicaState::Temporary {
                    self.models.remove(&id);
                }
                return;
            }
            other => panic!("{other:?} is not a writer's"),
        }
        model.writer = Some(writer);
    }

    fn reopen(&mut self, id: u64, call: &Call, wanted: Stamp) {
        let Some(model) = self.models.get_mut(&id) else { return };
        let stamp = wanted.of(model, self.stamp);
        let (block, len) = (Block { id, stamp: model.stamp }, model.bytes.len() as u64);
        let (rbw, finalized) = (model.state == ReplicaState::Rbw, model.state == ReplicaState::Finalized);
        let store = self.fixture.store();
        let (opened, fits) = match call {
            Call::Append(_) => (store.append(block, stamp, len), finalized),
            Call::RecoverAppend(_) => {
                (store.recover_append(block, stamp, len), finalized || rbw && model.acked == len)
            }
            _ => (store.recover_rbw(block, stamp, model.acked, len), rbw),
        };
        assert_eq!(opened.is_ok(), fits, "{:?}", opened.err());
        if rbw && !matches!(call, Call::Append(_)) {
            stopped(model);
        }
        if let Ok(writer) = opened {
            if rbw {
                model.bytes.truncate(model.acked as usize);
            }
            model.acked = model.bytes.len() as u64;
            (model.state, model.stamp, model.writer) = (ReplicaState::Rbw, stamp, Some(writer));
        }
    }

    fn init_recovery(&mut self, id: u64) {
        let Some(model) = self.models.get_mut(&id) else { return };
        let found = self.fixture.store().init_recovery(Block { id, stamp: model.stamp }, self.stamp).unwrap();
        if model.state == ReplicaState::Temporary {
            assert_eq!(found, None);
            return;
        }
        let was = model.recovery.map_or(model.state, |(_, was)| was);
        assert_eq!(found.map(|f| (f.len, f.state)), Some((model.bytes.len() as u64, was)));
        stopped(model);
        (model.state, model.recovery) = (ReplicaState::Rur, Some((self.stamp, was)));
    }

    fn update_recovery(&mut self, id: u64, cut: u64, copy: Option<u64>) {
        let Some(model) = self.models.get_mut(&id) else { return };
        let Some((recovery, was)) = model.recovery else { return };
        let len = (model.bytes.len() as u64).saturating_sub(cut);
        let block = Block { id, stamp: model.stamp };
        let done = self.fixture.store().update_recovery(block, recovery, copy.unwrap_or(0), len);
        let fits = copy.is_none() || was == ReplicaState::Finalized;
        assert_eq!(done.is_ok(), fits, "{done:?}");
        if !fits {
            return;
        }
        let bytes = model.bytes[..len as usize].to_vec();
        (model.state, model.recovery) = (ReplicaState::Finalized, None);
        let state = ReplicaState::Finalized;
        if let Some(new) = copy {
            let copied = Model { stamp: recovery, state, bytes, acked: len, recovery: None, writer: None };
            self.models.insert(new, copied);
        } else {
            (model.stamp, model.bytes, model.acked) = (recovery, bytes, len);
        }
    }

    fn restart(&mut self) {
        // Nobody finishes anything. What waits for its deletion would come back.
        self.fixture.store().wait_for_deletions();
        self.models.values_mut().for_each(|model| model.writer = None);
        self.fixture.restart();
        self.models.retain(|_, m| m.state != ReplicaState::Temporary);
        for model in self.models.values_mut() {
            let was = model.recovery.take().map_or(model.state, |(_, was)| was);
            model.state =
                if was == ReplicaState::Finalized { ReplicaState::Finalized } else { ReplicaState::Rwr };
            model.acked = model.bytes.len() as u64;
        }
    }

    fn check(&self) {
        let store = self.fixture.store();
        let mut shown = Vec::new();
        for (id, model) in &self.models {
            let replica = store.replica(*id).unwrap();
            let len = model.bytes.len() as u64;
            assert_eq!((replica.block.stamp, replica.len, replica.state), (model.stamp, len, model.state));
            if model.state == ReplicaState::Temporary {
                continue;
            }
            shown.push((*id, model.stamp, len, model.recovery.map_or(model.state, |(_, was)| was)));
            assert_eq!(read(store, *id), model.bytes);
            let visible = match model.recovery.map_or(model.state, |(_, was)| was) {
                ReplicaState::Finalized => Some(len),
                ReplicaState::Rwr => None,
                _ => Some(model.acked),
            };
            assert_eq!(store.visible_len(replica.block).unwrap(), visible);
        }
        assert_eq!(report(store), shown);
        let counted: u64 = store.storages().iter().map(|s| store.replica_count(&s.storage)).sum();
        assert_eq!(counted, shown.len() as u64);
        assert_eq!(self.fixture.events.lock().unwrap().iter().filter(|e| !is_deleted(e)).count(), 0);
    }
}

impl Stamp {
    fn of(self, model: &Model, new: u64) -> u64 {
        match self {
            Stamp::New => new,
            Stamp::Same => model.stamp,
        }
    }
}

/// The replica's writer, if it has one, was stopped.
fn stopped(model: &mut Model) {
    if let Some(mut writer) = model.writer.take() {
        assert!(writer.write(model.bytes.len() as u64, None, b"x").is_err());
    }
}

fn is_deleted(event: &trellis_datanode::store::Event) -> bool {
    matches!(event, trellis_datanode::store::Event::Deleted(_))
}

fn calls() -> impl Strategy<Value = Call> {
    let packet = prop_oneof![Just(Packet::Aligned), Just(Packet::Tail), (0..40u64).prop_map(Packet::Free)];
    let stamp = prop_oneof![2 => Just(Stamp::New), 1 => Just(Stamp::Same)];
    prop_oneof![
        3 => any::<bool>().prop_map(|temporary| Call::Create { temporary }),
        8 => (packet, 1..70usize).prop_map(|(packet, more)| Call::Write(packet, more)),
        4 => prop_oneof![Just(0u64), 0..60u64].prop_map(Call::Ack),
        1 => Just(Call::Sync),
        3 => Just(Call::Finish),
        1 => Just(Call::IntoRbw),
        1 => Just(Call::DropWriter),
        3 => stamp.clone().prop_map(Call::Append),
        2 => stamp.clone().prop_map(Call::RecoverAppend),
        2 => stamp.clone().prop_map(Call::RecoverRbw),
        2 => stamp.prop_map(Call::RecoverClose),
        2 => Just(Call::InitRecovery),
        2 => (0..60u64).prop_map(Call::UpdateRecovery),
        1 => (0..60u64).prop_map(Call::CopyRecovery),
        1 => Just(Call::Delete),
        2 => Just(Call::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_store_does_what_its_model_does(
        volumes in 1..3usize,
        calls in proptest::collection::vec((1..=IDS, calls()), 1..60),
    ) {
        let mut world = World::new(volumes);
        for (id, call) in &calls {
            world.run(*id, call);
            world.check();
        }
    }
}

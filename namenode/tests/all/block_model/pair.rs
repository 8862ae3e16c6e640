//! A namenode beside its model: each step is taken at both.

use std::collections::BTreeMap;

use trellis_metastore::schema::{Block, BlockState, Datanode, StorageReplicas, storage_partition};
use trellis_namenode::datanodes::reports::{Listed, full};
use trellis_namenode::engine::Op;
use trellis_namenode::ops::datanodes::{self, Claim};
use trellis_namenode::ops::report::{self, Applied, Report, Reported, What};
use trellis_namenode::ops::write::BlockName;
use trellis_proto::exception::Kind;

use super::model::{AGAIN_MS, Answer, File, Model, Part, Replicas, SOFT_MS, of_mask};
use super::{Step, Told, When};
use crate::calls::{assert_sound, new_file, root};
use crate::files::{BLOCK, cluster, rows, storage};
use crate::reap::reap_all;
use crate::reports::own;
use crate::support::{BLOCK_POOL, Namenode, pass_time};

/// The namenode that owned a datanode before.
const OLD_OWNER: u64 = 77;

/// A namenode beside its model, and the reports that are on their way.
pub struct Pair {
    pub nn: Namenode,
    pub model: Model,
    /// How often each call came to what.
    pub seen: BTreeMap<(String, String), usize>,
    late: Vec<(u32, u64, What, (u64, u64))>,
}

fn path(file: u8) -> String {
    format!("/f{file}")
}

fn holder(by: u8) -> String {
    format!("c{by}")
}

impl Pair {
    pub async fn fresh() -> Pair {
        let nn = cluster().await;
        let model = Model { now_ms: nn.engine.now_ms(), ..Model::default() };
        let pair = Pair { nn, model, late: Vec::new(), seen: BTreeMap::new() };
        for on in 0..3 {
            pair.claim(on, 0, pair.nn.engine.member()).await;
        }
        pair
    }

    /// The `member` owns a datanode from now on.
    async fn claim(&self, on: u32, from: u64, member: u64) {
        let call = Claim { member, from };
        let op: Op<Datanode> = Box::new(move |tx| datanodes::claim(tx, &format!("DN-{on}"), &call));
        own(&self.nn, op).await.unwrap();
    }

    async fn report(&self, on: u32, block: u64, what: What, (stamp, length): (u64, u64)) -> Applied {
        let replicas = vec![Reported { storage: storage(on), block, stamp, length, what }];
        let call = Report { uuid: format!("DN-{on}"), member: self.nn.engine.member(), replicas };
        own(&self.nn, Box::new(move |tx| report::apply(tx, &call))).await.unwrap()
    }

    /// A report that comes now, at both sides.
    async fn deliver(&mut self, on: u32, id: u64, what: What, replica: (u64, u64)) {
        self.model.told(on, id, Some(replica).filter(|_| what != What::Deleted));
        assert!(!self.report(on, id, what, replica).await.is_not_owner);
    }

    /// The last block of a file as its writer names it.
    fn last(&self, file: u8, bytes: u64) -> Option<BlockName> {
        let last = self.model.files.get(&file)?.parts.last()?;
        Some(BlockName { pool: BLOCK_POOL.into(), id: last.id, stamp: last.stamp, bytes })
    }

    fn id(&self, file: u8) -> u64 {
        self.model.files.get(&file).map_or(0, |file| file.id)
    }

    pub async fn step(&mut self, step: &Step) {
        let (expected, answer) = match step {
            Step::Tell { .. } | Step::Deliver | Step::Full { .. } | Step::Reap | Step::Wait { .. } => {
                return self.around(step).await;
            }
            Step::Synced { file, .. } | Step::Mend { file, .. } if self.last(*file, 0).is_none() => return,
            Step::Create { file, by } => return self.create(*file, *by).await,
            Step::AddBlock { .. } | Step::Complete { .. } | Step::Abandon { .. } | Step::Fsync { .. } => {
                self.write(step).await
            }
            _ => self.change(step).await,
        };
        assert_eq!(answer, expected, "{step:?}");
        let call = format!("{step:?}").split(' ').next().unwrap_or_default().to_owned();
        let outcome = match answer {
            Ok(yes) if yes == "true" || yes == "false" => yes,
            Ok(_) => "ok".to_owned(),
            Err(kind) => format!("{kind:?}"),
        };
        *self.seen.entry((call, outcome)).or_default() += 1;
    }

    async fn create(&mut self, file: u8, by: u8) {
        let mut call = new_file(&path(file), &holder(by), 3);
        call.block_size = BLOCK;
        let id = root(&self.nn).create_as(call).await.unwrap().id;
        let new = File { id, open: Some(by), ..File::default() };
        if let Some(old) = self.model.files.insert(file, new) {
            self.model.hide(&old);
        }
        let now_ms = self.model.now_ms;
        self.model.renewed.insert(by, now_ms);
    }

    /// A writer's call: expected and answered.
    async fn write(&mut self, step: &Step) -> (Answer, Answer) {
        let (nn, su) = (self.nn.clone(), root);
        match step {
            Step::AddBlock { file, by, bytes, again } => {
                let previous = match again {
                    false => self.last(*file, *bytes),
                    true => self.model.files.get(file).and_then(|file| {
                        let before = file.parts.len().checked_sub(2).map(|i| &file.parts[i])?;
                        let pool = BLOCK_POOL.into();
                        Some(BlockName { pool, id: before.id, stamp: before.stamp, bytes: before.length })
                    }),
                };
                let id = self.id(*file);
                let expected = self.model.add_block(*file, *by, *bytes, *again);
                let answer = su(&nn).add_block(&path(*file), id, &holder(*by), previous).await;
                (expected, answer.map(|located| located.block.id.to_string()).map_err(|error| error.kind))
            }
            Step::Complete { file, by, bytes } => {
                let (id, last) = (self.id(*file), self.last(*file, *bytes));
                let expected = self.model.complete(*file, *by, *bytes);
                let answer = su(&nn).close(&path(*file), id, &holder(*by), last).await;
                (expected, answer.map(|yes| yes.to_string()).map_err(|error| error.kind))
            }
            Step::Abandon { file, by } => {
                let id = self.id(*file);
                let last = self.last(*file, 0);
                let none = BlockName { pool: BLOCK_POOL.into(), id: 1 << 40 | id, stamp: 1001, bytes: 0 };
                let expected = self.model.written(*file, *by).map(|mut now| {
                    if now.parts.last().is_some_and(|last| last.state == BlockState::UnderConstruction) {
                        self.model.drop_last(&mut now);
                    }
                    self.model.files.insert(*file, now);
                });
                let answer = su(&nn).abandon(&path(*file), id, &holder(*by), last.unwrap_or(none)).await;
                quiet(expected, answer)
            }
            Step::Fsync { file, by, bytes } => {
                let expected = self.model.written(*file, *by).and_then(|mut now| {
                    let length = u64::try_from(*bytes).unwrap_or(0);
                    if let Some(last) = now.parts.last_mut()
                        && last.state == BlockState::UnderConstruction
                        && length > last.length
                    {
                        if length > BLOCK {
                            return Err(Kind::Io);
                        }
                        last.length = length;
                    }
                    self.model.files.insert(*file, now);
                    Ok(())
                });
                quiet(expected, su(&nn).sync(&path(*file), self.id(*file), &holder(*by), *bytes).await)
            }
            _ => panic!("{step:?} is not a writer's"),
        }
    }

    /// A call that changes a file as a whole, or a block's stamp: expected and answered.
    async fn change(&mut self, step: &Step) -> (Answer, Answer) {
        let (nn, model) = (self.nn.clone(), &mut self.model);
        let su = root(&nn);
        let said = |yes: bool| yes.to_string();
        match step {
            Step::Append { file, by, new_block } => {
                let answer = su.append(&path(*file), &holder(*by), *new_block).await;
                let answer = answer.map(|given| given.map_or(String::new(), |at| at.block.id.to_string()));
                (model.append(*file, *by, *new_block), answer.map_err(|error| error.kind))
            }
            Step::Truncate { file, by, length } => {
                let answer = su.truncate(&path(*file), *length, &holder(*by)).await;
                (model.truncate(*file, *by, *length), answer.map(said).map_err(|error| error.kind))
            }
            Step::Concat { file, source } => {
                let answer = su.concat(&path(*file), &[&path(*source)]).await;
                (model.concat(*file, *source), quiet(Ok(()), answer).1)
            }
            Step::Recover { file, by } => {
                let expected = match model.files.get(file) {
                    None => Err(Kind::FileNotFound),
                    Some(now) if now.open.is_none() => Ok("true".into()),
                    Some(_) => model.release(*file, Some(*by)).map(said),
                };
                let answer = su.recover(&path(*file), &holder(*by)).await;
                (expected, answer.map(said).map_err(|error| error.kind))
            }
            Step::Synced { file, bytes, delete, on, late } => {
                let last = self.model.files[file].parts.last().unwrap().clone();
                let name = self.last(*file, 0).unwrap();
                let stamp = last.recovery.filter(|_| !late).map_or(1, |(stamp, _)| stamp);
                let on_list: Vec<u32> = of_mask(*on).collect();
                let answer = su.recovered(name, stamp, *bytes, *delete, &on_list).await;
                (self.model.synced(*file, *bytes, *delete, *on, *late), quiet(Ok(()), answer).1)
            }
            Step::Mend { file, by, bytes, on } => {
                let old = self.last(*file, *bytes).unwrap();
                let expected = self.model.mend(*file, *by, *bytes, *on);
                let on: Vec<u32> = of_mask(*on).collect();
                let answer = match su.next_stamp(old.clone(), &holder(*by)).await {
                    Err(error) => Err(error),
                    Ok(stamp) => {
                        let new = BlockName { stamp, ..old.clone() };
                        let done = su.new_pipeline(old, new, &holder(*by), &on).await;
                        done.map(|()| stamp.to_string())
                    }
                };
                (expected, answer.map_err(|error| error.kind))
            }
            Step::Delete { file } => {
                let gone = model.files.remove(file);
                gone.iter().for_each(|gone| model.hide(gone));
                let answer = su.rm(&path(*file), false).await;
                (Ok(said(gone.is_some())), answer.map(said).map_err(|error| error.kind))
            }
            Step::Rename { file, to } => {
                let answer = su.mv2(&path(*file), &path(*to), true).await;
                let expected = match model.files.contains_key(file) {
                    false => Err(Kind::FileNotFound),
                    true if file == to => Err(Kind::FileAlreadyExists),
                    true => {
                        let moved = model.files.remove(file).unwrap();
                        if let Some(old) = model.files.insert(*to, moved) {
                            model.hide(&old);
                        }
                        Ok(())
                    }
                };
                quiet(expected, answer)
            }
            _ => panic!("{step:?} is not a change"),
        }
    }

    /// What datanodes, the reaper and time do.
    pub async fn around(&mut self, step: &Step) {
        match step {
            Step::Tell { file, on, back, what, when } => {
                let Some(file) = self.model.files.get(file) else { return };
                let Some(i) = file.parts.len().checked_sub(back + 1) else { return };
                let part = &file.parts[i];
                let (id, whole) = (part.id, (part.stamp, part.length));
                let (what, replica) = match what {
                    Told::Whole => (What::Received(None), whole),
                    Told::Short => (What::Received(None), (whole.0, whole.1 / 2)),
                    Told::Older => (What::Received(None), (whole.0 - 1, whole.1)),
                    Told::Gone => (What::Deleted, whole),
                };
                match what {
                    What::Deleted => drop(self.model.disks.remove(&(*on, id))),
                    _ => drop(self.model.disks.insert((*on, id), replica)),
                }
                self.tell(*on, id, what, replica, *when).await;
            }
            Step::Deliver => {
                for (on, id, what, replica) in std::mem::take(&mut self.late) {
                    self.deliver(on, id, what, replica).await;
                }
            }
            Step::Full { on } => self.full(*on).await,
            Step::Reap => {
                reap_all(&self.nn).await;
                self.model.reap();
            }
            Step::Wait { long } => {
                let by_ms = if *long { SOFT_MS + 1 } else { AGAIN_MS / 2 };
                pass_time(std::time::Duration::from_millis(by_ms as u64));
                self.model.now_ms += by_ms;
            }
            _ => panic!("{step:?} is a call"),
        }
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

    /// A datanode tells of all that it has; what no file has it deletes.
    pub async fn full(&mut self, on: u32) {
        let of = |all: &Replicas| -> Vec<(u64, (u64, u64))> {
            all.range((on, 0)..(on + 1, 0)).map(|((_, id), replica)| (*id, *replica)).collect()
        };
        let listed: Vec<Listed> = of(&self.model.disks)
            .into_iter()
            .map(|(block, (stamp, length))| Listed { block, state: 0, stamp, length })
            .collect();
        // Rows that were written this very millisecond count as older than the report.
        let granted_ms = self.nn.engine.now_ms() + 1;
        full(&self.nn.engine, &format!("DN-{on}"), storage(on), &listed, granted_ms).await.unwrap();
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

    /// Files, blocks and replicas are the model's.
    pub async fn compare(&self) {
        assert_sound(&self.nn).await;
        let su = root(&self.nn);
        for (name, file) in &self.model.files {
            let inode = su.must(&path(*name)).await.inode;
            let found: Vec<Part> = su.blocks(inode.id).await.iter().map(part_of).collect();
            let expected: Vec<Part> =
                file.parts.iter().map(|part| Part { has_pipeline: false, ..part.clone() }).collect();
            assert_eq!(found, expected, "{}", path(*name));
            assert_eq!((inode.id, inode.length), (file.id, file.length()), "{}", path(*name));
            assert_eq!(inode.open.map(|writer| writer.holder), file.open.map(holder), "{}", path(*name));
        }
        assert_eq!(su.must("/").await.children, self.model.files.len() as i64);
        for on in 0..3 {
            let found = rows::<StorageReplicas>(&self.nn, storage_partition(storage(on))).await;
            let found: Vec<(u64, u64)> = found.iter().map(|row| (row.stamp, row.length)).collect();
            let known = self.model.known.range((on, 0)..(on + 1, 0));
            assert_eq!(found, known.map(|(_, replica)| *replica).collect::<Vec<_>>(), "datanode {on}");
        }
    }
}

fn part_of(block: &Block) -> Part {
    Part {
        id: block.id,
        stamp: block.stamp,
        last_stamp: block.last_stamp,
        length: block.length,
        state: block.state(),
        recovery: block.recovery.as_ref().map(|recovery| (recovery.stamp, recovery.started_ms)),
        cut_to: block.recovery.as_ref().and_then(|recovery| recovery.cut_to),
        has_pipeline: false,
    }
}

fn quiet<T>(expected: Result<T, Kind>, answer: crate::calls::Answered<()>) -> (Answer, Answer) {
    (expected.map(|_| String::new()), answer.map(|()| String::new()).map_err(|error| error.kind))
}

//! A namenode beside its model: each call is made at both.

use std::collections::BTreeMap;

use tokio::time::Instant;
use trellis_metastore::schema::{
    Block, BlockState, Datanode, Ordered, StorageReplicas, parts_of_block, storage_partition,
};
use trellis_namenode::engine::Op;
use trellis_namenode::jobs::replication::Replication;
use trellis_namenode::ops::datanodes::{self, Claim};
use trellis_namenode::ops::report::What;
use trellis_namenode::ops::write::BlockName;
use trellis_proto::exception::Kind;

use super::model::{Answer, File, Model, Part, of_mask};
use super::{Step, Told, When};
use crate::calls::{assert_sound_and_noted, new_file, root};
use crate::files::{BLOCK, cluster, rows, storage};
use crate::reports::own;
use crate::support::{BLOCK_POOL, Namenode};

/// A namenode beside its model, and the reports that are on their way.
pub struct Pair {
    pub nn: Namenode,
    pub model: Model,
    /// How often each call came to what.
    pub seen: BTreeMap<(String, String), usize>,
    pub(super) late: Vec<(u32, u64, What, (u64, u64))>,
    pub(super) job: Replication,
}

fn path(file: u8) -> String {
    format!("/f{file}")
}

fn holder(by: u8) -> String {
    format!("c{by}")
}

impl Pair {
    /// Three files of the first holder: one joined of two, one being written, one with room in its last block.
    pub async fn fresh() -> Pair {
        let nn = cluster().await;
        let model = Model { now_ms: nn.engine.now_ms(), ..Model::default() };
        let (late, seen, job) = (Vec::new(), BTreeMap::new(), Replication::default());
        let mut pair = Pair { nn, model, late, seen, job };
        for on in 0..3 {
            pair.claim(on, 0, pair.nn.engine.member()).await;
        }
        pair.begin(0, &[BLOCK], true).await;
        pair.begin(2, &[BLOCK], true).await;
        pair.step(&Step::Concat { file: 0, source: 2 }).await;
        pair.begin(1, &[BLOCK, 9], false).await;
        pair.begin(2, &[100], true).await;
        pair.seen.clear();
        pair
    }

    /// A file with blocks of these lengths and all their replicas.
    async fn begin(&mut self, file: u8, lengths: &[u64], closed: bool) {
        self.create(file, 0).await;
        for bytes in lengths {
            self.step(&Step::AddBlock { file, by: 0, bytes: *bytes, lie: None, again: false }).await;
            let (what, when) = (Told::Whole, When::Now);
            self.step(&Step::Tell { file, on: 7, back: 0, what, when }).await;
        }
        if closed {
            self.step(&Step::Complete { file, by: 0, lie: None }).await;
        }
    }

    /// The `member` owns a datanode from now on.
    pub(super) async fn claim(&self, on: u32, from: u64, member: u64) {
        let call = Claim { member, from };
        let op: Op<Datanode> = Box::new(move |tx| datanodes::claim(tx, &format!("DN-{on}"), &call));
        let row = own(&self.nn, op).await.unwrap();
        let now_ms = self.nn.engine.now_ms();
        self.nn.engine.datanodes().registry().registered(row, Instant::now(), now_ms);
    }

    /// The last block of a file as its writer names it, which may lie about its length.
    fn last(&self, file: u8, lie: Option<u64>) -> Option<BlockName> {
        let last = self.model.files.get(&file)?.parts.last()?;
        let bytes = lie.unwrap_or(last.whole().1);
        Some(BlockName { pool: BLOCK_POOL.into(), id: last.id, stamp: last.stamp, bytes })
    }

    /// Something came about.
    pub(super) fn note(&mut self, call: &str, what: &str) {
        *self.seen.entry((call.to_owned(), what.to_owned())).or_default() += 1;
    }

    fn id(&self, file: u8) -> u64 {
        self.model.files.get(&file).map_or(0, |file| file.id)
    }

    pub async fn step(&mut self, step: &Step) {
        let before = self.file_of(step);
        let (expected, answer) = match step {
            Step::Create { file, by } => return self.create(*file, *by).await,
            Step::AddBlock { .. } | Step::Complete { .. } | Step::Abandon { .. } | Step::Fsync { .. } => {
                self.write(step).await
            }
            Step::Synced { file, .. } | Step::Mend { file, .. } if self.last(*file, None).is_none() => return,
            Step::Append { .. }
            | Step::Truncate { .. }
            | Step::Concat { .. }
            | Step::Recover { .. }
            | Step::Synced { .. }
            | Step::Mend { .. }
            | Step::Delete { .. }
            | Step::Rename { .. }
            | Step::Setrep { .. } => self.change(step).await,
            _ => return self.around(step).await,
        };
        assert_eq!(answer, expected, "{step:?}");
        let call = format!("{step:?}").split(' ').next().unwrap_or_default().to_owned();
        for seldom in before.iter().flat_map(|before| seldom(step, before, &answer)) {
            self.note(&call, seldom);
        }
        let outcome = match answer {
            Ok(yes) if yes == "true" || yes == "false" => yes,
            Ok(_) => "ok".to_owned(),
            Err(kind) => format!("{kind:?}"),
        };
        self.note(&call, &outcome);
    }

    /// The file that a call is about, as it is now.
    fn file_of(&self, step: &Step) -> Option<File> {
        let (Step::AddBlock { file, .. }
        | Step::Append { file, .. }
        | Step::Truncate { file, .. }
        | Step::Synced { file, .. }) = step
        else {
            return None;
        };
        self.model.files.get(file).cloned()
    }

    async fn create(&mut self, file: u8, by: u8) {
        let mut call = new_file(&path(file), &holder(by), 3);
        call.block_size = BLOCK;
        let id = root(&self.nn).create_as(call).await.unwrap().id;
        if let Some(old) = self.model.files.insert(file, File::new(id, by)) {
            self.model.hide(&old);
        }
        let now_ms = self.model.now_ms;
        self.model.renewed.insert(by, now_ms);
    }

    /// A writer's call: expected and answered.
    async fn write(&mut self, step: &Step) -> (Answer, Answer) {
        let (nn, su) = (self.nn.clone(), root);
        match step {
            Step::AddBlock { file, by, bytes, lie, again } => {
                let last = self.last(*file, *lie);
                let said = last.as_ref().map_or(0, |last| last.bytes);
                let previous = match again {
                    false => last,
                    true => self.model.files.get(file).and_then(|file| {
                        let before = file.parts.len().checked_sub(2).map(|i| &file.parts[i])?;
                        let pool = BLOCK_POOL.into();
                        Some(BlockName { pool, id: before.id, stamp: before.stamp, bytes: before.length })
                    }),
                };
                let id = self.id(*file);
                let expected = self.model.add_block(*file, *by, (said, *bytes), *again);
                let answer = su(&nn).add_block(&path(*file), id, &holder(*by), previous).await;
                (expected, answer.map(|located| located.block.id.to_string()).map_err(|error| error.kind))
            }
            Step::Complete { file, by, lie } => {
                let (id, last) = (self.id(*file), self.last(*file, *lie));
                let said = last.as_ref().map_or(0, |last| last.bytes);
                let expected = self.model.complete(*file, *by, said);
                let answer = su(&nn).close(&path(*file), id, &holder(*by), last).await;
                (expected, answer.map(|yes| yes.to_string()).map_err(|error| error.kind))
            }
            Step::Abandon { file, by } => {
                let id = self.id(*file);
                let last = self.last(*file, None);
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
            Step::Append { file, by, new_block, more } => {
                let answer = su.append(&path(*file), &holder(*by), *new_block).await;
                let answer = answer.map(|given| given.map_or(String::new(), |at| at.block.id.to_string()));
                (model.append(*file, *by, *new_block, *more), answer.map_err(|error| error.kind))
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
                let name = self.last(*file, None).unwrap();
                let stamp = last.recovery.filter(|_| !late).map_or(1, |(stamp, _)| stamp);
                let on_list: Vec<u32> = of_mask(*on).collect();
                let answer = su.recovered(name, stamp, *bytes, *delete, &on_list).await;
                (self.model.synced(*file, *bytes, *delete, *on, *late), quiet(Ok(()), answer).1)
            }
            Step::Mend { file, by, bytes, on } => {
                let old = self.last(*file, Some(*bytes)).unwrap();
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
            Step::Setrep { file, replication } => {
                let answer = su.setrep(&path(*file), *replication).await;
                let file = model.files.get_mut(file);
                let is_there = file.map(|file| file.replication = *replication as usize).is_some();
                (Ok(said(is_there)), answer.map(said).map_err(|error| error.kind))
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

    /// Files, blocks and replicas are the model's, and whatever is not as it should be is noted.
    pub async fn compare(&self) {
        assert_sound_and_noted(&self.nn).await;
        let su = root(&self.nn);
        for (name, file) in &self.model.files {
            let inode = su.must(&path(*name)).await.inode;
            let found: Vec<Part> = su.blocks(inode.id).await.iter().map(part_of).collect();
            let as_row =
                |part: &Part| Part { has_pipeline: false, is_asked: false, written: 0, ..part.clone() };
            let expected: Vec<Part> = file.parts.iter().map(as_row).collect();
            assert_eq!(found, expected, "{}", path(*name));
            assert_eq!((inode.id, inode.length), (file.id, file.length()), "{}", path(*name));
            assert_eq!(inode.open.map(|writer| writer.holder), file.open.map(holder), "{}", path(*name));
        }
        assert_eq!(su.must("/").await.children, self.model.files.len() as i64);
        for on in 0..3 {
            let found = rows::<StorageReplicas>(&self.nn, storage_partition(storage(on))).await;
            let found: Vec<_> =
                found.iter().map(|row| (row.stamp, row.length, row.corrupt, row.ordered())).collect();
            let known = self.model.known.range((on, 0)..(on + 1, 0));
            let row = |(place, (stamp, length)): (&(u32, u64), &(u64, u64))| {
                let ordered = self.model.ordered.get(place).copied().unwrap_or(Ordered::Nothing);
                (*stamp, *length, self.model.bad.contains(place), ordered)
            };
            assert_eq!(found, known.map(row).collect::<Vec<_>>(), "datanode {on}");
        }
    }
}

/// What a call was that was taken, beyond its answer. `file`: as it was before.
fn seldom(step: &Step, file: &File, answer: &Answer) -> Vec<&'static str> {
    let Ok(answer) = answer else { return Vec::new() };
    let last = file.parts.last();
    let recovers = last.is_some_and(|last| last.state == BlockState::UnderRecovery);
    let all = match step {
        Step::AddBlock { again, .. } => vec![(*again && last.is_some(), "the same again")],
        Step::Append { new_block, .. } => vec![
            (*new_block && !answer.is_empty(), "to a new block"),
            (!*new_block && !answer.is_empty(), "to a partial block"),
            (file.open.is_some(), "taken over"),
        ],
        Step::Truncate { .. } => vec![(answer == "false" && recovers, "the same again")],
        Step::Synced { delete, .. } if recovers => {
            let last = last.expect("it recovers");
            vec![
                (!*delete && last.cut_to.is_some(), "cut"),
                (parts_of_block(last.id).0 != file.id, "a joined block"),
            ]
        }
        _ => Vec::new(),
    };
    all.into_iter().filter_map(|(is, what)| is.then_some(what)).collect()
}

fn part_of(block: &Block) -> Part {
    Part {
        id: block.id,
        stamp: block.stamp,
        last_stamp: block.last_stamp,
        length: block.length,
        written: 0,
        state: block.state(),
        recovery: block.recovery.as_ref().map(|recovery| (recovery.stamp, recovery.started_ms)),
        is_asked: false,
        cut_to: block.recovery.as_ref().and_then(|recovery| recovery.cut_to),
        has_pipeline: false,
    }
}

fn quiet<T>(expected: Result<T, Kind>, answer: crate::calls::Answered<()>) -> (Answer, Answer) {
    (expected.map(|_| String::new()), answer.map(|()| String::new()).map_err(|error| error.kind))
}
